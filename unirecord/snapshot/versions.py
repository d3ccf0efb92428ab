"""Versions of a directory: each publication is one, and the manifests of those before the newest are kept beside it."""

from __future__ import annotations

import json
import os
import re
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from ..core import xxh3_64
from ..errors import FormatError, MissingError, UniRecordError
from ..storage.schemes import location_of
from . import manifest
from .layouts import encode_layouts
from .manifest import Manifest, pruned
from .part_list import PartList, piece_name

__all__ = [
    "BlockFacts",
    "KEPT_NAME",
    "Publication",
    "begun_by",
    "block_facts",
    "files_identity",
    "files_of",
    "given_up",
    "giving_up",
    "kept_name",
    "kept_rows",
    "kept_versions",
    "located_version",
    "parts_identity",
    "parts_of",
    "path_of_version",
    "publication_of",
    "published_as",
    "read_newest",
    "read_version",
    "rows_identity",
    "same_version",
    "split_version",
    "version_with",
]


KEPT_NAME: Final = re.compile(r"manifest-([0-9]{6}|[1-9][0-9]{6,17})")
_AT: Final = re.compile(r"(.+)@([0-9]{1,18})", re.DOTALL)
_COMMAND: Final = re.compile(r"[a-z][a-z-]{0,30}")
_ATTEMPTS: Final = 100  # to read a version that is published, or replaced, at this moment


@dataclass(frozen=True)
class Publication:
    """How a version came about.

    Attributes:
        command: what published it: "write", "append", "restore", …; "unknown": by software that does not say.
        when: seconds since 1970, UTC; None where the manifest does not say.
        first: the version that the dataset began with: those before are of what has been overwritten.
        of: the version that was restored.
    """

    command: str
    when: int | None
    first: int
    of: int | None = None


def kept_name(number: int) -> str:
    """File name of the manifest of version ``number`` beside a newer one.

    Without an ending: who takes a folder for what most of its files are must not take it for JSON.
    """
    return f"manifest-{number:06d}"


def split_version(path: str) -> tuple[str, int | None]:
    """``data@7`` as ("data", 7), whether or not there is such a file; else (path, None)."""
    found = _AT.fullmatch(path)
    return (path, None) if found is None or found[1].endswith("/") else (found[1], int(found[2]))


def located_version(path: str) -> tuple[str, int | None]:
    """The directory and the version that a path such as ``data@7`` names; (path, None) where it is another name."""
    folder, number = split_version(path)
    if number is None or location_of(path).is_taken(path) or not location_of(folder).is_directory(folder):
        return path, None
    return folder, number


def path_of_version(path: object, version: object) -> str:
    """The path of a version of the directory at ``path``; ValueError where that cannot have one."""
    if not isinstance(path, (str, os.PathLike)):
        raise ValueError(
            "version= is of one directory of parts, and path is a list; name each as DIRECTORY@VERSION"
        )
    if type(version) is not int or version < 1:
        raise ValueError(f"version is {version!r}; expected a number from 1, as `unirecord log` lists them")
    folder = os.fspath(path).rstrip("/")
    location, named = location_of(folder), f"{folder}@{version}"
    if location.in_file_system and location.is_taken(folder) and not location.is_directory(folder):
        raise ValueError(
            f"{folder}: version= is of a directory of parts, and this is one part, which has no versions"
        )
    if location.in_file_system and location.is_taken(named):
        raise ValueError(
            f"{named}: something has this name, so that version {version} of {folder} has none; rename it"
        )
    return named


def kept_versions(names: Iterable[str]) -> list[int]:
    """The versions whose manifests are among the names of a directory, beside the newest; ascending."""
    beginnings = (name for name in names if name.startswith("manifest-"))
    return sorted(int(found[1]) for name in beginnings if (found := KEPT_NAME.fullmatch(name)))


def publication_of(listing: Manifest, path: str) -> Publication:
    """What a manifest says of its own publication; FormatError where it says nonsense."""
    said = listing.publication
    if said is None:
        return Publication("write", None, listing.generation)
    try:
        found = _publication(said)
    except (TypeError, KeyError, ValueError, OverflowError) as error:
        raise FormatError(f"{path}: what it says of its publication makes no sense: {error}") from None
    if found.first > listing.generation:
        raise FormatError(
            f"{path}: it says that version {found.first} was before version {listing.generation}"
        )
    return found


