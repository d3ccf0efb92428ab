"""Where the columns are of parts that do not store the dataset's columns themselves; manifest fields <-> layouts."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ..core import xxh3_128
from ..format.column import Column
from ..format.metadata import packed_types
from ..format.patch import MOST_BYTES
from ..format.schema import Schema
from ..sizes import many
from .manifest_fields import checked_hex, checked_number, checked_part

__all__ = [
    "COLUMN_FILES",
    "ColumnFile",
    "LAYOUT",
    "PATCH",
    "Layout",
    "PartColumns",
    "column_part_metadata",
    "decode_layouts",
    "decode_part_columns",
    "encode_layouts",
    "encode_part_columns",
    "is_column_part",
    "same_values",
    "schema_digest",
]


LAYOUT: Final = "layout"
COLUMN_FILES: Final = "column_files"
PATCH: Final = "patch"

_LAYOUT_KEYS: Final = {"files", "columns"}
_FILE_KEYS: Final = {"name", "id", "bytes", "index_bytes", "content"}
_MOST_FILES: Final = 1_000  # of one part
_BASE64: Final = re.compile("[A-Za-z0-9+/]*={0,2}")
_MARK: Final = "unirecord:column_part"


@dataclass(frozen=True, eq=False)
class Layout:
    """Where each column of the dataset is: (number of a file of the part, number of the column in that file).

    ``files``: the schemas that the files of such a part were written with: its own data file, then its column parts.
    Layouts are the same only where their files have the same annotations, too.
    """

    files: tuple[Schema, ...]
    columns: tuple[tuple[int, int], ...]

    def __eq__(self, other: object) -> bool:
        """Whether both say the same."""
        if not isinstance(other, Layout):
            return NotImplemented
        return (
            self.columns == other.columns
            and len(self.files) == len(other.files)
            and all(map(Schema.says_the_same_as, self.files, other.files))
        )

    def __hash__(self) -> int:
        """Hash of what annotations take no part in."""
        return hash((self.files, self.columns))


class ColumnFile(NamedTuple):
    """A column part: a part whose rows are those of another one, and which has columns of them."""

    name: str
    id: bytes
    bytes: int
    index_bytes: int
    content: str  # the content digest in hex


@dataclass(frozen=True)
class PartColumns:
    """Which layout a part has, its column parts, and the values that a patch has for its rows (`format.patch`)."""

    layout: int
    files: tuple[ColumnFile, ...]
    patch: bytes = b""


def schema_digest(schema: Schema) -> str:
    """What a manifest says of a part's schema: names, types and shapes."""
    return xxh3_128(packed_types(schema)).hex()


def column_part_metadata() -> dict[str, bool]:
    """What the metadata of a column part says, so that no one takes its rows for more rows of the dataset."""
    return {_MARK: True}


def is_column_part(metadata: object) -> bool:
    """Whether the metadata of a part says that it is a column part."""
    return isinstance(metadata, dict) and metadata.get(_MARK) is True


def same_values(one: Column, other: Column) -> bool:
    """Whether two columns have the same values: the same type, shape, and whether there may be nulls."""
    return (one.type, one.shape, one.nullable) == (other.type, other.shape, other.nullable)


def encode_layouts(layouts: Sequence[Layout]) -> list[dict[str, Any]]:
    """As the manifest has them."""
    return [
        {"files": [schema.to_wire() for schema in layout.files], "columns": list(map(list, layout.columns))}
        for layout in layouts
    ]


def decode_layouts(found: Any, schema: Schema) -> tuple[Layout, ...]:
    """The layouts of a manifest with this schema; ValueError, or FormatError, where they are wrong."""
    if not isinstance(found, list) or not found:
        raise ValueError("layouts is not a list of one or more")
    return tuple(_decode_layout(layout, i, schema) for i, layout in enumerate(found))


