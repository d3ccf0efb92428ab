"""Folders that belong to a table format: their files alone are not the table, so they are not read as loose files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from .base import WrongSourceError

__all__ = ["refuse_table_folder"]


@dataclass(frozen=True)
class _Format:
    """A table format: what its folder holds, its name, and what reads it."""

    mark: str
    name: str
    way: str


_FORMATS: Final = (
    _Format("_delta_log", "Delta Lake", "deltalake.DeltaTable({path!r}).to_pyarrow_table()"),
    _Format(".hoodie", "Apache Hudi", "spark.read.format('hudi').load({path!r}).toPandas()"),
    _Format("metadata", "Apache Iceberg", "catalog.load_table(NAME).scan().to_arrow() of pyiceberg"),
    _Format("snapshot", "Apache Paimon", "its reader (pypaimon), which gives an Arrow table"),
)


def refuse_table_folder(name: str, path: str) -> None:
    """Raise `WrongSourceError` where the folder at ``path``, which messages call ``name``, is a table, or in one.

    Rows that were removed or replaced still lie in its files, and which those are its log alone tells.
    """
    place = os.path.abspath(path)
    while True:
        for one in _FORMATS:
            if _belongs_to(one, place):
                which = name if place == os.path.abspath(path) else f"{name}, in {place},"
                raise WrongSourceError(
                    f"{which} is a table of {one.name}, whose files hold removed rows, too; read it by its own reader, "
                    f"and pass the table to unirecord.write_dataset: {one.way.format(path=place)}"
                )
        above = os.path.dirname(place)
        last = os.path.basename(place)
        if above == place or ("=" not in last and last != "data"):
            return
        place = above


def _belongs_to(one: _Format, folder: str) -> bool:
    mark = os.path.join(folder, one.mark)
    if not os.path.isdir(mark):
        return False
    if one.mark not in ("metadata", "snapshot"):
        return True
    try:
        names = os.listdir(mark)
    except OSError:
        return False
    if one.mark == "metadata":
        return any(name.endswith(".metadata.json") for name in names)
    return "LATEST" in names and os.path.isdir(os.path.join(folder, "schema"))
