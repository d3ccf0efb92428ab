"""Lance, Zarr, ArrayRecord and Bagz, each made by its library: every value; what is damaged, mixed or hostile."""

from __future__ import annotations

import json
import pickle
import shutil
import sys
from pathlib import Path
from typing import Any

import h5py
import lance
import lmdb
import numpy as np
import pyarrow as pa
import pytest
from foreign_samples import FOREIGN, plain, sample
from sources import refusals, rows_at

from unirecord.convert.sources import (
    Options,
    foreign_libraries,
    open_input,
    open_source,
    source_type,
    zarr_group,
)
from unirecord.convert.sources.source import said_of_left_out
from unirecord.errors import MissingError, SchemaError

pytestmark = pytest.mark.usefixtures("forked_readers")


def expected(kind: str) -> Any:
    return json.loads((FOREIGN / kind / "expected.json").read_text())


def test_lance_every_value() -> None:
    pytest.importorskip("lance")
    path = FOREIGN / "lance" / "x.lance"
    source = open_source(str(path))
    assert (source.kind, source.rows, len(source.units)) == ("lance", 11, 2)
    spec = source.schema.to_spec()
    assert (spec["id"], spec["text"]) == ("int64", "string?")
    assert spec["grid"] == {"type": "float32", "shape": [6]}
    assert plain(rows_at(path)) == expected("lance")


def test_lance_that_lacks_a_file_is_named(tmp_path: Path) -> None:
    pytest.importorskip("lance")
    copy = tmp_path / "x.lance"
    shutil.copytree(FOREIGN / "lance" / "x.lance", copy)
    for file in sorted((copy / "data").iterdir()):
        file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(SchemaError, match=r"x.lance.* cannot be read"):
        rows_at(copy)


@pytest.mark.parametrize("version", [2, 3])
def test_zarr_every_value(version: int) -> None:
    pytest.importorskip("zarr")
    path = FOREIGN / "zarr" / f"v{version}.zarr"
    source = open_source(str(path))
    assert (source.kind, source.rows) == ("zarr", 12)
    assert said_of_left_out(source.left_out) == [
        "array 'once': a single value, left out",
    ]  # fmt: skip
    assert plain(rows_at(path)) == expected("zarr")
    (alone,) = {tuple(row) for row in rows_at(path / "id", options=Options({"id": "float64"}))}
    assert alone == ("id",)


@pytest.mark.filterwarnings("ignore:Object at")
@pytest.mark.parametrize(
    ("version", "lost", "said"),
    [
        (2, "id/.zarray", "x.zarr/id: "), (2, "inner/grid/.zarray", "x.zarr/inner/grid: "),
        (2, "inner/.zgroup", "x.zarr/inner: "),
        (3, "id/zarr.json", "x.zarr/id: "), (3, "inner/grid/zarr.json", "x.zarr/inner/grid: "),
        (3, "inner/zarr.json", "x.zarr/inner: "),
    ],
)  # fmt: skip
def test_zarr_arrays_without_their_metadata_are_not_left_out_in_silence(
    version: int, lost: str, said: str, tmp_path: Path
) -> None:
    pytest.importorskip("zarr")
    copy = tmp_path / "x.zarr"
    shutil.copytree(FOREIGN / "zarr" / f"v{version}.zarr", copy)
    (copy / ".cache").mkdir()
    (copy / ".cache" / "x").touch()
    (copy / "empty").mkdir()
    assert open_source(str(copy)).rows == 12
    (copy / lost).unlink()
    with pytest.raises(SchemaError, match=f"{said}zarr.json, .zarray or .zgroup is missing"):
        open_source(str(copy))


def test_zarr_that_is_damaged_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    copy = tmp_path / "x.zarr"
    shutil.copytree(FOREIGN / "zarr" / "v2.zarr", copy)
    (copy / "id" / "1").write_bytes(b"\0\1\2")
    with pytest.raises(SchemaError, match=r"x.zarr, rows from 0, array 'id' cannot be read"):
        rows_at(copy)
    said = json.loads((copy / "id" / ".zarray").read_text())
    (copy / "id" / ".zarray").write_text(json.dumps({**said, "shape": [3]}))
    with pytest.raises(SchemaError, match=r"its arrays differ in length \(id 3"):
        open_source(str(copy))


class _Marks:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


