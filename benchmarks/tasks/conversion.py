"""One timed conversion: `conversion.py WAY SOURCE --rows N --data FOLDER --workers N [--option=…]`, as a rate of rows.

Ways: unirecord (`unirecord write`, with the options given), flat (plain Python reads all files and writes one, synced),
digested (the same, with an XXH3 digest of each 110 KB and a synced file for each 32 MB, as a dataset has them),
pyarrow-csv and pyarrow-parquet (parsing on one thread, nothing written), pyarrow-json (the same, written as Parquet
under Zstandard), pyarrow-copy (Parquet read and written as Parquet, on one thread), mindspore (its FileReader, nothing
written), and three that resize pictures to 256 and write JPEG of quality 90: ffcv, litdata, pillow (one file a
picture).
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import multiprocessing
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
from caches import SPARE, have_memory

SIDE, QUALITY = 256, 90
ROW_BYTES, PART_BYTES = 110_000, 32 << 20
SETTLE = 1.5  # seconds in which the disk forgets what was removed before

Way = Callable[[Path, Path, argparse.Namespace], None]


def files_of(source: Path) -> list[Path]:
    """All files, in the order of their names."""
    found = [Path(folder) / name for folder, _, names in os.walk(source) for name in names]
    return sorted(found) if source.is_dir() else [source]


def _copy(files: list[Path], out: Path, offset: int) -> None:
    with out.open("r+b", buffering=0) as target:
        target.seek(offset)
        for path in files:
            with path.open("rb", buffering=0) as file:
                while piece := file.read(8 << 20):
                    target.write(piece)
        os.fsync(target.fileno())


def flat(source: Path, out: Path, arguments: argparse.Namespace) -> None:
    files, workers = files_of(source), arguments.workers
    target = out / "flat"
    target.touch()
    if workers == 1:
        _copy(files, target, 0)
        return
    starts = [0]
    for path in files:
        starts.append(starts[-1] + path.stat().st_size)
    bounds = [len(files) * i // workers for i in range(workers + 1)]
    processes = [
        multiprocessing.Process(target=_copy, args=(files[a:b], target, starts[a]))
        for a, b in pairwise(bounds)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0


def digested(source: Path, out: Path, arguments: argparse.Namespace) -> None:
    digest = importlib.import_module("xxhash").xxh3_64_intdigest
    found, held = [], 0
    target = (out / "0").open("wb", buffering=0)
    for path in files_of(source):
        with path.open("rb", buffering=0) as file:
            while piece := file.read(ROW_BYTES):
                found.append(digest(piece))
                target.write(piece)
                held += len(piece)
                if held >= PART_BYTES:
                    os.fsync(target.fileno())
                    target.close()
                    target, held = (out / str(len(found))).open("wb", buffering=0), 0
    os.fsync(target.fileno())
    target.close()


def unirecord(source: Path, out: Path, arguments: argparse.Namespace) -> None:
    main = importlib.import_module("unirecord.cli").main
    words = [
        "write",
        str(source),
        str(out / "dataset"),
        "--workers",
        str(arguments.workers),
        *arguments.option,
    ]
    assert not main(words)


def pyarrow_csv(source: Path, out: Path, arguments: argparse.Namespace) -> None:
    csv = importlib.import_module("pyarrow.csv")
    csv.read_csv(source, csv.ReadOptions(use_threads=False))


def pyarrow_parquet(source: Path, out: Path, arguments: argparse.Namespace) -> None:
    for batch in importlib.import_module("pyarrow.parquet").ParquetFile(source).iter_batches():
        assert batch.num_rows


def pyarrow_json(source: Path, out: Path, arguments: argparse.Namespace) -> None:
    reader = importlib.import_module("pyarrow.json")
    table = reader.read_json(source, reader.ReadOptions(use_threads=False))
    importlib.import_module("pyarrow.parquet").write_table(table, out / "rows.parquet", compression="zstd")


def pyarrow_copy(source: Path, out: Path, arguments: argparse.Namespace) -> None:
    parquet = importlib.import_module("pyarrow.parquet")
    with (
        parquet.ParquetFile(source) as file,
        parquet.ParquetWriter(out / "rows.parquet", file.schema_arrow) as writer,
    ):
        for batch in file.iter_batches(use_threads=False):
            writer.write_batch(batch)


def mindspore(source: Path, out: Path, arguments: argparse.Namespace) -> None:
    reader = importlib.import_module("mindspore.mindrecord").FileReader(str(source))
    assert sum(1 for _ in reader.get_next()) == arguments.rows
    reader.close()


def resized(path: Path) -> Any:
    """The picture with its shorter side at 256."""
    image = importlib.import_module("PIL.Image").open(path).convert("RGB")
    scale = SIDE / min(image.size)
    return image.resize((round(image.width * scale), round(image.height * scale)))


def _jpeg(path: Path) -> bytes:
    held = io.BytesIO()
    resized(path).save(held, "JPEG", quality=QUALITY)
    return held.getvalue()


def _save(out: Path, path: Path) -> None:
    (out / path.name).write_bytes(_jpeg(path))


def pillow(source: Path, out: Path, arguments: argparse.Namespace) -> None:
    with multiprocessing.Pool(arguments.workers) as pool:
        for _ in pool.imap_unordered(partial(_save, out), files_of(source), chunksize=16):
            pass


def _sample(path: Path) -> dict[str, Any]:
    return {"image": _jpeg(path), "label": int(path.parent.name.rpartition("_")[2])}


def litdata(source: Path, out: Path, arguments: argparse.Namespace) -> None:
    importlib.import_module("litdata").optimize(
        fn=_sample, inputs=files_of(source), output_dir=str(out / "litdata"),
        num_workers=arguments.workers, chunk_bytes="64MB",
    )  # fmt: skip


class _Pictures:
    """What FFCV's DatasetWriter asks of a dataset."""

    def __init__(self, files: list[Path]) -> None:
        self.files = files

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, number: int) -> tuple[Any, int]:
        path = self.files[number]
        return resized(path), int(path.parent.name.rpartition("_")[2])


