"""What a path names: one part, a directory of parts, a glob, or a list of these, as parts in order with one schema."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from shlex import quote
from typing import Final, TypeVar

import numpy as np

from ..core import NativeSet
from ..errors import CorruptionError, FormatError, MissingError, StaleError, UniRecordError
from ..format.patch import check_patch, decode_patch
from ..format.values import unpack_object
from ..storage.location import Location
from ..storage.schemes import location_of
from ..storage.storage_options import current_storage, use_storage
from . import manifest
from .deletions import Deletion
from .layouts import Layout
from .manifest import Manifest, PartEntry
from .part import decode_metadata
from .part_list import PartList
from .prefetch import Beginnings, fetch_for
from .snapshot import ListedRefs, Listing, PartRef, Snapshot, join_snapshots, narrowed
from .versions import (
    block_facts,
    files_identity,
    kept_name,
    located_version,
    parts_identity,
    read_newest,
    read_version,
    rows_identity,
    split_version,
)

__all__ = [
    "PartRef",
    "Snapshot",
    "datasets_among",
    "deletion_of",
    "explain_lost_file",
    "explain_missing",
    "has_moved_on",
    "meant_instead",
    "missing_file",
    "no_directory",
    "resolve",
    "resolve_again",
    "use_snapshot",
]


# What to do about a path that names no dataset: what was probably meant.


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


def explain_missing(path: str, *, directory: bool = False) -> str:
    """Return the message for a path at which there is nothing, where a part may be, or just a ``directory`` of them."""
    if path.startswith("~"):
        return f"{path}: there is no such file or directory; only a shell expands ~, so name {os.path.expanduser(path)}"
    try:
        return _explained(path, location_of(path), directory)
    except (OSError, UniRecordError):  # a store that does not answer all that is asked about what lies near
        return f"{path}: there is no such file or directory"


def _explained(path: str, location: Location, directory: bool) -> str:
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
    meant = [one for one in datasets_among(near) if not directory or location.is_directory(one)]
    guess = f"; did you mean {meant[0]!r}?" if meant else ""
    if folder and not there and not location.is_directory(folder):
        guess = f"; there is no directory {folder!r} either"
    return f"{path}: there is no such file or directory{guess}"


def no_directory(path: str, why: str = "", advice: str = "") -> MissingError:
    """What to raise where a directory of parts is to be changed and ``path`` is none.

    ``why`` is said of what else there is, ``advice`` also where there is nothing.
    """
    folder, number = located_version(path)
    if number is not None:
        return MissingError(
            f"{path}: this names version {number}, and what is published stays as it is; name {folder}"
        )
    if location_of(path).find(path) is None:
        return MissingError(f"{explain_missing(path, directory=True)}{advice}")
    return MissingError(f"{path}: there is no directory of parts here{why}{advice}")


def explain_lost_file(folder: str, name: str) -> str:
    """Return the message for a file that a directory's manifest names, and that is not there."""
    full = os.path.join(folder, name)
    if ".del-" in name:
        return (
            f"{full}: this file, which says what rows have been deleted, is missing; put it back, or go back to a "
            f"version without it: unirecord restore {quote(folder)}@N (unirecord log lists them)"
        )
    if name.endswith(".idx"):
        return f"{full}: this index is missing; run `unirecord repair {quote(folder)}` to rebuild it from the data file"
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
    if isinstance(found.parts, PartList) and found.parts.is_plain:
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


PathLike = str | os.PathLike[str]
_WILDCARD = re.compile(r"[*?\[]")
_AT_ONCE = 16  # paths that are looked up at once in an object store
_ATTEMPTS = 100  # openings of what is replaced meanwhile
_T = TypeVar("_T")


def resolve(path: PathLike | Sequence[PathLike]) -> Snapshot:
    """Finds out what ``path`` names: reads one file of a directory, and opens single parts.

    In an object store with the options of ``use_storage``, which the snapshot keeps.
    Raises MissingError, FormatError, CorruptionError, StaleError about files, SchemaError when parts have
    different schemas, each naming the file, and ValueError for an empty list.
    """
    if isinstance(path, (str, os.PathLike)):
        snapshot = _resolve_one(os.fspath(path))
    elif isinstance(path, Sequence) and not isinstance(path, (bytes, bytearray)):
        if not path:
            raise ValueError("path is an empty list; expected at least one part or directory")
        snapshot = join_snapshots(_resolve_each([os.fspath(item) for item in path]))
    else:
        raise TypeError(f"path is {path!r}; expected a path, or a list of paths")
    return replace(snapshot, path=path, storage=current_storage())


def _resolve_common(paths: Sequence[PathLike], names: Sequence[str]) -> Snapshot:
    """What a list of paths names, each as these columns alone, in this order, whatever else is stored there."""
    each = [narrowed(found, names) for found in _resolve_each([os.fspath(item) for item in paths])]
    return replace(join_snapshots(each), path=paths, storage=current_storage(), common=tuple(names))


