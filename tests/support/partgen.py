"""Random legal parts from docs/spec/format.md, without the library: `python tests/support/partgen.py SEED DIR`."""

from __future__ import annotations

import random
import string
import struct
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
from msgpack_encodings import packed_otherwise
from partgen_bytes import CODES, DTYPES, Col, Spec, data_file, index_file, later

EDGE_FLOATS = {
    2: [0x0000, 0x8000, 0x7C00, 0xFC00, 0x7E01, 0xFE7F, 0x0001, 0x3C00],
    4: [0x00000000, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00001, 0xFFFFFFFF, 0x00000001, 0x3F800000],
    8: [0, 1 << 63, 0x7FF0 << 48, 0xFFF0 << 48, (0x7FF8 << 48) + 7, (1 << 64) - 1, 1, 0x3FF0 << 48],
}
WORDS = [
    "",
    "a",
    "b",
    "ab",
    "\0",
    "a\0b",
    "é",
    "e\u0301",
    "\U0001f600",
    "\uffff",
    "\u4e2d\u6587",
    "z" * 300,
    "A",
    "Z",
]


@dataclass
class MadePart:
    """What was written, and what any reader must find."""

    path: Path
    spec: Spec
    raw: list[list[bytes | None]]  # per row and column: stored bytes, None = null
    rows: list[dict[str, Any]] = field(default_factory=list)
    data: bytes = b""
    index: bytes = b""


def scalar(r: random.Random, name: str) -> np.generic:
    dtype = DTYPES[name]
    if name == "bool":
        return np.bool_(r.random() < 0.5)
    size = dtype.itemsize
    if dtype.kind == "f":
        bits = r.choice(EDGE_FLOATS[size]) if r.random() < 0.5 else r.getrandbits(8 * size)
        return np.frombuffer(bits.to_bytes(size, "little"), dtype)[0]
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    return dtype.type(r.choice([low, high, 0, 1, max(low, -1), r.randint(low, high), r.randint(0, 5)]))


def array(r: random.Random, column: Col, biggest: int) -> np.ndarray[Any, Any]:
    shape = [r.choice([0, 1, r.randint(0, biggest)]) if d < 0 else d for d in column.shape or ()]
    dtype = DTYPES[column.base]
    count = int(np.prod(shape))
    if column.base == "bool":
        return np.array([r.random() < 0.5 for _ in range(count)], "?").reshape(shape)
    return np.frombuffer(r.randbytes(count * dtype.itemsize), dtype).reshape(shape).copy()


def text(r: random.Random) -> str:
    if r.random() < 0.6:
        return r.choice(WORDS)
    return "".join(r.choice(string.ascii_letters + "éß中😀\0") for _ in range(r.randint(0, 30)))


def thing(r: random.Random, depth: int = 0) -> Any:
    kind = r.randint(0, 10 if depth < 3 else 6)
    if kind == 7:
        return [thing(r, depth + 1) for _ in range(r.randint(0, 3))]
    if kind == 8:
        return {text(r)[:20]: thing(r, depth + 1) for _ in range(r.randint(0, 3))}
    if kind == 9:
        return msgpack.ExtType(r.randint(0, 127), r.randbytes(r.choice([0, 1, 2, 4, 8, 16, 17, 300])))
    if kind == 10:
        seconds = r.choice([0, -1, 2**32, 2**34, -(2**40), 2**62, r.randint(0, 2**33)])
        return msgpack.Timestamp(seconds, r.choice([0, 0, 123_456_000, 999_999_999]))
    simple = [
        None,
        True,
        r.randint(-(2**63), 2**64 - 1),
        r.random(),
        text(r),
        r.randbytes(r.randint(0, 9)),
        False,
    ]
    return simple[kind]


