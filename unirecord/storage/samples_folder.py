"""The folder of a cache of samples: parts that are published one by one, oldest first, within a limit."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Final

from .local import clear

__all__ = ["SamplesFolder"]

_PART: Final = re.compile(r"samples-[0-9]{20}-[0-9]{4}\.urec")
_REST: Final = re.compile(r"\.?samples-[0-9]{20}-[0-9]{4}\.urec(\.idx)?(\.new)?(\.tmp)?")


@dataclass(frozen=True)
class SamplesFolder:
    """A folder that takes ``limit`` bytes, in parts of about ``part_bytes`` each."""

    path: str
    limit: int
    part_bytes: int

    def names(self) -> list[str]:
        """The names of the parts that are complete, oldest first."""
        there = set(os.listdir(self.path))
        return sorted(name for name in there if _PART.fullmatch(name) and name + ".idx" in there)

    def used(self) -> int:
        """Bytes of all files, those of parts that are being written too."""
        return sum(_length(os.path.join(self.path, name)) for name in os.listdir(self.path))

    def evict(self, room: int) -> list[str]:
        """Removes the oldest parts, but the last one, until there are ``room`` bytes; returns their names."""
        gone = []
        for name in self.names()[:-1]:
            if self.used() + room <= self.limit:
                break
            for file in (name, name + ".idx"):
                clear(os.path.join(self.path, file))
            gone.append(name)
        return gone

    def clear_unfinished(self) -> None:
        """Removes what producers that were killed have left."""
        kept = set(self.names())
        for name in os.listdir(self.path):
            if _REST.fullmatch(name) and name.removesuffix(".idx") not in kept:
                clear(os.path.join(self.path, name))


def _length(path: str) -> int:
    try:
        return os.path.getsize(path)
    except FileNotFoundError:  # it has just got its name, or is gone
        return 0
