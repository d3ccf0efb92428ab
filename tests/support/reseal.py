"""Puts the right digests over bytes that were changed, so that the checks behind the digests are reached."""

from __future__ import annotations

import json
import struct
from contextlib import suppress
from typing import Any

import xxhash
from partgen_bytes import up
from reference import Bad, read_data


def seal(part_id: bytes, domain: int, place: int, content: bytes) -> int:
    base = xxhash.xxh3_64_intdigest(part_id + struct.pack("<Q", domain))
    return xxhash.xxh3_64_intdigest(content, (base + place * 0x9E3779B97F4A7C15) % 2**64)


def entry_of(index: bytes, kind: int, column: int) -> int:
    """Where the directory of an index has a section."""
    columns, sections = struct.unpack_from("<II", index, 64)
    for at in range(192 + 32 * columns, 192 + 32 * columns + 48 * sections, 48):
        if struct.unpack_from("<HH", index, at) == (kind, column):
            return at
    raise AssertionError((kind, column))


def _head(file: bytearray, header: int, header_domain: int, head_domain: int) -> None:
    """A header of `header` bytes ends with the digest of the rest of the head, and its own."""
    part_id, size = bytes(file[24:40]), int.from_bytes(file[20:24], "little")
    if header <= size <= len(file):
        rest = seal(part_id, head_domain, 0, bytes(file[header:size]))
        file[header - 16 : header - 8] = rest.to_bytes(8, "little")
    file[header - 8 : header] = seal(part_id, header_domain, 0, bytes(file[: header - 8])).to_bytes(
        8, "little"
    )


def page_header(file: bytearray, at: int, payload_bytes: int | None = None) -> None:
    """The digests of the page at `at`: of its payload, if its length is given, and of its header."""
    part_id, kind = bytes(file[24:40]), int.from_bytes(file[at + 4 : at + 6], "little")
    if payload_bytes is not None:
        domain = {4: 10}.get(kind, 4 if kind < 0x8000 else 11)
        payload = bytes(file[at + 64 : at + 64 + payload_bytes])
        file[at + 48 : at + 56] = seal(part_id, domain, at, payload).to_bytes(8, "little")
    file[at + 56 : at + 64] = seal(part_id, 3, at, bytes(file[at : at + 56])).to_bytes(8, "little")


def data(file: bytearray) -> None:
    """The head of a data file."""
    _head(file, 128, 1, 2)


def content(file: bytearray) -> None:
    """The digests in the end page of a data file whose pages can be found."""
    *_, (end, kind, _) = found = pages(file)
    assert kind == 3
    sums = b"".join(bytes(file[at + 48 : at + 56]) for at, kind, _ in found if kind in (1, 4))
    file[end + 16 : end + 24] = seal(bytes(file[24:40]), 9, 0, sums).to_bytes(8, "little")
    page_header(file, end)
    with suppress(Bad):  # what cannot be read has no content digest that is right
        file[end + 40 : end + 56] = read_data(bytes(file), sealed=False).content_digest
        page_header(file, end)


def index(file: bytearray, data_file: bytes) -> None:
    """Head and blocks of an index, and what it says of its data file."""
    file[96:104] = data_file[120:128]
    file[104:120] = data_file[-24:-8]
    start, end = int.from_bytes(file[20:24], "little"), int.from_bytes(file[88:96], "little")
    if 192 <= start <= end <= len(file):
        for n, at in enumerate(range(start, end, 65536)):
            content = bytes(file[at : min(at + 65536, end)])
            file[end + 8 * n : end + 8 * n + 8] = seal(bytes(file[24:40]), 8, n, content).to_bytes(
                8, "little"
            )
    _head(file, 192, 6, 7)


def pages(file: bytes) -> list[tuple[int, int, int]]:
    """(offset, kind, payload_bytes) of every page of a sound data file."""
    at, found = int.from_bytes(file[20:24], "little"), []
    while at < len(file):
        kind = int.from_bytes(file[at + 4 : at + 6], "little")
        size, gap = struct.unpack_from("<QQ", file, at + 32)
        gap = 0 if file[at + 6] else gap  # of a compressed page, the field is its raw_bytes
        found.append((at, kind, size))
        at = up(at + 64 + gap + size, 64)
    return found


def with_index_metadata(content: bytes, data_file: bytes, packed: bytes) -> bytearray:
    """The index with another metadata map; sections move with the size of the head."""
    header = int.from_bytes(content[20:24], "little")
    columns, sections = struct.unpack_from("<II", content, 64)
    directory = 192 + 32 * columns
    before = directory + 48 * sections
    size = up(before + len(packed), 64)
    file = bytearray((content[:before] + packed).ljust(size, b"\0") + content[header:])
    for at in range(directory, before, 48):
        _add(file, at + 8, size - header)
    file[20:24], file[72:76] = size.to_bytes(4, "little"), len(packed).to_bytes(4, "little")
    for at in (80, 88):
        _add(file, at, size - header)
    index(file, data_file)
    return file


def _add(file: bytearray, at: int, number: int) -> None:
    file[at : at + 8] = (int.from_bytes(file[at : at + 8], "little") + number).to_bytes(8, "little")


def with_statistics(content: bytes, data_file: bytes, packed: bytes) -> bytearray:
    """The index with another section 17, its last one."""
    columns, sections = struct.unpack_from("<II", content, 64)
    entry = 192 + 32 * columns + 48 * (sections - 1)
    kind, _, width, start = struct.unpack_from("<HHIQ", content, entry)
    assert (kind, width) == (17, 1)
    end = up(start + len(packed), 64)
    blocks = -(-(end - int.from_bytes(content[20:24], "little")) // 65536)
    file = bytearray((content[:start] + packed).ljust(end + 8 * blocks, b"\0"))
    for at in (entry + 16, entry + 24):
        file[at : at + 8] = len(packed).to_bytes(8, "little")
    file[80:88], file[88:96] = len(file).to_bytes(8, "little"), end.to_bytes(8, "little")
    index(file, data_file)
    return file


def with_data_metadata(data_file: bytes, packed: bytes) -> bytearray:
    """The data file with another metadata map that takes as much room in the head."""
    header, columns = int.from_bytes(data_file[20:24], "little"), int.from_bytes(data_file[40:44], "little")
    before = 128 + 32 * columns
    assert up(before + len(packed), 64) == header
    file = bytearray((data_file[:before] + packed).ljust(header, b"\0") + data_file[header:])
    file[44:48] = len(packed).to_bytes(4, "little")
    data(file)
    return file


def metadata(data_file: bytes) -> bytes:
    """The metadata map of a data file, which its index repeats."""
    columns, size = struct.unpack_from("<II", data_file, 40)
    return data_file[128 + 32 * columns : 128 + 32 * columns + size]


def sealed(content: dict[str, Any], nested: str = "") -> bytes:
    """The text of a manifest with the right digest; ``nested`` is put in the place of "@@"."""
    content = {key: value for key, value in content.items() if key != "digest"}
    text = json.dumps({"digest": "0" * 16, **content}, separators=(",", ":"), ensure_ascii=False)
    return sealed_text((text.replace('"@@"', nested) if nested else text).encode() + b"\n")


def sealed_text(text: bytes) -> bytes:
    """The text of a manifest, which begins with its digest, with the right one."""
    assert text.startswith(b'{"digest":"')
    blank = text[:11] + b"0" * 16 + text[27:]
    return text[:11] + f"{xxhash.xxh3_64_intdigest(blank):016x}".encode() + text[27:]
