"""What is asked of a split, and its conversions, which are published together."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from ..errors import ExistsError, MissingError, UniRecordError
from ..order.split import bounds_of, exact_shares
from ..snapshot import manifest
from ..snapshot.versions import read_newest
from ..storage import local
from ..storage.registry import location_of, path_on_disk
from ..writing.directory_claim import check_directory_free
from ..writing.journal import Journal
from .conversion import Conversion, Standing
from .sources.base import Source
from .sources.left_out import LeftOut
from .steps import Division, Step, check_columns, keep_share, keep_value, stratified, values_of

__all__ = [
    "SplitChoice",
    "check_split_target",
    "share_id",
    "write_shares",
]


# What is asked of a split: names and shares, or the values of a column, and by what rows are told apart.


_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True)
class SplitChoice:
    """Shares by name, such as ``{"train": 0.9, "val": 0.1}``, of rows told apart by a hash.

    Attributes:
        shares: they add up to 1; None: each value of the column ``by`` is a share, and its name.
        by: the column whose value decides, so that rows with one value stay together; None: all of the row.
        stratify: the column of which each value is split in these shares, not all rows as a whole; not with ``by``.
    """

    shares: Mapping[str, float | str] | None
    by: str | None = None
    stratify: str | None = None

    def __post_init__(self) -> None:
        if self.shares is None and self.by is not None and self.stratify is None:
            return
        if not isinstance(self.shares, Mapping) or len(self.shares) < 2:
            raise ValueError(f"split has two shares or more, such as train=0.9,val=0.1, got {self.shares!r}")
        for name in self.shares:
            if not isinstance(name, str) or not _NAME.fullmatch(name) or name.endswith(".urec"):
                raise ValueError(
                    f"split: {name!r} is to be a folder; letters of a to z, digits, _ - and . make its name"
                )
        exact_shares(self.shares.values())
        if self.by is not None and self.stratify is not None:
            raise ValueError("split_by and stratify exclude each other: rows with one key stay together")

    def fractions(self) -> tuple[Fraction, ...]:
        """The shares, exactly as they are written."""
        assert self.shares is not None
        return exact_shares(self.shares.values())

    def options(self) -> dict[str, str]:
        """What was asked for, by its name on the command line."""
        found = {}
        if self.shares is not None:
            found["--split"] = ",".join(f"{name}={share}" for name, share in self.shares.items())
        given = {"--split-by": self.by, "--stratify": self.stratify}
        return found | {name: value for name, value in given.items() if value is not None}

    def columns(self, source: Source) -> list[str]:
        """The columns that are looked at."""
        check_columns("split-by", [] if self.by is None else [self.by], source.schema)
        check_columns("stratify", [] if self.stratify is None else [self.stratify], source.schema)
        return list(source.schema.names) if self.by is None else [self.by]

    def steps(self, source: Source, chosen: Source, seed: int) -> Iterator[tuple[str, Step, float]]:
        """For each share its name, what keeps its rows of ``chosen``, and how many of them that are, about."""
        if self.shares is None:
            assert self.by is not None
            found = values_of(chosen, self.by, _NAME)
            for name, (value, rows) in found.items():
                yield (
                    name,
                    keep_value(source.schema[self.by], value),
                    rows / sum(n for _, n in found.values()),
                )
            return
        division = self._division(source, chosen, seed)
        for number, (name, fraction) in enumerate(zip(self.shares, self.fractions(), strict=True)):
            yield name, keep_share(division, number), float(fraction)

    def _division(self, source: Source, chosen: Source, seed: int) -> Division:
        """How the rows of ``chosen`` are told apart; with ``stratify`` they are all read for it."""
        division = Division(
            source.schema,
            tuple(self.columns(source)),
            seed,
            bounds_of(self.fractions()),
            self.stratify,
        )
        return division if self.stratify is None else stratified(division, self.fractions(), chosen.batches())


# Several conversions that are published together: the shares of a split.


def share_id(id: bytes | None, name: str) -> bytes | None:
    """The id of a share, made of that of the whole; None for None."""
    return None if id is None else hashlib.sha256(id + name.encode()).digest()[:16]


def check_split_target(path: str, names: Sequence[str], *, overwrite: bool, resume: bool) -> None:
    """Refuse a folder that is in the way of the shares, before any work is done."""
    if path.endswith(".urec"):
        raise ExistsError(
            f"{path}: a split makes several datasets; choose a name without .urec for their folder"
        )
    location = location_of(path_on_disk(path, "a split"))
    if not location.is_directory(path):
        if location.is_taken(path):
            raise ExistsError(f"{path}: a file is in the way of the folder for the shares")
        if not location.is_directory(os.path.dirname(os.path.abspath(path))):
            raise MissingError(f"{path}: the folder above does not exist; make it first")
        return
    if manifest.NAME in location.names(path):
        raise ExistsError(f"{path} is a dataset; the shares need a folder of their own")
    published = [name for name in names if location.is_directory(os.path.join(path, name))]
    if resume and len(published) < len(names):
        return
    for name in names:
        check_directory_free(os.path.join(path, name), overwrite=overwrite)


def write_shares(
    path: str, shares: Mapping[str, Conversion], progress: Callable[[str, Standing], None] | None = None
) -> tuple[dict[str, int], list[LeftOut]]:
    """Write all shares, and then publish all; the rows of each, and what was left out of any.

    Nothing is published before the last one is written. ``resume`` of the conversions goes on with any of them, and
    takes one for done that was published when the others were not yet, which its id tells.
    """
    made = not location_of(path).is_directory(path)
    if made:
        local.make_directory(path)
    try:
        rows = _published_before(shares)
        left_out: Counter[LeftOut] = Counter()  # each share reads all rows, and tells of the same once more
        waiting = [name for name in shares if name not in rows]

        def write(place: int) -> None:
            if place == len(waiting):
                return
            name = waiting[place]
            tell = None if progress is None else lambda standing: progress(name, standing)
            spec = shares[name]
            written, without = spec.run(tell, before_publishing=lambda: write(place + 1))
            rows[name] = written
            nonlocal left_out
            left_out |= Counter([*spec.source.left_out, *without])

        write(0)
        for name in set(shares) - set(waiting):
            Journal(shares[name].path).clear()  # its run died before it could
        return {name: rows[name] for name in shares}, list(left_out.elements())
    except BaseException:
        with suppress(OSError):
            if made and not location_of(path).names(path):
                local.remove_directory(path)
        raise


def _published_before(shares: Mapping[str, Conversion]) -> dict[str, int]:
    """The rows of shares that a run had published when it died before it could publish the others.

    Raises `ExistsError` for what is there and cannot be told to be such a share, before anything is touched.
    """
    begun = any(
        Journal(folder).plan() is not None
        for spec in shares.values()
        for folder in (spec.path, local.temporary_name(spec.path))
    )
    found = {}
    for name, spec in shares.items():
        rows = _rows_published(spec) if spec.resume and begun else None
        if rows is not None:
            found[name] = rows
        else:
            check_directory_free(spec.path, overwrite=spec.overwrite)
    return found


def _rows_published(spec: Conversion) -> int | None:
    """The rows of what an earlier run of the same conversion has published; None where there is no such thing."""
    try:
        there = read_newest(spec.path)
    except (OSError, UniRecordError):
        return None
    journal = Journal(spec.path)
    finished = {part["name"] for record in journal.tasks().values() for part in record["parts"]}
    replaced = spec.overwrite and journal.plan() is not None  # then the manifest may be the one before
    if there.id != spec.id or (replaced and not {part.name for part in there.parts} <= finished):
        return None
    return sum(part.rows for part in there.parts)
