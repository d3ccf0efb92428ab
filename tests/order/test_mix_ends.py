"""Mixtures whose sources end within an epoch: repeated, left out, or with other weights from there on."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unirecord
from unirecord import UniRecordDataset, cli

ROWS = {"web": 23, "code": 9, "books": 5}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("ends")
    opened: dict[str, Any] = {}
    for number, (name, rows) in enumerate(ROWS.items()):
        with unirecord.Writer(folder / name, {"i": "int32"}) as writer:
            writer.write_batch({"i": np.arange(1000 * number, 1000 * number + rows, dtype=np.int32)})
        opened[name] = UniRecordDataset(folder / name, remainder="uneven")
    return opened


def epoch_of(mixed: Any, epoch: int) -> list[tuple[str, int]]:
    mixed.set_epoch(epoch)
    return [(sample["source"], int(sample["i"])) for sample in mixed]


WEIGHTS = st.fixed_dictionaries({name: st.integers(1, 6) for name in ROWS})
REPEAT = st.one_of(
    st.integers(1, 3), st.dictionaries(st.sampled_from(list(ROWS)), st.one_of(st.none(), st.integers(1, 3)))
)


@settings(max_examples=40, deadline=None)
@given(weights=WEIGHTS, repeat=REPEAT, samples=st.one_of(st.none(), st.integers(1, 60)), then=st.booleans(),
       seed=st.integers(0, 5), data=st.data())  # fmt: skip
def test_a_source_that_has_been_read_so_often_comes_no_more_in_the_epoch(
    sources: Any, weights: Any, repeat: Any, samples: int | None, then: bool, seed: int, data: Any
) -> None:
    times = {name: repeat.get(name) if isinstance(repeat, dict) else repeat for name in ROWS}
    most = {name: ROWS[name] * often for name, often in times.items() if often is not None}
    after: dict[str, dict[str, int]] = {}
    if then and most:
        name = data.draw(st.sampled_from(sorted(most)))
        after[name] = {one: data.draw(st.integers(1, 6)) for one in ROWS if one != name}
    if samples is not None and len(most) == len(ROWS):
        samples = min(samples, sum(most.values()))
    options: dict[str, Any] = {"repeat": repeat, "then": after or None, "seed": seed, "samples": samples}
    mixed = unirecord.mix(sources, weights, stop="all", **options)
    for epoch in range(3):
        found = epoch_of(mixed, epoch)
        counts = Counter(name for name, _ in found)
        # in an epoch no source comes more often than was said; all have been read whole where nothing else ends it
        assert all(counts[name] <= many for name, many in most.items())
        if samples is None:
            assert all(counts[name] == many for name, many in most.items())
            assert all(counts[name] >= ROWS[name] for name in ROWS)
        # the share of each is exact from the end of one source to that of the next
        now, drawn, begun = {name: Fraction(weight) for name, weight in weights.items()}, Counter(), Counter()
        for turn, (name, _) in enumerate(found):
            drawn[name] += 1
            total, here = sum(now.values()), sum(drawn.values()) - sum(begun.values())
            for one in ROWS:
                assert abs(drawn[one] - begun[one] - here * now[one] / total) < 1, (turn, one)
            if drawn[name] == most.get(name):
                gone = {one for one in most if drawn[one] == most[one]}
                given_then = after.get(name, now)
                now = {one: Fraction(0) if one in gone else Fraction(given_then.get(one, 0)) for one in ROWS}
                begun = Counter(drawn)
    # over all epochs no row comes again before all of its source have come
    rows = [sample for epoch in range(3) for sample in epoch_of(mixed, epoch)]
    for name, size in ROWS.items():
        mine = [i for one, i in rows if one == name]
        assert all(
            len(set(mine[at : at + size])) == len(mine[at : at + size]) for at in range(0, len(mine), size)
        )
    # ranks, batches, states and questions have the same order
    epoch = data.draw(st.integers(0, 2))
    whole = epoch_of(mixed, epoch)
    mixed.set_epoch(epoch)
    loader = mixed.batches(3)
    stop = data.draw(st.integers(0, 4))
    begun_rows = [int(i) for _, batch in zip(range(stop), loader, strict=False) for i in batch["i"]]
    assert begun_rows == [i for _, i in whole[: len(begun_rows)]]
    state, ranks, rest = json.loads(json.dumps(loader.state_dict())), data.draw(st.integers(1, 3)), []
    if len(begun_rows) < len(whole) and stop:
        for rank in range(ranks):
            again = pickle.loads(pickle.dumps(mixed.view(shard_id=rank, num_shards=ranks)))
            again.load_state_dict(state)
            rest += [int(i) for batch in again.batches(2) for i in batch["i"]]
        assert sorted(rest) == sorted(i for _, i in whole[len(begun_rows) :])
    placed = {
        (step, slot): int(row)
        for step in range(mixed.order.steps_in_epoch(4, num_shards=1))
        for slot, row in enumerate(mixed.order.rows_of(step, 4, epoch=epoch, rank=0, num_shards=1))
    }
    asked = mixed.order.steps_of(sorted(set(placed.values())), 4, epochs=[epoch], num_shards=1)
    answers = zip(*(asked[name].tolist() for name in ("step", "slot", "row")), strict=True)
    assert {(step, slot): row for step, slot, row in answers} == placed


def test_once_each_is_every_row_of_every_source_once(sources: Any) -> None:
    mixed = unirecord.mix(sources, {"web": 1, "code": 1, "books": 1}, stop="all", repeat=1)
    assert len(mixed) == sum(ROWS.values())
    for epoch in range(2):
        assert len({i for _, i in epoch_of(mixed, epoch)}) == sum(ROWS.values())
    assert epoch_of(mixed, 0) != epoch_of(mixed, 1)


def test_audit_report_and_trace_know_ends(
    sources: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    then = {"books": {"web": 1, "code": 5}}
    mixed = unirecord.mix(
        sources, {"web": 2, "code": 1, "books": 3}, stop="all", repeat={"books": 2}, then=then
    )
    for _ in range(2):
        for _ in mixed.batches(4, receipts=tmp_path / "receipts"):
            pass
    named = [f"{name}={ds.path}" for name, ds in sources.items()]
    assert cli.main(["audit", str(tmp_path / "receipts"), "--dataset", *named]) == 0
    assert (
        cli.main(
            [
                "report",
                str(tmp_path / "receipts"),
                str(tmp_path / "r.html"),
                *(word for one in named for word in ("--dataset", one)),
            ]
        )
        == 0
    )
    (tmp_path / "state.json").write_text(json.dumps(mixed.state_dict()))
    capsys.readouterr()
    asked = ["--batch", "4", "--step", "5", "--json"]
    assert cli.main(["trace", *named, "--state", str(tmp_path / "state.json"), *asked]) == 0
    from_state = json.loads(capsys.readouterr().out)["samples"]
    first_rows = dict(zip(ROWS, np.cumsum([0, *ROWS.values()]), strict=False))
    rows = [int(row - first_rows[line["source"]]) for row, line in zip(
        mixed.order.rows_of(5, 4, epoch=mixed.state_dict()["epoch"]), from_state, strict=True)]  # fmt: skip
    assert rows == [line["row"] for line in from_state]
    plain = unirecord.mix(sources, {"web": 2, "code": 1, "books": 3}, stop="all", repeat={"books": 2})
    (tmp_path / "state.json").write_text(json.dumps(plain.state_dict()))
    assert cli.main(["trace", *named, "--state", str(tmp_path / "state.json"), *asked]) == 0
    from_state = json.loads(capsys.readouterr().out)["samples"]
    options = ["--weights", "web=2,code=1,books=3", "--stop", "all", "--repeat", "books=2"]
    assert cli.main(["trace", *named, "--remainder", "uneven", *options, *asked]) == 0
    assert json.loads(capsys.readouterr().out)["samples"] == from_state
    with pytest.raises(ValueError, match="other options"):
        mixed.load_state_dict(plain.state_dict())


def test_what_makes_no_sense_is_refused(sources: Any) -> None:
    weights = {"web": 2, "code": 1, "books": 3}
    for options, said in (
        ({"repeat": 1}, 'give stop="all" or samples='),
        ({"repeat": {"wiki": 1}, "stop": "all"}, r"repeat= is for \['wiki'\]"),
        ({"repeat": 0, "stop": "all"}, "repeat of 'web'"),
        ({"then": {"web": {"code": 1}}}, "give repeat= as well"),
        ({"repeat": {"web": 1}, "then": {"code": {"web": 1}}, "stop": "all"}, r"then= is for \['code'\]"),
        ({"repeat": 1, "then": {"web": {"wiki": 1}}, "stop": "all"}, "weights are for"),
        ({"repeat": 1, "then": {"books": {"web": 1}}, "stop": "all"}, "leaves a source without a weight"),
        ({"repeat": 1, "samples": 99}, "together they have 37 samples"),
        ({"repeat": 1, "samples": 9, "schedule": {3: weights}}, "give one of them"),
    ):
        with pytest.raises(ValueError, match=said):
            unirecord.mix(sources, weights, **options)  # type: ignore[arg-type]


def test_sources_that_have_been_narrowed_are_named(
    sources: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = sources["web"].split({"train": 0.7, "val": 0.3})["train"]
    chosen = {"web": kept, "code": sources["code"].view(where="i % 2 == 0"), "books": sources["books"]}
    mixed = unirecord.mix(chosen, samples=20)
    for _ in mixed.batches(4, receipts=tmp_path / "receipts"):
        pass
    assert unirecord.audit(tmp_path / "receipts", mixed).ok
    (tmp_path / "state.json").write_text(json.dumps(mixed.state_dict()))
    named = [f"{name}={ds.path}" for name, ds in sources.items()]
    receipts, page = str(tmp_path / "receipts"), str(tmp_path / "run.html")
    for asked in (
        ["audit", receipts, "--dataset", *named],
        ["report", receipts, page, *(word for one in named for word in ("--dataset", one))],
        ["trace", *named, "--state", str(tmp_path / "state.json"), "--batch", "4", "--step", "1"],
    ):
        assert cli.main(asked) == 2
        said = capsys.readouterr().err
        assert "source 'web' has other rows in the mixture" in said, (
            "the condition of code is told by the state"
        )
    chosen["web"] = sources["web"].view(where="i < 15")
    again = unirecord.mix(chosen, samples=20)
    for _ in again.batches(4, receipts=tmp_path / "others"):
        pass
    assert cli.main(["audit", str(tmp_path / "others"), "--dataset", *named]) == 0
