"""Reads UniRecord parts from docs/spec/format.md alone, every rule checked: the tests' oracle."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field
from itertools import accumulate, product
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import zstandard
from reference_rules import (
    ARRAY,
    BYTES,
    OBJECT,
    STRING,
    TEXT,
    Bad,
    Column,
    Head,
    align,
    data_head,
    digest,
    need,
    seed,
    unpack,
    wide_digest,
    zero,
)

__all__ = ["Bad", "ReferencePart", "decode", "read_data", "read_part"]


@dataclass
class Group:
    first_row: int
    rows: int
    scalar_page: int
    blob_page: int = 0
    blob_payload: int = 0


@dataclass
class Chunk:
    """An entry of a table: bytes of the values, and as stored, and the digest."""

    value: int
    stored: int
    digest: int = 0


@dataclass
class ReferencePart:
    head: Head
    groups: list[Group] = field(default_factory=list)
    raw: list[list[bytes | None]] = field(
        default_factory=list
    )  # per row, per column: stored bytes, None = null
    row_starts: list[int] = field(default_factory=list)
    stored: dict[int, list[int]] = field(default_factory=dict)  # per compressed column: lengths of cells
    dictionaries: dict[int, bytes] = field(default_factory=dict)  # per compressed column that has one
    tables: dict[int, list[list[Chunk]]] = field(default_factory=dict)  # per chunked column, row by row
    digests: list[int] = field(default_factory=list)
    page_digests: list[int] = field(default_factory=list)  # of dictionaries and scalar pages
    contents: bytearray = field(default_factory=bytearray)  # what the content digest is of
    bytes: int = 0
    deleted: list[int] = field(default_factory=list)  # of a directory alone
    sections: dict[tuple[int, int], bytes] = field(default_factory=dict)  # (kind, column) -> content, if read
    statistics: list[Any] | None = None

    @property
    def schema(self) -> list[Column]:
        return self.head.columns

    @property
    def pages_digest(self) -> int:
        return digest(
            struct.pack(f"<{len(self.page_digests)}Q", *self.page_digests), seed(self.head.id, 9, 0)
        )

    @property
    def content_digest(self) -> bytes:
        return wide_digest(bytes(self.contents), seed(self.head.id, 13, 0))

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [{c.name: decode(c, v) for c, v in zip(self.schema, row, strict=True)} for row in self.raw]


def decode(column: Column, value: bytes | None) -> Any:
    """The value that stored bytes stand for: numpy scalar, str, bytes, array, object, or None."""
    if value is None or column.code == BYTES or not column.is_known:
        return value
    if column.code in (STRING, TEXT):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Bad(f"{column.name}: {error}") from None
    if column.code == OBJECT:
        return unpack(value)
    if column.code != ARRAY:
        need(column.code != 1 or value in (b"\0", b"\1"), "a bool is 0 or 1")
        return np.frombuffer(value, column.numpy)[0]
    shape = list(column.shape or [])
    free = [i for i, d in enumerate(shape) if d < 0]
    if len(free) > 1:
        need(len(value) >= 8 * len(free), f"dimensions of {column.name}")
        dims = struct.unpack(f"<{len(free)}Q", value[-8 * len(free) :])
        value = value[: -8 * len(free)]
        for i, d in zip(free, dims, strict=True):
            shape[i] = d
    size = column.numpy.itemsize
    for d in shape:
        size *= d if d >= 0 else 1
    if len(free) == 1:
        need(len(value) % size == 0, f"length of {column.name}")
        shape[free[0]] = len(value) // size
    else:
        need(len(value) == size, f"length of {column.name}")
    return np.frombuffer(value, column.numpy).reshape(shape).copy()


@dataclass
class Page:
    kind: int
    number: int
    first_row: int
    rows: int
    start: int
    payload: bytes
    payload_digest: int
    next: int
    facts: bytes
    codec: int = 0
    raw_bytes: int = 0


def page(file: bytes, at: int, part_id: bytes) -> Page:
    """ "Page header": everything a page says about itself."""
    need(at + 64 <= len(file), "the file ends inside a page header")
    magic, kind, codec, number, first, rows, size, gap, payload_digest, header_digest = struct.unpack_from(
        "<4sHH7Q", file, at
    )
    need(magic == b"URPG", "page magic")
    need(header_digest == digest(file[at : at + 56], seed(part_id, 3, at)), "digest of a page header")
    need(kind in (1, 2, 3, 4) or kind >= 0x8000, "page kind")
    need(codec == 0 or (kind == 1 and codec == 1), "codec of a page")
    facts = file[at : at + 40]
    if kind == 3:
        need(size == 0, "end page")
        return Page(kind, number, first, rows, at + 64, file[at + 40 : at + 56], 0, at + 64, facts)
    gap, raw_bytes = (0, gap) if codec else (gap, 0)
    need(codec == 0 or 0 < raw_bytes < 2**32, "raw_bytes of a page")
    need(gap == (-(at + 64) % 4096 if kind == 2 and size >= 65536 else 0), "page gap")
    start = at + 64 + gap
    end = align(start + size, 64)
    need(end <= len(file), "the file ends inside a page")
    zero(file[at + 64 : start], "gap")
    zero(file[start + size : end], "padding after a page")
    payload = file[start : start + size]
    if kind == 1:
        need(payload_digest == digest(payload, seed(part_id, 4, at)), "digest of a scalar page")
    if kind == 2:
        need(payload_digest == 0, "payload_digest of a blob page")
    if kind >= 0x8000:
        need(size <= 2**26, "payload_bytes of an ancillary page")
        need(payload_digest == digest(payload, seed(part_id, 11, at)), "digest of an ancillary page")
    elif kind == 4:
        need(first == 0 and rows == 0 and 1 <= size <= 2**20, "dictionary page")
        need(payload_digest == digest(payload, seed(part_id, 10, at)), "digest of a dictionary page")
    else:
        need(1 <= rows <= 8 * len(file), "rows of a row group: one takes a bit at least")
    return Page(kind, number, first, rows, start, payload, payload_digest, end, facts, codec, raw_bytes)


class Payload:
    """The arrays of a scalar page, one after another, each padded with zeros to a multiple of 8."""

    def __init__(self, payload: bytes) -> None:
        self.payload, self.at = payload, 0

    def take(self, size: int) -> bytes:
        end = self.at + size
        need(align(end, 8) <= len(self.payload), "a scalar page is too short")
        zero(self.payload[end : align(end, 8)], "padding inside a scalar page")
        out, self.at = self.payload[self.at : end], align(end, 8)
        return out


def bits(data: bytes, rows: int) -> list[bool]:
    out = [bool(data[r // 8] >> r % 8 & 1) for r in range(len(data) * 8)]
    need(not any(out[rows:]), "unused bits of validity")
    return out[:rows]


Lengths = dict[int, list[int]]


@dataclass
class Scalars:
    """A scalar page: values per scalar column, lengths and validity per blob column, digests of the group's units."""

    values: dict[int, list[bytes | None]] = field(default_factory=dict)
    lengths: Lengths = field(default_factory=dict)  # of cells
    raw_lengths: Lengths = field(default_factory=dict)  # of values
    valid: dict[int, list[bool]] = field(default_factory=dict)
    digests: list[int] = field(default_factory=list)
    tables: dict[int, list[list[Chunk]]] = field(default_factory=dict)  # of chunked columns


