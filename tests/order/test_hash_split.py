"""Splits by a hash of the row: the rule of the page, the same as a conversion's, stable, grouped, stratified."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unirecord
from unirecord import SchemaError, write_dataset
from unirecord.core import Bitmap, xxh3_64
from unirecord.order import split as split_module
from unirecord.order.split import Cells, Strata, bounds_of, exact_shares, row_hashes, share_of_each

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "split_vectors.json").read_text())
SHARES = {"train": 0.7, "val": 0.1, "test": 0.2}
ROWS = 400

SCHEMA: dict[str, Any] = {
    "i": "int64",
    "user": "string?",
    "label": "int8?",
    "flag": "bool",
    "score": "float32?",
    "note": "text?",
    "raw": "bytes",
    "thing": "object?",
    "tokens": {"type": "uint16", "shape": [-1]},
    "grid": {"type": "float32?", "shape": [-1, -1]},
    "point": {"type": "int16?", "shape": [3]},
}


def record(i: int) -> dict[str, Any]:
    rng = np.random.default_rng(i)
    return {
        "i": i,
        "user": None if i % 31 == 0 else f"user {i % 37}",
        "label": None if i % 29 == 0 else i % 7 % 4 - 1,
        "flag": i % 3 == 0,
        "score": None if i % 5 == 0 else i / 7,
        "note": None if i % 4 == 0 else "é" * (i % 9),
        "raw": bytes(i % 11),
        "thing": None if i % 6 == 0 else {"a": [i, None, 1.5], "b": "x"},
        "tokens": np.arange(i % 13, dtype=np.uint16),
        "grid": None if i % 8 == 0 else rng.random((i % 3, 1 + i % 4), np.float32),
        "point": None if i % 7 == 0 else np.array([i, -i, 0], np.int16),
    }


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("split") / "d"
    with unirecord.Writer(folder, SCHEMA, max_part_bytes=20_000) as writer:
        for i in range(ROWS):
            writer.write(record(i))
    return folder


@pytest.fixture
def ds(path: Path) -> Any:
    with unirecord.UniRecordDataset(path) as opened:
        yield opened


def rows(shares: dict[str, Any]) -> dict[str, list[int]]:
    return {name: share.order.row_ids().tolist() for name, share in shares.items()}


def mixed(state: int, seed: int) -> int:
    """Step seed + 1 of SplitMix64 from a state."""
    z = (state + (seed + 1) * 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    return z ^ z >> 31


def reference_hash(cells: Sequence[tuple[bytes, bool | None]], seed: int) -> int:
    found = 0
    for value, valid in cells:
        found = mixed(found ^ xxh3_64(value), seed)
        if valid is not None:
            found = mixed(found ^ int(valid), seed)
    return found


def reference_share(hash_: int, shares: Sequence[Fraction], of_value: Sequence[int] | None) -> int:
    """The share by the page; ``of_value`` are the hashes of all rows of the stratum."""
    share = 0
    for k in range(1, len(shares)):
        end = sum(shares[:k], Fraction(0))
        if of_value is None:
            share += hash_ >= int(end * 2**64 + Fraction(1, 2))
        else:
            cut = int(end * len(of_value) + Fraction(1, 2))
            share += cut < len(of_value) and hash_ >= sorted(of_value)[cut]
    return share


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.binary(max_size=3), st.integers(0, 3), st.booleans()), min_size=1, max_size=40),
    st.integers(0, 2**64 - 1),
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
    st.integers(1, 20),
)
def test_shares_are_those_of_the_formula(
    given_rows: list[tuple[bytes, int, bool]], seed: int, weights: list[int], at_once: int
) -> None:
    shares = exact_shares([Fraction(weight, sum(weights)) for weight in weights])
    lengths = [len(value) for value, _, _ in given_rows]
    valid = np.array([there for _, _, there in given_rows])
    texts = Cells(
        np.frombuffer(b"".join(value for value, _, _ in given_rows), np.uint8),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        None,
    )
    numbers = Cells.of_width(np.array([number if there else 0 for _, number, there in given_rows]), valid)
    hashes = row_hashes([texts, numbers], seed)
    expected = [
        reference_hash([(value, None), ((number if there else 0).to_bytes(8, "little"), there)], seed)
        for value, number, there in given_rows
    ]
    assert hashes.tolist() == expected
    plain = share_of_each(hashes, [bounds_of(shares)])
    assert plain.tolist() == [reference_share(one, shares, None) for one in expected]
    strata = Strata()
    cut = len(given_rows) // 3
    for some in (slice(0, cut), slice(cut, None)):
        strata.add(hashes[some], Cells.of_width(numbers.data.reshape(-1, 8)[some], valid[some]))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(split_module, "_SORTED_AT_ONCE", at_once)
        bounds = list(strata.bounds(shares).values())
    found = np.concatenate([share_of_each(part, bounds, codes) for part, codes in strata.pieces])
    key = [number if there else None for _, number, there in given_rows]
    of_value = {value: [h for h, k in zip(expected, key, strict=True) if k == value] for value in key}
    assert found.tolist() == [
        reference_share(one, shares, of_value[value]) for one, value in zip(expected, key, strict=True)
    ]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: f"{v['seed']}-{v['stratify']}")
def test_frozen_splits_are_reproduced(tmp_path: Path, vector: dict[str, Any]) -> None:
    with unirecord.Writer(tmp_path / "v.urec", {"n": "int32", "key": "string?"}) as writer:
        for n, key in zip(vector["n"], vector["key"], strict=True):
            writer.write({"n": n, "key": key})
    with unirecord.UniRecordDataset(tmp_path / "v.urec") as ds:
        asked = {name: vector[name] for name in ("seed", "by", "stratify")}
        assert rows(ds.split(vector["shares"], **asked)) == vector["rows"]


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"by": "user"},
        {"by": "tokens"},
        {"stratify": "label"},
        {"stratify": "user"},
        {"stratify": "thing"},
    ],
    ids=str,
)
def test_it_is_the_split_of_a_conversion(
    ds: Any, path: Path, tmp_path: Path, how: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unirecord.order.selection.CHUNK", 96)  # rows are hashed in several pieces
    monkeypatch.setattr("unirecord.query.columns._MOST_ROWS", 40)
    asked = {"split_by" if name == "by" else name: column for name, column in how.items()}
    write_dataset(path, tmp_path / "out", split=SHARES, seed=9, where="i != 5", **asked)
    found = rows(ds.view(where="i != 5").split(SHARES, seed=9, **how))
    assert list(found) == list(SHARES)
    for name, chosen in found.items():
        with unirecord.UniRecordDataset(tmp_path / "out" / name) as written:
            assert [int(i) for i in written["i"]] == chosen
    assert sorted(row for chosen in found.values() for row in chosen) == [i for i in range(ROWS) if i != 5]


def test_rows_that_are_added_move_no_other(tmp_path: Path) -> None:
    with unirecord.Writer(tmp_path / "d", {"i": "int64", "user": "string"}) as writer:
        writer.write_batch({"i": np.arange(300), "user": [f"u{i % 50}" for i in range(300)]})
    ds = unirecord.UniRecordDataset(tmp_path / "d")
    before = [ds.split(SHARES), ds.split(SHARES, by="user", seed=3)]
    with unirecord.append(tmp_path / "d") as writer:
        writer.write_batch({"i": np.arange(300, 500), "user": [f"u{i % 90}" for i in range(200)]})
    with unirecord.UniRecordDataset(tmp_path / "d") as longer:
        after = [longer.split(SHARES), longer.split(SHARES, by="user", seed=3)]
    for old, new in zip(before, after, strict=True):
        for name in SHARES:
            assert [row for row in rows(new)[name] if row < 300] == rows(old)[name]
    assert rows(ds.split(SHARES, seed=1)) != rows(before[0])
    ds.close()


def test_rows_of_a_key_are_in_one_share_and_each_value_is_cut_exactly(ds: Any) -> None:
    of_user = defaultdict(set)
    for name, share in ds.split(SHARES, by="user", seed=1).items():
        for user in share["user"]:
            of_user[user].add(name)
    assert len(of_user) == 38
    assert all(len(names) == 1 for names in of_user.values())
    assert set.union(*of_user.values()) == set(SHARES)
    every = Counter(record(i)["label"] for i in range(ROWS))
    shares = ds.split(SHARES, stratify="label", seed=1)
    for label, count in every.items():
        cuts = [0, *(int(end * count + Fraction(1, 2)) for end in (Fraction(7, 10), Fraction(8, 10), 1))]
        got = [
            sum(record(i)["label"] == label for i in share.order.row_ids().tolist())
            for share in shares.values()
        ]
        assert got == [b - a for a, b in pairwise(cuts)]


def test_shares_are_selections_like_any_other(ds: Any) -> None:
    train = ds.view(shuffle=True, seed=4, num_shards=2, shard_id=1).split({"a": 0.5, "b": 0.5})["a"]
    assert isinstance(train.read_cursor.plan.order.selection.bitmap, Bitmap)
    loader = train.batches(8)
    first = next(iter(loader))
    again = ds.view(shuffle=True, seed=4, num_shards=2, shard_id=1).split({"a": 0.5, "b": 0.5})["a"]
    again.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    assert [int(sample["i"]) for sample in again] == train.order.row_ids().tolist()[8:]
    assert first["i"].tolist() == train.order.row_ids(0, 8).tolist()
    backwards = ds.select(range(ROWS - 1, -1, -1)).split({"a": 0.5, "b": 0.5})["a"]
    assert sorted(backwards.order.row_ids().tolist(), reverse=True) == backwards.order.row_ids().tolist()
    assert set(backwards.order.row_ids().tolist()) == set(
        ds.split({"a": 0.5, "b": 0.5})["a"].order.row_ids().tolist()
    )
    one = ds.split({"all": 1})["all"]
    assert one.order.row_ids().tolist() == list(range(ROWS))


def test_a_key_is_read_alone(ds: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    parts = ds.read_cursor.plan.data.parts
    read = type(parts).read
    monkeypatch.setattr(
        type(parts),
        "read",
        lambda self, some, columns: asked.append(list(columns)) or read(self, some, columns),
    )
    ds.split(SHARES, by="user")
    assert asked
    assert all(columns == [list(SCHEMA).index("user")] for columns in asked)


@pytest.mark.parametrize(
    ("split", "error", "text"),
    [
        (lambda ds: ds.split({"a": 0.5, "b": 0.4}), ValueError, "add up to 1"),
        (lambda ds: ds.split({"a": 1.5, "b": -0.5}), ValueError, "more than 0"),
        (lambda ds: ds.split({"a": "x", "b": 0.5}), ValueError, "are numbers"),
        (lambda ds: ds.split({}), ValueError, "named by strings"),
        (lambda ds: ds.split({1: 0.5, 2: 0.5}), ValueError, "named by strings"),
        (lambda ds: ds.split(SHARES, seed=None), ValueError, "takes a seed"),
        (lambda ds: ds.split(SHARES, seed=-1), ValueError, "seed"),
        (lambda ds: ds.split(SHARES, by="user", stratify="label"), ValueError, "exclude each other"),
        (lambda ds: ds.split([0.5, 0.5], by="user"), ValueError, "named shares"),
        (lambda ds: ds.split(0.5, stratify="label"), ValueError, "named shares"),
        (lambda ds: ds.split(SHARES, by="usr"), SchemaError, "usr"),
        (lambda ds: ds.split(SHARES, stratify="lable"), SchemaError, "lable"),
        (lambda ds: unirecord.windows(ds, "tokens", 5).split(SHARES), ValueError, "split the documents"),
        (lambda ds: unirecord.mix({"a": ds}).split(SHARES), ValueError, "before a mixture is made"),
    ],
)
def test_what_cannot_be_obeyed_is_refused(ds: Any, split: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        split(ds)
