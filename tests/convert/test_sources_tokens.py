"""Files of tokens: Megatron's, datatrove's, lit-gpt's, llm.c's and flat ones; rows, types, windows, refusals."""

from __future__ import annotations

import random
import struct
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sources import idx
from token_samples import MEGATRON_CODES, datatrove, litgpt, llm_c, megatron

import unirecord
from unirecord import UniRecordDataset, write_dataset
from unirecord.convert.sources import Options, open_source
from unirecord.convert.sources import token_files as module
from unirecord.errors import SchemaError, UniRecordError

DOCUMENTS = [[5, 6, 7], [], [8], [9, 10, 11, 12, 13]]


def rows(source: str | Path, **options: Any) -> dict[str, list[Any]]:
    """All rows of a source, by column."""
    found = open_source(str(source), options=Options(**options))
    columns: dict[str, list[Any]] = {name: [] for name in found.schema.names}
    for batch in found.batches():
        for name in columns:
            columns[name] += [value.tolist() for value in batch.columns[name]]
    return columns


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units, batches and pieces of an index of a few rows."""
    for name, size in (
        ("_UNIT_BYTES", 24),
        ("_UNIT_ROWS", 3),
        ("_MOST_BYTES", 16),
        ("_MOST_ROWS", 2),
        ("_PIECE", 3),
    ):
        monkeypatch.setattr(module, name, size)


@pytest.mark.parametrize("dtype", MEGATRON_CODES)
@pytest.mark.parametrize("ending", [".idx", ".bin"])
def test_megatron_of_every_type(tmp_path: Path, dtype: str, ending: str) -> None:
    index = megatron(tmp_path / "text_document", DOCUMENTS, dtype=dtype)
    with write_and_open(index.with_suffix(ending), tmp_path / "out") as ds:
        assert ds.schema.names == ("tokens",)
        assert [row["tokens"].tolist() for row in ds] == DOCUMENTS
        assert ds[0]["tokens"].dtype == dtype


def write_and_open(source: Path | str, target: Path, **options: Any) -> UniRecordDataset:
    write_dataset(str(source), target, **options)
    return UniRecordDataset(target)


@pytest.mark.usefixtures("small")
def test_documents_of_any_sequences_are_those_of_the_index(tmp_path: Path) -> None:
    for seed in range(60):
        draw = random.Random(seed)
        folder, said, sequences, documents, modes = tmp_path / str(seed), [], [], 0, []
        folder.mkdir()
        multimodal = draw.random() < 0.5
        for file in range(draw.randint(1, 3)):
            here = [
                [draw.randrange(100) for _ in range(draw.choice((0, 1, 9)))]
                for _ in range(draw.randint(1, 14))
            ]
            cuts = sorted(draw.randint(0, len(here)) for _ in range(draw.randint(0, 8)))
            bounds = draw.choice(([0, *cuts, len(here)], list(range(len(here) + 1))))
            ours = [draw.randint(-1, 1) for _ in here]
            megatron(folder / f"f{file}", here, bounds, "int32", ours if multimodal else None)
            for d, (first, stop) in enumerate(pairwise(bounds)):
                said += [documents + d] * (stop - first)
            documents, sequences, modes = documents + len(bounds) - 1, sequences + here, modes + ours
        found = rows(folder)
        assert found["tokens"] == sequences, seed
        assert found.get("mode", []) == (modes if multimodal else []), seed
        assert found.get("document", said) == said, seed
        if "document" not in found:
            assert said == list(range(len(sequences))), seed


def test_documents_without_sequences_and_tokens_of_none_are_said(tmp_path: Path) -> None:
    index = megatron(tmp_path / "x", DOCUMENTS, [0, 0, 2, 2, 4])
    with index.with_suffix(".bin").open("ab") as file:
        file.write(b"more")
    found = {(one.name, one.reason): one.count for one in open_source(str(index)).left_out}
    name = str(tmp_path / "x.bin")
    assert found == {
        (f"documents of {name}", "left out: they have no sequence"): 2,
        (f"4 B of {name}", "left out: of no sequence"): 1,
    }
    assert rows(index)["document"] == [1, 1, 3, 3]


def test_sequences_may_lie_in_any_order(tmp_path: Path) -> None:
    index = megatron(tmp_path / "x", [[1, 2], [3], [4, 5]])
    data = bytearray(index.read_bytes())
    data[34 + 12 : 34 + 36] = struct.pack("<3q", 6, 4, 0)
    index.write_bytes(data)
    assert rows(index)["tokens"] == [[4, 5], [3], [1, 2]]


def test_an_index_of_mnist_is_still_mnists(tmp_path: Path) -> None:
    (tmp_path / "labels.idx").write_bytes(idx(np.arange(3, dtype=np.uint8), 8))
    assert open_source(str(tmp_path / "labels.idx")).kind == "idx"
    assert open_source(str(tmp_path)).kind == "idx"
    assert open_source(str(megatron(tmp_path / "mega", DOCUMENTS))).kind == "megatron"


def changed(path: Path, at: int, kind: str, value: int) -> None:
    data = bytearray(path.read_bytes())
    struct.pack_into(kind, data, at, value)
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("at", "kind", "value", "said"),
    [
        (9, "<Q", 2, "version 2 and type 8"),
        (17, "<B", 9, "version 1 and type 9"),
        (18, "<Q", 2**63, "cut off or damaged: it has 122 bytes, but 9,223,372,036,854,775,808 sequences"),
        (26, "<Q", 0, "0 bounds of documents"),
        (26, "<Q", 2**61, "bounds of documents take"),
        (34, "<i", -1, "-1 tokens of sequence 0"),
        (34, "<i", 2**31 - 1, "2,147,483,647 tokens of sequence 0 at byte 0, of 18 bytes"),
        (34, "<i", 9, "its sequences have 30 bytes, and .* has 18"),
        (50, "<q", -2, "of sequence 0 at byte -2"),
        (50, "<q", 1, "of sequence 0 at byte 1,"),
        (50, "<q", 2**63 - 2, "of sequence 0 at byte 9,223,372,036,854,775,806"),
        (82, "<q", 1, "its documents do not follow each other"),
        (90, "<q", 4, "its documents do not follow each other"),
        (90, "<q", 2**63 - 1, "its documents do not follow each other"),
        (114, "<q", 3, "its documents end at sequence 3 of 4"),
        (114, "<q", 5, "its documents end at sequence 5 of 4"),
    ],
)
def test_an_index_of_megatron_that_lies_is_refused(
    tmp_path: Path, at: int, kind: str, value: int, said: str
) -> None:
    index = megatron(tmp_path / "x", DOCUMENTS)
    changed(index, at, kind, value)
    with pytest.raises(UniRecordError, match=f"x.idx.*{said}|{said}.*x.idx|x.bin.*{said}"):
        open_source(str(index))


def test_megatron_without_its_other_file_or_mixed_is_refused(tmp_path: Path) -> None:
    index = megatron(tmp_path / "x", DOCUMENTS)
    megatron(tmp_path / "y", DOCUMENTS, modes=[0, 0, 1, 1])
    with pytest.raises(UniRecordError, match="some of its files have modes"):
        open_source(str(tmp_path))
    index.with_suffix(".bin").unlink()
    with pytest.raises(UniRecordError, match=r"x\.bin does not exist, which .*x\.idx goes with"):
        open_source(str(index))


@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
@pytest.mark.parametrize("tokenizer", [None, "meta/llama|3"])
@pytest.mark.usefixtures("small")
def test_datatrove_with_and_without_what_may_lie_beside_it(
    tmp_path: Path, dtype: str, tokenizer: str | None
) -> None:
    losses = [[1] * len(one) for one in DOCUMENTS]
    for name in ("00000_x.ds", "00001_x.ds"):
        datatrove(tmp_path / name, DOCUMENTS, dtype, tokenizer, losses)
    with write_and_open(tmp_path, tmp_path / "out") as ds:
        assert [row["tokens"].tolist() for row in ds] == DOCUMENTS * 2
        assert [row["loss"].tolist() for row in ds] == losses * 2
        assert ds.schema["tokens"].annotations == ({} if tokenizer is None else {"tokenizer": tokenizer})
        assert ds[0]["tokens"].dtype == dtype
    assert rows(f"{tmp_path}/*.ds*")["tokens"] == DOCUMENTS * 2
    assert rows(tmp_path / "00000_x.ds")["tokens"] == DOCUMENTS


def test_datatrove_that_does_not_agree_is_refused(tmp_path: Path) -> None:
    def refused(said: str) -> None:
        with pytest.raises(UniRecordError, match=said):
            open_source(str(tmp_path))

    path = datatrove(tmp_path / "a.ds", DOCUMENTS)
    index, metadata, loss = (path.with_name(f"a.ds.{ending}") for ending in ("index", "metadata", "loss"))
    for text, said in (("gpt2|4\n9\n", "says 9 tokens of 4 bytes, but there are 9 of 2"), ("gpt2|2\n8\n", "says 8"),
                       ("gpt2|2", "no metadata of datatrove"), ("\n\n", "no metadata")):  # fmt: skip
        metadata.write_text(text)
        refused(said)
    metadata.write_text("gpt2\n9\n")
    loss.write_bytes(b"1")
    refused(r"a\.ds\.loss has 1 byte, and .*a\.ds 9 tokens")
    loss.unlink()
    datatrove(tmp_path / "b.ds", DOCUMENTS, tokenizer="other")
    refused(r"a\.ds is of the tokenizer 'gpt2', and .*b\.ds of 'other'")
    datatrove(tmp_path / "b.ds", DOCUMENTS, losses=[[0] * len(one) for one in DOCUMENTS])
    refused("some of its files have a .ds.loss beside them")
    whole = index.read_bytes()
    for data, said in (
        (whole[:-1], "no whole number of ends"),
        (whole[:-8], "documents end after 4 tokens"),
        (b"", "0 tokens"),
        (struct.pack("<4Q", 3, 2**63, 4, 9), "do not follow each other"),
        (struct.pack("<4Q", 3, 2, 4, 9), "do not follow each other"),
    ):
        index.write_bytes(data)
        refused(said)
    index.unlink()
    refused(r"a\.ds\.index does not exist, which .*a\.ds goes with")


TOKENS = np.random.default_rng(0).integers(0, 50_000, 100_003).astype("<u2")


@pytest.mark.parametrize("row_tokens", [None, "1000", 7, 1_000_000])
@pytest.mark.parametrize("header", [None, 1024, "3"])
def test_windows_over_a_flat_file_are_slices_of_it(tmp_path: Path, row_tokens: Any, header: Any) -> None:
    (tmp_path / "train.bin").write_bytes(b"h" * int(header or 0) + TOKENS.tobytes())
    asked = {"dtype": "uint16", "header": header, "row_tokens": row_tokens}
    with write_and_open(tmp_path / "train.bin", tmp_path / "out", **asked) as ds:
        assert len(ds) == -(-len(TOKENS) // int(row_tokens or 8_192))
        windows = unirecord.windows(ds, "tokens", 129, 128)
        assert len(windows) == (len(TOKENS) - 129) // 128 + 1
        flat = np.memmap(tmp_path / "train.bin", np.dtype("<u2"), "r", offset=int(header or 0))
        for i, batch in enumerate(windows.batches(97)):
            expected = [flat[128 * k : 128 * k + 129] for k in range(97 * i, min(97 * i + 97, len(windows)))]
            assert np.array_equal(batch["tokens"], np.array(expected))


@pytest.mark.parametrize("dtype", ["uint8", "uint32", "int64"])
@pytest.mark.usefixtures("small")
def test_flat_files_are_one_stream(tmp_path: Path, dtype: str) -> None:
    pieces = [np.arange(21).astype(dtype), np.arange(0).astype(dtype), np.arange(100, 104).astype(dtype)]
    for number, piece in enumerate(pieces):
        piece.tofile(tmp_path / f"{number}.bin")
    found = rows(tmp_path, dtype=dtype, row_tokens=4)["tokens"]
    assert [len(row) for row in found] == [4, 4, 4, 4, 4, 1, 4]
    assert list(chain.from_iterable(found)) == np.concatenate(pieces).tolist()


def test_files_that_say_their_type_need_no_option(tmp_path: Path) -> None:
    made = {
        "lit.bin": litgpt(tmp_path / "lit.bin", TOKENS[:100], 50),
        "f4.bin": litgpt(tmp_path / "f4.bin", TOKENS[:100].astype("<f4"), 50, 6),
        "gpt.bin": llm_c(tmp_path / "gpt.bin", TOKENS[:100]),
        "llama.bin": llm_c(tmp_path / "llama.bin", TOKENS[:100].astype("<u4"), 20240801, 7),
        "named.otherwise": litgpt(tmp_path / "named.otherwise", TOKENS[:100], 25),
    }
    kinds = {name: open_source(str(path)).schema["tokens"].type for name, path in made.items()}
    assert kinds == {name: {"f4.bin": "float32", "llama.bin": "uint32"}.get(name, "uint16") for name in made}
    for path in made.values():
        assert rows(path)["tokens"] == [TOKENS[:100].tolist()]
    assert rows(made["gpt.bin"], dtype="uint16", header="1024")["tokens"] == [TOKENS[:100].tolist()]


def test_flat_files_are_refused_with_what_to_say(tmp_path: Path) -> None:
    bare, lit, gpt = tmp_path / "bare.bin", tmp_path / "lit.bin", tmp_path / "gpt.bin"

    def refused(path: Path, said: str, **options: Any) -> None:
        with pytest.raises(UniRecordError, match=said):
            open_source(str(path), options=Options(**options))

    TOKENS[:100].tofile(bare)
    litgpt(lit, TOKENS[:100], 50)
    llm_c(gpt, TOKENS[:100])
    refused(bare, r"say it with --dtype \(uint16 in nanoGPT\), and with --header how many bytes")
    refused(bare, "--dtype is one of uint8, uint16, .*, got 'float16'", dtype="float16")
    refused(bare, "200 bytes are no whole number of uint16 behind 3 bytes", dtype="uint16", header=3)
    refused(bare, "behind 1,024 bytes", dtype="uint16", header=1024)
    for value in ("x", "-1", 1.5, True, str(2**41)):
        refused(bare, "--row-tokens is a whole number of at least 1, got", dtype="uint16", row_tokens=value)
    refused(bare, "--row-tokens is a whole number of at least 1, got '0'", dtype="uint16", row_tokens="0")
    for path in (lit, gpt):
        refused(
            path,
            r"says itself that its tokens are uint16 behind .*; leave --dtype and --header out",
            dtype="int32",
        )
        refused(path, "says itself", header=7)
    refused(tmp_path / "lit.bin", "--dtype is one of", dtype="text")
    changed(gpt, 8, "<i", 2**31 - 1)
    refused(gpt, "its header says 2,147,483,647 tokens of uint16, and it has 1,224 bytes")
    changed(gpt, 8, "<i", -1)
    refused(gpt, "cut off or damaged")
    changed(lit, 16, "<Q", 2**64 - 1)
    refused(lit, "no whole number of chunks of 18,446,744,073,709,551,615 tokens")
    changed(lit, 16, "<Q", 0)
    refused(lit, "0 tokens of a chunk")
    lit.write_bytes(b"LITPKDS\1")
    refused(lit, "a packed file of lit-gpt that is damaged")
    bare.write_bytes(b"")
    refused(bare, "holds no tokens", dtype="uint16")


def test_a_folder_of_shares_names_the_commands_that_write_each(tmp_path: Path) -> None:
    for name in ("train.bin", "val.bin"):
        TOKENS[:100].tofile(tmp_path / name)
    with pytest.raises(UniRecordError, match=r"unirecord write .*train\*' train.*val\*' val"):
        open_source(str(tmp_path), options=Options(dtype="uint16"))


def test_files_of_several_types_become_the_widest(tmp_path: Path) -> None:
    megatron(tmp_path / "a", [[1, 2]], dtype="uint16")
    megatron(tmp_path / "b", [[-3]], dtype="int32")
    with write_and_open(tmp_path, tmp_path / "out") as ds:
        assert ds.schema["tokens"].type == "int32"
        assert [row["tokens"].tolist() for row in ds] == [[1, 2], [-3]]


def test_a_folder_of_bin_files_is_of_tokens_by_its_header_or_by_dtype(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "a.bin").write_bytes(np.arange(4, dtype="<u2").tobytes())
    with pytest.raises(SchemaError, match="holds no pictures"):
        write_dataset(bare, tmp_path / "out")
    assert write_dataset(bare, tmp_path / "out", dtype="uint16", row_tokens=2) == 2


def test_a_name_without_its_suffix_is_answered_with_what_is_there(tmp_path: Path) -> None:
    for name in ("text.bin", "text.idx", "texts.idx"):
        (tmp_path / name).write_bytes(b"")
    there = f"{tmp_path}/text.bin and {tmp_path}/text.idx"
    with pytest.raises(
        UniRecordError, match=f"^{tmp_path}/text does not exist, but {there}: name one of them"
    ):
        write_dataset(tmp_path / "text", tmp_path / "out")
