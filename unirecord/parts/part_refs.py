"""The parts of a snapshot, by their paths: one by one, or as columns where a manifest lists them alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import overload

from ..core import PartRefs
from .deletions import Deletion
from .fetched import Beginnings
from .part_list import ListedParts

__all__ = ["ListedRefs", "PartRef", "core_refs", "deleted_of", "rows_of"]


@dataclass(frozen=True, slots=True)
class PartRef:
    """One part: its data file, and what is known of it (id None, rows and bytes -1: nothing)."""

    path: str
    id: bytes | None = None
    rows: int = -1
    bytes: int = -1
    content: int = 0  # the content digest; 0: not known
    index_bytes: int = -1
    beginnings: Beginnings | None = field(compare=False, repr=False, default=None)
    deletion: Deletion | None = None
    layout: int = 0  # 0: its file has the columns of the dataset; n: they are where layout n - 1 says
    files: tuple[PartRef, ...] = ()  # its column parts


class PathsIn(Sequence[str]):
    """The paths of files in one folder, whose path ends with what divides it from names; each made when asked for."""

    __slots__ = ("folder", "names")

    def __init__(self, folder: str, names: Sequence[str]) -> None:
        self.folder, self.names = folder, names

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, number: int) -> str: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[str]: ...
    def __getitem__(self, number: int | slice) -> str | Sequence[str]:
        if isinstance(number, slice):
            return PathsIn(self.folder, self.names[number])
        return self.folder + self.names[number]

    def __iter__(self) -> Iterator[str]:
        return map(self.folder.__add__, self.names)


class ListedRefs(Sequence[PartRef]):
    """Parts that a manifest in ``folder`` lists as columns; each is made a reference when it is asked for."""

    __slots__ = ("listed", "paths")

    def __init__(self, folder: str, listed: ListedParts) -> None:
        self.listed = listed
        self.paths = PathsIn(folder, listed.fields.names)

    def __len__(self) -> int:
        return len(self.listed)

    @overload
    def __getitem__(self, number: int) -> PartRef: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[PartRef, ...]: ...
    def __getitem__(self, number: int | slice) -> PartRef | tuple[PartRef, ...]:
        if isinstance(number, slice):
            return tuple(self[i] for i in range(*number.indices(len(self))))
        part = self.listed[number]
        return PartRef(
            self.paths.folder + part.name,
            part.id,
            part.rows,
            part.bytes,
            int(part.content, 16),
            part.index_bytes,
        )

    def __iter__(self) -> Iterator[PartRef]:
        return map(self.__getitem__, range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (ListedRefs, tuple)):
            return NotImplemented
        return len(self) == len(other) and all(map(PartRef.__eq__, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(tuple(self))


def rows_of(refs: Sequence[PartRef]) -> list[int]:
    """Rows of each part."""
    return refs.listed.fields.rows.tolist() if isinstance(refs, ListedRefs) else [ref.rows for ref in refs]


def deleted_of(refs: Sequence[PartRef]) -> int:
    """How many rows of all have been deleted."""
    if isinstance(refs, ListedRefs):
        return 0
    return sum(ref.deletion.rows for ref in refs if ref.deletion is not None)


def core_refs(refs: Sequence[PartRef]) -> PartRefs:
    """What the C core is told of the parts."""
    if isinstance(refs, ListedRefs):
        fields = refs.listed.fields
        return PartRefs(refs.paths, fields.ids, None, fields.rows, fields.contents)
    return PartRefs.of([(ref.path, ref.id, ref.rows, ref.content) for ref in refs])
