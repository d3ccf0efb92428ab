"""LeRobot's datasets, of both layouts: values, tasks, pictures, videos, and folders that lie."""

from __future__ import annotations

import io
import json
import re
import shutil
import tarfile
import tracemalloc
from pathlib import Path
from typing import Any

import lerobot_samples
import numpy as np
import pytest
from lerobot_samples import CAMERA, FPS, LENGTHS, TASKS, dataset
from PIL import Image

import unirecord
from unirecord import SchemaError, UniRecordDataset, cli
from unirecord.convert.sources import Options, child_reader
from unirecord.convert.sources.input_path import open_input
from unirecord.convert.sources.kinds import source_type
from unirecord.convert.sources.lerobot import LeRobotFolder
from unirecord.errors import UniRecordError

REAL = Path(__file__).parents[1] / "data" / "lerobot"
VERSIONS = ("v2.0", "v2.1", "v3.0")
ROWS = sum(LENGTHS)


def written(source: Path, target: Path, **options: Any) -> UniRecordDataset:
    unirecord.write_dataset(source, target, workers=1, **options)
    return UniRecordDataset(target)


def changed_info(folder: Path, **said: Any) -> None:
    path = folder / "meta" / "info.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **said}))


@pytest.mark.parametrize("version", VERSIONS)
def test_frames_with_their_tasks_and_pictures(tmp_path: Path, version: str) -> None:
    folder = dataset(tmp_path / "robot", version)
    assert source_type(open_input(str(folder))).kind == "lerobot"
    ds = written(folder, tmp_path / "out")
    assert len(ds) == ROWS
    assert ds.schema["action"].spec == {"type": "float32", "shape": [3]}
    assert ds.schema["next.reward"].spec == "float32"
    assert ds.schema["observation.images.wrist"].media_type in ("image/*", "image/png")
    row = 0
    for episode, length in enumerate(LENGTHS):
        for frame in range(length):
            sample = ds[row]
            assert (sample["episode_index"], sample["frame_index"], sample["index"]) == (episode, frame, row)
            assert sample["task"] == TASKS[episode % 2]
            assert sample["timestamp"] == np.float32(frame / FPS)
            assert sample["observation.state"].tolist() == [row, row + 0.25, row + 0.5]
            picture = Image.open(io.BytesIO(sample["observation.images.wrist"]))
            assert picture.getpixel((0, 0)) == (row, episode, 0)
            row += 1
    said = ds.metadata["lerobot"]
    assert (said["fps"], said["robot_type"], said["tasks"]) == (FPS, "so100", list(TASKS))
    assert said["features"]["action"] == {"dtype": "float32", "shape": [3]}


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_what_lerobot_itself_wrote_reads_as_by_lerobot(tmp_path: Path, version: str) -> None:
    """tests/data/lerobot: by LeRobot 0.3.3 (v2.1) and 0.4.4 (v3.0), and what both gave for each index.

    Pictures are there as the means of their channels, the columns of ``delta_timestamps`` as steps.
    """
    with tarfile.open(REAL / f"{version}.tar.gz") as archive:
        archive.extractall(tmp_path / "real", filter="data")
    said = json.loads((REAL / "expected.json").read_text())
    ds = written(tmp_path / "real", tmp_path / "out")

    def plain(name: str, value: Any) -> Any:
        if "images" not in name or name.endswith("is_pad"):
            return value
        if isinstance(value, list):
            return [channel for one in value for channel in plain(name, one)]
        return np.asarray(Image.open(io.BytesIO(value)), np.float64).mean((0, 1))

    def same(samples: Any, wanted: list[dict[str, Any]]) -> None:
        for sample, row in zip(samples, wanted, strict=True):
            for name, value in row.items():
                found = plain(name, sample[name.replace("_is_pad", ".is_pad")])
                if isinstance(value, str):
                    assert found == value
                else:
                    tolerance = 2.0 if name.endswith("top") else 1e-6
                    assert np.allclose(
                        np.asarray(found, float), np.asarray(value, float), rtol=0, atol=tolerance
                    )

    same(ds, said["rows"])
    assert set(said["rows"][0]) == set(ds[0])
    frames = {name: [round(10 * one) for one in at] for name, at in said["delta"].items()}
    by_rows = unirecord.sequences(ds, by="episode_index", order="frame_index", at=frames)
    by_time = unirecord.sequences(ds, by="episode_index", order="timestamp", at=said["delta"], tolerance=1e-4)
    same(by_rows, said["steps"])
    same(by_time, said["steps"])
    for name, statistics in said["stats"].items():
        for which, value in statistics.items():
            assert np.allclose(ds.metadata["lerobot"]["stats"][name][which], value)


