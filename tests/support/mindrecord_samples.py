"""Makes tests/data/mindrecord/converted with the converters of MindSpore 2.10.0: `mindrecord_samples.py` in a folder.

What they convert is made here too, the same each time, so that a test can convert it itself. Headers and pages are as
small as MindSpore lets them be; files are packed, since their unused pages are zeros. TensorFlow was 2.21.
"""

from __future__ import annotations

import gzip
import json
import shutil
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np

CONVERTED = Path(__file__).parents[1] / "data" / "mindrecord" / "converted"
CSV = "id,price,name,sold,note\n" + "".join(
    f"{(i << 40) - i},{i / 7!r},name {i},{'True' if i % 3 else 'False'},{chr(0x4E00 + i)}\n"
    for i in range(12)
)
SYNSETS = {"n01440764": 0, "n01443537": 1, "n10484850": 2}
TYPES = (
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64",
)  # fmt: skip


def bmp(value: int) -> bytes:
    """A picture of 2 × 2 pixels of one colour, as a file, without a library."""
    row = bytes([value, 255 - value, 7]) * 2 + b"\0\0"
    return (
        struct.pack("<2sIHHIIiiHHIIiiII", b"BM", 70, 0, 0, 54, 40, 2, 2, 1, 24, 0, 16, 0, 0, 0, 0) + row * 2
    )


def digits(part: str) -> tuple[Any, Any]:
    """Pictures of 28 × 28 pixels, each of one grey, which JPEG keeps, and their labels."""
    count = {"train": 7, "t10k": 4}[part]
    labels = np.arange(count, dtype=np.uint8)[::-1]
    return np.repeat(labels * 30, 28 * 28).reshape(count, 28, 28), labels


def colours(part: str) -> tuple[Any, Any]:
    """Pictures of 32 × 32 pixels as CIFAR has them, [rows, 3072], each of one grey, and their labels."""
    count = 5 if part == "train" else 3
    return np.repeat((np.arange(count) * 40 + 10).astype(np.uint8), 3072).reshape(count, 3072), [
        *range(count)
    ]


def python2_pickle(content: dict[bytes, Any]) -> bytes:
    """A dict of strings to lists of small integers or to pictures, as Python 2 pickled the files of CIFAR."""

    def one(value: Any) -> bytes:
        if isinstance(value, bytes):
            return b"U" + bytes([len(value)]) + value
        if isinstance(value, list):
            return b"](" + b"".join(b"K" + bytes([number]) for number in value) + b"e"
        empty = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85U\x01b\x87R"
        dtype = b"cnumpy\ndtype\nU\x02u1K\0K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb"
        shape = struct.pack("<cBcHc", b"K", value.shape[0], b"M", value.shape[1], b"\x86")
        data = b"T" + struct.pack("<I", value.nbytes) + value.tobytes()
        return empty + b"(K\x01" + shape + dtype + b"\x89" + data + b"tb"

    return b"\x80\x02}(" + b"".join(one(key) + one(value) for key, value in content.items()) + b"u."


def edges(name: str) -> tuple[Any, Any]:
    """Two scalars and an array of two values, of one of `TYPES`."""
    dtype = np.dtype(name)
    if dtype.kind == "b":
        return np.array([True, False]), np.array([[True, False], [False, True]])
    ends = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    high = min(int(ends.max), (1 << 63) - 1) if dtype.kind in "iu" else ends.max
    return np.array([ends.min, high], dtype), np.array([[ends.min, 0], [1, high]], dtype)


def write_sources(folder: Path) -> None:
    """Make what the converters read."""
    (folder / "sold.csv").write_text(CSV, encoding="utf-8")
    (folder / "mnist").mkdir()
    (folder / "cifar10").mkdir()
    (folder / "cifar100").mkdir()
    for part in ("train", "t10k"):
        for kind, array in zip(("images-idx3", "labels-idx1"), digits(part), strict=True):
            head = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
            (folder / "mnist" / f"{part}-{kind}-ubyte.gz").write_bytes(
                gzip.compress(head + array.tobytes(), mtime=0)
            )
    for part, ten, hundred in (("train", "data_batch_1", "train"), ("test", "test_batch", "test")):
        data, labels = colours(part)
        (folder / "cifar10" / ten).write_bytes(python2_pickle({b"data": data, b"labels": labels}))
        both = {b"data": data, b"fine_labels": labels, b"coarse_labels": [9 - one for one in labels]}
        (folder / "cifar100" / hundred).write_bytes(python2_pickle(both))
    (folder / "map.txt").write_text("".join(f"{name} {label}\n" for name, label in SYNSETS.items()))
    for name, label in SYNSETS.items():
        (folder / "imagenet" / name).mkdir(parents=True)
        for i in range(label + 1):
            (folder / "imagenet" / name / f"{i}.jpg").write_bytes(bmp(label * 50 + i))


def small_writer() -> Any:
    """MindSpore's FileWriter, which makes the smallest headers and pages whatever it is asked for."""
    from mindspore.mindrecord import FileWriter

    class Small(FileWriter):  # type: ignore[misc]
        def set_header_size(self, header_size: int) -> Any:
            return super().set_header_size(1 << 14)

        def set_page_size(self, page_size: int) -> Any:
            return super().set_page_size(1 << 15)

        def add_schema(self, content: Any, desc: Any = None) -> Any:
            self.set_header_size(0)
            self.set_page_size(0)
            return super().add_schema(content, desc)

    return Small