def value(r: random.Random, column: Col, biggest: int) -> tuple[Any, bytes | None]:
    """One value of the column and its stored bytes."""
    if column.nullable and r.random() < 0.3:
        return None, None
    if (found := later(column.base)) is not None:
        raw = r.randbytes(found[1] or r.randint(0, 40))
        return raw, raw
    if column.shape is not None:
        a = array(r, column, biggest)
        free = [n for n, d in zip(a.shape, column.shape, strict=True) if d < 0]
        return a, a.tobytes() + (struct.pack(f"<{len(free)}Q", *free) if len(free) > 1 else b"")
    if column.base in ("string", "text"):
        s = text(r)
        return s, s.encode()
    if column.base == "bytes":
        size = r.choice([0, 1, 63, 64, 65, r.randint(0, 300)]) if biggest < 100 else r.choice([0, 70_000])
        b = r.randbytes(size)
        return b, b
    if column.base == "object":
        o = thing(r)
        return o, msgpack.packb(o)
    v = scalar(r, column.base)
    if column.near is not None:
        v = DTYPES[column.base].type(column.near + int.from_bytes(v.tobytes(), "little") % 6)
    return v, v.tobytes()


def shape(r: random.Random, variable: bool) -> list[int]:
    dims = [r.randint(1, 4) for _ in range(r.randint(1, 3))]
    if variable:
        for i in r.sample(range(len(dims)), r.randint(1, len(dims))):
            dims[i] = -1
    return dims


def column(r: random.Random, i: int, kind: str) -> Col:
    odd = [f"é{i}" + "n" * r.randint(0, 240), f"a b-{i}", f'"{i}\\', f"`{i}", f"\u4e2d\u200b{i}"]
    name = r.choice(["c", "col", "x"]) + str(i) if r.random() < 0.9 else r.choice(odd)
    scalars = [n for n in CODES if CODES[n] <= 12 or n == "string"]
    if kind == "scalar":
        return Col(name, r.choice(scalars + ["string"] * 3), None, r.random() < 0.4)
    if kind == "fixed":
        return Col(name, r.choice([n for n in CODES if CODES[n] <= 15]), shape(r, False), r.random() < 0.3)
    if r.random() < 0.5:
        return Col(name, r.choice(["bytes", "text", "object"]), None, r.random() < 0.3)
    return Col(name, r.choice([n for n in CODES if CODES[n] <= 15]), shape(r, True), r.random() < 0.3)


def logical(r: random.Random, c: Col) -> dict[str, Any]:
    """A logical type that may lie over a column, or one of a later version."""
    unit, last = r.choice(["us", "ns"]), (c.shape or [0])[-1]
    found: list[dict[str, Any]] = [{"type": "of a later version", "how": [None, 1.5]}]
    if c.base == "int64":
        found += [
            {"type": "timestamp", "unit": unit},
            {"type": "timestamp", "unit": "s", "zone": "Europe/Paris"},
        ]
        found += [{"type": "time", "unit": unit}, {"type": "duration", "unit": unit}]
        found += [{"type": "decimal", "precision": 18, "scale": 3}] if c.shape is None else []
    if c.base == "int32":
        found += [{"type": "date"}, {"type": "time", "unit": "ms"}]
    if c.base.removeprefix("u").startswith("int"):
        found.append({"type": "class", "names": ["é", "", "\U0001f600"]})
    if c.base == "bytes":
        found.append({"type": "media", "media": r.choice(["image/jpeg", "image/*"])})
    if last == 4 and c.base not in ("bool", "complex64", "complex128"):
        found.append({"type": "boxes", "form": r.choice(["xywh", "xyxy", "cxcywh"])})
    return r.choice(found)


