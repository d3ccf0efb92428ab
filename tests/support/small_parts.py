"""Small parts that hold every kind of column, padding and section: the victims of the corruption tests."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
from partgen import MadePart, value, write
from partgen_bytes import CODES, Col, Spec

SCALARS = [n for n in CODES if CODES[n] <= 12]


def _fill(path: Path, spec: Spec, rows: int, seed: int) -> MadePart:
    r = random.Random(seed)
    made = MadePart(path, spec, [])
    for _ in range(rows):
        pairs = [value(r, c, 3) for c in spec.columns]
        made.raw.append([stored for _, stored in pairs])
        made.rows.append({c.name: v for c, (v, _) in zip(spec.columns, pairs, strict=True)})
    return write(made)


def variable_part(path: Path, *, part_id: bytes = b"v" * 16, seed: int = 1, unit_rows: int = 0) -> MadePart:
    """All column types; rows of differing size, in two groups."""
    columns = [Col(f"s{i}", name, None, i % 2 == 1) for i, name in enumerate(SCALARS)]
    columns += [
        Col("word", "string", None, True),
        Col("plain", "string"),
        Col("bytes", "bytes"),
        Col("text", "text"),
    ]
    columns += [Col("object", "object"), Col("fixed", "int16", [3]), Col("free", "bfloat16", [-1, 2])]
    columns += [Col("free2", "complex64", [-1, -1])]
    spec = Spec(
        part_id, columns, ["s5", "s11", "word", "plain"], {"by": "a test"}, align=8, unit_rows=unit_rows
    )
    spec.groups, spec.plain = [3, 2], {"plain"}
    if unit_rows > 1:
        spec.groups = [2 * unit_rows, unit_rows, 1]
    return _fill(path, spec, sum(spec.groups), seed)


def fixed_part(path: Path, *, part_id: bytes = b"f" * 16, seed: int = 2, unit_rows: int = 2) -> MadePart:
    """Rows of one size with padding inside, in groups of four; the last group and the last unit are short."""
    columns = [Col("label", "int32", None, True), Col("a", "uint8", [5]), Col("b", "float16", [2, 2])]
    spec = Spec(part_id, columns, ["label"], None, align=16, unit_rows=unit_rows, group_rows=4)
    spec.groups = [4, 3]
    return _fill(path, spec, 7, seed)


def scalar_part(path: Path, *, part_id: bytes = b"s" * 16, seed: int = 3) -> MadePart:
    """No blob columns."""
    columns = [Col("x", "float64"), Col("name", "string"), Col("flag", "bool", None, True)]
    spec = Spec(part_id, columns, ["x", "name"], [1, 2], group_rows=4)
    spec.groups = [4, 4, 1]
    return _fill(path, spec, 9, seed)


def nullable_part(path: Path, *, part_id: bytes = b"n" * 16, seed: int = 4, unit_rows: int = 2) -> MadePart:
    """Blob columns of each kind that may be null, beside one that may not; rows of differing size."""
    columns = [Col("n", "int32", None, True), Col("bytes", "bytes", None, True), Col("there", "bytes")]
    columns += [Col("text", "text", None, True), Col("object", "object", None, True)]
    columns += [Col("fixed", "int16", [3], True), Col("free", "float32", [-1, 2], True)]
    columns += [Col("free2", "uint8", [-1, -1], True)]
    spec = Spec(part_id, columns, ["n"], None, align=4, unit_rows=unit_rows)
    spec.groups = [2 * max(unit_rows, 1), 2 * max(unit_rows, 1), 1]
    return _fill(path, spec, sum(spec.groups), seed)


def nullable_fixed_part(
    path: Path, *, part_id: bytes = b"g" * 16, seed: int = 5, unit_rows: int = 2
) -> MadePart:
    """Arrays of fixed shape that may be null, in rows of one size."""
    columns = [Col("a", "uint8", [5], True), Col("b", "float16", [2, 2]), Col("c", "int64", [1], True)]
    spec = Spec(part_id, columns, [], None, align=16, unit_rows=unit_rows, group_rows=4)
    spec.groups = [4, 4, 2]
    return _fill(path, spec, 10, seed)


def later_part(path: Path, *, part_id: bytes = b"l" * 16, seed: int = 7, unit_rows: int = 2) -> MadePart:
    """Scalars and blobs of types of a later version, some compressed, beside columns of this one."""
    columns = [Col("n", "int32"), Col("big", "type70:16"), Col("blob", "type130"), Col("word", "string")]
    columns += [Col("tiny", "type127:1", None, True), Col("packed", "type191", None, True, codec=1)]
    columns += [Col("bytes", "bytes"), Col("other", "text", codec=33), Col("last", "float32")]
    spec = Spec(part_id, columns, ["n"], None, unit_rows=unit_rows)
    spec.groups = [4, 3]
    return _fill(path, spec, 7, seed)


def compressed_part(path: Path, *, part_id: bytes = b"z" * 16, seed: int = 6, unit_rows: int = 2) -> MadePart:
    """Compressed columns of each kind, with dictionaries and without, beside a plain one; rows of differing size."""
    columns = [Col("n", "int32"), Col("plain", "bytes")]
    columns += [Col("text", "text", None, True, codec=1, dictionary=b"light paper winter river stone")]
    columns += [Col("fixed", "int32", [12], codec=2, dictionary=bytes(range(40)))]
    columns += [Col("free", "int16", [-1, 4], True, codec=2), Col("bytes", "bytes", codec=1)]
    spec = Spec(part_id, columns, ["n"], None, unit_rows=unit_rows)
    spec.groups = [4, 3]
    made, r = MadePart(path, spec, []), random.Random(seed)
    for i in range(7):
        text = None if i == 3 else "river stone winter light " * (i % 4)
        fixed, free = np.arange(i, i + 12, dtype=np.int32), np.full((3 * (i % 3), 4), i, np.int16)
        noise = r.randbytes(9 * i)
        row: dict[str, Any] = {"n": np.int32(i), "plain": b"p" * i, "text": text, "fixed": fixed}
        row |= {"free": None if i == 4 else free, "bytes": noise}
        made.rows.append(row)
        made.raw.append([_bytes_of(v) for v in row.values()])
    return write(made)


def chunked_part(path: Path, *, part_id: bytes = b"c" * 16, seed: int = 8, unit_rows: int = 2) -> MadePart:
    """Columns in chunks, plain and compressed, with nulls and values of one chunk, beside one that is whole."""
    columns = [Col("n", "int32"), Col("plain", "uint16", [5, 6], chunks=[2, 4])]
    columns += [Col("field", "float32", [3, 16], True, codec=2, chunks=[1, 16])]
    columns += [Col("log", "bytes", None, True, chunks=[7]), Col("whole", "bytes")]
    columns += [Col("text", "text", None, codec=1, dictionary=b"light paper winter river", chunks=[32])]
    spec = Spec(part_id, columns, ["n"], None, unit_rows=unit_rows)
    spec.groups, spec.page_codecs = [4, 3], [0, 1]
    made, r = MadePart(path, spec, []), random.Random(seed)
    for i in range(7):
        field = None if i == 2 else np.full((3, 16), i, np.float32)
        row: dict[str, Any] = {"n": np.int32(i), "plain": np.arange(30, dtype=np.uint16).reshape(5, 6) * i}
        row |= {"field": field, "log": None if i == 5 else r.randbytes(9 * i), "whole": b"w" * i}
        row["text"] = "winter river paper light " * (2 * (i % 4))
        made.rows.append(row)
        made.raw.append([_bytes_of(v) for v in row.values()])
    return write(made)


def _bytes_of(v: Any) -> bytes | None:
    if v is None or isinstance(v, bytes):
        return v
    return v.encode() if isinstance(v, str) else bytes(v.tobytes())


def packed_part(path: Path, *, part_id: bytes = b"p" * 16, seed: int = 7) -> MadePart:
    """Columns that are packed, at the ends of their types too, or have a dictionary; pages with a codec and without."""
    ends = {"int64": -(2**63), "uint64": 2**64 - 6, "int32": 1_000, "uint16": 65_530, "int8": -3, "uint32": 0}
    columns = [Col(f"c{i}", base, None, i % 2 == 1, near=near) for i, (base, near) in enumerate(ends.items())]
    columns += [Col("flag", "bool"), Col("flags", "bool", None, True), Col("word", "string", None, True)]
    columns += [
        Col("wide", "int64"),
        Col("b", "bytes"),
        Col("real", "float32", None, True),
        Col("few", "int64", near=-3),
    ]
    spec = Spec(part_id, columns, ["c0", "c3", "word", "real"], None, unit_rows=2)
    spec.coded = {"real", "few"}
    spec.groups, spec.page_codecs = [40, 38], [1, 0]
    return _fill(path, spec, 78, seed)
