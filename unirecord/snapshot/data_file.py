"""Reads a data file from front to back: head, and the scalar pages of its row groups, every one checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core import CODEC_PLAIN
from ..errors import ColumnError, CorruptionError, FormatError
from ..format import layout, metadata
from ..format.layout import EndPage, FileHeader, PageHeader
from ..format.metadata import Metadata
from ..format.page import (
    ScalarPage,
    compressing_pays,
    decode_scalar_page,
    fixed_rows,
    plain_payload,
    unit_count,
)
from ..format.schema import Schema
from ..format.values import PackedStrings
from ..sizes import many
from ..storage.schemes import location_of

_BLOCK_ROWS = 1 << 18
_BLOCK_BYTES = 16 << 20


@dataclass(frozen=True)
class DataHead:
    """The head of a data file."""

    header: FileHeader
    table: bytes
    packed_metadata: bytes
    metadata: Metadata  # its schema with the codecs of the column table

    @property
    def schema(self) -> Schema:
        return self.metadata.schema


@dataclass(frozen=True)
class DictionaryPage:
    """The dictionary of a compressed column: its ordinal, where its page stands and ends, and its content."""

    column: int
    offset: int
    end: int
    content: bytes
    digest: int


@dataclass(frozen=True)
class RowGroup:
    """A row group: its first row, where its pages and its blobs start (0: no blob page), and its scalar page."""

    first_row: int
    offset: int
    blob_offset: int
    blob_payload: int
    blob_bytes: int
    end: int
    page: ScalarPage
    digest: int | None  # of the scalar page's payload; None: not known


def checked_head(header: FileHeader, table: bytes, packed: bytes) -> DataHead:
    """The head of these fields, column table and packed metadata; FormatError unless they go together."""
    found = metadata.decode(packed)
    found = replace(found, schema=found.schema.with_codecs(table))
    layout.check_shape(header.shape, blobs=bool(found.schema.blobs))
    rows_at = fixed_rows(found.schema, header.shape.blob_align)
    if header.shape.row_bytes != (rows_at.row_bytes if rows_at else 0):
        raise FormatError(f"row_bytes is {header.shape.row_bytes}, which is not what the schema adds up to")
    return DataHead(header, table, packed, found)


class DataFile:
    """A data file open for reading, whose bytes may be hostile."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._file = location_of(path).open(path)
        self.size: int = self._file.size

    def __enter__(self) -> DataFile:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def read(self, offset: int, size: int) -> bytes:
        """Exactly these bytes; CorruptionError when the file ends before."""
        if min(offset, size) < 0 or offset + size > self.size:
            raise CorruptionError(
                f"{self.path}: the file ends at {self.size}; expected {many(size, 'byte')} at {offset}",
                path=self.path,
                offset=offset,
            )
        raw = self._file.read_at(offset, size)
        if len(raw) < size:
            raise self._cut(offset + len(raw))
        return raw

    def read_into(self, buffer: Any, offset: int) -> None:
        """Fills the buffer from ``offset`` on; CorruptionError when the file ends before."""
        read = self._file.read_into(buffer, offset)
        if read < memoryview(buffer).nbytes:
            raise self._cut(offset + read)

    def _cut(self, offset: int) -> CorruptionError:
        what = f"{self.path}: the file was cut while it was read"
        return CorruptionError(what, path=self.path, offset=offset)

    def _stored_head(self) -> tuple[FileHeader, bytes, bytes]:
        """Header, column table and metadata as stored; their digests are checked, and nothing that they say."""
        header = layout.unpack_file_header(self.read(0, min(self.size, layout.HEADER_BYTES)))
        rest = self.read(layout.HEADER_BYTES, header.header_bytes - layout.HEADER_BYTES)
        if layout.digest(rest, layout.seed(header.id, layout.DOMAIN_HEAD)) != header.head_digest:
            raise CorruptionError(
                "the schema and metadata do not have the digest stored with them", offset=128
            )
        size = layout.COLUMN_BYTES * header.columns
        return header, rest[:size], rest[size : size + header.metadata_bytes]

    def head(self) -> DataHead:
        """Reads and checks the head."""
        try:
            return checked_head(*self._stored_head())
        except FormatError as error:
            raise FormatError(f"{self.path}: {error}") from error
        except CorruptionError as error:
            raise self.located(error) from error

    def located(self, error: CorruptionError) -> CorruptionError:
        """The error with the file's name in it."""
        if error.path is not None:
            return error
        return CorruptionError(f"{self.path}: {error}", path=self.path, offset=error.offset, row=error.row)

    def page_header(self, head: DataHead, offset: int) -> PageHeader:
        return layout.unpack_page_header(head.header.id, offset, self.read(offset, layout.PAGE_HEADER_BYTES))

    def check_ancillary(self, head: DataHead, offset: int, header: PageHeader) -> None:
        """CorruptionError unless an ancillary page is in the file whole and its payload as it was written."""
        payload = self.read(header.payload(offset), header.end(offset) - header.payload(offset))
        content, zeros = payload[: header.payload_bytes], payload[header.payload_bytes :]
        expected = layout.digest(content, layout.seed(head.header.id, layout.DOMAIN_ANCILLARY, offset))
        if expected != header.payload_digest or any(zeros):
            raise CorruptionError(
                f"the ancillary page at {offset} does not have the digest stored with it", offset=offset
            )

    def dictionary(self, head: DataHead, offset: int, header: PageHeader, before: int = -1) -> DictionaryPage:
        """The dictionary whose page stands at ``offset``, checked; ``before``: the column of the one before it."""
        column = header.group
        if column <= before or column >= len(head.schema) or head.schema[column].codec is None:
            raise CorruptionError(
                f"the dictionary at {offset} is for column {column}, which has none", offset=offset
            )
        end = header.end(offset)
        payload = self.read(header.payload(offset), end - header.payload(offset))
        content, zeros = payload[: header.payload_bytes], payload[header.payload_bytes :]
        expected = layout.digest(content, layout.seed(head.header.id, layout.DOMAIN_CODEC_DICTIONARY, offset))
        if expected != header.payload_digest or any(zeros):
            raise CorruptionError(
                f"the dictionary at {offset} does not have the digest stored with it", offset=offset
            )
        return DictionaryPage(column, offset, end, content, expected)

    def dictionaries(self, head: DataHead) -> list[DictionaryPage]:
        """The dictionaries of compressed columns, which stand before all row groups, in the order of the columns."""
        try:
            return list(self.each_dictionary(head))
        except CorruptionError as error:
            raise self.located(error) from error

    def each_dictionary(self, head: DataHead) -> Iterator[DictionaryPage]:
        """The same, one by one up to the first page that is damaged."""
        if all(column.codec is None for column in head.schema):
            return
        offset, last = head.header.header_bytes, -1
        while True:
            header = self.page_header(head, offset)
            if header.kind == layout.PAGE_DICTIONARY:
                page = self.dictionary(head, offset, header, last)
                last = page.column
                yield page
            elif not header.is_ancillary:
                return
            offset = header.end(offset)

    def end_page(self, head: DataHead) -> EndPage:
        """The end page alone; CorruptionError when the file does not end with one."""
        at = max(self.size - layout.PAGE_HEADER_BYTES, head.header.header_bytes)
        return layout.unpack_end_page(head.header.id, at, self.read(at, layout.PAGE_HEADER_BYTES))

    def content_digest(self, head: DataHead) -> bytes | None:
        """The content digest that the end page holds; None when there is no end page."""
        try:
            return self.end_page(head).content_digest
        except CorruptionError:
            return None

    def stored_scalars(self, head: DataHead, offset: int, header: PageHeader) -> bytes:
        """The payload of the scalar page at ``offset``, checked, as it is stored."""
        stored = self.read(header.payload(offset), header.payload_bytes)
        expected = layout.digest(stored, layout.seed(head.header.id, layout.DOMAIN_SCALARS, offset))
        if expected != header.payload_digest:
            raise CorruptionError(
                f"the scalar page at {offset} does not have the digest stored with it", offset=offset
            )
        return stored

    def plain_scalars(self, head: DataHead, offset: int, header: PageHeader, stored: bytes) -> memoryview:
        """The same payload, not compressed.

        ColumnError, which names the file, where its codec is not known, or libzstd is missing.
        """
        try:
            return plain_payload(head.schema, head.header.shape, header, stored)
        except CorruptionError as error:
            raise CorruptionError(f"at {offset}: {error}", offset=offset) from None
        except ColumnError as error:
            raise ColumnError(
                f"{self.path}: its scalar pages are compressed, and cannot be read here: {error}"
            ) from None

    def has_plain_scalars(self, head: DataHead) -> bool:
        """Whether the writer was told not to compress scalar pages: the first is plain, though compressing it pays.

        CorruptionError, which names the file, where that page cannot be read.
        """
        try:
            return self._leaves_scalars_plain(head)
        except CorruptionError as error:
            raise CorruptionError(f"{self.path}: {error}", path=self.path, offset=error.offset) from None

    def _leaves_scalars_plain(self, head: DataHead) -> bool:
        offset = head.header.header_bytes
        while (header := self.page_header(head, offset)).kind != layout.PAGE_SCALAR:
            if header.kind == layout.PAGE_END:
                return False
            offset = header.end(offset)
        if header.codec != CODEC_PLAIN:
            return False
        payload = memoryview(self.stored_scalars(head, offset, header))
        digests = 8 * unit_count(head.schema, head.header.shape, header.rows)
        return compressing_pays(payload[: len(payload) - digests])

    def group(self, head: DataHead, offset: int, header: PageHeader) -> RowGroup:
        """The row group whose scalar page stands at ``offset``; its blobs are not read."""
        stored = self.stored_scalars(head, offset, header)
        payload = self.plain_scalars(head, offset, header, stored)
        page = decode_scalar_page(head.schema, head.header.shape, header.rows, payload)
        start = header.end(offset)
        if not head.schema.blobs:
            return RowGroup(header.first_row, offset, 0, 0, 0, start, page, header.payload_digest)
        blob = self.page_header(head, start)
        if blob.kind != layout.PAGE_BLOB or (blob.group, blob.first_row, blob.rows) != (
            header.group, header.first_row, header.rows,
        ):  # fmt: skip
            raise CorruptionError(
                f"the page at {start} is not the blob page of row group {header.group}", offset=start
            )
        end = blob.end(start)
        if end > self.size:
            raise CorruptionError(
                f"the blob page at {start} ends at {end}, the file at {self.size}", offset=start
            )
        return RowGroup(
            header.first_row,
            offset,
            start,
            blob.payload(start),
            blob.payload_bytes,
            end,
            page,
            header.payload_digest,
        )

    def groups(self, head: DataHead) -> Iterator[RowGroup]:
        """All row groups of a finished file, in order; CorruptionError at the first thing that is not as it must be."""
        try:
            yield from self._groups(head)
        except CorruptionError as error:
            raise self.located(error) from error

    def _groups(self, head: DataHead) -> Iterator[RowGroup]:
        offset, number, rows = head.header.header_bytes, 0, 0
        digests = bytearray()
        dictionary = -1  # the column of the last one
        even, unit = head.header.shape.group_rows, max(head.header.shape.unit_rows, 1)
        while True:
            header = self.page_header(head, offset)
            if header.is_ancillary and header.end(offset) <= self.size:
                offset = header.end(offset)
                continue
            if header.kind == layout.PAGE_DICTIONARY and number == 0:
                found = self.dictionary(head, offset, header, dictionary)
                digests += found.digest.to_bytes(8, "little")
                offset, dictionary = found.end, found.column
                continue
            if header.kind == layout.PAGE_END:
                pages = layout.pages_digest(head.header.id, digests)
                end = self.end_page(head)
                if (end.groups, end.rows, end.pages_digest, offset + layout.PAGE_HEADER_BYTES) != (
                    number, rows, pages, self.size,
                ):  # fmt: skip
                    raise CorruptionError(
                        f"the end page at {offset} does not go with what is before it", offset=offset
                    )
                return
            short = (even and (header.rows > even or rows % even)) or rows % unit
            if (
                header.kind != layout.PAGE_SCALAR
                or (header.group, header.first_row) != (number, rows)
                or short
            ):
                raise CorruptionError(
                    f"the page at {offset} is not that of row group {number}", offset=offset
                )
            group = self.group(head, offset, header)
            yield group
            digests += header.payload_digest.to_bytes(8, "little")
            offset, number, rows = group.end, number + 1, rows + header.rows


