"""The column ``row``: the number of each row in the dataset, in samples and batches, wherever they come from."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unirecord
from unirecord import SchemaError, UniRecordDataset, Writer

ROWS = 60
COLUMNS = ["n", "row", "text"]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two parts; n is ten times the row's number, and row 7 is deleted."""
    path = tmp_path_factory.mktemp("rows") / "data"
    for first in (0, 40):
        opened = (
            unirecord.append(path)
            if first
            else Writer(path, {"n": "int64", "text": "string?", "tokens": "uint16[-1]"})
        )
        with opened as writer:
            for n in range(first, min(first + 40, ROWS)):
                writer.write({"n": n * 10, "text": f"t{n}", "tokens": np.arange(n % 5 + 1, dtype=np.uint16)})
    unirecord.delete(path, rows=[7])
    return str(path)


def opened(path: str, **options: Any) -> UniRecordDataset:
    return UniRecordDataset(path, columns=COLUMNS, shuffle=True, seed=3, **options)


def check(samples: Any) -> list[int]:
    """The numbers of the rows, which are those of the other columns."""
    rows = []
    for sample in samples:
        assert list(sample) == ["n", "text", "row"]
        assert int(sample["n"]) == 10 * int(sample["row"])
        assert sample["text"] == f"t{sample['row']}"
        rows.append(int(sample["row"]))
    return rows


def of_batches(batches: Any) -> list[int]:
    rows: list[int] = []
    for batch in batches:
        numbers = np.asarray(batch["row"])
        assert numbers.dtype == np.int64
        assert np.array_equal(np.asarray(batch["n"]), 10 * numbers)
        rows += numbers.tolist()
    return rows


def test_samples_and_batches_have_it(path: str) -> None:
    ds = opened(path)
    expected = ds.order.row_ids().tolist()
    assert len(expected) == ROWS - 1
    assert check(ds[:]) == check(ds[i] for i in range(len(ds))) == expected
    assert check(ds.head(4)) == expected[:4]
    assert check([ds[0, 5]]) == expected[5:6]
    ds.set_epoch(0)
    assert check(ds) == expected
    ds.set_epoch(0)
    assert of_batches(ds.batches(7)) == expected
    ds.set_epoch(0)
    assert of_batches(ds.batches(7, transform=lambda sample: sample, num_workers=2)) == expected
    assert isinstance(ds[0]["row"], np.int64)
    assert of_batches([ds.read_rows(np.array([5, 3]))]) == [5, 3]
    assert check([ds.get("n", 30)]) == [3]


def test_batches_keep_their_numbers(path: str) -> None:
    ds = opened(path)
    kept = list(ds.batches(4, prefetch=1))
    assert sorted(of_batches(kept)) == [row for row in range(ROWS) if row != 7]
    kept[0]["row"][:] = -1  # an array of the caller's own
    assert kept[0]["n"][0] >= 0


def test_with_conditions_ranks_exclusions_and_alone(path: str) -> None:
    ds = opened(path, where="row >= 50", shard_id=0, num_shards=2)
    other = ds.view(shard_id=1, num_shards=2)
    assert sorted(check(ds) + check(other)) == list(range(50, 60))
    narrow = opened(path)
    narrow.exclude(rows=[3, 4, 5])
    assert set(check(narrow)) == set(range(ROWS)) - {3, 4, 5, 7}
    narrow.set_epoch(1)
    assert set(of_batches(narrow.batches(8))) == set(range(ROWS)) - {3, 4, 5, 7}
    alone = UniRecordDataset(path, columns=["row"])
    assert alone[7]["row"] == 8
    assert [int(row) for batch in alone.batches(9) for row in batch["row"]] == alone.order.row_ids().tolist()


