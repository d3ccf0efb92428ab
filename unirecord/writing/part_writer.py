"""The writer of a part: row groups encoded, compressed, digested and written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from ..core import (
    CODEC_PLAIN,
    CODEC_SHUFFLE_ZSTD,
    CODEC_ZSTD,
    Encoder,
    check_codec,
    check_column,
    train_dictionary,
)
from ..errors import ColumnError, SchemaError
from ..format import layout, metadata
from ..format.chunks import cut_cells, cut_values, pieces_of_cells
from ..format.column import Codec, Column
from ..format.layout import EndPage, Shape, file_kind
from ..format.page import (
    GroupPlace,
    StoredRows,
    cell_lengths,
    encode_dictionary,
    encode_group,
    encode_stored_group,
    padded,
    page_codec,
)
from ..format.schema import Schema
from ..format.values import ColumnBatch, ColumnData, PackedStrings
from ..sizes import many
from ..snapshot import manifest
from ..snapshot.manifest import PartEntry
from ..snapshot.part_set import ColumnResult, PartSet, Snapshot, check_values
from ..storage.staged import StagedFile
from .index_file import build_index
from .row_groups import group_size, own_batch

__all__ = [
    "CodecChoice",
    "Compressor",
    "Delivery",
    "PartSequence",
    "RunSync",
    "ScalarCodec",
    "at_once",
    "check_scalar_codec",
    "choose_codecs",
    "choose_dictionary",
    "padded_anew",
    "rows_as_batch",
    "stays",
    "stored_as",
    "values_of_part",
]


# Rows of a part whose cells another part stores otherwise: as cells of other padding, or compressed anew.


_AT_ONCE = 8 << 20
_MOST_ROWS = 1 << 16
_ZEROS = bytes(64)


def padded_anew(schema: Schema, rows: StoredRows, old: Shape, new: Shape) -> StoredRows:
    """The same cells in the padding of another layout."""
    if old.blob_align == new.blob_align or not schema.blobs:
        return rows
    sizes = np.stack(cell_lengths(schema, rows.rows, rows.lengths), axis=1)
    room = padded(sizes, old).ravel()
    starts = np.cumsum(room, dtype=np.uint64) - room
    view = memoryview(rows.payload)
    ends = (starts + sizes.ravel()).tolist()
    cells = [view[a:b] for a, b in zip(starts.tolist(), ends, strict=True)]
    return StoredRows(rows.rows, rows.columns, rows.lengths, *_laid_out(cells, sizes, new))


def stored_as(schema: Schema, batch: ColumnBatch, shape: Shape) -> StoredRows:
    """The rows of a batch, whose columns are compressed where the schema says so, as row groups store them."""
    columns, cells, lengths = [], [], []
    for column, data in zip(schema, batch.columns, strict=True):
        if not column.is_blob:
            columns.append(data)
            continue
        every = _cells(column, data)
        cells.append(every)
        if not column.stored_bytes:
            lengths.append(np.fromiter(map(len, every), np.uint64, batch.rows))
        columns.append(ColumnData([], data.valid, data.raw_lengths, data.chunk_lengths))
    if not cells:
        return StoredRows(batch.rows, columns, [], np.empty(0, np.uint8), np.zeros(batch.rows + 1, np.uint64))
    sizes = np.stack(cell_lengths(schema, batch.rows, lengths), axis=1)
    row_by_row = [cell for row in zip(*cells, strict=True) for cell in row]
    return StoredRows(batch.rows, columns, lengths, *_laid_out(row_by_row, sizes, shape))


def _cells(column: Column, data: ColumnData) -> list[bytes | memoryview]:
    if not isinstance(data.values, np.ndarray):
        return list(data.values)
    flat = memoryview(np.ascontiguousarray(data.values).reshape(-1))
    width = column.stored_bytes
    return [flat[start : start + width] for start in range(0, len(flat), width)]


def _laid_out(
    cells: list[bytes | memoryview] | list[memoryview], sizes: NDArray[np.uint64], shape: Shape
) -> tuple[NDArray[np.uint8], NDArray[np.uint64]]:
    """The padded cells, one after the other, and where each row starts."""
    room = padded(sizes, shape)
    pads = (room - sizes).ravel().tolist()
    payload = b"".join(part for cell, pad in zip(cells, pads, strict=True) for part in (cell, _ZEROS[:pad]))
    ends = np.zeros(len(sizes) + 1, np.uint64)
    np.cumsum(room.sum(axis=1, dtype=np.uint64), out=ends[1:])
    return np.frombuffer(payload, np.uint8), ends


def _with_blanks(schema: Schema, live: ColumnBatch, gone: NDArray[np.bool_]) -> ColumnBatch:
    """Rows that are not compressed, with blank ones among them where ``gone`` says so: null, 0, or without bytes."""
    columns = [_spread(column, data, gone) for column, data in zip(schema, live.columns, strict=True)]
    return ColumnBatch(len(gone), columns)


def _spread(column: Column, data: ColumnData, gone: NDArray[np.bool_]) -> ColumnData:
    valid = data.valid
    if column.nullable:
        valid = np.zeros(len(gone), bool)
        valid[~gone] = True if data.valid is None else data.valid
    if isinstance(data.values, PackedStrings):
        sizes = np.zeros(len(gone), np.int64)
        sizes[~gone] = data.values.sizes
        return ColumnData(PackedStrings.of_sizes(data.values.content, sizes), valid)
    if isinstance(data.values, np.ndarray):
        spread = np.zeros((len(gone), *data.values.shape[1:]), data.values.dtype)
        spread[~gone] = data.values
        return ColumnData(spread, valid)
    blank, cells = b"" if column.nullable else _blank_cell(column), iter(data.values)
    return ColumnData([blank if out else next(cells) for out in gone.tolist()], valid)


def _blank_cell(column: Column) -> bytes:
    if column.type == "object" and not column.is_array:
        return b"\x80"
    return bytes(8 * column.free_dims if column.free_dims > 1 else 0)


def values_of_part(
    snapshot: Snapshot, dropped: NDArray[np.int64], columns: Sequence[int] | None = None
) -> Iterator[ColumnBatch]:
    """The rows of a snapshot of one part, decompressed, some MiB at a time; each is checked as it is read.

    Those that are ``dropped`` (row numbers, ascending) are blank, and not read, so that they may be damaged.
    ``columns``: which of them, by their ordinals; None for all.
    """
    parts = PartSet(snapshot, verify="always", knows_deletions=True)
    try:
        chosen = range(len(parts.schema)) if columns is None else columns
        schema = Schema(parts.schema.columns[ordinal] for ordinal in chosen)
        step = min(max(int(_AT_ONCE / max(parts.mean_row_bytes(columns), 1.0)), 1), _MOST_ROWS)
        for first in range(0, parts.rows, step):
            rows = np.arange(first, min(first + step, parts.rows), dtype=np.int64)
            start, stop = np.searchsorted(dropped, [first, first + len(rows)])
            if start == stop:
                yield rows_as_batch(parts, rows, chosen)
                continue
            gone = np.zeros(len(rows), bool)
            gone[dropped[start:stop] - first] = True
            yield _with_blanks(schema, rows_as_batch(parts, rows[~gone], chosen), gone)
    finally:
        parts.close()


def rows_as_batch(parts: PartSet, rows: NDArray[np.int64], columns: Sequence[int]) -> ColumnBatch:
    """Columns of these rows, in this order, not compressed; CorruptionError names the first value that is none."""
    found = parts.read(rows, columns)
    check_values(parts, rows, found, columns=columns)
    chosen = (parts.schema.columns[ordinal] for ordinal in columns)
    return ColumnBatch(len(rows), [_data(column, one) for column, one in zip(chosen, found, strict=True)])


def _data(column: Column, found: ColumnResult) -> ColumnData:
    if column.is_string:
        assert found.offsets is not None
        return ColumnData(PackedStrings(found.data, found.offsets), found.valid)
    if not column.is_blob:
        return ColumnData(found.data, found.valid)
    if found.offsets is None:
        plain = np.ascontiguousarray(found.data).reshape(-1).view(np.uint8)
        return ColumnData(plain.reshape(len(found.data), column.fixed_bytes), found.valid)
    memory = memoryview(found.data)
    return ColumnData([memory[start:stop] for start, stop in pairwise(found.offsets.tolist())], found.valid)


# Makes cells of the values of blob columns: cuts them into chunks, and compresses them, with dictionaries trained on
# the first rows.


_FIRST_BYTES: Final = (
    8 << 20
)  # values of compressed columns that wait for dictionaries to be trained on them …
_FIRST_ROWS: Final = 65_536  # … unless they are so many before
_TRAINED_BYTES: Final = 16 << 20  # of a column, evenly spaced over what waits
_LONGEST: Final = 32_768  # mean bytes of a value from which on a dictionary has nothing to add
_MOST_DICTIONARY: Final = 256 << 10  # docs/performance/compression.md: what more and less gave
_LEAST_CELLS: Final = 16
_MOST_VALUE: Final = 1 << 32
_WORTH: Final = 0.97  # what a dictionary must leave of the bytes that it compresses

Cells = list[bytes | memoryview]
Dictionaries = tuple[tuple[int, bytes], ...]


class Compressor:
    """Makes cells of values that are compressed or cut into chunks.

    It holds the first batches back until dictionaries have been trained on them; later ones it compresses at once.

    ``dictionaries``: (ordinal of the column, content) for those columns that have one, once the first batch is out.
    """

    def __init__(self, schema: Schema, dictionaries: Dictionaries | None = None) -> None:
        """``dictionaries``: those that an earlier run has trained; nothing is held back then."""
        self._columns = [(i, column) for i, column in schema.blobs if column.codec is not None]
        self._arrays = [
            (i, column) for i, column in schema.blobs if column.chunks is not None and column.is_array
        ]
        for column in schema:
            try:
                check_column(column.code, CODEC_PLAIN if column.codec is None else column.codec.code)
            except ColumnError as error:
                raise ColumnError(f"column {column.name!r} cannot be written: {error}") from None
        self._encoders: dict[int, Encoder] | None = None
        self._waiting: list[ColumnBatch] = []
        self._rows = self._bytes = 0
        self.dictionaries: Dictionaries = dictionaries or ()
        if dictionaries is not None:
            known = dict(dictionaries)
            self._encoders = {i: encoder_of(column, known.get(i, b"")) for i, column in self._columns}

    def add(self, batch: ColumnBatch, *, owned: bool) -> list[tuple[ColumnBatch, bool]]:
        """Batches that are compressed, and whether their memory is the writer's own."""
        batch = self._cut(batch)
        if not self._columns or self._encoders is not None:
            return [(self._compress(batch), owned)]
        self._waiting.append(batch if owned else own_batch(batch))
        self._rows += batch.rows
        self._bytes += sum(_value_bytes(batch.columns[i]) for i, _ in self._columns)
        return self.finish() if self._bytes >= _FIRST_BYTES or self._rows >= _FIRST_ROWS else []

    def finish(self) -> list[tuple[ColumnBatch, bool]]:
        """What still waits, compressed."""
        if self._encoders is None:
            self._train()
        waiting, self._waiting = self._waiting, []
        return [(self._compress(batch), True) for batch in waiting]

    def _train(self) -> None:
        dictionaries, self._encoders = [], {}
        for i, column in self._columns:
            cells = [cell for batch in self._waiting for cell in _pieces_of(column, batch.columns[i])[0]]
            dictionary = choose_dictionary(column, cells)
            self._encoders[i] = encoder_of(column, dictionary)
            if dictionary:
                dictionaries.append((i, dictionary))
        self.dictionaries = tuple(dictionaries)

    def _cut(self, batch: ColumnBatch) -> ColumnBatch:
        """The elements of arrays in the order of their chunks."""
        if not self._arrays:
            return batch
        columns = list(batch.columns)
        for i, column in self._arrays:
            data = columns[i]
            if column.fixed_bytes:
                values: Any = cut_values(column, np.asarray(data.values))
            else:
                values = cut_cells(column, cells_of(column, data))
            columns[i] = ColumnData(values, data.valid)
        return ColumnBatch(batch.rows, columns)

    def _compress(self, batch: ColumnBatch) -> ColumnBatch:
        if not self._encoders:
            return batch
        columns = list(batch.columns)
        for i, column in self._columns:
            data = columns[i]
            pieces, counts = _pieces_of(column, data)
            joined, lengths, sizes = self._encoders[i].encode(pieces)
            stored, raw = _sums(lengths, counts), _sums(sizes, counts)
            if len(raw) and int(raw.max()) >= _MOST_VALUE:
                raise SchemaError(
                    f"column {column.name!r}: a value has {many(int(raw.max()), 'byte')}; those of a "
                    f"compressed column have "
                    f"less than 4 GiB: leave its codec out"
                )
            ends = np.cumsum(stored).tolist()
            starts = [0, *ends[:-1]]
            packed: Cells = [joined[a:b] for a, b in zip(starts, ends, strict=True)]
            chunks = None if column.chunks is None else _tables(lengths, counts)
            columns[i] = ColumnData(packed, data.valid, raw, chunks)
        return ColumnBatch(batch.rows, columns)


