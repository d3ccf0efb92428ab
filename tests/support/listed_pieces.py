"""Lists of parts in pieces, of every kind, and pieces with right digests and wrong content."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator
from dataclasses import replace

import reseal
from reference_rules import wide_digest

from unirecord.format.schema import Schema
from unirecord.snapshot import manifest
from unirecord.snapshot.layouts import ColumnFile, PartColumns
from unirecord.snapshot.manifest import Manifest, PartEntry
from unirecord.snapshot.part_list import DeletedRows, encode_piece

__all__ = ["DIGEST", "SCHEMA", "empty", "entry", "hostile_pieces", "mixed"]

SCHEMA = Schema.parse({"n": "int64"})
DIGEST = manifest.schema_digest(SCHEMA)


def entry(number: int) -> PartEntry:
    part_id = manifest.part_id(b"d" * 16, number)
    name = manifest.part_name(number, part_id)
    return PartEntry(name, part_id, number % 7, 1_000, 500, DIGEST, f"{number:032x}")


def empty() -> Manifest:
    return Manifest(b"d" * 16, 1, 0, SCHEMA, ())


def laid_out(number: int, layout: int, files: int) -> PartColumns:
    made = []
    for i in range(files):
        part_id = manifest.part_id(b"d" * 16, 1_000_000 + 10 * number + i)
        name = f"part-{1_000_000 + 10 * number + i}-{part_id[:4].hex()}.urec"
        made.append(ColumnFile(name, part_id, i, 2 * i, f"{i:032x}"))
    return PartColumns(layout, tuple(made), bytes([number % 256]) * (number % 3 * 7))


def mixed(seed: int, count: int = 40) -> list[PartEntry]:
    """Parts of which some have deleted rows, and some a layout, of which most have a patch, which is none."""
    r = random.Random(seed)
    found = []
    for number in range(1, count + 1):
        part = entry(number)._replace(rows=r.choice([1, 9, 1 << 40]), bytes=r.choice([0, (1 << 50)]))
        if r.random() < 0.3:
            name = f"{part.name}.del-{r.choice([1, 10**17]):06d}"
            part = part._replace(deleted=DeletedRows(name, 1, r.randrange(60), f"{r.getrandbits(128):032x}"))
        if r.random() < 0.3:
            layout = r.choice([0, 1])
            part = part._replace(columns=laid_out(number, layout, layout), schema="ab"[layout] * 32)
        found.append(part)
    return found


def hostile(content: bytes, r: random.Random) -> bytes:
    """The piece with some of its fields changed."""
    found = bytearray(content)
    for _ in range(r.choice([1, 1, 2])):
        width = r.choice([1, 4, 8])
        at = r.randrange(0, len(found) - width + 1, width)
        value = r.choice(
            [0, 1, 5, 255, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 62, (1 << 63) - 1, (1 << 64) - 1]
        )
        found[at : at + width] = struct.pack("<Q", value)[:width]
    if r.random() < 0.2:
        found = found[: r.randrange(len(found))] + bytes(r.choice([0, 8, 56, 64]))
    return bytes(found)


def hostile_pieces(seed: int) -> Iterator[tuple[bytes, bytes]]:
    """Pieces with right digests and wrong content, each with the manifest that names it."""
    r = random.Random(seed)
    layouts = [
        {"files": [[["m", "int64", None]]], "columns": [[0, 0]]},
        {"files": [[["m", "int64", None]], [["k", "int64", None]]], "columns": [[1, 0]]},
    ]
    for number in range(400):
        parts = mixed(number, 12)
        content = encode_piece(parts, b"d" * 16, number)
        content = hostile(content, r) if number % 20 else content
        rows = struct.unpack_from("<Q", content.ljust(64, b"\0"), 32)[0] if r.random() < 0.5 else 0
        rows = rows or sum(part.rows for part in parts)
        digest = wide_digest(content).hex()
        made = replace(empty(), parts=(), next_part=10**9)
        said = json.loads(manifest.encode(made))
        said["pieces"] = [{"digest": digest, "parts": 12, "rows": rows}]
        said["required"] = ["columns", "deletions", "patches"]
        said["layouts"] = layouts
        yield content, reseal.sealed(said)
