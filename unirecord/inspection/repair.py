"""Makes readable again what can be: rebuilds indexes, and salvages damaged or unfinished data files into new parts."""

from __future__ import annotations

from os import PathLike

from .report import Progress, RepairReport, Salvaged

__all__ = ["RepairReport", "Salvaged", "repair"]


def repair(
    path: str | PathLike[str], *, output: str | PathLike[str] | None = None, progress: Progress | None = None
) -> RepairReport:
    """Rebuild what is lost at ``path``; data files are never changed.

    A lost or bad index is rebuilt beside its data file. A damaged or unfinished data file is salvaged into a new part
    at ``output`` (default: ``NAME.repaired.urec`` beside it, ``NAME.repaired`` for a directory): whole row groups, and
    of damaged ones the rows whose digests hold. Raises `MissingError` when there is nothing at ``path``, `ExistsError`
    when ``output`` exists, `FormatError` when the head of a data file is lost, so that nothing can be salvaged.
    """
    raise NotImplementedError
