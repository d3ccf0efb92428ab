"""Where a dataset is written: what every way of writing is told, and the part or directory that takes row groups."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from ..errors import SchemaError
from ..format.layout import Shape
from ..format.schema import Schema
from ..format.values import ColumnBatch
from ..sizes import parse_size
from ..storage.schemes import location_of, path_of_dataset
from ..storage.storage_options import StorageOptions, current_storage, storage_of
from .directory_claim import check_directory_free
from .directory_writer import DirectoryWriter
from .part_writer import Compressor, PartContent
from .row_groups import TARGET_BYTES, Grouper
from .single_writer import SinglePartWriter, check_part_free

__all__ = [
    "BatchWriter",
    "PART_BYTES",
    "Target",
    "open_target",
    "write_batches",
]


# Batches of columns -> a dataset: row groups are put together and handed to what is being written.


PART_BYTES = 20_000_000_000  # after which a directory begins a new part

Target = SinglePartWriter | DirectoryWriter


class GroupTarget(Protocol):
    """What takes row groups: a target, or what writes some of its parts."""

    target_bytes: int | None

    def add(self, content: PartContent, shape: Shape, pieces: Sequence[ColumnBatch]) -> None:
        """Writes a row group."""

    def finish(self, content: PartContent, shape: Shape) -> None:
        """Completes what was written."""


def open_target(
    path: str,
    part_id: bytes,
    *,
    max_part_bytes: int = PART_BYTES,
    overwrite: bool = False,
    append: bool = False,
) -> Target:
    """What writes at ``path``: one part where it ends in ``.urec``, else a directory; it holds the path's lock."""
    if path.endswith(".urec"):
        return SinglePartWriter(path, part_id, overwrite=overwrite)
    return DirectoryWriter(path, part_id, max_part_bytes=max_part_bytes, overwrite=overwrite, append=append)


class BatchWriter:
    """Writes batches of one schema to a target. After a failure the target is to be aborted by whoever opened it."""

    content: PartContent

    def __init__(self, target: GroupTarget, content: PartContent, shape: Shape | None = None) -> None:
        """``shape``: where rows follow others of theirs; the dictionaries in ``content`` are then those of these."""
        self._target, self.content = target, content
        self._compressor = Compressor(content.schema, None if shape is None else content.dictionaries)
        target_bytes = min(target.target_bytes or TARGET_BYTES, TARGET_BYTES)
        self._grouper = Grouper(content.schema, target_bytes, shape)

    def add(self, batch: ColumnBatch, *, owned: bool) -> None:
        """Writes what is full; ``owned``: nobody else will change the memory of what has to wait."""
        self._group(self._compressor.add(batch, owned=owned))

    def finish(self) -> None:
        """Writes the rest, and lets the target finish."""
        self._group(self._compressor.finish())
        self._write(self._grouper.finish())
        assert self._grouper.shape is not None
        self._target.finish(self.content, self._grouper.shape)

    def _group(self, batches: list[tuple[ColumnBatch, bool]]) -> None:
        if batches and not self.content.dictionaries:
            self.content = replace(self.content, dictionaries=self._compressor.dictionaries)
        for batch, owned in batches:
            self._write(self._grouper.add(batch, owned=owned))

    def _write(self, groups: Iterator[list[ColumnBatch]]) -> None:
        for pieces in groups:
            assert self._grouper.shape is not None
            self._target.add(self.content, self._grouper.shape, pieces)


def write_batches(path: str, content: PartContent, batches: Iterable[ColumnBatch]) -> None:
    """Publishes a new dataset at ``path`` of batches whose memory is given away; nothing, when anything fails.

    Raises what `Writer` does: ExistsError, BusyError, OSError.
    """
    target = open_target(path, secrets.token_bytes(16))
    try:
        writer = BatchWriter(target, content)
        for batch in batches:
            writer.add(batch, owned=True)
        writer.finish()
    except BaseException:
        target.abort()
        raise


# What every way of writing a dataset is told: where, how large its parts are, which columns are indexed, which id.


Path = str | os.PathLike[str]


def check_free(path: Path, *, overwrite: bool, resume: bool = False) -> None:
    """Raises the ExistsError of a Writer at a path where there is something that it does not replace.

    ``resume``: a stopped conversion is gone on with, which may be what is there.
    """
    path = check_path(path)
    place = location_of(path).absolute(path)
    if place.endswith(".urec"):
        check_part_free(place, overwrite)
    else:
        check_directory_free(place, overwrite=overwrite, resume=resume)


def storage_to_write_to(path: Path, given: Mapping[str, Any] | None) -> StorageOptions | None:
    """The options of the store that is written to; ValueError for a disk."""
    if given and location_of(os.fsdecode(path)).in_file_system:
        raise ValueError(f"{os.fsdecode(path)}: storage_options are of object stores, and this is on a disk")
    return storage_of(given) or current_storage()


def check_beside(name: str, file: str, target: str) -> None:
    """ValueError where the file that an option names would be in the place of the dataset, or within it."""
    if f"{os.path.abspath(file)}/".startswith(f"{os.path.abspath(target)}/"):
        raise ValueError(f"{name} {file} is where the dataset is; name another file")


def check_path(path: Path) -> str:
    text = os.fspath(path)
    if isinstance(text, bytes):
        text = os.fsdecode(text)
    if not text or "\0" in text:
        raise ValueError(f"not a path to write to: {text!r}")
    stripped = text.rstrip("/")
    if stripped != text and stripped.endswith(".urec"):
        raise ValueError(f"{text}: a path that ends in .urec is a file; leave out the slash")
    if os.path.basename(stripped) in ("", ".", "..", ".urec"):
        raise ValueError(f"{text}: name the file or directory to write")
    return path_of_dataset(stripped)


def check_index_names(index: Sequence[str]) -> tuple[str, ...]:
    if isinstance(index, str) or any(not isinstance(name, str) for name in index):
        raise TypeError(f"index is a list of names of columns, got {index!r}")
    return tuple(index)


def check_indexable(schema: Schema, index: Sequence[str]) -> None:
    for place, name in enumerate(index):
        column = schema[name]
        if column.is_blob:
            raise SchemaError(
                f"index: column {name!r} is {column}; only scalar and string columns can be looked up by value"
            )
        if name in index[:place]:
            raise SchemaError(f"index: column {name!r} is named twice")


def check_part_bytes(given: int | str | None, path: str) -> int:
    if given is None:
        return PART_BYTES
    part_bytes = parse_size(given)
    if part_bytes < 1:
        raise ValueError(f"max_part_bytes is at least 1, got {given!r}")
    if path.endswith(".urec"):
        raise ValueError(
            f"max_part_bytes={given!r}: {path} is to be one part, whatever its size; for a directory of parts choose a "
            f"name without .urec"
        )
    return part_bytes


def check_id(id: bytes | None, path: str = "") -> bytes:
    """The id of the dataset at ``path``: the one given, or a random one."""
    if id is None:
        return secrets.token_bytes(16)
    if not location_of(path).in_file_system:
        raise ValueError(
            f"{path}: id= names the parts, and a store cannot keep a second writer with the same id from writing over "
            "them: leave it out, or write to a disk and copy that"
        )
    if not isinstance(id, bytes) or len(id) != 16:
        raise ValueError(f"id is 16 bytes, got {id!r}")
    return id
