"""Every pair of options of every loader: what comes out shows that both were obeyed, or a clear error refuses."""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.utils.data import DataLoader

import unirecord
import unirecord.torch
from unirecord import CorruptionError, Crop, SchemaError, UniRecordDataset, Writer
from unirecord.order.randomness import generator, sample_keys, splitmix64
from unirecord.snapshot.part_set import PartSet

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

ROWS, SIZE, CHANGED = 30, 4, 15
CORRUPT = {14, 15}  # one digest covers both
HERE = threading.get_ident()

MARKS = {"collate_fn": "collated", "batch_transform": "batch"}

Sample = dict[str, Any]
Made = tuple[frozenset[str], list[Sample]]  # the marks of the functions that were called, and the samples


def of_dataset(sample: Sample, *rng: np.random.Generator) -> Sample:
    return {**sample, "dataset's": int(sample["i"]), **drawn(*rng)}


def of_loader(sample: Sample, *rng: np.random.Generator) -> Sample:
    return {**sample, "loader's": int(sample["i"]), "here": threading.get_ident() == HERE, **drawn(*rng)}


def drawn(rng: np.random.Generator | None = None) -> Sample:
    return {} if rng is None else {"drawn": int(rng.integers(1 << 40))}


def collated(samples: list[Sample]) -> Sample:
    return {"collated": [dict(sample) for sample in samples]}


def marked(batch: Any) -> Sample:
    return {"batch": batch}


# Values that are not the defaults. A shard comes with the number of shards.
DATASET: dict[str, Any] = {
    "shard": (3, 4),
    "columns": ["label", "i"],
    "where": "label != 1",
    "shuffle": "block",
    "seed": 5,
    "remainder": "uneven",
    "io": "pread",
    "verify": "never",
    "transform": of_dataset,
    "on_corrupt": "skip",
    "block_rows": 3,
    "window_blocks": 1,
}
CROP = 1100
READ: dict[str, Any] = {
    "drop_last": True,
    "prefetch": 3,
    "num_threads": 3,
    "crops": {"b": Crop((CROP,))},
    "return_places": True,
}
CALLED: dict[str, Any] = {"transform=": of_loader, "collate_fn": collated, "num_workers": 0, "random": True}
STOCK: dict[str, Any] = {
    "drop_last": True,
    "collate_fn": collated,
    "num_workers": 1,
    "sampler": [6, 0, 5, 2, 6, 1],
}


@dataclass(frozen=True)
class Loader:
    """``read`` gives the batches for the options of the loader alone; ``size`` is that of its batches."""

    options: dict[str, Any]
    read: Callable[[UniRecordDataset, dict[str, Any]], Any]
    size: int = SIZE


def _by_slices(ds: UniRecordDataset, given: dict[str, Any]) -> Iterator[Any]:
    return (collated(ds[at : at + SIZE]) for at in range(0, len(ds), SIZE))


def _tf_dataset(ds: UniRecordDataset, given: dict[str, Any]) -> Iterator[Any]:
    data = unirecord.tf.dataset(ds, SIZE, **given)
    return ({name: value.numpy() for name, value in batch.items()} for batch in data)


