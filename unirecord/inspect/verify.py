"""verify: every byte checked, and compared with what a new index would hold; its report, which repair has too."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import asdict, dataclass, field
from itertools import accumulate, pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..core import LeavablePool, digest_ranges, result_of, usable_cores, wide_digests
from ..errors import ColumnError, CorruptionError, FormatError, MissingError, UniRecordError
from ..format import layout, metadata
from ..format.column import Column
from ..format.layout import DATA_MAGIC, EndPage, IndexHeader, PageHeader, Section
from ..format.metadata import Metadata, Statistics, packed_schema, say_the_same
from ..format.packing import check_packing, read_numbers, section_bytes, span_of
from ..format.page import (
    cell_lengths,
    chunk_tables,
    padded,
    padding_places,
    stored_cells,
    wrong_chunks,
)
from ..format.schema import Schema
from ..format.value_rules import BROKEN, NO_TEXT, broken_scalars, no_texts
from ..format.values import unpack_object
from ..progress import Progress, Tracker
from ..sizes import many
from ..snapshot import manifest
from ..snapshot.data_file import DataFile, DataHead, DictionaryPage, RowGroup
from ..snapshot.dataset_path import deletion_of, explain_missing, meant_instead, resolve
from ..snapshot.deletions import check_deletion
from ..snapshot.layouts import is_column_part
from ..snapshot.manifest import Manifest, PartEntry, files_of_part, layout_of, schema_digest
from ..snapshot.part_set import CellValues, Decoders, PartSet
from ..snapshot.versions import located_version, read_version
from ..storage.location import Readable
from ..storage.schemes import location_of, read_file
from ..storage.staged import StagedFile, temporary_folder
from ..writing.index_file import build_index
from .history import damaged_versions

__all__ = [
    "Ancillary",
    "Checked",
    "ContentCheck",
    "Damage",
    "End",
    "Finding",
    "IndexFile",
    "Page",
    "Problem",
    "Recover",
    "Recovered",
    "RepairReport",
    "Report",
    "SHOWN",
    "Salvaged",
    "Target",
    "cell_places",
    "cell_sizes",
    "check_blob_values",
    "check_blocks",
    "check_group",
    "check_scalar_values",
    "compare_with_data",
    "find_index",
    "findings_for",
    "lost_rows",
    "read_payload",
    "row_starts",
    "strings",
    "targets",
    "validity",
    "verify",
    "walk",
]


# What verify and repair found: plain values, and the same as dicts for JSON.


"""Called with (bytes done, bytes in all), from any thread, never from two at once."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong; ``str()`` of it is one line.

    Attributes:
        path: the file.
        what: what is wrong with it.
        lost: what is lost by it.
        advice: what to do.
        part: number of the part in the dataset; this and the following are None where they do not apply.
        row: number of the row in the part.
        column: name of the column.
        offset: place in the file, in bytes.
    """

    path: str
    what: str
    lost: str
    advice: str
    part: int | None = None
    row: int | None = None
    column: str | None = None
    offset: int | None = None

    def __str__(self) -> str:
        place = [f"row {self.row}"] if self.row is not None else []
        place += [f"column {self.column!r}"] if self.column is not None else []
        place += [f"offset {self.offset}"] if self.offset is not None else []
        at = f" ({', '.join(place)})" if place else ""
        return f"{self.path}: {self.what}{at}. Lost: {self.lost}. {self.advice}"


@dataclass
class Report:
    """The outcome of a verification.

    Attributes:
        path: what was verified.
        quick: whether only headers, identities, sizes and the manifest were looked at.
        parts, rows, bytes: how much was looked at.
        column_parts: how many files beside the parts have columns of them.
        seconds: how long it took.
        problems: a list of ``Problem``; empty when all is good.
    """

    path: str
    quick: bool = False
    parts: int = 0
    rows: int = 0
    bytes: int = 0
    seconds: float = 0.0
    problems: list[Problem] = field(default_factory=list)
    column_parts: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, ready for JSON."""
        return {"ok": self.ok, **asdict(self)}


