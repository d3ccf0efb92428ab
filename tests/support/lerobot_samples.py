"""Datasets as LeRobot writes them, of versions 2.0 and 2.1 (a file an episode) and 3.0 (many in one), small."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np

FPS = 10
LENGTHS = (7, 5, 9)
TASKS = ("pick the cube", "place it")
CAMERA = "observation.images.top"


def rows_of(episode: int, first: int, *, image: bool) -> dict[str, Any]:
    """The frames of an episode; ``first``: how many there are before."""
    import pyarrow as pa
    from PIL import Image

    length = LENGTHS[episode]
    frames = np.arange(length)
    state = (first + frames)[:, None] + np.arange(3) / 4

    def picture(number: int) -> dict[str, Any]:
        out = io.BytesIO()
        Image.new("RGB", (8, 6), (int(number), episode, 0)).save(out, "PNG")
        return {"bytes": out.getvalue(), "path": f"{number}.png"}

    return {
        "observation.state": pa.array(state.astype(np.float32).tolist(), pa.list_(pa.float32(), 3)),
        "action": pa.array((state + 1).astype(np.float32).tolist(), pa.list_(pa.float32(), 3)),
        "next.reward": pa.array(frames / 10, pa.float32()),
        **({"observation.images.wrist": [picture(n) for n in first + frames]} if image else {}),
        "timestamp": pa.array(frames / FPS, pa.float32()),
        "frame_index": pa.array(frames, pa.int64()),
        "episode_index": pa.array([episode] * length, pa.int64()),
        "index": pa.array(first + frames, pa.int64()),
        "task_index": pa.array([episode % 2] * length, pa.int64()),
    }


def video(path: Path, numbers: list[int], fps: int = FPS) -> None:
    """A video whose frame i is of the grey ``8 * numbers[i]``."""
    import av

    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=fps)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for number in numbers:
            grey = np.full((48, 64, 3), 8 * number, np.uint8)
            for packet in stream.encode(av.VideoFrame.from_ndarray(grey, format="rgb24")):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)


def features(*, image: bool, camera: bool) -> dict[str, Any]:
    """What meta/info.json says of the columns."""
    three = {"dtype": "float32", "shape": [3], "names": ["x", "y", "z"]}
    found: dict[str, Any] = {"observation.state": three, "action": three}
    found["next.reward"] = {"dtype": "float32", "shape": [1], "names": None}
    if image:
        found["observation.images.wrist"] = {"dtype": "image", "shape": [6, 8, 3], "names": ["h", "w", "c"]}
    if camera:
        found[CAMERA] = {
            "dtype": "video",
            "shape": [48, 64, 3],
            "names": ["h", "w", "c"],
            "info": {"video.fps": FPS},
        }
    found["timestamp"] = {"dtype": "float32", "shape": [1], "names": None}
    for name in ("frame_index", "episode_index", "index", "task_index"):
        found[name] = {"dtype": "int64", "shape": [1], "names": None}
    return found


def dataset(folder: Path, version: str, *, image: bool = True, camera: bool = False) -> Path:
    """Write a dataset of three episodes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (folder / "meta").mkdir(parents=True)
    new = version == "v3.0"
    info = {
        "codebase_version": version, "robot_type": "so100", "total_episodes": len(LENGTHS),
        "total_frames": sum(LENGTHS), "total_tasks": len(TASKS), "chunks_size": 1000, "fps": FPS,
        "splits": {"train": f"0:{len(LENGTHS)}"}, "features": features(image=image, camera=camera),
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet" if new
        else "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "video_path": None if not camera else "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
        if new else "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
    }  # fmt: skip
    (folder / "meta" / "info.json").write_text(json.dumps(info))
    starts = np.concatenate([[0], np.cumsum(LENGTHS)]).tolist()
    tables = [pa.table(rows_of(i, starts[i], image=image)) for i in range(len(LENGTHS))]
    data = folder / "data" / "chunk-000"
    data.mkdir(parents=True)
    if new:
        with pq.ParquetWriter(data / "file-000.parquet", tables[0].schema) as writer:
            for table in tables:
                writer.write_table(table)
        tasks = pa.table({"task_index": [0, 1], "__index_level_0__": list(TASKS)})
        pq.write_table(tasks, folder / "meta" / "tasks.parquet")
        said: dict[str, Any] = {"episode_index": [0, 1, 2], "length": list(LENGTHS)}
        if camera:  # the first two episodes in one file, the third in another one
            said |= {
                f"videos/{CAMERA}/chunk_index": [0, 0, 0], f"videos/{CAMERA}/file_index": [0, 0, 1],
                f"videos/{CAMERA}/from_timestamp": [0.0, LENGTHS[0] / FPS, 0.0],
            }  # fmt: skip
            for number, numbers in enumerate((range(starts[2]), range(starts[2], starts[3]))):
                video(folder / f"videos/{CAMERA}/chunk-000/file-{number:03d}.mp4", list(numbers))
        (folder / "meta" / "episodes" / "chunk-000").mkdir(parents=True)
        pq.write_table(pa.table(said), folder / "meta" / "episodes" / "chunk-000" / "file-000.parquet")
        (folder / "meta" / "stats.json").write_text(json.dumps({"action": {"mean": [1.0, 2.0, 3.0]}}))
        return folder
    for i, table in enumerate(tables):
        pq.write_table(table, data / f"episode_{i:06d}.parquet")
        if camera:
            video(
                folder / f"videos/chunk-000/{CAMERA}/episode_{i:06d}.mp4",
                list(range(starts[i], starts[i + 1])),
            )
    lines = [{"task_index": i, "task": task} for i, task in enumerate(TASKS)]
    (folder / "meta" / "tasks.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if version == "v2.0":
        (folder / "meta" / "stats.json").write_text(json.dumps({"action": {"mean": [1.0, 2.0, 3.0]}}))
        return folder
    episodes = []
    for i, table in enumerate(tables):
        action = np.array(table["action"].to_pylist())
        stats = {
            "min": action.min(0), "max": action.max(0), "mean": action.mean(0), "std": action.std(0),
            "count": np.array([len(action)]),
        }  # fmt: skip
        said = {"action": {name: value.tolist() for name, value in stats.items()}}
        episodes.append({"episode_index": i, "stats": said})
    (folder / "meta" / "episodes_stats.jsonl").write_text("".join(json.dumps(one) + "\n" for one in episodes))
    return folder
