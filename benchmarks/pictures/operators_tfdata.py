"""tf.data with the five operators, each a `map` by `numpy_function`, AUTOTUNE."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pictures.operators import RESULT as RESULT
from pictures.operators import STAGES, alone, normalise
from pictures.stored import BATCH, Stored
from pictures.tfdata import records


def batches(stored: Stored, threads: int) -> Iterator:
    import tensorflow as tf

    alone()
    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    data = tf.data.TFRecordDataset(records(stored)).shuffle(1000).repeat()
    for number, stage in enumerate(STAGES):
        kind = tf.float32 if number >= STAGES.index(normalise) else tf.uint8
        data = data.map(
            lambda value, stage=stage, kind=kind: tf.numpy_function(stage, [value], kind),
            num_parallel_calls=tf.data.AUTOTUNE,
        )
    data = data.map(lambda value: tf.ensure_shape(value, RESULT[0])).batch(BATCH).prefetch(2)
    for batch in data.with_options(options):
        yield np.asarray(batch)
