"""`--tokenizer`: text becomes tokens as the library makes them, of any source, and datasets know by which tokenizer."""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

import unirecord
from unirecord import UniRecordDataset, write_dataset
from unirecord.cli import main
from unirecord.convert import tokenizer as tokenizer_module
from unirecord.convert.sources.source import RawBatch, Unit
from unirecord.convert.tokenizer import Tokenization
from unirecord.errors import MissingError, SchemaError, StaleError
from unirecord.format.schema import Schema

TEXTS = ["the cat sat on the mat", "", "größe → naïve 猫", "a\n\nb  the the", "the dog"]


def save(path: Path, texts: list[str] = TEXTS, *, template: bool = False) -> Tokenizer:
    """A byte-level BPE tokenizer of these texts, in a file that also cuts and pads, as models' files do."""
    found = Tokenizer(models.BPE())
    found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<eos>", "<bos>"]
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=special, initial_alphabet=alphabet)
    found.train_from_iterator(texts, trainer)
    if template:
        found.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 1)])
    found.enable_truncation(3)
    found.enable_padding(length=9)
    path.parent.mkdir(exist_ok=True)
    found.save(str(path))
    found.no_truncation()
    found.no_padding()
    return found


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with open("text.jsonl", "w") as file:
        for i, text in enumerate(TEXTS):
            file.write(json.dumps({"id": i, "text": text, "lang": "en"}) + "\n")
    return tmp_path


def tokens_of(path: str, column: str = "tokens") -> list[Any]:
    with UniRecordDataset(path) as ds:
        return [None if row[column] is None else row[column].tolist() for row in ds]


def test_tokens_are_those_of_the_library(here: Path) -> None:
    tokenizer = save(here / "small" / "tokenizer.json")
    command = ["write", "text.jsonl", "out", "--tokenizer", "small", "--append-eos", "<eos>"]
    assert main([*command, "--prepend-bos", "<bos>"]) == 0
    assert tokens_of("out") == [[1, *tokenizer.encode(text).ids, 0] for text in TEXTS]
    with UniRecordDataset("out") as ds:
        assert ds.schema.names == ("id", "tokens", "lang")
        assert ds[0]["tokens"].dtype == np.uint16
        digest = hashlib.sha256(Path("small/tokenizer.json").read_bytes()).hexdigest()
        size = tokenizer.get_vocab_size()
        said = {"name": "small", "sha256": digest, "vocab_size": size, "bos": 1, "eos": 0}
        assert ds.schema["tokens"].annotations == {"tokenizer": said}


def test_the_function_takes_the_same(here: Path) -> None:
    tokenizer = save(here / "t.json", template=True)
    write_dataset("text.jsonl", "plain.urec", tokenizer="t.json")
    assert tokens_of("plain.urec") == [tokenizer.encode(one, add_special_tokens=False).ids for one in TEXTS]
    write_dataset("text.jsonl", "special.urec", tokenizer=here / "t.json", add_special_tokens=True)
    assert tokens_of("special.urec") == [tokenizer.encode(one).ids for one in TEXTS]
    assert tokens_of("special.urec")[0][0] == 1


def test_a_large_vocabulary_takes_four_bytes(here: Path) -> None:
    for size, dtype in ((1 << 16, np.uint16), ((1 << 16) + 1, np.uint32)):
        found = Tokenizer(models.WordLevel({str(i): i for i in range(size)}, unk_token="0"))
        found.pre_tokenizer = pre_tokenizers.Whitespace()
        found.save("large.json")
        write_dataset([{"text": f"{size - 1} 7"}], "x.urec", tokenizer="large.json", overwrite=True)
        with UniRecordDataset("x.urec") as ds:
            assert ds[0]["tokens"].tolist() == [size - 1, 7]
            assert ds[0]["tokens"].dtype == dtype


