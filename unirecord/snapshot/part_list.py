"""The parts that a manifest lists: in its own text, and in pieces, files that list many; bytes <-> fields, checked."""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Final, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from ..core import cached_property, xxh3_128
from ..errors import CorruptionError, FormatError
from ..format.patch import MOST_BYTES
from ..sizes import many
from .layouts import ColumnFile, PartColumns
from .manifest_fields import MOST, PART_NAME

__all__ = [
    "DeletedRows",
    "MOST_IN_PIECE",
    "MOST_IN_TEXT",
    "PIECE_NAME",
    "PartEntry",
    "PartFields",
    "PartList",
    "Piece",
    "appended",
    "check_list",
    "decode_piece",
    "encode_piece",
    "in_pieces",
    "part_list",
    "part_name",
    "piece_name",
]


# One part, as a manifest and a piece say it.


PIECE_NAME: Final = re.compile(r"parts-([0-9a-f]{32})")


def piece_name(digest: str) -> str:
    """File name of the piece with this digest."""
    return f"parts-{digest}"


@dataclass(frozen=True)
class DeletedRows:
    """The file that says which rows of a part have been deleted: its name, their number, its size and its digest."""

    name: str
    rows: int
    bytes: int
    digest: str


class PartEntry(NamedTuple):
    """One part: file name, id, rows, sizes of its two files, digests of its column table and schema, and of content."""

    name: str
    id: bytes
    rows: int
    bytes: int
    index_bytes: int
    schema: str
    content: str  # the content digest in hex
    deleted: DeletedRows | None = None
    columns: PartColumns | None = (
        None  # where its columns are, if not in its own files as the schema has them
    )


def part_name(number: int, part_id: bytes) -> str:
    """File name of part ``number``."""
    return f"part-{number:06d}-{part_id[:4].hex()}.urec"


# The files of a piece or a list as columns: names, numbers and digests of all at once.


Numbers = NDArray[np.uint64]
Digests = bytes  # 16 of each

_ID_BYTES: Final = 16
_WIDE_BYTES: Final = 16  # of a digest that stands for what it is of
_NUMBERS_END: Final = 10**12  # of those in names
_VERSIONS_END: Final = 10**18  # of those in names of files of deleted rows


class PartFields(NamedTuple):
    """The fields of n data files with their indexes."""

    names: tuple[str, ...]
    numbers: Numbers  # in the names
    ids: bytes  # 16 of each
    rows: NDArray[np.int64]
    bytes: NDArray[np.int64]
    index_bytes: NDArray[np.int64]
    contents: Digests


def _named(numbers: Numbers, ids: bytes) -> tuple[str, ...]:
    """The names of parts with these numbers and ids."""
    hexes = ids.hex()
    beginnings = [hexes[at : at + 8] for at in range(0, len(hexes), 2 * _ID_BYTES)]
    each = zip(numbers.tolist(), beginnings, strict=True)
    return tuple([f"part-{number:06d}-{beginning}.urec" for number, beginning in each])


def _number(name: str) -> int:
    match = PART_NAME.fullmatch(name)
    assert match is not None
    return int(match[1])


# A piece: parts in order, in a file that is never changed, and named by the digest of its bytes.


MOST_IN_PIECE: Final = 768  # parts that this package puts into one
MOST_IN_TEXT: Final = 128  # parts that it leaves in the text of a manifest
_MOST_PARTS: Final = 1 << 16  # that any may have
_MOST_FILES: Final = 1_000  # of a part
_MAGIC: Final = b"\x89URPL\r\n\x1a"
_HEAD: Final = struct.Struct("<8s6IQ16sQ")
_VERSION: Final = 1


