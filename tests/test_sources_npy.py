"""NumPy files: every dtype and layout, arrays side by side, and archives that are damaged or larger than they say."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sources import plain, refusals, rows_at

from unirecord.convert.sources import npy_files, open_source
from unirecord.errors import SchemaError

DTYPES = ["?", "i1", "u2", ">i4", "<i8", "f2", ">f4", "f8", "c8", "c16"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(
    hnp.arrays(st.sampled_from(DTYPES), hnp.array_shapes(min_dims=1, max_dims=3, max_side=5)),
    st.booleans(),
    st.sampled_from(["npy", "npz", "packed"]),
)
def test_any_array_is_read(tmp_path: Path, array: Any, fortran: bool, kind: str) -> None:
    array = np.asfortranarray(array) if fortran else array
    if array.dtype.kind == "c" and array.ndim == 1:
        array = array[:, None]
    path = tmp_path / ("x.npy" if kind == "npy" else "x.npz")
    path.unlink(missing_ok=True)
    {
        "npy": np.save,
        "npz": lambda p, a: np.savez(p, x=a),
        "packed": lambda p, a: np.savez_compressed(p, x=a),
    }[kind](path, array)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(npy_files, "_UNIT_BYTES", 64)
        rows = rows_at(path)
    np.testing.assert_equal([row["x"] for row in rows], array.tolist())


def test_arrays_side_by_side_and_fields_of_structures(tmp_path: Path) -> None:
    images, labels = np.arange(24, dtype=np.uint8).reshape(6, 2, 2), np.arange(6)
    points = np.zeros(6, [("at", "f4", (2,)), ("name", "U3"), ("raw", "S2")])
    points["name"][3], points["raw"][3] = "é", b"x"
    np.savez_compressed(tmp_path / "x.npz", images=images, labels=labels, points=points)
    source = open_source(str(tmp_path / "x.npz"))
    assert source.schema.to_spec() == {
        "images": {"type": "uint8", "shape": [2, 2]}, "labels": "int64",
        "at": {"type": "float32", "shape": [2]}, "name": "string", "raw": "bytes",
    }  # fmt: skip
    rows = rows_at(tmp_path / "x.npz")
    assert rows[3] == {"images": images[3].tolist(), "labels": 3, "at": [0, 0], "name": "é", "raw": b"x"}
    (tmp_path / "f").mkdir()
    np.save(tmp_path / "f" / "images.npy", images)
    np.save(tmp_path / "f" / "labels.npy", labels)
    assert [row["labels"] for row in rows_at(tmp_path / "f")] == labels.tolist()
    np.save(tmp_path / "f" / "more.npy", labels[:-1])
    with pytest.raises(
        SchemaError, match=r"differ in length \(images 6, labels 6, more 5\).*such as images,labels"
    ):
        open_source(str(tmp_path / "f"))


def test_temporary_copies_are_reached_by_other_processes(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "x.npz", x=np.arange(5))
    source = open_source(str(tmp_path / "x.npz"))
    again = pickle.loads(pickle.dumps(source))
    assert [plain(v) for batch in again.batches() for v in batch.columns["x"]] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.array([{}, 1], object), "Python objects, which are not unpickled"),
        (np.array(3), "holds a single value"),
        (np.zeros(2, [("a", "O")]), "Python objects"),
        (np.array([["a"]]), "which no column type holds"),
    ],
)
def test_what_no_column_holds_is_refused(tmp_path: Path, array: Any, said: str) -> None:
    np.save(tmp_path / "x.npy", array, allow_pickle=True)
    with pytest.raises(SchemaError, match=said):
        open_source(str(tmp_path / "x.npy"))


@pytest.mark.parametrize("descr", ["<U2", ">U2", [("n", "<i4"), ("s", "<U2")]])
def test_text_that_is_no_unicode_is_refused_by_row(tmp_path: Path, descr: Any) -> None:
    array = np.zeros(60, descr)
    texts = array["s"] if isinstance(descr, list) else array
    texts[:] = "ab"
    words = np.ndarray((60, 2), texts.dtype.str[0] + "u4", array, array.itemsize - texts.itemsize,
                       (array.itemsize, 4))  # fmt: skip
    words[41, 1] = 0x7FFFFFFF
    np.save(tmp_path / "x.npy", array)
    with pytest.raises(
        SchemaError, match=r"x.npy, row 41, column '[sx]': a word .* 0x7fffffff, which is no Unicode"
    ):
        rows_at(tmp_path / "x.npy")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_damaged_archive_is_refused_by_name(tmp_path: Path, save: Any) -> None:
    save(tmp_path / "x.npz", x=np.arange(300), y=np.arange(600).reshape(300, 2))
    assert refusals(tmp_path / "x.npz", "npy", cuts=15, flips=80) > 15


def test_an_archive_that_is_larger_than_it_says_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(npy_files, "MAX_SPOOL_BYTES", 10_000)
    np.savez_compressed(tmp_path / "x.npz", x=np.zeros(5_000))
    with pytest.raises(SchemaError, match="decompresses to more than 10,000 bytes"):
        open_source(str(tmp_path / "x.npz"))
    head = io.BytesIO()
    np.save(head, np.zeros(2))
    with zipfile.ZipFile(tmp_path / "y.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", head.getvalue() + bytes(9_000))
    with pytest.raises(SchemaError, match="holds 9,016 bytes, but its header says 16"):
        open_source(str(tmp_path / "y.npz"))