def test_the_column_of_text_is_found_or_named(here: Path) -> None:
    tokenizer = save(here / "t.json")
    rows = [{"title": "the", "body": "cat"}]
    with pytest.raises(SchemaError, match="--text-column says which of title, body is tokenised"):
        write_dataset(rows, "x.urec", tokenizer="t.json")
    with pytest.raises(SchemaError, match="--text-column: there is no column 'bodi'; did you mean 'body'"):
        write_dataset(rows, "x.urec", tokenizer="t.json", text_column="bodi")
    with pytest.raises(SchemaError, match="--text-column: 'body' is not among --columns"):
        write_dataset(rows, "x.urec", tokenizer="t.json", text_column="body", columns=["title"])
    with pytest.raises(SchemaError, match="has no column of text among those to be written, n"):
        write_dataset([{"n": 1}], "x.urec", tokenizer="t.json")
    with pytest.raises(SchemaError, match="--text-column: 'n' is int64, not text"):
        write_dataset([{"n": 1}], "x.urec", tokenizer="t.json", text_column="n")
    with pytest.raises(SchemaError, match="two columns would be called 'tokens'"):
        write_dataset([{"text": "a", "tokens": 1}], "x.urec", tokenizer="t.json")
    write_dataset(
        rows, "x.urec", tokenizer="t.json", text_column="body", rename={"body": "ids"}, columns=["body"],
        where="title == 'the'",
    )  # fmt: skip
    assert tokens_of("x.urec", "ids") == [tokenizer.encode("cat").ids]
    with UniRecordDataset("x.urec") as ds:
        assert ds.schema.names == ("ids",)


def test_what_says_how_asks_for_a_tokenizer(here: Path) -> None:
    save(here / "t.json")
    with pytest.raises(ValueError, match="tokenizer says by what, and is not given"):
        write_dataset("text.jsonl", "x.urec", append_eos="<eos>")
    with pytest.raises(ValueError, match="choose one way"):
        write_dataset("text.jsonl", "x.urec", tokenizer="t.json", append_eos="<eos>", add_special_tokens=True)
    with pytest.raises(
        SchemaError, match=r"--append-eos: '</s>' is not in the vocabulary of t\.json; its special"
    ):
        write_dataset("text.jsonl", "x.urec", tokenizer="t.json", append_eos="</s>")
    with pytest.raises(MissingError, match=r"there is no file gpt2: a tokenizer is a tokenizer\.json"):
        write_dataset("text.jsonl", "x.urec", tokenizer="gpt2")
    with pytest.raises(MissingError, match=r"there is no file .*tokenizer\.json"):
        write_dataset("text.jsonl", "x.urec", tokenizer=here)
    assert not list(here.glob("x*"))


def test_a_library_that_is_missing_is_named(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(here / "t.json")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(MissingError, match=r"--tokenizer needs tokenizers, .* pip install tokenizers"):
        write_dataset("text.jsonl", "x.urec", tokenizer="t.json")


def test_null_stays_null(here: Path) -> None:
    tokenizer = save(here / "t.json")
    write_dataset([{"text": "the"}, {"text": None}], "x.urec", tokenizer="t.json")
    assert tokens_of("x.urec") == [tokenizer.encode("the").ids, None]


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{}", b"\xff\xfe", b"[" * 100_000, b'{"version": "1.0"}', b"null",
        b'{"model": {"type": "BPE", "vocab": {}, "merges": [["a", "b"]]}}',
        b'{"model": {"type": "WordLevel", "vocab": {"a": 4294967296}, "unk_token": "x"}}',
    ],
)  # fmt: skip
def test_what_is_no_tokenizer_is_said(here: Path, content: bytes) -> None:
    Path("bad.json").write_bytes(content)
    with pytest.raises(SchemaError, match=r"bad\.json cannot be read: "):
        write_dataset("text.jsonl", "x.urec", tokenizer="bad.json")
    assert not list(here.glob("x*"))


def test_a_token_that_is_not_in_the_vocabulary_is_an_error(here: Path) -> None:
    found = Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
    found.post_processor = processors.TemplateProcessing(single="$A [X]", special_tokens=[("[X]", 70_000)])
    found.save("t.json")
    with pytest.raises(SchemaError, match=r"a token 70,000, which is not in its vocabulary"):
        write_dataset([{"text": "a"}], "x.urec", tokenizer="t.json", add_special_tokens=True)