@dataclass(frozen=True, eq=False)
class Piece:
    """What a piece lists, checked.

    Attributes:
        digest: of its bytes.
        fields: of its parts.
        rows: of all of them.
        files: of their column parts, in order, with no rows of their own.
        deleted: by the number of the part in the piece, the file of its deleted rows.
        columns: likewise, where its columns are.
    """

    digest: str
    fields: PartFields
    rows: int
    files: PartFields
    deleted: Mapping[int, DeletedRows]
    columns: Mapping[int, PartColumns]

    def __len__(self) -> int:
        return len(self.fields.names)

    @cached_property
    def highest(self) -> int:
        """The greatest number in a name."""
        return max(int(each.numbers.max()) for each in (self.fields, self.files) if len(each.numbers))

    @cached_property
    def data_bytes(self) -> int:
        """Bytes of the data files, of column parts too."""
        return sum(sum(fields.bytes.tolist()) for fields in (self.fields, self.files))

    @cached_property
    def layouts(self) -> frozenset[tuple[int, int]]:
        """The layouts that its parts have, each with its number of column parts."""
        return frozenset((columns.layout, len(columns.files)) for columns in self.columns.values())

    def entry(self, i: int, schema: str, layouts: Sequence[str]) -> PartEntry:
        """Part ``i``; ``schema``: the digest of the dataset's schema, ``layouts``: of the first of each layout."""
        fields, columns = self.fields, self.columns.get(i)
        return PartEntry(
            fields.names[i],
            fields.ids[i * _ID_BYTES : (i + 1) * _ID_BYTES],
            int(fields.rows[i]),
            int(fields.bytes[i]),
            int(fields.index_bytes[i]),
            schema if columns is None else layouts[columns.layout],
            fields.contents[i * _WIDE_BYTES : (i + 1) * _WIDE_BYTES].hex(),
            self.deleted.get(i),
            columns,
        )


def encode_piece(parts: Sequence[PartEntry], dataset_id: bytes, salt: int) -> bytes:
    """The file that lists these parts; ``salt`` makes its digest, and so its name, that of one writer."""
    laid = [(i, part.columns) for i, part in enumerate(parts) if part.columns is not None]
    patches = [(i, columns.patch) for i, columns in laid if columns.patch]
    gone = [(i, part.deleted) for i, part in enumerate(parts) if part.deleted is not None]
    files = [file for _, columns in laid for file in columns.files]
    rows = [part.rows for part in parts]
    head = _HEAD.pack(
        _MAGIC,
        _VERSION,
        len(parts),
        len(files),
        len(laid),
        len(gone),
        len(patches),
        sum(rows),
        dataset_id,
        salt,
    )
    return b"".join(
        (
            head,
            b"".join(part.id for part in parts),
            _words(_number(part.name) for part in parts),
            _words(rows),
            _words(part.bytes for part in parts),
            _words(part.index_bytes for part in parts),
            bytes.fromhex("".join(part.content for part in parts)),
            b"".join(file.id for file in files),
            _words(_number(file.name) for file in files),
            _words(file.bytes for file in files),
            _words(file.index_bytes for file in files),
            bytes.fromhex("".join(file.content for file in files)),
            _words(deleted.rows for _, deleted in gone),
            _words(deleted.bytes for _, deleted in gone),
            bytes.fromhex("".join(deleted.digest for _, deleted in gone)),
            _words(int(deleted.name.rpartition("-")[2]) for _, deleted in gone),
            np.array([i for i, _ in gone], "<u4").tobytes(),
            np.array([i for i, _ in laid], "<u4").tobytes(),
            np.array([columns.layout for _, columns in laid], "<u4").tobytes(),
            np.array([len(columns.files) for _, columns in laid], "<u4").tobytes(),
            np.array([i for i, _ in patches], "<u4").tobytes(),
            np.array([len(patch) for _, patch in patches], "<u4").tobytes(),
            *(patch for _, patch in patches),
        )
    )


def _words(numbers: Iterator[int] | Sequence[int]) -> bytes:
    return np.fromiter(numbers, "<u8").tobytes()


