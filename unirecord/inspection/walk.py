"""Goes through a data file that may be damaged: the row groups that are whole, and between them what is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import CorruptionError
from ..format import layout
from ..format.layout import PageHeader
from ..format.page import cell_lengths, padded
from ..parts.data_file import DataFile, DataHead, DictionaryPage, RowGroup
from ..sizes import many

__all__ = [
    "Ancillary",
    "Damage",
    "End",
    "Page",
    "Recover",
    "Recovered",
    "cell_places",
    "cell_sizes",
    "row_starts",
    "walk",
]

_CHUNK = 4 << 20
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
class End:
    """The end page: how many rows and groups the part has, and its content digest."""

    offset: int
    rows: int
    groups: int
    content_digest: int


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
            _check_content(head, found, digests)
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
        return End(offset, header.rows, header.group, header.payload_digest)
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


def _check_content(head: DataHead, found: RowGroup | End, digests: bytearray | None) -> None:
    """The end page is that of the scalar pages before it, if all of them could be read."""
    if not isinstance(found, End) or digests is None:
        return
    wanted = layout.content_digest(head.header.id, digests)
    if found.content_digest != wanted:
        raise CorruptionError(
            f"the end page at {found.offset} has the content digest {found.content_digest:016x}, "
            f"the scalar pages before it give {wanted:016x}: some of them are of other content",
            offset=found.offset,
        )


def _resume(
    data: DataFile, head: DataHead, offset: int, before: tuple[int, int]
) -> tuple[RowGroup | End | None, int]:
    """The next whole row group or end page from ``offset`` on that can stand behind what was before, and its number."""
    while offset + layout.PAGE_HEADER_BYTES <= data.size:
        size = min(_CHUNK, (data.size - offset) // layout.PAGE_ALIGN * layout.PAGE_ALIGN)
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
        f"the blob page at {group.blob_offset} has {group.blob_bytes} bytes, which its rows do not add up to",
        offset=group.blob_offset,
    )
