"""Where things lie in the files of a part, and how files are told apart by their first bytes."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, NamedTuple

from ..core import CODEC_PLAIN, xxh3_64, xxh3_128
from ..errors import CorruptionError, FormatError
from ..sizes import many

__all__ = [
    "FileKind",
    "file_kind",
]


# What kind of file some bytes are, by how they begin.


class FileKind(NamedTuple):
    """A name for people, and the ending of a file's name."""

    name: str
    suffix: str
    is_picture: bool = False


_RIFF: Final = {
    b"WEBP": FileKind("WebP", ".webp", True),
    b"WAVE": FileKind("WAV", ".wav"),
    b"AVI ": FileKind("AVI", ".avi"),
}
_STARTS: Final = (
    (b"\xff\xd8\xff", FileKind("JPEG", ".jpg", True)),
    (b"\x89PNG\r\n\x1a\n", FileKind("PNG", ".png", True)),
    (b"GIF87a", FileKind("GIF", ".gif", True)),
    (b"GIF89a", FileKind("GIF", ".gif", True)),
    (b"BM", FileKind("BMP", ".bmp", True)),
    (b"II*\0", FileKind("TIFF", ".tif", True)),
    (b"MM\0*", FileKind("TIFF", ".tif", True)),
    (b"%PDF", FileKind("PDF", ".pdf")),
    (b"\x1f\x8b", FileKind("gzip", ".gz")),
    (b"fLaC", FileKind("FLAC", ".flac")),
    (b"OggS", FileKind("Ogg", ".ogg")),
    (b"ID3", FileKind("MP3", ".mp3")),
    (b"\x93NUMPY", FileKind("npy", ".npy")),
    (b"PK\x03\x04", FileKind("zip", ".zip")),
    (b"\x28\xb5\x2f\xfd", FileKind("zstd", ".zst")),
)


def file_kind(content: bytes) -> FileKind | None:
    """The kind of file that begins so; None for any other."""
    if content[:4] == b"RIFF":
        return _RIFF.get(content[8:12])
    return next((kind for start, kind in _STARTS if content.startswith(start)), None)


# The fixed-width structures of docs/spec/format.md: bytes <-> fields, with every rule checked; pure.


VERSION = 1
DATA_MAGIC = b"\x89UREC\r\n\x1a"
INDEX_MAGIC = b"\x89URIX\r\n\x1a"
PAGE_MAGIC = b"URPG"

HEADER_BYTES = 128
INDEX_HEADER_BYTES = 192
COLUMN_BYTES = 32
PAGE_HEADER_BYTES = 64
SECTION_BYTES = 48
BLOCK_BYTES = 65_536
ZONE_ROWS = 8_192
MAX_HEAD_BYTES = 1 << 24
MAX_COLUMNS = 65_534
MAX_PACKED_BITS = 56  # of an element of a packed section: eight bytes hold one wherever it begins
MAX_VARIABLE_UNIT = 64  # rows of differing size that share a digest and a start
NO_COLUMN = 65_535
PAGE_ALIGN = 64
MEMORY_PAGE = 4_096
BIG_PAYLOAD = 65_536  # blob payloads from here on start at multiples of MEMORY_PAGE

PAGE_SCALAR, PAGE_BLOB, PAGE_END, PAGE_DICTIONARY = 1, 2, 3, 4

DOMAIN_HEADER, DOMAIN_HEAD, DOMAIN_PAGE, DOMAIN_SCALARS, DOMAIN_UNITS = 1, 2, 3, 4, 5
DOMAIN_INDEX_HEADER, DOMAIN_INDEX_HEAD, DOMAIN_INDEX_BLOCK = 6, 7, 8
DOMAIN_PAGES, DOMAIN_CODEC_DICTIONARY, DOMAIN_ANCILLARY, DOMAIN_CHUNK, DOMAIN_CONTENT = 9, 10, 11, 12, 13
CODEC_CHUNKED = 0x40  # of a codec in the column table: that cells are cut into chunks

