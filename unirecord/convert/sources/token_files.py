"""Files of tokens as records: Megatron's and datatrove's a row per document, and what says no documents in even rows.

None of the programs that write them is needed. Tokens lie behind each other in a file of their own; what stands beside
them, or in a header before them, is compared with its size before it is believed.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, BinaryIO, ClassVar, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ...errors import SchemaError
from ...format.schema import Schema
from ...progress import Progress
from ...sizes import format_size, many
from .input_path import InputPath
from .source import (
    AskedOption,
    FileReadahead,
    Options,
    RawBatch,
    Source,
    Unit,
    WrongSourceError,
    ranges,
    reduced,
)

__all__ = ["DatatroveFiles", "FlatTokens", "MegatronFiles"]


# What all of them share: rows of tokens by where each begins and how many it has, and numbers of an index in pieces.


Numbers = npt.NDArray[np.int64]

_UNIT_BYTES: Final = 16_000_000
_UNIT_ROWS: Final = 262_144
_MOST_BYTES: Final = 8_000_000  # of a batch
_MOST_ROWS: Final = 65_536
_PIECE: Final = 1 << 20  # numbers of an index that are looked at together


def _beside(file: InputPath, ending: str, instead: str = "") -> InputPath:
    """The file called like this one with an ending more, or with one ``instead`` of its own."""
    name, path = file.name.removesuffix(instead), file.path.removesuffix(instead)
    return InputPath(name + ending, path + ending, None, file.spool_bytes)


def _size(file: InputPath, of: InputPath) -> int:
    if not os.path.isfile(file.path):
        raise SchemaError(f"{file.name} does not exist, which {of.name} goes with")
    return file.size()


def _bytes(stream: BinaryIO, at: int, size: int, name: str) -> bytes:
    stream.seek(at)
    data = stream.read(size)
    if len(data) < size:
        raise SchemaError(f"{name} has become shorter")
    return data


def _numbers(stream: BinaryIO, at: int, dtype: str, count: int, name: str) -> Iterator[Numbers]:
    """Yield numbers of an index, a piece at a time; what int64 does not hold is negative."""
    kind = np.dtype(dtype)
    for first in range(0, count, _PIECE):
        size = min(_PIECE, count - first) * kind.itemsize
        yield np.frombuffer(_bytes(stream, at + first * kind.itemsize, size, name), kind).astype(np.int64)


def _units(name: str, number: int, lengths: Iterable[Numbers], width: int) -> Iterator[Unit]:
    """Cut the rows of a file into ranges, by how many tokens each has; places are the file's number and the first."""
    at = 0
    for piece in lengths:
        ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(piece * width)))
        for first, stop in ranges(ends, _UNIT_BYTES, most_rows=_UNIT_ROWS):
            yield Unit(f"{name}, rows from {at + first}", (number, at + first), stop - first)
        at += len(piece)


class _Cells(NamedTuple):
    """A column of arrays: the file, the type of its elements, and the byte at which each row begins."""

    file: InputPath
    dtype: np.dtype[Any]
    at: Numbers

    def read(self, stream: FileReadahead, rows: slice, lengths: Numbers, wanted: Any) -> list[Any]:
        """The arrays of rows of so many elements, as what is ``wanted`` where that is a wider type."""
        exact = wanted is not None and np.can_cast(self.dtype, wanted)
        given = wanted if exact and (wanted.kind == "f") == (self.dtype.kind == "f") else self.dtype
        found = []
        for at, size in zip(self.at[rows].tolist(), (lengths * self.dtype.itemsize).tolist(), strict=True):
            data = stream.at(at, size)
            if len(data) < size:
                raise SchemaError(f"{self.file.name} has become shorter")
            found.append(np.frombuffer(data, self.dtype).astype(given, copy=False))
        return found


def _batches(
    schema: Schema, lengths: Numbers, cells: Mapping[str, _Cells], scalars: Mapping[str, Any]
) -> Iterator[RawBatch]:
    """Yield rows of so many tokens, of the columns that the schema has."""
    width = sum(one.dtype.itemsize for one in cells.values())
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths * width)))
    wanted = {name: one for name, one in cells.items() if name in schema.names}
    streams = {name: one.file.open() for name, one in wanted.items()}
    try:
        ahead = {name: FileReadahead(stream, _MOST_BYTES) for name, stream in streams.items()}
        for first, stop in ranges(ends, _MOST_BYTES, most_rows=_MOST_ROWS):
            rows = slice(first, stop)
            columns: dict[str, Any] = {
                name: one.read(ahead[name], rows, lengths[rows], schema[name].dtype)
                for name, one in wanted.items()
            }
            columns |= {name: values[rows] for name, values in scalars.items() if name in schema.names}
            yield RawBatch(columns, stop - first)
    finally:
        for stream in streams.values():
            stream.close()


