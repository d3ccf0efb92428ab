"""Mixtures of sequences: each source by its own groups, times and offsets, in one shape of batches."""

from __future__ import annotations

import json
import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unirecord
from unirecord import UniRecordDataset, Writer, cli

NAMES = ("arm", "hand", "legs")
SHAPE = {"n": "int64", "state": "float32[3]", "q": "int32?", "text": "text?"}


def written(path: Path, first: int, rows: int, group: str, time: str, kind: Any) -> UniRecordDataset:
    """Rows in groups of four to nine, whose times are 100 ms apart and name columns differently."""
    rng = np.random.default_rng(first)
    with Writer(path, {group: "int64", time: kind, **SHAPE}, max_part_bytes=1_500) as writer:
        episode = left = 0
        for i in range(rows):
            if left == 0:
                episode, left = episode + 1, int(rng.integers(4, 10))
            left -= 1
            row = {
                "n": first + i,
                "state": np.full(3, first + i, np.float32),
                "q": None if i % 5 == 2 else i,
                "text": None if i % 7 == 3 else f"{path.name} {i}",
            }
            writer.write({group: episode, time: i * 100 if isinstance(kind, dict) else i / 10, **row})
    return UniRecordDataset(path)


@pytest.fixture(scope="module")
def robots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, UniRecordDataset]:
    folder = tmp_path_factory.mktemp("robots")
    stamp = {"type": "int64", "logical": {"type": "timestamp", "unit": "ms"}}
    made = {
        "arm": written(folder / "arm", 0, 60, "episode", "time", stamp),
        "hand": written(folder / "hand", 1_000, 40, "run", "t", "float64"),
        "legs": written(folder / "legs", 2_000, 50, "episode", "stamp", stamp),
    }
    unirecord.delete(folder / "legs", where="n >= 2010 and n < 2015 or n == 2030")
    return {**made, "legs": UniRecordDataset(folder / "legs")}


GROUPS = {"arm": ("episode", "time"), "hand": ("run", "t"), "legs": ("episode", "stamp")}


def sequences_of(name: str, ds: UniRecordDataset, way: str, edges: str) -> UniRecordDataset:
    by, order = GROUPS[name]
    rest: dict[str, Any] = {"by": by, "order": order, "edges": edges}
    if way == "times":
        at = {"n": ["-0.2s", "0s", "0.1s"], "state": ["-100ms", "0s"], "q": [1, 2]}
        return unirecord.sequences(ds, at=at, tolerance="10ms", **rest)
    step = 1 if way == "rows" else 2
    at = {"n": [-2 * step, 0, step], "state": range(-step, 1, step), "q": [1, 2], "text": [0, -step]}
    chosen = ds.select(np.arange(0, ds.num_rows, 2)) if way == "some" else ds
    return unirecord.sequences(chosen, at=at, **rest)


def plain(value: Any) -> Any:
    """A value as Python has it, None where null."""
    if isinstance(value, np.ma.MaskedArray):
        return [None if np.ma.getmaskarray(one).all() else plain(np.ma.getdata(one)) for one in value]
    if isinstance(value, list):
        return [plain(one) for one in value]
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def told(sample: dict[str, Any]) -> str:
    return json.dumps({name: plain(value) for name, value in sorted(sample.items()) if name != "source"})


def rows_of_batches(loader: Any) -> list[tuple[str, str]]:
    return [
        (batch["source"][i], told({name: values[i] for name, values in batch.items()}))
        for batch in loader
        for i in range(len(batch["source"]))
    ]


@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_a_mixture_of_sequences_has_the_samples_of_its_sources(robots: Any, data: Any) -> None:
    same = data.draw(st.sampled_from(["partial", None]))
    sources = {}
    for name in NAMES:
        way = data.draw(st.sampled_from(["rows", "apart", "some", "times"]))
        edges = same or data.draw(st.sampled_from(["pad", "drop"] if way in ("rows", "times") else ["pad"]))
        sources[name] = sequences_of(
            name, robots[name].view(shuffle=data.draw(st.booleans()), remainder="uneven"), way, edges
        )
    if not all("text.is_pad" in sequence[0] for sequence in sources.values()):
        names = ["n", "state", "q"]
        sources = {name: sequence.view(columns=names) for name, sequence in sources.items()}
    weights = {name: data.draw(st.integers(1, 4)) for name in NAMES}
    mixed = unirecord.mix(sources, weights, seed=data.draw(st.integers(0, 9)), stop="all")
    samples = list(mixed)
    names = [sample["source"] for sample in samples]
    for name in NAMES:
        share = Fraction(weights[name], sum(weights.values()))
        counts = np.cumsum([one == name for one in names])
        assert all(abs(count - share * (i + 1)) < 1 for i, count in enumerate(counts.tolist()))
        mine = [told(sample) for sample in samples if sample["source"] == name]
        size = sources[name].num_rows
        wanted = sorted(told({k: v for k, v in s.items() if k in samples[0]}) for s in sources[name])
        for at in range(0, len(mine) - size + 1, size):
            assert sorted(mine[at : at + size]) == wanted
    # batches of ranks have the same samples; a state goes on with the rest, on others
    whole = [(name, told(sample)) for name, sample in zip(names, samples, strict=True)]
    mixed.set_epoch(0)
    assert rows_of_batches(mixed.batches(7, num_threads=2)) == whole
    mixed.set_epoch(0)
    loader = mixed.batches(5)
    begun = rows_of_batches(batch for _, batch in zip(range(3), loader, strict=False))
    state = json.loads(json.dumps(loader.state_dict()))
    ranks, rest = data.draw(st.integers(1, 4)), []
    for rank in range(ranks):
        again = pickle.loads(pickle.dumps(mixed.view(shard_id=rank, num_shards=ranks)))
        again.load_state_dict(state)
        rest += rows_of_batches(again.batches(4))
    assert begun == whole[: len(begun)]
    assert sorted(rest) == sorted(whole[len(begun) :])
    # rows and steps are inverse
    rows = mixed.order.row_ids().tolist()
    asked = mixed.order.steps_of(rows[:3], 4, epochs=[0], num_shards=1)
    for row, step, slot in zip(*(asked[key].tolist() for key in ("row", "step", "slot")), strict=True):
        assert mixed.order.rows_of(step, 4, epoch=0, num_shards=1)[slot] == row
    read = mixed.read_rows(np.array(rows[:5]))
    again = [told({name: values[i] for name, values in read.items()}) for i in range(5)]
    assert again == [line for _, line in whole[:5]]