def test_a_pipeline_has_it(path: str) -> None:
    ds = opened(path)
    expected = ds.order.row_ids().tolist()
    assert of_batches(ds.pipeline().batch(8)) == expected
    ds.set_epoch(0)
    assert [int(row) for row in ds.pipeline().map(lambda sample: sample["row"])] == expected
    ds.set_epoch(0)
    doubled = ds.pipeline().map(lambda row: row * 2, columns=["row"]).batch(8)
    assert [int(row) // 2 for batch in doubled for row in batch["row"]] == expected


def test_torch_has_it(path: str) -> None:
    torch = pytest.importorskip("torch")
    from torch.utils.data import DataLoader

    ds = opened(path)
    expected = ds.order.row_ids().tolist()
    batches = list(unirecord.torch.loader(ds, 8))
    assert all(batch["row"].dtype == torch.int64 for batch in batches)
    assert of_batches(batches) == expected
    stock = of_batches(DataLoader(ds.view(seed=4), batch_size=8, num_workers=2))
    assert sorted(stock) == sorted(expected)


def test_a_copy_in_another_process_has_it(path: str) -> None:
    ds = opened(path)
    again = pickle.loads(pickle.dumps(ds))
    assert check(again[:]) == check(ds[:])


def test_after_a_refresh_and_a_resume(tmp_path: Path) -> None:
    with Writer(tmp_path / "data", {"n": "int64", "text": "string"}) as writer:
        for n in range(5):
            writer.write({"n": n * 10, "text": f"t{n}"})
    ds = opened(str(tmp_path / "data"))
    with unirecord.append(tmp_path / "data") as writer:
        writer.write({"n": 50, "text": "t5"})
    ds.refresh()
    assert sorted(check(ds[:])) == list(range(6))
    rest = iter(ds)
    first = check([next(rest)])
    again = opened(str(tmp_path / "data"))
    again.load_state_dict(ds.state_dict())
    assert sorted(first + check(again)) == list(range(6))


def test_a_column_of_that_name_comes_first(tmp_path: Path) -> None:
    with Writer(tmp_path / "own.urec", {"row": "string", "n": "int8"}) as writer:
        writer.write({"row": "mine", "n": 1})
    ds = UniRecordDataset(tmp_path / "own.urec", columns=["n", "row"])
    assert ds[0] == {"n": 1, "row": "mine"}
    assert next(iter(ds.batches(1)))["row"] == ["mine"]


def test_a_mixture_has_the_numbers_of_all_sources_together(path: str) -> None:
    one, other = UniRecordDataset(path), UniRecordDataset(path, where="row < 5")
    mixed = unirecord.mix({"a": one, "b": other}, weights={"a": 1, "b": 1}).view(columns=["n", "row"])
    for sample in mixed:
        assert list(sample) == ["n", "row", "source"]
        assert sample["row"] % ROWS * 10 == sample["n"]
        assert (sample["row"] < ROWS) == (sample["source"] == "a")
    with pytest.raises(ValueError, match=r"ask the mixture for them"):
        unirecord.mix({"a": opened(path), "b": other}, weights={"a": 1, "b": 1})


def test_it_is_refused_where_it_has_no_meaning(path: str) -> None:
    ds = opened(path)
    tables: list[Any] = [ds.to_arrow, ds.to_batches, ds.to_pandas, ds.__arrow_c_stream__]
    tables += [lambda: unirecord.hf.table(ds), lambda: unirecord.polars.scan(ds)]
    for table in tables:
        with pytest.raises(ValueError, match="tables do not"):
            table()
    assert ds.to_arrow(["n"]).num_rows == ROWS - 1
    with pytest.raises(SchemaError, match="no column 'row'"):
        ds.scalars(["row"])
    windows = unirecord.windows(UniRecordDataset(path), "tokens", 4)
    with pytest.raises(SchemaError, match="no column 'row'"):
        windows.view(columns=["tokens", "row"])
    with pytest.raises(ValueError, match="twice"):
        UniRecordDataset(path, columns=["row", "n", "row"])
