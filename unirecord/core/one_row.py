"""Single rows of a set as samples, through structures that are made once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from .library import ffi, lib
from .parts import NativeSet

# Looked up once: samples are read one at a time through them.
_read_row, _from_buffer, _buffer, _empty = lib.ur_set_read_row, ffi.from_buffer, ffi.buffer, np.empty
_BYTES: Final = ffi.typeof("uint8_t[]")
_COPIED: Final = 4096  # bytes of an array up to which a copy costs less than telling C of new memory
_FIRST_SIZE: Final = 256  # bytes made room for in a value of variable width, until one is larger


class RowOutput(NamedTuple):
    """A column to be read: its ordinal in the schema, and the bytes of a value, 0 when they differ.

    With a ``shape``, which values of fixed width alone can have, values become arrays; of ``scalar``, numbers.
    """

    name: str
    column: int
    size: int
    nullable: bool
    shape: tuple[int, ...] | None = None
    dtype: npt.DTypeLike = np.uint8
    scalar: bool = False


class RowReader:
    """Reads a row as a dict: writable arrays, numbers, else bytes as stored, None for null. One call at a time."""

    __slots__ = (
        "_arrays",
        "_blank",
        "_cells",
        "_count",
        "_error",
        "_may_be_null",
        "_outputs",
        "_parts",
        "_pointer",
        "_scalars",
        "_small",
    )

    def __init__(self, parts: NativeSet, outputs: Sequence[RowOutput]) -> None:
        self._parts = parts
        self._pointer = parts.pointer  # which ``parts`` holds
        self._count = len(outputs)
        self._outputs = ffi.new("ur_output[]", max(len(outputs), 1))
        self._error = ffi.new("ur_error *")
        self._blank = dict.fromkeys(output.name for output in outputs)
        self._arrays = []
        self._scalars: list[tuple[str, npt.NDArray[Any]]] = []  # each read into the same place, as are
        self._small: list[tuple[str, npt.NDArray[Any]]] = []  # small arrays
        self._may_be_null: list[tuple[str, Any]] = []
        self._cells: list[_Cell] = []
        for i, output in enumerate(outputs):
            native = self._outputs[i]
            native.column = output.column
            if output.shape is None and not output.scalar:
                self._cells.append(_Cell(native, output))
            else:
                native.capacity = output.size
                if output.shape is not None and output.size > _COPIED:
                    self._arrays.append((native, output.name, output.shape, np.dtype(output.dtype)))
                else:
                    place = np.zeros(1 if output.shape is None else output.shape, output.dtype)
                    native.data = _from_buffer(_BYTES, place, True)
                    (self._scalars if output.shape is None else self._small).append((output.name, place))
                if output.nullable:
                    native.valid = valid = ffi.new("uint8_t[1]")
                    self._may_be_null.append((output.name, valid))

    def read(self, row: int) -> dict[str, Any]:
        """The sample of one row; its arrays and bytes are its own."""
        sample: dict[str, Any] = self._blank.copy()
        for output, name, shape, dtype in self._arrays:
            sample[name] = array = _empty(shape, dtype)
            output.data = _from_buffer(_BYTES, array, True)
        while status := _read_row(self._pointer, row, self._outputs, self._count, self._error):
            if status != lib.UR_TOO_SMALL:
                self._parts.fail(self._error)
            for cell in self._cells:
                cell.make_room()
        for name, place in self._scalars:
            sample[name] = place[0]  # a copy
        for name, place in self._small:
            sample[name] = place.copy()
        for cell in self._cells:
            if cell.valid is None or cell.valid[0]:
                sample[cell.name] = _buffer(cell.data, cell.output.used)[:]
        for name, valid in self._may_be_null:
            if not valid[0]:
                sample[name] = None
        return sample


class _Cell:
    """An output that is no array, and its memory."""

    __slots__ = ("data", "name", "offsets", "output", "valid")

    def __init__(self, output: Any, column: RowOutput) -> None:
        self.name = column.name
        self.output = output
        self.offsets = None if column.size else ffi.new("int64_t[2]")
        self.valid = ffi.new("uint8_t[1]") if column.nullable else None
        output.offsets = ffi.NULL if self.offsets is None else self.offsets
        output.valid = ffi.NULL if self.valid is None else self.valid
        self._hold(column.size or _FIRST_SIZE)

    def _hold(self, size: int) -> None:
        self.output.data = self.data = ffi.new("uint8_t[]", size)
        self.output.capacity = size

    def make_room(self) -> None:
        """Makes the memory as large as the last read would have needed it, if that is more."""
        if self.output.used > self.output.capacity:
            self._hold(self.output.used)
