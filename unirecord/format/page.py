"""A row group <-> the bytes of its scalar page and blob page; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core import CODEC_PLAIN, CODEC_ZSTD, Decoder, Digesting, Encoder, check_codec
from ..errors import ColumnError, CorruptionError
from ..sizes import many
from . import layout
from .chunks import chunk_counts, chunk_digests, chunked_blobs, per_row
from .column import Column
from .layout import PageHeader, Shape
from .schema import Schema
from .values import ColumnBatch, ColumnData, PackedStrings, joined_strings

__all__ = [
    "StoredRows",
    "cell_lengths",
    "chunk_digests_by_row",
    "chunk_tables",
    "encode_stored_group",
    "padded",
    "page_codec",
    "row_sizes",
    "stored_cells",
    "values_sizes",
    "wrong_chunks",
]


# Where the cells of a row group lie in the payload of its blob page.


U64 = npt.NDArray[np.uint64]


def padded(lengths: U64, shape: Shape) -> U64:
    """Bytes that cells of these lengths (uint64, any shape) take: multiples of ``blob_align``."""
    mask = np.uint64(shape.blob_align - 1)
    return (lengths + mask) & ~mask


def padding_places(sizes: U64, shape: Shape) -> Iterator[npt.NDArray[np.int64]]:
    """Where in a blob payload the bytes between cells of these sizes, [rows, columns], lie: a few at a time.

    Each takes more memory than it has bytes.
    """
    cells = sizes.ravel()
    pads = padded(cells, shape) - cells
    total = int(pads.sum())
    if not total:
        return
    starts = np.cumsum(cells + pads, dtype=np.uint64) - pads
    cuts = np.searchsorted(np.cumsum(pads), np.arange(_PADS, total + _PADS, _PADS, dtype=np.uint64)) + 1
    first = 0
    for cut in cuts.tolist():
        some = pads[first:cut].astype(np.int64)
        inside = np.arange(int(some.sum())) - np.repeat(np.cumsum(some) - some, some)
        yield np.repeat(starts[first:cut].astype(np.int64), some) + inside
        first = cut


def cell_lengths(schema: Schema, rows: int, lengths: Sequence[npt.NDArray[Any]]) -> list[U64]:
    """Length of every cell as uint64[rows], blob column by blob column; ``lengths``: those of variable columns."""
    given = iter(lengths)
    return [
        np.full(rows, column.stored_bytes, np.uint64)
        if column.stored_bytes
        else next(given).astype(np.uint64, copy=False)
        for _, column in schema.blobs
    ]


def cell_starts(
    schema: Schema, shape: Shape, rows: int, lengths: Sequence[npt.NDArray[Any]]
) -> tuple[U64, U64]:
    """Where each cell starts in the payload of its rows, row after row, and its length."""
    sizes = np.stack(cell_lengths(schema, rows, lengths), axis=1)
    room = padded(sizes, shape).ravel()
    return np.cumsum(room, dtype=np.uint64) - room, sizes.ravel()


def stored_cells(
    schema: Schema,
    shape: Shape,
    rows: int,
    lengths: Sequence[npt.NDArray[Any]],
    payload: npt.NDArray[np.uint8],
) -> Callable[[int, int], npt.NDArray[np.uint8]]:
    """What gives the bytes of the cell of the j-th blob column of a row; places are found when it is first asked."""
    found: list[tuple[U64, U64]] = []

    def cell(j: int, row: int) -> npt.NDArray[np.uint8]:
        if not found:
            found.append(cell_starts(schema, shape, rows, lengths))
        starts, sizes = found[0]
        at = row * len(schema.blobs) + j
        return payload[int(starts[at]) : int(starts[at] + sizes[at])]

    return cell


def row_sizes(schema: Schema, shape: Shape, rows: int, lengths: Sequence[npt.NDArray[Any]]) -> U64:
    """Bytes of the padded cells of each row, uint64[rows]; sums wrap where lengths are absurd."""
    sizes = np.zeros(rows, np.uint64)
    for cells in cell_lengths(schema, rows, lengths):
        sizes += padded(cells, shape)
    return sizes


_LEVEL = 2  # of zstd: numbers and strings of few kinds take less than at 3, and less time
_LEAST_SAVED = 512  # bytes, and at least an eighth: below, a scalar page stays as it is
_JOIN_BELOW = 32_768  # mean bytes of a row up to which one copy is cheaper than handing the kernel each piece
_ZEROS = bytes(layout.MEMORY_PAGE)
_PADS = 1 << 20  # padding bytes that are looked at in one step


@dataclass(frozen=True)
class RowLayout:
    """Where the cells of a row of fixed width lie: offset in the row and width of each blob column."""

    offsets: tuple[int, ...]
    widths: tuple[int, ...]
    row_bytes: int


def fixed_rows(schema: Schema, blob_align: int) -> RowLayout | None:
    """Layout of the rows when every blob column has fixed width, else None."""
    offsets, widths, end = [], [], 0
    for _, column in schema.blobs:
        if not column.stored_bytes:
            return None
        end = layout.align(end, blob_align)
        offsets.append(end)
        widths.append(column.stored_bytes)
        end += column.stored_bytes
    return RowLayout(tuple(offsets), tuple(widths), layout.align(end, blob_align)) if offsets else None


@dataclass(frozen=True)
class GroupPlace:
    """What a row group is told about its place: number, first row and file offset of its scalar page."""

    number: int
    first_row: int
    offset: int


@dataclass(frozen=True)
class EncodedCells:
    """The payload of a blob page in pieces, its size, its digests, and lengths of cells as a scalar page has them.

    ``cell`` gives the bytes of the cell of the j-th blob column of a row.
    """

    body: list[Any]
    size: int
    units: Digesting
    lengths: list[bytes]
    cell: Callable[[int, int], Any]


@dataclass(frozen=True)
class StoredScalars:
    """The arrays of a scalar page before the digests, as they are stored: a frame of ``raw_bytes``, or plain (0)."""

    content: bytes | memoryview
    codec: int = CODEC_PLAIN
    raw_bytes: int = 0


def page_codec() -> int:
    """How scalar pages are stored here by default: compressed where libzstd can be loaded."""
    try:
        check_codec(CODEC_ZSTD)
    except ColumnError:
        return CODEC_PLAIN
    return CODEC_ZSTD


def compressing_pays(arrays: bytes | memoryview) -> bool:
    """Whether a scalar page with these arrays is compressed by default."""
    codec = page_codec()
    return codec != CODEC_PLAIN and _stored_scalars([bytes(arrays)], codec).codec != CODEC_PLAIN


def _stored_scalars(arrays: list[bytes], codec: int) -> StoredScalars:
    """The arrays as one frame, where that is worth it."""
    plain = b"".join(arrays)
    if codec == CODEC_PLAIN or not _LEAST_SAVED < len(plain) < layout.MAX_RAW_BYTES:
        return StoredScalars(plain)
    frame, _, _ = Encoder(codec, 1, _LEVEL).encode([plain])
    if len(plain) - len(frame) < max(_LEAST_SAVED, len(plain) // 8):
        return StoredScalars(plain)
    return StoredScalars(frame, codec, len(plain))


@dataclass(frozen=True)
class ScalarPageBytes:
    """A scalar page in pieces, the digest of its payload, and what the row group adds to the content digest."""

    pieces: list[bytes]
    digest: int
    content: list[tuple[PageHeader, bytes]]


@dataclass(frozen=True)
class Encoded:
    """The bytes of a row group: those of the blob page, and of the scalar page that stands before it.

    Those of the blob page may be written while their digests, which the scalar page holds, are being computed.
    How many bytes each page has is known at once, so these digests are never compressed.
    """

    part_id: bytes
    group: GroupPlace
    rows: int
    scalars: StoredScalars
    units: Digesting | None
    scalar_bytes: int
    blobs: list[Any]
    blob_header: PageHeader | None

    def scalar_page(self) -> ScalarPageBytes:
        """The scalar page; waits for the digests of the blobs."""
        part_id, at = self.part_id, self.group.offset
        units, wide = (None, None) if self.units is None else self.units.digests()
        payload = b"".join([self.scalars.content, b"" if units is None else units.tobytes()])
        digest = layout.digest(payload, layout.seed(part_id, layout.DOMAIN_SCALARS, at))
        header = _scalar_header(self.group, self.rows, self.scalars, len(payload), digest)
        content = [(header, layout.wide_payload_digest(part_id, at, header.kind, payload))]
        if self.blob_header is not None and wide is not None:
            blobs = layout.wide_blobs_digest(part_id, at + self.scalar_bytes, wide.astype("<u8").tobytes())
            content.append((self.blob_header, blobs))
        tail = _ZEROS[: self.scalar_bytes - layout.PAGE_HEADER_BYTES - len(payload)]
        pieces = [layout.pack_page_header(part_id, at, header), payload, tail]
        return ScalarPageBytes(pieces, digest, content)


def _scalar_header(
    group: GroupPlace, rows: int, scalars: StoredScalars, size: int, digest: int
) -> PageHeader:
    return PageHeader(
        layout.PAGE_SCALAR,
        group.number,
        group.first_row,
        rows,
        size,
        0,
        digest,
        scalars.codec,
        scalars.raw_bytes,
    )


def encode_group(
    schema: Schema,
    shape: Shape,
    part_id: bytes,
    group: GroupPlace,
    pieces: Sequence[ColumnBatch],
    codec: int = CODEC_PLAIN,
) -> Encoded:
    """Encodes the rows of ``pieces`` as one row group. The buffers may be views of the pieces' own memory.

    ``codec``: of the scalar page, where it pays.
    """

    def cells(seed: int) -> EncodedCells:
        rows = sum(piece.rows for piece in pieces)
        encode = _encode_fixed if shape.row_bytes else _encode_variable
        return encode(schema, shape, pieces, rows, seed)

    return assemble_group(schema, shape, part_id, group, pieces, codec, cells)


def assemble_group(
    schema: Schema,
    shape: Shape,
    part_id: bytes,
    group: GroupPlace,
    pieces: Sequence[ColumnBatch],
    codec: int,
    encode_cells: Callable[[int], EncodedCells],
) -> Encoded:
    """The row group of these scalars, whose blobs ``encode_cells`` lays out, given the seed of their first digest."""
    rows = sum(piece.rows for piece in pieces)
    arrays = _encode_scalars(schema, pieces)
    if not schema.blobs:
        scalars = _stored_scalars(arrays, codec)
        page_bytes = _scalar_bytes(group, rows, scalars, 0)
        return Encoded(part_id, group, rows, scalars, None, page_bytes, [], None)
    cells = encode_cells(layout.seed(part_id, layout.DOMAIN_UNITS, _first_unit(schema, shape, group)))
    size = cells.size
    arrays += _encode_blob_fields(schema, part_id, group, pieces, cells)
    scalars = _stored_scalars(arrays, codec)
    page_bytes = _scalar_bytes(group, rows, scalars, unit_count(schema, shape, rows))
    start = group.offset + page_bytes
    gap = layout.gap_of(start, size)
    header = PageHeader(layout.PAGE_BLOB, group.number, group.first_row, rows, size, gap, 0)
    end = header.end(start)
    tail = _ZEROS[: end - header.payload(start) - size]
    blobs = [layout.pack_page_header(part_id, start, header), _ZEROS[:gap], *cells.body, tail]
    return Encoded(part_id, group, rows, scalars, cells.units, page_bytes, blobs, header)


def _scalar_bytes(group: GroupPlace, rows: int, scalars: StoredScalars, units: int) -> int:
    header = _scalar_header(group, rows, scalars, len(scalars.content) + 8 * units, 0)
    return header.end(group.offset) - group.offset


def _first_unit(schema: Schema, shape: Shape, group: GroupPlace) -> int:
    if shape.unit_rows:
        return group.first_row // shape.unit_rows
    return group.first_row * len(schema.blobs)


def _pad8(data: bytes) -> bytes:
    missing = -len(data) % 8
    return data + _ZEROS[:missing] if missing else data


def _encode_scalars(schema: Schema, pieces: Sequence[ColumnBatch]) -> list[bytes]:
    parts: list[bytes] = []
    for ordinal, column in schema.scalars:
        cells = [piece.columns[ordinal] for piece in pieces]
        if column.nullable:
            parts.append(_bits(_validity(cells)))
        if column.is_string:
            strings = joined_strings(
                [cell.values for cell in cells if isinstance(cell.values, PackedStrings)]
            )
            parts.append(_pad8(strings.sizes.astype("<u4").tobytes()))
            parts.append(_pad8(strings.content.tobytes()))
        else:
            parts.append(_pad8(_values(cells).tobytes()))
    return parts


def _encode_blob_fields(
    schema: Schema, part_id: bytes, group: GroupPlace, pieces: Sequence[ColumnBatch], stored: EncodedCells
) -> list[bytes]:
    """Validity of nullable blob columns, lengths of cells and of values where they differ, tables of chunks."""
    parts: list[bytes] = []
    variable = iter(stored.lengths)
    for j, (ordinal, column) in enumerate(schema.blobs):
        cells = [piece.columns[ordinal] for piece in pieces]
        if column.nullable:
            parts.append(_bits(_validity(cells)))
        if not column.stored_bytes:
            parts.append(_pad8(next(variable)))
        if column.has_raw_lengths:
            parts.append(_pad8(_raw_lengths(column, cells)))
        if column.chunks is None:
            continue
        lengths = [sizes for piece in cells for sizes in piece.chunk_lengths or ()]
        if column.codec is not None:
            parts.append(_pad8(np.concatenate(lengths).astype("<u4").tobytes()))
        raw = _value_sizes(column, cells, partial(stored.cell, j), sum(piece.rows for piece in pieces))
        of_chunks = None if column.codec is None else lengths
        parts.append(
            chunk_digests(
                schema, part_id, j, group.first_row, raw, of_chunks, partial(stored.cell, j)
            ).tobytes()
        )
    return parts


def _value_sizes(column: Column, data: Sequence[ColumnData], cell: Callable[[int], Any], rows: int) -> U64:
    """Bytes of the value of each row."""
    if column.fixed_bytes:
        return np.full(rows, column.fixed_bytes, np.uint64)
    if column.codec is not None:
        return np.concatenate([piece.raw_lengths for piece in data if piece.raw_lengths is not None])
    return np.fromiter((len(cell(row)) for row in range(rows)), np.uint64, rows)


def _bits(valid: npt.NDArray[np.bool_]) -> bytes:
    return _pad8(np.packbits(valid, bitorder="little").tobytes())


def _validity(cells: Sequence[ColumnData]) -> npt.NDArray[np.bool_]:
    return np.concatenate([np.ones(len(c.values), bool) if c.valid is None else c.valid for c in cells])


def _values(cells: Sequence[ColumnData]) -> npt.NDArray[Any]:
    parts = []
    for cell in cells:
        values = np.asarray(cell.values)
        if cell.valid is not None and not cell.valid.all():
            values = values.copy()
            values[~cell.valid] = 0
        parts.append(values)
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _encode_fixed(
    schema: Schema, shape: Shape, pieces: Sequence[ColumnBatch], rows: int, seed: int
) -> EncodedCells:
    rows_at = fixed_rows(schema, shape.blob_align)
    assert rows_at is not None
    stored = _interleave(schema, rows_at, pieces, rows)
    size = rows * rows_at.row_bytes
    if shape.unit_rows:
        unit = shape.unit_rows * rows_at.row_bytes
        starts = np.arange(0, size, unit, dtype=np.uint64)
        lengths = np.minimum(np.uint64(unit), np.uint64(size) - starts)
    else:
        firsts = np.arange(rows, dtype=np.uint64) * np.uint64(rows_at.row_bytes)
        starts = (firsts[:, None] + np.array(rows_at.offsets, dtype=np.uint64)).ravel()
        lengths = np.tile(np.array(rows_at.widths, dtype=np.uint64), rows)

    def cell(j: int, row: int) -> Any:
        start = row * rows_at.row_bytes + rows_at.offsets[j]
        return stored[start : start + rows_at.widths[j]]

    units = Digesting.of_ranges(stored, starts, lengths, seed, layout.PHI)
    return EncodedCells([stored], size, units, [], cell)


def _interleave(
    schema: Schema, rows_at: RowLayout, pieces: Sequence[ColumnBatch], rows: int
) -> npt.NDArray[np.uint8]:
    if len(pieces) == 1 and len(rows_at.widths) == 1 and rows_at.widths[0] == rows_at.row_bytes:
        whole: npt.NDArray[np.uint8] = np.ascontiguousarray(pieces[0].columns[schema.blobs[0][0]].values)
        return whole.reshape(-1)
    full = sum(rows_at.widths) == rows_at.row_bytes
    stored = (np.empty if full else np.zeros)((rows, rows_at.row_bytes), dtype=np.uint8)
    first = 0
    for piece in pieces:
        target = stored[first : first + piece.rows]
        for (ordinal, _), offset, width in zip(schema.blobs, rows_at.offsets, rows_at.widths, strict=True):
            target[:, offset : offset + width] = np.asarray(piece.columns[ordinal].values)
        first += piece.rows
    return stored.reshape(-1)


def _encode_variable(
    schema: Schema, shape: Shape, pieces: Sequence[ColumnBatch], rows: int, seed: int
) -> EncodedCells:
    columns = [_cells(column, [piece.columns[i] for piece in pieces]) for i, column in schema.blobs]
    lengths = np.stack([_lengths(cells) for cells in columns], axis=1)
    stored = [
        length.astype(column.lengths_dtype).tobytes()
        for length, (_, column) in zip(lengths.T, schema.blobs, strict=True)
        if not column.stored_bytes
    ]
    room = padded(lengths, shape)
    size = int(room.sum())
    cell = lambda j, row: columns[j][row]  # noqa: E731
    cells = columns[0] if len(columns) == 1 else [cell for row in zip(*columns, strict=True) for cell in row]
    joined = size < rows * _JOIN_BELOW
    if shape.unit_rows == 0 and not joined:
        units = Digesting.of_cells(cells, seed, layout.PHI)
    pads = (room - lengths).ravel()
    if pads.any():
        each = zip(cells, pads.tolist(), strict=True)
        cells = [part for cell, pad in each for part in (cell, _ZEROS[:pad]) if len(part)]
    if not joined and shape.unit_rows == 0:
        return EncodedCells(cells, size, units, stored, cell)
    whole = b"".join(cells)
    if shape.unit_rows == 0:
        sizes, ranges = room.ravel(), lengths.ravel()
    else:
        sizes = ranges = np.add.reduceat(room.sum(axis=1), np.arange(0, rows, shape.unit_rows))
    starts = np.cumsum(sizes, dtype=np.uint64) - sizes
    units = Digesting.of_ranges(whole, starts, ranges, seed, layout.PHI)
    return EncodedCells([whole], size, units, stored, cell)


def _cells(column: Column, data: Sequence[ColumnData]) -> list[Any]:
    cells: list[Any] = []
    for piece in data:
        if isinstance(piece.values, np.ndarray):
            flat = memoryview(np.ascontiguousarray(piece.values).reshape(-1))
            width = column.stored_bytes
            cells.extend(flat[start : start + width] for start in range(0, len(flat), width))
        else:
            cells.extend(piece.values)
    return cells


def _raw_lengths(column: Column, data: Sequence[ColumnData]) -> bytes:
    parts = [piece.raw_lengths for piece in data if piece.raw_lengths is not None]
    return np.concatenate(parts).astype(column.lengths_dtype).tobytes()


def _lengths(cells: Sequence[Any]) -> U64:
    return np.fromiter(map(len, cells), dtype=np.uint64, count=len(cells))


def encode_dictionary(part_id: bytes, offset: int, column: int, content: bytes) -> tuple[bytes, PageHeader]:
    """The page of a column's dictionary, which stands at ``offset``, and its header."""
    digest = layout.digest(content, layout.seed(part_id, layout.DOMAIN_CODEC_DICTIONARY, offset))
    header = PageHeader(layout.PAGE_DICTIONARY, column, 0, 0, len(content), 0, digest)
    page = layout.pack_page_header(part_id, offset, header) + content
    return page.ljust(header.end(offset) - offset, b"\0"), header


