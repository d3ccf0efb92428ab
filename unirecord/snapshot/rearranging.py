"""The manifest of a dataset whose columns change: which file and which column of it each one is read from then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..core import xxh3_64
from ..format.schema import Schema
from .layouts import ColumnFile, Layout, PartColumns, schema_digest
from .manifest import Manifest, PartEntry

__all__ = [
    "bytes_of_part",
    "files_of_part",
    "files_with_rows",
    "layout_of",
    "pruned",
    "rearranged",
    "state_of",
    "state_of_entry",
]


def layout_of(found: Manifest, part: PartEntry) -> Layout:
    """Where the columns of a part are, also of one that has them all in its own file."""
    if part.columns is not None:
        return found.layouts[part.columns.layout]
    return Layout((found.schema,), tuple((0, column) for column in range(len(found.schema))))


def rearranged(
    before: Manifest,
    schema: Schema,
    places: Sequence[int],
    added: Schema | None = None,
    files: Mapping[bytes, ColumnFile] | None = None,
) -> Manifest:
    """The manifest with the columns of ``schema``: column i is what was column ``places[i]``.

    From ``len(before.schema)`` on, a place is a column of ``added``: ``files`` has for the id of each part the column
    part that stores those. Column parts that no column is read from any more are not named.
    """
    layouts: dict[Layout, int] = {}
    parts = tuple(_part(before, part, schema, places, added, files or {}, layouts) for part in before.parts)
    return replace(before, schema=schema, parts=parts, layouts=tuple(layouts))


def _part(
    before: Manifest,
    part: PartEntry,
    schema: Schema,
    places: Sequence[int],
    added: Schema | None,
    files: Mapping[bytes, ColumnFile],
    layouts: dict[Layout, int],
) -> PartEntry:
    old, stored = layout_of(before, part), () if part.columns is None else part.columns.files
    schemas = [*old.files, *([] if added is None else [added])]
    named = [*stored, *([] if added is None else [files[part.id]])]
    columns = len(before.schema)
    found = [old.columns[place] if place < columns else (len(old.files), place - columns) for place in places]
    used = [0, *sorted({file for file, _ in found} - {0})]
    layout = Layout(
        tuple(schemas[file] for file in used), tuple((used.index(file), place) for file, place in found)
    )
    plain = tuple((0, column) for column in range(len(schema)))
    if layout.columns == plain and layout.files[0].says_the_same_as(schema):
        return part._replace(columns=None)
    number = layouts.setdefault(layout, len(layouts))
    return part._replace(columns=PartColumns(number, tuple(named[file - 1] for file in used[1:])))


def state_of_entry(found: Manifest, part: PartEntry) -> str:
    """32 hex digits that tell what the rows of a part hold in its columns: others once any column is replaced."""
    files = () if part.columns is None else part.columns.files
    places = () if part.columns is None else found.layouts[part.columns.layout].columns
    return state_of(part.id, [file.id for file in files], places)


def state_of(part_id: bytes, files: Sequence[bytes], places: Sequence[tuple[int, int]]) -> str:
    """The same, of its id, the ids of its column parts, and its layout; () without one."""
    content = repr((part_id, list(files), list(places))).encode()
    return "".join(f"{xxh3_64(content, seed):016x}" for seed in (0, 1))


def pruned(found: Manifest) -> Manifest:
    """The manifest without layouts that no part has."""
    used = sorted({part.columns.layout for part in found.parts if part.columns is not None})
    if len(used) == len(found.layouts):
        return found
    parts = tuple(
        part
        if part.columns is None
        else part._replace(columns=replace(part.columns, layout=used.index(part.columns.layout)))
        for part in found.parts
    )
    return replace(found, parts=parts, layouts=tuple(found.layouts[number] for number in used))


def files_with_rows(found: Manifest) -> list[PartEntry]:
    """All parts and column parts that a manifest names, each as an entry of what its own file is."""
    return [file for part in found.parts for file in files_of_part(found, part)]


def files_of_part(found: Manifest, part: PartEntry) -> list[PartEntry]:
    """A part and its column parts, likewise; what has been deleted is said of the part alone."""
    if part.columns is None:
        return [part]
    schemas = found.layouts[part.columns.layout].files[1:]
    return [
        part,
        *(
            PartEntry(
                file.name,
                file.id,
                part.rows,
                file.bytes,
                file.index_bytes,
                schema_digest(schema),
                file.content,
            )
            for file, schema in zip(part.columns.files, schemas, strict=True)
        ),
    ]


def bytes_of_part(part: PartEntry) -> int:
    """Bytes of all files of a part: data and index, of column parts too, and what says which rows have been deleted."""
    files = [] if part.columns is None else part.columns.files
    more = sum(file.bytes + file.index_bytes for file in files)
    return part.bytes + part.index_bytes + more + (0 if part.deleted is None else part.deleted.bytes)
