"""A dataset, or some of its rows and columns, written as files of another format: all at once, or nothing."""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..dataset.dataset import UniRecordDataset
from ..errors import ExistsError, MissingError
from ..loading.opened import PathLike
from ..progress import Progress, Tracker
from ..storage.local import FULL, FULL_ADVICE, located
from ..storage.schemes import path_on_disk
from ..storage.staged import StagedFile, StagedFolder, check_replaceable, staged_file
from .sinks.kinds import find_sink
from .sinks.sink import Advance, Sink, stream_to

__all__ = ["Exported", "Exporting", "export"]


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes:
        kind: the format.
        path: the file or folder.
        rows, files, bytes: how many there are of each; ``bytes`` of all files.
    """

    kind: str
    path: str
    rows: int
    files: int
    bytes: int


def export(
    path: PathLike | Sequence[PathLike],
    dst: PathLike,
    to: str | None = None,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    limit: int | None = None,
    parts: int | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Exported:
    """Write rows of a dataset as files of another format (docs/exporting.md says what becomes of each type).

    Nothing is at ``dst`` until all is written; a failure or Ctrl-C leaves nothing. A ``dst`` with the format's ending
    is one file; any other is a folder. Memory for a few batches of about 4 MB, of Parquet for a row group of 64 MB.
    A warning says where files lie otherwise than rows say.

    Args:
        path: a dataset, as for ``UniRecordDataset``.
        dst: the file or folder to write; the folder above must exist.
        to: ``"images"``, ``"csv"``, ``"jsonl"``, ``"parquet"``, ``"arrow"``, ``"webdataset"``, ``"tfrecord"``,
            ``"arrayrecord"``, ``"mds"``, ``"mindrecord"``, ``"lance"``, ``"npz"``; by default the ending of
            ``dst`` tells.
        columns: names of the columns to write, in this order.
        where: only rows that meet this condition (docs/query.md).
        limit: at most so many rows.
        parts: so many files in a folder, each with a share of the rows.
        overwrite: replace the file, or the folder of an earlier export, that is at ``dst``.
        progress: called with (rows written, rows in all).

    Raises:
        SchemaError: the format cannot hold a column or a value, or needs a package that is missing.
        ExistsError: there is something at ``dst`` that is not to be replaced.
        BusyError: another export to ``dst`` is alive.
        ValueError, TypeError: another wrong argument.
        MissingError, QueryError, CorruptionError, OSError: as in reading and writing datasets.
    """
    with Exporting(
        path, dst, to, columns=columns, where=where, limit=limit, parts=parts, overwrite=overwrite
    ) as one:
        done = one.run(progress)
        for said in one.said:
            warnings.warn(f"{done.path}: {said}", stacklevel=2)
        return done


class Exporting:
    """An export that has been checked and not yet begun.

    ``notes``: what becomes of values. ``said``: what of them lies, or is called, otherwise than the rows say.
    """

    said: Sequence[str] = ()

    def __init__(
        self,
        path: PathLike | Sequence[PathLike],
        dst: PathLike,
        to: str | None = None,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        limit: int | None = None,
        parts: int | None = None,
        overwrite: bool = False,
    ) -> None:
        for name, value, least in (("limit", limit, 0), ("parts", parts, 1)):
            if value is not None and (type(value) is not int or value < least):
                raise ValueError(f"{name} must be a number, {least} or more, got {value!r}")
        if type(overwrite) is not bool:
            raise TypeError(f"overwrite is True or False, got {overwrite!r}")
        self.path: str = _target(dst)
        self.sink: Sink = find_sink(self.path, to)
        self._overwrite = overwrite
        self._parts = parts
        self._check_target()
        whole = UniRecordDataset(path, 0, 1, columns=columns, where=where)
        try:
            self.rows: UniRecordDataset[dict[str, Any]] = whole if limit is None else whole.take(limit)
            chosen = [whole.schema[name] for name in whole.column_names]
            self.notes: list[str] = self.sink.check(chosen, whole.metadata)
        except BaseException:
            whole.close()
            raise

    def _check_target(self) -> None:
        folder = os.path.dirname(self.path)
        if not os.path.isdir(folder):
            raise MissingError(f"{folder}: the folder to write to does not exist; make it first")
        takes_parts = self.sink.write_folder is None or self.sink.takes_parts
        if self._parts is not None and (self._is_file or not takes_parts):
            where = "a file" if self._is_file else self.sink.kind
            raise ValueError(f"{self.path}: {where} has no parts; parts= is for a folder of files")
        if not self._is_file:
            check_replaceable(self.path, overwrite=self._overwrite)
        elif os.path.isdir(self.path):
            raise ExistsError(f"{self.path}: a directory is in the way of a file; choose another path")
        elif os.path.lexists(self.path) and not self._overwrite:
            raise ExistsError(f"{self.path} exists already; pass overwrite=True to replace it")

    @property
    def _is_file(self) -> bool:
        return self.sink.write_folder is None and self.path.endswith(self.sink.suffix)

    def run(self, progress: Progress | None = None) -> Exported:
        """Write and publish."""
        with _full_disk_named(self.path):
            return self._run(progress)

    def _run(self, progress: Progress | None) -> Exported:
        rows = len(self.rows)
        tell = Tracker(rows, progress).advance
        if self._is_file:
            staged = StagedFile(self.path, claims=self.path, like=self.path)
            try:
                staged.keep()
                _write_file(self.sink, self.rows, staged, tell)
                staged.sync()
                staged.publish()
                return Exported(self.sink.kind, self.path, rows, 1, staged.size)
            finally:
                staged.discard()
        folder = StagedFolder(self.path, overwrite=self._overwrite)
        try:
            self._fill(folder, tell)
            files = folder.publish()
        finally:
            folder.discard()
        return Exported(self.sink.kind, self.path, rows, files, folder.bytes)

    def _fill(self, folder: StagedFolder, tell: Advance) -> None:
        parts = self._parts or 1
        if self.sink.write_folder is not None:
            self.said = self.sink.write_folder(self.rows, folder, parts, tell)
            return
        rows = len(self.rows)
        for number in range(parts):
            share = self.rows.select(range(number * rows // parts, (number + 1) * rows // parts))
            with staged_file(folder.place(f"part-{number:05d}{self.sink.suffix}")) as staged:
                _write_file(self.sink, share, staged, tell)

    def __enter__(self) -> Exporting:
        """Return itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close the dataset."""
        self.rows.close()


@contextmanager
def _full_disk_named(path: str) -> Iterator[None]:
    """Raise what a library says of a full disk, in whatever words and without a path, as the OSError of ours."""
    try:
        yield
    except Exception as error:
        is_full = getattr(error, "errno", None) in FULL or os.strerror(errno.ENOSPC) in str(error)
        if not is_full or FULL_ADVICE in str(error):
            raise
        raise located(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), path) from error


def _write_file(sink: Sink, rows: UniRecordDataset, staged: StagedFile, tell: Advance) -> None:
    if sink.write_path is not None:
        sink.write_path(rows, staged.temporary, tell)
        staged.take_note()
    else:
        assert sink.write is not None
        stream = stream_to(staged)
        sink.write(rows, stream, tell)
        stream.flush()


def _target(dst: PathLike) -> str:
    text = os.fsdecode(os.fspath(dst))
    if not text or "\0" in text or os.path.basename(text.rstrip("/")) in ("", ".", ".."):
        raise ValueError(f"not a path to write to: {text!r}")
    return os.path.abspath(path_on_disk(text, "an export"))