class _Words:
    """The body of a piece, taken from front to back."""

    def __init__(self, content: bytes, at: int) -> None:
        self.content, self.at = content, at

    def raw(self, size: int) -> bytes:
        self.at += size
        return self.content[self.at - size : self.at]

    def words(self, count: int) -> Numbers:
        return np.frombuffer(self.raw(8 * count), "<u8").astype(np.uint64)

    def numbers(self, count: int, what: str) -> NDArray[np.int64]:
        """Numbers below 2^63."""
        found = self.words(count)
        if count and int(found.max()) > MOST:
            raise ValueError(f"{what} of a part is 2^63 or more")
        return found.astype(np.int64)

    def small(self, count: int) -> list[int]:
        found: list[int] = np.frombuffer(self.raw(4 * count), "<u4").tolist()
        return found

    def fields(self, count: int, *, has_rows: bool) -> PartFields:
        """Those of so many files."""
        ids, numbers = self.raw(_ID_BYTES * count), self.words(count)
        if count and int(numbers.max()) >= _NUMBERS_END:
            raise ValueError("the number in the name of a part is none that a name may have")
        rows = self.numbers(count, "rows") if has_rows else np.zeros(count, np.int64)
        sizes, index_sizes = self.numbers(count, "bytes"), self.numbers(count, "index_bytes")
        contents = self.raw(_WIDE_BYTES * count)
        return PartFields(_named(numbers, ids), numbers, ids, rows, sizes, index_sizes, contents)


def decode_piece(content: bytes, digest: str, dataset_id: bytes, parts: int, rows: int, path: str) -> Piece:
    """The piece that a manifest names so, of so many parts and rows.

    Raises:
        CorruptionError: the file is not what was written.
        FormatError: it says what cannot be, or needs a newer version.
    """
    if xxh3_128(content).hex() != digest:
        raise CorruptionError(
            f"{path}: the digest of this file, which lists parts of the dataset, is not the one in its name: it was "
            "edited or damaged; restore it from a copy, or save the rows by `unirecord repair`",
            path=path,
        )
    try:
        return _decode(content, digest, dataset_id, parts, rows)
    except ValueError as error:
        raise FormatError(f"{path}: {error}") from error


def _decode(content: bytes, digest: str, dataset_id: bytes, parts: int, rows: int) -> Piece:
    if len(content) < _HEAD.size or not content.startswith(_MAGIC):
        raise ValueError("this is no list of parts of a UniRecord dataset")
    _, version, n, m, laid, gone, patched, said_rows, said_id, _ = _HEAD.unpack_from(content)
    if version != _VERSION:
        raise ValueError(
            f"it is of version {version}; this reader knows version {_VERSION}: upgrade unirecord"
        )
    before_patches = _HEAD.size + 64 * n + 56 * m + 44 * gone + 12 * laid
    patches_at = before_patches + 8 * patched
    sizes = np.frombuffer(content[before_patches + 4 * patched : patches_at], "<u4")
    if len(content) != patches_at + int(sizes.sum(dtype=np.uint64)) or len(sizes) != patched:
        raise ValueError("its length does not go with what it says")
    if (n, said_rows, said_id) != (parts, rows, dataset_id) or not 1 <= n <= _MOST_PARTS:
        raise ValueError(
            "it is of another dataset, or of other numbers of parts and rows, than the manifest says"
        )
    body = _Words(content, _HEAD.size)
    fields, files = body.fields(n, has_rows=True), body.fields(m, has_rows=False)
    if sum(fields.rows.tolist()) != rows:
        raise ValueError(f"its parts do not have the {many(rows, 'row')} that it says")
    deleted = _deleted(body, gone, fields)
    columns = _columns(body, laid, files, n)
    _add_patches(body, patched, columns, n)
    return Piece(digest, fields, rows, files, deleted, columns)


def _deleted(body: _Words, count: int, fields: PartFields) -> dict[int, DeletedRows]:
    rows, sizes = body.numbers(count, "deleted rows"), body.numbers(count, "bytes of deletions")
    digests, numbers, at = body.raw(_WIDE_BYTES * count), body.words(count), body.small(count)
    _check_ascending(at, len(fields.names))
    found = {}
    each = zip(at, rows.tolist(), sizes.tolist(), numbers.tolist(), strict=True)
    for place, (i, gone, size, number) in enumerate(each):
        of_part = int(fields.rows[i])
        if not 1 <= gone <= of_part or size > 8 * of_part + 64:
            raise ValueError(
                f"{many(gone, 'row')} cannot have been deleted of a part of {many(of_part, 'row')}"
            )
        if number >= _VERSIONS_END:
            raise ValueError("the version in the name of a file of deleted rows is none that a name may have")
        name = f"{fields.names[i]}.del-{number:06d}"
        digest = digests[place * _WIDE_BYTES : (place + 1) * _WIDE_BYTES]
        found[i] = DeletedRows(name, gone, size, digest.hex())
    return found


