"""The oracle's view of an index: every section must be what the data file says."""

from __future__ import annotations

import math
import struct
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
from reference_rules import STRING, Column, align, digest, need, seed, unpack_one_form, versions, zero

if TYPE_CHECKING:
    from reference import ReferencePart

Section = tuple[int, int, bytes]  # width, extra, content


def read_index(file: bytes, part: ReferencePart) -> None:
    head = part.head
    optional = versions(file, b"\x89URIX\r\n\x1a", "index", 192)
    need(file[8:20] == head.start, "versions and features of the index")
    need(file[120:144] == head.layout, "layout of rows of the index")
    need(file[144:148] == bytes(4), "algorithm of the digests of the index")
    zero(file[148:176] if not optional else b"", "reserved in the index header")
    (size, part_id, data_bytes, rows, groups, columns, count, meta, block, index_bytes, body_end, data_digest,
     content, head_digest, header_digest) = struct.unpack_from("<I16s3Q4I3Q16s56x2Q", file, 20)  # fmt: skip
    need(part_id == head.id, "the index is of another part")
    need(header_digest == digest(file[:184], seed(part_id, 6, 0)), "digest of the index header")
    need(block == 65536, "index header")
    need(
        (data_bytes, rows, groups) == (part.bytes, len(part.raw), len(part.groups)),
        "sizes in the index header",
    )
    need(data_digest == head.header_digest, "data_header_digest")
    need(content == part.content_digest, "content_digest of the index")
    need(columns == len(head.columns), "columns of the index")
    need(
        size <= 2**24 and size == align(192 + 32 * columns + 48 * count + meta, 64),
        "header_bytes of the index",
    )
    need(index_bytes == len(file) and size <= body_end <= len(file), "index_bytes")
    need(head_digest == digest(file[192:size], seed(part_id, 7, 0)), "digest of the index head")
    table_end = 192 + 32 * columns
    need(file[192:table_end] == head.table, "column table of the index")
    meta_at = table_end + 48 * count
    zero(file[meta_at + meta : size], "padding of the index head")
    blocks = -(-(body_end - size) // block)
    need(body_end % 64 == 0 and len(file) == body_end + 8 * blocks, "digests_offset")
    for n in range(blocks):
        stored = struct.unpack_from("<Q", file, body_end + 8 * n)[0]
        content = file[size + n * block : min(size + (n + 1) * block, body_end)]
        need(stored == digest(content, seed(part_id, 8, n)), f"digest of index block {n}")
    need(file[meta_at : meta_at + meta] == head.metadata, "metadata of the index")
    directory(file, part, table_end, count, size, body_end, optional)
    part.statistics = unpack_one_form(part.sections[17, 65535])
    for found, exact in zip(part.statistics, statistics(part), strict=True):
        known = exact and {name: found[name] for name in exact}
        uncounted = exact and {**exact, **({"distinct": None} if "distinct" in exact else {})}
        need(repr(known) in (repr(exact), repr(uncounted)), f"statistics {found} are not {exact}")
        need(found is None or list(found)[: len(exact)] == list(exact), "keys of the statistics")


def directory(
    file: bytes, part: ReferencePart, at: int, count: int, body: int, body_end: int, optional: int
) -> None:
    found: dict[tuple[int, int], Section] = {}
    bits: dict[tuple[int, int], int] = {}
    end, last = body, (-1, -1)
    for n in range(count):
        kind, column, width, offset, size, elements, extra, width_in_bits, *reserved = struct.unpack_from(
            "<HHI4QH6B", file, at + 48 * n
        )
        need((kind, column) > last and (optional or not any(reserved)), "order of the section directory")
        need(offset == align(end, 64) and offset + size <= body_end, "place of a section")
        words = -(-elements * width_in_bits // 64) + 1
        need(size == (8 * words if width_in_bits else width * elements), "size of a section")
        bits[kind, column] = width_in_bits
        zero(file[end:offset], "padding between sections")
        end, last = offset + size, (kind, column)
        found[kind, column] = (width, extra, file[offset:end])
    need(align(end, 64) == body_end, "end of the body")
    zero(file[end:body_end], "padding after the sections")
    for (kind, i), (width, _, content) in found.items():
        if kind == 0x8000 and i < len(part.head.columns) and width == 8 and not bits[kind, i]:
            need(content == sketch(part, i), f"sketch of column {i} is not what the data says")
        if kind == 0x8001 and i < len(part.head.columns) and width == 8 and not bits[kind, i]:
            need(content == look_up(part, i), f"look-up of column {i} is not what the data says")
    found = {key: section for key, section in found.items() if key[0] < 0x8000}
    expected = sections(part, found)
    need(sorted(found) == sorted(expected), f"sections {sorted(found)} are not {sorted(expected)}")
    for key, section in expected.items():
        packing = None
        if key[0] in (5, 7) and len(part.raw):
            null = [row[key[1]] is None for row in part.raw]
            packing = packed(part.head.columns[key[1]].code, key[0], section[0], section[2], null)
        wanted, width_in_bits = packing or (section, 0)
        need(found[key] == wanted and bits[key] == width_in_bits, f"section {key} is not what the data says")
    need(not any(size for key, size in bits.items() if key not in expected), "bits of an ancillary section")
    part.sections = {key: content for key, (_, _, content) in found.items()}


def sections(part: ReferencePart, choices: dict[tuple[int, int], Section]) -> dict[tuple[int, int], Section]:
    """What the sections must hold; `choices` (what was found) says what was left to the writer."""
    head, rows = part.head, len(part.raw)
    out: dict[tuple[int, int], Section] = {}
    whole = 65535
    groups = [
        struct.pack("<4Q", g.first_row, g.scalar_page, g.blob_page, g.blob_payload) for g in part.groups
    ]
    out[1, whole] = (32, 0, b"".join(groups))
    need((17, whole) in choices and choices[17, whole][:2] == (1, 0), "statistics")
    out[17, whole] = choices[17, whole]
    if head.blobs:
        out[4, whole] = (8, 0, struct.pack(f"<{len(part.digests)}Q", *part.digests))
        if head.row_bytes == 0:
            starts = part.row_starts[:: max(head.unit_rows, 1)]
            out[2, whole] = (8, 0, struct.pack(f"<{len(starts)}Q", *starts))
    for i, c in enumerate(head.columns):
        cells = [row[i] for row in part.raw]
        if c.is_blob:
            values = [len(x or b"") for x in cells]
            stored = part.stored.get(i, []) if c.codec else values
            if not c.stored_bytes:
                out[3, i] = lengths_section(stored)
            if c.codec and not c.fixed_bytes:
                out[15, i] = lengths_section(values)
            if i in part.dictionaries:
                out[16, i] = (1, 0, part.dictionaries[i])
            if c.nullable:
                out[6, i] = (1, 0, pack_bits([x is not None for x in cells]))
            if c.chunks is not None:
                chunks(out, i, part)
            continue
        if c.nullable:
            out[6, i] = (1, 0, pack_bits([x is not None for x in cells]))
        if c.code == STRING:
            strings(out, i, cells, choices)
        elif (7, i) in choices and 2 <= c.code <= 12:
            numbers(out, i, cells, c)
        else:
            out[5, i] = (c.fixed_bytes, 0, b"".join(bytes(c.fixed_bytes) if x is None else x for x in cells))
        if not c.is_known:
            continue
        keys = sort_keys(part, i)
        zones(out, part, i, keys, choices.get((13, i), (0, 0))[1])
        if c.name in head.index:
            width = 4 if rows <= 2**32 else 8
            order = sorted(range(rows), key=keys.__getitem__)
            out[14, i] = (width, 0, np.array(order, f"<u{width}").tobytes())
    return out


def chunks(out: dict[tuple[int, int], Section], i: int, part: ReferencePart) -> None:
    c, tables = part.head.columns[i], part.tables.get(i, [])
    shape = [*(0 if d == -1 else d for d in c.shape or []), *(c.chunks or [])]
    out[18, i] = (8, 0, struct.pack(f"<{len(shape)}Q", *shape))
    every = [entry for entries in tables for entry in entries]
    out[21, i] = (8, 0, struct.pack(f"<{len(every)}Q", *(entry.digest for entry in every)))
    if not c.fixed_bytes:
        firsts = np.cumsum([0, *map(len, tables)], dtype="<u8")[:-1]
        out[19, i] = (8, 0, firsts.tobytes())
    if c.codec:
        ends = [end for entries in tables for end in accumulate(entry.stored for entry in entries)]
        out[20, i] = (4, 0, np.array(ends, "<u4").tobytes())


def packed(code: int, kind: int, width: int, content: bytes, null: list[bool]) -> tuple[Section, int] | None:
    """ "Packed sections": the section and its bits; None where it stays as it is."""
    if kind == 5 and not 1 <= code <= 9:
        return None
    signed = kind == 5 and code % 2 == 0
    numbers = [
        int.from_bytes(content[i : i + width], "little", signed=signed) for i in range(0, len(content), width)
    ]
    valued = [number for number, none in zip(numbers, null, strict=True) if not none] or [0]
    low, high = 0 if kind == 7 else min(valued), max(valued)
    least, greatest = (
        (-(2 ** (8 * width - 1)), 2 ** (8 * width - 1) - 1) if signed else (0, 2 ** (8 * width) - 1)
    )
    greatest = 1 if kind == 5 and code == 1 else greatest
    bits = max((high - low).bit_length(), 1)
    size = 8 * (-(-len(numbers) * bits // 64) + 1)
    base = 0 if kind == 7 else min(low, greatest - 2**bits + 1)
    pays = size < len(content) if kind == 7 else 3 * size <= 2 * len(content)
    if bits > 56 or not pays or base < least:
        return None
    elements = [0 if none else number - base for number, none in zip(numbers, null, strict=True)]
    together = int("".join(format(element, f"0{bits}b") for element in reversed(elements)), 2)
    return (width, base % 2**64, together.to_bytes(size, "little")), bits


def lengths_section(lengths: list[int]) -> Section:
    width = next(width for width in (1, 2, 4, 8) if all(x < 256**width for x in lengths))
    return width, 0, np.array(lengths, f"<u{width}").tobytes()


def pack_bits(flags: list[bool]) -> bytes:
    out = bytearray(-(-len(flags) // 8))
    for r, flag in enumerate(flags):
        out[r // 8] |= flag << r % 8
    return bytes(out)


def strings(
    out: dict[tuple[int, int], Section],
    i: int,
    cells: list[bytes | None],
    choices: dict[tuple[int, int], Section],
) -> None:
    if (7, i) in choices:
        entries = sorted({x for x in cells if x is not None})
        number = {x: n for n, x in enumerate(entries)}
        width = 1 if len(entries) <= 2**8 else 2 if len(entries) <= 2**16 else 4
        out[7, i] = (
            width,
            0,
            np.array([0 if x is None else number[x] for x in cells], f"<u{width}").tobytes(),
        )
        out[8, i], out[9, i] = (8, 0, offsets(entries)), (1, 0, b"".join(entries))
    else:
        plain = [x or b"" for x in cells]
        out[10, i], out[11, i] = (8, 0, offsets(plain)), (1, 0, b"".join(plain))


def numbers(out: dict[tuple[int, int], Section], i: int, cells: list[bytes | None], c: Column) -> None:
    """ "Dictionaries": codes and entries, which ascend."""

    def rank(value: bytes) -> int:
        bits, top = int.from_bytes(value, "little"), 1 << 8 * len(value) - 1
        if c.code < 10:
            return int.from_bytes(value, "little", signed=c.code % 2 == 0)
        return top * 2 - 1 - bits if bits & top else bits | top

    entries = sorted({x for x in cells if x is not None}, key=rank) or [bytes(c.fixed_bytes)]
    number = {x: n for n, x in enumerate(entries)}
    width = 1 if len(entries) <= 2**8 else 2 if len(entries) <= 2**16 else 4
    codes = [0 if x is None else number[x] for x in cells]
    out[7, i] = (width, 0, np.array(codes, f"<u{width}").tobytes())
    out[9, i] = (c.fixed_bytes, 0, b"".join(entries))


def offsets(items: list[bytes]) -> bytes:
    ends = [0]
    for item in items:
        ends.append(ends[-1] + len(item))
    return struct.pack(f"<{len(ends)}Q", *ends)


def hashes(part: ReferencePart, i: int) -> list[int]:
    """The hashes of the values of a column, those of nulls left out."""
    c = part.head.columns[i]
    values = [row[i] for row in part.raw if row[i] is not None]
    if c.code != STRING and c.numpy.kind == "f":
        numbers = np.frombuffer(b"".join(values), c.numpy) + c.numpy.type(0)  # -0.0 + 0.0 is 0.0
        numbers[np.isnan(numbers)] = np.nan
        values = [number.tobytes() for number in numbers]
    return [digest(value, 0) for value in values]


def sketch(part: ReferencePart, i: int) -> bytes:
    """The least hashes of the different values of a column."""
    least = sorted(set(hashes(part, i)))[:1024]
    return struct.pack(f"<{len(least)}Q", *least)


def look_up(part: ReferencePart, i: int) -> bytes:
    """The rows that have a value, each below the high bits of its hash, in ascending order."""
    bits = 1
    while 2**bits < len(part.raw):
        bits += 1
    rows = [number for number, row in enumerate(part.raw) if row[i] is not None]
    entries = [(h >> bits << bits) + row for h, row in zip(hashes(part, i), rows, strict=True)]
    return struct.pack(f"<{len(entries)}Q", *sorted(entries))


Key = tuple[int, Any]


def sort_keys(part: ReferencePart, i: int) -> list[Key]:
    """Per row (0, value); NaNs (1, 0) come after all numbers, nulls (2, 0) last."""
    c = part.head.columns[i]
    cells = [row[i] for row in part.raw]
    values: list[Any] = [x or b"" for x in cells]
    if c.code != STRING:
        whole = b"".join(bytes(c.fixed_bytes) if x is None else x for x in cells)
        values = np.frombuffer(whole, c.numpy).tolist()
    keys = [(1, 0) if isinstance(v, float) and math.isnan(v) else (0, v) for v in values]
    return [(2, 0) if x is None else key for x, key in zip(cells, keys, strict=True)]


def bounds(keys: list[Key]) -> tuple[Any, Any] | None:
    """Least and greatest value, nulls and NaNs left out; a zero is +0.0."""
    values = [key[1] for key in keys if key[0] == 0]
    if not values:
        return None
    low, high = min(values), max(values)
    return (low + 0.0, high + 0.0) if isinstance(low, float) else (low, high)


def zones(
    out: dict[tuple[int, int], Section], part: ReferencePart, i: int, keys: list[Key], size: int
) -> None:
    need(size > 0, "rows of a zone")
    column, flags, content = part.head.columns[i], [], []
    coded = column.code == STRING and (7, i) in out
    plain = column.code == STRING and not coded
    dtype = np.dtype(f"<u{out[7, i][0]}" if coded else "|u1") if column.code == STRING else column.numpy
    entries = sorted({key[1] for key in keys if key[0] == 0}) if coded else []
    number = {x: n for n, x in enumerate(entries)}
    for at in range(0, len(keys), size):
        zone = keys[at : at + size]
        kinds = {key[0] for key in zone}
        both = None if plain else bounds(zone)
        flags.append((2 in kinds) | (1 in kinds) << 1 | (both is not None) << 2)
        if both is not None and coded:
            both = (number[both[0]], number[both[1]])
        content.append(np.array(both or (0, 0), dtype).tobytes())
    if not plain:
        out[12, i] = (2 * dtype.itemsize, size, b"".join(content))
    out[13, i] = (1, size, bytes(flags))


def statistics(part: ReferencePart) -> list[Any]:
    out: list[Any] = []
    for i, c in enumerate(part.head.columns):
        if c.is_blob or not c.is_known:
            out.append({"nulls": [row[i] for row in part.raw].count(None)} if c.nullable else None)
            continue
        keys = sort_keys(part, i)
        low, high = bounds(keys) or (None, None)
        shown = [short(x) for x in (low, high)]
        distinct = len({key for key in keys if key[0] < 2})
        out.append({"nulls": sum(key[0] == 2 for key in keys), "distinct": distinct,
                    "min": shown[0], "max": shown[1]})  # fmt: skip
    return out


def short(value: Any) -> Any:
    if not isinstance(value, bytes):
        return value
    return value.decode() if len(value) <= 256 else None
