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
    ({"crops": {"n": Crop((1,))}}, unirecord.SchemaError, "crops are taken of bytes"),
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


@pytest.mark.parametrize("shape", ["123", 0, True, (0, 1), (1.5,)])
def test_a_crop_has_a_size_for_each_dimension(shape: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        Crop(shape)


# ---- every way to batches, and everything that is drawn --------------------------------------------------------


def places_by_rule(seed: int, epoch: int, rows: Any, draws: Any = None) -> list[tuple[int, ...]]:
    """Where the crops of samples begin, by the rule on the page."""
    keys = np.array(sample_keys(seed, epoch, np.asarray(rows, np.int64), draws), np.uint64)
    states = [
        splitmix64(key ^ np.uint64(unirecord.core.xxh3_64(b"x")), np.zeros(1, np.int64))[0] for key in keys
    ]
    ranges = [whole - size + 1 for whole, size in zip(SHAPE, CROP, strict=True)]
    return [
        tuple(z * n >> 64 for z, n in zip(splitmix64(state, np.arange(3)).tolist(), ranges, strict=True))
        for state in states
    ]


def seen(batches: Any) -> list[tuple[int, tuple[int, ...]]]:
    """Row and place of each sample, in their order; the crop in it is that of the value at that place."""
    values, found = field(), []
    for batch in batches:
        for n, place, x in zip(*(np.asarray(batch[name]) for name in ("n", "x_place", "x")), strict=True):
            box = tuple(slice(at, at + size) for at, size in zip(place.tolist(), CROP, strict=True))
            assert np.array_equal(values[n][box], x)
            found.append((int(n), tuple(place.tolist())))
    return found


CUT: Any = {"crops": {"x": Crop(CROP)}, "return_places": True}


def by_torch(ds: Any, cut: Any) -> Any:
    import unirecord.torch

    return unirecord.torch.loader(ds, 4, **cut)


def by_lightning(ds: Any, cut: Any) -> Any:
    import unirecord.lightning

    return unirecord.lightning.loader(ds, 4, **cut)


def by_jax(ds: Any, cut: Any) -> Any:
    import unirecord.jax

    return unirecord.jax.loader(ds, 4, **cut)


def by_tensorflow(ds: Any, cut: Any) -> Any:
    import unirecord.tf

    data = unirecord.tf.dataset(ds, 4, **cut)
    assert data.element_spec["x"].shape.as_list() == [None, *CROP]
    return data.as_numpy_iterator()


def by_keras(ds: Any, cut: Any) -> Any:
    import unirecord.keras

    data = unirecord.keras.dataset(ds, 4, **cut)
    return (data[number] for number in range(len(data)))


def by_grain(ds: Any, cut: Any) -> Any:
    import unirecord.grain

    return iter(unirecord.grain.batches(ds, 4, **cut))


def doubled(sample: dict[str, Any]) -> dict[str, Any]:
    return {**sample, "y": sample["x"] * 2}


BY_BATCHES = {
    "ds.batches": lambda ds, cut: ds.batches(4, **cut),
    "collated": lambda ds, cut: ds.batches(4, transform=dict, **cut),
    "pipeline with processes": lambda ds, cut: ds.pipeline(**cut).map(doubled, processes=1).batch(4),
    "torch": by_torch,
    "lightning": by_lightning,
    "jax": by_jax,
    "tensorflow": by_tensorflow,
    "keras": by_keras,
    "grain": by_grain,
    "pipeline": lambda ds, cut: ds.pipeline(**cut).batch(4),
    "pipeline, as it was built": lambda ds, cut: ds.pipeline(**cut, rewrite=False).batch(4),
    "pipeline of samples": lambda ds, cut: ds.pipeline(**cut).map(doubled).batch(4),
    "pipeline of some columns": lambda ds, cut: ds.pipeline(**cut).select(["x_place", "n", "x"]).batch(4),
    "pipeline with a condition": lambda ds, cut: ds.pipeline(**cut).filter("n != 3").batch(4),
}


@pytest.mark.parametrize("way", BY_BATCHES)
def test_a_sample_has_the_same_place_by_every_way_to_batches(part: Path, way: str) -> None:
    with UniRecordDataset(part, shuffle=True, seed=9) as ds:
        ds.set_epoch(2)
        rows = [row for row in ds.order.row_ids().tolist() if "condition" not in way or row != 3]
        expected = list(zip(rows, places_by_rule(9, 2, rows), strict=True))
        assert seen(BY_BATCHES[way](ds, CUT)) == expected
        with pytest.raises(unirecord.SchemaError, match="no column 'y'"):
            BY_BATCHES[way](ds, {"crops": {"y": Crop((1,))}})


def test_places_that_are_selected_alone_are_read(part: Path) -> None:
    with UniRecordDataset(part, shuffle=True, seed=9) as ds:
        rows = ds.order.row_ids().tolist()
        places = [sample["x_place"].tolist() for sample in ds.pipeline(**CUT).select(["x_place"])]
        assert places == [list(place) for place in places_by_rule(9, 0, rows)]
        assert sorted(sample["n"] for sample in ds.pipeline(**CUT).select(["n"])) == list(range(ROWS))


DRAWS = {
    "weighted": lambda ds: unirecord.weighted(ds, np.arange(1, ROWS + 1), samples=60),
    "weighted, each once": lambda ds: unirecord.weighted(ds, np.arange(1, ROWS + 1), replacement=False),
    "selected twice": lambda ds: ds.select([*range(ROWS), 3, 3, 4]),
    "mixed": lambda ds: unirecord.mix({"a": ds.take(8), "b": ds.skip(8)}, samples=50, seed=9),
}
BY_SAMPLES = {
    "batches": lambda ds: ds.batches(4, **CUT),
    "torch": lambda ds: by_torch(ds, CUT),
    "pipeline": lambda ds: ds.pipeline(**CUT).batch(4),
    "pipeline with a condition": lambda ds: ds.pipeline(**CUT).filter("n != 3").batch(4),
}


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("way", BY_SAMPLES)
def test_every_draw_has_a_place_of_its_own(part: Path, draw: str, way: str) -> None:
    with UniRecordDataset(part, shuffle=True, seed=9) as ds:
        drawn = DRAWS[draw](ds)
        rows = drawn.order.row_ids()
        values = (
            rows % ROWS
        )  # of a mixture, the rows of the second source are numbered behind those of the first
        draws = np.full(len(rows), -1) if draw == "weighted, each once" else np.arange(len(rows))
        kept = values != 3 if "condition" in way else values >= 0
        places = places_by_rule(9, 0, rows[kept], draws[kept])
        assert seen(BY_SAMPLES[way](drawn)) == list(zip(values[kept].tolist(), places, strict=True))


BATCH_DRAWS = {
    "balanced": lambda ds: unirecord.balanced(ds, "n", classes=5, per_class=2, batches=9),
    "bucketed": lambda ds: unirecord.bucketed(ds, "n", batch_size=4),
}


def by_torch_drawn(drawn: Any) -> Any:
    import unirecord.torch

    return unirecord.torch.loader(drawn, **CUT)


@pytest.mark.parametrize("draw", BATCH_DRAWS)
@pytest.mark.parametrize("way", [lambda drawn: drawn.batches(**CUT), by_torch_drawn])
def test_every_draw_of_batches_has_a_place_of_its_own(part: Path, draw: str, way: Any) -> None:
    with UniRecordDataset(part, shuffle=True, seed=9) as ds:
        for number, batch in enumerate(way(BATCH_DRAWS[draw](ds))):
            given = seen([batch])
            rows = [row for row, _ in given]
            draws = None if draw == "bucketed" else (number << 32) + np.arange(len(rows))
            assert [place for _, place in given] == places_by_rule(9, 0, rows, draws)


def test_a_batch_sampler_that_names_a_row_again_gives_it_another_place(part: Path) -> None:
    import unirecord.torch

    lists = [[1, 5, 1], [2], [5, 9, 2, 2]]
    again = [-1, -1, 2, -1, 2 << 32, -1, (2 << 32) + 2, (2 << 32) + 3]
    with UniRecordDataset(part, seed=9) as ds:
        loader = unirecord.torch.loader(ds, batch_sampler=lists, **CUT)
        rows = [row for one in lists for row in one]
        assert seen(loader) == list(zip(rows, places_by_rule(9, 0, rows, np.array(again)), strict=True))


@pytest.mark.parametrize("fill", [False, True])
def test_samples_of_a_pipeline_keep_their_places_where_rows_are_left_out(part: Path, fill: bool) -> None:
    """Those that stand in for others are drawn, as by ``ds.batches``."""
    found = []
    for way in (lambda ds: ds.batches(4, **CUT), lambda ds: ds.pipeline(**CUT).map(doubled).batch(4)):
        with UniRecordDataset(part, shuffle=True, seed=1) as ds:
            ds.exclude(rows=[3, 9], fill=fill)
            found.append(seen(way(ds)))
    assert found[0] == found[1]
    assert len(found[0]) == (ROWS if fill else ROWS - 2)
    whole = dict(zip(range(ROWS), places_by_rule(1, 0, range(ROWS)), strict=True))
    assert sum(whole[row] != place for row, place in found[0]) <= 2 * fill


def test_a_step_of_a_pipeline_is_repeated_with_its_places(part: Path) -> None:
    with UniRecordDataset(part, shuffle=True, seed=1) as ds:
        loader = ds.pipeline(**CUT).batch(4)
        batches = list(loader)
        again = loader.replay(2, epoch=0)
        assert np.array_equal(again["x_place"], batches[2]["x_place"])
        assert np.array_equal(again["x"], batches[2]["x"])


@pytest.mark.parametrize(
    "cut",
    [
        lambda ds: unirecord.windows(ds, "x", 8),
        lambda ds: unirecord.packed(ds, "x", 8),
    ],
)
def test_crops_of_windows_and_packed_samples_are_refused(tmp_path: Path, cut: Any) -> None:
    with unirecord.Writer(tmp_path / "a.urec", {"x": {"type": "int32", "shape": [20]}}) as writer:
        writer.write_batch({"x": np.arange(60, dtype=np.int32).reshape(3, 20)})
    with UniRecordDataset(tmp_path / "a.urec") as ds:
        for make in (
            lambda ds: ds.batches(2, crops={"x": Crop((4,))}),
            lambda ds: ds.pipeline(crops={"x": Crop((4,))}),
        ):
            with pytest.raises(ValueError, match="cut of these already"):
                make(cut(ds))


@pytest.mark.parametrize("make", [lambda ds, cut: ds.batches(2, **cut), lambda ds, cut: ds.pipeline(**cut)])
def test_a_column_in_the_way_of_places_is_named_at_once(tmp_path: Path, make: Any) -> None:
    schema = {"x": {"type": "int32", "shape": [20]}, "x_place": "int32"}
    with unirecord.Writer(tmp_path / "a.urec", schema) as writer:
        writer.write_batch({"x": np.zeros((3, 20), np.int32), "x_place": np.zeros(3, np.int32)})
    with UniRecordDataset(tmp_path / "a.urec") as ds:
        with pytest.raises(unirecord.SchemaError, match="'x_place' already"):
            make(ds, {"crops": {"x": Crop((4,))}, "return_places": True})
        assert make(ds, {"crops": {"x": Crop((4,))}})
        with pytest.raises(ValueError, match="give crops="):
            make(ds, {"return_places": True})
        with pytest.raises(TypeError, match="by the name of its column"):
            make(ds, {"crops": Crop((4,))})


# ---- values of different lengths --------------------------------------------------------------------------------

LENGTHS = [9, 40, 12, 9, 100, 31, 16]


def varied(path: Path, chunks: bool, codec: str | None) -> list[dict[str, Any]]:
    """Arrays with a free dimension in the middle, arrays of tokens and bytes; a null of each."""
    rng = np.random.default_rng(3)
    schema: dict[str, Any] = {
        "x": {"type": "int16?", "shape": [2, -1, 3]},
        "tokens": {"type": "int32", "shape": [-1]},
        "b": {"type": "bytes?"},
        "n": "int32",
    }
    if chunks:
        schema["x"]["chunks"], schema["tokens"]["chunks"], schema["b"]["chunks"] = [1, 8, 2], [10], 16
    for name in ("x", "tokens", "b") if codec else ():
        schema[name]["codec"] = codec
    rows = [
        {
            "x": None if i == 3 else rng.integers(0, 99, (2, length, 3), np.int16),
            "tokens": rng.integers(0, 99, length, np.int32),
            "b": None if i == 2 else rng.integers(0, 9, length, np.uint8).tobytes(),
            "n": i,
        }
        for i, length in enumerate(LENGTHS)
    ]
    with unirecord.Writer(path, schema) as writer:
        for row in rows:
            writer.write(row)
    return rows


@pytest.mark.parametrize(("chunks", "codec"), [(True, None), (True, "zstd"), (False, None), (False, "zstd")])
@pytest.mark.parametrize("way", ["mmap", "pread"])
def test_crops_of_values_of_different_lengths(
    tmp_path: Path, chunks: bool, codec: str | None, way: Any
) -> None:
    """Each in its own value, drawn by the rule for its own shape."""
    rows = varied(tmp_path / "a.urec", chunks, codec)
    sizes = {"x": (1, 9, 2), "tokens": (7,), "b": (5,)}
    crops = {"x": Crop((1, 9, 2)), "tokens": Crop(7), "b": Crop(5)}
    with UniRecordDataset(tmp_path / "a.urec", io=way, shuffle=True, seed=4) as ds:
        for batch in ds.batches(3, crops=crops, return_places=True):
            for i, n in enumerate(batch["n"].tolist()):
                for name, size in sizes.items():
                    value, crop = rows[n][name], batch[name][i]
                    assert crop.shape == size
                    if value is None:
                        assert np.ma.getmaskarray(crop).all()
                        continue
                    array = np.frombuffer(value, np.uint8) if isinstance(value, bytes) else value
                    [key] = sample_keys(4, 0, np.array([n]))
                    state = splitmix64(
                        np.uint64(key) ^ np.uint64(unirecord.core.xxh3_64(name.encode())),
                        np.zeros(1, np.int64),
                    )[0]
                    drawn = splitmix64(state, np.arange(len(size))).tolist()
                    place = [z * (w - s + 1) >> 64 for z, w, s in zip(drawn, array.shape, size, strict=True)]
                    assert batch[f"{name}_place"][i].tolist() == place
                    assert np.array_equal(
                        crop, array[tuple(slice(at, at + s) for at, s in zip(place, size, strict=True))]
                    )


@pytest.mark.parametrize("chunks", [True, False])
def test_a_value_that_is_smaller_than_its_crop_is_named(tmp_path: Path, chunks: bool) -> None:
    varied(tmp_path / "a.urec", chunks, None)
    for name, crop in (("tokens", Crop(13)), ("b", Crop((13,))), ("x", Crop((2, 13, 3)))):
        for on_corrupt in ("raise", "skip"):
            with (
                UniRecordDataset(tmp_path / "a.urec", on_corrupt=on_corrupt) as ds,
                pytest.raises(ValueError, match=rf"row 0.*'{name}'.*smaller"),
            ):
                list(ds.batches(2, crops={name: crop}))


def test_crops_of_values_of_different_lengths_go_to_tensors(tmp_path: Path) -> None:
    import unirecord.tf
    import unirecord.torch

    varied(tmp_path / "a.urec", True, None)
    crops = {"tokens": Crop(7), "b": Crop(5)}
    with UniRecordDataset(tmp_path / "a.urec", columns=["tokens", "b", "n"]) as ds:
        batch = next(iter(unirecord.torch.loader(ds.view(), 4, crops=crops)))
        assert (tuple(batch["tokens"].shape), tuple(batch["b"].shape)) == ((4, 7), (4, 5))
        assert batch["b_valid"].tolist() == [True, True, False, True]
        data = unirecord.tf.dataset(ds.view(), 4, crops=crops)
        assert data.element_spec["tokens"].shape.as_list() == [None, 7]
        assert next(iter(data))["b"].shape == (4, 5)


def test_crops_of_text_and_of_arrays_of_several_free_dimensions_are_refused(tmp_path: Path) -> None:
    with unirecord.Writer(tmp_path / "a.urec", {"t": "text", "x": "uint8[-1, -1]"}) as writer:
        writer.write({"t": "é" * 9, "x": np.zeros((3, 4), np.uint8)})
    with UniRecordDataset(tmp_path / "a.urec") as ds:
        with pytest.raises(unirecord.SchemaError, match="inside a character"):
            ds.batches(1, crops={"t": Crop(3)})
        with pytest.raises(unirecord.SchemaError, match="one free dimension at most"):
            ds.batches(1, crops={"x": Crop((1, 1))})
