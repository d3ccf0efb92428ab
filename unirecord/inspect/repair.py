"""repair: indexes made anew, and whole rows taken out of damaged files."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from ..errors import BusyError, CorruptionError, ExistsError, FormatError, SchemaError, UniRecordError
from ..format import layout
from ..format.chunks import chunk_counts, chunked_blobs, joined_cells, joined_values
from ..format.column import Column
from ..format.metadata import pack_user
from ..format.page import (
    ScalarColumn,
    ScalarPage,
    cell_lengths,
    chunk_tables,
    padded,
    unit_count,
    values_sizes,
)
from ..format.schema import Schema
from ..format.values import ColumnBatch, ColumnData, PackedStrings
from ..progress import Progress, Tracker
from ..snapshot import manifest
from ..snapshot.data_file import DataFile, DataHead, DictionaryPage, RowGroup, checked_head
from ..snapshot.layouts import is_column_part
from ..snapshot.manifest import Manifest, PartEntry
from ..snapshot.part_set import CellValues, Decoders, pieces_of
from ..snapshot.versions import located_version, published_as
from ..storage import local as store
from ..storage.claim import check_unclaimed
from ..storage.location import Readable
from ..storage.schemes import location_of, path_on_disk
from ..storage.staged import StagedFile, staged_file
from ..writing.directory_claim import check_only_grew, keep_version, put_pieces
from ..writing.index_file import build_index
from ..writing.part_writer import PartContent, ScalarCodec
from ..writing.target import write_batches
from .verify import (
    NONSENSE,
    Ancillary,
    Checked,
    ContentCheck,
    Damage,
    End,
    IndexFile,
    Recovered,
    RepairReport,
    Salvaged,
    Target,
    cell_places,
    check_blocks,
    check_group,
    compare_with_data,
    find_index,
    lost_rows,
    read_payload,
    strings,
    targets,
    validity,
    walk,
)

__all__ = [
    "IndexedGroups",
    "RepairReport",
    "Salvaged",
    "Survey",
    "correct_sizes",
    "has_other_sizes",
    "head_from_index",
    "opened_index",
    "rebuild_manifest",
    "repair",
    "sound_batches",
    "survey",
    "why_not_listed",
]


# What a sound index knows of a damaged data file: its head, and row groups whose scalar page or headers are bad.


def head_from_index(path: str, data: DataFile) -> DataHead | None:
    """The head of the data file as its index repeats it; None unless it comes out with the digest that it had."""
    for name in (f"{path}.idx", f"{path}.idx.new"):
        try:
            with location_of(name).open(name) as file:
                index = IndexFile(name, file)
            known = index.header
            head, digest = layout.pack_file_head(
                known.id, known.columns, index.table, index.packed_metadata, known.shape, known.writer_version
            )
            if digest == known.data_header_digest and known.data_bytes == data.size:
                header = layout.unpack_file_header(head[: layout.HEADER_BYTES])
                found = checked_head(header, index.table, index.packed_metadata)
                data.end_page(found)  # whose digest is bound to the id: the file is this part
                return found
        except (OSError, UniRecordError):
            continue
    return None


@contextmanager
def opened_index(path: str, data: DataFile, head: DataHead) -> Iterator[IndexedGroups]:
    """What the part's index knows, while this lasts; it is read only when something is asked for."""
    name, _ = find_index(path, head.header.id, data.content_digest(head))
    if name is None:
        yield IndexedGroups("", None, head, data.size)
        return
    with location_of(name).open(name) as file:
        yield IndexedGroups(name, file, head, data.size)