@dataclass
class Salvaged:
    """What became of one part in a repair.

    Attributes:
        path: the part.
        output: what was written for it, if anything.
        action: ``"none"``: it was sound, ``"index"``: the index was rebuilt, ``"salvaged"``: rows were written anew.
        rows: how many rows the part had, None when nobody knows.
        kept: how many rows can be read now.
        lost: ranges [first, stop) of lost rows, by their numbers in the part.
        reasons: why, in sentences.
    """

    path: str
    output: str | None = None
    action: str = "none"
    rows: int | None = None
    kept: int = 0
    lost: list[tuple[int, int]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


@dataclass
class RepairReport:
    """The outcome of a repair.

    Attributes:
        path: what was repaired.
        manifest: the manifest that was made anew or corrected, if one was.
        corrected: whether it was only corrected: it gave wrong sizes of files.
        parts: a list of ``Salvaged``, one for each part.
        seconds: how long it took.
    """

    path: str
    manifest: str | None = None
    corrected: bool = False
    parts: list[Salvaged] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether no row was lost."""
        return not any(part.lost or part.rows is None for part in self.parts)

    @property
    def kept(self) -> int:
        """Rows that can be read now."""
        return sum(part.kept for part in self.parts)

    @property
    def lost(self) -> int:
        """Rows that are known to be gone."""
        return sum(stop - first for part in self.parts for first, stop in part.lost)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, ready for JSON."""
        return {"ok": self.ok, "kept": self.kept, "lost": self.lost, **asdict(self)}


# Which parts a path stands for, when some of them may be damaged or missing.


_MAKE_ONE = "`unirecord write` makes one from CSV, JSON Lines and folders of pictures"


@dataclass(frozen=True)
class Target:
    """One part, or column part: its path, and what the manifest says of it, if there is one.

    ``number`` is that of the part; ``schema`` is what the file must have been written with.
    """

    path: str
    entry: PartEntry | None
    number: int | None
    schema: Schema | None = None
    is_column_part: bool = False


def targets(path: str) -> tuple[list[Target], Manifest | None, list[Problem]]:
    """The parts at ``path``, the manifest if it could be read, and what is wrong with that. MissingError: nothing."""
    location = location_of(path)
    folder, version = located_version(path)
    if version is not None:
        found = read_version(folder, version)
        return _listed(folder, found), found, []
    if not location.is_directory(path):
        if not location.is_taken(path):
            raise MissingError(meant_instead(path) or explain_missing(path))
        if not _may_be_part(path):
            meant = meant_instead(path)
            raise MissingError(meant or f"{path}: it is no part of a dataset (no .urec); {_MAKE_ONE}")
        return [Target(path, None, None)], None, []
    name = os.path.join(path, manifest.NAME)
    try:
        found = manifest.read(name)
    except (OSError, UniRecordError) as error:
        parts = sorted(n for n in location.names(path) if manifest.PART_NAME.fullmatch(n))
        if isinstance(error, FileNotFoundError):
            what = "the manifest is missing"
            if not parts:
                raise MissingError(
                    f"{path}: the directory holds no UniRecord dataset (no {manifest.NAME}); {_MAKE_ONE}"
                ) from None
        else:
            what = f"the manifest cannot be used: {error}"
        problem = Problem(
            name, what, "which parts belong to the dataset, and the user's metadata",
            "The parts that were found are checked; each can be opened by itself, or run: unirecord repair",
        )  # fmt: skip
        return [Target(os.path.join(path, n), None, i) for i, n in enumerate(parts)], None, [problem]
    return _listed(path, found), found, []


def _listed(folder: str, found: Manifest) -> list[Target]:
    made = []
    for i, part in enumerate(found.parts):
        entries, layout = files_of_part(found, part), layout_of(found, part)
        for entry, schema in zip(entries, layout.files, strict=True):
            made.append(Target(os.path.join(folder, entry.name), entry, i, schema, entry is not part))
    return made


def _may_be_part(path: str) -> bool:
    """Whether anything says so: the name, an index beside it, or how it begins."""
    if path.endswith(".urec") or location_of(path).is_taken(f"{path}.idx"):
        return True
    try:
        return read_file(path, len(DATA_MAGIC)) == DATA_MAGIC
    except (OSError, UniRecordError):
        return True  # what cannot be looked at is reported


# Goes through a data file that may be damaged: the row groups that are whole, and between them what is not.


_WALKED_AT_ONCE = 4 << 20
_MAGIC = int.from_bytes(layout.PAGE_MAGIC, "little")


@dataclass(frozen=True)
class Damage:
    """A stretch of the file that holds no readable row group; rows [first_row, next_row) are lost, None: not known."""

    offset: int
    what: str
    first_row: int
    next_row: int | None


@dataclass(frozen=True)
class Ancillary:
    """A page of a kind that may be ignored; ``what``: why its bytes are not what was written, or None."""

    offset: int
    end: int
    kind: int
    what: str | None


@dataclass(frozen=True)
class End(EndPage):
    """The end page, and where it is."""

    offset: int


@dataclass(frozen=True)
class Recovered(RowGroup):
    """A row group whose scalar page or page headers are damaged, put together from the index."""


Page = RowGroup | DictionaryPage | Damage | Ancillary | End

Recover = Callable[[int, int], Recovered | None]
"""(number of a row group, its first row) -> the group as the index knows it, if it does."""


def walk(data: DataFile, head: DataHead, recover: Recover | None = None) -> Iterator[Page]:
    """The pages of a data file in order: dictionaries, row groups, what is damaged or ancillary, and the end page.

    The row groups given are whole, but for their cells.
    After damage the walk goes on at the next page whose header has the digest that belongs to its place in this part:
    such a header cannot stand there by accident. Without an end page the last thing is Damage. What ``recover`` gives
    for a damaged row group comes after a Damage that has lost no rows.
    """
    offset, number, rows = head.header.header_bytes, 0, 0
    digests: bytearray | None = bytearray()  # of dictionaries and scalar pages; None after a bad one
    dictionary = -1  # the column of the last one
    while True:
        found: RowGroup | End | None
        try:
            header = data.page_header(head, offset)
            if header.is_ancillary and header.end(offset) <= data.size:
                yield _ancillary(data, head, offset, header)
                offset = header.end(offset)
                continue
            if header.kind == layout.PAGE_DICTIONARY and number == 0 and header.end(offset) <= data.size:
                page = _dictionary(data, head, offset, header, dictionary)
                yield page
                offset, dictionary = header.end(offset), header.group
                if isinstance(page, Damage):
                    digests = None
                elif digests is not None:
                    digests += page.digest.to_bytes(8, "little")
                continue
            found = _read(data, head, offset, header, (number, rows))
            _check_pages_digest(head, found, digests)
        except CorruptionError as error:
            place = offset if error.offset is None else error.offset
            digests = None
            known = recover(number, rows) if recover is not None else None
            if known is not None:
                yield Damage(place, str(error), rows, rows)
                yield known
                offset, number, rows = known.end, number + 1, known.first_row + known.page.rows
                continue
            found, number = _resume(data, head, offset + layout.PAGE_ALIGN, (number, rows))
            after = found.first_row if isinstance(found, RowGroup) else found.rows if found else None
            yield Damage(place, str(error), rows, after)
            if found is None:
                return
        yield found
        if isinstance(found, End):
            return
        if digests is not None and found.digest is not None:
            digests += found.digest.to_bytes(8, "little")
        offset, number, rows = found.end, number + 1, found.first_row + found.page.rows


def _dictionary(
    data: DataFile, head: DataHead, offset: int, header: PageHeader, before: int
) -> DictionaryPage | Damage:
    try:
        return data.dictionary(head, offset, header, before)
    except CorruptionError as error:
        return Damage(offset, str(error), 0, 0)


def _ancillary(data: DataFile, head: DataHead, offset: int, header: PageHeader) -> Ancillary:
    what = None
    try:
        data.check_ancillary(head, offset, header)
    except CorruptionError as error:
        what = str(error)
    return Ancillary(offset, header.end(offset), header.kind, what)


def _read(
    data: DataFile, head: DataHead, offset: int, header: PageHeader, expected: tuple[int, int] | None
) -> RowGroup | End:
    """The row group or end page at ``offset``; ``expected``: the number of groups and rows before it, if known."""
    if header.kind == layout.PAGE_END:
        if (
            expected not in (None, (header.group, header.rows))
            or offset + layout.PAGE_HEADER_BYTES != data.size
        ):
            raise CorruptionError(
                f"the end page at {offset} counts {many(header.rows, 'row')} in "
                f"{many(header.group, 'group')}, not what it ends",
                offset=offset,
            )
        return _end(data, head)
    if (
        header.kind != layout.PAGE_SCALAR
        or expected not in (None, (header.group, header.first_row))
        or header.gap
    ):
        raise CorruptionError(f"the page at {offset} is not the scalar page that belongs here", offset=offset)
    even = head.header.shape.group_rows
    if even and (header.rows > even or header.first_row != header.group * even):
        raise CorruptionError(
            f"the page at {offset} has {many(header.rows, 'row')}; row groups have {even}", offset=offset
        )
    if header.first_row % max(head.header.shape.unit_rows, 1):
        raise CorruptionError(
            f"the page at {offset} starts with row {header.first_row}, inside a digest unit", offset=offset
        )
    group = data.group(head, offset, header)
    if head.schema.blobs:
        row_starts(head, group)
    return group


def _end(data: DataFile, head: DataHead) -> End:
    page = data.end_page(head)
    at = data.size - layout.PAGE_HEADER_BYTES
    return End(**vars(page), offset=at)


def _check_pages_digest(head: DataHead, found: RowGroup | End, digests: bytearray | None) -> None:
    """The end page is that of the scalar pages before it, if all of them could be read."""
    if not isinstance(found, End) or digests is None:
        return
    wanted = layout.pages_digest(head.header.id, digests)
    if found.pages_digest != wanted:
        raise CorruptionError(
            f"the end page at {found.offset} has the digest {found.pages_digest:016x} of the pages before it, "
            f"and these give {wanted:016x}: some of them are of other content",
            offset=found.offset,
        )


def _resume(
    data: DataFile, head: DataHead, offset: int, before: tuple[int, int]
) -> tuple[RowGroup | End | None, int]:
    """The next whole row group or end page from ``offset`` on that can stand behind what was before, and its number."""
    while offset + layout.PAGE_HEADER_BYTES <= data.size:
        size = min(_WALKED_AT_ONCE, (data.size - offset) // layout.PAGE_ALIGN * layout.PAGE_ALIGN)
        words = np.frombuffer(data.read(offset, size), "<u4")[:: layout.PAGE_ALIGN // 4]
        for place in (np.flatnonzero(words == _MAGIC) * layout.PAGE_ALIGN + offset).tolist():
            try:
                header = data.page_header(head, place)
                rows = header.rows if header.kind == layout.PAGE_END else header.first_row
                if (
                    header.kind in (layout.PAGE_SCALAR, layout.PAGE_END)
                    and header.group >= before[0]
                    and rows >= before[1]
                ):
                    return _read(data, head, place, header, None), header.group
            except CorruptionError:
                continue
        offset += size
    return None, before[0]


def cell_sizes(head: DataHead, group: RowGroup) -> npt.NDArray[np.uint64]:
    """Length of every cell of the group, [rows, blob columns]; none is longer than the blob page."""
    shape = head.header.shape
    if shape.row_bytes and group.page.rows * shape.row_bytes != group.blob_bytes:
        raise _misfit(group)
    sizes = np.stack(cell_lengths(head.schema, group.page.rows, group.page.lengths), axis=1)
    if int(sizes.max()) > group.blob_bytes:
        raise _misfit(group)
    return sizes


def row_starts(head: DataHead, group: RowGroup) -> npt.NDArray[np.uint64]:
    """Where each row starts in the payload of the blob page, and the end of the last one; CorruptionError if absurd."""
    ends = padded(cell_sizes(head, group), head.header.shape).ravel().cumsum(dtype=np.uint64)
    if (np.diff(ends.astype(np.int64)) < 0).any() or int(ends[-1]) != group.blob_bytes:
        raise _misfit(group)
    starts = np.zeros(group.page.rows + 1, np.uint64)
    starts[1:] = ends[len(head.schema.blobs) - 1 :: len(head.schema.blobs)]
    return starts


def cell_places(head: DataHead, group: RowGroup) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Where each cell starts in the payload of the blob page, and its length, both [rows, blob columns]."""
    sizes = cell_sizes(head, group)
    room = padded(sizes, head.header.shape)
    return row_starts(head, group)[:-1, None] + np.cumsum(room, axis=1, dtype=np.uint64) - room, sizes


def _misfit(group: RowGroup) -> CorruptionError:
    return CorruptionError(
        f"the blob page at {group.blob_offset} has {many(group.blob_bytes, 'byte')}, which its rows do not add up to",
        offset=group.blob_offset,
    )


# What is wrong in a row group, and which rows are lost by it.


SHOWN: Final = (
    20  # findings of one kind in a row group that are told one by one: a report is no larger than its files
)


@dataclass(frozen=True)
class Finding:
    """Something wrong in a row group. ``rows`` [first, stop) of the part are lost by it, None: no value is.

    ``each``: when only some of them are, these.
    """

    offset: int
    what: str
    rows: tuple[int, int] | None = None
    column: str | None = None
    each: npt.NDArray[np.int64] | None = None

    def __str__(self) -> str:
        return f"{self.what} (offset {self.offset})"


def findings_for(
    rows: npt.NDArray[Any], offset: int, what: str, column: str | None = None
) -> Iterator[Finding]:
    """One finding for each of these rows of the part, which ascend; many are one."""
    if len(rows) > SHOWN:
        span = int(rows[0]), int(rows[-1]) + 1
        yield Finding(offset, f"{what} ({many(len(rows), 'time')})", span, column, rows.astype(np.int64))
        return
    for row in rows.tolist():
        yield Finding(offset, what, (row, row + 1), column)


def lost_rows(findings: list[Finding], first: int, rows: int) -> npt.NDArray[np.bool_]:
    """Which rows of a group of ``rows`` rows, the first of them ``first`` in the part, are lost by the findings."""
    bad = np.zeros(rows, bool)
    for finding in findings:
        if finding.each is not None:
            bad[finding.each - first] = True
        elif finding.rows is not None:
            bad[finding.rows[0] - first : finding.rows[1] - first] = True
    return bad


# Checks that what a row group stores can be values of its columns, whatever its digests say.


def check_scalar_values(head: DataHead, group: RowGroup) -> Iterator[Finding]:
    """Bools are 0 or 1, nulls are stored as zero, and strings are UTF-8."""
    for (_, column), found in zip(head.schema.scalars, group.page.scalars, strict=True):
        if found.strings is not None:
            bad = group.first_row + no_texts(found.values, found.strings)
            yield from findings_for(bad, group.offset, NO_TEXT, column.name)
        bad = group.first_row + broken_scalars(column, found.values, found.valid)
        yield from findings_for(bad, group.offset, BROKEN, column.name)


def check_blob_values(
    head: DataHead,
    group: RowGroup,
    payload: npt.NDArray[np.uint8],
    lost: npt.NDArray[np.bool_],
    decoders: Decoders,
) -> Iterator[Finding]:
    """Cells of the rows that are not ``lost`` can be decompressed and decoded, and nulls are empty or zero."""
    tables = chunk_tables(head.schema, group.page)
    places = cell_places(head, group)
    cells = CellValues(head.schema, *places, group.page.raw_lengths, tables, payload, decoders)
    for j, (ordinal, column) in enumerate(head.schema.blobs):
        if ordinal in decoders.lost:
            span = (group.first_row, group.first_row + group.page.rows)
            what = f"the cells cannot be decompressed: {decoders.lost[ordinal]}"
            yield Finding(group.blob_payload, what, span, column.name)
        for what, rows in cells.problems(j, group.page.blob_valid[j], ~lost):
            yield from findings_for(rows + group.first_row, group.blob_payload, what, column.name)


def read_payload(data: DataFile, group: RowGroup) -> npt.NDArray[np.uint8]:
    """The payload of the group's blob page."""
    payload = np.empty(group.blob_bytes, np.uint8)
    data.read_into(payload, group.blob_payload)
    return payload


def _units(
    head: DataHead, group: RowGroup, payload: npt.NDArray[np.uint8]
) -> tuple[int, npt.NDArray[np.uint64], npt.NDArray[np.uint64], npt.NDArray[np.bool_], bytes]:
    """The digest units of a group: the first one, where each begins in the payload, its length, whether it is good.

    And the wide digests of all.
    """
    shape, blobs = head.header.shape, len(head.schema.blobs)
    bounds = row_starts(head, group)
    if shape.unit_rows:
        first = group.first_row // shape.unit_rows
        edges = np.append(bounds[: -1 : shape.unit_rows], bounds[-1])
        starts, lengths = edges[:-1], np.diff(edges)
    else:
        first = group.first_row * blobs
        places, sizes = cell_places(head, group)
        starts, lengths = places.ravel(), sizes.ravel()
    seed = layout.seed(head.header.id, layout.DOMAIN_UNITS, first)
    found, wide = wide_digests(payload, starts, lengths, seed, layout.PHI)
    return first, starts, lengths, found == group.page.digests, wide.astype("<u8").tobytes()


# What each page of a row group adds to the content digest: its header, and the wide digest of its payload.
Contribution = tuple[PageHeader, bytes]


@dataclass(frozen=True)
class Checked:
    """What is wrong with a row group, and, of one whose pages are all there, what it adds to the content digest."""

    findings: list[Finding]
    content: list[Contribution]


class ContentCheck:
    """Whether the content digest of the end page is that of the pages before it, which are told of in order."""

    def __init__(self, head: DataHead) -> None:
        header, schema = head.header, packed_schema(head.schema)
        self._content: layout.Content | None = layout.Content(header.id, header.shape, head.table, schema)

    def add(self, found: Page, checked: Checked) -> None:
        """The next page, or damage, after which nothing can be said any more."""
        if isinstance(found, Damage) or checked.findings:
            self._content = None
        if self._content is None:
            return
        if isinstance(found, DictionaryPage):
            size, kind = len(found.content), layout.PAGE_DICTIONARY
            header = PageHeader(kind, found.column, 0, 0, size, 0, found.digest)
            wide = layout.wide_payload_digest(self._content.part_id, found.offset, kind, found.content)
            self._content.add(header, wide)
        for page, digest in checked.content:
            self._content.add(page, digest)

    def problem(self, end: End) -> str | None:
        """What is wrong with the content digest of the end page, if all pages before it are whole."""
        wanted = end.content_digest if self._content is None else self._content.digest()
        if wanted == end.content_digest:
            return None
        return (
            f"the end page at {end.offset} has the content digest {end.content_digest.hex()}, and the pages before it "
            f"give {wanted.hex()}: some of them are of other content"
        )


def check_group(data: DataFile, head: DataHead, group: RowGroup, decoders: Decoders) -> Checked:
    """All that is wrong with the row group; its scalar page has the right digest already."""
    content: list[Contribution] = []
    try:
        findings: list[Finding] = []
        if not isinstance(group, Recovered):
            findings += _check_scalar_page(data, head, group, content)
        findings += check_scalar_values(head, group)
        if head.schema.blobs:
            payload = read_payload(data, group)
            findings += _check_blobs(data, head, group, payload, content)
            lost = lost_rows(findings, group.first_row, group.page.rows)
            findings += _check_chunks(head, group, payload, lost)
            lost = lost_rows(findings, group.first_row, group.page.rows)
            findings += check_blob_values(head, group, payload, lost, decoders)
    except CorruptionError as error:
        rows = (group.first_row, group.first_row + group.page.rows)
        findings = [Finding(error.offset or group.offset, str(error), rows)]
    return Checked(findings, content)


def _check_chunks(
    head: DataHead, group: RowGroup, payload: npt.NDArray[np.uint8], lost: npt.NDArray[np.bool_]
) -> Iterator[Finding]:
    """The chunks of the cells of rows that are not ``lost`` are where their tables say, and have their digests."""
    cell = stored_cells(head.schema, head.header.shape, group.page.rows, group.page.lengths, payload)
    rows = np.flatnonzero(~lost)
    for column, wrong in wrong_chunks(head.schema, head.header.id, group.first_row, group.page, rows, cell):
        what = "the chunks of the cell are not as their tables say"
        yield from findings_for(wrong + group.first_row, group.blob_payload, what, column.name)


def _check_blobs(
    data: DataFile,
    head: DataHead,
    group: RowGroup,
    payload: npt.NDArray[np.uint8],
    content: list[Contribution],
) -> Iterator[Finding]:
    yield from _zeros(
        data, group.blob_offset + layout.PAGE_HEADER_BYTES, group.blob_payload, "the gap before the rows"
    )
    yield from _zeros(
        data, group.blob_payload + group.blob_bytes, group.end, "the padding after the blob page"
    )
    first, starts, lengths, good, wide = _units(head, group, payload)
    if not isinstance(group, Recovered):
        at = group.blob_offset
        content.append((data.page_header(head, at), layout.wide_blobs_digest(head.header.id, at, wide)))
    k, blobs = head.header.shape.unit_rows, head.schema.blobs
    wrong = np.flatnonzero(~good)
    for bad in wrong[:SHOWN].tolist():
        number = first + bad
        row = number * k if k else number // len(blobs)
        stop = min(row + max(k, 1), group.first_row + group.page.rows)
        column = blobs[number % len(blobs)][1].name if not k else None
        yield Finding(
            group.blob_payload + int(starts[bad]),
            f"these {many(int(lengths[bad]), 'byte', 'do')} not have the digest stored with them",
            (row, stop),
            column,
        )
    if len(wrong) > SHOWN:
        numbers = first + wrong[SHOWN:]
        each = numbers // len(blobs)
        if k:
            each = (numbers[:, None] * k + np.arange(min(k, group.page.rows))).ravel()
            each = each[each < group.first_row + group.page.rows]
        what = "the bytes do not have the digest stored with them"
        yield from findings_for(np.unique(each), group.blob_payload, what)
    yield from _check_padding(head, group, payload)


def _check_padding(head: DataHead, group: RowGroup, payload: npt.NDArray[np.uint8]) -> Iterator[Finding]:
    """Bytes between cells are zero."""
    bad, at = 0, -1
    for places in padding_places(cell_sizes(head, group), head.header.shape):
        wrong = places[payload[places] != 0]
        if len(wrong):
            at = int(wrong[0]) if at < 0 else at
            bad += len(wrong)
    if bad:
        at += group.blob_payload
        yield Finding(at, f"{bad} padding bytes between cells are not zero, the first one at {at}")


def _zeros(data: DataFile, start: int, stop: int, what: str) -> Iterator[Finding]:
    raw = data.read(start, min(stop, data.size) - start)
    if any(raw):
        yield Finding(start + next(i for i, b in enumerate(raw) if b), f"{what} is not zero")


def _check_scalar_page(
    data: DataFile, head: DataHead, group: RowGroup, content: list[Contribution]
) -> Iterator[Finding]:
    header = data.page_header(head, group.offset)
    end = header.payload(group.offset) + header.payload_bytes
    yield from _zeros(data, end, header.end(group.offset), "the padding after the scalar page")
    stored = data.stored_scalars(head, group.offset, header)
    content.append((header, layout.wide_payload_digest(head.header.id, group.offset, header.kind, stored)))
    payload = data.plain_scalars(head, group.offset, header, stored)
    for inside, what, column in _inner_padding(head.schema, group, payload):
        # What has been compressed has no place of its own in the file.
        yield Finding(header.payload(group.offset) + (0 if header.codec else inside), what, None, column)


def _inner_padding(
    schema: Schema, group: RowGroup, payload: memoryview
) -> Iterator[tuple[int, str, str | None]]:
    """The arrays of a scalar page are padded with zeros to multiples of 8, and unused bits of validity are zero."""
    at, rows = 0, group.page.rows
    for size, nullable in _arrays(schema, group):
        end = layout.align(at + size, 8)
        if end > len(payload):
            yield len(payload), "the scalar page ends within its padding", None
        wrong = next((place for place in range(at + size, min(end, len(payload))) if payload[place]), None)
        if wrong is not None:
            yield wrong, "the padding inside the scalar page is not zero", None
        if nullable is not None and rows % 8 and payload[at + rows // 8] >> rows % 8:
            yield at + rows // 8, "unused bits of validity are not zero", nullable
        at = end


def _arrays(schema: Schema, group: RowGroup) -> Iterator[tuple[int, str | None]]:
    """Bytes of each array of a scalar page; of a validity, the name of its column, too."""
    bits = -(-group.page.rows // 8)
    for (_, column), found in zip(schema.scalars, group.page.scalars, strict=True):
        if found.valid is not None:
            yield bits, column.name
        yield found.values.nbytes, None
        if found.strings is not None:
            yield len(found.strings), None
    lengths, digests = iter(group.page.chunk_lengths), iter(group.page.chunk_digests)
    for (_, column), valid in zip(schema.blobs, group.page.blob_valid, strict=True):
        if valid is not None:
            yield bits, column.name
        for _ in range((not column.stored_bytes) + column.has_raw_lengths):
            yield int(column.lengths_dtype[-1]) * group.page.rows, None
        if column.has_chunk_lengths:
            yield 4 * len(next(lengths)), None
        if column.chunks is not None:
            yield 8 * len(next(digests)), None


# Checks an index whole: its own digests, and every section against one made afresh from the data file.


_CHUNK = 64 * layout.BLOCK_BYTES
_ROWS = 1 << 16


def _span_of(column: Column, entry: Section) -> tuple[int, int] | None:
    """Least and greatest of the numbers that a section may hold; None where they are no whole numbers."""
    if entry.kind == layout.SECTION_CODES and column.is_ordered and entry.width in (1, 2, 4):
        return 0, (1 << 8 * entry.width) - 1
    if (
        entry.kind != layout.SECTION_VALUES
        or column.is_blob
        or column.dtype is None
        or column.dtype.kind == "f"
    ):
        return None
    return span_of(column.dtype)


class IndexFile:
    """An index open for reading, its head checked; raises FormatError or CorruptionError when the head is bad."""

    path: str
    size: int

    def __init__(self, path: str, file: Readable) -> None:
        self.path, self.size = path, file.size
        self._file = file
        self.header: IndexHeader = layout.unpack_index_header(
            self.read(0, min(self.size, layout.INDEX_HEADER_BYTES))
        )
        if self.header.index_bytes != self.size:
            raise CorruptionError(
                f"the file has {many(self.size, 'byte')}, its header says {self.header.index_bytes}",
                offset=self.size,
            )
        rest = self.read(layout.INDEX_HEADER_BYTES, self.header.header_bytes - layout.INDEX_HEADER_BYTES)
        if (
            layout.digest(rest, layout.seed(self.header.id, layout.DOMAIN_INDEX_HEAD))
            != self.header.head_digest
        ):
            raise CorruptionError(
                "the head of the index does not have the digest stored with it",
                offset=layout.INDEX_HEADER_BYTES,
            )
        table = layout.COLUMN_BYTES * self.header.columns
        directory = table + layout.SECTION_BYTES * self.header.sections
        self.table: bytes = rest[:table]
        self.sections: dict[tuple[int, int], Section] = {}
        for start in range(table, directory, layout.SECTION_BYTES):
            section = layout.unpack_section(
                rest[start : start + layout.SECTION_BYTES], optional=self.header.optional_features != 0
            )
            self.sections[section.kind, section.column] = section
        self._check_places()
        self.packed_metadata: bytes = rest[directory : directory + self.header.metadata_bytes]
        self.metadata: Metadata = metadata.decode(self.packed_metadata)
        self._check_packing()
        if any(rest[directory + self.header.metadata_bytes :]):
            raise CorruptionError(
                "the bytes after the metadata are not zero", offset=layout.INDEX_HEADER_BYTES + directory
            )

    def _check_places(self) -> None:
        end = self.header.header_bytes
        if len(self.sections) != self.header.sections or list(self.sections) != sorted(self.sections):
            raise FormatError("the section directory is not in order")
        for s in self.sections.values():
            size = section_bytes(s.width, s.count, s.bits)
            if s.offset != layout.align(end, layout.PAGE_ALIGN) or s.bytes != size:
                raise FormatError(f"section {s.kind} of column {s.column} is not where it must be")
            end = s.offset + s.bytes
        if layout.align(end, layout.PAGE_ALIGN) != self.header.digests_offset:
            raise FormatError("the sections do not end where the block digests start")

    def _check_packing(self) -> None:
        for s in self.sections.values():
            if s.bits:
                known = s.column < len(self.metadata.schema)
                check_packing(s, _span_of(self.metadata.schema[s.column], s) if known else None)

    def statistics(self) -> Statistics:
        """What the statistics section holds; FormatError when that does not go with the schema."""
        section = self.sections[layout.SECTION_STATISTICS, layout.NO_COLUMN]
        return metadata.decode_statistics(self.read(section.offset, section.bytes), self.metadata.schema)

    def zone_rows(self) -> dict[int, int]:
        """Rows of a zone by ordinal of the column."""
        found = {s.column: s.extra for s in self.sections.values() if s.kind == layout.SECTION_ZONE_FLAGS}
        return {column: rows for column, rows in found.items() if rows > 0}

    def look_ups(self) -> set[int]:
        """Ordinals of the columns that have a look-up."""
        schema = self.metadata.schema
        return {
            s.column
            for s in self.sections.values()
            if (s.kind, s.width, s.bits) == (layout.SECTION_LOOK_UP, 8, 0)
            and s.column < len(schema)
            and schema[s.column].is_ordered
        }

    def read(self, offset: int, size: int) -> bytes:
        """Exactly these bytes; CorruptionError when the file ends before."""
        if min(offset, size) < 0 or offset + size > self.size:
            raise CorruptionError(
                f"{many(size, 'byte', 'are')} not in the file, at {offset}", offset=max(offset, 0)
            )
        raw = self._file.read_at(offset, size)
        if len(raw) < size:
            raise CorruptionError(f"the file ends at {offset + len(raw)}", offset=offset + len(raw))
        return raw

    def elements(self, key: tuple[int, int], dtype: Any, start: int, stop: int) -> np.ndarray[Any, Any]:
        """Elements [start, stop) of a section."""
        return read_numbers(self.read, self.sections[key], dtype, start, stop)

    def values(self, ordinal: int, start: int, stop: int) -> np.ndarray[Any, Any]:
        """The values of rows [start, stop) of a column of fixed width, zero where null."""
        dtype = np.dtype(self.metadata.schema[ordinal].dtype)
        codes = self.sections.get((layout.SECTION_CODES, ordinal))
        if codes is None:
            found = self.elements((layout.SECTION_VALUES, ordinal), dtype, start, stop)
        else:
            key = (layout.SECTION_DICTIONARY_ENTRIES, ordinal)
            entries = self.elements(key, dtype, 0, self.sections[key].count)
            numbers = self.elements((layout.SECTION_CODES, ordinal), f"<u{codes.width}", start, stop)
            if len(numbers) and int(numbers.max()) >= len(entries):
                raise CorruptionError(
                    "a code has no entry in the dictionary of its column", offset=codes.offset
                )
            found = entries.take(numbers)
        valid = validity(self, ordinal, start, stop)
        return found if valid is None else np.where(valid, found, np.zeros(1, dtype))


def check_blocks(index: IndexFile) -> Iterator[tuple[int, str]]:
    """(offset, what) of every block whose digest does not hold, and of padding that is not zero."""
    header = index.header
    seed = layout.seed(header.id, layout.DOMAIN_INDEX_BLOCK)
    for start in range(header.header_bytes, header.digests_offset, _CHUNK):
        raw = index.read(start, min(_CHUNK, header.digests_offset - start))
        starts = np.arange(0, len(raw), layout.BLOCK_BYTES, dtype=np.uint64)
        lengths = np.minimum(np.uint64(layout.BLOCK_BYTES), np.uint64(len(raw)) - starts)
        first = (start - header.header_bytes) // layout.BLOCK_BYTES
        found = digest_ranges(raw, starts, lengths, (seed + first * layout.PHI) & layout.MASK64, layout.PHI)
        stored = np.frombuffer(index.read(header.digests_offset + 8 * first, 8 * len(starts)), "<u8")
        for bad in np.flatnonzero(found != stored).tolist():
            yield (
                start + int(starts[bad]),
                f"block {first + bad} of the index does not have the digest stored with it",
            )
    end = header.header_bytes
    for s in index.sections.values():
        if any(index.read(end, s.offset - end)):
            yield end, "the padding between sections is not zero"
        end = s.offset + s.bytes
    if any(index.read(end, header.digests_offset - end)):
        yield end, "the padding after the sections is not zero"


def compare_with_data(index: IndexFile, data: DataFile) -> Iterator[tuple[int, str]]:
    """(offset, what) of everything in the index that is not what the (sound) data file says."""
    with temporary_folder() as folder:
        scratch = StagedFile(os.path.join(folder, "index"))
    try:  # it has no name any more, and is gone with this process
        build_index(data.path, scratch, index.zone_rows(), index.look_ups())
        fresh = IndexFile(data.path, scratch)
        if (index.header.shape, index.table, index.packed_metadata) != (
            fresh.header.shape, fresh.table, fresh.packed_metadata,
        ):  # fmt: skip
            yield layout.INDEX_HEADER_BYTES, "layout, column table or metadata are not those of the data file"
        mine = {key for key in index.sections if not _is_choice(key)}
        if mine != {key for key in fresh.sections if not _is_choice(key)}:
            yield layout.INDEX_HEADER_BYTES, "the sections are not those that the schema calls for"
            return
        for key, wanted in fresh.sections.items():
            if not _same_section(index, fresh, key):
                yield (
                    index.sections[key].offset if key in index.sections else index.header.header_bytes,
                    f"section {wanted.kind} of column {wanted.column} is not what the data file says",
                )
    finally:
        scratch.discard()


def _is_choice(key: tuple[int, int]) -> bool:
    """Whether a writer may choose to have this section, or others in its place, or none."""
    chosen = layout.SECTION_CODES <= key[0] <= layout.SECTION_ZONES
    return chosen or key[0] == layout.SECTION_VALUES or key[0] >= layout.ANCILLARY


def _same_statistics(index: IndexFile, fresh_index: IndexFile) -> bool:
    for mine, fresh in zip(index.statistics(), fresh_index.statistics(), strict=True):
        if (mine is None) != (fresh is None):
            return False
        if mine is None or fresh is None:
            continue
        for name in fresh:
            uncounted = name == "distinct" and None in (mine.get(name), fresh[name])
            if not uncounted and repr(mine.get(name)) != repr(fresh[name]):
                return False
    return True


NONSENSE = (FormatError, IndexError, KeyError, ValueError, OverflowError, TypeError)
"""What comes of using numbers that have right digests and that no writer has written."""


def _same_section(index: IndexFile, fresh: IndexFile, key: tuple[int, int]) -> bool:
    try:
        return _same_content(index, fresh, key)
    except NONSENSE:
        return False


def _same_content(index: IndexFile, fresh: IndexFile, key: tuple[int, int]) -> bool:
    wanted, found = fresh.sections[key], index.sections.get(key)
    if key[0] == layout.SECTION_STATISTICS:
        return _same_statistics(index, fresh)
    if key[0] >= layout.ANCILLARY and found is None:  # a writer need not have it
        return True
    other = _is_coded(index, key[1]) != _is_coded(fresh, key[1])
    if key[0] == layout.SECTION_ZONE_FLAGS and other and fresh.metadata.schema[key[1]].is_string:
        return found is not None and found.count == wanted.count and _same_flags(index, fresh, key)
    if found is not None and (found.extra, found.bits) != (wanted.extra, wanted.bits):
        return False
    if found is not None and (found.width, found.count) == (wanted.width, wanted.count):
        return all(
            index.read(found.offset + start, size) == fresh.read(wanted.offset + start, size)
            for start in range(0, wanted.bytes, _CHUNK)
            for size in [min(_CHUNK, wanted.bytes - start)]
        )
    return _is_choice(key) and other and _same_values(index, fresh, key[1])


def _is_coded(file: IndexFile, column: int) -> bool:
    return (layout.SECTION_CODES, column) in file.sections


def _same_flags(index: IndexFile, fresh: IndexFile, key: tuple[int, int]) -> bool:
    """Both flag the same zones for nulls and NaNs; whether bounds are set depends on how strings lie."""
    count = fresh.sections[key].count
    return all(
        not ((index.elements(key, "u1", start, stop) ^ fresh.elements(key, "u1", start, stop)) & 0b011).any()
        for start in range(0, count, _ROWS)
        for stop in [min(start + _ROWS, count)]
    )


def _same_values(index: IndexFile, fresh: IndexFile, column: int) -> bool:
    """Both hold the same values, bit for bit, one of them in a dictionary and the other not."""
    rows = fresh.header.rows
    is_string = fresh.metadata.schema[column].is_string

    def read(file: IndexFile, start: int, stop: int) -> list[bytes] | bytes:
        return strings(file, column, start, stop) if is_string else file.values(column, start, stop).tobytes()

    return all(
        read(index, start, stop) == read(fresh, start, stop)
        for start in range(0, rows, _ROWS)
        for stop in [min(start + _ROWS, rows)]
    )


def validity(file: IndexFile, column: int, start: int, stop: int) -> npt.NDArray[np.bool_] | None:
    """Which of the rows have a value; None when the column is not nullable."""
    if (layout.SECTION_VALIDITY, column) not in file.sections:
        return None
    bits = file.elements((layout.SECTION_VALIDITY, column), np.uint8, start // 8, -(-stop // 8))
    return np.unpackbits(bits, bitorder="little")[start % 8 :][: stop - start].astype(bool)


def strings(file: IndexFile, column: int, start: int, stop: int) -> list[bytes]:
    """The strings of the rows, empty where null."""
    valid = validity(file, column, start, stop)
    codes = file.sections.get((layout.SECTION_CODES, column))
    if codes is None:
        return _texts(file, (layout.SECTION_STRING_OFFSETS, column), start, stop)
    entries = _texts(file, (layout.SECTION_DICTIONARY_OFFSETS, column), 0, -1)
    numbers = file.elements((layout.SECTION_CODES, column), f"<u{codes.width}", start, stop).tolist()
    present = [True] * len(numbers) if valid is None else valid.tolist()
    return [entries[n] if ok else b"" for n, ok in zip(numbers, present, strict=True)]


def _texts(file: IndexFile, key: tuple[int, int], start: int, stop: int) -> list[bytes]:
    stop = file.sections[key].count - 1 if stop < 0 else stop
    offsets = file.elements(key, "<u8", start, stop + 1)
    if (offsets[1:] < offsets[:-1]).any():  # else overlapping strings add up to more than the file holds
        raise CorruptionError("the offsets of its strings do not ascend", offset=file.sections[key].offset)
    ends = offsets.tolist()
    joined = file.read(file.sections[key[0] + 1, key[1]].offset + ends[0], ends[-1] - ends[0])
    return [joined[a - ends[0] : b - ends[0]] for a, b in pairwise(ends)]


def find_index(path: str, part_id: bytes, content_digest: bytes | None) -> tuple[str | None, str]:
    """The index file of the part at ``path``: its name or None, and what is wrong when there is none of this part.

    ``content_digest``: the one in the data file's end page, None when that cannot be read.
    """
    problems = []
    for name in (path + ".idx", path + ".idx.new"):
        try:
            found = layout.unpack_index_header(read_file(name, layout.INDEX_HEADER_BYTES))
        except FileNotFoundError:
            continue
        except (OSError, FormatError, CorruptionError) as error:
            problems.append(f"{name}: {error}")
            continue
        if found.id != part_id:
            problems.append(f"{name}: it is the index of the part {found.id.hex()}, not of {part_id.hex()}")
        elif content_digest not in (None, found.content_digest):
            problems.append(
                f"{name}: it belongs to other content of this part: its content digest is "
                f"{found.content_digest.hex()}, and {content_digest.hex()} in the end page of {path}"
            )
        else:
            return name, ""
    return None, "; ".join(problems) or "the index is missing"


# Checks a dataset whole: headers, identities, every digest, every zero byte; indexes say what the data
# says.


_REPAIR = "Run: unirecord repair"
_RESTORE = "Restore the file from a copy"
_SAY_ANEW = "Write the column anew: unirecord.add_columns(replace=True)"
_MOST_THREADS = 8  # memory and disk are the limit beyond
_ALONE_BYTES = 256 << 20  # larger row groups are checked one at a time


def verify(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    quick: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Checks the dataset at ``path``, or all of a list of them, and reports what is wrong; files are only read.

    What is wrong with the files is in the report, never an exception. Memory is bounded by a few row groups,
    whatever the size of the dataset.

    Args:
        path: a part, a directory, or a list of these.
        quick: look at headers, identities, sizes and the manifest alone.
        threads: by default the processors that this process may use, at most 8.
        progress: called with (bytes done, bytes in all), from any thread, never from two at once.

    Raises:
        MissingError: there is nothing at ``path``, or what is no dataset.
        ValueError: the list is empty.
    """
    started = time.monotonic()
    paths = [os.fspath(p) for p in ([path] if isinstance(path, (str, os.PathLike)) else path)]
    if not paths:
        raise ValueError("path is an empty list; expected at least one part or directory")
    report = Report(", ".join(paths), quick)
    found = [targets(each) for each in paths]
    readers = [_as_read(each) for each in paths]
    parts = [
        (part, listing, reader)
        for reader, (listed, listing, _) in zip(readers, found, strict=True)
        for part in listed
    ]
    report.problems += [problem for _, _, problems in found for problem in problems]
    report.problems += [problem for each in paths for problem in _versions(each)]
    report.problems += [problem for part, _, _ in parts for problem in _deletions(part)]
    report.column_parts = sum(part.is_column_part for part, _, _ in parts)
    report.parts = len(parts) - report.column_parts
    sizes = [_size(part.path) + _size(part.path + ".idx") for part, _, _ in parts]
    tracker = Tracker(sum(sizes), progress)
    workers = threads or min(_MOST_THREADS, usable_cores())
    pool = LeavablePool(workers, "unirecord-verify")
    try:
        for (part, listing, reader), ends in zip(parts, accumulate(sizes), strict=True):
            known = len(report.problems)
            _Part(part, listing, report, tracker).check(pool, workers)
            if len(report.problems) == known:
                report.problems += _refused(reader, part)
            tracker.reach(ends)  # with what was not read: heads, ends, all behind damage
        if report.ok:
            report.problems += [reader for reader in readers if isinstance(reader, Problem)]
    finally:
        pool.leave()
        for reader in readers:
            if not isinstance(reader, Problem):
                reader.close()
    report.seconds = time.monotonic() - started
    return report


def _deletions(part: Target) -> list[Problem]:
    """What is wrong with the file that says which rows of a part have been deleted."""
    deletion = None if part.entry is None else deletion_of(os.path.dirname(part.path), part.entry)
    if part.entry is None or deletion is None:
        return []
    try:
        check_deletion(deletion, part.entry.id, part.entry.rows)
    except (OSError, UniRecordError) as error:
        return [Problem(deletion.path, str(error), "which rows of the part have been deleted", _RESTORE)]
    return []


def _versions(path: str) -> list[Problem]:
    return [
        Problem(name, what, "which parts that version had; the newest is whole", "Remove the file")
        for name, what in damaged_versions(path)
    ]


def _as_read(path: str) -> PartSet | Problem:
    """The dataset at a path as who reads it opens it, before it is checked; what it refuses is wrong."""
    try:
        return PartSet(resolve(path), knows_deletions=True)
    except (OSError, UniRecordError) as error:
        return _refusal(error, path, "all rows")


def _refused(opened: PartSet | Problem, target: Target) -> list[Problem]:
    """Why the part that a file is of cannot be opened; it is opened by itself where the dataset cannot be."""
    try:
        if isinstance(opened, Problem):
            with closing(PartSet(resolve(target.path))) as alone:
                _open(alone, 0)
        else:
            _open(opened, target.number or 0)
    except (OSError, UniRecordError) as error:
        return [_refusal(error, target.path, "all rows of the part", target.number)]
    return []


def _refusal(error: Exception, path: str, lost: str, part: int | None = None) -> Problem:
    place = getattr(error, "path", None) or path
    what = str(error).removeprefix(f"{place}: ")
    advice = _REPAIR if place.endswith(".idx") else _RESTORE
    return Problem(place, f"readers refuse it: {what}", lost, advice, part)


def _open(parts: PartSet, number: int) -> None:
    """Opens a part, and reads all that its index says of it."""
    part = parts.part(number)
    for read in ("content", "stored_schema", "statistics"):
        getattr(part, read)


def _size(path: str) -> int:
    found = location_of(path).find(path)
    return 0 if found is None else found.size


class _Part:
    """The verification of one part; what it finds goes into the report."""

    def __init__(self, target: Target, listing: Manifest | None, report: Report, tracker: Tracker) -> None:
        self.target, self.listing, self.report, self.tracker = target, listing, report, tracker

    def problem(
        self, what: str, lost: str, advice: str, *, path: str | None = None, offset: int | None = None,
        row: int | None = None, column: str | None = None,
    ) -> None:  # fmt: skip
        where = path or self.target.path
        what = what.removeprefix(where + ": ")
        self.report.problems.append(
            Problem(where, what, lost, advice, self.target.number, row, column, offset)
        )

    def check(self, pool: LeavablePool, workers: int) -> None:
        """Checks the data file, and then its index."""
        try:
            with DataFile(self.target.path) as data:
                self.report.bytes += data.size
                self._check_data(data, pool, workers)
        except FileNotFoundError:
            self.problem("the data file is missing", self._all_rows(), _RESTORE)
        except UniRecordError as error:
            self.problem(str(error), self._all_rows(), _RESTORE, offset=getattr(error, "offset", None))
        except OSError as error:
            self.problem(
                f"it cannot be read ({error.strerror or error})",
                self._all_rows(),
                "Check the file's rights and the disk",
            )

    def _all_rows(self) -> str:
        entry = self.target.entry
        return f"all {many(entry.rows, 'row')} of the part" if entry is not None else "all rows of the part"

    def _check_data(self, data: DataFile, pool: LeavablePool, workers: int) -> None:
        try:
            head = data.head()
        except UniRecordError as error:
            offset = getattr(error, "offset", None)
            self.problem(str(error), self._all_rows(), _RESTORE, offset=offset)
            return
        self._check_listing(data, head)
        before = len(self.report.problems)
        end = (
            self._check_end(data, head) if self.report.quick else self._check_rows(data, head, pool, workers)
        )
        if end is not None:
            self.report.rows += 0 if self.target.is_column_part else end.rows
            entry = self.target.entry
            if entry is not None and entry.rows != end.rows:
                what = f"the part has {many(end.rows, 'row')}, the manifest says {entry.rows}"
                self.problem(what, "nothing in the files", _RESTORE, offset=end.offset)
        self._check_index(data, head, end, len(self.report.problems) == before)

    def _check_listing(self, data: DataFile, head: DataHead) -> None:
        """The part is the one that the manifest names."""
        entry = self.target.entry
        if entry is None or self.listing is None:
            return
        other = "another part stands under this name"
        if entry.id != head.header.id:
            self.problem(
                f"its id is {head.header.id.hex()}, the manifest says {entry.id.hex()}: {other}",
                self._all_rows(),
                _RESTORE,
            )
        if entry.bytes != data.size:
            what = f"the file has {many(data.size, 'byte')}, the manifest says {entry.bytes}"
            self.problem(
                what, "what was cut off" if data.size < entry.bytes else "nothing", _REPAIR, offset=data.size
            )
        content = data.content_digest(head)
        if content is not None and content.hex() != entry.content:
            self.problem(
                f"its content digest is {content.hex()}, the manifest says {entry.content}: {other}",
                self._all_rows(),
                _RESTORE,
            )
        expected = self.target.schema or self.listing.schema
        if schema_digest(head.schema) != entry.schema or not head.schema.says_the_same_as(expected):
            self.problem("its schema is not the dataset's", self._all_rows(), _RESTORE)
        self._check_metadata(head, self.listing)

    def _check_metadata(self, head: DataHead, listing: Manifest) -> None:
        """What a part says beside its schema is what the manifest says, or that it is a column part."""
        entry, said = self.target.entry, head.metadata
        assert entry is not None
        if self.target.is_column_part:
            if not is_column_part(said.user):
                self.problem("it does not say that it is a column part", "nothing in the files", _RESTORE)
            return
        if entry.columns is not None:  # its columns have other names now
            return
        if said.index != listing.index:
            what = f"its index columns are {list(said.index)}, the manifest says {list(listing.index)}"
            self.problem(what, "look-ups by value may be slow", _RESTORE)
        user = None if listing.metadata is None else unpack_object(listing.metadata)
        if not say_the_same(said.user, user):
            self.problem("its metadata are not those of the manifest", "the user's metadata", _RESTORE)

    def _check_end(self, data: DataFile, head: DataHead) -> End | None:
        """The end page alone, for the quick look."""
        try:
            return _end(data, head)
        except CorruptionError as error:
            at = data.size - layout.PAGE_HEADER_BYTES
            self.problem(
                f"{error}: it is unfinished or was cut off", "the rows behind the cut", _REPAIR, offset=at
            )
            return None

    def _check_rows(self, data: DataFile, head: DataHead, pool: LeavablePool, workers: int) -> End | None:
        decoders = Decoders.of(data, head)
        advice = "Verify it again where it can be read"
        for ordinal, why in decoders.unavailable.items():
            what = f"its values were not checked, but for their digests: {why}"
            self.problem(what, "nothing", advice, column=head.schema[ordinal].name)
        for column in head.schema:
            if (wrong := column.wrong_logical) is not None:
                self.problem(
                    wrong, "nothing: its values are read as they are stored", _SAY_ANEW, column=column.name
                )
        try:
            return self._check_pages(data, head, decoders, pool, workers)
        except ColumnError as error:
            self.problem(f"its rows were not checked: {error}", "nothing", advice)
            return None

    def _check_pages(
        self, data: DataFile, head: DataHead, decoders: Decoders, pool: LeavablePool, workers: int
    ) -> End | None:
        end, content = None, ContentCheck(head)
        for found, checked in _in_parallel(data, head, decoders, pool, workers):
            content.add(found, checked)
            if isinstance(found, Damage):
                self._damage(found)
            elif isinstance(found, End):
                end, what = found, content.problem(found)
                if what is not None:
                    self.problem(what, "nothing, if these are the rows", _REPAIR, offset=found.offset)
            elif isinstance(found, DictionaryPage):
                self.tracker.advance(found.end - found.offset)
            elif isinstance(found, Ancillary):
                if found.what is not None:
                    self.problem(found.what, "nothing that this version reads", _REPAIR, offset=found.offset)
                self.tracker.advance(found.end - found.offset)
            else:
                for finding in checked.findings:
                    self._finding(finding)
                self.tracker.advance(found.end - found.offset)
        return end

    def _damage(self, found: Damage) -> None:
        if found.next_row is None:
            what = f"the file is unfinished or was cut off behind row {found.first_row} ({found.what})"
            lost = f"rows from {found.first_row} on, unless the index is whole"
        else:
            what, lost = (
                found.what,
                f"rows {found.first_row} to {found.next_row - 1}, unless the index is whole",
            )
            if found.next_row == found.first_row:
                lost = "nothing"
        self.problem(what, lost, _REPAIR, offset=found.offset, row=found.first_row)

    def _finding(self, found: Finding) -> None:
        if found.rows is None:
            self.problem(
                found.what,
                "nothing",
                "Writing the data again would remove it",
                offset=found.offset,
                column=found.column,
            )
            return
        first, stop = found.rows
        lost = f"row {first}" if stop == first + 1 else f"rows {first} to {stop - 1}"
        if found.each is not None:
            lost = f"{len(found.each)} of {lost}"
        lost += f", column {found.column!r}" if found.column is not None else ""
        self.problem(
            found.what,
            lost,
            f"{_REPAIR} (it keeps the other rows)",
            offset=found.offset,
            row=first,
            column=found.column,
        )

    def _check_index(self, data: DataFile, head: DataHead, end: End | None, sound: bool) -> None:
        name, why = find_index(self.target.path, head.header.id, data.content_digest(head))
        if name is None:
            self.problem(
                why, "nothing: it can be rebuilt from the data file", _REPAIR, path=self.target.path + ".idx"
            )
            return
        try:
            with location_of(name).open(name) as file:
                self.report.bytes += file.size
                self._check_index_file(IndexFile(name, file), data, head, end, sound)
        except (UniRecordError, OSError) as error:
            self._index_problem(name, str(error), getattr(error, "offset", None))
        except NONSENSE as error:
            self._index_problem(name, f"its numbers cannot be right ({error!r})", None)
        self.tracker.advance(_size(name))

    def _index_problem(self, name: str, what: str, offset: int | None) -> None:
        self.problem(what, "nothing: it can be rebuilt from the data file", _REPAIR, path=name, offset=offset)

    def _check_index_file(
        self, index: IndexFile, data: DataFile, head: DataHead, end: End | None, sound: bool
    ) -> None:
        header, entry = index.header, self.target.entry
        facts = [("length of the data file", header.data_bytes, data.size)]
        facts.append(
            ("digest of the data file's header", header.data_header_digest, head.header.header_digest)
        )
        if end is not None:
            facts += [("rows", header.rows, end.rows), ("row groups", header.groups, end.groups)]
        if entry is not None:
            facts.append(("length of the index in the manifest", entry.index_bytes, index.size))
        for what, says, found in facts:
            if says != found:
                self._index_problem(index.path, f"{what}: expected {says}, found {found}", None)
                sound = False
        if self.report.quick:
            return
        bad = list(check_blocks(index))
        if not bad and sound:
            bad = list(compare_with_data(index, data))
        for offset, what in bad:
            self._index_problem(index.path, what, offset)


def _in_parallel(
    data: DataFile, head: DataHead, decoders: Decoders, pool: LeavablePool, workers: int
) -> Iterator[tuple[Page, Checked]]:
    """Walks the file; row groups are checked by the pool, at most a few at a time, and come out in order."""
    waiting: deque[tuple[Page, Future[Checked] | None]] = deque()

    def first() -> tuple[Page, Checked]:
        page, task = waiting.popleft()
        return page, result_of(task) if task else Checked([], [])

    for found in walk(data, head):
        large = isinstance(found, RowGroup) and found.blob_bytes > _ALONE_BYTES
        while waiting and (large or len(waiting) > workers):
            yield first()
        is_group = isinstance(found, RowGroup)
        waiting.append((found, pool.submit(check_group, data, head, found, decoders) if is_group else None))
        if large:
            yield first()
    while waiting:
        yield first()
