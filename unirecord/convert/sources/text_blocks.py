"""A text file in blocks of whole records: lines, or CSV records, which may hold line breaks in quotes."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from .input_path import InputPath

if TYPE_CHECKING:
    from _csv import Reader as CsvRecords

__all__ = [
    "BLOCK_BYTES",
    "FIRST_BYTES",
    "Block",
    "BlockPlace",
    "count_lines",
    "csv_blocks",
    "csv_records",
    "first_records",
    "line_blocks",
    "quotes_are_plain",
    "read_block",
    "text_start",
]

BLOCK_BYTES: Final = 8_000_000
FIRST_BYTES: Final = 500_000  # about, of a block that is much larger
_BOM: Final = b"\xef\xbb\xbf"


def csv_records(lines: Iterable[str], delimiter: str, *, strict: bool = False) -> CsvRecords:
    """Return the records of lines, whose values may have any length: Python's own limit is for the whole process."""
    csv.field_size_limit(sys.maxsize)
    return csv.reader(lines, delimiter=delimiter, strict=strict)


class BlockPlace(NamedTuple):
    """Where a block lies, and what stands before it."""

    offset: int
    size: int | None  # None: to the end of the file, so that lines added since are seen
    line: int  # lines before it
    row: int  # rows before it


class Block(NamedTuple):
    """Bytes of whole records, and where they lie."""

    offset: int
    data: bytes
    lines: int


def read_block(source: InputPath, place: BlockPlace) -> bytes:
    """The bytes of a block that was found before."""
    with source.open() as file:
        file.seek(place.offset)
        return file.read() if place.size is None else file.read(place.size)


def line_blocks(source: InputPath) -> Iterator[Block]:
    """Yield a file in blocks of whole lines; a mark of UTF-8 at its start belongs to none."""
    return _blocks(source, text_start(source), lambda data: data.rfind(b"\n") + 1)


def csv_blocks(source: InputPath, start: int, delimiter: str) -> Iterator[Block]:
    """Yield a file from an offset on in blocks of whole CSV records."""
    return _blocks(source, start, lambda data: _whole_records(data, delimiter))


def first_records(data: bytes, delimiter: str) -> tuple[bytes, bytes]:
    """Return some CSV records at the start of a block, and the rest, which is empty where there is little."""
    if len(data) < 4 * FIRST_BYTES:
        return data, b""
    first = data[: _whole_records(data[:FIRST_BYTES], delimiter)]
    return (first, data[len(first) :]) if first.endswith((b"\n", b"\r")) else (data, b"")


def text_start(source: InputPath) -> int:
    """Return how many bytes the mark of UTF-8 at the start takes, 0 or 3."""
    with source.open() as file:
        return len(_BOM) if file.read(len(_BOM)) == _BOM else 0


def quotes_are_plain(data: bytes, delimiter: str) -> bool:
    """Whether quotes only begin and end values (or are doubled in them), as RFC 4180 says.

    Then a line break stands in a value if the number of quotes before it is odd, and any reader of CSV agrees.
    """
    found = np.frombuffer(data, np.uint8)
    quotes = np.flatnonzero(found == ord('"'))
    edges = np.zeros(256, np.bool_)
    edges[[ord(delimiter), 10, 13, ord('"')]] = True
    starts, ends = quotes[0::2], quotes[1::2]
    before = found[starts[starts > 0] - 1]
    after = found[ends[ends + 1 < len(found)] + 1]
    if not (edges[before].all() and edges[after].all()):
        return False
    # A value that starts after a quote goes on after a doubled one.
    doubled = found[np.maximum(starts, 1) - 1] == ord('"')
    doubled &= starts > 0
    previous = np.concatenate(([-2], ends))[: len(starts)]
    return bool((previous[doubled] + 1 == starts[doubled]).all())


def _blocks(source: InputPath, start: int, whole: Callable[[bytes], int]) -> Iterator[Block]:
    rest, offset, want = b"", start, BLOCK_BYTES
    with source.open() as file:
        file.seek(offset)
        while piece := file.read(max(want - len(rest), 1)):
            data = rest + piece
            cut = whole(data)
            if not cut:  # one record is longer than a block
                rest, want = data, 2 * len(data)
                continue
            yield _block(offset, data[:cut])
            offset += cut
            rest, want = data[cut:], BLOCK_BYTES
    if rest:
        yield _block(offset, rest)


def _block(offset: int, data: bytes) -> Block:
    return Block(offset, data, count_lines(data))


def count_lines(data: bytes) -> int:
    """Return how many line breaks there are: LF, CR, or both together."""
    lines = int(np.count_nonzero(np.frombuffer(data, np.uint8) == 10))  # ten times as fast as bytes.count
    return lines + data.count(b"\r") - data.count(b"\r\n") if b"\r" in data else lines


def _whole_records(data: bytes, delimiter: str) -> int:
    """Return how many bytes at the start of ``data`` are whole records."""
    end = data.rfind(b"\n") + 1
    if not end:
        end = data.rfind(b"\r", 0, len(data) - 1) + 1
    if b'"' not in data:
        return end
    if not quotes_are_plain(data, delimiter):
        return _parsed_records(data, delimiter)
    if data.count(b'"', 0, end) % 2 == 0:
        return end
    found = np.frombuffer(data, np.uint8)
    breaks = np.flatnonzero(found == (10 if b"\n" in data else 13))
    outside = breaks[np.searchsorted(np.flatnonzero(found == ord('"')), breaks) % 2 == 0]
    return int(outside[-1]) + 1 if len(outside) else 0


def _parsed_records(data: bytes, delimiter: str) -> int:
    """The same by reading every record, where quotes stand in odd places."""
    taken = done = 0

    def lines() -> Iterator[str]:
        nonlocal taken
        with io.TextIOWrapper(io.BytesIO(data), encoding="latin-1", newline="") as text:
            for line in text:
                taken += len(line)
                if not line.endswith(("\n", "\r")) or (line.endswith("\r") and taken == len(data)):
                    return  # it may go on in the next block
                yield line

    try:
        for _ in csv_records(lines(), delimiter, strict=True):
            done = taken
    except csv.Error as error:
        if "unexpected end" not in str(error):
            return len(data)  # whoever reads it says what is wrong
    return done
