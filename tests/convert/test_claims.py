"""Files that claim many more rows or bytes than they hold: refused, or converted where that is asked for."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest

from unirecord import write_dataset
from unirecord.cli.main import main
from unirecord.convert.sources import Options, open_source
from unirecord.errors import SchemaError

pytestmark = pytest.mark.usefixtures("forked_readers")


def npy(descr: str, shape: tuple[int, ...]) -> Callable[[Path], Path]:
    def make(root: Path) -> Path:
        head = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}\n".encode()
        (root / "x.npy").write_bytes(b"\x93NUMPY\x01\0" + struct.pack("<H", len(head)) + head)
        return root / "x.npy"

    return make


def hdf5(*shape: int) -> Callable[[Path], Path]:
    def make(root: Path) -> Path:
        with h5py.File(root / "x.h5", "w") as file:
            file.create_dataset("x", shape, "u1", chunks=tuple(min(1 << 10, n) for n in shape), fillvalue=7)
        return root / "x.h5"

    return make


def zarr(*shape: int) -> Callable[[Path], Path]:
    def make(root: Path) -> Path:
        pytest.importorskip("zarr")
        said = {"zarr_format": 2, "shape": shape, "chunks": [min(1 << 20, n) for n in shape], "dtype": "|u1",
                "compressor": None, "fill_value": 7, "order": "C", "filters": None}  # fmt: skip
        (root / "x.zarr").mkdir()
        (root / "x.zarr" / ".zarray").write_text(json.dumps(said))
        return root / "x.zarr"

    return make


def arrow(column: Callable[[], Any]) -> Callable[[Path], Path]:
    def make(root: Path) -> Path:
        batch = pa.record_batch([column()], names=["x"])
        with pa.OSFile(str(root / "x.arrow"), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
            writer.write_batch(batch)
        return root / "x.arrow"

    return make


def runs(rows: int) -> Any:
    return pa.RunEndEncodedArray.from_arrays(pa.array([rows], pa.int64()), pa.array([3]))


MANY = 10**12
BATCH = 500_000_000  # of rows, which Arrow allows a batch
CLAIMS: dict[str, Callable[[Path], Path]] = {
    "npy, rows of no numbers": npy("'<i4'", (MANY, 0)),
    "hdf5, a fill value": hdf5(MANY),
    "hdf5, rows that are wide": hdf5(1, 1 << 40),
    "hdf5, more units than memory holds": hdf5(MANY, 1 << 27),
    "zarr, a fill value": zarr(MANY),
    "zarr, rows that are wide": zarr(1, 1 << 40),
    "zarr, more units than memory holds": zarr(MANY, 1 << 27),
    "arrow, nulls": arrow(lambda: pa.nulls(BATCH)),
    "arrow, runs": arrow(lambda: runs(BATCH)),
    "arrow, structs of nothing": arrow(lambda: pa.StructArray.from_buffers(pa.struct([]), BATCH, [None])),
}


@pytest.mark.parametrize("what", CLAIMS)
def test_rows_that_a_file_claims_and_does_not_hold_are_refused(tmp_path: Path, what: str) -> None:
    path = CLAIMS[what](tmp_path)
    with pytest.raises(SchemaError, match=rf"{path.name} claims [0-9,]+ rows?.*, and has .*--trust-sizes"):
        open_source(str(path))
    assert main(["write", str(path), str(tmp_path / "out")]) == 1
    assert not (tmp_path / "out").exists()


ASKED: dict[str, tuple[Callable[[Path], Path], int]] = {
    "npy": (npy("'<i4'", (3_000_000, 0)), 3_000_000),
    "hdf5": (hdf5(6_000_000), 6_000_000),
    "zarr": (zarr(3_000_000), 3_000_000),
    "arrow": (arrow(lambda: runs(3_000_000)), 3_000_000),
}


@pytest.mark.parametrize("kind", ASKED)
def test_they_are_converted_where_that_is_asked_for(tmp_path: Path, kind: str) -> None:
    make, rows = ASKED[kind]
    path = make(tmp_path)
    with pytest.raises(SchemaError, match="claims"):
        open_source(str(path))
    source = open_source(str(path), options=Options(trust_sizes=True))
    assert source.rows == rows
    if kind == "hdf5":
        assert write_dataset(path, tmp_path / "out", trust_sizes=True) == rows
        assert main(["write", str(path), str(tmp_path / "again"), "--trust-sizes", "--limit", "10"]) == 0


def test_what_is_large_and_held_is_no_claim(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(1_500_000, np.uint8))
    assert open_source(str(tmp_path / "x.npy")).rows == 1_500_000


@pytest.mark.parametrize(
    "descr", ["'|V0'", "'<U0'", "'|S0'", "[('a', '|S0')]", "[('a', '<U0'), ('b', '|V0')]"]
)
def test_items_of_no_bytes_are_refused(tmp_path: Path, descr: str) -> None:
    for rows in (3, MANY):
        with pytest.raises(SchemaError, match=r"x.npy.*: its items .* have no bytes|x.npy: no .npy header"):
            open_source(str(npy(descr, (rows,))(tmp_path)))
