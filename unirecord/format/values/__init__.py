"""The values of columns as bytes: records and whole columns in, cells out, every one checked."""

from __future__ import annotations

from .batch import ColumnBatch, ColumnData, RecordEncoder
from .cell import array_in_cell, decode_cell
from .objects import Extension, pack_object, unpack_canonical, unpack_object
from .strings import PackedStrings, Texts, joined_strings

__all__ = [
    "ColumnBatch",
    "ColumnData",
    "Extension",
    "RecordEncoder",
    "PackedStrings",
    "Texts",
    "array_in_cell",
    "decode_cell",
    "joined_strings",
    "pack_object",
    "unpack_canonical",
    "unpack_object",
]
