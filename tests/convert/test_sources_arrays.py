"""MNIST's IDX files, CIFAR, HDF5 and LMDB: every value, and files that are damaged or hostile."""

from __future__ import annotations

import os
import pickle
import struct
from pathlib import Path
from typing import Any

import h5py
import lmdb
import numpy as np
import pytest
from sources import cifar, idx, refusals, rows_at, rows_of

import unirecord
from unirecord import UniRecordDataset, write_dataset
from unirecord.cli.main import main
from unirecord.convert.sources import Options, child_reader, lmdb_folder, open_input, open_source
from unirecord.convert.sources.plain_pickle import plain_pickle
from unirecord.convert.sources.source import said_of_left_out
from unirecord.errors import SchemaError

pytestmark = pytest.mark.usefixtures("forked_readers")


def test_idx_files_are_read_side_by_side(tmp_path: Path) -> None:
    images = np.arange(5 * 6, dtype=np.uint8).reshape(5, 2, 3)
    for role in ("train", "t10k"):
        (tmp_path / f"{role}-images-idx3-ubyte").write_bytes(idx(images, 8))
        (tmp_path / f"{role}-labels-idx1-ubyte").write_bytes(idx(np.arange(5, dtype=np.uint8), 8))
    with pytest.raises(
        SchemaError, match=r"write '.*/train\*' train` and `unirecord write '.*/t10k\*' test`|t10k"
    ):
        open_source(str(tmp_path))
    source = open_source(f"{tmp_path}/train-*")
    assert source.schema.to_spec() == {"image": {"type": "uint8", "shape": [2, 3]}, "label": "uint8"}
    assert rows_at(f"{tmp_path}/train-*") == [{"image": images[i].tolist(), "label": i} for i in range(5)]
    (tmp_path / "x.idx").write_bytes(idx(np.array([1.5, -2.0], ">f4"), 13))
    assert rows_at(tmp_path / "x.idx") == [{"x": 1.5}, {"x": -2.0}]
    assert refusals(tmp_path / "train-images-idx3-ubyte", "idx", cuts=15, flips=30) > 14


def test_cifar_is_read_from_pickles_and_from_binary_files(tmp_path: Path) -> None:
    images, labels = cifar(tmp_path / "c")
    wanted = [{"image": images[i].tolist(), "label": labels[i]} for i in range(40)]
    source = open_source(str(tmp_path / "c"))
    assert source.metadata == {"classes": [f"c{i}" for i in range(10)]}
    assert source.schema["label"].classes == tuple(source.metadata["classes"])
    assert rows_at(tmp_path / "c") == wanted
    raw = images.transpose(0, 3, 1, 2).reshape(40, -1)
    rows = b"".join(bytes([label]) + pixels.tobytes() for label, pixels in zip(labels, raw, strict=True))
    (tmp_path / "data_batch_1.bin").write_bytes(rows)
    assert rows_at(tmp_path / "data_batch_1.bin") == wanted
    rows = b"".join(bytes([3, label]) + pixels.tobytes() for label, pixels in zip(labels, raw, strict=True))
    (tmp_path / "train.bin").write_bytes(rows)
    assert rows_at(tmp_path / "train.bin", kind="cifar") == [{**row, "coarse_label": 3} for row in wanted]
    (tmp_path / "c" / "test_batch").write_bytes(b"")
    with pytest.raises(SchemaError, match="holds train and test; write each"):
        open_source(str(tmp_path / "c"))


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ("false",)


@pytest.mark.parametrize(
    "content", [Evil(), {b"data": Evil()}, np.array([Evil()], object), range(3), 2j, Path("x")]
)
def test_a_pickle_of_anything_else_is_refused(tmp_path: Path, content: Any) -> None:
    for protocol in range(6):
        with pytest.raises(ValueError, match="no pickle of plain containers and arrays"):
            plain_pickle(pickle.dumps(content, protocol))
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps(content))
    with pytest.raises(SchemaError, match="data_batch_1 is no file of CIFAR"):
        open_source(str(tmp_path / "data_batch_1"))