def _publication(said: Mapping[str, Any]) -> Publication:
    when, of = said["when"], said.get("of")
    numbers = [said["first"], *([] if of is None else [of])]
    if any(type(number) is not int or not 0 < number < 1 << 63 for number in numbers):
        raise ValueError(f"{numbers} are not all numbers of versions")
    if not _COMMAND.fullmatch(said["command"]):
        raise ValueError(f"{said['command']!r} is no command")
    moment = datetime.strptime(when, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    return Publication(said["command"], int(moment.timestamp()), said["first"], of)


def published_as(
    listing: Manifest, before: Manifest, command: str, path: str, of: int | None = None
) -> Manifest:
    """The manifest as the version after ``before`` of the dataset at ``path``, published now by ``command``.

    The time is that of SOURCE_DATE_EPOCH, where the environment has it, as https://reproducible-builds.org says.
    """
    generation = before.generation + 1
    first = publication_of(before, path).first
    said: dict[str, Any] = {"command": command, "when": _now(), "first": first}
    if of is not None:
        said["of"] = of
    next_part = max(listing.next_part, before.next_part)
    return pruned(replace(listing, generation=generation, next_part=next_part, publication=said))


def begun_by(listing: Manifest, command: str) -> Manifest:
    """The manifest as that of the first version of a dataset, published now by ``command``."""
    return replace(listing, publication={"command": command, "when": _now(), "first": listing.generation})


def _now() -> str:
    now = int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def files_of(listing: Manifest) -> set[str]:
    """The names of all files that a manifest names, but for indexes: those of its parts, and pieces."""
    pieces = listing.parts.pieces if isinstance(listing.parts, PartList) else ()
    return parts_of(listing).union(piece_name(piece.digest) for piece in pieces)


def parts_of(listing: Manifest) -> set[str]:
    """The names of all parts that a manifest names, with column parts, and of their deletion files."""
    if isinstance(listing.parts, PartList) and listing.parts.is_plain:
        return set(listing.parts.fields.names)
    names = {part.name for part in listing.parts}
    names |= {part.deleted.name for part in listing.parts if part.deleted is not None}
    return names | {
        file.name for part in listing.parts if part.columns is not None for file in part.columns.files
    }


def given_up(listing: Manifest) -> set[str]:
    """Files that a `gc` deletes from an object store, so that no later version may name them."""
    files = None if listing.given_up is None else listing.given_up.get("files")
    return {name for name in files if isinstance(name, str)} if isinstance(files, list) else set()


def giving_up(listing: Manifest, files: Iterable[str]) -> Manifest:
    """The same version, which says that these files are deleted, and is another object each time."""
    said = {"files": sorted(files), "run": secrets.token_hex(8)}
    return replace(listing, given_up=said)


def same_version(one: Manifest, other: Manifest) -> bool:
    """Whether two manifests are of the same publication, whatever a `gc` has said in one of them since."""
    return replace(one, given_up=None) == replace(other, given_up=None)


def read_newest(folder: str) -> Manifest:
    """The manifest of what is published now; FileNotFoundError when there is none."""
    return manifest.read(os.path.join(folder, manifest.NAME))


def read_version(folder: str, number: int) -> Manifest:
    """The manifest of a version of the dataset that is at ``folder``; MissingError where it is not kept."""
    newest, newest_path = None, os.path.join(folder, manifest.NAME)
    for _ in range(_ATTEMPTS):
        before, newest = newest, read_newest(folder)
        if newest.generation == number:
            return newest
        if before == newest or not publication_of(newest, newest_path).first <= number < newest.generation:
            break  # it was published while this looked for it, or never
        path = os.path.join(folder, kept_name(number))
        try:
            found = manifest.read(path)
        except FileNotFoundError:
            continue
        if found.generation != number:
            raise FormatError(
                f"{path}: it is of version {found.generation}; give it its name back, or remove it"
            )
        if found.id == newest.id:
            return found
        break
    raise MissingError(_not_kept(folder, number, newest))


def _not_kept(folder: str, number: int, newest: Manifest | None) -> str:
    assert newest is not None
    try:
        first = publication_of(newest, os.path.join(folder, manifest.NAME)).first
        kept = [n for n in kept_versions(location_of(folder).names(folder)) if first <= n < newest.generation]
    except (OSError, UniRecordError):
        kept = []
    there = ", ".join(map(str, [*kept, newest.generation][-8:]))
    return f"{folder}: version {number} is not kept; there {'are' if kept else 'is only'} {there}"


# What a manifest says of rows that were laid out anew: they are those of the version before, in its order.


_MOST: Final = 1 << 63
_LOOKED_AT: Final = 64  # versions at most


@dataclass(frozen=True)
class BlockFacts:
    """By what sizes of blocks are chosen (docs/spec/order.md): rows of a row group, rows in all, their bytes."""

    group_rows: int
    rows: int
    bytes: int

    @property
    def mean_row_bytes(self) -> float:
        """Bytes of the data files for each row; 0 without rows."""
        return self.bytes / self.rows if self.rows else 0.0


def files_identity(found: Manifest) -> str:
    """32 hex digits that change with every file or patch that comes or goes, and with what columns it is read for."""
    of_parts = parts_identity(found)
    if not found.layouts:
        return of_parts
    columns = [part.columns for part in found.parts if part.columns is not None]
    files = b"".join(file.id for part in columns for file in part.files)
    places = json.dumps(
        [found.schema.to_wire(), encode_layouts(found.layouts), [part.layout for part in columns]]
    )
    patches = b"".join(part.patch for part in columns)
    return _digest(of_parts.encode() + files + places.encode() + patches)


def parts_identity(found: Manifest) -> str:
    """32 hex digits that change with every part, and file of deleted rows, that comes or goes; not with columns."""
    if isinstance(found.parts, PartList) and found.parts.is_plain:
        return _digest(found.id + found.parts.fields.ids)
    deleted = (part.deleted.digest.encode() for part in found.parts if part.deleted is not None)
    return _digest(found.id + b"".join(part.id for part in found.parts) + b"".join(deleted))


def rows_identity(found: Manifest, path: str) -> str:
    """The same, kept where rows have only been laid out anew; FormatError where the manifest says nonsense of it."""
    files, said = parts_identity(found), _said(found, path)
    if said is None:
        return files
    identity: str = said["identity"]
    return identity if said["layout"] == files else _digest((identity + files).encode())


def version_with(path: str, identity: str, *, of_parts: bool) -> str | None:
    """The newest version with this identity of the directory that ``path`` names, itself or a version of it, as a path.

    ``of_parts``: it is a `parts_identity`, or else a `rows_identity`. None where no kept version, of the latest and of
    those that can be read, has it.
    """
    folder = located_version(path)[0].rstrip("/")
    try:
        if not location_of(folder).is_directory(folder):
            return None
        kept = [kept_name(number) for number in kept_versions(location_of(folder).names(folder))]
    except (OSError, UniRecordError):
        return None
    for name in [manifest.NAME, *reversed(kept)][:_LOOKED_AT]:
        place = os.path.join(folder, name)
        try:
            found = manifest.read(place)
            if identity == (parts_identity(found) if of_parts else rows_identity(found, place)):
                return f"{folder}@{found.generation}"
        except (OSError, UniRecordError):
            continue
    return None


def block_facts(found: Manifest, path: str) -> BlockFacts | None:
    """Those of the version that was laid out anew, where that is the one at hand."""
    said = _said(found, path)
    if said is None or said["layout"] != parts_identity(found):
        return None
    return BlockFacts(said["group_rows"], said["rows"], said["bytes"])


def kept_rows(after: Manifest, before: Manifest, facts: BlockFacts, path: str) -> Manifest:
    """``after``, saying that its live rows are those of ``before``, in the same order."""
    said = {
        "identity": rows_identity(before, path),
        "layout": parts_identity(after),
        "group_rows": facts.group_rows,
        "rows": facts.rows,
        "bytes": facts.bytes,
    }
    return replace(after, same_rows=said)


def _said(found: Manifest, path: str) -> dict[str, Any] | None:
    said = found.same_rows
    if said is None:
        return None
    try:
        hexes = [said["identity"], said["layout"]]
        numbers = [said["group_rows"], said["rows"], said["bytes"]]
        good = all(
            type(text) is str and len(text) == 32 and not set(text) - set("0123456789abcdef")
            for text in hexes
        )
        good = good and all(type(number) is int and 0 <= number < _MOST for number in numbers)
    except KeyError:
        good = False
    if not good:
        raise FormatError(f"{path}: what it says of the rows before they were laid out anew makes no sense")
    return said


def _digest(content: bytes) -> str:
    return f"{xxh3_64(content):016x}{xxh3_64(content, 1):016x}"
