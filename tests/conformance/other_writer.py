"""Writes parts by partgen_bytes.py, with what docs/spec/format.md allows and the package's writer does not do."""

from __future__ import annotations

import random
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgpack_encodings import packed_otherwise
from partgen import MadePart, write
from partgen_bytes import DTYPES, Col, Spec

from unirecord import Schema

CODECS = {"zstd": 1, "shuffle+zstd": 2}


def write_otherwise(
    path: Path,
    schema: Mapping[str, Any],
    records: Sequence[Mapping[str, Any]],
    index: Sequence[str],
    pick: random.Random,
    *,
    alone: bool,
) -> None:
    """The records as a part with other units, groups, zones, chunks and dictionaries, and things of a later version.

    ``alone``: it is a dataset by itself; parts that are opened together have the same logical types.
    """
    columns = [_column(name, spec, pick, alone) for name, spec in schema.items()]
    spec = Spec(pick.randbytes(16), columns, list(index))
    spec.align = 2 ** pick.randint(0, 6)
    spec.unit_rows = pick.choice([0, 1, 2, 8, 64]) if spec.blobs else 0
    size = pick.choice([1, 2, 7, 100]) * max(spec.unit_rows, 1)
    spec.group_rows = size if spec.row_bytes or not spec.blobs else 0
    spec.groups = [min(size, len(records) - first) for first in range(0, len(records), size)]
    spec.plain = {c.name for c in columns if c.base == "string" and pick.random() < 0.5}
    numbers = [c.name for c in columns if c.base in DTYPES and not c.is_blob and c.base != "bool"]
    spec.coded = {name for name in numbers if pick.random() < 0.5}
    spec.zone_rows = {c.name: pick.choice([1, 3, 10**12]) for c in columns if pick.random() < 0.5}
    _add_later_things(spec, pick)
    raw = [[_stored(c, record[c.name], pick) for c in columns] for record in records]
    write(MadePart(path, spec, raw))


def _add_later_things(spec: Spec, pick: random.Random) -> None:
    """What a reader of this version ignores."""
    spec.unknown = pick.choice([{}, {"later": [1, {"x": None}]}])
    spec.optional = pick.choice([0, 1, 1 << 31])
    if pick.random() < 0.5:
        spec.ancillary = {(0x8000, 0): b"bloom", (0xFFFF, 65535): bytes(pick.choice([0, 70_000]))}
    for number in range(len(spec.groups) + 1):
        if pick.random() < 0.3:
            spec.pages[number] = [(0x9000, pick.randbytes(pick.choice([0, 99])))]


def _column(name: str, spec: Any, pick: random.Random, alone: bool) -> Col:
    given = spec if isinstance(spec, dict) else {"type": spec}
    base = given["type"].removesuffix("?")
    codec = CODECS[given["codec"].split(":")[0]] if "codec" in given else 0
    dictionary = b"xyz\0zzzz" * 9 if codec and pick.random() < 0.5 else b""
    said: dict[str, Any] = {"unit": "ms"} if pick.random() < 0.2 else {}
    if base.startswith(("timestamp", "duration", "date")):
        column = Schema.parse({name: base})[name]
        base, said["logical"] = column.type, column.logical
    elif pick.random() < 0.2 and alone:
        said["logical"] = {"type": "of a later version", "how": [1.5, None]}
    shape = given.get("shape")
    chunks = None
    if shape is not None and min(shape) > 0:
        chunks = [pick.randint(1, d) for d in shape]
    elif base in ("bytes", "text"):
        chunks = [pick.choice([1, 3, 100])]
    if pick.random() < 0.5:
        chunks = None
    return Col(name, base, shape, given["type"].endswith("?"), said, codec, dictionary, chunks)


def _stored(column: Col, value: Any, pick: random.Random) -> bytes | None:
    """A value as a cell holds it before it is compressed."""
    if value is None and column.nullable:
        return None
    if column.base == "object":
        return packed_otherwise(value, pick)
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    array = np.asarray(value)
    if array.dtype.kind in "mM":
        array = array.astype(DTYPES[column.base])
    free = [length for length, given in zip(array.shape, column.shape or (), strict=True) if given < 0]
    return array.tobytes() + (struct.pack(f"<{len(free)}Q", *free) if len(free) > 1 else b"")
