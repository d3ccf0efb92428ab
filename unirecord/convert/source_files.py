"""Whether the files of a source are still those that a stopped conversion has read: by size and time of change."""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from .sources.base import Source

__all__ = ["changed_file", "stamps_of"]

_MOST_STAMPS: Final = 4096  # of any number of files: about 150 KB in the journal


def stamps_of(files: Iterable[str]) -> dict[str, str]:
    """What tells files from changed ones, for `changed_file`: each of at most 4096 stamps is of some of them."""
    found: dict[str, Any] = {}
    for path in sorted(map(os.path.abspath, files)):
        try:
            status = os.stat(path)
        except OSError:  # reading it says what is wrong
            continue
        name = os.fsencode(path)
        stamp = found.setdefault(_place_of(path), hashlib.blake2b(digest_size=12))
        stamp.update(b"%d %d %d %b\n" % (len(name), status.st_size, status.st_mtime_ns, name))
    return {place: stamp.hexdigest() for place, stamp in found.items()}


def changed_file(source: Source, before: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """What to say of a file that is another than before, None where all are the same.

    Of files that share a stamp, the one that was changed last is named.
    """
    places = {place for place in {**before, **now} if before.get(place) != now.get(place)}
    if not places:
        return None
    newest, name = -1, None
    for path in map(os.path.abspath, source.files()):
        try:
            changed = os.stat(path).st_mtime_ns if _place_of(path) in places else -1
        except OSError:
            continue
        if changed > newest:
            newest, name = changed, path
    if name is None:
        return f"a file of {source.path} has gone"
    return f"{name} has changed (its size, or when it was written)"


def _place_of(path: str) -> str:
    return f"{zlib.crc32(os.fsencode(path)) % _MOST_STAMPS:x}"
