"""Every method of a dataset obeys each of its options, or refuses: none is left out without a word."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unirecord
from unirecord import UniRecordDataset, Writer

ROWS = 24
EVERY = list(range(ROWS))
NAMES = ["i", "k", "w", "b"]

Found = tuple[list[int], list[str]]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("options") / "a.urec"
    with Writer(path, {"i": "int64", "k": "int32", "w": "float64", "b": "bytes"}) as writer:
        writer.write_batch({"i": EVERY, "k": [i % 3 for i in EVERY], "w": [1.0] * ROWS, "b": [b"x"] * ROWS})
    return path


def of_columns(batches: Iterable[Any]) -> Found:
    rows: list[int] = []
    names: list[str] = []
    for batch in batches:
        rows += np.asarray(batch["i"]).reshape(-1).tolist()
        names = list(batch)
    return rows, names


def of_samples(samples: Iterable[Any]) -> Found:
    return of_columns({name: [value] for name, value in sample.items()} for sample in samples)


# What gives samples: those of this shard in this epoch, in its order.
SAMPLES: dict[str, Callable[[UniRecordDataset], Found]] = {
    "__iter__": of_samples,
    "__getitem__": lambda ds: of_samples(ds[:]),
    "__getitems__": lambda ds: of_samples(ds.__getitems__(range(len(ds)))),
    "head": lambda ds: of_samples(ds.head(100)),
    "batches": lambda ds: of_columns(ds.batches(5)),
    "pipeline": lambda ds: of_columns(ds.pipeline().batch(5)),
    "order.replay": lambda ds: of_columns([ds.order.replay(0, len(ds))]),
    "hf.dataset": lambda ds: of_samples(unirecord.hf.dataset(ds)),
    "hf.table": lambda ds: of_columns([unirecord.hf.table(ds)[:]]),
    "scalars of samples": lambda ds: of_columns([ds.scalars(order="samples")]),
    "select": lambda ds: of_samples(ds.select(range(ds.num_rows))),
    "take": lambda ds: of_samples(ds.take(100)),
    "skip": lambda ds: of_samples(ds.skip(0)),
    "view": lambda ds: of_samples(ds.view()),
}
# What gives all selected rows as they are stored, before sharding and shuffling, and calls no transform.
STORED: dict[str, Callable[[UniRecordDataset], Found]] = {
    "scalars": lambda ds: of_columns([ds.scalars()]),
    "to_arrow": lambda ds: of_columns([ds.to_arrow().to_pydict()]),
    "to_pandas": lambda ds: of_columns([ds.to_pandas().to_dict("list")]),
    "to_batches": lambda ds: of_columns([ds.to_batches().read_all().to_pydict()]),
}
# What gives samples in an order of its own.
DRAWN: dict[str, Callable[[UniRecordDataset], Found]] = {
    "sample": lambda ds: of_samples(ds.sample(100)),
    "get": lambda ds: of_samples(one for i in EVERY if (one := ds.get("i", i, None)) is not None),
    "order.rows_of": lambda ds: of_columns([ds.order.rows_of(0, len(ds), read=True)]),
    "unirecord.weighted": lambda ds: of_samples(unirecord.weighted(ds, "w", replacement=False)),
    "split": lambda ds: of_samples(sample for part in ds.split([0.5, 0.5]) for sample in part),
}
# What says something of the dataset, changes it, or is a method of those above.
OTHERS = {
    *("cache_stats", "close", "column_names", "distributed", "epoch", "exclude", "excluded_rows", "io"),
    *("load_state_dict", "locate", "metadata", "num_rows", "num_shards", "on_corrupt", "path", "order"),
    *("read_part", "read_rows", "refresh", "schema", "set_epoch", "shard_id", "state_dict", "transform"),
}


def excluded(path: Path, *, fill: bool) -> UniRecordDataset:
    ds = UniRecordDataset(path)
    ds.exclude([0, 1, 2], fill=fill)
    return ds


OPTIONS: dict[str, Callable[[Path], UniRecordDataset]] = {
    "columns": lambda path: UniRecordDataset(path, columns=["k", "i"]),
    "where": lambda path: UniRecordDataset(path, where="i >= 18"),
    "shuffle": lambda path: UniRecordDataset(path, shuffle=True, seed=7),
    "shard": lambda path: UniRecordDataset(path, 1, 4),
    "selection": lambda path: UniRecordDataset(path).select([5, 4, 3]),
    "transform": lambda path: UniRecordDataset(path, transform=lambda sample: {"i": sample["i"] + 100}),
    "excluded": lambda path: excluded(path, fill=False),
    "filled": lambda path: excluded(path, fill=True),
}
REFUSED = {
    *(("transform", name) for name in ("hf.dataset", "hf.table")),
    *(("excluded", name) for name in ("__getitem__", "head", "sample")),
    *((option, name) for option in ("excluded", "filled") for name in STORED),
    *((option, name) for option in ("excluded", "filled") for name in ("hf.table", "scalars of samples")),
}
SELECTED = {"where": EVERY[18:], "selection": [5, 4, 3], "excluded": EVERY[3:], "filled": EVERY[3:]}


def test_every_method_is_in_the_table() -> None:
    public = {name for name in dir(UniRecordDataset) if not name.startswith("_")}
    assert public <= SAMPLES.keys() | STORED.keys() | DRAWN.keys() | OTHERS
    assert {name for name in (*SAMPLES, *STORED, *DRAWN) if name.isidentifier()} <= set(dir(UniRecordDataset))


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("name", [*SAMPLES, *STORED, *DRAWN])
def test_a_method_obeys_an_option_of_the_dataset_or_refuses(path: Path, name: str, option: str) -> None:
    read = {**SAMPLES, **STORED, **DRAWN}[name]
    ds = OPTIONS[option](path)
    if (option, name) in REFUSED:
        with pytest.raises((ValueError, IndexError), match=r"exclude|transform"):
            read(ds)
        return
    rows, names = read(ds)
    expected = SELECTED.get(option, EVERY)
    if option == "transform" and name not in STORED and name not in ("order.rows_of", "scalars of samples"):
        assert (sorted(rows), names) == ([i + 100 for i in EVERY], ["i"])
        return
    if option == "filled" and name != "get":
        assert set(rows) == set(expected)
        assert len(rows) == ROWS
    elif option == "shard" and (name in SAMPLES or name == "sample"):
        assert sorted(rows) == EVERY[1::4]
    elif option == "shard" and name in ("unirecord.weighted", "split"):
        assert len(rows) == ROWS // 4
    else:
        assert sorted(rows) == sorted(expected)
    if option in ("shuffle", "selection") and name in SAMPLES and name not in ("select", "take", "skip"):
        assert rows == ds.order.row_ids().tolist()
    chosen = ["k", "i"] if option == "columns" else NAMES
    scalar = name in ("scalars", "scalars of samples", "to_arrow", "to_pandas", "hf.table")
    assert names == [one for one in chosen if not (scalar and one == "b")]


def test_columns_of_which_none_is_scalar_are_not_taken_for_all(path: Path) -> None:
    ds = UniRecordDataset(path, columns=["b"])
    with pytest.raises(ValueError, match=r"\['b'\], none of them scalar"):
        ds.scalars()
    assert ds.to_arrow().column_names == list(ds.to_pandas().columns) == ["b"]
    assert list(ds.scalars(["k"])) == ["k"]
    assert ds.to_arrow(["b"]).column_names == ["b"]
