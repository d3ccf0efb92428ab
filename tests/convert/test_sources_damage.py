"""Every kind of source over files that are empty, cut, exchanged or missing: refused by name; never a crash."""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import damaged_sources
import h5py
import lerobot_samples
import lmdb
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from foreign_samples import FOREIGN
from image_folders import folder, picture
from sources import DATA, VOC, YOLO, cifar, idx
from token_samples import datatrove, litgpt, megatron

from unirecord import write_dataset
from unirecord.convert.sources import SOURCES, open_source
from unirecord.errors import UniRecordError

pytestmark = pytest.mark.usefixtures("forked_readers")

DOCUMENTS = [range(i) for i in range(40)]
TABLE = pa.table({"id": range(500), "name": [f"name {i}" for i in range(500)]})


def text(name: str, content: str) -> Callable[[Path], Path]:
    def make(root: Path) -> Path:
        (root / name).write_text(content)
        return root / name

    return make


def copy(*names: str) -> Callable[[Path], Path]:
    def make(root: Path) -> Path:
        place = DATA.joinpath(*names)
        (shutil.copytree if place.is_dir() else shutil.copy)(place, root / names[-1])
        return root / names[-1]

    return make


def tree(name: str, files: dict[str, bytes]) -> Callable[[Path], Path]:
    return lambda root: Path(folder(root / name, files))


def _parquet(root: Path) -> Path:
    pa.parquet.write_table(TABLE, root / "t.parquet", row_group_size=100)
    return root / "t.parquet"


def _arrow(root: Path) -> Path:
    pa.feather.write_feather(TABLE, str(root / "t.feather"))
    return root / "t.feather"


def _beton(root: Path) -> Path:
    (root / "t.beton").write_bytes(gzip.decompress((FOREIGN / "ffcv" / "sample.beton.gz").read_bytes()))
    return root / "t.beton"


def _npz(root: Path) -> Path:
    np.savez(root / "t.npz", x=np.arange(3000.0), y=np.arange(3000))
    return root / "t.npz"


def _hdf5(root: Path) -> Path:
    with h5py.File(root / "t.h5", "w") as file:
        file["x"] = np.arange(30_000.0)
    return root / "t.h5"


def _lmdb(root: Path) -> Path:
    with lmdb.open(str(root / "db"), map_size=1 << 24) as env, env.begin(write=True) as transaction:
        for i in range(2_000):
            transaction.put(b"%06d" % i, b"value" * 20)
    (root / "db" / "lock.mdb").unlink()
    return root / "db"


def _cifar(root: Path) -> Path:
    cifar(root / "cifar")
    return root / "cifar"


def _megatron(root: Path) -> Path:
    (root / "mega").mkdir()
    return megatron(root / "mega" / "t", DOCUMENTS, [0, 0, *range(3, 41)]).parent


def _datatrove(root: Path) -> Path:
    (root / "trove").mkdir()
    return datatrove(root / "trove" / "t.ds", DOCUMENTS, losses=DOCUMENTS).parent


def _dataset(root: Path) -> Path:
    write_dataset([{"id": i, "name": f"n {i}", "blob": b"b" * i} for i in range(60)], root / "ours")
    return root / "ours"


PICTURES = {f"cat/{i}.png": picture(4, 3) for i in range(4)}
COCO = {"images": [{"id": 1, "file_name": "cat/1.png"}], "annotations": [], "categories": []}
MADE: dict[str, Callable[[Path], Path]] = {
    "unirecord": _dataset,
    "csv": text("t.csv", "id,name\n" + "".join(f'{i},"n {i}"\n' for i in range(200))),
    "jsonl": text("t.jsonl", "".join(f'{{"id": {i}, "v": [1, 2]}}\n' for i in range(200))),
    "text": text("t.txt", "some\nlines\n" * 20),
    "images": tree("pictures", PICTURES),
    "masks": tree("masked", {f"{kind}/{i}.png": picture(4, 3) for kind in ("images", "masks") for i in range(4)}),
    "files": tree("texts", {"a.txt": b"a", "b.txt": b"b"}),
    "coco": tree("coco", {**PICTURES, "instances.json": json.dumps(COCO).encode()}),
    "voc": tree("VOC2012", VOC),
    "yolo": tree("yolo", YOLO),
    "parquet": _parquet,
    "arrow": _arrow,
    "mindrecord": copy("mindrecord", "digits.mindrecord"),
    "lerobot": lambda root: lerobot_samples.dataset(root / "robot", "v2.1"),
    "megatron": _megatron,
    "datatrove": _datatrove,
    "tokens": lambda root: litgpt(root / "t.bin", np.arange(4000, dtype=np.uint16), 500),
    "tfrecord": copy("tfrecord"),
    "webdataset": copy("webdataset"),
    "mds": copy("foreign", "mds", "zstd"),
    "litdata": copy("foreign", "litdata", "zstd"),
    "ffcv": _beton,
    "arrayrecord": copy("foreign", "arrayrecord"),
    "bagz": copy("foreign", "bagz", "x.bagz"),
    "lance": copy("foreign", "lance", "x.lance"),
    "zarr": copy("foreign", "zarr", "v3.zarr"),
    "npy": _npz,
    "idx": tree("mnist", {"train-images-idx3-ubyte": idx(np.zeros((9, 4, 4), np.uint8), 8),
                          "train-labels-idx1-ubyte": idx(np.zeros(9, np.uint8), 8)}),
    "cifar": _cifar,
    "hdf5": _hdf5,
    "lmdb": _lmdb,
}  # fmt: skip
PACKAGES = {"lance": "lance", "arrayrecord": "array_record", "zarr": "zarr"}  # too large for every run


