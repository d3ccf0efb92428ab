"""Makes JPEGs from real photographs: pieces of seven that Python packages bring along, at a size and a number of bytes.

`photographs.py FOLDER COUNT WIDTH HEIGHT BYTES`: `data.bin` and `offsets.bin`. The photographs: china and flower of
scikit-learn; astronaut, chelsea, coffee, rocket and motorcycle of scikit-image. Each picture is a random piece of one
(at least 60 % of each side), mirrored half of the time, brightened or darkened by up to 20 %, resized by Lanczos;
beyond 1,000 pixels a mosaic of such pieces of 500 x 375. JPEG 4:2:0 of the quality that comes nearest to BYTES.
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import numpy as np

LARGEST_PIECE = 1000
TILE = (500, 375)


def sources() -> list:
    """The photographs, as Pillow's."""
    import skimage.data
    import sklearn.datasets
    from PIL import Image

    arrays = [*sklearn.datasets.load_sample_images().images, skimage.data.astronaut(), skimage.data.chelsea(),
              skimage.data.coffee(), skimage.data.rocket(), skimage.data.stereo_motorcycle()[0]]  # fmt: skip
    return [Image.fromarray(np.asarray(array)[..., :3]) for array in arrays]


def piece(photographs: list, rng: np.random.Generator, width: int, height: int) -> np.ndarray:
    from PIL import Image

    image = photographs[rng.integers(len(photographs))]
    share = rng.uniform(0.6, 1)
    wide = int(share * min(image.width, image.height * width / height))
    high = int(wide * height / width)
    left, top = rng.integers(image.width - wide + 1), rng.integers(image.height - high + 1)
    cut = image.crop((left, top, left + wide, top + high)).resize((width, height), Image.Resampling.LANCZOS)
    pixels = np.asarray(cut).astype(np.float32) * rng.uniform(0.8, 1.2)
    if rng.random() < 0.5:
        pixels = pixels[:, ::-1]
    return np.clip(pixels, 0, 255).astype(np.uint8)


def picture(photographs: list, rng: np.random.Generator, width: int, height: int) -> np.ndarray:
    if width <= LARGEST_PIECE:
        return piece(photographs, rng, width, height)
    rows = [
        [piece(photographs, rng, *TILE) for _ in range(-(-width // TILE[0]))]
        for _ in range(-(-height // TILE[1]))
    ]
    return np.concatenate([np.concatenate(row, 1) for row in rows], 0)[:height, :width]


def encode(pixels: np.ndarray, wanted: int) -> bytes:
    """By bisection of the quality."""
    from PIL import Image

    image, low, high, best = Image.fromarray(pixels), 5, 98, b""
    while low <= high:
        quality = (low + high) // 2
        file = io.BytesIO()
        image.save(file, "JPEG", quality=quality, subsampling=2)
        made = file.getvalue()
        if not best or abs(len(made) - wanted) < abs(len(best) - wanted):
            best = made
        low, high = (quality + 1, high) if len(made) < wanted else (low, quality - 1)
    return best


def main() -> int:
    folder, (count, width, height, wanted) = Path(sys.argv[1]), map(int, sys.argv[2:6])
    done = folder / ".complete"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        photographs, rng, offsets = sources(), np.random.default_rng(7), [0]
        with open(folder / "data.bin", "wb") as file:
            for _ in range(count):
                made = encode(picture(photographs, rng, width, height), wanted)
                file.write(made)
                offsets.append(offsets[-1] + len(made))
        np.array(offsets, np.int64).tofile(folder / "offsets.bin")
        done.touch()
    print(json.dumps({"mean_bytes": (folder / "data.bin").stat().st_size / count}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
