"""WebDataset shards as records: files of one name in a tar archive are one row, their endings its columns."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import numpy as np

from ...errors import SchemaError
from ...format.column import Column
from ...format.schema import Schema
from ...progress import Progress
from ...sizes import many
from ...writing.inference import ColumnEvidence, text_type
from .input_path import InputPath
from .media_types import file_type, media_type
from .npy_files import npy_array
from .source import (
    FileReadahead,
    LeftOut,
    Misfit,
    Options,
    RawBatch,
    Source,
    Unit,
    column_names,
    row_batches,
)
from .tar_members import Member, tar_members
from .text_values import parse_json, utf8, value_of_none

__all__ = ["WebDatasetShards"]

_KEY: Final = re.compile(r"^((?:.*/|)[^.]+)[.]([^/]*)$", re.DOTALL)
_META: Final = re.compile(r"__[^/]*__(?:$|/)")
_UNIT_BYTES: Final = 32_000_000
_BATCH_BYTES: Final = 8_000_000
_PIECE_BYTES: Final = 8 << 20  # read at a time
_HEADER_BYTES: Final = 4_096  # likewise, where only headers are looked at
_BATCH_ROWS: Final = 4_096
_SAMPLE_ROWS: Final = 500
_NUMBERS: Final = ("cls", "cls2", "index", "inx", "id", "count")
_TEXTS: Final = ("txt", "text", "transcript", "caption")
_KEY_COLUMN: Final = "key"


class WebDatasetShards(Source):
    """Tar archives in which neighbours with one name up to its first dot are one row.

    ``cls``, ``id`` and ``index`` hold integers, ``txt`` text, ``json`` objects, ``npy`` arrays; all else is bytes, and
    nothing is unpickled.
    """

    kind: ClassVar[str] = "webdataset"
    reads_ahead = True
    about: ClassVar[str] = "WebDataset shards"
    suffixes: ClassVar[tuple[str, ...]] = (".tar",)

    @classmethod
    def recognises(cls, source: InputPath) -> bool:
        """By the names, or by the first header."""
        return source.holds((*cls.suffixes, ".tgz")) or source.head(262)[257:262] == b"ustar"

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Go through the headers of all archives, and the content of the first rows of each."""
        self._files = self.input.files((*self.suffixes, ".tgz"))
        self._growing: list[list[int]] = []
        endings: dict[str, _Ending] = {}
        rows = looked = 0
        for number, file in self.each_file(self._files, progress):
            file.packed = file.packed or file.name.lower().endswith(".tgz")
            looked_here = 0
            with file.open() as stream:
                ahead = FileReadahead(stream, _HEADER_BYTES)
                for sample in self._samples(number, file.name, ahead):
                    look = looked_here < _SAMPLE_ROWS
                    looked_here += look
                    self._count(sample, endings, look, ahead, rows)
                    rows += 1
            looked += looked_here
        self.units: Sequence[Unit] = [
            Unit(self._files[number].name, (number, start, end), many)
            for number, start, end, many in self._growing
        ]
        if not rows:
            raise SchemaError(f"{self.path} holds no files that make rows, such as 0001.jpg and 0001.cls")
        if looked < rows:
            self.notes.append(f"the types are those of {many(looked, 'row')}; --schema replaces them")
        names, changed = column_names([_KEY_COLUMN, *endings], self.path, options)
        self.left_out.extend(changed)
        self._endings = dict(zip(names[1:], endings, strict=True))
        found = {name: endings[ending].spec(rows) for name, ending in self._endings.items()}
        self.schema: Schema = options.schema({_KEY_COLUMN: "string", **found})

    def _count(
        self, sample: _Sample, endings: dict[str, _Ending], look: bool, file: FileReadahead, row: int
    ) -> None:
        self._to_units(sample)
        for ending, member in sample.members.items():
            evidence = endings.setdefault(ending, _Ending(ending))
            evidence.seen += 1
            if look:
                content = bytes(file.at(member.offset, member.size))
                evidence.add(content, f"{sample.file}, {member.name}", row)

    def _to_units(self, sample: _Sample) -> None:
        """Add a row to the last unit, or to a new one when that is full or of another file."""
        units = self._growing
        if units and units[-1][0] == sample.number and units[-1][2] - units[-1][1] < _UNIT_BYTES:
            units[-1][2:] = [sample.end, units[-1][3] + 1]
        else:
            units.append([sample.number, sample.start, sample.end, 1])

    def _samples(
        self,
        number: int,
        where: str,
        file: FileReadahead,
        start: int = 0,
        stop: int | None = None,
        wanted: Container[str] | None = None,
    ) -> Iterator[_Sample]:
        """Yield the rows of an archive, with the content of the endings ``wanted``; None: this is the first look."""
        current: _Sample | None = None
        for member in tar_members(file, where, start, stop):
            if not member.is_file or _META.match(member.name):
                continue
            found = _KEY.match(member.name)
            if found is None or not found[2]:
                if wanted is None:
                    name = f"{where}/{member.name}"
                    self.left_out.append(LeftOut(name, "its name has no ending", expected=True))
                continue
            key, ending = found[1], found[2].lower()
            if current is None or current.key != key:
                if current is not None:
                    yield current
                current = _Sample(number, where, key, member.header)
            if ending in current.members:
                raise SchemaError(f"{where}: {key}.{ending} is there twice in one row")
            current.members[ending] = member
            if wanted is not None and ending in wanted:  # now, while it is in the piece that was read
                current.contents[ending] = file.at(member.offset, member.size)
            current.end = member.offset + -(-member.size // 512) * 512
        if current is not None:
            yield current

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield the rows of a part of an archive."""
        number, start, stop = unit.place
        file = self._files[number]
        wanted = frozenset(self._endings[name] for name in self.schema.names if name != _KEY_COLUMN)
        with file.open() as stream:
            ahead = FileReadahead(stream, _PIECE_BYTES, stop)
            rows = map(self._row, self._samples(number, file.name, ahead, start, stop, wanted))
            yield from row_batches(self.schema.names, rows, _BATCH_BYTES, _BATCH_ROWS)

    def _row(self, sample: _Sample) -> tuple[list[Any], int] | Misfit:
        values: list[Any] = []
        size = 0
        for column in self.schema:
            if column.name == _KEY_COLUMN:
                values.append(sample.key)
                continue
            ending = self._endings[column.name]
            content = sample.contents.pop(ending, None)
            try:
                if content is None:
                    values.append(value_of_none(column, "file"))
                    continue
                size += len(content)
                values.append(_value(ending, content, column))
            except ValueError as error:
                return Misfit(sample.file, f"{sample.key}.{ending}: {error}")
        return values, size


@dataclass
class _Sample:
    """One row: its members by their endings, and where the first header and the last content lie."""

    number: int
    file: str
    key: str
    start: int
    end: int = 0
    members: dict[str, Member] = field(default_factory=dict)
    contents: dict[str, memoryview] = field(default_factory=dict)


class _Ending:
    """What the files of one ending allow as a column."""

    def __init__(self, ending: str) -> None:
        self.seen = 0
        self._ending = ending
        self._is_text = ending.rpartition(".")[2] in _TEXTS
        self._longest = 0
        self._arrays = ColumnEvidence(ending)
        self._as_bytes = False

    def add(self, data: bytes, where: str, row: int) -> None:
        """Take the content of one file into account."""
        kind = self._ending.rpartition(".")[2]
        if self._is_text:
            self._longest = max(self._longest, len(data))
        elif kind == "npy":
            try:
                array = npy_array(data)
            except ValueError as error:
                if "objects" not in str(error) and "not of numbers" not in str(error):
                    raise SchemaError(f"{where}: {error}") from None
                self._as_bytes = True
                return
            try:
                self._arrays.add(array if array.ndim else array[()], row)
            except SchemaError as error:
                raise SchemaError(f"{where}: {error}") from None
        elif kind in _NUMBERS and not _is_whole(data):
            self._as_bytes = True

    def spec(self, rows: int) -> Any:
        """The column's type in the user's form."""
        kind = self._ending.rpartition(".")[2]
        missing = self.seen < rows
        name: Any = "bytes"
        if self._is_text:
            name = text_type(self._longest)
        elif kind == "json":
            name = "object"
        elif kind == "npy" and not self._as_bytes:
            name = self._arrays.spec()
        elif kind in _NUMBERS:
            name = "string" if self._as_bytes else "int64"
        if missing and isinstance(name, str) and name != "object":
            name += "?"
        media = media_type(f"x.{kind}") if name in ("bytes", "bytes?") else None
        return file_type(media, name) if media else name


def _is_whole(data: bytes) -> bool:
    text = data.strip()
    return 0 < len(text) <= 19 and text.removeprefix(b"-").isdigit()


def _value(ending: str, view: memoryview, column: Column) -> Any:
    """The value of a file for a column; ``ValueError`` when it has none."""
    if column.type == "bytes" and not column.is_array:
        return view
    kind, data = ending.rpartition(".")[2], bytes(view)
    if column.is_array or (kind == "npy" and not column.is_blob):
        array = npy_array(data) if kind == "npy" else np.asarray(parse_json(utf8(data)), column.dtype)
        return array if array.ndim else array[()]
    if column.type in ("string", "text"):
        return utf8(data)
    if column.type == "object":
        return parse_json(utf8(data)) if kind == "json" or kind not in _TEXTS else utf8(data)
    text = utf8(data).strip()
    if column.type.startswith("float"):
        return float(text)
    if "_" in text or len(text) > 30:
        raise ValueError(f"{text[:40]!r} is no {column}")
    return int(text)
