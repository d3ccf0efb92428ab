"""Checks an index whole: its own digests, and every section against one made afresh from the data file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ..core import digest_ranges
from ..errors import CorruptionError, FormatError
from ..format import layout, metadata
from ..format.layout import IndexHeader, Section
from ..format.metadata import Metadata, Statistics
from ..parts.data_file import DataFile
from ..storage.local import read_at
from ..storage.location import Readable
from ..storage.registry import read_file
from ..storage.staged import StagedFile
from ..writing.index_file import build_index

__all__ = ["IndexFile", "check_blocks", "compare_with_data", "find_index", "strings", "validity"]

_CHUNK = 64 * layout.BLOCK_BYTES
_ROWS = 1 << 16


class Scratch:
    """A file without a name that takes what an index builder writes; it is gone when it is closed."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - `close` closes it
        self.size: int = 0

    def read_at(self, offset: int, size: int) -> bytes:
        return read_at(self._file.fileno(), offset, size)

    def truncate(self, size: int) -> None:
        self._file.truncate(size)
        self.size = size

    def write_at(self, offset: int, buffer: Any) -> None:
        self._file.seek(offset)
        view = memoryview(buffer).cast("B")
        while len(view):
            view = view[self._file.write(view) :]

    def close(self) -> None:
        self._file.close()


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
                f"the file has {self.size} bytes, its header says {self.header.index_bytes}", offset=self.size
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
        if any(rest[directory + self.header.metadata_bytes :]):
            raise CorruptionError(
                "the bytes after the metadata are not zero", offset=layout.INDEX_HEADER_BYTES + directory
            )

    def _check_places(self) -> None:
        end = self.header.header_bytes
        if len(self.sections) != self.header.sections or list(self.sections) != sorted(self.sections):
            raise FormatError("the section directory is not in order")
        for s in self.sections.values():
            if s.offset != layout.align(end, layout.PAGE_ALIGN) or s.bytes != s.width * s.count:
                raise FormatError(f"section {s.kind} of column {s.column} is not where it must be")
            end = s.offset + s.bytes
        if layout.align(end, layout.PAGE_ALIGN) != self.header.digests_offset:
            raise FormatError("the sections do not end where the block digests start")

    def statistics(self) -> Statistics:
        """What the statistics section holds; FormatError when that does not go with the schema."""
        section = self.sections[layout.SECTION_STATISTICS, layout.NO_COLUMN]
        return metadata.decode_statistics(self.read(section.offset, section.bytes), self.metadata.schema)

    def zone_rows(self) -> dict[int, int]:
        """Rows of a zone by ordinal of the column."""
        found = {s.column: s.extra for s in self.sections.values() if s.kind == layout.SECTION_ZONE_FLAGS}
        return {column: rows for column, rows in found.items() if rows > 0}

    def read(self, offset: int, size: int) -> bytes:
        """Exactly these bytes; CorruptionError when the file ends before."""
        if min(offset, size) < 0 or offset + size > self.size:
            raise CorruptionError(f"{size} bytes at {offset} are not in the file", offset=max(offset, 0))
        raw = self._file.read_at(offset, size)
        if len(raw) < size:
            raise CorruptionError(f"the file ends at {offset + len(raw)}", offset=offset + len(raw))
        return raw

    def elements(self, key: tuple[int, int], dtype: Any, start: int, stop: int) -> np.ndarray[Any, Any]:
        """Elements [start, stop) of a section."""
        section = self.sections[key]
        width = np.dtype(dtype).itemsize
        return np.frombuffer(self.read(section.offset + start * width, (stop - start) * width), dtype)


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
    scratch = Scratch()
    try:
        build_index(data.path, cast(StagedFile, scratch), index.zone_rows())
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
        scratch.close()


def _is_choice(key: tuple[int, int]) -> bool:
    """Whether a writer may choose to have this section, or others in its place, or none."""
    return layout.SECTION_CODES <= key[0] <= layout.SECTION_ZONES or key[0] >= layout.ANCILLARY


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
    if key[0] == layout.SECTION_ZONE_FLAGS and _is_coded(index, key[1]) != _is_coded(fresh, key[1]):
        return found is not None and found.count == wanted.count and _same_numbers(index, fresh, key, 0b011)
    if found is not None and found.extra != wanted.extra:
        return False
    if found is not None and (found.width, found.count) == (wanted.width, wanted.count):
        return all(
            index.read(found.offset + start, size) == fresh.read(wanted.offset + start, size)
            for start in range(0, wanted.bytes, _CHUNK)
            for size in [min(_CHUNK, wanted.bytes - start)]
        )
    if key[0] in (layout.SECTION_LENGTHS, layout.SECTION_RAW_LENGTHS, layout.SECTION_ORDER):
        return found is not None and found.count == wanted.count and _same_numbers(index, fresh, key)
    return _is_choice(key) and _same_strings(index, fresh, key[1])


def _is_coded(file: IndexFile, column: int) -> bool:
    return (layout.SECTION_CODES, column) in file.sections


def _same_numbers(
    index: IndexFile, fresh: IndexFile, key: tuple[int, int], mask: int = layout.MASK64
) -> bool:
    """Both hold the same numbers (the bits of ``mask``), perhaps in elements of different widths."""
    a, b = (f"<u{file.sections[key].width}" for file in (index, fresh))
    count, bits = fresh.sections[key].count, np.uint64(mask)
    return all(
        not (
            np.bitwise_xor(
                index.elements(key, a, start, stop), fresh.elements(key, b, start, stop), dtype="u8"
            )
            & bits
        ).any()
        for start in range(0, count, _ROWS)
        for stop in [min(start + _ROWS, count)]
    )


def _same_strings(index: IndexFile, fresh: IndexFile, column: int) -> bool:
    """Both hold the same strings, one of them in a dictionary and the other plain."""
    rows = fresh.header.rows
    return all(
        strings(index, column, start, stop) == strings(fresh, column, start, stop)
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


def find_index(path: str, part_id: bytes, content_digest: int | None) -> tuple[str | None, str]:
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
                f"{found.content_digest:016x}, and {content_digest:016x} in the end page of {path}"
            )
        else:
            return name, ""
    return None, "; ".join(problems) or "the index is missing"
