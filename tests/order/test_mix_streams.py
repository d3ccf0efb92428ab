"""Mixtures of windows and packed samples: the laws of mixtures, for samples that are made of many rows."""

from __future__ import annotations

import json
import pickle
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unirecord
from unirecord import SchemaError, UniRecordDataset, Writer, cli
from unirecord.order.selection import Selection
from unirecord.order.windows import Packing, Windows, WindowTable

LENGTH = 6
NAMES = ("web", "code", "books")


def written(path: Path, first: int, lengths: list[int], **said: Any) -> UniRecordDataset:
    with Writer(path, {"tokens": {"type": "uint16", "shape": [-1], **said}, "n": "int32"}) as writer:
        for n, length in enumerate(lengths):
            writer.write({"tokens": np.arange(first, first + length, dtype=np.uint16), "n": n})
            first += length
    return UniRecordDataset(path)


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> dict[str, UniRecordDataset]:
    folder = tmp_path_factory.mktemp("mixed")
    rng = np.random.default_rng(0)
    return {
        name: written(folder / name, 10_000 * i, rng.integers(0, 15, 20 + 10 * i).tolist())
        for i, name in enumerate(NAMES)
    }


EVERYTHING: dict[str, Any] = {"documents": True, "positions": True, "labels": True}
WAYS: dict[str, Any] = {
    "packed": lambda ds: unirecord.packed(ds, "tokens", LENGTH, pad=7, **EVERYTHING),
    "windows": lambda ds: unirecord.windows(ds, "tokens", LENGTH, 4, **EVERYTHING),
    "apart": lambda ds: unirecord.windows(
        ds, "tokens", LENGTH, 5, boundaries="document", pad=7, **EVERYTHING
    ),
    "some": lambda ds: unirecord.packed(
        ds.select(np.arange(ds.num_rows)[::-2]), "tokens", LENGTH, pad=7, **EVERYTHING
    ),
}