SECTION_GROUPS, SECTION_ROW_STARTS, SECTION_LENGTHS, SECTION_DIGESTS = 1, 2, 3, 4
SECTION_VALUES, SECTION_VALIDITY, SECTION_CODES = 5, 6, 7
SECTION_DICTIONARY_OFFSETS, SECTION_DICTIONARY_ENTRIES = 8, 9
SECTION_STRING_OFFSETS, SECTION_STRING_BYTES = 10, 11
SECTION_ZONES, SECTION_ZONE_FLAGS, SECTION_ORDER = 12, 13, 14
SECTION_RAW_LENGTHS, SECTION_CODEC_DICTIONARY = 15, 16
SECTION_STATISTICS = 17
SECTION_CHUNK_SHAPE, SECTION_CHUNK_STARTS, SECTION_CHUNK_ENDS, SECTION_CHUNK_DIGESTS = 18, 19, 20, 21
ANCILLARY = 0x8000  # kinds of sections and pages from here on may be ignored
SECTION_SKETCH, SECTION_LOOK_UP = ANCILLARY, ANCILLARY + 1
SKETCHED_ROWS = 8_192  # parts of no more have no sketches
MAX_DICTIONARY_BYTES = 1 << 20  # of a compressed column
MAX_EXPANSION_BITS = 15  # of a frame: a block of at most 2^17 bytes takes at least 4
MAX_RAW_BYTES = 1 << 32  # what a frame holds is less
MAX_ANCILLARY_BYTES = 1 << 26  # payload of an ancillary page, so that checking one takes bounded memory

DIGESTS_XXH3 = 0  # number of the algorithm of all digests of a part
PHI = 0x9E3779B97F4A7C15
MASK64 = (1 << 64) - 1
MAX_OFFSET = 1 << 63

_FILE_HEADER = struct.Struct("<8sHHIII16sIIIIQQI36xQQ")
_INDEX_HEADER = struct.Struct("<8sHHIII16sQQQIIIIQQQ16sIIQQI28xQQ")
_PAGE_HEADER = struct.Struct("<4sHHQQQQQQQ")
_PAGE_FACTS = 40  # bytes of a page header, up to the fields that say where it stands and what it should be
_END_PAGE = struct.Struct("<4sHHQQQQ16sQ")
_SECTION = struct.Struct("<HHIQQQQH6x")


