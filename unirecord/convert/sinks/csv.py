"""CSV (RFC 4180) with line feeds: a head line, and null apart from the empty text."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, BinaryIO, Final

from ...dataset.dataset import UniRecordDataset
from ...errors import SchemaError
from ...format.column import Column
from .jsonl import is_said_as_text, json_notes, said_values
from .sink import Advance, Sink, batches

__all__ = ["CSV"]

_QUOTED: Final = re.compile(r'[",\r\n]|^\s|\s$|^$')
_ENCODE: Final = json.JSONEncoder(ensure_ascii=False).encode


def _check(columns: Sequence[Column], metadata: Any) -> list[str]:
    """Return what becomes of bytes, arrays and objects; a lone column of text with nulls is refused."""
    if len(columns) == 1 and columns[0].nullable and columns[0].dtype is None:
        raise SchemaError(
            f"csv cannot hold {columns[0].name!r} ({columns[0]}) alone: null and the empty text are both an empty "
            "line; write another column beside it"
        )
    nested = [c.name for c in columns if (c.is_array and not is_said_as_text(c)) or c.type == "object"]
    return [*json_notes(columns), *(f"{name}: written as JSON text" for name in nested)]


def _write_rows(rows: UniRecordDataset, out: BinaryIO, advance: Advance) -> None:
    """Write the head line and the rows."""
    columns = [rows.schema[name] for name in rows.column_names]
    out.write((",".join(_quoted(column.name) for column in columns) + "\n").encode())
    for batch in batches(rows):
        cells = [_cells(column, said_values(column, batch[column.name])) for column in columns]
        lines = [",".join(row) for row in zip(*cells, strict=True)]
        if len(columns) == 1:  # an empty line would be no row
            lines = [line or '""' for line in lines]
        out.write(("\n".join(lines) + "\n").encode())
        advance(len(lines))


# Rows as lines of cells: null is an empty cell, the empty text ``""``, arrays and objects are JSON.
CSV: Final = Sink(
    kind="csv",
    about="CSV",
    suffix=".csv",
    check=_check,
    write=_write_rows,
)


def _cells(column: Column, values: Sequence[Any]) -> list[str]:
    if is_said_as_text(column):
        return ["" if value is None else _quoted(value) for value in values]
    if column.is_array or column.type == "object":
        return ["" if value is None else _quoted(_ENCODE(value)) for value in values]
    if column.type == "bool":
        return ["" if value is None else "true" if value else "false" for value in values]
    if column.dtype is not None:
        return ["" if value is None else repr(value) for value in values]
    return ["" if value is None else _quoted(value) for value in values]


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if _QUOTED.search(text) else text
