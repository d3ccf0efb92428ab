"""UniRecordDataset as a map-style dataset: every form of path, samples, shards, pickling, processes, refusals."""

from __future__ import annotations

import multiprocessing
import pickle
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
from hang import HANG_SECONDS

import unirecord
from unirecord import UniRecordDataset, Writer

SCHEMA = {
    "image": "bytes",
    "label": "int32",
    "name": "string",
    "score": "float32?",
    "pixels": {"type": "uint8", "shape": [4, 3]},
    "boxes": {"type": "float32", "shape": [-1, 4]},
    "caption": "text",
    "meta": "object",
}


def record(i: int) -> dict[str, object]:
    return {
        "image": bytes([i % 251]) * (i % 7),
        "label": i,
        "name": f"name {i} \0é",
        "score": None if i % 3 == 0 else i / 4,
        "pixels": np.full((4, 3), i % 256, np.uint8),
        "boxes": np.arange(4 * (i % 3), dtype=np.float32).reshape(-1, 4) + i,
        "caption": "ü" * (i % 5),
        "meta": {"i": i, "list": [1, "two", None]},
    }


def same(value: object, expected: object) -> bool:
    if isinstance(expected, np.ndarray):
        return (
            isinstance(value, np.ndarray)
            and value.dtype == expected.dtype
            and np.array_equal(value, expected)
        )
    return type(value) is type(expected) and value == expected


def check_sample(sample: dict[str, object], i: int) -> None:
    expected = record(i)
    expected["label"] = np.int32(i)
    if expected["score"] is not None:
        expected["score"] = np.float32(i / 4)
    assert list(sample) == list(SCHEMA)
    for name, value in expected.items():
        assert same(sample[name], value), (i, name, sample[name], value)


def write(path: Path, rows: range, **options: object) -> Path:
    with Writer(path, SCHEMA, **options) as writer:  # type: ignore[arg-type]
        for i in rows:
            writer.write(record(i))
    return path


