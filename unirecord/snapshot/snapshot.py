"""What a path names, looked up: the parts of one dataset, or of several as one, in order and with one schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, overload

from ..core import PartRefs, xxh3_64
from ..errors import SchemaError
from ..format.column import differing_meaning
from ..format.schema import Schema
from ..sizes import many
from ..storage.storage_options import StorageOptions
from .deletions import Deletion
from .layouts import Layout
from .manifest import state_of
from .part import PathsIn
from .part_list import PartFields
from .prefetch import Beginnings
from .versions import BlockFacts

__all__ = [
    "ListedRefs",
    "Listing",
    "PartRef",
    "Snapshot",
    "class_difference",
    "classes_of",
    "core_refs",
    "deleted_of",
    "join_snapshots",
    "narrowed",
    "rows_of",
    "state_of_part",
]


# The classes a dataset names in its metadata: label i is the i-th of them.


def classes_of(metadata: object) -> list[str] | None:
    """Return ``metadata["classes"]`` when it is a list of names, else None."""
    found = metadata.get("classes") if isinstance(metadata, dict) else None
    if isinstance(found, list) and all(isinstance(name, str) for name in found):
        return found
    return None


def class_difference(expected: Sequence[str], found: Sequence[str]) -> str:
    """Say where two lists of classes first differ."""
    for number, (a, b) in enumerate(zip(expected, found, strict=False)):
        if a != b:
            return f"label {number} is {b!r}, not {a!r}"
    return f"{many(len(found), 'class')}, not {len(expected):,}"


# The parts of a snapshot, by their paths: one by one, or as columns where a manifest lists them alike.


Digest = bytes  # 16 of them
PatchBytes = bytes  # as `format.patch` has them


@dataclass(frozen=True, slots=True)
class PartRef:
    """One part: its data file, and what is known of it (id None, rows and bytes -1: nothing)."""

    path: str
    id: bytes | None = None
    rows: int = -1
    bytes: int = -1
    content: Digest | None = None  # the content digest; None: not known
    index_bytes: int = -1
    beginnings: Beginnings | None = field(compare=False, repr=False, default=None)
    deletion: Deletion | None = None
    layout: int = 0  # 0: its file has the columns of the dataset; n: they are where layout n - 1 says
    files: tuple[PartRef, ...] = ()  # its column parts
    patch: PatchBytes = b""  # values of some rows in place of those that the files of its part store
    file: int = 0  # which of these files it is, as the patch numbers them


_ID_BYTES: Final = 16


class ListedRefs(Sequence[PartRef]):
    """Parts in ``folder`` that have no more than these fields; each is made a reference when it is asked for."""

    __slots__ = ("fields", "paths")

    def __init__(self, folder: str, fields: PartFields) -> None:
        self.fields = fields
        self.paths = PathsIn(folder, fields.names)

    def __len__(self) -> int:
        return len(self.fields.names)

    @overload
    def __getitem__(self, number: int) -> PartRef: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[PartRef, ...]: ...
    def __getitem__(self, number: int | slice) -> PartRef | tuple[PartRef, ...]:
        if isinstance(number, slice):
            return tuple(self[i] for i in range(*number.indices(len(self))))
        i = range(len(self))[number]
        fields = self.fields
        return PartRef(
            self.paths[i],
            fields.ids[i * _ID_BYTES : (i + 1) * _ID_BYTES],
            int(fields.rows[i]),
            int(fields.bytes[i]),
            fields.contents[i * _ID_BYTES : (i + 1) * _ID_BYTES],
            int(fields.index_bytes[i]),
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
    return refs.fields.rows.tolist() if isinstance(refs, ListedRefs) else [ref.rows for ref in refs]


def deleted_of(refs: Sequence[PartRef]) -> int:
    """How many rows of all have been deleted."""
    if isinstance(refs, ListedRefs):
        return 0
    return sum(ref.deletion.rows for ref in refs if ref.deletion is not None)


def core_refs(refs: Sequence[PartRef]) -> PartRefs:
    """What the C core is told of the parts."""
    if isinstance(refs, ListedRefs):
        fields = refs.fields
        return PartRefs(refs.paths, fields.ids, None, fields.rows, fields.contents, None)
    patches = {i: (ref.file, ref.patch) for i, ref in enumerate(refs) if ref.patch}
    return PartRefs.of([(ref.path, ref.id, ref.rows, ref.content) for ref in refs])._replace(patches=patches)


# What a path named when it was looked up: the parts of one dataset, or of several as one.


@dataclass(frozen=True)
class Listing:
    """The manifest that a directory was read by: what it may be called now, and what is in no other."""

    paths: tuple[str, ...]
    mark: bytes


@dataclass(frozen=True)
class Snapshot:
    """The parts that a path named when it was looked up; ``identity`` changes with every file that comes or goes.

    ``parts_identity`` stays where only columns were added, dropped or renamed, ``rows_identity`` also where they
    were laid out anew; ``block_facts`` are then those from before.
    ``one_schema``: whether the schemas of all parts are to say the same, annotations too; else these differ.
    """

    parts: Sequence[PartRef]
    schema: Schema
    index: tuple[str, ...]
    metadata: object
    identity: str
    path: object = field(compare=False, default=None)  # as it was given
    storage: StorageOptions | None = field(compare=False, default=None)  # with which it was looked up
    one_schema: bool = True
    listings: tuple[Listing, ...] = field(compare=False, default=())  # of the directories on a disk
    rows_identity: str = ""
    parts_identity: str = ""
    layouts: tuple[Layout, ...] = ()
    block_facts: BlockFacts | None = None
    common: tuple[str, ...] = ()  # the columns that it was narrowed to when it was looked up

    @property
    def rows(self) -> int:
        """Rows of all parts, those that have been deleted too."""
        return sum(rows_of(self.parts))

    @property
    def deleted(self) -> int:
        """How many of them have been deleted."""
        return deleted_of(self.parts)


def state_of_part(snapshot: Snapshot, part: PartRef) -> str:
    """What `state_of_entry` says of the part in the manifest that the snapshot was read from."""
    places = snapshot.layouts[part.layout - 1].columns if part.layout else ()
    return state_of(part.id or b"", [file.id or b"" for file in part.files], places, part.patch)


def narrowed(snapshot: Snapshot, names: Sequence[str]) -> Snapshot:
    """The same parts as if they stored these columns alone, in this order; SchemaError where there is no such one."""
    places = [snapshot.schema.ordinal(name) for name in names]
    schema = Schema(snapshot.schema.columns[place] for place in places)
    if len(places) == len(snapshot.schema) and schema == snapshot.schema:
        return snapshot
    whole = Layout((snapshot.schema,), tuple((0, place) for place in range(len(snapshot.schema))))
    return replace(
        snapshot,
        parts=tuple(replace(part, layout=part.layout + 1) for part in snapshot.parts),
        schema=schema,
        index=tuple(name for name in snapshot.index if name in schema),
        layouts=tuple(
            Layout(layout.files, tuple(layout.columns[place] for place in places))
            for layout in (whole, *snapshot.layouts)
        ),
    )


def join_snapshots(snapshots: Sequence[Snapshot]) -> Snapshot:
    """Several snapshots, one after the other, as one; SchemaError when they do not go together."""
    first = snapshots[0]
    for other in snapshots[1:]:
        if other.schema != first.schema:
            raise SchemaError(
                f"{_shown(other)} has another schema than {_shown(first)}: {_difference(first.schema, other.schema)}; "
                "parts that are read together need the same columns"
            )
    if len(snapshots) == 1:
        return first
    _check_classes(snapshots)
    _check_meanings(snapshots)
    identity = _digest("".join(snapshot.identity for snapshot in snapshots).encode())
    parts, layouts = _parts_of(snapshots)
    index = tuple(name for name in first.index if all(name in other.index for other in snapshots))
    alike = all(snapshot.schema.says_the_same_as(first.schema) for snapshot in snapshots)
    listings = tuple(listing for snapshot in snapshots for listing in snapshot.listings)
    rows = _digest("".join(snapshot.rows_identity for snapshot in snapshots).encode())
    of_parts = _digest("".join(snapshot.parts_identity for snapshot in snapshots).encode())
    return Snapshot(
        parts,
        first.schema,
        index,
        first.metadata,
        identity,
        one_schema=alike,
        listings=listings,
        rows_identity=rows,
        parts_identity=of_parts,
        layouts=layouts,
    )


def _parts_of(snapshots: Sequence[Snapshot]) -> tuple[tuple[PartRef, ...], tuple[Layout, ...]]:
    """All parts, and the layouts that they have, numbered anew."""
    parts: list[PartRef] = []
    layouts: list[Layout] = []
    for snapshot in snapshots:
        before = len(layouts)
        layouts += snapshot.layouts
        parts += [
            replace(part, layout=part.layout + before) if part.layout else part for part in snapshot.parts
        ]
    return tuple(parts), tuple(layouts)


def _check_meanings(snapshots: Sequence[Snapshot]) -> None:
    """Refuse to read numbers as one thing in one part, and as another in the next."""
    first = snapshots[0]
    for other in snapshots[1:]:
        for known, column in zip(first.schema, other.schema, strict=True):
            if known.packed_annotations == column.packed_annotations:
                continue
            difference = differing_meaning(known, column)
            if difference is not None:
                raise SchemaError(
                    f"column {known.name!r} means another thing in {_shown(other)} than in {_shown(first)}: "
                    f"{difference}; open them one at a time, or write it in the form of the other: "
                    "unirecord.add_columns(replace=True)"
                )


def _check_classes(snapshots: Sequence[Snapshot]) -> None:
    """Refuse to read a label as one class in one part and as another in the next."""
    named = [
        (snapshot, classes)
        for snapshot in snapshots
        if (classes := classes_of(snapshot.metadata)) is not None
    ]
    for other, classes in named[1:]:
        if classes != named[0][1]:
            raise SchemaError(
                f"{_shown(other)} numbers its classes otherwise than {_shown(named[0][0])}: "
                f"{class_difference(named[0][1], classes)}; open them one at a time, or write one again with "
                "--classes-from the other"
            )


def _shown(snapshot: Snapshot) -> str:
    return snapshot.parts[0].path if snapshot.parts else "an empty directory"


def _difference(expected: Schema, found: Schema) -> str:
    for i, (a, b) in enumerate(zip(expected, found, strict=False)):
        if a != b:
            return f"column {i} is {b.name!r} ({b.spec}), expected {a.name!r} ({a.spec})"
    return f"{many(len(found), 'column')}, expected {len(expected)}"


def _digest(content: bytes) -> str:
    return f"{xxh3_64(content):016x}{xxh3_64(content, 1):016x}"
