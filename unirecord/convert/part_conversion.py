"""A source to one part, by one process; what was written is compared with the source before it is published."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from ..errors import CorruptionError, SchemaError, StaleError
from ..format.metadata import check_room, pack_user
from ..format.schema import Schema
from ..format.values import ColumnBatch, RecordEncoder
from ..storage.registry import location_of
from ..storage.staged import linked
from ..writing.arguments import check_id, check_indexable, check_path
from ..writing.batch_writer import BatchWriter
from ..writing.part_writer import FinishedPart, PartContent
from ..writing.row_groups import slice_batch
from ..writing.single_writer import SinglePartWriter
from .conversion import SAMPLED_ROWS, Standing, compare, some
from .sources.base import LeftOut, RawBatch, Source, taken_ahead
from .task import encoded_batch

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
    progress: Callable[[Standing], None] | None = None,
) -> tuple[int, list[LeftOut]]:
    """Write and publish, at most ``limit`` rows; returns the rows, and what was left out in all.

    ``progress`` is told the task done after the last row, before the index is made. Raises what `Writer` does,
    StaleError and CorruptionError when what was written is not what the source has; nothing is published then.
    """
    content = PartContent(schema, tuple(index), pack_user(metadata))
    check_indexable(schema, content.index)
    check_room(schema, content.index, content.user)
    place = location_of(path).absolute(check_path(path))
    target = SinglePartWriter(place, check_id(id), overwrite=overwrite)
    try:
        target.keep()
        writing = _Writing(source, place, schema, BatchWriter(target, content))
        writing.write(limit, _Telling(target, source, limit, progress))
        target.before_publishing = writing.check
        writing.out.finish()
    finally:
        target.abort()
    return writing.rows, list(source.left_out)


class _Telling:
    """Tells how far the one part is."""

    def __init__(
        self,
        target: SinglePartWriter,
        source: Source,
        limit: int | None,
        progress: Callable[[Standing], None] | None,
    ) -> None:
        self._target, self._progress = target, progress
        most = min((n for n in (limit, source.rows) if n is not None), default=None)
        self._standing = Standing(all_rows=most, all_tasks=1, parts=[os.path.basename(target.path)])

    def rows(self, rows: int) -> None:
        """Say how many rows there are."""
        self._standing.rows, self._standing.bytes = rows, self._target.written
        self._tell()

    def done(self) -> None:
        """Say that these were all."""
        self._standing.tasks, self._standing.parts = 1, []
        self._tell()

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(self._standing)


class _Writing:
    """The rows of a source on their way into one part, and which row of it each unit of the source begins with."""

    def __init__(self, source: Source, path: str, schema: Schema, out: BatchWriter) -> None:
        self._source, self._path, self._schema, self.out = source, path, schema, out
        self._encoder = RecordEncoder(schema, "error")
        self.rows = 0
        self._starts: dict[int, int] = {}
        self._limit: int | None = None

    def write(self, limit: int | None, tell: _Telling) -> None:
        """Write at most ``limit`` rows."""
        self._limit = limit
        batches = self._source.numbered_batches()
        ahead = taken_ahead(batches) if self._source.reads_ahead and limit is None else batches
        row = at = 0
        for unit, batch in ahead if limit != 0 else ():
            row, at = row if unit == at else 0, unit
            encoded = self._encoded(unit, batch, row)
            row += batch.rows
            if limit is not None and self.rows + encoded.rows > limit:
                encoded = slice_batch(encoded, 0, limit - self.rows)
            self._starts.setdefault(unit, self.rows)
            self.out.add(encoded, owned=False)
            self.rows += encoded.rows
            tell.rows(self.rows)
            if self.rows == limit:
                break
        tell.done()

    def _encoded(self, unit: int, batch: RawBatch, first: int) -> ColumnBatch:
        source = self._source
        return encoded_batch(self._encoder, self._schema, source, source.units[unit], batch, first)

    def check(self, part: FinishedPart) -> None:
        """Compare the number of rows, and some of them, with the source, which is read again for it."""
        expected, known = self.rows, self._source.rows
        if known is not None and self._limit is None:
            expected = known - sum(one.rows for one in self._source.left_out_in_units)
        if part.rows != self.rows or self.rows != expected:
            raise StaleError(
                f"{self._source.path}: {expected:,} rows were to be written, and {part.rows:,} were; "
                "nothing was published"
            )
        if not self._source.read_once:
            self._compare_some(part)
        self._source.done()

    def _compare_some(self, part: FinishedPart) -> None:
        files = {"part.urec": part.data.temporary, "part.urec.idx": part.index.temporary}
        with linked(files) as folder:  # the two have no names in common yet
            path = os.path.join(folder, "part.urec")
            for unit in some(sorted(self._starts)):
                self._compare(path, unit)

    def _compare(self, path: str, unit: int) -> None:
        first = self._starts[unit]
        batch = next((one for one in self._source.batches_of(self._source.units[unit]) if one.rows), None)
        if batch is None:
            raise StaleError(f"{self._source.units[unit].name} has no rows any more; nothing was published")
        try:
            expected = self._encoded(unit, batch, 0)
            compare(
                path, first, slice_batch(expected, 0, min(SAMPLED_ROWS, expected.rows, self.rows - first)),
                self._schema, self._source.path,
            )  # fmt: skip
        except SchemaError as error:
            raise StaleError(f"{self._source.path} has changed since it was written: {error}") from None
        except CorruptionError as error:
            raise CorruptionError(str(error).replace(path, self._path), path=self._path) from None
