"""Packed samples in PyTorch: what trainers take, and that a model learns from them what it learns from documents."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

import unirecord
from unirecord import SchemaError, UniRecordDataset, Writer
from unirecord.torch import loader, padding_free

WORDS, WIDTH, LENGTH = 50, 16, 24


class Model(nn.Module):
    """Two layers of causal attention; ``allowed`` says which place sees which."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.inner = nn.ModuleList(nn.Linear(WIDTH, 3 * WIDTH) for _ in range(2))
        self.outer = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, ids: Any, positions: Any, allowed: Any) -> Any:
        x = self.words(ids) + self.places(positions)
        for inner, outer in zip(self.inner, self.outer, strict=True):
            q, k, v = inner(x).chunk(3, -1)
            x = x + outer(F.scaled_dot_product_attention(q, k, v, attn_mask=allowed))
        return self.head(x)


def loss_of(logits: Any, labels: Any) -> Any:
    """As causal models of Hugging Face have it: a place predicts the label of the next one."""
    return F.cross_entropy(
        logits[:, :-1].reshape(-1, WORDS).double(), labels[:, 1:].reshape(-1), ignore_index=-100
    )


def causal(n: int) -> Any:
    return torch.ones(n, n, dtype=torch.bool).tril()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> UniRecordDataset:
    path = tmp_path_factory.mktemp("packing") / "text.urec"
    rng = np.random.default_rng(0)
    with Writer(path, {"tokens": "uint16[-1]"}) as writer:
        for n in [3, 24, 1, 30, 7, 11, 2, 24, 0, 5, 48, 9]:
            writer.write({"tokens": rng.integers(0, WORDS, n).astype(np.uint16)})
    return UniRecordDataset(path)


def pieces(ds: UniRecordDataset) -> list[Any]:
    """Each document, cut as packing cuts those that are too long."""
    found = [torch.from_numpy(sample["tokens"].astype(np.int64)) for sample in ds]
    return [one[a : a + LENGTH] for one in found for a in range(0, len(one), LENGTH)]


def test_packed_and_unpacked_have_one_loss_and_one_gradient(corpus: UniRecordDataset) -> None:
    torch.manual_seed(0)
    model = Model().double()
    total, count = torch.zeros((), dtype=torch.float64), 0
    for one in pieces(corpus):
        if len(one) > 1:
            logits = model(one[None], torch.arange(len(one))[None], causal(len(one)))
            total = total + loss_of(logits, one[None]) * (len(one) - 1)
            count += len(one) - 1
    unpacked = total / count
    unpacked.backward()
    wanted = [parameter.grad.clone() for parameter in model.parameters()]

    packed = unirecord.packed(corpus, "tokens", LENGTH, positions="position_ids", labels=True)
    batch = packed.read_rows(np.arange(packed.num_rows))
    flat: dict[str, Any] = padding_free(batch)
    bounds = flat["cu_seq_lens_q"].tolist()
    allowed = torch.zeros(bounds[-1], bounds[-1], dtype=torch.bool)
    for a, b in pairwise(bounds):
        allowed[a:b, a:b] = causal(b - a)
    ways = [(flat["input_ids"], flat["position_ids"], allowed[None], flat["labels"])]
    document = torch.from_numpy(batch["document"])
    same = (document[:, :, None] == document[:, None, :]) & causal(LENGTH)
    ids = torch.from_numpy(batch["tokens"].astype(np.int64))
    ways.append((ids, torch.from_numpy(batch["position_ids"]), same, torch.from_numpy(batch["labels"])))
    for ids, positions, mask, labels in ways:
        model.zero_grad()
        loss = loss_of(model(ids, positions, mask), labels)
        loss.backward()
        assert torch.allclose(loss, unpacked, rtol=1e-12)
        for parameter, grad in zip(model.parameters(), wanted, strict=True):
            assert torch.allclose(parameter.grad, grad, atol=1e-12)


