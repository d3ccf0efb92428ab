"""The commands and the code of docs/converting.md run as written, and every source is on the page."""

from __future__ import annotations

import gzip
import importlib.util
import json
import re
import shlex
import shutil
from pathlib import Path

import datasets
import h5py
import lerobot_samples
import lmdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from foreign_samples import FOREIGN
from image_folders import folder, picture
from sources import DATA, VOC, YOLO, cifar, idx
from token_samples import datatrove, megatron

from unirecord import UniRecordDataset
from unirecord.cli import main
from unirecord.cli.write import write_command
from unirecord.convert.sources import SOURCES

PAGE = (Path(__file__).parents[2] / "docs" / "converting.md").read_text(encoding="utf-8")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("id,name\n1,ann\n2,bob\n")
    Path("people.csv.gz").write_bytes(gzip.compress(b"id,name\n1,ann\n2,bob\n"))
    Path("log.jsonl").write_text('{"a": 1}\n{"a": 2}\n')
    Path("logs").mkdir()
    for i in range(2):
        Path(f"logs/{i}.jsonl.gz").write_bytes(gzip.compress(b'{"a": 1}\n'))
    Path("old.csv").write_text("text,label\nold,1\n")
    Path("new.jsonl").write_text('{"text": "new", "label": 2}\n')
    for i in range(10):
        pa.parquet.write_table(pa.table({"text": ["part"], "label": [i]}), f"parts-{i:03}.parquet")
    Path("lines.txt").write_text("one\ntwo\n")
    folder(tmp_path / "blobs", {"a.bin": b"\0", "b.dat": b""})
    small = picture(2, 2)
    folder(tmp_path / "pictures", {"1.png": small, "2.png": small})
    folder(tmp_path / "imagenet", {"train/cat/1.png": small, "val/cat/2.png": small})
    Path("labels.csv").write_text("file,score\n1,0.5\n2,1\n")
    folder(tmp_path / "val2017", {"1.png": small})
    Path("annotations").mkdir()
    Path("annotations/instances_val2017.json").write_text(
        json.dumps({"images": [{"id": 1, "file_name": "1.png"}]})
    )
    Path("parts").mkdir()
    for i in range(2):
        pa.parquet.write_table(pa.table({"id": [i], "name": ["x"], "more": [1.5]}), f"parts/{i}.parquet")
    datasets.Dataset.from_dict({"a": [1, 2]}).save_to_disk("saved")
    shutil.copy(DATA / "mindrecord" / "digits.mindrecord", "digits.mindrecord")
    shutil.copytree(DATA / "tfrecord", "records")
    shutil.copytree(DATA / "webdataset", "shards")
    shutil.copytree(FOREIGN / "mds" / "zstd", "mds")
    shutil.copytree(FOREIGN / "litdata" / "zstd", "optimized")
    folder(tmp_path / "VOC2012", {name: data for name, data in VOC.items() if "77" not in name})
    folder(tmp_path / "yolo", YOLO)
    Path("photos.beton").write_bytes(gzip.decompress((FOREIGN / "ffcv" / "sample.beton.gz").read_bytes()))
    shutil.copytree(FOREIGN / "arrayrecord", "tfds")
    shutil.copy(FOREIGN / "bagz" / "x.bagz", "examples.bagz")
    shutil.copytree(FOREIGN / "lance" / "x.lance", "x.lance")
    shutil.copytree(FOREIGN / "zarr" / "v3.zarr", "arrays.zarr")
    lerobot_samples.dataset(tmp_path / "pusht", "v3.0", camera=True)
    megatron(tmp_path / "my_text_document", [[1, 2], [3]])
    Path("tokenised").mkdir()
    datatrove(tmp_path / "tokenised" / "00000_tokens.ds", [[1, 2], [3]])
    np.arange(9, dtype=np.uint16).tofile("tokens.bin")
    np.savez("arrays.npz", x=np.zeros((3, 2)), y=np.arange(3))
    for name, array in (
        ("images-idx3", np.zeros((3, 2, 2), np.uint8)),
        ("labels-idx1", np.arange(3, dtype=np.uint8)),
    ):
        folder(tmp_path / "mnist", {f"train-{name}-ubyte": idx(array, 8)})
    cifar(tmp_path / "cifar")
    with h5py.File("data.h5", "w") as file:
        file["group/score"] = np.arange(3)
    with lmdb.open("db") as env, env.begin(write=True) as transaction:
        transaction.put(b"1", b"value")
    Path("mymodule.py").write_text("def rows():\n    yield from ({'i': i} for i in range(3))\n")
    return tmp_path


