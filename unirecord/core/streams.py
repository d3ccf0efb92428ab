"""The C core's streams: samples of one length, cut from values that lie one after the other; and packing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from .bitmap import Bitmap
from .library import ffi, lib
from .parts import NativeSet

WHOLE: Final = int(lib.UR_STREAM_WHOLE)
APART: Final = int(lib.UR_STREAM_APART)
PACKED: Final = int(lib.UR_STREAM_PACKED)

ELEMENTS: Final = int(lib.UR_STREAM_ELEMENTS)
DOCUMENTS: Final = int(lib.UR_STREAM_DOCUMENTS)
POSITIONS: Final = int(lib.UR_STREAM_POSITIONS)

Numbers = npt.NDArray[np.int64]


class NativeStream:
    """A ur_stream over a column of ``parts``, and the arrays that it borrows; immutable.

    ``before`` and ``pieces`` (int64[n, 3]) as the header says. ``selection`` is what a selection gives the C loader.
    """

    pointer: Any

    def __init__(
        self,
        parts: NativeSet,
        kind: int,
        column: int,
        *,
        length: int,
        stride: int,
        samples: int,
        documents: int,
        before: Numbers,
        every: int,
        pieces: Numbers | None,
        selection: tuple[Numbers | Bitmap | None, int, int, int],
        padding: npt.NDArray[Any] | None,
        element_bytes: int,
    ) -> None:
        held, start, step, _ = selection
        self.parts = parts
        self.pointer = pointer = ffi.new("ur_stream *")
        pointer.kind, pointer.column, pointer.element_bytes = kind, column, element_bytes
        pointer.length, pointer.stride, pointer.samples = length, stride, samples
        pointer.documents, pointer.every = documents, every
        pointer.selection_start, pointer.selection_step = start, step
        pointer.before = ffi.from_buffer("int64_t[]", before)
        self._kept = [before, pieces, held]
        if pieces is not None:
            pointer.pieces = ffi.cast("ur_stream_piece *", ffi.from_buffer(pieces))
        if isinstance(held, Bitmap):
            pointer.bitmap = held.pointer
        elif held is not None:
            pointer.selection = ffi.from_buffer("int64_t[]", held)
        if padding is not None:
            pointer.padded = 1
            ffi.memmove(pointer.padding, padding.tobytes(), element_bytes)

    def read(self, samples: Numbers, numbers: Sequence[int], outputs: Sequence[npt.NDArray[Any]]) -> None:
        """Fills an array for each output (ELEMENTS, DOCUMENTS, POSITIONS), [samples, length]."""
        given = np.ascontiguousarray(samples, np.int64)
        native, error = ffi.new("ur_output[]", max(len(numbers), 1)), ffi.new("ur_error *")
        for output, number, array in zip(native, numbers, outputs, strict=False):
            output.column, output.capacity = number, array.nbytes
            output.data = ffi.from_buffer("uint8_t[]", array, True)
        rows = ffi.from_buffer("int64_t[]", given)
        status = lib.ur_stream_read(
            self.parts.pointer, self.pointer, rows, len(given), native, len(numbers), error
        )
        if status != lib.UR_OK:
            self.parts.fail(error)


def pack(lengths: Numbers, size: int) -> tuple[Numbers, int]:
    """The bin of each length, and how many there are: each goes where the least room is that is enough."""
    given = np.ascontiguousarray(lengths, np.int64)
    places, used, error = np.empty(len(given), np.int64), ffi.new("int64_t *"), ffi.new("ur_error *")
    from_buffer = ffi.from_buffer
    status = lib.ur_pack(
        from_buffer("int64_t[]", given), len(given), size, from_buffer("int64_t[]", places), used, error
    )
    if status == lib.UR_NO_MEMORY:
        raise MemoryError(ffi.string(error.what).decode())
    if status != lib.UR_OK:
        raise ValueError(ffi.string(error.what).decode())
    return places, int(used[0])
