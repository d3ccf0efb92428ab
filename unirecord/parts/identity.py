"""Which part a data file and an index belong to, as far as their heads and ends tell."""

from __future__ import annotations

from ..errors import UniRecordError
from ..format import layout
from .data_file import DataFile

__all__ = ["data_identity", "index_identity"]


def data_identity(path: str) -> tuple[bytes, int] | None:
    """Id and content digest of a data file; None when it has none."""
    try:
        with DataFile(path) as file:
            head = file.head()
            return head.header.id, file.end_page(head).payload_digest
    except (OSError, UniRecordError):
        return None


def index_identity(path: str) -> tuple[bytes, int] | None:
    """The same of an index: of the part and the content that it belongs to."""
    try:
        with DataFile(path) as file:
            header = layout.unpack_index_header(file.read(0, layout.INDEX_HEADER_BYTES))
            return header.id, header.content_digest
    except (OSError, UniRecordError):
        return None
