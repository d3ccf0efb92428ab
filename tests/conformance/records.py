"""Random datasets: a schema, the records that were written, and the parts they lie in."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import reference

from conformance.other_writer import write_otherwise
from unirecord import Writer, append

NUMBERS = [
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    "float16",
    "float32",
    "float64",
]
ELEMENTS = [*NUMBERS, "bool", "bfloat16", "complex64", "complex128"]
# What a column of times is declared as, and what NumPy has for it.
TIMES = {
    "timestamp[us, UTC]": "M8[us]",
    "timestamp[ns]": "M8[ns]",
    "duration[ms]": "m8[ms]",
    "date": "M8[D]",
}
TEXTS = ["", "a", "ab", "b", "é", "日本", "\U0001f600x", "a\x00b", "z" * 300]
KINDS = {
    "number": 5,
    "time": 2,
    "bool": 1,
    "string": 2,
    "bytes": 2,
    "text": 1,
    "fixed": 3,
    "free": 2,
    "inner": 1,
    "free2": 1,
    "object": 1,
}


SCALARS = frozenset({"number", "time", "bool", "string"})
SIZES = {
    "bulk": 2000,
    "large": 6000,
}  # "large": the package's writer gives a row that has it a digest of its own


@dataclass(frozen=True)
class Field:
    """A column of a random schema: what is declared, and which of KINDS it is."""

    name: str
    kind: str
    spec: Any
    nullable: bool = False

    @property
    def type(self) -> str:
        """The stored type without shape and without ``?``."""
        if self.kind == "time":
            return "int32" if self.time == "M8[D]" else "int64"
        return str(self.spec["type"] if isinstance(self.spec, dict) else self.spec).removesuffix("?")

    @property
    def time(self) -> str:
        """What NumPy has for a column of times."""
        return TIMES[self.spec.removesuffix("?")]

    @property
    def shape(self) -> tuple[int, ...]:
        """The declared shape of an array."""
        return tuple(self.spec["shape"])


@dataclass(frozen=True)
class Written:
    """What was written: ``path`` as a dataset takes it, rows and data file of each part, and every record in order."""

    path: Any
    fields: list[Field]
    parts: list[int]
    records: list[dict[str, Any]]
    files: tuple[Path, ...]


def write(number: int, directory: Path) -> Written:
    """Dataset ``number``, always the same."""
    pick = random.Random(f"conformance dataset {number}")
    large = pick.random() < 0.05  # orders of more than 2,048 rows are computed in another way
    fields = _fields(pick, 2 if large else pick.choice([0, 1, 3, 5, 8]))
    if large and pick.random() < 0.6:
        fields.append(Field("bulk", "bytes", "bytes"))  # of several blocks for ``shuffle="block"``
    form = pick.choice(["part", "list", "glob", "directory"])
    sizes = [pick.choice([1, 5, 11, 23]) for _ in range(1 if form == "part" else pick.randint(1, 5))]
    if large:
        sizes[0] += 2048
    if form in ("part", "list", "glob") and pick.random() < 0.3:
        sizes[pick.randrange(len(sizes))] = 0
    records = [{field.name: _value(field, pick, row) for field in fields} for row in range(sum(sizes))]
    path = _store(fields, sizes, records, form, directory, pick, random.Random(f"codecs {number}"))
    return Written(path, fields, sizes, records, _files(path, directory))


def write_large(number: int, directory: Path) -> Written:
    """A dataset with the column "large", for `damage`."""
    pick = random.Random(f"damaged conformance dataset {number}")
    fields = [*_fields(pick, pick.choice([0, 2, 4])), Field("large", "bytes", "bytes")]
    form = pick.choice(["part", "list", "directory"])
    sizes = [pick.choice([5, 11, 23]) for _ in range(1 if form == "part" else pick.randint(1, 3))]
    records = [{field.name: _value(field, pick, row) for field in fields} for row in range(sum(sizes))]
    path = _store(fields, sizes, records, form, directory, pick, random.Random(f"codecs {number}"))
    return Written(path, fields, sizes, records, _files(path, directory))


def damage(written: Written, pick: random.Random) -> set[int]:
    """The rows of which a byte has been changed, some and a run of neighbours, and those that share their digests."""
    rows = range(len(written.records))
    start = pick.choice(rows)
    changed = {*pick.sample(rows, 3), *rows[start : start + 6]}
    corrupt, first = set(changed), 0
    for file, size in zip(written.files, written.parts, strict=True):
        unit = reference.read_part(file, index=False).head.unit_rows if size else 0
        own = rows[first : first + size]
        for row in changed & {*own} if unit else ():
            begin = (row - first) // unit * unit
            corrupt |= {*own[begin : begin + unit]}
        first += size
    for file in written.files:
        raw = bytearray(file.read_bytes())
        for row in changed:
            at = raw.find(written.records[row]["large"])
            if at >= 0:
                raw[at + 100] ^= 4
        file.write_bytes(raw)
    return corrupt


def _files(path: Any, directory: Path) -> tuple[Path, ...]:
    """The data files in the order of the rows."""
    if path != directory / "set":
        return tuple(sorted(directory.glob("*.urec")))
    listed = json.loads((path / "manifest.json").read_text(encoding="utf-8"))
    return tuple(path / part["name"] for part in listed["parts"])


def _fields(pick: random.Random, more: int) -> list[Field]:
    """``n``, which numbers the rows, and ``more`` others."""
    fields = [Field("n", "number", "int64")]
    for position in range(more):
        kind = pick.choices(list(KINDS), list(KINDS.values()))[0]
        fields.append(_field(f"{kind}{position}", kind, pick))
    pick.shuffle(fields)
    return fields


def _field(name: str, kind: str, pick: random.Random) -> Field:
    nullable = pick.random() < 0.4
    null = "?" * nullable
    if kind in ("number", "bool", "string"):
        base = pick.choice(NUMBERS) if kind == "number" else kind
        return Field(name, kind, base + null, nullable)
    if kind == "time":
        return Field(name, kind, pick.choice([*TIMES]) + null, nullable)
    shapes = {"fixed": [[3], [2, 2], [1]], "free": [[-1], [-1, 2]], "inner": [[2, -1]], "free2": [[-1, -1]]}
    if kind in shapes:
        spec = {"type": pick.choice(ELEMENTS) + null, "shape": pick.choice(shapes[kind])}
        return Field(name, kind, spec, nullable)
    return Field(name, kind, kind + null, nullable)


def _value(field: Field, pick: random.Random, row: int) -> Any:
    if field.name == "n":
        return np.int64(row)
    if field.nullable and pick.random() < 0.3:
        return None
    if field.kind == "number":
        return _numbers(field.type, (), pick)[()]
    if field.kind == "time":
        most = int(np.iinfo(field.type).max)
        return np.array([pick.choice([0, 1, -7, most, -most])]).astype(field.time)[0]
    if field.kind == "bool":
        return np.bool_(pick.random() < 0.5)
    if field.kind in ("string", "text"):
        return pick.choice(TEXTS)
    if field.name in SIZES:
        return pick.randbytes(SIZES[field.name])
    if field.kind == "bytes":
        return pick.randbytes(pick.choice([0, 1, 7, 64, 3000]))
    if field.kind == "object":
        return pick.choice(
            [None, True, row, -0.0, "x", b"y", [1, [2.5, None]], {"a": {"b": row}, 3: b""}, {}]
        )
    size = pick.randint(0, 3)  # of all free dimensions: a ragged tensor of no rows could not say the others
    return _numbers(field.type, tuple(size if length == -1 else length for length in field.shape), pick)


def _numbers(type_: str, shape: tuple[int, ...], pick: random.Random) -> Any:
    dtype = np.dtype({"bfloat16": "uint16"}.get(type_, type_))
    count = int(np.prod(shape, dtype=int))
    if dtype.kind in "iu":
        edges = [0, 1, 7, int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)]
        return np.array([pick.choice(edges) for _ in range(count)], dtype).reshape(shape)
    if dtype.kind == "b":
        return np.array([pick.random() < 0.5 for _ in range(count)], dtype).reshape(shape)
    edges = [0.0, -0.0, 0.5, -1.5, 2.0, float("inf"), float("nan")]
    return np.array([pick.choice(edges) for _ in range(count)], dtype).reshape(shape)


def _stored(field: Field, pick: random.Random) -> Any:
    """What a part declares: blobs compressed or not, in each part anew, which no reader sees."""
    if field.kind in SCALARS or pick.random() < 0.6:
        return field.spec
    elements = isinstance(field.spec, dict) and field.type not in ("int8", "uint8", "bool")
    codec = pick.choice(["zstd", "zstd:1", *["shuffle+zstd"] * elements])
    return {**(field.spec if isinstance(field.spec, dict) else {"type": field.spec}), "codec": codec}


def _store(
    fields: list[Field],
    sizes: list[int],
    records: list[dict[str, Any]],
    form: str,
    directory: Path,
    pick: random.Random,
    codecs: random.Random,
) -> Any:
    scalars = [field.name for field in fields if field.kind in SCALARS]
    index = pick.sample(scalars, min(len(scalars), pick.randint(0, 2)))
    paths = [directory / f"{part}.urec" for part in range(len(sizes))]
    first = 0
    for part, size in enumerate(sizes):
        schema = {field.name: _stored(field, codecs) for field in fields}
        if form != "directory" and size < 100 and codecs.random() < 0.7:
            these = records[first : first + size]
            write_otherwise(paths[part], schema, these, index, codecs, alone=len(sizes) == 1)
            first += size
            continue
        if form != "directory":
            writer = Writer(paths[part], schema, index=index)
        else:
            writer = (
                append(directory / "set", schema) if part else Writer(directory / "set", schema, index=index)
            )
        with writer:
            for record in records[first : first + size]:
                writer.write(record)
        first += size
    return {
        "part": paths[0],
        "list": paths,
        "glob": str(directory / "*.urec"),
        "directory": directory / "set",
    }[form]
