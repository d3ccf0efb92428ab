"""`columns` chooses first: what is wrong with a column that nobody asked for refuses no conversion, of any source."""

from __future__ import annotations

import gzip
import io
import json
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from foreign_samples import FOREIGN
from sources import shard

import unirecord
from unirecord import UniRecordDataset
from unirecord.convert.sources import Options, open_source, webdataset
from unirecord.convert.sources import tfrecord as tfrecord_source
from unirecord.convert.sources.source import WantedColumns
from unirecord.convert.sources.tfrecord import masked_crc32c
from unirecord.errors import SchemaError

pytestmark = pytest.mark.usefixtures("forked_readers")

BAD = pa.array([1] * 3, pa.date64())  # parts of days
MONTHS = pa.array([(1, 2, 3)] * 3, pa.month_day_nano_interval())
NO_UTF_8 = pa.StringArray.from_buffers(
    3, pa.py_buffer(np.arange(4, dtype=np.int32)), pa.py_buffer(b"\xff" * 3)
)
KEEP = pa.array([0, 1, 2])


def texts(name: str, *contents: str) -> Callable[[Path], Any]:
    """A file, or a folder of some."""

    def make(folder: Path) -> Path:
        for i, content in enumerate(contents):
            (folder / f"{i}{name}").write_text(content)
        return folder if len(contents) > 1 else folder / f"0{name}"

    return make


def parquet(*tables: pa.Table) -> Callable[[Path], Any]:
    def make(folder: Path) -> Path:
        for i, table in enumerate(tables):
            pyarrow.parquet.write_table(table, folder / f"{i}.parquet")
        return folder

    return make


def arrow(*tables: pa.Table) -> Callable[[Path], Any]:
    def make(folder: Path) -> Path:
        for i, table in enumerate(tables):
            pyarrow.feather.write_feather(table, folder / f"{i}.feather", version=2)
        return folder

    return make


def lance(folder: Path) -> Path:
    pytest.importorskip("lance").write_dataset(pa.table({"keep": KEEP, "bad": BAD}), folder / "x.lance")
    return folder / "x.lance"


def npz(folder: Path) -> Path:
    bad = np.frombuffer(b"\x00\xd8\x00\x00" * 3, "<U1")  # a surrogate alone
    np.savez(folder / "x.npz", keep=np.arange(3), bad=bad)
    return folder / "x.npz"


def hdf5(folder: Path) -> Path:
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "x.h5", "w") as file:
        file["keep"] = np.arange(3)
        file.create_dataset("bad", data=[b"\xff"] * 3, dtype=h5py.string_dtype())
    return folder / "x.h5"


def zarr(folder: Path) -> Path:
    group = pytest.importorskip("zarr").open_group(folder / "x.zarr", mode="w")
    group.create_array("keep", data=np.arange(3))
    group.create_array("bad", data=np.array([["a", "b"]] * 3))
    return folder / "x.zarr"


def mds(encoding: str, cell: bytes) -> Callable[[Path], Any]:
    """A shard of two columns: sizes of the values that have no fixed one stand first in a sample."""

    def make(folder: Path) -> Path:
        cells = [struct.pack("<Iq", len(cell), i) + cell for i in range(3)]
        columns = {
            "column_names": ["keep", "bad"],
            "column_encodings": ["int", encoding],
            "column_sizes": [8, None],
        }
        return shard(folder / "x.mds", cells, **columns)

    return make


def ffcv(folder: Path) -> Path:
    data = bytearray(gzip.decompress((FOREIGN / "ffcv" / "sample.beton.gz").read_bytes()))
    at = data.index(b'"<f', data.index(b"grid"))
    data[at : at + 4] = b'"<m8'
    (folder / "x.beton").write_bytes(data)
    return folder / "x.beton"


def example(**features: int) -> bytes:
    """A tf.train.Example of whole numbers, and one with another type for each name that begins with B."""

    def field(number: int, data: bytes) -> bytes:
        return bytes([number << 3 | 2, len(data)]) + data

    pairs = b""
    for name, value in features.items():
        kind = field(1, field(1, b"x")) if name == "bad" and value else field(3, bytes([0x08, value]))
        pairs += field(1, field(1, name.encode()) + field(2, kind))
    return field(1, pairs)


def tfrecord(folder: Path) -> Path:
    out = b""
    for i in range(3):
        data = example(keep=i, bad=i // 2)
        head = struct.pack("<Q", len(data))
        out += head + struct.pack("<I", masked_crc32c(head)) + data + struct.pack("<I", masked_crc32c(data))
    (folder / "x.tfrecord").write_bytes(out)
    return folder / "x.tfrecord"


def tar(folder: Path) -> Path:
    with tarfile.open(folder / "x.tar", "w") as archive:
        for i in range(3):
            for name, content in ((f"{i}.keep.cls", str(i)), (f"{i}.bad.json", "{" if i == 2 else "1")):
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content.encode()))
    return folder / "x.tar"