@dataclass(frozen=True)
class ScalarColumn:
    """One scalar column of a row group: values, or the lengths and bytes of strings; ``valid`` None: not nullable."""

    values: npt.NDArray[Any]
    valid: npt.NDArray[np.bool_] | None
    strings: memoryview | None = None


@dataclass(frozen=True)
class ScalarPage:
    """The payload of a scalar page.

    Scalar columns; lengths of the cells of each blob column where they differ, and of the values of each compressed one
    where these do; validity of each blob column, None where it is not nullable; digests of units. Of the columns that
    are cut into chunks: lengths of the chunks, where they are compressed, and digests.
    """

    rows: int
    scalars: list[ScalarColumn]
    lengths: list[U64]
    raw_lengths: list[U64]
    blob_valid: list[npt.NDArray[np.bool_] | None]
    digests: U64
    chunk_lengths: list[U64]
    chunk_digests: list[U64]


def values_sizes(
    schema: Schema, rows: int, lengths: Sequence[U64], raw_lengths: Sequence[U64]
) -> dict[int, U64]:
    """Bytes of the values of each row, by the ordinal of the column that is cut into chunks."""
    given, raw = iter(lengths), iter(raw_lengths)
    found = {}
    for ordinal, column in schema.blobs:
        stored = None if column.stored_bytes else next(given)
        sizes = next(raw) if column.has_raw_lengths else stored
        if column.chunks is not None:
            fixed = column.fixed_bytes
            found[ordinal] = np.full(rows, fixed, np.uint64) if fixed or sizes is None else sizes
    return found


