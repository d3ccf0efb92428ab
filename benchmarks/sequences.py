"""Sequences of made episodes: samples a second, beside NumPy in memory, a sampler over read_rows, and LeRobot.

python benchmarks/sequences.py [--episodes N] [--seconds S] [--horizons 16 50] [--folder DIR]

A sample is an anchor with the last HORIZON states, the next HORIZON actions and, where asked for, three pictures of the
anchor; batches of 64, shuffled. LeRobot 0.4.4 is measured where it can be imported, with and without worker processes,
on the same episodes, whose pictures it keeps as PNG.
"""

from __future__ import annotations

import argparse
import io
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FRAMES, WIDTH, SIDE, BATCH, FPS = 300, 14, 96, 64, 30
CAMERAS = ("front", "left", "right")

Batches = Iterator[Any]


def picture(episode: int, frame: int, camera: int) -> NDArray[np.uint8]:
    """Smooth, as what a camera sees is."""
    along = np.arange(SIDE, dtype=np.float32)
    waves = np.sin(along / (9 + camera) + frame / 20)[:, None] * np.cos(along / (7 + episode % 5))[None]
    return np.stack([waves * 60 + 128, waves * -60 + 128, waves * 30 + 100], -1).astype(np.uint8)


def rows(episodes: int, pictures: bool) -> Iterator[dict[str, Any]]:
    """The frames of all episodes."""
    rng = np.random.default_rng(0)
    for episode in range(episodes):
        state = rng.random((FRAMES, WIDTH), dtype=np.float32)
        action = rng.random((FRAMES, WIDTH), dtype=np.float32)
        for frame in range(FRAMES):
            row: dict[str, Any] = {
                "episode": episode,
                "frame": frame,
                "state": state[frame],
                "action": action[frame],
            }
            if pictures:
                row |= {name: picture(episode, frame, number) for number, name in enumerate(CAMERAS)}
            yield row


def measured(batches: Callable[[], Batches], seconds: float) -> float:
    """Samples a second, the best of three runs of so many seconds, epoch after epoch, behind one to warm up."""
    best = 0.0
    for turn in range(4):
        samples, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            for batch in batches():
                samples += len(batch["state"])
                del batch
                if time.perf_counter() - began > seconds:
                    break
        if turn:
            best = max(best, samples / (time.perf_counter() - began))
    return best


def offsets(horizon: int) -> dict[str, range]:
    """Of states and actions."""
    return {"state": range(1 - horizon, 1), "action": range(horizon)}


def written(folder: Path, episodes: int, how: str) -> Path:
    """The episodes as a dataset: "numbers", with "pictures" as arrays, or as "png"."""
    from PIL import Image

    import unirecord

    path = folder / how
    schema: dict[str, Any] = {"episode": "int32", "frame": "int32"}
    schema |= dict.fromkeys(("state", "action"), f"float32[{WIDTH}]")
    if how != "numbers":
        schema |= dict.fromkeys(CAMERAS, "bytes" if how == "png" else f"uint8[{SIDE},{SIDE},3]")
    with unirecord.Writer(path, schema) as writer:
        for row in rows(episodes, how != "numbers"):
            for name in CAMERAS if how == "png" else ():
                file = io.BytesIO()
                Image.fromarray(row[name]).save(file, "PNG")
                row[name] = file.getvalue()
            writer.write(row)
    return path


def ours(path: Path, horizon: int, how: str) -> Callable[[], Batches]:
    """Sequences of the dataset."""
    import unirecord

    ds = unirecord.UniRecordDataset(path, shuffle=True, seed=1)
    train = unirecord.sequences(ds, by="episode", order="frame", at=offsets(horizon))
    if how != "png":
        return lambda: iter(train.batches(BATCH))
    decode = unirecord.images.Decode(SIDE)
    pipeline = train.pipeline()
    for name in CAMERAS:
        pipeline = pipeline.map(decode, columns=[name])
    return lambda: iter(pipeline.batch(BATCH))


def by_read_rows(path: Path, horizon: int) -> Callable[[], Batches]:
    """What is written by hand: rows by numbers, and NumPy puts them where they belong."""
    import unirecord

    plain = unirecord.UniRecordDataset(path)
    columns = {name: plain.view(columns=[name]) for name in ("state", "action")}
    rest = [name for name in plain.column_names if name not in columns]
    anchors = plain.view(columns=rest)
    episode = np.asarray(plain.scalars(["episode"])["episode"])

    def batches() -> Batches:
        order = np.random.default_rng(1).permutation(len(plain))
        for start in range(0, len(order) - BATCH + 1, BATCH):
            anchor = order[start : start + BATCH]
            batch = anchors.read_rows(anchor)
            for name, steps in offsets(horizon).items():
                wanted, padded = clipped(anchor, np.array(steps), episode)
                unique, place = np.unique(wanted, return_inverse=True)
                values = columns[name].read_rows(unique)[name]
                batch[name] = values[place.reshape(wanted.shape)]
                batch[f"{name}.is_pad"] = padded
            yield batch

    return batches


