"""A dataset of small parts, and each way to write its parts anew."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from writing import write

import unirecord
from unirecord import UniRecordDataset

ROWS = 24
SCHEMA = {"n": "int64", "b": "bytes"}

Rewrite = Callable[..., Any]
REWRITES: dict[str, Rewrite] = {
    "compact": lambda path, **options: unirecord.compact(path, rows_per_part=6, **options),
    "reshard": lambda path, **options: unirecord.reshard(path, 5, **options),
    "drop deleted": lambda path, **options: unirecord.compact(
        path, rows_per_part=8, drop_deleted=True, **options
    ),
    "join columns": lambda path, **options: unirecord.compact(
        path, part_bytes=1, join_columns=True, **options
    ),
    "sort": lambda path, **options: unirecord.sort(path, "n", descending=True, part_bytes=40_000, **options),
}
DELETED = (3, 20)


def make_small_parts(path: str | os.PathLike[str]) -> None:
    """Eight parts of three rows, one with a column part and a patch, of which two rows have been deleted."""
    write(path, SCHEMA, [{"n": n, "b": bytes([n]) * 9_000} for n in range(3)])
    for first in range(3, ROWS, 3):
        with unirecord.append(path) as writer:
            for n in range(first, first + 3):
                writer.write({"n": n, "b": bytes([n]) * 9_000})
    unirecord.add_columns(path, {"m": "int64"}, lambda batch: {"m": batch["n"] * 2}, reads=["n"])
    unirecord.set_values(path, rows=[7], values={"m": -1})
    unirecord.delete(path, rows=list(DELETED))


def rows_of(path: str | os.PathLike[str]) -> list[tuple[int, bytes, int]]:
    with UniRecordDataset(path) as ds:
        return [(int(row["n"]), row["b"][:1], int(row["m"])) for row in ds]


def expected(kind: str, gone: tuple[int, ...] = DELETED) -> list[tuple[int, bytes, int]]:
    numbers = [n for n in range(ROWS) if n not in gone]
    return [(n, bytes([n]), -1 if n == 7 else 2 * n) for n in (numbers[::-1] if kind == "sort" else numbers)]