def resolve_again(path: PathLike | Sequence[PathLike], common: Sequence[str]) -> Snapshot:
    """What a path names now that was looked up by `resolve`, or as these ``common`` columns alone."""
    return _resolve_common(path, common) if common else resolve(path)  # type: ignore[arg-type]


def use_snapshot(path: PathLike | Sequence[PathLike], use: Callable[[Snapshot], _T]) -> _T:
    """What ``use`` makes of the parts at ``path``: again when they were replaced while it opened them."""
    for _ in range(_ATTEMPTS):
        snapshot = resolve(path)
        try:
            return use(snapshot)
        except (MissingError, StaleError):
            if not has_moved_on(snapshot):
                raise
    raise _overtaken(path)


def has_moved_on(snapshot: Snapshot) -> bool:
    """Whether the dataset has been published anew since; False when that cannot be known."""
    try:
        with use_storage(snapshot.storage):
            if snapshot.path is None:
                return False
            return resolve_again(snapshot.path, snapshot.common).identity != snapshot.identity  # type: ignore[arg-type]
    except (OSError, UniRecordError):
        return False


def _overtaken(path: object) -> StaleError:
    return StaleError(
        f"{path}: it was replaced {_ATTEMPTS} times while it was opened; open it again when its writer pauses"
    )


def _resolve_each(paths: Sequence[str]) -> list[Snapshot]:
    """What each path names; looked up at once where that takes time."""
    if len(paths) < 2 or all(location_of(path).in_file_system for path in paths):
        return [_resolve_one(path) for path in paths]
    with ThreadPoolExecutor(min(_AT_ONCE, len(paths))) as pool:
        return list(
            pool.map(
                lambda context, path: context.run(_resolve_one, path), [copy_context() for _ in paths], paths
            )
        )


def _resolve_one(path: str) -> Snapshot:
    instead = meant_instead(path)
    if instead is not None:
        raise MissingError(instead)
    location = location_of(path)
    if not location.in_file_system:
        return _resolve_elsewhere(path, location)
    if location.is_directory(path):
        return _resolve_directory(path)
    folder, version = located_version(path)
    if version is not None:
        return _resolve_directory(folder, version)
    return _resolve_name(path, location)


def _resolve_elsewhere(path: str, location: Location) -> Snapshot:
    """What a name stands for where looking takes time: asked for what it most likely is."""
    matching = location.matching(path) if _WILDCARD.search(path) else None
    if matching is not None:
        return _resolve_matching(path, matching)
    folder, version = split_version(path)
    is_part = path.endswith(".urec")
    there = _or_missing(_resolve_part if is_part else _resolve_directory, path)
    if isinstance(there, Snapshot):
        return there
    part = _or_missing(_resolve_part, path) if version is None and not is_part else there
    if isinstance(part, Snapshot):
        return part
    found = location.find(path)
    if found is not None and (is_part or found.kind == "directory"):
        raise there
    if version is not None:
        return _resolve_directory(folder, version)
    raise MissingError(explain_missing(path)) if found is None else part


def _or_missing(resolve_as: Callable[[str], Snapshot], path: str) -> Snapshot | MissingError:
    try:
        return resolve_as(path)
    except MissingError as error:
        return error


def _resolve_name(path: str, location: Location) -> Snapshot:
    """A part, or a pattern."""
    matching = location.matching(path)
    if matching is not None:
        return _resolve_matching(path, matching)
    if location.find(path) is None:
        raise MissingError(explain_missing(path))
    return _resolve_part(path)


def _resolve_matching(path: str, matching: Sequence[str]) -> Snapshot:
    found = datasets_among(matching)
    if not found:
        raise MissingError(f"{path}: no part and no directory matches this pattern")
    return join_snapshots(_resolve_each(found))


def _resolve_part(path: str) -> Snapshot:
    if not location_of(path).in_file_system:
        return _read_part(path)
    for _ in range(_ATTEMPTS):
        before = _state_of(path)
        try:
            return _read_part(path)
        except (MissingError, StaleError, CorruptionError):
            if _state_of(path) == before:
                raise
    raise _overtaken(path)


def _state_of(path: str) -> list[tuple[int, ...] | None]:
    """What tells that the files of a part have been replaced."""
    found = [location_of(path).find(name) for name in (path, path + ".idx", path + ".idx.new")]
    return [None if entry is None else entry.version for entry in found]


