"""A random row of a peer in its own compressed setting: `compressed_peer.py PEER FOLDER SECONDS`, where it is."""

from __future__ import annotations

import importlib
import itertools
import os
import shutil
import sys
import time
import types
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import answer
import numpy as np

Row = Callable[[int], Any]
UNPACKED = ("mosaicml", "litdata")  # whose shards are unpacked by the first row that is read of one


def rows_of(folder: Path) -> list[bytes]:
    data, offsets = (folder / "data.bin").read_bytes(), np.fromfile(folder / "offsets.bin", "<i8").tolist()
    return [data[a:b] for a, b in itertools.pairwise(offsets)]


def lance(values: list[bytes], target: Path) -> Row:
    """zstd by the field's metadata."""
    import pyarrow as pa

    library = importlib.import_module("lance")
    field = pa.field("x", pa.large_binary(), metadata={"lance-encoding:compression": "zstd"})
    schema = pa.schema([field])
    table = pa.table([pa.array(values, pa.large_binary())], schema=schema)
    library.write_dataset(table, str(target), schema=schema, data_storage_version="2.1")
    data = library.dataset(str(target))
    return lambda number: data.take([number], columns=["x"]).column("x")[0].as_py()


def mosaicml(values: list[bytes], target: Path) -> Row:
    """zstd for whole shards: the first row of a shard unpacks it, and it is kept unpacked beside."""
    sys.modules["streaming.vision"] = types.ModuleType("streaming.vision")
    library = importlib.import_module("streaming")
    with library.MDSWriter(out=str(target), columns={"x": "bytes"}, compression="zstd") as writer:
        for value in values:
            writer.write({"x": value})
    data = library.StreamingDataset(local=str(target), shuffle=False, batch_size=1)
    return lambda number: data[number]["x"]


def _value(folder: Path, number: int, kept: dict[Path, list[bytes]] = {}) -> dict[str, bytes]:  # noqa: B006
    if folder not in kept:
        kept[folder] = rows_of(folder)
    return {"x": kept[folder][number]}


def litdata(values: list[bytes], target: Path) -> Row:
    """zstd for whole chunks, unpacked likewise: version 0.2.76 leaves chunks of bytes plain at its other levels."""
    library = importlib.import_module("litdata")
    make = partial(_value, target.parent)
    library.optimize(
        fn=make, inputs=list(range(len(values))), output_dir=str(target), num_workers=1, chunk_bytes="64MB",
        compression="zstd", compression_level="chunk",
    )  # fmt: skip
    data = library.StreamingDataset(str(target))
    return lambda number: data[number]["x"]


def arrayrecord(values: list[bytes], target: Path) -> Row:
    """zstd in groups of 256 records: with the default of one, rows of 400 bytes would hardly shrink."""
    module = importlib.import_module("array_record.python.array_record_module")
    source = importlib.import_module("array_record.python.array_record_data_source")
    target.mkdir()
    writer = module.ArrayRecordWriter(str(target / "data.array_record"), "group_size:256,zstd")
    for value in values:
        writer.write(value)
    writer.close()
    data = source.ArrayRecordDataSource([str(target / "data.array_record")])
    return lambda number: data[number]


def main() -> None:
    peer, folder, seconds = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])
    values, target = rows_of(folder), folder / peer
    shutil.rmtree(target, ignore_errors=True)
    row = {"lance": lance, "mosaicml": mosaicml, "litdata": litdata, "arrayrecord": arrayrecord}[peer](
        values, target
    )
    size = sum(file.stat().st_size for file in target.rglob("*") if file.is_file())
    numbers = np.random.default_rng(0).integers(0, len(values), 100_000).tolist()
    start = time.perf_counter()
    row(numbers[0])
    first = time.perf_counter() - start
    for number in numbers[:50]:
        assert row(number) == values[number]
    count, start = 0, time.perf_counter()
    while (took := time.perf_counter() - start) < seconds:
        row(numbers[50 + count % 90_000])
        count += 1
    kind = folder.name.split("-")[0]
    name = {
        "lance": "Lance",
        "mosaicml": "MosaicML Streaming",
        "litdata": "LitData",
        "arrayrecord": "ArrayRecord",
    }[peer]
    raw = sum(map(len, values))
    found = [
        answer.figure(kind, f"{name}, random row", 1e6 * took / count, "µs"),
        answer.figure(kind, f"{name}, ratio", raw / size, "x"),
    ]
    if peer in UNPACKED:
        found.append(answer.figure(kind, f"{name}, first row of a shard", 1e6 * first, "µs"))
    answer.answer(found)
    os._exit(0)


if __name__ == "__main__":
    main()
