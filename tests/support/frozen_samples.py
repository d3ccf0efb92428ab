"""Writes tests/data/version1 anew, until the format is released: `python tests/support/frozen_samples.py`.

Beside each part lies NAME.rows, a msgpack file: stored bytes of every value, None for null. Once a version has been
released, its samples are never written again.
"""

from __future__ import annotations

import base64
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgpack
from dirgen import publish
from partgen import MadePart, fill, write
from partgen_bytes import Col, Spec, in_order
from reference_rules import wide_digest
from small_parts import (
    chunked_part,
    compressed_part,
    fixed_part,
    later_part,
    nullable_fixed_part,
    nullable_part,
    packed_part,
    scalar_part,
    variable_part,
)

FOLDER = Path(__file__).parents[1] / "data" / "version1"
LOGICAL: dict[str, tuple[str, list[int] | None, dict[str, Any]]] = {
    "seen": ("int64", None, {"type": "timestamp", "unit": "us", "zone": "Europe/Paris"}),
    "day": ("int32", None, {"type": "date"}),
    "hour": ("int32", None, {"type": "time", "unit": "ms"}),
    "took": ("int64", [-1], {"type": "duration", "unit": "ns"}),
    "price": ("int64", None, {"type": "decimal", "precision": 18, "scale": 2}),
    "sum": ("int64", [2], {"type": "decimal", "precision": 38, "scale": 0}),
    "label": ("uint8", None, {"type": "class", "names": ["cat", "dög"]}),
    "photo": ("bytes", None, {"type": "media", "media": "image/*"}),
    "boxes": ("float32", [-1, 4], {"type": "boxes", "form": "xyxy"}),
    "key": ("uint8", [16], {"type": "uuid"}),
    "later": ("int16", None, {"type": "of a later version", "with": [1.5, None]}),
}


def logical_part(path: Path) -> MadePart:
    """A column of each logical type, and one of a later version."""
    columns = [
        Col(name, base, shape, name in ("seen", "photo"), {"logical": said})
        for name, (base, shape, said) in LOGICAL.items()
    ]
    spec = Spec(b"o" * 16, columns, ["seen", "label"], unit_rows=2, groups=[4, 3])
    made = MadePart(path, spec, [])
    fill(random.Random(8), made, 7)
    return write(made)


def objects_part(path: Path) -> MadePart:
    """Objects with times and extensions, in encodings of any length."""
    spec = Spec(
        b"j" * 16, [Col("n", "int32"), Col("meta", "object", None, True)], ["n"], groups=[40], encodings=3
    )
    made = MadePart(path, spec, [])
    fill(random.Random(9), made, 40)
    return write(made)


def later_things_part(path: Path) -> MadePart:
    """Sections, pages, keys and bits of a later version."""
    made = nullable_part(path, part_id=b"L" * 16)
    made.spec.optional, made.spec.unknown, made.spec.writes = (
        1 << 31,
        {"of a later version": [1, {"x": None}]},
        2,
    )
    made.spec.ancillary = {(0x8000, 1): b"bloom", (0xFFFF, 65535): bytes(70)}
    made.spec.pages = {0: [(0x8000, b"before")], 3: [(0xFFFF, b""), (0x9000, bytes(99))]}
    return write(made)


def later_types_part(path: Path) -> MadePart:
    """Scalars and blobs of types of a later version, and codecs of this one."""
    made = later_part(path)
    made.spec.columns = [replace(column, codec=min(column.codec, 1)) for column in made.spec.columns]
    return write(made)


def empty_part(path: Path) -> MadePart:
    """No rows."""
    return write(MadePart(path, Spec(b"e" * 16, [Col("n", "int32"), Col("b", "bytes")], ["n"]), []))


PARTS: dict[str, Callable[[Path], MadePart]] = {
    "variable": variable_part,
    "units": partial(variable_part, part_id=b"u" * 16, unit_rows=2),
    "fixed": fixed_part,
    "scalar": scalar_part,
    "empty": empty_part,
    "compressed": compressed_part,
    "nullable": nullable_part,
    "nullable_fixed": nullable_fixed_part,
    "later": later_things_part,
    "later_types": later_types_part,
    "logical": logical_part,
    "objects": objects_part,
    "packed": packed_part,
    "chunked": chunked_part,
}


def write_set(folder: Path) -> None:
    """Two compressed parts with dictionaries of their own, annotations, and an entry of a later version."""
    folder.mkdir()
    entries, rows = [], []
    for number in range(2):
        part_id = bytes([number + 1]) * 16
        made = compressed_part(
            folder / f"part-{number:06d}-{part_id[:4].hex()}.urec", part_id=part_id, seed=10 + number
        )
        first, *others = made.spec.columns
        made.spec.columns = [replace(first, annotations={"words": ["cat", "dög"], "scale": 1e-05}), *others]
        made.spec.columns[2].dictionary += b"another" * number
        made.spec.user = {"made": "by a test"}
        write(made)
        rows += made.raw
        entries.append(
            {
                "name": made.path.name,
                "id": part_id.hex(),
                "rows": len(made.raw),
                "bytes": len(made.data),
                "index_bytes": len(made.index),
                "content": made.data[-24:-8].hex(),
            }
        )
    wire = [
        [c.name, c.kind, c.shape, *([in_order(c.annotations)] if c.annotations else [])]
        for c in made.spec.columns
    ]
    publish(
        folder,
        {
            "format": "unirecord",
            "version": 1,
            "id": b"a frozen dataset".hex(),
            "generation": 2,
            "next_part": 2,
            "schema": wire,
            "index": made.spec.index,
            "metadata": base64.b64encode(msgpack.packb(made.spec.user)).decode(),
            "parts": [{**entry, "schema": types_digest(wire)} for entry in entries],
            "created_by": "frozen_samples.py",
            "optional": {"later": [0.5, None]},
        },
    )
    (folder / "rows").write_bytes(msgpack.packb(rows))


def types_digest(wire: list[list[Any]]) -> str:
    return wide_digest(msgpack.packb([entry[:3] for entry in wire])).hex()


def main() -> None:
    """Write all of them."""
    shutil.rmtree(FOLDER)
    FOLDER.mkdir()
    for name, make in PARTS.items():
        made = make(FOLDER / f"{name}.urec")
        (FOLDER / f"{name}.rows").write_bytes(msgpack.packb(made.raw))
    write_set(FOLDER / "set")


if __name__ == "__main__":
    main()
