"""Cells made of values: compressed, with dictionaries trained for them (csrc/codec/codec.c), and cut into chunks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ColumnError, CorruptionError
from .library import Handle, buffer_of, ffi, lib, raise_refused

U64 = npt.NDArray[np.uint64]
Cells = Sequence[bytes | memoryview]

CODEC_PLAIN: int = lib.UR_CODEC_PLAIN
CODEC_ZSTD: int = lib.UR_CODEC_ZSTD
CODEC_SHUFFLE_ZSTD: int = lib.UR_CODEC_SHUFFLE_ZSTD


_fail = partial(raise_refused, kinds={lib.UR_COLUMN: ColumnError, lib.UR_CORRUPT: CorruptionError})


def check_codec(codec: int) -> None:
    """ColumnError, with what to do about it, unless cells of this codec can be read and written here."""
    error = ffi.new("ur_error *")
    if lib.ur_codec_check(codec, error) != lib.UR_OK:
        _fail(error)


def check_column(type_code: int, codec: int) -> None:
    """ColumnError, likewise, unless values of this type in cells of this codec can be read and written here."""
    error = ffi.new("ur_error *")
    if lib.ur_column_check(type_code, codec, error) != lib.UR_OK:
        _fail(error)


def _lengths(cells: Cells) -> U64:
    return np.fromiter(map(len, cells), np.uint64, len(cells))


def _pointers(cells: Cells) -> tuple[Any, object]:
    """The addresses of the cells, and what keeps them."""
    held = [ffi.from_buffer(buffer_of(cell)) for cell in cells]
    return ffi.new("void *[]", held), held


def train_dictionary(codec: int, element_bytes: int, cells: Cells, most: int) -> bytes:
    """A dictionary of at most ``most`` bytes for cells like these; empty when they are too few to train on."""
    lengths, room = _lengths(cells), np.empty(most, np.uint8)
    pointers, _held = _pointers(cells)
    made, error = ffi.new("uint64_t *"), ffi.new("ur_error *")
    status = lib.ur_codec_train(
        codec, element_bytes, pointers, ffi.from_buffer("uint64_t[]", lengths), len(cells),
        ffi.from_buffer("uint8_t[]", room), most, made, error,
    )  # fmt: skip
    if status != lib.UR_OK:
        _fail(error)
    return room[: int(made[0])].tobytes()


class Encoder:
    """Compresses the cells of one column; any number of threads may use it."""

    def __init__(self, codec: int, element_bytes: int, level: int, dictionary: bytes = b"") -> None:
        out, error = ffi.new("ur_encoder **"), ffi.new("ur_error *")
        raw = ffi.from_buffer("uint8_t[]", buffer_of(dictionary)) if dictionary else ffi.NULL
        if lib.ur_encoder_new(codec, element_bytes, level, raw, len(dictionary), out, error) != lib.UR_OK:
            _fail(error)
        self._handle = Handle(out[0], lib.ur_encoder_release)

    def encode(self, cells: Cells) -> tuple[memoryview, U64, U64]:
        """The cells compressed, one after the other; how many bytes each takes there, and how many it had."""
        lengths = _lengths(cells)
        total = int(lengths.sum())
        out, stored = np.empty(total, np.uint8), np.empty(len(cells), np.uint64)
        pointers, _held = _pointers(cells)
        error = ffi.new("ur_error *")
        status = lib.ur_encoder_encode(
            self._handle.pointer, pointers, ffi.from_buffer("uint64_t[]", lengths), len(cells),
            ffi.from_buffer("uint8_t[]", out), total, ffi.from_buffer("uint64_t[]", stored), error,
        )  # fmt: skip
        if status != lib.UR_OK:
            _fail(error)
        # A copy: cells wait for their row group, and what they do not need is given back.
        return out[: int(stored.sum())].copy().data, stored, lengths


class Decoder:
    """Decompresses the cells of one column; any number of threads may use it."""

    def __init__(self, codec: int, element_bytes: int, dictionary: bytes = b"") -> None:
        out, error = ffi.new("ur_decoder **"), ffi.new("ur_error *")
        raw = ffi.from_buffer("uint8_t[]", buffer_of(dictionary)) if dictionary else ffi.NULL
        if lib.ur_decoder_new(codec, element_bytes, raw, len(dictionary), out, error) != lib.UR_OK:
            _fail(error)
        self._handle = Handle(out[0], lib.ur_decoder_release)

    def decode(
        self, data: npt.NDArray[np.uint8], starts: U64, stored: U64, raw: U64
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
        """Values of ``raw`` bytes, one after the other, of the ``stored`` bytes at ``starts``, and which are good.

        Those that are not are zeros. The caller has bounded the sum of ``raw``.
        """
        starts, stored, raw = (np.ascontiguousarray(a, np.uint64) for a in (starts, stored, raw))
        if len(starts) and int((starts + stored).max()) > len(data):
            raise ValueError("a cell ends beyond the data")
        out, good = np.empty(int(raw.sum()), np.uint8), np.empty(len(starts), np.bool_)
        error = ffi.new("ur_error *")
        status = lib.ur_decoder_decode(
            self._handle.pointer, ffi.from_buffer("uint8_t[]", data), ffi.from_buffer("uint64_t[]", starts),
            ffi.from_buffer("uint64_t[]", stored), ffi.from_buffer("uint64_t[]", raw), len(starts),
            ffi.from_buffer("uint8_t[]", out), ffi.from_buffer("uint8_t[]", good), error,
        )  # fmt: skip
        if status != lib.UR_OK:
            _fail(error)
        return out, good


def values_cut(
    values: npt.NDArray[Any], shape: Sequence[int], chunks: Sequence[int], element_bytes: int
) -> npt.NDArray[np.uint8]:
    """Arrays of this shape, uint8 [n, bytes], with the elements of each chunk after chunk, as cells hold them."""
    return _arranged(lib.ur_values_cut, values, shape, chunks, element_bytes)


def values_joined(
    values: npt.NDArray[Any], shape: Sequence[int], chunks: Sequence[int], element_bytes: int
) -> npt.NDArray[np.uint8]:
    """The inverse of `values_cut`."""
    return _arranged(lib.ur_values_join, values, shape, chunks, element_bytes)


def _arranged(
    arrange: Any, values: npt.NDArray[Any], shape: Sequence[int], chunks: Sequence[int], element_bytes: int
) -> npt.NDArray[np.uint8]:
    given = np.ascontiguousarray(values).reshape(len(values), -1).view(np.uint8)
    out = np.empty_like(given)
    error = ffi.new("ur_error *")
    status = arrange(
        len(shape),
        ffi.new("uint64_t[]", list(shape)),
        ffi.new("uint64_t[]", list(chunks)),
        element_bytes,
        ffi.from_buffer("uint8_t[]", given),
        len(given),
        ffi.from_buffer("uint8_t[]", out, True),
        error,
    )
    if status != lib.UR_OK:
        _fail(error)
    return out
