"""Where a cache of an object store lies, and how large it may be: for one dataset, or for all that are opened."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ..sizes import parse_size

__all__ = ["CacheOptions", "default_cache", "use_cache_by_default"]


@dataclass(frozen=True)
class CacheOptions:
    """Where a cache lies, and how many bytes of the disk it may take."""

    path: str
    limit: int

    @classmethod
    def of(cls, path: str | os.PathLike[str] | None, limit: int | str | None) -> CacheOptions | None:
        """The options as they are given; None without a cache. ValueError when one is missing or wrong."""
        if path is None and limit is None:
            return None
        if path is None or limit is None:
            raise ValueError(
                "cache= and cache_bytes= belong together: a directory on a local disk, and the bytes that it may "
                'take, as cache="/scratch/cache", cache_bytes="200GB"'
            )
        return cls(os.path.abspath(os.fspath(path)), parse_size(limit))


_default: list[CacheOptions] = []


def default_cache() -> CacheOptions | None:
    """The cache of what is opened without one."""
    return _default[0] if _default else None


@contextmanager
def use_cache_by_default(options: CacheOptions | None) -> Iterator[None]:
    """What any thread opens of an object store within the block has this cache, if it has none of its own."""
    before = list(_default)
    _default[:] = [] if options is None else [options]
    try:
        yield
    finally:
        _default[:] = before