def test_statistics_of_episodes_are_put_together(tmp_path: Path) -> None:
    ds = written(dataset(tmp_path / "robot", "v2.1"), tmp_path / "out")
    actions = ds.to_arrow(["action"])["action"].to_pylist()
    said = ds.metadata["lerobot"]["stats"]["action"]
    for name, wanted in (("mean", np.mean), ("std", np.std), ("min", np.min), ("max", np.max)):
        assert np.allclose(said[name], wanted(np.array(actions), axis=0))
    assert said["count"] == [ROWS]


def test_statistics_of_no_values_count_for_nothing(tmp_path: Path) -> None:
    folder = dataset(tmp_path / "robot", "v2.1")
    lines = (folder / "meta" / "episodes_stats.jsonl").read_text()
    none = {"action": {name: [0.0] * 3 for name in ("min", "max", "mean", "std")} | {"count": [0]}}
    more = json.dumps({"episode_index": 9, "stats": none}) + "\n"
    (folder / "meta" / "episodes_stats.jsonl").write_text(more + lines + more)
    said = written(folder, tmp_path / "out").metadata["lerobot"]["stats"]["action"]
    assert said["count"] == [ROWS]
    assert said["min"][0] == 1.0


def greys(cells: list[bytes]) -> list[int]:
    return [round(float(np.asarray(Image.open(io.BytesIO(one))).mean()) / 8) for one in cells]


@pytest.mark.parametrize("version", VERSIONS)
def test_videos_become_pictures_of_their_frames(tmp_path: Path, version: str) -> None:
    folder = dataset(tmp_path / "robot", version, image=False, camera=True)
    ds = written(folder, tmp_path / "out")
    assert ds.schema[CAMERA].media_type == "image/jpeg"
    assert greys([sample[CAMERA] for sample in ds]) == list(range(ROWS))
    none = written(folder, tmp_path / "none", video="none")
    assert CAMERA not in none.schema
    assert len(none) == ROWS
    alone = written(folder, tmp_path / "alone", columns=[CAMERA])
    assert alone.schema.names == (CAMERA,) or list(alone.schema.names) == [CAMERA]
    assert greys([sample[CAMERA] for sample in alone]) == list(range(ROWS))


