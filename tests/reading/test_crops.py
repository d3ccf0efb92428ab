"""Crops in batches: cut where they are said to begin, and drawn by seed, epoch, row and column alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unirecord
from unirecord import Crop, UniRecordDataset
from unirecord.order.randomness import sample_keys, splitmix64

SHAPE = (3, 40, 50)
ROWS = 23
CROP = (1, 16, 20)
WAYS = [([1, 16, 16], None), ([2, 9, 50], "zstd"), (None, "shuffle+zstd"), (None, None)]


def field() -> np.ndarray[Any, Any]:
    return np.random.default_rng(5).integers(0, 9, (ROWS, *SHAPE)).astype(np.float32)


def written(path: Path, chunks: list[int] | None, codec: str | None, *, nullable: bool = False) -> Path:
    column = {"type": "float32?" if nullable else "float32", "shape": list(SHAPE)}
    column |= {} if chunks is None else {"chunks": chunks}
    column |= {} if codec is None else {"codec": codec}
    with unirecord.Writer(path, {"x": column, "n": "int32"}) as writer:
        for i, value in enumerate(field()):
            writer.write({"x": None if nullable and i % 3 == 0 else value, "n": i})
    return path


@pytest.fixture(scope="module")
def part(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("crops") / "a.urec", [1, 16, 16], None)


def cropped(ds: Any, size: int = 4, **options: Any) -> dict[int, tuple[tuple[int, ...], bytes]]:
    """Row -> where its crop begins, and what is in it; rows that come twice have the last one."""
    found = {}
    for batch in ds.batches(size, crops={"x": Crop(CROP)}, return_places=True, **options):
        for n, place, x in zip(batch["n"].tolist(), batch["x_place"].tolist(), batch["x"], strict=True):
            found[n] = (tuple(place), np.ascontiguousarray(x).tobytes())
    return found


@pytest.mark.parametrize(("chunks", "codec"), WAYS)
@pytest.mark.parametrize("way", ["mmap", "pread", "uring"])
def test_crops_are_the_boxes_at_their_places(
    tmp_path: Path, chunks: list[int] | None, codec: str | None, way: Any
) -> None:
    values = field()
    with UniRecordDataset(written(tmp_path / "a.urec", chunks, codec), io=way, shuffle=True) as ds:
        found = cropped(ds)
        assert sorted(found) == list(range(ROWS))
        for row, (place, content) in found.items():
            box = tuple(slice(at, at + size) for at, size in zip(place, CROP, strict=True))
            assert values[row][box].tobytes() == content
        assert len({place for place, _ in found.values()}) > ROWS // 2
        for batch in ds.batches(4, crops={"x": Crop(CROP)}):
            assert batch["x"].shape[1:] == CROP
            assert "x_place" not in batch


def test_places_are_drawn_as_the_page_of_the_order_says(part: Path) -> None:
    with UniRecordDataset(part, shuffle=True, seed=7) as ds:
        ds.set_epoch(3)
        found = cropped(ds)
    keys = np.array(sample_keys(7, 3, np.arange(ROWS)), np.uint64)
    for row, key in enumerate(keys):
        name = np.uint64(unirecord.core.xxh3_64(b"x"))
        state = splitmix64(key ^ name, np.zeros(1, np.int64))[0]
        drawn = splitmix64(state, np.arange(3)).tolist()
        ranges = [whole - size + 1 for whole, size in zip(SHAPE, CROP, strict=True)]
        assert found[row][0] == tuple(z * n >> 64 for z, n in zip(drawn, ranges, strict=True))


def test_places_are_the_same_on_all_threads_and_ranks_and_after_a_resume(part: Path) -> None:
    with UniRecordDataset(part, shuffle=True, seed=1) as ds:
        whole = cropped(ds, num_threads=1)
        again = cropped(ds.view(), num_threads=4)  # the next epoch of another handle begins with the first
        assert whole == again
        other = cropped(ds)  # the second epoch
        assert [whole[n][0] for n in range(ROWS)] != [other[n][0] for n in range(ROWS)]
    shared = {}
    for rank in range(3):
        with UniRecordDataset(
            part, shuffle=True, seed=1, shard_id=rank, num_shards=3, remainder="uneven"
        ) as ds:
            shared |= cropped(ds, 5)
    assert shared == whole
    with UniRecordDataset(part, shuffle=True, seed=1) as ds:
        loader = ds.batches(4, crops={"x": Crop(CROP)}, return_places=True)
        batches = iter(loader)
        next(batches)
        next(batches)
        state = loader.state_dict()
        replayed = loader.replay(1)
        assert replayed["x_place"].tolist() == [list(whole[n][0]) for n in replayed["n"].tolist()]
    with UniRecordDataset(part, shuffle=True, seed=1) as ds:
        ds.load_state_dict(state)
        rest = cropped(ds)
        assert len(rest) == ROWS - 8
        assert rest.items() <= whole.items()


def test_a_row_that_comes_again_has_another_place(part: Path) -> None:
    with UniRecordDataset(part, shuffle=True, seed=2) as ds:
        many = ds.select([4] * 9)
        places = [
            tuple(place)
            for batch in many.batches(2, crops={"x": Crop(CROP)}, return_places=True)
            for place in batch["x_place"].tolist()
        ]
        assert len(set(places)) > 5


def test_rows_that_are_left_out_move_no_place(part: Path) -> None:
    with UniRecordDataset(part, shuffle=True, seed=1) as ds:
        whole = cropped(ds)
    with UniRecordDataset(part, shuffle=True, seed=1) as ds:
        ds.exclude(rows=[3, 9])
        rest = cropped(ds)
        assert len(rest) == ROWS - 2
        assert rest.items() <= whole.items()


def test_a_crop_of_null_is_masked(tmp_path: Path) -> None:
    with UniRecordDataset(written(tmp_path / "a.urec", [1, 16, 16], None, nullable=True)) as ds:
        for batch in ds.batches(5, crops={"x": Crop(CROP)}):
            for n, x in zip(batch["n"].tolist(), batch["x"], strict=True):
                assert np.ma.getmaskarray(x).all() == (n % 3 == 0)


def test_corrupt_chunks_cost_the_crops_that_touch_them(tmp_path: Path) -> None:
    """Rows are left out where their crop is damaged, and not where another part of the value is."""
    path = written(tmp_path / "a.urec", [1, 16, 16], None)
    with UniRecordDataset(path, shuffle=True, seed=1) as ds:
        whole = cropped(ds)
        start, size = ds.read_cursor.plan.data.parts.part(0).locate(6, 0)
    file = bytearray(path.read_bytes())
    for at in range(start, start + size // 2):
        file[at] ^= 1
    path.write_bytes(file)
    kept, lost = 0, 0
    for seed in range(8):
        with UniRecordDataset(path, shuffle=True, seed=seed, on_corrupt="skip") as ds:
            found = cropped(ds)
            assert set(range(ROWS)) - set(found) <= {6}
            kept, lost = kept + (6 in found), lost + (6 not in found)
            if seed == 1:
                assert found.items() <= whole.items()
    assert kept
    assert lost


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"crops": {"y": Crop((1,))}}, unirecord.SchemaError, "no column 'y'"),
    ({"crops": {"n": Crop((1,))}}, unirecord.SchemaError, "arrays of one shape"),
    ({"crops": {"x": Crop((1, 2))}}, ValueError, "does not fit"),
    ({"crops": {"x": Crop((4, 2, 2))}}, ValueError, "does not fit"),
    ({"crops": {"x": (1, 2, 2)}}, TypeError, "takes a unirecord.Crop"),
    ({"return_places": True}, ValueError, "give crops="),
]


@pytest.mark.parametrize(("options", "error", "what"), WRONG)
def test_crops_that_do_not_fit_are_refused(
    part: Path, options: dict[str, Any], error: type[Exception], what: str
) -> None:
    with UniRecordDataset(part) as ds, pytest.raises(error, match=what):
        ds.batches(4, **options)


@pytest.mark.parametrize("shape", ["123", 7, (0, 1), (1.5,)])
def test_a_crop_has_a_size_for_each_dimension(shape: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        Crop(shape)
