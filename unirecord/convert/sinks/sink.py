"""What all sinks share: rows in order, names of files, values as files."""

from __future__ import annotations

import io
import mimetypes
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import numpy as np

from ...dataset.dataset import UniRecordDataset
from ...errors import SchemaError
from ...format.column import Column
from ...format.layout import file_kind
from ...format.meaning import as_stored
from ...format.values.objects import object_text
from ...loading.batch import items_of
from ...storage.staged import StagedFile, StagedFolder

__all__ = [
    "Advance",
    "Sink",
    "batches",
    "encoded",
    "is_file_name",
    "numbered",
    "refuse",
    "refuse_names",
    "refuse_null",
    "safe_name",
    "samples",
    "stream_to",
]


# What every sink is: which columns it can hold, and how it writes rows to a file or a folder.


Advance = Callable[[int], None]  # so many rows more are written
_BATCH_BYTES: Final = 4 << 20
_BATCH_ROWS: Final = 4_096
_BUFFER_BYTES: Final = 1 << 20
_MOST_NAME: Final = 255  # bytes of one component of a path


def _no_notes(columns: Sequence[Column], metadata: Any) -> list[str]:
    return []


@dataclass(frozen=True)
class Sink:
    """A format that rows are exported to: one in its file, and one entry in `kinds.py`.

    Rows make one file, or several of a folder with a share of the rows each, by ``write`` or ``write_path``; or a
    folder that is laid out by ``write_folder``.

    Attributes:
        kind: its name.
        about: what it writes, in the help.
        suffix: of a name that means this kind, and of its files in a folder.
        requires: what to `pip install`.
        imports: the module of that, which is not there when it is not installed.
        takes_parts: whether ``write_folder`` makes as many files as it is asked for.
        check: what becomes of values that the format holds otherwise; SchemaError names a column it cannot hold. It is
            given the columns and the dataset's metadata.
        write: writes rows to a stream, which can be appended to and told, but not sought.
        write_path: writes rows to the file at a path, which is there and empty.
        write_folder: writes rows into a folder, as so many files where it has such; what of them lies, or is called,
            otherwise than the rows say.
    """

    kind: str
    about: str
    suffix: str = ""
    requires: str | None = None
    imports: str | None = None
    takes_parts: bool = False
    check: Callable[[Sequence[Column], Any], list[str]] = _no_notes
    write: Callable[[UniRecordDataset, BinaryIO, Advance], None] | None = None
    write_path: Callable[[UniRecordDataset, str, Advance], None] | None = None
    write_folder: Callable[[UniRecordDataset, StagedFolder, int, Advance], Sequence[str]] | None = None


def batches(rows: UniRecordDataset) -> Iterator[dict[str, Any]]:
    """The rows in order as dicts of arrays, about 4 MB each, read ahead by C threads; times as they are stored."""
    fitting = int(_BATCH_BYTES / max(1.0, rows.read_cursor.plan.row_bytes))
    read = rows.batches(max(1, min(_BATCH_ROWS, fitting)))
    return ({name: as_stored(values) for name, values in batch.items()} for batch in read)


def samples(rows: UniRecordDataset) -> Iterator[dict[str, Any]]:
    """The rows in order, each as ``ds[i]`` gives it."""
    names = rows.column_names
    for batch in batches(rows):
        for values in zip(*items_of(batch).values(), strict=True):
            yield dict(zip(names, values, strict=True))


def numbered(rows: UniRecordDataset) -> Iterator[tuple[int, dict[str, Any]]]:
    """The samples in order, each with the number of its row in the dataset, whichever rows were chosen."""
    given = samples(rows)
    for start in range(0, len(rows), _BATCH_ROWS):
        yield from zip(rows.order.row_ids(start, start + _BATCH_ROWS).tolist(), given, strict=False)


def refuse(columns: Sequence[Column], kind: str, cannot: Callable[[Column], bool], instead: str) -> None:
    """Raise the SchemaError for columns that a kind cannot hold."""
    wrong = [column for column in columns if cannot(column)]
    if wrong:
        named = ", ".join(f"{column.name!r} ({column})" for column in wrong)
        raise SchemaError(f"{kind} cannot hold {named}: {instead}")


def is_file_name(name: str) -> bool:
    """Whether a name from the data may be that of a file or folder: it leads nowhere else, and is not hidden."""
    leads_elsewhere = any(character in name for character in "/\\\0") or name.startswith(".")
    has_drive = len(name) > 1 and name[1] == ":"
    return bool(name) and not leads_elsewhere and not has_drive and len(os.fsencode(name)) <= _MOST_NAME


def refuse_names(
    columns: Sequence[Column], kind: str, files: Callable[[Column], Sequence[str]] = lambda column: ()
) -> None:
    """Raise the SchemaError for columns whose names can't be those of files, where a kind names files so.

    ``files``: the names that files of a column get, or the longest of them.
    """
    refuse(
        columns, kind, lambda c: not all(map(is_file_name, (c.name, *files(c)))),
        "the files in it are called like the columns, and whoever unpacks them writes to these paths, of which a name "
        f"has {_MOST_NAME} bytes at most; rename them, or leave them out with columns",
    )  # fmt: skip


def refuse_null(kind: str, column: Column, value: Any, row: int) -> None:
    """Raise the SchemaError for a null in a format that has none."""
    if value is None and column.nullable:
        raise SchemaError(
            f"row {row}: {column.name!r} is null, which {kind} cannot hold; export rows that have a value "
            f"(where: {column.name} is not null), or leave the column out"
        )


class _Appending(io.RawIOBase):
    def __init__(self, file: StagedFile) -> None:
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._file.append([data])
        return memoryview(data).nbytes

    def tell(self) -> int:
        return self._file.size


def stream_to(file: StagedFile) -> BinaryIO:
    """A stream that appends to a staged file; closing it flushes, and leaves the file open."""
    return io.BufferedWriter(_Appending(file), _BUFFER_BYTES)


# One value as a file of its own: pictures as pictures, text as text, arrays as .npy, objects as JSON.


_MEDIA_TYPES: Final = mimetypes.MimeTypes()  # those that Python knows, not the system
_MOST_FILE_NAME: Final = 100  # characters of a name that come from the data


def encoded(value: Any, media_type: str | None = None) -> tuple[bytes, str]:
    """The bytes to write for a value, and the ending of the file's name: by its first bytes, else by ``media_type``."""
    if isinstance(value, bytes):
        kind = file_kind(value)
        if kind is not None:
            return value, kind.suffix
        return value, (media_type and _MEDIA_TYPES.guess_extension(media_type)) or ".bin"
    if isinstance(value, str):
        return value.encode(), ".txt"
    if isinstance(value, np.ndarray):
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, value, allow_pickle=False)
        return buffer.getvalue(), ".npy"
    return object_text(value, bytes.hex).encode() + b"\n", ".json"


def safe_name(value: Any) -> str:
    """What of a value can stand in a file's name on any system."""
    last = re.split(r"[/\\]", "" if value is None else str(value))[-1]
    return re.sub(r"[^A-Za-z0-9._-]+", "_", last).strip("._-")[-_MOST_FILE_NAME:]
