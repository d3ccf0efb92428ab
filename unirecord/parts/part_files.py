"""The two files of a part, where they lie on no file system: their names and sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..errors import MissingError
from ..storage.registry import location_of

__all__ = ["NEW", "PartFiles", "find_files", "no_part"]

NEW: Final = ".new"  # of an index that was being published when its writer died


@dataclass(frozen=True)
class PartFiles:
    """The two files of a part, and their sizes."""

    data: str
    index: str
    data_bytes: int
    index_bytes: int


def no_part(path: str) -> MissingError:
    """What is said where there is no data file."""
    return MissingError(f"{path}: this part does not exist; check the path")


def find_files(path: str) -> PartFiles:
    """Looks for the files of the part at ``path``. MissingError."""
    names = [path, path + ".idx", path + ".idx" + NEW]
    data, index, new = location_of(path).find_each(names)
    if data is None:
        raise no_part(path)
    found = index or new
    if found is None:
        raise MissingError(
            f"{names[1]}: this index is missing; copy it beside the part, whose rows are found by it"
        )
    return PartFiles(path, names[1] if index is not None else names[2], data.size, found.size)