def same_but_rows(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """All but the numbers of documents, which are those of rows in the mixture."""
    return all(np.array_equal(one[name], other[name]) for name in ("tokens", "position", "labels"))


@settings(max_examples=60)
@given(
    length=st.integers(1, 9),
    stride=st.integers(1, 9),
    apart=st.booleans(),
    padded=st.booleans(),
    sizes=st.lists(st.integers(0, 12), max_size=12),
)
def test_windows_as_pieces_are_those_of_the_stream(
    length: int, stride: int, apart: bool, padded: bool, sizes: list[int]
) -> None:
    packing = Packing.of_windows(Windows(length, stride, apart, padded), [np.array(sizes, np.int64)])
    streams = [[(d, i) for i in range(size)] for d, size in enumerate(sizes)]
    if not apart:
        streams = [[element for stream in streams for element in stream]]
    wanted = []
    for stream in streams:
        start = 0
        while start + length <= len(stream) or (padded and start < len(stream)):
            wanted.append(stream[start : start + length])
            if start + length >= len(stream):
                break
            start += stride
    found = [
        [(d, first + i) for d, first, count in packing.pieces[a:b].tolist() for i in range(count)]
        for a, b in zip(packing.starts[:-1], packing.starts[1:], strict=True)
    ]
    assert found == wanted
    assert packing.pieces[:, 2].min(initial=1) > 0


@settings(max_examples=25, deadline=None)
@given(
    ways=st.tuples(*[st.sampled_from(list(WAYS))] * 3),
    weights=st.tuples(*[st.integers(1, 5)] * 3),
    ranks=st.integers(1, 3),
    shuffle=st.sampled_from([False, True, "block"]),
    seed=st.integers(0, 9),
)
def test_a_mixture_of_streams_has_the_samples_of_its_sources(
    corpora: Any, ways: Any, weights: Any, ranks: int, shuffle: Any, seed: int
) -> None:
    sources = {name: WAYS[way](corpora[name]) for name, way in zip(NAMES, ways, strict=True)}
    shares = dict(zip(NAMES, weights, strict=True))
    mixed = unirecord.mix(sources, weights=shares, seed=seed, shuffle=shuffle, stop="all")
    samples = list(mixed)
    assert len(samples) == len(mixed)
    # the share of each is exact at every prefix
    for name in NAMES:
        share = Fraction(shares[name], sum(weights))
        counts = np.cumsum([sample["source"] == name for sample in samples])
        assert all(abs(count - share * (i + 1)) < 1 for i, count in enumerate(counts.tolist()))
    # each source's samples are its own, all of them before any comes again
    for name, source in sources.items():
        mine = [sample for sample in samples if sample["source"] == name]
        own = sorted(s["tokens"].tolist() + s["labels"].tolist() for s in source)
        for at in range(0, len(mine) - source.num_rows + 1, source.num_rows):
            epoch = mine[at : at + source.num_rows]
            assert sorted(s["tokens"].tolist() + s["labels"].tolist() for s in epoch) == own
    # ranks, batches and rows are ways to the same samples
    rows = mixed.order.row_ids()
    assert all(same_but_rows(mixed.read_rows(rows[i : i + 1]), {k: v[None] for k, v in s.items() if k != "source"})
               for i, s in enumerate(samples[:5]))  # fmt: skip
    options = {"weights": shares, "seed": seed, "shuffle": shuffle, "stop": "all", "num_shards": ranks}
    parts = [list(unirecord.mix(sources, **options, shard_id=rank).batches(2)) for rank in range(ranks)]
    together = [
        (batch["source"][i], batch["tokens"][i].tolist())
        for part in parts for batch in part for i in range(len(batch["source"]))
    ]  # fmt: skip
    wanted = [(s["source"], s["tokens"].tolist()) for s in samples]
    assert set(map(str, together)) == set(map(str, wanted))
    assert len(together) >= len(wanted)
    # a document is a row of the mixture, whose values are the tokens
    assert (mixed.order.steps_of(rows[:3], batch_size=1)["step"] >= 0).all()
    documents = [set(sample["tokens"].tolist()) for ds in corpora.values() for sample in ds]
    for sample in samples:
        for token, row in zip(sample["tokens"].tolist(), sample["document"].tolist(), strict=True):
            assert token in documents[row] if row >= 0 else token == 7


def test_a_job_goes_on_on_other_ranks(corpora: Any) -> None:
    sources = {name: WAYS["packed"](corpora[name]) for name in NAMES}

    def mixed(shard: int, ranks: int) -> UniRecordDataset:
        return unirecord.mix(sources, seed=3, samples=60, shard_id=shard, num_shards=ranks)

    whole = [sample["tokens"].tolist() for sample in mixed(0, 1)]
    running = mixed(0, 1).batches(10)
    steps = iter(running)
    begun = [row.tolist() for _ in range(3) for row in next(steps)["tokens"]]
    state = json.loads(json.dumps(running.state_dict()))
    assert begun == whole[:30]
    rest = []
    for rank in range(3):
        again = pickle.loads(pickle.dumps(mixed(rank, 3)))
        again.load_state_dict(state)
        rest.append([row.tolist() for batch in again.batches(2) for row in batch["tokens"]])
    assert sorted(chain.from_iterable(rest)) == sorted(whole[30:])


def test_what_does_not_go_together_is_refused(corpora: Any, tmp_path: Path) -> None:
    web, code = corpora["web"], corpora["code"]
    packed = WAYS["packed"]
    with pytest.raises(ValueError, match=r"source 'a' is of windows or packed samples, and 'b' of rows"):
        unirecord.mix({"a": packed(web), "b": code})
    for other, said in (
        (
            unirecord.packed(code, "tokens", LENGTH + 1, pad=7, **EVERYTHING),
            r"length is 6 in source 'a' and 7.* unirecord.windows or packed makes the samples of a source anew",
        ),
        (unirecord.packed(code, "tokens", LENGTH, pad=8, **EVERYTHING), "pad is 7 in source 'a' and 8"),
        (unirecord.packed(code, "tokens", LENGTH, pad=7), "positions is 'position'"),
    ):
        with pytest.raises(ValueError, match=said):
            unirecord.mix({"a": packed(web), "b": other})
    wide = Writer(tmp_path / "wide", {"tokens": "uint32[-1]", "n": "int32"})
    with wide as writer:
        writer.write({"tokens": np.arange(9, dtype=np.uint32), "n": 1})
    with pytest.raises(SchemaError, match="column 'tokens' is"):
        unirecord.mix({"a": packed(web), "b": packed(UniRecordDataset(tmp_path / "wide"))})
    said = {"annotations": {"tokenizer": {"name": "x", "sha256": "0" * 64}}}
    other_words = written(tmp_path / "words", 0, [9, 9], **said)
    mine = written(tmp_path / "mine", 0, [9, 9], annotations={"tokenizer": {"name": "y", "sha256": "1" * 64}})
    with pytest.raises(SchemaError, match="tokenizer"):
        unirecord.mix({"a": packed(mine), "b": packed(other_words)})
    with pytest.raises(ValueError, match="one of each source, and mix these"):
        unirecord.packed(unirecord.mix({"a": web, "b": code}), "tokens", LENGTH)
    with pytest.raises(SchemaError, match="already"):
        unirecord.mix({"a": packed(web), "b": packed(code)}, source_column="document")


def test_weights_may_be_of_elements(corpora: Any, tmp_path: Path) -> None:
    shares = {"web": 3, "code": 2, "books": 1}
    windows = {name: unirecord.windows(corpora[name], "tokens", LENGTH, 4) for name in NAMES}
    of_tokens = unirecord.mix(windows, shares, by="tokens", seed=1)
    plain = unirecord.mix(windows, shares, seed=1)  # samples of one length: nothing else
    assert [s["tokens"].tolist() for s in of_tokens] == [s["tokens"].tolist() for s in plain]
    # one source's samples are half empty, so that it comes twice as often
    half = written(tmp_path / "half", 50_000, [3] * 8)
    full = written(tmp_path / "full", 60_000, [6] * 8)
    ways = (
        lambda ds: unirecord.windows(ds, "tokens", 6, boundaries="document", pad=0, documents=True),
        lambda ds: ds,
    )
    for way in ways:
        mixed = unirecord.mix(
            {"half": way(half), "full": way(full)}, {"half": 1, "full": 1}, by="tokens", samples=48
        )
        names = [sample["source"] for sample in mixed]
        assert names.count("half") == 2 * names.count("full")
        tokens = [(s["source"], int((s["tokens"] >= 50_000).sum())) for s in mixed]
        assert sum(n for name, n in tokens if name == "half") == sum(
            n for name, n in tokens if name == "full"
        )
    assert half.num_rows == 8
    with pytest.raises(ValueError, match="are cut from 'tokens'"):
        unirecord.mix(windows, shares, by="n")
    empty = written(tmp_path / "empty", 0, [0, 0])
    with pytest.raises(ValueError, match="source 'b' has no elements in it"):
        unirecord.mix({"a": half, "b": empty}, {"a": 1, "b": 1}, by="tokens")


@given(
    windows=st.builds(Windows, st.integers(1, 9), st.integers(1, 9), st.booleans(), st.booleans()),
    sizes=st.lists(st.integers(0, 20), max_size=9),
)
def test_what_windows_hold_is_counted_without_padding(windows: Windows, sizes: list[int]) -> None:
    lengths = np.array(sizes, np.int64)
    assert WindowTable.of(windows, [lengths], len(sizes)).held == Packing.of_windows(windows, [lengths]).held


# ---- draws and mixtures as sources ------------------------------------------------------------------------------


def epochs(ds: UniRecordDataset, count: int) -> list[tuple[str, list[int]]]:
    """The samples of several epochs, one behind the other."""
    found = []
    for epoch in range(count):
        ds.set_epoch(epoch)
        found += [(sample.get("source", ""), sample["tokens"].tolist()) for sample in ds]
    return found


@pytest.mark.parametrize("kind", ["weighted", "once", "mixture", "mixture of packs"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_a_draw_or_a_mixture_is_a_source_like_any_other(corpora: Any, kind: str, shuffle: bool) -> None:
    web, code, books = (corpora[name].view(shuffle=shuffle, seed=4) for name in NAMES)
    if kind == "mixture of packs":
        web, code, books = (WAYS["packed"](ds) for ds in (web, code, books))

    def inner() -> UniRecordDataset:
        if kind == "weighted":
            return unirecord.weighted(web, np.arange(web.num_rows), samples=13)
        if kind == "once":
            return unirecord.weighted(web, np.arange(web.num_rows), replacement=False)
        return unirecord.mix({"web": web, "code": code}, {"web": 2, "code": 1}, seed=9, samples=17)

    mixed = unirecord.mix({"sub": inner(), "books": books}, {"sub": 2, "books": 1}, seed=1, samples=45)
    samples = epochs(mixed, 3)
    names = [name.partition("/")[0] for name, _ in samples]
    counts = np.cumsum([name == "sub" for name in names])
    assert all(abs(n - Fraction(2 * (i + 1), 3)) < 1 for i, n in enumerate(counts.tolist()))
    drawn = [(name.partition("/")[2], tokens) for name, tokens in samples if name.startswith("sub")]
    if shuffle or kind.startswith("mixture"):  # else it has the seed that the mixture gives it
        wanted = epochs(inner(), 1 + len(drawn) // len(inner()))
        assert drawn == wanted[: len(drawn)]
    assert len({name for name, _ in drawn}) == (2 if kind.startswith("mixture") else 1)
    # rows and steps are inverse, and a state goes on with the rest on other ranks
    placed = {
        (step, slot): int(row)
        for step in range(mixed.order.steps_in_epoch(4, num_shards=1))
        for slot, row in enumerate(mixed.order.rows_of(step, 4, epoch=1, rank=0, num_shards=1))
    }
    asked = mixed.order.steps_of(sorted(set(placed.values())), 4, epochs=[1], num_shards=1)
    found = zip(*(asked[name].tolist() for name in ("step", "slot", "row")), strict=True)
    assert {(step, slot): row for step, slot, row in found} == placed
    mixed.set_epoch(1)
    running = mixed.batches(5)
    begun = [row.tolist() for _, batch in zip(range(4), running, strict=False) for row in batch["tokens"]]
    state = json.loads(json.dumps(running.state_dict()))
    rest = []
    for rank in range(5):
        again = unirecord.mix(
            {"sub": inner(), "books": books}, {"sub": 2, "books": 1},
            seed=1, samples=45, shard_id=rank, num_shards=5,
        )  # fmt: skip
        again = pickle.loads(pickle.dumps(again))
        again.load_state_dict(state)
        rest += [row.tolist() for batch in again.batches(5) for row in batch["tokens"]]
    whole = [tokens for _, tokens in samples[45:90]]
    assert sorted(begun + rest) == sorted(whole)
    other = unirecord.mix({"sub": web, "books": books}, {"sub": 2, "books": 1}, seed=1, samples=45)
    with pytest.raises((ValueError, unirecord.StaleError), match=r"other options|another dataset"):
        other.load_state_dict(state)


def test_batches_that_belong_together_are_no_source(corpora: Any) -> None:
    drawn = unirecord.balanced(corpora["web"], "n", classes=2, per_class=1)
    with pytest.raises(TypeError, match="of batches that belong together"):
        unirecord.mix({"a": drawn, "b": corpora["code"]})
    weighted = unirecord.weighted(corpora["web"], np.ones(corpora["web"].num_rows))
    with pytest.raises(ValueError, match="give weights of samples"):
        unirecord.mix({"a": weighted, "b": corpora["code"]}, {"a": 1, "b": 1}, by="tokens")


def test_receipts_of_mixtures_of_draws_are_audited(
    corpora: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    web, code = corpora["web"], corpora["code"]
    mixtures = {
        "packed": lambda: unirecord.mix({"a": WAYS["packed"](web), "b": WAYS["packed"](code)}, samples=30),
        "weighted": lambda: unirecord.mix(
            {"a": unirecord.weighted(web, np.ones(web.num_rows)), "b": code}, samples=30
        ),
        "mixture": lambda: unirecord.mix({"a": unirecord.mix({"w": web, "c": code}), "b": code}, samples=30),
    }
    for name, made in mixtures.items():
        receipts = tmp_path / name
        for _ in made().batches(4, receipts=receipts):
            pass
        assert unirecord.audit(receipts, made()).ok
        assert cli.main(["audit", str(receipts)]) == 0
        assert cli.main(["audit", str(receipts), "--dataset", f"a={web.path}", f"b={code.path}"]) in (1, 2)
        said = capsys.readouterr().err
        wanted = "windows or packed samples" if name == "packed" else f"source 'a' is {name} itself"
        assert wanted in said


def test_the_identity_of_a_mixture_of_streams_is_that_of_the_page(corpora: Any) -> None:
    web, code = corpora["web"], corpora["code"].select([3, 1])
    packs = {name: unirecord.packed(ds, "tokens", LENGTH, pad=7) for name, ds in (("a", web), ("b", code))}
    state = unirecord.mix(packs, samples=9).batches(3).state_dict()
    files = unirecord.mix({"a": web, "b": code}, samples=9).batches(3).state_dict()["identity"]
    all_rows = web.num_rows + corpora["code"].num_rows
    rows = np.arange(web.num_rows), web.num_rows + np.array([3, 1])
    cut = [f"{Selection(all_rows, array=some).digest()}/tokens:{LENGTH},packed,0700" for some in rows]
    assert state["identity"] == "/".join([files, *cut])
    for source, ds in zip(state["drawn"]["sources"], packs.values(), strict=True):
        assert source["identity"] == ds.batches(3).state_dict()["identity"]
