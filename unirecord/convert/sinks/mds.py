"""MosaicML MDS: shards of about 64 MB and an index.json, as its own MDSWriter writes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ...dataset.dataset import UniRecordDataset
from ...errors import SchemaError
from ...format.column import Column
from ...format.values.objects import base64_text, json_object
from ...sizes import many
from ...storage import local as store
from ...storage.staged import StagedFolder, staged_file
from .jsonl import json_notes, json_value
from .sink import Advance, Sink, numbered, refuse_null

__all__ = ["MDS"]

_SHARD_BYTES: Final = 1 << 26  # MDSWriter's own size_limit
_MOST_BYTES: Final = (1 << 32) - 1  # places in a shard are uint32
_HALVES: Final = {"complex64": "float32", "complex128": "float64"}
_STORED: Final = {"bool": "uint8", "bfloat16": "uint16"}  # what stands for types that MDS lacks
_SHAPE_TYPES: Final = ("u1", "<u2", "<u4", "<u8")


def _check(columns: Sequence[Column], metadata: Any) -> list[str]:
    """Return what becomes of types that MDS lacks."""
    notes = json_notes([c for c in columns if c.type == "object"])
    for column in columns:
        if _is_json(column) and column.type != "object":
            notes.append(f"{column.name}: written as JSON, in which null is null")
        elif column.type in _STORED:
            notes.append(f"{column.name}: {column.type} is written as {_STORED[column.type]}")
        elif column.type in _HALVES:
            notes.append(f"{column.name}: complex numbers are written as [real, imaginary]")
    return notes


def _write_folder(
    rows: UniRecordDataset, folder: StagedFolder, parts: int, advance: Advance
) -> Sequence[str]:
    """Write the shards, one of which is held in memory, and the index."""
    columns = sorted((rows.schema[name] for name in rows.column_names), key=lambda c: c.name)
    encodings = [_encoding(column) for column in columns]
    shards = _Shards(folder, columns, [name for name, _, _ in encodings], [size for _, size, _ in encodings])
    for number, sample in numbered(rows):
        for column in columns:
            if not _is_json(column):
                refuse_null("mds", column, sample[column.name], number)
        data = [encode(sample[c.name]) for c, (_, _, encode) in zip(columns, encodings, strict=True)]
        sizes = [len(d) for d, (_, size, _) in zip(data, encodings, strict=True) if size is None]
        shards.add(number, [np.array(sizes, "<u8"), *data])
        advance(1)
    shards.finish()
    return ()


# A folder that ``StreamingDataset`` reads; nulls and objects are JSON, arrays ``ndarray``.
MDS: Final = Sink(
    kind="mds",
    about="MosaicML MDS",
    check=_check,
    write_folder=_write_folder,
)


class _Shards:
    """Samples gathered to shards, which are written as they fill up (streaming/base/format/mds/writer.py)."""

    def __init__(
        self, folder: StagedFolder, columns: Sequence[Column], encodings: list[str], sizes: list[int | None]
    ) -> None:
        self._folder = folder
        self._config = {
            "version": 2, "format": "mds", "compression": None, "hashes": [], "size_limit": _SHARD_BYTES,
            "column_names": [column.name for column in columns], "column_encodings": encodings,
            "column_sizes": sizes,
        }  # fmt: skip
        self._head = json.dumps(self._config, sort_keys=True).encode()
        self._shards: list[dict[str, Any]] = []
        self._begin()

    def _begin(self) -> None:
        self._samples: list[bytes] = []
        self._bytes = 8 + len(self._head)

    def add(self, number: int, pieces: list[Any]) -> None:
        """Take a sample: the sizes of values whose size differs, and the values."""
        sizes, *data = pieces
        length = 4 * len(sizes) + sum(map(len, data)) + 4
        if self._bytes + length > _SHARD_BYTES and self._samples:
            self._write()
        if self._bytes + length > _MOST_BYTES:
            raise SchemaError(
                f"row {number} takes {many(length, 'byte')}; a shard of MDS has at most {_MOST_BYTES:,}"
            )
        self._samples.append(sizes.astype("<u4").tobytes() + b"".join(data))
        self._bytes += length

    def _write(self) -> None:
        name = f"shard.{len(self._shards):05d}.mds"
        count = len(self._samples)
        first = 4 + 4 * (count + 1) + len(self._head)
        offsets = first + np.cumsum([0, *map(len, self._samples)])
        with staged_file(self._folder.place(name)) as staged:
            head = np.uint32(count).astype("<u4").tobytes() + offsets.astype("<u4").tobytes() + self._head
            staged.append([head, b"".join(self._samples)])
        file = {"basename": name, "bytes": staged.size, "hashes": {}}
        self._shards.append({**self._config, "samples": count, "raw_data": file, "zip_data": None})
        self._begin()

    def finish(self) -> None:
        """Write the last shard and the index."""
        if self._samples or not self._shards:
            self._write()
        index = json.dumps({"version": 2, "shards": self._shards}, sort_keys=True)
        store.write_new(self._folder.place("index.json"), index.encode())


def _is_json(column: Column) -> bool:
    """Objects, and nullable numbers and text, of which JSON can say that they are null."""
    return column.type == "object" or (column.nullable and column.type != "bytes" and not column.is_array)


def _encoding(column: Column) -> tuple[str, int | None, Callable[[Any], bytes]]:
    """The name of a column's encoding, the bytes of a value where all have as many, and what makes them."""
    if column.type == "object":
        return "json", None, lambda value: json.dumps(json_object(value, base64_text)).encode()
    if _is_json(column):
        return "json", None, lambda value: json.dumps(json_value(column, value)).encode()
    if column.is_array:
        return _array_encoding(column)
    if column.dtype is None:
        return ("bytes", None, bytes) if column.type == "bytes" else ("str", None, str.encode)
    stored = np.dtype(_STORED.get(column.type) or _HALVES.get(column.type) or column.dtype).newbyteorder("<")
    if column.type in _HALVES:
        return (
            f"ndarray:{stored.name}:2",
            2 * stored.itemsize,
            lambda v: np.array([v.real, v.imag], stored).tobytes(),
        )
    return stored.name, stored.itemsize, lambda value: np.asarray(value).astype(stored).tobytes()


def _array_encoding(column: Column) -> tuple[str, int | None, Callable[[Any], bytes]]:
    assert column.dtype is not None
    halves = _HALVES.get(column.type)
    stored = np.dtype(halves or _STORED.get(column.type) or column.dtype).newbyteorder("<")
    pair = (2,) if halves else ()

    def values(array: Any) -> bytes:
        array = np.ascontiguousarray(array)
        return bytes(array.tobytes() if halves else array.astype(stored).tobytes())

    shape = (*column.item_shape, *pair)
    if not column.free_dims and shape and min(shape) > 0:
        size = stored.itemsize * int(np.prod(shape))
        return f"ndarray:{stored.name}:{','.join(map(str, shape))}", size, values

    def with_shape(array: Any) -> bytes:
        dims = np.array((*array.shape, *pair), np.uint64)
        width = sum(int(dims.max(initial=0)) >> bits > 0 for bits in (8, 16, 32))
        return bytes([len(dims) << 2 | width]) + dims.astype(_SHAPE_TYPES[width]).tobytes() + values(array)

    return f"ndarray:{stored.name}", None, with_shape
