"""What goes for all parts of a manifest together: sums, names and ids of their own, schemas, and what is required."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from .column_layouts import Layout
from .manifest_fields import MOST
from .part_list import ListedParts, PartEntry

__all__ = ["COLUMNS", "DELETIONS", "check_entries", "check_listed"]

DELETIONS: Final = "deletions"
COLUMNS: Final = "columns"
_MAX_ROWS: Final = 1 << 62  # of a set of parts: UR_MAX_ROWS of csrc


def check_entries(
    entries: Sequence[PartEntry], needed: Sequence[str], layouts: Sequence[Layout], digest: str
) -> None:
    """What goes for all parts together; ValueError where it does not."""
    more = [file for entry in entries if entry.columns is not None for file in entry.columns.files]
    _check_sums(
        [entry.rows for entry in entries], [file.bytes for files in (entries, more) for file in files]
    )
    for what in ("name", "id"):
        if len({getattr(file, what) for files in (entries, more) for file in files}) != len(entries) + len(
            more
        ):
            raise ValueError(f"two parts have the same {what}")
    has_deletions = any(entry.deleted is not None for entry in entries)
    used = {entry.columns.layout for entry in entries if entry.columns is not None}
    _check_needed(needed, layouts, has_deletions, used)
    for entry in entries:
        if entry.columns is None and entry.schema != digest:
            raise _other_schema(entry, digest)


def check_listed(
    parts: ListedParts, next_part: int, needed: Sequence[str], layouts: Sequence[Layout], digest: str
) -> None:
    """The same of parts that were found all at once, whose names go with their ids."""
    fields = parts.fields
    if int(fields.numbers.max()) >= next_part:  # it has not been given out
        name = fields.names[int(fields.numbers.argmax())]
        raise ValueError(f"the number in the name {name} is not below next_part {next_part}")
    _check_sums(fields.rows.tolist(), fields.bytes.tolist())
    if len(set(fields.names)) != len(parts):
        raise ValueError("two parts have the same name")
    if len(np.unique(np.frombuffer(fields.ids, "V16"))) != len(parts):
        raise ValueError("two parts have the same id")
    _check_needed(needed, layouts, False, set())
    others = np.flatnonzero(fields.schemas != digest.encode())
    if len(others):
        raise _other_schema(parts[int(others[0])], digest)


def _check_sums(rows: Iterable[int], sizes: Iterable[int]) -> None:
    if sum(rows) > _MAX_ROWS:
        raise ValueError("its parts have more than 2^62 rows")
    if sum(sizes) > MOST:
        raise ValueError("its parts have 2^63 bytes or more")


def _check_needed(
    needed: Sequence[str], layouts: Sequence[Layout], has_deletions: bool, used: set[int]
) -> None:
    if has_deletions != (DELETIONS in needed):
        raise ValueError('"required" and the parts do not agree whether rows have been deleted')
    if used != set(range(len(layouts))):
        raise ValueError("it has a layout that no part has")
    if bool(layouts) != (COLUMNS in needed):
        raise ValueError('"required" and "layouts" do not agree whether columns are elsewhere')


def _other_schema(entry: PartEntry, digest: str) -> ValueError:
    return ValueError(f"part {entry.name} has another schema ({entry.schema}) than the dataset ({digest})")
