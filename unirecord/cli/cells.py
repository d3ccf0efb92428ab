"""Rows and their values: in a table, as JSON, as CSV, and as files."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Final

import numpy as np

from ..convert.sources.media_types import NotAnImageError, read_image_header
from ..format.layout import file_kind
from ..format.values.objects import json_object
from ..inspect.cells import extract
from ..sizes import format_size, many
from ..snapshot.part_set import PartSet
from .terminal import answer, clipped, fitted_table, print_csv, print_json_list, say

__all__ = ["cell_json", "cell_text", "csv_cell", "extract_cells", "print_samples", "sample_json"]

_TEXT_WIDTH: Final = 40


def cell_text(value: Any, most: int = _TEXT_WIDTH) -> str:
    """Return one value in at most ``most`` terminal cells: a picture's size, an array's shape and range, ``null``."""
    if value is None:
        return "null"
    if isinstance(value, bytes):
        return _blob_text(value)
    if isinstance(value, np.ndarray):
        return clipped(_array_text(value), most)
    if isinstance(value, np.floating | float):
        return f"{value:.6g}"
    return clipped(str(value), most)


def cell_json(value: Any) -> Any:
    """Return one value as JSON can hold it: bytes and arrays are described, other values kept."""
    if isinstance(value, np.generic):
        return cell_json(value.item())
    if isinstance(value, np.ndarray):
        return {"dtype": str(value.dtype), "shape": list(value.shape), **_range(value)}
    return json_object(value, lambda blob: {"bytes": len(blob), "kind": _kind(blob)})


def sample_json(sample: dict[str, Any]) -> dict[str, Any]:
    """Return a sample as JSON can hold it."""
    return {name: cell_json(value) for name, value in sample.items()}


def csv_cell(value: Any) -> Any:
    """A scalar exactly, a blob in short; null is empty."""
    if value is None:
        return ""
    return value if isinstance(value, str | np.generic) else cell_text(value)


Lines = Iterable[tuple[dict[str, Any], dict[str, Any]]]  # where each row is, and its values


def print_samples(
    args: argparse.Namespace,
    head: dict[str, Any],
    name: str,
    columns: Sequence[str],
    lines: Lines,
    align: str,
) -> None:
    """Print rows as ``--json`` (a list ``name`` below ``head``), as ``--csv``, or as a table."""
    if args.json:
        print_json_list(head, name, ({**place, "values": sample_json(sample)} for place, sample in lines))
    elif args.csv:
        cells = ([*place.values(), *map(csv_cell, sample.values())] for place, sample in lines)
        print_csv(chain([columns], cells), bool(getattr(args, "quote_formulas", False)))
    else:
        body = [[*map(str, place.values()), *map(cell_text, sample.values())] for place, sample in lines]
        say(*fitted_table([columns, *body], align))


def extract_cells(args: argparse.Namespace, parts: PartSet, rows: Any, name: str | None = None) -> None:
    """Write blobs of the rows to files, as ``--extract`` and ``--out`` say."""
    done = extract(parts, rows, args.extract, args.out, name)
    without = f"; {many(done.nulls, 'null')} without a file" if done.nulls else ""
    answer(args, done, [f"{many(done.files, 'file')}, {format_size(done.bytes)}, in {done.folder}{without}"])


def _blob_text(value: bytes) -> str:
    size = format_size(len(value))
    kind = _kind(value)
    if kind is not None:
        return f"{kind}, {size}"
    if 0 < len(value) <= 16:
        return f"{value.hex(' ')} ({size})"
    return size


def _kind(value: bytes) -> str | None:
    try:
        header = read_image_header(value)
    except NotAnImageError:
        kind = file_kind(value)
        return None if kind is None or kind.is_picture else kind.name
    return f"{header.format} {header.width}×{header.height}"


def _array_text(value: np.ndarray[Any, Any]) -> str:
    shape = "×".join(map(str, value.shape))
    if 0 < value.size <= 4 and value.ndim == 1:
        return f"[{', '.join(cell_text(v) for v in value)}]"
    found = _range(value)
    span = f", {cell_text(found['min'])} … {cell_text(found['max'])}" if found else ""
    return f"{value.dtype} {shape}{span}"


def _range(value: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Return the least and greatest element, where elements have an order and there is one."""
    if not value.size or value.dtype.kind not in "biuf":
        return {}
    if value.dtype.kind != "f":
        return {"min": value.min().item(), "max": value.max().item()}
    numbers = value[~np.isnan(value)]
    return {"min": cell_json(numbers.min()), "max": cell_json(numbers.max())} if numbers.size else {}