def shape_of(column: Column, value: int) -> list[int]:
    """The shape of a value of so many bytes: one dimension of bytes where it is no array."""
    if column.code != ARRAY:
        return [value]
    shape = column.shape or []
    along = column.numpy.itemsize * math.prod(d for d in shape if d != -1)
    need(-1 not in shape or value % along == 0, f"bytes of a value of {column.name}")
    return [value // along if d == -1 else d for d in shape]


def pieces(column: Column, value: int) -> list[tuple[slice, ...]]:
    """Where the chunks of a value of so many bytes lie in it, in order."""
    shape = shape_of(column, value)
    along = [
        [slice(start, min(start + chunk, size)) for start in range(0, size, chunk)]
        for size, chunk in zip(shape, column.chunks or [], strict=True)
    ]
    return list(product(*along))


def table(column: Column, value: int) -> list[Chunk]:
    """The table of a value of so many bytes, as long as it is not compressed; none where it is one chunk."""
    width = column.numpy.itemsize if column.code == ARRAY else 1
    found = [width * math.prod(p.stop - p.start for p in piece) for piece in pieces(column, value)]
    return [Chunk(size, size) for size in found] if len(found) > 1 else []


def joined(column: Column, cell: bytes, entries: list[Chunk], dictionary: bytes | None) -> bytes:
    """ "Chunks": the value that a cell stands for."""
    need(sum(entry.stored for entry in entries) == len(cell), f"chunks of a cell of {column.name}")
    ends = list(accumulate(entry.stored for entry in entries))
    parts = []
    for entry, end in zip(entries, ends, strict=True):
        part = cell[end - entry.stored : end]
        parts.append(decompress(column, part, entry.value, dictionary) if column.codec else part)
    if column.code != ARRAY:
        return b"".join(parts)
    size = sum(map(len, parts))
    value = np.empty(shape_of(column, size), column.numpy)
    for place, part in zip(pieces(column, size), parts, strict=True):
        value[place] = np.frombuffer(part, column.numpy).reshape(value[place].shape)
    return value.tobytes()


def plain(head: Head, p: Page) -> bytes:
    """The payload of a scalar page, its arrays decompressed."""
    if not p.codec:
        return p.payload
    units = p.rows * len(head.blobs) if head.unit_rows == 0 else -(-p.rows // head.unit_rows)
    end = len(p.payload) - (8 * units if head.blobs else 0)
    need(0 < end < p.raw_bytes and p.raw_bytes >> 15 <= end, "sizes of a compressed scalar page")
    frame, digests = p.payload[:end], p.payload[end:]
    return unframed(frame, p.raw_bytes, None, "a scalar page") + digests


def scalar_page(head: Head, p: Page) -> Scalars:
    body, n, out = Payload(plain(head, p)), p.rows, Scalars()
    for i, c in enumerate(head.columns):
        if c.is_blob:
            continue
        valid = bits(body.take(-(-n // 8)), n) if c.nullable else [True] * n
        if c.code == STRING:
            lengths = struct.unpack(f"<{n}I", body.take(4 * n))
            every = body.take(sum(lengths))
            ends = list(accumulate(lengths))
            cells = [every[e - size : e] for e, size in zip(ends, lengths, strict=True)]
        else:
            every = body.take(c.fixed_bytes * n)
            cells = [every[r * c.fixed_bytes : (r + 1) * c.fixed_bytes] for r in range(n)]
        for cell, ok in zip(cells, valid, strict=True):
            need(ok or (not any(cell) and (c.code != STRING or not cell)), "a null is stored as zero")
        out.values[i] = [cell if ok else None for cell, ok in zip(cells, valid, strict=True)]
    for i, c in enumerate(head.columns):
        if not c.is_blob:
            continue
        size = 4 if c.codec else 8
        take = lambda size=size: np.frombuffer(body.take(size * n), f"<u{size}").tolist()  # noqa: E731
        out.valid[i] = bits(body.take(-(-n // 8)), n) if c.nullable else [True] * n
        out.lengths[i] = [c.stored_bytes] * n if c.stored_bytes else take()
        out.raw_lengths[i] = take() if c.codec and not c.fixed_bytes else [c.fixed_bytes] * n
        if c.chunks is not None:
            sizes = out.raw_lengths[i] if c.codec or c.fixed_bytes else out.lengths[i]
            need(
                sum(
                    math.prod(d // k for d, k in zip(shape_of(c, s), c.chunks, strict=True))
                    for s in sizes
                    if not c.fixed_bytes
                )
                <= len(body.payload),
                "entries of tables",
            )
            out.tables[i] = [table(c, size) for size in sizes]
            every = [entry for entries in out.tables[i] for entry in entries]
            if c.codec:
                stored = struct.unpack(f"<{len(every)}I", body.take(4 * len(every)))
                for entry, size in zip(every, stored, strict=True):
                    entry.stored = size
            digests = struct.unpack(f"<{len(every)}Q", body.take(8 * len(every)))
            for entry, found in zip(every, digests, strict=True):
                entry.digest = found
    units = n * len(head.blobs) if head.unit_rows == 0 else -(-n // head.unit_rows)
    out.digests = list(struct.unpack(f"<{units}Q", body.take(8 * units))) if head.blobs else []
    need(body.at == len(body.payload), "a scalar page is too long")
    return out


def unframed(frame: bytes, size: int, dictionary: bytes | None, what: str) -> bytes:
    """The `size` bytes that are in exactly one frame of zstd."""
    try:
        header = zstandard.get_frame_parameters(frame)
        need(header.content_size == size and header.dict_id == 0, "header of a frame")
        known = zstandard.ZstdCompressionDict(dictionary) if dictionary is not None else None
        one = zstandard.ZstdDecompressor(dict_data=known).decompressobj()
        value = one.decompress(frame) + one.flush()
    except zstandard.ZstdError as error:
        raise Bad(f"frame of {what}: {error}") from None
    need(len(value) == size and one.eof and not one.unused_data, "one frame")
    return value


def decompress(column: Column, cell: bytes, size: int, dictionary: bytes | None) -> bytes:
    """ "Codecs": the value of `size` bytes that a stored cell stands for."""
    need(column.codec in (1, 2), f"codec {column.codec}")
    need(len(cell) <= size and size >> 15 <= len(cell) and (len(cell) > 0 or size == 0), "sizes of a cell")
    if len(cell) == size:
        return cell
    value = unframed(cell, size, dictionary, column.name)
    if column.codec == 1:
        return value
    width = column.numpy.itemsize
    whole = size - size % width
    elements = np.frombuffer(value[:whole], np.uint8).reshape(width, -1)
    return elements.T.tobytes() + value[whole:]


def blob_page(part: ReferencePart, p: Page, file: bytes, scalars: Scalars) -> bytes:
    """The cells of row after row; padding is zero; every unit has its digest; a null has no bytes, or zeros.

    Returns the wide digests of all units.
    """
    head, at, digests = part.head, p.start, scalars.digests
    end = p.start + len(p.payload)
    starts = []
    wide = b""
    for r in range(p.rows):
        starts.append(at)
        row = part.raw[p.first_row + r]
        for j, i in enumerate(i for i, c in enumerate(head.columns) if c.is_blob):
            size, valid = scalars.lengths[i][r], scalars.valid[i][r]
            need(at + size <= end, "a cell ends beyond its page")
            cell = value = file[at : at + size]
            column = head.columns[i]
            if column.codec:
                part.stored.setdefault(i, []).append(size)
            entries = scalars.tables[i][r] if column.chunks is not None else []
            if entries:
                value = joined(column, cell, entries, part.dictionaries.get(i))
            elif column.codec:
                value = decompress(column, cell, scalars.raw_lengths[i][r], part.dictionaries.get(i))
            if column.chunks is not None:
                part.tables.setdefault(i, []).append(entries)
            begin = 0
            for number, entry in enumerate(entries):
                place = ((p.first_row + r) * len(head.blobs) + j) * 2**32 + number
                chunk = cell[begin : begin + entry.stored]
                need(entry.digest == digest(chunk, seed(head.id, 12, place)), "digest of a chunk")
                begin += entry.stored
            need(valid or (not any(value) and len(value) == column.fixed_bytes), "a null is stored as zero")
            row[i] = value if valid else None
            zero(file[at + size : align(at + size, head.align)], "padding after a cell")
            at = align(at + size, head.align)
            if head.unit_rows == 0:
                unit = (p.first_row + r) * len(head.blobs) + j
                need(
                    digests[r * len(head.blobs) + j] == digest(cell, seed(head.id, 5, unit)),
                    f"digest of unit {unit}",
                )
                wide += wide_digest(cell, seed(head.id, 5, unit))
    need(at == end, "payload_bytes of a blob page")
    starts.append(at)
    if head.unit_rows:
        for u, first in enumerate(range(0, p.rows, head.unit_rows)):
            rows = file[starts[first] : starts[min(first + head.unit_rows, p.rows)]]
            unit = p.first_row // head.unit_rows + u
            need(digests[u] == digest(rows, seed(head.id, 5, unit)), f"digest of unit {unit}")
            wide += wide_digest(rows, seed(head.id, 5, unit))
    part.row_starts += starts[:-1]
    return wide


def read_data(file: bytes, *, sealed: bool = True) -> ReferencePart:
    """A part from its data file alone; not ``sealed``: whatever digests of its pages the end page has."""
    part = ReferencePart(data_head(file), bytes=len(file))
    head, at = part.head, part.head.header_bytes
    part.contents += head.layout + head.table + msgpack.packb(unpack(head.metadata)["schema"])
    while True:
        p = page(file, at, head.id)
        if p.kind >= 0x8000:
            at = p.next
            continue
        if p.kind == 4:
            need(not part.groups and p.number > max(part.dictionaries, default=-1), "place of a dictionary")
            need(p.number < len(head.columns) and head.columns[p.number].codec > 0, "column of a dictionary")
            part.dictionaries[p.number] = p.payload
            part.page_digests.append(p.payload_digest)
            part.contents += p.facts + wide_digest(p.payload, seed(head.id, 10, at))
            at = p.next
            continue
        if p.kind == 3:
            need(p.number == len(part.groups) and p.rows == len(part.raw), "counts of the end page")
            need(p.next == len(file), "bytes after the end page")
            need(not sealed or p.first_row == part.pages_digest, "digest of the pages before the end page")
            need(not sealed or p.payload == part.content_digest, "content digest of the end page")
            break
        need(p.kind == 1 and p.number == len(part.groups) and p.first_row == len(part.raw), "order of pages")
        if head.group_rows:
            need(p.rows <= head.group_rows, "rows of a group")
            need(not part.groups or part.groups[-1].rows == head.group_rows, "a short group before the last")
        need(p.first_row % max(head.unit_rows, 1) == 0, "a group starts inside a unit")
        group = Group(p.first_row, p.rows, at)
        scalars = scalar_page(head, p)
        values = scalars.values
        part.raw += [
            [values[i][r] if i in values else None for i in range(len(head.columns))] for r in range(p.rows)
        ]
        part.digests += scalars.digests
        part.page_digests.append(p.payload_digest)
        part.contents += p.facts + wide_digest(p.payload, seed(head.id, 4, at))
        part.groups.append(group)
        at = p.next
        if head.blobs:
            group.blob_page = at
            b = page(file, at, head.id)
            need(
                (b.kind, b.number, b.first_row, b.rows) == (2, p.number, p.first_row, p.rows),
                "blob page of a group",
            )
            wide = blob_page(part, b, file, scalars)
            part.contents += b.facts + wide_digest(wide, seed(head.id, 13, at))
            group.blob_payload, at = b.start, b.next
    for row in part.raw:
        for c, v in zip(head.columns, row, strict=True):
            decode(c, v)
    return part


def read_part(path: str | Path, *, index: bool = True) -> ReferencePart:
    """A part with its index (`NAME.idx`, or `NAME.idx.new` when that is missing or of another part or content)."""
    from reference_index import read_index

    part = read_data(Path(path).read_bytes())
    if index:
        files = [Path(f"{path}.idx"), Path(f"{path}.idx.new")]
        found = [f.read_bytes() for f in files if f.exists()]
        mine = [
            f for f in found
            if f[24:40] == part.head.id and f[104:120] == part.content_digest
        ]  # fmt: skip
        need(bool(found), "the index is missing")
        read_index((mine or found)[0], part)
    return part
