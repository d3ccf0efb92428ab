"""The metadata map in the heads of a part's files: schema, index columns, the user's own, statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgpack

from ..errors import CorruptionError, FormatError, SchemaError
from . import layout
from .schema import Schema
from .values import pack_object, unpack_object

MAX_USER_BYTES = 15 << 20  # leaves room for the rest of a head


@dataclass(frozen=True)
class Metadata:
    schema: Schema
    index: tuple[str, ...]
    user: object
    statistics: tuple[dict[str, Any] | None, ...] | None = None


def pack_user(value: object) -> bytes:
    """The user's metadata as msgpack; SchemaError names what cannot be stored in it."""
    packed = pack_object(value, "metadata")
    if len(packed) > MAX_USER_BYTES:
        raise SchemaError(f"metadata takes {len(packed)} bytes; at most {MAX_USER_BYTES} can be stored")
    return packed


def encode(
    schema: Schema,
    index: Sequence[str],
    user: bytes,
    statistics: Sequence[dict[str, Any] | None] | None = None,
) -> bytes:
    """The map as stored; ``user`` comes packed."""
    packer = msgpack.Packer(use_bin_type=True, autoreset=False)
    packer.pack_map_header(3 if statistics is None else 4)
    for key, value in (("schema", schema.to_wire()), ("index", list(index))):
        packer.pack(key)
        packer.pack(value)
    packer.pack("user")
    content: bytes = packer.bytes() + user
    packer.reset()
    if statistics is not None:
        packer.pack("statistics")
        packer.pack(list(statistics))
    content += packer.bytes()
    return content


def check_room(schema: Schema, index: Sequence[str], user: bytes) -> None:
    """Refuses what would not fit the head of an index."""
    sections = 6 * len(schema) + len(index) + 4
    fixed = layout.HEADER_BYTES + layout.COLUMN_BYTES * len(schema) + layout.SECTION_BYTES * sections
    size = fixed + len(encode(schema, index, user, [None] * len(schema)))
    if size > layout.MAX_HEAD_BYTES - layout.PAGE_ALIGN:
        raise SchemaError(
            f"schema and metadata take up to {size} bytes in a head, and {layout.MAX_HEAD_BYTES} fit; "
            f"use fewer columns, shorter names or less metadata"
        )


def decode(raw: bytes | memoryview) -> Metadata:
    """Reads the map of either file; FormatError when it is not one."""
    try:
        content = unpack_object(raw)
    except CorruptionError as error:
        raise FormatError(f"the metadata cannot be read: {error}") from error
    if not isinstance(content, dict) or list(content)[:3] != ["schema", "index", "user"]:
        raise FormatError("the metadata does not hold schema, index and user")
    schema = Schema.from_wire(content["schema"])
    index = content["index"]
    if not isinstance(index, list) or any(type(name) is not str or name not in schema for name in index):
        raise FormatError("the metadata's index does not name columns of the schema")
    statistics = content.get("statistics")
    if statistics is not None and (not isinstance(statistics, list) or len(statistics) != len(schema)):
        raise FormatError("the metadata's statistics do not go with the schema")
    return Metadata(schema, tuple(index), content["user"], None if statistics is None else tuple(statistics))
