"""Which parts a path stands for, when some of them may be damaged or missing."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ..errors import MissingError, UniRecordError
from ..format.layout import DATA_MAGIC
from ..format.schema import Schema
from ..snapshot import manifest
from ..snapshot.dataset_path import explain_missing, meant_instead
from ..snapshot.manifest import Manifest, PartEntry
from ..snapshot.rearranging import files_of_part, layout_of
from ..snapshot.versions import located_version, read_version
from ..storage.registry import location_of, read_file
from .report import Problem

__all__ = ["Target", "targets"]

_MAKE_ONE = "`unirecord write` makes one from CSV, JSON Lines and folders of pictures"


@dataclass(frozen=True)
class Target:
    """One part, or column part: its path, and what the manifest says of it, if there is one.

    ``number`` is that of the part; ``schema`` is what the file must have been written with.
    """

    path: str
    entry: PartEntry | None
    number: int | None
    schema: Schema | None = None
    is_column_part: bool = False


def targets(path: str) -> tuple[list[Target], Manifest | None, list[Problem]]:
    """The parts at ``path``, the manifest if it could be read, and what is wrong with that. MissingError: nothing."""
    location = location_of(path)
    folder, version = located_version(path)
    if version is not None:
        found = read_version(folder, version)
        return _listed(folder, found), found, []
    if not location.is_directory(path):
        if not location.is_taken(path):
            raise MissingError(meant_instead(path) or explain_missing(path))
        if not _may_be_part(path):
            meant = meant_instead(path)
            raise MissingError(meant or f"{path}: it is no part of a dataset (no .urec); {_MAKE_ONE}")
        return [Target(path, None, None)], None, []
    name = os.path.join(path, manifest.NAME)
    try:
        found = manifest.read(name)
    except (OSError, UniRecordError) as error:
        parts = sorted(n for n in location.names(path) if manifest.PART_NAME.fullmatch(n))
        if isinstance(error, FileNotFoundError):
            what = "the manifest is missing"
            if not parts:
                raise MissingError(
                    f"{path}: the directory holds no UniRecord dataset (no {manifest.NAME}); {_MAKE_ONE}"
                ) from None
        else:
            what = f"the manifest cannot be used: {error}"
        problem = Problem(
            name, what, "which parts belong to the dataset, and the user's metadata",
            "The parts that were found are checked; each can be opened by itself, or run: unirecord repair",
        )  # fmt: skip
        return [Target(os.path.join(path, n), None, i) for i, n in enumerate(parts)], None, [problem]
    return _listed(path, found), found, []


def _listed(folder: str, found: Manifest) -> list[Target]:
    made = []
    for i, part in enumerate(found.parts):
        entries, layout = files_of_part(found, part), layout_of(found, part)
        for entry, schema in zip(entries, layout.files, strict=True):
            made.append(Target(os.path.join(folder, entry.name), entry, i, schema, entry is not part))
    return made


def _may_be_part(path: str) -> bool:
    """Whether anything says so: the name, an index beside it, or how it begins."""
    if path.endswith(".urec") or location_of(path).is_taken(f"{path}.idx"):
        return True
    try:
        return read_file(path, len(DATA_MAGIC)) == DATA_MAGIC
    except (OSError, UniRecordError):
        return True  # what cannot be looked at is reported
