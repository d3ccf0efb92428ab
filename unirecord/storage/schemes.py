"""The kinds of storage there are, by the scheme of a path: datasets are looked up and opened through these."""

from __future__ import annotations

import re
from typing import Final

from ..errors import MissingError, UniRecordError
from .local import LocalDisk
from .location import Location
from .storage_options import current_storage

__all__ = ["LOCATIONS", "location_of", "path_of_dataset", "path_on_disk", "read_file"]

_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]+)://(.*)", re.IGNORECASE | re.DOTALL)
_DISK: Final = LocalDisk()

LOCATIONS: Final[dict[str, Location]] = {}  # by scheme, of kinds that others add
_TAKES_WRITES: Final = ("s3://", "gs://", "az://")
_OBJECTS: Final = ("s3", "gs", "az", "https", "http")


def location_of(path: str) -> Location:
    """The storage that ``path`` is in; MissingError says what to name when its scheme is not known."""
    scheme = _SCHEME.fullmatch(path)
    if scheme is None or _DISK.is_taken(path):
        return _DISK
    name = scheme[1].lower()
    if name in LOCATIONS:
        return LOCATIONS[name]
    if name in _OBJECTS:
        from .object_store import ObjectStore  # with its event loop, which few need

        return ObjectStore(current_storage())
    if name == "file":
        raise MissingError(f"{path}: paths are given without file://, as {scheme[2]}")
    from .fsspec_store import FsspecStore, is_known

    if is_known(name):
        return FsspecStore(current_storage())
    raise MissingError(
        f"{path}: no storage is known for {scheme[1]}://; name a path on a disk, or one of "
        + ", ".join(f"{known}://" for known in dict.fromkeys((*_OBJECTS, *LOCATIONS)))
        + ", or of those that the package fsspec knows, if it is installed"
    )


def path_on_disk(path: str, what: str = "this") -> str:
    """The path, to which ``what`` is to be written; UniRecordError when it is in an object store."""
    if not location_of(path).in_file_system:
        raise UniRecordError(
            f"{path}: {what} is written to a disk only, not to an object store; name a path on a disk, and copy what "
            f"comes of it: a part with its index, or a directory with the manifest last"
        )
    return path


def path_of_dataset(path: str) -> str:
    """The path, at which a dataset is to be written; UniRecordError where that cannot be."""
    location = location_of(path)
    if location.in_file_system:
        return path
    if not path.lower().startswith(_TAKES_WRITES):
        raise UniRecordError(
            f"{path}: this storage is only read by UniRecord; write to a disk, or to s3://, gs:// or az://"
        )
    if path.endswith(".urec"):
        raise UniRecordError(
            f"{path}: an object store gets directories of parts, which one manifest publishes; choose a name without "
            f".urec, or write the part to a disk and copy its index, and then itself"
        )
    return path


def read_file(path: str, most: int) -> bytes:
    """The first ``most`` bytes of the file at ``path``."""
    return location_of(path).read(path, most)
