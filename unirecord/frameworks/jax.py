"""JAX: batches as arrays on a device, or as this process's part of arrays that all processes share."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..dataset.batch_loader import BatchLoader, batch_options
from ..errors import SchemaError
from ..loading.loader import BatchTransform, LoaderOptions, TrackedBatch
from ..migration_hints import READING_ARGUMENTS, explains_arguments
from ..sizes import many
from .arguments import check_readable, check_valid_names
from .array_trees import with_arrays

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..dataset.batch_loader import Batchable
    from ..loading.loader import ReadAhead

__all__ = ["loader", "to_arrays"]

_IN_FLIGHT = 2  # batches on their way to the device: the one that is used, and the next


@explains_arguments(READING_ARGUMENTS)
def loader(
    ds: Batchable,
    batch_size: int | None = None,
    *,
    device: Any = None,
    sharding: Any = None,
    transform: Callable[[Any], Any] | None = None,
    collate_fn: Callable[[list[Any]], Any] | None = None,
    **read_ahead: Unpack[ReadAhead],
) -> BatchLoader[Any]:
    """Batches of a dataset's shard with ``jax.Array`` in place of arrays; iterate over it once per epoch.

    Columns of fixed width are arrays [batch, …], on the CPU over the memory that was read into; strings are lists,
    other values of variable width ``RaggedArray``. A nullable column ``x`` comes with ``x_valid`` (bool [batch]); where
    that is False, ``x`` is NaN or 0. The next batch is on its way to the device while one is used. docs/frameworks.md
    has examples.

    Args:
        ds: the dataset; its shard, order, epoch, ``columns`` and ``where`` hold. Or the batches that have been drawn
            of one.
        batch_size: samples in a batch of this process; of batches that have been drawn, none is given.
        device: a ``jax.Device``; JAX's default by default.
        sharding: a ``jax.sharding.Sharding`` instead of a device: arrays are global, and this process's batch is its
            part of them (``jax.make_array_from_process_local_data``). Every process must come to the same batches:
            refused with ``remainder="uneven"`` or ``on_corrupt="skip"``, and where the devices cannot divide a batch
            of the epoch: its last one too, unless ``drop_last``.
        transform, collate_fn: as for ``UniRecordDataset.batches``; the dataset's own transform by default.
        **read_ahead: ``drop_last``, ``prefetch``, ``num_threads``, ``num_workers``, ``receipts``, ``random``, ``crops``
            and ``return_places`` as for ``batches``.

    Raises:
        OverflowError: (while iterating) JAX without ``jax_enable_x64`` keeps 32 bits, and an integer needs more.
        SchemaError: a mask ``x_valid`` would hide a column of that name.
    """
    check_readable(ds, "loader")
    if device is not None and sharding is not None:
        raise ValueError("device= and sharding= both say where arrays are to be: give one of them")
    own = ds.transform if transform is None else transform
    if sharding is not None and ds.read_cursor.plan.order.batched:
        raise ValueError(
            "drawn batches may differ in size between processes, and such make no global array: leave out "
            "sharding=, and make arrays of what loader() gives"
        )
    options = batch_options(ds, batch_size, own, collate_fn, None, read_ahead)
    if not options.changes_batches:
        check_valid_names(ds)
    if sharding is not None:
        _check_global(ds, options)
    bfloat16 = frozenset(name for name in ds.column_names if ds.schema[name].type == "bfloat16")
    stages = [_ToArrays(device, sharding, bfloat16)]
    if sharding is None:
        return BatchLoader(ds, options, stages=stages)
    ds.read_cursor.refuse_skipped_slots("a global array")
    return _GlobalLoader(ds, options, stages, sharding)


class _GlobalLoader(BatchLoader[Any]):
    """A loader of global arrays: a pass with a batch that the devices cannot divide is refused before it begins."""

    def __init__(
        self, ds: Any, options: LoaderOptions, stages: Sequence[BatchTransform], sharding: Any
    ) -> None:
        super().__init__(ds, options, stages=stages)
        self.whole_for("a global array")
        self._sharding = sharding
        self._check(self.read_cursor.plan.order.samples_from(0))
        self._check(self.read_cursor.samples_left())

    def __iter__(self) -> Generator[Any, None, None]:
        self._check(self.read_cursor.samples_left())  # a state may have been loaded
        return super().__iter__()

    def _check(self, samples: int) -> None:
        """ValueError where the devices cannot divide one of the batches of so many samples."""
        size = self._options.batch_size
        whole, rest = divmod(samples, size)
        if whole:
            self._check_rows(size, f"batches of {many(size, 'row')}: give another batch_size")
        if rest and not self._options.drop_last:
            self._check_rows(
                rest,
                f"the last batch, which has {many(rest, 'row')} of {samples}: give drop_last=True",
            )

    def _check_rows(self, rows: int, words: str) -> None:
        import jax

        sharding = self._sharding
        devices = len(sharding.device_set)
        # What any of its axes can be divided into divides the number of devices: the rows alone are in question.
        axes = [devices] * (len(getattr(sharding, "spec", ())) - 1)
        try:
            jax.make_array_from_process_local_data(sharding, np.zeros((rows, *axes), np.uint8))
        except ValueError as error:
            raise ValueError(f"the sharding over {many(devices, 'device')} cannot divide {words}") from error


def _check_global(ds: Batchable, options: LoaderOptions) -> None:
    """Refuses what would leave processes with batches of different sizes, or with what no array holds."""
    if ds.on_corrupt == "skip":
        raise ValueError(
            'with on_corrupt="skip" processes may get batches of different sizes, which make no global array: '
            "use ds.view(on_corrupt='raise')"
        )
    sharding = ds.read_cursor.plan.order.sharding
    if sharding.num_shards > 1 and sharding.remainder == "uneven":
        raise ValueError(
            'with remainder="uneven" one process may have a batch that the others lack, and JAX would wait for them '
            'for ever: use ds.view(remainder="pad") or "drop"'
        )
    columns = ds.read_cursor.plan.data.batch_columns(options.crops, options.return_places)
    local = [column.name for column in columns if column.fixed_bytes == 0]
    if local and not options.changes_batches:
        raise SchemaError(
            f"columns {local} have no fixed width, and no form in an array that processes share: leave them out with "
            "columns=[...], or give them one with transform="
        )


class _ToArrays:
    """The stage that puts JAX arrays in place of numpy's, a batch ahead of the one in use."""

    def __init__(self, device: Any, sharding: Any, bfloat16: frozenset[str]) -> None:
        self._device = device
        self._sharding = sharding
        self._bfloat16 = bfloat16

    def __call__(self, batches: Iterator[TrackedBatch[Any]]) -> Iterator[TrackedBatch[Any]]:
        ready: deque[TrackedBatch[Any]] = deque()
        for delivered in batches:
            ready.append(delivered.map(self._arrays))
            del delivered
            if len(ready) == _IN_FLIGHT:
                yield ready.popleft()
        while ready:
            yield ready.popleft()

    def _arrays(self, batch: Any) -> Any:
        return with_arrays(batch, self._array, self._bfloat16)

    def _array(self, array: NDArray[Any], bits: bool) -> Any:
        import jax

        array = _as_jax_keeps_it(array, bits)
        if self._sharding is None:
            return jax.device_put(array, self._device)
        return jax.make_array_from_process_local_data(self._sharding, array)


