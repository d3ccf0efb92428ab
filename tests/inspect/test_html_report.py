"""`unirecord inspect --html`: one page that shows a dataset, in which nothing of the data can be markup or script."""

from __future__ import annotations

import io
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hostile_markup import HOSTILE, NAME, SCHEMA, Parsed, checked, jpeg, row
from PIL import Image

from unirecord import Writer
from unirecord.cli.main import main
from unirecord.inspect.cells import small_picture
from unirecord.inspect.reports import dataset_page
from unirecord.inspect.statistics import column_statistics
from unirecord.snapshot.part_set import PartSet, resolve


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("html") / "data"
    with Writer(path, SCHEMA, index=["label"], metadata={"who": HOSTILE}, max_part_bytes=20_000) as writer:
        for i in range(40):
            writer.write(row(i))
    return path


def test_a_page_shows_columns_pictures_and_rows(data: Path) -> None:
    found = checked(dataset_page(str(data)))
    pictures = [attributes for tag, attributes in found.tags if tag == "img"]
    assert 40 <= len(pictures) <= 90
    assert all(int(one["width"] or 0) <= 128 for one in pictures)
    assert "JPEG 200×100" in str(pictures[0]["alt"])
    assert [a["id"] for t, a in found.tags if t == "section"] == [
        "summary",
        "pictures",
        "columns",
        "examples",
        "parts",
    ]
    for word in ("float32?", "int16[-1]", "null", "null of 40", "part-000000"):
        assert word in found.text, word
    assert len([tag for tag, _ in found.tags if tag == "article"]) == len(SCHEMA)
    labels = [a.get("aria-label") for t, a in found.tags if t == "svg"]
    assert labels
    assert all(labels)


def test_nothing_in_the_data_is_markup_and_nothing_unseen_is_in_the_page(data: Path) -> None:
    content = dataset_page(str(data)).decode()
    assert "<script" not in content
    assert "\u202e" not in content
    assert "\x1b" not in content
    assert "<script>alert(1)</script>" in Parsed(content.encode()).text


def test_a_dataset_without_rows_has_a_page(tmp_path: Path) -> None:
    with Writer(tmp_path / "a.urec", {"n": "int32", "b": "bytes"}):
        pass
    assert "There are no rows." in checked(dataset_page(tmp_path / "a.urec")).text


