"""What tests of sources share: the rows of a source, and what is left of a file that is cut or changed."""

from __future__ import annotations

import json
import pickle
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from image_folders import picture

from unirecord.convert.sources import (
    Options,
    Source,
    open_input,
    open_source,
    source_type,
)
from unirecord.errors import SchemaError

DATA = Path(__file__).parents[1] / "data"


def plain(value: Any) -> Any:
    """A value as plain Python: arrays as lists, views as bytes."""
    if isinstance(value, memoryview):
        return bytes(value)
    if value is np.ma.masked:
        return None
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def rows_of(source: Source) -> list[dict[str, Any]]:
    """Every row of a source; unit by unit in reverse, as workers may read them, gives the same."""
    found = [row for batch in source.batches() for row in _rows(batch.columns)]
    again = [
        [row for batch in source.batches_of(unit) for row in _rows(batch.columns)]
        for unit in source.units[::-1]
    ]
    apart = [row for rows in again[::-1] for row in rows]
    assert str(apart) == str(found)
    return found


def _rows(columns: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, map(plain, values), strict=True))


def rows_at(path: str | Path, **options: Any) -> list[dict[str, Any]]:
    """Every row of the source at a path."""
    return rows_of(open_source(str(path), **options))


def refusals(place: Path, kind: str, cuts: int, flips: int, seed: int = 0) -> int:
    """Read versions of a file that are cut off, or have some bytes changed, and return how many were refused.

    Each is read, or refused by its name, and nothing else.
    """
    whole = place.read_bytes()
    draw = random.Random(seed)
    errors: list[str] = []
    for i in range(cuts + flips):
        data = bytearray(whole)
        if i < cuts:
            del data[draw.randrange(len(whole)) :]
        for _ in range(0 if i < cuts else draw.choice((1, 1, 2, 8))):
            at = draw.randrange(min(len(data), draw.choice((64, 4096, len(data)))))
            data[at] = draw.choice((0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)))
        place.write_bytes(data)
        try:
            found = open_input(str(place))
            for batch in source_type(found, kind)(
                found, Options()
            ).batches():  # by no child, which costs a start each
                assert batch.rows
        except SchemaError as error:
            errors.append(str(error))
    place.write_bytes(whole)
    assert [error for error in errors if place.name not in error] == []
    return len(errors)


def idx(array: Any, code: int) -> bytes:
    return bytes((0, 0, code, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def cifar(folder: Path) -> Any:
    folder.mkdir()
    draw = np.random.default_rng(0)
    data = draw.integers(0, 256, (40, 3072), np.uint8)
    labels = draw.integers(0, 10, 40).tolist()
    for i in range(2):
        part = slice(20 * i, 20 * i + 20)
        content = {
            b"data": data[part],
            b"labels": labels[part],
            b"filenames": [b"x"] * 20,
            b"batch_label": b"a",
        }
        (folder / f"data_batch_{i + 1}").write_bytes(pickle.dumps(content, protocol=2))
    (folder / "batches.meta").write_bytes(pickle.dumps({b"label_names": [b"c%d" % i for i in range(10)]}, 2))
    return data.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), labels


def xml(*objects: tuple[str, list[float], int]) -> bytes:
    """The annotations of a picture as VOC's development kit has them: name, corners, difficult."""
    said = "".join(
        f"<object><name>{name}</name><pose>Left</pose><truncated>1</truncated><difficult>{difficult}</difficult>"
        f"<bndbox><xmin>{a}</xmin><ymin>{b}</ymin><xmax>{c}</xmax><ymax>{d}</ymax></bndbox></object>"
        for name, (a, b, c, d), difficult in objects
    )
    return f"<annotation><filename>evil/../x.jpg</filename><!-- a note -->{said}</annotation>".encode()


VOC = {
    "JPEGImages/1.png": picture(4, 3), "JPEGImages/2.png": picture(5, 6), "JPEGImages/10.png": picture(1, 1),
    "JPEGImages/99.png": picture(1, 1),
    "Annotations/1.xml": xml(("dog", [1, 2, 3, 4], 0), ("cat", [1, 1, 2.5, 2], 1)),
    "Annotations/2.xml": xml(("person", [1, 1, 5, 6], 0)), "Annotations/10.xml": xml(), "Annotations/77.xml": xml(),
    "ImageSets/Main/train.txt": b"1\n10\n", "ImageSets/Main/val.txt": b"2 \n", "ImageSets/Main/trainval.txt": b"1\n",
}  # fmt: skip


YOLO = {
    "images/train/1.png": picture(4, 3), "images/train/2.png": picture(5, 6), "images/val/1.png": picture(2, 2),
    "labels/train/1.txt": b"1 0.5 0.5 0.25 1\n\n0 .1 .2 .3 .4\r\n", "labels/val/1.txt": b"",
    "data.yaml": b"path: ../x\nnames:\n  0: cat\n  1: 'dog'\n",
}  # fmt: skip


def shard(path: Path, cells: list[bytes], **header: Any) -> Path:
    """A shard of one column, of strings unless ``header`` says otherwise."""
    said = {"column_names": ["a"], "column_encodings": ["str"], "column_sizes": [None], **header}
    text = json.dumps(said).encode()
    sizes = said["column_sizes"][0] is None
    data = [struct.pack("<I", len(cell)) * sizes + cell for cell in cells]
    ends = [4 * (len(cells) + 2) + len(text)]
    for cell in data:
        ends.append(ends[-1] + len(cell))
    path.write_bytes(struct.pack(f"<{len(ends) + 1}I", len(cells), *ends) + text + b"".join(data))
    return path