def _decode_layout(found: Any, number: int, schema: Schema) -> Layout:
    if not isinstance(found, dict) or set(found) != _LAYOUT_KEYS:
        raise ValueError(f"layout {number} needs the keys {sorted(_LAYOUT_KEYS)}")
    wires, places = found["files"], found["columns"]
    if not isinstance(wires, list) or not 1 <= len(wires) <= _MOST_FILES:
        raise ValueError(f"layout {number} does not have 1 to {_MOST_FILES:,} files")
    files = tuple(Schema.from_wire(wire) for wire in wires)
    if not isinstance(places, list) or len(places) != len(schema):
        raise ValueError(f"layout {number} does not have the {many(len(schema), 'column')} of the schema")
    columns = tuple(_decode_place(place, number, files) for place in places)
    if len(set(columns)) != len(columns):
        raise ValueError(f"layout {number} has two columns in one place")
    for column, (file, place) in zip(schema, columns, strict=True):
        stored = files[file][place]
        if not same_values(column, stored):
            raise ValueError(
                f"layout {number} has column {column.name!r} ({column.spec}) where {stored.name!r} ({stored.spec}) is"
            )
    return Layout(files, columns)


def _decode_place(found: Any, number: int, files: Sequence[Schema]) -> tuple[int, int]:
    if not isinstance(found, list) or len(found) != 2:
        raise ValueError(
            f"a column of layout {number} is {found!r}; expected the numbers of a file and a column"
        )
    file, place = (checked_number(each, f"a place in layout {number}") for each in found)
    if file >= len(files) or place >= len(files[file]):
        raise ValueError(f"layout {number} has no file {file} with a column {place}")
    return file, place


def encode_part_columns(columns: PartColumns) -> dict[str, Any]:
    """What the manifest says of a part beside what it says of all."""
    files = [{**file._asdict(), "id": file.id.hex()} for file in columns.files]
    said: dict[str, Any] = {LAYOUT: columns.layout, COLUMN_FILES: files}
    if columns.patch:
        said[PATCH] = base64.b64encode(columns.patch).decode()
    return said


def decode_part_columns(
    part: dict[str, Any], layouts: Sequence[Layout], next_part: int
) -> PartColumns | None:
    """Which layout a part of a manifest has, and its column parts; None where it has the dataset's own columns."""
    if not {LAYOUT, COLUMN_FILES, PATCH} & set(part):
        return None
    number, files = checked_number(part.get(LAYOUT), "layout of a part"), part.get(COLUMN_FILES)
    if number >= len(layouts):
        raise ValueError(f"part {part['name']} has layout {number} of {len(layouts)}")
    expected = len(layouts[number].files) - 1
    if not isinstance(files, list) or len(files) != expected:
        raise ValueError(f"part {part['name']} does not have the {expected} column parts of layout {number}")
    if part["schema"] != schema_digest(layouts[number].files[0]):
        raise ValueError(f"part {part['name']} has another schema ({part['schema']}) than its layout")
    return PartColumns(number, tuple(_decode_file(file, next_part) for file in files), _decode_patch(part))


def _decode_patch(part: dict[str, Any]) -> bytes:
    if PATCH not in part:
        return b""
    try:
        if not _BASE64.fullmatch(part[PATCH]):
            raise ValueError("other characters")
        content = base64.b64decode(part[PATCH], validate=True)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the patch of part {part['name']} is not base64 ({error})") from None
    if not 1 <= len(content) <= MOST_BYTES:
        raise ValueError(
            f"the patch of part {part['name']} has {many(len(content), 'byte')}; it has 1 to {MOST_BYTES:,}"
        )
    return content


def _decode_file(found: Any, next_part: int) -> ColumnFile:
    if not isinstance(found, dict) or set(found) != _FILE_KEYS:
        raise ValueError(f"a column part needs the keys {sorted(_FILE_KEYS)}")
    name, part_id = checked_part(found["name"], found["id"], next_part)
    size, index_size = (
        checked_number(found[key], f"{key} of a column part") for key in ("bytes", "index_bytes")
    )
    return ColumnFile(
        name, part_id, size, index_size, checked_hex(found["content"], "content of a column part")
    )
