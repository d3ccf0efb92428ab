"""A table whose rows go with those of a dataset, by a key or in the same order."""

from __future__ import annotations

import hashlib
import marshal
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..errors import SchemaError
from ..format.column import Column
from ..format.schema import Schema
from ..loading.samples import SampleReader
from ..parts.part_set import PartSet
from .column_source import TableMaker
from .sources.base import Source
from .sources.left_out import LeftOut
from .write_dataset import source_of

__all__ = ["JoinedTable", "join_table"]

_AT_ONCE: Final = 16_384  # rows whose keys are read at a time
_KINDS: Final = {
    **dict.fromkeys(("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"), "integer"),
    **dict.fromkeys(("float16", "float32", "float64"), "fraction"),
    **dict.fromkeys(("string", "text"), "text"),
}

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class JoinedTable:
    """The new columns, what gives their values, and how many rows on either side have none on the other.

    ``digest``: of all values of the table that count. ``left_out``: what of the table is in none of them.
    """

    schema: Schema
    maker: TableMaker
    without: int
    unused: int
    digest: str
    left_out: tuple[LeftOut, ...]


def join_table(
    parts: PartSet, columns: Any, given: Any, key: str | Sequence[str] | None, *, keep: bool = False
) -> JoinedTable:
    """Reads the table, and finds its row for each row of the dataset. SchemaError where they do not go together.

    ``keep``: in columns that are there already, rows without one keep their values.
    """
    keys = [] if key is None else [key] if isinstance(key, str) else list(key)
    overrides = dict(columns) if isinstance(columns, Mapping) else None
    table = _as_source(given, overrides)
    names = _chosen(table, columns, keys)
    for name in keys:
        parts.schema.ordinal(name)
    found = _columns_of(table, [*names, *keys])
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
        places = _places_by_key(parts, there, keys, _keys_of(found, keys, table.path), table.path)
    elif rows != len(there):
        raise SchemaError(
            f"{table.path}: it has {rows:,} rows, and the dataset {len(there):,}; without key= they go together row by "
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
                f"{table.path}: it has no row for {len(lacking):,} rows of the dataset, first row {lacking[0]}, and "
                f"column {column.name!r} ({column}) cannot be null: {way}, or add the rows"
            )
    every = np.full(parts.rows, -1, np.int64)
    every[there] = places
    used = len(np.unique(places[places >= 0]))
    maker = TableMaker({name: found[name] for name in names}, every, kept if len(lacking) else ())
    asked = {*names, *keys}
    left_out = tuple(one for one in table.left_out if one.column is None or one.column in asked)
    return JoinedTable(schema, maker, len(lacking), rows - used, _digest(found), left_out)


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


def _as_source(given: Any, overrides: dict[str, Any] | None) -> Source:
    if isinstance(given, Mapping):
        lengths = {name: len(values) for name, values in given.items()}
        if len(set(lengths.values())) > 1:
            raise SchemaError(f"the columns of the table have different lengths: {lengths}")
        names, values = list(given), list(given.values())
        given = [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]
    return source_of(given, schema=overrides)


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


def _columns_of(table: Source, names: Sequence[str]) -> dict[str, Any]:
    """The columns of all rows; SchemaError where rows cannot be read, since they would be missing."""
    pieces: dict[str, list[Any]] = {name: [] for name in names}
    for batch in table.batches():
        for name in names:
            pieces[name].append(batch.columns[name])
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


def _keys_of(found: Mapping[str, Any], keys: Sequence[str], name: str) -> dict[Any, int]:
    """The row of each key of the table."""
    places: dict[Any, int] = {}
    for row, one in enumerate(_tuples(found, keys)):
        if places.setdefault(one, row) != row:
            raise SchemaError(
                f"{name}: rows {places[one]} and {row} have the same key {_shown(one)}; a key is there once"
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
        found[start : start + len(some)] = [places.get(one, -1) for one in _tuples(batch, keys)]
    if len(found) and not (found >= 0).any():
        first = next(iter(places), None)
        raise SchemaError(
            f"{name}: none of its keys is in the dataset"
            + ("" if first is None else f"; its first is {_shown(first)}, and that of the dataset "
               f"{_shown(next(iter(_tuples(reader.batch(rows[:1]), keys))))}")
        )  # fmt: skip
    return found


def _tuples(columns: Mapping[str, Any], keys: Sequence[str]) -> list[Any]:
    """The keys of rows: plain values, so that numbers of any width and texts of any origin compare."""
    plain = [_plain(columns[name], name) for name in keys]
    return plain[0] if len(plain) == 1 else list(zip(*plain, strict=True))


def _plain(values: Any, name: str) -> list[Any]:
    found = values.tolist() if isinstance(values, np.ndarray) else list(values)
    for value in found:
        if not isinstance(value, (int, str, bytes)):
            raise SchemaError(
                f"column {name!r} has the value {value!r}, which cannot be a key: keys are numbers without fractions, "
                "strings or bytes, and not null"
            )
    return found


def _shown(key: Any) -> str:
    text = repr(key)
    return text if len(text) <= 80 else text[:77] + "..."
