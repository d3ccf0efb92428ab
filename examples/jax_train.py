"""JAX: a classifier of handwritten digits, saved in the middle of an epoch and gone on with from there.

python examples/jax_train.py [FOLDER]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import digits
import jax
import jax.numpy as jnp

import unirecord.jax
from unirecord import UniRecordDataset

EPOCHS, BATCH, RATE = 10, 20, 0.1


@jax.jit
def step(weights: Any, pixels: Any, labels: Any) -> Any:
    def loss(weights: Any) -> Any:
        scores = jax.nn.log_softmax(pixels @ weights)
        return -jnp.take_along_axis(scores, labels[:, None], axis=1).mean()

    return weights - RATE * jax.grad(loss)(weights)


def loader(path: Path, **options: Any) -> Any:
    """Pictures decoded on threads; each batch is on the device when it is asked for."""
    return unirecord.jax.loader(UniRecordDataset(path, **options), BATCH, transform=digits.decode)


def main() -> None:
    train, test = digits.write(Path(sys.argv[1] if len(sys.argv) > 1 else "out/jax"))
    weights = jnp.zeros((digits.SIDE * digits.SIDE, digits.CLASSES))
    batches = loader(train, shuffle=True, seed=1)
    for number, (pixels, labels) in enumerate(batches):
        weights = step(weights, pixels, labels)
        if number == 4:
            break
    saved = json.dumps(batches.state_dict())  # beside the weights, in a checkpoint of your choice

    batches = loader(train, shuffle=True, seed=1)
    batches.load_state_dict(json.loads(saved))
    for epoch in range(1, EPOCHS + 1):
        for pixels, labels in batches:
            weights = step(weights, pixels, labels)
        right = sum(
            int((jnp.argmax(pixels @ weights, axis=1) == labels).sum()) for pixels, labels in loader(test)
        )
        print(f"epoch {epoch:2}: accuracy {right / len(UniRecordDataset(test)):.1%}", flush=True)


if __name__ == "__main__":
    main()
