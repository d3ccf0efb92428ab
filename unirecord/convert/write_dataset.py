"""`write_dataset`: whatever a program or a path gives, written as a dataset in one call."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ..format.metadata import pack_user
from ..format.schema import Schema
from ..writing.writer import Writer, check_id, check_part_bytes, check_path
from .conversion import Conversion
from .sources import Options, Source, open_input, open_source
from .sources.given_records import GivenRecords
from .sources.given_table import GivenTable, is_table

__all__ = ["source_of", "write_dataset"]


def source_of(
    given: Any,
    *,
    schema: Mapping[str, Any] | Schema | None = None,
    names: Sequence[str] | None = None,
    kind: str | None = None,
    **options: Any,
) -> Source:
    """Return what a path or an object gives as a source."""
    overrides = schema.to_spec() if isinstance(schema, Schema) else dict(schema or {})
    asked = Options(overrides, **options)
    if isinstance(given, str | os.PathLike):
        return open_source(open_input(os.fspath(given)), kind, asked)
    if isinstance(given, Source):
        return given
    if is_table(given):
        return GivenTable(given, asked)
    return GivenRecords(given, asked, names)


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
    workers: int = 1,
    resume: bool = False,
    **options: Any,
) -> int:
    """Writes whatever ``source`` gives as a dataset, and returns how many rows there are.

    Args:
        source: the path of raw data of any kind that ``unirecord write`` reads; a pandas or polars DataFrame, a pyarrow
            Table, a Hugging Face dataset; a map-style dataset (``len`` and ``[i]``), an iterable or a generator
            function, of dicts or tuples.
        path: where the dataset is to be, as for `Writer`.
        schema: types that replace those that are found.
        names: of the values, where items are tuples.
        kind: what a path is, when its name does not say so: a name of ``unirecord write --from``.
        index, metadata, max_part_bytes, overwrite, id: as for `Writer`; the metadata of the source is the default.
        workers: processes, each of which writes whole parts of a directory; the bytes are the same for any number.
        resume: go on with what the same call has left when it was stopped (docs/writing.md).
        **options: what a kind of source obeys, by the names of ``unirecord write --help``.

    Raises:
        SchemaError: a value does not fit, or the data cannot be read; nothing is published.
        MissingError: there is nothing at the path, or a package is needed that is not installed.
        ExistsError, BusyError, OSError: as for `Writer`.
    """
    if type(workers) is not int or workers < 1:
        raise ValueError(f"workers is a number of processes, 1 or more, got {workers!r}")
    found = source_of(source, schema=schema, names=names, kind=kind, **options)
    user = found.metadata if metadata is None else metadata
    place = check_path(path)
    if not place.endswith(".urec"):
        wish = Conversion(
            found, place, found.schema, index=index, user=pack_user(user), overwrite=overwrite,
            max_part_bytes=check_part_bytes(max_part_bytes, place), id=None if id is None else check_id(id),
            workers=workers, resume=resume,
        )  # fmt: skip
        return wish.run()[0]
    if workers > 1 or resume:
        raise ValueError(
            f"{place} is one part, which one process writes: workers= and resume= are for a directory"
        )
    with Writer(
        path,
        found.schema,
        index=index,
        metadata=user,
        max_part_bytes=max_part_bytes,
        overwrite=overwrite,
        id=id,
    ) as writer:
        for batch in found.batches():
            writer.write_batch(batch.columns)
    return writer.rows