def _columns(body: _Words, count: int, files: PartFields, parts: int) -> dict[int, PartColumns]:
    at, layouts, counts = body.small(count), body.small(count), body.small(count)
    _check_ascending(at, parts)
    if sum(counts) != len(files.names) or max(counts, default=0) >= _MOST_FILES:
        raise ValueError("its column parts are not those of its parts")
    found, first = {}, 0
    for i, layout, of_part in zip(at, layouts, counts, strict=True):
        each = range(first, first + of_part)
        found[i] = PartColumns(layout, tuple(_column_file(files, file) for file in each))
        first += of_part
    return found


def _add_patches(body: _Words, count: int, columns: dict[int, PartColumns], parts: int) -> None:
    at, sizes = body.small(count), body.small(count)
    _check_ascending(at, parts)
    if not all(i in columns and 1 <= size <= MOST_BYTES for i, size in zip(at, sizes, strict=True)):
        raise ValueError("it has a patch of a part without a layout, or one that is too large")
    for i, size in zip(at, sizes, strict=True):
        columns[i] = replace(columns[i], patch=body.raw(size))


def _column_file(files: PartFields, i: int) -> ColumnFile:
    part_id = files.ids[i * _ID_BYTES : (i + 1) * _ID_BYTES]
    sizes = int(files.bytes[i]), int(files.index_bytes[i])
    content = files.contents[i * _WIDE_BYTES : (i + 1) * _WIDE_BYTES]
    return ColumnFile(files.names[i], part_id, *sizes, content.hex())


def _check_ascending(numbers: Sequence[int], end: int) -> None:
    if any(a >= b for a, b in pairwise(numbers)) or (numbers and numbers[-1] >= end):
        raise ValueError("what it says of some parts is not of parts in order")


# The whole list: pieces, and behind them the parts in the text of the manifest.


