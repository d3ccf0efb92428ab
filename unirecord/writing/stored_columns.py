"""How the columns of a part are stored, wherever its files are: which codec each of them has."""

from __future__ import annotations

import os
from dataclasses import replace

from ..format.schema import Schema
from ..snapshot.data_file import DataFile
from ..snapshot.manifest import Manifest, PartEntry
from ..snapshot.rearranging import files_of_part, layout_of
from .verified_rows import open_verified

__all__ = ["compressed_as"]


def compressed_as(folder: str, found: Manifest, part: PartEntry) -> Schema:
    """The schema of a manifest with the codecs of the files of one of its parts, each of which is the one it names.

    CorruptionError, FormatError, OSError: a file is another one, or cannot be read.
    """
    layout, stored = layout_of(found, part), []
    for entry in files_of_part(found, part):
        with DataFile(os.path.join(folder, entry.name)) as data:
            stored.append(open_verified(data, entry).schema)
    places = zip(found.schema, layout.columns, strict=True)
    return Schema(
        replace(column, codec=stored[file].columns[place].codec) for column, (file, place) in places
    )