def test_a_flat_batch_is_what_flash_attention_and_hugging_face_take(corpus: UniRecordDataset) -> None:
    packed = unirecord.packed(corpus, "tokens", LENGTH).view(shuffle=True, seed=1)
    for batch in loader(packed, batch_size=3):
        flat: dict[str, Any] = padding_free(batch)
        bounds, n = flat["cu_seq_lens_q"], int((batch["document"] >= 0).sum())
        assert bounds.dtype == torch.int32
        assert bounds is flat["cu_seq_lens_k"]
        assert (bounds[0], bounds[-1]) == (0, n)
        assert (bounds.diff() > 0).all()
        assert flat["max_length_q"] == flat["max_length_k"] == bounds.diff().max()
        assert type(flat["max_length_q"]) is int
        for name in ("input_ids", "labels", "position_ids"):
            assert flat[name].dtype == torch.int64
            assert flat[name].shape == (1, n)
        ids, labels, positions = (flat[name][0] for name in ("input_ids", "labels", "position_ids"))
        assert torch.equal((positions == 0).nonzero()[:, 0], bounds[:-1].long())
        assert torch.equal(labels, torch.where(positions == 0, -100, ids))
    rows = packed.read_rows(np.arange(1))
    alone: dict[str, Any] = padding_free({name: values[0] for name, values in rows.items()})
    assert torch.equal(alone["input_ids"], padding_free(rows)["input_ids"])
    with pytest.raises(KeyError, match="document"):
        padding_free(unirecord.packed(corpus, "tokens", LENGTH, documents=False).read_rows(np.arange(1)))


def flattened(ds: UniRecordDataset, rows: list[int]) -> dict[str, Any]:
    """What Hugging Face's collator makes of the documents of these samples."""
    transformers = pytest.importorskip("transformers")
    documents = [
        {"input_ids": tokens[document == number].tolist()}
        for tokens, document in ((ds[row]["tokens"], ds[row]["document"]) for row in rows)
        for number in dict.fromkeys(document[document >= 0].tolist())
    ]
    made: dict[str, Any] = transformers.DataCollatorWithFlattening(return_flash_attn_kwargs=True)(documents)
    return made


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        if isinstance(value, torch.Tensor):
            assert value.dtype == other[name].dtype
            assert torch.equal(value, other[name])
        else:
            assert (type(value), value) == (type(other[name]), other[name])


def test_a_flat_batch_is_that_of_the_collator_of_hugging_face(corpus: UniRecordDataset) -> None:
    packed, rows = unirecord.packed(corpus, "tokens", LENGTH), [6, 0, 5]
    assert_same(padding_free(packed.read_rows(np.array(rows))), flattened(packed, rows))


def test_flat_batches_by_lengths_are_those_by_documents(corpus: UniRecordDataset, tmp_path: Path) -> None:
    packed = unirecord.packed(corpus, "tokens", LENGTH)
    lengths = unirecord.packed(corpus, "tokens", LENGTH, documents=False, lengths=True)
    unirecord.write_dataset(packed, tmp_path / "packs", workers=1)
    stored = UniRecordDataset(tmp_path / "packs")
    again = unirecord.packed(stored, "tokens")
    for rows in (np.arange(0), np.arange(1), np.arange(packed.num_rows)[::-1]):
        wanted: dict[str, Any] = padding_free(packed.read_rows(rows))
        for ds in (lengths, stored, again):
            assert_same(padding_free(ds.read_rows(rows)), wanted)
    wanted = padding_free(packed[packed.num_rows - 1])
    batches = zip(*(loader(ds, batch_size=2) for ds in (packed, lengths, stored, again)), strict=True)
    for one, *others in batches:
        for other in others:
            assert_same(padding_free(other), padding_free(one))
    last = stored[stored.num_rows - 1]
    tensors = {name: torch.from_numpy(value.astype(np.int64)) for name, value in last.items()}
    samples = [stored[i] for i in range(3)]
    several = {name: [sample[name] for sample in samples] for name in ("tokens", "seq_lens")}
    several["tokens"] = np.stack(several["tokens"])
    for given_ in (last, tensors):
        assert_same(padding_free(given_), wanted)
    assert_same(padding_free(several), padding_free(packed.read_rows(np.arange(3))))
    ragged = {**stored.read_rows(np.arange(3))}
    ragged["seq_lens"] = ragged["seq_lens"].to_torch()
    assert_same(padding_free(ragged), padding_free(packed.read_rows(np.arange(3))))
    assert unirecord.cu_seqlens(stored.read_rows(np.arange(3))["seq_lens"]).tolist() == (
        padding_free(several)["cu_seq_lens_q"].tolist()
    )


