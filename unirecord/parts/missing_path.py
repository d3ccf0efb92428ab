"""What to do about a path that names no dataset: what was probably meant."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from typing import Final

from ..errors import UniRecordError
from ..storage.location import Location
from ..storage.registry import location_of
from . import manifest
from .manifest import ListedParts, Manifest

__all__ = ["datasets_among", "explain_lost_file", "explain_missing", "meant_instead", "missing_file"]

_INDEXES: Final = (".urec.idx", ".urec.idx.new")
_NEAREST: Final = 16  # names that are looked at for one that may have been meant


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
    try:
        return _explained(path, location_of(path))
    except (OSError, UniRecordError):  # a store that does not answer all that is asked about what lies near
        return f"{path}: there is no such file or directory"


def _explained(path: str, location: Location) -> str:
    if (target := location.link(path)) is not None:
        return f"{path}: is a link to {target}, where there is nothing"
    if location.is_taken(path + ".idx"):  # so there was a part
        return (
            f"{path}: this part does not exist, but its index does ({path}.idx); put the file back beside it"
        )
    stem = path.rstrip("/")
    other = stem.removesuffix(".urec") if stem.endswith(".urec") else f"{stem}.urec"
    folder, name = os.path.split(stem)
    try:
        there = location.names(folder)
    except OSError as error:
        if (
            isinstance(error, NotADirectoryError) and not location.in_file_system
        ):  # a web server lists nothing
            return f"{path}: there is no such file or directory"
        there = []
    by_stem = {entry.removesuffix(".urec"): entry for entry in sorted(there) if not entry.endswith(_INDEXES)}
    nearest = difflib.get_close_matches(name.removesuffix(".urec"), by_stem, n=_NEAREST, cutoff=0.7)
    near = [other] if os.path.basename(other) in there else []
    near += [os.path.join(folder, by_stem[stem]) for stem in nearest]
    meant = datasets_among(near)
    guess = f"; did you mean {meant[0]!r}?" if meant else ""
    if folder and not there and not location.is_directory(folder):
        guess = f"; there is no directory {folder!r} either"
    return f"{path}: there is no such file or directory{guess}"


def explain_lost_file(folder: str, name: str) -> str:
    """Return the message for a file that a directory's manifest names, and that is not there."""
    full = os.path.join(folder, name)
    if ".del-" in name:
        return f"{full}: this file, which says what rows have been deleted, is missing; put it back"
    if name.endswith(".idx"):
        return (
            f"{full}: this index is missing; run `unirecord repair {folder}` to rebuild it from the data file"
        )
    return f"{full}: this part is missing, {manifest.NAME} names it; put the file and its index back"


def datasets_among(paths: Sequence[str]) -> list[str]:
    """Those of the paths, which are there, at which there may be a part, or a directory of parts; asked for at once."""
    others = [path for path in paths if not path.endswith((".urec", *_INDEXES))]
    found = (
        location_of(paths[0]).find_each([os.path.join(path, manifest.NAME) for path in others])
        if others
        else []
    )
    listed = {path for path, entry in zip(others, found, strict=True) if entry and entry.kind == "file"}
    return [path for path in paths if path.endswith(".urec") or path in listed]


def missing_file(path: str, found: Manifest) -> str | None:
    """Name of a file that the manifest needs and the directory does not have.

    In an object store, where a list costs more than it tells, it is found out when a part is opened.
    """
    if not location_of(path).in_file_system:
        return None
    there = set(location_of(path).names(path))
    if isinstance(found.parts, ListedParts):
        names = found.parts.fields.names
        if there.issuperset(names) and there.issuperset([name + ".idx" for name in names]):
            return None
    for part in found.parts:
        if part.deleted is not None and part.deleted.name not in there:
            return part.deleted.name
        files = () if part.columns is None else part.columns.files
        for name in (part.name, *(file.name for file in files)):
            if name not in there:
                return name
            if name + ".idx" not in there and name + ".idx.new" not in there:
                return name + ".idx"
    return None
