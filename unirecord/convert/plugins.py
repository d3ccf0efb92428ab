"""Sources and sinks that other packages bring, found by their entry points."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

__all__ = ["with_installed"]

_T = TypeVar("_T")


def with_installed(
    known: tuple[_T, ...], group: str, kind_of: Callable[[Any], str | None], before: _T | None = None
) -> tuple[_T, ...]:
    """Those that are ``known``, and those that installed packages name in the entry points of ``group``.

    They stand in front of ``before``, else at the end. ``kind_of`` gives the kind of what an entry point names, or
    None for what is none such. What cannot be used is warned of by the name of its package, and left out.
    """
    found: list[_T] = []
    taken = {kind_of(one) for one in known}
    for entry in sorted(entry_points(group=group), key=lambda entry: (entry.name, entry.value)):
        try:
            brought = entry.load()
        except Exception as error:
            _warn(entry, f"it cannot be imported: {error!r}")
            continue
        kind = kind_of(brought)
        if kind is None:
            _warn(entry, f"{entry.value} is none")
        elif kind in taken:
            _warn(entry, f"there is a kind {kind!r} already")
        else:
            taken.add(kind)
            found.append(brought)
    place = len(known) if before is None else known.index(before)
    return (*known[:place], *found, *known[place:])


def _warn(entry: EntryPoint, why: str) -> None:
    package = "a package" if entry.dist is None else entry.dist.name
    what = entry.group.removeprefix("unirecord.").removesuffix("s")
    warnings.warn(f"{package} brings the {what} {entry.name!r}, which is left out: {why}", stacklevel=3)
