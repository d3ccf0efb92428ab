"""What verify and repair look at, and what they found: plain values, and the same as dicts for JSON."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field
from typing import Any

from ..errors import MissingError, UniRecordError
from ..format.layout import DATA_MAGIC
from ..format.schema import Schema
from ..snapshot import manifest
from ..snapshot.dataset_path import explain_missing, meant_instead
from ..snapshot.manifest import Manifest, PartEntry, files_of_part, layout_of
from ..snapshot.versions import located_version, read_version
from ..storage.registry import location_of, read_file

__all__ = [
    "Problem",
    "RepairReport",
    "Report",
    "Salvaged",
    "Target",
    "targets",
]


# What verify and repair found: plain values, and the same as dicts for JSON.


"""Called with (bytes done, bytes in all), from any thread, never from two at once."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong; ``str()`` of it is one line.

    Attributes:
        path: the file.
        what: what is wrong with it.
        lost: what is lost by it.
        advice: what to do.
        part: number of the part in the dataset; this and the following are None where they do not apply.
        row: number of the row in the part.
        column: name of the column.
        offset: place in the file, in bytes.
    """

    path: str
    what: str
    lost: str
    advice: str
    part: int | None = None
    row: int | None = None
    column: str | None = None
    offset: int | None = None

    def __str__(self) -> str:
        place = [f"row {self.row}"] if self.row is not None else []
        place += [f"column {self.column!r}"] if self.column is not None else []
        place += [f"offset {self.offset}"] if self.offset is not None else []
        at = f" ({', '.join(place)})" if place else ""
        return f"{self.path}: {self.what}{at}. Lost: {self.lost}. {self.advice}"


@dataclass
class Report:
    """The outcome of a verification.

    Attributes:
        path: what was verified.
        quick: whether only headers, identities, sizes and the manifest were looked at.
        parts, rows, bytes: how much was looked at.
        column_parts: how many files beside the parts have columns of them.
        seconds: how long it took.
        problems: a list of ``Problem``; empty when all is good.
    """

    path: str
    quick: bool = False
    parts: int = 0
    rows: int = 0
    bytes: int = 0
    seconds: float = 0.0
    problems: list[Problem] = field(default_factory=list)
    column_parts: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, ready for JSON."""
        return {"ok": self.ok, **asdict(self)}


@dataclass
class Salvaged:
    """What became of one part in a repair.

    Attributes:
        path: the part.
        output: what was written for it, if anything.
        action: ``"none"``: it was sound, ``"index"``: the index was rebuilt, ``"salvaged"``: rows were written anew.
        rows: how many rows the part had, None when nobody knows.
        kept: how many rows can be read now.
        lost: ranges [first, stop) of lost rows, by their numbers in the part.
        reasons: why, in sentences.
    """

    path: str
    output: str | None = None
    action: str = "none"
    rows: int | None = None
    kept: int = 0
    lost: list[tuple[int, int]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


@dataclass
class RepairReport:
    """The outcome of a repair.

    Attributes:
        path: what was repaired.
        manifest: the manifest that was made anew or corrected, if one was.
        corrected: whether it was only corrected: it gave wrong sizes of files.
        parts: a list of ``Salvaged``, one for each part.
        seconds: how long it took.
    """

    path: str
    manifest: str | None = None
    corrected: bool = False
    parts: list[Salvaged] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether no row was lost."""
        return not any(part.lost or part.rows is None for part in self.parts)

    @property
    def kept(self) -> int:
        """Rows that can be read now."""
        return sum(part.kept for part in self.parts)

    @property
    def lost(self) -> int:
        """Rows that are known to be gone."""
        return sum(stop - first for part in self.parts for first, stop in part.lost)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, ready for JSON."""
        return {"ok": self.ok, "kept": self.kept, "lost": self.lost, **asdict(self)}


# Which parts a path stands for, when some of them may be damaged or missing.


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
