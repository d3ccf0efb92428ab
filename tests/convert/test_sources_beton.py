"""FFCV files, made by ffcv: every value, pictures kept in each way; cut and hostile files."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import numpy as np
import pytest
from foreign_samples import FOREIGN, plain
from PIL import Image
from sources import refusals, rows_at

from unirecord.convert.sources import Options, open_source
from unirecord.errors import SchemaError

SAMPLE = FOREIGN / "ffcv" / "sample.beton.gz"
FIELD = 24  # where the list of fields begins; each has 1,041 bytes


@pytest.fixture(scope="module")
def beton(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ffcv") / "x.beton"
    path.write_bytes(gzip.decompress(SAMPLE.read_bytes()))
    return path


def test_every_value_equals_what_ffcv_was_given(beton: Path) -> None:
    source = open_source(str(beton))
    assert source.kind == "ffcv"
    spec = source.schema.to_spec()
    assert spec["pixels"] == {"type": "uint8", "shape": [8, 12, 3]}
    assert (spec["tensor"], spec["meta"]) == ({"type": "int16", "shape": [3]}, "object")
    rows = rows_at(beton)
    wanted = json.loads((FOREIGN / "ffcv" / "expected.json").read_text())
    assert len(rows) == 12
    for row, values in zip(rows, wanted, strict=True):
        for name in ("photo", "either"):  # a JPEG file is as near to the pixels as its quality is
            with Image.open(io.BytesIO(row.pop(name))) as shown:
                most = 0 if shown.format == "PNG" else 60
                assert np.abs(np.asarray(shown).astype(int) - values.pop(name)).max() <= most
        assert {**row, "raw": list(row["raw"])} == values
    assert {bytes(row["either"][:2]) for row in rows_at(beton)} == {b"\x89P", b"\xff\xd8"}


def test_it_is_read_packed_and_by_types_that_are_asked_for() -> None:
    found = rows_at(SAMPLE, options=Options({"meta": "bytes", "id": "int32"}))
    assert json.loads(found[1]["meta"].rstrip(b"\0")) == {"text": "é", "n": [1, None]}
    assert plain(found[3]["id"]) == -27


@pytest.mark.parametrize(
    ("at", "change", "said"),
    [
        (0, b"\0\0", "was never finished"),
        (2, b"\xff\xff", "cut off in the list of its fields"),
        (8, b"\xff" * 8, "cut off or damaged"),
        (16, b"\xff" * 8, "cut off or damaged"),
        (FIELD, b"\xff", "a field type of the program's own"),
        (FIELD, b"\x63", "of field type 99"),
        (FIELD + 4 * 1041 + 17, b"\xff" * 8, "larger than the file|no column type holds|does not say its type"),
        (FIELD + 4 * 1041 + 17 + 256 + 8, b"[[\"\", \"|O\"]]   ", "does not say its type|no column type holds"),
        (FIELD + 4 * 1041 + 17 + 256, b"\xff" * 8, "does not say its type"),
    ],
)  # fmt: skip
def test_hostile_headers_are_refused(beton: Path, tmp_path: Path, at: int, change: bytes, said: str) -> None:
    data = bytearray(beton.read_bytes())
    data[at : at + len(change)] = change
    path = tmp_path / "y.beton"
    path.write_bytes(data)
    with pytest.raises(SchemaError, match=said) as caught:
        rows_at(path)
    assert "y.beton" in str(caught.value)


def test_a_place_beyond_the_end_is_named(beton: Path, tmp_path: Path) -> None:
    data = bytearray(beton.read_bytes())
    start = FIELD + 9 * 1041
    at = data.index(np.float64(1 / 3).tobytes(), start) + 8  # after the score of row 1: where its bytes lie
    data[at : at + 8] = (1 << 60).to_bytes(8, "little")
    path = tmp_path / "y.beton"
    path.write_bytes(data)
    with pytest.raises(SchemaError, match=r"y.beton, row 1, field 'raw': .* beyond the end of the file"):
        rows_at(path)


def test_a_damaged_file_is_refused_by_name(beton: Path, tmp_path: Path) -> None:
    place = tmp_path / "x.beton"
    place.write_bytes(beton.read_bytes())
    assert refusals(place, "ffcv", cuts=6, flips=25) > 8
