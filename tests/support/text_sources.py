"""Text opened as a source, for tests of CSV and JSON Lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from unirecord.convert.sources import Options, Source, open_source
from unirecord.format.values.objects import PackedObject, unpack_object


def opened(tmp_path: Path, text: str, name: str = "x.csv", encoding: str = "utf-8", **options: Any) -> Source:
    path = tmp_path / name
    path.write_bytes(text.encode(encoding, "surrogateescape" if encoding == "utf-8" else "strict"))
    return open_source(str(path), options=Options(**options))


def plain(value: Any) -> Any:
    """A value of a batch as Python has it."""
    if isinstance(value, PackedObject):
        return unpack_object(value.packed)
    return None if value is np.ma.masked else value


def columns_of(source: Source) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {name: [] for name in source.schema.names}
    for batch in source.batches():
        for name, values in batch.columns.items():
            found[name] += map(plain, values)
    assert all(len(v) == source.rows for v in found.values())
    return found


CELL = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
