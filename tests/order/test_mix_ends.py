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
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from order_reference import permutation, turns_of_cycle

import unirecord
from unirecord import UniRecordDataset, cli
from unirecord.core import xxh3_64
from unirecord.order.mixture import whole_weights

ROWS = {"web": 23, "code": 9, "books": 5}
LONGEST = {"web": 9, "code": 3, "books": 40}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("ends")
    opened: dict[str, Any] = {}
    for number, (name, rows) in enumerate(ROWS.items()):
        lengths = np.random.default_rng(number).integers(0, LONGEST[name] + 1, rows)
        with unirecord.Writer(folder / name, {"i": "int32", "tokens": "uint8[-1]"}) as writer:
            for i, length in enumerate([*lengths[1:], LONGEST[name]]):
                writer.write({"i": 1000 * number + i, "tokens": np.zeros(length, np.uint8)})
        opened[name] = UniRecordDataset(folder / name, remainder="uneven")
    return opened


def epoch_of(mixed: Any, epoch: int) -> list[tuple[str, int, int]]:
    """(source, i, elements) of each sample."""
    mixed.set_epoch(epoch)
    return [(sample["source"], int(sample["i"]), len(sample["tokens"])) for sample in mixed]


def expect_shares(
    samples: list[tuple[str, int, int]],
    scheduled: dict[int, dict[str, int]],
    most: dict[str, int],
    after: dict[str, dict[str, int]],
    by: str | None,
) -> None:
    """Of one epoch: from a change of weights to the next, by an end or the schedule, the share of each is exact."""
    given, ended, drawn = scheduled[0], set[str](), Counter[str]()
    held: Counter[str] = Counter()
    for turn, (name, _, elements) in enumerate(samples):
        if turn in scheduled:
            given, held = scheduled[turn], Counter()
        now = {one: Fraction(0 if one in ended else given.get(one, 0)) for one in ROWS}
        assert now[name], f"turn {turn}: {name} has no weight"
        drawn[name] += 1
        held[name] += 1 if by is None else elements
        total, here = sum(now.values()), sum(held.values())
        for one in ROWS:
            share, most_off = now[one] / total, Fraction(1)
            if by is not None:
                others = sum(LONGEST[other] for other in ROWS if other != one and now[other])
                most_off = ((1 - share) * LONGEST[one] + share * others) / 2 + 1
            assert abs(held[one] - here * share) <= most_off, (turn, one)
            assert by is not None or abs(held[one] - here * share) < 1, (turn, one)
        if drawn[name] == most.get(name):
            ended.add(name)
            given, held = after.get(name, given), Counter()
    assert all(drawn[name] <= many for name, many in most.items())


def expect_one_order(mixed: Any, epoch: int, whole: list[tuple[str, int, int]], data: Any) -> None:
    """Ranks, batches, states and questions have the order of the samples."""
    mixed.set_epoch(epoch)
    loader = mixed.batches(3)
    stop = data.draw(st.integers(0, 4))
    begun = [int(i) for _, batch in zip(range(stop), loader, strict=False) for i in batch["i"]]
    assert begun == [i for _, i, _ in whole[: len(begun)]]
    state, ranks, rest = json.loads(json.dumps(loader.state_dict())), data.draw(st.integers(1, 3)), []
    if len(begun) < len(whole) and stop:
        for rank in range(ranks):
            again = pickle.loads(pickle.dumps(mixed.view(shard_id=rank, num_shards=ranks)))
            again.load_state_dict(state)
            rest += [int(i) for batch in again.batches(2) for i in batch["i"]]
        assert sorted(rest) == sorted(i for _, i, _ in whole[len(begun) :])
    placed = {
        (step, slot): int(row)
        for step in range(mixed.order.steps_in_epoch(4, num_shards=1))
        for slot, row in enumerate(mixed.order.rows_of(step, 4, epoch=epoch, rank=0, num_shards=1))
    }
    asked = mixed.order.steps_of(sorted(set(placed.values())), 4, epochs=[epoch], num_shards=1)
    answers = zip(*(asked[name].tolist() for name in ("step", "slot", "row")), strict=True)
    assert {(step, slot): row for step, slot, row in answers} == placed


