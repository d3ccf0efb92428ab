"""``unirecord inspect`` with questions: rows, counts, groups, statistics, sampling, one row, and files of blobs."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from image_folders import picture

from unirecord import Writer
from unirecord.cli import main
from unirecord.cli.inspect import sparkline
from unirecord.inspect.cells import encoded, safe_name

SCHEMA: dict[str, Any] = {
    "image": "bytes",
    "label": "int16?",
    "name": "string",
    "score": "float32",
    "boxes": {"type": "float32", "shape": [-1, 4]},
    "meta": "object",
}
NAMES = ["cat.png", "../../etc/passwd", "a b\\c:d.PNG", "", "日本.png", "x" * 300, ".hidden", "dog"]


@pytest.fixture
def path(tmp_path: Path) -> str:
    with Writer(tmp_path / "x.urec", SCHEMA, index=["label"]) as writer:
        for i in range(40):
            writer.write(
                {
                    "image": picture(4 + i, 3),
                    "label": None if i == 1 else i % 4,
                    "name": NAMES[i % len(NAMES)],
                    "score": i / 2,
                    "boxes": np.zeros((i % 3, 4), np.float32),
                    "meta": {"i": i},
                }
            )
    return str(tmp_path / "x.urec")


def inspect(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(["inspect", *arguments]) == code
    output = capsys.readouterr()
    return output.out if code == 0 else output.err


def test_rows_that_meet_a_condition(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = inspect(
        capsys, path, "--where", "label == 3", "--columns", "label,score,image", "--limit", "2"
    ).splitlines()
    assert shown[0].split() == ["row", "label", "score", "image"]
    assert shown[1].split()[:3] == ["3", "3", "1.5"]
    assert "PNG 7×3" in shown[1]
    assert shown[-1] == "10 rows, 2 shown"


def test_rows_as_json_and_csv(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(inspect(capsys, path, "--where", "row < 3", "--json"))
    assert found["matched"] == 3
    assert [line["row"] for line in found["rows"]] == [0, 1, 2]
    assert found["rows"][1]["values"]["label"] is None
    assert found["rows"][2]["values"]["boxes"] == {
        "dtype": "float32",
        "shape": [2, 4],
        "min": 0.0,
        "max": 0.0,
    }
    lines = list(csv.reader(io.StringIO(inspect(capsys, path, "--csv", "--columns", "label,name,score"))))
    assert lines[0] == ["row", "label", "name", "score"]
    assert len(lines) == 41
    assert lines[2] == ["1", "", "../../etc/passwd", "0.5"]


def test_count_offset_and_limit(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect(capsys, path, "--where", "label == 3", "--count") == "10\n"
    assert inspect(capsys, path, "--count", "--json") == '{\n  "rows": 40\n}\n'
    found = json.loads(
        inspect(capsys, path, "--where", "label == 3", "--offset", "8", "--limit", "5", "--json")
    )
    assert [line["row"] for line in found["rows"]] == [35, 39]


def test_sort_and_sample(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(inspect(capsys, path, "--sort", "label,-score", "--limit", "2", "--json"))
    assert [line["row"] for line in found["rows"]] == [36, 32]
    one, again = (inspect(capsys, path, "--sample", "5", "--seed", "4", "--json") for _ in range(2))
    assert one == again
    assert len(json.loads(one)["rows"]) == 5
    assert inspect(capsys, path, "--sample", "5", "--seed", "5", "--json") != one


def test_groups(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = inspect(capsys, path, "--group-by", "label").splitlines()
    assert [line.split()[:2] for line in shown[1:6]] == [
        ["0", "10"],
        ["1", "9"],
        ["2", "10"],
        ["3", "10"],
        ["null", "1"],
    ]
    assert shown[-1] == "5 groups of 40 rows"
    found = json.loads(
        inspect(capsys, path, "--group-by", "label", "--sort=-count", "--where", "row < 9", "--json")
    )
    assert found["counts"][0] == {"values": [0], "rows": 3}
    assert inspect(capsys, path, "--group-by", "label", "--csv", "--limit", "1") == "label,rows\n0,10\n"


def test_statistics(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = inspect(capsys, path, "--stats", "--columns", "label,score,image")
    assert "█" in shown
    assert "nulls" in shown
    found = {column["name"]: column for column in json.loads(inspect(capsys, path, "--stats", "--json"))}
    assert (found["label"]["nulls"], found["label"]["min"], found["label"]["max"]) == (1, 0, 3)
    assert found["score"]["mean"] == 9.75
    assert found["name"]["distinct"] == len(NAMES)
    assert found["boxes"]["max"] == 2 * 4 * 4


def test_one_row_in_full(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "row 39: row 39 of" in inspect(capsys, path, "--row", "-1")
    assert json.loads(inspect(capsys, path, "--row", "1", "--json"))["values"]["label"] is None
    assert "there is no row 40" in inspect(capsys, path, "--row", "40", code=2)


def test_extracted_files_hold_the_blobs_and_stay_in_the_folder(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    shown = inspect(
        capsys, path, "--where", "row < 8", "--extract", "image", "--out", str(out), "--name", "name"
    )
    assert shown.startswith("8 files")
    names = sorted(file.name for file in out.iterdir())
    assert len(names) == 8
    assert names[0] == "000000-cat.png"
    assert names[1] == "000001-passwd.png"
    assert names[3] == "000003.png"
    assert all(len(name) < 130 for name in names)
    assert (out / "000000-cat.png").read_bytes() == picture(4, 3)
    assert sorted(tmp_path.iterdir()) == sorted([out, tmp_path / "x.urec", tmp_path / "x.urec.idx"])
    again = inspect(
        capsys, path, "--where", "row < 8", "--extract", "image", "--out", str(out), "--name", "name", code=2
    )
    assert "exists already" in again


def test_extraction_does_not_follow_a_link(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "000000.png").symlink_to(tmp_path / "elsewhere")
    inspect(capsys, path, "--extract", "image", "--limit", "1", "--out", str(out), code=2)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("value", "safe"),
    [
        ("a/b/c.png", "c.png"),
        ("..", ""),
        ("a\0b", "a_b"),
        ("C:\\x\\y.jpg", "y.jpg"),
        (None, ""),
        ("-rf", "rf"),
        (7, "7"),
        ("\u202egnp.exe", "gnp.exe"),
    ],
)
def test_names_from_data_are_made_safe(value: Any, safe: str) -> None:
    assert safe_name(value) == safe


def test_blobs_become_files_of_their_kind() -> None:
    assert encoded(b"\xff\xd8\xff\xe0") == (b"\xff\xd8\xff\xe0", ".jpg")
    assert encoded("é") == ("é".encode(), ".txt")
    assert encoded({"a": [1, None]}) == (b'{"a": [1, null]}\n', ".json")
    data, suffix = encoded(np.arange(3))
    assert suffix == ".npy"
    np.testing.assert_array_equal(np.load(io.BytesIO(data)), [0, 1, 2])


def test_wrong_calls_say_why(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in [
        (["--where", "lable == 3"], "did you mean 'label'"),
        (["--columns", "labell"], "did you mean 'label'"),
        (["--group-by", "image"], "it has no value in the index"),
        (["--extract", "image"], "--out"),
        (["--extract", "label", "--out", "x"], "--csv"),
        (["--seed", "3"], "--sample"),
        (["--explain"], "--where"),
        (["--group-by", "label", "--sort", "score"], "label or count"),
    ]:
        assert message in inspect(capsys, path, *arguments, code=2), arguments
    for one, other in ((["--csv"], ["--json"]), (["--sort", "label"], ["--sample", "3"])):
        with pytest.raises(SystemExit):
            main(["inspect", path, *one, *other])
        assert f"{other[0]}: not allowed with argument {one[0]}" in capsys.readouterr().err


def test_error_in_a_condition_is_shown_with_its_place(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = inspect(capsys, path, "--where", "label == 3 and lable > 4", code=2).splitlines()
    assert lines[1:] == ["  label == 3 and lable > 4", "                 ^^^^^"]


def test_explain_tells_the_way(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "as read: label == 3" in inspect(capsys, path, "--where", "label = 3", "--explain")
    assert json.loads(inspect(capsys, path, "--where", "label = 3", "--explain", "--json"))["rows"] == 10


def test_histogram_is_one_character_a_bin() -> None:
    assert sparkline([0, 1, 800, 400]) == " ▁█▄"
    assert sparkline([]) == ""


def test_help_shows_the_questions(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["inspect", "--help"])
    shown = capsys.readouterr().out
    assert "--where" in shown
    assert "unirecord inspect data --group-by label" in shown
