"""Other names for files that have none of their own yet, for who opens them by names that belong together."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from .temporary_folder import temporary_folder

__all__ = ["linked"]


@contextmanager
def linked(files: Mapping[str, str]) -> Iterator[str]:
    """Give the path of a temporary folder in which each name leads to a file, ``{name: path}``; then remove it."""
    with temporary_folder() as folder:
        for name, path in files.items():
            os.symlink(os.path.abspath(path), os.path.join(folder, name))
        yield folder
