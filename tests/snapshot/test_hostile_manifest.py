"""Wrong manifests, and what is no regular file: refused, reported, and put right by repair."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from reseal import sealed
from writing import write_numbered

import unirecord
from unirecord.cli.main import main
from unirecord.snapshot import manifest


def directory(path: Path) -> tuple[Path, dict[str, Any]]:
    """A directory of two parts, and its manifest as JSON."""
    with unirecord.Writer(
        path, {"x": "int32", "s": "bytes"}, metadata={"a": 1}, max_part_bytes=4096
    ) as writer:
        for i in range(60):
            writer.write({"x": i, "s": b"x" * 100})
    return path / "manifest.json", json.loads((path / "manifest.json").read_bytes())


WRONG_MANIFESTS: list[tuple[str, Callable[[dict[str, Any]], object], str]] = [
    ("rows", lambda c: [p.update(rows=(1 << 63) - 1) for p in c["parts"]], ""),
    ("bytes", lambda c: [p.update(bytes=(1 << 63) - 1) for p in c["parts"]], ""),
    ("a number of 5000 digits", lambda c: c.update(generation="@@"), "9" * 5000),
    ("a number beyond", lambda c: c.update(generation="@@"), "1e999"),
    ("version", lambda c: c.update(version="@@"), "[" * 900 + "]" * 900),
    ("nested", lambda c: c.update(index="@@"), "[" * 985 + "]" * 985),
    ("deeper", lambda c: c.update(schema="@@"), '{"a":' * 5000 + "1" + "}" * 5000),
    ("metadata beyond ASCII", lambda c: c.update(metadata="é"), ""),
    (
        "metadata of a time that is none",
        lambda c: c.update(metadata=base64.b64encode(b"\xd5\xff\0\1").decode()),
        "",
    ),
    (
        "metadata with a key twice",
        lambda c: c.update(metadata=base64.b64encode(b"\x82\1\1\1\2").decode()),
        "",
    ),
    ("index of a blob", lambda c: c.update(index=["s"]), ""),
    ("index twice", lambda c: c.update(index=["x", "x"]), ""),
]


@pytest.mark.parametrize(
    ("change", "nested"), [w[1:] for w in WRONG_MANIFESTS], ids=[w[0] for w in WRONG_MANIFESTS]
)
def test_a_wrong_manifest_is_a_format_error_and_a_problem(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], nested: str
) -> None:
    name, content = directory(tmp_path / "set")
    change(content)
    name.write_bytes(sealed(content, nested))
    for use in (unirecord.UniRecordDataset, unirecord.describe, unirecord.append):
        with pytest.raises((unirecord.FormatError, unirecord.CorruptionError), match=r"manifest\.json"):
            use(tmp_path / "set")
    report = unirecord.verify(tmp_path / "set")
    assert [problem.path for problem in report.problems] == [str(name)]
    assert unirecord.repair(tmp_path / "set", output=tmp_path / "saved").kept == 60


@pytest.mark.parametrize("size", [0, 5, 10**9, 1 << 62])
@pytest.mark.parametrize("key", ["bytes", "index_bytes"])
def test_wrong_sizes_in_a_manifest_change_no_row_and_are_corrected_by_repair(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str, size: int
) -> None:
    name, content = directory(tmp_path / "set")
    content["parts"][1][key] = size
    name.write_bytes(sealed(content))
    assert [row["x"] for row in unirecord.UniRecordDataset(tmp_path / "set")] == list(range(60))
    assert [problem.part for problem in unirecord.verify(tmp_path / "set").problems] == [1]
    assert main(["repair", str(tmp_path / "set")]) == 0
    assert "the sizes of files in it were wrong, and were corrected" in capsys.readouterr().out
    assert unirecord.verify(tmp_path / "set").ok
    assert [entry.name for entry in tmp_path.iterdir()] == ["set"]
    found = manifest.read(str(name))
    assert (found.id.hex(), found.generation) == (content["id"], content["generation"] + 1)
    assert found.metadata is not None


@pytest.mark.parametrize(
    "change",
    [
        lambda part: part.update(rows=part["rows"] + 1),
        lambda part: part.update(rows=part["rows"] - 1),
        lambda part: part.update(id=part["id"][:8] + "0" * 24),
        lambda part: part.update(content="1" * 32),
    ],
    ids=["more rows", "fewer rows", "id", "content"],
)
def test_repair_saves_parts_that_the_manifest_does_not_name(
    tmp_path: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    name, content = directory(tmp_path / "set")
    change(content["parts"][0])
    name.write_bytes(sealed(content))
    with pytest.raises(unirecord.StaleError):
        list(unirecord.UniRecordDataset(tmp_path / "set"))
    report = unirecord.repair(tmp_path / "set")
    assert (report.kept, report.lost) == (60, 0)
    assert "the manifest says" in report.parts[0].reasons[0]
    assert unirecord.verify(tmp_path / "set.repaired").ok
    saved = unirecord.UniRecordDataset(tmp_path / "set.repaired")
    assert [row["x"] for row in saved] == list(range(60))
    assert saved.metadata == {"a": 1}


def test_repair_says_of_a_part_of_another_schema_that_its_rows_are_not_saved(tmp_path: Path) -> None:
    name, content = directory(tmp_path / "set")
    part = tmp_path / "set" / content["parts"][1]["name"]
    for file in (part, Path(f"{part}.idx")):
        file.unlink()
    write_numbered(part, 7)
    report = unirecord.repair(tmp_path / "set")
    first = content["parts"][0]["rows"]
    assert (report.ok, report.kept, report.lost) == (False, first, 7)
    assert "schema" in report.parts[1].reasons[0]
    assert len(unirecord.UniRecordDataset(tmp_path / "set.repaired")) == first
    assert name.exists()


def test_a_dataset_without_parts_is_empty_in_every_way(tmp_path: Path) -> None:
    name, content = directory(tmp_path / "set")
    content["parts"] = []
    name.write_bytes(sealed(content))
    dataset = unirecord.UniRecordDataset(tmp_path / "set")
    assert (len(dataset), list(dataset), list(dataset.batches(4)), len(dataset.scalars(["x"])["x"])) == (
        0,
        [],
        [],
        0,
    )
    assert unirecord.describe(tmp_path / "set").rows == 0


@pytest.mark.parametrize("kind", ["pipe", "device", "directory"])
@pytest.mark.parametrize("which", ["manifest.json", ".urec", ".idx"])
def test_what_is_no_regular_file_is_refused_and_not_waited_for(tmp_path: Path, which: str, kind: str) -> None:
    directory(tmp_path / "set")
    path = next(p for p in sorted((tmp_path / "set").iterdir()) if p.name.endswith(which))
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()

    def use() -> None:
        with pytest.raises((unirecord.UniRecordError, OSError)):
            list(unirecord.UniRecordDataset(tmp_path / "set"))
        assert not unirecord.verify(tmp_path / "set").ok
        with pytest.raises((unirecord.UniRecordError, OSError)):
            unirecord.describe(tmp_path / "set")
        if which == ".urec":
            with contextlib.suppress(unirecord.UniRecordError, OSError):
                unirecord.repair(tmp_path / "set", output=tmp_path / "saved")

    thread = threading.Thread(target=use, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive(), "it waits for a writer of the pipe"


@pytest.mark.parametrize("where", ["x is not null", "x != 0 or x == 0", "not x is null"])
def test_no_room_is_made_for_rows_that_a_manifest_alone_claims(tmp_path: Path, where: str) -> None:
    """No index is needed to know that all rows meet such a condition."""
    name, content = directory(tmp_path / "set")
    content["parts"][0]["rows"] = 1 << 42
    name.write_bytes(sealed(content))
    with pytest.raises((unirecord.CorruptionError, unirecord.FormatError, unirecord.StaleError)):
        unirecord.UniRecordDataset(tmp_path / "set", where=where)