def _text(text: str) -> bytes:
    return b"X" + struct.pack("<I", len(text)) + text.encode()


def _int(number: int) -> bytes:
    return b"J" + struct.pack("<i", number)


def _tuple(*items: bytes) -> bytes:
    return b"(" + b"".join(items) + b"t"


def _name(name: str) -> bytes:
    module, _, of = name.rpartition(".")
    return f"c{module}\n{of}\n".encode()


def _dtype(name: bytes, *state: bytes) -> bytes:
    made = _name("numpy.dtype") + _tuple(name, b"\x89", b"\x88") + b"R"
    return made + _tuple(*state) + b"b" if state else made


def _plain(order: str = "<", fields: bytes = b"N", inner: bytes = b"N") -> tuple[bytes, ...]:
    return (_int(3), _text(order), inner, b"N", fields, _int(-1), _int(-1), _int(0))


def _array(shape: bytes, dtype: bytes, content: bytes) -> bytes:
    made = _name("numpy.core.multiarray._reconstruct") + _tuple(
        _name("numpy.ndarray"), _tuple(_int(0)), _text("b")
    )
    return made + b"R" + _tuple(_int(1), shape, dtype, b"\x89", content) + b"b"


def _tangle(levels: int = 60) -> bytes:
    """A tuple of two tuples, which are one, and so on: to hash or to show it never ends."""
    return b")" + b"".join(b"q%c" % i + b"h%c" % i + b"\x86" for i in range(levels))


_PIXELS = b"B" + struct.pack("<I", 16) + bytes(range(16))
_SHAPE = _tuple(_int(2))
_OBJECT_FIELD = b"}" + _text("a") + _tuple(_dtype(_text("O8")), _int(1 << 30)) + b"s"
_VALUES_ALLOWED = {
    "an array": _array(_SHAPE, _dtype(_text("i8"), *_plain()), _PIXELS),
    "big-endian": _array(_SHAPE, _dtype(_text("f8"), *_plain(">")), _PIXELS),
    "without a state of its dtype": _array(_SHAPE, _dtype(_text("i8")), _PIXELS),
}
_VALUES_REFUSED = {
    "fields out of the item": _array(
        _SHAPE, _dtype(_text("V8"), _int(3), _text("|"), b"N", _tuple(_text("a")), _OBJECT_FIELD, _int(8), _int(1),
                       _int(63)), b"](" + _tuple(_text("x")) + _tuple(_text("y")) + b"e"),
    "fields of numbers": _array(_SHAPE, _dtype(_text("i8"), *_plain(fields=_OBJECT_FIELD)), _PIXELS),
    "a dtype in a dtype": _array(_SHAPE, _dtype(_text("i8"), *_plain(inner=_tuple(_dtype(_text("i8")), _SHAPE))),
                                 _PIXELS),
    "objects": _array(_SHAPE, _dtype(_text("O8"), *_plain("|")), _PIXELS),
    "bytes of other length": _array(_tuple(_int(3)), _dtype(_text("i8"), *_plain()), _PIXELS),
    "a negative size": _array(_tuple(_int(-2), _int(-1)), _dtype(_text("i8"), *_plain()), _PIXELS),
    "no shape": _array(b")", _dtype(_text("i8"), *_plain()), _PIXELS),
    "items": _array(_SHAPE, _dtype(_text("V8"), *_plain()), _PIXELS),
    "text": _array(_SHAPE, _dtype(_text("U2"), *_plain()), _PIXELS),
    "a dtype of a type": _array(_SHAPE, _dtype(_name("numpy.ndarray")), _PIXELS),
    "an unknown order": _array(_SHAPE, _dtype(_text("i8"), *_plain("!")), _PIXELS),
    "state for a name": _name("_codecs.encode") + b"}" + _text("__wrapped__") + _int(1) + b"sb",
    "state for a class": _name("numpy.ndarray") + b"N}" + _text("x") + _int(1) + b"s\x86b",
    "a class that is made": _name("numpy.ndarray") + b")\x81",
    "a class that is called": _name("numpy.ndarray") + _tuple(_SHAPE) + b"R",
    "another codec": _name("_codecs.encode") + _tuple(_text("a"), _text("rot13")) + b"R",
    "something outside": _text("x") + b"Q",
    "an extension": b"\x82\x01",
    "a far place of the memo": b"r\xff\xff\xff\xff" + _tangle() + _tuple(_tangle(), b"") + b"\x8f",
    "a set": b"\x8f",
    "a tangle as a key": b"}" + _tangle() + _int(1) + b"s",
    "a tangle as a shape": _array(_tangle(), _dtype(_text("i8")), _PIXELS),
    "a tangle as a dtype": _array(_SHAPE, _dtype(_tangle()), _PIXELS),
    "a tangle as a state": _array(_SHAPE, _dtype(_text("i8"), _tangle()), _PIXELS),
    "a tangle as a codec": _name("_codecs.encode") + _tuple(_text("a"), _tangle()) + b"R",
    "a tangle as a name": _tangle() + _tangle() + b"\x93",
    "more taken than there is": b"0" * 99,
}  # fmt: skip