class _Cursor:
    """Takes arrays from a payload one after another, never beyond its end."""

    def __init__(self, payload: memoryview) -> None:
        self.payload = payload
        self.place = 0

    def take(self, count: int, dtype: Any) -> npt.NDArray[Any]:
        size = count * np.dtype(dtype).itemsize
        raw = self.bytes(size)
        return np.frombuffer(raw, dtype=dtype, count=count)

    def bits(self, count: int) -> npt.NDArray[np.bool_]:
        return np.unpackbits(self.take(-(-count // 8), np.uint8), count=count, bitorder="little").astype(bool)

    def bytes(self, size: int) -> memoryview:
        if size > len(self.payload) - self.place:
            raise CorruptionError("a scalar page is shorter than its rows need")
        raw = self.payload[self.place : self.place + size]
        self.place = min(layout.align(self.place + size, 8), len(self.payload))
        return raw


def unit_count(schema: Schema, shape: Shape, rows: int) -> int:
    """Digest units of a row group (or of a part) of ``rows`` rows."""
    if not schema.blobs:
        return 0
    return -(-rows // shape.unit_rows) if shape.unit_rows else rows * len(schema.blobs)


def plain_payload(schema: Schema, shape: Shape, header: PageHeader, stored: bytes) -> memoryview:
    """The payload of a scalar page with its arrays decompressed; ``stored`` has been checked by its digest.

    CorruptionError when the sizes cannot be, before memory is taken, or it is no frame; ColumnError where it cannot be
    read here.
    """
    if header.codec == CODEC_PLAIN:
        return memoryview(stored)
    if header.codec != CODEC_ZSTD:
        raise ColumnError(f"codec {header.codec} is not known to this version: upgrade unirecord")
    check_codec(header.codec)
    frame = len(stored) - 8 * unit_count(schema, shape, header.rows)
    if not 0 < frame < header.raw_bytes or header.raw_bytes >> layout.MAX_EXPANSION_BITS > frame:
        raise CorruptionError(
            f"a scalar page of {many(len(stored), 'byte')} cannot hold {header.raw_bytes} and its digests"
        )
    content = np.frombuffer(stored, np.uint8)
    first, size, raw = (np.array([number], np.uint64) for number in (0, frame, header.raw_bytes))
    found, good = Decoder(header.codec, 1).decode(content[:frame], first, size, raw)
    if not good[0]:
        raise CorruptionError(
            f"a scalar page is not a zstd frame of {many(header.raw_bytes, 'byte')} and its digests"
        )
    return memoryview(np.concatenate([found, content[frame:]]) if frame < len(content) else found)


def decode_scalar_page(schema: Schema, shape: Shape, rows: int, payload: memoryview) -> ScalarPage:
    """Reads a payload whose digest has been checked; CorruptionError when it is not what ``rows`` rows need."""
    cursor = _Cursor(payload)
    scalars = []
    for _, column in schema.scalars:
        valid = cursor.bits(rows) if column.nullable else None
        if column.is_string:
            sizes = cursor.take(rows, "<u4")
            total = int(sizes.sum(dtype=np.uint64))
            scalars.append(ScalarColumn(sizes, valid, cursor.bytes(total)))
        else:
            scalars.append(ScalarColumn(cursor.take(rows, column.dtype), valid))
    lengths: list[U64] = []
    raw_lengths: list[U64] = []
    chunk_lengths: list[U64] = []
    chunk_digests: list[U64] = []
    blob_valid = []
    for _, column in schema.blobs:
        blob_valid.append(cursor.bits(rows) if column.nullable else None)
        if not column.stored_bytes:
            lengths.append(cursor.take(rows, column.lengths_dtype).astype(np.uint64, copy=False))
        if column.has_raw_lengths:
            raw_lengths.append(cursor.take(rows, column.lengths_dtype).astype(np.uint64))
        if column.chunks is None:
            continue
        entries = _entries(column, rows, lengths, raw_lengths, len(payload))
        if column.codec is not None:
            chunk_lengths.append(cursor.take(entries, "<u4").astype(np.uint64))
        chunk_digests.append(cursor.take(entries, "<u8"))
    digests = cursor.take(unit_count(schema, shape, rows), "<u8")
    if cursor.place != len(payload):
        raise CorruptionError(
            f"a scalar page has {many(len(payload), 'byte')} where its rows need {cursor.place}"
        )
    return ScalarPage(rows, scalars, lengths, raw_lengths, blob_valid, digests, chunk_lengths, chunk_digests)


def _entries(column: Column, rows: int, lengths: Sequence[U64], raw_lengths: Sequence[U64], size: int) -> int:
    """How many chunks the tables of a column have, of which each takes some of the ``size`` bytes of the page."""
    sizes = raw_lengths if column.has_raw_lengths else lengths
    raw = np.full(rows, column.fixed_bytes, np.uint64) if column.fixed_bytes else sizes[-1]
    counts = chunk_counts(column, raw)
    if int(counts.max(initial=0)) > size:
        raise CorruptionError("a scalar page is shorter than the chunks of its rows need")
    return int(counts.sum(dtype=np.uint64))


def chunk_tables(schema: Schema, page: ScalarPage) -> dict[int, list[U64]]:
    """Lengths of the chunks of each row's cell, by the ordinal of the column that is cut into chunks and compressed."""
    lengths = iter(page.chunk_lengths)
    raw = values_sizes(schema, page.rows, page.lengths, page.raw_lengths)
    return {
        ordinal: per_row(next(lengths), chunk_counts(column, raw[ordinal]))
        for _, ordinal, column in chunked_blobs(schema)
        if column.has_chunk_lengths
    }


def chunk_digests_by_row(schema: Schema, page: ScalarPage) -> list[list[U64]]:
    """The digests of the chunks of each row's cell, of each column that is cut into chunks."""
    raw = values_sizes(schema, page.rows, page.lengths, page.raw_lengths)
    return [
        per_row(digests, chunk_counts(column, raw[ordinal]))
        for (_, ordinal, column), digests in zip(chunked_blobs(schema), page.chunk_digests, strict=True)
    ]


def wrong_chunks(
    schema: Schema,
    part_id: bytes,
    first_row: int,
    page: ScalarPage,
    rows: npt.NDArray[np.intp],
    cell: Callable[[int, int], npt.NDArray[np.uint8]],
) -> Iterator[tuple[Column, npt.NDArray[np.intp]]]:
    """Which of these rows of a page, whose cells ``cell`` gives, have chunks that are not as their tables say."""
    tables = chunk_tables(schema, page)
    raw = values_sizes(schema, page.rows, page.lengths, page.raw_lengths)
    by_row = chunk_digests_by_row(schema, page)
    for (j, ordinal, column), wanted in zip(chunked_blobs(schema), by_row, strict=True):
        wrong = []
        for row in rows.tolist():
            if not len(wanted[row]):
                continue
            bytes_of_cell, sizes = cell(j, row), tables[ordinal][row] if ordinal in tables else None
            # Of a table that lies the sum may be more than 64 bits hold.
            expected = int(raw[ordinal][row]) if sizes is None else sum(sizes.tolist())
            if len(bytes_of_cell) != expected:
                wrong.append(row)
                continue
            lengths = None if sizes is None else [sizes]
            one = raw[ordinal][row : row + 1]
            found = chunk_digests(
                schema, part_id, j, first_row + row, one, lengths, [bytes_of_cell].__getitem__
            )
            if (found != wanted[row]).any():
                wrong.append(row)
        yield column, np.array(wrong, np.intp)


# Rows as row groups store them: cut, joined and encoded again without a look at a single cell.


Bytes = npt.NDArray[np.uint8]


@dataclass
class StoredRows(ColumnBatch):
    """Rows whose blobs are one piece of memory: the columns of blobs have validity and raw lengths, and no values.

    Attributes:
        lengths: uint64 [B], bytes of each cell, of the blob columns that are of variable width.
        payload: uint8, the padded cells of row after row, as they are in a blob page.
        ends: uint64 [B + 1], where each row starts in ``payload``, and the end of the last one.
    """

    lengths: list[U64]
    payload: Bytes
    ends: U64

    @property
    def nbytes(self) -> int:
        """About how many bytes they take in a file."""
        chunks = sum(12 * len(each) for column in self.columns for each in column.chunk_lengths or ())
        return len(self.payload) + sum(_nbytes(column) for column in self.columns) + 8 * self.rows + chunks

    def part(self, start: int, stop: int) -> StoredRows:
        """Rows [start, stop), as views."""
        if (start, stop) == (0, self.rows):
            return self
        first, last = int(self.ends[start]), int(self.ends[stop])
        columns = [column.part(start, stop) for column in self.columns]
        lengths = [length[start:stop] for length in self.lengths]
        ends = self.ends[start : stop + 1] - np.uint64(first)
        return StoredRows(stop - start, columns, lengths, self.payload[first:last], ends)


def _nbytes(column: ColumnData) -> int:
    values = column.values
    if isinstance(values, list):
        return 0
    return int(values.nbytes if isinstance(values, np.ndarray) else len(values.content) + 4 * len(values))


def encode_stored_group(
    schema: Schema,
    shape: Shape,
    part_id: bytes,
    group: GroupPlace,
    pieces: Sequence[StoredRows],
    codec: int = CODEC_PLAIN,
) -> Encoded:
    """Encodes rows as one row group, the cells as they are; all ``pieces`` have the alignment of ``shape``.

    ``codec``: of the scalar page, where it pays.
    """

    def cells(seed: int) -> EncodedCells:
        rows = sum(piece.rows for piece in pieces)
        payload = pieces[0].payload if len(pieces) == 1 else np.concatenate([p.payload for p in pieces])
        lengths = [np.concatenate(each) for each in zip(*(p.lengths for p in pieces), strict=True)]
        sizes = np.concatenate([np.diff(piece.ends) for piece in pieces])
        if shape.unit_rows:
            ranges = np.add.reduceat(sizes, np.arange(0, rows, shape.unit_rows))
            starts = np.cumsum(ranges, dtype=np.uint64) - ranges
        else:
            starts, ranges = cell_starts(schema, shape, rows, lengths)
        variable = (column for _, column in schema.blobs if not column.stored_bytes)
        stored = [
            length.astype(column.lengths_dtype).tobytes()
            for length, column in zip(lengths, variable, strict=True)
        ]
        units = Digesting.of_ranges(payload, starts, ranges, seed, layout.PHI)
        cell = stored_cells(schema, shape, rows, lengths, payload)
        return EncodedCells([payload], len(payload), units, stored, cell)

    return assemble_group(schema, shape, part_id, group, pieces, codec, cells)
