"""What tests of sources share: the rows of a source, and what is left of a file that is cut or changed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from unirecord.convert.sources import Options, Source, open_input, open_source, source_type
from unirecord.errors import SchemaError

DATA = Path(__file__).parent / "data"


def plain(value: Any) -> Any:
    """A value as plain Python: arrays as lists, views as bytes."""
    if isinstance(value, memoryview):
        return bytes(value)
    if value is np.ma.masked:
        return None
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def rows_of(source: Source) -> list[dict[str, Any]]:
    """Every row of a source; unit by unit in reverse, as workers may read them, gives the same."""
    found = [row for batch in source.batches() for row in _rows(batch.columns)]
    again = [
        [row for batch in source.batches_of(unit) for row in _rows(batch.columns)]
        for unit in source.units[::-1]
    ]
    apart = [row for rows in again[::-1] for row in rows]
    assert str(apart) == str(found)
    return found


def _rows(columns: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, map(plain, values), strict=True))


def rows_at(path: str | Path, **options: Any) -> list[dict[str, Any]]:
    """Every row of the source at a path."""
    return rows_of(open_source(str(path), **options))


def refusals(place: Path, kind: str, cuts: int, flips: int, seed: int = 0) -> int:
    """Read versions of a file that are cut off, or have some bytes changed, and return how many were refused.

    Each is read, or refused by its name, and nothing else.
    """
    whole = place.read_bytes()
    draw = random.Random(seed)
    errors: list[str] = []
    for i in range(cuts + flips):
        data = bytearray(whole)
        if i < cuts:
            del data[draw.randrange(len(whole)) :]
        for _ in range(0 if i < cuts else draw.choice((1, 1, 2, 8))):
            at = draw.randrange(min(len(data), draw.choice((64, 4096, len(data)))))
            data[at] = draw.choice((0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)))
        place.write_bytes(data)
        try:
            found = open_input(str(place))
            for batch in source_type(found, kind)(
                found, Options()
            ).batches():  # by no child, which costs a start each
                assert batch.rows
        except SchemaError as error:
            errors.append(str(error))
    place.write_bytes(whole)
    assert [error for error in errors if place.name not in error] == []
    return len(errors)