def _ragged(dtypes: Iterable[np.dtype[Any]], **said: Any) -> dict[str, Any]:
    """The type of a column of tokens: of several the widest."""
    return {"type": np.result_type(*dtypes).newbyteorder("<").name, "shape": [-1], **said}


# Megatron's indexed datasets: a .bin of tokens, and a .idx that says where each sequence lies.


_INDEXED: Final = b"MMIDIDX\0\0"
_INDEX_HEAD: Final = struct.Struct("<9sQBQQ")  # mark, version, type, sequences, bounds of documents
_INDEXED_TYPES: Final = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 6: "<f8", 7: "<f4", 8: "<u2"}


@dataclass
class _Indexed:
    """An index and what it is of; ``first_document``: how many documents the files before have."""

    index: InputPath
    data: InputPath
    dtype: np.dtype[Any]
    sequences: int
    bounds: int
    has_modes: bool
    first_document: int
    single: bool = True  # each document is one sequence

    @property
    def bounds_at(self) -> int:
        """Where the bounds of the documents begin, behind lengths (int32) and places (int64) of the sequences."""
        return _INDEX_HEAD.size + 12 * self.sequences


class MegatronFiles(Source):
    """Indexed datasets of Megatron: a row per sequence, with the number of its document where that is another one."""

    kind: ClassVar[str] = "megatron"
    about: ClassVar[str] = "Megatron's indexed datasets (.bin with .idx)"
    suffixes: ClassVar[tuple[str, ...]] = (".idx",)
    reads: ClassVar[str] = "a .idx or .bin, or a folder of them"

    @classmethod
    def recognises(cls, source: InputPath) -> bool:
        """By the first bytes of the index."""
        if source.is_folder and not source.holds(cls.suffixes):
            return False
        return any(index.head(len(_INDEXED)) == _INDEXED for index in cls._indexes(source)[:1])

    @classmethod
    def _indexes(cls, source: InputPath) -> list[InputPath]:
        """The indexes of the files, whether these are named or their tokens."""
        found: dict[str, InputPath] = {}
        if not source.is_elsewhere:
            for file in source.files(cls.suffixes):
                index = file if file.name.endswith(".idx") else _beside(file, ".idx", instead=".bin")
                found.setdefault(index.path, index)
        return list(found.values())

    def files(self) -> Iterable[str]:
        """Both files of each."""
        return (path for one in self._files for path in (one.index.path, one.data.path))

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Read the indexes."""
        self._files: list[_Indexed] = []
        self.units: list[Unit] = []
        indexes = self._indexes(self.input)
        for index in indexes:
            _size(index, self.input)
        documents = 0
        for number, index in self.each_file(indexes, progress):
            with index.open() as stream:
                one = self._head(index, stream, documents)
                self._files.append(one)
                units = list(_units(one.data.name, number, self._lengths(one, stream), one.dtype.itemsize))
                self._check_documents(one, stream)
                if not one.single:
                    units = _with_documents(units, one, stream)
            self.units += units
            documents += one.bounds - 1
        if not self._files:
            raise SchemaError(f"{self.path} holds no .idx")
        if len({one.has_modes for one in self._files}) > 1:
            raise SchemaError(
                f"{self.path}: some of its files have modes (multimodal), and others have none; "
                "write them to datasets of their own"
            )
        types: dict[str, Any] = {"tokens": _ragged(one.dtype for one in self._files)}
        if not all(one.single for one in self._files):
            types["document"] = "int64"
        if self._files[0].has_modes:
            types["mode"] = "int8"
        self.schema: Schema = options.schema(types)

    def _head(self, index: InputPath, stream: BinaryIO, first_document: int) -> _Indexed:
        size = stream.seek(0, 2)
        stream.seek(0)
        head = stream.read(_INDEX_HEAD.size)
        if len(head) < _INDEX_HEAD.size or not head.startswith(_INDEXED):
            raise SchemaError(f"{index.name} is no index of Megatron: its first bytes are no header")
        _, version, code, sequences, bounds = _INDEX_HEAD.unpack(head)
        if version != 1 or code not in _INDEXED_TYPES:
            raise SchemaError(
                f"{index.name} is an index of Megatron of version {version} and type {code}, which are not known"
            )
        wanted = _INDEX_HEAD.size + 12 * sequences + 8 * bounds
        if not bounds or size not in (wanted, wanted + sequences):
            raise SchemaError(
                f"{index.name} is cut off or damaged: it has {many(size, 'byte')}, but {many(sequences, 'sequence')} "
                f"and {many(bounds, 'bound')} of documents take {wanted:,}"
            )
        return _Indexed(
            index, _beside(index, ".bin", instead=".idx"), np.dtype(_INDEXED_TYPES[code]), sequences, bounds,
            size != wanted, first_document,
        )  # fmt: skip

    def _lengths(self, one: _Indexed, stream: BinaryIO) -> Iterator[Numbers]:
        """Yield how many tokens sequences have, when their places have been looked at."""
        size, width, taken = _size(one.data, one.index), one.dtype.itemsize, 0
        name, behind = one.index.name, _INDEX_HEAD.size + 4 * one.sequences
        for first in range(0, one.sequences, _PIECE):
            count = min(_PIECE, one.sequences - first)
            (lengths,) = _numbers(stream, _INDEX_HEAD.size + 4 * first, "<i4", count, name)
            (at,) = _numbers(stream, behind + 8 * first, "<i8", count, name)
            wrong = (lengths < 0) | (at < 0) | (at % width != 0) | (at > size - lengths * width)
            if wrong.any():
                row = int(np.flatnonzero(wrong)[0])
                raise SchemaError(
                    f"{one.data.name} is cut off, or {name} is damaged: {many(int(lengths[row]), 'token')} of sequence "
                    f"{first + row} at byte {at[row]:,}, of {many(size, 'byte')}"
                )
            taken += int(lengths.sum()) * width
            yield lengths
        if taken > size:
            raise SchemaError(
                f"{name} is damaged: its sequences have {many(taken, 'byte')}, and {one.data.name} has {size:,}"
            )
        if taken < size:
            self.left_out.append(
                reduced(f"{format_size(size - taken)} of {one.data.name}", "left out: of no sequence")
            )

    def _check_documents(self, one: _Indexed, stream: BinaryIO) -> None:
        """See whether each document is one sequence; documents that have none are said."""
        before, empty, seen = -1, 0, 0
        for bounds in _numbers(stream, one.bounds_at, "<i8", one.bounds, one.index.name):
            steps = np.diff(bounds, prepend=before)
            if (before < 0 and bounds[0] != 0) or (steps < 0).any():
                raise SchemaError(f"{one.index.name} is damaged: its documents do not follow each other")
            empty += int(np.count_nonzero(steps == 0))
            one.single = one.single and np.array_equal(bounds, np.arange(seen, seen + len(bounds)))
            before, seen = int(bounds[-1]), seen + len(bounds)
        if before != one.sequences:
            raise SchemaError(
                f"{one.index.name} is damaged: its documents end at sequence {before:,} of {one.sequences:,}"
            )
        if empty:
            self.left_out.append(
                reduced(f"documents of {one.data.name}", "left out: they have no sequence", empty)
            )

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield a range of sequences."""
        number, first, *behind = unit.place
        one, rows = self._files[number], unit.rows or 0
        name, lengths_at = one.index.name, _INDEX_HEAD.size
        with one.index.open() as stream:
            (lengths,) = _numbers(stream, lengths_at + 4 * first, "<i4", rows, name)
            (at,) = _numbers(stream, lengths_at + 4 * one.sequences + 8 * first, "<i8", rows, name)
            documents = np.arange(first, first + rows)
            if behind:
                documents = _bounds_before(documents, one, stream, *behind) - 1
            scalars: dict[str, Any] = {"document": one.first_document + documents}
            if one.has_modes:
                modes = _bytes(stream, one.bounds_at + 8 * one.bounds + first, rows, name)
                scalars["mode"] = np.frombuffer(modes, np.int8)
        yield from _batches(self.schema, lengths, {"tokens": _Cells(one.data, one.dtype, at)}, scalars)