def test_the_commands_run(here: Path) -> None:
    commands = re.findall(r"^unirecord (write .*)$", PAGE, flags=re.M)
    assert len(commands) >= len(SOURCES)
    if importlib.util.find_spec("lance") is None:  # too large for every run
        commands = [command for command in commands if ".lance" not in command]
    read = set()
    for command in commands:
        words = shlex.split(command)
        assert main(words) == 0, command
        target = Path(write_command.parser("write").parse_args(words[1:]).target)
        for made in sorted(target.iterdir()) if "--split" in command else [target]:
            with UniRecordDataset(made) as ds:
                assert ds.schema.names
                assert len(ds) > 0 or "--split" in command, command
        read.add(words[1])
    assert len(read) >= len(SOURCES) - 1
    with UniRecordDataset("train") as ds, UniRecordDataset("digits") as digits:
        assert len(ds) == 200
        assert digits.view(where="label == 3")[0]["file_name"] == "0003.png"


def test_the_code_runs(here: Path) -> None:
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.S):
        exec(compile(block, "docs/converting.md", "exec"), names)
    with UniRecordDataset("squares.urec") as ds, UniRecordDataset("decoded") as decoded:
        assert ds[9]["square"] == 81
        assert decoded[0] == {"id": 1, "length": 5}


@pytest.mark.parametrize(
    "page",
    sorted((Path(__file__).parents[2] / "docs" / "coming-from").glob("*.md")),
    ids=lambda page: page.stem,
)
def test_the_commands_for_who_comes_from_elsewhere_run(here: Path, page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for command in re.findall(r"^unirecord (write .*)$", text, flags=re.M):
        if (
            ".lance" not in command or importlib.util.find_spec("lance") is not None
        ):  # too large for every run
            assert main(shlex.split(command)) == 0
    assert len(re.findall(r"^\| .* \| .* \|$", text, flags=re.M)) > 7


def test_every_source_is_in_the_table() -> None:
    for source in SOURCES:
        row = re.search(rf"^\| `{source.kind}` \|.*", PAGE, flags=re.M)
        assert row, source.kind


def test_a_module_that_is_missing_is_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, said in (("nothing_here:rows", "no module 'nothing_here'"), ("mymodule:cols", "has no 'cols'")):
        assert main(["write", name, "x.urec"]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("map", "transform="), ("filter", "where="), ("train_test_split", r"ds.split\("), ("features", "ds.schema"),
        ("create_dict_iterator", "iterate over ds"), ("nonsense", "'nonsense'$"), ("_repr_latex_", "'_repr_latex_'$"),
    ],
)  # fmt: skip
def test_a_method_known_from_elsewhere_names_ours(here: Path, name: str, said: str) -> None:
    assert main(["write", "people.csv", "p.urec"]) == 0
    with UniRecordDataset("p.urec") as ds, pytest.raises(AttributeError, match=said):
        getattr(ds, name)


def test_a_method_of_another_writer_names_ours(here: Path) -> None:
    import unirecord
    from unirecord import Writer
    from unirecord.migration_hints import OF_DATASETS, OF_PACKAGES, OF_WRITERS

    with Writer("w.urec", {"a": "int8"}) as writer:
        for name, said in OF_WRITERS.items():
            with pytest.raises(AttributeError, match=re.escape(said)):
                getattr(writer, name)
    for kind, known in ((UniRecordDataset, OF_DATASETS), (Writer, OF_WRITERS)):
        assert [name for name in known if hasattr(kind, name)] == []
    with UniRecordDataset("w.urec") as ds:
        for name, said in OF_DATASETS.items():
            with pytest.raises(AttributeError, match=re.escape(said)):
                getattr(ds, name)
    modules = {
        path.stem for path in Path(unirecord.__file__).parent.iterdir()
    }  # have these names once imported
    for name, said in OF_PACKAGES.items():
        assert name not in modules
        with pytest.raises(AttributeError, match=re.escape(said)):
            getattr(unirecord, name)