_TEXT_THEN_PICKLE = [{"id": "vlen-utf8"}, {"id": "pickle", "protocol": 5}]


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32-le"])
@pytest.mark.parametrize(
    ("dtype", "codecs", "said"),
    [
        ("|O", {"filters": _TEXT_THEN_PICKLE}, "/a: its objects are pickled"),
        ("|O", {"filters": [{"id": "vlen-utf8"}], "compressor": {"id": "pickle"}}, "/a: its objects are pickled"),
        ("<i4", {"filters": [{"id": "shuffle"}, {"id": "pickle"}]}, ".*pickle"),  # by zarr itself, or by us
        ("<i4", {"compressor": {"id": "pickle"}}, ".*pickle"),
        ("<i4", {"filters": [{"id": "base64"}]}, "/a: its codec 'base64' is not read; write the array with one of"),
    ],
)  # fmt: skip
def test_zarr_codecs_that_are_not_known_are_refused_before_a_chunk_is_decoded(
    tmp_path: Path, linked: bool, encoding: str, dtype: str, codecs: dict[str, Any], said: str
) -> None:
    pytest.importorskip("zarr")
    root, there = tmp_path / "x.zarr", tmp_path / "there"
    there.mkdir()
    root.mkdir()
    (root / ".zgroup").write_text('{"zarr_format": 2}')
    if linked:
        (root / "a").symlink_to(there)
    else:
        there.rename(root / "a")
    meta = {"zarr_format": 2, "shape": [2], "chunks": [2], "dtype": dtype, "fill_value": None, "order": "C",
            "compressor": None, "filters": None, **codecs}  # fmt: skip
    text = json.dumps(meta).replace("pickle", r"\u0070ickle") if encoding == "utf-8" else json.dumps(meta)
    (root / "a" / ".zarray").write_bytes(text.encode(encoding))
    (root / "a" / "0").write_bytes(pickle.dumps(_Marks(tmp_path / "ran")))
    with pytest.raises(SchemaError, match=f"x.zarr{said}"):
        open_source(str(root))
    assert not (tmp_path / "ran").exists()


def test_zarr_codecs_inside_a_shard_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zarr = pytest.importorskip("zarr")
    # Its shards are stored as they are, and what is in them by zstd.
    zarr.create_array(tmp_path / "x.zarr", data=np.arange(20), chunks=(5,), shards=(10,))
    assert rows_at(tmp_path / "x.zarr") == [{"x": i} for i in range(20)]
    monkeypatch.setattr(zarr_group, "_CODECS", zarr_group._CODECS - {"zstd"})
    with pytest.raises(SchemaError, match=r"x.zarr/x: its codec 'zstd' is not read"):
        zarr_group.ZarrGroup(open_input(str(tmp_path / "x.zarr")), Options())


