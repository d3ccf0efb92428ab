"""One epoch of a reader from an object store, in that reader's environment: samples and seconds as a line of JSON.

A reader yields 0 when it has imported what it needs, and then how many samples have come.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

BATCH = 64
IN_FLIGHT = 256  # requests, of those who can be told
RANGE_BYTES = 4 << 20  # of a plain download
DOWNLOADS = 16  # of those in flight: with 64 and 256 it is slower, with a link and without
BATCH_MEMORY, WINDOW_MEMORY = (
    128 << 20,
    600 << 20,
)  # bytes that batches which are read ahead take, and windows of blocks: new to each process
BUFFER = 1_000  # samples that WebDataset shuffles


def store(place: argparse.Namespace) -> Any:
    """The bare client."""
    from obstore.store import from_url

    return from_url(f"{place.endpoint}/{place.bucket}", client_options={"allow_http": True})


def ranges(
    place: argparse.Namespace,
    wanted: list[tuple[int, int]],
    in_flight: int,
    take: Callable[[int, Any], None] = lambda start, found: None,
) -> None:
    """Ranges of the object by the bare client, so many in flight; ``take`` gets where each starts, and its bytes."""
    import obstore

    client, waiting = store(place), iter(wanted)

    async def worker() -> None:
        for start, length in waiting:
            take(start, await obstore.get_range_async(client, place.key, start=start, length=length))

    async def run() -> None:
        await asyncio.gather(*(worker() for _ in range(in_flight)))

    asyncio.run(run())


def bare_random(place: argparse.Namespace) -> Iterator[int]:
    """As many ranges as there are rows, of their size, in random order."""
    importlib.import_module("obstore")
    yield 0
    size, rows = place.row_bytes, place.rows
    order = np.random.default_rng(place.seed).permutation(rows)
    ranges(place, [(int(i) * size, size) for i in order], IN_FLIGHT)
    yield rows


def bare_download(place: argparse.Namespace) -> Iterator[int]:
    """All bytes of the object, in order."""
    importlib.import_module("obstore")
    yield 0
    ranges(place, _pieces(place), DOWNLOADS)
    yield place.rows


def _pieces(place: argparse.Namespace) -> list[tuple[int, int]]:
    whole = place.rows * place.row_bytes
    return [(start, min(RANGE_BYTES, whole - start)) for start in range(0, whole, RANGE_BYTES)]


def bare_copied(place: argparse.Namespace, memory_bytes: int) -> Iterator[int]:
    """All bytes, in order, each copied once and digested, in memory that is used again when it is full.

    What no reader can go below that gives checked arrays of its own.
    """
    importlib.import_module("obstore")
    from unirecord.core import xxh3_64

    yield 0
    pieces = _pieces(place)
    memory = np.empty((min(memory_bytes // RANGE_BYTES, len(pieces)), RANGE_BYTES), np.uint8)

    def take(start: int, found: Any) -> None:
        to = memory[start // RANGE_BYTES % len(memory)][: len(found)]
        np.copyto(to, np.frombuffer(found, np.uint8))
        for at in range(0, len(to), place.row_bytes):
            xxh3_64(to[at : at + place.row_bytes])

    ranges(place, pieces, DOWNLOADS, take)
    yield place.rows


def unirecord(place: argparse.Namespace) -> Iterator[int]:
    """Batches, digests checked, in the order that is asked for."""
    from unirecord import UniRecordDataset

    importlib.import_module("obstore")
    yield 0
    options: dict[str, Any] = {
        "exact": {"shuffle": True, "seed": place.seed},
        "block": {"shuffle": "block", "seed": place.seed},
        "runs": {"shuffle": "block", "seed": place.seed, "block_rows": BATCH // 4, "window_blocks": 4},
        "in order": {"shuffle": False},
    }[place.order]
    with UniRecordDataset(f"{place.endpoint}/{place.bucket}/{place.key}", **options) as ds:
        for batch in ds.batches(BATCH):
            yield len(batch["x"])


def lance(place: argparse.Namespace) -> Iterator[int]:
    """`take` of batches of shuffled row numbers, 16 at a time."""
    os.environ.setdefault("LANCE_IO_THREADS", str(IN_FLIGHT))
    module = importlib.import_module("lance")
    yield 0
    told = {
        "aws_endpoint": place.endpoint,
        "allow_http": "true",
        "aws_region": "us-east-1",
        "aws_access_key_id": "x",
        "aws_secret_access_key": "x",
    }
    data = module.dataset(f"s3://{place.bucket}/{place.key}", storage_options=told)
    order = np.random.default_rng(place.seed).permutation(place.rows).tolist()
    batches = [order[start : start + BATCH] for start in range(0, place.rows, BATCH)]
    with ThreadPoolExecutor(16) as pool:
        waiting: list[Future[Any]] = []
        for batch in batches:
            waiting.append(pool.submit(data.take, batch, columns=["x"]))
            if len(waiting) > 16:
                yield waiting.pop(0).result().num_rows
        for future in waiting:
            yield future.result().num_rows


def mosaicml(place: argparse.Namespace) -> Iterator[int]:
    """A StreamingDataset with an empty local folder, shuffled over all samples."""
    from peers.mosaicml import streaming

    yield 0
    with tempfile.TemporaryDirectory(dir=place.scratch) as local:
        data = streaming.StreamingDataset(
            remote=f"s3://{place.bucket}/{place.key}",
            local=local,
            shuffle=True,
            shuffle_algo="py1s",
            shuffle_seed=place.seed,
            batch_size=BATCH,
            num_canonical_nodes=1,
            predownload=place.rows,
        )
        yield from (1 for _ in data)


def litdata(place: argparse.Namespace) -> Iterator[int]:
    """A StreamingDataset with an empty cache: chunks shuffled, and samples within them."""
    module = importlib.import_module("litdata")
    downloader: Any = importlib.import_module("litdata.streaming.downloader")
    downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True  # which no option of its own says
    yield 0
    with tempfile.TemporaryDirectory(dir=place.scratch) as local:
        told = {"endpoint_url": place.endpoint}
        data = module.StreamingDataset(
            module.streaming.resolver.Dir(path=local, url=f"s3://{place.bucket}/{place.key}"),
            shuffle=True,
            seed=place.seed,
            storage_options=told,
        )
        loader = module.StreamingDataLoader(data, batch_size=BATCH, num_workers=0, collate_fn=list)
        for batch in loader:
            yield len(batch)


def webdataset(place: argparse.Namespace) -> Iterator[int]:
    """Shards by curl, one after the other, shuffled in a buffer."""
    wds = importlib.import_module("webdataset")
    yield 0
    names = place.key.split(",")
    urls = [f"pipe:curl -s -f {place.endpoint}/{place.bucket}/{name}" for name in names]
    stream = wds.WebDataset(urls, shardshuffle=len(urls), empty_check=False, seed=place.seed)
    yield from (1 for _ in stream.shuffle(BUFFER).to_tuple("bin"))


READERS: dict[str, Callable[[argparse.Namespace], Iterator[int]]] = {
    "bare-random": bare_random,
    "bare-download": bare_download,
    "bare-batches": partial(bare_copied, memory_bytes=BATCH_MEMORY),
    "bare-windows": partial(bare_copied, memory_bytes=WINDOW_MEMORY),
    "unirecord": unirecord,
    "lance": lance,
    "mosaicml": mosaicml,
    "litdata": litdata,
    "webdataset": webdataset,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reader", choices=READERS)
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--bucket", required=True)
    parser.add_argument("--key", required=True, help="of the object or folder; of several shards, by commas")
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--row-bytes", type=int, required=True)
    parser.add_argument("--order", choices=["exact", "block", "runs", "in order", "floor"], default="exact")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scratch", type=Path, help="where readers that copy may do so")
    place = parser.parse_args()
    os.environ |= {
        "AWS_ENDPOINT_URL": place.endpoint,
        "S3_ENDPOINT_URL": place.endpoint,
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    samples = READERS[place.reader](place)
    next(samples)  # what is imported is not what is measured; datasets are opened after this
    began, processor = time.perf_counter(), time.process_time()
    count = sum(samples)
    seconds = time.perf_counter() - began
    if count != place.rows:
        raise AssertionError(f"{count} samples came, of {place.rows}")
    used = time.process_time() - processor
    print(json.dumps({"samples": count, "seconds": seconds, "processor_s": used}), flush=True)
    os._exit(0)  # a reader's threads must not hold the run up


if __name__ == "__main__":
    main()
