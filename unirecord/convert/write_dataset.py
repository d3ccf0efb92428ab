"""Writes raw data as a dataset: the source, what is taken of it, and the conversion; and splits datasets."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Literal

from ..errors import ExistsError
from ..format.metadata import pack_user
from ..format.schema import Schema
from ..snapshot.dataset_path import resolve
from ..storage.schemes import location_of, path_on_disk
from ..storage.storage_options import current_storage, storage_of, use_storage
from ..writing.part_writer import ScalarCodec, check_scalar_codec
from ..writing.target import check_free, check_id, check_part_bytes, check_path, storage_to_write_to
from .conversion import Conversion, Standing, write_part
from .row_choice import RowChoice, SplitChoice, check_split_target, share_id, write_shares
from .row_order import RowOrder, in_order
from .sources import LeftOut, Options, Source, open_input, open_sources
from .sources.given import OF_TUPLES, GivenRecords, GivenTable, is_table
from .sources.kinds import elsewhere
from .sources.source import OnError, WantedColumns, warn_of_left_out, write_report

__all__ = [
    "WrittenRows",
    "source_of",
    "split",
    "write_dataset",
]


# `write_dataset`: whatever a program or a path gives, written as a dataset in one call.


def source_of(
    given: Any,
    *,
    schema: Mapping[str, Any] | Schema | None = None,
    names: Sequence[str] | None = None,
    kind: str | None = None,
    threads: int = 1,
    on_error: OnError = None,
    wanted: WantedColumns | None = None,
    **options: Any,
) -> Source:
    """Return what a path or an object gives as a source."""
    overrides = schema.to_spec() if isinstance(schema, Schema) else dict(schema or {})
    paths = _paths(given)
    is_path = paths is not None
    if names is not None and is_table(given):
        raise TypeError(OF_TUPLES)
    if names is not None and is_path:
        options["names"] = names
    asked = Options(overrides, threads=threads, on_error=on_error, wanted=wanted, **options)
    if paths is not None:
        return open_sources([open_input(path) for path in paths], kind, asked)
    if "codec" in asked.given():
        raise TypeError(f"there is no option codec={elsewhere('codec')}")
    if refused := [*asked.given(), *(["kind"] if kind is not None else [])]:
        raise TypeError(f"{refused[0]}= is for paths; the source is a {type(given).__name__}")
    if isinstance(given, Source):
        return given
    if is_table(given):
        return GivenTable(given, asked)
    name = f"the {type(given).__name__}"
    if callable(given) and not hasattr(given, "__getitem__") and not hasattr(given, "__iter__"):
        given = given()
    first, given = _first(given)
    if is_table(first):
        return GivenTable(first, asked, name, islice(given, 1, None))
    return GivenRecords(given, asked, names=names)


def _paths(given: Any) -> list[str] | None:
    """The path or the paths that are given, None for all else."""
    if isinstance(given, str | os.PathLike):
        return [os.fspath(given)]
    if isinstance(given, list | tuple) and given and all(isinstance(one, str | os.PathLike) for one in given):
        return [os.fspath(one) for one in given]
    return None


def _first(given: Any) -> tuple[Any, Any]:
    """The first item of an iterable or a sequence, if it has one, and the same with that item."""
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        return None, given
    if isinstance(given, Sequence):
        return (given[0] if len(given) else None), given
    if not isinstance(given, Iterator):
        return None, given
    items = list(islice(given, 1))
    return (items[0] if items else None), chain(items, given)


def write_dataset(
    source: Any,
    path: str | os.PathLike[str],
    *,
    schema: Mapping[str, Any] | Schema | None = None,
    names: Sequence[str] | None = None,
    kind: str | None = None,
    index: Sequence[str] = (),
    metadata: object = None,
    max_part_bytes: int | str | None = None,
    overwrite: bool = False,
    id: bytes | None = None,
    scalar_codec: ScalarCodec = None,
    workers: int = 1,
    resume: bool = False,
    columns: Sequence[str] | None = None,
    rename: Mapping[str, str] | None = None,
    where: str | None = None,
    limit: int | None = None,
    sample: int | None = None,
    seed: int = 0,
    resize: int | None = None,
    max_side: int | None = None,
    reencode: str | None = None,
    picture_columns: Sequence[str] | None = None,
    split: Mapping[str, float | str] | None = None,
    split_by: str | None = None,
    stratify: str | None = None,
    sort: str | None = None,
    shuffle_seed: int | None = None,
    on_error: Literal["raise", "skip", "report"] | None = None,
    report: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> WrittenRows:
    """Writes whatever ``source`` gives as a dataset, and returns how many rows there are.

    What the source has and the dataset has not, or in another form, is in ``left_out`` of what is returned, and in one
    `LeftOutWarning`.

    Args:
        source: the path of raw data of any kind that ``unirecord write`` reads, or a list of several, each read as what
            it is; a pandas or polars DataFrame, a pyarrow Table, a Hugging Face dataset; a map-style dataset (``len``
            and ``[i]``), an iterable or a generator function, of dicts or tuples.
        path: where the dataset is to be, as for `Writer`.
        schema: types that replace those that are found.
        names: of the values, where items are tuples; of the columns of CSV files without a header line.
        kind: what a path is, when its name does not say so: a name of ``unirecord write --from``.
        index, metadata, max_part_bytes, overwrite, id, scalar_codec: as for `Writer`; the metadata of the source is the
            default.
        workers: processes, each of which writes whole parts of a directory; the bytes are the same for any number.
        resume: go on with what the same call has left when it was stopped (docs/writing.md).
        columns, rename, where: which columns, with which new names, of rows that meet which condition; names are those
            of the source.
        limit, sample, seed: the first so many of those rows; or so many of them, drawn evenly from all by ``seed``.
        resize, max_side, reencode, picture_columns: what becomes of pictures (docs/converting.md).
        split, split_by, stratify: shares such as ``{"train": 0.9, "val": 0.1}``, each a dataset in the folder ``path``,
            by a hash of the row or of one column, or in these shares of each value of a column; ``split_by`` alone
            makes a dataset of each value of the column (docs/converting.md).
        sort, shuffle_seed: the order of the rows: by a scalar column (its new name), or random; ``limit`` counts then.
        on_error: whether what cannot be read or does not fit ends it (``"raise"``), is left out (``"skip"``), or is
            left out and listed in a file (``"report"``). By default broken pictures are left out, with a warning, and
            all else ends it.
        report: where that list is to be, JSON Lines; by default ``path`` with ``.left-out.jsonl`` behind it.
        storage_options: how an object store is reached that ``path`` or ``source`` is in, as for `UniRecordDataset`.
        **options: what a kind of source obeys, by the names of ``unirecord write --help``.

    Raises:
        SchemaError: a value does not fit, or the data cannot be read; nothing is published.
        MissingError: there is nothing at the path, or a package is needed that is not installed.
        ExistsError, BusyError, OSError: as for `Writer`.
    """
    if type(workers) is not int or workers < 1:
        raise ValueError(f"workers is a number of processes, 1 or more, got {workers!r}")
    check_scalar_codec(scalar_codec)
    choice = RowChoice(
        columns=columns, rename=rename or {}, where=where, sample=sample, seed=seed, resize=resize, max_side=max_side,
        reencode=reencode, picture_columns=picture_columns, on_error=on_error,
        split=_split(split, split_by, stratify),
        order=None if sort is None and shuffle_seed is None else RowOrder(sort, shuffle_seed),
    )  # fmt: skip
    if limit is not None and (type(limit) is not int or limit < 0 or sample is not None):
        raise ValueError("limit is a number of rows, 0 or more, and excludes sample")
    place = check_path(path)
    is_read_there = isinstance(source, str) and "://" in source and not location_of(source).in_file_system
    storage = storage_of(storage_options) if is_read_there else storage_to_write_to(path, storage_options)
    tell = _warned_of_dropped()
    listed = _report_path(report, place, on_error, overwrite=overwrite)
    if choice.split is not None:
        with use_storage(storage or current_storage()):
            check_split_target(place, list(split or ()), overwrite=overwrite, resume=resume)
        if limit is not None:
            raise ValueError("limit= and split= exclude each other; sample= takes rows of all")
    with use_storage(storage or current_storage()):
        given = source_of(
            source, schema=schema, names=names, kind=kind, threads=workers,
            on_error=on_error, wanted=choice.wanted, **options,
        )  # fmt: skip
    if choice.split is not None:
        base = None if id is None else check_id(id)
        specs = {
            name: Conversion(
                share, os.path.join(place, name), share.schema, index=index, overwrite=overwrite,
                user=pack_user(share.metadata if metadata is None else metadata),
                max_part_bytes=check_part_bytes(max_part_bytes, place), id=share_id(base, name), workers=workers,
                resume=resume, options=choice.options(), scalar_codec=scalar_codec, storage=storage,
            )
            for name, share in choice.shares(given).items()
        }  # fmt: skip
        with use_storage(storage or current_storage()):
            shares, left_out = write_shares(place, specs, lambda _, standing: tell(standing))
        _tell_left_out(given, left_out, listed, on_error)
        return WrittenRows(sum(shares.values()), left_out)
    found = choice.of(given)
    user = found.metadata if metadata is None else metadata
    if place.endswith(".urec"):
        if workers > 1 or resume:
            raise ValueError(
                f"{place} is one part, which one process writes: workers= and resume= are for a directory"
            )
        check_part_bytes(max_part_bytes, place)

    def write(rows: Source) -> tuple[int, list[LeftOut]]:
        if place.endswith(".urec"):
            return write_part(
                rows, place, found.schema, index=index, metadata=user, overwrite=overwrite, id=id, limit=limit,
                scalar_codec=scalar_codec,
            )  # fmt: skip
        spec = Conversion(
            rows, place, found.schema, index=index, user=pack_user(user), overwrite=overwrite,
            max_part_bytes=check_part_bytes(max_part_bytes, place), id=None if id is None else check_id(id, place),
            workers=workers, resume=resume, limit=limit, options=choice.options(), scalar_codec=scalar_codec,
            storage=storage,
        )  # fmt: skip
        written, left_out = spec.run(tell)
        return written, [*rows.left_out, *left_out]

    if choice.order is None:
        written, left_out = write(found)
    else:
        check_free(place, overwrite=overwrite)
        with in_order(
            found,
            choice.order,
            place,
            workers=workers,
            resume=resume,
            options=choice.options(),
            progress=tell,
        ) as rows:
            written, left_out = write(rows)
    _tell_left_out(given, left_out, listed, on_error)
    return WrittenRows(written, left_out)


class WrittenRows(int):
    """The number of rows that are there, with ``left_out``: what of the source is not, as `LeftOutWarning` has it."""

    left_out: tuple[LeftOut, ...]

    def __new__(cls, rows: int, left_out: Iterable[LeftOut] = ()) -> WrittenRows:
        """``rows`` as any other number."""
        made = super().__new__(cls, rows)
        made.left_out = tuple(left_out)
        return made


def _warned_of_dropped() -> Callable[[Standing], None]:
    """What warns once for each stage whose finished parts of an earlier run were given up."""
    told: list[Standing] = []

    def tell(standing: Standing) -> None:
        said = standing.said_of_dropped()
        if said is not None and not any(one is standing for one in told):
            told.append(standing)
            warnings.warn(said, stacklevel=2)

    return tell


def _split(
    split: Mapping[str, float | str] | None, split_by: str | None, stratify: str | None
) -> SplitChoice | None:
    if split is None:
        if stratify is not None:
            raise ValueError("stratify= says how split= is made, which is not given")
        return None if split_by is None else SplitChoice(None, split_by)
    return SplitChoice(split, split_by, stratify)


def _report_path(
    report: str | os.PathLike[str] | None, path: str, on_error: str | None, *, overwrite: bool
) -> str | None:
    if report is None and on_error != "report":
        return None
    place = f"{path.rstrip('/')}.left-out.jsonl" if report is None else os.fspath(report)
    if location_of(path_on_disk(place, "a report")).is_taken(place) and not overwrite:
        raise ExistsError(f"{place} exists already; overwrite=True replaces it")
    return place


def _tell_left_out(
    source: Source, left_out: Sequence[LeftOut], report: str | None, on_error: str | None
) -> None:
    if report is not None:
        write_report(report, left_out)
    warn_of_left_out(left_out, source.path, source.item, 3, broken=report is None and on_error is None)


# Splits a dataset into several: each row goes where a hash of it, or the value of a column, says.


Path = str | os.PathLike[str]


def split(
    path: Path,
    dst: Path,
    shares: Mapping[str, float | str] | None = None,
    *,
    by: str | None = None,
    stratify: str | None = None,
    seed: int = 0,
    workers: int = 1,
    overwrite: bool = False,
) -> int:
    """Writes the shares of a dataset, each a dataset of its own in the folder ``dst``; the rows of all together.

    A row goes by its values alone, to the share that ``ds.split(shares, seed)`` has it in: rows that are added later
    move no other (docs/order.md). All shares appear when the last of them is written.

    Args:
        path: any dataset; ``data@7`` is a version.
        dst: a folder for the shares.
        shares: as ``{"train": 0.9, "val": 0.1}``; without them ``by`` alone makes a dataset of each of its values.
        by: the column whose value decides, so that rows with one value stay together; None: the whole row.
        stratify: the column of which each value is split in these shares.
        seed: of the hash.
        workers: processes that write.
        overwrite: replace what is there.

    Raises:
        ExistsError: there is something at ``dst``.
        SchemaError: there is no such column.
        ValueError: the shares do not add up to 1, or exclude each other.
    """
    index = resolve(path).index
    return write_dataset(
        os.fspath(path),
        dst,
        kind="unirecord",
        index=index,
        split=shares,
        split_by=by,
        stratify=stratify,
        seed=seed,
        workers=workers,
        overwrite=overwrite,
    )
