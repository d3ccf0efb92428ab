"""What a manifest says of rows that were laid out anew: they are those of the version before, in its order."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, Final

from ..core import xxh3_64
from ..errors import FormatError, UniRecordError
from ..storage.registry import location_of
from . import manifest
from .column_layouts import encode_layouts
from .manifest import ListedParts, Manifest
from .versions import kept_name, kept_versions, located_version

__all__ = [
    "BlockFacts",
    "block_facts",
    "files_identity",
    "kept_rows",
    "parts_identity",
    "rows_identity",
    "version_with",
]

_KEY: Final = "same_rows"
_MOST: Final = 1 << 63
_LOOKED_AT: Final = 64  # versions at most


@dataclass(frozen=True)
class BlockFacts:
    """By what sizes of blocks are chosen (docs/order.md): rows of a row group, rows in all, bytes of their files."""

    group_rows: int
    rows: int
    bytes: int

    @property
    def mean_row_bytes(self) -> float:
        """Bytes of the data files for each row; 0 without rows."""
        return self.bytes / self.rows if self.rows else 0.0


def files_identity(found: Manifest) -> str:
    """32 hex digits that change with every file that comes or goes, and with what columns it is read for."""
    of_parts = parts_identity(found)
    if not found.layouts:
        return of_parts
    columns = [part.columns for part in found.parts if part.columns is not None]
    files = b"".join(file.id for part in columns for file in part.files)
    places = json.dumps(
        [found.schema.to_wire(), encode_layouts(found.layouts), [part.layout for part in columns]]
    )
    return _digest(of_parts.encode() + files + places.encode())


def parts_identity(found: Manifest) -> str:
    """32 hex digits that change with every part, and file of deleted rows, that comes or goes; not with columns."""
    if isinstance(found.parts, ListedParts):
        return _digest(found.id + found.parts.fields.ids)
    deleted = (part.deleted.digest.encode() for part in found.parts if part.deleted is not None)
    return _digest(found.id + b"".join(part.id for part in found.parts) + b"".join(deleted))


def rows_identity(found: Manifest, path: str) -> str:
    """The same, kept where rows have only been laid out anew; FormatError where the manifest says nonsense of it."""
    files, said = parts_identity(found), _said(found, path)
    if said is None:
        return files
    identity: str = said["identity"]
    return identity if said["layout"] == files else _digest((identity + files).encode())


def version_with(path: str, identity: str, *, of_parts: bool) -> str | None:
    """The newest version with this identity of the directory that ``path`` names, itself or a version of it, as a path.

    ``of_parts``: it is a `parts_identity`, or else a `rows_identity`. None where no kept version, of the latest and of
    those that can be read, has it.
    """
    folder = located_version(path)[0].rstrip("/")
    try:
        if not location_of(folder).is_directory(folder):
            return None
        kept = [kept_name(number) for number in kept_versions(location_of(folder).names(folder))]
    except (OSError, UniRecordError):
        return None
    for name in [manifest.NAME, *reversed(kept)][:_LOOKED_AT]:
        place = os.path.join(folder, name)
        try:
            found = manifest.read(place)
            if identity == (parts_identity(found) if of_parts else rows_identity(found, place)):
                return f"{folder}@{found.generation}"
        except (OSError, UniRecordError):
            continue
    return None


def block_facts(found: Manifest, path: str) -> BlockFacts | None:
    """Those of the version that was laid out anew, where that is the one at hand."""
    said = _said(found, path)
    if said is None or said["layout"] != parts_identity(found):
        return None
    return BlockFacts(said["group_rows"], said["rows"], said["bytes"])


def kept_rows(after: Manifest, before: Manifest, facts: BlockFacts, path: str) -> dict[str, Any]:
    """The ``optional`` of a manifest whose live rows are those of ``before``, in the same order."""
    said = {
        "identity": rows_identity(before, path),
        "layout": parts_identity(after),
        "group_rows": facts.group_rows,
        "rows": facts.rows,
        "bytes": facts.bytes,
    }
    return {**after.optional, _KEY: said}


def _said(found: Manifest, path: str) -> dict[str, Any] | None:
    said = found.optional.get(_KEY)
    if said is None:
        return None
    try:
        hexes = [said["identity"], said["layout"]]
        numbers = [said["group_rows"], said["rows"], said["bytes"]]
        good = all(
            type(text) is str and len(text) == 32 and not set(text) - set("0123456789abcdef")
            for text in hexes
        )
        good = good and all(type(number) is int and 0 <= number < _MOST for number in numbers)
    except (TypeError, KeyError):
        good = False
    if not good:
        raise FormatError(f"{path}: what it says of the rows before they were laid out anew makes no sense")
    return dict(said)


def _digest(content: bytes) -> str:
    return f"{xxh3_64(content):016x}{xxh3_64(content, 1):016x}"
