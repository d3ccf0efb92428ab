"""What files claim to hold, against the bytes that they have."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from ...errors import SchemaError
from ...format.schema import Schema
from ...sizes import format_size
from .base import AskedOption, Options
from .input_path import InputPath

__all__ = ["TRUST", "file_sizes", "refuse_claims", "row_bytes"]

TRUST: Final = AskedOption(
    "trust_sizes", "believe files that claim many more rows or bytes than they hold, or take long to read"
)
_ROWS: Final = 1_000_000
_BYTES: Final = 1_000_000_000
_RATIO: Final = 1_000  # of rows, and of bytes of their values, to bytes of files


def file_sizes(source: InputPath) -> Iterator[int]:
    """Yield the bytes of each file that the path stands for; of a copy of a pipe those that were copied."""
    for path in source.files_called(()) or ([] if source.is_folder else [source.path]):
        with suppress(OSError):
            yield os.stat(path).st_size


def row_bytes(schema: Schema) -> int:
    """Bytes that the values of a row take which are all of one size."""
    return sum(column.fixed_bytes for column in schema)


def refuse_claims(source: InputPath, options: Options, rows: int, width: int) -> None:
    """Refuse rows of ``width`` bytes that are far more than its files could hold, however they are compressed.

    A fill value, a run or a null takes no room in a file, so that a few bytes can claim any number of rows.
    """
    if (rows <= _ROWS and rows * width <= _BYTES) or options.get(TRUST.name):
        return
    held = sum(file_sizes(source))
    if rows > _ROWS + _RATIO * held or rows * width > _BYTES + _RATIO * held:
        raise SchemaError(
            f"{source.name} claims {rows:,} rows{f' of {width:,} bytes' if width else ''}, and has "
            f"{format_size(held)}; --trust-sizes (trust_sizes=True) converts it all the same"
        )