def to_arrays(batch: Any, device: Any = None, bfloat16: Collection[str] = ()) -> Any:
    """A batch with JAX arrays in place of its numeric arrays; dicts, tuples and lists are gone into.

    The numbers are copied: JAX may otherwise look into memory that the next batch is written to. Nullable columns come
    with a mask ``x_valid``, as for PyTorch; columns named in ``bfloat16`` with that type. Where JAX's 64-bit numbers
    are off, int64 becomes int32, and OverflowError names what does not fit: JAX itself would wrap it around.
    """
    import jax

    def make(array: NDArray[Any], bits: bool) -> Any:
        return jax.device_put(np.array(_as_jax_keeps_it(array, bits)), device)

    return with_arrays(batch, make, bfloat16)


def _as_jax_keeps_it(array: NDArray[Any], bits: bool) -> NDArray[Any]:
    """The array, of bfloat16 where it holds the bits of those; OverflowError where JAX would cut an integer."""
    import jax

    if bits:
        return array.view(jax.numpy.bfloat16)
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8 and not jax.config.jax_enable_x64:
        _check_fits(array)
    return array


def _check_fits(array: NDArray[Any]) -> None:
    kept = np.iinfo(np.int32 if array.dtype.kind == "i" else np.uint32)
    if array.size and not (kept.min <= array.min() and array.max() <= kept.max):
        values = f"{array.dtype} values from {array.min()} to {array.max()}"
        raise OverflowError(
            f"{values} do not fit the {kept.dtype} that JAX makes of them: "
            'jax.config.update("jax_enable_x64", True), or make them smaller before they become arrays of JAX'
        )
