"""TensorFlow: a classifier of handwritten digits trained with model.fit, pictures decoded by tf.data.

python examples/tensorflow_fit.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

import digits
import tensorflow as tf

import unirecord
from unirecord import UniRecordDataset

EPOCHS, BATCH = 10, 20


def prepare(sample: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
    """Pixels in [0, 1] and the label; runs as many times at once as tf.data finds good."""
    picture = tf.io.decode_png(sample["image"], channels=1)
    return tf.reshape(tf.cast(picture, tf.float32), [digits.SIDE * digits.SIDE]) / 255.0, sample["label"]


def pipeline(ds: UniRecordDataset) -> tf.data.Dataset:
    data = unirecord.tf.dataset(ds, 256).unbatch().map(prepare, num_parallel_calls=tf.data.AUTOTUNE)
    return data.batch(BATCH).prefetch(tf.data.AUTOTUNE)


def main() -> None:
    train, test = digits.write(Path(sys.argv[1] if len(sys.argv) > 1 else "out/tensorflow"))
    tf.keras.utils.set_random_seed(1)
    model = tf.keras.Sequential(
        [tf.keras.Input((digits.SIDE * digits.SIDE,)), tf.keras.layers.Dense(digits.CLASSES)]
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.SGD(0.1), loss, metrics=["accuracy"])
    # Every epoch of fit is an epoch of the dataset, with an order of its own.
    data = pipeline(UniRecordDataset(train, shuffle=True, seed=1))
    validation = pipeline(UniRecordDataset(test))
    history = model.fit(data, epochs=EPOCHS, validation_data=validation, shuffle=False, verbose=0)
    for epoch, value in enumerate(history.history["val_accuracy"], 1):
        print(f"epoch {epoch:2}: accuracy {value:.1%}", flush=True)


if __name__ == "__main__":
    main()
