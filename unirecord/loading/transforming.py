"""What the functions of a loader make of a batch: ``transform``, ``collate_fn`` and ``batch_transform``."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptionError, TransformError
from ..order.permutation import BatchOrder, EpochRun
from ..order.randomness import generator, sample_keys
from .batch import split_batch
from .delivered import Delivered
from .options import LoaderOptions, Transform
from .plan import Plan
from .stats import StatsRecorder

__all__ = ["Transforming"]


class Transforming:
    """The functions of one pass, called with a batch that was read, by any thread."""

    def __init__(self, plan: Plan, run: EpochRun, options: LoaderOptions, recorder: StatsRecorder) -> None:
        self._plan, self._run = plan, run
        self._options = options
        self._recorder = recorder

    def __call__(self, delivered: Delivered[dict[str, Any]]) -> Delivered[Any]:
        start = perf_counter_ns()
        options = self._options
        result: Any = delivered.batch
        if options.transform is not None or options.collate_fn is not None:
            samples: list[Any] = self._split(result, delivered)
            if options.transform is not None:
                samples = self._transformed(options.transform, samples, delivered)
            try:
                result = options.collate(samples)
            except StopIteration as error:  # would end the epoch without a word
                raise TransformError(f"collate_fn failed on {self._named(delivered)}: {error!r}") from error
        if options.batch_transform is not None:
            try:
                result = options.batch_transform(result)
            except Exception as error:
                raise TransformError(
                    f"batch_transform failed on {self._named(delivered)}: {error!r}"
                ) from error
        self._recorder.transformed(perf_counter_ns() - start)
        return delivered.with_batch(result)

    def _split(self, batch: dict[str, Any], delivered: Delivered[dict[str, Any]]) -> list[Any]:
        try:
            return split_batch(batch, delivered.samples)
        except CorruptionError:
            for row in self._rows(delivered)[
                0
            ].tolist():  # finds the row that cannot be decoded, and says where it is
                self._plan.data.reader.one(row)
            raise

    def _transformed(
        self, transform: Transform, samples: list[Any], delivered: Delivered[dict[str, Any]]
    ) -> list[Any]:
        done: list[Any] = []
        given = self._generators(delivered) if self._options.random else repeat(())
        try:
            # Not map(): a StopIteration would end it.
            for sample, more in zip(samples, given, strict=self._options.random):
                done.append(transform(sample, *more))
        except Exception as error:
            row = int(self._rows(delivered)[0][len(done)])
            path, row_in_part = self._plan.data.parts.locate(row)
            message = f"transform failed on row {row} (row {row_in_part} of {path}): {error!r}"
            raise TransformError(message, row, path) from error
        return done

    def _generators(self, delivered: Delivered[Any]) -> Iterator[tuple[np.random.Generator]]:
        """For each sample the generator that the first random operator of a pipeline would get."""
        keys = sample_keys(self._run.order.spec.seed, delivered.epoch, *self._rows(delivered))
        return ((generator(key, 1),) for key in keys)

    def _rows(self, delivered: Delivered[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
        """The rows of the samples of a batch, and what tells samples of one row apart."""
        rows, draws = delivered.rows, delivered.draws
        if rows is None:
            count = delivered.samples + len(delivered.left_out)
            rows, draws = self._plan.rows_before(self._run, delivered.end, count)
        if not delivered.left_out:
            return rows, draws
        kept = ~np.isin(rows, delivered.left_out)  # a corrupt row is left out wherever it comes
        return rows[kept], None if draws is None else draws[kept]

    def _named(self, delivered: Delivered[Any]) -> str:
        position = (delivered.end - self._run.start) // self._run.stride
        size = 1 if isinstance(self._run.order, BatchOrder) else self._options.batch_size
        return f"batch {-(-position // size) - 1} of epoch {delivered.epoch}"
