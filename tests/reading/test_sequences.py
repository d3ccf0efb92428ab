"""Sequences: every sample and batch against a plain model, in every order, on any ranks, over data of every kind."""

from __future__ import annotations

import pickle
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from objectstore import Server, serving

import unirecord
from unirecord import QueryError, SchemaError, UniRecordDataset
from unirecord.cli import main
from unirecord.storage import object_store

ROWS = 120
SCHEMA = {
    "episode": "int64", "time": {"type": "int64", "logical": {"type": "timestamp", "unit": "ms"}}, "s": "float32",
    "n": "int64", "state": "float32[3]", "image": {"type": "uint8", "shape": [4, 5, 3], "codec": "zstd"},
    "q": "int32?", "v": "int16[2]?", "name": "string", "text": "text?", "f": "int16[-1]", "o": "object",
}  # fmt: skip
ORDINARY = ["state", "image", "q", "v", "name", "text", "f", "o", "n", "time"]


def table() -> list[dict[str, Any]]:
    rng = np.random.default_rng(5)
    episodes = np.sort(rng.integers(0, 9, ROWS))
    steps = np.cumsum(rng.integers(90, 130, ROWS))
    return [
        {
            "episode": int(episodes[i]), "time": int(steps[i]), "s": np.float32(i / 10), "n": i,
            "state": rng.random(3).astype(np.float32), "image": rng.integers(0, 255, (4, 5, 3)).astype(np.uint8),
            "q": None if i % 7 == 3 else i, "v": None if i % 5 == 1 else np.array([i, -i], np.int16),
            "name": "é" * (i % 4), "text": None if i % 6 == 0 else f"row {i}", "f": np.arange(i % 4, dtype=np.int16),
            "o": {"row": i},
        }
        for i in range(ROWS)
    ]  # fmt: skip


TABLE = table()


