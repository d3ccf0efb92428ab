"""A folder for files that nobody is to see, removed with all that is in it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["temporary_folder"]


@contextmanager
def temporary_folder(parent: str | None = None) -> Iterator[str]:
    """Give the path of an empty folder in ``parent``, or where the system keeps temporary files; then remove it."""
    with tempfile.TemporaryDirectory(prefix="unirecord-", dir=parent) as folder:
        yield folder
