"""Crops out of large arrays: 64² and 256² of one level of float32[13, 721, 1440], in chunks of 1 x 64 x 64, cached.

Places are drawn at random, the same for all entrants. The floor preads the chunks that each crop touches, in C.
"""

from __future__ import annotations

import argparse
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import answer
import numpy as np

SHAPE, CHUNKS = (13, 721, 1440), (1, 64, 64)
SIDES = (64, 256)
ROWS, SMALL_ROWS = 8, 2
SECONDS = 2.0
BATCH = 64
AN_EPOCH = 4_096  # crops: rows come again, and have another place each time
IN_FLIGHT = 64
FLOOR = Path(__file__).parent.parent / "chunks_floor.c"

Place = tuple[int, int, int, int]
Take = Callable[[list[Place], int], object]


def field(number: int) -> np.ndarray[Any, Any]:
    """Waves in steps of 1/64, rounded as weather archives round them."""
    r = np.random.default_rng(number)
    z, y, x = np.ogrid[: SHAPE[0], : SHAPE[1], : SHAPE[2]]
    waves = 280 + 9 * np.sin(y / 97 + number) * np.cos(x / 131 + z) + r.normal(0, 0.3, SHAPE)
    return (np.round(waves * 64) / 64).astype(np.float32)


def places(rows: int, side: int, count: int = 4_096) -> list[Place]:
    """Row, level and corner of each crop."""
    r = np.random.default_rng(side)
    highest = (rows, SHAPE[0], SHAPE[1] - side + 1, SHAPE[2] - side + 1)
    return [tuple(place) for place in r.integers(0, highest, (count, 4)).tolist()]


def rate(take: Take, wanted: list[Place], side: int, at_once: int = 1) -> float:
    """Crops a second, after some that are not timed."""
    take(wanted[:at_once], side)
    begun, done = time.perf_counter(), 0
    while time.perf_counter() - begun < SECONDS:
        first = done % (len(wanted) - at_once)
        take(wanted[first : first + at_once], side)
        done += at_once
    return done / (time.perf_counter() - begun)


def unirecord_data(folder: Path, rows: int, codec: str) -> Path:
    import unirecord

    path = folder / f"crops-{rows}-{codec}.urec"
    column: dict[str, Any] = {"type": "float32", "shape": list(SHAPE), "chunks": list(CHUNKS)}
    if codec != "none":
        column["codec"] = codec
    if not path.exists():
        with unirecord.Writer(path, {"field": column}) as writer:
            for number in range(rows):
                writer.write({"field": field(number)})
    return path


def of_unirecord(folder: Path, rows: int) -> Iterator[tuple[str, int, float]]:
    import unirecord

    for codec in ("none", "shuffle+zstd"):
        path = unirecord_data(folder, rows, codec)
        name = "UniRecord" if codec == "none" else "UniRecord, shuffle+zstd"
        for side in SIDES:
            with unirecord.UniRecordDataset(path) as data:

                def take(wanted: list[Place], side: int, data: Any = data) -> None:
                    for row, z, y, x in wanted:
                        data.read_part(row, "field", np.s_[z, y : y + side, x : x + side])

                yield f"{name}, ds.read_part", side, rate(take, places(rows, side), side)
            for threads in (1, 2):
                with unirecord.UniRecordDataset(path, shuffle=True) as whole:
                    data = whole.select(np.arange(AN_EPOCH) % rows)
                    crops = {"field": unirecord.Crop((1, side, side))}
                    loader = data.batches(BATCH, crops=crops, num_threads=threads)
                    begun, done, epoch = time.perf_counter(), 0, 0
                    while time.perf_counter() - begun < SECONDS:
                        data.set_epoch(epoch := epoch + 1)
                        done += sum(len(batch["field"]) for batch in loader)
                    seconds = time.perf_counter() - begun
                yield f"{name}, batches of {BATCH}, {threads} threads", side, done / seconds