@pytest.mark.parametrize("kind", ["uint8", "int8", "uint16", "int16", "uint32", "int32", "int64"])
def test_labels_are_the_elements_of_any_width(tmp_path: Path, kind: str) -> None:
    info = np.iinfo(kind)
    values = np.array([info.min, info.max, 5, info.max - 1, 0, info.min + 1], kind)
    with Writer(tmp_path / "x.urec", {"tokens": f"{kind}[-1]"}) as writer:
        writer.write({"tokens": values})
        writer.write({"tokens": values[:3]})
    ds = UniRecordDataset(tmp_path / "x.urec")
    for stream in (
        unirecord.packed(ds, "tokens", 10, labels=True),
        unirecord.windows(ds, "tokens", 7, 2, pad=0, labels="y").view(columns=["y"]),
    ):
        read = stream.read_rows(np.arange(stream.num_rows))
        name = "y" if "y" in read else "labels"
        (loaded,) = stream.batches(stream.num_rows)
        assert np.array_equal(read[name], loaded[name])
        assert read[name].dtype == np.int64
    assert read["y"][0].tolist() == [-100, *values[1:].astype(np.int64).tolist(), -100]
    packed = unirecord.packed(ds, "tokens", 10, labels=True).read_rows(np.arange(1))
    assert sorted(packed["labels"][0].tolist()) == sorted([
        -100, *values[1:].astype(np.int64).tolist(), -100, *values[1:3].astype(np.int64).tolist(), -100,
    ])  # fmt: skip


def test_labels_of_what_is_no_whole_number_are_refused(tmp_path: Path) -> None:
    with Writer(tmp_path / "x.urec", {"tokens": "float32[-1]"}) as writer:
        writer.write({"tokens": np.zeros(3, np.float32)})
    with pytest.raises(SchemaError, match="labels are whole numbers"):
        unirecord.packed(UniRecordDataset(tmp_path / "x.urec"), "tokens", 4, labels=True)


@given(
    rows=st.lists(st.lists(st.sampled_from([-1, 0, 1, 2]), min_size=6, max_size=6), min_size=1, max_size=4),
    start=st.integers(0, 60_000),
)
def test_flat_batches_have_every_token_of_a_document_once(rows: list[list[int]], start: int) -> None:
    document = np.array(rows, np.int64)
    tokens = (start + np.arange(document.size)).reshape(document.shape).astype(np.uint16)
    runs: list[list[int]] = []
    for ids, of in zip(tokens.tolist(), rows, strict=True):
        for place, (token, row) in enumerate(zip(ids, of, strict=True)):
            if place == 0 or of[place - 1] != row:
                runs.append([])
            if row >= 0:
                runs[-1].append(token)
    runs = [run for run in runs if run]
    flat: dict[str, Any] = padding_free({"tokens": tokens, "document": document})
    assert flat["input_ids"][0].tolist() == [token for run in runs for token in run]
    assert flat["position_ids"][0].tolist() == [place for run in runs for place in range(len(run))]
    assert flat["labels"][0].tolist() == [label for run in runs for label in [-100, *run[1:]]]
    assert flat["cu_seq_lens_q"].tolist() == np.cumsum([0, *map(len, runs)]).tolist()
    assert flat["max_length_q"] == max(map(len, runs), default=0)
