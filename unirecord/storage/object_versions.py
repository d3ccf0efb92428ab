"""Whether an object is still what it was when it was first read: compared by what each answer says of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core import xxh3_64
from ..errors import StaleError

__all__ = ["Versions", "replaced", "version_of"]

Version = tuple[int, ...]


def version_of(said: Mapping[str, Any]) -> Version:
    """What an answer says of its object: the ETag, or, where there is none, the time of its change; and the size."""
    tag = str(said.get("e_tag") or said.get("last_modified")).removeprefix("W/")
    return (xxh3_64(tag.encode()), int(said["size"]))


class Versions:
    """The objects that are being read, each in the version of its first answer. Thread-safe."""

    def __init__(self) -> None:
        self._first: dict[str, Version] = {}

    def check(self, path: str, said: Mapping[str, Any]) -> None:
        """StaleError when the answer is of another version than the first one of this object."""
        version = version_of(said)
        if self._first.setdefault(path, version) != version:
            raise replaced(path)

    def differs(self, path: str, said: Mapping[str, Any]) -> bool:
        """Whether the answer is of another version than was read; False for what has not been read."""
        version = version_of(said)
        return self._first.get(path, version) != version

    def holds(self, path: str) -> bool:
        """Whether anything of this object has been read."""
        return path in self._first

    def take(self, other: Versions) -> None:
        """Objects that were read with ``other`` are the ones meant here too."""
        self._first.update(other._first)


def replaced(path: str) -> StaleError:
    """What is said of an object that is another now."""
    return StaleError(f"{path}: the object has been replaced since it was opened; open it again")
