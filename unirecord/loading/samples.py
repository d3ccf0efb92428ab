"""Rows of parts as samples: dicts of Python and numpy values, one, many, or a batch of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptionError
from ..format.column import Column
from ..format.values import decode_cell
from ..snapshot.part_set import Empty, PartSet
from .batch import column_value, split_batch

__all__ = [
    "SampleReader",
    "WhereFrom",
]


# The column that says which source of a mixture a row is of: made of row numbers, not stored.


class WhereFrom:
    """The column ``column``: for each row the name of its source. Source i has the rows from ``first_rows[i]`` on."""

    def __init__(self, column: str, names: Sequence[str], first_rows: Sequence[int]) -> None:
        self.column = column
        self.names: tuple[str, ...] = tuple(names)
        self._names = np.array(names, object)
        self._first_rows = np.array(first_rows, np.int64)

    def add_one(self, sample: dict[str, Any], row: int) -> None:
        """Puts the name of a row's source into its sample."""
        sample[self.column] = self.names[int(np.searchsorted(self._first_rows, row, side="right")) - 1]

    def add(self, batch: dict[str, Any], rows: NDArray[np.int64]) -> None:
        """Puts the names of the sources of these rows into their batch, as a list."""
        batch[self.column] = self._names[np.searchsorted(self._first_rows, rows, side="right") - 1].tolist()


Decode = Callable[[bytes], Any]
Read = TypeVar("Read")


class SampleReader:
    """Reads chosen columns of a set of parts, and the name of a row's source where there are several. Thread-safe."""

    def __init__(
        self, parts: PartSet, columns: Sequence[tuple[int, Column]], where_from: WhereFrom | None = None
    ) -> None:
        self._parts = parts
        self._where_from = where_from
        self._reader = parts.reader([ordinal for ordinal, _ in columns])
        self._columns = [column for _, column in columns]
        decoders = [(column.name, _decoder(column)) for column in self._columns]
        self._decoders = [(name, decode) for name, decode in decoders if decode is not None]

    def one_by_one(self) -> Callable[[int], dict[str, Any]]:
        """What reads the sample of one row as `one` does, past what these columns have no need of."""
        return self.one if self._decoders or self._where_from is not None else self._reader.read_one

    def one(self, row: int) -> dict[str, Any]:
        """The sample of one row."""
        sample = self._reader.read_one(row)
        for name, decode in self._decoders:
            stored = sample[name]
            if stored is None:
                continue
            try:
                sample[name] = decode(stored)
            except (CorruptionError, UnicodeDecodeError) as error:
                raise self._placed(error, row, name) from error
        if self._where_from is not None:
            self._where_from.add_one(sample, row)
        return sample

    def many(self, rows: NDArray[np.int64]) -> list[dict[str, Any]]:
        """The samples of these rows, read with one call; their arrays are pieces of one block of memory."""
        return split_batch(self.batch(rows), len(rows))

    def placing(self, rows: NDArray[np.int64], read: Callable[[], Read]) -> Read:
        """What ``read`` makes of the rows; one that cannot be decoded is named."""
        try:
            return read()
        except (CorruptionError, UnicodeDecodeError) as error:
            if isinstance(error, CorruptionError) and error.path is not None:
                raise
            for row in rows.tolist():  # finds the row that cannot be decoded
                self.one(row)
            raise

    def batch(self, rows: NDArray[np.int64], empty: Empty = np.empty) -> dict[str, Any]:
        """These rows as a dict of arrays, as ``UniRecordDataset.batches`` gives them; ``empty`` makes their memory.

        One that cannot be decoded is named.
        """
        return self.placing(rows, lambda: self._batch(rows, empty))

    def _batch(self, rows: NDArray[np.int64], empty: Empty) -> dict[str, Any]:
        results = self._reader.read(rows, empty)
        batch = {
            column.name: column_value(column, result.data, result.offsets, result.valid)
            for column, result in zip(self._columns, results, strict=True)
        }
        if self._where_from is not None:
            self._where_from.add(batch, rows)
        return batch

    def _placed(self, error: Exception, row: int, column: str) -> CorruptionError:
        """The error for a row whose digests hold but whose bytes no writer of ours would have written."""
        path, row_in_part = self._parts.locate(row)
        message = f"{path}: row {row_in_part}, column {column!r}: {error}"
        return CorruptionError(message, path=path, row=row_in_part, column=column)


def _decoder(column: Column) -> Decode | None:
    """Stored bytes of one value to the value; None: they are the value."""
    if column.fixed_bytes:
        return None
    if column.is_array:
        return lambda cell: decode_cell(column, cell)
    if column.is_string or column.type == "text":
        return bytes.decode
    if column.type == "bytes":
        return None
    return lambda cell: decode_cell(column, cell)  # an object
