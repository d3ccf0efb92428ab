"""Adds columns to a directory: a column part beside each part, made of its rows by a function, or found in a table."""

from __future__ import annotations

import hashlib
import marshal
import os
import pickle
import secrets
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from ..errors import SchemaError, StaleError, TransformError, UniRecordError
from ..format.column import Column, with_meaning_of
from ..format.logical import shown
from ..format.metadata import CREATED_BY, pack_user
from ..format.schema import Schema
from ..loading.batch import SampleReader, items_of
from ..progress import Progress, Tracker
from ..sizes import many
from ..snapshot import manifest
from ..snapshot.dataset_path import no_directory
from ..snapshot.layouts import ColumnFile, column_part_metadata
from ..snapshot.manifest import Manifest, PartEntry, rearranged, state_of_entry
from ..snapshot.part_set import PartSet, Snapshot, resolve
from ..snapshot.readable import check_readable
from ..snapshot.snapshot import classes_of, state_of_part
from ..snapshot.versions import files_of
from ..storage.schemes import location_of, path_of_dataset
from ..storage.storage_options import use_storage
from ..writing.change import Change, OvertakenError, PartTasks, begin_change, check_columns, give_up
from ..writing.journal import COLUMNS_OF, entry_from_json
from ..writing.manifest_changes import as_columns_change
from ..writing.part_writer import PartContent, PartSequence
from ..writing.row_groups import shape_without_rows
from ..writing.target import check_indexable, storage_to_write_to
from .sources.input_path import InputPath
from .sources.source import LeftOut, Options, RawBatch, Source, Unit, taken, warn_of_left_out
from .task import Job, run_task
from .workers import run_in_workers
from .write_dataset import source_of

__all__ = [
    "ColumnSource",
    "ColumnsAdded",
    "NewColumns",
    "add_columns",
    "join_table",
    "keys_of_rows",
    "shown_key",
    "table_columns",
    "table_keys",
    "table_source",
]


# New columns of the rows of a dataset as a source: made of its rows by a function, or found in a table.


_MOST_ROWS: Final = 4_096  # that a function is called with, unless the caller says so
_ROWS_BYTES: Final = 8 << 20

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class NewColumns:
    """New columns, and what makes their values; it can be pickled where processes are to do it.

    Attributes:
        schema: the columns.
        reads: the columns that ``make`` is given; empty: it needs the numbers of the rows alone.
        make: the new columns by name, of the numbers of rows and the columns of these rows that it reads.
        digest: tells what makes the values from anything else: the function's code, or all values of a table.
        without: rows of the dataset that a table has no values for.
        unused: rows of a table that no row of the dataset goes with.
        left_out: what of a table is in no column.
    """

    schema: Schema
    reads: tuple[str, ...]
    make: Callable[[Rows, dict[str, Any]], Mapping[str, Any]]
    digest: str
    without: int = 0
    unused: int = 0
    left_out: tuple[LeftOut, ...] = ()


def made_by_function(
    function: Callable[[dict[str, Any]], Mapping[str, Any]], rows: Rows, given: dict[str, Any]
) -> Mapping[str, Any]:
    """What a function makes of rows, a dict of columns as ``read_rows`` gives it.

    TransformError, with its own as the cause, where it raises.
    """
    try:
        return function(given)
    except Exception as error:
        raise TransformError(
            f"the function for new columns failed at rows {rows[0]} to {rows[-1]}: {type(error).__name__}: {error}"
        ) from error


def found_in_table(
    columns: Mapping[str, Sequence[Any]], found: Rows, rows: Rows, given: dict[str, Any]
) -> Mapping[str, Any]:
    """The values of a table: those of row ``found[i]`` of it for row i of the dataset.

    Where that is -1 a column of ``given`` has the value that it has in the dataset, and any other one is null.
    """
    places = found[rows]
    if (places >= 0).all():
        return {name: taken(values, places) for name, values in columns.items()}
    every, before = places.tolist(), items_of(given)
    nulls = [None] * len(every)
    return {
        name: [
            values[place] if place >= 0 else there
            for place, there in zip(every, before.get(name, nulls), strict=True)
        ]
        for name, values in columns.items()
    }


