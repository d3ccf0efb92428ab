"""TFRecord through tf.data: shuffle buffer, decode_raw, batch, prefetch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow as tf
from protocol import BATCH, Reader
from workloads import Raw

SHUFFLE_BYTES = 64 << 20  # a TFRecord file can only be shuffled through a window of this size


def write(raw: Raw, directory: Path) -> None:
    with tf.io.TFRecordWriter(str(directory / "data.tfrecord")) as writer:
        for row in raw:
            writer.write(row)


class TfRecordReader(Reader):
    def __init__(self, raw: Raw, directory: Path, threads: int, shuffle: bool) -> None:
        data = tf.data.TFRecordDataset(str(directory / "data.tfrecord"))
        if shuffle:
            data = data.shuffle(max(BATCH, SHUFFLE_BYTES // (raw.total_bytes // raw.rows)))
        if raw.row_bytes:
            data = data.map(lambda row: tf.io.decode_raw(row, tf.uint8), num_parallel_calls=threads)
        options = tf.data.Options()
        options.threading.private_threadpool_size = threads
        self.data = data.batch(BATCH).prefetch(2).with_options(options)

    def epoch(self, number: int) -> Iterator[Any]:
        return iter(self.data)

    def size(self, batch: Any) -> int:
        return int(batch.shape[0])

    def first(self, batch: Any) -> bytes:
        first = batch[0].numpy()
        return bytes(first)


def open_reader(raw: Raw, directory: Path, threads: int, shuffle: str = "yes") -> TfRecordReader:
    return TfRecordReader(raw, directory, threads, shuffle == "yes")
