"""Corrects values of a directory: column parts with new values of some rows beside their parts, and new rows."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from ..core import CodedArray, PackedArray
from ..errors import QueryError, SchemaError
from ..format import layout
from ..format.column import Column
from ..format.metadata import pack_user
from ..format.patch import Patch, PatchTable, can_be_patched, decode_patch, encode_patch, merged
from ..format.schema import Schema
from ..format.values import ColumnBatch, ColumnData, PackedStrings, RecordEncoder, joined_strings
from ..loading.batch import SampleReader
from ..order.selection import Selection
from ..progress import Progress, Tracker
from ..query import compile_query
from ..query.keys import keys_of
from ..query.query import live_rows, live_rows_that_meet
from ..query.tree import INTEGERS, Field, Range, string_text
from ..sizes import many
from ..snapshot import manifest
from ..snapshot.data_file import DataFile
from ..snapshot.dataset_path import no_directory
from ..snapshot.layouts import ColumnFile, column_part_metadata
from ..snapshot.manifest import Manifest, PartEntry, layout_of, rearranged, state_of_entry
from ..snapshot.part import Part
from ..snapshot.part_list import appended
from ..snapshot.part_set import PartSet
from ..snapshot.versions import files_of, published_as
from ..storage.schemes import location_of, path_of_dataset
from ..storage.storage_options import use_storage
from ..writing.change import Change, OvertakenError, changing, opened
from ..writing.deletion import check_numbers, rows_named
from ..writing.manifest_changes import as_columns_change
from ..writing.part_writer import PartContent, PartSequence, ScalarCodec, values_of_part
from ..writing.rewrite import deleted_rows, new_parts
from ..writing.target import PART_BYTES, BatchWriter, storage_to_write_to
from ..writing.verified_rows import compressed_as
from .add_columns import keys_of_rows, shown_key, table_columns, table_keys, table_source
from .sources.overrides import TypesThere
from .sources.text_values import text_converter

__all__ = ["Updated", "set_values", "update", "upsert"]


Rows = NDArray[np.int64]

_AT_ONCE: Final = 16_384  # rows whose keys are read at a time
_FEW: Final = 1_000  # keys that a condition finds; more of them are looked for in every row
_LOOKUP: Final = 64  # rows that are gone through in the time of looking one key up in the index
_SHOWN: Final = 5  # keys in an error
_WHOLE: Final = 1 << 62  # bytes: a column part has all rows of its part
_PATCHED_SHARE: Final = (
    256  # rows of a part for each that is patched; where there are fewer, a column part is small
)
_PATCH_BYTES: Final = 32_768  # of a part's patch
_PATCHES_BYTES: Final = 1 << 20  # of all of a dataset's


@dataclass(frozen=True)
class Updated:
    """What `unirecord.update`, `upsert` or `set_values` has done, or would do.

    Attributes:
        version: the version with the new values; the one that was there where nothing was to be done.
        rows: how many rows have got new values.
        appended: how many rows are new.
        missing: rows of the table whose key is in no row, which were left out.
        columns: the columns that have new values, in the order of the schema.
        parts: column parts that have been written; the values of other parts went into their patches.
        bytes: of the column parts, the parts and the patches that have been written; of a dry run, about.
    """

    version: int
    rows: int
    appended: int
    missing: int
    columns: tuple[str, ...]
    parts: int
    bytes: int = 0


@dataclass(frozen=True)
class _NewValues:
    """New values of a column: row ``rows[i]``, ascending, gets value ``picks[i]`` of ``data``."""

    rows: Rows
    picks: Rows
    data: ColumnData

    def between(self, start: int, stop: int) -> slice:
        """Which of its rows are of [start, stop)."""
        first, last = np.searchsorted(self.rows, [start, stop]).tolist()
        return slice(first, last)


@dataclass(frozen=True)
class _Found:
    """What is to be changed: new values by the column's ordinal, and rows that are new."""

    values: dict[int, _NewValues]
    rows: int  # that get new values
    more: ColumnBatch | None = None
    missing: int = 0


