"""Folders for files and names that nobody is to see, removed with all that is in them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Buckets",
    "linked",
    "temporary_folder",
]


# A folder for files that nobody is to see, removed with all that is in it.


@contextmanager
def temporary_folder(parent: str | None = None) -> Iterator[str]:
    """Give the path of an empty folder in ``parent``, or where the system keeps temporary files; then remove it."""
    with tempfile.TemporaryDirectory(prefix="unirecord-", dir=parent) as folder:
        yield folder


# Records that are put aside in files of a temporary folder, one for each bucket, and taken bucket by bucket.


class Buckets:
    """Records that are put aside in files, one for each bucket, or in memory when there is one bucket."""

    def __init__(self, folder: str | None, name: str, dtype: np.dtype[Any]) -> None:
        self._folder, self._name, self._dtype = folder, name, dtype
        self._here: list[NDArray[Any]] = []

    def add(self, buckets: NDArray[np.int64], records: NDArray[Any]) -> None:
        """Puts each record into its bucket."""
        if not len(records):
            return
        if self._folder is None:
            self._here.append(records)
            return
        order = np.argsort(buckets, kind="stable")
        found, starts = np.unique(buckets[order], return_index=True)
        for bucket, some in zip(found.tolist(), np.split(records[order], starts[1:]), strict=True):
            with open(self._path(bucket), "ab") as file:
                file.write(some.tobytes())

    def take(self, bucket: int) -> NDArray[Any]:
        """All records of a bucket, once."""
        if self._folder is None:
            found, self._here = self._here, []
            return np.concatenate(found) if found else np.empty(0, self._dtype)
        try:
            with open(self._path(bucket), "rb") as file:
                content = np.frombuffer(file.read(), self._dtype)
        except FileNotFoundError:
            return np.empty(0, self._dtype)
        os.unlink(self._path(bucket))
        return content

    def _path(self, bucket: int) -> str:
        assert self._folder is not None
        return os.path.join(self._folder, f"{self._name}-{bucket}")


# Other names for files that have none of their own yet, for who opens them by names that belong together.


@contextmanager
def linked(files: Mapping[str, str]) -> Iterator[str]:
    """Give the path of a temporary folder in which each name leads to a file, ``{name: path}``; then remove it."""
    with temporary_folder() as folder:
        for name, path in files.items():
            os.symlink(os.path.abspath(path), os.path.join(folder, name))
        yield folder
