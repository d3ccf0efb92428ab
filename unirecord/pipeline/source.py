"""What a pipeline over a dataset reads: stored samples, or whole batches of them, as chunks with their places."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptionError
from ..loading.batch import items_of
from ..loading.delivered import Delivered
from ..loading.loader import BatchMemory, BatchReader
from ..loading.options import LoaderOptions
from ..loading.part_times import PartTimes
from ..loading.plan import Plan
from ..loading.ragged import RaggedArray
from ..order.exclusion import Leaving, RankRows
from ..order.permutation import EpochRun
from ..order.randomness import sample_keys
from ..order.selection import Selection
from .chunk import HOLE, Chunk, Note

__all__ = ["DatasetSource", "RowNames", "rows_at_once"]

_Draws = Callable[[int, int], "NDArray[np.int64] | None"]

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
        self.meeting: Callable[[str], NDArray[np.bool_]] = lru_cache(maxsize=None)(self._meeting)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._plan,)

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
    the others are passed over. ``leaving`` says which rows are left out, and what stands in their place; ``aligned``
    batches of so many samples have their places, so that holes are given up to there; 0: holes are passed over.
    ``times`` counts how long reading took of each part.
    """

    def __init__(
        self,
        plan: Plan,
        run: EpochRun,
        options: LoaderOptions,
        memory: BatchMemory,
        times: PartTimes,
        *,
        batched: bool,
        keyed: bool,
        raw: frozenset[str] = frozenset(),
        conditions: Sequence[NDArray[np.bool_]] = (),
        leaving: Leaving | None = None,
        aligned: int = 0,
    ) -> None:
        self._plan, self._run, self._options, self._memory = plan, run, options, memory
        self._batched, self._keyed, self._raw, self._conditions = batched, keyed, raw, tuple(conditions)
        self._leaving, self._aligned = leaving, aligned
        self._times = times

    def __iter__(self) -> Iterator[Chunk]:
        if self._batched and self._leaving is not None:
            return self._read_with_holes()
        if self._conditions or self._leaving is not None:
            return self._passing_over()
        plan, run = self._plan, self._run
        return self._read(plan, run, range, lambda start, stop: plan.draws_of(run, start, stop))

    def _read(self, plan: Plan, run: EpochRun, numbers: Any, draws: _Draws) -> Iterator[Chunk]:
        """The samples of a run.

        ``numbers`` says which samples of the pass those from one to another of it are, ``draws`` what tells those of
        one row apart.
        """
        reader = BatchReader(plan, run, self._options, self._memory)
        batches = iter(reader)
        try:
            for delivered in batches:
                stop = (delivered.end - run.start) // run.stride
                start = stop - delivered.samples - len(delivered.left_out)
                rows = plan.rows_of(run, start, stop)
                told = draws(start, stop) if self._keyed else None
                yield self._chunk(delivered, rows, numbers(start, stop), told)
                del delivered
            if reader.trailing:
                yield Chunk([], (), (), (), (), tuple(Note(row, None) for row in reader.trailing))
        finally:
            batches.close()
            self._times.merge(reader.part_times)

    def _read_with_holes(self) -> Iterator[Chunk]:
        """The batches of a run, smaller by what is left out of them."""
        run, begin = self._run, self._run.start
        reader = BatchReader(self._plan, run, self._options, self._memory, self._leaving)
        batches = iter(reader)
        try:
            for delivered in batches:
                rows, left_out, end = delivered.rows, delivered.left_out, delivered.end
                assert rows is not None
                kept = ~np.isin(rows, left_out) if left_out else slice(None)
                draws = None if delivered.draws is None else delivered.draws[kept]
                rows = rows[kept]
                keys = [self._keys(rows, draws)] if self._keyed else ()
                notes = tuple(Note(row, None) for row in left_out)
                batch = delivered.batch
                del delivered
                yield Chunk([batch], (begin,), (end,), [rows.tolist()], keys, notes)
                del batch
                begin = end
            if reader.trailing:
                yield Chunk([], (), (), (), (), tuple(Note(row, None) for row in reader.trailing))
        finally:
            batches.close()
            self._times.merge(reader.part_times)

    def _keys(self, rows: NDArray[np.int64], draws: NDArray[np.int64] | None) -> Any:
        return sample_keys(self._run.order.spec.seed, self._run.epoch, rows, draws)

    def _passing_over(self) -> Iterator[Chunk]:
        """Reads those rows alone that come: each window of the pass as a selection of its own."""
        plan, run = self._plan, self._run
        unit = self._aligned or self._options.batch_size
        window = unit * max(1, _WINDOW // unit)
        for start in range(0, run.samples, window):
            stop = min(start + window, run.samples)
            kept = np.arange(stop - start)
            found: RankRows | None = None
            if self._leaving is None:
                rows = plan.rows_of(run, start, stop)
            else:
                found = self._leaving.of_rank(run.first, run.stride, start, stop)
                rows, kept = found.given, np.flatnonzero(found.there)
            for condition in self._conditions:
                kept = kept[condition[rows[kept]]]
            chunks: Iterator[Chunk] = iter(())
            if len(kept):
                chosen = plan.listed(rows[kept])
                numbers = (kept + start).tolist()
                part = chosen.order.run(run.epoch, 0)
                positions = run.first + run.stride * (kept + start)
                drawn = None if found is None else found.out[kept]
                draws = plan.order.draws_at(positions, drawn) if self._keyed else None
                chunks = self._read(chosen, part, _sliced(numbers), _sliced(draws))
            yield from chunks if found is None or not self._aligned else self._around(chunks, start, found)

    def _around(self, chunks: Iterator[Chunk], start: int, found: RankRows) -> Iterator[Chunk]:
        """Chunks of the samples from ``start`` on with the holes before, between and behind their elements."""
        run, at = self._run, 0
        holes = np.flatnonzero(~found.there)
        for chunk in chunks:
            if chunk.values:
                last = (chunk.begins[-1] - run.start) // run.stride - start  # type: ignore[operator]
                stop = int(np.searchsorted(holes, last))
                if stop > at:
                    chunk = self._with_holes(chunk, holes[at:stop] + start, found.own[holes[at:stop]])
                    at = stop
            yield chunk
        if at < len(holes):
            nothing = Chunk([], (), (), [], [] if self._keyed else ())
            yield self._with_holes(nothing, holes[at:] + start, found.own[holes[at:]])

    def _with_holes(self, chunk: Chunk, numbers: NDArray[np.int64], rows: NDArray[np.int64]) -> Chunk:
        run = self._run
        begins = np.concatenate([np.array(chunk.begins, np.int64), run.start + numbers * run.stride])
        turns = np.argsort(begins, kind="stable")
        values = [*chunk.values, *[HOLE] * len(numbers)]
        row_of, order = [*chunk.rows, *rows.tolist()], turns.tolist()
        keys = [*chunk.keys, *self._keys(rows, None)] if self._keyed else ()
        places = begins[turns]
        return Chunk(
            [values[turn] for turn in order],
            places.tolist(),
            (places + run.stride).tolist(),
            [row_of[turn] for turn in order],
            [keys[turn] for turn in order] if keys else (),
            chunk.notes,
            chunk.error,
        )

    def _chunk(
        self,
        delivered: Delivered[dict[str, Any]],
        rows: NDArray[np.int64],
        numbers: Any,
        draws: NDArray[np.int64] | None,
    ) -> Chunk:
        run = self._run
        left_out = delivered.left_out
        if left_out:  # a corrupt row is left out wherever it comes
            kept = np.flatnonzero(~np.isin(rows, left_out)).tolist()
            rows, numbers = rows[kept], [numbers[i] for i in kept]
            draws = None if draws is None else draws[kept]
        keys = self._keys(rows, draws) if self._keyed else ()
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


def _sliced(values: Any) -> Callable[[int, int], Any]:
    return lambda start, stop: None if values is None else values[start:stop]


def _after(run: EpochRun, numbers: Any) -> Sequence[int]:
    if isinstance(numbers, range):
        return range(run.after(numbers.start), run.after(numbers.stop), run.stride)
    return [run.after(number) for number in numbers]
