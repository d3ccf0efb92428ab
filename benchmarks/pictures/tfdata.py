"""tf.data: a TFRecord file, `decode_and_crop_jpeg`, resize, flip, AUTOTUNE."""

from __future__ import annotations

from collections.abc import Iterator

from pictures.stored import BATCH, SIDE, Stored


def records(stored: Stored) -> str:
    """The path of the photographs as a TFRecord file."""
    import tensorflow as tf

    path = str(stored.folder / "photographs.tfrecord")
    if not tf.io.gfile.exists(path):
        with tf.io.TFRecordWriter(path) as writer:
            for row in range(len(stored)):
                writer.write(stored[row].tobytes())
    return path


def batches(stored: Stored, threads: int) -> Iterator:
    import tensorflow as tf

    path = records(stored)

    def decode(jpeg):
        shape = tf.io.extract_jpeg_shape(jpeg)
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            shape, tf.zeros([1, 0, 4]), area_range=(0.08, 1.0), aspect_ratio_range=(3 / 4, 4 / 3),
            max_attempts=10, use_image_if_no_bounding_boxes=True,
        )  # fmt: skip
        window = tf.stack([begin[0], begin[1], size[0], size[1]])
        pixels = tf.image.decode_and_crop_jpeg(jpeg, window, channels=3)
        pixels = tf.image.resize(pixels, (SIDE, SIDE), antialias=True)
        return tf.cast(tf.image.random_flip_left_right(pixels), tf.uint8)

    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    data = tf.data.TFRecordDataset(path).shuffle(1000).repeat()
    data = (
        data.map(decode, num_parallel_calls=tf.data.AUTOTUNE).batch(BATCH).prefetch(2).with_options(options)
    )
    yield from data
