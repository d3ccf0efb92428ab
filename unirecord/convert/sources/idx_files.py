"""MNIST's IDX files as records: arrays with a header of their own, images and labels side by side."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any, ClassVar, Final

import numpy as np

from ...errors import SchemaError
from ...format.schema import Schema
from ...progress import Progress
from ...sizes import many
from .input_path import InputPath
from .overrides import SPLITS
from .source import Options, RawBatch, Source, Unit, column_names

__all__ = ["IdxFiles"]

_UNIT_BYTES: Final = 16_000_000
_TYPES: Final = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}  # yann.lecun.com/exdb/mnist
_NAME: Final = re.compile(r"^(?:(train|t10k|test)[-_.])?(.*?)[-.]?idx[0-9]+[-.]?ubyte$", re.IGNORECASE)
# Not x.tar.idx, where Megatron-Energon keeps where the samples of x.tar are.
_SUFFIX: Final = re.compile(r"idx[0-9]+[-.]ubyte(?:\.gz)?$|.(?<!\.tar)\.idx$", re.IGNORECASE)


@dataclass
class _Array:
    name: str
    file: InputPath
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def row_bytes(self) -> int:
        return self.dtype.itemsize * math.prod(self.shape[1:])

    def rows(self, first: int, count: int) -> Any:
        with self.file.open() as file:
            file.seek(4 + 4 * len(self.shape) + first * self.row_bytes)
            data = file.read(count * self.row_bytes)
        found = np.frombuffer(data, self.dtype).reshape(count, *self.shape[1:])
        return found.astype(self.dtype.newbyteorder("<"), copy=False)


class IdxFiles(Source):
    """``train-images-idx3-ubyte`` and ``train-labels-idx1-ubyte`` (or one file of either kind), also compressed."""

    kind: ClassVar[str] = "idx"
    about: ClassVar[str] = "IDX files (MNIST)"

    @classmethod
    def recognises(cls, source: InputPath) -> bool:
        """By the names."""
        return any(_SUFFIX.search(name) for name in source.peek)

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Read the headers."""
        files = [f for f in self.input.files(("",)) if self.input.is_file or _SUFFIX.search(f.name)]
        self._refuse_splits(files)
        self._arrays = [_header(file) for file in files]
        first = self._arrays[0]
        for array in self._arrays:
            if array.shape[0] != first.shape[0]:
                raise SchemaError(
                    f"{array.file.name} has {many(array.shape[0], 'row')}, but {first.file.name} "
                    f"has {first.shape[0]:,}"
                )
        names, changed = column_names([array.name for array in self._arrays], self.path, options)
        self.left_out.extend(changed)
        self._names = names
        types: dict[str, Any] = {}
        for name, array in zip(names, self._arrays, strict=True):
            kind = array.dtype.newbyteorder("<").name
            types[name] = {"type": kind, "shape": list(array.shape[1:])} if array.shape[1:] else kind
        self.schema: Schema = options.schema(types)
        rows = first.shape[0]
        step = max(1, _UNIT_BYTES // max(1, sum(array.row_bytes for array in self._arrays)))
        self.units: Sequence[Unit] = [
            Unit(f"{self.path}, rows from {i}", i, min(step, rows - i)) for i in range(0, rows, step)
        ]

    def _refuse_splits(self, files: list[InputPath]) -> None:
        roles = {}
        for file in files:
            found = _NAME.match(os.path.basename(file.name).removesuffix(".gz"))
            if found and found[1]:
                roles[SPLITS.get(found[1].lower(), "test")] = os.path.join(
                    os.path.dirname(file.name), found[1] + "*"
                )
        if len(roles) > 1:
            steps = " and ".join(
                f"`unirecord write {quote(pattern)} {quote(role)}`" for role, pattern in roles.items()
            )
            raise SchemaError(
                f"{self.path} holds {' and '.join(roles)}; write each to a dataset of its own: {steps}"
            )

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield a range of rows."""
        rows = unit.rows or 0
        columns = {n: a.rows(unit.place, rows) for n, a in zip(self._names, self._arrays, strict=True)}
        yield RawBatch(columns, rows)


def _header(file: InputPath) -> _Array:
    with file.open() as stream:
        size = stream.seek(0, 2)
        stream.seek(0)
        head = stream.read(4 + 4 * 255)
    dims = head[3] if len(head) >= 4 else 0
    if len(head) < 4 + 4 * dims or head[:2] != b"\0\0" or head[2] not in _TYPES or not dims:
        raise SchemaError(f"{file.name} is no IDX file: its first bytes are no header")
    shape = tuple(int.from_bytes(head[4 + 4 * i : 8 + 4 * i], "big") for i in range(dims))
    dtype = np.dtype(_TYPES[head[2]])
    wanted = 4 + 4 * dims + dtype.itemsize * math.prod(shape)
    if size != wanted or not all(shape[1:]) or dims > 32:
        raise SchemaError(f"{file.name} has {many(size, 'byte')}, but its header says {wanted:,}")
    base = os.path.basename(file.name).removesuffix(".gz")
    found = _NAME.match(base)
    name = found[2] if found and found[2] else os.path.splitext(base)[0]
    return _Array({"images": "image", "labels": "label"}.get(name.strip("-_."), name), file, dtype, shape)
