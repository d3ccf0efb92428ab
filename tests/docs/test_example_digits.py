"""The dataset that the pages read: `unirecord.examples.digits` and `unirecord demo`."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

import unirecord
from unirecord.cli import main
from unirecord.errors import ExistsError

COLUMNS = ("image", "pixels", "label", "name", "width", "weight", "strokes")


@pytest.mark.parametrize("name", ["digits.urec", "digits"])
def test_the_digits_are_three_hundred_rows_of_what_the_docstring_says(tmp_path: Path, name: str) -> None:
    unirecord.examples.digits(tmp_path / name)
    with unirecord.UniRecordDataset(tmp_path / name) as ds:
        assert (len(ds), ds.column_names) == (300, COLUMNS)
        labels = [int(sample["label"]) for sample in ds]
        assert labels == sorted(labels)
        assert all(28 <= count <= 32 for count in np.bincount(labels, minlength=10))
        for sample in ds:
            assert sample["name"].startswith(f"{sample['label']}/")
            assert 0 < sample["width"] <= 32
            assert len(sample["strokes"]) > 8
            rows, columns = sample["strokes"].T
            assert (sample["pixels"][rows, columns] >= 128).all()
        assert sum(sample["weight"] is None for sample in ds) == 43


def test_the_pictures_are_png_of_the_pixels(tmp_path: Path) -> None:
    from PIL import Image

    unirecord.examples.digits(tmp_path / "digits.urec")
    with unirecord.UniRecordDataset(tmp_path / "digits.urec", columns=["image", "pixels"]) as ds:
        for sample in ds.head(30):
            with Image.open(io.BytesIO(sample["image"])) as picture:
                assert (picture.format, picture.mode) == ("PNG", "L")
                assert np.array_equal(np.asarray(picture), sample["pixels"])


def test_the_command_writes_the_same_dataset_and_replaces_nothing_unasked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = str(tmp_path / "digits.urec")
    assert main(["demo", place]) == 0
    assert "300" in capsys.readouterr().out
    unirecord.examples.digits(tmp_path / "other.urec")
    assert unirecord.diff(place, tmp_path / "other.urec").equal
    assert main(["demo", place]) != 0
    assert "exists" in capsys.readouterr().err
    with pytest.raises(ExistsError):
        unirecord.examples.digits(place)
    assert main(["demo", place, "--overwrite"]) == 0
