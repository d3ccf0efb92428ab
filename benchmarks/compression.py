"""Compressed columns beside plain ones, libzstd in a bare loop, and what other formats take for a random row."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from compare import Measurement, Plan
from compressible import KINDS
from entrants import HERE, Entrant, Field, call

ROWS, SMALL = 40_000, 2_000
PEERS = {
    "Lance": "lance",
    "MosaicML Streaming": "mosaicml",
    "LitData": "litdata",
    "ArrayRecord": "arrayrecord",
}
FLOOR = "floor: libzstd in a C loop"


def build_floor(field: Field) -> str:
    """Compiles zstd_floor.c; "" or the reason it can't."""
    field.cache.mkdir(parents=True, exist_ok=True)
    command = ["cc", "-std=gnu11", "-O3", "-pthread", str(HERE / "zstd_floor.c"), "-ldl", "-o"]
    done = subprocess.run([*command, str(field.cache / "zstd_floor")], capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stderr.strip()[-200:]


def _told(place: Measurement, entrant: str, result: dict[str, object]) -> Iterator[Measurement]:
    if "failed" in result:
        yield {**place, "entrant": entrant, "absent": result["failed"]}
    for one in result.get("measurements", ()):  # type: ignore[attr-defined]
        yield {**place, **one}


def measure(field: Field, plan: Plan) -> Iterator[Measurement]:
    """Ratios, rows, batches and cold epochs of each kind; then each peer's random row, compressed as it has it."""
    rows = SMALL if plan.small else ROWS
    reason = build_floor(field)
    for kind in KINDS:
        folder = field.data / "compression" / f"{kind}-{rows}"
        task = [sys.executable, str(HERE / "tasks" / "compressed.py"), kind, str(folder), str(rows)]
        place = {"suite": "compression", "workload": kind}
        yield from _told(place, "UniRecord", call([*task, str(plan.seconds), *map(str, plan.threads)]))
        for threads in plan.threads:
            places = [str(folder / name) for name in ("cells.bin", "places.bin", "dictionary.bin")]
            places[2] = places[2] if (folder / "dictionary.bin").exists() else "-"
            command = [
                str(field.cache / "zstd_floor"),
                *places,
                str(rows),
                str(threads),
                str(plan.seconds),
            ]
            result = {"failed": reason} if reason else call(command)
            if "samples_per_s" in result:
                value = {"value": result["samples_per_s"], "unit": "samples/s"}
                result = {"measurements": [{"entrant": f"{FLOOR}, {threads} threads", **value}]}
            yield from _told(place, f"{FLOOR}, {threads} threads", result)
        for name, peer in PEERS.items():
            if plan.only and not any(part.lower() in name.lower() for part in plan.only):
                continue
            reason_ = field.ready(Entrant(name, environment=peer))
            script = str(HERE / "tasks" / "compressed_peer.py")
            command = [field.python(peer), script, peer, str(folder), str(plan.seconds)]
            yield from _told(place, name, {"failed": reason_} if reason_ else call(command))
