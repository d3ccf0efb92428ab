"""A directory of very many parts: opening it, and publishing one part more, on a disk and in an object store.

python benchmarks/many_parts.py [--parts N] [--publications N] [--folder PATH]

The parts are the names of empty files: nothing is read of them. "The list" is what a publication does about the
manifest and its pieces: they are divided, encoded, written and synced, or put. "An append" is all of
`unirecord.append`, of one row.
"""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from object_store import serving

import unirecord
from unirecord.format.schema import Schema
from unirecord.snapshot import manifest
from unirecord.snapshot.manifest import Manifest, PartEntry
from unirecord.snapshot.part_list import appended
from unirecord.storage.local import sync_folder
from unirecord.storage.object_store import ObjectWrites
from unirecord.storage.staged import write_staged
from unirecord.storage.storage_options import current_storage

SCHEMA = Schema.parse({"n": "int64"})
OPENING = """
import sys, time
import unirecord
unirecord.UniRecordDataset
began, worked = time.perf_counter(), time.process_time()
unirecord.UniRecordDataset(sys.argv[1])
print(time.perf_counter() - began, time.process_time() - worked)
"""


def entry(dataset_id: bytes, number: int) -> PartEntry:
    part_id = manifest.part_id(dataset_id, number)
    name = manifest.part_name(number, part_id)
    return PartEntry(name, part_id, 1, 1_000, 500, manifest.schema_digest(SCHEMA), f"{number:032x}")


def made(parts: int) -> tuple[Manifest, dict[str, bytes]]:
    """A manifest of so many parts, with its pieces."""
    dataset_id = secrets.token_bytes(16)
    entries = tuple(entry(dataset_id, number) for number in range(parts))
    return manifest.divided(Manifest(dataset_id, 1, parts, SCHEMA, (), None, entries), None)


def grown(before: Manifest, salt: int | None = None) -> tuple[Manifest, dict[str, bytes]]:
    """The version with one part more."""
    more = (entry(before.id, before.next_part),)
    after = replace(
        before,
        generation=before.generation + 1,
        next_part=before.next_part + 1,
        parts=appended(before.parts, more),
    )
    return manifest.divided(after, before, salt=salt)


def openings(path: str) -> tuple[float, float]:
    """Seconds, and of the processor, of the best of five, each in a process of its own."""
    command = [sys.executable, "-c", OPENING, path]
    runs = [
        subprocess.run(command, check=True, capture_output=True, text=True).stdout.split() for _ in range(5)
    ]
    return min(float(run[0]) for run in runs), min(float(run[1]) for run in runs)


def say(what: str, seconds: list[float], sizes: list[int]) -> None:
    ordered = sorted(seconds)
    print(
        f"{what}: median {1e3 * ordered[len(ordered) // 2]:.1f} ms, worst {1e3 * ordered[-1]:.1f} ms; "
        f"{min(sizes):,} to {max(sizes):,} bytes written"
    )


def on_disk(found: Manifest, pieces: dict[str, bytes], folder: Path, publications: int) -> None:
    folder.mkdir()
    for name in (file for part in found.parts for file in (part.name, part.name + ".idx")):
        os.close(os.open(folder / name, os.O_CREAT | os.O_WRONLY))
    for name, content in pieces.items():
        (folder / name).write_bytes(content)
    newest = folder / "manifest.json"
    newest.write_bytes(manifest.encode(found))
    seconds, worked = openings(str(folder))
    print(f"opening, on a disk: {seconds:.2f} s, {worked:.2f} s of the processor")
    times, sizes = [], []
    for _ in range(publications):
        began = time.perf_counter()
        found, made = grown(found)
        text = manifest.encode(found)
        for name, content in [*made.items(), ("manifest.json", text)]:
            write_staged(str(folder / name), str(newest), content)
            sync_folder(str(folder))
        times.append(time.perf_counter() - began)
        sizes.append(len(text) + sum(map(len, made.values())))
    say("the list, on a disk", times, sizes)


def append_rows(path: str, count: int) -> None:
    for _ in range(count):
        began = time.perf_counter()
        with unirecord.append(path) as writer:
            writer.write({"n": 1})
        print(f"an append: {1e3 * (time.perf_counter() - began):.0f} ms")


def in_store(found: Manifest, pieces: dict[str, bytes], url: str, publications: int) -> None:
    writes = ObjectWrites(current_storage())
    for name, content in pieces.items():
        writes.put_if(f"{url}/{name}", content, None)
    version = writes.put_if(f"{url}/manifest.json", manifest.encode(found), None)
    seconds, worked = openings(url)
    print(f"opening, in a store: {seconds:.2f} s, {worked:.2f} s of the processor")
    times, sizes = [], []
    for _ in range(publications):
        began = time.perf_counter()
        found, made = grown(found, secrets.randbits(64))
        text = manifest.encode(found)
        for name, content in made.items():
            writes.put_if(f"{url}/{name}", content, None)
        version = writes.put_if(f"{url}/manifest.json", text, version)
        times.append(time.perf_counter() - began)
        sizes.append(len(text) + sum(map(len, made.values())))
    say("the list, in a store", times, sizes)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", type=int, default=100_000)
    parser.add_argument("--publications", type=int, default=300)
    parser.add_argument("--folder", help="where the directory is made; by default a temporary one")
    arguments = parser.parse_args()
    found, pieces = made(arguments.parts)
    text = len(manifest.encode(found))
    size = sum(map(len, pieces.values()))
    print(
        f"{arguments.parts:,} parts: {text:,} bytes of manifest, {len(pieces)} pieces of {size:,} bytes in all"
    )
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        on_disk(found, pieces, Path(folder, "set"), arguments.publications)
        append_rows(str(Path(folder, "set")), 3)
        root = Path(folder, "buckets")
        (root / "bucket").mkdir(parents=True)
        with serving(root, 0.0) as server:
            os.environ |= {
                "AWS_ENDPOINT_URL": server.url, "AWS_SKIP_SIGNATURE": "true", "AWS_REGION": "us-east-1"
            }  # fmt: skip
            in_store(found, pieces, "s3://bucket/set", arguments.publications)


if __name__ == "__main__":
    main()
