"""``unirecord inspect`` and ``verify``: what is shown of a dataset, as text and as JSON, and exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from image_folders import picture

import unirecord
from unirecord import Writer
from unirecord.cli import main
from unirecord.cli.cells import cell_json, cell_text
from unirecord.cli.terminal import clipped, table, width
from unirecord.inspect.cells import encoded
from unirecord.inspect.describe import describe

SCHEMA: dict[str, Any] = {
    "image": "bytes",
    "label": "int16?",
    "name": "string",
    "word": "string?",
    "score": "float32",
    "mask": {"type": "uint8", "shape": [2, 3]},
    "boxes": {"type": "float32", "shape": [-1, 4]},
    "text": "text",
    "meta": "object",
}


def record(i: int) -> dict[str, Any]:
    return {
        "image": picture(4 + i, 3),
        "label": None if i == 1 else i - 2,
        "name": ["x", "yy", "é"][i % 3],
        "word": None if i % 2 else "a" * i,
        "score": i / 2,
        "mask": np.full((2, 3), i, np.uint8),
        "boxes": np.zeros((i, 4), np.float32),
        "text": "line one\nline two " * 10,
        "meta": {"i": i, "b": b"\0\1"},
    }


def made(path: Path, rows: int = 6, **options: Any) -> str:
    with Writer(path, SCHEMA, index=["label"], metadata={"by": "test"}, **options) as writer:
        for i in range(rows):
            writer.write(record(i))
    return str(path)


def test_description_adds_up(tmp_path: Path) -> None:
    found = describe(made(tmp_path / "x.urec"))
    by_name = {c.name: c for c in found.columns}
    assert (found.kind, found.rows, found.index, found.metadata) == ("part", 6, ["label"], {"by": "test"})
    assert found.data_bytes == (tmp_path / "x.urec").stat().st_size
    assert found.index_bytes == (tmp_path / "x.urec.idx").stat().st_size
    records = [record(i) for i in range(6)]
    assert by_name["image"].data_bytes == sum(len(r["image"]) for r in records)
    assert by_name["text"].data_bytes == sum(len(r["text"].encode()) for r in records)
    assert by_name["name"].data_bytes == 4 * 6 + sum(len(r["name"].encode()) for r in records)
    assert by_name["word"].data_bytes == 1 + 4 * 6 + sum(len(r["word"] or "") for r in records)
    assert by_name["label"].data_bytes == 2 * 6 + 1
    assert by_name["mask"].data_bytes == 36
    assert by_name["boxes"].data_bytes == sum(r["boxes"].nbytes for r in records)
    label = by_name["label"]
    assert (label.min, label.max, label.nulls, label.distinct, label.indexed) == (-2, 3, 1, 5, True)
    assert (by_name["name"].min, by_name["name"].max, by_name["name"].distinct) == ("x", "é", 3)
    assert (by_name["score"].min, by_name["score"].max) == (0.0, 2.5)
    assert sum(c.data_bytes for c in found.columns) < found.data_bytes
    assert sum(c.index_bytes for c in found.columns) < found.index_bytes


def test_parts_are_described_together(tmp_path: Path) -> None:
    made(tmp_path / "d", 4)
    with unirecord.append(tmp_path / "d") as writer:
        writer.write(record(2))
        writer.write(record(5))
    found = describe(tmp_path / "d")
    by_name = {c.name: c for c in found.columns}
    assert (found.kind, found.rows, [p.rows for p in found.parts]) == ("directory", 6, [4, 2])
    assert (by_name["label"].min, by_name["label"].max, by_name["label"].nulls) == (-2, 3, 1)
    assert by_name["label"].distinct == 4
    assert by_name["name"].distinct == 3
    alone = describe(str(tmp_path / "d" / "*.urec"))
    assert (alone.kind, alone.rows) == ("parts", 6)


def test_no_rows_are_described(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = made(tmp_path / "x.urec", 0)
    found = describe(path)
    assert (found.rows, found.columns[1].min, found.columns[1].distinct) == (0, None, 0)
    assert main(["inspect", path]) == 0
    assert "0 rows" in capsys.readouterr().out


def test_inspect_shows_schema_sizes_spans_and_first_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = made(tmp_path / "x.urec")
    assert main(["inspect", path, "--rows", "3"]) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[0] == f"{path}  (one part)"
    assert lines[1].startswith("6 rows, ")
    assert 'metadata  {"by": "test"}' in lines
    label = next(line.split() for line in lines if line.startswith("label"))
    assert label[1] == "int16?"
    assert label[-5:] == ["-2", "3", "5", "1", "indexed"]
    assert any(line.startswith("boxes   float32[any, 4]") for line in lines)
    assert "PNG 5×3, " in out
    assert "null" in out
    assert "uint8 2×3, 2 … 2" in out
    assert "line one\\nline two" in out
    assert out.count("PNG ") == 3


def test_inspect_lists_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = made(tmp_path / "d", 250, max_part_bytes=4_000)
    assert main(["inspect", path]) == 0
    out = capsys.readouterr().out
    assert "(directory)" in out
    assert "more parts" in out


def test_a_damaged_row_is_said_below_what_the_index_tells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.urec"
    with Writer(path, {"image": "bytes"}) as writer:
        writer.write({"image": b"some bytes"})
    content = path.read_bytes()
    path.write_bytes(content.replace(b"some bytes", b"some other"))
    assert main(["inspect", str(path)]) == 1
    printed = capsys.readouterr()
    assert "1 row" in printed.out
    assert "image   bytes" in printed.out
    assert "a.urec, row 0, at byte" in printed.err


def test_inspect_json_is_whole_and_strict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Writer(tmp_path / "x.urec", {"f": "float64", "o": "object"}) as writer:
        writer.write({"f": float("nan"), "o": {"k": [float("inf"), b"x"]}})
        writer.write({"f": float("inf"), "o": None})
    assert main(["inspect", str(tmp_path / "x.urec"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert found["rows"] == 2
    assert found["columns"][0]["max"] == "inf"
    assert found["first_rows"][0] == {"f": "nan", "o": {"k": ["inf", {"bytes": 1, "kind": None}]}}


def test_inspect_takes_several_paths_and_globs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [made(tmp_path / f"{i}.urec", 2) for i in range(3)]
    for argv in (paths, [str(tmp_path / "*.urec")]):
        assert main(["inspect", *argv, "--json", "--rows", "0"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["rows"], len(found["parts"]), found["first_rows"]) == (6, 3, [])


@pytest.mark.parametrize("command", ["inspect", "verify"])
def test_exit_codes_tell_bad_calls_from_bad_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert main([command, str(tmp_path / "none.urec")]) == 2
    assert "none.urec" in capsys.readouterr().err
    for content in (b"", b"no part at all" * 100):
        (tmp_path / "bad.urec").write_bytes(content)
        (tmp_path / "bad.urec.idx").write_bytes(content)
        assert main([command, str(tmp_path / "bad.urec")]) == 1
        err = capsys.readouterr().err
        assert "bad.urec" in err
        assert "Traceback" not in err


def test_verify_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = made(tmp_path / "x.urec")
    assert main(["verify", path]) == 0
    assert "every byte is as written (1 part, 6 rows" in capsys.readouterr().out
    raw = bytearray(Path(path).read_bytes())
    raw[raw.index(b"IHDR")] ^= 1
    Path(path).write_bytes(raw)
    assert main(["verify", path, "--quick"]) == 0
    assert "headers and sizes are as written" in capsys.readouterr().out
    assert main(["verify", path]) == 1
    err = capsys.readouterr().err
    assert "1 problem" in err
    assert "row 0" in err
    assert main(["verify", path, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is False
    assert found["problems"][0]["row"] == 0


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (b"", "0 B"),
        (b"\x01\xff", "01 ff (2 B)"),
        (b"x" * 2000, "2.0 KB"),
        (b"%PDF-1.7" + b"x" * 1000, "PDF, 1.0 KB"),
        (np.float32(0.1), "0.1"),
        (np.int8(-3), "-3"),
        (np.bool_(True), "True"),
        ("a\tb\n\x1b[31m", "a\\tb\\n\\x1b[31m"),
        ("x" * 50, "x" * 39 + "…"),
        ("日本" * 20, "日本" * 9 + "日…"),
        (np.zeros(0), "float64 0"),
        (np.array([1.5, np.nan]), "[1.5, nan]"),
        (np.array([np.nan] * 9), "float64 9"),
        (np.arange(12.0).reshape(3, 4), "float64 3×4, 0 … 11"),
        (np.zeros(9, np.complex64), "complex64 9"),
        ({"a": 1}, "{'a': 1}"),
    ],
)
def test_cells_are_short_and_safe(value: Any, text: str) -> None:
    assert cell_text(value) == text
    json.dumps(cell_json(value), allow_nan=False)


def test_tables_align_wide_characters() -> None:
    assert table([["a", "n"], ["日本", "1"], ["é", "22"]], "<>") == ["a      n", "日本   1", "é     22"]
    assert width("e\u0301") == 1
    assert clipped("abc", 2) == "a…"


def test_repair_says_what_was_saved_and_what_was_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "x.urec")
    with Writer(path, {"image": "bytes", "label": "int32"}) as writer:
        for i in range(6):
            writer.write({"image": (b"IHDR" if i == 0 else b"data") * 2_000, "label": i})
    (tmp_path / "x.urec.idx").unlink()
    assert main(["inspect", path]) == 2
    assert "unirecord repair" in capsys.readouterr().err
    assert main(["repair", path]) == 0
    assert "the index was rebuilt, 6 rows" in capsys.readouterr().out
    assert main(["inspect", path]) == 0
    raw = bytearray(Path(path).read_bytes())
    raw[raw.index(b"IHDR")] ^= 1
    Path(path).write_bytes(raw)
    capsys.readouterr()
    assert main(["repair", path, "--output", str(tmp_path / "y.urec")]) == 1
    out = capsys.readouterr().out
    assert "lost: row 0" in out
    assert "5 of 6 rows were saved" in out
    assert main(["verify", str(tmp_path / "y.urec")]) == 0


@pytest.mark.parametrize(
    ("content", "shown", "suffix"),
    [
        (b"RIFF\0\0\0\0WAVE" + bytes(9), "WAV, 21 B", ".wav"),
        (b"%PDF-1.7" + bytes(20), "PDF, 28 B", ".pdf"),
        (b"\xff\xd8\xff" + bytes(30), "33 B", ".jpg"),  # no picture that can be described, but named like one
        (bytes(40), "40 B", ".bin"),
    ],
)
def test_a_blob_is_shown_and_extracted_as_the_same_kind_of_file(
    content: bytes, shown: str, suffix: str
) -> None:
    assert cell_text(content) == shown
    assert encoded(content) == (content, suffix)


def test_keys_that_json_would_merge_stay_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with unirecord.Writer(tmp_path / "a.urec", {"o": "object"}) as writer:
        writer.write({"o": {1: "a", "1": "b"}})
        writer.write({"o": {"x": 1, "y": 2}})
    assert main(["inspect", str(tmp_path / "a.urec"), "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["first_rows"]
    assert first["o"] == [[1, "a"], ["1", "b"]]
    assert second["o"] == {"x": 1, "y": 2}