def test_every_kind_of_source_has_a_sample_here() -> None:
    assert {source.kind for source in SOURCES} - {"python"} == set(MADE)  # which reads no file


def _read(place: Path, kind: str) -> tuple[int, int]:
    """How many rows there are, and how many things are left out and said to be so."""
    source = open_source(str(place / "instances.json" if kind == "coco" else place), kind)
    rows = sum(batch.rows for batch in source.batches())
    return rows, len(source.left_out)


def _refusal(place: Path, kind: str, left_out: int) -> str:
    """What is said of the damage; "" when nothing is."""
    try:
        return f"{place}: some is left out" if _read(place, kind)[1] > left_out else ""
    except UniRecordError as error:
        return str(error)


@pytest.mark.filterwarnings("ignore:Object at")  # of zarr, about metadata that is gone
@pytest.mark.parametrize("kind", MADE)
def test_damage_is_refused_by_name_or_harmless(kind: str, tmp_path: Path) -> None:
    if kind in PACKAGES and importlib.util.find_spec(PACKAGES[kind]) is None:
        pytest.skip(f"{PACKAGES[kind]} is not here")
    place = MADE[kind](tmp_path)
    rows, left_out = _read(place, kind)
    assert rows > 0
    said = []
    whole = sorted(file for file in place.rglob("*") if file.is_file()) if place.is_dir() else [place]
    whole.sort(key=lambda file: file.stat().st_size)
    for file in {whole[0], whole[-1]}:  # an index and what it is of, where there are two kinds of files
        content = file.read_bytes()
        for bad in (b"", content[: len(content) // 2], content[:-1], b"\xb7\x00 no such thing" * 99, None):
            if bad is None:
                file.unlink()
            else:
                file.write_bytes(bad)
            said.append(_refusal(place, kind, left_out))
            file.write_bytes(content)
    assert [one for one in said if one and place.name not in one] == []
    assert len(list(filter(None, said))) >= (0 if kind == "files" else 2)  # which takes any file as it is
    assert _read(place, kind) == (rows, left_out)


COPIES = 120
# Damage that these libraries die of is refused by the child, in which alone they are called.
DIES = {source.kind for source in SOURCES if source.libraries}


@pytest.mark.parametrize(
    "kind", [kind for kind in MADE if kind not in ("unirecord", "images", "files", "text")]
)
def test_whatever_is_damaged_is_read_or_refused_by_our_errors(kind: str, tmp_path: Path) -> None:
    """Copies with seeded cuts, changed bytes and extreme numbers; none of them may be an internal error."""
    if kind in PACKAGES and importlib.util.find_spec(PACKAGES[kind]) is None:
        pytest.skip(f"{PACKAGES[kind]} is not here")
    place, whole = MADE[kind](tmp_path), tmp_path / "whole"
    (shutil.copytree if place.is_dir() else shutil.copy)(place, whole)
    wrong, deaths, start = [], 0, 0
    while start < COPIES:
        run = subprocess.run(
            [sys.executable, damaged_sources.__file__, kind, str(place), "1", str(start), str(COPIES)],
            capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, check=False,
        )  # fmt: skip
        said = [json.loads(line) for line in run.stdout.splitlines()]
        wrong += [f"copy {number}: {what}" for number, what in said if what is not None]
        start = said[-1][0] + 1 if said else start
        if run.returncode:
            assert run.returncode < 0, run.stderr
            assert kind in DIES, f"copy {start}: {run.stderr}"
            deaths, start = deaths + 1, start + 1
            shutil.rmtree(place) if place.is_dir() else place.unlink()
            (shutil.copytree if whole.is_dir() else shutil.copy)(whole, place)
    assert wrong == []
    assert deaths < COPIES / 10


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "arrow", "tfrecord", "webdataset", "npy"])
def test_a_folder_of_files_that_do_not_fit_together_is_refused(kind: str, tmp_path: Path) -> None:
    other = {"csv": b"x,y\n1,2\n", "jsonl": b'{"other": 1}\n3\n'}.get(kind)
    made = MADE[kind](tmp_path)
    file = sorted(made.iterdir())[0] if made.is_dir() else made
    both = tmp_path / "both"
    both.mkdir()
    shutil.copy(file, both / f"a{file.suffix}")
    (both / f"b{file.suffix}").write_bytes(b"\x00\x01" * 500 if other is None else other)
    with pytest.raises(UniRecordError, match="both"):
        _read(both, kind)
