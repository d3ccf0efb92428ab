"""Ranges of an object whose bytes are known, through a cache of them on the disk."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from unirecord.core import Put, Range
from unirecord.snapshot.cache import CachedFile, CachedParts, CacheOptions
from unirecord.storage.cache import on_disk

__all__ = ["Rows", "fetched", "on_the_disk", "ranges"]


def on_the_disk(path: Path) -> int:
    return sum(on_disk(file.stat().st_size) for file in path.iterdir()) + on_disk(path.stat().st_size)


class Rows:
    """An object of which every byte follows from its place, and what brings its ranges."""

    def __init__(self, size: int = 400_000) -> None:
        self.data = random.Random(size).randbytes(size)
        self.asked = 0

    def fetch(self, ranges: Any, put: Put) -> None:
        self.asked += sum(wanted.size for wanted in ranges)
        for number, wanted in reversed(list(enumerate(ranges))):  # they may come in any order
            put(number, self.data[wanted.offset : wanted.offset + wanted.size])

    def parts(self, path: Path, limit: int, url: str = "s3://b/a", version: int = 1) -> CachedParts:
        files = [CachedFile(url, (version, i), len(self.data)) for i in range(2)]
        return CachedParts(CacheOptions(str(path), limit), files, self.fetch)

    def has(self, parts: CachedParts, offset: int, size: int) -> bool:
        """Whether the cache gives these bytes; they are right if it does."""
        found = parts.table.read(0, offset, size)
        assert found is None or found == self.data[offset : offset + size]
        return found is not None


def fetched(parts: CachedParts, wanted: list[Range]) -> list[bytes]:
    """What a set gets of its cache; the memory that it is put into is used again."""
    found: dict[int, bytearray] = {}

    def put(number: int, brought: Any) -> bytearray:
        found[number] = bytearray(brought)
        return found[number]

    parts.fetch(wanted, put)
    kept = [bytes(found[number]) for number in range(len(wanted))]
    for memory in found.values():
        memory[:] = bytes(len(memory))
    return kept


def ranges(*pairs: tuple[int, int]) -> list[Range]:
    return [Range(0, False, offset, size, True) for offset, size in pairs]