def specification(r: random.Random, rows: int) -> Spec:
    """Columns, and how they are stored."""
    style = r.choice(["scalar", "fixed", "variable", "fixed", "variable", "mixed"])
    kinds = ["scalar"] * r.randint(1 if style == "scalar" else 0, 4)
    kinds += {"scalar": [], "mixed": ["fixed", "variable"]}.get(style, [style]) * (r.randint(1, 3))
    r.shuffle(kinds)
    columns = [column(r, i, kind) for i, kind in enumerate(kinds)]
    for c in columns:
        if r.random() < 0.1:
            c.annotations = {
                "unit": "ms",
                "words": [s for s in WORDS if s.isprintable()],
                "range": [0, 0.5, None, {"a": True}],
            }
        elif r.random() < 0.2:
            c.annotations = {**r.choice([{}, {"unit": "ms"}]), "logical": logical(r, c)}
    spec = Spec(r.randbytes(16), columns)
    spec.index = [c.name for c in columns if not c.is_blob and r.random() < 0.4]
    spec.user = r.choice([None, thing(r), {"note": "made by partgen"}])
    cut(random.Random(spec.id[::2]), spec)
    arrange(r, spec, rows)
    return spec


def arrange(r: random.Random, spec: Spec, rows: int) -> None:
    """What a writer may choose: how so many rows are stored, and what it adds that nobody need read."""
    columns = spec.columns
    style = "scalar" if not spec.blobs else "fixed" if spec.row_bytes else "variable"
    spec.align = 2 ** r.randint(0, 6)
    regular = style in ("scalar", "fixed")
    spec.unit_rows = (
        0
        if style == "scalar"
        else r.choice([0, 1, 2, 4, 16])
        if style == "fixed"
        else r.choice([0, 1, 2, 8, 64])
    )
    sizes = [r.choice([1, 2, 3, 7, 8, 9, 30, 1000] if rows < 100 else [100, 1000, 8192, 10**6])]
    if regular:
        spec.group_rows = sizes[0] * max(spec.unit_rows, 1)
    spec.groups = []
    while (left := rows - sum(spec.groups)) > 0:
        size = spec.group_rows or r.randint(1, sizes[0]) * max(spec.unit_rows, 1)
        spec.groups.append(min(left, size))
    if r.random() < 0.3:
        spec.unknown = {text(r) + "\x01" * 3: thing(r) for _ in range(r.randint(1, 3))}
    if r.random() < 0.2:
        spec.optional = r.choice([1, 1 << 31, 0xFFFFFFFF])
    spec.zone_rows = {c.name: r.choice([1, 7, 4096, 10**12]) for c in columns if r.random() < 0.2}
    spec.ancillary = {
        (r.randint(0x8000, 0xFFFF), r.choice([0, 1, 77, 65535])): r.randbytes(r.choice([0, 1, 64, 1000]))
        for _ in range(r.choice([0, 0, 1, 3]))
    }
    for number in range(len(spec.groups) + 1):
        if r.random() < 0.1:
            spec.pages[number] = [
                (r.randint(0x8000, 0xFFFF), r.randbytes(r.choice([0, 1, 64, 999])))
                for _ in range(r.choice([1, 1, 2]))
            ]
    spec.plain = {c.name for c in columns if c.base == "string" and r.random() < 0.4}
    compress(random.Random(spec.id), spec)
    narrow(random.Random(spec.id + b"narrow"), spec)
    other = random.Random(spec.id[::-1])
    spec.page_codecs = other.choice([[], [1], [1, 0]])
    numbers = [c.name for c in columns if c.base in DTYPES and not c.is_blob and c.base != "bool"]
    spec.coded = {name for name in numbers if other.random() < 0.4}
    if other.random() < 0.5:
        spec.encodings, spec.writes = other.getrandbits(30), other.choice([1, 2, 65535])


def narrow(r: random.Random, spec: Spec) -> None:
    """Integers that lie close together in some columns, at the ends of their type, too."""
    for c in spec.columns:
        if c.is_blob or c.base not in DTYPES or DTYPES[c.base].kind not in "iu" or r.random() < 0.4:
            continue
        low, high = int(np.iinfo(DTYPES[c.base]).min), int(np.iinfo(DTYPES[c.base]).max)
        c.near = r.choice([low, high - 5, r.randint(low, high - 5), max(low, -2), 0])