@pytest.fixture(scope="module", params=["parts", "one", "deleted", "added"])
def given_data(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A dataset with the rows of TABLE that it has, by their numbers."""
    path = tmp_path_factory.mktemp("sequences") / "data"
    path.mkdir()
    later = ("state", "o") if request.param == "added" else ()
    schema = {name: kind for name, kind in SCHEMA.items() if name not in later}
    where, size = (path / "0.urec", None) if request.param == "one" else (path, 2_600)
    with unirecord.Writer(where, schema, max_part_bytes=size) as writer:
        for row in TABLE:
            writer.write({name: row[name] for name in schema})
    if request.param == "added":
        for name in ("state", "o"):
            unirecord.add_columns(path, {name: SCHEMA[name]}, _added(name), reads=["n"])
    there = list(range(ROWS))
    if request.param == "deleted":
        unirecord.delete(path, where="n >= 20 and n < 25 or n == 60")
        there = [i for i in there if not (20 <= i < 25 or i == 60)]
    with UniRecordDataset(path / "0.urec" if request.param == "one" else path) as ds:
        if request.param != "one":
            assert len(ds.read_cursor.plan.data.snapshot.parts) > 2
        yield ds, there


def _added(name: str) -> Any:
    return lambda batch: {name: [TABLE[n][name] for n in batch["n"].tolist()]}


def group(there: list[int], row: int) -> list[int]:
    return [i for i in there if TABLE[i]["episode"] == TABLE[row]["episode"]]


def model(
    there: list[int], row: int, offset: Any, *, tolerance: int = 0, match: str = "nearest"
) -> tuple[int, bool]:
    """The row at an offset from another, and whether there is none, of which it is the nearest; in milliseconds."""
    mine = group(there, row)
    if isinstance(offset, int):
        place = mine.index(row) + offset
        return mine[min(max(place, 0), len(mine) - 1)], not 0 <= place < len(mine)
    wanted = TABLE[row]["time"] + int(offset.removesuffix("ms"))
    apart = [abs(TABLE[i]["time"] - wanted) for i in mine]
    if match == "before":
        earlier = [i for i in mine if TABLE[i]["time"] <= wanted]
        found = earlier[-1] if earlier else mine[0]
        return found, not earlier or wanted - TABLE[found]["time"] > tolerance
    found = mine[apart.index(min(apart))]
    return found, min(apart) > tolerance


def plain(value: Any) -> Any:
    """A value as Python has it, None where null."""
    if isinstance(value, np.ma.MaskedArray):
        return [None if np.ma.getmaskarray(one).all() else plain(np.ma.getdata(one)) for one in value]
    if isinstance(value, np.ndarray) and value.dtype.kind == "M":
        return value.astype("M8[ms]").astype(np.int64).tolist()
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, list):
        return [plain(one) for one in value]
    return value


def expected(there: list[int], row: int, at: dict[str, Any], edges: str, **match: Any) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name in ORDINARY:
        if name not in at:
            continue
        found = [model(there, row, offset, **match) for offset in at[name]]
        values = [plain(TABLE[i][name]) for i, _ in found]
        if edges == "partial":
            zero = plain(np.zeros_like(TABLE[0][name])) if name in ("state", "image", "n", "time") else None
            values = [zero if missing else value for value, (_, missing) in zip(values, found, strict=True)]
        made[name], made[f"{name}.is_pad"] = values, [missing for _, missing in found]
    return made


def anchors(there: list[int], at: dict[str, Any], edges: str, stride: int, **match: Any) -> list[int]:
    kept: list[int] = []
    for episode in sorted({row["episode"] for row in TABLE}):
        rows = [i for i in there if TABLE[i]["episode"] == episode]
        if edges == "drop":
            rows = [
                i
                for i in rows
                if not any(model(there, i, of, **match)[1] for each in at.values() for of in each)
            ]
        kept += [
            i for i in rows if (group(there, i).index(i) - group(there, rows[0]).index(rows[0])) % stride == 0
        ]
    return kept


OFFSETS = st.one_of(
    st.lists(st.integers(-12, 12), min_size=1, max_size=5),
    st.lists(st.integers(-1500, 1500).map("{}ms".format), min_size=1, max_size=4),
)


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_samples_and_batches_are_those_of_a_plain_model(given_data: Any, data: Any) -> None:
    ds, there = given_data
    at = data.draw(st.dictionaries(st.sampled_from(ORDINARY), OFFSETS, min_size=1, max_size=5))
    edges, stride = data.draw(st.sampled_from(["pad", "partial", "drop"])), data.draw(st.integers(1, 4))
    timed = any(isinstance(of, str) for each in at.values() for of in each)
    match: dict[str, Any] = {}
    if timed:
        match = {
            "tolerance": data.draw(st.sampled_from([0, 30, 5000])),
            "match": data.draw(st.sampled_from(["nearest", "before"])),
        }
    options = {**match, "tolerance": f"{match['tolerance']}ms"} if timed else {}
    wanted = anchors(there, at, edges, stride, **match)
    shuffle = data.draw(st.sampled_from([False, True, "block", "parts", "within-parts"]))
    made = ds.view(shuffle=shuffle, seed=3, columns=None)
    if not wanted:
        with pytest.raises(ValueError, match="can be an anchor"):
            unirecord.sequences(
                made, by="episode", order="time", at=at, edges=edges, stride=stride, **options
            )
        return
    found = unirecord.sequences(
        made, by="episode", order="time", at=at, edges=edges, stride=stride, **options
    )
    rows = found.order.row_ids().tolist()
    assert sorted(rows) == wanted
    assert shuffle or rows == wanted
    size, place = data.draw(st.integers(1, 40)), 0
    for batch in found.batches(size, num_threads=2):
        for i in range(len(batch["s"])):
            row = rows[place]
            sample = {name: value[i] for name, value in batch.items()}
            want = expected(there, row, at, edges, **match)
            assert {name: plain(sample[name]) for name in want} == want
            assert int(sample["s"] * 10 + 0.5) == row, "a column without steps has the anchor's value"
            place += 1
    assert place == len(rows)
    asked = data.draw(st.integers(0, len(rows) - 1))
    sample, want = found[asked], expected(there, rows[asked], at, edges, **match)
    assert {name: plain(sample[name]) for name in want} == want
    assert list(sample) == list(batch)
    assert all(
        sample[name].shape == batch[name].shape[1:] for name in want if isinstance(batch[name], np.ndarray)
    )


@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_a_job_that_goes_on_on_other_ranks_has_every_anchor_once(given_data: Any, data: Any) -> None:
    ds, _ = given_data
    made = unirecord.sequences(
        ds.view(shuffle=True, seed=data.draw(st.integers(0, 9)), remainder="uneven"),
        by="episode", at={"n": [-1, 0, 2]}, edges=data.draw(st.sampled_from(["pad", "drop"])), where="n % 3 != 1",
    )  # fmt: skip
    size, before, after = (
        data.draw(st.integers(1, 9)),
        data.draw(st.integers(1, 4)),
        data.draw(st.integers(1, 4)),
    )
    steps = data.draw(st.integers(0, max(0, made.num_rows // (size * before) - 1)))
    seen: list[int] = []
    state: Any = None
    for rank in range(before):
        loader = made.view(shard_id=rank, num_shards=before).batches(size)
        for step, batch in zip(range(steps), loader, strict=False):
            seen += batch["n"][:, 1].tolist()
            asked = made.order.rows_of(step, size, epoch=0, rank=rank, num_shards=before)
            assert asked.tolist() == batch["n"][:, 1].tolist()
        state = loader.state_dict() if steps else None
    for rank in range(after):
        again = pickle.loads(pickle.dumps(made.view(shard_id=rank, num_shards=after)))
        if state is not None:
            again.load_state_dict(state)
        seen += [int(sample["n"][1]) for sample in again]
    assert sorted(seen) == sorted(made.order.row_ids().tolist())


def test_draws_and_exclusions_are_of_anchors(given_data: Any, tmp_path: Path) -> None:
    ds, there = given_data
    made = unirecord.sequences(ds.view(shuffle=True), by="episode", at={"n": range(-2, 1)})
    weighted = unirecord.weighted(made, "n", samples=200)
    for sample, row in zip(weighted, weighted.order.row_ids().tolist(), strict=True):
        assert plain(sample["n"]) == expected(there, row, {"n": range(-2, 1)}, "pad")["n"]
    balanced = unirecord.balanced(made, "episode", classes=2, per_class=3)
    for step, batch in zip(range(3), balanced.batches(), strict=False):
        assert batch["n"].shape == (6, 3)
        assert batch["n"][:, 2].tolist() == balanced.order.rows_of(step).tolist()
    loader = made.batches(8, receipts=tmp_path)
    seen: list[int] = []
    for batch in loader:
        seen += batch["n"][:, 2].tolist()
        if len(seen) == 8:
            assert made.exclude([30, 31]) == 2
    assert sorted(seen) == sorted(set(there) - ({30, 31} - set(seen)))
    assert any(30 in expected(there, row, {"n": range(-2, 1)}, "pad")["n"] for row in seen), "steps stay"
    assert unirecord.audit(tmp_path, made).ok
    table = made.order.steps_of([40], 8)
    assert 40 in made.order.rows_of(int(table["step"][0]), 8)


def test_a_transform_and_a_pipeline_get_sequences(given_data: Any) -> None:
    ds, there = given_data
    at = {"q": [-1, 0], "state": [0, 1], "f": [0, 1]}
    made = unirecord.sequences(ds.view(shuffle=True), by="episode", at=at)
    rows = made.order.row_ids().tolist()
    want = [expected(there, row, at, "pad") for row in rows]

    def look(sample: dict[str, Any]) -> dict[str, Any]:
        assert sample["state"].shape == (2, 3)
        return {"sum": sample["state"].sum(), "q": sample["q"], "f": sample["f"]}

    sums = [sample["sum"] for sample in made.view(transform=look)]
    batches = list(made.view(transform=look).batches(16))
    np.testing.assert_allclose(np.concatenate([batch["sum"] for batch in batches]), sums)
    np.testing.assert_allclose(sums, [np.sum(one["state"]) for one in want], rtol=1e-5)
    assert [plain(one) for batch in batches for one in batch["f"]] == [one["f"] for one in want]
    results = list(made.pipeline().map(look))
    assert [plain(one["q"]) for one in results] == [one["q"] for one in want]
    narrow = made.pipeline().select(["state"]).batch(16)
    assert set(next(iter(narrow))) == {"state"}
    assert list(made.view(columns=["state", "state.is_pad"])[0]) == ["state", "state.is_pad"]


def test_the_last_rows_of_a_group(given_data: Any) -> None:
    ds, there = given_data
    made = unirecord.sequences(ds.view(columns=["n", "state"]), by="episode", length=5)
    assert list(made[0]) == ["n", "n.is_pad", "state", "state.is_pad"]
    for sample, row in zip(made, there, strict=True):
        assert plain(sample["n"]) == expected(there, row, {"n": range(-4, 1)}, "pad")["n"]


def test_other_forms_of_time(given_data: Any) -> None:
    ds, there = given_data
    text = unirecord.sequences(ds, by="episode", order="time", at={"n": ["-0.2s", "0s"]}, tolerance="60ms")
    rest: dict[str, Any] = {"by": "episode", "order": "time"}
    for offsets, tolerance in (
        ([timedelta(milliseconds=-200), timedelta(0)], timedelta(milliseconds=60)),
        ([np.timedelta64(-200, "ms"), np.timedelta64(0, "ms")], np.timedelta64(60, "ms")),
        ([-200.0, 0.0], 60.0),
        (pd.to_timedelta([-200, 0], unit="ms"), pd.Timedelta("60ms")),
    ):
        other = unirecord.sequences(ds, at={"n": offsets}, tolerance=tolerance, **rest)
        assert [plain(sample["n"]) for sample in other] == [plain(sample["n"]) for sample in text]
    seconds = unirecord.sequences(ds, by="episode", order="s", at={"n": [-0.2, "0s"]}, tolerance=0.01)
    for sample, row in zip(seconds, there, strict=True):
        mine = group(there, row)
        assert plain(sample["n"])[0] == min(mine, key=lambda i: (abs(i - row + 2), i))
        assert sample["n.is_pad"][0] == (row - 2 not in mine)
    counted = unirecord.sequences(ds, by="episode", order="n", at={"n": [-2.0]}, tolerance=0.0, edges="drop")
    assert counted.order.row_ids().tolist() == [row for row in there if row - 2 in group(there, row)]


# Tables of a few rows: groups of one row and more, of any scalar type; times that are equal, negative, of any type.
# Times are whole numbers of frames, of which the model knows nothing else, and 30 are a second.
KINDS: dict[str, tuple[Any, Callable[[int], Any], Callable[[int], Any]]] = {
    "float32": ("float32", lambda t: np.float32(t / 30), lambda t: t / 30),
    "float64": ("float64", lambda t: t / 30, lambda t: f"{t / 30:.9f}s"),
    "int32": ("int32", lambda t: t, float),
    "seconds": ({"type": "int64", "logical": {"type": "timestamp", "unit": "s"}}, lambda t: t, lambda t: f"{t}s"),
    "days": ({"type": "int32", "logical": {"type": "date"}}, lambda t: t, lambda t: timedelta(days=t)),
    "clock": ({"type": "int64", "logical": {"type": "time", "unit": "us"}}, lambda t: t + 20, lambda t: f"{t}us"),
    "decimal": (
        {"type": "int64", "logical": {"type": "decimal", "precision": 6, "scale": 2}},
        lambda t: Decimal(t) / 10, lambda t: Decimal(t) / 10,
    ),
    "tenths": (
        {"type": "int64", "logical": {"type": "decimal", "precision": 9, "scale": 3}},
        lambda t: Decimal(t) / 10, lambda t: t / 10,
    ),
}  # fmt: skip
NAMES: dict[str, Callable[[int], Any]] = {
    "int16": lambda g: -g, "string": "é".__mul__, "bool": lambda g: g > 1, "float32": lambda g: g / 3
}  # fmt: skip


def at_time(times: list[int], row: int, offset: int, tolerance: float, match: str) -> tuple[int, bool]:
    """The row of a group at an offset in time, by NumPy, and whether it is missing."""
    apart = np.array(times) - (times[row] + offset)
    if offset == 0:
        return row, False
    if match == "nearest":
        found = int(np.argmin(np.abs(apart)))
        return found, bool(abs(apart[found]) > tolerance)
    earlier = np.flatnonzero(apart <= 0)
    found = int(earlier[-1]) if len(earlier) else 0
    return found, not len(earlier) or bool(-apart[found] > tolerance)


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_groups_and_times_of_every_kind_are_those_of_numpy(
    tmp_path_factory: pytest.TempPathFactory, data: Any
) -> None:
    kind, name = data.draw(st.sampled_from([*KINDS])), data.draw(st.sampled_from([*NAMES]))
    spec, stored, asked = KINDS[kind]
    frames_of_group = st.lists(st.integers(-20, 20), min_size=1, max_size=9).map(sorted)
    groups = data.draw(st.lists(frames_of_group, min_size=1, max_size=2 if name == "bool" else 4))
    offsets = data.draw(st.lists(st.integers(-25, 25), min_size=1, max_size=4))
    frames, match = data.draw(st.integers(0, 3)), data.draw(st.sampled_from(["nearest", "before"]))
    edges, steps = data.draw(st.sampled_from(["pad", "partial", "drop"])), data.draw(st.integers(-12, 12))
    path = tmp_path_factory.mktemp("kinds") / "d"
    rows = [(g, t) for g, times in enumerate(groups, 1) for t in times]
    with unirecord.Writer(path, {"g": name, "t": spec, "x": "int64", "y": "int64"}, max_part_bytes=4096) as w:
        for x, (g, t) in enumerate(rows):
            w.write({"g": NAMES[name](g), "t": stored(t), "x": x, "y": x})
    at = {"x": [asked(offset) for offset in offsets], "y": [steps]}
    wanted: dict[int, tuple[list[int], list[bool]]] = {}
    first = 0
    for times in groups:
        for row in range(len(times)):
            found = [at_time(times, row, offset, frames, match) for offset in offsets]
            found.append((min(max(row + steps, 0), len(times) - 1), not 0 <= row + steps < len(times)))
            values = [0 if gone and edges == "partial" else first + place for place, gone in found]
            gone = [missing for _, missing in found]
            if edges != "drop" or not any(gone):
                wanted[first + row] = values, gone
        first += len(times)
    rest: dict[str, Any] = {"by": "g", "order": "t", "edges": edges, "match": match}
    # of frames that are a thirtieth of something, a little more than so many
    tolerance = (frames + 0.2) / 30 if kind in ("float32", "float64") and frames else asked(frames)
    if not wanted:
        with pytest.raises(ValueError, match="can be an anchor"):
            unirecord.sequences(UniRecordDataset(path), at=at, tolerance=tolerance, **rest)
        return
    made = unirecord.sequences(UniRecordDataset(path, shuffle=True), at=at, tolerance=tolerance, **rest)
    anchors = made.order.row_ids().tolist()
    assert sorted(anchors) == sorted(wanted)
    for source in ([made[i] for i in range(len(made))], [s for b in made.batches(3) for s in split(b)]):
        for sample, row in zip(source, anchors, strict=True):
            values, gone = wanted[row]
            assert [*sample["x"].tolist(), *sample["y"].tolist()] == values
            assert [*sample["x.is_pad"].tolist(), *sample["y.is_pad"].tolist()] == gone


def split(batch: dict[str, Any]) -> list[dict[str, Any]]:
    return [{name: batch[name][i] for name in batch if name[0] in "xy"} for i in range(len(batch["x"]))]


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
@pytest.mark.parametrize("rate", [30, 15, 10, 7])
def test_what_rounding_has_made_of_times_is_no_difference(tmp_path: Path, kind: str, rate: int) -> None:
    frames = 40
    path = sorted_rows(tmp_path / "d", [(e, k / rate) for e in range(2) for k in range(frames)], kind)
    for match in ("nearest", "before"):
        for tolerance in ("0s", "1ms", "1s"):
            made = unirecord.sequences(
                UniRecordDataset(path), by="user", order="t", at={"x": [n / rate for n in range(-9, 10)]},
                tolerance=tolerance, match=match,
            )  # fmt: skip
            for row, (x, gone) in enumerate((s["x"], s["x.is_pad"]) for s in made):
                inside = [n for n in range(-9, 10) if 0 <= row % frames + n < frames]
                assert x[[n + 9 for n in inside]].tolist() == [row + n for n in inside]
                assert not gone[[n + 9 for n in inside]].any()
                if tolerance != "1s":
                    assert gone.sum() == 19 - len(inside)
    # half a frame is as far from both: the earlier
    half = unirecord.sequences(
        UniRecordDataset(path), by="user", order="t", at={"x": [0.5 / rate]}, tolerance=1 / rate
    )
    assert [int(sample["x"][0]) for sample in half] == list(range(2 * frames))


def test_frameworks_get_tensors_with_masks(given_data: Any) -> None:
    torch = pytest.importorskip("torch")
    ds, there = given_data
    at = {"n": [-1, 0], "q": [0, 1], "state": [-2]}
    made = unirecord.sequences(ds.view(shuffle=True), by="episode", at=at, edges="partial")
    rows = made.order.row_ids().tolist()
    want = [expected(there, row, at, "partial") for row in rows[:16]]
    batch = next(iter(unirecord.torch.loader(made, 16)))
    assert batch["n"].tolist() == [one["n"] for one in want]
    assert batch["n.is_pad"].dtype == torch.bool
    assert batch["n.is_pad"].tolist() == [one["n.is_pad"] for one in want]
    assert batch["q_valid"].tolist() == [[value is not None for value in one["q"]] for one in want]
    assert batch["state"].shape == (16, 1, 3)
    plain_types = made.view(columns=["n", "state", "image"])
    for workers in (0, 2):
        stock = torch.utils.data.DataLoader(plain_types, batch_size=16, num_workers=workers)
        batch = next(iter(stock))
        assert batch["n"].tolist() == [one["n"] for one in want]
        assert batch["state"].shape == (16, 1, 3)
        assert batch["n.is_pad"].tolist() == [one["n.is_pad"] for one in want]


def test_other_frameworks_and_notebooks_take_what_has_a_type(given_data: Any) -> None:
    ds, there = given_data
    at = {"n": [-1, 0], "q": [0, 1], "state": [-2]}
    made = unirecord.sequences(ds.view(columns=["n", "q", "state"]), by="episode", at=at)
    want = [expected(there, row, at, "pad") for row in there[:16]]
    for name, tensors in (("jax", "loader"), ("tensorflow", "dataset")):
        pytest.importorskip(name)
        module = getattr(unirecord, "tf" if name == "tensorflow" else name)
        batch = {
            key: np.asarray(value) for key, value in next(iter(getattr(module, tensors)(made, 16))).items()
        }
        assert batch["n"].tolist() == [one["n"] for one in want]
        assert batch["q_valid"].tolist() == [[value is not None for value in one["q"]] for one in want]
        assert batch["state.is_pad"].tolist() == [one["state.is_pad"] for one in want]
    pytest.importorskip("datasets")
    ragged = unirecord.sequences(ds, by="episode", at={"f": [0, 1], "q": [0, 1]})
    for call in (lambda: unirecord.tf.dataset(ragged, 4), lambda: unirecord.hf.dataset(ragged)):
        with pytest.raises(ValueError, match="no fixed width, and sequences have lists"):
            call()
    example = next(iter(unirecord.hf.dataset(made)))
    assert [example[name] for name in want[0]] == list(want[0].values())
    shown = ragged.head(4)._repr_html_()
    assert "null" in shown
    assert "int16 0" in shown


def sorted_rows(path: Path, rows: list[tuple[int, Any]], order: Any = "float64") -> Path:
    with unirecord.Writer(path, {"user": "int64", "t": order, "x": "int64"}) as writer:
        for x, (user, t) in enumerate(rows):
            writer.write({"user": user, "t": t, "x": x})
    return path


def test_groups_that_are_torn_or_out_of_order_are_named_with_the_commands_that_sort_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = sorted_rows(tmp_path / "my data", [(1, 5.0), (2, 1.0), (1, 4.0), (2, 0.0), (3, 1.0)])
    ds = UniRecordDataset(path)
    with pytest.raises(
        ValueError, match=r"user is 1 do not lie together: some begin at row 0, others at row 2"
    ) as torn:
        unirecord.sequences(ds, by="user", order="t", at={"x": [-1, 0]})
    with pytest.raises(ValueError, match=r"t falls from row 0 to row 1, and order='t' is to ascend"):
        unirecord.sequences(ds, order="t", at={"x": [-1, 0]})
    said = re.search(r"`(.*)`", str(torn.value))
    assert said is not None
    for command in said[1].split(" && "):
        assert main(shlex.split(command)[1:]) == 0
    made = unirecord.sequences(UniRecordDataset(path), by="user", order="t", at={"x": [-1, 0], "t": [0]})
    assert [(plain(s["user"]), plain(s["t"])[0]) for s in made] == [
        (2, 0.0),
        (2, 1.0),
        (3, 1.0),
        (1, 4.0),
        (1, 5.0),
    ]
    capsys.readouterr()
    again = sorted_rows(tmp_path / "e", [(1, 5.0), (1, 4.0)])
    with pytest.raises(ValueError, match=r"t falls from row 0 to row 1 of one user"):
        unirecord.sequences(UniRecordDataset(again), by="user", order="t", at={"x": [0]})


@pytest.mark.parametrize("how", ["where", "deleted"])
def test_rows_that_are_torn_or_fall_are_named_by_their_numbers(tmp_path: Path, how: str) -> None:
    path = sorted_rows(tmp_path / "d", [(9, 0.0), (9, 0.0), (1, 5.0), (9, 0.0), (1, 4.0), (2, 0.0), (1, 6.0)])
    if how == "deleted":
        unirecord.delete(path, where="user == 9")
    ds = UniRecordDataset(path)
    ds = ds.view(where="user != 9") if how == "where" else ds
    with pytest.raises(ValueError, match=r"user is 1 .* some begin at row 2, others at row 6"):
        unirecord.sequences(ds, by="user", at={"x": [0]})
    with pytest.raises(ValueError, match="t falls from row 2 to row 4, "):
        unirecord.sequences(ds, order="t", at={"x": [0]})


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"at": {"x": [-1, "0s"]}, "order": "t"}, ValueError, "count rows"),
    ({"at": {"x": ["-1s"]}}, ValueError, "which column has the times"),
    ({"at": {"x": ["-1s"]}, "order": "t"}, ValueError, "need a tolerance"),
    ({"at": {"x": ["-1s"]}, "order": "x", "tolerance": "1s"}, ValueError, "no known unit"),
    ({"at": {"x": ["soon"]}, "order": "t", "tolerance": "1s"}, ValueError, "no duration"),
    ({"at": {"x": [0.5]}, "order": "x", "tolerance": 1}, ValueError, "no finer"),
    ({"at": {"x": [float("nan")]}, "order": "t", "tolerance": 1}, ValueError, "nan"),
    ({"at": {"x": [0]}, "tolerance": "1s"}, ValueError, "for offsets in time"),
    ({"at": {"x": [0]}, "match": "before"}, ValueError, "match='before' is for offsets in time"),
    (
        {"at": {"x": [np.timedelta64(1)]}, "order": "t", "tolerance": 1},
        ValueError,
        "is no span of weeks, days",
    ),
    (
        {"at": {"x": [np.timedelta64(1, "M")]}, "order": "t", "tolerance": 1},
        ValueError,
        "is no span of weeks",
    ),
    (
        {"at": {"x": [np.timedelta64("NaT", "s")]}, "order": "t", "tolerance": 1},
        ValueError,
        "NaT.* is no span",
    ),
    (
        {"at": {"x": [np.timedelta64(10**9, "D")]}, "order": "t", "tolerance": 1},
        ValueError,
        "out of all reach",
    ),
    ({"at": {"x": ["0s"]}, "order": "t", "tolerance": "-1s"}, ValueError, "negative"),
    ({"at": {"x": []}}, ValueError, "0 steps"),
    ({"at": {"x": 3}}, TypeError, "a list"),
    ({"at": {"x": [True]}, "order": "t", "tolerance": 1}, TypeError, "times are given"),
    ({"at": {}}, TypeError, "offsets of columns"),
    ({"at": {"y": [0]}}, SchemaError, "no column 'y'"),
    ({"at": {"x": [1 << 50]}}, ValueError, "offset of 'x'"),
    ({"at": {"x": [0]}, "length": 3}, ValueError, "one of at"),
    ({}, ValueError, "one of at"),
    ({"length": 3, "end": "open"}, ValueError, "end"),
    ({"at": {"x": [0]}, "edges": "wrap"}, ValueError, "edges"),
    ({"at": {"x": [0]}, "match": "after"}, ValueError, "match"),
    ({"at": {"x": [0]}, "stride": 0}, ValueError, "stride"),
    ({"at": {"x": [0]}, "by": "gone"}, SchemaError, "gone"),
    ({"at": {"x": [0]}, "where": "x =="}, QueryError, "x =="),
    ({"at": {"x": [0]}, "where": "x < 0"}, ValueError, "can be an anchor"),
    ({"at": {"x": [-9]}, "edges": "drop"}, ValueError, "can be an anchor"),
]


@pytest.mark.parametrize(("options", "error", "said"), WRONG)
def test_wrong_arguments_say_what_is_right(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], said: str
) -> None:
    ds = UniRecordDataset(sorted_rows(tmp_path / "d", [(1, 0.0), (1, 1.0)]))
    with pytest.raises(error, match=said):
        unirecord.sequences(ds, **options)


def test_values_that_have_no_order_are_refused(tmp_path: Path) -> None:
    time = {"type": "int64", "logical": {"type": "timestamp", "unit": "s"}}
    for number, (kind, value, said) in enumerate(
        [("float64", np.nan, "NaN"), ("float64", 1e300, "9.2e9"), ("float32", np.inf, "9.2e9"),
         ("float16", np.nan, "NaN"), ("int64?", None, "null"), ("float32?", None, "null"), (time, -(1 << 63), "NaT"),
         ("string", "a", "numbers or times")]
    ):  # fmt: skip
        rows = [(1, None if kind == "string" else 3), (1, value)]
        ds = UniRecordDataset(
            sorted_rows(tmp_path / f"{number}", [(1, "a")] if kind == "string" else rows, kind)
        )
        with pytest.raises(SchemaError, match=said) as refused:
            unirecord.sequences(ds, by="user", order="t", at={"x": [0]})
        if said not in ("NaT", "numbers or times"):
            left = ds.view(where=hinted(refused.value))
            assert len(unirecord.sequences(left, by="user", order="t", at={"x": [0]})) == 1
        if said in ("NaN", "null"):
            with pytest.raises(SchemaError, match="in no group") as refused:
                unirecord.sequences(ds, by="t", at={"x": [0]})
            left = ds.view(where=hinted(refused.value))
            assert len(unirecord.sequences(left, by="t", at={"x": [0]})) == 1
    words = UniRecordDataset(sorted_rows(tmp_path / "words", [(1, "b"), (2, "b"), (1, "a")], "string"))
    made = unirecord.sequences(words, by="t", at={"x": [-1, 0]})
    assert [plain(sample["x"]) for sample in made] == [[0, 0], [0, 1], [2, 2]]


def hinted(error: Exception) -> str:
    """The condition that a message says."""
    said = re.search(r"sequences\(ds\.view\(where='(.*)'\), …\)", str(error))
    assert said is not None
    return said[1]


def test_a_name_that_is_no_word_is_quoted_in_the_hint(tmp_path: Path) -> None:
    with unirecord.Writer(tmp_path / "d", {"meta.user": "string?", "x": "int64"}) as writer:
        for x, user in enumerate(["a", None, "b"]):
            writer.write({"meta.user": user, "x": x})
    ds = UniRecordDataset(tmp_path / "d")
    with pytest.raises(SchemaError) as refused:
        unirecord.sequences(ds, by="meta.user", at={"x": [0]})
    made = unirecord.sequences(ds.view(where=hinted(refused.value)), by="meta.user", at={"x": [0]})
    assert [int(sample["x"][0]) for sample in made] == [0, 2]


def test_crops_of_steps_are_cut_as_the_refusal_says(given_data: Any) -> None:
    ds, there = given_data
    made = unirecord.sequences(ds.view(shuffle=True), by="episode", at={"image": [-1, 0]})
    crops = {"image": unirecord.Crop((2, 3, 3))}
    for call in (lambda: made.batches(4, crops=crops), lambda: made.pipeline(crops=crops)):
        with pytest.raises(ValueError, match=r"pipeline\(\)\.map\(cut, columns=\['image'\], random=True\)"):
            call()

    def cut(image: np.ndarray[Any, Any], rng: np.random.Generator) -> np.ndarray[Any, Any]:
        y, x = rng.integers((3, 3))
        return image[:, y : y + 2, x : x + 3]

    rows = made.order.row_ids().tolist()
    places = set()
    for number, batch in enumerate(made.pipeline().map(cut, columns=["image"], random=True).batch(10)):
        for image, row in zip(batch["image"], rows[number * 10 :], strict=False):
            whole = np.array(expected(there, row, {"image": [-1, 0]}, "pad")["image"])
            places.add(next((y, x) for y in range(3) for x in range(3)
                            if np.array_equal(whole[:, y : y + 2, x : x + 3], image)))  # fmt: skip
    assert len(places) > 4


def test_what_sequences_are_not_made_of(given_data: Any) -> None:
    ds, _ = given_data
    made = unirecord.sequences(ds, by="episode", at={"n": [0]})
    for other in (made, ds.select([5, 3]), ds.view(transform=len), unirecord.weighted(ds, "n")):
        with pytest.raises(ValueError, match=r"sequence"):
            unirecord.sequences(other, at={"n": [0]})
    with pytest.raises(TypeError, match="UniRecordDataset"):
        unirecord.sequences("data", at={"n": [0]})  # type: ignore[arg-type]
    for call in (
        lambda: made.to_arrow(), lambda: made.to_batches(), lambda: made.read_part(0, "state", 0),
        lambda: made.batches(4, crops={"f": unirecord.Crop(1)}),
        lambda: unirecord.windows(made, "f", 2), lambda: made.refresh(), lambda: made.read_rows(np.array([ROWS * 2])),
    ):  # fmt: skip
        with pytest.raises((ValueError, IndexError), match=r"sequence|anew"):
            call()


def test_a_selection_is_what_offsets_step_over_and_where_chooses_anchors(given_data: Any) -> None:
    ds, there = given_data
    even = unirecord.sequences(
        ds.view(where="n % 2 == 0"), by="episode", at={"n": [-1, 0]}, where="n % 4 == 0"
    )
    kept = [row for row in there if row % 2 == 0]
    for sample in even:
        row = int(sample["n"][1])
        assert row % 4 == 0
        assert plain(sample["n"]) == [model(kept, row, -1)[0], row]
    assert len(even) == sum(row % 4 == 0 for row in kept)
    assert [int(s["n"][1]) for s in even.view(where="n > 40")] == [
        row for row in kept if row % 4 == 0 and row > 40
    ]


def test_corrupt_rows_leave_out_every_sample_that_has_them(tmp_path: Path) -> None:
    path = tmp_path / "d.urec"
    with unirecord.Writer(path, {"n": "int64", "b": "bytes"}) as writer:
        for n in range(20):
            writer.write({"n": n, "b": bytes([n]) * 500})
    data = bytearray(path.read_bytes())
    data[data.index(bytes([7]) * 500) + 9] ^= 1
    path.write_bytes(data)
    made = unirecord.sequences(UniRecordDataset(path, on_corrupt="skip"), at={"b": [-1, 1]}, edges="partial")
    rows = UniRecordDataset(path, on_corrupt="skip")
    kept = {int(sample["n"]) for sample in rows}
    assert 7 not in kept
    assert len(kept) > 10
    whole = [n for n in range(20) if {n - 1, n + 1} & set(range(20)) <= kept]
    assert [int(n) for batch in made.batches(6) for n in batch["n"]] == whole
    assert [int(sample["n"]) for sample in made] == whole


def test_sequences_of_an_object_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given_data: Any
) -> None:
    ds, there = given_data
    if len(there) != ROWS or not isinstance(ds.path, Path) or ds.path.suffix:
        pytest.skip("one is enough")
    shutil.copytree(ds.path, tmp_path / "store" / "bucket" / "data")
    monkeypatch.setattr(object_store, "_stores", {})
    with serving(tmp_path / "store") as server:
        assert isinstance(server, Server)
        storage = {"endpoint": server.url, "skip_signature": True, "region": "us-east-1"}
        far = UniRecordDataset("s3://bucket/data", storage_options=storage, shuffle=True)
        made = unirecord.sequences(far, by="episode", at={"image": [-2, 0], "f": [0, 1]})
        rows = made.order.row_ids().tolist()
        found = [
            {"image": plain(image), "f": plain(f)}
            for batch in made.batches(16)
            for image, f in zip(batch["image"], batch["f"], strict=True)
        ]
        want = [expected(there, row, {"image": [-2, 0], "f": [0, 1]}, "pad") for row in rows]
        assert found == [{"image": one["image"], "f": one["f"]} for one in want]


def test_no_rows_are_no_sequences(tmp_path: Path) -> None:
    ds = UniRecordDataset(sorted_rows(tmp_path / "d", [(1, 0.0)])).view(where="x > 5")
    with pytest.raises(ValueError, match="can be an anchor"):
        unirecord.sequences(ds, by="user", at={"x": [0]})
