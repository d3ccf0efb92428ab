"""JSON Lines: one object a row."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, BinaryIO, Final

from ...dataset.dataset import UniRecordDataset
from ...format.column import Column
from .base import Advance, FileSink, batches
from .json_values import json_notes, json_values

__all__ = ["JsonLinesSink", "json_line"]

_ENCODE: Final = json.JSONEncoder(ensure_ascii=False).encode


def json_line(row: dict[str, Any]) -> str:
    """One line, with its end."""
    return _ENCODE(row) + "\n"


class JsonLinesSink(FileSink):
    """Each row as a JSON object on a line of its own; null for null, ``NaN`` and ``Infinity`` as Python writes them."""

    kind = "jsonl"
    about = "JSON Lines"
    suffix = ".jsonl"

    def check(self, columns: Sequence[Column], metadata: Any) -> list[str]:
        """Return what becomes of bytes, objects and complex numbers."""
        return json_notes(columns)

    def write(self, rows: UniRecordDataset, out: BinaryIO, advance: Advance) -> None:
        """Write the rows."""
        names = rows.column_names
        columns = [rows.schema[name] for name in names]
        for batch in batches(rows):
            values = [json_values(column, batch[column.name]) for column in columns]
            lines = [_ENCODE(dict(zip(names, row, strict=True))) for row in zip(*values, strict=True)]
            out.write(("\n".join(lines) + "\n").encode())
            advance(len(lines))