def test_text_that_it_cannot_take_is_named_or_left_out(here: Path) -> None:
    found = Tokenizer(models.WordLevel({"the": 0, "cat": 1}, unk_token="?"))
    found.pre_tokenizer = pre_tokenizers.Whitespace()
    found.save("t.json")
    with open("words.jsonl", "w") as file:
        file.writelines(json.dumps({"text": text}) + "\n" for text in ("the cat", "the dog", "cat"))
    with pytest.raises(SchemaError, match=r"words\.jsonl, line 2: text, by t\.json, cannot be read: .*UNK"):
        write_dataset("words.jsonl", "x", tokenizer="t.json")
    done = write_dataset("words.jsonl", "x", tokenizer="t.json", on_error="skip")
    assert (int(done), tokens_of("x")) == (2, [[0, 1], [1]])
    assert [one.name for one in done.left_out] == ["words.jsonl"]


def test_any_number_of_workers_makes_the_same_bytes(here: Path) -> None:
    save(here / "t.json")
    with open("many.jsonl", "w") as file:
        file.writelines(json.dumps({"n": i, "text": TEXTS[i % 5] * (i % 40)}) + "\n" for i in range(6000))
    for name, workers in (("one", 1), ("two", 2)):
        write_dataset("many.jsonl", name, tokenizer="t.json", workers=workers, id=bytes(16))
    names = sorted(file.name for file in Path("one").iterdir())
    assert names == sorted(file.name for file in Path("two").iterdir())
    for name in names:
        assert Path("one", name).read_bytes() == Path("two", name).read_bytes()


def test_rows_are_appended_by_the_same_tokenizer(here: Path) -> None:
    tokenizer = save(here / "a" / "tokenizer.json")
    save(here / "b" / "tokenizer.json", ["other words make another vocabulary", *TEXTS])
    write_dataset("text.jsonl", "out", tokenizer="a")
    write_dataset("text.jsonl", "out", tokenizer="a", append=True)
    assert tokens_of("out") == [tokenizer.encode(text).ids for text in TEXTS] * 2
    with pytest.raises(
        SchemaError, match=r"'tokens' means another thing here .*'name': 'b'.* and not .*'name': 'a'"
    ):
        write_dataset("text.jsonl", "out", tokenizer="b", append=True)
    assert len(tokens_of("out")) == 2 * len(TEXTS)


def test_datasets_of_two_tokenizers_are_not_put_together(here: Path) -> None:
    save(here / "a" / "tokenizer.json")
    save(here / "b" / "tokenizer.json", ["other words make another vocabulary", *TEXTS])
    (here / "c").mkdir()
    Path("c/tokenizer.json").write_bytes(Path("a/tokenizer.json").read_bytes())
    for name in "abc":
        write_dataset("text.jsonl", f"of_{name}", tokenizer=name)
    a, b, c = (UniRecordDataset(f"of_{name}") for name in "abc")
    assert len(unirecord.mix({"a": a, "c": c})) == 2 * len(TEXTS)  # the same by its digest
    with pytest.raises(SchemaError, match=r"tokenizer is {'name': 'b'.* and not {'name': 'a'"):
        unirecord.mix({"a": a, "b": b})
    with pytest.raises(SchemaError, match=r"'name': 'b'"):
        unirecord.merge(["of_a", "of_b"], "all")
    with pytest.raises(SchemaError, match=r"'name': 'b'"):
        UniRecordDataset(["of_a", "of_b"])


