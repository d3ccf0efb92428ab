"""The parts that a manifest lists, one by one or as columns: a dataset may have a hundred thousand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload

from .column_layouts import PartColumns
from .listed_text import PartFields, read_fields

__all__ = ["DeletedRows", "ListedParts", "PartEntry", "PartList", "find_parts"]

_BEGIN = b',"parts":['
_END = b"]"
_ID_BYTES = 16


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


class ListedParts(Sequence[PartEntry]):
    """Parts with nothing deleted and all columns in their own files; each is made an entry when it is asked for.

    So a hundred thousand are a few arrays, and no hundred thousand objects for Python to look after.
    """

    __slots__ = ("fields",)

    def __init__(self, fields: PartFields) -> None:
        self.fields = fields

    def __len__(self) -> int:
        return len(self.fields.names)

    @overload
    def __getitem__(self, number: int) -> PartEntry: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[PartEntry, ...]: ...
    def __getitem__(self, number: int | slice) -> PartEntry | tuple[PartEntry, ...]:
        if isinstance(number, slice):
            return tuple(self[i] for i in range(*number.indices(len(self))))
        i = range(len(self))[number]
        fields = self.fields
        return PartEntry(
            fields.names[i],
            fields.ids[i * _ID_BYTES : (i + 1) * _ID_BYTES],
            int(fields.rows[i]),
            int(fields.bytes[i]),
            int(fields.index_bytes[i]),
            fields.schemas[i].decode(),
            f"{fields.contents[i]:016x}",
        )

    def __iter__(self) -> Iterator[PartEntry]:
        return map(self.__getitem__, range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (ListedParts, tuple)):
            return NotImplemented
        return len(self) == len(other) and all(map(PartEntry.__eq__, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(tuple(self))


@dataclass(frozen=True)
class PartList:
    """Parts that are written as a part is, and the text around them."""

    before: bytes
    after: bytes
    parts: ListedParts


def find_parts(text: bytes) -> PartList | None:
    """The list of parts in the text of a manifest; None when there are none, or any is not written as a part is.

    What is found are values a part may have, in text that has no other form. Whether two are alike, and whether
    they are parts of this dataset, is still to be checked.
    """
    before, begin, rest = text.partition(_BEGIN)
    listed, end, after = rest.partition(_END)
    if not listed or not end or _BEGIN in rest:
        return None
    fields = read_fields(listed + b",")
    return None if fields is None else PartList(before + begin, end + after, ListedParts(fields))
