"""Windows over a column as one stream, and packed documents: every sample against a plain list, in every order."""

from __future__ import annotations

import doctest
import json
import pickle
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unirecord
from unirecord.order import windows as window_tables
from unirecord.order.windows import PACKED_TOGETHER, Packing, Windows, WindowTable

SIZES = [[3, 0, 7, 1], [], [12, 2, 2, 0, 5], [1]]  # documents of each part
VECTORS = Path(__file__).parents[1] / "data" / "stream_vectors.json"


def documents() -> list[np.ndarray]:
    lengths = [n for part in SIZES for n in part]
    ends = np.cumsum([0, *lengths])
    return [np.arange(a, b, dtype=np.uint16) for a, b in pairwise(ends)]


@pytest.fixture(scope="module", params=[None, "zstd", "fixed"])
def corpus(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A dataset of several parts, and its documents: plain, compressed, or all of one length."""
    folder = tmp_path_factory.mktemp("corpus")
    found = documents()
    column: dict[str, Any] = {"type": "uint16", "shape": [-1]}
    if request.param == "zstd":
        column["codec"] = "zstd"
    if request.param == "fixed":
        column["shape"], found = (
            [4],
            [np.arange(4 * i, 4 * i + 4, dtype=np.uint16) for i in range(len(found))],
        )
    at = 0
    for number, part in enumerate(SIZES):
        with unirecord.Writer(folder / f"{number}.urec", {"n": "int32", "tokens": column}) as writer:
            for _ in part:
                writer.write({"n": at, "tokens": found[at]})
                at += 1
    paths = [folder / f"{number}.urec" for number in range(len(SIZES))]
    with unirecord.UniRecordDataset(paths) as ds:
        yield ds, found


def cut(
    docs: list[tuple[int, np.ndarray]], length: int, stride: int, apart: bool, pad: int | None
) -> list[Any]:
    """(elements, rows, positions) of each window, one element after the other."""
    streams = [[((number, row), int(v)) for v in doc] for number, (row, doc) in enumerate(docs)]
    if not apart:
        streams = [[element for stream in streams for element in stream]]
    found = []
    for stream in streams:
        start = 0
        while start + length <= len(stream) or (pad is not None and start < len(stream)):
            window = stream[start : start + length]
            found.append(window + [((-1, -1), pad)] * (length - len(window)))
            if start + length >= len(stream):
                break
            start += stride
    return [
        ([v for _, v in w], [row for (_, row), _ in w], places([number for number, _ in w])) for w in found
    ]


def places(numbers: list[Any]) -> list[int]:
    found: list[int] = []
    for i, number in enumerate(numbers):
        found.append(found[-1] + 1 if i and numbers[i - 1] == number else 0)
    return found


def shown(batch: dict[str, Any]) -> list[Any]:
    begins = (batch["position"] == 0) & (batch["document"] >= 0)
    ends = np.append(np.flatnonzero(begins), begins.size)
    held = [int((batch["document"].ravel()[a:b] >= 0).sum()) for a, b in pairwise(ends)]
    lengths = batch["seq_lens"]
    assert lengths.values.dtype == np.int32
    assert lengths.values.tolist() == held
    assert lengths.element_lengths.tolist() == begins.sum(axis=1).tolist()
    masked = (batch["position"] == 0) | (batch["document"] < 0)
    assert batch["labels"].dtype == np.int64
    assert np.array_equal(batch["labels"], np.where(masked, -100, batch["tokens"].astype(np.int64)))
    return list(zip(*(batch[name].tolist() for name in ("tokens", "document", "position")), strict=True))


EVERYTHING = {"documents": True, "positions": True, "labels": True, "lengths": True}


@settings(max_examples=25, deadline=None)
@given(
    length=st.integers(1, 9),
    stride=st.integers(1, 9),
    apart=st.booleans(),
    pad=st.none() | st.integers(0, 9),
    chosen=st.none() | st.lists(st.integers(0, 9), max_size=6),
    every=st.sampled_from([1, 4]),
    ranks=st.integers(1, 3),
    remainder=st.sampled_from(["pad", "drop", "uneven"]),
    shuffle=st.sampled_from([False, True, "block"]),
    batch_size=st.integers(1, 5),
)
def test_windows_are_those_of_a_plain_list(
    corpus: Any,
    length: int,
    stride: int,
    apart: bool,
    pad: int | None,
    chosen: list[int] | None,
    every: int,
    ranks: int,
    remainder: Any,
    shuffle: Any,
    batch_size: int,
) -> None:
    ds, found = corpus
    rows = list(range(len(found))) if chosen is None else chosen
    base = ds if chosen is None else ds.select(np.array(chosen, np.int64))
    expected = cut([(row, found[row]) for row in rows], length, stride, apart, pad)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window_tables, "_MOST_ENTRIES", max(len(rows) // every, 1) + 1)
        windows = unirecord.windows(
            base, "tokens", length, stride, boundaries="document" if apart else None, pad=pad, **EVERYTHING
        )
    assert windows.num_rows == len(expected) == len(windows)
    if not expected:
        return
    assert shown(windows.read_rows(np.arange(len(expected)))) == [tuple(w) for w in expected]
    assert windows[-1]["tokens"].tolist() == expected[-1][0]
    ranks = min(ranks, len(expected))
    for rank in range(ranks):
        view = windows.view(shuffle=shuffle, seed=7, shard_id=rank, num_shards=ranks, remainder=remainder)
        order = view.order.row_ids().tolist()
        batches = [shown(batch) for batch in view.batches(batch_size)]
        assert [w for batch in batches for w in batch] == [tuple(expected[i]) for i in order]
        assert [sample["tokens"].tolist() for sample in view.view()] == [expected[i][0] for i in order]


@settings(max_examples=20, deadline=None)
@given(
    length=st.integers(1, 9),
    pad=st.integers(0, 9),
    chosen=st.none() | st.lists(st.integers(0, 9), max_size=6),
)
def test_packed_samples_have_every_element_once(
    corpus: Any, length: int, pad: int, chosen: list[int] | None
) -> None:
    ds, found = corpus
    rows = list(range(len(found))) if chosen is None else chosen
    base = ds if chosen is None else ds.select(np.array(chosen, np.int64))
    packed = unirecord.packed(base, "tokens", length, pad=pad, positions=True, labels=True, lengths=True)
    samples = shown(packed.read_rows(np.arange(packed.num_rows)))
    pieces = []
    for tokens, row_of, position in samples:
        begins = [i for i in range(length) if position[i] == 0]
        for a, b in zip(begins, [*begins[1:], length], strict=True):
            assert len(set(row_of[a:b])) == 1
            assert position[a:b] == list(range(b - a))
            if row_of[a] < 0:
                assert b == length
                assert set(tokens[a:b]) == {pad}
            else:
                pieces.append((row_of[a], tokens[a:b]))
    expected = [
        (row, found[row][a : a + length].tolist()) for row in rows for a in range(0, len(found[row]), length)
    ]
    assert sorted(pieces) == sorted(expected)


def test_sums_of_two_orders_go_on_exactly_after_a_resume(corpus: Any) -> None:
    windows = unirecord.windows(corpus[0], "tokens", 3, 2).view(shuffle=True, seed=1)
    whole = [batch["tokens"].tolist() for batch in windows.view().batches(2)]
    first = windows.batches(2)
    taken = iter(first)
    head = [next(taken)["tokens"].tolist() for _ in range(3)]
    again = pickle.loads(pickle.dumps(windows))
    again.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert head + [batch["tokens"].tolist() for batch in again.batches(2)] == whole
    for other in (
        unirecord.windows(corpus[0], "tokens", 3, 1),
        unirecord.windows(corpus[0], "tokens", 3, 2, pad=0),
        corpus[0],
    ):
        with pytest.raises(unirecord.StaleError, match="another dataset"):
            other.view(shuffle=True, seed=1).load_state_dict(first.state_dict())


def test_a_window_can_be_asked_for_like_a_row(corpus: Any) -> None:
    windows = unirecord.windows(corpus[0], "tokens", 4, shuffle := 2, documents=True).view(
        shuffle=bool(shuffle), seed=3
    )
    rows = windows.order.rows_of(1, batch_size=2, epoch=0)
    assert windows.order.rows_of(1, batch_size=2, epoch=0, read=True)["tokens"].tolist() == [
        windows.read_rows(np.array([row]))["tokens"][0].tolist() for row in rows
    ]
    assert windows.order.steps_of(rows, batch_size=2)["step"].tolist() == [1, 1]
    path, row = windows.locate(int(rows[0]))
    assert Path(path).is_file()
    assert row >= 0
    assert windows.view(columns=["document"])[0].keys() == {"document"}
    assert len(windows.take(2)) == 2
    assert sum(len(part) for part in windows.split([0.5, 0.5])) == len(windows)


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 30), max_size=40),
    st.integers(1, 12),
    st.integers(1, 12),
    st.booleans(),
    st.booleans(),
    st.integers(1, 9),
    st.integers(1, 41),
)
def test_a_table_says_what_comes_before(
    lengths: list[int], length: int, stride: int, apart: bool, padded: bool, piece: int, entries: int
) -> None:
    windows = Windows(length, stride, apart, padded)
    given_lengths = np.array(lengths, np.int64)
    counted = windows.of(given_lengths) if apart else given_lengths
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window_tables, "_MOST_ENTRIES", entries)
        pieces = [given_lengths[i : i + piece] for i in range(0, len(lengths), piece)]
        table = WindowTable.of(windows, pieces, len(lengths))
    assert len(table.before) <= entries + 1
    assert table.before[-1] == counted.sum()
    assert table.before[:-1].tolist() == [counted[:i].sum() for i in range(0, len(lengths), table.every)]
    assert table.elements == sum(lengths)


@pytest.mark.parametrize(("name", "length"), [("web", 1024), ("code", 2048), ("short", 512), ("equal", 1024)])
def test_packed_samples_are_full(name: str, length: int) -> None:
    """Lengths as published of tokenised text: log-normal around some hundreds of tokens, with a long tail."""
    random = np.random.default_rng(3)
    lengths = {
        "web": random.lognormal(6.1, 1.1, 40_000),
        "code": random.lognormal(6.6, 1.5, 40_000),
        "short": random.lognormal(4.5, 0.7, 40_000),
        "equal": random.integers(1, length + 1, 40_000),
    }[name].astype(np.int64) + 1
    packing = Packing.of([lengths], length)
    assert packing.elements == lengths.sum()
    assert packing.elements >= 0.98 * packing.samples * length
    assert len(packing.pieces) == (-(-lengths // length)).sum()
    assert (
        np.bincount(
            np.repeat(np.arange(packing.samples), np.diff(packing.starts)), packing.pieces[:, 2]
        ).max()
        <= length
    )


def test_packing_depends_on_the_documents_alone() -> None:
    lengths = np.random.default_rng(5).integers(0, 300, 3 * PACKED_TOGETHER + 17)
    one = Packing.of([lengths], 128)
    several = Packing.of([lengths[i : i + 1000] for i in range(0, len(lengths), 1000)], 128)
    assert one.pieces.tolist() == several.pieces.tolist()
    assert one.starts.tolist() == several.starts.tolist()


def test_streams_are_frozen(tmp_path: Path) -> None:
    """What docs/spec/order.md says of windows and packing, as numbers that another implementation can compare with."""
    vectors = json.loads(VECTORS.read_text())
    lengths = vectors["lengths"]
    ends = np.cumsum([0, *lengths])
    with unirecord.Writer(tmp_path / "d.urec", {"tokens": {"type": "int32", "shape": [-1]}}) as writer:
        for a, b in pairwise(ends):
            writer.write({"tokens": np.arange(a, b, dtype=np.int32)})
    with unirecord.UniRecordDataset(tmp_path / "d.urec") as ds:
        for case in vectors["windows"]:
            made = unirecord.windows(ds, "tokens", **case["options"])
            assert [sample["tokens"].tolist() for sample in made] == case["samples"]
        for case in vectors["packed"]:
            made = unirecord.packed(ds, "tokens", **case["options"])
            assert [sample["tokens"].tolist() for sample in made] == case["samples"]


def test_cu_seqlens_are_where_documents_begin(corpus: Any) -> None:
    batch = unirecord.packed(corpus[0], "tokens", 8).read_rows(np.arange(2))
    ends = unirecord.cu_seqlens(batch["document"])
    assert ends.dtype == np.int32
    flat = batch["document"].ravel()
    assert ends[0] == 0
    assert ends[-1] == 16
    assert 8 in ends
    assert all(len(set(flat[a:b])) == 1 for a, b in pairwise(ends))
    # in batches of any size, what lies between two ends is a document, or a piece of one that is longer than a sample
    documents = [sample["tokens"].tolist() for sample in corpus[0]]
    wanted = sorted(one[a : a + 8] for one in documents for a in range(0, len(one), 8))
    for size in (1, 3, 100):
        found = []
        for batch in unirecord.packed(corpus[0], "tokens", 8).batches(size):
            tokens, of = batch["tokens"].reshape(-1), batch["document"].reshape(-1)
            ends = unirecord.cu_seqlens(batch["document"])
            found += [tokens[a:b].tolist() for a, b in pairwise(ends) if of[a] >= 0]
        assert sorted(found) == wanted
    assert unirecord.cu_seqlens(np.array([5, 5, -1])).tolist() == [0, 2, 3]


def test_what_cannot_be_is_refused(corpus: Any, tmp_path: Path) -> None:
    ds = corpus[0]
    windows = unirecord.windows(ds, "tokens", 4)
    for wrong, error, text in (
        (lambda: unirecord.windows(ds, "n", 4), unirecord.SchemaError, "stream is made of"),
        (lambda: unirecord.windows(ds, "absent", 4), unirecord.SchemaError, "absent"),
        (lambda: unirecord.windows(ds, "tokens", 0), ValueError, "length"),
        (lambda: unirecord.windows(ds, "tokens", 4, 0), ValueError, "stride"),
        (lambda: unirecord.windows(ds, "tokens", 4, boundaries="part"), ValueError, "boundaries"),
        (lambda: unirecord.windows(ds, "tokens", 4, pad=70_000), ValueError, "no element of uint16"),
        (lambda: unirecord.windows(ds, "tokens", 4, pad=0.5), ValueError, "no element of uint16"),
        (lambda: unirecord.windows(ds, "tokens", 4, documents="tokens"), unirecord.SchemaError, "same name"),
        (lambda: unirecord.windows(windows, "tokens", 2), ValueError, "already"),
        (lambda: windows.view(where="n > 1"), ValueError, "choose them first"),
        (lambda: windows.view(shuffle="parts"), ValueError, "belong to no part"),
        (lambda: windows.view(columns=["n"]), unirecord.SchemaError, "n"),
        (lambda: windows.read_rows(np.array([10**6])), IndexError, "out of range"),
        (windows.refresh, ValueError, "make it anew"),
    ):
        with pytest.raises(error, match=text):
            wrong()


@pytest.mark.parametrize("verify", ["first", "always"])
@pytest.mark.parametrize("io", ["mmap", "pread", "memory"])
def test_a_damaged_document_is_named_or_left_out(tmp_path: Path, io: Any, verify: Any) -> None:
    path = tmp_path / "d.urec"
    with unirecord.Writer(path, {"tokens": {"type": "uint16", "shape": [-1]}}) as writer:
        for i in range(6):
            writer.write({"tokens": np.full(9000, 100 + i, np.uint16)})
    stored = path.read_bytes()
    at = stored.index(np.full(9000, 103, np.uint16).tobytes()) + 400
    path.write_bytes(stored[:at] + b"?" + stored[at + 1 :])
    with unirecord.UniRecordDataset(path, io=io, verify=verify) as ds:
        windows = unirecord.windows(ds, "tokens", 4500)
        with pytest.raises(unirecord.CorruptionError, match="row 3"):
            windows[6]
        with pytest.raises(unirecord.CorruptionError, match="row 3"):
            list(windows.batches(4))
        kept = unirecord.windows(ds.view(on_corrupt="skip"), "tokens", 4500)
        assert [int(v) for b in kept.batches(5) for v in b["tokens"][:, 0]] == [
            100 + i // 2 for i in range(12) if i // 2 != 3
        ]


def test_text_is_a_stream_of_bytes(tmp_path: Path) -> None:
    with unirecord.Writer(tmp_path / "t.urec", {"text": "text?", "raw": "bytes"}) as writer:
        for text in ("héllo", None, "", "wörld"):
            writer.write({"text": text, "raw": b"ab"})
    with unirecord.UniRecordDataset(tmp_path / "t.urec") as ds:
        stream = "hélloworld".replace("o", "o", 1).replace("wo", "wö").encode()
        windows = unirecord.windows(ds, "text", 3, pad=0)
        assert b"".join(sample["text"].tobytes() for sample in windows) == stream
        assert [s["raw"].tobytes() for s in unirecord.windows(ds, "raw", 4)] == [b"abab", b"abab"]


def test_the_examples_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[2] / "docs" / "language.md"
    outcome = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert outcome.failed == 0
    assert outcome.attempted > 8


@pytest.mark.parametrize(("length", "place"), [(8, "uint8"), (255, "uint8"), (256, "uint16")])
def test_written_samples_take_the_least_room(corpus: Any, tmp_path: Path, length: int, place: str) -> None:
    packed = unirecord.packed(corpus[0], "tokens", length, **EVERYTHING)
    unirecord.write_dataset(packed, tmp_path / "out", workers=1)
    with unirecord.UniRecordDataset(tmp_path / "out") as ds:
        assert ds.schema.names == ("tokens", "seq_lens", "document")
        assert [ds.schema[name].type for name in ("document", "seq_lens")] == ["uint8", place]
        for a, b in zip(unirecord.packed(ds, "tokens", **EVERYTHING), packed, strict=True):
            assert all(np.array_equal(a[name], b[name]) for name in packed.schema.names)
            assert all(a[name].dtype == b[name].dtype for name in packed.schema.names)
    changed = unirecord.packed(corpus[0], "tokens", length).view(
        transform=lambda s: {"document": s["document"]}
    )
    unirecord.write_dataset(changed, tmp_path / "own", workers=1)
    assert unirecord.UniRecordDataset(tmp_path / "own").schema["document"].type == "int64"
