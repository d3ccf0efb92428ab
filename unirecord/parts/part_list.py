"""The parts that the text of a manifest lists, found all at once: a dataset may have a hundred thousand."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from .column_layouts import PartColumns
from .manifest_fields import MOST

_NUMBER = rb"(0|[1-9][0-9]{0,18})"
_BEGIN = b',"parts":['
_END = b"]"
# A part as it is written: keys in order, nothing left out and nothing between them, a name that goes with the id.
_PART = re.compile(
    rb'\{"bytes":' + _NUMBER + rb',"content":"([0-9a-f]{16})","id":"(([0-9a-f]{8})[0-9a-f]{24})","index_bytes":'
    + _NUMBER + rb',"name":"(part-([0-9]{6,12})-\4\.urec)","rows":' + _NUMBER + rb',"schema":"([0-9a-f]{16})"\},'
)  # fmt: skip
# bytes of a part besides its sizes, its name and its rows
_ALWAYS = len(b'{"bytes":,"content":"","id":"","index_bytes":,"name":"","rows":,"schema":""},') + 16 + 32 + 16


@dataclass(frozen=True)
class DeletedRows:
    """The file that says which rows of a part have been deleted: its name, their number, its size and its digest."""

    name: str
    rows: int
    bytes: int
    digest: str


class PartEntry(NamedTuple):
    """One part: file name, id, rows, sizes of its two files, digests of its column table and schema, and of content."""

    name: str
    id: bytes
    rows: int
    bytes: int
    index_bytes: int
    schema: str
    content: str  # the content digest in hex
    deleted: DeletedRows | None = None
    columns: PartColumns | None = (
        None  # where its columns are, if not in its own files as the schema has them
    )


@dataclass(frozen=True)
class PartList:
    """Parts that are written as a part is, the text around them, and the largest number in a name."""

    before: bytes
    after: bytes
    parts: tuple[PartEntry, ...]
    last: int


def find_parts(text: bytes) -> PartList | None:
    """The list of parts in the text of a manifest; None when there are none, or any is not written as a part is.

    What is found are values a part may have, in text that has no other form. Whether two are alike, and whether
    they are parts of this dataset, is still to be checked.
    """
    before, begin, rest = text.partition(_BEGIN)
    listed, end, after = rest.partition(_END)
    listed += b","
    found = _PART.findall(listed)
    if not found or not end or _BEGIN in rest:
        return None
    sizes, contents, ids, _, indexes, names, numbers, rows, schemas = zip(*found, strict=True)
    varying = sum(sum(map(len, column)) for column in (sizes, indexes, names, rows))
    if varying + len(found) * _ALWAYS != len(listed):  # there is something between parts that is none
        return None
    counts = [list(map(int, column)) for column in (rows, sizes, indexes)]
    if max(map(max, counts)) > MOST:
        return None
    parts = map(
        PartEntry, _texts(names), map(bytes.fromhex, _texts(ids)), *counts, _texts(schemas), _texts(contents)
    )
    return PartList(before + begin, end + after, tuple(parts), max(map(int, numbers)))


def _texts(column: tuple[bytes, ...]) -> list[str]:
    return b",".join(column).decode().split(",")