def _read_part(path: str) -> Snapshot:
    beginnings = Beginnings()
    fetch = fetch_for([path], np.full((1, 2), -1), [beginnings], heads_only=True)
    io = "pread" if fetch is None else "auto"
    parts = NativeSet(
        [(path, None, -1, None)],
        io,
        "first",
        fetch=fetch,
        sizes=None if fetch is None else fetch.sizes,
        heads_only=True,
    )
    try:
        part = parts.part(0)
        content = decode_metadata(part.metadata(), path)
        try:
            schema = content.schema.with_codecs(part.table())
        except FormatError as error:
            raise FormatError(f"{path}: {error}") from error
        digest = None if fetch is None else part.content_digest  # a cache knows the part by it
        info = part.info
        ref = PartRef(
            path, part.id, info.rows, info.data_bytes, digest, info.index_bytes, beginnings=beginnings
        )
    finally:
        parts.close()
    identity = f"{part.id.hex()}-{part.content_digest.hex()}"
    return Snapshot(
        (ref,), schema, content.index, content.user, identity, rows_identity=identity, parts_identity=identity
    )


def _resolve_directory(path: str, version: int | None = None) -> Snapshot:
    for _ in range(_ATTEMPTS):
        found = _read_manifest(path, version)
        missing = missing_file(path, found)
        if missing is None:
            break
        if _read_manifest(path, version) == found:
            raise MissingError(explain_lost_file(path, missing))
    else:
        raise _overtaken(path)
    folder = os.path.join(path, "")
    parts: Sequence[PartRef]
    if isinstance(found.parts, PartList) and found.parts.is_plain:
        parts = ListedRefs(folder, found.parts.fields)
    else:
        parts = tuple(_ref_of(folder, path, part, found.layouts) for part in found.parts)
    user = None if found.metadata is None else unpack_object(found.metadata)
    named = os.path.join(path, manifest.NAME)
    return Snapshot(
        parts,
        found.schema,
        found.index,
        user,
        files_identity(found),
        listings=_listings(path, found),
        rows_identity=rows_identity(found, named),
        block_facts=block_facts(found, named),
        parts_identity=parts_identity(found),
        layouts=found.layouts,
    )


def _ref_of(folder: str, path: str, part: PartEntry, layouts: Sequence[Layout]) -> PartRef:
    columns = part.columns
    layout, files, patch = (
        (0, (), b"") if columns is None else (columns.layout + 1, columns.files, columns.patch)
    )
    if patch:
        _check_patch(os.path.join(path, manifest.NAME), part, layouts[layout - 1])
    return PartRef(
        folder + part.name,
        part.id,
        part.rows,
        part.bytes,
        bytes.fromhex(part.content),
        part.index_bytes,
        deletion=deletion_of(path, part),
        layout=layout,
        files=tuple(
            PartRef(
                folder + file.name,
                file.id,
                part.rows,
                file.bytes,
                bytes.fromhex(file.content),
                file.index_bytes,
                patch=patch,
                file=number,
            )
            for number, file in enumerate(files, 1)
        ),
        patch=patch,
    )


def _check_patch(name: str, part: PartEntry, layout: Layout) -> None:
    assert part.columns is not None
    try:
        check_patch(decode_patch(part.columns.patch), layout.files, layout.columns, part.rows)
    except FormatError as error:
        raise FormatError(f"{name}: part {part.name}: {error}") from None


def deletion_of(folder: str, part: PartEntry) -> Deletion | None:
    """What a manifest in this directory says of the rows of a part that have been deleted."""
    gone = part.deleted
    return (
        None
        if gone is None
        else Deletion(os.path.join(folder, gone.name), gone.rows, gone.bytes, gone.digest)
    )


def _listings(path: str, found: Manifest) -> tuple[Listing, ...]:
    if not location_of(path).in_file_system:
        return ()
    names = (kept_name(found.generation), manifest.NAME)  # the newest is linked first, and then replaced
    mark = f'"digest":"{found.digest}"'.encode()
    return (Listing(tuple(os.path.join(path, name) for name in names), mark),)


def _stray_part(path: str) -> str | None:
    location = location_of(path)
    names = location.names(path) if location.in_file_system else []
    return min((name for name in names if manifest.PART_NAME.fullmatch(name)), default=None)


def _read_manifest(path: str, version: int | None) -> Manifest:
    try:
        return read_newest(path) if version is None else read_version(path, version)
    except MissingError:
        raise
    except FileNotFoundError:
        if (part := _stray_part(path)) is not None:
            raise MissingError(
                f"{path}: there are parts, such as {part}, and no {manifest.NAME} that names them: it was lost, or a "
                f"writer died; `unirecord repair {quote(path)}` makes it anew from the parts"
            ) from None
        raise MissingError(
            f"{path}: there is no {manifest.NAME} in this directory, so it is not a dataset; "
            "name a directory made by unirecord, or the .urec files themselves; `unirecord write` makes a dataset "
            "from a folder of pictures"
        ) from None
