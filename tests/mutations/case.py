"""One case by its number: a sound part, its changes, and the ten operations on it."""

from __future__ import annotations

import json
import random
import shutil
import traceback
from collections.abc import Iterator
from pathlib import Path

import xxhash
from partgen import generate

import unirecord
from mutations.mutate import mutated, mutated_manifest
from mutations.operations import ALLOWED, OPERATIONS, Case
from mutations.part import parse, serialize

SEEDS = [seed for seed in range(60) if seed % 25 != 3]  # those are large


def make(number: int, folder: Path) -> tuple[Case, str]:
    """Writes case ``number``, and says what was changed."""
    pick = random.Random(f"mutation {number}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if pick.random() < 0.05:
        return Case(folder / "set", folder, pick), _directory(folder / "set", pick)
    made = generate(pick.choice(SEEDS), folder)
    part, changes = mutated(parse(made.data, made.index), pick)
    data, index = serialize(part)
    made.path.write_bytes(data)
    Path(f"{made.path}.idx").write_bytes(index)
    return Case(made.path, folder, pick), changes


def _directory(path: Path, pick: random.Random) -> str:
    """A directory whose manifest is changed."""
    with unirecord.Writer(
        path,
        {
            "n": {"type": "int64", "logical": {"type": "timestamp", "unit": "us", "zone": "UTC"}},
            "name": "string?",
            "b": {"type": "bytes?", "logical": {"type": "media", "media": "image/*"}},
        },
        id=bytes(16),
        index=["n"],
    ) as writer:
        for n in range(5):
            writer.write({"n": n, "name": None if n == 2 else "a" * n, "b": bytes(n) if n else None})
    if pick.random() < 0.5:
        unirecord.delete(path, rows=[1, 3])
    manifest = path / "manifest.json"
    text = mutated_manifest(
        manifest.read_bytes(), pick, lambda packed: f"{xxhash.xxh3_64_intdigest(packed):016x}"
    )
    manifest.write_bytes(text)
    json.loads(text)
    return "manifest"


def run(number: int, folder: Path) -> Iterator[str]:
    """Everything that went wrong in case ``number``; the last line is a digest of what was read."""
    case, changes = make(number, folder)
    for name in OPERATIONS:
        wrong = _wrong(name, case)
        if wrong:
            yield f"case {number} ({changes}), {name}: {wrong}"
    yield case.digest.hexdigest()


def _wrong(name: str, case: Case) -> str | None:
    try:
        OPERATIONS[name](case)
    except ALLOWED as error:
        case.digest.update(type(error).__name__.encode())
    except Exception as error:
        place = "".join(traceback.format_exception(error)[-3:])
        return f"{type(error).__name__}: {error!s:.300}\n{place}"
    return None
