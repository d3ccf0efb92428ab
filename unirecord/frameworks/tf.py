"""TensorFlow: a dataset's shard as a ``tf.data.Dataset`` of batches, one call of Python a batch."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dataset.batch_loader import BatchLoader, batch_options
from ..errors import SchemaError, StaleError
from ..format.column import Column
from ..format.meaning import as_stored
from ..loading.batch import RaggedArray
from ..migration_hints import READING_ARGUMENTS, explains_arguments
from ..sizes import many
from .arguments import check_readable, check_valid_names
from .array_trees import filled_and_valid

if TYPE_CHECKING:
    import tensorflow as tf

    from ..dataset.batch_loader import Batchable
    from ..loading.boxes import Crop
    from ..loading.loader import ReadAhead

__all__ = ["dataset"]


@explains_arguments(READING_ARGUMENTS)
def dataset(
    ds: Batchable,
    batch_size: int | None = None,
    *,
    drop_last: bool = False,
    prefetch: int | None = None,
    num_threads: int | None = None,
    crops: Mapping[str, Crop] | None = None,
    return_places: bool = False,
) -> tf.data.Dataset[Any]:
    """Batches of a dataset's shard as dicts of tensors with static types and shapes.

    Fixed-width columns are tensors [batch, …], strings, text and bytes ``tf.string`` [batch], arrays whose leading
    dimensions are free ``tf.RaggedTensor``. A nullable column ``x`` comes with ``x_valid`` (bool); where that is
    False, ``x`` is NaN, 0, "" or has no elements. Every iteration, ``repeat`` included, is an epoch with an order of
    its own. The shards are the dataset's: automatic sharding is off. The reading is done ahead by C threads; the order
    holds whatever comes after. See docs/tensorflow.md.

    Batches that have been drawn have no ``batch_size``. ``crops`` and ``return_places`` are as for
    ``UniRecordDataset.batches``.

    Raises SchemaError for columns that have no tensor form (objects; arrays with a free dimension behind a fixed
    one): leave them out with ``columns=``.
    """
    import tensorflow as tf

    check_readable(ds, "dataset")
    read_ahead: ReadAhead = {
        "drop_last": drop_last,
        "prefetch": prefetch,
        "num_threads": num_threads,
        "crops": crops,
        "return_places": return_places,
    }
    reading = batch_options(ds, batch_size, None, None, None, read_ahead)
    if ds.transform is not None:
        raise ValueError(
            "the dataset has a transform, which a tf.data.Dataset would not call: its types and shapes are not known. "
            "Use unirecord.tf.dataset(ds.view(transform=None), …), and .map() on what it gives"
        )
    check_valid_names(ds)
    skips = ds.on_corrupt == "skip"  # batches may then be smaller, and fewer
    static = batch_size if drop_last and not skips else None
    columns = ds.read_cursor.plan.data.batch_columns(crops, return_places)
    steps = ds.read_cursor.plan.data.steps
    counts = {} if steps is None else dict(zip(ds.column_names, steps.counts, strict=True))
    outputs = [_Output(column, static, counts.get(column.name)) for column in columns]
    passes = _Passes(ds, BatchLoader(ds, reading), outputs, batch_size, drop_last)
    ds.read_cursor.refuse_skipped_slots("TensorFlow")
    passes.loader.whole_for("TensorFlow")
    full = passes.full
    told = passes.told = full if len(passes.loader) == full and not skips else None

    def assemble(*parts: Any) -> dict[str, Any]:
        left = iter(parts)
        tensors: dict[str, Any] = {}
        for output in outputs:
            tensors.update(output.tensors(left))
        return tensors

    signature = tuple(spec for output in outputs for spec in output.specs())
    batches = tf.data.Dataset.from_generator(_generator(passes), output_signature=signature).map(assemble)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    options.deterministic = True
    # What TensorFlow reads ahead by itself would begin the next epoch of a repeat() before this one is done with, and
    # so before set_epoch can name another; the loader has read ahead already.
    options.experimental_optimization.inject_prefetch = False
    if told is None:
        batches = _of_at_most(batches, full)
    else:
        batches = batches.apply(tf.data.experimental.assert_cardinality(told))
    batches = batches.with_options(options)
    # What is made of it, and iterators, hold the datasets that they are made of.
    batches.unirecord_passes = passes
    return batches


def _generator(passes: _Passes) -> Callable[[], Iterator[tuple[Any, ...]]]:
    """What TensorFlow calls for each pass.

    TensorFlow keeps this function for as long as the process lives (``script_ops._internal_py_func`` ties it to the
    default graph), so that it must not keep a dataset, with its files and its memory, open.
    """
    found = weakref.ref(passes)

    def generate() -> Iterator[tuple[Any, ...]]:
        passes = found()
        if passes is None:
            raise RuntimeError(
                "the tf.data.Dataset that unirecord.tf.dataset gave, and what was made of it, are gone: "
                "keep one of them for as long as it is iterated over"
            )
        return iter(passes)

    return generate


class _Passes:
    """The passes of a dataset: each is an iterator of flat arrays, for all outputs of each batch."""

    def __init__(
        self,
        ds: Batchable,
        loader: BatchLoader[Any],
        outputs: Sequence[_Output],
        batch_size: int | None,
        drop_last: bool,
    ) -> None:
        self._ds = ds
        self.loader = loader
        self._outputs = outputs
        self._batch_size = batch_size
        self._drop_last = drop_last
        self.full = self._batches_of_an_epoch()
        # How many batches tf.data has been told of, if any.
        self.told: int | None = None

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        if len(self.loader) == 0 < self.full:
            # A state from the end of an epoch: tf.data takes an empty pass for an error.
            for _ in self.loader:
                pass
        whole = self._batches_of_an_epoch()
        if whole != self.full or (self.told is not None and len(self.loader) != self.told):
            raise StaleError(
                f"{self._ds.read_cursor.plan.path}: the dataset has been refreshed, or a state has been loaded, since "
                f"the tf.data.Dataset was made: the next pass has {many(len(self.loader), 'batch')}, and tf.data "
                f"has been told of {self.full}: call unirecord.tf.dataset again"
            )
        for batch in self.loader:
            yield tuple(part for output in self._outputs for part in output.parts(batch[output.column.name]))

    def _batches_of_an_epoch(self) -> int:
        samples = len(self._ds.read_cursor.plan.order)
        if self._batch_size is None:
            # They are batches.
            return samples
        return samples // self._batch_size if self._drop_last else -(-samples // self._batch_size)


def _of_at_most(batches: tf.data.Dataset, count: int) -> tf.data.Dataset[Any]:
    """The same batches, with a cardinality that a pass may stay below; ``assert_cardinality`` would fail it.

    Keras takes the batches of its first epoch for those of all where it is told none, and cuts the later ones.
    """
    import tensorflow as tf

    # A choice among datasets of which one is endless counts as endless, though it ends with the one that is chosen.
    always_first = tf.data.Dataset.from_tensors(tf.constant(0, tf.int64)).repeat()
    chosen = tf.data.Dataset.choose_from_datasets(
        [batches, batches.repeat()], always_first, stop_on_empty_dataset=True
    )
    return chosen.take(count)


class _Output:
    """One column: the flat arrays that go through the generator, and the tensors made of them."""

    def __init__(self, column: Column, batch: int | None, steps: int | None) -> None:
        """``steps``: how many of its values a sample of a sequence has."""
        self.column = column
        self._batch = batch
        self._values = (batch,) if steps is None else (batch, steps)
        shape = column.shape or ()
        self._free = column.free_dims
        column.check_known()
        text = column.type in ("string", "text", "bytes") and not column.is_array
        if column.type == "object" or any(size == -1 for size in shape[self._free :]):
            raise SchemaError(
                f"column {column.name!r} ({column.spec!r}) has no tensor form: choose the others with columns=[…], "
                "or decode it in a transform of batches()"
            )
        self._strings = text
        self._bfloat16 = column.type == "bfloat16"

    def specs(self) -> list[Any]:
        """Types and shapes of the flat arrays."""
        import tensorflow as tf

        batch = self._batch
        if self._strings:
            specs = [tf.TensorSpec((batch,), tf.string)]
        elif self._free:
            inner = (self.column.shape or ())[self._free :]
            splits = tf.TensorSpec((None if batch is None else batch + 1,), tf.int64)
            specs = [tf.TensorSpec((None, *inner), self.column.dtype), splits]
            specs += [tf.TensorSpec((None,), tf.int64) for _ in range(self._free - 1)]
        else:
            specs = [tf.TensorSpec((batch, *self.column.item_shape), self.column.dtype)]
        return [*specs, tf.TensorSpec(self._values, tf.bool)] if self.column.nullable else specs

    def parts(self, value: Any) -> list[Any]:
        """The flat arrays of a batch's value."""
        if self._strings:
            items = value.to_list() if isinstance(value, RaggedArray) else value
            cells = [item.encode() if isinstance(item, str) else item or b"" for item in items]
            parts: list[Any] = [np.array(cells, object)]
            if self.column.nullable:
                parts.append(np.array([item is not None for item in items], np.bool_))
            return parts
        if isinstance(value, RaggedArray):
            parts = _ragged_parts(value, self._free)
            return parts if value.valid is None else [*parts, value.valid]
        if isinstance(value, np.ma.MaskedArray):
            return [*filled_and_valid(value)]
        return [as_stored(value)]

    def tensors(self, parts: Iterator[Any]) -> dict[str, Any]:
        """The tensors that the flat arrays make; graph operations alone."""
        import tensorflow as tf

        name = self.column.name
        tensor = next(parts)
        if self._bfloat16:
            tensor = tf.bitcast(tensor, tf.bfloat16)
        if self._free:
            splits = [next(parts) for _ in range(self._free)]
            tensor = tf.RaggedTensor.from_nested_row_splits(tensor, splits, validate=False)
        tensors = {name: tensor}
        if self.column.nullable:
            tensors[f"{name}_valid"] = next(parts)
        return tensors


def _ragged_parts(ragged: RaggedArray, free: int) -> list[Any]:
    """Flat values and, outermost first, the row splits of each free dimension."""
    column = ragged.column
    inner = (column.shape or ())[free:]
    dtype = column.dtype
    if free == 1:
        return [ragged.values, ragged.element_offsets]
    nothing = np.empty((0,) * free + inner, dtype)
    arrays = [nothing if array is None else array for array in ragged]
    values = (
        np.concatenate([array.reshape(-1, *inner) for array in arrays])
        if arrays
        else np.empty((0, *inner), dtype)
    )
    splits = [_splits(np.array([array.shape[0] for array in arrays], np.int64))]
    for axis in range(1, free):
        counts = [np.full(int(np.prod(array.shape[:axis])), array.shape[axis], np.int64) for array in arrays]
        splits.append(_splits(np.concatenate(counts) if counts else np.empty(0, np.int64)))
    return [values, *splits]


def _splits(lengths: Any) -> Any:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