def test_episodes_in_another_order_than_in_their_video(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    folder = dataset(tmp_path / "robot", "v3.0", image=False, camera=True)
    path = folder / "data" / "chunk-000" / "file-000.parquet"
    first, second = LENGTHS[:2]
    order = [*range(first, first + second), *range(first), *range(first + second, ROWS)]
    pq.write_table(pq.read_table(path).take(order), path)
    ds = written(folder, tmp_path / "out")
    assert [sample["index"] for sample in ds] == order
    assert greys([sample[CAMERA] for sample in ds]) == order


@pytest.mark.parametrize("version", VERSIONS)
def test_videos_are_kept_with_the_times_of_their_frames(tmp_path: Path, version: str) -> None:
    import av

    folder = dataset(tmp_path / "robot", version, image=False, camera=True)
    ds = written(folder, tmp_path / "out", video="keep")
    samples = list(ds)
    first = [0, LENGTHS[0] + LENGTHS[1]] if version == "v3.0" else [0, LENGTHS[0], LENGTHS[0] + LENGTHS[1]]
    assert [row for row, sample in enumerate(samples) if sample[CAMERA] is not None] == first
    for row, sample in enumerate(samples):
        holder = max(one for one in first if one <= row)
        with av.open(io.BytesIO(samples[holder][CAMERA])) as video:
            frame = next(f for f in video.decode(video=0) if f.time >= sample[f"{CAMERA}.time"] - 0.5 / FPS)
            assert round(float(frame.to_ndarray(format="rgb24").mean()) / 8) == row


def test_a_kept_video_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = dataset(tmp_path / "robot", "v3.0", image=False, camera=True)
    ds = written(folder, tmp_path / "robots", video="keep")
    page = (Path(__file__).parents[2] / "docs" / "by-data" / "robots.md").read_text()
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(re.search(r"^import io\n.*?^```", page, re.S | re.M)[0].removesuffix("```"), names)
    frame_of = names["kept_frames"]("robots", CAMERA)
    for row in (20, 3, 8, 14):
        sample = ds[row]
        assert sample[f"{CAMERA}.file"] == f"videos/{CAMERA}/chunk-000/file-{int(row >= 12):03d}.mp4"
        assert round(float(frame_of(sample).mean()) / 8) == row
    times = written(folder, tmp_path / "times", video="keep", columns=[f"{CAMERA}.time"])
    assert times.schema.names == (f"{CAMERA}.time",)
    assert times[14][f"{CAMERA}.time"] == pytest.approx(0.2)


def test_a_kept_video_is_in_memory_once_as_it_is_written(tmp_path: Path) -> None:
    """What a video takes beyond the piece of memory that the child sends it in, and that it lies in alone."""
    folder, size = dataset(tmp_path / "robot", "v3.0", image=False, camera=True), 24 << 20
    unirecord.write_dataset(folder, tmp_path / "out", workers=1, video="keep")  # all is imported
    (folder / FILE).write_bytes(np.random.default_rng(0).bytes(size))
    source = LeRobotFolder(open_input(str(folder)), Options(video="keep"))

    def peak(call: Any) -> int:
        tracemalloc.start()
        try:
            call()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    def in_the_child() -> None:
        for batch in source.read(source.units[0]):
            child_reader._packed(batch)

    assert peak(in_the_child) < size / 8
    # the first rows are read back, and compared
    assert peak(lambda: written(folder, tmp_path / "big", video="keep")) < 1.125 * size
    with open(folder / FILE, "rb") as file:
        assert UniRecordDataset(tmp_path / "big")[0][CAMERA] == file.read()


def test_an_empty_file_is_no_video_to_keep(tmp_path: Path) -> None:
    folder = dataset(tmp_path / "robot", "v3.0", image=False, camera=True)
    (folder / FILE).write_bytes(b"")
    with pytest.raises(SchemaError, match=r"file-000.mp4 is empty, and no video"):
        unirecord.write_dataset(folder, tmp_path / "out", workers=1, video="keep")


def test_splits_become_a_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = dataset(tmp_path / "robot", "v3.0")
    assert "split" not in written(folder, tmp_path / "whole").schema
    changed_info(folder, splits={"val": "1:2", "train": "0:1", "none": "2:2"})
    assert cli.main(["write", str(folder), str(tmp_path / "out")]) == 0
    assert "column split, of train, val (--split-by split" in capsys.readouterr().out
    wanted = ["train"] * 7 + ["val"] * 5 + [None] * 9
    assert UniRecordDataset(tmp_path / "out").to_arrow(["split"])["split"].to_pylist() == wanted
    alone = written(folder, tmp_path / "alone", columns=["split"])
    assert alone.to_arrow()["split"].to_pylist() == wanted
    val = written(folder, tmp_path / "val", where="split == 'val'")
    assert val.to_arrow(["index"])["index"].to_pylist() == list(range(7, 12))
    assert cli.main(["write", str(folder), str(tmp_path / "apart"), "--split-by", "split", "--where",
                     "split is not null"]) == 0  # fmt: skip
    assert len(UniRecordDataset(tmp_path / "apart" / "train")) == 7


@pytest.mark.parametrize(
    ("splits", "said"),
    [
        ({"train": "0:2", "val": "1:3"}, "episode 1 is of 'train' and of 'val'"),
        ({"train": "0:80%"}, "'train' is '0:80%', and no range of episodes"),
        ({"train": 5}, "'train' is 5, and no range"),
        ({"train": f"0:{10**19}"}, "'train' is '0:10000000000000000000', and no range"),
        (["train"], "they are ['train']"),
    ],
)
def test_splits_that_are_none_are_no_column(
    tmp_path: Path, splits: Any, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = dataset(tmp_path / "robot", "v2.1")
    changed_info(folder, splits=splits)
    assert cli.main(["write", str(folder), str(tmp_path / "out")]) == 0
    out = capsys.readouterr()
    assert f"the splits in meta/info.json: no column split: {said}" in out.out + out.err
    ds = UniRecordDataset(tmp_path / "out")
    assert "split" not in ds.schema
    assert ds.metadata["lerobot"]["splits"] == splits


def test_workers_and_a_run_that_is_stopped_give_the_same(tmp_path: Path) -> None:
    folder = dataset(tmp_path / "robot", "v3.0", camera=True)
    one = written(folder, tmp_path / "one")
    unirecord.write_dataset(folder, tmp_path / "two", workers=2)
    for a, b in zip(one, UniRecordDataset(tmp_path / "two"), strict=True):
        assert all(np.array_equal(a[name], b[name]) for name in a)


def test_the_command_says_what_it_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = dataset(tmp_path / "robot", "v3.0", image=False, camera=True)
    assert cli.main(["write", str(folder), str(tmp_path / "out"), "--video", "none"]) == 0
    out = capsys.readouterr()
    assert "(lerobot, 21 rows)" in out.out
    assert CAMERA in out.out + out.err
    assert cli.main(["write", str(folder), str(tmp_path / "x"), "--video", "some"]) == 2
    assert "--video is one of decode, keep, none" in capsys.readouterr().err


# ---- folders that lie ---------------------------------------------------------------------------------------


def info(**said: Any) -> Any:
    return lambda folder: changed_info(folder, **said)


def feature(name: str, one: Any) -> Any:
    def change(folder: Path) -> None:
        there = json.loads((folder / "meta" / "info.json").read_text())["features"]
        changed_info(folder, features={**there, name: one})

    return change


def cut(path: str, keep: int) -> Any:
    return lambda folder: (folder / path).write_bytes((folder / path).read_bytes()[:keep])


def tables(path: str, change: Any) -> Any:
    def changed(folder: Path) -> None:
        import pyarrow.parquet as pq

        table = pq.ParquetFile(folder / path).read()
        pq.write_table(change(table), folder / path)

    return changed


def pointer(path: str) -> Any:
    return lambda folder: (folder / path).write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:00\n"
    )


def replaced(name: str, value: Any) -> Any:
    import pyarrow as pa

    return lambda table: table.set_column(
        table.column_names.index(name), name, pa.array([value] * len(table), table[name].type)
    )


DATA = "data/chunk-000/file-000.parquet"
EPISODES = "meta/episodes/chunk-000/file-000.parquet"
FILE = f"videos/{CAMERA}/chunk-000/file-000.mp4"


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        (info(codebase_version="v9.0"), "says version 'v9.0' of LeRobot; v2.0, v2.1 and v3.0"),
        (info(codebase_version=None), "says version None"),
        (info(features={}), "says no features"),
        (info(features={"a": 5}), "the feature 'a' has no dtype and shape"),
        (feature("action", {"dtype": "float32", "shape": [-1]}), "has the shape"),
        (feature("action", {"dtype": "float32", "shape": [4]}), "action"),
        (feature("more", {"dtype": "float32", "shape": [1]}), "have no column 'more', which meta/info.json says"),
        (feature("task", {"dtype": "video", "shape": [1]}), "task"),
        (info(fps=0), "frames a second"),
        (info(fps="ten"), "frames a second"),
        (info(total_frames=99), "has 21 frames, and .*info.json says 99: files are missing"),
        (info(chunks_size=0), "episodes a chunk"),
        (info(video_path="{__class__}/{video_key}.mp4"), "no path below|none of"),
        (info(video_path="{video_key.__class__}"), "no path below"),
        (info(video_path="../../../etc/{file_index}"), "no path below the dataset's folder"),
        (info(video_path="/etc/{file_index}"), "no path below"),
        (info(video_path="{episode_index:03d}.mp4"), "has the field 'episode_index', which is none of video_key, "),
        (info(video_path=5), "video_path is a text"),
        (info(video_path="none-{file_index}.mp4"), "none-0.mp4 does not exist"),
        (cut("meta/info.json", 60), "not valid JSON"),
        (cut(DATA, 900), "has no footer.*was never finalised"),
        (pointer(DATA), "000.parquet is a pointer of Git LFS.*git lfs pull"),
        (pointer(FILE), "000.mp4 is a pointer of Git LFS"),
        (lambda folder: shutil.rmtree(folder / "meta" / "episodes"), "meta/episodes does not exist.*never finalised"),
        (cut("meta/tasks.parquet", 100), "has no footer"),
        (cut(FILE, 1000), "file-000.mp4"),
        (lambda folder: shutil.rmtree(folder / "data"), "data does not exist"),
        (lambda folder: (folder / FILE).unlink(), "file-000.mp4 does not exist, in which frames"),
        (lambda folder: lerobot_samples.video(folder / FILE, [1] * 9), r"has no frame at 0.900 s, of episode 1"),
        (tables("meta/tasks.parquet", lambda t: t.slice(1)), "a frame of task 0, which meta/ does not have"),
        (tables("meta/tasks.parquet", lambda t: t.drop(["task_index"])), "no columns task_index and task"),
        (tables(EPISODES, lambda t: t.slice(1)), "says nothing of episode 0"),
        (tables(EPISODES, replaced(f"videos/{CAMERA}/from_timestamp", -1.0)), "begins at -1.0 s of its video"),
        (tables(EPISODES, replaced(f"videos/{CAMERA}/from_timestamp", float("nan"))), "begins at nan s"),
        (tables(EPISODES, replaced(f"videos/{CAMERA}/file_index", None)), "no column .*file_index', or nulls"),
        (tables(DATA, replaced("timestamp", float("nan"))), "timestamp is not a finite number"),
        (tables(DATA, replaced("timestamp", 1e30)), "has no frame at"),
        (tables(DATA, replaced("episode_index", -1)), "episode_index is -1"),
        (tables(DATA, replaced("task_index", None)), "task_index is not a whole number in every row"),
        (lambda folder: (folder / "meta" / "stats.json").write_text("[1"), "stats.json is not valid JSON"),
    ],
)  # fmt: skip
def test_what_lies_is_refused_by_name(tmp_path: Path, lie: Any, said: str) -> None:
    folder = dataset(tmp_path / "robot", "v3.0", camera=True)
    lie(folder)
    with pytest.raises((UniRecordError, ValueError), match=f"(?s){said}"):
        unirecord.write_dataset(folder, tmp_path / "out", workers=1)
    assert not (tmp_path / "out").exists()


def test_frames_that_a_video_lacks_are_left_out_where_that_is_asked_for(tmp_path: Path) -> None:
    folder = dataset(tmp_path / "robot", "v3.0", image=False, camera=True)
    lerobot_samples.video(folder / FILE, list(range(9)))
    ds = written(folder, tmp_path / "out", on_error="skip")
    assert ds.to_arrow(["index"])["index"].to_pylist() == [*range(9), *range(12, ROWS)]


def test_statistics_that_are_none_are_refused(tmp_path: Path) -> None:
    folder = dataset(tmp_path / "robot", "v2.1")
    (folder / "meta" / "episodes_stats.jsonl").write_text(
        '{"episode_index": 3, "stats": {"action": {"min": [1]}}}\n'
    )
    with pytest.raises(SchemaError, match="the statistics of 'action' in episode 3 are none"):
        unirecord.write_dataset(folder, tmp_path / "out", workers=1)
