"""What a part says of itself in msgpack: the metadata map in the heads of its files, and the statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgpack
import numpy as np

from .. import __version__
from ..errors import CorruptionError, FormatError, SchemaError
from ..sizes import many
from . import layout
from .column import Column
from .schema import Schema
from .values import pack_object, unpack_canonical

CREATED_BY = f"unirecord {__version__}"
_GLOBAL_SECTIONS = 4
MAX_USER_BYTES = 15 << 20  # leaves room for the rest of a head


@dataclass(frozen=True)
class Metadata:
    schema: Schema
    index: tuple[str, ...]
    user: object
    created_by: str  # package and version that wrote the file


def pack_user(value: object) -> bytes:
    """The user's metadata as msgpack; SchemaError names what cannot be stored in it."""
    packed = pack_object(value, "metadata", level=2)  # it stands in a map
    if len(packed) > MAX_USER_BYTES:
        raise SchemaError(
            f"metadata takes {many(len(packed), 'byte')}; at most {MAX_USER_BYTES} can be stored"
        )
    return packed


def say_the_same(one: object, other: object) -> bool:
    """Whether two values that msgpack holds are the same, in whatever order their maps have the keys."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            say_the_same(value, other[key]) for key, value in one.items()
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(say_the_same, one, other))
    return repr(one) == repr(other) if isinstance(one, float) else one == other


def packed_schema(schema: Schema) -> bytes:
    """The schema as the metadata has it."""
    packed: bytes = msgpack.packb(schema.to_wire(), use_bin_type=True)
    return packed


def packed_types(schema: Schema) -> bytes:
    """Names, types and shapes alone, as digests of schemas cover them."""
    packed: bytes = msgpack.packb(schema.types_to_wire(), use_bin_type=True)
    return packed


def encode(schema: Schema, index: Sequence[str], user: bytes) -> bytes:
    """The map as stored; ``user`` comes packed."""
    pack = msgpack.Packer(use_bin_type=True).pack
    entries = {
        "schema": packed_schema(schema),
        "index": pack(list(index)),
        "user": user,
        "created_by": pack(CREATED_BY),
    }
    packed: bytes = msgpack.Packer().pack_map_header(len(entries))
    return packed + b"".join(pack(key) + value for key, value in entries.items())


def _most_sections(column: Column) -> int:
    """How many sections a column has at most, its order aside."""
    if not column.is_known and not column.is_blob:
        return 1 + column.nullable
    if column.is_blob:
        compressed = 0 if column.codec is None else column.has_raw_lengths + 1  # and a dictionary
        chunks = 0 if column.chunks is None else 4
        return int(not column.stored_bytes) + compressed + chunks + column.nullable
    return (5 if column.is_string else 3) + column.nullable  # a dictionary takes more than plain strings


def check_room(schema: Schema, index: Sequence[str], user: bytes) -> None:
    """Refuses what would not fit the head of an index."""
    sections = sum(map(_most_sections, schema)) + len(index) + _GLOBAL_SECTIONS
    fixed = layout.INDEX_HEADER_BYTES + layout.COLUMN_BYTES * len(schema) + layout.SECTION_BYTES * sections
    size = fixed + len(encode(schema, index, user))
    if size > layout.MAX_HEAD_BYTES - layout.PAGE_ALIGN:
        raise SchemaError(
            f"schema and metadata take up to {many(size, 'byte')} in a head, and {layout.MAX_HEAD_BYTES} fit; "
            f"use fewer columns, shorter names or less metadata"
        )


def decode(raw: bytes | memoryview) -> Metadata:
    """Reads the map in the head of either file; FormatError when it breaks a rule of docs/spec/format.md."""
    try:
        content = unpack_canonical(raw)
    except CorruptionError as error:
        raise FormatError(f"the metadata cannot be read: {error}") from error
    if not isinstance(content, dict) or list(content)[:4] != ["schema", "index", "user", "created_by"]:
        raise FormatError("the metadata does not begin with schema, index, user and created_by")
    schema = Schema.from_wire(content["schema"])
    created_by = content["created_by"]
    if type(created_by) is not str:
        raise FormatError("the metadata's created_by is not a string")
    return Metadata(schema, checked_index(schema, content["index"]), content["user"], created_by)


def checked_index(schema: Schema, names: object) -> tuple[str, ...]:
    """The columns that a file names as indexed; FormatError when they are not different scalar columns."""
    if not isinstance(names, list) or any(type(name) is not str or name not in schema for name in names):
        raise FormatError("its index does not name columns of the schema")
    if len(set(names)) != len(names) or any(not schema[name].is_ordered for name in names):
        raise FormatError("its index names a column twice, or one that has no order")
    return tuple(names)


Statistics = tuple[dict[str, Any] | None, ...]


def encode_statistics(columns: Sequence[dict[str, Any] | None]) -> bytes:
    """The content of the statistics section: per column a map, or None for a blob column that cannot be null."""
    packed: bytes = msgpack.packb(list(columns), use_bin_type=True)
    return packed


def decode_statistics(raw: bytes | memoryview, schema: Schema) -> Statistics:
    """Reads the statistics section; FormatError when it does not go with the schema."""
    try:
        content = unpack_canonical(raw)
    except CorruptionError as error:
        raise FormatError(f"the statistics cannot be read: {error}") from error
    if not isinstance(content, list) or len(content) != len(schema):
        raise FormatError("the statistics are not one entry for each column")
    for column, entry in zip(schema, content, strict=True):
        if entry is not None and not _is_statistics(column, entry):
            raise FormatError(f"the statistics of column {column.name!r} do not fit its type {column}")
    return tuple(content)


def _is_statistics(column: Column, entry: object) -> bool:
    if not isinstance(entry, dict):
        return False
    if not column.is_ordered:
        return column.nullable and list(entry)[:1] == ["nulls"] and _is_count(entry["nulls"])
    if list(entry)[:4] != ["nulls", "distinct", "min", "max"]:
        return False
    nulls, distinct, low, high, *_ = entry.values()
    return _is_count(nulls) and (distinct is None or _is_count(distinct)) and _are_bounds(column, low, high)


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < layout.MAX_OFFSET


def _are_bounds(column: Column, low: Any, high: Any) -> bool:
    """Both nil, or both values of the column, in order; a string that was too long is nil by itself."""
    return (
        (low is None or _is_value(column, low))
        and (high is None or _is_value(column, high))
        and (column.is_string or (low is None) == (high is None))
        and (low is None or high is None or low <= high)
    )


def _is_value(column: Column, value: object) -> bool:
    dtype = column.dtype
    if dtype is None:
        return type(value) is str
    if dtype.kind == "b":
        return type(value) is bool
    if dtype.kind == "f":
        return type(value) is float and value == value
    limits = np.iinfo(dtype.str)
    return type(value) is int and limits.min <= value <= limits.max
