"""Checks a dataset whole: headers, identities, every digest, every zero byte, and that indexes say what data files do."""

from __future__ import annotations

from os import PathLike

from .report import Problem, Progress, Report

__all__ = ["Problem", "Report", "verify"]


def verify(
    path: str | PathLike[str],
    *,
    quick: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Check the dataset at ``path`` and report all that is wrong with it; files are only read.

    ``quick`` looks at headers, identities, sizes and the manifest alone. Raises `MissingError` when there is nothing
    at ``path``; what is wrong with the files is in the report, never an exception.
    """
    raise NotImplementedError
