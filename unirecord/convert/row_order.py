"""Brings the rows of a source into another order, by way of a dataset beside the target that is removed at the end."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from ..core import Order
from ..errors import StaleError, UniRecordError
from ..format.metadata import pack_user
from ..format.schema import Schema
from ..order.spec import OrderSpec
from ..progress import Progress
from ..query.ordered import rows_in_order
from ..snapshot import manifest
from ..snapshot.part_set import PartSet, resolve
from ..snapshot.versions import read_newest
from ..storage import local
from ..storage.own_directory import check_own_folder
from ..storage.schemes import location_of, read_file
from ..storage.staged import StagedFile, remove_tree, write_staged
from ..writing.change import say_kept
from .conversion import Conversion, Standing, asked_of, difference, stamps_of
from .sources.source import (
    LeftOut,
    Options,
    RawBatch,
    Source,
    Unit,
    WrongSourceError,
    left_out_from_json,
    left_out_to_json,
)
from .sources.stored_dataset import rows_at_once, stored_rows

__all__ = [
    "RowOrder",
    "StoredRows",
    "check_sort",
    "in_order",
]


# The rows of a dataset as a source, in another order: shuffled by a seed, or sorted by a column.


_UNIT_BYTES: Final = 8 << 20


@dataclass(frozen=True)
class RowOrder:
    """The order of rows: by ``sort``, a scalar column or decimals, null last, equal ones as they come; or by a seed."""

    sort: str | None = None
    shuffle_seed: int | None = None

    def __post_init__(self) -> None:
        if (self.sort is None) == (self.shuffle_seed is None):
            raise ValueError("sort and shuffle_seed exclude each other")
        seed = self.shuffle_seed
        if seed is not None and (type(seed) is not int or not 0 <= seed < 1 << 64):
            raise ValueError(f"shuffle_seed is a number of 64 bits, 0 or more, got {seed!r}")


class StoredRows(Source):
    """The rows of the dataset at ``folder`` in an order, with what is said of ``like``, the source that they are of.

    ``content`` tells this dataset from others. A shuffled order is computed; of a sorted one each process keeps 8 bytes
    a row, and 16 more of numbers while it sorts.
    """

    kind: ClassVar[str] = "rows in order"
    about: ClassVar[str] = "rows of a dataset"
    handles: ClassVar[tuple[str, ...]] = ("_opened", "when_done")

    def __init__(self, folder: str, order: RowOrder, like: Source, content: str) -> None:
        self.path, self.metadata, self.notes = like.path, like.metadata, like.notes
        self.left_out: list[LeftOut] = []
        self._left_out_at_first = ()
        self._folder, self._order = folder, order
        self._opened: tuple[PartSet, Any] | None = None
        self.when_done: Callable[[], None] | None = None
        parts, _ = self._open()
        self.schema: Schema = parts.schema
        step = rows_at_once(parts, _UNIT_BYTES)
        self.units: Sequence[Unit] = [
            Unit(
                f"rows from {start:,} of {self.path} in order",
                (start, content),
                min(step, parts.rows - start),
            )
            for start in range(0, parts.rows, step)
        ]

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Nothing: a dataset says what it holds."""

    def files(self) -> tuple[str, ...]:
        """None: ``content`` tells of those of ``like``."""
        return ()

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield the rows at a range of places."""
        parts, at = self._open()
        assert unit.rows is not None
        yield stored_rows(parts, at(unit.place[0], unit.rows))

    def done(self) -> None:
        """Close the files, and do what was asked for then."""
        self.close()
        if self.when_done is not None:
            self.when_done()

    def close(self) -> None:
        """Close the files."""
        if self._opened is not None:
            self._opened[0].close()
            self._opened = None

    def _open(self) -> tuple[PartSet, Any]:
        """The parts, and what gives the rows at so many places from one on."""
        if self._opened is None:
            parts = PartSet(resolve(self._folder))
            if self._order.sort is not None:
                order = rows_in_order(parts, self._order.sort)
                self._opened = parts, lambda start, count: order[start : start + count]
            else:
                shuffled = Order(parts.rows, OrderSpec("shuffle", self._order.shuffle_seed or 0))
                self._opened = parts, lambda start, count: shuffled.range(start, 1, count)
        return self._opened


_MARK: Final = "left-out.json"  # in a finished dataset of rows: whose they are, and what was left out of them
_MOST_BYTES: Final = 1 << 30
_OURS: Final = pack_user({"unirecord": "rows that are to be brought into order"})


def check_sort(order: RowOrder, schema: Schema) -> None:
    """Refuse a column that is not written, or has no order."""
    if order.sort is None:
        return
    if order.sort not in schema:
        raise WrongSourceError(
            f"--sort: {order.sort!r} is not among the columns to be written, {', '.join(schema.names)}"
        )
    if not schema[order.sort].is_sortable:
        raise WrongSourceError(
            f"--sort: column {order.sort!r} is {schema[order.sort]}; rows are sorted by numbers, bool and strings"
        )


@contextmanager
def in_order(
    source: Source,
    order: RowOrder,
    target: str,
    *,
    workers: int,
    resume: bool,
    options: Mapping[str, str],
    progress: Callable[[Standing], None] | None = None,
) -> Iterator[StoredRows]:
    """Give the rows of ``source`` in order, once they have been written beside ``target``.

    For a target in an object store, where the system keeps temporary files. That takes as much disk again as the rows.
    Ctrl-C and a full disk leave them to ``resume``; otherwise they are removed once all is written and compared, before
    it is published, so that nothing is left beside a dataset. Raises what `Conversion` does, `BusyError` when another
    one is at it.
    """
    check_sort(order, source.schema)
    if location_of(target).in_file_system:
        folder, name = os.path.split(os.path.abspath(target))
    else:
        folder, name = tempfile.gettempdir(), hashlib.sha256(target.encode()).hexdigest()[:32]
    place = os.path.join(folder, f".{name}.unordered")
    if os.path.lexists(place):
        check_own_folder(place)
    lock = StagedFile(f"{place}.lock", claims=target)
    try:
        lock.keep()
        left_out = _stored(source, place, workers, resume, options, progress)
        rows = StoredRows(place, order, source, _digest(_plan(source, options)))
        rows.left_out = left_out
        rows._left_out_at_first = tuple(left_out)

        def remove() -> None:
            _remove(place)
            lock.discard()

        rows.when_done = remove
        try:
            yield rows
        except BaseException as error:
            rows.close()
            wrong = isinstance(error, UniRecordError) and type(error) is not UniRecordError
            if wrong or target.endswith(".urec"):
                _remove(place)
            else:
                kept = (
                    "nothing was published, and the rows that were read are kept: the same with --resume "
                    "(resume=True in Python) goes on, without it begins anew"
                )
                say_kept(error, kept, target)
            raise
        rows.close()
    finally:
        lock.discard()


def _remove(place: str) -> None:
    """Remove the rows; what says that they are all there goes first, what says that they are ours last."""
    location = location_of(place)
    if not location.is_directory(place):
        return
    local.clear(os.path.join(place, _MARK))
    for name in location.names(place):
        if name != manifest.NAME and not location.is_directory(os.path.join(place, name)):
            local.clear(os.path.join(place, name))
    remove_tree(place)


def _stored(
    source: Source,
    place: str,
    workers: int,
    resume: bool,
    options: Mapping[str, str],
    progress: Callable[[Standing], None] | None,
) -> list[LeftOut]:
    """Write the rows at ``place``, unless an earlier run has; what was left out of them."""
    plan, mark = _plan(source, options), os.path.join(place, _MARK)
    if resume and _is_ours(place):
        found = _read_mark(mark)
        differs = None if found is None else difference(source, plan, found, same_id=False)
        if differs is not None:
            raise StaleError(f"{place}: {differs}; without resume it begins anew")
        if found is not None:
            return left_out_from_json(found["left_out"])
    if progress is not None and _is_ours(place) and _read_mark(mark) is not None:
        progress(Standing(dropped=len(read_newest(place).parts)))
    local.clear(mark)
    plain = Schema(replace(column, codec=None) for column in source.schema)
    spec = Conversion(
        source, place, plain, user=_OURS, overwrite=_is_ours(place), workers=workers, resume=resume,
        options=dict(options),
    )  # fmt: skip
    _, more = spec.run(progress)
    left_out = [*source.left_out, *more]
    done = json.dumps({**plan, "left_out": left_out_to_json(left_out)})
    write_staged(mark, None, done.encode(), durable=True)
    return left_out


def _plan(source: Source, options: Mapping[str, str]) -> dict[str, Any]:
    what = {**asked_of(source, options), "the schema": repr(source.schema.columns)}
    return {"what": what, "files": stamps_of(source.files())}


def _digest(plan: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()


def _is_ours(place: str) -> bool:
    try:
        return read_newest(place).metadata == _OURS
    except (OSError, UniRecordError):
        return False


def _read_mark(path: str) -> dict[str, Any] | None:
    if not location_of(path).is_taken(path):
        return None
    try:
        found: dict[str, Any] = json.loads(read_file(path, _MOST_BYTES))
        left_out_from_json(found["left_out"])
        known = isinstance(found["what"], dict) and isinstance(found["files"], dict)
        return found if known else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError, UniRecordError):
        return None
