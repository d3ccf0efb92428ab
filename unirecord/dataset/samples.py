"""The samples of a dataset, one by one, by their numbers, or as an epoch; transformed, and without corrupt rows."""

from __future__ import annotations

import gc
import logging
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptionError, TransformError
from ..loading.loader import OnCorrupt
from ..loading.plan import Plan
from ..order.permutation import EpochRun, ShardOrder, whole_numbers
from ..order.spec import check_integer, launched_ranks
from .cursor import Cursor, warn_of_ranks
from .position import Position

__all__ = [
    "NumberedReads",
    "Samples",
]


# Reads by number, as PyTorch's own DataLoader does them: what is told of mistakes that the numbers alone
# show.
#
# A DataLoader asks for samples by the numbers that its sampler gives. Where these come from
# ``EpochSampler``, each says
# its epoch. Plain numbers are places in the current epoch, and where a pass over them begins or ends,
# nobody says.


class NumberedReads:
    """What one process has read of a dataset by number. It warns, of each kind of mistake once, and changes nothing."""

    def __init__(self, position: Position) -> None:
        self._position = position
        self._said: set[str] = set()
        self._begun = False
        self._epoch = -1
        # of the plain numbers read in that epoch: the first, the latest, the largest, how often one was lower than the
        # one before, and whether the last one of all has been read by itself
        self._first = -1
        self._last = -1
        self._largest = -1
        self._descents = 0
        self._ended = False

    def places(self, places: Sequence[tuple[int, int]], order: ShardOrder, whole: bool) -> None:
        """Sees a batch of an ``EpochSampler``; ``whole``: nobody has said that this process is to have all rows."""
        in_worker = _worker() is not None
        if in_worker:
            self._position.say_read()
        positions = [position for _, position in places]
        self._check_step(positions, order.sharding.num_shards, order)
        self._check_ranks(positions, whole)
        self._begun = True

    def numbers(self, numbers: Sequence[int], order: ShardOrder, whole: bool) -> None:
        """Sees a batch of plain numbers, which are not negative.

        ValueError where a loaded state says that the next pass begins behind the front.
        """
        worker = _worker()
        self._read(worker is not None)
        self._check_step(numbers, 1, order)
        self._check_ranks(numbers, whole)
        if order.shuffled:
            if not self._begun:
                self._check_subset(order, worker)
            epoch = self._position.epoch
            if epoch != self._epoch:
                self._check_torn(epoch, numbers[0])
                self._epoch, self._first, self._largest, self._descents = epoch, numbers[0], -1, 0
            self._check_order(numbers)
            if "order" not in self._said and self._position.begins_again(numbers[0], worker is not None):
                self._warn_of_repetition(epoch)
            self._largest = max(self._largest, *numbers)
        self._begun, self._last = True, numbers[-1]

    def one(self, number: int, order: ShardOrder) -> None:
        """Sees the first or the last sample read by itself, as a DataLoader without batches does."""
        if _worker() is not None:
            self._read(True)
            if order.shuffled and number == 0 and self._position.begins_again(0, True):
                self._warn_of_repetition(self._position.epoch)
        elif order.shuffled:
            epoch = self._position.epoch
            if number == 0 and self._ended and epoch == self._epoch:
                self._warn_of_repetition(epoch)
            self._epoch, self._ended = epoch, number > 0

    def _read(self, in_worker: bool) -> None:
        self._position.read_by_number(in_worker)
        if in_worker:
            self._position.say_read()

    def _warn_of_repetition(self, epoch: int) -> None:
        self._warn(
            "repetition",
            f"epoch {epoch} of a shuffled dataset is read by number for the second time, in the same order. A "
            "DataLoader over it takes sampler=unirecord.torch.EpochSampler(ds), of which each pass is the next epoch; "
            "or call ds.set_epoch(epoch) before each epoch",
        )

    def _check_order(self, numbers: Sequence[int]) -> None:
        """Warns of samplers that put an order over that of the dataset."""
        for number in numbers:
            if number == self._first:  # a pass begins
                self._descents = 0
            elif number <= self._last:
                self._descents += 1
            self._last = number
        if self._descents >= 2:  # one is the padding of DistributedSampler
            self._warn(
                "order",
                "a sampler (DataLoader(shuffle=True), WeightedRandomSampler, the numbers of random_split) puts an "
                "order of its own over a dataset that is shuffled already. Its numbers are places in the shuffled "
                "order, not rows, and are other rows in the next epoch: weights by row are those of other samples, and "
                "parts by number mix. Open the dataset with shuffle=False, or leave the order to it, and part it with "
                'ds.split([0.8, 0.2]); ds.scalars(order="samples") has the values in the order of ds[i]',
            )

    def _check_torn(self, epoch: int, number: int) -> None:
        if number > self._largest >= 0:
            self._warn(
                "torn",
                f"a pass by number began in epoch {self._epoch} of a shuffled dataset and goes on in epoch {epoch}: "
                "set_epoch, or another pass over the dataset, has come in between, so that rows come twice or never. "
                "Give the DataLoader sampler=unirecord.torch.EpochSampler(ds), whose passes keep their epoch",
            )

    def _check_step(self, numbers: Sequence[int], step: int, order: ShardOrder) -> None:
        """Warns where every n-th sample of a shard is asked for: it would be shared out twice."""
        ranks = order.sharding.num_shards
        if ranks == 1 or len(numbers) < 2:
            return
        found = numbers[1] - numbers[0]
        if found > step and all(b - a == found for a, b in pairwise(numbers)):
            self._warn(
                "twice",
                f"one sample in {found // step} of shard {order.sharding.shard_id} of {ranks} is asked for: a "
                "DistributedSampler, such as Lightning adds, shards this dataset twice, and rows are left out. Open it "
                "without shard_id and num_shards, or use it without that sampler "
                "(use_distributed_sampler=False in Lightning)",
            )

    def _check_ranks(self, numbers: Sequence[int], whole: bool) -> None:
        """Warns where a rank but the first begins at the front: every rank then has all rows."""
        begins = whole and not self._begun and len(numbers) > 1 and (numbers[0], numbers[1]) == (0, 1)
        if begins and launched_ranks()[0] > 0:
            warn_of_ranks()

    def _check_subset(self, order: ShardOrder, worker: Any) -> None:
        """Warns where a ``Subset`` reads a shuffled dataset: its rows would be others in each epoch."""
        subset: Any = sys.modules["torch.utils.data"].Subset
        if worker is None:
            found = any(
                issubclass(type(one), subset) and self._is_mine(one.__dict__.get("dataset"))
                for one in gc.get_objects()
            )
        else:
            reading = worker.dataset
            found = issubclass(type(reading), subset) and self._is_mine(reading.dataset)
        if found:
            self._warn(
                "subset",
                "a torch.utils.data.Subset (random_split makes them) reads a shuffled dataset: its numbers are places "
                "in the order of an epoch, and other rows in the next, so that rows for validation come into training. "
                "ds.split([0.8, 0.2]) parts the rows for good; or open the dataset with shuffle=False",
            )

    def _is_mine(self, dataset: Any) -> bool:
        return getattr(getattr(dataset, "read_cursor", None), "position", None) is self._position

    def _warn(self, kind: str, message: str) -> None:
        if kind not in self._said:
            self._said.add(kind)
            warnings.warn(message, UserWarning, stacklevel=6)


