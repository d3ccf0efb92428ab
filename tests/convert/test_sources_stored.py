"""A dataset written anew: every value, annotations, codecs and metadata kept, and all options of a conversion."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sources import plain

from unirecord import SchemaError, StaleError, UniRecordDataset, Writer, write_dataset
from unirecord.cli import main
from unirecord.convert.sources import open_source, stored_dataset


@pytest.mark.parametrize(
    "metadata", ["made by hand", [1, 2], 7, b"x", None, {"class_names": 3, "classes": "x"}]
)
def test_metadata_of_any_kind_are_kept(tmp_path: Path, metadata: Any) -> None:
    with Writer(tmp_path / "a.urec", {"n": "int64", "b": "bytes"}, metadata=metadata) as writer:
        writer.write({"n": 1, "b": b"x"})
    out = tmp_path / "b.urec"
    assert main(["write", str(tmp_path / "a.urec"), str(out), "--rename", "n=m", "--limit", "1"]) == 0
    write_dataset(tmp_path / "a.urec", tmp_path / "c.urec", rename={"n": "m"})
    for path in (out, tmp_path / "c.urec"):
        with UniRecordDataset(path) as ds:
            assert ds.metadata == metadata


SCHEMA = {
    "label": {"type": "int32", "logical": {"type": "class", "names": ["a", "b", "c"]}},
    "image": {"type": "bytes", "codec": "zstd", "logical": {"type": "media", "media": "image/png"}},
    "name": "string?",
    "text": "text",
    "vec": "float32[-1]",
    "grid": "uint8[2,2]?",
    "opt": "int64?",
    "o": "object",
}
ROWS: list[dict[str, Any]] = [
    {
        "label": i % 3,
        "image": bytes([i]) * (i % 40),
        "name": None if i % 7 == 0 else f"n{i:03}",
        "text": "wörter " * (i % 5),
        "vec": np.arange(i % 4, dtype=np.float32),
        "grid": None if i % 5 == 0 else np.full((2, 2), i, np.uint8),
        "opt": None if i % 3 else i,
        "o": {"b": [i, None, "x"]},
    }
    for i in range(200)
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_dataset(ROWS, "src", schema=SCHEMA, index=["label"], metadata={"classes": ["a", "b", "c"]})
    return tmp_path


def rows(path: str) -> list[dict[str, Any]]:
    with UniRecordDataset(path) as ds:
        return [{name: plain(value) for name, value in row.items()} for row in ds]


@pytest.mark.parametrize("source", ["src", "one.urec"])
def test_every_value_and_what_is_said_of_them_is_kept(
    here: Path, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_dataset, "_UNIT_BYTES", 4_000)
    assert main(["write", "src", "one.urec"]) == 0
    assert main(["write", source, "dst", "--rename", "image=picture,label=y", "--workers", "2"]) == 0
    wanted = [
        {{"image": "picture", "label": "y"}.get(k, k): v for k, v in row.items()} for row in rows("src")
    ]
    assert rows("dst") == wanted
    with UniRecordDataset("dst") as ds:
        assert ds.metadata == {"classes": ["a", "b", "c"]}
        assert ds.schema["y"].classes == ("a", "b", "c")
        assert ds.schema["picture"].media_type == "image/png"
    found = open_source("dst")
    assert len(open_source("src").units) > 1
    assert found.schema.to_spec() == {
        {"image": "picture", "label": "y"}.get(name, name): spec
        for name, spec in open_source("src").schema.to_spec().items()
    }
    assert {c.name: c.codec.name for c in found.schema if c.codec} == {"picture": "zstd"}


def test_rows_are_chosen_ordered_and_split(here: Path) -> None:
    assert write_dataset("src", "some", where="label == 2", columns=["name", "opt"], limit=5) == 5
    assert rows("some") == [{"name": r["name"], "opt": r["opt"]} for r in rows("src")[2:15:3]]
    write_dataset("src", "sorted", sort="name", schema={"label": "int64"}, index=["label"])
    names = [row["name"] for row in rows("sorted")]
    assert names == sorted(filter(None, names)) + [None] * names.count(None)
    write_dataset("src", "shares", split={"train": 0.5, "val": 0.5})
    apart = [row["o"]["b"][0] for name in ("train", "val") for row in rows(f"shares/{name}")]
    assert sorted(apart) == list(range(200))
    with pytest.raises(SchemaError, match="'name'"):
        write_dataset("src", "no", schema={"name": "int8"})
    assert not os.path.exists("no")


def test_it_may_replace_and_extend_itself(here: Path) -> None:
    wanted = rows("src")
    assert main(["write", "src", "src", "--overwrite", "--shuffle-seed", "1", "--workers", "2"]) == 0
    shuffled = rows("src")
    assert shuffled != wanted
    assert sorted(map(str, shuffled)) == sorted(map(str, wanted))
    assert main(["write", "src", "src", "--append"]) == 0
    assert rows("src") == shuffled * 2


def test_rows_of_other_classes_are_not_appended(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_dataset(ROWS, "other", schema=SCHEMA, metadata={"classes": ["b", "a", "c"]})
    assert main(["write", "other", "src", "--append"]) == 2
    assert "numbers its classes otherwise" in capsys.readouterr().err
    assert len(rows("src")) == 200


def test_one_that_is_written_anew_meanwhile_is_refused(here: Path) -> None:
    source = open_source("src")
    source.done()
    write_dataset(ROWS[:100], "src", schema=SCHEMA, overwrite=True)
    with pytest.raises(StaleError, match="src was written anew while it was read"):
        list(source.batches())