def ffcv(source: Path, out: Path, arguments: argparse.Namespace) -> None:
    fields = importlib.import_module("ffcv.fields")
    writer = importlib.import_module("ffcv.writer").DatasetWriter(
        str(out / "data.beton"),
        {"image": fields.RGBImageField(write_mode="jpg", jpeg_quality=QUALITY), "label": fields.IntField()},
        num_workers=arguments.workers,
    )
    writer.from_indexed_dataset(_Pictures(files_of(source)))


WAYS: dict[str, tuple[Way, tuple[str, ...]]] = {  # and what it imports before the clock starts
    "unirecord": (
        unirecord,
        ("unirecord.cli", "pyarrow.csv", "pyarrow.compute", "pyarrow.parquet"),
    ),
    "flat": (flat, ()),
    "digested": (digested, ("xxhash",)),
    "pyarrow-csv": (pyarrow_csv, ("pyarrow.csv",)),
    "pyarrow-parquet": (pyarrow_parquet, ("pyarrow.parquet",)),
    "pyarrow-copy": (pyarrow_copy, ("pyarrow.parquet",)),
    "pyarrow-json": (pyarrow_json, ("pyarrow.json", "pyarrow.parquet")),
    "mindspore": (mindspore, ("mindspore.mindrecord",)),
    "pillow": (pillow, ("PIL.Image",)),
    "litdata": (litdata, ("litdata", "PIL.Image")),
    "ffcv": (ffcv, ("ffcv.fields", "ffcv.writer", "PIL.Image")),
}


def processor_seconds() -> float:
    """Of this process, and of those that it has started and seen end."""
    return sum(os.times()[:4])


def _sizes(source: Path) -> Iterator[int]:
    return (path.stat().st_size for path in files_of(source))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("source", type=Path)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument(
        "--data", type=Path, required=True, help="where the output is written, and removed again"
    )
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--option", action="append", default=[])
    arguments = parser.parse_args()
    way, modules = WAYS[arguments.way]
    for module in modules:
        importlib.import_module(module)
    if way is unirecord:
        with contextlib.suppress(SystemExit):  # imports all that a command needs
            importlib.import_module("unirecord.cli").main(["--version"])
    out = arguments.data / f"converted-{os.getpid()}"
    out.mkdir(parents=True)
    try:
        size = sum(_sizes(arguments.source))
        os.sync()
        time.sleep(SETTLE)
        have_memory(size + SPARE)
        start, work = time.perf_counter(), processor_seconds()
        way(arguments.source, out, arguments)
        seconds, work = time.perf_counter() - start, processor_seconds() - work
    finally:
        shutil.rmtree(out)
    found = {"value": arguments.rows / seconds, "unit": "rows/s", "bytes_per_s": size / seconds}
    print(json.dumps({**found, "processor_us": round(1e6 * work / arguments.rows, 2)}), flush=True)


if __name__ == "__main__":
    main()
