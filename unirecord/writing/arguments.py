"""What every way of writing a dataset is told: where, how large its parts are, which columns are indexed, which id."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import SchemaError
from ..format.schema import Schema
from ..sizes import parse_size
from ..storage.registry import location_of, path_of_dataset
from ..storage.storage_options import StorageOptions, current_storage, storage_of
from .batch_writer import PART_BYTES
from .directory_claim import check_directory_free
from .single_writer import check_part_free

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