@pytest.fixture(scope="module")
def part(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(
        tmp_path_factory.mktemp("part") / "train.urec", range(50), index=["label"], metadata={"made": "here"}
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write(tmp_path_factory.mktemp("folder") / "train", range(20))
    for start in (20, 35):
        with unirecord.append(path) as writer:
            for i in range(start, min(start + 15, 50)):
                writer.write(record(i))
    return path


@pytest.mark.parametrize("io", ["auto", "mmap", "pread", "memory"])
def test_samples_are_what_was_written(part: Path, folder: Path, io: str) -> None:
    for path in (part, folder):
        with UniRecordDataset(path, io=io) as ds:
            assert len(ds) == ds.num_rows == 50
            for i, sample in enumerate(ds):
                check_sample(sample, i)
            for i in (0, 7, 49, -1, -50):
                check_sample(ds[i], i % 50)


def test_every_form_of_path(part: Path, folder: Path, tmp_path: Path) -> None:
    for i, rows in enumerate((range(5), range(5, 9))):
        write(tmp_path / f"p{i}.urec", rows)
    parts = sorted(tmp_path.glob("*.urec"))
    assert [s["label"] for s in UniRecordDataset(parts)] == list(range(9))
    assert [s["label"] for s in UniRecordDataset(parts[::-1])] == [5, 6, 7, 8, 0, 1, 2, 3, 4]
    assert len(UniRecordDataset(str(tmp_path / "p*.urec"))) == 9
    assert len(UniRecordDataset([folder, parts[0]])) == 55
    assert len(UniRecordDataset(str(part))) == 50
    assert UniRecordDataset(part).metadata == {"made": "here"}


def test_slices_and_lists_of_indices(part: Path) -> None:
    ds = UniRecordDataset(part)
    assert [s["label"] for s in ds[10:20:3]] == [10, 13, 16, 19]
    assert [s["label"] for s in ds[-3:]] == [47, 48, 49]
    assert ds[50:] == []
    for i, sample in zip([3, 3, -1, 0], ds.__getitems__([3, 3, -1, 0]), strict=True):
        check_sample(sample, i % 50)
    assert ds.__getitems__([]) == []
    for wrong in (50, -51):
        with pytest.raises(IndexError, match="50"):
            ds[wrong]
        with pytest.raises(IndexError, match="50"):
            ds.__getitems__([0, wrong])


def test_columns_are_chosen_in_the_order_given(folder: Path) -> None:
    ds = UniRecordDataset(folder, columns=["boxes", "label"])
    assert list(ds[3]) == ["boxes", "label"]
    assert ds.column_names == ("boxes", "label")
    with pytest.raises(unirecord.SchemaError, match="label"):
        UniRecordDataset(folder, columns=["labell"])
    for wrong in ([], ["label", "label"], "label"):
        with pytest.raises(ValueError, match="columns"):
            UniRecordDataset(folder, columns=wrong)


def test_arrays_of_samples_are_writable_and_their_own(part: Path) -> None:
    ds = UniRecordDataset(part)
    sample = ds[5]
    sample["pixels"][:] = 0
    sample["boxes"][:] = 0
    check_sample(ds[5], 5)
    many = ds.__getitems__([5, 5])
    many[0]["pixels"][:] = 0
    check_sample(many[1], 5)


def test_strided_shards_wrap_around(tmp_path: Path) -> None:
    path = tmp_path / "ten.urec"
    with Writer(path, {"x": "int64"}) as writer:
        writer.write_batch({"x": np.arange(10)})
    shards = [[int(s["x"]) for s in UniRecordDataset(path, r, 4)] for r in range(4)]
    assert shards == [[0, 4, 8], [1, 5, 9], [2, 6, 0], [3, 7, 1]]
    assert [[int(UniRecordDataset(path, r, 4)[i]["x"]) for i in range(3)] for r in range(4)] == shards
    assert [UniRecordDataset(path, r, 4).order.row_ids().tolist() for r in range(4)] == shards


def test_repr_shows_what_it_is(folder: Path) -> None:
    text = repr(UniRecordDataset(folder, 1, 2, shuffle=True, seed=5, columns=["label"], where="label < 30"))
    for shown in ("15 of 50 rows", "shard 1 of 2", "shuffled", "seed 5", "label < 30", "int32", str(folder)):
        assert shown in text, text


def test_pickled_datasets_read_the_same(folder: Path) -> None:
    ds = UniRecordDataset(folder, 0, 2, shuffle=True, seed=3, columns=["label"]).take(40)
    ds.set_epoch(4)
    copy = pickle.loads(pickle.dumps(ds))
    assert copy.epoch == 4
    assert [s["label"] for s in copy[:]] == [s["label"] for s in ds[:]]


def test_a_pickle_of_data_that_changed_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.urec", range(3))
    pickled = pickle.dumps(UniRecordDataset(path))
    write(path, range(4), overwrite=True)
    with pytest.raises(unirecord.StaleError, match=r"a\.urec"):
        pickle.loads(pickled)


def _labels(ds: UniRecordDataset, out: multiprocessing.Queue) -> None:  # type: ignore[type-arg]
    out.put([int(s["label"]) for s in ds[:]])


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_read_the_same_rows(folder: Path, method: str) -> None:
    ds = UniRecordDataset(folder, shuffle=True, seed=1, columns=["label"])
    expected = [int(s["label"]) for s in ds[:]]
    context = multiprocessing.get_context(method)
    out = context.Queue()
    workers = [context.Process(target=_labels, args=(ds, out)) for _ in range(2)]
    for worker in workers:
        worker.start()
    assert [out.get(timeout=HANG_SECONDS) for _ in workers] == [expected, expected]
    for worker in workers:
        worker.join()


def test_threads_share_a_dataset(part: Path) -> None:
    ds = UniRecordDataset(part, shuffle=True, seed=1)
    expected = [int(s["label"]) for s in ds[:]]
    wrong: list[object] = []

    def read(offset: int) -> None:
        for k in range(200):
            i = (k * 7 + offset) % 50
            if ds[i]["label"] != expected[i]:
                wrong.append((i, ds[i]["label"]))

    threads = [threading.Thread(target=read, args=(t,)) for t in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_closed_dataset_says_so(part: Path) -> None:
    ds = UniRecordDataset(part)
    ds.close()
    ds.close()
    for read in (lambda: ds[0], lambda: list(ds), lambda: list(ds.batches(4)), lambda: ds.scalars(["label"])):
        with pytest.raises(unirecord.ClosedError):
            read()


def test_transform_is_applied_to_samples(part: Path) -> None:
    ds = UniRecordDataset(part, transform=lambda sample: int(sample["label"]) * 2)
    assert ds[3] == 6
    assert list(ds)[:3] == [0, 2, 4]
    assert ds.__getitems__([1, 2]) == [2, 4]


def test_refresh_takes_in_what_was_appended(tmp_path: Path) -> None:
    path = write(tmp_path / "set", range(4))
    ds = UniRecordDataset(path, where="label != 1")
    assert not ds.refresh()
    with unirecord.append(path) as writer:
        writer.write(record(4))
    assert len(ds) == 3
    assert ds.refresh()
    assert [int(s["label"]) for s in ds[:]] == [0, 2, 3, 4]
    with pytest.raises(ValueError, match="refresh"):
        ds.take(2).refresh()


# ---- refusals: each names the file, and says what to do --------------------------------------------------


def test_missing_paths_are_named(tmp_path: Path) -> None:
    for path in (tmp_path / "no.urec", tmp_path / "no", str(tmp_path / "no*.urec"), []):
        with pytest.raises((unirecord.MissingError, ValueError), match=r"no\*?|empty"):
            UniRecordDataset(path)


def test_a_missing_index_is_named_with_its_cure(tmp_path: Path) -> None:
    path = write(tmp_path / "a.urec", range(3))
    (tmp_path / "a.urec.idx").unlink()
    with pytest.raises(unirecord.MissingError, match=r"a\.urec\.idx.*unirecord repair"):
        UniRecordDataset(path)


def test_a_missing_part_of_a_folder_is_named(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    victim = sorted(copy.glob("*.urec"))[1]
    victim.unlink()
    with pytest.raises(unirecord.MissingError, match=victim.name):
        UniRecordDataset(copy)


def test_files_of_two_parts_do_not_go_together(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a.urec", range(3)), write(tmp_path / "b.urec", range(3))
    shutil.copy(f"{a}.idx", f"{b}.idx")
    with pytest.raises(unirecord.StaleError, match=r"b\.urec"):
        UniRecordDataset(b)


def test_different_schemas_do_not_go_together(tmp_path: Path) -> None:
    a = write(tmp_path / "a.urec", range(3))
    with Writer(tmp_path / "b.urec", {"label": "int64"}) as writer:
        writer.write({"label": 1})
    with pytest.raises(unirecord.UniRecordError, match=r"b\.urec"):
        UniRecordDataset([a, tmp_path / "b.urec"])


@pytest.mark.parametrize("content", [b"", b"hello, this is a text file\n" * 20])
def test_files_that_are_not_ours_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.urec"
    path.write_bytes(content)
    (tmp_path / "x.urec.idx").write_bytes(content)
    with pytest.raises(unirecord.FormatError, match=r"x\.urec"):
        UniRecordDataset(path)
    with pytest.raises(unirecord.FormatError, match=r"x\.urec"):
        UniRecordDataset([path, path])


def test_a_truncated_data_file_is_refused_at_open(tmp_path: Path) -> None:
    path = write(tmp_path / "a.urec", range(30))
    content = path.read_bytes()
    path.write_bytes(content[:-64])
    with pytest.raises(unirecord.UniRecordError, match=r"a\.urec"):
        UniRecordDataset(path)