@dataclass(frozen=True)
class BlockColumn:
    """A scalar column of a block: values (strings: their lengths), validity, and the strings themselves."""

    values: npt.NDArray[Any]
    valid: npt.NDArray[np.bool_] | None
    strings: PackedStrings | None


@dataclass(frozen=True)
class Block:
    """Some row groups in a row, their columns joined."""

    first_row: int
    rows: int
    groups: list[RowGroup]
    scalars: list[BlockColumn]
    lengths: list[npt.NDArray[np.uint64]]
    raw_lengths: list[npt.NDArray[np.uint64]]
    blob_valid: list[npt.NDArray[np.bool_] | None]
    digests: npt.NDArray[np.uint64]
    chunk_lengths: list[npt.NDArray[np.uint64]]
    chunk_digests: list[npt.NDArray[np.uint64]]


def blocks(groups: Iterator[RowGroup]) -> Iterator[Block]:
    """Joins row groups to blocks that are worth a vectorised step."""
    pending: list[RowGroup] = []
    rows = size = 0
    for group in groups:
        pending.append(group)
        rows += group.page.rows
        size += 8 * group.page.digests.size + sum(16 * each.size for each in group.page.chunk_digests)
        size += sum(len(c.strings or ()) + c.values.nbytes for c in group.page.scalars)
        if rows >= _BLOCK_ROWS or size >= _BLOCK_BYTES:
            yield _join(pending)
            pending, rows, size = [], 0, 0
    if pending:
        yield _join(pending)