def test_zarr_bytes_of_any_length_stay_bytes(tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    numcodecs = pytest.importorskip("numcodecs")
    values = [b"a", b"", bytes(range(256))]
    meta = {"zarr_format": 2, "shape": [3], "chunks": [3], "dtype": "|O", "compressor": None, "fill_value": None,
            "order": "C", "filters": [{"id": "vlen-bytes"}]}  # fmt: skip
    (tmp_path / "x.zarr").mkdir()
    (tmp_path / "x.zarr" / ".zarray").write_text(json.dumps(meta))
    chunk = numcodecs.VLenBytes().encode(np.array(values, object))
    (tmp_path / "x.zarr" / "0").write_bytes(bytes(chunk))
    assert rows_at(tmp_path / "x.zarr") == [{"x": value} for value in values]


def test_arrayrecord_every_value() -> None:
    pytest.importorskip("array_record")
    source = open_source(str(FOREIGN / "arrayrecord" / "x-train*"))
    assert (source.kind, source.rows) == ("arrayrecord", 12)
    assert plain(rows_at(FOREIGN / "arrayrecord" / "x-train*")) == expected("arrayrecord")
    raw = rows_at(FOREIGN / "arrayrecord" / "raw.arrayrecord")
    assert raw == [{"record": sample(i)["raw"]} for i in range(12)]


def test_arrayrecord_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("array_record")
    whole = (FOREIGN / "arrayrecord" / "raw.arrayrecord").read_bytes()
    path = tmp_path / "x.arrayrecord"
    for size in (0, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(SchemaError, match=r"x.arrayrecord"):
            rows_at(path)


def test_bagz_every_value() -> None:
    source = open_source(str(FOREIGN / "bagz" / "x.bagz"))
    assert (source.kind, source.rows) == ("bagz", 12)
    assert plain(rows_at(FOREIGN / "bagz" / "x.bagz")) == expected("arrayrecord")
    raw = rows_at(FOREIGN / "bagz" / "raw.bag")
    assert raw == [{"record": sample(i)["raw"]} for i in range(12)]
    kept = rows_at(FOREIGN / "bagz" / "x.bagz", options=Options({"record": "bytes"}))
    assert len(kept[3]["record"]) > 20


def test_bagz_that_is_damaged_is_refused_by_name(tmp_path: Path) -> None:
    for name in ("x.bagz", "raw.bag"):
        shutil.copy(FOREIGN / "bagz" / name, tmp_path / name)
        assert refusals(tmp_path / name, "bagz", cuts=20, flips=60) > 30
    (tmp_path / "x.bag").write_bytes(b"")
    with pytest.raises(SchemaError, match=r"x.bag holds no records"):
        rows_at(tmp_path / "x.bag")


def test_a_package_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.arrayrecord").write_bytes(bytes(1 << 17))
    for module in ("array_record.python.array_record_module", "lance", "zarr"):
        monkeypatch.setitem(sys.modules, module, None)
    for path, package in (
        (tmp_path / "a.arrayrecord", "array-record"),
        (FOREIGN / "lance" / "x.lance", "pylance"),
        (FOREIGN / "zarr" / "v3.zarr", "zarr"),
    ):
        found = open_input(str(path))
        with pytest.raises(MissingError, match=f"pip install {package}"):
            source_type(found)(found, Options())  # not by a child, which would have the modules


def test_a_package_that_is_too_old_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for package, floor in foreign_libraries.FLOORS.items():
        name = package.replace("array-record", "array_record")
        extra = "tokenizers" if package == "tokenizers" else "convert"
        # Torch trains as well when it is older.
        assert package == "torch" or f'"{name}>={floor}"' in _extra(extra)
        foreign_libraries._too_old.cache_clear()
        old = ".".join(str(int(part) - (i == 0)) for i, part in enumerate(floor.split(".")))
        old = old if not old.startswith("-") else "0.0.9"
        monkeypatch.setattr(foreign_libraries, "version", lambda _, old=old: old)
        with pytest.raises(MissingError, match=f"needs {package} {floor} or newer, and {old} is installed"):
            foreign_libraries.needed("json", "a file", package)
        foreign_libraries._too_old.cache_clear()
        monkeypatch.setattr(foreign_libraries, "version", lambda _, floor=floor: f"{floor}.1rc1+local")
        assert foreign_libraries.needed("json", "a file", package) is json
    foreign_libraries._too_old.cache_clear()


def _extra(name: str) -> str:
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    return project.split(f"\n{name} = [")[1].split("]")[0]


def test_an_lmdb_of_several_databases_is_refused_by_their_names(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path / "db"), max_dbs=4) as env:
        for name in (b"train", b"val"):
            with env.begin(write=True, db=env.open_db(name)) as transaction:
                transaction.put(b"k", b"v")
    with pytest.raises(SchemaError, match=r"holds databases of their own \(train, val\)"):
        open_source(str(tmp_path / "db"))
    with lmdb.open(str(tmp_path / "plain")) as env, env.begin(write=True) as transaction:
        for i in range(3):
            transaction.put(b"%d" % i, bytes(48))  # as long as the entry of a database
    assert len(rows_at(tmp_path / "plain")) == 3


def test_links_of_hdf5_are_said_to_be_left_out(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["group/x"] = np.arange(3)
        file["group/soft"] = h5py.SoftLink("/group/x")
        file["out"] = h5py.ExternalLink("other.h5", "/z")
    said = said_of_left_out(open_source(str(tmp_path / "a.h5")).left_out)
    assert "link 'group/soft': left out: it leads to '/group/x' of the same file" in said
    assert "link 'out': left out: it leads into another file, 'other.h5'" in said


def test_blob_columns_of_lance_are_their_bytes(tmp_path: Path) -> None:
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    values = [b"x" * 100, None, b"y" * 70_000]
    schema = pa.schema([("i", pa.int64()), field])
    given = pa.table([pa.array([1, 2, 3]), pa.array(values, pa.large_binary())], schema=schema)
    lance.write_dataset(given, str(tmp_path / "v.lance"))
    assert rows_at(tmp_path / "v.lance") == [{"i": i, "b": b} for i, b in zip((1, 2, 3), values, strict=True)]