@pytest.mark.parametrize("what", [*_VALUES_ALLOWED, *_VALUES_REFUSED])
def test_arrays_in_pickles_are_of_plain_numbers_and_made_of_their_bytes(what: str) -> None:
    value = {**_VALUES_ALLOWED, **_VALUES_REFUSED}[what]
    data = b"\x80\x02}" + _text("x") + value + b"s."
    if what in _VALUES_REFUSED:
        with pytest.raises(ValueError, match="no pickle of plain containers and arrays"):
            plain_pickle(data)
        return
    found = plain_pickle(data)["x"]
    kind = ">f8" if what == "big-endian" else "<i8"
    assert (found.dtype, found.tolist()) == (np.dtype(kind), np.frombuffer(bytes(range(16)), kind).tolist())


def test_a_damaged_pickle_is_refused_or_holds_plain_values() -> None:
    draw, refused = np.random.default_rng(5), 0
    content = {
        b"data": np.arange(24, dtype=">u2").reshape(2, 12),
        "labels": [3, -1],
        b"more": {"a": (1.5, None)},
    }
    for protocol in range(5):
        whole = pickle.dumps(content, protocol)
        assert plain_pickle(whole)[b"data"].tolist() == content[b"data"].tolist()  # type: ignore[attr-defined]
        for _ in range(400):
            data = bytearray(whole)
            for place in draw.integers(2, len(data), draw.integers(1, 4)):
                data[place] = draw.integers(0, 256)
            try:
                found = plain_pickle(bytes(data))
            except ValueError:
                refused += 1
                continue
            for value in found.values():
                assert not isinstance(value, np.ndarray) or value.dtype.kind in "biufc"
    assert refused > 500


