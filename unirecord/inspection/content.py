"""Checks all bytes of one row group: digests of its cells, zeros where zeros must be, values that can be values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..core import digest_ranges
from ..errors import CorruptionError
from ..format import layout
from ..format.page import padded
from ..format.schema import Schema
from ..format.value_rules import BROKEN, NO_TEXT, broken_scalars, no_texts
from ..parts.data_file import DataFile, DataHead, RowGroup
from ..parts.part_set import CellValues, Decoders
from .walk import Recovered, cell_places, cell_sizes, row_starts

__all__ = [
    "Finding",
    "SHOWN",
    "check_blob_values",
    "check_group",
    "check_scalar_values",
    "findings_for",
    "lost_rows",
    "read_payload",
]


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
        yield Finding(offset, f"{what} ({len(rows)} times)", span, column, rows.astype(np.int64))
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
    cells = CellValues(head.schema, *cell_places(head, group), group.page.raw_lengths, payload, decoders)
    for j, (ordinal, column) in enumerate(head.schema.blobs):
        if ordinal in decoders.lost:
            span = (group.first_row, group.first_row + group.page.rows)
            what = f"the cells cannot be decompressed: {decoders.lost[ordinal]}"
            yield Finding(group.blob_payload, what, span, column.name)
        for what, rows in cells.problems(j, group.page.blob_valid[j], ~lost):
            yield from findings_for(rows + group.first_row, group.blob_payload, what, column.name)


_PADS = 1 << 20  # padding bytes that are looked at in one step


def read_payload(data: DataFile, group: RowGroup) -> npt.NDArray[np.uint8]:
    """The payload of the group's blob page."""
    payload = np.empty(group.blob_bytes, np.uint8)
    data.read_into(payload, group.blob_payload)
    return payload


@dataclass(frozen=True)
class _Units:
    """The digest units of a group: where they lie in the payload, what they should and do digest to."""

    first: int
    starts: npt.NDArray[np.uint64]
    lengths: npt.NDArray[np.uint64]
    good: npt.NDArray[np.bool_]


def _units(head: DataHead, group: RowGroup, payload: npt.NDArray[np.uint8]) -> _Units:
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
    found = digest_ranges(payload, starts, lengths, seed, layout.PHI)
    return _Units(first, starts, lengths, found == group.page.digests)


def check_group(data: DataFile, head: DataHead, group: RowGroup, decoders: Decoders) -> list[Finding]:
    """All that is wrong with the row group; its scalar page has the right digest already."""
    try:
        findings = [] if isinstance(group, Recovered) else list(_check_scalar_page(data, head, group))
        findings += check_scalar_values(head, group)
        if head.schema.blobs:
            payload = read_payload(data, group)
            findings += _check_blobs(data, head, group, payload)
            lost = lost_rows(findings, group.first_row, group.page.rows)
            findings += check_blob_values(head, group, payload, lost, decoders)
    except CorruptionError as error:
        rows = (group.first_row, group.first_row + group.page.rows)
        findings = [Finding(error.offset or group.offset, str(error), rows)]
    return findings


def _check_blobs(
    data: DataFile, head: DataHead, group: RowGroup, payload: npt.NDArray[np.uint8]
) -> Iterator[Finding]:
    yield from _zeros(
        data, group.blob_offset + layout.PAGE_HEADER_BYTES, group.blob_payload, "the gap before the rows"
    )
    yield from _zeros(
        data, group.blob_payload + group.blob_bytes, group.end, "the padding after the blob page"
    )
    units = _units(head, group, payload)
    k, blobs = head.header.shape.unit_rows, head.schema.blobs
    wrong = np.flatnonzero(~units.good)
    for bad in wrong[:SHOWN].tolist():
        number = units.first + bad
        row = number * k if k else number // len(blobs)
        stop = min(row + max(k, 1), group.first_row + group.page.rows)
        column = blobs[number % len(blobs)][1].name if not k else None
        yield Finding(
            group.blob_payload + int(units.starts[bad]),
            f"these {int(units.lengths[bad])} bytes do not have the digest stored with them",
            (row, stop),
            column,
        )
    if len(wrong) > SHOWN:
        numbers = units.first + wrong[SHOWN:]
        each = numbers // len(blobs)
        if k:
            each = (numbers[:, None] * k + np.arange(min(k, group.page.rows))).ravel()
            each = each[each < group.first_row + group.page.rows]
        what = "the bytes do not have the digest stored with them"
        yield from findings_for(np.unique(each), group.blob_payload, what)
    yield from _check_padding(head, group, payload)


def _check_padding(head: DataHead, group: RowGroup, payload: npt.NDArray[np.uint8]) -> Iterator[Finding]:
    """Bytes between cells are zero."""
    sizes = cell_sizes(head, group).ravel()
    pads = padded(sizes, head.header.shape) - sizes
    total = int(pads.sum())
    if not total:
        return
    ends = np.cumsum(sizes + pads, dtype=np.uint64)
    starts = ends - pads
    cuts = np.searchsorted(np.cumsum(pads), np.arange(_PADS, total + _PADS, _PADS, dtype=np.uint64)) + 1
    first, bad, at = 0, 0, -1
    for cut in cuts.tolist():  # a few at a time: each takes more memory than it has bytes
        some = pads[first:cut].astype(np.int64)
        inside = np.arange(int(some.sum())) - np.repeat(np.cumsum(some) - some, some)
        places = np.repeat(starts[first:cut].astype(np.int64), some) + inside
        wrong = places[payload[places] != 0]
        if len(wrong):
            at = int(wrong[0]) if at < 0 else at
            bad += len(wrong)
        first = cut
    if bad:
        at += group.blob_payload
        yield Finding(at, f"{bad} padding bytes between cells are not zero, the first one at {at}")


def _zeros(data: DataFile, start: int, stop: int, what: str) -> Iterator[Finding]:
    raw = data.read(start, min(stop, data.size) - start)
    if any(raw):
        yield Finding(start + next(i for i, b in enumerate(raw) if b), f"{what} is not zero")


def _check_scalar_page(data: DataFile, head: DataHead, group: RowGroup) -> Iterator[Finding]:
    header = data.page_header(head, group.offset)
    end = header.payload(group.offset) + header.payload_bytes
    yield from _zeros(data, end, header.end(group.offset), "the padding after the scalar page")
    yield from _check_inner_padding(data, head.schema, group, header.payload(group.offset))


def _check_inner_padding(data: DataFile, schema: Schema, group: RowGroup, start: int) -> Iterator[Finding]:
    """The arrays of a scalar page are padded with zeros to multiples of 8, and unused bits of validity are zero."""
    at, rows = start, group.page.rows
    for size, nullable in _arrays(schema, group):
        end = layout.align(at + size, 8)
        yield from _zeros(data, at + size, end, "the padding inside the scalar page")
        if nullable is not None and rows % 8 and data.read(at + rows // 8, 1)[0] >> rows % 8:
            yield Finding(at + rows // 8, "unused bits of validity are not zero", None, nullable)
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
    for (_, column), valid in zip(schema.blobs, group.page.blob_valid, strict=True):
        if valid is not None:
            yield bits, column.name
        for _ in range((not column.stored_bytes) + column.has_raw_lengths):
            yield int(column.lengths_dtype[-1]) * group.page.rows, None
