"""NumPy files: every dtype and layout, arrays side by side, and archives that are damaged or larger than they say."""

from __future__ import annotations

import io
import os
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

import unirecord
from unirecord import UniRecordDataset
from unirecord.convert.sources import Options, npy_files, open_input, open_source
from unirecord.convert.sources.source import WantedColumns
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


def test_an_archive_that_is_larger_than_it_says_is_refused(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "x.npz", x=np.zeros(5_000))
    with pytest.raises(SchemaError, match=r"decompresses to more than 10.0 KB, .*--max-spool-bytes"):
        open_source(open_input(str(tmp_path / "x.npz"), spool_bytes=10_000))
    head = io.BytesIO()
    np.save(head, np.zeros(2))
    with zipfile.ZipFile(tmp_path / "y.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", head.getvalue() + bytes(9_000))
    with pytest.raises(SchemaError, match="holds 9,016 bytes, but its header says 16"):
        open_source(str(tmp_path / "y.npz"))


EVERY_TYPE = {
    "id": "int64", "part": "float32?", "word": "string", "more": "string?", "long": "text?", "raw": "bytes?",
    "any": "object",
    "fixed": {"type": "uint8", "shape": [2]}, "maybe": {"type": "int16?", "shape": [2]},
    "ragged": {"type": "float64", "shape": [-1]}, "image": {"type": "uint8?", "shape": [-1, -1, 3]},
    "half": {"type": "bfloat16", "shape": [2]},
    "label": {"type": "int32", "logical": {"type": "class", "names": ["cat", "dog"]}},
}  # fmt: skip


def written_npz(folder: Path, rows: int = 40, name: str = "x.npz") -> tuple[str, str]:
    """A dataset with columns of every type, and the npz that it is exported to."""
    values = [
        {
            "id": i, "part": None if i % 3 == 0 else i / 4, "word": "é" * (i % 5), "more": None if i % 4 else f"w{i}",
            "long": None if i % 2 else "long " * i, "raw": None if i == 5 else b"\xff\x00" * (i % 3),
            "any": {"a": [i, None, {"b": "ü"}]}, "fixed": np.array([i, 2], np.uint8),
            "maybe": None if i % 2 else np.array([i, -i], np.int16), "ragged": np.arange(i % 4) / 3,
            "image": None if i == 7 else np.full((i % 3, 2, 3), i, np.uint8), "half": np.array([0x3F80, i], np.uint16),
            "label": i % 2,
        }
        for i in range(rows)
    ]  # fmt: skip
    dataset = str(folder / name.replace(".npz", ".urec"))
    with unirecord.Writer(dataset, EVERY_TYPE) as writer:
        for value in values:
            writer.write(value)
    unirecord.export(dataset, folder / name)
    return dataset, str(folder / name)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("unit_bytes", [16_000_000, 500])