def test_without_pillow_pictures_are_described(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    found = checked(dataset_page(str(data)))
    assert not [tag for tag, _ in found.tags if tag == "img"]
    assert "JPEG 200×100" in found.text


def test_values_that_are_large_or_damaged_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Writer(tmp_path / "a.urec", {"b": "bytes", "n": "int32"}) as writer:
        writer.write({"b": b"x" * 5_000, "n": 7})
        writer.write({"b": b"y" * 10, "n": 8})
    raw = bytearray((tmp_path / "a.urec").read_bytes())
    raw[raw.index(b"y" * 10)] ^= 1
    (tmp_path / "a.urec").write_bytes(raw)
    monkeypatch.setattr("unirecord.inspect.cells.MOST_BYTES", 4_096)
    found = checked(dataset_page(tmp_path / "a.urec"))
    assert "(5.0 KB, not shown)" in found.text
    assert "(damaged: " in found.text


def test_many_columns_make_no_large_page(tmp_path: Path) -> None:
    columns, noise = 1_100, np.random.default_rng(0)
    schema = {f"c{i}": ["float32[200]", "string", "int32", "bytes", "bytes"][i % 5] for i in range(columns)}
    camera = [jpeg((320, 240)) for _ in range(2)]
    with Writer(tmp_path / "wide", schema) as writer:
        for _ in range(12):
            kinds = [noise.random(200, np.float32), "<&>" * 100, 7, camera[0], camera[1]]
            writer.write({name: kinds[i % 5] for i, name in enumerate(schema)})
    content = dataset_page(tmp_path / "wide")
    assert len(content) < 3_000_000
    found = checked(content)
    for said in (
        "and 100 more columns",
        "900 more columns are not looked at",
        "900 more columns are not shown",
    ):
        assert said in found.text


@pytest.mark.parametrize("orientation", [1, 3, 6, 8])
def test_pictures_are_drawn_upright(orientation: int) -> None:
    """As a camera that was held on its side says by the EXIF orientation."""
    exif = Image.Exif()
    exif[0x112] = orientation
    buffer = io.BytesIO()
    Image.new("RGB", (100, 40)).save(buffer, "JPEG", exif=exif)
    small = small_picture(buffer.getvalue(), 128)
    assert small is not None
    shown = Image.open(io.BytesIO(small[0]))
    assert shown.size == small[1:] == ((40, 100) if orientation in (6, 8) else (100, 40))
    assert shown.getexif().get(0x112, 1) == 1


def test_pictures_beyond_a_size_are_described(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = dataset_page(str(data))
    monkeypatch.setattr("unirecord.inspect.reports._SHEET_BYTES", 0)
    monkeypatch.setattr("unirecord.inspect.reports._EXAMPLE_BYTES", 1)
    found = checked(dataset_page(str(data)))
    assert "Pictures of 1 more column are not drawn here" in found.text
    assert "uint8 16×16" in found.text
    drawn = [tag for tag, _ in Parsed(whole).tags].count("img")
    assert [tag for tag, _ in found.tags].count("img") == 1 < drawn  # the first cell of the first row


def test_the_command_writes_it_and_replaces_pages_alone(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "report.html"
    assert main(["inspect", str(data), "--html", str(target)]) == 0
    assert main(["inspect", str(data), "--html", str(target)]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    checked(target.read_bytes())
    target.write_text("mine")
    capsys.readouterr()
    assert main(["inspect", str(data), "--html", str(target)]) == 2
    assert "is no report" in capsys.readouterr().err
    assert target.read_text() == "mine"


def other_row(i: int) -> dict[str, Any]:
    return {**row(i), "score": 5.0} if i == 9 else {**row(i), "text": HOSTILE} if i == 11 else row(i)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("html") / "other"
    with Writer(path, {**SCHEMA, f"{NAME}2": "int8"}, index=["label"]) as writer:
        for i in range(42):
            writer.write({**other_row(i), f"{NAME}2": 2})
    return path


def test_two_datasets_have_a_page_of_what_differs(
    data: Path, other: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "diff.html"
    assert main(["diff", str(data), str(other), "--html", str(target)]) == 1
    assert "they differ" in capsys.readouterr().out
    found = checked(target.read_bytes())
    for word in (
        "They differ.",
        "Rows that changed",
        "Rows that were added",
        "B alone",
        "score in A",
        "2 in all",
    ):
        assert word in found.text, word
    assert "Rows that are gone" not in found.text
    assert "<script>alert(1)</script>" in found.text
    charts = [str(a["aria-label"]) for tag, a in found.tags if tag == "svg"]
    assert [says.partition(":")[0] for says in charts if says.startswith("label")] == [
        "label in A",
        "label in B",
    ]
    assert main(["diff", str(data), str(data), "--html", str(target)]) == 0
    assert "They are equal." in checked(target.read_bytes()).text


def test_rows_that_belong_together_by_a_key_are_shown_with_it(tmp_path: Path) -> None:
    for name, order in (("a", [1, 2, 3]), ("b", [3, 2, 4])):
        with Writer(tmp_path / f"{name}.urec", {"k": "string", "v": "int32"}) as writer:
            for i in order:
                writer.write({"k": f"{HOSTILE}{i}", "v": 20 if name == "b" and i == 2 else i})
    target = tmp_path / "diff.html"
    paths = [str(tmp_path / f"{name}.urec") for name in "ab"]
    assert main(["diff", *paths, "--key", "k", "--html", str(target)]) == 1
    found = checked(target.read_bytes())
    for word in ("Rows that moved", "Rows that are gone", "Rows that changed", "Rows that were added", "20"):
        assert word in found.text, word


def test_whole_numbers_reach_to_the_greatest_that_is_there(tmp_path: Path) -> None:
    with Writer(
        tmp_path / "a", {"label": "int32", "wide": "int64", "x": "float32", "name": "string", "doc": "text"}
    ) as writer:
        for i in range(70):
            name = "n" * (22 + i % 2)
            writer.write({"label": i % 7, "wide": i, "x": i / 2, "name": name, "doc": "d" * (14 + i % 9)})
    with closing(PartSet(resolve(tmp_path / "a"))) as parts:
        found = {name: column_statistics(parts, name) for name in parts.schema.names}
        assert found["label"].ranges() == [(i, i) for i in range(7)]
        assert (found["wide"].ranges()[0], found["wide"].ranges()[-1][1]) == ((0, 3), 69)
        assert found["x"].ranges()[-1][1] == 34.5
        assert all(sum(one.counts) == 70 for one in found.values())
    assert main(["inspect", str(tmp_path / "a"), "--html", str(tmp_path / "a.html")]) == 0
    text = checked((tmp_path / "a.html").read_bytes()).text
    for shown in (
        "values from 0 to 6",
        "values from 0 to 69",
        "characters from 22 to 23",
        "cells from 14 B to 22 B",
    ):
        assert shown in text


def test_a_difference_says_the_shapes_of_arrays(tmp_path: Path) -> None:
    for name, size in (("a", 4), ("b", 5)):
        with Writer(tmp_path / name, {"x": f"float32[{size}]"}) as writer:
            writer.write({"x": np.zeros(size, np.float32)})
    assert main(["diff", str(tmp_path / "a"), str(tmp_path / "b"), "--html", str(tmp_path / "d.html")]) == 1
    text = checked((tmp_path / "d.html").read_bytes()).text
    assert "float32[4] float32[5]" in " ".join(text.split())
    assert "other annotations" not in text
