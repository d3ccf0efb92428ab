"""Makes the manifest of a directory anew from the parts that are there, or corrects what it says of them."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from dataclasses import replace

import msgpack

from ..errors import SchemaError
from ..parts import manifest
from ..parts.data_file import DataFile
from ..parts.layouts import is_column_part
from ..parts.manifest import Manifest, PartEntry
from ..parts.versions import published_as
from ..storage.registry import location_of
from ..storage.staged import StagedFile
from ..writing.version_files import check_only_grew, keep_version
from .salvage import Survey
from .targets import Target

__all__ = ["correct_sizes", "has_other_sizes", "rebuild_manifest", "why_not_listed"]


def _content(path: str) -> str:
    with DataFile(path) as data:
        return f"{data.content_digest(data.head()):016x}"


def rebuild_manifest(path: str, found: Sequence[tuple[Target, Survey]], staged: StagedFile) -> None:
    """Publishes through ``staged`` a manifest that names these parts, sound and with their indexes, in their order.

    Schema, index columns and the user's metadata stand in every part. SchemaError when two parts do not agree.
    """
    check_only_grew(path)
    heads = [state.head for _, state in found if state.head is not None]
    first = heads[0].metadata
    for (part, _), head in zip(found, heads, strict=True):
        if is_column_part(head.metadata.user):
            raise SchemaError(
                f"{part.path} has columns of another part, and which part that is stood in the manifest that is lost; "
                f"copy the newest version that is kept to {manifest.NAME}, or open the parts by themselves"
            )
    for (part, _), head in zip(found, heads, strict=True):
        if not head.schema.says_the_same_as(first.schema):
            raise SchemaError(
                f"{part.path} has another schema than {found[0][0].path}, so that they are not of one dataset; "
                f"move those that do not belong to it out of {path}, and repair it again"
            )
    digest = manifest.schema_digest(first.schema)
    entries = tuple(
        PartEntry(
            os.path.basename(part.path),
            head.header.id,
            state.rows or 0,
            *_sizes(part.path),
            digest,
            _content(part.path),
        )
        for (part, state), head in zip(found, heads, strict=True)
    )
    user = None if first.user is None else msgpack.packb(first.user, use_bin_type=True)
    index = tuple(name for name in first.index if all(name in head.metadata.index for head in heads))
    last = max(int(entry.name.split("-")[1]) for entry in entries)
    made = Manifest(secrets.token_bytes(16), 1, last + 1, first.schema, index, user, entries)
    staged.append([manifest.encode(made)])
    staged.sync()
    staged.publish()


def why_not_listed(part: Target, state: Survey, listing: Manifest | None) -> str | None:
    """Why a whole part is not the one that the manifest names, if it is another; sizes aside."""
    entry, head = part.entry, state.head
    if entry is None or head is None or listing is None or not state.sound:
        return None
    for what, found, listed in (
        ("id", head.header.id.hex(), entry.id.hex()),
        ("number of rows", state.rows, entry.rows),
        ("content digest", _content(part.path), entry.content),
    ):
        if found != listed:
            return f"its {what} is {found}, the manifest says {listed}"
    same = head.schema.says_the_same_as(part.schema or listing.schema)
    return None if same else "its schema is not the one in the manifest"


def has_other_sizes(part: Target) -> bool:
    """Whether the files of a part with its index are not as long as the manifest says."""
    entry = part.entry
    return entry is not None and _sizes(part.path) != (entry.bytes, entry.index_bytes)


def _sizes(path: str) -> tuple[int, int]:
    location = location_of(path)
    return location.size(path), location.size(path + ".idx")


def correct_sizes(parts: Sequence[Target], listing: Manifest, staged: StagedFile) -> None:
    """Publishes through ``staged`` the same manifest with the sizes that the files of its parts have."""
    sizes = {os.path.basename(part.path): _sizes(part.path) for part in parts}
    entries = tuple(_with_sizes(entry, sizes) for entry in listing.parts)
    corrected = published_as(replace(listing, parts=entries), listing, "repair", staged.path)
    staged.append([manifest.encode(corrected)])
    staged.sync()
    keep_version(os.path.dirname(staged.path), listing.generation)
    staged.publish()


def _with_sizes(entry: PartEntry, sizes: dict[str, tuple[int, int]]) -> PartEntry:
    size, index_size = sizes[entry.name]
    entry = entry._replace(bytes=size, index_bytes=index_size)
    if entry.columns is None:
        return entry
    files = [
        file._replace(bytes=sizes[file.name][0], index_bytes=sizes[file.name][1])
        for file in entry.columns.files
    ]
    return entry._replace(columns=replace(entry.columns, files=tuple(files)))