def test_an_exported_npz_reads_back_to_the_same_rows_of_the_same_types(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool, unit_bytes: int
) -> None:
    monkeypatch.setattr(npy_files, "_UNIT_BYTES", unit_bytes)
    dataset, path = written_npz(tmp_path)
    if packed:
        with (
            zipfile.ZipFile(path) as old,
            zipfile.ZipFile(tmp_path / "y.npz", "w", zipfile.ZIP_DEFLATED) as new,
        ):
            new.comment = old.comment
            for name in old.namelist():
                new.writestr(name, old.read(name))
        path = str(tmp_path / "y.npz")
    unirecord.write_dataset(path, tmp_path / "back.urec")
    one, other = UniRecordDataset(dataset), UniRecordDataset(tmp_path / "back.urec")
    assert other.schema == one.schema
    for found, expected in zip(other, one, strict=True):
        assert {name: plain(value) for name, value in found.items()} == {
            name: plain(value) for name, value in expected.items()
        }
    assert set(np.load(path).files) >= {"word", "word_offsets", "more_valid", "image_shape"}
    few = open_source(path, None, Options(wanted=WantedColumns(frozenset({"word", "id"}))))
    assert few.schema.names == ("id", "word")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"word_offsets": np.arange(41)[::-1]}, "rows from .* lie outside of the values"),
        ({"word_offsets": np.arange(41) * 10_000}, "rows from .* lie outside of the values"),
        ({"word_offsets": np.arange(39)}, "differ in length"),
        ({"word_offsets": np.arange(41.0)}, "word_offsets.npy is no array of a column word: string|is no array of"),
        ({"word": np.full(1_000, 0xFF, np.uint8)}, "row [0-9]+, column 'word': 'utf-8'"),
        ({"any": np.full(5_000, ord("["), np.uint8)}, "row 0, column 'any'"),
        ({"image_shape": np.full((40, 3), 1 << 40)}, "column 'image'"),
        ({"image_shape": np.zeros((40, 2), np.int64)}, "is no array of"),
        ({"part_valid": np.zeros(3, np.bool_)}, "part_valid.npy has 3 entries for 40 rows"),
        ({"part_valid": None}, "has no array 'part_valid', which its column 'part' is made of"),
        ({"fixed": np.zeros((40, 3), np.uint8)}, "is no array of"),
    ],
    ids=str,
)  # fmt: skip
def test_an_npz_that_is_not_as_its_types_say_is_refused(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    _, path = written_npz(tmp_path)
    with zipfile.ZipFile(path) as archive:
        comment = archive.comment
    arrays = {name: value for name, value in {**np.load(path), **change}.items() if value is not None}
    np.savez(path, **arrays)
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = comment
    with pytest.raises(SchemaError, match=said):
        list(open_source(path).batches())


@pytest.mark.parametrize("comment", [b"{", b"[]", b'{"a": "nosuch"}', b"\xff", b"[" * 60_000])
def test_types_of_an_npz_that_are_none_are_refused(tmp_path: Path, comment: bytes) -> None:
    np.savez(tmp_path / "x.npz", a=np.arange(3))
    with zipfile.ZipFile(tmp_path / "x.npz", "a") as archive:
        archive.comment = b"unirecord columns " + comment
    with pytest.raises(SchemaError, match=r"x\.npz is damaged: the types in its comment"):
        open_source(str(tmp_path / "x.npz"))


def test_archives_of_one_layout_are_one_dataset(tmp_path: Path) -> None:
    for i in (10, 2):
        np.savez(
            tmp_path / f"part-{i}.npz",
            **dict([("x", np.arange(3) + i), ("y", np.zeros((3, 2)))][:: 1 - (i == 2) * 2]),
        )
    source = open_source(str(tmp_path))
    assert (source.rows, source.schema.to_spec()) == (
        6,
        {"y": {"type": "float64", "shape": [2]}, "x": "int64"},
    )
    assert [row["x"] for row in rows_at(tmp_path)] == [2, 3, 4, 10, 11, 12]
    np.savez(tmp_path / "part-11.npz", x=np.arange(3.0), y=np.zeros((3, 2)))
    with pytest.raises(
        SchemaError, match=r"part-11.npz has x float64, y .* but .*part-2.npz has y .*, x int64; write"
    ):
        open_source(str(tmp_path))
    (tmp_path / "part-11.npz").unlink()
    (tmp_path / "part-2.npz").rename(tmp_path / "train.npz")
    (tmp_path / "part-10.npz").rename(tmp_path / "test.npz")
    with pytest.raises(SchemaError, match="train"):
        open_source(str(tmp_path))


def test_arrays_of_other_names_lie_side_by_side(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.arange(3))
    np.save(tmp_path / "y.npy", np.arange(3) * 2)
    assert rows_at(tmp_path) == [{"x": i, "y": 2 * i} for i in range(3)]


def test_compressed_archives_share_one_temporary_file(tmp_path: Path) -> None:
    for i in range(40):
        np.savez_compressed(tmp_path / f"{i}.npz", x=np.arange(3) + i, y=np.arange(3))
    before = len(os.listdir("/proc/self/fd"))
    source = open_source(str(tmp_path))
    assert len(os.listdir("/proc/self/fd")) <= before + 1
    assert [x for batch in source.batches() for x in batch.columns["x"]] == [
        i + j for i in range(40) for j in range(3)
    ]


def test_structures_in_structures_are_columns_by_the_names_of_both(tmp_path: Path) -> None:
    point = np.dtype([("x", "f4"), ("at", [("lat", "f8"), ("name", "U3")])])
    array = np.array([(1, (1.5, (2.5, "ab"))), (3, (3.5, (4.5, "c")))], [("id", "i4"), ("point", point)])
    np.save(tmp_path / "x.npy", array)
    assert rows_at(tmp_path / "x.npy") == [
        {"id": 1, "point_x": 1.5, "point_at_lat": 2.5, "point_at_name": "ab"},
        {"id": 3, "point_x": 3.5, "point_at_lat": 4.5, "point_at_name": "c"},
    ]
    np.save(tmp_path / "x.npy", np.zeros(2, [("a", [("b", "i4")], (3,))]))
    with pytest.raises(SchemaError, match="which no column type holds"):
        open_source(str(tmp_path / "x.npy"))