class IndexedGroups:
    """What an index knows of the row groups of its data file: nothing when it is not sound, or there is none (None)."""

    name: str
    file: Readable | None
    head: DataHead
    size: int

    def __init__(self, name: str, file: Readable | None, head: DataHead, size: int) -> None:
        self.name, self.file, self.head, self.size = name, file, head, size
        self.index: IndexFile | None = None
        self.asked: bool = False

    def _open(self) -> IndexFile | None:
        """The index, if every digest in it holds and it was made for this data file."""
        if not self.asked and self.file is not None:
            self.asked = True
            try:
                index = IndexFile(self.name, self.file)
                mine = index.header.data_header_digest == self.head.header.header_digest
                mine = mine and index.header.data_bytes == self.size
                if mine and index.table == self.head.table and not list(check_blocks(index)):
                    self.index = index
            except UniRecordError:
                pass
        return self.index

    def dictionaries(self) -> dict[int, bytes] | None:
        """The dictionaries of compressed columns, by ordinal; None when the index is not sound."""
        index = self._open()
        if index is None:
            return None
        kind = layout.SECTION_CODEC_DICTIONARY
        return {s.column: index.read(s.offset, s.bytes) for s in index.sections.values() if s.kind == kind}

    def group(self, number: int, first_row: int) -> Recovered | None:
        """Row group ``number``, which starts at row ``first_row``; None when the index does not make sense there."""
        try:
            return self._group(number, first_row)
        except (UniRecordError, *NONSENSE):
            return None  # right digests over numbers that no writer has written

    def _group(self, number: int, first_row: int) -> Recovered | None:
        index = self._open()
        if index is None or number >= index.header.groups:
            return None
        key = (layout.SECTION_GROUPS, layout.NO_COLUMN)
        table = index.elements(key, "<u8", 4 * number, 4 * number + 4).tolist()
        last = number + 1 == index.header.groups
        after = (
            index.header.rows if last else int(index.elements(key, "<u8", 4 * number + 4, 4 * number + 5)[0])
        )
        if table[0] != first_row or after <= first_row:
            return None
        page = self._page(index, first_row, after)
        _, offset, blob, payload = table
        size = self._blob_bytes(page)
        if payload + size > index.header.data_bytes:
            return None
        end = (
            layout.align(payload + size, layout.PAGE_ALIGN) if blob else self._scalar_end(index, number, last)
        )
        return Recovered(first_row, offset, blob, payload, size, end, page, None)

    def _scalar_end(self, index: IndexFile, number: int, last: bool) -> int:
        """Where a row group without blobs ends: where the next one, or the end page, starts."""
        if last:
            return index.header.data_bytes - layout.PAGE_HEADER_BYTES
        start = 4 * number + 5
        return int(index.elements((layout.SECTION_GROUPS, layout.NO_COLUMN), "<u8", start, start + 1)[0])

    def _page(self, index: IndexFile, start: int, stop: int) -> ScalarPage:
        schema, shape = self.head.schema, self.head.header.shape
        scalars = [
            _scalar_from_index(index, ordinal, column, start, stop) for ordinal, column in schema.scalars
        ]
        lengths, raw_lengths, blob_valid = [], [], []
        for ordinal, column in schema.blobs:
            blob_valid.append(validity(index, ordinal, start, stop))
            if not column.stored_bytes:
                lengths.append(_lengths(index, layout.SECTION_LENGTHS, ordinal, start, stop))
            if column.has_raw_lengths:
                raw_lengths.append(_lengths(index, layout.SECTION_RAW_LENGTHS, ordinal, start, stop))
        chunk_lengths, chunk_digests = self._chunks(index, start, stop, lengths, raw_lengths)
        digests = np.zeros(0, np.uint64)
        if schema.blobs:
            first = start // shape.unit_rows if shape.unit_rows else start * len(schema.blobs)
            count = unit_count(schema, shape, stop - start)
            key = (layout.SECTION_DIGESTS, layout.NO_COLUMN)
            digests = index.elements(key, "<u8", first, first + count)
        return ScalarPage(
            stop - start, scalars, lengths, raw_lengths, blob_valid, digests, chunk_lengths, chunk_digests
        )

    def _chunks(
        self,
        index: IndexFile,
        start: int,
        stop: int,
        lengths: Sequence[npt.NDArray[np.uint64]],
        raw_lengths: Sequence[npt.NDArray[np.uint64]],
    ) -> tuple[list[npt.NDArray[np.uint64]], list[npt.NDArray[np.uint64]]]:
        """Lengths and digests of the chunks of rows [start, stop), as a scalar page has them."""
        sizes, digests = [], []
        raw = values_sizes(self.head.schema, stop - start, lengths, raw_lengths)
        for _, ordinal, column in chunked_blobs(self.head.schema):
            counts = chunk_counts(column, raw[ordinal])
            if column.fixed_bytes:
                first = start * int(counts[0])
            else:
                key = (layout.SECTION_CHUNK_STARTS, ordinal)
                first = int(index.elements(key, "<u8", start, start + 1)[0])
            last = first + int(counts.sum(dtype=np.uint64))
            digests.append(index.elements((layout.SECTION_CHUNK_DIGESTS, ordinal), "<u8", first, last))
            if column.has_chunk_lengths:
                ends = index.elements((layout.SECTION_CHUNK_ENDS, ordinal), "<u4", first, last)
                fresh = np.diff(ends.astype(np.uint64), prepend=np.uint64(0))
                begins = (np.cumsum(counts) - counts)[counts > 0].astype(np.int64)
                fresh[begins] = ends[begins]
                sizes.append(fresh)
        return sizes, digests

    def _blob_bytes(self, page: ScalarPage) -> int:
        shape = self.head.header.shape
        if shape.row_bytes:
            return page.rows * shape.row_bytes
        cells = cell_lengths(self.head.schema, page.rows, page.lengths)
        return sum(int(padded(lengths, shape).sum()) for lengths in cells)