WEIGHTS = st.fixed_dictionaries({name: st.integers(1, 6) for name in ROWS})
SOME_WEIGHTS = st.fixed_dictionaries({name: st.integers(0, 4) for name in ROWS}).filter(
    lambda w: any(w.values())
)
REPEAT = st.one_of(
    st.integers(1, 3), st.dictionaries(st.sampled_from(list(ROWS)), st.one_of(st.none(), st.integers(1, 3)))
)


@settings(max_examples=60, deadline=None)
@given(
    weights=WEIGHTS,
    repeat=REPEAT,
    by=st.sampled_from([None, "tokens"]),
    samples=st.one_of(st.none(), st.integers(1, 60)),
    changes=st.dictionaries(st.integers(1, 150), SOME_WEIGHTS, max_size=3),
    then=st.booleans(),
    seed=st.integers(0, 5),
    data=st.data(),
)
def test_a_source_that_has_been_read_so_often_comes_no_more_in_the_epoch(
    sources: Any,
    weights: Any,
    repeat: Any,
    by: str | None,
    samples: int | None,
    changes: dict[int, dict[str, int]],
    then: bool,
    seed: int,
    data: Any,
) -> None:
    times = {name: repeat.get(name) if isinstance(repeat, dict) else repeat for name in ROWS}
    most = {name: ROWS[name] * often for name, often in times.items() if often is not None}
    after: dict[str, dict[str, int]] = {}
    if then and most:
        name = data.draw(st.sampled_from(sorted(most)))
        after[name] = {one: data.draw(st.integers(0, 6)) for one in ROWS if one != name}
        assume(any(after[name].values()))
    if samples is not None and len(most) == len(ROWS):
        samples = min(samples, sum(most.values()))
    if samples is None:
        changes = {}
    options: dict[str, Any] = {
        "repeat": repeat,
        "then": after or None,
        "seed": seed,
        "samples": samples,
        "by": by,
    }
    # Weights of 0 may leave an epoch without a source.
    zeros = 0 in {weight for one in (*after.values(), *changes.values()) for weight in one.values()}
    mixed, refused = None, ""
    try:
        mixed = unirecord.mix(sources, weights, stop="all", schedule=changes or None, **options)
    except ValueError as error:
        refused = str(error)
    if mixed is None:
        assert zeros
        assert "together they have" in refused or "then= leaves a source" in refused
        return
    length = len(mixed)
    epochs = [epoch_of(mixed, epoch) for epoch in range(4)]
    for epoch, found in enumerate(epochs):
        begins = [start for start in (0, *sorted(changes)) if start <= epoch * length]
        scheduled = {0: {0: weights, **changes}[begins[-1]]}
        scheduled |= {start - epoch * length: one for start, one in changes.items() if start > epoch * length}
        expect_shares(found, scheduled, most, after, by)
        if samples is None and (by is None or len(most) == len(ROWS) or epoch == 0):
            counts = Counter(name for name, _, _ in found)
            assert all(counts[name] == many for name, many in most.items())
            assert all(counts[name] >= ROWS[name] for name in ROWS)
        assert len(found) == length
    # over all epochs no row comes again before all of its source have come
    for name, size in ROWS.items():
        mine = [i for found in epochs for one, i, _ in found if one == name]
        assert all(
            len(set(mine[at : at + size])) == len(mine[at : at + size]) for at in range(0, len(mine), size)
        )
    # an epoch is the same whichever has been asked for before
    epoch = data.draw(st.integers(0, 3))
    assert epoch_of(pickle.loads(pickle.dumps(mixed)), epoch) == epochs[epoch]
    expect_one_order(mixed, epoch, epochs[epoch], data)


