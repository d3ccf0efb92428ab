"""Writes the blobs of rows to files: pictures as pictures, text as text, arrays as .npy, objects as JSON."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..convert.sinks.base import encoded, safe_name
from ..errors import ExistsError, SchemaError
from ..loading.samples import SampleReader
from ..snapshot.part_set import PartSet
from ..storage import local as store

_BATCH: Final = 16


@dataclass
class Extracted:
    """What was written where."""

    folder: str
    files: int = 0
    bytes: int = 0
    nulls: int = 0


def extract(
    parts: PartSet, rows: NDArray[np.int64], column: str, folder: str, name_column: str | None = None
) -> Extracted:
    """Writes ``column`` of each row to ``folder``, made if need be, as ROW.EXT or ROW-NAME.EXT.

    A null has no file, and is counted. The row's number makes names differ; of ``name_column``'s value only letters,
    digits and ``._-`` of its last path component are kept, so no value can lead out of the folder. ExistsError before
    anything that is there is replaced.
    """
    ordinals = [_ordinal(parts, column, blob=True)]
    if name_column is not None:
        ordinals.append(_ordinal(parts, name_column, blob=False))
    reader = SampleReader(parts, [(ordinal, parts.schema[ordinal]) for ordinal in ordinals])
    store.make_directory(folder)
    done = Extracted(folder)
    digits = max(len(str(max(parts.rows - 1, 0))), 6)
    for row, sample in _samples(reader, rows):
        if sample[column] is None and parts.schema[column].nullable:
            done.nulls += 1
            continue
        data, suffix = encoded(sample[column], parts.schema[column].annotations.get("media_type"))
        label = "" if name_column is None else safe_name(sample[name_column])
        stem = f"{row:0{digits}d}" + (f"-{label}" if label else "")
        path = os.path.join(folder, stem if stem.lower().endswith(suffix) else stem + suffix)
        try:
            store.write_new(path, data)
        except FileExistsError:
            raise ExistsError(f"{path} exists already; give another --out, or remove it") from None
        done.files += 1
        done.bytes += len(data)
    return done


def _ordinal(parts: PartSet, name: str, blob: bool) -> int:
    ordinal = parts.schema.ordinal(name)
    if parts.schema[ordinal].is_blob != blob:
        kind = "scalar: `--csv --columns` prints it" if blob else "no scalar column, which a name is made of"
        raise SchemaError(f"column {name!r} is {kind}")
    return ordinal


def _samples(reader: SampleReader, rows: NDArray[np.int64]) -> Iterator[tuple[int, dict[str, Any]]]:
    for start in range(0, len(rows), _BATCH):
        batch = np.ascontiguousarray(rows[start : start + _BATCH], np.int64)
        yield from zip(batch.tolist(), reader.many(batch), strict=True)
