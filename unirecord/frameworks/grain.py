"""Grain: samples by their numbers for its readers and shuffles, and our own batches as its iterator."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from ..order.spec import check_integer
from ..sizes import many
from .arguments import check_dataset

if TYPE_CHECKING:
    import grain
    from typing_extensions import Unpack

    from ..dataset.dataset import UniRecordDataset
    from ..loading.loader import ReadAhead

__all__ = ["Source", "batches", "dataset"]


class Source:
    """A dataset's shard as Grain's random-access source, for ``MapDataset.source`` and ``DataLoader``.

    Number i is sample ``i % len(ds)`` of epoch ``ds.epoch + i // len(ds)``, in the order of that epoch: what is read
    depends on the number alone, so Grain's checkpoints are exact. Open the dataset with ``shuffle=False`` where Grain
    shuffles. A batch of numbers is read with one call.

    Args:
        ds: the dataset; ``epochs`` count from its current one.
        epochs: how often its samples come.
    """

    def __init__(self, ds: UniRecordDataset, epochs: int = 1) -> None:
        check_dataset(ds, "iterate over drawn.batches()")
        self._given = ds
        self._ds = ds.view()
        self._first = ds.epoch
        self._epochs = check_integer("epochs", epochs, 1)
        if len(ds) * self._epochs > sys.maxsize:
            raise ValueError(
                f"{many(len(ds), 'sample')} in {many(epochs, 'epoch', 'have')} more numbers than a length can say"
            )

    def __len__(self) -> int:
        return len(self._ds) * self._epochs

    def __getitem__(self, index: int) -> Any:
        index = index.__index__()
        if not 0 <= index < len(self):
            raise IndexError(f"sample {index} of a source of {len(self)}")
        return self._read([index])[0]

    def _getitems(self, indices: Sequence[int]) -> list[Any]:
        return self._read([index.__index__() for index in indices])

    def _read(self, indices: Sequence[int]) -> list[Any]:
        """Samples by numbers that may go beyond the length."""
        self._ds.read_cursor.refuse_later_exclusions(self._given.read_cursor, "a source of Grain")
        length, first = len(self._ds), self._first
        epochs = sorted({index // length for index in indices})
        read = self._ds._samples.many
        if len(epochs) == 1:
            return read([index % length for index in indices], first + epochs[0])
        found: list[Any] = [None] * len(indices)
        for epoch in epochs:
            places = [place for place, index in enumerate(indices) if index // length == epoch]
            samples = read([indices[place] % length for place in places], first + epoch)
            for place, sample in zip(places, samples, strict=True):
                found[place] = sample
        return found

    def __repr__(self) -> str:
        """What Grain's DataLoader compares with that of a checkpoint: the data, their order and their share."""
        state = self._ds.state_dict()
        del state["position"]
        state["epoch"] = self._first
        told = ", ".join(f"{name}={value!r}" for name, value in state.items())
        shard = f"shard {self._ds.shard_id} of {self._ds.num_shards}"
        return f"unirecord.grain.Source({told}, columns={list(self._ds.column_names)}, {shard}, epochs={self._epochs})"


def dataset(ds: UniRecordDataset) -> grain.MapDataset[Any]:
    """A dataset's shard as a ``grain.MapDataset`` of samples, whose ``repeat()`` has an order of its own each epoch.

    (Behind ``MapDataset.source`` each repetition would have the order of the first, because Grain tells a source no
    epoch.)
    """
    return _classes()[0](Source(ds))