def _bounds_before(rows: Numbers, one: _Indexed, stream: BinaryIO, start: int, stop: int) -> Numbers:
    """How many bounds of documents are at or before each sequence: at least ``start``, and at most ``stop``."""
    found = np.full(len(rows), start, np.int64)
    for bounds in _numbers(stream, one.bounds_at + 8 * start, "<i8", stop - start, one.index.name):
        found += np.searchsorted(bounds, rows, "right")
    return found


def _with_documents(units: Sequence[Unit], one: _Indexed, stream: BinaryIO) -> list[Unit]:
    """The units with the bounds of documents that lie before each and before its end."""
    edges = np.array([*(unit.place[1] for unit in units), one.sequences], np.int64)
    counts = _bounds_before(edges, one, stream, 0, one.bounds).tolist()
    return [
        Unit(unit.name, (*unit.place, start, stop), unit.rows)
        for unit, (start, stop) in zip(units, pairwise(counts), strict=True)
    ]


# datatrove's tokenised files: .ds of tokens, .ds.index of where documents end, .ds.metadata, .ds.loss.


_MOST_METADATA: Final = 65_536


@dataclass
class _Tokenised:
    """A file with its index; ``loss``: a byte for each token."""

    data: InputPath
    index: InputPath
    dtype: np.dtype[Any]
    loss: InputPath | None


