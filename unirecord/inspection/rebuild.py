"""Makes the manifest of a directory anew from the parts that are there."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence

import msgpack

from ..errors import SchemaError
from ..parts import manifest
from ..parts.data_file import DataFile
from ..parts.manifest import Manifest, PartEntry
from ..storage.staged import StagedFile
from .salvage import Survey
from .targets import Target

__all__ = ["rebuild_manifest"]


def _content(path: str) -> str:
    with DataFile(path) as data:
        return f"{data.content_digest(data.head()):016x}"


def rebuild_manifest(path: str, found: Sequence[tuple[Target, Survey]], staged: StagedFile) -> None:
    """Publishes through ``staged`` a manifest that names these parts, sound and with their indexes, in their order.

    Schema, index columns and the user's metadata stand in every part. SchemaError when two parts do not agree.
    """
    heads = [state.head for _, state in found if state.head is not None]
    first = heads[0].metadata
    for (part, _), head in zip(found, heads, strict=True):
        if head.schema != first.schema:
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
            os.path.getsize(part.path),
            os.path.getsize(part.path + ".idx"),
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
