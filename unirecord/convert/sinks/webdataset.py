"""WebDataset shards: tar files in which the files of a row have one name and different endings."""

from __future__ import annotations

import tarfile
from collections.abc import Sequence
from io import BytesIO
from typing import Any, BinaryIO, Final

from ...dataset.dataset import UniRecordDataset
from ...format.column import Column
from .jsonl import json_line, json_notes, json_value
from .sink import Advance, Sink, encoded, numbered, refuse_names

__all__ = ["WEBDATASET"]

_LONGEST_KEY: Final = "0" * 19
_LONGEST_ENDING: Final = ".webmanifest"  # of the media types that Python knows


def _check(columns: Sequence[Column], metadata: Any) -> list[str]:
    """Return what becomes of scalars, arrays and objects."""
    refuse_names(
        [c for c in columns if c.is_blob],
        "webdataset",
        lambda c: [f"{_LONGEST_KEY}.{c.name}{_LONGEST_ENDING}"],
    )
    notes = [f"{c.name}: bfloat16 is written as its bits, uint16" for c in columns if c.type == "bfloat16"]
    scalars = [c.name for c in columns if not c.is_blob]
    if scalars:
        notes.append(f"{', '.join(scalars)}: in the file KEY.json of each row")
    return [*notes, *json_notes([c for c in columns if c.type == "object"])]


def _write_rows(rows: UniRecordDataset, out: BinaryIO, advance: Advance) -> None:
    """Write the rows; the files have no owner, and the time 0."""
    columns = [rows.schema[name] for name in rows.column_names]
    blobs = [column.name for column in columns if column.is_blob]
    scalars = [column for column in columns if not column.is_blob]
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        for number, sample in numbered(rows):
            key = f"{number:09d}"
            if scalars:
                values = {c.name: json_value(c, sample[c.name]) for c in scalars}
                _add(tar, f"{key}.json", json_line(values).encode())
            for name in blobs:
                if sample[name] is not None:
                    data, suffix = encoded(sample[name], rows.schema[name].media_type)
                    _add(tar, f"{key}.{name}{suffix}", data)
            advance(1)


# Each row as files ``KEY.COLUMN.ENDING``, its scalars as ``KEY.json``; the key is its number in the
# dataset.
WEBDATASET: Final = Sink(
    kind="webdataset",
    about="WebDataset (tar)",
    suffix=".tar",
    check=_check,
    write=_write_rows,
)


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    info.mode = 0o644
    tar.addfile(info, BytesIO(data))