def _worker() -> Any:
    """What PyTorch says of this worker process of a DataLoader; None in any other process."""
    torch_data: Any = sys.modules["torch.utils.data"]
    return torch_data.get_worker_info()


_LOG = logging.getLogger("unirecord")
_CHUNK_BYTES = 256 << 10  # iteration reads this much at a time, so that a kept sample pins little memory
_CHUNK_ROWS = 256


class Samples:
    """Reads what a cursor's plan names, in the epoch that it stands in."""

    def __init__(self, cursor: Cursor, transform: Callable[[Any], Any] | None, on_corrupt: OnCorrupt) -> None:
        self._cursor = cursor
        self._transform = transform
        self._skip = on_corrupt == "skip"
        self._reads = NumberedReads(cursor.position)
        self.read_from(cursor.plan)

    def read_from(self, plan: Plan) -> None:
        """From now on reads what another plan names."""
        self._order, self._reader = plan.order, plan.data.reader
        self._read_one = plan.data.reader.one_by_one()
        self._shuffled = plan.order.shuffled
        self._final = len(plan.order) - 1
        if "torch.utils.data" in sys.modules and any(
            column.time_dtype is not None for _, column in plan.columns
        ):
            from ..frameworks.torch_collate import introduce

            introduce()  # a ConcatDataset asks for samples one by one

    def __reduce__(self) -> tuple[Any, ...]:
        return Samples, (self._cursor, self._transform, "skip" if self._skip else "raise")

    def row(self, index: int) -> int:
        """The row of sample ``index``."""
        if self._cursor.exclusions.entries:
            return int(self._rows([index])[0])
        epoch = self._cursor.position.epoch if self._shuffled else 0  # without a shuffle all epochs are alike
        return self._order.row(index, epoch)

    def one(self, index: int) -> Any:
        """Sample ``index``."""
        row = self.row(index)
        if (index == 0 or index == self._final) and "torch.utils.data" in sys.modules:
            self._reads.one(index, self._order)
        return self.of_row(row)

    def of_row(self, row: int) -> Any:
        """The sample of a row, by its number in the dataset."""
        sample = self._read_one(row)
        return sample if self._transform is None else self._transformed(sample, row)

    def many(self, indices: Sequence[int], epoch: int | None = None) -> list[Any]:
        """The samples at ``indices``, in the current epoch or another; corrupt ones are not left out."""
        rows = self._rows(indices, epoch)
        return self._all_transformed(self._reader.many(rows), rows)

    def at(self, epoch: int, position: int) -> Any:
        """The sample at a position of an epoch, counted over all ranks."""
        found = self._cursor.exclusion_mask(epoch).rows_at(self._checked(epoch, [position]))
        row = int(found.given[0])
        if not found.there[0]:
            raise IndexError(
                f"position {position} of epoch {epoch} is left out: row {row} has been excluded; read_rows reads it"
            )
        return self.of_row(row)

    def for_collate(self, indices: Sequence[int] | Sequence[tuple[int, int]]) -> list[Any]:
        """As ``many``, for a loader that collates them; corrupt ones are left out if that has been asked for.

        ``indices`` are numbers, in the current epoch, or what ``EpochSampler`` gives: an epoch and a position each.
        """
        read: Callable[[NDArray[np.int64]], Sequence[Any]] = self._reader.many
        of_epochs = len(indices) > 0 and type(indices[0]) is tuple
        given: Any = indices
        if "torch.utils.data" in sys.modules:
            from ..frameworks.torch_collate import introduce, samples_for_collate

            introduce()
            if len(indices):
                see = self._reads.places if of_epochs else self._reads.numbers
                see(given, self._order, not self._cursor.shared)
            if self._transform is None:
                columns = [column for _, column in self._cursor.plan.columns]
                read = partial(samples_for_collate, self._reader, columns)
        rows = self._rows_for_collate(given, of_epochs)
        if not self._skip:
            return self._all_transformed(read(rows), rows)
        kept, samples = self._whole(rows, read)
        if len(rows) and not samples:
            self._reader.one(int(rows[0]))  # a loader needs one sample at least: says which row is corrupt
        return self._all_transformed(samples, rows[kept])

    def epoch(self) -> Iterator[Any]:
        """One pass; it begins when the first sample is asked for."""
        cursor = self._cursor
        plan, position = cursor.plan, cursor.position
        run = cursor.begin(plan)
        transform, follow = self._transform, position.follow
        chunk = max(1, min(_CHUNK_ROWS, int(_CHUNK_BYTES / max(1.0, plan.row_bytes))))
        start = 0
        while start < run.samples:
            exclusions = cursor.exclusions
            rows, ends, samples = self._some(plan, run, start, min(start + chunk, run.samples))
            start += chunk
            if transform is None:
                for i, sample in zip(follow(run, ends), samples, strict=True):
                    yield sample
                    if cursor.exclusions is not exclusions:  # of what has been read, some is left out now
                        start = (ends[i] - run.start) // run.stride
                        break
            else:
                for i, sample, row in zip(follow(run, ends), samples, rows.tolist(), strict=True):
                    yield self._transformed(sample, row)
                    if cursor.exclusions is not exclusions:
                        start = (ends[i] - run.start) // run.stride
                        break
        position.mark(run, run.after(run.samples))

    def _some(
        self, plan: Plan, run: EpochRun, start: int, stop: int
    ) -> tuple[NDArray[np.int64], Sequence[int], Sequence[Any]]:
        """Rows, positions behind, and samples [start, stop) of a pass, without those that are left out."""
        ends: Sequence[int] = range(run.after(start + 1), run.after(stop + 1), run.stride)
        exclusion_mask = self._cursor.exclusion_mask(run.epoch)
        if not exclusion_mask:
            rows = plan.rows_of(run, start, stop)
        else:
            found = exclusion_mask.of_rank(run.first, run.stride, start, stop)
            rows, ends = found.given[found.there], [ends[i] for i in np.flatnonzero(found.there).tolist()]
        if not self._skip:
            return rows, ends, plan.data.reader.many(rows)
        kept, samples = self._whole(rows, plan.data.reader.many)
        return rows[kept], [ends[i] for i in kept.tolist()], samples

    def _rows(self, indices: Sequence[int], epoch: int | None = None) -> NDArray[np.int64]:
        """The rows of samples; IndexError where one has been excluded, and no other is in its place."""
        of = self._cursor.position.epoch if epoch is None else epoch
        if not self._cursor.exclusions:
            return self._order.rows(indices, of)
        found = self._cursor.exclusion_mask(of).rows_at(self._order.positions(indices))
        if not found.there.all():
            number = int(np.flatnonzero(~found.there)[0])
            raise IndexError(
                f"sample {indices[number]} is left out: row {found.own[number]} has been excluded. Iterate, or use "
                "batches(), which pass over it; exclude(fill=True) puts another row in its place; read_rows reads it"
            )
        return found.given

    def _rows_for_collate(self, indices: Sequence[Any], of_epochs: bool) -> NDArray[np.int64]:
        """The rows of samples that make a batch, without those left out; one that would be empty has its first filled.

        Whether other ranks have one in this step, a loader of others does not say.
        """
        if of_epochs:
            runs = [
                (epoch, self._checked(epoch, [position for _, position in run]))
                for epoch, run in groupby(indices, itemgetter(0))
            ]
        else:
            runs = [(self._cursor.position.epoch, self._order.positions(indices))]
        found = [self._cursor.exclusion_mask(epoch).rows_at(positions) for epoch, positions in runs]
        rows: NDArray[np.int64] = np.concatenate([of.given[of.there] for of in found])
        if len(indices) and not len(rows):
            epoch, positions = runs[0]
            return self._cursor.exclusion_mask(epoch).instead(positions[:1])
        return rows

    def _checked(self, epoch: Any, positions: Sequence[Any]) -> NDArray[np.int64]:
        """Positions of an epoch, where there are such; padding leads past its end, and begins at its front."""
        check_integer("epoch", epoch, 0, (1 << 63) - 1)
        checked = whole_numbers(positions)
        most = 2 * self._order.samples
        if checked.min() < 0 or checked.max() >= most:
            wrong = checked[(checked < 0) | (checked >= most)][0]
            raise IndexError(f"there is no position {wrong}: an epoch has {self._order.samples}")
        return checked

    def _whole(
        self, rows: NDArray[np.int64], read: Callable[[NDArray[np.int64]], Sequence[Any]]
    ) -> tuple[NDArray[np.int64], Sequence[Any]]:
        """Which of the rows are not corrupt, and their samples."""
        kept = np.arange(len(rows))
        try:
            return kept, read(rows)
        except CorruptionError:
            corrupt = np.array([self._is_corrupt(row) for row in rows.tolist()], np.bool_)
        kept = np.flatnonzero(~corrupt)
        return kept, read(rows[kept])

    def _is_corrupt(self, row: int) -> bool:
        try:
            self._reader.one(row)
        except CorruptionError as error:
            _LOG.warning("left out a corrupt row: %s", error)
            return True
        return False

    def _all_transformed(self, samples: Sequence[Any], rows: NDArray[np.int64]) -> list[Any]:
        if self._transform is None:
            return list(samples)
        return [self._transformed(sample, int(row)) for sample, row in zip(samples, rows, strict=True)]

    def _transformed(self, sample: Any, row: int) -> Any:
        assert self._transform is not None
        try:
            return self._transform(sample)
        except StopIteration as error:  # would end whatever iterates here without a word
            path, row_in_part = self._cursor.plan.data.parts.locate(row)
            message = f"transform failed on row {row} (row {row_in_part} of {path}): {error!r}"
            raise TransformError(message, row, path) from error