def test_hdf5_datasets_are_columns(tmp_path: Path) -> None:
    images = np.arange(24, dtype=">i2").reshape(4, 2, 3)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["images"] = images
        file.create_dataset("group/score", data=np.linspace(0, 1, 4, dtype=np.float32), compression="gzip")
        file.create_dataset("name", data=["a", "é", "", "d"], dtype=h5py.string_dtype())
        ragged = file.create_dataset("tokens", (4,), dtype=h5py.vlen_dtype(np.int32))
        for i in range(4):
            ragged[i] = np.arange(i)
        file["version"] = 3
    source = open_source(str(tmp_path / "x.h5"))
    assert "dataset 'version': a single value, left out" in said_of_left_out(source.left_out)
    assert rows_at(tmp_path / "x.h5") == [
        {"group/score": np.linspace(0, 1, 4, dtype=np.float32)[i].item(), "images": images[i].tolist(),
         "name": ["a", "é", "", "d"][i], "tokens": list(range(i))}
        for i in range(4)
    ]  # fmt: skip
    whole = (tmp_path / "x.h5").read_bytes()
    for data, said in (
        (b"", "cannot be read"),
        (whole[: len(whole) // 2], "cannot be read"),
        (b"x" * 99, "cannot"),
    ):
        (tmp_path / "y.h5").write_bytes(data)
        with pytest.raises(SchemaError, match=said):
            rows_at(tmp_path / "y.h5")
    with h5py.File(tmp_path / "z.h5", "w") as file:
        file["a"], file["b"] = np.zeros(3), np.zeros(4)
    with pytest.raises(SchemaError, match=r"differ in length \(a 3, b 4\)"):
        open_source(str(tmp_path / "z.h5"))


def test_hdf5_files_of_one_layout_are_one_dataset(tmp_path: Path) -> None:
    for i in (10, 2):
        with h5py.File(tmp_path / f"part-{i}.h5", "w") as file:
            file["id"] = np.arange(i, i + 3)
            file["id"].attrs["units"] = f"of {i}"
            file["group/x"] = np.full((3, 2), i, "f4")
    assert [row["id"] for row in rows_at(tmp_path)] == [2, 3, 4, 10, 11, 12]
    assert open_source(str(tmp_path)).schema["id"].annotations == {"unit": "of 2"}
    with h5py.File(tmp_path / "part-11.h5", "w") as file:
        file["id"], file["group/x"] = np.arange(2.0), np.zeros((2, 2), "f4")
    with pytest.raises(SchemaError, match=r"part-11.h5 has .*id float64.* but .*part-2.h5 has .*id int64"):
        open_source(str(tmp_path))
    (tmp_path / "part-11.h5").unlink()
    (tmp_path / "part-2.h5").rename(tmp_path / "train.h5")
    (tmp_path / "part-10.h5").rename(tmp_path / "test.h5")
    with pytest.raises(SchemaError, match="parts of a split"):
        open_source(str(tmp_path))


def test_names_of_the_values_of_hdf5_are_classes_or_named_as_left_out(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for name, values in (("kind", {"dog": 1, "cat": 0}), ("flags", {"low": 1, "high": 4})):
            file.create_dataset(name, data=[1, 1], dtype=h5py.enum_dtype(values, basetype="u1"))
    source = open_source(str(tmp_path / "x.h5"))
    assert source.schema["kind"].classes == ("cat", "dog")
    why = "left out: they do not number the values from 0 without a gap"
    assert said_of_left_out(source.left_out) == [f"the names of the values of flags: {why}"]


def test_attributes_called_as_what_a_schema_says_are_left_out_and_named(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = np.arange(3)
        file["x"].attrs.update({"logical": "yes", "chunks": 7, "units": "m"})
    source = open_source(str(tmp_path / "x.h5"))
    assert source.schema["x"].wire_annotations == {"unit": "m"}
    assert said_of_left_out(source.left_out) == [
        f"attribute {name!r} of x: left out: a schema says something else by this name"
        for name in ("logical", "chunks")
    ]


def test_a_heap_that_hdf5_never_gets_through_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An object of the heap of texts with the number and the size 0, behind which the library looks for ever."""
    monkeypatch.setattr(child_reader, "_LEAST_SECONDS", 1.0)
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("s", data=[f"t{i}" for i in range(300)], dtype=h5py.string_dtype())
    data = bytearray(path.read_bytes())
    at = data.index(b"GCOL") + 16
    for _ in range(60):  # number, uses and size of each object; its bytes are a multiple of 8
        at += 16 + -(-struct.unpack_from("<Q", data, at + 8)[0] // 8) * 8
    data[at : at + 16] = bytes(2) + data[at + 2 : at + 8] + bytes(8)
    path.write_bytes(data)
    with pytest.raises(SchemaError, match=r"x.h5, rows from 0 cannot be read: it took more than 1 seconds"):
        rows_at(path)
    assert write_dataset(path, tmp_path / "out", on_error="skip") == 0


def test_hdf5_does_not_lead_to_other_files(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"12345678")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", (8,), "u1", external=[(str(tmp_path / "secret"), 0, 8)])
    with pytest.raises(SchemaError, match="'x' is kept in other files"):
        open_source(str(tmp_path / "x.h5"))


@pytest.mark.parametrize("folder", [True, False])
def test_lmdb_is_read_in_the_order_of_its_keys(
    tmp_path: Path, folder: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lmdb_folder, "_UNIT_ROWS", 7)
    path = tmp_path / ("db" if folder else "x.lmdb")
    with lmdb.open(str(path), subdir=folder) as env, env.begin(write=True) as transaction:
        for i in (3, 1, 2, *range(10, 30)):
            transaction.put(b"%02d" % i, b"v" * i)
    before = sorted(os.listdir(tmp_path))
    rows = rows_of(lmdb_folder.LmdbFolder(open_input(str(path)), Options()))
    assert rows == [{"key": b"%02d" % i, "value": b"v" * i} for i in (1, 2, 3, *range(10, 30))]
    assert sorted(os.listdir(tmp_path)) == before
    (tmp_path / "bad.lmdb").write_bytes(b"x" * 10_000)
    with pytest.raises(SchemaError, match=r"bad.lmdb cannot be read"):
        open_source(str(tmp_path / "bad.lmdb"))


PACKED = {
    "units": "K", "long_name": "temperature", "scale_factor": np.array([0.01]), "add_offset": 250.0,
    "_FillValue": np.int16(-32768), "levels": np.arange(3), "far": np.float32(np.inf), "large": "x" * 5000,
}  # fmt: skip


def test_what_is_said_of_an_array_stays_with_its_column(tmp_path: Path) -> None:
    """Numbers that are packed are those that are stored, and it is said what they mean."""
    h5py, zarr = pytest.importorskip("h5py"), pytest.importorskip("zarr")
    numbers = np.arange(8, dtype=np.int16).reshape(4, 2)
    with h5py.File(tmp_path / "a.nc", "w") as file:
        one = file.create_dataset("t2m", data=numbers)
        one.attrs.update(PACKED)
        one.attrs["to"] = one.ref
        file.attrs["title"] = "run 7"
    plain = {k: v.tolist() if isinstance(v, np.ndarray | np.generic) else v for k, v in PACKED.items()}
    plain |= {"scale_factor": 0.01, "far": "inf"}
    for version in (2, 3):
        group = zarr.open_group(tmp_path / f"{version}.zarr", mode="w", zarr_format=version)
        group.create_array("t2m", data=numbers).attrs.update(plain)
        group.attrs["title"] = "run 7"
    with_fill = zarr.open_group(tmp_path / "x.zarr", mode="w", zarr_format=2)
    with_fill.create_array("t2m", shape=(4, 2), dtype="i2", fill_value=-1).attrs["_ARRAY_DIMENSIONS"] = [
        "t",
        "x",
    ]
    kept = {key: value for key, value in plain.items() if key not in ("units", "long_name", "large")}
    for name, left in (("a.nc", "large, to"), ("2.zarr", "large"), ("3.zarr", "large")):
        with pytest.warns(unirecord.LeftOutWarning, match="packed"):
            assert unirecord.write_dataset(tmp_path / name, tmp_path / f"{name}.urec") == 4
        with UniRecordDataset(tmp_path / f"{name}.urec") as ds:
            assert ds.schema["t2m"].annotations == {"unit": "K", "description": "temperature", **kept}
            assert ds.metadata == {"attributes": {"title": "run 7"}}
            assert [sample["t2m"].tolist() for sample in ds] == numbers.tolist()
        said = said_of_left_out(open_source(str(tmp_path / name)).left_out)
        assert any("packed (scale_factor 0.01, add_offset 250.0, _FillValue -32768)" in one for one in said)
        assert sum("left out: it is large" in one for one in said) == len(left.split(", "))
        assert all(any(f"attribute '{one}' of t2m" in line for line in said) for one in left.split(", "))
    assert open_source(str(tmp_path / "x.zarr")).schema["t2m"].annotations == {"_FillValue": -1}


def several_lengths(folder: Path) -> list[Path]:
    """The same arrays, two of which make rows together, in each format; one can be no column at all."""
    h5py, zarr = pytest.importorskip("h5py"), pytest.importorskip("zarr")
    arrays = {"t2m": np.zeros((4, 3, 5), "f4"), "time": np.arange(4), "lat": np.zeros(3), "lon": np.zeros(5)}
    with h5py.File(folder / "a.h5", "w") as file:
        for name, array in arrays.items():
            file[name] = array
        file["odd"] = np.zeros(4, [("a", "i4"), ("b", "f4")])
    group = zarr.open_group(folder / "a.zarr", mode="w")
    for name, array in arrays.items():
        group.create_array(name, data=array)
    group.create_array("odd", data=np.array([["a", "b"]] * 4))
    np.savez(folder / "a.npz", **arrays, odd=np.array([[b"a", b"b"]] * 4), one=np.float32(3))
    return [folder / name for name in ("a.h5", "a.zarr", "a.npz")]


def test_arrays_that_nobody_asked_for_refuse_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in several_lengths(tmp_path):
        out = tmp_path / f"{path.name}.urec"
        if path.suffix != ".npz":  # of which the first error is about an array that has no rows
            assert main(["write", str(path), str(out)]) == 1
            said = capsys.readouterr().err
            assert "such as t2m,time" in said.replace("odd,", "")
        assert main(["write", str(path), str(out), "--columns", "time,t2m"]) == 0, capsys.readouterr().err
        assert unirecord.write_dataset(path, out, columns=["time"], where="time > 1", overwrite=True) == 2
        with pytest.raises(SchemaError, match="differ in length"):
            unirecord.write_dataset(path, out, columns=["time", "lat"], overwrite=True)
        with pytest.raises(SchemaError, match="which no column type holds"):
            unirecord.write_dataset(path, out, columns=["time", "odd"], overwrite=True)


@pytest.mark.parametrize("kind", ["hdf5", "zarr"])
def test_large_arrays_keep_the_chunks_of_their_source(tmp_path: Path, kind: str) -> None:
    """Unless other ones are asked for; small ones, and those of which a row is one chunk, are stored whole."""
    values = np.random.default_rng(0).standard_normal((2, 600, 600)).astype(np.float32)
    if kind == "hdf5":
        path = tmp_path / "a.h5"
        with h5py.File(path, "w") as file:
            file.create_dataset("large", data=values, chunks=(1, 100, 250))
            file.create_dataset("rows", data=values, chunks=(1, 600, 600))
            file.create_dataset("small", data=values[:, :50, :50], chunks=(1, 10, 10))
    else:
        import zarr

        path = tmp_path / "a.zarr"
        group = zarr.open_group(path, mode="w")
        for name, data, chunks in (
            ("large", values, (1, 100, 250)),
            ("rows", values, (1, 600, 600)),
            ("small", values[:, :50, :50], (1, 10, 10)),
        ):
            made = group.create_array(name, shape=data.shape, chunks=chunks, dtype="f4")
            made[:] = data
    unirecord.write_dataset(path, tmp_path / "out.urec")
    with unirecord.UniRecordDataset(tmp_path / "out.urec") as ds:
        assert ds.schema["large"].chunks == (100, 250)
        assert ds.schema["rows"].chunks is None
        assert ds.schema["small"].chunks is None
        assert np.array_equal(ds.read_part(1, "large", np.s_[90:110, 7]), values[1, 90:110, 7])
    whole = {"large": {"type": "float32", "shape": [600, 600]}}
    unirecord.write_dataset(path, tmp_path / "whole.urec", schema=whole)
    with unirecord.UniRecordDataset(tmp_path / "whole.urec") as ds:
        assert ds.schema["large"].chunks is None