def of_h5py(folder: Path, rows: int) -> Iterator[tuple[str, int, float]]:
    import h5py

    for name, options in (
        ("h5py", {}),
        ("h5py, shuffle+gzip 1", {"shuffle": True, "compression": "gzip", "compression_opts": 1}),
    ):
        path = folder / f"crops-{rows}-{'gzip' if options else 'plain'}.h5"
        if not path.exists():
            with h5py.File(path, "w") as file:
                made = file.create_dataset("field", (rows, *SHAPE), "f4", chunks=(1, *CHUNKS), **options)
                for number in range(rows):
                    made[number] = field(number)
        with h5py.File(path) as file:
            data = file["field"]

            def take(wanted: list[Place], side: int, data: Any = data) -> None:
                for row, z, y, x in wanted:
                    data[row, z, y : y + side, x : x + side]

            for side in SIDES:
                yield name, side, rate(take, places(rows, side), side)


def zarr_folder(folder: Path, rows: int) -> Path:
    import zarr

    path = folder / f"crops-{rows}.zarr"
    if not path.exists():
        made = zarr.create_array(
            str(path), shape=(rows, *SHAPE), chunks=(1, *CHUNKS), dtype="f4", compressors=None
        )
        for number in range(rows):
            made[number] = field(number)
    return path


def of_zarr(folder: Path, rows: int) -> Iterator[tuple[str, int, float]]:
    import zarr

    data: Any = zarr.open_array(str(zarr_folder(folder, rows)), mode="r")

    def take(wanted: list[Place], side: int) -> None:
        for row, z, y, x in wanted:
            data[row, z, y : y + side, x : x + side]

    for side in SIDES:
        yield f"zarr {zarr.__version__}", side, rate(take, places(rows, side), side)


def of_tensorstore(folder: Path, rows: int) -> Iterator[tuple[str, int, float]]:
    import tensorstore

    store = {"driver": "file", "path": str(zarr_folder(folder, rows))}
    data: Any = tensorstore.open({"driver": "zarr3", "kvstore": store}, read=True).result()

    def take(wanted: list[Place], side: int) -> None:
        found = [data[row, z, y : y + side, x : x + side].read() for row, z, y, x in wanted]
        for each in found:
            each.result()

    for side in SIDES:
        yield f"tensorstore, {IN_FLIGHT} in flight", side, rate(take, places(rows, side), side, IN_FLIGHT)


def touched(place: Place, side: int) -> list[tuple[int, int]]:
    """Where the chunks that a crop touches lie in a plain cell after the other, and their bytes."""
    row, z, y, x = place
    starts = [range(0, size, chunk) for size, chunk in zip(SHAPE, CHUNKS, strict=True)]
    found = []
    for cy in range(y // CHUNKS[1], (y + side - 1) // CHUNKS[1] + 1):
        for cx in range(x // CHUNKS[2], (x + side - 1) // CHUNKS[2] + 1):
            high = min(CHUNKS[1], SHAPE[1] - starts[1][cy])
            wide = min(CHUNKS[2], SHAPE[2] - starts[2][cx])
            before = (
                (row * SHAPE[0] + z) * SHAPE[1] * SHAPE[2] + starts[1][cy] * SHAPE[2] + high * starts[2][cx]
            )
            found.append((4 * before, 4 * high * wide))
    return found


def of_floor(folder: Path, rows: int) -> Iterator[tuple[str, int, float]]:
    program = folder / "chunks_floor"
    subprocess.run(["cc", "-std=c11", "-O2", str(FLOOR), "-o", str(program)], check=True)
    path = unirecord_data(folder, rows, "none")
    for side in SIDES:
        crops = [touched(place, side) for place in places(rows, side)]
        listed = folder / "touched.bin"
        np.array([pair for crop in crops for pair in crop], np.uint64).tofile(listed)
        said = subprocess.run(
            [str(program), str(path), str(listed), str(SECONDS)], check=True, capture_output=True, text=True
        ).stdout
        yield "floor: preads of the same chunks, in C", side, float(said) * len(crops)


ENTRANTS = {
    "floor": of_floor, "unirecord": of_unirecord, "h5py": of_h5py, "zarr": of_zarr, "tensorstore": of_tensorstore
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--entrants", nargs="+", choices=ENTRANTS, required=True)
    arguments = parser.parse_args()
    folder = arguments.data / "crops"
    folder.mkdir(parents=True, exist_ok=True)
    measurements = [
        answer.figure(f"crops of {side}²", entrant, value, "crops/s")
        for name in arguments.entrants
        for entrant, side, value in ENTRANTS[name](folder, SMALL_ROWS if arguments.small else ROWS)
    ]
    answer.answer(measurements)


if __name__ == "__main__":
    main()
