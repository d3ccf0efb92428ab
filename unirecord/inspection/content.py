"""Checks all bytes of one row group: digests of its cells, zeros where zeros must be, values that can be values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core import digest_ranges
from ..errors import CorruptionError
from ..format import layout
from ..format.schema import Schema
from ..parts.data_file import DataFile, DataHead, ScannedGroup
from .walk import Recovered, cell_sizes, row_starts

__all__ = ["Finding", "check_group", "read_payload"]


@dataclass(frozen=True)
class Finding:
    """Something wrong in a row group. ``rows`` [first, stop) of the part are lost by it, None: no value is."""

    offset: int
    what: str
    rows: tuple[int, int] | None = None
    column: str | None = None


def read_payload(data: DataFile, group: ScannedGroup) -> npt.NDArray[np.uint8]:
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


def _units(head: DataHead, group: ScannedGroup, payload: npt.NDArray[np.uint8]) -> _Units:
    shape, blobs = head.header.shape, len(head.schema.blobs)
    bounds = row_starts(head, group)
    if shape.unit_rows:
        first = group.first_row // shape.unit_rows
        edges = np.append(bounds[: -1 : shape.unit_rows], bounds[-1])
        starts, lengths = edges[:-1], np.diff(edges)
    else:
        first = group.first_row * blobs
        sizes = cell_sizes(head, group)
        mask = np.uint64(shape.blob_align - 1)
        padded = (sizes + mask) & ~mask
        inside = np.cumsum(padded, axis=1, dtype=np.uint64) - padded
        starts, lengths = (bounds[:-1, None] + inside).ravel(), sizes.ravel()
    seed = layout.seed(head.header.id, layout.DOMAIN_UNITS, first)
    found = digest_ranges(payload, starts, lengths, seed, layout.PHI)
    return _Units(first, starts, lengths, found == group.page.digests)


def check_group(data: DataFile, head: DataHead, group: ScannedGroup) -> list[Finding]:
    """All that is wrong with the row group; its scalar page has the right digest already."""
    try:
        findings = [] if isinstance(group, Recovered) else list(_check_scalars(data, head, group))
        if head.schema.blobs:
            findings += _check_blobs(data, head, group)
    except CorruptionError as error:
        rows = (group.first_row, group.first_row + group.page.rows)
        findings = [Finding(error.offset or group.offset, str(error), rows)]
    return findings


def _check_blobs(data: DataFile, head: DataHead, group: ScannedGroup) -> Iterator[Finding]:
    payload = read_payload(data, group)
    yield from _zeros(
        data, group.blob_offset + layout.PAGE_HEADER_BYTES, group.blob_payload, "the gap before the rows"
    )
    yield from _zeros(
        data, group.blob_payload + group.blob_bytes, group.end, "the padding after the blob page"
    )
    units = _units(head, group, payload)
    k, blobs = head.header.shape.unit_rows, head.schema.blobs
    for bad in np.flatnonzero(~units.good).tolist():
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
    yield from _check_padding(head, group, payload)


def _check_padding(head: DataHead, group: ScannedGroup, payload: npt.NDArray[np.uint8]) -> Iterator[Finding]:
    """Bytes between cells are zero."""
    sizes = cell_sizes(head, group).ravel()
    mask = np.uint64(head.header.shape.blob_align - 1)
    pads = ((sizes + mask) & ~mask) - sizes
    total = int(pads.sum())
    if not total:
        return
    ends = np.cumsum(sizes + pads, dtype=np.uint64)
    places = np.repeat(ends - np.cumsum(pads, dtype=np.uint64), pads.astype(np.int64)) + np.arange(
        total, dtype=np.uint64
    )
    bad = places[payload[places.astype(np.int64)] != 0]
    if len(bad):
        at = group.blob_payload + int(bad[0])
        yield Finding(at, f"{len(bad)} padding bytes between cells are not zero, the first one at {at}")


def _zeros(data: DataFile, start: int, stop: int, what: str) -> Iterator[Finding]:
    raw = data.read(start, min(stop, data.size) - start)
    if any(raw):
        yield Finding(start + next(i for i, b in enumerate(raw) if b), f"{what} is not zero")


def _check_scalars(data: DataFile, head: DataHead, group: ScannedGroup) -> Iterator[Finding]:
    header = data.page_header(head, group.offset)
    end = header.payload(group.offset) + header.payload_bytes
    yield from _zeros(data, end, header.end(group.offset), "the padding after the scalar page")
    yield from _check_inner_padding(data, head.schema, group, header.payload(group.offset))
    for (_, column), found in zip(head.schema.scalars, group.page.scalars, strict=True):
        values, null = found.values, None if found.valid is None else ~found.valid
        wrong = np.zeros(len(values), bool)
        if null is not None:
            raw = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)
            wrong |= null & raw.any(axis=1)
        if column.type == "bool":
            wrong |= values.view(np.uint8) > 1
        if found.strings is not None:
            yield from _check_texts(column.name, values, found.strings, group)
        for row in np.flatnonzero(wrong).tolist():
            yield Finding(
                group.offset, "the stored value breaks the rules of its type", _one(group, row), column.name
            )


def _one(group: ScannedGroup, row: int) -> tuple[int, int]:
    return (group.first_row + row, group.first_row + row + 1)


def _check_texts(
    name: str, lengths: npt.NDArray[Any], joined: memoryview, group: ScannedGroup
) -> Iterator[Finding]:
    raw = bytes(joined)
    if raw.isascii():
        return
    end = 0
    for row, length in enumerate(lengths.tolist()):
        start, end = end, end + length
        try:
            raw[start:end].decode()
        except UnicodeDecodeError as error:
            yield Finding(group.offset, f"the string is not UTF-8 ({error.reason})", _one(group, row), name)


def _check_inner_padding(
    data: DataFile, schema: Schema, group: ScannedGroup, start: int
) -> Iterator[Finding]:
    """The arrays of a scalar page are padded with zeros to multiples of 8, and unused bits of validity are zero."""
    sizes: list[int] = []
    for (_, column), found in zip(schema.scalars, group.page.scalars, strict=True):
        if found.valid is not None:
            sizes.append(-(-group.page.rows // 8))
        sizes.append(found.values.nbytes)
        if found.strings is not None:
            sizes.append(len(found.strings))
        if found.valid is not None and group.page.rows % 8:
            at = (
                start
                + sum(layout.align(s, 8) for s in sizes[: -3 if column.is_string else -2])
                + group.page.rows // 8
            )
            if data.read(at, 1)[0] >> group.page.rows % 8:
                yield Finding(at, "unused bits of validity are not zero", None, column.name)
    at = start
    for size in sizes:
        end = layout.align(at + size, 8)
        yield from _zeros(data, at + size, end, "the padding inside the scalar page")
        at = end
