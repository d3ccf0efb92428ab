"""Every way out gives of compressed columns, with dictionaries of two parts, what it gives of the same rows plain."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import reference_directory
from conformance.canonical import freeze
from PIL import Image

import unirecord
from unirecord import UniRecordDataset, Writer
from unirecord.cli import main

ROWS = 600  # of each part: enough for dictionaries
SCHEMA: dict[str, Any] = {
    "n": "int32",
    "text": "text?",
    "doc": "object",
    "raw": "bytes",
    "field": {"type": "float32", "shape": [6]},
    "points": {"type": "int64", "shape": [-1, 2]},
}
CODECS = {"text": "zstd", "doc": "zstd:9", "raw": "zstd", "field": "shuffle+zstd", "points": "shuffle+zstd"}
COMPRESSED = {
    name: {**({"type": spec} if isinstance(spec, str) else spec), "codec": CODECS[name]}
    if name in CODECS
    else spec
    for name, spec in SCHEMA.items()
}


def record(i: int) -> dict[str, Any]:
    r = random.Random(i)
    words = " ".join(
        r.choices(["river", "stone", "über", "light", "paper", f"part{i // ROWS}"], k=r.randint(0, 40))
    )
    return {
        "n": i,
        "text": None if i % 11 == 3 else words,
        "doc": {"user": i, "tags": words.split()[:5]},
        "raw": (words.encode() * 2)[: i % 200],
        "field": np.arange(i, i + 6, dtype=np.float32),
        "points": np.arange(2 * (i % 4), dtype=np.int64).reshape(-1, 2),
    }


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The rows compressed, and the same rows plain: directories of two parts."""
    folder = tmp_path_factory.mktemp("ways")
    for name, schema in (("compressed", COMPRESSED), ("plain", SCHEMA)):
        for part in range(2):
            writer = unirecord.append(folder / name) if part else unirecord.Writer(folder / name, schema)
            with writer:
                for i in range(part * ROWS, (part + 1) * ROWS):
                    writer.write(record(i))
    first, second = reference_directory.read_directory(folder / "compressed")
    assert first.dictionaries
    assert second.dictionaries.keys() == first.dictionaries.keys()
    assert second.dictionaries != first.dictionaries
    return folder / "compressed", folder / "plain"


def plainly(batch: Any) -> Any:
    return {name: [freeze(value) for value in batch[name]] for name in batch}


def ragged(ds: UniRecordDataset) -> Any:
    for batch in ds.batches(100):
        for name in ("text", "raw", "points"):
            values = batch[name]
            valid = None if values.valid is None else values.valid.tolist()
            yield bytes(values.data), values.offsets.tolist(), valid


def torch_loader(ds: UniRecordDataset) -> Any:
    import unirecord.torch

    for batch in unirecord.torch.loader(ds, 64):
        yield (
            batch["field"].tolist(),
            batch["n"].tolist(),
            plainly({"text": batch["text"], "doc": batch["doc"]}),
        )


def stock_loader(ds: UniRecordDataset) -> Any:
    from torch.utils.data import DataLoader

    for samples in DataLoader(ds, batch_size=64, collate_fn=list):  # type: ignore[arg-type]
        yield list(map(freeze, samples))


def tensorflow(ds: UniRecordDataset) -> Any:
    for batch in unirecord.tf.dataset(ds.view(columns=["n", "text", "raw", "field", "points"]), 200):
        for name in ("text", "raw", "field"):
            yield batch[name].numpy().tolist()
        yield batch["points"].to_list()


WAYS: dict[str, Callable[[UniRecordDataset], Any]] = {
    "ds[i]": lambda ds: [freeze(ds[i]) for i in range(0, len(ds), 17)],
    "__getitems__": lambda ds: [freeze(dict(s)) for s in ds.__getitems__([1100, 3, 700, 3])],
    "iteration": lambda ds: [freeze(sample) for sample in ds],
    "batches": lambda ds: [plainly(batch) for batch in ds.batches(50, num_threads=2)],
    "ragged arrays": lambda ds: list(ragged(ds)),
    "read_rows": lambda ds: plainly(ds.read_rows(ds.order.row_ids(500, 700))),
    "transform": lambda ds: [b.tolist() for b in ds.batches(64, transform=lambda s: np.int64(len(s["raw"])))],
    "batch_transform": lambda ds: list(ds.batches(64, batch_transform=lambda b: bytes(b["raw"].data))),
    "collate_fn": lambda ds: list(ds.batches(64, collate_fn=lambda samples: [s["text"] for s in samples])),
    "pipeline": lambda ds: [plainly(batch) for batch in ds.pipeline().batch(64)],
    "to_batches": lambda ds: ds.to_batches(["n", "text", "raw", "field", "points"]).read_all().to_pydict(),
    "to_arrow": lambda ds: ds.to_arrow(["text", "raw", "points"]).to_pydict(),
    "to_pandas": lambda ds: ds.to_pandas(["n", "text"]).to_csv(),
    "torch.loader": lambda ds: list(torch_loader(ds)),
    "DataLoader": lambda ds: list(stock_loader(ds)),
    "tf.dataset": lambda ds: list(tensorflow(ds)),
}


