"""Packed samples that have been written: they take little room, and are read as they were when they were packed."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unirecord
from unirecord import SchemaError, UniRecordDataset, Writer, write_dataset

LENGTH = 12
EVERYTHING: dict[str, Any] = {"documents": True, "positions": "position_ids", "labels": True, "lengths": True}
TOKENIZER = {"name": "x", "sha256": "0" * 64}


def corpus(path: Path, sizes: list[int], dtype: str = "uint16") -> UniRecordDataset:
    said = {"type": dtype, "shape": [-1], "annotations": {"tokenizer": TOKENIZER}}
    with Writer(path, {"tokens": said}) as writer:
        first = 1
        for size in sizes:
            writer.write({"tokens": np.arange(first, first + size).astype(dtype)})
            first += size
    return UniRecordDataset(path)


def written(packed: UniRecordDataset, path: Path) -> UniRecordDataset:
    write_dataset(packed, path, workers=1)
    return UniRecordDataset(path)


def plain(batch: dict[str, Any]) -> dict[str, Any]:
    """A batch as lists, with the types of its numbers."""
    return {
        name: (value.values.dtype.name, [one.tolist() for one in value.to_list()])
        if hasattr(value, "to_list")
        else (value.dtype.name, value.tolist())
        for name, value in batch.items()
        if name != "source"
    }


@pytest.fixture(scope="module")
def packs(tmp_path_factory: pytest.TempPathFactory) -> tuple[UniRecordDataset, UniRecordDataset]:
    folder = tmp_path_factory.mktemp("packs")
    ds = corpus(folder / "text", np.random.default_rng(0).integers(0, 20, 60).tolist())
    packed = unirecord.packed(ds, "tokens", LENGTH, **EVERYTHING)
    return packed, written(packed, folder / "packs")


@settings(max_examples=20, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 30), min_size=1, max_size=12).filter(any),
    length=st.integers(1, 14),
    way=st.sampled_from(["packed", "whole", "apart"]),
    rows=st.data(),
)
def test_what_was_written_is_read_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], length: int, way: str, rows: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("law")
    ds = corpus(folder / "text", sizes)
    chosen = ds.select(np.array(rows.draw(st.permutations(range(len(sizes))))))
    if way == "packed":
        samples = unirecord.packed(chosen, "tokens", length, pad=7, **EVERYTHING)
    else:
        apart: Any = "document" if way == "apart" else None
        samples = unirecord.windows(chosen, "tokens", length, boundaries=apart, pad=7, **EVERYTHING)
    again = unirecord.packed(written(samples, folder / "packs"), "tokens", pad=7, **EVERYTHING)
    assert again.schema.to_spec() == samples.schema.to_spec()
    every = np.arange(len(samples))
    assert plain(again.read_rows(every)) == plain(samples.read_rows(every))
    (batch,) = again.batches(len(every))
    assert plain(batch) == plain(samples.read_rows(every))


def test_the_orders_and_ranks_of_written_packs_are_those_of_any_dataset(packs: Any) -> None:
    packed, stored = packs
    again = unirecord.packed(stored, "tokens", **EVERYTHING)
    for shuffle in (True, "block"):
        for rank in range(3):
            options: dict[str, Any] = {"shuffle": shuffle, "seed": 5, "shard_id": rank, "num_shards": 3}
            view = again.view(**options)
            running = view.batches(2)
            steps = iter(running)
            begun = [plain(next(steps)) for _ in range(2)]
            state = json.loads(json.dumps(running.state_dict()))
            resumed = pickle.loads(pickle.dumps(again.view(**options)))
            resumed.load_state_dict(state)
            rest = [plain(batch) for batch in resumed.batches(2)]
            rows = view.order.row_ids()
            whole = [plain(packed.read_rows(rows[i : i + 2])) for i in range(0, len(rows), 2)]
            assert begun + rest == whole


def test_written_packs_are_mixed_and_go_through_pipelines_by_the_same_names(
    packs: Any, tmp_path: Path
) -> None:
    packed, stored = packs
    again = unirecord.packed(stored, "tokens", **EVERYTHING)
    shares = {"a": 2, "b": 1}
    some = np.arange(4)
    mixed = unirecord.mix(
        {"a": again, "b": unirecord.packed(stored.select(some), "tokens", **EVERYTHING)}, shares, seed=1
    )
    fresh = unirecord.mix({"a": packed, "b": packed.select(some)}, shares, seed=1)
    assert set(mixed[0]) == {"tokens", "document", "position_ids", "labels", "seq_lens", "source"}
    for one, other in zip(mixed.batches(3), fresh.batches(3), strict=True):
        assert one["source"] == other["source"]
        found, wanted = plain(one), plain(other)
        assert {name: found[name] for name in found if name != "document"} == {
            name: wanted[name] for name in wanted if name != "document"
        }
    for ds in (packed, again):
        batches = list(ds.pipeline().batch(3))
        assert [plain(batch) for batch in batches] == [plain(batch) for batch in packed.batches(3)]
    with pytest.raises(
        SchemaError,
        match=r"'a' have been packed and written, and those of 'b' are made as they are read.*write_dataset",
    ):
        unirecord.mix({"a": again, "b": packed})
    # a mixture is written with its sources, and the tokenizer stays with the tokens
    kept = written(mixed, tmp_path / "mixed")
    assert kept.schema.names == ("tokens", "seq_lens", "document", "source")
    assert kept.schema["tokens"].annotations == {"tokenizer": TOKENIZER}


@pytest.mark.parametrize("sizes", [[], [0, 0]])
def test_packs_without_samples_are_written_with_their_types(tmp_path: Path, sizes: list[int]) -> None:
    ds = corpus(tmp_path / "text", sizes)
    packed = unirecord.packed(ds, "tokens", LENGTH, **EVERYTHING)
    stored = written(packed, tmp_path / "packs")
    assert (stored.num_rows, stored.schema.names) == (0, ("tokens", "seq_lens", "document"))
    again = unirecord.packed(stored, "tokens", **EVERYTHING)
    assert again.schema.to_spec() == packed.schema.to_spec()
    assert list(again) == list(again.batches(2)) == []
    # and so is any dataset
    write_dataset(ds.select([]), tmp_path / "rows", workers=1)
    assert UniRecordDataset(tmp_path / "rows").schema.says_the_same_as(ds.schema)


def test_written_packs_take_little_more_than_their_tokens(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sizes = np.minimum(rng.lognormal(6, 1, 1_000).astype(np.int64) + 1, 4096).tolist()
    packed = unirecord.packed(
        corpus(tmp_path / "text", [int(n) for n in sizes], "uint32"),
        "tokens",
        2048,
        positions=True,
        labels=True,
    )
    write_dataset(packed, tmp_path / "packs", workers=1)
    room = sum(path.stat().st_size for path in (tmp_path / "packs").rglob("*") if path.is_file())
    assert room < 1.1 * packed.num_rows * 2048 * 4


def test_columns_of_a_view_are_those_that_are_written(packs: Any, tmp_path: Path) -> None:
    packed, _ = packs
    for i, (columns, stored) in enumerate((
        (["tokens"], ("tokens",)),
        (["tokens", "position_ids"], ("tokens", "seq_lens")),
        (["seq_lens", "document"], ("seq_lens", "document")),
    )):  # fmt: skip
        assert written(packed.view(columns=columns), tmp_path / str(i)).schema.names == stored
    named = unirecord.packed(
        corpus(tmp_path / "t", [3, 4]), "tokens", LENGTH, documents="doc", lengths="lens"
    )
    again = written(named, tmp_path / "named")
    assert again.schema.names == ("tokens", "lens", "doc")
    read = unirecord.packed(again, "tokens", documents="doc", lengths="lens")
    assert plain(read.read_rows(np.arange(1))) == plain(named.read_rows(np.arange(1)))


@pytest.mark.parametrize(
    ("lengths", "documents", "said"),
    [
        ([5, 8], [0, 1], r"row 1, column 'seq_lens': \[5, 8\] are no lengths"),
        ([0, 3], [0, 1], r"\[0, 3\] are no lengths"),
        ([(1 << 62), 1 << 62], [0, 1], "are no lengths"),
        ([-3, 3], [0, 1], "are no lengths"),
        ([3, 3], [0, -1], "are no lengths"),
        ([3, 3], [0], "different numbers of documents"),
    ],
)
def test_lengths_that_do_not_fit_are_refused(
    tmp_path: Path, lengths: list[int], documents: list[int], said: str
) -> None:
    schema = {"tokens": f"uint16[{LENGTH}]", "seq_lens": "int64[-1]", "document": "int64[-1]"}
    with Writer(tmp_path / "x.urec", schema) as writer:
        for row_lengths, row_documents in (([LENGTH], [0]), (lengths, documents)):
            writer.write({
                "tokens": np.zeros(LENGTH, np.uint16),
                "seq_lens": np.array(row_lengths, np.int64),
                "document": np.array(row_documents, np.int64),
            })  # fmt: skip
    with pytest.raises(SchemaError, match=said):
        unirecord.packed(UniRecordDataset(tmp_path / "x.urec"), "tokens")


def test_rows_that_are_no_packs_are_refused(tmp_path: Path, packs: Any) -> None:
    ds = corpus(tmp_path / "text", [3, 4])
    with pytest.raises(SchemaError, match="of no packed samples, which have one length: say the length"):
        unirecord.packed(ds, "tokens")
    with Writer(tmp_path / "x.urec", {"tokens": "uint16[3]", "seq_lens": "float32[-1]"}) as writer:
        writer.write({"tokens": np.zeros(3, np.uint16), "seq_lens": np.zeros(1, np.float32)})
    other = UniRecordDataset(tmp_path / "x.urec")
    with pytest.raises(SchemaError, match="there is a whole number"):
        unirecord.packed(other, "tokens")
    with pytest.raises(SchemaError, match="no column 'lens' that says how long"):
        unirecord.packed(other, "tokens", lengths="lens")


def test_a_row_without_documents_is_no_sample(tmp_path: Path) -> None:
    with Writer(tmp_path / "x.urec", {"tokens": "uint16[3]", "seq_lens": "uint8[-1]"}) as writer:
        for lengths in ([], [1, 1], [], [2]):
            writer.write({"tokens": np.array([5, 6, 7], np.uint16), "seq_lens": np.array(lengths, np.uint8)})
    packed = unirecord.packed(UniRecordDataset(tmp_path / "x.urec"), "tokens", pad=9)
    assert [sample["tokens"].tolist() for sample in packed] == [[5, 6, 9], [5, 6, 9]]
    assert [sample["document"].tolist() for sample in packed] == [[0, 1, -1], [2, 2, -1]]
    assert packed.read_cursor.plan.data.parts.locate(1)[1] == 3


@pytest.mark.filterwarnings("error")
def test_shuffled_packs_are_written_in_their_order(tmp_path: Path) -> None:
    ds = corpus(tmp_path / "text", [5, 9, 3, 12, 7, 4, 11, 2])
    packed = unirecord.packed(ds.view(shuffle=True, seed=3), "tokens", LENGTH, **EVERYTHING)
    again = unirecord.packed(written(packed, tmp_path / "packs"), "tokens", **EVERYTHING)
    (batch,) = packed.batches(packed.num_rows)
    assert plain(again.read_rows(np.arange(packed.num_rows))) == plain(batch)
