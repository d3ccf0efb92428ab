"""unirecord.hf.dataset(ds) and unirecord.hf.table(ds) in the hands of Hugging Face's datasets."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import datasets
import pytest
from datasets.distributed import split_dataset_by_node
from named_rows import NAMES, SCHEMA, png, record
from torch.utils.data import DataLoader

import unirecord
from unirecord import UniRecordDataset, Writer, append, write_dataset


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("hf") / "set"
    for part in range(3):
        with append(found, SCHEMA) if part else Writer(found, SCHEMA) as writer:
            for n in range(part * 20, part * 20 + 20):
                writer.write(record(n))
    return found


def test_features_say_what_columns_are(path: Path) -> None:
    data = unirecord.hf.dataset(UniRecordDataset(path))
    features = data.features
    assert isinstance(features["image"], datasets.Image)
    assert features["label"].names == NAMES
    assert features["pixels"] == datasets.Array2D((2, 3), "uint8")
    for n, row in enumerate(data):
        expected = record(n)
        assert row["label"] == expected["label"]
        assert (row["image"] is None) == (expected["image"] is None)
        if row["image"] is not None:
            assert row["image"].getpixel((0, 0)) == n
        wanted = expected["pixels"]
        assert row["pixels"] == (None if wanted is None else wanted.tolist())
        assert row["boxes"] == expected["boxes"].tolist()
        assert row["tag"] == f'{{"n": [{n}]}}'
        assert row["name"] == expected["name"]


def test_sound_is_a_feature_of_its_own_and_comes_as_it_is_stored(tmp_path: Path) -> None:
    column = {"type": "bytes?", "logical": {"type": "media", "media": "audio/wav"}}
    with Writer(tmp_path / "a.urec", {"sound": column}) as writer:
        writer.write_batch({"sound": [b"RIFF one", None, b"RIFF three"]})
    with UniRecordDataset(tmp_path / "a.urec") as ds:
        given = unirecord.hf.dataset(ds)
        assert isinstance(given.features["sound"], datasets.Audio)
        plain = given.cast_column("sound", datasets.Audio(decode=False))
        sounds = [sample["sound"] for sample in plain]
    assert [sound and sound["bytes"] for sound in sounds] == [b"RIFF one", None, b"RIFF three"]


def test_shards_are_the_parts_or_equal_stretches(path: Path) -> None:
    assert unirecord.hf.dataset(UniRecordDataset(path)).num_shards == 3
    assert unirecord.hf.dataset(UniRecordDataset(path, shuffle=True)).num_shards == 60
    assert unirecord.hf.dataset(UniRecordDataset(path), num_shards=7).num_shards == 7
    shared = [
        [row["n"] for row in split_dataset_by_node(unirecord.hf.dataset(UniRecordDataset(path)), rank, 3)]
        for rank in range(3)
    ]
    assert shared == [[*range(first, first + 20)] for first in (0, 20, 40)]


# What a method of datasets makes of a stream, and of the list of its rows.
METHODS = {
    "plain": (lambda data: data, list),
    "map": (lambda data: data.map(lambda row: {"n": row["n"]}), list),
    "filter": (lambda data: data.filter(lambda row: row["n"] % 3), lambda rows: [n for n in rows if n % 3]),
    "take": (lambda data: data.take(50), lambda rows: rows[:50]),
    "skip": (lambda data: data.skip(5), lambda rows: rows[5:]),
    "skip and take": (lambda data: data.skip(5).take(7).map(dict), lambda rows: rows[5:12]),
    "repeat": (lambda data: data.repeat(2), lambda rows: rows * 2),
    "with_format": (lambda data: data.with_format("arrow").with_format(None), list),
    "select_columns": (lambda data: data.select_columns("n"), list),
    "batch": (lambda data: data.batch(7), lambda rows: [rows[i : i + 7] for i in range(0, len(rows), 7)]),
    "interleave": (
        lambda data: datasets.interleave_datasets([data, data.skip(1)]),
        lambda rows: [n for pair in itertools.pairwise(rows) for n in pair],
    ),
}


def numbers(data: Any) -> list[Any]:
    return [row["n"] for row in data]


def orders(path: Path, epochs: Iterable[int]) -> list[list[int]]:
    ds, found = UniRecordDataset(path, columns=["n"], shuffle=True, seed=2), []
    for epoch in epochs:
        ds.set_epoch(epoch)
        found.append(ds.order.row_ids().tolist())
    return found


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("of_source", [False, True], ids=["set later", "set before"])
def test_epochs_follow_set_epoch_behind_every_method(path: Path, method: str, of_source: bool) -> None:
    """Whether it is the epoch of what a method has made that is set, or that of what it is made of."""
    make, of_rows = METHODS[method]
    source = unirecord.hf.dataset(UniRecordDataset(path, columns=["n"], shuffle=True, seed=2), 7)
    data, epochs = make(source), (0, 3, 1)
    for epoch, order in zip(epochs, orders(path, epochs), strict=True):
        (source if of_source else data).set_epoch(epoch)
        assert numbers(make(source) if of_source else data) == of_rows(order)


@pytest.mark.parametrize(
    ("start_method", "method"),
    [*itertools.product(["fork"], ["plain", "map", "take", "skip and take"]), ("spawn", "skip")],
)
def test_workers_that_stay_see_the_epoch_that_is_set(path: Path, start_method: str, method: str) -> None:
    """Whatever their own numbers are, which datasets tells a stream in the same way as epochs."""
    make, _ = METHODS[method]
    data = make(unirecord.hf.dataset(UniRecordDataset(path, columns=["n"], shuffle=True, seed=2), 6))
    loader = DataLoader(
        data, None, num_workers=2, persistent_workers=True, multiprocessing_context=start_method
    )
    ways = []
    for epoch in (0, 1, 2):
        data.set_epoch(epoch)
        found = numbers(loader)
        plain = make(unirecord.hf.dataset(UniRecordDataset(path, columns=["n"], shuffle=True, seed=2), 6))
        plain.set_epoch(epoch)
        of_workers = [numbers(_first(plain, index)) for index in range(2)]
        assert sorted(found) == sorted(itertools.chain(*of_workers))
        assert found[:40:2] == of_workers[0][:20]
        ways.append(found)
    assert ways[0] != ways[1] != ways[2]


def _first(data: Any, index: int) -> Any:
    """What worker ``index`` of two reads."""
    shared = data.shard(2, index, contiguous=False)
    shared.set_epoch(data.epoch)
    return shared


@pytest.mark.parametrize("method", ["plain", "map", "take", "with_format"])
@pytest.mark.parametrize("at", [(7, 26), (0, 31), (60, 60)], ids=["within", "at the front", "between"])
def test_resumed_twice_and_two_epochs_further_is_as_if_never_stopped(
    path: Path, method: str, at: tuple[int, int]
) -> None:
    """Each time in a stream made anew, as a job that is started again makes it."""
    make, of_rows = METHODS[method]
    expected = [of_rows(order) for order in orders(path, range(2, 5))]
    count, state, got = len(expected[0]), None, []
    for stop in (*at, count):
        data = make(unirecord.hf.dataset(UniRecordDataset(path, columns=["n"], shuffle=True, seed=2), 7))
        data.set_epoch(2)
        if state is not None:
            data.load_state_dict(state)
        got += numbers(itertools.islice(data, min(stop, count) - len(got)))
        state = data.state_dict()
    assert got == expected[0]
    for epoch in (3, 4):
        data.set_epoch(epoch)
        assert numbers(data) == expected[epoch - 2]


def test_a_shuffle_of_datasets_own_moves_no_epoch(path: Path) -> None:
    """It comes on top: the rows of the same stretches, and all of them."""
    (order,) = orders(path, [0])
    data = unirecord.hf.dataset(UniRecordDataset(path, columns=["n"], shuffle=True, seed=2), 1).shuffle(
        seed=42, buffer_size=9
    )
    first = numbers(data)
    assert sorted(first) == list(range(60))
    assert all(row in order[: place + 9] for place, row in enumerate(first))
    data.set_epoch(1)
    assert sorted(numbers(data)) == list(range(60)) != first


def test_a_pass_that_is_broken_off_is_begun_again_and_threads_have_passes_of_their_own(path: Path) -> None:
    data = unirecord.hf.dataset(UniRecordDataset(path, columns=["n"], shuffle=True, seed=2), 7)
    (order,) = orders(path, [1])
    data.set_epoch(1)
    assert numbers(itertools.islice(data, 11)) == order[:11]
    assert numbers(data) == order
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(numbers, [data, data])) == [order, order]


def test_without_a_shuffle_every_epoch_is_in_order(path: Path) -> None:
    data = unirecord.hf.dataset(UniRecordDataset(path, columns=["n"]))
    data.set_epoch(2)
    assert [row["n"] for row in data] == list(range(60))


@pytest.mark.parametrize("taken", [1, 20, 33, 59])
def test_a_state_behind_operators_goes_on_at_the_sample(path: Path, taken: int) -> None:
    def made() -> Any:
        data = unirecord.hf.dataset(UniRecordDataset(path, columns=["n"], shuffle=True, seed=2), 7)
        data = data.map(lambda row: {"n": row["n"] + 100})
        data.set_epoch(1)
        return data

    data = made()
    first = [row["n"] for row in itertools.islice(iter(data), taken)]
    again = made()
    again.load_state_dict(data.state_dict())
    assert first + [row["n"] for row in again] == [row["n"] for row in made()]


def test_a_state_of_another_epoch_is_refused(path: Path) -> None:
    ds = UniRecordDataset(path, columns=["n"], shuffle=True)
    state = unirecord.hf.dataset(ds).state_dict()
    ds.set_epoch(4)
    with pytest.raises(ValueError, match="epoch 0"):
        list(_loaded(unirecord.hf.dataset(ds), state))


def _loaded(data: Any, state: Any) -> Any:
    data.load_state_dict(state)
    return data


def test_workers_of_a_data_loader_share_the_rows(path: Path) -> None:
    data = unirecord.hf.dataset(UniRecordDataset(path, columns=["n"], shuffle=True)).with_format("torch")
    found = [int(n) for batch in DataLoader(data, batch_size=16, num_workers=2) for n in batch["n"]]
    assert sorted(found) == list(range(60))
    assert [row["n"] for row in pickle.loads(pickle.dumps(data)).with_format(None)] != list(range(60))


def test_a_dataset_with_a_transform_is_refused(path: Path) -> None:
    ds = UniRecordDataset(path, transform=len)
    with pytest.raises(ValueError, match="transform"):
        unirecord.hf.dataset(ds)
    with pytest.raises(ValueError, match="transform"):
        unirecord.hf.table(ds)


def test_a_table_has_the_scalars_of_the_shard_in_its_order(path: Path) -> None:
    ds = UniRecordDataset(path, 1, 2, shuffle=True, seed=4)
    table = unirecord.hf.table(ds)
    assert table.features["label"].names == NAMES
    assert table["n"][:] == ds.order.row_ids().tolist()
    assert table["name"][:] == [record(n)["name"] for n in ds.order.row_ids()]
    chosen = unirecord.hf.table(ds.view(columns=["image", "n"]))
    assert chosen["n"][:] == ds.order.row_ids().tolist()
    assert chosen.features["image"] == datasets.Image()
    assert [
        one and one["bytes"] for one in chosen.cast_column("image", datasets.Image(decode=False))["image"]
    ] == [record(n)["image"] for n in ds.order.row_ids()]
    ds.exclude([3], fill=True)
    with pytest.raises(ValueError, match="excluded here, and a table would have them"):
        unirecord.hf.table(ds)


def test_what_was_converted_comes_back(path: Path, tmp_path: Path) -> None:
    given = datasets.Dataset.from_dict(
        {"picture": [png(1), png(2)], "label": [0, 2], "words": ["a", None]},
        features=datasets.Features(
            {
                "picture": datasets.Image(),
                "label": datasets.ClassLabel(names=NAMES),
                "words": datasets.Value("string"),
            }
        ),
    )
    write_dataset(given, tmp_path / "a.urec")
    back = unirecord.hf.dataset(UniRecordDataset(tmp_path / "a.urec"))
    assert back.features == {**given.features, "words": back.features["words"]}
    for found, row in zip(back, given, strict=True):
        assert found["picture"].tobytes() == row["picture"].tobytes()
        assert (found["label"], found["words"]) == (row["label"], row["words"])