class DatatroveFiles(Source):
    """What datatrove's tokeniser writes: a row per document, with ``loss`` where that was kept."""

    kind: ClassVar[str] = "datatrove"
    about: ClassVar[str] = "datatrove's tokenised files (.ds)"
    suffixes: ClassVar[tuple[str, ...]] = (".ds",)
    takes_folders: ClassVar[bool] = True

    def files(self) -> Iterable[str]:
        """The files of tokens, their indexes, and losses."""
        return (
            file.path for one in self._files for file in (one.data, one.index, one.loss) if file is not None
        )

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Read the indexes."""
        self._files: list[_Tokenised] = []
        self.units: list[Unit] = []
        tokenizers: dict[str, str] = {}
        files = [file for file in self.files_to_read() if self.input.is_file or file.suffix == ".ds"]
        for number, file in self.each_file(files, progress):
            self._look_through_file(file, number, tokenizers)
        if not self._files:
            raise SchemaError(f"{self.path} holds no .ds")
        if len(tokenizers) > 1:
            (one, here), (other, there) = list(tokenizers.items())[:2]
            raise SchemaError(
                f"{here} is of the tokenizer {one!r}, and {there} of {other!r}; write them to datasets of their own"
            )
        if len({one.loss is None for one in self._files}) > 1:
            raise SchemaError(
                f"{self.path}: some of its files have a .ds.loss beside them, and others have none"
            )
        said = {"annotations": {"tokenizer": next(iter(tokenizers))}} if tokenizers else {}
        types: dict[str, Any] = {"tokens": _ragged((one.dtype for one in self._files), **said)}
        if self._files[0].loss is not None:
            types["loss"] = {"type": "uint8", "shape": [-1]}
        self.schema: Schema = options.schema(types)

    def _look_through_file(self, data: InputPath, number: int, tokenizers: dict[str, str]) -> None:
        index = _beside(data, ".index")
        size, index_size = data.size(), _size(index, data)
        if index_size % 8:
            raise SchemaError(
                f"{index.name} is cut off: {many(index_size, 'byte', 'are')} no whole number of ends"
            )
        with index.open() as stream:
            last = _bytes(stream, max(index_size - 8, 0), min(index_size, 8), index.name)
            tokens = int.from_bytes(last, "little")
            width = size // tokens if tokens else 2
            if width not in (2, 4) or size != tokens * width:
                raise SchemaError(
                    f"{data.name} has {many(size, 'byte')}, but its documents end after {many(tokens, 'token')} "
                    f"of 2 or 4 bytes ({index.name}): one of them is cut off or damaged"
                )
            self.units += _units(data.name, number, self._lengths(index, stream, index_size // 8), width)
        tokenizer = _tokenizer(_beside(data, ".metadata"), tokens, width)
        if tokenizer is not None:
            tokenizers.setdefault(tokenizer, data.name)
        loss = _beside(data, ".loss")
        if not os.path.isfile(loss.path):
            self._files.append(_Tokenised(data, index, np.dtype(f"<u{width}"), None))
            return
        if loss.size() != tokens:
            raise SchemaError(
                f"{loss.name} has {many(loss.size(), 'byte')}, and {data.name} {many(tokens, 'token')}"
            )
        self._files.append(_Tokenised(data, index, np.dtype(f"<u{width}"), loss))

    def _lengths(self, index: InputPath, stream: BinaryIO, documents: int) -> Iterator[Numbers]:
        before = 0
        for ends in _numbers(stream, 0, "<u8", documents, index.name):
            lengths = np.diff(ends, prepend=before)
            if (ends < before).any() or (lengths < 0).any():
                raise SchemaError(f"{index.name} is damaged: its documents do not follow each other")
            yield lengths
            before = int(ends[-1])

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield a range of documents."""
        number, first = unit.place
        one, rows = self._files[number], unit.rows or 0
        with one.index.open() as stream:
            before = max(first - 1, 0)
            ends = np.concatenate(
                list(_numbers(stream, 8 * before, "<u8", first + rows - before, one.index.name))
            )
        if not first:
            ends = np.concatenate((np.zeros(1, np.int64), ends))
        starts, lengths = ends[:-1], np.diff(ends)
        cells = {"tokens": _Cells(one.data, one.dtype, starts * one.dtype.itemsize)}
        if one.loss is not None:
            cells["loss"] = _Cells(one.loss, np.dtype(np.uint8), starts)
        yield from _batches(self.schema, lengths, cells, {})


