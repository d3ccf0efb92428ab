"""Any folder of files as records: a row per file, its bytes or its text, its path, and what a table says of it."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from ...errors import SchemaError
from ...format.schema import Schema
from ...progress import Progress
from .file_labels import TABLE_OPTIONS, FileLabels, is_label_file, label_file
from .folder_walk import UnreadableError, natural_order, utf8_name, walk
from .images import FOLDERS_ARE_CLASSES, Layout, class_columns, layout_of, listed_file
from .input_path import InputPath
from .media_types import MEDIA, bytes_of
from .overrides import apply_overrides
from .source import (
    AskedOption,
    LeftOut,
    Options,
    RawBatch,
    Source,
    Unit,
    file_units,
    reduced,
    row_batches,
)

__all__ = ["FileFolder"]

_UNIT_FILES: Final = 256
_BATCH_BYTES: Final = 16_000_000
_HEAD: Final = 256  # bytes of a text, for its first word
_TEXTS: Final = (".txt", ".text", ".md")


class FileFolder(Source):
    """The files below a folder in natural order, byte for byte; text files as text.

    Of a folder of sound, films or pages that nobody asked to have all files of, those are taken, with the classes that
    their folders are called as; what lies beside them is left out, and named.
    """

    kind: ClassVar[str] = "files"
    about: ClassVar[str] = "a folder of any files"
    item: ClassVar[str] = "file"
    path_column: ClassVar[str | None] = "path"
    reads: ClassVar[str] = "a folder"
    reads_files: ClassVar[bool] = False
    any_folder: ClassVar[bool] = True
    options: ClassVar[tuple[AskedOption, ...]] = (
        AskedOption(
            "pattern", "take the files whose path below SRC matches, such as '*.bin' or 'a/*.txt'", "GLOB"
        ),
        *TABLE_OPTIONS,
        FOLDERS_ARE_CLASSES,
    )
    takes_classes: ClassVar[bool] = True

    @classmethod
    def recognises(cls, source: InputPath) -> bool:
        """A folder of texts, sound, films or pages; any other has to be asked for by ``--from files``."""
        return source.is_folder and source.holds(MEDIA.union(_TEXTS))

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """List the folder."""
        pattern = options.get("pattern")
        table = label_file(self.input, options)
        self._files: list[str] = []
        for path, reason in walk(self.input.path):
            if is_label_file(self.input, path, table):
                continue
            if pattern is not None and not (fnmatch.fnmatchcase(path, pattern)):
                self.left_out.append(LeftOut(utf8_name(path), "--pattern leaves it out", expected=True))
            elif reason is not None:
                self.left_out.append(LeftOut(utf8_name(path), reason))
            else:
                self._files.append(path)
        self._files.sort(key=natural_order)
        media = [path for path in self._files if Path(path).suffix.lower() in MEDIA]
        if options.recognised and pattern is None and media:
            self._leave_out_beside(media)
        if not self._files:
            raise SchemaError(
                f"{self.path} holds no file{'' if pattern is None else f' that matches {pattern!r}'}"
            )
        text = all(path.lower().endswith(_TEXTS) for path in self._files)
        self._column = "text" if text else "data"
        self._labels = (
            None if table is None else FileLabels(table, self._files, (self._column, "path"), options)
        )
        if self._labels is not None:
            self.notes.extend(self._labels.notes)
            self.left_out.extend(self._labels.left_out)
            self._files = [path for path in self._files if path in self._labels]
        self.units: Sequence[Unit] = file_units(self.path, self._files, _UNIT_FILES)
        self._layout = Layout((), ())
        if media and options.recognised and self._labels is None and pattern is None:
            self._layout = self._layout_of(options)
        of_folders, self._classes = class_columns(self, self._layout, options)
        columns = {
            self._column: "text" if text else bytes_of(self._files),
            **of_folders,
            "path": "string",
        }
        said = {} if self._labels is None else self._labels.types
        self.schema: Schema = apply_overrides({**columns, **said}, options.overrides)

    def _leave_out_beside(self, media: list[str]) -> None:
        """What is no sound, film or page beside those that are."""
        taken = set(media)
        self.left_out.extend(
            [
                LeftOut(
                    utf8_name(path),
                    "by name it is no sound, film or page; --from files has a row of each file",
                    expected=True,
                )
                for path in self._files
                if path not in taken
            ]
        )
        clips = {Path(path).stem for path in media}
        lists = [
            path for path in self._files if path.lower().endswith(_TEXTS) and self._first_word(path) in clips
        ]
        if lists:
            why = "left out: a table beside the files, metadata.csv with file_name and text, has them as a column"
            self.left_out.append(reduced("a list of what is said in the files", why, len(lists)))
        self._files = media

    def _first_word(self, path: str) -> str | None:
        """The word that a text begins with; a transcript, as of LibriSpeech, begins with the name of a clip."""
        head = InputPath(path, os.path.join(self.input.path, path)).head(_HEAD).split(maxsplit=1)
        return head[0].decode("utf-8", "replace") if head else None

    def _layout_of(self, options: Options) -> Layout:
        """The classes and parts of a split that the folders are; none where files lie beside folders."""
        try:
            return layout_of(
                self.path, self._files, folders_are_classes=bool(options.get("folders_are_classes"))
            )
        except SchemaError:
            return Layout((), ())

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield a range of files."""
        numbers = {name: i for i, name in enumerate(self._classes)}
        files = self._files[unit.place : unit.place + _UNIT_FILES]
        yield from row_batches(self.schema.names, (self._row(path, numbers) for path in files), _BATCH_BYTES)

    def _row(self, path: str, numbers: Mapping[str, int]) -> tuple[list[Any], int] | LeftOut:
        try:
            data = self._content(path)
        except UnreadableError as error:
            return LeftOut(utf8_name(path), str(error))
        split, name = (one and utf8_name(one) for one in self._layout.place(path))
        row: dict[str, Any] = {
            self._column: data, "path": utf8_name(path), "split": split, "class": name,
            "label": None if name is None else numbers.get(name),
        }  # fmt: skip
        if self._labels is not None:
            row |= self._labels.of(path)
        return [row[column] for column in self.schema.names], len(data)

    def files(self) -> Iterator[str]:
        """The files, and the table of labels."""
        yield from (str(Path(self.input.path) / path) for path in self._files)
        if self._labels is not None:
            yield self._labels.path

    def _content(self, path: str) -> bytes | str:
        data = listed_file(self, path)
        if self.schema[self._column].type == "bytes":
            return data
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise UnreadableError(f"it is not UTF-8 ({error.reason} at byte {error.start})") from None
