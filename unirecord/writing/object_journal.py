"""The journal of a conversion that writes to an object store: objects beside the parts, one for each task."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Sequence
from typing import Any

from ..errors import UniRecordError
from ..format import layout
from ..parts.manifest import PartEntry
from ..storage.location import Location
from ..storage.object_writes import ObjectWrites
from .conversion_journal import Journal, as_object

__all__ = ["ObjectJournal", "tag_of", "uploaded"]


class ObjectJournal(Journal):
    """The journal at a URL, of one of the conversions that may be at work there; picklable.

    What the store does not answer is an OSError: a record that cannot be read is not taken for one that is not there.
    """

    def __init__(self, url: str, tag: str, writes: ObjectWrites) -> None:
        super().__init__(url, tag)
        self._writes = writes

    def _write(self, name: str, content: dict[str, Any]) -> None:
        self._writes.put(posixpath.join(self.folder, name), json.dumps(content).encode())

    def _read(self, name: str) -> dict[str, Any] | None:
        return self._read_each([name])[0]

    def _read_each(self, names: Sequence[str]) -> list[dict[str, Any] | None]:
        urls = [posixpath.join(self.folder, name) for name in names]
        found = self._writes.read_each(urls)
        return [None if one is None else as_object(one.content) for one in found]

    def _clear(self, names: Sequence[str]) -> None:
        left = self._writes.delete([posixpath.join(self.folder, name) for name in names])
        if left:
            raise OSError(f"{left[0]}: the store did not say that this was deleted")


def tag_of(dataset_id: bytes) -> str:
    """What the names of the journal of a conversion have besides, of the id of what it writes."""
    return f"-{dataset_id[:4].hex()}"


def uploaded(location: Location, folder: str, entries: Sequence[PartEntry]) -> set[str]:
    """The names of those parts both of whose files are there: of the right length, id and digest of the content.

    Asked at once of all: the beginning of each file tells. OSError when the store does not say.
    """
    wanted = [
        (posixpath.join(folder, entry.name + ending), size)
        for entry in entries
        for ending, size in (("", layout.HEADER_BYTES), (".idx", layout.INDEX_HEADER_BYTES))
    ]
    heads = location.read_heads(wanted)
    whole = set()
    for entry, data, index in zip(entries, heads[::2], heads[1::2], strict=True):
        for found in (data, index):
            if isinstance(found, BaseException) and not isinstance(
                found, (FileNotFoundError, UniRecordError)
            ):
                raise found
        if isinstance(data, tuple) and isinstance(index, tuple) and _is_part(entry, data, index):
            whole.add(entry.name)
    return whole


def _is_part(entry: PartEntry, data: tuple[bytes, int], index: tuple[bytes, int]) -> bool:
    try:
        of_data = layout.unpack_file_header(bytes(data[0])[: layout.HEADER_BYTES])
        of_index = layout.unpack_index_header(bytes(index[0])[: layout.INDEX_HEADER_BYTES])
    except UniRecordError:
        return False
    same = of_data.id == entry.id == of_index.id and f"{of_index.content_digest:016x}" == entry.content
    return same and (data[1], index[1], of_index.rows) == (entry.bytes, entry.index_bytes, entry.rows)
