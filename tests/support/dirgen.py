"""Makes random legal directories of parts from docs/spec/format.md, without the library, as its writers never do."""

from __future__ import annotations

import base64
import json
import random
import re
import struct
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import xxhash
from partgen import MadePart, arrange, fill, specification, thing, write
from partgen_bytes import Col, Spec, in_order
from reference_rules import wide_digest

__all__ = ["MadeDirectory", "generate_directory", "publish"]

MARK = {"unirecord:column_part": True}


@dataclass
class MadeDirectory:
    """What was written, and the rows that any reader must find; ``spec`` has its columns, index and metadata."""

    path: Path
    spec: Spec
    rows: list[dict[str, Any]] = field(default_factory=list)
    manifest: dict[str, Any] = field(default_factory=dict)


def generate_directory(seed: int, path: Path, like: MadeDirectory | None = None) -> MadeDirectory:
    """Write the legal directory number `seed`; with the columns, index and metadata of `like`."""
    r = random.Random(f"directory {seed}")
    spec = specification(r, 5)
    made = MadeDirectory(path, spec if like is None else like.spec)
    path.mkdir(parents=True)
    entries, layouts = [], []
    numbers = r.sample(range(10 ** r.choice([2, 6, 11])), 40)
    for _ in range(r.choice([1, 2, 3, 5])):
        rows = r.choice([0, 1, 2, r.randint(3, 40)])
        entry, values = (_layered if r.random() < 0.3 else _plain)(r, made, rows, numbers, layouts)
        gone = _deletions(r, path, entry, rows) if rows and r.random() < 0.3 else set()
        entries.append(entry)
        made.rows += [row for number, row in enumerate(values) if number not in gone]
    made.manifest = _manifest(r, made.spec, entries, layouts, 10**11 + 1)
    publish(path, made.manifest)
    return made


def publish(path: Path, manifest: dict[str, Any]) -> None:
    """Writes the manifest with its digest, in one of the ways in which JSON can be written."""
    r = random.Random(repr(manifest))
    content = list({**manifest, "digest": "0" * 16}.items())
    r.shuffle(content)
    content.sort(key=lambda item: item[0] != "digest")
    text = json.dumps(
        dict(content),
        ensure_ascii=r.random() < 0.5,
        indent=r.choice([None, None, 1, "\t"]),
        separators=r.choice([(",", ":"), (", ", " : ")]),
    )
    # the beginning alone has one form
    begun = re.sub(r'^\{\s*"digest"\s*:\s*', '{"digest":', text)
    whole = begun.encode() + r.choice([b"", b"\n", b" \r\n"])
    digest = f"{xxhash.xxh3_64_intdigest(whole):016x}".encode()
    (path / "manifest.json").write_bytes(whole[:11] + digest + whole[27:])


def _wire(columns: list[Col]) -> list[list[Any]]:
    return [[c.name, c.kind, c.shape, *([in_order(c.said)] if c.said else [])] for c in columns]


def _manifest(
    r: random.Random, spec: Spec, entries: list[dict[str, Any]], layouts: list[Any], next_part: int
) -> dict[str, Any]:
    generation = r.randint(1, 10**6)
    user = msgpack.packb(spec.user)
    found = {
        "format": "unirecord",
        "version": 1,
        "id": r.randbytes(16).hex(),
        "generation": generation,
        "next_part": next_part,
        "schema": _wire(spec.columns),
        "index": spec.index,
        "metadata": None if spec.user is None and r.random() < 0.5 else base64.b64encode(user).decode(),
        "parts": entries,
        "created_by": r.choice(["somebody else", "", 'é\u0001"\\']),
    }
    optional = r.choice(
        [{}, {"of later": {"x": 1.5, "y": [None, True, 'ü\u0001"\\\n😀'], "z": 1e16, "w": 1.5e-05}}]
    )
    if r.random() < 0.5:
        found["publication"] = {
            "command": "other-tool",
            "when": "2026-11-20T08:00:03Z",
            "first": r.randint(1, generation),
        }
    needed = ["columns"] * bool(layouts)
    needed += [key for key in ("deletions", "patch") if any(key in entry for entry in entries)]
    needed = [{"patch": "patches"}.get(key, key) for key in needed]
    return {
        **found,
        **({"optional": optional} if optional else {}),
        **({"layouts": layouts} if layouts else {}),
        **({"required": needed} if needed else {}),
    }


def _written(
    r: random.Random, path: Path, made: MadePart, numbers: list[int], index: list[str]
) -> dict[str, Any]:
    """Writes a part under a name of its own; what a manifest says of the file."""
    made.spec.index = index
    number = numbers.pop()
    made.path = path / f"part-{number:06d}-{made.spec.id[:4].hex()}.urec"
    write(made)
    types = msgpack.packb([entry[:3] for entry in _wire(made.spec.columns)])
    return {
        "name": made.path.name,
        "id": made.spec.id.hex(),
        "rows": len(made.raw),
        "bytes": len(made.data),
        "index_bytes": len(made.index),
        "schema": wide_digest(types).hex(),
        "content": made.data[-24:-8].hex(),
    }


