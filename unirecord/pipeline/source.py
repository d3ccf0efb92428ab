"""What a pipeline over a dataset reads: stored samples, or whole batches of them, as chunks with their places."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptionError
from ..loading.batch import items_of
from ..loading.delivered import Delivered
from ..loading.loader import BatchMemory, BatchReader
from ..loading.options import LoaderOptions
from ..loading.plan import Plan
from ..loading.ragged import RaggedArray
from ..order.exclusions import Leaving
from ..order.randomness import sample_keys
from ..order.selection import Selection
from ..order.shard_order import EpochRun
from .chunk import Chunk, Note

__all__ = ["DatasetSource", "RowNames", "rows_at_once"]

_CHUNK_BYTES = 1 << 20
_MOST_ROWS, _FEWEST_ROWS = 256, 8
_WINDOW = 1 << 20  # samples whose rows are looked up at a time where some are known not to be read


def rows_at_once(row_bytes: float) -> int:
    """How many samples are read together: a kept one pins them all."""
    return max(_FEWEST_ROWS, min(_MOST_ROWS, int(_CHUNK_BYTES / max(1.0, row_bytes))))


class RowNames:
    """Says where the rows of a plan lie, and which of them meet a condition."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.meeting = lru_cache(maxsize=None)(self._meeting)

    def locate(self, row: int) -> tuple[str, str]:
        """Path of a row's part, and words that name the row in a message."""
        path, row_in_part = self._plan.data.parts.locate(row)
        return path, f"row {row} (row {row_in_part} of {path})"

    def _meeting(self, condition: str) -> NDArray[np.bool_]:
        rows = self._plan.data.snapshot.rows
        meets = np.zeros(rows, np.bool_)
        selection, _ = self._plan.data.where_rows(Selection(rows), condition)
        meets[selection.row_ids(np.arange(len(selection)))] = True
        return meets


class DatasetSource:
    """One pass over the shard of a plan.

    ``batched``: each chunk is one batch as ``ds.batches`` gives it, else some samples. ``keyed``: with keys for
    randomness. ``raw`` are columns given as stored bytes, uint8[n]. ``conditions`` are met by the rows that are read;
    the others are passed over. ``leaving`` says which rows stand in the place of those that are left out.
    """

    def __init__(
        self,
        plan: Plan,
        run: EpochRun,
        options: LoaderOptions,
        memory: BatchMemory,
        *,
        batched: bool,
        keyed: bool,
        raw: frozenset[str] = frozenset(),
        conditions: Sequence[NDArray[np.bool_]] = (),
        leaving: Leaving | None = None,
    ) -> None:
        self._plan, self._run, self._options, self._memory = plan, run, options, memory
        self._batched, self._keyed, self._raw, self._conditions = batched, keyed, raw, tuple(conditions)
        self._leaving = leaving
        self.read_ns = 0

    def __iter__(self) -> Iterator[Chunk]:
        if self._conditions or self._leaving is not None:
            return self._passing_over()
        run = self._run
        return self._read(self._plan, run, lambda start, stop: range(start, stop))

    def _read(self, plan: Plan, run: EpochRun, numbers: Any) -> Iterator[Chunk]:
        """The samples of a run; ``numbers`` says which samples of the pass those from one to another of it are."""
        reader = BatchReader(plan, run, self._options, self._memory)
        batches = iter(reader)
        try:
            for delivered in batches:
                stop = (delivered.end - run.start) // run.stride
                start = stop - delivered.samples - len(delivered.left_out)
                rows = plan.rows_of(run, start, stop)
                yield self._chunk(delivered, rows, numbers(start, stop))
                del delivered
            if reader.trailing:
                yield Chunk([], (), (), (), (), tuple(Note(row, None) for row in reader.trailing))
        finally:
            batches.close()  # type: ignore[attr-defined]
            self.read_ns += reader.read_ns

    def _passing_over(self) -> Iterator[Chunk]:
        """Reads those rows alone that come: each window of the pass as a selection of its own."""
        plan, run = self._plan, self._run
        window = self._options.batch_size * max(1, _WINDOW // self._options.batch_size)
        for start in range(0, run.samples, window):
            stop = min(start + window, run.samples)
            kept = np.arange(stop - start)
            if self._leaving is None:
                rows = plan.rows_of(run, start, stop)
            else:
                found = self._leaving.of_rank(run.first, run.stride, start, stop)
                rows, kept = found.given, np.flatnonzero(found.there)
            for condition in self._conditions:
                kept = kept[condition[rows[kept]]]
            if not len(kept):
                continue
            chosen = plan.listed(rows[kept])
            numbers = (kept + start).tolist()
            part = replace(chosen.order.run(run.epoch, 0))
            yield from self._read(chosen, part, lambda a, b, numbers=numbers: numbers[a:b])

    def _chunk(self, delivered: Delivered[dict[str, Any]], rows: NDArray[np.int64], numbers: Any) -> Chunk:
        run = self._run
        left_out = delivered.left_out
        if left_out:  # a corrupt row is left out wherever it comes
            kept = np.flatnonzero(~np.isin(rows, left_out)).tolist()
            rows, numbers = rows[kept], [numbers[i] for i in kept]
        keys = sample_keys(run.order.spec.seed, run.epoch, rows) if self._keyed else ()
        notes = tuple(Note(row, None) for row in left_out)
        ids: list[int] = rows.tolist()
        if self._batched:
            begin, end = run.after(numbers[0]), run.after(numbers[-1] + 1)
            return Chunk([delivered.batch], (begin,), (end,), [ids], [keys] if keys else (), notes)
        begins = _after(run, numbers)
        ends = _after(
            run,
            range(numbers.start + 1, numbers.stop + 1)
            if isinstance(numbers, range)
            else [n + 1 for n in numbers],
        )
        return Chunk(self._samples(delivered, ids), begins, ends, ids, keys, notes)

    def _samples(self, delivered: Delivered[dict[str, Any]], rows: list[int]) -> list[Any]:
        batch = delivered.batch
        raw = {
            name: value
            for name, value in batch.items()
            if name in self._raw and isinstance(value, RaggedArray)
        }
        try:
            columns = items_of({name: value for name, value in batch.items() if name not in raw})
        except CorruptionError:
            for row in rows:  # finds the row that cannot be decoded, and says where it is
                self._plan.data.reader.one(row)
            raise
        for name, value in raw.items():
            places = value.offsets.tolist()
            columns[name] = [value.data[a:b] for a, b in itertools.pairwise(places)]
        names = list(batch)
        return [
            dict(zip(names, values, strict=True)) for values in zip(*(columns[n] for n in names), strict=True)
        ]


def _after(run: EpochRun, numbers: Any) -> Sequence[int]:
    if isinstance(numbers, range):
        return range(run.after(numbers.start), run.after(numbers.stop), run.stride)
    return [run.after(number) for number in numbers]
