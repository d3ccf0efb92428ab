"""What collecting versions has removed, on a disk or in an object store."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Collected"]


@dataclass(frozen=True)
class Collected:
    """What `unirecord.gc` has removed, or would.

    Attributes:
        removed: versions whose manifests are gone, ascending.
        in_use: versions that would have been removed, and that somebody on this machine reads, ascending.
        unknown: versions likewise of which no lock could tell, since the file system has none, ascending.
        kept: all other versions, the newest last.
        parts: parts, and files of deleted rows, that are gone: those that only removed versions named, and those that
            a conversion that was stopped had finished to append them.
        bytes: of these parts' data files and indexes.
    """

    removed: tuple[int, ...]
    in_use: tuple[int, ...]
    unknown: tuple[int, ...]
    kept: tuple[int, ...]
    parts: int
    bytes: int
