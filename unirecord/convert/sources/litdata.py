"""LitData's chunks as records: the items of a folder that `optimize` wrote, also compressed."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, BinaryIO, ClassVar, Final, NamedTuple

import numpy as np

from ...errors import SchemaError
from ...format.schema import Schema
from ...progress import Progress
from .base import Options, RawBatch, Source, Unit, column_names
from .input_path import InputPath
from .json_file import json_object
from .litdata_values import LitDataLeaf
from .overrides import apply_overrides
from .packages import needed
from .packed_rows import add_cells, cut_cells, ranges

__all__ = ["LitDataChunks"]

_INDEX: Final = "index.json"
_LOADERS: Final = (None, "PyTreeLoader", "TokensLoader")
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
# litdata.streaming.framed_zstd: groups of items, each compressed by itself.
_FRAMED: Final = b"LDFZ01\0\0"
_PREFIX: Final = struct.Struct("<8sHHIII")
_FRAME: Final = struct.Struct("<IIQII")
_MOST_FRAME: Final = 1_000_000_000  # bytes of a group, decompressed
_UNIT_BYTES: Final = 32_000_000
_SAMPLE_ITEMS: Final = 500
_MOST_DEPTH: Final = 32


class _Piece(NamedTuple):
    """Some items of a chunk: where their bytes lie, and where each begins in them (the last: ends)."""

    at: int
    size: int
    unpacked: int | None  # bytes when decompressed; None: they are as they are
    ends: Any


class LitDataChunks(Source):
    """A folder with ``index.json`` and chunks. The leaves of an item are columns, called by where they are in it."""

    units: Sequence[Unit]
    schema: Schema

    notes: list[str]

    kind: ClassVar[str] = "litdata"
    about: ClassVar[str] = "LitData chunks"
    reads: ClassVar[str] = "a folder"

    @classmethod
    def recognises(cls, source: InputPath) -> bool:
        """By its index."""
        return cls.can_read(source)

    @classmethod
    def can_read(cls, source: InputPath) -> bool:
        """A folder with an index of chunks."""
        path = os.path.join(source.path, _INDEX)
        if not source.is_folder or not os.path.isfile(path):
            return False
        return InputPath(path, path).head(64).replace(b" ", b"").lstrip().startswith(b'{"chunks":')

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Read the index, where the items of all chunks lie, and the first of each."""
        name = os.path.join(self.path, _INDEX)
        said = json_object(InputPath(name, os.path.join(self.input.path, _INDEX)))
        config, chunks = said.get("config"), said.get("chunks")
        if not isinstance(config, dict) or not isinstance(chunks, list) or not chunks:
            raise SchemaError(f"{name} is no index of LitData chunks: it lists none")
        self._read_config(name, config)
        self._files = [self._file(name, one) for one in chunks]
        self.units = []
        row = looked = 0
        for number, (file, one) in enumerate(zip(self._files, chunks, strict=True)):
            file.packed = file.head(4) == _ZSTD
            with file.open() as stream:
                pieces = self._pieces(stream, file.name)
                many = sum(len(piece.ends) - 1 for piece in pieces)
                if not self._bare and many != one.get("chunk_size"):
                    raise SchemaError(
                        f"{file.name} holds {many:,} items, but its index says {one.get('chunk_size')}"
                    )
                looked += self._look(stream, file.name, pieces, row)
            first = 0
            for i, piece in enumerate(pieces):
                rows = len(piece.ends) - 1
                self.units.append(Unit(f"{file.name}, items from {first}", (number, i, first), rows))
                first += rows
            row += many
            file.release()
            if progress is not None:
                progress(number + 1, len(self._files))
        names, changed = column_names([leaf.name for leaf in self._leaves], self.path)
        self.left_out += changed
        self._by_column = {column: i for i, column in enumerate(names)}
        if looked < row and any(leaf.is_array for leaf in self._leaves):
            self.notes.append(f"the types are those of {looked:,} items; --schema replaces them")
        kept = [leaf.name for leaf in self._leaves if leaf.kind in ("pickle", "graph")]
        if kept:
            self.notes.append(f"{', '.join(kept)}: pickles, written as they are")
        types = {column: self._leaves[i].spec() for column, i in self._by_column.items()}
        self.schema = apply_overrides(types, options.overrides)

    def _read_config(self, name: str, config: dict[str, Any]) -> None:
        loader, formats = config.get("item_loader"), config.get("data_format")
        if config.get("encryption"):
            raise SchemaError(f"{self.path} is encrypted, which is not read")
        if loader not in _LOADERS or config.get("compression") not in (None, "zstd"):
            raise SchemaError(
                f"{name}: chunks of {loader}, compressed by {config.get('compression')}; those of PyTreeLoader and "
                f"TokensLoader are read, as they are or by zstd"
            )
        if not isinstance(formats, list) or not formats or not all(isinstance(one, str) for one in formats):
            raise SchemaError(f"{name} does not say of what the items are made")
        self._bare = loader == "TokensLoader"  # an item is its only leaf, without its size
        paths = _leaf_names(config.get("data_spec"))
        if len(paths) != len(formats):
            paths = [f"column_{i}" for i in range(len(formats))] if len(formats) > 1 else ["value"]
        self._leaves = [LitDataLeaf(leaf, form) for leaf, form in zip(paths, formats, strict=True)]
        if self._bare and len(formats) > 1:
            raise SchemaError(f"{name}: items of tokens have one part, not {len(formats)}")

    def _file(self, index: str, said: Any) -> InputPath:
        name = said.get("filename") if isinstance(said, dict) else None
        if not isinstance(name, str) or not name or os.path.basename(name) != name:
            raise SchemaError(f"{index}: a chunk is called {name!r}, which is no file of the folder")
        path = os.path.join(self.input.path, name)
        if not os.path.isfile(path):
            raise SchemaError(f"{os.path.join(self.path, name)} is missing, which {_INDEX} lists")
        return InputPath(os.path.join(self.path, name), path)

    def _pieces(self, stream: BinaryIO, name: str) -> list[_Piece]:
        """The pieces of a chunk that are read at once."""
        size = stream.seek(0, 2)
        stream.seek(0)
        head = stream.read(_PREFIX.size)
        if head[:8] == _FRAMED and len(head) == _PREFIX.size:
            return self._frames(stream, name, size, *_PREFIX.unpack(head)[3:])
        many = int.from_bytes(head[:4], "little")
        if len(head) < 8 or 4 * (many + 2) > size:
            raise SchemaError(f"{name} is no LitData chunk, or is cut off: {size:,} bytes")
        stream.seek(4)
        ends = np.frombuffer(stream.read(4 * (many + 1)), "<u4").astype(np.int64)
        if ends[0] < 4 * (many + 2) or (np.diff(ends) < 0).any() or ends[-1] > size:
            raise SchemaError(
                f"{name} is damaged or cut off: its items do not follow each other in {size:,} bytes"
            )
        pieces = []
        for first, stop in ranges(ends, _UNIT_BYTES):
            start, end = int(ends[first]), int(ends[stop])
            pieces.append(_Piece(start, end - start, None, ends[first : stop + 1] - start))
        return pieces

    def _frames(
        self, stream: BinaryIO, name: str, size: int, many: int, _rows: int, frames: int
    ) -> list[_Piece]:
        tables = 4 * (many + 1) + _FRAME.size * frames
        if _PREFIX.size + tables > size:
            raise SchemaError(f"{name} is cut off in the list of its items")
        data = stream.read(tables)
        ends = np.frombuffer(data, "<u4", many + 1).astype(np.int64)
        pieces, row = [], 0
        for first, rows, at, packed, unpacked in _FRAME.iter_unpack(data[4 * (many + 1) :]):
            own = ends[first : first + rows + 1] - ends[min(first, many)]
            fits = first == row and len(own) == rows + 1 and at + packed <= size and unpacked <= _MOST_FRAME
            if not fits or (np.diff(own) < 0).any() or own[-1] != unpacked:
                raise SchemaError(f"{name} is damaged or cut off: its items do not follow each other")
            pieces.append(_Piece(at, packed, unpacked, own))
            row += rows
        if row != many:
            raise SchemaError(f"{name} is damaged: {row:,} of {many:,} items have a place")
        return pieces

    def _items(self, stream: BinaryIO, name: str, piece: _Piece) -> Iterator[memoryview]:
        stream.seek(piece.at)
        data = stream.read(piece.size)
        if piece.unpacked is not None:
            zstd = needed("zstandard", "a compressed LitData chunk")
            try:
                if zstd.frame_content_size(data) not in (-1, piece.unpacked):  # which it would believe
                    raise SchemaError(f"{name} is damaged: a group of items says another size than its list")
                data = zstd.ZstdDecompressor().decompress(data, max_output_size=max(piece.unpacked, 1))
            except zstd.ZstdError as error:
                raise SchemaError(f"{name} is damaged: {error}") from None
        if len(data) != int(piece.ends[-1]):
            raise SchemaError(f"{name} is damaged: {len(data):,} bytes where {piece.ends[-1]:,} were said")
        view = memoryview(data)
        for start, end in pairwise(piece.ends.tolist()):
            yield view[start:end]

    def _cells(self, item: memoryview, where: str) -> list[memoryview]:
        """The leaves of an item, behind the sizes of all."""
        if self._bare:
            return [item]
        return cut_cells(item, [None] * len(self._leaves), where)

    def _look(self, stream: BinaryIO, name: str, pieces: list[_Piece], row: int) -> int:
        """Take the first items of a chunk into account, and return how many."""
        for i, item in enumerate(self._items(stream, name, pieces[0]) if pieces else ()):
            if i >= _SAMPLE_ITEMS:
                return i
            where = f"{name}, item {i}"
            add_cells(self._leaves, self._cells(item, where), row + i, where)
        return len(pieces[0].ends) - 1 if pieces else 0

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield the items of a piece of a chunk."""
        number, i, first = unit.place
        file = self._files[number]
        columns: dict[str, list[Any]] = {name: [] for name in self.schema.names}
        rows = 0
        with file.open() as stream:
            for item in self._items(stream, file.name, self._pieces(stream, file.name)[i]):
                where = f"{file.name}, item {first + rows}"
                cells = self._cells(item, where)
                for column in self.schema:
                    place = self._by_column[column.name]
                    try:
                        value = self._leaves[place].value(cells[place], column)
                    except ValueError as error:
                        raise SchemaError(f"{where}, column {self._leaves[place].name!r}: {error}") from None
                    columns[column.name].append(value)
                rows += 1
        yield RawBatch(columns, rows)


def _leaf_names(text: Any) -> list[str]:
    """The place of each leaf in an item, from what PyTorch's pytree writes of it; none where it says something else."""

    def names(spec: Any, path: tuple[str, ...]) -> Iterator[str]:
        kind, children = spec["type"], spec["children_spec"]
        if kind is None:
            yield "_".join(path) or "value"
            return
        if len(path) > _MOST_DEPTH:
            raise ValueError
        keys = json.loads(spec["context"]) if "Dict" in kind or kind == "builtins.dict" else None
        if not isinstance(keys, list):
            keys = [f"{'' if path else 'column_'}{i}" for i in range(len(children))]
        for key, child in zip(keys, children, strict=True):
            yield from names(child, (*path, str(key)))

    try:
        version, spec = json.loads(text)
        return list(names(spec, ())) if version == 1 else []
    except (ValueError, TypeError, KeyError, RecursionError):
        return []
