"""Makes the sample files of tests/data/foreign, each with the library of its format: `foreign_samples.py mds`.

Beside the files lies what the library reads from them, in expected.json: bytes as hexadecimal text, arrays as lists.
The packages are named at each function; mosaicml-streaming was 0.13.0, litdata 0.2.76, ffcv 1.0.2, array_record 0.8.6,
bagz 0.3.8, pylance 14.0.2, zarr 3.1.6.
"""

from __future__ import annotations

import gzip
import io
import json
import shutil
import sys
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

FOREIGN = Path(__file__).parents[1] / "data" / "foreign"


def plain(value: Any) -> Any:
    """A value as JSON holds it."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    if hasattr(value, "filename"):  # a PIL picture that was opened
        return bytes(value.fp.getvalue()).hex()
    if hasattr(value, "getbands"):
        return np.asarray(value).tolist()
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    return str(value) if isinstance(value, Decimal) else value


def expect(folder: Path, rows: Iterable[Any]) -> None:
    """Write what a library read."""
    text = ",\n".join(json.dumps(plain(row)) for row in rows)
    (folder / "expected.json").write_text(f"[\n{text}\n]\n", encoding="utf-8")


def picture(i: int) -> Any:
    """A small picture."""
    from PIL import Image

    y, x = np.mgrid[0:8, 0:12]
    return Image.fromarray(np.stack([x * 20, y * 30, x * 0 + i * 9], axis=2).astype(np.uint8))


def jpeg(i: int) -> bytes:
    """The picture as a file."""
    out = io.BytesIO()
    picture(i).save(out, "JPEG")
    return out.getvalue()


def sample(i: int) -> dict[str, Any]:
    """Values of every kind; i counts from 0."""
    return {
        "id": (-1) ** i * 3**i, "text": "é" * i, "raw": bytes(range(i)), "score": i / 3,
        "grid": np.arange(6, dtype=np.float32).reshape(2, 3) * i, "tokens": np.arange(i + 1, dtype=np.int64) - 3,
    }  # fmt: skip


def mds(folder: Path) -> None:
    """mosaicml-streaming: every encoding, in four ways of packing, and an index with sums."""
    from streaming import LocalDataset, MDSWriter

    columns = {
        "id": "int", "text": "str", "raw": "bytes", "score": "float64", "grid": "ndarray:float32:2,3",
        "tokens": "ndarray:int64", "any": "ndarray", "u8": "uint8", "i16": "int16", "f16": "float16",
        "big": "str_int", "real": "str_float", "money": "str_decimal", "shown": "pil", "photo": "jpeg", "icon": "png",
        "meta": "json", "photos": "list[jpeg]",
    }  # fmt: skip
    for name, packing in (
        ("plain", None),
        ("zstd", "zstd"),
        ("gz", "gz"),
        ("br", "br"),
        ("snappy", "snappy"),
    ):
        where = folder / name
        with MDSWriter(
            out=str(where), columns=columns, compression=packing, hashes=["sha1"], size_limit=12_000
        ) as out:
            for i in range(12):
                row = sample(i)
                row |= {
                    "any": row["tokens"].astype(np.uint16).reshape(-1, 1), "u8": np.uint8(i), "i16": np.int16(-i),
                    "f16": np.float16(i / 7), "big": 7**i, "real": i / 7, "money": Decimal(i) / 4,
                    "shown": picture(i), "photo": picture(i), "icon": picture(i),
                    "meta": {"a": [i, None, "x"]}, "photos": [picture(k) for k in range(i % 3)],
                }  # fmt: skip
                out.write(row)
    expect(folder, LocalDataset(local=str(folder / "plain")))


def ffcv(folder: Path) -> None:
    """ffcv: each field type; pictures as JPEG, as pixels, and as either."""
    import torch
    from ffcv.fields import (
        BytesField,
        FloatField,
        IntField,
        JSONField,
        NDArrayField,
        RGBImageField,
        TorchTensorField,
    )
    from ffcv.writer import DatasetWriter

    fields = {
        "id": IntField(), "score": FloatField(), "raw": BytesField(), "meta": JSONField(),
        "grid": NDArrayField(np.dtype("float32"), (2, 3)), "tensor": TorchTensorField(torch.int16, (3,)),
        "photo": RGBImageField("jpg"), "pixels": RGBImageField("raw"), "either": RGBImageField("smart", None, 100),
    }  # fmt: skip
    rows = []
    for i in range(12):
        row = sample(i)
        pixels = np.asarray(picture(i))
        rows.append({
            "id": row["id"], "score": row["score"], "raw": np.frombuffer(row["raw"] + b"x", np.uint8),
            "meta": {"text": row["text"], "n": [i, None]}, "grid": row["grid"],
            "tensor": torch.tensor([i, -i, 300], dtype=torch.int16), "photo": pixels, "pixels": pixels,
            "either": pixels if i % 2 else pixels[:4, :4],
        })  # fmt: skip
    given = [tuple(row.values()) for row in rows]
    np.random.seed(0)
    path = folder / "sample.beton"
    DatasetWriter(str(path), fields, page_size=1 << 21, num_workers=1).from_indexed_dataset(given)
    (folder / "sample.beton.gz").write_bytes(
        gzip.compress(path.read_bytes(), mtime=0)
    )  # a page is 2 MB at least
    path.unlink()
    expect(folder, rows)


def litdata(folder: Path) -> None:
    """litdata, torch: dicts with every kind of leaf; as they are and compressed; tuples; tokens without headers."""
    import torch
    from litdata.streaming.item_loader import TokensLoader
    from litdata.streaming.reader import BinaryReader
    from litdata.streaming.sampler import ChunkedIndex
    from litdata.streaming.writer import BinaryWriter

    def item(i: int) -> dict[str, Any]:
        row = sample(i)
        return {
            "id": row["id"], "text": row["text"], "raw": row["raw"], "score": row["score"], "odd": bool(i % 2),
            "grid": row["grid"], "tokens": row["tokens"], "tensor": torch.from_numpy(row["grid"] + 1),
            "line": torch.arange(i + 1, dtype=torch.int32), "shown": picture(i), "inner": {"a": i, "b": [i / 2, "x"]},
        }  # fmt: skip

    for name, packing in (("plain", None), ("zstd", "zstd")):
        (folder / name).mkdir()
        writer = BinaryWriter(str(folder / name), chunk_size=5, compression=packing)
        for i in range(12):
            writer[i] = item(i)
        writer.done()
        writer.merge(1)
    (folder / "tuples").mkdir()
    writer = BinaryWriter(str(folder / "tuples"), chunk_size=5)
    for i in range(3):
        writer[i] = (i, f"x{i}")
    writer.done()
    writer.merge(1)
    (folder / "tokens").mkdir()
    writer = BinaryWriter(str(folder / "tokens"), chunk_size=20, item_loader=TokensLoader(block_size=4))
    for i in range(10):
        writer[i] = torch.arange(i, i + 4, dtype=torch.int32)
    writer.done()
    writer.merge(1)
    reader = BinaryReader(str(folder / "plain"), max_cache_size=1 << 30)
    expect(folder, [reader.read(ChunkedIndex(*reader._get_chunk_index_from_index(i))) for i in range(12)])


def example(i: int) -> bytes:
    """A tf.train.Example (tensorflow) of some of the values."""
    import tensorflow as tf

    row = sample(i)
    features = {
        "id": tf.train.Feature(int64_list=tf.train.Int64List(value=[row["id"]])),
        "text": tf.train.Feature(bytes_list=tf.train.BytesList(value=[row["text"].encode()])),
        "tokens": tf.train.Feature(int64_list=tf.train.Int64List(value=row["tokens"])),
    }
    return bytes(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def arrayrecord(folder: Path) -> None:
    """array_record and tensorflow: Examples in two files, and plain bytes in one."""
    from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter

    for name, records in (
        ("x-train.array_record-00000-of-00002", [example(i) for i in range(7)]),
        ("x-train.array_record-00001-of-00002", [example(i) for i in range(7, 12)]),
        ("raw.arrayrecord", [sample(i)["raw"] for i in range(12)]),
    ):
        writer = ArrayRecordWriter(str(folder / name), "group_size:2")
        for record in records:
            writer.write(record)
        writer.close()
        assert ArrayRecordReader(str(folder / name), "").read_all() == records
    expect(folder, [{name: sample(i)[name] for name in ("id", "text", "tokens")} for i in range(12)])


def bagz(folder: Path) -> None:
    """bagz and tensorflow: Examples compressed, plain bytes not."""
    import bagz as library

    for name, records in (
        ("x.bagz", [example(i) for i in range(12)]),
        ("raw.bag", [sample(i)["raw"] for i in range(12)]),
    ):
        with library.Writer(str(folder / name)) as writer:
            for record in records:
                writer.write(record)
        assert list(library.Reader(str(folder / name))) == records


def lance(folder: Path) -> None:
    """pylance and pyarrow: two fragments and a deleted row."""
    import lance as library
    import pyarrow as pa

    rows = [sample(i) for i in range(12)]
    table = pa.table({
        "id": [row["id"] for row in rows], "text": [row["text"] or None for row in rows],
        "raw": [row["raw"] for row in rows], "score": pa.array([row["score"] for row in rows], pa.float32()),
        "grid": pa.array([row["grid"].ravel() for row in rows], pa.list_(pa.float32(), 6)),
        "tokens": [row["tokens"] for row in rows],
    })  # fmt: skip
    library.write_dataset(table.slice(0, 7), folder / "x.lance")
    dataset = library.write_dataset(table.slice(7), folder / "x.lance", mode="append")
    dataset.delete("id = 9")
    expect(folder, library.dataset(folder / "x.lance").to_table().to_pylist())


def zarr(folder: Path) -> None:
    """zarr: a group in each of the formats 2 and 3."""
    import zarr as library

    rows = [sample(i) for i in range(12)]
    for version in (2, 3):
        group = library.open_group(str(folder / f"v{version}.zarr"), mode="w", zarr_format=version)
        group.create_array("id", data=np.array([row["id"] for row in rows]), chunks=(5,))
        group.create_array("inner/grid", data=np.stack([row["grid"] for row in rows]), chunks=(4, 2, 2))
        group.create_array("name", data=np.array([row["text"] for row in rows], "U12"), chunks=(12,))
        group.create_array("once", data=np.array(3.5))
    names = {"id": "id", "inner/grid": "grid", "name": "text"}
    expect(folder, [{name: row[key] for name, key in names.items()} for row in rows])


MAKERS: dict[str, Callable[[Path], None]] = {
    "mds": mds, "litdata": litdata, "ffcv": ffcv, "arrayrecord": arrayrecord, "bagz": bagz, "lance": lance,
    "zarr": zarr,
}  # fmt: skip

if __name__ == "__main__":
    for kind in sys.argv[1:]:
        target = FOREIGN / kind
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        MAKERS[kind](target)
