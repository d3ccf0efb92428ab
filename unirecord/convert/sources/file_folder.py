"""Any folder of files as records: a row per file, its bytes or its text, and its path."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Final

from ...errors import MissingError, SchemaError
from ...progress import Progress
from .base import AskedOption, LeftOut, Options, RawBatch, Source, Unit
from .folder_walk import UnreadableError, natural_order, read_regular_file, utf8_name, walk
from .input_path import InputPath
from .overrides import apply_overrides

__all__ = ["FileFolder"]

_UNIT_FILES: Final = 256
_BATCH_BYTES: Final = 16_000_000
_TEXTS: Final = (".txt", ".text", ".md")


class FileFolder(Source):
    """The files below a folder in natural order, byte for byte; text files as text."""

    kind: ClassVar[str] = "files"
    about: ClassVar[str] = "a folder of any files"
    item: ClassVar[str] = "file"
    reads: ClassVar[str] = "a folder"
    options: ClassVar[tuple[AskedOption, ...]] = (
        AskedOption(
            "pattern", "take the files whose path below SRC matches, such as '*.bin' or 'a/*.txt'", "GLOB"
        ),
    )

    @classmethod
    def recognises(cls, source: InputPath) -> bool:
        """A folder of text files; any other has to be asked for by ``--from files``."""
        return source.is_folder and source.holds(_TEXTS)

    @classmethod
    def can_read(cls, source: InputPath) -> bool:
        """Any folder."""
        return source.is_folder

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """List the folder."""
        pattern = options.get("pattern")
        self._files: list[str] = []
        for path, reason in walk(self.input.path):
            if pattern is not None and not (fnmatch.fnmatchcase(path, pattern)):
                self.left_out.append(LeftOut(utf8_name(path), "--pattern leaves it out", expected=True))
            elif reason is not None:
                self.left_out.append(LeftOut(utf8_name(path), reason))
            else:
                self._files.append(path)
        self._files.sort(key=natural_order)
        if not self._files:
            raise SchemaError(
                f"{self.path} holds no file{'' if pattern is None else f' that matches {pattern!r}'}"
            )
        text = all(path.lower().endswith(_TEXTS) for path in self._files)
        self.units = [
            Unit(f"{self.path}/{utf8_name(self._files[i])}", i, min(_UNIT_FILES, len(self._files) - i))
            for i in range(0, len(self._files), _UNIT_FILES)
        ]
        self._column = "text" if text else "data"
        self.schema = apply_overrides(
            {self._column: "text" if text else "bytes", "path": "string"}, options.overrides
        )

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield a range of files."""
        values: list[Any] = []
        paths: list[str] = []
        left_out: list[LeftOut] = []
        size = 0
        for path in self._files[unit.place : unit.place + _UNIT_FILES]:
            try:
                data = self._content(path)
            except UnreadableError as error:
                left_out.append(LeftOut(utf8_name(path), str(error)))
                continue
            values.append(data)
            paths.append(utf8_name(path))
            size += len(data)
            if size >= _BATCH_BYTES:
                yield RawBatch({self._column: values, "path": paths}, len(values), tuple(left_out))
                values, paths, left_out, size = [], [], [], 0
        if values or left_out:
            yield RawBatch({self._column: values, "path": paths}, len(values), tuple(left_out))

    def _content(self, path: str) -> bytes | str:
        try:
            data = read_regular_file(Path(self.input.path) / path)
        except FileNotFoundError:
            raise MissingError(
                f"{self.path}/{utf8_name(path)} has gone since the folder was listed"
            ) from None
        if self.schema[self._column].type == "bytes":
            return data
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise UnreadableError(f"it is not UTF-8 ({error.reason} at byte {error.start})") from None