def _join(groups: list[RowGroup]) -> Block:
    pages = [group.page for group in groups]
    scalars = []
    for columns in zip(*(page.scalars for page in pages), strict=True):
        values = np.concatenate([column.values for column in columns])
        valid = _joined([column.valid for column in columns])
        strings = None
        if columns[0].strings is not None:
            strings = PackedStrings.of_sizes(b"".join(column.strings for column in columns), values)
        scalars.append(BlockColumn(values, valid, strings))
    lengths = [np.concatenate(parts) for parts in zip(*(page.lengths for page in pages), strict=True)]
    raw = [np.concatenate(parts) for parts in zip(*(page.raw_lengths for page in pages), strict=True)]
    blob_valid = [_joined(parts) for parts in zip(*(page.blob_valid for page in pages), strict=True)]
    digests = np.concatenate([page.digests for page in pages])
    rows = sum(page.rows for page in pages)
    sizes = [np.concatenate(parts) for parts in zip(*(page.chunk_lengths for page in pages), strict=True)]
    chunks = [np.concatenate(parts) for parts in zip(*(page.chunk_digests for page in pages), strict=True)]
    return Block(groups[0].first_row, rows, groups, scalars, lengths, raw, blob_valid, digests, sizes, chunks)


def _joined(parts: Sequence[npt.NDArray[np.bool_] | None]) -> npt.NDArray[np.bool_] | None:
    """The validity of a column in groups that follow each other; it has one in all of them or in none."""
    present = [part for part in parts if part is not None]
    return np.concatenate(present) if present else None