@pytest.mark.parametrize("way", WAYS)
def test_compressed_rows_come_out_as_plain_ones_do(both: tuple[Path, Path], way: str) -> None:
    found, expected = (WAYS[way](UniRecordDataset(path, shuffle=True, seed=3)) for path in both)
    assert found == expected
    assert found


@pytest.mark.parametrize("ending", ["jsonl", "parquet", "tfrecord", "tar"])
def test_exports_are_the_same_bytes(both: tuple[Path, Path], tmp_path: Path, ending: str) -> None:
    made = []
    for name, path in zip("ab", both, strict=True):
        columns = ["n", "text", "raw", "field"]
        target = tmp_path / f"{name}.{ending}"
        unirecord.export(path, target, columns=columns, where="n < 650 and n > 560 and text is not null")
        made.append(target.read_bytes())
    assert made[0] == made[1]
    assert len(made[0]) > 1_000


def test_blobs_are_extracted_as_they_were_given(both: tuple[Path, Path], tmp_path: Path) -> None:
    for name, path in zip("ab", both, strict=True):
        out = str(tmp_path / name)
        assert (
            main(["inspect", str(path), "--where", "n >= 595 and n < 605", "--extract", "raw", "--out", out])
            == 0
        )
    files = [{file.name: file.read_bytes() for file in (tmp_path / name).iterdir()} for name in "ab"]
    assert files[0] == files[1]
    assert sorted(files[0].values()) == sorted(record(i)["raw"] for i in range(595, 605))


def test_corrupt_rows_are_left_out_alone(both: tuple[Path, Path], tmp_path: Path) -> None:
    """A bit of a frame: the digest unit that it lies in is left out, and all other rows are right."""
    shutil.copytree(both[0], tmp_path / "set")
    file = sorted((tmp_path / "set").glob("*.urec"))[1]
    content = bytearray(file.read_bytes())
    content[len(content) * 2 // 3] ^= 1
    file.write_bytes(content)
    with UniRecordDataset(tmp_path / "set", on_corrupt="skip") as ds:
        found = list(ds)
        by_batches = [n for batch in ds.batches(64) for n in batch["n"].tolist()]
    numbers = [int(sample["n"]) for sample in found]
    assert 2 * ROWS - 200 <= len(numbers) < 2 * ROWS
    assert by_batches == numbers
    assert all(freeze(s["text"]) == record(n)["text"] for s, n in zip(found, numbers, strict=True))


def test_auto_compresses_what_gains_and_leaves_pictures_and_noise(tmp_path: Path, capsys: Any) -> None:
    r = random.Random(0)
    source = tmp_path / "in.parquet"

    def picture(kind: str) -> bytes:
        out = BytesIO()
        Image.frombytes("RGB", (16, 16), bytes(768)).save(out, kind)
        return out.getvalue() + bytes(400)  # which would save much more than a tenth

    columns = {
        "jpeg": [picture("JPEG")] * 60,
        "png": [picture("PNG")] * 60,
        "noise": [r.randbytes(300) for _ in range(60)],
        "little": [r.randbytes(1_000) + bytes(60) for _ in range(60)],  # saves 5 %
        "words": [record(i)["raw"] * 3 for i in range(100, 160)],
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), source)
    path = str(tmp_path / "a.urec")
    assert main(["write", str(source), path, "--codec", "auto"]) == 0
    said = capsys.readouterr()
    with UniRecordDataset(path) as ds:
        assert {name: ds.schema[name].codec is not None for name in columns} == {
            name: name == "words" for name in columns
        }
        assert [bytes(s["words"]) for s in ds] == columns["words"]
    assert "compressed already" in said.out + said.err


def test_a_codec_that_nothing_takes_is_refused(tmp_path: Path, capsys: Any) -> None:
    plain, other = tmp_path / "plain.jsonl", tmp_path / "other.urec"
    plain.write_text('{"a": "x"}\n')
    with Writer(other, {"a, b=c": "text", "n": "int32"}) as writer:
        writer.write({"a, b=c": "x", "n": 1})
    for source, codec, said in (
        (plain, "zstd", "which alone are compressed"),
        (plain, "", "which alone are compressed"),
        (plain, "a=zstd", "'a' is no blob column"),
        (other, "n=zstd", "can be compressed are a, b=c"),
        (other, "`a, b=c`=zstd,`a, b=c`=zstd:3", "named twice"),
        (other, "`a, b=c`=", "COLUMN=CODEC"),
    ):
        assert main(["write", str(source), str(tmp_path / "x.urec"), "--codec", codec]) == 2
        assert said in capsys.readouterr().err
    assert main(["write", str(plain), str(tmp_path / "plain.urec"), "--codec", "auto"]) == 0
    assert main(["write", str(other), str(tmp_path / "x.urec"), "--codec", "`a, b=c`=zstd"]) == 0
    with UniRecordDataset(tmp_path / "x.urec") as ds:
        assert str(ds.schema["a, b=c"].codec) != "None"
    with Writer(tmp_path / "x", {"a, b": "int32", "c": "int32"}) as writer:
        writer.write({"a, b": 1, "c": 2})
    assert main(["rename-columns", str(tmp_path / "x"), "`a, b`=a, c=`c=d`"]) == 0
    assert UniRecordDataset(tmp_path / "x").column_names == ("a", "c=d")