def compress(r: random.Random, spec: Spec) -> None:
    """Codecs for some blob columns of some parts."""
    if not spec.blobs or r.random() < 0.6:
        return
    for i in spec.blobs:
        c = spec.columns[i]
        c.codec = r.choice([0, 1, 1, 2]) if c.shape is not None else r.choice([0, 1, 1])
        if c.codec and r.random() < 0.5:
            c.dictionary = "".join(r.choice(WORDS) for _ in range(r.randint(1, 9))).encode() + r.randbytes(9)
    if any(spec.columns[i].codec for i in spec.blobs):
        spec.group_rows = 0


def cut(r: random.Random, spec: Spec) -> None:
    """Chunks for some blob columns of some parts; of one chunk, and of one element, too."""
    if r.random() < 0.5:
        return
    for c in (spec.columns[i] for i in spec.blobs):
        if r.random() < 0.4:
            continue
        if c.shape is not None and c.shape.count(-1) < 2:
            c.chunks = [r.randint(1, 3 if d == -1 else d) for d in c.shape]
        elif c.base in ("bytes", "text") and c.shape is None:
            c.chunks = [r.choice([1, 2, 7, 64, 1000])]


def add_later(r: random.Random, spec: Spec) -> None:
    """Columns of types of a later version among the others: scalars of any width, and blobs."""
    for number in range(r.randint(1, 3)):
        is_blob = bool(spec.blobs) and r.random() < 0.5
        width = 2 ** r.randint(0, 6)
        base = f"type{r.randint(128, 191)}" if is_blob else f"type{r.randint(64, 127)}:{width}"
        found = Col(
            f"later {number}", base, None, r.random() < 0.4, codec=r.choice([0, 0, 1]) if is_blob else 0
        )
        if is_blob and spec.row_bytes:
            spec.group_rows = 0  # rows are of many sizes now
        spec.columns.insert(r.randint(0, len(spec.columns)), found)


def generate(
    seed: int, folder: Path, name: str = "part.urec", *, rows: int | None = None, later: bool = False
) -> MadePart:
    """Write the legal part number `seed` into `folder` as `name` and its index; `later`: with unknown types."""
    r = random.Random(seed)
    biggest = 200 if seed % 50 == 7 else 6
    drawn = r.choice([0, 1, 2, r.randint(3, 40), r.randint(3, 40)])
    if seed % 25 == 3:
        drawn = r.choice([8191, 8192, 8193, 300])
    rows = drawn if rows is None else rows
    spec = specification(r, rows)
    if later:
        add_later(random.Random(f"later {seed}"), spec)
    made = MadePart(Path(folder) / name, spec, [])
    fill(r, made, rows, biggest)
    return write(made)


def fill(r: random.Random, made: MadePart, rows: int, biggest: int = 6) -> None:
    """So many rows; objects are encoded as all else."""
    spec = made.spec
    for _ in range(rows):
        pairs = [value(r, c, biggest) for c in spec.columns]
        made.raw.append([stored for _, stored in pairs])
        made.rows.append({c.name: v for c, (v, _) in zip(spec.columns, pairs, strict=True)})
    if spec.encodings is None:
        return
    other = random.Random(spec.encodings + 2)
    for row, values in zip(made.raw, made.rows, strict=True):
        for i in spec.blobs:
            if spec.columns[i].base == "object" and row[i] is not None:
                row[i] = packed_otherwise(values[spec.columns[i].name], other)


def write(made: MadePart) -> MadePart:
    """Write `made` (its spec and raw rows) to its path."""
    made.data, facts = data_file(made.spec, made.raw)
    made.index = index_file(made.spec, made.raw, made.data, facts)
    made.path.write_bytes(made.data)
    Path(f"{made.path}.idx").write_bytes(made.index)
    return made


if __name__ == "__main__":
    part = generate(int(sys.argv[1]), Path(sys.argv[2]), f"part-{sys.argv[1]}.urec")
    print(part.path, len(part.raw), "rows", [(c.name[:12], c.kind, c.shape) for c in part.spec.columns])
