"""Keras: a shard as a PyDataset, whose batches are read ahead by C threads as long as they are asked for in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from ..core import Locked
from ..dataset.dataset import UniRecordDataset
from ..errors import SchemaError
from ..migration_hints import READING_ARGUMENTS, explains_arguments
from ..order.permutation import EpochRun
from .arguments import check_dataset, check_valid_names
from .array_trees import with_arrays

if TYPE_CHECKING:
    import keras
    from typing_extensions import Unpack

    from ..loading.loader import ReadAhead

__all__ = ["dataset"]


@explains_arguments(READING_ARGUMENTS)
def dataset(
    ds: UniRecordDataset,
    batch_size: int,
    *,
    batch_transform: Callable[[Any], Any] | None = None,
    **read_ahead: Unpack[ReadAhead],
) -> keras.utils.PyDataset:
    """A dataset's shard as a ``keras.utils.PyDataset``, for ``fit``, ``evaluate`` and ``predict`` of every backend.

    Its batch i is batch i of the epoch of ``ds``, and each pass over all of them is followed by the next epoch. With
    ``steps_per_epoch`` a pass takes several epochs of Keras, and what is left of it when ``fit`` returns is not read:
    the next ``fit`` begins the next epoch. One that an error has left begins its epoch again. Pass ``shuffle=False`` to
    ``fit``, which by default mixes the order of batches once more, so that none is read ahead.
    Without ``batch_transform`` a batch is a dict of arrays [batch, …]; a nullable column ``x`` comes with ``x_valid``
    (bool [batch]), and is NaN or 0 where that is False.

    Args:
        ds: the dataset; its shard, order, epoch, ``columns`` and ``where`` hold.
        batch_size: samples in a batch.
        batch_transform: makes what Keras takes, ``(inputs, targets)``, of a batch as ``ds.batches`` gives it.
        **read_ahead: ``drop_last``, ``prefetch``, ``num_threads``, ``num_workers``, ``crops`` and ``return_places`` as
            for ``UniRecordDataset.batches``.

    Raises:
        SchemaError: without a transform, a column that has no fixed width.
        ValueError: (while it is read) the dataset stands within an epoch, and Keras counts the batches of whole ones.
    """
    check_dataset(
        ds,
        "model.fit takes unirecord.tf.dataset(drawn), unirecord.torch.loader(drawn), or a generator over "
        "drawn.batches()",
    )
    if batch_transform is None and ds.transform is None:
        check_valid_names(ds)
        crops, places = read_ahead.get("crops"), read_ahead.get("return_places", False)
        for column in ds.read_cursor.plan.data.batch_columns(crops, places):
            if column.fixed_bytes == 0:
                raise SchemaError(
                    f"column {column.name!r} is {column.spec!r}, which Keras has no form for: leave it out with "
                    "columns=[...], or give it one with batch_transform="
                )
    options = {**read_ahead, "batch_transform": batch_transform}
    ds.batches(batch_size, **options)  # type: ignore[call-overload]  # refuses wrong options now
    return _class()(_Numbered(ds, batch_size, options))


class _Numbered:
    """Batches by their numbers, each pass over all of them an epoch of the dataset's.

    Keras asks a pass for each number once, in any order and perhaps ahead, whatever it calls an epoch: with
    ``steps_per_epoch`` several of these share a pass. So a pass is over when all numbers have been asked for, or when
    another ``fit`` begins. What is asked outside of Keras' epochs, to see types, is of no pass; and where a number
    comes again before a pass is over, as after Keras has built a model by the first batch, its epoch is begun again.
    """

    def __init__(self, ds: UniRecordDataset, batch_size: int, options: dict[str, Any]) -> None:
        self.ds = ds
        self._size, self._options = batch_size, options
        self._lock = Locked()
        self._in_epoch = False  # of Keras
        self._pass: EpochRun | None = None
        self._asked: set[int] = set()  # numbers of the pass
        self._running: Iterator[Any] | None = None
        self._next = (-1, 0)  # epoch and number of the batch that comes next of what is running

    def __len__(self) -> int:
        options = self._options
        return self.ds.read_cursor.batches_of_epoch(self._size, bool(options.get("drop_last")))

    def read(self, number: int) -> Any:
        """Batch ``number`` of the epoch; a pass with read-ahead begins where two are asked for in turn, or at 0."""
        with self._lock.lock:
            count = len(self)
            if not 0 <= number < count:
                raise IndexError(f"batch {number} of {count}")
            epoch = self._epoch_of(number, count)
            in_turn = (epoch, number) == self._next
            if self._running is None or not in_turn:
                self._stop()
                self._running = self._begin(epoch, number, ahead=number == 0 or in_turn)
            self._next = epoch, number + 1
            for batch in self._running:
                return with_arrays(batch, lambda array, bits: array)
            raise IndexError(f"batch {number} of {count} is left out")

    def _epoch_of(self, number: int, count: int) -> int:
        """The epoch of a batch that is asked for; it begins a pass where it is none of the one that is under way."""
        if self._pass is not None and number not in self._asked:
            self._asked.add(number)
            return self._pass.epoch
        if not self._in_epoch:
            return self._next_epoch() if self._pass is None else self._pass.epoch
        if self._pass is None or len(self._asked) == count:
            self._next_epoch()
            self._pass = self.ds.read_cursor.begin(self.ds.read_cursor.plan)
        self._asked = {number}
        return self._pass.epoch

    def _next_epoch(self) -> int:
        """The epoch of the next pass, which has to begin at its front."""
        cursor = self.ds.read_cursor
        epoch, start = cursor.position.next_pass
        if start and not cursor.samples_left():  # a state from the end of an epoch
            cursor.begin(cursor.plan)
            epoch, start = cursor.position.next_pass
        if start:
            raise ValueError(
                f"the dataset stands at position {start} of epoch {epoch}, and Keras counts the batches of whole "
                "epochs: use ds.set_epoch(), or go on in the middle with another loader"
            )
        return epoch

    def _begin(self, epoch: int, number: int, ahead: bool) -> Iterator[Any]:
        view, state = self.ds.view(), self.ds.state_dict()
        view.read_cursor.refuse_skipped_slots("Keras")
        view.load_state_dict({**state, "epoch": epoch, "position": number * self._size * view.num_shards})
        options = self._options if ahead else {**self._options, "prefetch": 1}
        return iter(view.batches(self._size, **options))

    def begin_epoch(self) -> None:
        """From here on Keras asks for batches to use them."""
        with self._lock.lock:
            self._in_epoch = True

    def end_epoch(self) -> None:
        """Keras' epoch is over, and with it a pass that is; or, outside of one, another ``fit`` is about to begin."""
        with self._lock.lock:
            over = self._pass is not None and len(self._asked) == len(self)
            if over and self._pass is not None:
                self.ds.read_cursor.position.mark(self._pass, self._pass.after(self._pass.samples))
            if over or not self._in_epoch:
                self._stop()
                self._pass, self._asked = None, set()
            self._in_epoch = False

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
