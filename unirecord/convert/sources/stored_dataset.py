"""UniRecord datasets as a source: the rows as stored, to be written with other columns, names, codecs or order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from ...errors import CorruptionError, StaleError
from ...format.column import Column
from ...format.layout import DATA_MAGIC
from ...format.schema import Schema
from ...format.values import decode_cell
from ...progress import Progress
from ...snapshot import manifest
from ...snapshot.dataset_path import resolve
from ...snapshot.part_set import ColumnResult, PartSet, check_values
from ...storage.storage_options import current_storage, use_storage
from .input_path import InputPath
from .source import Options, RawBatch, Source, Unit

__all__ = ["StoredDataset", "rows_at_once", "stored_rows", "with_codecs_of"]

_UNIT_BYTES: Final = 8 << 20
_UNIT_ROWS: Final = (64, 1 << 16)


class StoredDataset(Source):
    """A dataset of UniRecord, a directory or one part, with its metadata, annotations and codecs."""

    kind: ClassVar[str] = "unirecord"
    about: ClassVar[str] = "a UniRecord dataset"
    handles: ClassVar[tuple[str, ...]] = ("_opened",)
    reads: ClassVar[str] = "a directory with manifest.json and parts, or a part"
    suffixes: ClassVar[tuple[str, ...]] = (".urec",)

    @classmethod
    def recognises(cls, source: InputPath) -> bool:
        """By the manifest of a directory; of a part by its name or its first bytes."""
        return cls.can_read(source)

    @classmethod
    def can_read(cls, source: InputPath) -> bool:
        """What is recognised; of an object store all, since nothing else is read there."""
        if source.is_elsewhere:
            return True
        if source.is_folder:
            return manifest.NAME in source.peek and any(name.endswith(".urec") for name in source.peek)
        named = source.is_file and source.suffix in cls.suffixes
        return named or source.head(len(DATA_MAGIC)) == DATA_MAGIC

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Read what the dataset says of itself."""
        self._opened: PartSet | None = None
        self._identity: str | None = None
        self._storage = current_storage()
        parts = self._parts()
        found = parts.snapshot
        self._identity = found.identity
        self.metadata: Any = found.metadata
        self.indexed: Sequence[str] = found.index
        self.schema: Schema = options.schema(
            {column.name: column for column in with_codecs_of(parts.schema, parts)}
        )
        step, rows = rows_at_once(parts, _UNIT_BYTES), found.rows - found.deleted
        self.units: Sequence[Unit] = [
            Unit(f"{self.path}, rows from {start:,}", (start, found.identity), min(step, rows - start))
            for start in range(0, rows, step)
        ]

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield a range of rows."""
        assert unit.rows is not None
        start = unit.place[0]
        parts = self._parts()
        live = parts.live
        numbers = np.arange(start, start + unit.rows, dtype=np.int64)
        yield stored_rows(parts, numbers if live is None else live.range(start, unit.rows), self.schema.names)

    def done(self) -> None:
        """Close the files."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _parts(self) -> PartSet:
        if self._opened is None:
            with use_storage(self._storage):
                found = resolve(self.input.path)
            if self._identity not in (None, found.identity):
                raise StaleError(
                    f"{self.path} was written anew while it was read, so nothing was published: convert it again"
                )
            self._opened = PartSet(found, knows_deletions=True)
        return self._opened


def rows_at_once(parts: PartSet, size: int) -> int:
    """How many rows make about ``size`` bytes."""
    return min(max(int(size / max(parts.mean_row_bytes(), 1.0)), _UNIT_ROWS[0]), _UNIT_ROWS[1])


def stored_rows(parts: PartSet, rows: NDArray[np.int64], names: Sequence[str] | None = None) -> RawBatch:
    """Rows of a dataset, the columns of these names or all, in the order given, as a writer takes them."""
    names = parts.schema.names if names is None else names
    ordinals = [parts.schema.ordinal(name) for name in names]
    found = parts.read(rows, ordinals)
    check_values(parts, rows, found, columns=ordinals, blobs=False)
    try:
        columns = {name: _raw(parts.schema[name], data) for name, data in zip(names, found, strict=True)}
    except CorruptionError:
        check_values(parts, rows, found, columns=ordinals)  # says where
        raise
    return RawBatch(columns, len(rows))


def with_codecs_of(schema: Schema, parts: PartSet) -> Schema:
    """The columns, compressed as those of the last part are; as they are where there is none."""
    if not len(parts):
        return schema
    last = parts.part(len(parts) - 1).stored_schema
    return Schema(replace(c, codec=last[c.name].codec if c.name in last else None) for c in schema)


def _raw(column: Column, data: ColumnResult) -> Any:
    """The values of a column as a writer takes them."""
    valid = data.valid
    if data.offsets is None:
        if valid is None:
            return data.data
        if not column.is_blob:
            return np.ma.MaskedArray(data.data, mask=~valid)
        return [value if there else None for value, there in zip(data.data, valid.tolist(), strict=True)]
    memory, ends = memoryview(data.data), data.offsets.tolist()
    cells = [memory[start:stop] for start, stop in pairwise(ends)]
    there = [True] * len(cells) if valid is None else valid.tolist()
    decode = _text if column.is_string else decode_cell
    return [decode(column, cell) if one else None for cell, one in zip(cells, there, strict=True)]


def _text(column: Column, cell: memoryview) -> str:
    return str(cell, "utf-8")
