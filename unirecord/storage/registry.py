"""The kinds of storage there are, by the scheme of a path: datasets are looked up and opened through these."""

from __future__ import annotations

import re
from typing import Final

from ..errors import MissingError
from .local_disk import LocalDisk
from .location import Location

__all__ = ["LOCATIONS", "location_of", "read_file"]

_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]+)://(.*)", re.IGNORECASE | re.DOTALL)
_DISK: Final = LocalDisk()

LOCATIONS: Final[
    dict[str, Location]
] = {}  # by scheme; paths without one, and files so named, are on a local disk


def location_of(path: str) -> Location:
    """The storage that ``path`` is in; MissingError says what to name when its scheme is not known."""
    scheme = _SCHEME.fullmatch(path)
    if scheme is None or _DISK.is_taken(path):
        return _DISK
    name = scheme[1].lower()
    if name in LOCATIONS:
        return LOCATIONS[name]
    if name == "file":
        raise MissingError(f"{path}: paths are given without file://, as {scheme[2]}")
    raise MissingError(
        f"{path}: no storage is known for {scheme[1]}://; datasets lie in file systems: name a path on a disk, or "
        f"mount the store and name that path"
    )


def read_file(path: str, most: int) -> bytes:
    """The first ``most`` bytes of the file at ``path``."""
    with location_of(path).open(path) as file:
        return file.read_at(0, min(file.size, most))
