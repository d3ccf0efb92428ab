"""Values of a row group's blob columns, as they are or decompressed, in pieces of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..core import Decoder
from ..errors import CodecError, CorruptionError
from ..format.codec import impossible_sizes
from ..format.column import Column
from ..parts.data_file import DataFile, DataHead, RowGroup
from .walk import cell_places

__all__ = ["CellValues", "Decoders", "Values", "pieces_of"]

_PIECE_BYTES: Final = 64 << 20  # decompressed at a time, unless a single value has more

U64 = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.intp]


class Decoders:
    """What decompresses the cells of a part's compressed columns.

    ``dictionaries``: by ordinal of the column. ``whole``: these are all that there were; else a column for which there
    is none here cannot be decompressed, since nobody knows whether it had one.

    ``unavailable``: why columns cannot be read here, by ordinal, and ``lost``: why they cannot be read anywhere.
    """

    def __init__(self, head: DataHead, dictionaries: Mapping[int, bytes], *, whole: bool) -> None:
        self._found: dict[int, Decoder] = {}
        self.unavailable: dict[int, str] = {}
        self.lost: dict[int, str] = {}
        for ordinal, column in head.schema.blobs:
            if column.codec is None:
                continue
            if ordinal not in dictionaries and not whole:
                self.lost[ordinal] = "its dictionary cannot be read"
            else:
                self._add(ordinal, column, dictionaries.get(ordinal, b""))

    def _add(self, ordinal: int, column: Column, dictionary: bytes) -> None:
        assert column.codec is not None
        try:
            self._found[ordinal] = Decoder(column.codec.code, column.element_bytes, dictionary)
        except CodecError as error:
            self.unavailable[ordinal] = str(error)
        except CorruptionError as error:
            self.lost[ordinal] = str(error)

    @classmethod
    def of(
        cls, data: DataFile, head: DataHead, others: Callable[[], Mapping[int, bytes] | None] = lambda: None
    ) -> Decoders:
        """Those of a data file; ``others`` gives the dictionaries that its index repeats, if it is sound."""
        found: dict[int, bytes] = {}
        try:
            for page in data.each_dictionary(head):
                found[page.column] = page.content
        except CorruptionError:
            known = others()
            return cls(head, found if known is None else known, whole=known is not None)
        return cls(head, found, whole=True)

    def check_available(self, head: DataHead, path: str) -> None:
        """CodecError when a column cannot be read here."""
        for ordinal, why in self.unavailable.items():
            raise CodecError(f"{path}, column {head.schema[ordinal].name!r}: {why}")

    def decoder(self, ordinal: int) -> Decoder | None:
        """That of a column; None when its cells cannot be decompressed here."""
        return self._found.get(ordinal)


@dataclass(frozen=True)
class Values:
    """Values of some rows of a column: they lie in ``data``; ``good``: which could be decompressed."""

    rows: Rows
    data: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    good: npt.NDArray[np.bool_]


def _raw_sizes(head: DataHead, group: RowGroup) -> dict[int, U64]:
    """Bytes of the value of each row of the group, by ordinal of the compressed column."""
    given = iter(group.page.raw_lengths)
    return {
        ordinal: next(given)
        if column.has_raw_lengths
        else np.full(group.page.rows, column.fixed_bytes, np.uint64)
        for ordinal, column in head.schema.blobs
        if column.codec is not None
    }


def pieces_of(head: DataHead, group: RowGroup, rows: Rows) -> Iterator[Rows]:
    """These rows in pieces of which the compressed columns can be decompressed in bounded memory."""
    raw = [sizes[rows].astype(np.float64) for sizes in _raw_sizes(head, group).values()]
    if not raw:
        if len(rows):
            yield rows
        return
    for cut in _cuts(np.sum(raw, axis=0)):
        yield rows[cut]


class CellValues:
    """The values of a row group's blob columns; where its cells lie is worked out once for all columns."""

    def __init__(
        self, head: DataHead, group: RowGroup, payload: npt.NDArray[np.uint8], decoders: Decoders
    ) -> None:
        self._blobs, self._payload, self._decoders = head.schema.blobs, payload, decoders
        self._places, self._sizes = cell_places(head, group)
        self._raw = _raw_sizes(head, group)

    def of(self, j: int, rows: Rows) -> Iterator[Values]:
        """Those of these rows in the j-th blob column; nothing of a column that cannot be decompressed."""
        starts, stored = self._places[rows, j], self._sizes[rows, j]
        ordinal, column = self._blobs[j]
        if column.codec is None:
            good = np.ones(len(rows), bool)
            yield Values(rows, self._payload, starts.astype(np.int64), stored.astype(np.int64), good)
            return
        decoder = self._decoders.decoder(ordinal)
        if decoder is None:
            return
        raw = self._raw[ordinal][rows]
        impossible = impossible_sizes(stored, raw)
        raw = np.where(impossible, np.uint64(0), raw)
        stored = np.where(impossible, np.uint64(0), stored)
        for cut in _cuts(raw):
            data, good = decoder.decode(self._payload, starts[cut], stored[cut], raw[cut])
            ends = np.cumsum(raw[cut], dtype=np.int64)
            lengths = raw[cut].astype(np.int64)
            yield Values(rows[cut], data, ends - lengths, lengths, good & ~impossible[cut])


def _cuts(sizes: npt.NDArray[Any]) -> Iterator[slice]:
    """Slices of values that have so many bytes together, or are one."""
    ends: npt.NDArray[Any] = np.cumsum(sizes, dtype=np.float64)
    first = 0
    while first < len(ends):
        before = ends[first - 1] if first else 0.0
        stop = max(int(np.searchsorted(ends, before + _PIECE_BYTES, side="right")), first + 1)
        yield slice(first, stop)
        first = stop
