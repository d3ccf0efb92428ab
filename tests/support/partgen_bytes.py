"""Lays out the bytes of a part from its rows, from docs/spec/format.md alone; vectorised, unlike the reference."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field
from typing import Any

import msgpack
import numpy as np
import xxhash
import zstandard

CODES = {"bool": 1, "int8": 2, "uint8": 3, "int16": 4, "uint16": 5, "int32": 6, "uint32": 7, "int64": 8,
         "uint64": 9, "float16": 10, "float32": 11, "float64": 12, "bfloat16": 13, "complex64": 14, "complex128": 15,
         "string": 20, "bytes": 30, "text": 31, "object": 33}  # fmt: skip
DTYPES = {n: np.dtype("<u2" if n == "bfloat16" else n) for n in CODES if CODES[n] <= 15}
NONE = 65535


def later(base: str) -> tuple[int, int] | None:
    """Code and bytes of a value of "type70:16"; 0 bytes: a blob. None: a type of this version."""
    if base in CODES:
        return None
    code, _, width = base.removeprefix("type").partition(":")
    return int(code), int(width or 0)


@dataclass
class Col:
    name: str
    base: str
    shape: list[int] | None = None
    nullable: bool = False
    annotations: dict[str, Any] = field(default_factory=dict)
    codec: int = 0
    dictionary: bytes = b""
    chunks: list[int] | None = None  # of bytes and text, their size alone
    near: int | None = None  # integers lie from here on, a few above; None: anywhere

    @property
    def is_blob(self) -> bool:
        return (
            self.shape is not None
            or self.base in ("bytes", "text", "object")
            or later(self.base) in ((code, 0) for code in range(128, 192))
        )

    @property
    def kind(self) -> str:
        return self.base + "?" * self.nullable

    @property
    def fixed(self) -> int:
        if (found := later(self.base)) is not None:
            return found[1]
        if self.base not in DTYPES or -1 in (self.shape or []):
            return 0
        return DTYPES[self.base].itemsize * int(np.prod(self.shape or [1]))

    def entry(self) -> bytes:
        code = (later(self.base) or (CODES.get(self.base, 0), 0))[0]
        rank = len(self.shape or ())
        head = (32, code, self.nullable, rank) if self.shape is not None else (code, 0, self.nullable, rank)
        value = self.fixed if self.codec else 0
        codec = self.codec + (0 if self.chunks is None else 64)
        return struct.pack("<5B3xQQ8x", *head, codec, self.stored_width, value)

    @property
    def stored_width(self) -> int:
        return 0 if self.codec else self.fixed

    @property
    def said(self) -> dict[str, Any]:
        """The annotations."""
        if self.chunks is None:
            return self.annotations
        chunks = self.chunks if self.shape is not None else self.chunks[0]
        return {**self.annotations, "chunks": chunks}

    def pieces(self, value: bytes) -> list[bytes]:
        """The chunks of a value."""
        if self.chunks is None:
            return [value]
        if self.shape is None:
            size = self.chunks[0]
            return [value[at : at + size] for at in range(0, len(value), size)] or [b""]
        known = DTYPES[self.base].itemsize * int(np.prod([d for d in self.shape if d != -1]))
        shape = [len(value) // known if d == -1 else d for d in self.shape]
        whole = np.frombuffer(value, DTYPES[self.base]).reshape(shape)
        counts = [-(-d // c) for d, c in zip(shape, self.chunks, strict=True)]
        return [
            whole[tuple(slice(n * c, n * c + c) for n, c in zip(at, self.chunks, strict=True))].tobytes()
            for at in np.ndindex(*counts)
        ] or [b""]

    def stored(self, value: bytes | None) -> list[bytes]:
        """What is stored of the chunks of a value, or of it whole; null is zeros, or nothing."""
        value = bytes(self.fixed) if value is None else value
        return [self.compressed(piece) for piece in self.pieces(value)]

    def compressed(self, value: bytes) -> bytes:
        """A value, or a chunk, as it is stored: compressed where that makes it smaller."""
        if self.codec not in (1, 2):
            return value
        width = DTYPES[self.base].itemsize if self.codec == 2 else 1
        whole = len(value) - len(value) % width
        planes = np.frombuffer(value[:whole], np.uint8).reshape(-1, width).T.tobytes() + value[whole:]
        known = zstandard.ZstdCompressionDict(self.dictionary) if self.dictionary else None
        parameters = zstandard.ZstdCompressionParameters(
            compression_level=3, write_dict_id=0, write_content_size=1, write_checksum=0
        )
        frame = zstandard.ZstdCompressor(dict_data=known, compression_params=parameters).compress(planes)
        return frame if len(frame) < len(value) else value


@dataclass
class Spec:
    id: bytes
    columns: list[Col]
    index: list[str] = field(default_factory=list)
    user: Any = None
    align: int = 1
    unit_rows: int = 0
    group_rows: int = 0
    groups: list[int] = field(default_factory=list)  # rows of each
    page_codecs: list[int] = field(
        default_factory=list
    )  # of the scalar page of each group, over and over; none: plain
    plain: set[str] = field(default_factory=set)  # columns of strings without a dictionary
    coded: set[str] = field(default_factory=set)  # columns of integers and floats with one
    created_by: str = "partgen 1"
    unknown: dict[str, Any] = field(default_factory=dict)  # metadata keys of a later version
    writes: int = 1  # writer_version
    encodings: int | None = None  # chooses among the encodings of objects; None: the shortest
    optional: int = 0  # optional_features of a later version, with which reserved bytes are used
    zone_rows: dict[str, int] = field(default_factory=dict)
    ancillary: dict[tuple[int, int], bytes] = field(default_factory=dict)  # sections by (kind, column)
    pages: dict[int, list[tuple[int, bytes]]] = field(
        default_factory=dict
    )  # kinds and payloads before group n

    @property
    def blobs(self) -> list[int]:
        return [i for i, c in enumerate(self.columns) if c.is_blob]

    @property
    def row_bytes(self) -> int:
        sizes = [self.columns[i].stored_width for i in self.blobs]
        return sum(up(s, self.align) for s in sizes) if all(sizes) else 0


@dataclass
class Facts:
    """Where the data file put things."""

    groups: list[tuple[int, int, int, int]] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    digests: list[int] = field(default_factory=list)
    cells: dict[int, list[bytes]] = field(default_factory=dict)  # of blob columns, as stored
    chunks: dict[int, list[list[bytes]]] = field(
        default_factory=dict
    )  # of chunked ones, none where a cell is one


Raw = list[list[bytes | None]]


def up(x: int, a: int) -> int:
    return (x + a - 1) // a * a


def pad(b: bytes, a: int) -> bytes:
    return b + bytes(-len(b) % a)


def seal(spec: Spec, domain: int, place: int, content: bytes) -> int:
    base = xxhash.xxh3_64_intdigest(spec.id + struct.pack("<Q", domain))
    return xxhash.xxh3_64_intdigest(content, (base + place * 0x9E3779B97F4A7C15) % 2**64)


def wide_seal(spec: Spec, domain: int, place: int, content: bytes) -> bytes:
    base = xxhash.xxh3_64_intdigest(spec.id + struct.pack("<Q", domain))
    found = xxhash.xxh3_128_digest(content, (base + place * 0x9E3779B97F4A7C15) % 2**64)
    return bytes(found[::-1])  # it is big-endian


def metadata(spec: Spec) -> dict[str, Any]:
    return {
        "schema": [[c.name, c.kind, c.shape, *([in_order(c.said)] if c.said else [])] for c in spec.columns],
        "index": spec.index,
        "user": spec.user,
        "created_by": spec.created_by,
        **spec.unknown,
    }


def in_order(said: Any) -> Any:
    """Annotations with the keys of all maps in the order of their code points."""
    if isinstance(said, dict):
        return {key: in_order(said[key]) for key in sorted(said)}
    return list(map(in_order, said)) if isinstance(said, list) else said


def packed_metadata(spec: Spec) -> bytes:
    return bytes(msgpack.packb(metadata(spec)))


def packed_statistics(spec: Spec, said: list[Any]) -> bytes:
    """The statistics; with ``encodings`` with further keys."""
    r = random.Random(spec.encodings)
    more = [{}, {"of a later version": [1, "x"]}] if spec.encodings is not None else [{}]
    return bytes(msgpack.packb([entry and {**entry, **r.choice(more)} for entry in said]))


def head(spec: Spec, magic: bytes, domains: tuple[int, int], fields: bytes, rest: bytes) -> bytes:
    """The head of either file: header, `rest`, zeros to a multiple of 64; `fields`: from byte 24 to the digests."""
    size = 24 + len(fields) + 16
    rest = rest + bytes(-(size + len(rest)) % 64)
    start = magic + struct.pack("<HHIII", 1, spec.writes, 0, spec.optional, size + len(rest)) + fields
    start += struct.pack("<Q", seal(spec, domains[1], 0, rest))
    return start + struct.pack("<Q", seal(spec, domains[0], 0, start)) + rest


def page(
    spec: Spec, at: int, kind: int, number: int, first: int, rows: int, payload: bytes, gap: int = 0,
    codec: int = 0,
) -> bytes:  # fmt: skip
    domain = {1: 4, 4: 10}.get(kind, 11)
    sealed = seal(spec, domain, at, payload) if kind in (1, 4) or kind >= 0x8000 else 0
    start = struct.pack("<4sHHQQQQQQ", b"URPG", kind, codec, number, first, rows, len(payload), gap, sealed)
    return pad(start + struct.pack("<Q", seal(spec, 3, at, start)) + bytes(0 if codec else gap) + payload, 64)


def end_page(spec: Spec, at: int, groups: int, rows: int, sums: bytes, contents: bytes) -> bytes:
    """``sums``: the digests of the pages before; ``contents``: what the content digest is of."""
    start = struct.pack("<4sHHQQQQ", b"URPG", 3, 0, groups, seal(spec, 9, 0, sums), rows, 0)
    start += wide_seal(spec, 13, 0, contents)
    return start + struct.pack("<Q", seal(spec, 3, at, start))


def shape_fields(spec: Spec, reserve: int) -> bytes:
    """The layout of rows and the reserve after it, much the same in both headers."""
    layout = struct.pack("<IIQQ", spec.align, spec.unit_rows, spec.group_rows, spec.row_bytes)
    digests = bytes(4)  # XXH3
    return layout + digests + (b"\xa5" if spec.optional else b"\0") * reserve


def data_file(spec: Spec, raw: Raw) -> tuple[bytes, Facts]:
    meta = packed_metadata(spec)
    fields = struct.pack("<16sII", spec.id, len(spec.columns), len(meta)) + shape_fields(spec, 36)
    out = bytearray(
        head(spec, b"\x89UREC\r\n\x1a", (1, 2), fields, b"".join(c.entry() for c in spec.columns) + meta)
    )
    facts, first, sums = Facts(), 0, b""
    contents = shape_fields(spec, 0)[:24] + b"".join(c.entry() for c in spec.columns)
    contents += msgpack.packb(metadata(spec)["schema"])
    pieces = {i: [spec.columns[i].stored(row[i]) for row in raw] for i in spec.blobs}
    facts.cells = {i: [b"".join(cell) for cell in cells] for i, cells in pieces.items()}
    facts.chunks = {
        i: [cell if len(cell) > 1 else [] for cell in cells]
        for i, cells in pieces.items()
        if spec.columns[i].chunks is not None
    }
    for i in spec.blobs:
        if spec.columns[i].dictionary:
            at = len(out)
            out += page(spec, at, 4, i, 0, 0, spec.columns[i].dictionary)
            sums += out[at + 48 : at + 56]
            contents += out[at : at + 40] + wide_seal(spec, 10, at, spec.columns[i].dictionary)
    for number, rows in enumerate(spec.groups):
        group = raw[first : first + rows]
        cells = [[facts.cells[i][r] for i in spec.blobs] for r in range(first, first + rows)]
        blob, starts, digests, wide = blob_payload(spec, cells, first)
        out += ancillary_pages(spec, len(out), number)
        at = len(out)
        tables = {i: every[first : first + rows] for i, every in facts.chunks.items()}
        arrays = scalar_payload(spec, group, cells, tables, first)
        tail = np.array(digests, "<u8").tobytes()
        frame = (
            framed(arrays)
            if spec.page_codecs and spec.page_codecs[number % len(spec.page_codecs)]
            else arrays
        )
        packed = len(frame) < len(arrays)
        stored = (frame if packed else arrays) + tail
        out += page(spec, at, 1, number, first, rows, stored, len(arrays) if packed else 0, codec=int(packed))
        sums += out[at + 48 : at + 56]
        contents += out[at : at + 40] + wide_seal(spec, 4, at, stored)
        blob_at = len(out) if spec.blobs else 0
        gap = gap_of(blob_at, len(blob))
        payload = blob_at + 64 + gap if spec.blobs else 0
        if spec.blobs:
            out += page(spec, blob_at, 2, number, first, rows, blob, gap)
            contents += out[blob_at : blob_at + 40] + wide_seal(spec, 13, blob_at, wide)
        facts.groups.append((first, at, blob_at, payload))
        facts.starts += [payload + s for s in starts]
        facts.digests += digests
        first += rows
    out += ancillary_pages(spec, len(out), len(spec.groups))
    return bytes(out + end_page(spec, len(out), len(spec.groups), first, sums, contents)), facts


def gap_of(at: int, size: int) -> int:
    return -(at + 64) % 4096 if size >= 65536 else 0


def ancillary_pages(spec: Spec, at: int, number: int) -> bytes:
    out = b""
    for kind, payload in spec.pages.get(number, []):
        out += page(spec, at + len(out), kind, len(payload), 2**64 - 1, 0, payload)
    return out


def blob_payload(
    spec: Spec, cells: list[list[bytes]], first: int
) -> tuple[bytes, list[int], list[int], bytes]:
    """Payload of the blob page, starts of rows in it, digests of the units, and their wide digests."""
    if not spec.blobs:
        return b"", [], [], b""
    stored = [b"".join(pad(cell, spec.align) for cell in row) for row in cells]
    starts = np.concatenate([[0], np.cumsum([len(s) for s in stored])]).astype(int).tolist()
    k = spec.unit_rows
    if k == 0:
        units, number = [cell for row in cells for cell in row], first * len(spec.blobs)
    else:
        units, number = [b"".join(stored[i : i + k]) for i in range(0, len(stored), k)], first // k
    wide = b"".join(wide_seal(spec, 5, number + n, u) for n, u in enumerate(units))
    return b"".join(stored), starts[:-1], [seal(spec, 5, number + n, u) for n, u in enumerate(units)], wide


def bitmap(column: list[bytes | None]) -> bytes:
    return np.packbits([cell is not None for cell in column], bitorder="little").tobytes() if column else b""


def framed(content: bytes) -> bytes:
    """One frame of zstd, whose header has the content size."""
    return zstandard.ZstdCompressor(level=1, write_content_size=True).compress(content)


def chunk_digests(spec: Spec, i: int, rows: list[list[bytes]], first: int) -> bytes:
    j, b = spec.blobs.index(i), len(spec.blobs)
    found = [
        seal(spec, 12, (((first + r) * b + j) << 32) + n, chunk)
        for r, chunks in enumerate(rows)
        for n, chunk in enumerate(chunks)
    ]
    return np.array(found, "<u8").tobytes()


def scalar_payload(
    spec: Spec,
    group: Raw,
    cells: list[list[bytes]],
    tables: dict[int, list[list[bytes]]],
    first: int,
) -> bytes:
    """The arrays of a scalar page before the digests of units."""
    parts = []
    for i, c in enumerate(spec.columns):
        column = [row[i] for row in group]
        if c.is_blob:
            continue
        if c.nullable:
            parts.append(bitmap(column))
        if c.base == "string":
            parts.append(np.array([len(x or b"") for x in column], "<u4").tobytes())
        parts.append(b"".join(bytes(c.fixed) if x is None else x for x in column))
    for j, i in enumerate(spec.blobs):
        c, column = spec.columns[i], [row[i] for row in group]
        if c.nullable:
            parts.append(bitmap(column))
        if not c.stored_width:
            parts.append(np.array([len(row[j]) for row in cells], "<u4" if c.codec else "<u8").tobytes())
        if c.codec and not c.fixed:
            parts.append(np.array([len(x or b"") for x in column], "<u4").tobytes())
        if i in tables:
            if c.codec:
                parts.append(np.array([len(x) for chunks in tables[i] for x in chunks], "<u4").tobytes())
            parts.append(chunk_digests(spec, i, tables[i], first))
    return b"".join(pad(p, 8) for p in parts)


Sections = dict[tuple[int, int], tuple[int, int, bytes]]  # (kind, column) -> width, extra, content


def index_file(spec: Spec, raw: Raw, data: bytes, facts: Facts) -> bytes:
    sections: Sections = {
        (1, NONE): (32, 0, struct.pack(f"<{4 * len(facts.groups)}Q", *sum(facts.groups, ())))
    }
    if spec.blobs:
        sections[4, NONE] = (8, 0, np.array(facts.digests, "<u8").tobytes())
        if not spec.row_bytes:
            starts = facts.starts[:: max(spec.unit_rows, 1)]
            sections[2, NONE] = (8, 0, np.array(starts, "<u8").tobytes())
    stats = []
    for i, c in enumerate(spec.columns):
        column = [row[i] for row in raw]
        if c.is_blob:
            if not c.stored_width:
                sections[3, i] = lengths_section(facts.cells[i])
            if c.codec and not c.fixed:
                sections[15, i] = lengths_section([x or b"" for x in column])
            if c.dictionary:
                sections[16, i] = (1, 0, c.dictionary)
            if c.chunks is not None:
                chunk_sections(spec, sections, i, facts.chunks[i])
            if c.nullable:
                sections[6, i] = (1, 0, bitmap(column))
            stats.append({"nulls": column.count(None)} if c.nullable else None)
        elif later(c.base) is not None:
            sections[5, i] = (c.fixed, 0, b"".join(bytes(c.fixed) if x is None else x for x in column))
            if c.nullable:
                sections[6, i] = (1, 0, bitmap(column))
            stats.append({"nulls": column.count(None)} if c.nullable else None)
        else:
            stats.append(scalar_sections(spec, sections, i, column))
    sections[17, NONE] = (1, 0, packed_statistics(spec, stats))
    for key, content in spec.ancillary.items():
        sections[key] = (1, len(content), content)
    return assemble(spec, data, len(raw), sections, packed_metadata(spec))


def chunk_sections(spec: Spec, sections: Sections, i: int, rows: list[list[bytes]]) -> None:
    c = spec.columns[i]
    shape = [*(0 if d == -1 else d for d in c.shape or []), *(c.chunks or [])]
    sections[18, i] = (8, 0, np.array(shape, "<u8").tobytes())
    sections[21, i] = (8, 0, chunk_digests(spec, i, rows, 0))
    if not c.fixed:
        firsts = np.cumsum([0] + [len(chunks) for chunks in rows])[:-1]
        sections[19, i] = (8, 0, firsts.astype("<u8").tobytes())
    if c.codec:
        ends = [np.cumsum([len(chunk) for chunk in chunks]) for chunks in rows if chunks]
        sections[20, i] = (4, 0, np.concatenate([np.zeros(0, int), *ends]).astype("<u4").tobytes())


def lengths_section(cells: list[bytes]) -> tuple[int, int, bytes]:
    lengths = [len(cell) for cell in cells]
    width = np.min_scalar_type(max(lengths, default=0)).itemsize
    return width, 0, np.array(lengths, f"<u{width}").tobytes()


def assemble(spec: Spec, data: bytes, rows: int, sections: Sections, meta: bytes) -> bytes:
    table = b"".join(c.entry() for c in spec.columns)
    size = up(192 + len(table) + 48 * len(sections) + len(meta), 64)
    entries, body = b"", b""
    for (kind, column), (width, extra, content) in sorted(sections.items()):
        place, count, bits = size + len(body), len(content) // width, 0
        validity = sections.get((6, column), (1, 0, b"\xff" * up(rows, 8)))[2]
        valid = np.unpackbits(np.frombuffer(validity, np.uint8), count=rows, bitorder="little").astype(bool)
        if kind in (5, 7) and rows and (found := packed(spec.columns[column], kind, width, content, valid)):
            bits, extra, content = found
        entries += struct.pack("<HHIQQQQH", kind, column, width, place, len(content), count, extra, bits)
        entries += spec.optional.to_bytes(6, "little")
        body += in_body(content)
    blocks = [body[n : n + 65536] for n in range(0, len(body), 65536)]
    sums = [seal(spec, 8, n, block) for n, block in enumerate(blocks)]
    end = size + len(body)
    counts = (len(spec.columns), len(sections), len(meta), 65536)
    fields = struct.pack(
        "<16s3Q4I2Q", spec.id, len(data), rows, len(spec.groups), *counts, end + 8 * len(sums), end
    )
    fields += data[120:128] + data[-24:-8] + shape_fields(spec, 28)
    return (
        head(spec, b"\x89URIX\r\n\x1a", (6, 7), fields, table + entries + meta)
        + body
        + struct.pack(f"<{len(sums)}Q", *sums)
    )


def packed(
    column: Col, kind: int, width: int, content: bytes, valid: np.ndarray[Any, Any]
) -> tuple[int, int, bytes] | None:
    """Bits, base and content of a section of values or codes that is packed, None of one that is not."""
    dtype = np.dtype(f"<u{width}") if kind == 7 or column.base == "bool" else DTYPES.get(column.base)
    if dtype is None or dtype.kind not in "iu":
        return None
    values = np.frombuffer(content, dtype)
    there = values[valid] if valid.any() else values[:1] * 0
    low, high = 0 if kind == 7 else int(there.min()), int(there.max())
    bits = max((high - low).bit_length(), 1)
    size = 8 * (-(-len(values) * bits // 64) + 1)
    if bits > 56 or (size >= len(content) if kind == 7 else 3 * size > 2 * len(content)):
        return None
    most = 1 if column.base == "bool" and kind == 5 else int(np.iinfo(dtype).max)
    base = 0 if kind == 7 else min(low, most - (1 << bits) + 1)
    if base < np.iinfo(dtype).min:
        return None
    offsets = np.where(valid, values.astype(np.uint64) - np.uint64(base % 2**64), np.uint64(0))
    every = (offsets[:, None] >> np.arange(bits, dtype=np.uint64)) & np.uint64(1)
    string = np.packbits(every.astype(np.uint8).ravel(), bitorder="little").tobytes()
    return bits, base % 2**64, string.ljust(size, b"\0")


def in_body(content: bytes) -> bytes:
    return pad(content, 64)


def strings(column: list[bytes | None]) -> tuple[bytes, bytes]:
    ends = np.cumsum([0] + [len(x or b"") for x in column]).astype("<u8")
    return ends.tobytes(), b"".join(x or b"" for x in column)


def scalar_sections(spec: Spec, sections: Sections, i: int, column: list[bytes | None]) -> dict[str, Any]:
    c, rows = spec.columns[i], len(column)
    valid = np.array([x is not None for x in column], bool)
    nan = np.zeros(rows, bool)
    if c.nullable:
        sections[6, i] = (1, 0, bitmap(column))
    entries = sorted({x for x in column if x is not None})
    if c.base == "string":
        number = {x: n for n, x in enumerate(entries)}
        values = np.array([0 if x is None else number[x] for x in column], np.int64)
        coded = c.name not in spec.plain
        width = 1 if len(entries) <= 256 else 2 if len(entries) <= 65536 else 4
        stored = values.astype(f"<u{width}")
        if coded:
            sections[7, i] = (width, 0, stored.tobytes())
            (ends, every), sections[9, i] = strings(list(entries)), (1, 0, b"".join(entries))
            sections[8, i] = (8, 0, ends)
        else:
            ends, every = strings(column)
            sections[10, i], sections[11, i] = (8, 0, ends), (1, 0, every)
    else:
        stored = values = np.frombuffer(
            b"".join(bytes(c.fixed) if x is None else x for x in column), DTYPES[c.base]
        )
        if c.name in spec.coded:
            dictionary_sections(sections, i, c, column)
        else:
            sections[5, i] = (c.fixed, 0, values.tobytes())
        coded, nan = True, valid & np.isnan(values) if values.dtype.kind == "f" else nan
    good = valid & ~nan
    zone = spec.zone_rows.get(c.name, 8192)
    bounds, flags = zones(stored, valid, nan, zone)
    sections[13, i] = (1, zone, bytes(flags) if coded else bytes(f & 3 for f in flags))
    if coded:
        sections[12, i] = (2 * stored.dtype.itemsize, zone, bounds)
    if c.name in spec.index:
        # stable: by class (number, NaN, null), inside the numbers by value
        order = np.lexsort(
            (np.where(good, values, values.dtype.type(0)), np.where(good, 0, np.where(nan, 1, 2)))
        )
        sections[14, i] = (4, 0, order.astype("<u4").tobytes())
    shown: list[Any] = [None, None]
    if good.any():
        low, high = values[good].min(), values[good].max()
        shown = [text(entries[int(b)]) if c.base == "string" else plain(b) for b in (low, high)]
    distinct = len(set(values[good].tolist())) + bool(nan.any()) if c.name not in spec.plain else None
    return {"nulls": int((~valid).sum()), "distinct": distinct, "min": shown[0], "max": shown[1]}


def dictionary_sections(sections: Sections, i: int, c: Col, column: list[bytes | None]) -> None:
    """Codes and entries of a column of integers or floats."""

    def order(value: bytes) -> tuple[bool, int]:
        number = np.frombuffer(value, DTYPES[c.base])[0]
        if number.dtype.kind != "f":
            return True, int(number)
        magnitude = int.from_bytes(value, "little") & ((1 << 8 * c.fixed - 1) - 1)
        negative = value[-1] >= 128
        return not negative, -magnitude if negative else magnitude

    entries = sorted({x for x in column if x is not None}, key=order) or [bytes(c.fixed)]
    width = 1 if len(entries) <= 256 else 2 if len(entries) <= 65536 else 4
    place = {entry: n for n, entry in enumerate(entries)}
    codes = np.array([0 if x is None else place[x] for x in column], f"<u{width}")
    sections[7, i], sections[9, i] = (width, 0, codes.tobytes()), (c.fixed, 0, b"".join(entries))


def text(value: bytes) -> str | None:
    return value.decode() if len(value) <= 256 else None


def plain(value: np.generic) -> Any:
    return float(value) + 0.0 if value.dtype.kind == "f" else value.item()


def zones(
    values: np.ndarray[Any, Any], valid: np.ndarray[Any, Any], nan: np.ndarray[Any, Any], zone: int
) -> tuple[bytes, list[int]]:
    out, flags = b"", []
    for at in range(0, len(values), zone):
        cut = slice(at, at + zone)
        good = values[cut][valid[cut] & ~nan[cut]]
        both = np.zeros(2, values.dtype)
        if len(good):
            both[:] = good.min(), good.max()
            both[both == 0] = 0
        out += both.tobytes()
        flags.append(int(not valid[cut].all()) | int(nan[cut].any()) << 1 | (len(good) > 0) << 2)
    return out, flags
