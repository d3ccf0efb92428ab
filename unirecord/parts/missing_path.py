"""What to do about a path that names no dataset: what was probably meant."""

from __future__ import annotations

import difflib
import os

from ..storage.registry import location_of
from . import manifest

__all__ = ["explain_missing", "may_be_dataset", "meant_instead"]


def meant_instead(path: str) -> str | None:
    """Return what to name instead of ``path``, whether or not there is such a file; None: the path may be right."""
    if not path:
        return "the path is empty; name a part (.urec), a directory of parts, or a glob"
    if path.endswith(".urec.idx"):
        return f"{path} is the index of a part; name the part itself: {path.removesuffix('.idx')}"
    if os.path.basename(path) == manifest.NAME:
        return (
            f"{path} is the list of a directory's parts; name the directory: {os.path.dirname(path) or '.'}"
        )
    return None


def explain_missing(path: str) -> str:
    """Return the message for a path at which there is nothing."""
    if path.startswith("~"):
        return f"{path}: there is no such file or directory; only a shell expands ~, so name {os.path.expanduser(path)}"
    location = location_of(path)
    if (target := location.link(path)) is not None:
        return f"{path}: is a link to {target}, where there is nothing"
    stem = path.rstrip("/")
    other = stem.removesuffix(".urec") if stem.endswith(".urec") else f"{stem}.urec"
    folder, name = os.path.split(stem)
    try:
        there = [entry for entry in location.names(folder) if may_be_dataset(os.path.join(folder, entry))]
    except OSError:
        there = []
    by_stem = {entry.removesuffix(".urec"): entry for entry in there}
    if os.path.basename(other) not in there:
        nearest = difflib.get_close_matches(name.removesuffix(".urec"), by_stem, n=1, cutoff=0.7)
        other = os.path.join(folder, by_stem[nearest[0]]) if nearest else ""
    guess = f"; did you mean {other!r}?" if other else ""
    if folder and not location.is_directory(folder):
        guess = f"; there is no directory {folder!r} either"
    return f"{path}: there is no such file or directory{guess}"


def may_be_dataset(path: str) -> bool:
    """Whether there may be a part, or a directory of parts, at a path that is there."""
    if path.endswith(".urec"):
        return True
    found = location_of(path).find(os.path.join(path, manifest.NAME))
    return found is not None and found.kind == "file"