def align(number: int, multiple: int) -> int:
    """Least multiple of ``multiple`` that is not less than ``number``."""
    return -(-number // multiple) * multiple


def padding(number: int, multiple: int) -> int:
    """How many bytes are missing from ``number`` to the next multiple."""
    return -number % multiple


def seed(part_id: bytes, domain: int, place: int = 0) -> int:
    """Seed of the digest at ``place`` of ``domain`` in this part."""
    base = xxh3_64(part_id + domain.to_bytes(8, "little"))
    return (base + place * PHI) & MASK64


def digest(data: bytes | bytearray | memoryview, seed_value: int = 0) -> int:
    """XXH3-64."""
    return xxh3_64(data, seed_value)


@dataclass(frozen=True)
class Shape:
    """How rows are laid out in the blob pages of a part; ``row_bytes`` 0: the rows' sizes differ."""

    blob_align: int
    unit_rows: int
    group_rows: int
    row_bytes: int

    def pack(self) -> bytes:
        """As both headers have it."""
        return struct.pack("<IIQQ", self.blob_align, self.unit_rows, self.group_rows, self.row_bytes)


def pages_digest(part_id: bytes, payload_digests: bytes | bytearray) -> int:
    """What an end page says of the pages before it: of the ``payload_digest``s of dictionaries and scalar pages."""
    return digest(payload_digests, seed(part_id, DOMAIN_PAGES))


class Content:
    """The content digest of a part, which stands for every value in it, page after page.

    Every byte that a value depends on goes through 128 bits on its way into it.

    Args:
        part_id: of the part.
        shape: how its pages are laid out.
        table: its column table, as it lies.
        schema: the schema as the metadata has it.
    """

    def __init__(self, part_id: bytes, shape: Shape, table: bytes, schema: bytes) -> None:
        self.part_id = part_id
        self._of = bytearray(shape.pack() + table + schema)

    def add(self, page: PageHeader, digest: bytes) -> None:
        """A dictionary, a scalar page or a blob page, the next one in the file, and the wide digest of its payload."""
        self._of += _page_facts(page)[:_PAGE_FACTS] + digest

    def digest(self) -> bytes:
        """The digest of all pages so far."""
        return xxh3_128(self._of, seed(self.part_id, DOMAIN_CONTENT))


def wide_payload_digest(part_id: bytes, offset: int, kind: int, payload: bytes | memoryview) -> bytes:
    """The wide digest of the payload of a dictionary or scalar page at ``offset``."""
    domain = DOMAIN_CODEC_DICTIONARY if kind == PAGE_DICTIONARY else DOMAIN_SCALARS
    return xxh3_128(payload, seed(part_id, domain, offset))


def wide_blobs_digest(part_id: bytes, offset: int, units: bytes | memoryview) -> bytes:
    """That of the blob page at ``offset``: of the wide digests of its units, 16 bytes each."""
    return xxh3_128(units, seed(part_id, DOMAIN_CONTENT, offset))


@dataclass(frozen=True)
class FileHeader:
    id: bytes
    columns: int
    metadata_bytes: int
    shape: Shape
    header_bytes: int
    head_digest: int
    header_digest: int
    writer_version: int = VERSION
    optional_features: int = 0


@dataclass(frozen=True)
class PageHeader:
    kind: int
    group: int
    first_row: int
    rows: int
    payload_bytes: int
    gap: int
    payload_digest: int
    codec: int = CODEC_PLAIN  # of a scalar page
    raw_bytes: int = 0  # of a scalar page with a codec: bytes of what its frame holds

    @property
    def is_ancillary(self) -> bool:
        """Whether a reader that does not know the kind ignores the page."""
        return self.kind >= ANCILLARY

    def payload(self, offset: int) -> int:
        """File offset of the payload of this page, which starts at ``offset``."""
        return offset + PAGE_HEADER_BYTES + self.gap

    def end(self, offset: int) -> int:
        """File offset of the page after this one, which starts at ``offset``."""
        return align(self.payload(offset) + self.payload_bytes, PAGE_ALIGN)


@dataclass(frozen=True)
class EndPage:
    """The last page of a data file: how many row groups and rows there are before it, and digests of them all."""

    groups: int
    rows: int
    pages_digest: int
    content_digest: bytes


@dataclass(frozen=True)
class IndexHeader:
    id: bytes
    data_bytes: int
    rows: int
    groups: int
    columns: int
    sections: int
    metadata_bytes: int
    index_bytes: int
    digests_offset: int
    data_header_digest: int
    content_digest: bytes
    shape: Shape  # as in the data file
    header_bytes: int
    head_digest: int
    header_digest: int
    writer_version: int = VERSION
    optional_features: int = 0  # this one and the version as in the data file


@dataclass(frozen=True)
class Section:
    kind: int
    column: int
    width: int
    offset: int
    bytes: int
    count: int
    extra: int = 0
    bits: int = 0  # of a packed section: of an element, to which ``extra`` is added; else 0


def _refuse(problem: str) -> FormatError:
    return FormatError(problem)


def _check_head_size(part: int, metadata: int) -> int:
    size = align(part + metadata, PAGE_ALIGN)
    if size > MAX_HEAD_BYTES:
        raise _refuse(f"schema and metadata take {many(size, 'byte')}; at most {MAX_HEAD_BYTES} are allowed")
    return size


def _check_versions(min_reader: int, writer: int, required: int, digests: int) -> None:
    if min_reader == 0 or min_reader > VERSION:
        raise _refuse(
            f"it needs a reader of version {min_reader}; this one is version {VERSION}: upgrade unirecord"
        )
    if writer < min_reader:
        raise _refuse(f"its writer_version is {writer}, below the {min_reader} of min_reader_version")
    if required:
        raise _refuse(f"it needs features {required:#x} that this version does not have: upgrade unirecord")
    if digests:
        raise _refuse(
            f"it has digests of algorithm {digests}, and this version knows 0, XXH3, alone: upgrade unirecord"
        )


def check_shape(shape: Shape, *, blobs: bool) -> None:
    """Holds the rules between the fields that lay out rows."""
    a, k, group, row = shape.blob_align, shape.unit_rows, shape.group_rows, shape.row_bytes
    if a not in (1, 2, 4, 8, 16, 32, 64):
        raise _refuse(f"blob_align is {a}, which is not a power of two up to 64")
    if not blobs:
        good = row == 0 and k == 0 and group > 0
    elif row:
        good = group > 0 and row % a == 0 and k & (k - 1) == 0 and (k == 0 or group % k == 0)
    else:
        good = k & (k - 1) == 0 and k <= MAX_VARIABLE_UNIT and group == 0
    if not good or max(group, row) >= MAX_OFFSET:
        raise _refuse(
            f"impossible layout: unit_rows {k}, group_rows {group}, row_bytes {row}, blob columns: {blobs}"
        )


def pack_file_head(
    part_id: bytes, columns: int, table: bytes, metadata: bytes, shape: Shape, writer_version: int = VERSION
) -> tuple[bytes, int]:
    """The head of a data file, whole, and its ``header_digest``."""
    size = _check_head_size(HEADER_BYTES + len(table), len(metadata))
    rest = (table + metadata).ljust(size - HEADER_BYTES, b"\0")
    head_digest = digest(rest, seed(part_id, DOMAIN_HEAD))
    header = _FILE_HEADER.pack(
        DATA_MAGIC, VERSION, writer_version, 0, 0, size, part_id, columns, len(metadata), shape.blob_align,
        shape.unit_rows, shape.group_rows, shape.row_bytes, DIGESTS_XXH3, head_digest, 0,
    )  # fmt: skip
    header_digest = digest(header[:120], seed(part_id, DOMAIN_HEADER))
    return header[:120] + header_digest.to_bytes(8, "little") + rest, header_digest


def unpack_file_header(raw: bytes) -> FileHeader:
    """Reads the first 128 bytes of a data file; says what is wrong with them without naming the file."""
    if len(raw) < HEADER_BYTES:
        raise _refuse(f"it has {many(len(raw), 'byte')}, fewer than the {HEADER_BYTES} of a UniRecord header")
    if raw[:8] != DATA_MAGIC:
        raise _refuse("it does not start like a UniRecord data file")
    (_, min_reader, writer, required, optional, size, part_id, columns, metadata_bytes, a, k, group, row, digests,
     head_digest, header_digest) = _FILE_HEADER.unpack(raw[:HEADER_BYTES])  # fmt: skip
    _check_versions(min_reader, writer, required, digests)
    if digest(raw[:120], seed(part_id, DOMAIN_HEADER)) != header_digest:
        raise CorruptionError("the file header does not have the digest stored with it", offset=0)
    if not optional and any(raw[76:112]):
        raise _refuse("reserved bytes of the file header are not zero")
    if not 1 <= columns <= MAX_COLUMNS:
        raise _refuse(f"it claims {many(columns, 'column')}; 1 to {MAX_COLUMNS} are possible")
    if size != _check_head_size(HEADER_BYTES + COLUMN_BYTES * columns, metadata_bytes):
        raise _refuse(f"header_bytes is {size}, which is not what its fields add up to")
    shape = Shape(a, k, group, row)
    return FileHeader(
        part_id, columns, metadata_bytes, shape, size, head_digest, header_digest, writer, optional
    )


def gap_of(offset: int, payload_bytes: int) -> int:
    """Zero bytes between the header of the blob page at ``offset`` and its payload."""
    return padding(offset + PAGE_HEADER_BYTES, MEMORY_PAGE) if payload_bytes >= BIG_PAYLOAD else 0


def _page_facts(page: PageHeader) -> bytes:
    return _PAGE_HEADER.pack(
        PAGE_MAGIC, page.kind, page.codec, page.group, page.first_row, page.rows, page.payload_bytes,
        page.raw_bytes if page.codec else page.gap, page.payload_digest, 0,
    )[:56]  # fmt: skip


def _sealed_page(part_id: bytes, offset: int, body: bytes) -> bytes:
    return body + digest(body, seed(part_id, DOMAIN_PAGE, offset)).to_bytes(8, "little")


def pack_page_header(part_id: bytes, offset: int, page: PageHeader) -> bytes:
    """The 64 bytes that start the page at ``offset``."""
    return _sealed_page(part_id, offset, _page_facts(page))


def pack_end_page(part_id: bytes, offset: int, end: EndPage) -> bytes:
    """The end page, which stands at ``offset``."""
    body = _END_PAGE.pack(
        PAGE_MAGIC, PAGE_END, 0, end.groups, end.pages_digest, end.rows, 0, end.content_digest, 0
    )
    return _sealed_page(part_id, offset, body[:56])


def _check_page(part_id: bytes, offset: int, raw: bytes) -> None:
    if len(raw) < PAGE_HEADER_BYTES:
        raise CorruptionError(f"the file ends inside the page header at {offset}", offset=offset)
    if raw[:4] != PAGE_MAGIC:
        raise CorruptionError(f"there is no page at {offset}", offset=offset)
    if _sealed_page(part_id, offset, raw[:56]) != raw[:PAGE_HEADER_BYTES]:
        raise CorruptionError(
            f"the page header at {offset} does not have the digest stored with it", offset=offset
        )


def unpack_end_page(part_id: bytes, offset: int, raw: bytes) -> EndPage:
    """Reads the last 64 bytes of a data file; CorruptionError when they are no end page that was written there."""
    _check_page(part_id, offset, raw)
    _, kind, codec, groups, pages, rows, size, content, _ = _END_PAGE.unpack(raw[:PAGE_HEADER_BYTES])
    if kind != PAGE_END:
        raise CorruptionError("the file does not end with an end page", offset=offset)
    if codec or size or rows >= MAX_OFFSET:
        raise CorruptionError(f"the end page at {offset} breaks the rules of the format", offset=offset)
    return EndPage(groups, rows, pages, content)


def unpack_page_header(part_id: bytes, offset: int, raw: bytes) -> PageHeader:
    """Reads the 64 bytes of a page header at ``offset``; CorruptionError when they are not what was written there.

    Of an end page it says the kind, and how many groups and rows there are: the rest is for `unpack_end_page`.
    """
    _check_page(part_id, offset, raw)
    if int.from_bytes(raw[4:6], "little") == PAGE_END:
        end = unpack_end_page(part_id, offset, raw)
        return PageHeader(PAGE_END, end.groups, 0, end.rows, 0, 0, 0)
    _, kind, codec, group, first, rows, size, gap, payload_digest, _ = _PAGE_HEADER.unpack(
        raw[:PAGE_HEADER_BYTES]
    )
    gap, raw_bytes = (0, gap) if codec else (gap, 0)  # they share a field
    page = PageHeader(kind, group, first, rows, size, gap, payload_digest, codec, raw_bytes)
    ancillary, dictionary = page.is_ancillary, kind == PAGE_DICTIONARY
    if (
        (codec and kind != PAGE_SCALAR)
        or (codec and not 0 < raw_bytes < MAX_RAW_BYTES)
        or (kind not in (PAGE_SCALAR, PAGE_BLOB, PAGE_DICTIONARY) and not ancillary)
        or gap != (gap_of(offset, size) if kind == PAGE_BLOB else 0)
        or (ancillary and size > MAX_ANCILLARY_BYTES)
        or (dictionary and (first or rows or not 0 < size <= MAX_DICTIONARY_BYTES))
        or (not ancillary and not dictionary and rows == 0)
        or (kind == PAGE_BLOB and payload_digest)
        or (not ancillary and max(first, rows, first + rows) >= MAX_OFFSET)
        or max(size, page.end(offset)) >= MAX_OFFSET
    ):
        raise CorruptionError(
            f"the page header at {offset} breaks the rules of the format: {page}", offset=offset
        )
    return page


def pack_section(entry: Section) -> bytes:
    return _SECTION.pack(
        entry.kind, entry.column, entry.width, entry.offset, entry.bytes, entry.count, entry.extra, entry.bits
    )


def pack_index_head(header: IndexHeader, table: bytes, sections: list[Section], metadata: bytes) -> bytes:
    """The head of an index file, whole; sizes and digests in ``header`` are taken from the other arguments."""
    directory = b"".join(map(pack_section, sections))
    size = index_head_bytes(header.columns, len(sections), len(metadata))
    rest = (table + directory + metadata).ljust(size - INDEX_HEADER_BYTES, b"\0")
    shape = header.shape
    fixed = _INDEX_HEADER.pack(
        INDEX_MAGIC, VERSION, header.writer_version, 0, header.optional_features, size, header.id,
        header.data_bytes, header.rows, header.groups,
        header.columns, len(sections), len(metadata), BLOCK_BYTES, header.index_bytes, header.digests_offset,
        header.data_header_digest, header.content_digest, shape.blob_align, shape.unit_rows, shape.group_rows,
        shape.row_bytes, DIGESTS_XXH3, digest(rest, seed(header.id, DOMAIN_INDEX_HEAD)), 0,
    )[: INDEX_HEADER_BYTES - 8]  # fmt: skip
    return fixed + digest(fixed, seed(header.id, DOMAIN_INDEX_HEADER)).to_bytes(8, "little") + rest


def index_head_bytes(columns: int, sections: int, metadata_bytes: int) -> int:
    fixed = INDEX_HEADER_BYTES + COLUMN_BYTES * columns + SECTION_BYTES * sections
    return _check_head_size(fixed, metadata_bytes)


def unpack_index_header(raw: bytes) -> IndexHeader:
    """Reads the first 192 bytes of an index file; says what is wrong with them without naming the file."""
    if len(raw) < INDEX_HEADER_BYTES:
        raise _refuse(
            f"it has {many(len(raw), 'byte')}, fewer than the {INDEX_HEADER_BYTES} of a UniRecord index header"
        )
    if raw[:8] != INDEX_MAGIC:
        raise _refuse("it does not start like a UniRecord index file")
    (_, min_reader, writer, required, optional, size, part_id, data_bytes, rows, groups, columns, sections,
     metadata_bytes, block, index_bytes, digests_offset, data_digest, content, a, k, group_rows, row_bytes, digests,
     head_digest, header_digest) = _INDEX_HEADER.unpack(raw[:INDEX_HEADER_BYTES])  # fmt: skip
    _check_versions(min_reader, writer, required, digests)
    if digest(raw[: INDEX_HEADER_BYTES - 8], seed(part_id, DOMAIN_INDEX_HEADER)) != header_digest:
        raise CorruptionError("the index header does not have the digest stored with it", offset=0)
    if not optional and any(raw[148:176]):
        raise _refuse("reserved bytes of the index header are not zero")
    if block != BLOCK_BYTES or not 1 <= columns <= MAX_COLUMNS:
        raise _refuse("the index header breaks the rules of the format")
    if size != index_head_bytes(columns, sections, metadata_bytes):
        raise _refuse(f"header_bytes is {size}, which is not what its fields add up to")
    blocks = -(-(digests_offset - size) // BLOCK_BYTES)
    if digests_offset < size or digests_offset % PAGE_ALIGN or index_bytes != digests_offset + 8 * blocks:
        raise _refuse("the sizes in the index header do not add up")
    return IndexHeader(part_id, data_bytes, rows, groups, columns, sections, metadata_bytes, index_bytes,
                       digests_offset, data_digest, content, Shape(a, k, group_rows, row_bytes), size, head_digest,
                       header_digest, writer, optional)  # fmt: skip


def unpack_section(raw: bytes, *, optional: bool = False) -> Section:
    """Reads an entry of the directory; with ``optional`` features, its reserved bytes may hold anything."""
    if not optional and any(raw[42:48]):
        raise _refuse("reserved bytes of the section directory are not zero")
    return Section(*_SECTION.unpack(raw[:SECTION_BYTES]))
