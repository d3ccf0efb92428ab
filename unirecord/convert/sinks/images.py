"""Pictures as files in class folders, with the other columns of each in one metadata.jsonl."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Final

from ...dataset.dataset import UniRecordDataset
from ...errors import SchemaError
from ...format.column import Column
from ...sizes import many
from ...snapshot.snapshot import classes_of
from ...storage import local as store
from ...storage.staged import StagedFolder, staged_file
from .jsonl import json_line, json_notes, json_values
from .sink import Advance, Sink, batches, encoded, is_file_name, stream_to

__all__ = ["IMAGES"]

_TABLE = "metadata.jsonl"
_NAME = "file_name"  # in the table: the picture that a line is of
_SHOWN = 300  # characters of a path in a message
_MOST_FOLDERS = 64  # of a path: deeper ones cannot be removed by other programs


def _check(columns: Sequence[Column], metadata: Any) -> list[str]:
    """Return where the other columns go; SchemaError unless just one column holds bytes."""
    others = _others(columns)
    if not others:
        return []
    named = ", ".join(column.name for column in others)
    return [f"{named}: in {_TABLE}, by file_name", *json_notes(others)]


def _write_folder(
    rows: UniRecordDataset, folder: StagedFolder, parts: int, advance: Advance
) -> Sequence[str]:
    """Write the files, and the table of the other columns if there are any."""
    columns = [rows.schema[name] for name in rows.column_names]
    picture = _picture(columns)
    others = _others(columns)
    names = _Names(columns, rows.metadata, rows)
    with staged_file(folder.place(_TABLE)) if others else nullcontext() as table:
        stream = None if table is None else stream_to(table)
        done = 0
        for batch in batches(rows):
            values = [json_values(column, batch[column.name]) for column in others]
            pictures, placed = batch[picture.name].to_list(), []
            numbers = rows.order.row_ids(done, done + len(pictures)).tolist()
            done += len(pictures)
            for i, data in enumerate(pictures):
                placed.append(names.of(batch, i, numbers[i], data))
                if data is not None:
                    _write(folder, placed[-1], data)
            if stream is not None:
                for name, row in zip(placed, zip(*values, strict=True), strict=True):
                    line = {_NAME: name, **dict(zip((c.name for c in others), row, strict=True))}
                    stream.write(json_line(line).encode())
            advance(len(pictures))
        if stream is not None:
            stream.flush()
    return names.said()


# A file for each row: at its ``path``, else CLASS/NAME by its class, and its ``file_name`` or its number.
IMAGES: Final = Sink(
    kind="images",
    about="a folder of pictures",
    check=_check,
    write_folder=_write_folder,
)


def _picture(columns: Sequence[Column]) -> Column:
    found = [column for column in columns if column.type == "bytes" and not column.is_array]
    if len(found) != 1:
        named = ", ".join(repr(column.name) for column in found) or "none"
        raise SchemaError(
            f"images are written of one column of bytes, and there are {len(found)} ({named}): "
            "choose it, and what is to be kept beside it, with columns"
        )
    return found[0]


def _others(columns: Sequence[Column]) -> list[Column]:
    """What the table holds; SchemaError for a column whose name the table itself needs."""
    names = {column.name: column for column in columns}
    used = {_picture(columns).name, "path", *([_NAME] if _gives_names(names) else [])}
    if _NAME in names and _NAME not in used:
        raise SchemaError(
            f"{_TABLE} says by {_NAME!r} which picture a line is of, and there is a column {_NAME!r} that does not "
            "name the files: leave it out with columns"
        )
    return [column for column in columns if column.name not in used]


def _gives_names(names: Mapping[str, Column]) -> bool:
    """Whether the files are called as a column ``file_name`` says, which ``path`` does better."""
    return _NAME in names and names[_NAME].is_string and "path" not in names


def _write(folder: StagedFolder, name: str, data: bytes) -> None:
    try:
        store.write_new(folder.place(name), data)
    except (FileExistsError, NotADirectoryError):
        raise SchemaError(
            f"{name!r} is there twice, or is a folder too; leave out the column 'path' or {_NAME!r} that says so, and "
            "files are named by their rows"
        ) from None


class _Names:
    """Where the picture of a row goes, below the folder; a name from the data never leads out of it.

    The folders of a path may be called as classes. Where the class of a row is another one by now, its file goes into
    the folder of the class that it has.
    """

    def __init__(self, columns: Sequence[Column], metadata: object, rows: UniRecordDataset) -> None:
        names = {column.name: column for column in columns}
        self._media_type = _picture(columns).media_type
        self._path = "path" in names and names["path"].is_string
        self._named = _gives_names(names)
        self._split = "split" in names and names["split"].is_string
        self._class = "class" in names and names["class"].is_string
        numbered = "label" in names and names["label"].dtype is not None and names["label"].dtype.kind in "iu"
        self._classes = (names["label"].classes or classes_of(metadata)) if numbered else None
        self._folders = self._class_folders(rows) if self._path else set()
        last = rows.order.row_ids(len(rows) - 1).tolist() if len(rows) else [0]
        self._digits = max(6, len(str(last[0])))
        self._moved = self._elsewhere = self._differ = 0

    def _class_folders(self, rows: UniRecordDataset) -> set[str]:
        """The names that are classes: those of the list, and those that rows have."""
        found = set(self._classes or ())
        if self._class:
            found.update(name for name in rows.scalars(["class"])["class"] if name is not None)
        return found

    def of(self, batch: dict[str, Any], i: int, row: int, data: bytes | None) -> str:
        folder = self._folder(batch, i)
        if self._path and batch["path"][i] is not None:
            return _checked("path", row, self._by_class(batch, i, row, batch["path"][i].split("/"), folder))
        suffix = "" if data is None else encoded(data, self._media_type)[1]
        name = f"{row:0{self._digits}d}{suffix}"
        if self._named and batch[_NAME][i] is not None:
            return _checked(_NAME, row, [*([] if folder is None else [folder]), *batch[_NAME][i].split("/")])
        return name if folder is None else _checked("class", row, [folder, name])

    def _by_class(
        self, batch: dict[str, Any], i: int, row: int, path: list[str], own: str | None
    ) -> list[str]:
        """The path, with the row's own class in the place of a folder that is called as another one."""
        start = int(self._split and len(path) > 1 and batch["split"][i] == path[0])
        place = next((p for p in range(start, len(path) - 1) if path[p] in self._folders), None)
        if place is None or path[place] == own:
            self._elsewhere += place is None and own is not None
            return path
        self._moved += 1
        stem, suffix = os.path.splitext(path[-1])
        inner = [*path[place + 1 : -1], f"{stem}-row{row}{suffix}"]
        return [*path[:place], *([] if own is None else [own]), *inner]

    def _folder(self, batch: dict[str, Any], i: int) -> str | None:
        by_label = None
        if self._classes is not None:
            label = batch["label"].tolist()[i]
            if label is not None and 0 <= label < len(self._classes):
                by_label = str(self._classes[label])
        if not self._class or batch["class"][i] is None:
            return by_label
        by_class = str(batch["class"][i])
        self._differ += by_label not in (None, by_class)
        return by_class

    def said(self) -> list[str]:
        """What differs between folders, paths and classes."""
        said = []
        if self._moved:
            said.append(
                f"{self._moved:,} {'file lies' if self._moved == 1 else 'files lie'} in the folder of the class of "
                "the row, not in that of another one in the path; the number of the row is in the name"
            )
        if self._elsewhere:
            said.append(
                f"{self._elsewhere:,} {'file lies' if self._elsewhere == 1 else 'files lie'} where the path says, "
                "in no folder called as the class: without the column path they lie in class folders"
            )
        if self._differ:
            said.append(
                f"{many(self._differ, 'row', 'have')} a class other than the label says; folders are by class"
            )
        return said


def _checked(column: str, row: int, components: list[str]) -> str:
    if len(components) > _MOST_FOLDERS + 1 or not all(map(is_file_name, components)):
        path = "/".join(components)
        raise SchemaError(
            f"row {row}, column {column!r}: {path[:_SHOWN]!r} is no path below a folder, of {_MOST_FOLDERS} folders at "
            "most; leave the column out, and files are named by their rows"
        )
    name = "/".join(components)
    if name == _TABLE:
        raise SchemaError(
            f"row {row}, column {column!r}: {name!r} is the name of the table beside the pictures"
        )
    return name
