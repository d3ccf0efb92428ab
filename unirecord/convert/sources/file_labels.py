"""A table that says something of each file of a folder, joined to the files by their names."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any, Final

from ...errors import MissingError, SchemaError
from .child_reader import looked_through
from .csv import CSV_OPTIONS, CsvTable
from .folder_walk import utf8_name
from .input_path import InputPath, open_input
from .jsonl import JsonLines
from .parquet import ParquetFiles
from .source import AskedOption, LeftOut, Options, Source, WrongSourceError, reduced

__all__ = ["TABLE_OPTIONS", "FileLabels", "is_label_file", "label_file"]

_LABELS: Final = AskedOption(
    "labels", "a table (CSV, JSON Lines, Parquet) that says more of each file, joined by file name", "FILE"
)
TABLE_OPTIONS: Final = (_LABELS, *CSV_OPTIONS)
_LABEL_FILES: Final = tuple(f"metadata.{ending}" for ending in ("csv", "tsv", "jsonl", "parquet"))
_TABLES: Final[tuple[type[Source], ...]] = (CsvTable, JsonLines, ParquetFiles)
_NAME_COLUMNS: Final = (
    "file_name", "filename", "file", "path", "image_path", "image", "img", "picture", "name", "image_id", "id",
)  # fmt: skip


def label_file(folder: InputPath, options: Options) -> InputPath | None:
    """The table that was asked for, or ``metadata.csv`` (``.jsonl``, ``.parquet``) of the folder.

    Raises `WrongSourceError` for options of a table where there is none.
    """
    asked = options.get(_LABELS.name)
    if asked is not None:
        try:
            return open_input(asked)
        except MissingError as error:
            raise WrongSourceError(f"--labels: {error}") from None
    for name in _LABEL_FILES:
        path = os.path.join(folder.path, name)
        if os.path.isfile(path):
            return InputPath(os.path.join(folder.name, name), path)
    for name in _csv_options(options):
        raise WrongSourceError(
            f"--{name} says how a CSV is written; {folder.name} has no table, and --labels names none"
        )
    return None


def _csv_options(options: Options) -> dict[str, Any]:
    """The options given that say how a CSV is written."""
    return {one.name: options.get(one.name) for one in CSV_OPTIONS if one.name in options.given()}


def is_label_file(folder: InputPath, name: str, table: InputPath | None) -> bool:
    """Whether the file of this name below a folder is the table."""
    return table is not None and os.path.abspath(os.path.join(folder.path, name)) == os.path.abspath(
        table.path
    )


class FileLabels:
    """The rows of a table by the file they speak of; its columns but the file name become columns.

    Attributes:
        types: the columns' types.
        notes: what a user should know.
        left_out: files without a row, and rows without a file.
    """

    def __init__(
        self, table: InputPath, files: Sequence[str], own: Sequence[str], options: Options, item: str = "file"
    ) -> None:
        """``files``: paths below the folder; ``own``: columns that the files give themselves.

        ``options``: those of the folder, with what they say of a CSV table. ``item`` is what a file is called. Raises
        `SchemaError` when no column of the table names the files.
        """
        make = next((one for one in _TABLES if one.recognises(table)), None)
        if make is None:
            raise WrongSourceError(
                f"--labels {table.name}: a table is a CSV, TSV, JSON Lines or Parquet file"
            )
        asked = _csv_options(options)
        if asked and make is not CsvTable:
            raise WrongSourceError(
                f"--{next(iter(asked))} says how a CSV is written; {table.name} is read as {make.kind}"
            )
        source = looked_through(make, table, Options(**asked))
        columns: dict[str, list[Any]] = {name: [] for name in source.schema.names}
        for batch in source.batches():
            for name, values in batch.columns.items():
                columns[name] += (
                    values.tolist() if hasattr(values, "tolist") and values.ndim == 1 else list(values)
                )
        self.name, self.path = table.name, table.path
        self.notes: list[str] = list(source.notes)
        self.left_out: list[LeftOut] = []
        self._item = item
        key = self._key(columns, files)
        self._join(key, columns[key], files)
        self.left_out += source.left_out
        dropped = [name for name in columns if name in own and name != key]
        self.left_out += [
            reduced(f"column {name!r} of {table.name}", f"left out: the {item}s say that themselves")
            for name in dropped
        ]
        kept = [name for name in columns if name != key and name not in dropped]
        self.types: dict[str, str | dict[str, object]] = {name: source.schema[name].spec for name in kept}
        self._columns = {name: columns[name] for name in kept}
        self.notes.append(f"{', '.join(kept) or 'nothing'} from {table.name}, by its column {key!r}")

    def _key(self, columns: dict[str, list[Any]], files: Sequence[str]) -> str:
        known = _names(files)
        said = [name for wanted in _NAME_COLUMNS for name in columns if name.lower() == wanted]
        for name in [*said, *(name for name in columns if name not in said)]:
            if any(isinstance(v, str | int) and _find(known, str(v)) is not None for v in columns[name]):
                return name
        raise SchemaError(
            f"{self.name}: none of its columns ({', '.join(columns)}) names the {self._item}s of the folder"
        )

    def _join(self, key: str, names: list[Any], files: Sequence[str]) -> None:
        known = _names(files)
        self._rows: dict[str, int] = {}
        for row, name in enumerate(names):
            found = _find(known, str(name))
            if found is None:
                self.left_out.append(
                    LeftOut(f"{self.name}, row {row}", f"there is no {self._item} {str(name)!r}")
                )
            elif found in self._rows:
                raise SchemaError(
                    f"{self.name}: the rows {self._rows[found]} and {row} both speak of {utf8_name(found)}; "
                    f"a {self._item} is one row: put lists into its columns, as JSON Lines can"
                )
            else:
                self._rows[found] = row
        for path in files:
            if path not in self._rows:
                self.left_out.append(LeftOut(utf8_name(path), f"{self.name} does not name it"))

    def __contains__(self, path: str) -> bool:
        """Whether the table speaks of a file."""
        return path in self._rows

    def of(self, path: str) -> dict[str, Any]:
        """What the table says of a file."""
        row = self._rows[path]
        return {name: values[row] for name, values in self._columns.items()}


def _names(files: Sequence[str]) -> dict[str, str]:
    """Every way to name a file that no other has: its path, its file name, its file name without suffix."""
    found: dict[str, str] = {}
    paths = [PurePosixPath(path) for path in files]
    for names in (
        [str(path.with_suffix("")) for path in paths],
        [p.stem for p in paths],
        [p.name for p in paths],
    ):
        shown = [utf8_name(name) for name in names]
        times = Counter(shown)
        found |= {name: path for name, path in zip(shown, files, strict=True) if times[name] == 1}
    return found | {utf8_name(path): path for path in files}


def _find(known: dict[str, str], name: str) -> str | None:
    name = name.replace("\\", "/").removeprefix("./")
    return known.get(name) or known.get(name.rpartition("/")[2])