def _spec(r: random.Random, columns: list[Col], user: Any, rows: int) -> Spec:
    spec = Spec(r.randbytes(16), [replace(c, codec=0, dictionary=b"") for c in columns], user=user)
    arrange(r, spec, rows)
    return spec


def _plain(
    r: random.Random, made: MadeDirectory, rows: int, numbers: list[int], layouts: list[Any]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A part of the dataset's own columns."""
    part = MadePart(made.path, _spec(r, made.spec.columns, made.spec.user, rows), [])
    fill(r, part, rows)
    return _written(r, made.path, part, numbers, made.spec.index), part.rows


def _layered(
    r: random.Random, made: MadeDirectory, rows: int, numbers: list[int], layouts: list[Any]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A part whose columns lie in several files, under other names, beside some that nobody reads."""
    columns = made.spec.columns
    in_file = [r.randrange(3) for _ in columns]
    files, places, values = [], {}, [dict[str, Any]() for _ in range(rows)]
    patch = b""
    for number in (0, *sorted(set(in_file) - {0})):
        mine = [i for i, file in enumerate(in_file) if file == number]
        r.shuffle(mine)
        stored = [
            replace(columns[i], name=f"was {i}", annotations=r.choice([{}, {"unit": "s"}])) for i in mine
        ]
        if not mine or r.random() < 0.3:
            stored.append(Col("nobody reads", "int16"))
        for place, i in enumerate(mine):
            places[i] = [len(files), place]
        user = MARK if files else thing(r)
        part = MadePart(made.path, _spec(r, stored, user, rows), [])
        fill(r, part, rows)
        for row, value in zip(values, part.rows, strict=True):
            row.update({columns[i].name: value[f"was {i}"] for i in mine})
        index = [c.name for c in stored if not c.is_blob and r.random() < 0.3]
        files.append((_written(r, made.path, part, numbers, index), _wire(part.spec.columns)))
        for place, i in enumerate(mine):
            if rows and not stored[place].is_blob and stored[place].name not in index:
                patch += _table(part, len(files) - 1, place, values, columns[i].name)
    first, *others = (entry for entry, _ in files)
    first["layout"] = len(layouts)
    first["column_files"] = [
        {key: entry[key] for key in ("name", "id", "bytes", "index_bytes", "content")} for entry in others
    ]
    if patch:
        first["patch"] = base64.b64encode(patch).decode()
    layouts.append(
        {"files": [wire for _, wire in files], "columns": [places[i] for i in range(len(columns))]}
    )
    return first, [{c.name: row[c.name] for c in columns} for row in values]


def _table(part: MadePart, file: int, place: int, values: list[dict[str, Any]], name: str) -> bytes:
    """Some rows get, by a patch, the value that another one has, for which there is room; also in ``values``."""
    r, column = random.Random(f"{part.spec.id!r} {place}"), part.spec.columns[place]
    widths = {len(row[place]) for row in part.raw if row[place] is not None}
    if column.kind.startswith("string") or not widths or max(widths) > 8 or r.random() < 0.5:
        return b""
    width, rows = max(widths), sorted(r.sample(range(len(part.raw)), r.randint(1, len(part.raw))))
    cells = []
    for row in rows:
        other = r.randrange(len(part.raw))
        cells.append(part.raw[other][place])
        values[row][name] = part.rows[other][column.name]
    head = struct.pack("<4I", file, place, len(rows), width) + np.array(rows, "<u8").tobytes()
    return head + bytes(cell is not None for cell in cells) + b"".join(cell or bytes(width) for cell in cells)


def _deletions(r: random.Random, path: Path, entry: dict[str, Any], rows: int) -> set[int]:
    """Some rows of the part are deleted."""
    gone = sorted(r.sample(range(rows), r.randint(1, rows)))
    form = 4 if 4 * len(gone) < 8 * -(-rows // 64) else 0
    content = np.array(gone, "<u4").tobytes()
    if form == 0:
        bits = np.zeros(-(-rows // 64) * 64, bool)
        bits[gone] = True
        content = np.packbits(bits, bitorder="little").tobytes()
    head = struct.pack(
        "<8sIIQQ16s16x", b"\x89URDL\r\n\x1a", 1, form, rows, len(gone), bytes.fromhex(entry["id"])
    )
    name = f"{entry['name']}.del-{r.choice([1, 123456789]):06d}"
    (path / name).write_bytes(head + content)
    digest = wide_digest(head + content).hex()
    entry["deletions"] = {"name": name, "rows": len(gone), "bytes": len(head + content), "digest": digest}
    return set(gone)