def batches(
    ds: UniRecordDataset, batch_size: int, *, epochs: int | None = 1, **read_ahead: Unpack[ReadAhead]
) -> grain.IterDataset[Any]:
    """A dataset's shard as a ``grain.IterDataset`` of batches as ``ds.batches`` gives them, read ahead by C threads.

    Every iterator begins where the dataset stands when it is made, and has a position of its own. Its
    ``get_state()`` is that of ``UniRecordDataset.state_dict``: it can be set in a job of any number of ranks.

    Args:
        ds: the dataset, with its transform.
        batch_size: samples in a batch.
        epochs: how many follow each other, from the dataset's current one on; None: without end. 1: that one alone, or
            the one of a state that is set.
        **read_ahead: ``drop_last``, ``prefetch``, ``num_threads``, ``num_workers``, ``crops`` and ``return_places`` as
            for ``UniRecordDataset.batches``.
    """
    check_dataset(ds, "iterate over drawn.batches()")
    if epochs is not None:
        check_integer("epochs", epochs, 1)
    ds.batches(batch_size, **read_ahead)  # refuses wrong options now
    return _classes()[1](ds, batch_size, epochs, read_ahead)


@cache
def _classes() -> tuple[Any, Any]:
    """Grain's classes, derived when Grain is first needed."""
    import grain

    class UniRecordMapDataset(grain.MapDataset[Any]):  # type: ignore[misc]
        def __init__(self, source: Source) -> None:
            super().__init__()
            self._source = source

        def __len__(self) -> int:
            return len(self._source)

        def __getitem__(self, index: Any) -> Any:
            return self.slice(index) if isinstance(index, slice) else self._source._read([index])[0]

        def _getitems(self, indices: Sequence[int]) -> list[Any]:
            return self._source._read(indices)

        def __str__(self) -> str:
            return f"UniRecordMapDataset({self._source!r})"

    class UniRecordIterDataset(grain.IterDataset[Any]):  # type: ignore[misc]
        def __init__(self, ds: UniRecordDataset, batch_size: int, epochs: int | None, options: Any) -> None:
            super().__init__()
            self._given = (ds, batch_size, epochs, options)

        def __iter__(self) -> Any:
            return UniRecordDatasetIterator(*self._given)

        def __str__(self) -> str:
            return f"UniRecordIterDataset({self._given[0]!r}, {self._given[1]})"

    class UniRecordDatasetIterator(grain.DatasetIterator[Any]):  # type: ignore[misc]
        def __init__(self, ds: UniRecordDataset, batch_size: int, epochs: int | None, options: Any) -> None:
            super().__init__()
            self._loader = ds.view().batches(batch_size, **options)
            self._first = ds.epoch
            self._epochs = epochs
            self._pass: Iterator[Any] | None = None

        def __next__(self) -> Any:
            self._assert_not_closed()
            while True:
                whole = False
                if self._pass is None:
                    state = self._loader.state_dict()
                    if self._epochs is not None and state["epoch"] >= self._first + self._epochs:
                        raise StopIteration
                    whole = state["position"] == 0
                    self._pass = iter(self._loader)
                for batch in self._pass:
                    return batch
                self._pass = None
                if whole:  # an epoch without a batch: so are all others, without end
                    raise StopIteration
                self._loader.set_epoch(self._loader.state_dict()["epoch"] + 1)

        def get_state(self) -> dict[str, Any]:
            return self._loader.state_dict()

        def set_state(self, state: dict[str, Any]) -> None:
            self._stop()
            self._loader.load_state_dict(state)
            if self._epochs == 1:
                self._first = state["epoch"]
            elif self._epochs and not self._first <= state["epoch"] < self._first + self._epochs:
                raise ValueError(
                    f"the state is of epoch {state['epoch']}, and these are the {many(self._epochs, 'epoch')} from "
                    f"{self._first} on: call ds.set_epoch() with the first one before batches()"
                )

        def close(self) -> None:
            super().close()
            self._stop()

        def _stop(self) -> None:
            running, self._pass = self._pass, None
            if running is not None:
                running.close()  # type: ignore[attr-defined]

        def __str__(self) -> str:
            return f"UniRecordDatasetIterator({self._loader.dataset!r})"

    return UniRecordMapDataset, UniRecordIterDataset
