"""Which part a data file and an index belong to, as far as their heads and ends tell."""

from __future__ import annotations

import os

from ..errors import UniRecordError
from ..format import layout
from ..storage.registry import location_of
from .data_file import DataFile
from .manifest import PartEntry

__all__ = ["data_identity", "index_identity", "is_whole"]


def is_whole(folder: str, entry: PartEntry) -> bool:
    """Whether both files of a part are there, as they were written: by their lengths, heads and ends."""
    path = os.path.join(folder, entry.name)
    wanted = entry.id, int(entry.content, 16), entry.rows
    try:
        sizes = location_of(path).size(path), location_of(path).size(path + ".idx")
    except OSError:
        return False
    same = data_identity(path) == wanted == index_identity(path + ".idx")
    return same and sizes == (entry.bytes, entry.index_bytes)


def data_identity(path: str) -> tuple[bytes, int, int] | None:
    """Id, content digest and rows of a data file; None when it has none."""
    try:
        with DataFile(path) as file:
            head = file.head()
            end = file.end_page(head)
            return head.header.id, end.payload_digest, end.rows
    except (OSError, UniRecordError):
        return None


def index_identity(path: str) -> tuple[bytes, int, int] | None:
    """The same of an index: of the part and the content that it belongs to."""
    try:
        with DataFile(path) as file:
            header = layout.unpack_index_header(file.read(0, layout.INDEX_HEADER_BYTES))
            return header.id, header.content_digest, header.rows
    except (OSError, UniRecordError):
        return None
