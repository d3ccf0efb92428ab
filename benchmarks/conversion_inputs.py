"""Makes what conversions read: `conversion_inputs.py KIND FOLDER ROWS`.

KIND is csv, jsonl, chats, parquet, wide, pictures or photographs.

Rows of tables: id (0, 1, 2, …), label (of 1,000), score and price (of 4 and 2 digits), user (of 20,000 names) and
city (of 8, one beyond ASCII); Parquet has the four numbers alone. Wide: Parquet of 200 columns: 100 of float64, 50 of
int64 up to a million, 25 of int32 (of 100), 15 of users, of 20,000 names, 5 of strings that all differ, 5 of bools.
Chats: two to six messages of a role and 20 to 150 words, some of which JSON escapes, about 2.3 KB a line. Pictures:
files of about 110 KB in 100 class folders, lognormal in size: the header of a real JPEG with random bytes after it,
since nothing here decodes them. Photographs: those of photographs.py, which are decoded.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

CHUNK = 100_000
CITIES = ("Berlin", "Paris", "Zürich", "New York", "Tokyo", "Rio", "Oslo", "Delhi")
CLASSES, MEAN_BYTES = 100, 110_000

Columns = dict[str, np.ndarray[Any, Any]]


def numbers(start: int, count: int) -> Columns:
    """The columns of numbers of some rows."""
    r = np.random.default_rng(start)
    return {
        "id": np.arange(start, start + count),
        "label": r.integers(0, 1000, count),
        "score": np.round(r.random(count), 4),
        "price": np.round(r.random(count) * 1000, 2),
    }


def columns(start: int, count: int) -> Columns:
    """All columns of some rows."""
    r = np.random.default_rng(start + 1)
    users = np.array([f"user_{i}" for i in range(20_000)])
    return {
        **numbers(start, count),
        "user": users[r.integers(0, len(users), count)],
        "city": np.array(CITIES)[r.integers(0, len(CITIES), count)],
    }


def chunks(rows: int, make: Callable[[int, int], Columns]) -> Iterator[Columns]:
    """The rows, some at a time."""
    for start in range(0, rows, CHUNK):
        yield make(start, min(CHUNK, rows - start))


def write_csv(folder: Path, rows: int) -> None:
    with (folder / "rows.csv").open("w", encoding="utf-8") as out:
        for number, some in enumerate(chunks(rows, columns)):
            if not number:
                out.write(",".join(some) + "\n")
            out.writelines(
                ",".join(map(str, row)) + "\n"
                for row in zip(*(c.tolist() for c in some.values()), strict=True)
            )


def write_jsonl(folder: Path, rows: int) -> None:
    with (folder / "rows.jsonl").open("w", encoding="utf-8") as out:
        for some in chunks(rows, columns):
            for row in zip(*(c.tolist() for c in some.values()), strict=True):
                out.write(json.dumps(dict(zip(some, row, strict=True)), ensure_ascii=False) + "\n")


def write_chats(folder: Path, rows: int) -> None:
    words = [
        "the",
        "model",
        "answer",
        "queue",
        "is",
        "and",
        "of",
        "explain",
        "Zürich",
        '"quoted"',
        "line\nbreak",
    ]
    r = Random(1)
    with (folder / "rows.jsonl").open("w", encoding="utf-8") as out:
        for i in range(rows):
            messages = [
                {
                    "role": ("user", "assistant")[k % 2],
                    "content": " ".join(r.choices(words, k=r.randint(20, 150))),
                }
                for k in range(r.randint(2, 6))
            ]
            row = {"id": i, "messages": messages, "source": "web", "score": r.random()}
            out.write(json.dumps(row, ensure_ascii=i % 2 == 0) + "\n")


def wide(start: int, count: int) -> Columns:
    """Some rows of 200 columns."""
    r = np.random.default_rng(start)
    users = np.array([f"user_{i}" for i in range(20_000)])
    return {
        **{f"real_{i}": r.random(count) for i in range(100)},
        **{f"whole_{i}": r.integers(0, 1_000_000, count) for i in range(50)},
        **{f"kind_{i}": r.integers(0, 100, count, np.int32) for i in range(25)},
        **{f"user_{i}": users[r.integers(0, len(users), count)] for i in range(15)},
        **{f"name_{i}": np.char.mod(f"{i}/%012x", r.integers(0, 1 << 40, count)) for i in range(5)},
        **{f"flag_{i}": r.random(count) < 0.5 for i in range(5)},
    }


def write_parquet(folder: Path, rows: int, make: Callable[[int, int], Columns] = numbers) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    for some in chunks(rows, make):
        table = pa.table(some)
        writer = writer or pq.ParquetWriter(folder / "rows.parquet", table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def write_pictures(folder: Path, rows: int) -> None:
    from PIL import Image

    start = folder / "pictures" / "start.jpg"
    start.parent.mkdir()
    Image.new("RGB", (500, 375)).save(start, quality=98)
    header = start.read_bytes()
    start.unlink()
    header = header[: header.index(b"\xff\xda") + 14]  # up to where the coded pixels begin
    r = np.random.default_rng(3)
    sizes = r.lognormal(math.log(MEAN_BYTES) - 0.125, 0.5, rows).astype(int)
    for number, size in enumerate(sizes):
        place = folder / "pictures" / f"class_{number % CLASSES:03d}"
        place.mkdir(exist_ok=True)
        coded = r.bytes(max(int(size) - len(header) - 2, 16)).replace(b"\xff", b"\xfe")
        (place / f"{number:06d}.jpg").write_bytes(header + coded + b"\xff\xd9")


def write_photographs(folder: Path, rows: int) -> None:
    from photographs import encode, picture, sources

    known, r = sources(), np.random.default_rng(7)
    for number in range(rows):
        place = folder / "photographs" / f"class_{number % CLASSES:03d}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number:06d}.jpg").write_bytes(encode(picture(known, r, 500, 375), MEAN_BYTES))


WRITERS = {
    "csv": write_csv, "jsonl": write_jsonl, "chats": write_chats, "parquet": write_parquet,
    "wide": partial(write_parquet, make=wide),
    "pictures": write_pictures, "photographs": write_photographs,
}  # fmt: skip


def main() -> None:
    kind, folder, rows = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    done = folder / ".complete"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        WRITERS[kind](folder, rows)
        done.touch()
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
