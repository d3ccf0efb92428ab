"""Records that are put aside in files of a temporary folder, one for each bucket, and taken bucket by bucket."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Buckets"]


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