def _value_bytes(data: ColumnData) -> int:
    return data.values.nbytes if isinstance(data.values, np.ndarray) else sum(map(len, data.values))


def _pieces_of(column: Column, data: ColumnData) -> tuple[Cells, list[int]]:
    """What is compressed by itself: values, or their chunks; and how many of these each value has."""
    cells = cells_of(column, data)
    return (cells, [1] * len(cells)) if column.chunks is None else pieces_of_cells(column, cells)


def _sums(of_pieces: NDArray[np.uint64], counts: list[int]) -> NDArray[np.uint64]:
    if len(of_pieces) == len(counts):
        return of_pieces
    ends = np.cumsum(counts, dtype=np.int64)
    return np.add.reduceat(of_pieces, ends - np.array(counts, np.int64))


def _tables(lengths: NDArray[np.uint64], counts: list[int]) -> list[NDArray[np.uint64]]:
    """The lengths of the chunks of each value, none where it is one."""
    ends = np.cumsum(counts).tolist()
    return [lengths[end - n : end] if n > 1 else lengths[:0] for end, n in zip(ends, counts, strict=True)]


def cells_of(column: Column, data: ColumnData) -> Cells:
    """The values of a blob column, one by one."""
    if not isinstance(data.values, np.ndarray):
        return list(data.values)
    values: npt.NDArray[Any] = np.ascontiguousarray(data.values)
    flat = memoryview(values.reshape(-1).view(np.uint8))
    width = column.fixed_bytes
    return [flat[start : start + width] for start in range(0, len(flat), width)]