def update(
    path: str | os.PathLike[str],
    table: Any,
    key: str | Sequence[str],
    *,
    columns: Sequence[str] | None = None,
    missing: Literal["error", "ignore"] = "error",
    nulls: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Updated:
    """Gives rows of the directory at ``path`` the values of a table, as the next version (docs/growing.md).

    A row of the table goes with the row of the dataset that has the same key. All other rows and columns stay as they
    are, and so do the rows' numbers, every order, and states: a job goes on with the new values. A few values of a part
    go into the manifest, as a patch, where its index has room for them. Beside each other part that has such a row, a
    column part is written with the columns that change; all files that are there stay.

    Args:
        path: a directory of parts, also in an object store.
        table: the new values: whatever ``unirecord write`` or `write_dataset` reads, a path or an object, with the key
            and some columns of the dataset, whose types it is read by. A cell that is empty, or null, leaves the
            value that is there.
        key: the column, or columns, whose values tell which row is meant: whole numbers, strings or bytes. Each key is
            in the table once, and in one row of the dataset.
        columns: which columns of the table are taken; by default all but the key.
        missing: what becomes of rows of the table whose key is in no row of the dataset: ``"error"`` names them and
            changes nothing, ``"ignore"`` leaves them out and counts them.
        nulls: empty cells make values null, in columns that may be null.
        dry_run: change nothing, and say what would be done.
        progress: called with (rows done, rows in all), of the parts that get column parts.
        storage_options: how an object store is reached, as for `UniRecordDataset`.
        **options: what the table's kind of source obeys, as for `write_dataset`, and that ``kind``.

    Raises:
        SchemaError: there is no such column, a value does not fit, a key is missing, or there more than once.
        MissingError: there is no directory of parts, or no table.
        StaleError: another writer has published another dataset meanwhile.
        UniRecordError: the directory is in storage that is only read.
        ValueError: a wrong argument.
    """
    if missing not in ("error", "ignore"):
        raise ValueError(f'missing is {missing!r}; expected "error" or "ignore"')
    asked = _Table(table, key, columns, missing, nulls, options)
    return _changed(path, asked.find, "update", dry_run, progress, storage_options)


def upsert(
    path: str | os.PathLike[str],
    table: Any,
    key: str | Sequence[str],
    *,
    columns: Sequence[str] | None = None,
    nulls: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Updated:
    """Does what `update` does, and appends the rows of the table whose key is in no row, in the same publication.

    Args:
        path: as for `update`.
        table: as for `update`. Rows that are new need a value in each column that cannot be null; where the table has
            none for another column, it is null.
        key: as for `update`.
        columns, nulls, dry_run, progress, storage_options: as for `update`.
        **options: as for `update`.

    Raises:
        SchemaError: as for `update`, or a new row lacks a value.
        MissingError: as for `update`.
        StaleError: as for `update`.
        UniRecordError: as for `update`.
        ValueError: as for `update`.
    """
    asked = _Table(table, key, columns, "append", nulls, options)
    return _changed(path, asked.find, "upsert", dry_run, progress, storage_options)


def set_values(
    path: str | os.PathLike[str],
    where: str | None = None,
    values: Mapping[str, Any] | None = None,
    *,
    rows: int | Sequence[int] | NDArray[np.integer[Any]] | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Updated:
    """Gives rows the same values in some columns, as the next version (docs/growing.md).

    The rows are those that meet a condition, or have these numbers.

    Otherwise it is as `update`.

    Args:
        path: a directory of parts, also in an object store.
        where: a condition (docs/query.md): the rows that meet it.
        values: column -> its value in these rows. None is null, in columns that may be null; of a column with classes
            the name of one will do, too.
        rows: row numbers in the dataset, as ``ds.order.row_ids`` gives them, in place of ``where``.
        dry_run: change nothing, and say what would be done.
        progress: called with (rows done, rows in all), of the parts that get column parts.
        storage_options: how an object store is reached, as for `UniRecordDataset`.

    Raises:
        QueryError: the condition is wrong.
        IndexError: there is no row of that number, or no more.
        SchemaError: there is no such column, or a value does not fit.
        MissingError: there is no directory of parts.
        StaleError: another writer has published another dataset meanwhile, or rows have other numbers than they had.
        UniRecordError: the directory is in storage that is only read.
        ValueError: no value is given, not exactly one of ``where`` and ``rows``, or ``storage_options`` for a disk.
    """
    if not values:
        raise ValueError("values names no column; expected {column: its new value}")
    if (where is None) == (rows is None):
        raise ValueError("give either where, a condition, or rows, by their numbers")

    def find(parts: PartSet) -> _Found:
        schema, new = parts.schema, {}
        for name, value in values.items():
            ordinal = schema.ordinal(name)
            new[ordinal] = _encoded(
                schema.columns[ordinal], [_stored(schema, schema.columns[ordinal], value)]
            )
        chosen = rows_named(parts, where, rows)
        picks = np.broadcast_to(np.int64(0), len(chosen))  # of the one value there is
        found = {o: _NewValues(chosen, picks, data) for o, data in new.items() if len(chosen)}
        return _Found(found, len(chosen))

    return _changed(path, find, "set", dry_run, progress, storage_options, by_numbers=rows is not None)


def value_of_text(schema: Schema, name: str, text: str) -> Any:
    """The value of a column that a text on the command line means, null where it may be; SchemaError for none."""
    column = schema.columns[schema.ordinal(name)]
    if column.nullable and text == "null":
        return None
    try:
        stored = _stored(schema, column, text)
        return text_converter(replace(column, nullable=False))(text) if stored is text else stored
    except (ValueError, TypeError, OverflowError) as error:
        raise SchemaError(f"column {name!r}: {text!r} is no {column}: {error}") from None


def _stored(schema: Schema, column: Column, value: Any) -> Any:
    """What a text stands for in a column with a logical type: the name of a class, a time, a decimal; else it itself.

    That is the value which the condition ``column == value`` asks for.
    """
    meaning = column.meaning
    if meaning is None or column.shape is not None or not isinstance(value, str):
        return value
    if meaning.name == "class":
        return meaning.names.index(value) if value in meaning.names else value
    text = value if meaning.name == "decimal" else string_text(value.encode(errors="replace"))
    field = Field(column.name, schema.ordinal(column.name), column.type)
    try:
        asked = compile_query(f"{field} == {text}", schema).condition
    except QueryError:
        return value
    one = isinstance(asked, Range) and asked.low == asked.high and not asked.negated
    return asked.low if one and isinstance(asked, Range) else value


def _encoded(column: Column, values: Any) -> ColumnData:
    return RecordEncoder(Schema([column])).encode_batch({column.name: values}, 0).columns[0]


# The rows of a table, found in the dataset by their keys.


class _Table:
    """A table of new values, and what was asked of it. It is read once, by the types of the dataset."""

    def __init__(
        self,
        table: Any,
        key: str | Sequence[str],
        columns: Sequence[str] | None,
        missing: Literal["error", "ignore", "append"],
        nulls: bool,
        options: Mapping[str, Any],
    ) -> None:
        self._given, self._options = table, options
        self._keys = [key] if isinstance(key, str) else list(key)
        self._asked = [columns] if isinstance(columns, str) else columns
        self._missing, self._nulls = missing, nulls
        if not self._keys:
            raise ValueError("key names no column; expected the column, or columns, that tell rows apart")
        self._read: tuple[Schema, str, dict[str, Any]] | None = (
            None  # by what types; its name, and its columns
        )

    def find(self, parts: PartSet) -> _Found:
        """Which rows get which values, and which rows are new."""
        schema = parts.schema
        name, table = self._columns(schema)
        places = table_keys(table, self._keys, name)
        rows, of_table = _rows_with_keys(parts, self._keys, places, name)
        there = np.zeros(len(places), bool)
        there[of_table] = True
        lacking = np.flatnonzero(~there)
        if len(lacking) and self._missing == "error":
            keys = list(places)
            shown = ", ".join(shown_key(keys[place]) for place in lacking[:_SHOWN].tolist())
            raise SchemaError(
                f"{name}: {many(len(lacking), 'key', 'are')} in no row of the dataset: {shown}"
                f'{", …" if len(lacking) > _SHOWN else ""}; nothing was changed: missing="ignore" (--missing ignore) '
                "leaves them out, upsert appends them"
            )
        changed = [column for column in table if column not in self._keys]
        values = {}
        for column in changed:
            new = self._new_values(schema[column], table[column], rows, of_table, name)
            if len(new.rows):
                values[schema.ordinal(column)] = new
        named = [np.empty(0, np.int64), *(one.rows for one in values.values())]
        found = _Found(values, len(np.unique(np.concatenate(named))), missing=len(lacking))
        if self._missing == "append" and len(lacking):
            return replace(found, more=_whole_rows(schema, table, lacking, name), missing=0)
        return found

    def _columns(self, schema: Schema) -> tuple[str, dict[str, Any]]:
        """The table's name, and its columns as the dataset's types have them; None where there is no value."""
        if self._read is not None and self._read[0] == schema:
            return self._read[1:]
        types = {
            column.name: replace(column, nullable=column.name not in self._keys, codec=None)
            for column in schema
            if self._asked is None or column.name in (*self._keys, *self._asked)
        }
        given = table_source(self._given, TypesThere(Schema(types.values()).to_spec(), {}), self._options)
        names = (
            [name for name in given.schema.names if name not in self._keys]
            if self._asked is None
            else self._asked
        )
        both = sorted({*names} & {*self._keys})
        if both:
            raise SchemaError(f"{given.path}: {both[0]!r} is the key, which stays as it is")
        if not names:
            raise SchemaError(f"{given.path}: it has no column beside the key")
        for one in (*self._keys, *names):
            given.schema.ordinal(one)
            if one not in schema:
                raise SchemaError(
                    f"{given.path}: the dataset has no column {one!r}; it has {', '.join(schema.names)}. Name the "
                    "columns to be taken: columns= (--columns); add_columns adds others"
                )
        found = table_columns(given, [*self._keys, *names])
        self._read = schema, given.path, found
        return given.path, found

    def _new_values(self, column: Column, values: Any, rows: Rows, of_table: Rows, name: str) -> _NewValues:
        given = _given(values)
        if self._nulls and not given.all():
            if not column.nullable:
                first = int(np.flatnonzero(~given)[0])
                raise SchemaError(
                    f"{name}: row {first} has no value of column {column.name!r} ({column}), which cannot be null; "
                    "without nulls (--nulls) it keeps the one that is there"
                )
            return _NewValues(rows, of_table, _encoded(column, values))
        data = _encoded(
            column, values if given.all() else [values[i] for i in np.flatnonzero(given).tolist()]
        )
        picks = np.cumsum(given) - 1  # of those that are given
        with_one = given[of_table]
        return _NewValues(rows[with_one], picks[of_table[with_one]], data)


def _given(values: Any) -> NDArray[np.bool_]:
    if isinstance(values, np.ndarray):
        return np.ones(len(values), bool)
    return np.fromiter((value is not None for value in values), bool, len(values))


def _whole_rows(schema: Schema, table: Mapping[str, Any], chosen: Rows, name: str) -> ColumnBatch:
    """Rows of the table as rows of the dataset."""
    columns = []
    for column in schema:
        every = table.get(column.name)
        values = [None] * len(chosen) if every is None else [every[place] for place in chosen.tolist()]
        if not column.nullable:
            for place, value in zip(chosen.tolist(), values, strict=True):
                if value is None:
                    raise SchemaError(
                        f"{name}: row {place} is new, and has no value of column {column.name!r} ({column}), which "
                        "cannot be null; nothing was changed"
                    )
        columns.append(_encoded(column, values))
    return ColumnBatch(len(chosen), columns)


def _rows_with_keys(
    parts: PartSet, keys: Sequence[str], places: Mapping[Any, int], name: str
) -> tuple[Rows, Rows]:
    """The rows that have these keys, ascending, and the place of each one's key; SchemaError where several have one."""
    ordinals = [parts.schema.ordinal(one) for one in keys]
    columns = [parts.schema.columns[ordinal] for ordinal in ordinals]
    reader = SampleReader(parts, list(zip(ordinals, columns, strict=True)))
    rows_found, places_found = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for rows in _candidates(parts, list(zip(ordinals, columns, strict=True)), places):
        each = [places.get(one, -1) for one in keys_of_rows(reader.batch(rows), keys)]
        found = np.array(each, np.int64)
        rows_found.append(rows[found >= 0])
        places_found.append(found[found >= 0])
    rows, found = np.concatenate(rows_found), np.concatenate(places_found)
    counts = np.bincount(found, minlength=len(places))
    twice = np.flatnonzero(counts > 1)
    if len(twice):
        every = list(places)
        shown = ", ".join(
            f"{shown_key(every[place])} in rows {', '.join(map(str, rows[found == place][:2].tolist()))}"
            for place in twice[:_SHOWN].tolist()
        )
        raise SchemaError(
            f"{name}: {many(len(twice), 'key', 'are')} in several rows of the dataset: {shown}"
            f"{', …' if len(twice) > _SHOWN else ''}; nothing was changed: take another key, or several columns; "
            "set_values (unirecord set --where) changes all rows that meet a condition"
        )
    return rows, found


def _candidates(
    parts: PartSet, columns: Sequence[tuple[int, Column]], places: Mapping[Any, int]
) -> Iterator[Rows]:
    """Rows among which are all that have the keys, some at a time: where they are few, those of a condition."""
    chosen = live_rows(parts)
    for i, (ordinal, column) in enumerate(columns):
        each = {one if len(columns) == 1 else one[i] for one in places}
        text = column.is_string
        if not text and (column.type not in INTEGERS or column.type == "bool"):
            continue
        if not each or column.logical is not None or column.shape is not None:
            continue
        if column.name in parts.snapshot.index and not parts.is_fetched and len(each) * _LOOKUP <= parts.rows:
            keys = keys_of(parts, column.name)
            rows = np.array(sorted(row for one in each for row in keys.rows(one)), np.int64)
            chosen = Selection(parts.rows, array=rows[chosen.holds(rows)])
            break
        if len(each) <= _FEW:
            quoted = (
                string_text(one.encode(errors="replace")) if text else str(int(one)) for one in sorted(each)
            )
            condition = f"{Field(column.name, ordinal, column.type)} in ({', '.join(quoted)})"
            found = live_rows_that_meet(parts, compile_query(condition, parts.schema))
            chosen = Selection(parts.rows, array=found)
            break
    for start in range(0, len(chosen), _AT_ONCE):
        yield chosen.slice(slice(start, start + _AT_ONCE)).every()


# What was found, written and published.


def _changed(
    path: str | os.PathLike[str],
    find: Callable[[PartSet], _Found],
    command: str,
    dry_run: bool,
    progress: Progress | None,
    storage_options: Mapping[str, Any] | None,
    *,
    by_numbers: bool = False,
) -> Updated:
    folder = path_of_dataset(os.fspath(path))
    with use_storage(storage_to_write_to(folder, storage_options)):
        if not location_of(folder).is_directory(folder):
            raise no_directory(
                folder,
                ", and only of those can values be changed; write a single part again with the new ones",
            )
        seen: Manifest | None = None
        while True:
            with suppress(OvertakenError), changing(folder) as change, opened(folder, change) as parts:
                if by_numbers and seen is not None:
                    check_numbers(folder, change.before, seen)
                seen = seen or change.before
                return _Correction(folder, change, parts, find(parts)).publish(command, dry_run, progress)


class _Correction:
    """What was found in a version, on its way into the next one."""

    def __init__(self, folder: str, change: Change, parts: PartSet, found: _Found) -> None:
        assert change.before is not None
        self._folder, self._change, self._parts, self._found = folder, change, parts, found
        self._before = change.before
        self._schema = Schema(parts.schema.columns[ordinal] for ordinal in sorted(found.values))
        concerned = [
            number
            for number, start in enumerate(parts.starts[:-1].tolist())
            if any(
                (span := one.between(start, int(parts.starts[number + 1]))).start < span.stop
                for one in found.values.values()
            )
        ]
        # what goes into patches, by the ids of parts and the ordinals of columns; the others get column parts
        self._patches: dict[bytes, dict[int, PatchTable]] = {}
        left = _PATCHES_BYTES - sum(len(part.patch) for part in parts.snapshot.parts) if concerned else 0
        for number in concerned:
            tables = self._tables(number)
            if tables is not None and (left := left - len(encode_patch(_placed(tables)))) >= 0:
                self._patches[self._before.parts[number].id] = tables
        self._concerned = [
            number for number in concerned if self._before.parts[number].id not in self._patches
        ]

    def publish(self, command: str, dry_run: bool, progress: Progress | None) -> Updated:
        """Writes and publishes it; OvertakenError where others have changed what it was found in."""
        before, change, found = self._before, self._change, self._found
        more = 0 if found.more is None else found.more.rows
        counts = found.rows, more, found.missing, self._schema.names, len(self._concerned)
        if not (self._concerned or self._patches or more):
            return Updated(before.generation, *counts)
        if dry_run:
            return Updated(before.generation + 1, *counts, self._about(more))
        assert change.before is not None
        first, own = change.before.next_part, secrets.token_bytes(16)
        columns = new_parts(self._folder, change, own, lambda i: first + i, _WHOLE)
        behind = first + len(self._concerned)
        rows = new_parts(self._folder, change, own, lambda i: behind + i, PART_BYTES)
        after = before

        def corrected(now: Manifest | None) -> Manifest:
            nonlocal after
            assert now is not None
            self._check_same(now, whole=bool(more))
            after = self._after(now, files, rows.entries, command)
            manifest.check(after, os.path.join(self._folder, manifest.NAME))
            return after

        try:
            files = self._write_columns(columns, progress)
            if found.more is not None:
                self._write_rows(rows, found.more)
            change.publish(corrected)
        finally:
            columns.discard()
            rows.discard()
            named = files_of(after) if change.published else ()
            change.clear(name for name in (*columns.named, *rows.named) if name not in named)
        size = sum(entry.bytes + entry.index_bytes for entry in (*columns.entries, *rows.entries))
        return Updated(after.generation, *counts, size + self._patch_bytes())

    def _about(self, more: int) -> int:
        """Bytes that would be written."""
        rows = sum(self._before.parts[number].rows for number in self._concerned)
        each = self._parts.mean_row_bytes(sorted(self._found.values))
        return round(rows * each + more * self._parts.mean_row_bytes()) + self._patch_bytes()

    def _patch_bytes(self) -> int:
        return sum(len(encode_patch(_placed(tables))) for tables in self._patches.values())

    def _tables(self, number: int) -> dict[int, PatchTable] | None:
        """The new values in the part, by their columns' ordinals; None where a column part is to have them.

        That is: where they are many, or where the index of the part has no room for one.
        """
        schema = self._parts.schema
        first, stop = (int(self._parts.starts[place]) for place in (number, number + 1))
        found = {o: _table(new, first, stop, schema[o]) for o, new in self._found.values.items()}
        tables = {ordinal: table for ordinal, table in found.items() if table.cells}
        rows = set[int]().union(*(table.cells for table in tables.values()))
        if len(rows) * _PATCHED_SHARE > stop - first or not all(can_be_patched(schema[o]) for o in tables):
            return None
        entry = self._before.parts[number]
        places = layout_of(self._before, entry).columns
        known = {} if entry.columns is None else decode_patch(entry.columns.patch)
        size = len(encode_patch(merged(known, {places[ordinal]: table for ordinal, table in tables.items()})))
        part = self._parts.part(number)
        fits = size <= _PATCH_BYTES and all(
            _has_room(part, ordinal, table) for ordinal, table in tables.items()
        )
        return tables if fits else None

    def _write_columns(self, sequence: PartSequence, progress: Progress | None) -> dict[bytes, ColumnFile]:
        """The column part of each part concerned, by that one's id."""
        sizes = [self._before.parts[number].rows for number in self._concerned]
        tracker, files = Tracker(sum(sizes), progress), {}
        for number in self._concerned:
            part = self._before.parts[number]
            entry = self._written(sequence, number, part, tracker)
            files[part.id] = ColumnFile(entry.name, entry.id, entry.bytes, entry.index_bytes, entry.content)
        return files

    def _written(self, sequence: PartSequence, number: int, part: PartEntry, tracker: Tracker) -> PartEntry:
        ordinals, start = sorted(self._found.values), int(self._parts.starts[number])
        ref = self._parts.snapshot.parts[number]
        alone = replace(self._parts.snapshot, parts=(replace(ref, deletion=None),), listings=())
        content = replace(self._content(part, self._schema.names), user=pack_user(column_part_metadata()))
        writer = BatchWriter(sequence, content)
        for batch in values_of_part(alone, deleted_rows(self._folder, part), ordinals):
            columns = [
                _with_values(data, self._found.values[ordinal], start)
                for ordinal, data in zip(ordinals, batch.columns, strict=True)
            ]
            writer.add(ColumnBatch(batch.rows, columns), owned=True)
            start += batch.rows
            tracker.advance(batch.rows)
        writer.finish()
        return sequence.entries[-1]

    def _write_rows(self, sequence: PartSequence, batch: ColumnBatch) -> None:
        last = self._before.parts[-1] if self._before.parts else None
        content = PartContent(self._before.schema, self._before.index, b"\xc0")
        if last is not None:
            content = self._content(last, self._before.schema.names)
        writer = BatchWriter(sequence, replace(content, user=self._before.metadata or b"\xc0"))
        writer.add(batch, owned=True)
        writer.finish()

    def _content(self, part: PartEntry, names: Sequence[str]) -> PartContent:
        """Columns as the files of a part store them."""
        stored = compressed_as(self._folder, self._before, part)
        with DataFile(os.path.join(self._folder, part.name)) as data:
            scalars: ScalarCodec = "none" if data.has_plain_scalars(data.head()) else None
        index = tuple(name for name in self._before.index if name in names)
        return PartContent(Schema(stored[name] for name in names), index, b"\xc0", (), scalars)

    def _check_same(self, now: Manifest, *, whole: bool) -> None:
        """OvertakenError where others have changed the values that this was found by; ``whole``: or any row."""
        before, parts = self._before, now.parts[: len(self._before.parts)]
        same = (now.schema, now.index) == (before.schema, before.index) and len(parts) == len(before.parts)
        same = same and all(
            state_of_entry(now, new) == state_of_entry(before, old)
            and (not whole or new.deleted == old.deleted)
            for new, old in zip(parts, before.parts, strict=True)
        )
        if not same or (whole and len(now.parts) > len(parts)):
            raise OvertakenError

    def _after(
        self, now: Manifest, files: Mapping[bytes, ColumnFile], more: Sequence[PartEntry], command: str
    ) -> Manifest:
        found = now
        if files or self._patches:
            changed = {
                ordinal: place for place, ordinal in enumerate(sorted(self._found.values), len(now.schema))
            }
            places = [changed.get(ordinal, ordinal) for ordinal in range(len(now.schema))]
            found = rearranged(now, now.schema, places, self._schema.plain(), files, self._patches)
        next_part = max(now.next_part, self._before.next_part + len(files) + len(more))
        found = replace(found, parts=appended(found.parts, more), next_part=next_part)
        if more:
            return published_as(found, now, command, self._folder)
        return as_columns_change(found, now, command, self._folder)


def _placed(tables: Mapping[int, PatchTable]) -> Patch:
    return {(0, ordinal): table for ordinal, table in tables.items()}


def _table(new: _NewValues, first: int, stop: int, column: Column) -> PatchTable:
    """The new values of rows [first, stop), which are a part's."""
    span, values, valid = new.between(first, stop), new.data.values, new.data.valid

    def cell(pick: int) -> bytes | None:
        if valid is not None and not valid[pick]:
            return None
        return values[pick].tobytes() if isinstance(values, np.ndarray) else bytes(values[pick])

    each = zip((new.rows[span] - first).tolist(), new.picks[span].tolist(), strict=True)
    return PatchTable(0 if column.is_string else column.fixed_bytes, {row: cell(pick) for row, pick in each})


def _has_room(part: Part, ordinal: int, table: PatchTable) -> bool:
    """Whether the part's index can have these values where it has others, as it is."""
    given = {cell for cell in table.cells.values() if cell is not None}
    if part.vector(layout.SECTION_ORDER, ordinal) is not None:
        return False
    if part.schema[ordinal].is_string:
        return given <= _entries(part, ordinal)
    found = part.vector(layout.SECTION_VALUES, ordinal)
    assert found is not None
    elements, dtype = found[0], part.schema[ordinal].dtype
    if isinstance(elements, CodedArray):
        return given <= {entry.tobytes() for entry in elements.entries}
    return not isinstance(elements, PackedArray) or all(
        elements.can_have(int(np.frombuffer(cell, dtype)[0])) for cell in given
    )


def _entries(part: Part, ordinal: int) -> set[bytes]:
    """The strings of a dictionary; none where there is none."""
    offsets = part.section(layout.SECTION_DICTIONARY_OFFSETS, ordinal)
    if offsets is None:
        return set()
    entries = part.section(layout.SECTION_DICTIONARY_ENTRIES, ordinal)
    assert entries is not None
    content = entries.tobytes()
    return {content[start:stop] for start, stop in pairwise(offsets.tolist())}


def _with_values(old: ColumnData, new: _NewValues, first: int) -> ColumnData:
    """The values of rows from ``first`` on, those that get new ones with these."""
    count = len(old.values)
    span = new.between(first, first + count)
    places, picks = new.rows[span] - first, new.picks[span]
    if not len(places):
        return old
    valid = None if old.valid is None else old.valid.copy()
    if valid is not None:
        valid[places] = True if new.data.valid is None else new.data.valid[picks]
    if isinstance(old.values, PackedStrings):
        assert isinstance(new.data.values, PackedStrings)
        order = np.arange(count)
        order[places] = count + np.arange(len(places))
        return ColumnData(joined_strings([old.values, new.data.values.take(picks)]).take(order), valid)
    values = old.values.copy()
    if isinstance(values, np.ndarray):
        assert isinstance(new.data.values, np.ndarray)
        values[places] = new.data.values[picks]
    else:
        for place, pick in zip(places.tolist(), picks.tolist(), strict=True):
            values[place] = new.data.values[pick]
    return ColumnData(values, valid)