NOTED = {"receipts": "receipts"}  # in the folder of the test
BATCHES = {**READ, **CALLED, **NOTED, "batch_transform": marked}
LOADERS = {
    "batches": Loader(BATCHES, lambda ds, given: ds.batches(SIZE, **given)),
    "view": Loader(BATCHES, lambda ds, given: ds.batches(SIZE, **given)),
    "torch": Loader(
        {**READ, **CALLED, **NOTED, "device": "meta", "pin_memory": True},
        lambda ds, given: unirecord.torch.loader(ds, SIZE, **given),
    ),
    "DataLoader": Loader(STOCK, lambda ds, given: DataLoader(ds, SIZE, **given)),
    "iteration": Loader({}, lambda ds, given: ({"collated": [sample]} for sample in ds), 1),
    "index": Loader({}, lambda ds, given: (collated([ds[i]]) for i in range(len(ds))), 1),
    "slices": Loader({}, _by_slices),
    "tf.dataset": Loader(READ, _tf_dataset),
}
PAIRS = [
    pytest.param(name, pair, id=f"{name}: {pair[0]}, {pair[1]}")
    for name, loader in LOADERS.items()
    for pair in combinations([*DATASET, *loader.options], 2)
    if not (name == "DataLoader" and pair == ("on_corrupt", "sampler"))  # the one sample may come twice
]


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same rows whole, and with one of them corrupt."""
    folder = tmp_path_factory.mktemp("pairs")
    for name in ("whole.urec", "damaged.urec"):
        schema = {"i": "int64", "label": "int32", "b": {"type": "uint8", "shape": [1200]}, "r": "bytes"}
        with Writer(folder / name, schema) as writer:
            for i in range(ROWS):
                writer.write(
                    {"i": i, "label": i % 4, "b": np.full(1200, 100 + i, np.uint8), "r": bytes([i]) * 40}
                )
    raw = bytearray((folder / "damaged.urec").read_bytes())
    raw[raw.find(bytes([100 + CHANGED]) * 1200) + 3] ^= 1
    (folder / "damaged.urec").write_bytes(raw)
    return folder / "whole.urec", folder / "damaged.urec"


# ---- what has to come out ------------------------------------------------------------------------------------


def stored(row: int, damaged: bool) -> Sample:
    block = [100 + row] * 1200
    block[3] ^= damaged and row == CHANGED
    return {"i": row, "label": row % 4, "b": block, "r": bytes([row]) * 40}


def chosen(path: Path, options: dict[str, Any]) -> list[int]:
    """Rows of the samples: the condition, then the order, then the shard; the order itself is held elsewhere."""
    names = ("shuffle", "seed", "block_rows", "window_blocks")
    kept = [row for row in range(ROWS) if "where" not in options or row % 4 != 1]
    order = UniRecordDataset(path, **{name: options[name] for name in names if name in options}).select(kept)
    rows: list[int] = order.order.row_ids().tolist()
    if "shard" in options:
        rank, ranks = options["shard"]
        padded = rows + rows[: -len(rows) % ranks] if options.get("remainder") != "uneven" else rows
        rows = padded[rank::ranks]
    return rows


def expected(name: str, path: Path, options: dict[str, Any], damaged: bool) -> list[Made] | None:
    """The batches; None where the corrupt row has to be an error."""
    rows = chosen(path, options)
    if "sampler" in options:
        rows = [rows[i] for i in options["sampler"]]
    noticed = damaged and "columns" not in options and "verify" not in options
    if noticed and CORRUPT & {*rows} and ("on_corrupt" not in options or name in ("index", "slices")):
        return None
    size = LOADERS[name].size
    batches = [rows[at : at + size] for at in range(0, len(rows), size)]
    if "drop_last" in options and len(rows) % size:
        batches.pop()
    marks = frozenset(mark for option, mark in MARKS.items() if option in options)
    made = []
    for batch in batches:
        samples = [sample_of(row, options, damaged) for row in batch if not (noticed and row in CORRUPT)]
        if samples:
            made.append((marks, samples))
    return made


def sample_of(row: int, options: dict[str, Any], damaged: bool) -> Sample:
    whole = stored(row, damaged)
    sample = {name: whole[name] for name in options.get("columns", whole)}
    if "crops" in options:
        place = place_of(row, options.get("seed", 0))
        sample["b"] = sample["b"][place : place + CROP]
        if "return_places" in options:
            sample["b_place"] = [place]
    noise = {}
    if "random" in options:
        noise = drawn(generator(sample_keys(options.get("seed", 0), 0, np.array([row]))[0], 1))
    if "transform=" in options:
        return {**sample, "loader's": row, "here": "num_workers" in options, **noise}
    return {**sample, "dataset's": row, **noise} if "transform" in options else sample


def place_of(row: int, seed: int) -> int:
    """Where the crop of a row begins, as the page of the order says."""
    [key] = sample_keys(seed, 0, np.array([row]))
    state = splitmix64(key ^ unirecord.core.xxh3_64(b"b"), np.zeros(1, np.int64))[0]
    return int(splitmix64(state, np.zeros(1, np.int64))[0]) * (1200 - CROP + 1) >> 64


# ---- what does come out --------------------------------------------------------------------------------------


def made_of(name: str, batch: Any) -> Made:
    marks: set[str] = set()
    if "batch" in batch:
        marks.add("batch")
        batch = batch["batch"]
    if "collated" in batch:
        if name not in ("iteration", "index", "slices"):
            marks.add("collated")
        samples = batch["collated"]
    else:
        columns = [getattr(values, "to_list", values.__iter__)() for values in batch.values()]
        samples = [dict(zip(batch, values, strict=True)) for values in zip(*columns, strict=True)]
    return frozenset(marks), [{key: _plain(value) for key, value in sample.items()} for sample in samples]


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.shape == (40,):
        return value.tobytes()
    return value.tolist() if hasattr(value, "tolist") else value


def opened(name: str, path: Path, options: dict[str, Any]) -> UniRecordDataset:
    given = {option: options[option] for option in DATASET if option in options and option != "shard"}
    if "shard" in options:
        given["shard_id"], given["num_shards"] = options["shard"]
    if name != "view":
        return UniRecordDataset(path, **given)
    of_class = {option: given.pop(option) for option in ("io", "verify") if option in given}
    return UniRecordDataset(path, **of_class).view(**given)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("name", "pair"), PAIRS)
def test_both_options_of_a_pair_are_obeyed(
    paths: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    pair: tuple[str, str],
) -> None:
    monkeypatch.chdir(tmp_path)
    loader = LOADERS[name]
    options = {option: {**DATASET, **loader.options}[option] for option in pair}
    damaged = "on_corrupt" in options or "verify" in options
    path = paths[damaged]
    if {"block_rows", "window_blocks"} & {*options} and options.get("shuffle") != "block":
        with pytest.raises(ValueError, match='sizes for shuffle="block"'):
            opened(name, path, options)
        return
    ds = opened(name, path, options)
    asked: list[dict[str, Any]] = []
    open_loader = PartSet.open_loader

    def seen(self: PartSet, **given: Any) -> Any:
        asked.append(given)
        return open_loader(self, **given)

    monkeypatch.setattr(PartSet, "open_loader", seen)
    given = {option.rstrip("="): options[option] for option in options if option in loader.options}
    if "random" in options and not {"transform", "transform="} & {*options}:
        with pytest.raises(ValueError, match="there is none: give transform="):
            loader.read(ds, given)
        return
    if "return_places" in options and "crops" not in options:
        with pytest.raises(ValueError, match="give crops="):
            loader.read(ds, given)
        return
    if name == "tf.dataset" and "transform" in options:
        with pytest.raises(ValueError, match=r"view\(transform=None\)"):
            list(loader.read(ds, given))
        return
    if "crops" in options and "columns" in options:
        with pytest.raises(SchemaError, match="no column 'b' in these batches"):
            loader.read(ds, given)
        return
    wanted = expected(name, paths[0], options, damaged)
    if wanted is None:
        with pytest.raises(CorruptionError if name != "tf.dataset" else Exception, match=r"row 1[45]"):
            list(loader.read(ds, given))
        return
    batches = list(loader.read(ds, given))
    if options.get("device") == "meta" and "collate_fn" not in options:
        assert {batch["i"].device.type for batch in batches} == {"meta"}
        assert [len(batch["i"]) for batch in batches] == [len(samples) for _, samples in wanted]
    else:
        assert [made_of(name, batch) for batch in batches] == wanted
    assert ds.io == options.get("io", ds.io)
    if name != "DataLoader":
        assert ds.state_dict()["seed"] == options.get("seed", 0)
    if "receipts" in options:
        report = unirecord.audit("receipts", ds)
        assert report.ok != ("shard" in options)  # the other ranks have none
        assert report.problems == ()
    for option, told in (("prefetch", "prefetch"), ("num_threads", "threads")):
        if option in options:
            assert [call[told] for call in asked] == [options[option]]


def test_each_option_of_the_order_has_an_effect(paths: tuple[Path, Path]) -> None:
    """Else the pairs would show nothing."""
    path = paths[0]
    plain = chosen(path, {})
    assert plain == list(range(ROWS))
    for option in ("shard", "where", "shuffle"):
        assert chosen(path, {option: DATASET[option]}) != plain
    blocks = {"shuffle": "block", "block_rows": DATASET["block_rows"]}
    assert chosen(path, blocks) != chosen(path, {"shuffle": "block"})
    for option in ("seed", "window_blocks"):
        assert chosen(path, {**blocks, option: DATASET[option]}) != chosen(path, blocks)
    shard = {"shard": DATASET["shard"]}
    assert chosen(path, {**shard, "remainder": "uneven"}) != chosen(path, shard)


def test_no_option_of_a_loader_is_left_out() -> None:
    apart = {
        "path",
        "shard_id",
        "num_shards",
        *("storage_options", "cache", "cache_bytes"),  # refused of files: test_store_faults.py, test_cache.py
        "version",  # another name for another path: test_versions.py
    }
    of_class = set(inspect.signature(UniRecordDataset).parameters) - apart
    assert of_class == set(DATASET) - {"shard"}
    for name, function in (
        ("batches", UniRecordDataset.batches),
        ("torch", unirecord.torch.loader),
        ("tf.dataset", unirecord.tf.dataset),
    ):
        # test_torch_sampler.py holds what a batch sampler goes with.
        apart = {"self", "ds", "batch_size", "batch_sampler"}
        known = set(inspect.signature(function).parameters) - apart
        assert known == {option.rstrip("=") for option in LOADERS[name].options}
    seen_otherwise = set(inspect.signature(UniRecordDataset.view).parameters) - {
        "self",
        "shard_id",
        "num_shards",
    }
    assert seen_otherwise == of_class - {"io", "verify"}
