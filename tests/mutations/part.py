"""A part as fields that can be changed one by one, and its two files with every digest and place fixed after it."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from typing import Any

from partgen_bytes import up
from reference import read_data
from reseal import seal

DATA_HEAD = struct.Struct("<8sHHIII16sIIIIQQI36s")
DATA_FIELDS = (
    *(
        "magic",
        "reads",
        "writes",
        "required",
        "optional",
        "head_bytes",
        "id",
        "columns",
        "meta_bytes",
        "alignment",
    ),
    *("unit_rows", "group_rows", "row_bytes", "digests", "reserve"),
)
INDEX_HEAD = struct.Struct("<8sHHIII16sQQQIIIIQQQ16sIIQQI28s")
INDEX_FIELDS = (
    *("magic", "reads", "writes", "required", "optional", "head_bytes", "id", "data_bytes", "rows", "groups"),
    *(
        "columns",
        "sections",
        "meta_bytes",
        "block_bytes",
        "index_bytes",
        "digests_at",
        "data_head",
        "content",
    ),
    *("alignment", "unit_rows", "group_rows", "row_bytes", "digests", "reserve"),
)
DATA_HEADER, INDEX_HEADER = DATA_HEAD.size + 16, INDEX_HEAD.size + 16  # with the two digests
PAGE = struct.Struct("<4sHHQQQQQQ")
PAGE_FIELDS = ("magic", "kind", "codec", "group", "first", "rows", "payload_bytes", "gap", "digest")
SECTION = struct.Struct("<HHIQQQQHHI")
SECTION_FIELDS = ("kind", "column", "width", "at", "bytes", "count", "extra", "bits", "reserved", "more")
BLOCK = 65536
GROUPS, STARTS, LENGTHS, DIGESTS = (
    1,
    2,
    3,
    4,
)  # kinds of sections; the first two hold offsets into the data file
SCALAR_PAGE, BLOB_PAGE, END_PAGE, DICTIONARY, ANCILLARY = 1, 2, 3, 4, 32768

Fields = dict[str, Any]


@dataclass
class Piece:
    """A page or a section: what its header says, what it holds, and what is said against the truth."""

    fields: Fields
    content: bytearray
    lies: Fields = field(default_factory=dict)
    was_at: int = 0


@dataclass
class Part:
    """Both files; ``*_lies`` stand in the headers whatever the truth is."""

    data_head: Fields
    table: list[bytearray]
    meta: bytes
    pages: list[Piece]
    index_head: Fields
    index_table: list[bytearray]
    index_meta: bytes
    sections: list[Piece]
    data_lies: Fields = field(default_factory=dict)
    index_lies: Fields = field(default_factory=dict)
    tail: bytes = b""

    @property
    def id(self) -> bytes:
        """The part's id, which every digest is bound to."""
        return bytes(self.data_head["id"])


def parse(data: bytes, index: bytes) -> Part:
    """The fields of a sound part."""
    head = dict(zip(DATA_FIELDS, DATA_HEAD.unpack_from(data), strict=True))
    other = dict(zip(INDEX_FIELDS, INDEX_HEAD.unpack_from(index), strict=True))
    table = DATA_HEADER + 32 * head["columns"]
    directory = INDEX_HEADER + 32 * other["columns"]
    pages, at = [], head["head_bytes"]
    while at < len(data):
        fields = dict(zip(PAGE_FIELDS, PAGE.unpack_from(data, at), strict=True))
        if fields["kind"] == END_PAGE:  # which has digests of all pages in these places
            fields |= {"first": 0, "gap": 0, "digest": 0}
        start = at + 64 + (0 if fields["codec"] else fields["gap"])
        end = start + fields["payload_bytes"]
        pages.append(Piece(fields, bytearray(data[start:end]), was_at=at))
        at = up(end, 64)
    sections = []
    for number in range(other["sections"]):
        entry = SECTION.unpack_from(index, directory + 48 * number)
        fields = dict(zip(SECTION_FIELDS, entry, strict=True))
        sections.append(Piece(fields, bytearray(index[fields["at"] : fields["at"] + fields["bytes"]])))
    meta = directory + 48 * other["sections"]
    return Part(
        head,
        _entries(data, DATA_HEADER, head["columns"]),
        data[table : table + head["meta_bytes"]],
        pages,
        other,
        _entries(index, INDEX_HEADER, other["columns"]),
        index[meta : meta + other["meta_bytes"]],
        sections,
    )


def _entries(file: bytes, at: int, columns: int) -> list[bytearray]:
    return [bytearray(file[at + 32 * i : at + 32 * i + 32]) for i in range(columns)]


def serialize(part: Part) -> tuple[bytes, bytes]:
    """The data file and the index, with the digests of what they hold."""
    rest = b"".join(part.table) + part.meta
    size = up(DATA_HEADER + len(rest), 64)
    body, moved = _pages(part, size)
    body = _with_content(part, _data(part, rest, size, body), body)
    data = _data(part, rest, size, body) + part.tail
    return data, _index(part, data, body, moved)


def _data(part: Part, rest: bytes, size: int, body: bytes) -> bytes:
    truth = {"head_bytes": size, "columns": len(part.table), "meta_bytes": len(part.meta)}
    fields = {**part.data_head, **truth, **part.data_lies}
    file = rest.ljust(size - DATA_HEADER, b"\0") + body
    return _head(part.id, DATA_HEAD, DATA_FIELDS, fields, file, (1, 2)) + file