class PartList(Sequence[PartEntry]):
    """The parts of a manifest in order; what is in pieces is made an entry when it is asked for.

    So a hundred thousand are a few arrays, and no hundred thousand objects for Python to look after.
    """

    __slots__ = ("_fields", "_layouts", "_schema", "pieces", "starts", "tail")

    def __init__(
        self, pieces: Sequence[Piece], tail: Sequence[PartEntry], schema: str, layouts: Sequence[str]
    ) -> None:
        """``schema``: the digest of the dataset's schema; ``layouts``: those of the first file of each layout."""
        self.pieces, self.tail = tuple(pieces), tuple(tail)
        self.starts = [0, *accumulate(map(len, self.pieces))]
        self._schema, self._layouts = schema, tuple(layouts)
        self._fields: PartFields | None = None

    def __len__(self) -> int:
        return self.starts[-1] + len(self.tail)

    @overload
    def __getitem__(self, number: int) -> PartEntry: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[PartEntry, ...]: ...
    def __getitem__(self, number: int | slice) -> PartEntry | tuple[PartEntry, ...]:
        if isinstance(number, slice):
            return tuple(self[i] for i in range(*number.indices(len(self))))
        i = range(len(self))[number]
        if i >= self.starts[-1]:
            return self.tail[i - self.starts[-1]]
        piece = bisect_right(self.starts, i) - 1
        return self.pieces[piece].entry(i - self.starts[piece], self._schema, self._layouts)

    def __iter__(self) -> Iterator[PartEntry]:
        for piece in self.pieces:
            yield from self.entries(piece)
        yield from self.tail

    def entries(self, piece: Piece) -> list[PartEntry]:
        """The parts of a piece."""
        return [piece.entry(i, self._schema, self._layouts) for i in range(len(piece))]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (PartList, tuple)):
            return NotImplemented
        return len(self) == len(other) and all(map(PartEntry.__eq__, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(tuple(self))

    @property
    def rows(self) -> int:
        """Rows that are stored, those that have been deleted too."""
        return sum(piece.rows for piece in self.pieces) + sum(part.rows for part in self.tail)

    @property
    def deleted(self) -> int:
        """How many of them have been deleted."""
        in_pieces = sum(each.rows for piece in self.pieces for each in piece.deleted.values())
        return in_pieces + sum(part.deleted.rows for part in self.tail if part.deleted is not None)

    @property
    def patched(self) -> bool:
        """Whether a part has a patch."""
        of_pieces = (columns for piece in self.pieces for columns in piece.columns.values())
        return any(columns.patch for columns in of_pieces) or any(
            part.columns is not None and part.columns.patch for part in self.tail
        )

    @property
    def is_plain(self) -> bool:
        """Whether no row has been deleted, and each part has all columns in its own file."""
        in_pieces = all(not piece.deleted and not piece.columns for piece in self.pieces)
        return in_pieces and all(part.deleted is None and part.columns is None for part in self.tail)

    @property
    def fields(self) -> PartFields:
        """Those of all parts together."""
        if self._fields is None:
            every = [piece.fields for piece in self.pieces]
            if self.tail or not every:
                every.append(_fields_of(self.tail))
            self._fields = every[0] if len(every) == 1 else _joined(every)
        return self._fields


def part_list(parts: Sequence[PartEntry], schema: str, layouts: Sequence[str]) -> PartList:
    """The list as it is, or of entries that no piece has."""
    return parts if isinstance(parts, PartList) else PartList((), parts, schema, layouts)


def appended(parts: Sequence[PartEntry], more: Sequence[PartEntry]) -> Sequence[PartEntry]:
    """A list with more parts at its end; its pieces stay what they are."""
    if not isinstance(parts, PartList):
        return (*parts, *more)
    return PartList(parts.pieces, (*parts.tail, *more), parts._schema, parts._layouts)


def _fields_of(parts: Sequence[PartEntry | ColumnFile]) -> PartFields:
    rows = [part.rows if isinstance(part, PartEntry) else 0 for part in parts]
    return PartFields(
        tuple(part.name for part in parts),
        np.array([_number(part.name) for part in parts], np.uint64),
        b"".join(part.id for part in parts),
        np.array(rows, np.int64),
        np.array([part.bytes for part in parts], np.int64),
        np.array([part.index_bytes for part in parts], np.int64),
        bytes.fromhex("".join(part.content for part in parts)),
    )


def _joined(every: Sequence[PartFields]) -> PartFields:
    columns = list(zip(*every, strict=True))
    names, ids = tuple(name for each in columns[0] for name in each), b"".join(columns[2])
    numbers, rows, sizes, index_sizes = (np.concatenate(columns[i]) for i in (1, 3, 4, 5))
    contents = b"".join(columns[6])
    return PartFields(names, numbers, ids, rows, sizes, index_sizes, contents)


# What holds of all parts of a list together.


_MAX_ROWS: Final = 1 << 62  # of a set of parts: UR_MAX_ROWS of csrc


def check_list(parts: PartList, next_part: int, layouts: Sequence[int]) -> None:
    """ValueError where parts of a list do not go together; ``layouts``: how many files a part of each layout has."""
    if parts.rows > _MAX_ROWS:
        raise ValueError("its parts have more than 2^62 rows")
    more = [file for part in parts.tail if part.columns is not None for file in part.columns.files]
    size = sum(piece.data_bytes for piece in parts.pieces)
    if size + sum(part.bytes for part in parts.tail) + sum(file.bytes for file in more) > MOST:
        raise ValueError("its parts have 2^63 bytes or more")
    for piece in parts.pieces:
        if piece.highest >= next_part:
            raise ValueError(f"the number {piece.highest} in a name is not below next_part {next_part}")
        for layout, files in piece.layouts:
            if layout >= len(layouts) or files != layouts[layout] - 1:
                raise ValueError(
                    f"a part has {many(files, 'column part')} and layout {layout}, which is another"
                )
    every = [
        parts.fields,
        *(piece.files for piece in parts.pieces if len(piece.files.names)),
        _fields_of(more),
    ]
    _check_distinct(every)


def _check_distinct(every: Sequence[PartFields]) -> None:
    numbers = np.concatenate([fields.numbers for fields in every])
    count = len(numbers)
    if _has_twice(np.sort(numbers)):  # names may still differ
        names = {name for fields in every for name in fields.names}
        if len(names) != count:
            raise ValueError("two parts have the same name")
    ids = b"".join(fields.ids for fields in every)
    halves = np.frombuffer(ids, "<u8")[::2]
    if _has_twice(np.sort(halves)) and len(set(np.frombuffer(ids, "V16").tolist())) != count:
        raise ValueError("two parts have the same id")


def _has_twice(ascending: Numbers) -> bool:
    return bool((ascending[1:] == ascending[:-1]).any())


# How a list that is to be published is divided.


def in_pieces(
    parts: Sequence[PartEntry], known: Sequence[PartEntry], dataset_id: bytes, salt: int, about: PartList
) -> tuple[PartList, dict[str, bytes]]:
    """The list as it is published after ``known``, and the new pieces that are to be written before, by their names.

    What is at its end stays in the text of the manifest, up to `MOST_IN_TEXT` parts; when it is more, it goes into the
    last piece, written anew, where that has room, or else into one of its own. So a publication of few parts writes few
    parts, and at most one piece of `MOST_IN_PIECE`. Pieces of ``known`` that have their parts still stay as they are.
    ``about`` has the digests of schemas.
    """
    schema, layouts = about._schema, about._layouts
    chunks: list[Piece | list[PartEntry]] = (
        [*parts.pieces, list(parts.tail)] if isinstance(parts, PartList) else _matched(parts, known)
    )
    pieces = sum(isinstance(chunk, Piece) for chunk in chunks)
    if pieces > 16 + 2 * -(
        -len(parts) // MOST_IN_PIECE
    ):  # too many small ones, of what was taken out between them
        chunks = [list(parts)]
    last_chunk = chunks.pop() if chunks else []
    tail: list[PartEntry] = []
    if isinstance(last_chunk, Piece):
        chunks.append(last_chunk)
    else:
        tail = last_chunk
    if len(tail) > MOST_IN_TEXT:
        chunks.append(tail)
        tail = []
    found: list[Piece] = []
    made: dict[str, bytes] = {}
    for chunk in chunks:
        if isinstance(chunk, Piece):
            found.append(chunk)
            continue
        if found and len(found[-1]) + len(chunk) <= MOST_IN_PIECE:
            last = found.pop()
            made.pop(piece_name(last.digest), None)
            chunk = [*about.entries(last), *chunk]
        for first in range(0, len(chunk), MOST_IN_PIECE):
            some = chunk[first : first + MOST_IN_PIECE]
            content = encode_piece(some, dataset_id, salt)
            digest = xxh3_128(content).hex()
            made[piece_name(digest)] = content
            rows = sum(part.rows for part in some)
            found.append(decode_piece(content, digest, dataset_id, len(some), rows, piece_name(digest)))
    return PartList(found, tail, schema, layouts), made


def _matched(parts: Sequence[PartEntry], known: Sequence[PartEntry]) -> list[Piece | list[PartEntry]]:
    """The parts, as pieces of ``known`` where these have the same ones in a row."""
    pieces = (
        {}
        if not isinstance(known, PartList)
        else {piece.fields.ids[:_ID_BYTES]: piece for piece in known.pieces}
    )
    chunks: list[Piece | list[PartEntry]] = []
    i = 0
    while i < len(parts):
        piece = pieces.get(parts[i].id)
        if piece is not None and isinstance(known, PartList):
            some = parts[i : i + len(piece)]
            if list(some) == known.entries(piece):
                chunks.append(piece)
                i += len(piece)
                continue
        if not chunks or isinstance(chunks[-1], Piece):
            chunks.append([])
        chunks[-1].append(parts[i])  # type: ignore[union-attr]
        i += 1
    return chunks