def convert(out: Path) -> None:
    """Run every converter in the folder of the sources."""
    import mindspore.dataset as dataset
    import mindspore.mindrecord as record
    import tensorflow as tf
    from mindspore.mindrecord.tools import (
        cifar10_to_mr,
        cifar100_to_mr,
        csv_to_mr,
        imagenet_to_mr,
        mnist_to_mr,
        tfrecord_to_mr,
    )

    for module in (cifar10_to_mr, cifar100_to_mr, csv_to_mr, imagenet_to_mr, mnist_to_mr, tfrecord_to_mr):
        module.FileWriter = small_writer()
    record.CsvToMR("sold.csv", str(out / "csv.mindrecord")).transform()
    record.CsvToMR("sold.csv", str(out / "csv-columns.mindrecord"), ["name", "id"]).transform()
    record.CsvToMR("sold.csv", str(out / "csv4.mindrecord"), None, 4).transform()
    record.MnistToMR("mnist", str(out / "mnist")).transform()
    record.MnistToMR("mnist", str(out / "mnist2"), 2).transform()
    record.ImageNetToMR("map.txt", "imagenet", str(out / "imagenet.mindrecord")).transform()
    record.Cifar10ToMR("cifar10", str(out / "cifar10.mindrecord")).transform()
    record.Cifar10ToMR("cifar10", str(out / "cifar10-index.mindrecord")).transform(["label"])
    record.Cifar100ToMR("cifar100", str(out / "cifar100.mindrecord")).transform(
        ["fine_label", "coarse_label"]
    )
    feature = tf.io.FixedLenFeature
    with tf.io.TFRecordWriter(str(out / "x.tfrecord")) as writer:
        for i in range(6):
            of = {
                "file/name": tf.train.Feature(bytes_list=tf.train.BytesList(value=[f"{i}.jpg".encode()])),
                "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"\xff\xd8" + bytes([i])])),
                "one": tf.train.Feature(int64_list=tf.train.Int64List(value=[(1 << 40) - i])),
                "real": tf.train.Feature(float_list=tf.train.FloatList(value=[i / 3])),
                "list": tf.train.Feature(int64_list=tf.train.Int64List(value=[i, -i, 1 << 62])),
                "reals": tf.train.Feature(float_list=tf.train.FloatList(value=[i / 7, -0.0])),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=of)).SerializeToString())
    features = {
        "file/name": feature([], tf.string), "image": feature([], tf.string), "one": feature([], tf.int64),
        "real": feature([], tf.float32), "list": feature([3], tf.int64), "reals": feature([2], tf.float32),
    }  # fmt: skip
    record.TFRecordToMR(
        str(out / "x.tfrecord"), str(out / "tfrecord.mindrecord"), features, ["image"]
    ).transform()
    columns = {
        f"{name}_{kind}": value for name in TYPES for kind, value in zip("sa", edges(name), strict=True)
    }
    columns["text"] = np.array(["", "é"])
    rows = [tuple(np.asarray(value[i]) for value in columns.values()) for i in range(2)]
    saved = dataset.GeneratorDataset(lambda: iter(rows), list(columns), shuffle=False)
    saved.save(str(out / "saved.mindrecord"))


def written(out: Path) -> None:
    """What no converter writes: no rows at all, scalars alone, arrays alone, and an encrypted file."""
    import mindspore.mindrecord as record

    for name, schema, rows in (
        ("empty", {"a": {"type": "int32"}, "b": {"type": "bytes"}}, []),
        ("scalars", {"a": {"type": "int32"}, "b": {"type": "string"}}, [{"a": i, "b": f"{i}"} for i in range(9)]),
        ("arrays", {"x": {"type": "float32", "shape": [-1, 2]}, "y": {"type": "int64", "shape": [2]}},
         [{"x": np.full((i + 1, 2), i, np.float32), "y": np.array([i, -i])} for i in range(5)]),
        ("encrypted", {"a": {"type": "int32"}}, [{"a": i} for i in range(9)]),
    ):  # fmt: skip
        record.set_enc_key("0123456789abcdef" if name == "encrypted" else None)
        writer = small_writer()(str(out / f"{name}.mindrecord"))
        writer.add_schema(schema, name)
        if rows:
            writer.write_raw_data(rows)
        writer.commit()
    record.set_enc_key(None)


def expected(out: Path) -> dict[str, Any]:
    """What MindSpore reads from each set, in its order: bytes as hexadecimal text, arrays as lists."""
    from mindspore.mindrecord import FileReader

    found = {}
    for file in sorted(out.glob("*mindrecord*")):
        if file.name.endswith((".db", "1", "2", "3")) or file.name.startswith(("empty", "encrypted")):
            continue
        found[file.name] = [
            {
                name: value.hex() if isinstance(value, bytes) else np.asarray(value).tolist()
                for name, value in row.items()
            }
            for row in FileReader(str(file)).get_next()
        ]
    return found


if __name__ == "__main__":
    work = Path(sys.argv[1])
    write_sources(work)
    made = work / "made"
    made.mkdir()
    convert(made)
    written(made)
    shutil.rmtree(CONVERTED, ignore_errors=True)
    CONVERTED.mkdir(parents=True)
    (CONVERTED / "expected.json").write_text(json.dumps(expected(made), sort_keys=True) + "\n")
    for file in sorted(made.iterdir()):
        if not file.name.endswith(".db"):
            (CONVERTED / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes(), 9, mtime=0))