def _lengths(index: IndexFile, kind: int, ordinal: int, start: int, stop: int) -> npt.NDArray[np.uint64]:
    width = index.sections[kind, ordinal].width
    return index.elements((kind, ordinal), f"<u{width}", start, stop).astype(np.uint64)


def _scalar_from_index(index: IndexFile, ordinal: int, column: Column, start: int, stop: int) -> ScalarColumn:
    valid = validity(index, ordinal, start, stop)
    if column.is_string:
        cells = strings(index, ordinal, start, stop)
        if sum(map(len, cells)) >> layout.MAX_EXPANSION_BITS > index.header.data_bytes:
            raise CorruptionError("the strings of a row group take more bytes than the data file can hold")
        lengths = np.array([len(cell) for cell in cells], np.uint32)
        return ScalarColumn(lengths, valid, memoryview(b"".join(cells)))
    return ScalarColumn(index.values(ordinal, start, stop), valid)


@dataclass
class Survey:
    """What a data file still holds. ``rows`` None: nobody knows how many there were."""

    head: DataHead | None
    rows: int | None = None
    lost: list[tuple[int, int]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    finished: bool = True  # every page is there, the end page included

    @property
    def sound(self) -> bool:
        """Whether the file is finished and every row can be read."""
        return self.head is not None and self.rows is not None and self.finished and not self.lost

    def lose(self, first: int, stop: int, reason: str) -> None:
        """Notes that rows [first, stop) are gone."""
        self.reasons.append(reason)
        if self.lost and self.lost[-1][1] == first:
            first = self.lost.pop()[0]
        if stop > first:
            self.lost.append((first, stop))


def survey(path: str, known_rows: int | None, advance: Callable[[int], None]) -> Survey:
    """Reads the whole file and says what is whole; ``known_rows``: what manifest or index say of the number of rows."""
    with ExitStack() as stack:
        data = stack.enter_context(DataFile(path))
        head, problem = _head(path, data)
        result = Survey(head, finished=problem is None)
        if head is None:
            result.rows = known_rows
            result.lose(0, known_rows or 0, problem or "")
            return result
        if problem is not None:
            result.reasons.append(f"{problem}; the head was made again from the index")
        for column in head.schema:
            if (wrong := column.wrong_logical) is not None:
                result.reasons.append(
                    f"column {column.name!r}: {wrong}; the values stay, and nothing is said of them"
                )
        known = stack.enter_context(opened_index(path, data, head))
        decoders = Decoders.of(data, head, known.dictionaries)
        content = ContentCheck(head)
        for found in walk(data, head, known.group):
            checked = Checked([], [])
            if isinstance(found, RowGroup):
                checked = check_group(data, head, found, decoders)
            content.add(found, checked)
            if isinstance(found, End):
                result.rows = found.rows
                if (what := content.problem(found)) is not None:
                    result.finished = False
                    result.reasons.append(what)
            elif isinstance(found, Damage):
                result.finished = False
                end = found.next_row if found.next_row is not None else known_rows
                result.lose(found.first_row, end or found.first_row, f"{found.what} (offset {found.offset})")
                result.rows = known_rows
            elif isinstance(found, Ancillary):
                if found.what is not None:
                    result.finished = False
                    result.reasons.append(f"{found.what}; pages of kind {found.kind} are left out")
                advance(found.end - found.offset)
            elif isinstance(found, DictionaryPage):
                advance(found.end - found.offset)
            else:
                result.reasons += map(str, checked.findings)
                lost = lost_rows(checked.findings, found.first_row, found.page.rows)
                for row in (np.flatnonzero(lost) + found.first_row).tolist():
                    result.lose(row, row + 1, "")
                advance(found.end - found.offset)
        result.reasons = [reason for reason in result.reasons if reason]
        if result.lost and result.rows is None:
            result.rows = known_rows
    return result


def _head(path: str, data: DataFile) -> tuple[DataHead | None, str | None]:
    """The head of the data file, or the one that its index repeats, and what is wrong with its own."""
    try:
        return data.head(), None
    except UniRecordError as error:
        return head_from_index(path, data), str(error)


def sound_batches(path: str) -> Iterator[ColumnBatch]:
    """The rows whose digests hold, a row group at a time; their memory belongs to the batch."""
    with ExitStack() as stack:
        data = stack.enter_context(DataFile(path))
        head, _ = _head(path, data)
        if head is None:
            return
        known = stack.enter_context(opened_index(path, data, head))
        decoders = Decoders.of(data, head, known.dictionaries)
        decoders.check_available(head, path)
        for found in walk(data, head, known.group):
            if isinstance(found, RowGroup):
                findings = check_group(data, head, found, decoders).findings
                keep = np.flatnonzero(~lost_rows(findings, found.first_row, found.page.rows))
                payload = read_payload(data, found) if head.schema.blobs else np.empty(0, np.uint8)
                for some in pieces_of(head, found, keep):
                    yield _batch(head, found, payload, some, decoders)


def _batch(
    head: DataHead,
    group: RowGroup,
    payload: npt.NDArray[np.uint8],
    keep: npt.NDArray[np.intp],
    decoders: Decoders,
) -> ColumnBatch:
    scalars = iter(group.page.scalars)
    blobs = _blobs(head, group, payload, keep, decoders)
    columns = [
        next(blobs) if column.is_blob else _scalar(column, next(scalars), keep) for column in head.schema
    ]
    return ColumnBatch(len(keep), columns)


def _scalar(column: Column, found: ScalarColumn, keep: npt.NDArray[np.intp]) -> ColumnData:
    valid = None if found.valid is None else found.valid[keep]
    if found.strings is None:
        return ColumnData(found.values[keep], valid)
    ends = np.cumsum(found.values, dtype=np.int64)
    starts = ends - found.values
    cells: list[bytes | memoryview] = [
        bytes(found.strings[a:b]) for a, b in zip(starts[keep].tolist(), ends[keep].tolist(), strict=True)
    ]
    if valid is not None:
        cells = [cell if ok else b"" for cell, ok in zip(cells, valid.tolist(), strict=True)]
    return ColumnData(PackedStrings.of(cells), valid)


def _blobs(
    head: DataHead,
    group: RowGroup,
    payload: npt.NDArray[np.uint8],
    keep: npt.NDArray[np.intp],
    decoders: Decoders,
) -> Iterator[ColumnData]:
    places = cell_places(head, group)
    tables = chunk_tables(head.schema, group.page)
    found = CellValues(head.schema, *places, group.page.raw_lengths, tables, payload, decoders)
    for j, (_, column) in enumerate(head.schema.blobs):
        present = group.page.blob_valid[j]
        valid = None if present is None else present[keep]
        every = list(found.of(j, keep))
        if column.fixed_bytes:
            width = np.arange(column.fixed_bytes)
            values = np.concatenate([v.data[v.starts[:, None] + width] for v in every])
            yield ColumnData(values if column.chunks is None else joined_values(column, values), valid)
            continue
        cells: list[bytes | memoryview] = []
        for some in every:
            view = memoryview(some.data)
            bounds = zip(some.starts.tolist(), (some.starts + some.sizes).tolist(), strict=True)
            cells += [view[a:b] for a, b in bounds]
        arrays = column.chunks is not None and column.is_array
        yield ColumnData(joined_cells(column, cells) if arrays else cells, valid)


# Makes the manifest of a directory anew from the parts that are there, or corrects what it says of them.


def _content(path: str) -> str:
    with DataFile(path) as data:
        return data.end_page(data.head()).content_digest.hex()


def rebuild_manifest(path: str, found: Sequence[tuple[Target, Survey]], staged: StagedFile) -> None:
    """Publishes through ``staged`` a manifest that names these parts, sound and with their indexes, in their order.

    Schema, index columns and the user's metadata stand in every part. SchemaError when two parts do not agree.
    """
    check_only_grew(path)
    heads = [state.head for _, state in found if state.head is not None]
    first = heads[0].metadata
    for (part, _), head in zip(found, heads, strict=True):
        if is_column_part(head.metadata.user):
            raise SchemaError(
                f"{part.path} has columns of another part, and which part that is stood in the manifest that is lost; "
                f"copy the newest version that is kept to {manifest.NAME}, or open the parts by themselves"
            )
    for (part, _), head in zip(found, heads, strict=True):
        if not head.schema.says_the_same_as(first.schema):
            raise SchemaError(
                f"{part.path} has another schema than {found[0][0].path}, so that they are not of one dataset; "
                f"move those that do not belong to it out of {path}, and repair it again"
            )
    digest = manifest.schema_digest(first.schema)
    entries = tuple(
        PartEntry(
            os.path.basename(part.path),
            head.header.id,
            state.rows or 0,
            *_sizes(part.path),
            digest,
            _content(part.path),
        )
        for (part, state), head in zip(found, heads, strict=True)
    )
    user = None if first.user is None else pack_user(first.user)
    index = tuple(name for name in first.index if all(name in head.metadata.index for head in heads))
    last = max(int(entry.name.split("-")[1]) for entry in entries)
    made = Manifest(secrets.token_bytes(16), 1, last + 1, first.schema, index, user, entries)
    divided, pieces = manifest.divided(made, None)
    put_pieces(path, pieces)
    staged.append([manifest.encode(divided)])
    staged.sync()
    staged.publish()


def why_not_listed(part: Target, state: Survey, listing: Manifest | None) -> str | None:
    """Why a whole part is not the one that the manifest names, if it is another; sizes aside."""
    entry, head = part.entry, state.head
    if entry is None or head is None or listing is None or not state.sound:
        return None
    for what, found, listed in (
        ("id", head.header.id.hex(), entry.id.hex()),
        ("number of rows", state.rows, entry.rows),
        ("content digest", _content(part.path), entry.content),
    ):
        if found != listed:
            return f"its {what} is {found}, the manifest says {listed}"
    same = head.schema.says_the_same_as(part.schema or listing.schema)
    return None if same else "its schema is not the one in the manifest"


def has_other_sizes(part: Target) -> bool:
    """Whether the files of a part with its index are not as long as the manifest says."""
    entry = part.entry
    return entry is not None and _sizes(part.path) != (entry.bytes, entry.index_bytes)


def _sizes(path: str) -> tuple[int, int]:
    location = location_of(path)
    return location.size(path), location.size(path + ".idx")


def correct_sizes(parts: Sequence[Target], listing: Manifest, staged: StagedFile) -> None:
    """Publishes through ``staged`` the same manifest with the sizes that the files of its parts have."""
    sizes = {os.path.basename(part.path): _sizes(part.path) for part in parts}
    entries = tuple(_with_sizes(entry, sizes) for entry in listing.parts)
    corrected = published_as(replace(listing, parts=entries), listing, "repair", staged.path)
    folder = os.path.dirname(staged.path)
    divided, pieces = manifest.divided(corrected, listing)
    put_pieces(folder, pieces)
    staged.append([manifest.encode(divided)])
    staged.sync()
    keep_version(folder, listing.generation)
    staged.publish()


def _with_sizes(entry: PartEntry, sizes: dict[str, tuple[int, int]]) -> PartEntry:
    size, index_size = sizes[entry.name]
    entry = entry._replace(bytes=size, index_bytes=index_size)
    if entry.columns is None:
        return entry
    files = [
        file._replace(bytes=sizes[file.name][0], index_bytes=sizes[file.name][1])
        for file in entry.columns.files
    ]
    return entry._replace(columns=replace(entry.columns, files=tuple(files)))


def repair(
    path: str | os.PathLike[str],
    *,
    output: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> RepairReport:
    """Rebuilds what is lost at ``path``; data files are never changed (docs/repair.md).

    A lost or bad index is rebuilt beside its data file, and a lost manifest from the parts, with all that are there:
    also those that a writer which died never published. Wrong sizes in a manifest are corrected. When a data file is
    damaged or unfinished, or not the one that the manifest names, the rows whose digests hold go into a new dataset.

    Args:
        path: a part or a directory.
        output: where the new dataset goes: by default ``NAME.repaired.urec`` beside a part, or ``NAME.repaired``
            beside a directory, whose sound parts are copied as well.
        progress: called with (bytes done, bytes in all), from any thread, never from two at once.

    Raises:
        MissingError: there is nothing at ``path``, or what is no dataset.
        ExistsError: there is something at ``output``.
        FormatError: the head of the data file is lost, so that nothing can be salvaged.
    """
    started = time.monotonic()
    path = path_on_disk(os.fspath(path), "what is repaired")
    folder, version = located_version(path)
    if version is not None:
        raise ValueError(f"{path}: the newest version is repaired, not an earlier one; name {folder}")
    parts, listing, problems = targets(path)
    report, location = RepairReport(path), location_of(path)
    tracker = Tracker(sum(one.size for p in parts if (one := location.find(p.path)) is not None), progress)
    found = [(part, _survey(part, tracker)) for part in parts]
    lost = location.is_directory(path) and not location.is_taken(os.path.join(path, manifest.NAME))
    others = [why_not_listed(part, state, listing) for part, state in found]
    if (lost or not problems) and all(state.sound for _, state in found) and not any(others):
        problems_of = [_index_problem(part.path, state) for part, state in found]
        if lost or any(problems_of) or any(map(has_other_sizes, parts)):
            _mend(report, found, problems_of, listing, lost=lost)
        else:
            report.parts = [_sound(part, state) for part, state in found]
    else:
        if listing is not None and listing.deleted:
            raise UniRecordError(
                f"{path}: {listing.deleted:,} of its rows have been deleted, and what is salvaged would have them "
                "again; put the damaged file back from a copy, or go back to a version before that by `unirecord "
                "restore`"
            )
        if listing is not None and listing.layouts:
            raise UniRecordError(
                f"{path}: its columns lie in several files, or have corrected values, which are not salvaged together; "
                "put the damaged file back from a copy, go back to a version without it by `unirecord restore`, or "
                "repair the file by itself: `unirecord verify` names it"
            )
        if listing is not None and all(
            state.head is None or state.head.schema != listing.schema for _, state in found
        ):
            listing = None
        report.parts = _outcomes(found, listing, others)
        target = _target(path, output)
        _write(target, listing, found)
        for part in report.parts:
            part.output = target
    report.seconds = time.monotonic() - started
    return report


def _survey(part: Target, tracker: Tracker) -> Survey:
    known = part.entry.rows if part.entry is not None else _rows_of_index(part.path)
    try:
        return survey(part.path, known, tracker.advance)
    except OSError as error:
        result = Survey(None, known)
        result.lose(0, known or 0, f"the data file cannot be read: {error.strerror or error}")
        return result


def _rows_of_index(path: str) -> int | None:
    """How many rows the index says the part has, if it is the part's."""
    try:
        with DataFile(path) as data:
            head = data.head()
            name, _ = find_index(path, head.header.id, data.content_digest(head))
        if name is None:
            return None
        with location_of(name).open(name) as file:
            return IndexFile(name, file).header.rows
    except (OSError, UniRecordError):
        return None


def _outcomes(
    found: list[tuple[Target, Survey]], listing: Manifest | None, others: list[str | None]
) -> list[Salvaged]:
    """What a new dataset gets of each part; ``others``: why it is not the one that the manifest names."""
    schemas = [state.head.schema for _, state in found if state.head is not None]
    schema = listing.schema if listing is not None else next(iter(schemas), None)
    outcomes = []
    for (part, state), other in zip(found, others, strict=True):
        if state.head is not None and state.head.schema != schema:
            state.lost.clear()
            state.lose(0, state.rows or 0, "its schema is not the dataset's; it can be opened by itself")
        elif other is not None:
            state.reasons.append(other)
        outcomes.append(_outcome(part, state))
    return outcomes


def _outcome(part: Target, state: Survey) -> Salvaged:
    rows = state.rows
    lost = sum(stop - first for first, stop in state.lost)
    if rows is not None:
        kept = rows - lost
    else:
        kept = 0 if state.head is None else sum(batch.rows for batch in sound_batches(part.path))
    action = "none" if state.sound else "salvaged"
    return Salvaged(part.path, None, action, rows, kept, state.lost, state.reasons)


def _sound(part: Target, state: Survey) -> Salvaged:
    return Salvaged(part.path, None, "none", state.rows, state.rows or 0, [], list(state.reasons))


def _mend(
    report: RepairReport,
    found: list[tuple[Target, Survey]],
    problems: list[str | None],
    listing: Manifest | None,
    *,
    lost: bool,
) -> None:
    """Rebuilds indexes that are not as they must be, and a manifest that is lost or wrong; no writer may write."""
    location = location_of(report.path)
    place = os.path.join(report.path, manifest.NAME) if location.is_directory(report.path) else report.path
    claim = StagedFile(place, claims=report.path, like=found[0][0].path)
    try:
        claim.keep()
        check_unclaimed(place, report.path)
        if lost and location.is_taken(place):
            raise BusyError(f"{place}: it has been published meanwhile; run repair again if there is need")
        for (part, state), problem in zip(found, problems, strict=True):
            report.parts.append(_sound(part, state))
            if problem is not None:
                _rebuild_index(report.parts[-1], problem)
        if lost:
            rebuild_manifest(report.path, found, claim)
            report.manifest = place
        elif listing is not None and any(has_other_sizes(part) for part, _ in found):
            if manifest.read(place) != listing:
                raise BusyError(
                    f"{place}: it has been published meanwhile; run repair again if there is need"
                )
            correct_sizes([part for part, _ in found], listing, claim)
            report.manifest, report.corrected = place, True
    finally:
        claim.discard()


def _rebuild_index(part: Salvaged, problem: str) -> None:
    name = part.path + ".idx"
    with staged_file(name, name if location_of(name).find(name) is not None else part.path) as staged:
        build_index(part.path, staged)
    store.clear(name + ".new")
    part.action, part.output = "index", name
    part.reasons.append(problem)


def _index_problem(path: str, state: Survey) -> str | None:
    """What is wrong with the index of a sound data file."""
    assert state.head is not None
    head = state.head
    with DataFile(path) as data:
        name, why = find_index(path, head.header.id, data.content_digest(head))
    if name is None:
        return why
    try:
        with location_of(name).open(name) as file, DataFile(path) as data:
            index = IndexFile(name, file)
            size = (
                index.header.data_bytes == data.size
                and index.header.data_header_digest == head.header.header_digest
            )
            bad = [] if size else [(0, "it was made for another data file")]
            bad = bad or list(check_blocks(index)) or list(compare_with_data(index, data))
            if not bad and name.endswith(".new"):
                return f"{name}: it was not given its name"
            return f"{name}: {bad[0][1]}" if bad else None
    except (UniRecordError, OSError) as error:
        return f"{name}: {error}"
    except NONSENSE as error:
        return f"{name}: its numbers cannot be right ({error!r})"


def _target(path: str, output: str | os.PathLike[str] | None) -> str:
    location = location_of(path)
    if output is not None:
        target = os.fspath(output)
    elif location.is_directory(path):
        target = path.rstrip("/") + ".repaired"
    else:
        folder, name = os.path.split(path)
        name = name.removesuffix(".tmp").removesuffix(".urec").lstrip(".")
        target = os.path.join(folder, f"{name}.repaired.urec")
    if location_of(target).is_taken(target):
        raise ExistsError(f"{target} exists already; choose another output")
    if not location.is_directory(path) and not target.endswith(".urec"):
        raise ValueError(f"{target}: the output of a part ends in .urec")
    return target


def _scalar_codec(found: list[tuple[Target, Survey]]) -> ScalarCodec:
    """How scalar pages are written: as in the first part that tells."""
    for part, state in found:
        if state.head is None:
            continue
        try:
            with DataFile(part.path) as data:
                return "none" if data.has_plain_scalars(state.head) else None
        except (OSError, UniRecordError):
            continue  # it is the first page that is damaged
    return None


def _write(target: str, listing: Manifest | None, found: list[tuple[Target, Survey]]) -> None:
    """Writes all rows that are whole, in order, as a new dataset."""
    heads = [state.head for _, state in found if state.head is not None]
    if not heads:
        raise FormatError(f"{found[0][0].path}: nothing can be salvaged: {found[0][1].reasons[0]}")
    first = heads[0].metadata
    schema = first.schema  # with its codecs, which a manifest does not hold
    if listing is not None and listing.schema != schema:
        schema = listing.schema
    schema = Schema(column.without_logical() if column.wrong_logical else column for column in schema)
    user = listing.metadata if listing is not None else pack_user(first.user)
    content = PartContent(
        schema, first.index, user if user is not None else b"\xc0", scalar_codec=_scalar_codec(found)
    )
    whole = (part.path for part, state in found if state.head is not None and state.head.schema == schema)
    write_batches(target, content, (batch for path in whole for batch in sound_batches(path)))