SOURCES: dict[str, Callable[[Path], Any]] = {
    "csv: rounded numbers": texts(".csv", "keep,bad\n0,9007199254740993\n1,0.5\n2,1\n"),
    "csv: two fields of one name": texts(".csv", "keep,bad,bad\n0,1,1\n1,1,1\n2,1,1\n"),
    "csv: files with other columns": texts(".csv", "keep,bad\n0,1\n1,2\n", "more,keep\nx,2\n"),
    "jsonl: two fields of one name": texts(
        ".jsonl", "".join(f'{{"keep":{i},"b\\u0001d":1,"b_d":1}}\n' for i in range(3))
    ),
    "parquet: a text that is no Unicode": parquet(pa.table({"keep": KEEP, "bad": NO_UTF_8})),
    "parquet: two fields of one name": parquet(pa.table([KEEP, KEEP, KEEP], names=["keep", "b\x01d", "b_d"])),
    "parquet: files with other types": parquet(
        pa.table({"keep": KEEP[:2], "bad": KEEP[:2]}), pa.table({"bad": ["x"], "keep": KEEP[2:]})
    ),
    "parquet: files with other columns": parquet(
        pa.table({"keep": KEEP[:2], "bad": KEEP[:2]}), pa.table({"more": ["x"], "keep": KEEP[2:]})
    ),
    "arrow: months": arrow(pa.table({"keep": KEEP, "bad": MONTHS})),
    "arrow: files with other types": arrow(
        pa.table({"keep": KEEP[:2], "bad": KEEP[:2]}), pa.table({"bad": ["x"], "keep": KEEP[2:]})
    ),
    "arrow: files with other columns": arrow(
        pa.table({"keep": KEEP[:2], "bad": KEEP[:2]}), pa.table({"keep": KEEP[2:]})
    ),
    "a table": lambda folder: pa.table({"keep": KEEP, "bad": BAD}),
    "lance: a date that is no whole day": lance,
    "npy: text that is no Unicode": npz,
    "hdf5: text that is no Unicode": hdf5,
    "zarr: an array of texts": zarr,
    "mds: an unknown encoding": mds("evil", b"abc"),
    "mds: damaged values": mds("json", b"{"),
    "mds: values of a type that none is": mds("pil", b"\xff" * 20),
    "tfrecord: another type behind those looked at": tfrecord,
    "webdataset: damaged values behind those looked at": tar,
}  # fmt: skip


@pytest.mark.parametrize("case", SOURCES)
def test_columns_that_nobody_asked_for_refuse_no_conversion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.setattr(tfrecord_source, "_SAMPLE_RECORDS", 2)
    monkeypatch.setattr(webdataset, "_SAMPLE_ROWS", 2)
    (tmp_path / "in").mkdir()
    source, out = SOURCES[case](tmp_path / "in"), tmp_path / "out.urec"
    keep = "keep.cls" if case.startswith("webdataset") else "keep"
    with pytest.raises(SchemaError):
        unirecord.write_dataset(source, out)
    assert unirecord.write_dataset(source, out, columns=[keep], rename={keep: "kept"}) == 3
    assert [row["kept"] for row in UniRecordDataset(out)] == [0, 1, 2]
    assert unirecord.write_dataset(source, out, columns=[keep], where=f"`{keep}` > 0", overwrite=True) == 2


@pytest.mark.parametrize("case", [case for case in SOURCES if "one name" not in case and "other" not in case])
def test_a_column_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path, case: str) -> None:
    (tmp_path / "in").mkdir()
    source = SOURCES[case](tmp_path / "in")
    with pytest.raises(SchemaError, match=r"there is no column 'kep'.* the columns are .*keep"):
        unirecord.write_dataset(source, tmp_path / "out", columns=["kep"])


def test_a_field_of_ffcv_that_no_column_holds_is_left_where_nobody_asks_for_it(tmp_path: Path) -> None:
    path = str(ffcv(tmp_path))
    with pytest.raises(SchemaError, match="'grid'"):
        open_source(path)
    source = open_source(path, None, Options(wanted=WantedColumns(frozenset({"id"}))))
    assert source.schema.names == ("id",)
    expected = json.loads((FOREIGN / "ffcv" / "expected.json").read_text())
    assert [i for batch in source.batches() for i in batch.columns["id"]] == [row["id"] for row in expected]