def _tokenizer(metadata: InputPath, tokens: int, width: int) -> str | None:
    """The name that stands in a file beside the tokens, where there is one, and agrees with them."""
    if not os.path.isfile(metadata.path):
        return None
    try:
        lines = metadata.head(_MOST_METADATA).decode().split("\n")
        name, mark, token_size = lines[0].rpartition("|")
        said = int(lines[1]), int(token_size) if mark else width
    except (ValueError, IndexError):
        raise SchemaError(
            f"{metadata.name} is no metadata of datatrove: its lines are no `tokenizer|bytes of a token` and a number"
        ) from None
    if said != (tokens, width):
        raise SchemaError(
            f"{metadata.name} says {many(said[0], 'token')} of {many(said[1], 'byte')}, "
            f"but there are {tokens:,} of {width}"
        )
    return (name if mark else lines[0]) or None


# Tokens without documents: bare numbers, or behind a header of lit-gpt's or of llm.c's (modded-nanoGPT writes that).


_PACKED: Final = b"LITPKDS"
_PACKED_HEAD: Final = struct.Struct("<7sQBQ")  # mark, version, type, tokens of a chunk
_PACKED_TYPES: Final = {**_INDEXED_TYPES, 6: "<f4", 7: "<f8"}
_LLM_C: Final = struct.Struct("<3i")  # mark, version, tokens; zeros follow
_LLM_C_BYTES: Final = 1_024
_LLM_C_TYPES: Final = {(20240520, 1): "<u2", (20240801, 7): "<u4"}
_TYPES: Final = ("uint8", "uint16", "uint32", "int8", "int16", "int32", "int64")
_ROW_TOKENS: Final = 8_192


@dataclass
class _Flat:
    file: InputPath
    dtype: np.dtype[Any]
    start: int
    tokens: int


class FlatTokens(Source):
    """Tokens one behind the other (nanoGPT, lit-gpt, llm.c). Rows are stretches of one length, shorter at the end."""

    kind: ClassVar[str] = "tokens"
    about: ClassVar[str] = "flat files of tokens (.bin)"
    suffixes: ClassVar[tuple[str, ...]] = (".bin",)
    first_bytes: ClassVar[bytes] = _PACKED
    any_folder: ClassVar[bool] = True
    options: ClassVar[tuple[AskedOption, ...]] = (
        AskedOption("dtype", "the type of the tokens, where the files do not say it", "uint16"),
        AskedOption("header", "bytes before the tokens, where the files do not say it (default: 0)", "BYTES"),
        AskedOption("row_tokens", f"tokens of a row (default: {_ROW_TOKENS:,}); windows cross rows", "N"),
    )

    @classmethod
    def recognises(cls, source: InputPath) -> bool:
        """By the name of a file; of a folder, whose ``.bin`` may be anything, by the header of the first one."""
        if not source.is_folder:
            return source.holds_only(cls.suffixes) or super().recognises(source)
        if not source.holds_only(cls.suffixes) or not (files := source.files(cls.suffixes)):
            return False
        head = files[0].head(_LLM_C_BYTES)
        return head.startswith(_PACKED) or (
            len(head) == _LLM_C_BYTES and _LLM_C.unpack_from(head)[:2] in _LLM_C_TYPES
        )

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Read the headers."""
        self._row = _number(options, "row_tokens", _ROW_TOKENS, 1)
        self._files: list[_Flat] = []
        self.units: list[Unit] = []
        for number, file in self.each_file(self.files_to_read(), progress):
            one = _flat(file, options)
            self._files.append(one)
            step = self._row * max(1, _UNIT_BYTES // (self._row * one.dtype.itemsize))
            self.units += [
                Unit(
                    f"{file.name}, tokens from {first}",
                    (number, first),
                    -(-min(step, one.tokens - first) // self._row),
                )
                for first in range(0, one.tokens, step)
            ]
        if not self.units:
            raise SchemaError(f"{self.path} holds no tokens")
        self.schema: Schema = options.schema({"tokens": _ragged(one.dtype for one in self._files)})

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield a stretch of tokens."""
        number, first = unit.place
        one = self._files[number]
        begins = first + self._row * np.arange(unit.rows or 0, dtype=np.int64)
        lengths = np.minimum(self._row, one.tokens - begins)
        cells = {"tokens": _Cells(one.file, one.dtype, one.start + begins * one.dtype.itemsize)}
        yield from _batches(self.schema, lengths, cells, {})


