"""A source to one part, by one process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..format.schema import Schema
from ..writing.writer import Writer
from .sources.base import LeftOut, Source

__all__ = ["write_part"]


def write_part(
    source: Source,
    path: str,
    schema: Schema,
    *,
    index: Sequence[str] = (),
    metadata: object = None,
    overwrite: bool = False,
    id: bytes | None = None,
    limit: int | None = None,
    tell: Callable[[int], None] | None = None,
) -> tuple[int, list[LeftOut]]:
    """Write and publish, at most ``limit`` rows; returns the rows, and what was left out in all.

    ``tell`` is called with the rows so far, after the last one before the index is made. Raises what `Writer` does.
    """
    with Writer(path, schema, index=index, metadata=metadata, overwrite=overwrite, id=id) as writer:
        for batch in source.batches() if limit != 0 else ():
            rows = batch.rows if limit is None else min(limit - writer.rows, batch.rows)
            writer.write_batch({name: _first(batch.columns[name], rows, batch.rows) for name in schema.names})
            if tell is not None:
                tell(writer.rows)
            if writer.rows == limit:
                break
    return writer.rows, list(source.left_out)


def _first(values: Any, rows: int, of: int) -> Any:
    return values[:rows] if rows < of else values
