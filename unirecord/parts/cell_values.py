"""Values of a row group's blob columns, as they are or decompressed, in pieces of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..core import Decoder
from ..errors import CodecError, CorruptionError
from ..format.column import Column, impossible_sizes
from ..format.schema import Schema
from ..format.value_rules import (
    NULL_WITH_BYTES,
    Values,
    filled_nulls,
    no_values,
    takes_any_bytes,
)
from .data_file import DataFile, DataHead, RowGroup

__all__ = ["CellValues", "Decoders", "pieces_of"]

_PIECE_BYTES: Final = 64 << 20  # decompressed at a time, unless a single value has more

_UNDONE: Final = "the cell cannot be decompressed to the size that is stored for it"

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


def _raw_sizes(schema: Schema, rows: int, raw_lengths: Sequence[npt.NDArray[Any] | None]) -> dict[int, U64]:
    """Bytes of the value of each row, by ordinal of the compressed column; ``raw_lengths``: where they differ."""
    given = iter(raw_lengths)
    sizes = {}
    for ordinal, column in schema.blobs:
        if column.has_raw_lengths:
            known = next(given)
            assert known is not None
            sizes[ordinal] = known.astype(np.uint64, copy=False)
        elif column.codec is not None:
            sizes[ordinal] = np.full(rows, column.fixed_bytes, np.uint64)
    return sizes


def pieces_of(head: DataHead, group: RowGroup, rows: Rows) -> Iterator[Rows]:
    """These rows in pieces of which the compressed columns can be decompressed in bounded memory."""
    every = _raw_sizes(head.schema, group.page.rows, group.page.raw_lengths)
    raw = [sizes[rows].astype(np.float64) for sizes in every.values()]
    if not raw:
        if len(rows):
            yield rows
        return
    for cut in _cuts(np.sum(raw, axis=0)):
        yield rows[cut]


class CellValues:
    """The values of the blob columns of some rows, decompressed where they are compressed.

    ``places``, ``sizes``: where each cell lies in ``payload`` and its length, [rows, blob columns]; ``raw_lengths``:
    bytes of the values of each compressed column of variable width.
    """

    def __init__(
        self,
        schema: Schema,
        places: U64,
        sizes: U64,
        raw_lengths: Sequence[npt.NDArray[Any] | None],
        payload: npt.NDArray[np.uint8],
        decoders: Decoders,
    ) -> None:
        self._blobs, self._payload, self._decoders = schema.blobs, payload, decoders
        self._places, self._sizes = places, sizes
        self._raw = _raw_sizes(schema, len(places), raw_lengths)

    def of(self, j: int, rows: Rows) -> Iterator[Values]:
        """Those of these rows in the j-th blob column; none of a column that cannot be decompressed."""
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

    def problems(
        self, j: int, valid: npt.NDArray[np.bool_] | None, among: npt.NDArray[np.bool_] | None = None
    ) -> Iterator[tuple[str, Rows]]:
        """What is wrong in the j-th blob column, each with its rows: cells of no value, and nulls that have bytes.

        ``among``: the rows that are looked at; None: all.
        """
        _, column = self._blobs[j]
        every = np.ones(len(self._places), bool) if among is None else among
        problems: dict[str, list[Rows]] = {}
        if valid is not None:
            for values in self.of(j, np.flatnonzero(~valid & every)):
                problems.setdefault(_UNDONE, []).append(values.rows[~values.good])
                problems.setdefault(NULL_WITH_BYTES, []).append(filled_nulls(column, values))
        if valid is not None or column.codec is not None or not takes_any_bytes(column):
            for values in self.of(j, np.flatnonzero(every if valid is None else every & valid)):
                problems.setdefault(_UNDONE, []).append(values.rows[~values.good])
                problems.setdefault(f"the bytes are no value of {column}", []).append(
                    no_values(column, values)
                )
        for what, found in problems.items():
            yield what, np.sort(np.concatenate(found))


def _cuts(sizes: npt.NDArray[Any]) -> Iterator[slice]:
    """Slices of values that have so many bytes together, or are one."""
    ends: npt.NDArray[Any] = np.cumsum(sizes, dtype=np.float64)
    first = 0
    while first < len(ends):
        before = ends[first - 1] if first else 0.0
        stop = max(int(np.searchsorted(ends, before + _PIECE_BYTES, side="right")), first + 1)
        yield slice(first, stop)
        first = stop