def clipped(
    anchor: NDArray[np.int64], steps: NDArray[np.int64], episode: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The rows at these steps, those at the edge where an episode has none, and where that is."""
    first = episode[anchor].astype(np.int64) * FRAMES
    wanted = anchor[:, None] + steps
    found = np.clip(wanted, first[:, None], first[:, None] + FRAMES - 1)
    return found, found != wanted


def by_numpy(episodes: int, horizon: int, pictures: bool) -> Callable[[], Batches]:
    """All rows as arrays in memory: the floor."""
    table = list(rows(episodes, pictures))
    held = {name: np.stack([row[name] for row in table]) for name in table[0]}
    del table

    def batches() -> Batches:
        order = np.random.default_rng(1).permutation(len(held["episode"]))
        for start in range(0, len(order) - BATCH + 1, BATCH):
            anchor = order[start : start + BATCH]
            batch = {name: values[anchor] for name, values in held.items() if name not in ("state", "action")}
            for name, steps in offsets(horizon).items():
                wanted, padded = clipped(anchor, np.array(steps), held["episode"])
                batch[name], batch[f"{name}.is_pad"] = held[name][wanted], padded
            yield batch

    return batches


def lerobot_written(folder: Path, episodes: int, pictures: bool) -> Path:
    """The episodes as LeRobot writes them, with pictures as PNG in Parquet."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    features: dict[str, Any] = {
        name: {"dtype": "float32", "shape": (WIDTH,), "names": None} for name in ("state", "action")
    }
    if pictures:
        size = {"dtype": "image", "shape": (SIDE, SIDE, 3), "names": ["height", "width", "channel"]}
        features |= {name: dict(size) for name in CAMERAS}
    root = folder / f"lerobot-{'pictures' if pictures else 'numbers'}"
    made = LeRobotDataset.create("made/episodes", FPS, features, root=root, use_videos=False)
    for row in rows(episodes, pictures):
        made.add_frame({name: row[name] for name in features} | {"task": "reach"})
        if row["frame"] == FRAMES - 1:
            made.save_episode()
    made.finalize()
    return root


def by_lerobot(root: Path, horizon: int, workers: int) -> Callable[[], Batches]:
    """LeRobot's own dataset in a DataLoader."""
    import torch
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    times = {name: [step / FPS for step in steps] for name, steps in offsets(horizon).items()}
    ds = LeRobotDataset("made/episodes", root=root, delta_timestamps=times)
    return lambda: iter(torch.utils.data.DataLoader(ds, BATCH, shuffle=True, num_workers=workers))


def peer_is_there() -> bool:
    """Whether LeRobot can be imported; says so where it cannot."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        import lerobot.datasets.lerobot_dataset  # noqa: F401
    except ImportError as error:
        print(f"LeRobot is left out: {error}")
        return False
    return True


def main() -> None:
    """Prints a line for each way and horizon."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--horizons", type=int, nargs="+", default=[16, 50])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--only", choices=["ours", "lerobot", "all"], default="all")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as made:
        folder = Path(made)

        def tell(what: str, horizon: int, batches: Callable[[], Batches]) -> None:
            print(
                f"{what:44} horizon {horizon:3}: {measured(batches, args.seconds):10,.0f} samples/s",
                flush=True,
            )

        for how in ("numbers", "pictures", "png") if args.only != "lerobot" else ():
            path = written(folder, args.episodes, how)
            for horizon in args.horizons:
                tell(f"unirecord, {how}", horizon, ours(path, horizon, how))
                if how != "png":
                    tell(f"by hand over read_rows, {how}", horizon, by_read_rows(path, horizon))
                    tell(
                        f"NumPy in memory, {how}", horizon, by_numpy(args.episodes, horizon, how != "numbers")
                    )
        if args.only == "ours" or not peer_is_there():
            return
        for pictures in (False, True):
            root = lerobot_written(folder, args.episodes, pictures)
            for horizon in args.horizons:
                for workers in (0, 2):
                    what = f"LeRobot, {'png' if pictures else 'numbers'}, {workers} workers"
                    tell(what, horizon, by_lerobot(root, horizon, workers))


if __name__ == "__main__":
    main()