def test_another_tokenizer_does_not_go_on_with_what_was_stopped(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(here / "a" / "tokenizer.json")
    save(here / "b" / "tokenizer.json", ["other words make another vocabulary", *TEXTS])

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    with open("many.jsonl", "w") as file:
        file.writelines(json.dumps({"n": i, "text": TEXTS[i % 5] * 40}) + "\n" for i in range(9000))
    with monkeypatch.context() as patch:
        patch.setattr("unirecord.convert.conversion.check_samples", stop)
        with pytest.raises(KeyboardInterrupt):
            write_dataset("many.jsonl", "out", tokenizer="a")
    with pytest.raises(StaleError, match="--tokenizer differs"):
        write_dataset("many.jsonl", "out", tokenizer="b", resume=True)
    assert write_dataset("many.jsonl", "out", tokenizer="a", resume=True) == 9000


def test_windows_and_packed_take_the_tokens(here: Path) -> None:
    tokenizer = save(here / "t.json")
    write_dataset("text.jsonl", "out", tokenizer="t.json", append_eos="<eos>")
    stream = [token for text in TEXTS for token in [*tokenizer.encode(text).ids, 0]]
    with UniRecordDataset("out") as ds:
        windows = unirecord.windows(ds, "tokens", 4)
        assert [token for one in windows for token in one["tokens"].tolist()] == stream[: len(windows) * 4]
        packed = unirecord.packed(ds, "tokens", 64)
        found = np.concatenate([one["tokens"][one["document"] >= 0] for one in packed])
        assert sorted(found.tolist()) == sorted(stream)


def test_tokenised_datasets_of_hugging_face_give_windows(here: Path) -> None:
    datasets = pytest.importorskip("datasets")
    tokenizer = save(here / "t.json")
    ids = [tokenizer.encode(text).ids for text in TEXTS]
    columns = {"input_ids": ids, "attention_mask": [[1] * len(one) for one in ids], "labels": ids}
    features = datasets.Features(
        {
            name: datasets.Sequence(datasets.Value(dtype))
            for name, dtype in (("input_ids", "int32"), ("attention_mask", "int8"), ("labels", "int64"))
        }
    )
    made = datasets.Dataset.from_dict(columns, features=features)
    made.save_to_disk("saved")
    write_dataset(made, "given", columns=["input_ids", "attention_mask"])
    write_dataset("saved", "stored", columns=["input_ids"])
    stream = [token for one in ids for token in one]
    for path in ("given", "stored"):
        with UniRecordDataset(path) as ds:
            assert ds[0]["input_ids"].dtype == np.int32
            windows = unirecord.windows(ds, "input_ids", 5)
            assert (
                np.concatenate([one["input_ids"] for one in windows]).tolist() == stream[: len(windows) * 5]
            )
            assert sum((one["document"] >= 0).sum() for one in unirecord.packed(ds, "input_ids", 32)) == len(
                stream
            )


def changed(batches: Iterator[RawBatch]) -> Iterator[RawBatch]:
    """What tokenising makes of batches of a source with the one column of text that `here` has tokens for."""
    save(Path("small") / "tokenizer.json")
    source: Any = SimpleNamespace(schema=Schema.parse({"text": "text"}))
    step = Tokenization("small").step(source, "text", refuses=True)
    return step.changes(Unit("unit", 0, None), lambda *_: [], batches)


def test_the_next_batch_is_tokenised_while_one_is_written(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "true")
    encoded, is_at_second = tokenizer_module._Encoding.encoded, threading.Event()

    def waiting(self: Any, texts: Any) -> Any:
        if texts == ["the dog"]:
            is_at_second.set()
        if texts == ["the cat"]:
            assert is_at_second.wait(60)  # the first batch is not finished without the second
        return encoded(self, texts)

    monkeypatch.setattr(tokenizer_module._Encoding, "encoded", waiting)
    batches = [
        RawBatch({"text": ["the cat"]}, 1),
        RawBatch({"text": []}, 0),
        RawBatch({"text": ["the dog"]}, 1),
    ]
    tokenizer = save(here / "small" / "tokenizer.json")
    found = [[row.tolist() for row in batch.columns["text"]] for batch in changed(iter(batches))]
    assert found == [[tokenizer.encode("the cat").ids], [], [tokenizer.encode("the dog").ids]]


def test_what_was_read_before_an_error_is_given_first(here: Path) -> None:
    def batches() -> Iterator[RawBatch]:
        yield RawBatch({"text": ["the cat", "the dog"]}, 2)
        raise SchemaError("no more")

    found = changed(batches())
    assert next(found).rows == 2
    with pytest.raises(SchemaError, match="no more"):
        next(found)