def _flat(file: InputPath, options: Options) -> _Flat:
    with file.open() as stream:
        size = stream.seek(0, 2)
        stream.seek(0)
        head = stream.read(_LLM_C_BYTES)
    asked = options.get("dtype")
    if asked is not None and asked not in _TYPES:
        raise WrongSourceError(f"--dtype is one of {', '.join(_TYPES)}, got {asked!r}")
    found = _headed(file.name, head, size)
    if found is not None:
        dtype, start = found
        if asked not in (None, dtype.name) or _number(options, "header", start) != start:
            raise WrongSourceError(
                f"{file.name} says itself that its tokens are {dtype.name} behind {many(start, 'byte')}; "
                "leave --dtype and --header out"
            )
    elif asked is None:
        raise WrongSourceError(
            f"{file.name} does not say the type of its tokens: say it with --dtype ({_TYPES[1]} in nanoGPT), "
            "and with --header how many bytes stand before them, if any do"
        )
    else:
        dtype, start = np.dtype(asked).newbyteorder("<"), _number(options, "header", 0)
    tokens, rest = divmod(size - start, dtype.itemsize)
    if size < start or rest:
        raise SchemaError(
            f"{file.name} is cut off, or its tokens are of another type: {many(size, 'byte')} are no whole number of "
            f"{dtype.name} behind {many(start, 'byte')}"
        )
    return _Flat(file, dtype, start, tokens)


def _headed(name: str, head: bytes, size: int) -> tuple[np.dtype[Any], int] | None:
    """The type that a header says, and its size; None of a file without one."""
    if head.startswith(_PACKED):
        _, version, code, chunk = _PACKED_HEAD.unpack(
            head[: _PACKED_HEAD.size].ljust(_PACKED_HEAD.size, b"\0")
        )
        if version != 1 or code not in _PACKED_TYPES or not chunk:
            raise SchemaError(
                f"{name} is a packed file of lit-gpt that is damaged, or of another version (version {version}, "
                f"type {code}, {many(chunk, 'token')} of a chunk)"
            )
        dtype = np.dtype(_PACKED_TYPES[code])
        if (size - _PACKED_HEAD.size) % (chunk * dtype.itemsize):
            raise SchemaError(
                f"{name} is cut off: {many(size, 'byte')} are no whole number of chunks of {many(chunk, 'token')}"
            )
        return dtype, _PACKED_HEAD.size
    if len(head) == _LLM_C_BYTES:
        mark, version, tokens = _LLM_C.unpack_from(head)
        if (mark, version) in _LLM_C_TYPES:
            dtype = np.dtype(_LLM_C_TYPES[mark, version])
            if size != _LLM_C_BYTES + tokens * dtype.itemsize:
                raise SchemaError(
                    f"{name} is cut off or damaged: its header says {many(tokens, 'token')} of {dtype.name}, and it "
                    f"has {many(size, 'byte')}"
                )
            return dtype, _LLM_C_BYTES
    return None


def _number(options: Options, name: str, default: int, least: int = 0) -> int:
    """An option that is a whole number."""
    said = options.get(name, default)
    text = str(said)
    if isinstance(said, bool) or not (text.isascii() and text.isdigit()) or not least <= int(text) <= 1 << 40:
        raise WrongSourceError(
            f"--{name.replace('_', '-')} is a whole number of at least {least}, got {said!r}"
        )
    return int(text)