def _with_content(part: Part, data: bytes, body: bytes) -> bytes:
    """The pages with the content digest of all of them in the last one, if it is to be right and they can be read."""
    last = part.pages[-1] if part.pages else None
    if last is None or last.fields["kind"] != END_PAGE or {"kind", "gap", "digest"} & set(last.lies):
        return body
    try:
        found = read_data(data, sealed=False).content_digest
    except Exception:  # whatever the pages are, no content digest is right for them
        return body
    end = body[-64:-24] + found
    return body[:-64] + end + _word(seal(part.id, 3, len(data) - 64, end))


def _head(
    part_id: bytes,
    form: struct.Struct,
    names: tuple[str, ...],
    fields: Fields,
    file: bytes,
    domains: tuple[int, int],
) -> bytes:
    """A header: fields, the digest of the rest of the head, and its own."""
    claimed, header = int(fields["head_bytes"]), form.size + 16
    covered = file[: claimed - header] if header <= claimed <= len(file) + header else file
    fixed = _pack(form, names, fields) + _word(seal(part_id, domains[1], 0, covered))
    return fixed + _word(seal(part_id, domains[0], 0, fixed))


def _pack(form: struct.Struct, names: tuple[str, ...], fields: Fields) -> bytes:
    """The fields, cut to their widths."""
    codes = re.findall(r"[sHIQ]", form.format)
    masks = {"H": 0xFFFF, "I": 0xFFFFFFFF, "Q": 2**64 - 1}
    values = [
        fields[name] & masks[code] if code in masks else fields[name]
        for name, code in zip(names, codes, strict=True)
    ]
    return form.pack(*values)


def _word(value: int) -> bytes:
    return value.to_bytes(8, "little")


def _pages(part: Part, start: int) -> tuple[bytes, dict[int, int]]:
    """The pages one after the other, and where each has moved to."""
    body, moved, digests = bytearray(), {}, bytearray()
    for page in part.pages:
        at = start + len(body)
        moved[page.was_at] = at
        fields = {**page.fields, "payload_bytes": len(page.content), "digest": 0, **page.lies}
        if "digest" not in page.lies:
            if fields["kind"] == SCALAR_PAGE:
                fields["digest"] = seal(part.id, 4, at, bytes(page.content))
            elif fields["kind"] == DICTIONARY:
                fields["digest"] = seal(part.id, 10, at, bytes(page.content))
            elif fields["kind"] >= ANCILLARY:
                fields["digest"] = seal(part.id, 11, at, bytes(page.content))
        if fields["kind"] == END_PAGE and "first" not in page.lies:
            fields["first"] = seal(part.id, 9, 0, bytes(digests))
        if fields["kind"] in (SCALAR_PAGE, DICTIONARY):
            digests += _word(fields["digest"] & 2**64 - 1)
        header = _pack(PAGE, PAGE_FIELDS, fields)
        body += header + _word(seal(part.id, 3, at, header))
        body += bytes(0 if page.fields["codec"] else min(page.fields["gap"], 1 << 16)) + page.content
        body += bytes(-len(body) % 64)
    return bytes(body), moved


def _index(part: Part, data: bytes, body: bytes, moved: dict[int, int]) -> bytes:
    entries, content = [], bytearray()
    size = up(INDEX_HEADER + 32 * len(part.index_table) + 48 * len(part.sections) + len(part.index_meta), 64)
    for section in part.sections:
        held = _moved_places(section, moved)
        truth = {"at": size + len(content), "bytes": len(held)}
        entries.append(_pack(SECTION, SECTION_FIELDS, {**section.fields, **truth, **section.lies}))
        content += held + bytes(-len(held) % 64)
    digests = b"".join(
        _word(seal(part.id, 8, number, bytes(content[at : at + BLOCK])))
        for number, at in enumerate(range(0, len(content), BLOCK))
    )
    truth = {
        "head_bytes": size,
        "columns": len(part.index_table),
        "sections": len(part.sections),
        "meta_bytes": len(part.index_meta),
        "digests_at": size + len(content),
        "index_bytes": size + len(content) + len(digests),
        "data_head": int.from_bytes(data[120:128], "little"),
        "data_bytes": len(data),
        "content": body[-24:-8].ljust(16, b"\0"),
    }
    rest = (b"".join(part.index_table) + b"".join(entries) + part.index_meta).ljust(
        size - INDEX_HEADER, b"\0"
    )
    file = rest + bytes(content) + digests
    fields = {**part.index_head, **truth, **part.index_lies}
    return _head(part.id, INDEX_HEAD, INDEX_FIELDS, fields, file, (6, 7)) + file


def _moved_places(section: Piece, moved: dict[int, int]) -> bytes:
    """The content, whose offsets of pages follow the pages."""
    held = bytes(section.content)
    if section.fields["kind"] == GROUPS:
        words = list(struct.unpack(f"<{len(held) // 8}Q", held[: len(held) // 8 * 8]))
        for i in range(0, len(words) - 3, 4):
            scalars, blobs, payload = words[i + 1 : i + 4]
            words[i + 1] = moved.get(scalars, scalars)
            if blobs in moved:
                words[i + 2], words[i + 3] = moved[blobs], (payload - blobs + moved[blobs]) % 2**64
        return struct.pack(f"<{len(words)}Q", *words) + held[len(words) * 8 :]
    if section.fields["kind"] == STARTS and moved:
        was, now = next(iter(moved.items()))
        words = list(struct.unpack(f"<{len(held) // 8}Q", held[: len(held) // 8 * 8]))
        return (
            struct.pack(f"<{len(words)}Q", *((word + now - was) % 2**64 for word in words))
            + held[len(words) * 8 :]
        )
    return held