def encoder_of(column: Column, dictionary: bytes) -> Encoder:
    """What compresses the cells of the column."""
    assert column.codec is not None
    return Encoder(column.codec.code, column.element_bytes, column.codec.level, dictionary)


def choose_dictionary(column: Column, cells: Cells) -> bytes:
    """A dictionary for cells like these, trained on every other one of them; empty where the rest gains too little."""
    assert column.codec is not None
    total = sum(map(len, cells))
    if len(cells) < _LEAST_CELLS or total // len(cells) >= _LONGEST:
        return b""
    step = max(1, -(-total // _TRAINED_BYTES))
    chosen = cells[::step]
    size = min(_MOST_DICTIONARY, sum(map(len, chosen)) // 32)
    if size < 1024:
        return b""
    dictionary = train_dictionary(column.codec.code, column.element_bytes, chosen[::2], size)
    if not dictionary:
        return b""
    with_it, without = (
        int(encoder_of(column, each).encode(chosen[1::2])[1].sum()) for each in (dictionary, b"")
    )
    saved = (without - with_it) * 2 * step  # of all these cells
    return dictionary if with_it <= _WORTH * without and saved > 2 * len(dictionary) else b""


# Which blob columns are worth compressing, and how: tried on a sample of their values.


_SAMPLE_BYTES: Final = 4 << 20  # of a column
_LEAST_SAVED: Final = 0.1
_COMPRESSED: Final = {".jpg", ".png", ".gif", ".webp", ".avi", ".gz", ".zip", ".zst", ".flac", ".ogg", ".mp3"}


@dataclass(frozen=True)
class CodecChoice:
    """What is best for a column; ``codec`` None: to leave it as it is.

    ``saved``: the part of the sample's bytes that ``codec`` saves, or that the best one would have saved.
    """

    codec: Codec | None
    saved: float
    why: str


def choose_codecs(schema: Schema, sample: ColumnBatch) -> dict[str, CodecChoice]:
    """The choice for each blob column, by its name, from the values of a few rows."""
    return {
        column.name: _choose(column, _evenly(cells_of(column, sample.columns[i])))
        for i, column in schema.blobs
    }


def _evenly(cells: Cells) -> Cells:
    return cells[:: max(1, -(-sum(map(len, cells)) // _SAMPLE_BYTES))]


def _choose(column: Column, cells: Cells) -> CodecChoice:
    total = sum(map(len, cells))
    if not total:
        return CodecChoice(None, 0.0, "there is nothing to try it on")
    kinds = [kind for cell in cells if (kind := file_kind(bytes(cell[:16]))) and kind.suffix in _COMPRESSED]
    if 2 * len(kinds) > len(cells):
        return CodecChoice(None, 0.0, f"it is compressed already ({kinds[0].name})")
    codes = [CODEC_ZSTD] + ([CODEC_SHUFFLE_ZSTD] if column.element_bytes > 1 else [])
    saved, codec = max(
        ((_saved(column, Codec(code), cells, total), code) for code in codes), key=lambda c: c[0]
    )
    if saved < _LEAST_SAVED:
        return CodecChoice(None, saved, f"{Codec(codec).name} would save {max(saved, 0.0):.0%}")
    return CodecChoice(Codec(codec), saved, f"saves {saved:.0%}")


def _saved(column: Column, codec: Codec, cells: Cells, total: int) -> float:
    compressed = replace(column, codec=codec)
    encoder = encoder_of(compressed, choose_dictionary(compressed, cells))
    return 1.0 - int(encoder.encode(cells)[1].sum()) / total


# Writes parts: head, row groups and end page of the data file, and then its index; one after the other in a
# folder.


# Writes one part: head, row groups and end page of the data file, and then its index.


# How the scalar columns of the data file are stored: compressed, where that pays; as they are; or compressed where
# libzstd can be loaded (None).
ScalarCodec = Literal["zstd", "none"] | None


def check_scalar_codec(codec: ScalarCodec) -> None:
    """ValueError unless it is one, ColumnError where it cannot be written here."""
    if codec not in (None, "zstd", "none"):
        raise ValueError(f'scalar_codec is "zstd", "none" or None, got {codec!r}')
    if codec == "zstd":
        check_codec(CODEC_ZSTD)


@dataclass(frozen=True)
class PartContent:
    """What every part of a dataset has in common: schema, names of index columns, the user's metadata as msgpack.

    ``dictionaries``: (ordinal of the column, content) for compressed columns, known with the first rows.
    ``scalar_codec``: of scalar pages, by name (see `ScalarCodec`).
    """

    schema: Schema
    index: tuple[str, ...]
    user: bytes
    dictionaries: tuple[tuple[int, bytes], ...] = ()
    scalar_codec: ScalarCodec = None


@dataclass(frozen=True)
class FinishedPart:
    """A part whose two files are complete under their temporary names."""

    data: StagedFile
    index: StagedFile
    id: bytes
    rows: int
    content_digest: bytes

    def sync(self) -> None:
        """Makes both files durable."""
        self.data.sync()
        self.index.sync()

    def discard(self) -> None:
        self.data.discard()
        self.index.discard()


class PartWriter:
    """Appends row groups to a staged data file, which it owns from then on."""

    def __init__(self, data: StagedFile, part_id: bytes, content: PartContent, shape: Shape) -> None:
        self.data = data
        self.id = part_id
        self.shape = shape
        self.content = content
        self.rows: int = 0
        self.groups: int = 0
        codecs = {"zstd": CODEC_ZSTD, "none": CODEC_PLAIN}
        self._page_codec = page_codec() if content.scalar_codec is None else codecs[content.scalar_codec]
        self._digests = bytearray()  # of dictionaries and scalar pages
        table = content.schema.column_table()
        self._content = layout.Content(part_id, shape, table, metadata.packed_schema(content.schema))
        head, _ = layout.pack_file_head(
            part_id,
            len(content.schema),
            table,
            metadata.encode(content.schema, content.index, content.user),
            shape,
        )
        data.append([head])
        for column, dictionary in content.dictionaries:
            page, header = encode_dictionary(part_id, data.size, column, dictionary)
            self._digests += header.payload_digest.to_bytes(8, "little")
            wide = layout.wide_payload_digest(part_id, data.size, header.kind, dictionary)
            self._content.add(header, wide)
            data.append([page])

    def size_with(self, pieces: Sequence[ColumnBatch]) -> int:
        """How long the finished file would be, about and at most, with these rows."""
        if isinstance(pieces[0], StoredRows):
            more = sum(piece.nbytes for piece in pieces if isinstance(piece, StoredRows))
            return self.data.size + more + 8 * layout.PAGE_HEADER_BYTES + layout.MEMORY_PAGE
        return self.data.size + group_size(self.content.schema, self.shape, pieces) + layout.PAGE_HEADER_BYTES

    def add(self, pieces: Sequence[ColumnBatch]) -> None:
        """Writes the rows as one row group."""
        place = GroupPlace(self.groups, self.rows, self.data.size)
        encode = encode_stored_group if isinstance(pieces[0], StoredRows) else encode_group
        encoded = encode(self.content.schema, self.shape, self.id, place, pieces, self._page_codec)  # type: ignore[arg-type]
        if encoded.blobs:
            self.data.append([bytes(encoded.scalar_bytes), *encoded.blobs])
            page = encoded.scalar_page()
            self.data.write_at(place.offset, b"".join(page.pieces))
        else:
            page = encoded.scalar_page()
            self.data.append(page.pieces)
        self._digests += page.digest.to_bytes(8, "little")
        for header, wide in page.content:
            self._content.add(header, wide)
        self.groups += 1
        self.rows += sum(piece.rows for piece in pieces)

    def finish(self, index_path: str) -> FinishedPart:
        """Completes both files; the index is the one to be published at ``index_path``."""
        content = self._content.digest()
        end = EndPage(self.groups, self.rows, layout.pages_digest(self.id, self._digests), content)
        self.data.append([layout.pack_end_page(self.id, self.data.size, end)])
        index = StagedFile(index_path, like=self.data.temporary)
        try:
            build_index(self.data.temporary, index)
        except BaseException:
            index.discard()
            raise
        return FinishedPart(self.data, index, self.id, self.rows, content)


# Row groups -> parts of a folder, one after the other, each of at most a greatest size.


Delivery = Callable[[str], None]  # of a part, by name, whose files are complete in their folder
RunSync = Callable[[Callable[[], None]], None]  # of work that makes a part complete

_GROUPS_PER_PART = 4  # at least about so many, so that parts come close to their greatest size
_SMALLEST_TARGET = 4_096


def stays(name: str) -> None:
    """The delivery of parts that are where they belong."""


def at_once(work: Callable[[], None]) -> None:
    """The settling of parts that nothing else goes on beside."""
    work()


class PartSequence:
    """Writes parts under their own names; ``entries`` are those that are complete, and on disk once they are settled.

    Args:
        folder: where the parts are written.
        dataset_id: 16 bytes, of which their ids are made.
        number: the number of the i-th part.
        max_part_bytes: greatest size of a data file, if its first row group allows.
        like: a file whose owner and mode new ones get, if it is there.
        deliver: is told of each part that is complete.
        finished: parts of an earlier run, after which this one goes on.
        on_part: told of each part that is complete when others follow it.
        run_sync: what has a part synced and given its name: at once, or later, one after the other.
    """

    def __init__(
        self,
        folder: str,
        dataset_id: bytes,
        number: Callable[[int], int],
        max_part_bytes: int,
        like: str,
        deliver: Delivery = stays,
        finished: Sequence[PartEntry] = (),
        on_part: Callable[[PartContent, Shape], None] | None = None,
        run_sync: RunSync = at_once,
    ) -> None:
        self.folder = folder
        self.target_bytes: int | None = max(max_part_bytes // _GROUPS_PER_PART, _SMALLEST_TARGET)
        self.entries: list[PartEntry] = list(finished)
        self.named: list[str] = []  # names of parts that may have been given
        self.dataset_id = dataset_id
        self._number = number
        self._max_part_bytes = max_part_bytes
        self._like = like
        self._on_part = on_part
        self._deliver = deliver
        self._run_sync = run_sync
        self._part: PartWriter | None = None
        self._staged: StagedFile | None = None

    @property
    def written(self) -> int:
        """Bytes on their way to disk: of the parts that are complete, and of the data file at hand."""
        at_hand = 0 if self._staged is None else self._staged.size
        return sum(entry.bytes + entry.index_bytes for entry in self.entries) + at_hand

    @property
    def current(self) -> str:
        """Name of the part that rows go into now."""
        number = self._number(len(self.entries))
        return manifest.part_name(number, manifest.part_id(self.dataset_id, number))

    def add(self, content: PartContent, shape: Shape, pieces: Sequence[ColumnBatch]) -> None:
        """Writes a row group, into a new part when this one would grow beyond its greatest size."""
        if self._part is not None and self._part.rows and self._part.size_with(pieces) > self._max_part_bytes:
            self._finish_part()
            if self._on_part is not None:
                self._on_part(content, shape)
        self._writer(content, shape).add(pieces)

    def _writer(self, content: PartContent, shape: Shape) -> PartWriter:
        if self._part is None:
            number = self._number(len(self.entries))
            part_id = manifest.part_id(self.dataset_id, number)
            path = os.path.join(self.folder, manifest.part_name(number, part_id))
            self._staged = StagedFile(path, like=self._like)
            self._part = PartWriter(self._staged, part_id, content, shape)
        return self._part

    def _finish_part(self) -> None:
        assert self._part is not None
        assert self._staged is not None
        writer = self._part
        name = os.path.basename(self._staged.path)
        part = writer.finish(self._staged.path + ".idx")
        self.named.append(name)
        sizes = part.data.size, part.index.size
        self._run_sync(lambda: self._give_names(part, name))
        schema = manifest.schema_digest(writer.content.schema)
        digest = part.content_digest.hex()
        self.entries.append(PartEntry(name, part.id, part.rows, *sizes, schema=schema, content=digest))
        self._part = self._staged = None

    def finish(self, content: PartContent, shape: Shape) -> None:
        """Completes the last part."""
        if self._part is not None:
            self._finish_part()

    def write_empty(self, content: PartContent, shape: Shape) -> None:
        """Writes a part without rows: a dataset has one at least."""
        self._writer(content, shape)
        self._finish_part()

    def discard(self) -> None:
        """Removes the part that is not complete."""
        if self._staged is not None:
            self._staged.discard()

    def _give_names(self, part: FinishedPart, name: str) -> None:
        try:
            part.sync()
            part.index.publish(durable=False)
            part.data.publish()
        finally:
            part.discard()
        self._deliver(name)