class ColumnSource(Source):
    """The new columns of each part of a snapshot, a unit each; rows that have been deleted get blank values.

    ``index``: those to be looked up by value. ``what`` tells the same call from another one: what an earlier run has
    made is only taken over where it is the same. ``said``: what else is other than before, or does not follow.
    """

    kind: ClassVar[str] = "columns"
    about: ClassVar[str] = "columns made of the rows of a dataset"
    handles: ClassVar[tuple[str, ...]] = ("_parts",)
    computes = True

    def __init__(
        self,
        snapshot: Snapshot,
        new: NewColumns,
        batch_size: int | None,
        index: tuple[str, ...],
        what: dict[str, str],
        said: tuple[str, ...],
    ) -> None:
        self.snapshot, self.new, self._batch_size = snapshot, new, batch_size
        self.index, self.what, self.said = index, what, said
        self._parts: PartSet | None = None
        super().__init__(InputPath(str(snapshot.path), ""), Options())

    def look_through(self, options: Options, progress: Any) -> None:
        """A unit for each part."""
        self.schema: Schema = self.new.schema
        starts = np.cumsum([0, *(part.rows for part in self.snapshot.parts)]).tolist()
        self.units: Sequence[Unit] = [
            Unit(part.path, start, part.rows)
            for part, start in zip(self.snapshot.parts, starts, strict=False)
        ]

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield the new columns of the rows of a part, in their order."""
        assert unit.rows is not None
        parts = self._opened()
        live, reader = parts.live, None
        if self.new.reads:
            ordinals = [parts.schema.ordinal(name) for name in self.new.reads]
            reader = SampleReader(parts, [(ordinal, parts.schema.columns[ordinal]) for ordinal in ordinals])
            step = _batch_rows(parts.mean_row_bytes(ordinals), self._batch_size)
        else:
            step = self._batch_size or _MOST_ROWS
        for start in range(unit.place, unit.place + unit.rows, step):
            rows = np.arange(start, min(start + step, unit.place + unit.rows), dtype=np.int64)
            there = None if live is None else live.contains(rows)
            yield RawBatch(self._columns(rows if there is None else rows[there], there, reader), len(rows))

    def _columns(
        self, rows: Rows, there: NDArray[np.bool_] | None, reader: SampleReader | None
    ) -> dict[str, Any]:
        if len(rows):
            given = {} if reader is None else reader.batch(rows)
            made = self._checked(self.new.make(rows, given), rows)
        else:
            made = {name: [] for name in self.schema.names}
        if there is None or there.all():
            return made
        return {column.name: _spread(column, made[column.name], there) for column in self.schema}

    def _checked(self, made: Any, rows: Rows) -> dict[str, Any]:
        if not isinstance(made, Mapping):
            raise SchemaError(
                f"{self.path}: what is made of rows is {type(made).__name__}; expected a dict of the columns "
                f"{list(self.schema.names)}"
            )
        if set(made) != set(self.schema.names):
            raise SchemaError(
                f"{self.path}: the columns {sorted(map(str, made))} were made of rows; expected "
                f"{sorted(self.schema.names)}"
            )
        for name, values in made.items():
            if len(values) != len(rows):
                raise SchemaError(
                    f"{self.path}: column {name!r} has {many(len(values), 'value')} for "
                    f"{many(len(rows), 'row')} ({rows[0]} to "
                    f"{rows[-1]})"
                )
        return dict(made)

    def _opened(self) -> PartSet:
        if self._parts is None:
            with use_storage(self.snapshot.storage):
                self._parts = PartSet(self.snapshot, knows_deletions=True)
        return self._parts

    def done(self) -> None:
        """Close the files."""
        if self._parts is not None:
            self._parts.close()
            self._parts = None


def _batch_rows(row_bytes: float, asked: int | None) -> int:
    return asked or min(max(int(_ROWS_BYTES / max(row_bytes, 1.0)), 1), _MOST_ROWS)


def _spread(column: Column, values: Any, there: NDArray[np.bool_]) -> Any:
    """The values with blank ones among them: null, 0, or empty."""
    if isinstance(values, np.ndarray) and type(values) is np.ndarray and values.dtype != object:
        spread = np.zeros((len(there), *values.shape[1:]), values.dtype)
        if not column.nullable:
            spread[there] = values
            return spread
    if isinstance(values, np.ma.MaskedArray):
        values = items_of({column.name: values})[column.name]
    given, blank = iter(values), None if column.nullable else _blank(column)
    return [next(given) if one else blank for one in there.tolist()]


def _blank(column: Column) -> Any:
    if column.is_array:
        return np.zeros([max(size, 0) for size in column.item_shape], column.dtype)
    if column.dtype is not None:
        return column.dtype.type(0)
    return {"bytes": b"", "object": {}}.get(column.type, "")


# A table whose rows go with those of a dataset, by a key or in the same order.


_AT_ONCE: Final = 16_384  # rows whose keys are read at a time
_KINDS: Final = {
    **dict.fromkeys(("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"), "integer"),
    **dict.fromkeys(("float16", "float32", "float64"), "fraction"),
    **dict.fromkeys(("string", "text"), "text"),
}


def join_table(
    parts: PartSet,
    columns: Any,
    given: Any,
    key: str | Sequence[str] | None,
    *,
    keep: bool,
    options: Mapping[str, Any],
) -> NewColumns:
    """Reads the table, and finds its row for each row of the dataset. SchemaError where they do not go together.

    ``keep``: in columns that are there already, rows without one keep their values. ``options``: what is asked of the
    kind of source that the table is.
    """
    keys = [] if key is None else [key] if isinstance(key, str) else list(key)
    overrides = dict(columns) if isinstance(columns, Mapping) else None
    table = table_source(given, overrides, options)
    names = _chosen(table, columns, keys)
    for name in keys:
        parts.schema.ordinal(name)
    found = table_columns(table, [*names, *keys])
    schema = Schema(table.schema[name] for name in names)
    if isinstance(columns, Schema):
        schema = columns
    elif not isinstance(columns, Mapping):
        schema = _in_types_of(schema, parts.schema)
    kept = [name for name in schema.names if keep and name in parts.schema]
    rows = len(next(iter(found.values()))) if found else 0
    live = parts.live
    there = np.arange(parts.rows, dtype=np.int64) if live is None else live.range(0, live.ones)
    if keys:
        places = _places_by_key(parts, there, keys, table_keys(found, keys, table.path), table.path)
    elif rows != len(there):
        raise SchemaError(
            f"{table.path}: it has {many(rows, 'row')}, and the dataset {len(there):,}; without "
            f"key= they go together row by "
            "row"
        )
    else:
        places = np.arange(rows, dtype=np.int64)
    lacking = there[places < 0]
    for column in schema if len(lacking) else ():
        if not column.nullable and column.name not in kept:
            way = f"make it {str(column) + '?'!r} ({_typed(column)})"
            if column.name in parts.schema:  # where that would replace values by nulls
                way = "keep=True (--keep) leaves those rows their values"
            raise SchemaError(
                f"{table.path}: it has no row for {many(len(lacking), 'row')} of the dataset, first "
                f"row {lacking[0]}, and "
                f"column {column.name!r} ({column}) cannot be null: {way}, or add the rows"
            )
    every = np.full(parts.rows, -1, np.int64)
    every[there] = places
    used = len(np.unique(places[places >= 0]))
    make = partial(found_in_table, {name: found[name] for name in names}, every)
    asked = {*names, *keys}
    return NewColumns(
        schema,
        tuple(kept) if len(lacking) else (),
        make,
        _digest(found),
        len(lacking),
        rows - used,
        tuple(one for one in table.left_out if one.column is None or one.column in asked),
    )


def _typed(column: Column) -> str:
    """The option that says so; on the command line and in Python."""
    return f"--schema '{column.name}={column}?'; columns={{{column.name!r}: {str(column) + '?'!r}}} in Python"


def _in_types_of(found: Schema, before: Schema) -> Schema:
    """The types found in a table, but those of the columns there are, where values of that kind go into them."""
    return Schema(
        replace(before[column.name], nullable=before[column.name].nullable or column.nullable, codec=None,
                packed_annotations=column.packed_annotations)
        if column.name in before and _goes_into(column, before[column.name]) else column
        for column in found
    )  # fmt: skip


def _goes_into(found: Column, before: Column) -> bool:
    if found.shape != before.shape:
        return False
    kinds = [_KINDS.get(column.type, column.type) for column in (found, before)]
    return kinds[0] == kinds[1] or kinds == ["integer", "fraction"]


def _digest(found: Mapping[str, Any]) -> str:
    """Of the values, whatever objects hold them: in version 2 of marshal equal ones are not told from the same one."""
    state = hashlib.sha256()
    for name, values in found.items():
        state.update(f"{name}\0{len(values)}\0".encode())
        if type(values) is np.ndarray and values.dtype != object:
            state.update(f"{values.dtype.str}{values.shape}".encode())
            state.update(np.ascontiguousarray(values).view(np.uint8).data)
            continue
        for start in range(0, len(values), _AT_ONCE):
            state.update(_bytes_of(list(values[start : start + _AT_ONCE])))
    return state.hexdigest()


def _bytes_of(values: list[Any]) -> bytes:
    try:
        return marshal.dumps(values, 2)
    except ValueError:  # of an object that it does not know
        return b"".join(map(pickle.dumps, values))


def table_source(given: Any, overrides: dict[str, Any] | None, options: Mapping[str, Any]) -> Source:
    if isinstance(given, Mapping):
        lengths = {name: len(values) for name, values in given.items()}
        if len(set(lengths.values())) > 1:
            raise SchemaError(f"the columns of the table have different lengths: {lengths}")
        names, values = list(given), list(given.values())
        given = [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]
    return source_of(given, schema=overrides, **options)


def _chosen(table: Source, columns: Any, keys: Sequence[str]) -> list[str]:
    for name in keys:
        if name not in table.schema:
            table.schema.ordinal(name)
    if columns is None:
        names = [name for name in table.schema.names if name not in keys]
    elif isinstance(columns, (Mapping, Schema)):
        names = list(columns if isinstance(columns, Mapping) else columns.names)
    else:
        names = [columns] if isinstance(columns, str) else list(columns)
    for name in names:
        table.schema.ordinal(name)
    if not names:
        raise SchemaError(f"{table.path}: it has no column beside the key")
    both = sorted(set(names) & set(keys))
    if both:
        raise SchemaError(f"{table.path}: {both[0]!r} is the key, and cannot be added as well")
    return names


def table_columns(table: Source, names: Sequence[str]) -> dict[str, Any]:
    """The columns of all rows; SchemaError where rows cannot be read, since they would be missing."""
    pieces: dict[str, list[Any]] = {name: [] for name in names}
    for batch in table.batches():
        for name, found in pieces.items():
            found.append(batch.columns[name])
    bad = [one for one in table.left_out if not one.expected]
    if bad:
        raise SchemaError(f"{bad[0].name}: {bad[0].reason}; a table is read whole")
    table.done()
    return {name: _joined(found) for name, found in pieces.items()}


def _joined(pieces: Sequence[Any]) -> Any:
    if pieces and all(
        type(piece) is np.ndarray
        and piece.dtype == pieces[0].dtype
        and piece.shape[1:] == pieces[0].shape[1:]
        for piece in pieces
    ):
        return np.concatenate(pieces)
    return [value for piece in pieces for value in (piece.tolist() if _is_scalars(piece) else piece)]


def _is_scalars(piece: Any) -> bool:
    return isinstance(piece, np.ndarray) and piece.ndim == 1


def table_keys(found: Mapping[str, Any], keys: Sequence[str], name: str) -> dict[Any, int]:
    """The row of each key of the table."""
    places: dict[Any, int] = {}
    for row, one in enumerate(keys_of_rows(found, keys)):
        if places.setdefault(one, row) != row:
            raise SchemaError(
                f"{name}: rows {places[one]} and {row} have the same key {shown_key(one)}; a key is there once"
            )
    return places


def _places_by_key(
    parts: PartSet, rows: Rows, keys: Sequence[str], places: Mapping[Any, int], name: str
) -> Rows:
    ordinals = [parts.schema.ordinal(one) for one in keys]
    reader = SampleReader(parts, [(ordinal, parts.schema.columns[ordinal]) for ordinal in ordinals])
    found = np.empty(len(rows), np.int64)
    for start in range(0, len(rows), _AT_ONCE):
        some = rows[start : start + _AT_ONCE]
        batch = reader.batch(some)
        found[start : start + len(some)] = [places.get(one, -1) for one in keys_of_rows(batch, keys)]
    if len(found) and not (found >= 0).any():
        first = next(iter(places), None)
        raise SchemaError(
            f"{name}: none of its keys is in the dataset"
            + ("" if first is None else f"; its first is {shown_key(first)}, and that of the dataset "
               f"{shown_key(next(iter(keys_of_rows(reader.batch(rows[:1]), keys))))}")
        )  # fmt: skip
    return found


def keys_of_rows(columns: Mapping[str, Any], keys: Sequence[str]) -> list[Any]:
    """The keys of rows: plain values, so that numbers of any width and texts of any origin compare."""
    plain = [_plain(columns[name], name) for name in keys]
    return plain[0] if len(plain) == 1 else list(zip(*plain, strict=True))


def _plain(values: Any, name: str) -> list[Any]:
    found = values.tolist() if isinstance(values, np.ndarray) else list(values)
    found = [
        bytes(value)
        if isinstance(value, memoryview)
        else value.item()
        if isinstance(value, np.generic)
        else value
        for value in found
    ]
    for value in found:
        if not isinstance(value, (int, str, bytes)):
            raise SchemaError(
                f"column {name!r} has the value {value!r}, which cannot be a key: keys are numbers without fractions, "
                "strings or bytes, and not null"
            )
    return found


def shown_key(key: Any) -> str:
    text = repr(key)
    return text if len(text) <= 80 else text[:77] + "..."


# Which columns are to be added, and what gives their values: a function, or a table, as a source of column parts.


@dataclass(frozen=True)
class _Call:
    """What `add_columns` was asked for, and its run: column parts of all parts, until none is without one."""

    folder: str
    columns: Any
    values: Any
    key: str | Sequence[str] | None
    reads: Sequence[str] | None
    index: tuple[str, ...]
    replace: bool
    keep: bool
    batch_size: int | None
    workers: int
    progress: Progress | None
    options: Mapping[str, Any]

    @property
    def is_function(self) -> bool:
        """Whether a function makes the values; else they are in a table."""
        return callable(self.values) and not isinstance(self.values, type)

    def _source(self, *, again: bool = False) -> ColumnSource:
        """The columns of what is there now. ``again``: rows came, or parts changed, since this was first asked."""
        snapshot = resolve(self.folder)
        if self.is_function:
            schema = Schema.parse(_described(self.columns))
            reads = snapshot.schema.names if self.reads is None else self.reads
            for name in reads:
                snapshot.schema.ordinal(name)
            make = partial(made_by_function, self.values)
            new = NewColumns(schema, tuple(reads), make, _code_of(self.values))
        else:
            if again and self.key is None:
                raise StaleError(
                    f"{self.folder}: its rows have changed while columns were added, and without key= the rows of the "
                    "table go with them by their order; nothing was published"
                )
            parts = PartSet(snapshot, knows_deletions=True)
            try:
                new = join_table(
                    parts, self.columns, self.values, self.key, keep=self.keep, options=self.options
                )
            finally:
                parts.close()
        there = [name for name in new.schema.names if name in snapshot.schema]
        if there and not self.replace:
            raise SchemaError(
                f"{self.folder}: there is a column {there[0]!r} already; replace=True gives it the new values"
            )
        schema, said = _with_annotations(new.schema, self.columns, snapshot.schema)
        if not isinstance(self.columns, (Mapping, Schema)):
            said += _said_of_types(schema, snapshot.schema)
        said += _said_of_others(schema, snapshot)
        kept = [n for n in snapshot.index if n in there and n not in self.index and not schema[n].is_blob]
        index = (*kept, *self.index)
        check_indexable(schema, index)
        what = {
            "the source": COLUMNS_OF + location_of(self.folder).absolute(self.folder),
            "the columns": repr([(column, column.codec) for column in schema]),
            "the values": new.digest,
            "the key": repr(self.key),
            "what is read": repr(self.reads),
            "the index": repr(index),
            "what is kept": repr(self.keep),
            "the rows": "" if self.is_function or self.key is not None else snapshot.rows_identity,
            "the version of unirecord": CREATED_BY,
        }
        new = replace(new, schema=schema)
        return ColumnSource(snapshot, new, self.batch_size, index, what, tuple(said))

    def run(self, *, resume: bool) -> tuple[ColumnsAdded, Sequence[LeftOut]]:
        """What has been done, and what of the table is in no column."""
        if self.is_function and self.workers > 1 and getattr(self.values, "__module__", "") == "__main__":
            raise ValueError(
                "the function is defined in the script that runs, where worker processes do not find it: put it into a "
                "module of its own, or use workers=1"
            )
        source = self._source()
        own = secrets.token_bytes(16)
        claim = begin_change(
            self.folder, own, overwrite=False, append=True, unfinished="resume" if resume else "drop"
        )
        begun = False
        try:
            claim.keep()
            seen = claim.before
            assert seen is not None
            # Column parts, by what their parts are (`state_of_part`).
            tasks = PartTasks(claim, own, source.what, resume=resume)
            begun = True
            while True:
                self._write(claim, tasks, source)
                with suppress(OvertakenError):
                    return self._publish(claim, seen, tasks, source), source.new.left_out
                source.done()
                source = self._source(again=True)
        except BaseException as error:
            if begun:
                give_up(claim, error, "finished column part", (UniRecordError, TransformError))
            else:  # what an earlier run has left is not this one's
                claim.suspend()
            raise
        finally:
            source.done()

    def _write(self, claim: Change, tasks: PartTasks, source: ColumnSource) -> None:
        """The column parts of all parts of the source that have none yet."""
        parts = source.snapshot.parts
        states = [state_of_part(source.snapshot, part) for part in parts]
        numbers = [tasks.number(state) for state in states]
        units, of = [(0, 0)] * (max(numbers, default=-1) + 1), dict(zip(numbers, states, strict=True))
        for unit, number in enumerate(numbers):
            units[number] = (unit, unit + 1)
        job = Job(
            source,
            PartContent(source.schema, source.index, pack_user(column_part_metadata())),
            tuple(units),
            claim.folder,
            tasks.id,
            tasks.first,
            _WHOLE,
            os.path.join(self.folder, manifest.NAME),
            claim.place,
            claim.deliver,
            claim.journal,
            of,
        )
        tracker = Tracker(sum(part.rows for part in parts), self.progress)
        tracker.advance(
            sum(part.rows for part, state in zip(parts, states, strict=True) if state in tasks.entries)
        )
        waiting = [number for number in numbers if of[number] not in tasks.entries]
        empty = [number for number in waiting if not parts[units[number][0]].rows]
        for number in empty:
            tasks.finish(of[number], _empty(job, number))
        waiting = [number for number in waiting if number not in empty]

        def done(task: int, record: dict[str, Any]) -> None:
            tasks.entries[of[task]] = entry_from_json(record["parts"][0])

        if self.workers > 1 and len(waiting) > 1:
            run_in_workers(
                job, waiting, self.workers, claim.lock_number(),
                lambda task, rows, *_: tracker.advance(rows), done,
            )  # fmt: skip
            return
        for task in waiting:
            done(task, run_task(job, task, lambda rows, *_: tracker.advance(rows)))

    def _publish(self, claim: Change, seen: Manifest, tasks: PartTasks, source: ColumnSource) -> ColumnsAdded:
        schema, folder = source.schema, self.folder
        after: Manifest | None = None

        def with_columns(before: Manifest | None) -> Manifest:
            nonlocal after
            assert before is not None
            check_columns(folder, before, seen)
            entries = {part.id: tasks.entries.get(state_of_entry(before, part)) for part in before.parts}
            files = {
                part: ColumnFile(entry.name, entry.id, entry.bytes, entry.index_bytes, entry.content)
                for part, entry in entries.items()
                if entry is not None
            }
            if len(files) < len(entries):
                raise OvertakenError  # others have published parts meanwhile that have no column parts yet
            for part in before.parts:
                tasks.check_rows(state_of_entry(before, part), part.rows)
            whole, places = _placed(before.schema, schema)
            stays = [name for name in before.index if name not in schema or name in source.index]
            changed = replace(
                rearranged(before, whole, places, schema, files),
                index=(*stays, *(name for name in source.index if name not in stays)),
                next_part=max(before.next_part, tasks.next_part),
            )
            after = as_columns_change(changed, before, "add-columns", folder)
            manifest.check(after, os.path.join(folder, manifest.NAME))
            return after

        there = {state_of_part(source.snapshot, part) for part in source.snapshot.parts}
        # Those of parts that were laid out anew, or whose columns were replaced, meanwhile.
        tasks.drop_others(there)
        check_readable(claim.place, schema, claim.not_opened(list(tasks.entries.values())))
        claim.publish(with_columns)
        assert after is not None
        named = files_of(after)
        claim.clear(
            entry.name for entry in tasks.entries.values() if entry.name not in named
        )  # of parts that have gone
        claim.release()
        return ColumnsAdded(
            after.generation,
            after.schema.names,
            after.rows - after.deleted,
            len(tasks.entries),
            len(tasks.resumed),
            source.new.without,
            source.new.unused,
            source.said,
        )


def _with_annotations(schema: Schema, given: Any, before: Schema) -> tuple[Schema, list[str]]:
    """The columns, replaced ones with the annotations they had unless others are given, and what these cannot be of."""
    said: list[str] = []
    columns = []
    for column in schema:
        spec = given.get(column.name) if isinstance(given, Mapping) else None
        is_given = column.packed_annotations or (
            isinstance(spec, Mapping) and not {"annotations", "logical"}.isdisjoint(spec)
        )
        if column.name in before and not is_given:
            column, lost = with_meaning_of(column, before[column.name])
            if lost:
                said.append(f"{column.name} is {column} now, without its {', '.join(lost)}")
        elif column.name in before and column.logical != (was := before[column.name].logical):
            said.append(
                f"{column.name} has the logical type {shown(column.logical)} now, and had {shown(was)}"
            )
        columns.append(column)
    return Schema(columns), said


def _said_of_types(schema: Schema, before: Schema) -> list[str]:
    return [
        f"{column.name} is {column} now, and was {before[column.name]}"
        for column in schema
        if column.name in before and str(column) != str(before[column.name])
    ]


def _said_of_others(schema: Schema, snapshot: Snapshot) -> list[str]:
    """Columns, and names in the metadata, that were made of what is replaced, and do not follow."""
    before, said = snapshot.schema, []
    stays = [name for name in before.names if name not in schema]
    pictures = [c.name for c in before if (c.media_type or "").startswith("image/")]
    sizes = [name for name in stays if name in ("width", "height")]
    for name in (name for name in pictures if name in schema and sizes):
        said += [f"{name} has new values; {' and '.join(sizes)} are of the pictures of before"]
    named = "label" in before and (before["label"].classes or classes_of(snapshot.metadata))
    for new, old in (("label", "class"), ("class", "label")):
        if new in schema and named and new in before and old in stays:
            said.append(f"{new} has new values; {old}, which says the same otherwise, has those of before")
    known = classes_of(snapshot.metadata)
    if known is not None and "label" in schema and (schema["label"].classes or tuple(known)) != tuple(known):
        said.append("label has other classes; those in the metadata are the ones of before")
    return said


def _described(columns: Any) -> Any:
    if isinstance(columns, (Mapping, Schema)):
        return columns
    raise ValueError(f'columns is {columns!r}; a function needs them with their types: {{"caption": "text"}}')


def _code_of(function: Any) -> str:
    """Tells a function from another one as far as its name and its code do; what it calls and holds is not seen."""
    named = (
        f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__name__)}"
    )
    code = getattr(function, "__code__", None)
    return named if code is None else f"{named} {hashlib.sha256(marshal.dumps(code, 2)).hexdigest()}"


_WHOLE: Final = 1 << 62  # bytes: a column part has all rows of its part


@dataclass(frozen=True)
class ColumnsAdded:
    """What `unirecord.add_columns` has done.

    Attributes:
        version: the version with the new columns.
        columns: the names of all columns, in order.
        rows: how many rows have got values.
        parts: how many column parts have been written.
        resumed: how many of them an earlier run had finished.
        without: rows that the table has no values for, which are null there.
        unused: rows of the table that no row of the dataset goes with.
        said: what else is other than before, or did not follow the change; a sentence each, also warned of.
    """

    version: int
    columns: tuple[str, ...]
    rows: int
    parts: int
    resumed: int = 0
    without: int = 0
    unused: int = 0
    said: tuple[str, ...] = ()


def add_columns(
    path: str | os.PathLike[str],
    columns: Mapping[str, Any] | Schema | Sequence[str] | None,
    values: Any,
    *,
    key: str | Sequence[str] | None = None,
    reads: Sequence[str] | None = None,
    index: Sequence[str] = (),
    replace: bool = False,
    keep: bool = False,
    batch_size: int | None = None,
    workers: int = 1,
    resume: bool = False,
    progress: Progress | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> ColumnsAdded:
    """Adds columns to the directory at ``path``, as the next version; its files stay as they are (docs/growing.md).

    Beside each part a column part is written, with the same rows and only the new columns. Rows keep their numbers, and
    every order and state stays as it is. Others may append meanwhile: their rows get values too, before this publishes.

    Args:
        path: a directory of parts, also in an object store.
        columns: the new columns, as for `Writer`: ``{"caption": "text"}``. Of a table also a list of names, or None for
            all of its columns but the key, with the types that are found there.
        values: a function, called with a batch of rows (a dict of columns, as ``read_rows`` gives it), which returns a
            dict of the new columns, each with as many values; or a table: whatever ``unirecord write`` or
            `write_dataset` reads, a path or an object.
        key: of a table: the column, or columns, by whose values its rows and those of the dataset go together; each key
            is in the table once. Without it the table has as many rows as the dataset, in the same order.
        reads: of a function: the columns that it is given; all by default.
        index: scalar columns of the new ones to be looked up by value, as for `Writer`.
        replace: columns that are there already get the new values, in their places; those that were looked up by value
            still are, and logical types and annotations stay unless others are given. A warning says what does not
            follow.
        keep: of a table with a key: in columns that are replaced, rows that it has no row for keep their values.
        batch_size: rows that a function is called with at a time; by default about 8 MiB of them, 4,096 at most.
        workers: processes that write column parts at the same time.
        resume: go on with what the same call has left when it was stopped.
        progress: called with (rows done, rows in all).
        storage_options: how an object store is reached, as for `UniRecordDataset`.
        **options: of a table: what its kind of source obeys, as for `write_dataset`, and that ``kind``.

    Raises:
        SchemaError: a column is there already, values do not fit, or the table lacks a key of a column without nulls.
        TransformError: the function raised; ``__cause__`` is what it raised.
        MissingError: there is no directory of parts, or no table.
        StaleError: another writer has changed the columns, or the dataset, meanwhile; nothing of this was published.
        BusyError: another run of the same call is at work, with ``resume``.
        UniRecordError: the directory is in storage that is only read.
        ValueError: a wrong argument.
    """
    folder = path_of_dataset(os.fspath(path))
    if type(workers) is not int or workers < 1:
        raise ValueError(f"workers is a number of processes, 1 or more, got {workers!r}")
    if batch_size is not None and (type(batch_size) is not int or batch_size < 1):
        raise ValueError(f"batch_size is a number of rows, 1 or more, got {batch_size!r}")
    call = _Call(
        folder,
        columns,
        values,
        key,
        reads,
        tuple(index),
        replace,
        keep,
        batch_size,
        workers,
        progress,
        options,
    )
    if call.is_function and key is not None:
        raise ValueError("key= is of a table, and a function was given")
    if not call.is_function and reads is not None:
        raise ValueError("reads= is of a function, and a table was given")
    if call.is_function and options:
        raise ValueError(f"{next(iter(options))}= is of a table, and a function was given")
    if keep and (not replace or key is None):
        raise ValueError(
            "keep=True is of a table with key=, whose columns replace those that are there: replace=True"
        )
    with use_storage(storage_to_write_to(folder, storage_options)):
        if not location_of(folder).is_directory(folder):
            raise no_directory(folder, ", and only those can have columns added")
        added, left_out = call.run(resume=resume)
    for said in added.said:
        warnings.warn(f"{folder}: {said}", stacklevel=2)
    warn_of_left_out(left_out, "the table", "row", 2)
    return added


def _placed(before: Schema, added: Schema) -> tuple[Schema, list[int]]:
    """The columns that there are then, and where each is: behind those of before, the added ones by their number."""
    new = {column.name: (column, len(before) + place) for place, column in enumerate(added)}
    both = [new.get(column.name, (column, place)) for place, column in enumerate(before)]
    columns, places = [column for column, _ in both], [place for _, place in both]
    for place, column in enumerate(added):
        if column.name not in before:
            columns.append(column)
            places.append(len(before) + place)
    return Schema(columns).plain(), places


def _empty(job: Job, task: int) -> PartEntry:
    parts = PartSequence(
        job.folder,
        job.dataset_id,
        lambda i: job.part_number(task, i),
        job.max_part_bytes,
        job.like,
        job.deliver,
    )
    try:
        parts.write_empty(job.content, shape_without_rows(job.content.schema))
    except BaseException:
        parts.discard()
        raise
    [entry] = parts.entries
    return entry