def by_the_formula(
    lengths: list[list[int]],
    scheduled: dict[int, tuple[int, ...]],
    most: list[int | None],
    then: list[tuple[int, ...] | None],
    length: int,
    seed: int,
    by: str | None,
) -> list[tuple[int, int]]:
    """(source, draw) of the turns of three epochs: docs/spec/order.md, turn by turn."""
    found, drawn = [], [0] * len(lengths)
    orders: dict[tuple[int, int], list[int]] = {}

    def length_of(source: int, draw: int) -> int:
        epoch, place = divmod(draw, len(lengths[source]))
        key = source, epoch
        if key not in orders:
            at = permutation(len(lengths[source]), xxh3_64(list(ROWS)[source].encode(), seed), epoch, 1)
            orders[key] = [at(k) for k in range(len(lengths[source]))]
        return lengths[source][orders[key][place]]

    just_ended = False
    for turn in range(3 * length):
        first = turn % length == 0
        if first:
            begun, ended = drawn.copy(), set[int]()
            given = scheduled[max(start for start in scheduled if start <= turn)]
        if first or turn in scheduled or just_ended:
            given = scheduled.get(turn, given)
            weights = [0 if s in ended else weight for s, weight in enumerate(given)]
            stage, since, total = turn, [0] * len(lengths), sum(weights)
        if by is None:
            cycle, place = divmod(turn - stage, total)
            source = turns_of_cycle(weights, seed, cycle % -(-4096 // total))[place]
        else:
            source = min(
                (s for s, weight in enumerate(weights) if weight),
                key=lambda s: (
                    2**16 * (2 * since[s] + length_of(s, drawn[s])) // (weights[s] * (2**16 // total)), s
                ),
            )  # fmt: skip
        found.append((source, drawn[source]))
        since[source] += length_of(source, drawn[source])
        drawn[source] += 1
        just_ended = drawn[source] - begun[source] == most[source]
        if just_ended:
            ended.add(source)
            given = then[source] or given
    return found


def expect_the_formula(
    sources: Any,
    weights: Any,
    change: Any,
    start: int | None,
    often: Any,
    after: Any,
    samples: int,
    by: Any,
    seed: int,
) -> None:
    """``start``: of a stage of the schedule; None: the turn behind the end of the source code."""
    lengths = [[len(sample["tokens"]) for sample in ds] for ds in sources.values()]
    most = [None if times is None else times * n for times, n in zip(often, ROWS.values(), strict=True)]
    then: list[tuple[int, ...] | None] = [None] * 3
    options: dict[str, Any] = {}
    if often[1] is not None:
        then[1] = whole_weights([after[0], 0, after[2]])
        options["then"] = {"code": {"web": after[0], "books": after[2]}}
    options |= {"repeat": dict(zip(ROWS, often, strict=True)), "samples": samples, "seed": seed, "by": by}
    given = dict(zip(ROWS, weights, strict=True))
    if start is None:
        names = [name for name, _, _ in epoch_of(unirecord.mix(sources, given, **options), 0)]
        assert names.count("code") == most[1]
        start = max(turn for turn, name in enumerate(names) if name == "code") + 1
    mixed = unirecord.mix(sources, given, schedule={start: dict(zip(ROWS, change, strict=True))}, **options)
    scheduled = {0: whole_weights(weights), start: whole_weights(change)}
    wanted = by_the_formula(lengths, scheduled, most, then, samples, seed, by)
    found = [sample for epoch in range(3) for sample in epoch_of(mixed, epoch)]
    assert [name for name, _, _ in found] == [list(ROWS)[source] for source, _ in wanted]
    for (name, i, _), (source, draw) in zip(found, wanted, strict=True):
        epoch, place = divmod(draw, ROWS[name])
        order = permutation(ROWS[name], xxh3_64(name.encode(), seed), epoch, 1)
        assert i == 1000 * source + order(place)


@settings(max_examples=40, deadline=None)
@given(
    weights=st.tuples(*[st.integers(1, 6)] * 3),
    change=st.tuples(*[st.integers(1, 6)] * 3),
    start=st.integers(1, 90),
    often=st.tuples(*[st.sampled_from([None, 1, 2])] * 3),
    after=st.tuples(*[st.integers(1, 6)] * 3),
    samples=st.integers(1, 37),
    by=st.sampled_from([None, "tokens"]),
    seed=st.integers(0, 2**64 - 1),
)
def test_turns_are_those_of_the_formula(sources: Any, **given: Any) -> None:
    expect_the_formula(sources, **given)


@pytest.mark.parametrize("by", [None, "tokens"])
@pytest.mark.parametrize("seed", range(3))
def test_a_source_may_end_where_the_schedule_changes(sources: Any, by: str | None, seed: int) -> None:
    expect_the_formula(
        sources, (2, 3, 1), (1, 4, 2), None, (None, 1, None), (5, 0, 1), samples=30, by=by, seed=seed
    )


def test_once_each_is_every_row_of_every_source_once(sources: Any) -> None:
    mixed = unirecord.mix(sources, {"web": 1, "code": 1, "books": 1}, stop="all", repeat=1)
    assert len(mixed) == sum(ROWS.values())
    for epoch in range(2):
        assert len({i for _, i, _ in epoch_of(mixed, epoch)}) == sum(ROWS.values())
    assert epoch_of(mixed, 0) != epoch_of(mixed, 1)


def test_far_epochs_are_found_by_arithmetic_where_all_sources_end(sources: Any) -> None:
    weights = {"web": 3, "code": 1, "books": 2}
    options: dict[str, Any]
    for options in (
        {"stop": "all", "repeat": 1, "by": "tokens"},
        {"stop": "all", "repeat": {"web": 1, "books": 2}},
        {"samples": 50, "repeat": {"books": 2}, "schedule": {1003: {"web": 1, "code": 1, "books": 1}}},
    ):
        mixed = unirecord.mix(sources, weights, **options)
        far = epoch_of(mixed, 10**9)
        assert len(far) == len(mixed)
        assert mixed.order.rows_of(0, len(far), epoch=10**9).tolist() == mixed.order.row_ids().tolist()


def test_epochs_that_follow_from_those_before_are_walked_to(sources: Any) -> None:
    weights = {"web": 3, "code": 1, "books": 2}
    mixed = unirecord.mix(sources, weights, samples=50, repeat={"books": 2}, by="tokens")
    again = unirecord.mix(sources, weights, samples=50, repeat={"books": 2}, by="tokens")
    there = epoch_of(again, 40)
    assert there == [epoch_of(mixed, epoch) for epoch in range(41)][-1]
    assert epoch_of(again, 7) == epoch_of(mixed, 7)
    with pytest.raises(ValueError, match=r"epoch 1000000: .* have all of them end"):
        epoch_of(mixed, 10**6)


@pytest.mark.parametrize("by", [None, "tokens"])
@pytest.mark.parametrize("schedule", [None, {30: {"web": 1, "code": 1, "books": 1}}])
def test_audit_report_and_trace_know_ends(
    sources: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    by: str | None,
    schedule: dict[int, dict[str, int]] | None,
) -> None:
    then = {"books": {"web": 1, "code": 5}}
    weights = {"web": 2, "code": 1, "books": 3}
    options: dict[str, Any] = {"stop": "all", "repeat": {"books": 2}, "by": by}
    options |= {} if schedule is None else {"schedule": schedule, "samples": 40}
    mixed = unirecord.mix(sources, weights, then=then, **options)
    for _ in range(2):
        for _ in mixed.batches(4, receipts=tmp_path / "receipts"):
            pass
    named = [f"{name}={ds.path}" for name, ds in sources.items()]
    assert cli.main(["audit", str(tmp_path / "receipts"), "--dataset", *named]) == 0
    page = str(tmp_path / "r.html")
    assert cli.main(["report", str(tmp_path / "receipts"), page, "--dataset", *named]) == 0
    (tmp_path / "state.json").write_text(json.dumps(mixed.state_dict()))
    capsys.readouterr()
    asked = ["--batch", "4", "--step", "5", "--json"]
    assert cli.main(["trace", *named, "--state", str(tmp_path / "state.json"), *asked]) == 0
    from_state = json.loads(capsys.readouterr().out)["samples"]
    first_rows = dict(zip(ROWS, np.cumsum([0, *ROWS.values()]), strict=False))
    rows = [int(row - first_rows[line["source"]]) for row, line in zip(
        mixed.order.rows_of(5, 4, epoch=mixed.state_dict()["epoch"]), from_state, strict=True)]  # fmt: skip
    assert rows == [line["row"] for line in from_state]
    plain = unirecord.mix(sources, weights, **options)
    (tmp_path / "state.json").write_text(json.dumps(plain.state_dict()))
    assert cli.main(["trace", *named, "--state", str(tmp_path / "state.json"), *asked]) == 0
    from_state = json.loads(capsys.readouterr().out)["samples"]
    if schedule is None:
        said = ["--weights", "web=2,code=1,books=3", "--stop", "all", "--repeat", "books=2"]
        said += [] if by is None else ["--by", by]
        once = unirecord.mix(sources, weights, stop="all", repeat=1, by=by)
        assert cli.main(["trace", *named, *said[:4], "--repeat", "1", *said[6:], *asked]) == 0
        traced = [line["source"] for line in json.loads(capsys.readouterr().out)["samples"]]
        assert traced == once.read_rows(once.order.rows_of(5, 4))["source"]
        assert cli.main(["trace", *named, "--remainder", "uneven", *said, *asked]) == 0
        assert json.loads(capsys.readouterr().out)["samples"] == from_state
    with pytest.raises(
        ValueError, match=r"other options: drawn is \{.*'then': .*\} in the state and \{.*'then': .*\} here"
    ):
        mixed.load_state_dict(plain.state_dict())


@pytest.mark.parametrize("by", [None, "tokens"])
def test_a_schedule_may_change_behind_a_state_and_nothing_else(sources: Any, by: str | None) -> None:
    weights, other = {"web": 2, "code": 1, "books": 3}, {"web": 1, "code": 3, "books": 1}
    options: dict[str, Any] = {"samples": 40, "repeat": {"books": 1}, "by": by}
    begun = unirecord.mix(sources, weights, **options).batches(5)
    seen = [int(i) for _, batch in zip(range(11), [*begun, *begun], strict=False) for i in batch["i"]]
    loader = unirecord.mix(sources, weights, **options).batches(5)
    assert [int(i) for _, batch in zip(range(3), loader, strict=False) for i in batch["i"]] == seen[:15]
    state = loader.state_dict()
    for start in (15, 20, 60):
        changed = unirecord.mix(sources, weights, schedule={start: other}, **options)
        wanted = [i for epoch in range(2) for _, i, _ in epoch_of(changed, epoch)]
        known = min(start, len(seen))
        assert wanted[:known] == seen[:known]
        changed.load_state_dict(state)
        assert [int(sample["i"]) for sample in changed] == wanted[15:40]
    for wrong, said in (
        ({"schedule": {14: other}}, r"\{'weights': \[\[0, \[2, 1, 3\]\]\]\} in the state and \{'weights'"),
        (
            {"repeat": {"books": 2}},
            r"\{'repeat': \[None, None, 1\]\} in the state and \{'repeat': \[None, None, 2\]\}",
        ),
        ({"repeat": None}, r"\{'repeat': .*\} in the state and \{\} here"),
    ):
        with pytest.raises(ValueError, match=said):
            unirecord.mix(sources, weights, **{**options, **wrong}).load_state_dict(state)


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
        ({"repeat": 1, "samples": 38, "by": "tokens"}, "every source end, and together they have 37 samples"),
        (
            {"repeat": {"web": 1}, "samples": 30, "schedule": {50: {"web": 1, "code": 0, "books": 0}}},
            r"all of \['web'\] end, at times no other has a weight, and together they have 23 samples",
        ),
        ({"repeat": 1, "stop": "all", "schedule": {3: weights}}, "how many samples an epoch has"),
        (
            {"repeat": 1, "then": {"books": {"web": 1}}, "stop": "all", "by": "tokens"},
            r"an epoch is of 37 samples: repeat= has all of \['web', 'books'\] end, .* together they have 28 samples",
        ),
    ):
        with pytest.raises(ValueError, match=said):
            unirecord.mix(sources, weights, **options)  # type: ignore[arg-type]
    for option, wrong in (("then", "web"), ("then", {"web": [1]}), ("schedule", [(3, weights)])):
        with pytest.raises(TypeError, match=rf"{option} is .*; it must be weights by"):
            unirecord.mix(sources, weights, repeat=1, samples=9, **{option: wrong})


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
