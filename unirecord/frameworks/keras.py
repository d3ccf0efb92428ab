"""Keras: a shard as a PyDataset, whose batches are read ahead by C threads as long as they are asked for in turn."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from ..dataset.dataset import UniRecordDataset
from ..dataset.drawn_batches import DrawnBatches
from ..errors import SchemaError
from .array_trees import with_arrays
from .valid_names import check_valid_names

if TYPE_CHECKING:
    import keras
    from typing_extensions import Unpack

    from ..loading.options import ReadAhead

__all__ = ["dataset"]


def dataset(
    ds: UniRecordDataset,
    batch_size: int,
    *,
    batch_transform: Callable[[Any], Any] | None = None,
    **read_ahead: Unpack[ReadAhead],
) -> keras.utils.PyDataset:
    """A dataset's shard as a ``keras.utils.PyDataset``, for ``fit``, ``evaluate`` and ``predict`` of every backend.

    Its batch i is batch i of the epoch of ``ds``, and each epoch of Keras is followed by the next one of ``ds``. Pass
    ``shuffle=False`` to ``fit``, which by default mixes the order of batches once more, so that none is read ahead.
    Without ``batch_transform`` a batch is a dict of arrays [batch, …]; a nullable column ``x`` comes with ``x_valid``
    (bool [batch]), and is NaN or 0 where that is False.

    Args:
        ds: the dataset; its shard, order, epoch, ``columns`` and ``where`` hold.
        batch_size: samples in a batch.
        batch_transform: makes what Keras takes, ``(inputs, targets)``, of a batch as ``ds.batches`` gives it.
        **read_ahead: ``drop_last``, ``prefetch``, ``num_threads``, ``num_workers`` as for ``UniRecordDataset.batches``.

    Raises:
        SchemaError: without a transform, a column that has no fixed width.
        ValueError: (while it is read) the dataset stands within an epoch, and Keras counts the batches of whole ones.
    """
    if isinstance(ds, DrawnBatches):
        raise TypeError(
            "a PyDataset has batches of one size, and these have been drawn: model.fit takes drawn.to_tf(), "
            "unirecord.torch.loader(drawn), or a generator over drawn.batches()"
        )
    if not isinstance(ds, UniRecordDataset):
        raise TypeError(
            f"dataset() takes a UniRecordDataset, not {ds!r:.100}: open one with UniRecordDataset(path)"
        )
    if batch_transform is None and ds.transform is None:
        check_valid_names(ds)
        for name in ds.column_names:
            if ds.schema[name].fixed_bytes == 0:
                raise SchemaError(
                    f"column {name!r} is {ds.schema[name].spec!r}, which Keras has no form for: leave it out with "
                    "columns=[...], or give it one with batch_transform="
                )
    options = {**read_ahead, "batch_transform": batch_transform}
    ds.batches(batch_size, **options)  # type: ignore[call-overload]  # refuses wrong options now
    return _class()(_Numbered(ds, batch_size, options))


class _Numbered:
    """Batches of the current epoch by their numbers, from one running pass or one of a single batch."""

    def __init__(self, ds: UniRecordDataset, batch_size: int, options: dict[str, Any]) -> None:
        self.ds = ds
        self._size, self._options = batch_size, options
        self._lock = threading.Lock()
        self._epoch: int | None = None  # of Keras' current one
        self._running: Iterator[Any] | None = None
        self._next = (ds.epoch, 0)

    def __len__(self) -> int:
        return len(self.ds.view().batches(self._size, **self._options))

    def read(self, number: int) -> Any:
        """Batch ``number`` of the epoch; a pass with read-ahead begins where two are asked for in turn, or at 0."""
        with self._lock:
            epoch = self.ds.epoch if self._epoch is None else self._epoch
            in_turn = (epoch, number) == self._next
            if self._running is None or not in_turn:
                self._stop()
                self._running = self._begin(epoch, number, ahead=number == 0 or in_turn)
            self._next = epoch, number + 1
            for batch in self._running:
                return with_arrays(batch, lambda array, bits: array)
            raise IndexError(f"batch {number} of {len(self)}")

    def _begin(self, epoch: int, number: int, ahead: bool) -> Iterator[Any]:
        view, state = self.ds.view(), self.ds.state_dict()
        if state["position"]:
            raise ValueError(
                f"the dataset stands at position {state['position']} of epoch {state['epoch']}, and Keras counts the "
                "batches of whole epochs: use ds.set_epoch(), or go on in the middle with another loader"
            )
        view._cursor.refuse_holes("Keras")
        view.load_state_dict({**state, "epoch": epoch, "position": number * self._size * view.num_shards})
        options = self._options if ahead else {**self._options, "prefetch": 1}
        return iter(view.batches(self._size, **options))

    def begin_epoch(self) -> None:
        """From here on the epoch is the one that the dataset has now, whatever is set meanwhile."""
        self._epoch = self.ds.epoch

    def end_epoch(self) -> None:
        """The next epoch follows, unless one has been set meanwhile."""
        with self._lock:
            self._stop()
            epoch, self._epoch = self._epoch, None
            if epoch == self.ds.epoch:
                self.ds.set_epoch(epoch + 1)

    def _stop(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.close()  # type: ignore[attr-defined]


@cache
def _class() -> Any:
    """The class that Keras takes, derived when Keras is first needed."""
    import keras

    class UniRecordPyDataset(keras.utils.PyDataset):  # type: ignore[misc]
        def __init__(self, numbered: _Numbered) -> None:
            super().__init__()
            self._numbered = numbered

        def __len__(self) -> int:
            return len(self._numbered)

        def __getitem__(self, number: int) -> Any:
            return self._numbered.read(number)

        def on_epoch_begin(self) -> None:
            self._numbered.begin_epoch()

        def on_epoch_end(self) -> None:
            self._numbered.end_epoch()

    return UniRecordPyDataset