def test_sequences_go_with_mixtures_draws_and_every_loader(robots: Any, tmp_path: Path) -> None:
    arm, hand = (sequences_of(name, robots[name], "rows", "pad") for name in ("arm", "hand"))
    inner = unirecord.mix({"arm": arm, "hand": hand}, samples=11)
    legs = unirecord.weighted(sequences_of("legs", robots["legs"], "apart", "pad"), "n")
    mixed = unirecord.mix({"all": inner, "legs": legs}, {"all": 1, "legs": 1}, samples=40)
    whole = [(sample["source"], told(sample)) for sample in mixed]
    assert {name for name, _ in whole} == {"all/arm", "all/hand", "legs"}
    mixed.set_epoch(0)
    assert [(sample["source"], told(sample)) for sample in mixed.pipeline()] == whole
    mixed.set_epoch(0)
    assert rows_of_batches(mixed.pipeline().batch(6)) == whole
    narrow = mixed.view(columns=["n", "n.is_pad"])
    assert list(narrow[0]) == ["n", "n.is_pad", "source"]
    loader = mixed.batches(8, receipts=tmp_path)
    for _ in loader:
        pass
    assert unirecord.audit(tmp_path, mixed).ok
    left = unirecord.mix({"arm": arm, "hand": hand}, samples=30)
    gone = left.order.rows_of(0, 8)
    left.exclude(gone.tolist())
    assert len(rows_of_batches(left.batches(8))) < 30
    torch = pytest.importorskip("torch")
    batch = next(iter(unirecord.torch.loader(mixed.view(columns=["n", "state", "q"]), 8)))
    assert batch["state"].shape == (8, 2, 3)
    assert batch["n.is_pad"].dtype == torch.bool


def test_trace_audit_and_report_know_sources_of_sequences(
    robots: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mixed = unirecord.mix(
        {name: sequences_of(name, robots[name], "rows", "pad") for name in NAMES}, samples=50, seed=3
    )
    for _ in mixed.batches(10, receipts=tmp_path / "receipts"):
        pass
    named = [f"{name}={robots[name].path}" for name in NAMES]
    assert cli.main(["audit", str(tmp_path / "receipts"), "--dataset", *named]) == 0
    page = tmp_path / "run.html"
    assert (
        cli.main(
            [
                "report",
                str(tmp_path / "receipts"),
                str(page),
                *(word for one in named for word in ("--dataset", one)),
            ]
        )
        == 0
    )
    capsys.readouterr()
    (tmp_path / "state.json").write_text(json.dumps(mixed.state_dict()))
    asked = ["--state", str(tmp_path / "state.json"), "--batch", "10", "--step", "2", "--json"]
    assert cli.main(["trace", *named, *asked]) == 0
    traced = json.loads(capsys.readouterr().out)
    assert [len(traced["samples"]), {line["source"] for line in traced["samples"]} <= set(NAMES)] == [
        10,
        True,
    ]


def test_what_does_not_go_together_is_refused(robots: Any) -> None:
    arm, hand = robots["arm"], robots["hand"]
    made = unirecord.sequences(arm, at={"n": [-1, 0], "state": [0]})
    for other, said in (
        (hand, r"source 'a' is of sequences, and 'b' of rows.*at=\{\"name\": \[0\]\}"),
        (unirecord.packed(hand, "text", 4), "one kind of samples; unirecord.sequences"),
        (unirecord.sequences(hand, at={"n": [0], "state": [0]}), "'n' has 2 steps in source 'a' and 1 step"),
        (unirecord.sequences(hand, at={"n": [-1, 0]}), "'state' has 1 step in source 'a' and the anchor's"),
        (
            unirecord.sequences(hand, at={"n": [-1, 0], "state": [0]}, edges="partial"),
            "source 'b' has edges=\"partial\"",
        ),
    ):
        with pytest.raises(ValueError, match=said):
            unirecord.mix({"a": made, "b": other})
    alone = made.view(columns=["n"])
    assert unirecord.mix({"a": alone, "b": unirecord.sequences(hand, at={"n": [3, 4]})}).num_rows == 100
    with pytest.raises(unirecord.SchemaError, match="already"):
        unirecord.mix({"a": made}, source_column="n.is_pad")
    for call in (lambda m: unirecord.sequences(m, at={"n": [0]}), lambda m: m.refresh()):
        with pytest.raises(ValueError, match="mixture"):
            call(unirecord.mix({"a": made, "b": made}))
