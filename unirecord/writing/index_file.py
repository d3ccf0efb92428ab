"""Builds the index of a part from its data file alone, in two passes over the scalar pages and bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core import digest_ranges
from ..errors import CorruptionError
from ..format import layout, metadata
from ..format.layout import IndexHeader, Section
from ..format.page import row_sizes, unit_count
from ..parts.data_file import Block, DataFile, DataHead, RowGroup, blocks
from ..storage.staged import StagedFile
from .index_columns import FixedColumn, StringColumn
from .index_validity import BlobValidity
from .sorted_rows import sorted_rows

Array = npt.NDArray[Any]
_KEEP_BYTES = 64 << 20  # scalar pages kept in memory between the passes
_READ_BYTES = 4 << 20


@dataclass(frozen=True)
class IndexInfo:
    """What was indexed."""

    id: bytes
    rows: int
    groups: int
    index_bytes: int


def build_index(data_path: str, out: StagedFile, zone_rows: Mapping[int, int] | None = None) -> IndexInfo:
    """Writes the whole index of the data file at ``data_path`` to ``out``; syncing and publishing are the caller's.

    ``zone_rows``: rows of a zone by ordinal of the column, where they are not to be the usual number.
    """
    with DataFile(data_path) as data:
        return _Builder(data, out, zone_rows or {}).build()


class _Pages:
    """The row groups of a data file as blocks, read again for each pass, or kept when they are small."""

    def __init__(self, data: DataFile, head: DataHead) -> None:
        self._data, self._head = data, head
        self._kept: list[Block] | None = None

    def __iter__(self) -> Iterator[Block]:
        if self._kept is not None:
            yield from self._kept
            return
        kept: list[Block] | None = []
        size = 0
        for block in blocks(self._data.groups(self._head)):
            size += _block_bytes(block)
            kept = None if kept is None or size > _KEEP_BYTES else [*kept, block]
            yield block
        self._kept = kept


def _block_bytes(block: Block) -> int:
    strings = sum(
        c.strings.content.nbytes + c.strings.ends.nbytes for c in block.scalars if c.strings is not None
    )
    arrays = [column.values for column in block.scalars] + block.lengths + block.raw_lengths + [block.digests]
    return strings + sum(array.nbytes for array in arrays) + 1_000 * len(block.groups)


class _Builder:
    def __init__(self, data: DataFile, out: StagedFile, zone_rows: Mapping[int, int]) -> None:
        self.data, self.out = data, out
        self.head = data.head()
        self.schema = self.head.schema
        self.shape = self.head.header.shape
        self.pages = _Pages(data, self.head)
        self.columns = {
            ordinal: (StringColumn if column.is_string else FixedColumn)(
                column, zone_rows.get(ordinal, layout.ZONE_ROWS)
            )
            for ordinal, column in self.schema.scalars
        }
        self.blobs = {
            ordinal: BlobValidity() if column.nullable else None for ordinal, column in self.schema.blobs
        }
        self.variable = [ordinal for ordinal, column in self.schema.blobs if not column.stored_bytes]
        self.raw = [ordinal for ordinal, column in self.schema.blobs if column.has_raw_lengths]
        self.longest: dict[tuple[int, int], int] = {}  # by kind of section and column
        self.dictionaries = data.dictionaries(self.head)
        self.rows = self.groups = 0
        self.page_digests = bytearray().join(page.digest.to_bytes(8, "little") for page in self.dictionaries)
        self.sections: dict[tuple[int, int], Section] = {}
        self.written: dict[tuple[int, int], int] = {}

    def build(self) -> IndexInfo:
        for block in self.pages:
            self._observe(block)
        self._plan()
        header_bytes, body_end = self._place()
        blocks_of_body = -(-(body_end - header_bytes) // layout.BLOCK_BYTES)
        index_bytes = body_end + 8 * blocks_of_body
        self.out.truncate(index_bytes)
        self._write_sections()
        self._write_sorted_rows()
        self._write_digests(header_bytes, body_end)
        self._write_head(body_end, index_bytes)
        return IndexInfo(self.head.header.id, self.rows, self.groups, index_bytes)

    # first pass

    def _observe(self, block: Block) -> None:
        self.rows += block.rows
        self.groups += len(block.groups)
        self.page_digests += np.array([group.digest for group in block.groups], "<u8").tobytes()
        for key, lengths in self._lengths(block):
            self.longest[key] = max(self.longest.get(key, 0), int(lengths.max()))
        for column, values in zip(self.columns.values(), block.scalars, strict=True):
            column.observe(values)
        for blob, valid in zip(self.blobs.values(), block.blob_valid, strict=True):
            if blob is not None and valid is not None:
                blob.observe(valid)

    def _plan(self) -> None:
        self._declare(layout.SECTION_GROUPS, layout.NO_COLUMN, 32, self.groups)
        if self.schema.blobs:
            if not self.shape.row_bytes:
                starts = -(-self.rows // max(self.shape.unit_rows, 1))
                self._declare(layout.SECTION_ROW_STARTS, layout.NO_COLUMN, 8, starts)
            units = unit_count(self.schema, self.shape, self.rows)
            self._declare(layout.SECTION_DIGESTS, layout.NO_COLUMN, 8, units)
        for kind, ordinals in self._length_columns():
            for ordinal in ordinals:
                width = np.min_scalar_type(self.longest.get((kind, ordinal), 0)).itemsize
                self._declare(kind, ordinal, width, self.rows)
        for page in self.dictionaries:
            self._declare(layout.SECTION_CODEC_DICTIONARY, page.column, 1, len(page.content))
        described = self._described()
        for ordinal, column in described.items():
            for kind, (width, count, extra) in column.sections(self.rows).items():
                self._declare(kind, ordinal, width, count, extra)
        for name in self.head.metadata.index:
            width = 8 if self.rows > 1 << 32 else 4
            self._declare(layout.SECTION_ORDER, self.schema.ordinal(name), width, self.rows)
        known = [described.get(ordinal) for ordinal in range(len(self.schema))]
        self.statistics = metadata.encode_statistics([None if c is None else c.statistics() for c in known])
        self._declare(layout.SECTION_STATISTICS, layout.NO_COLUMN, 1, len(self.statistics))

    def _described(self) -> dict[int, FixedColumn | StringColumn | BlobValidity]:
        """The columns that have sections and statistics, by ordinal: scalar ones, and blobs that may be null."""
        return {**self.columns, **{i: blob for i, blob in self.blobs.items() if blob is not None}}

    def _length_columns(self) -> tuple[tuple[int, list[int]], ...]:
        return (layout.SECTION_LENGTHS, self.variable), (layout.SECTION_RAW_LENGTHS, self.raw)

    def _lengths(self, block: Block) -> Iterator[tuple[tuple[int, int], Array]]:
        """Section and column of lengths, as stored and of values, and those of the block."""
        found = zip(self._length_columns(), (block.lengths, block.raw_lengths), strict=True)
        for (kind, ordinals), columns in found:
            for ordinal, lengths in zip(ordinals, columns, strict=True):
                yield (kind, ordinal), lengths

    def _declare(self, kind: int, column: int, width: int, count: int, extra: int = 0) -> None:
        self.sections[kind, column] = Section(kind, column, width, 0, width * count, count, extra)

    def _place(self) -> tuple[int, int]:
        packed = len(self.head.packed_metadata)
        start = layout.index_head_bytes(len(self.schema), len(self.sections), packed)
        end = start
        for key in sorted(self.sections):
            entry = self.sections[key]
            self.sections[key] = replace(entry, offset=end)
            end = layout.align(end + entry.bytes, layout.PAGE_ALIGN)
        self.written = dict.fromkeys(self.sections, 0)
        return start, end

    # second pass

    def _put(self, kind: int, column: int, elements: Array | bytes) -> None:
        entry = self.sections[kind, column]
        content: Any = elements
        if isinstance(elements, np.ndarray):
            content = np.ascontiguousarray(elements).reshape(-1).view(np.uint8)
        done = self.written[kind, column]
        if done + len(content) > entry.bytes:
            raise CorruptionError(f"{self.data.path}: it changed while it was indexed", path=self.data.path)
        if len(content):
            self.out.write_at(entry.offset + done, content)
        self.written[kind, column] = done + len(content)

    def _write_sections(self) -> None:
        for ordinal, column in self.columns.items():
            column.start(lambda kind, elements, ordinal=ordinal: self._put(kind, ordinal, elements))
        self._put(layout.SECTION_STATISTICS, layout.NO_COLUMN, self.statistics)
        for page in self.dictionaries:
            self._put(layout.SECTION_CODEC_DICTIONARY, page.column, page.content)
        for block in self.pages:
            last = block.first_row + block.rows == self.rows
            self._put(layout.SECTION_GROUPS, layout.NO_COLUMN, _group_table(block.groups))
            for key, lengths in self._lengths(block):
                self._put(*key, lengths.astype(f"<u{self.sections[key].width}"))
            if self.schema.blobs:
                self._put(layout.SECTION_DIGESTS, layout.NO_COLUMN, block.digests)
                if not self.shape.row_bytes:
                    self._put(layout.SECTION_ROW_STARTS, layout.NO_COLUMN, self._row_starts(block))
                else:
                    self._check_even(block)
            for (ordinal, column), values in zip(self.columns.items(), block.scalars, strict=True):
                column.write(values, lambda kind, elements, p=ordinal: self._put(kind, p, elements), last)
            for (ordinal, blob), valid in zip(self.blobs.items(), block.blob_valid, strict=True):
                if blob is not None and valid is not None:
                    self._put(layout.SECTION_VALIDITY, ordinal, blob.packed(valid, last))
        for key, entry in self.sections.items():
            if self.written[key] != entry.bytes and entry.kind != layout.SECTION_ORDER:
                raise CorruptionError(
                    f"{self.data.path}: it changed while it was indexed", path=self.data.path
                )

    def _row_starts(self, block: Block) -> Array:
        """Where each row of the block starts, or the first of each unit of several rows."""
        sizes = row_sizes(self.schema, self.shape, block.rows, block.lengths)
        starts = []
        first = 0
        for group in block.groups:
            mine = sizes[first : first + group.page.rows]
            ends = np.cumsum(mine)
            if int(ends[-1]) != group.blob_bytes or (ends < mine).any() or int(mine.max()) > group.blob_bytes:
                self._refuse_blob_page(group)
            starts.append((ends - mine + np.uint64(group.blob_payload))[:: max(self.shape.unit_rows, 1)])
            first += group.page.rows
        return np.concatenate(starts)

    def _check_even(self, block: Block) -> None:
        for group in block.groups:
            if group.blob_bytes != group.page.rows * self.shape.row_bytes:
                self._refuse_blob_page(group)

    def _refuse_blob_page(self, group: RowGroup) -> None:
        raise CorruptionError(
            f"{self.data.path}: the blob page at {group.blob_offset} has {group.blob_bytes} bytes, "
            f"which its rows do not add up to",
            path=self.data.path,
            offset=group.blob_offset,
        )

    # sorted rows

    def _write_sorted_rows(self) -> None:
        for name in self.head.metadata.index:
            ordinal = self.schema.ordinal(name)
            width = self.sections[layout.SECTION_ORDER, ordinal].width
            column = self.columns[ordinal]
            plain = isinstance(column, StringColumn) and column.plain
            keys = self._string_keys(ordinal) if plain else self._keys(ordinal)
            refine = self._refine(ordinal) if plain else None
            for run in sorted_rows(self.rows, keys, self._validity(ordinal), refine):
                self._put(layout.SECTION_ORDER, ordinal, run.astype(f"<u{width}"))

    def _section(self, kind: int, ordinal: int, start: int, stop: int, dtype: Any) -> Array:
        entry = self.sections[kind, ordinal]
        raw = self.out.read_at(entry.offset + start * entry.width, (stop - start) * entry.width)
        return np.frombuffer(raw, dtype=dtype)

    def _keys(self, ordinal: int) -> Any:
        column = self.columns[ordinal]
        if isinstance(column, FixedColumn):
            return lambda start, stop: self._section(
                layout.SECTION_VALUES, ordinal, start, stop, column.dtype
            )
        dtype = f"<u{self.sections[layout.SECTION_CODES, ordinal].width}"
        return lambda start, stop: self._section(layout.SECTION_CODES, ordinal, start, stop, dtype)

    def _validity(self, ordinal: int) -> Any:
        if not self.schema[ordinal].nullable:
            return lambda start, stop: None

        def read(start: int, stop: int) -> Array:
            first = start // 8
            raw = self._section(layout.SECTION_VALIDITY, ordinal, first, -(-stop // 8), np.uint8)
            return np.unpackbits(raw, bitorder="little")[start - 8 * first : stop - 8 * first].astype(bool)

        return read

    def _strings(self, ordinal: int, start: int, stop: int) -> list[bytes]:
        ends = self._section(layout.SECTION_STRING_OFFSETS, ordinal, start, stop + 1, "<u8").tolist()
        entry = self.sections[layout.SECTION_STRING_BYTES, ordinal]
        raw = self.out.read_at(entry.offset + ends[0], ends[-1] - ends[0])
        return [raw[a - ends[0] : b - ends[0]] for a, b in pairwise(ends)]

    def _string_keys(self, ordinal: int) -> Any:
        def read(start: int, stop: int) -> Array:
            prefixes = b"".join(string[:8].ljust(8, b"\0") for string in self._strings(ordinal, start, stop))
            return np.frombuffer(prefixes, ">u8").astype(np.uint64)

        return read

    def _refine(self, ordinal: int) -> Any:
        def refine(rows: Array) -> Array:
            strings = {row: self._strings(ordinal, row, row + 1)[0] for row in rows.tolist()}
            return np.array(sorted(strings, key=strings.__getitem__), dtype=rows.dtype)

        return refine

    # digests and head

    def _write_digests(self, start: int, end: int) -> None:
        seed = layout.seed(self.head.header.id, layout.DOMAIN_INDEX_BLOCK)
        step = _READ_BYTES
        for offset in range(start, end, step):
            raw = self.out.read_at(offset, min(step, end - offset))
            starts = np.arange(0, len(raw), layout.BLOCK_BYTES, dtype=np.uint64)
            lengths = np.minimum(np.uint64(layout.BLOCK_BYTES), np.uint64(len(raw)) - starts)
            first = (offset - start) // layout.BLOCK_BYTES
            found = digest_ranges(
                raw, starts, lengths, (seed + first * layout.PHI) & layout.MASK64, layout.PHI
            )
            self.out.write_at(end + 8 * first, found.astype("<u8").tobytes())

    def _write_head(self, body_end: int, index_bytes: int) -> None:
        data = self.head.header
        header = IndexHeader(
            data.id, self.data.size, self.rows, self.groups, len(self.schema), len(self.sections),
            len(self.head.packed_metadata), index_bytes, body_end, data.header_digest,
            layout.content_digest(data.id, self.page_digests), data.shape, 0, 0, 0, data.writer_version,
            data.optional_features,
        )  # fmt: skip
        entries = [self.sections[key] for key in sorted(self.sections)]
        self.out.write_at(
            0, layout.pack_index_head(header, self.head.table, entries, self.head.packed_metadata)
        )


def _group_table(groups: list[RowGroup]) -> Array:
    table = [(group.first_row, group.offset, group.blob_offset, group.blob_payload) for group in groups]
    return np.array(table, dtype="<u8")
