"""Who takes part, in which environment, and the command line that times it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import caches
import environments
from workloads import Raw

HERE = Path(__file__).parent
PROCESS_SECONDS = 900
DEPTH = 64


@dataclass(frozen=True)
class Entrant:
    """A line of the tables: a floor mode, or a driver of `peers/` with its environment and options."""

    name: str
    peer: str = ""
    environment: str = ""  # "" = the interpreter that runs the benchmark
    floor: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    caches: tuple[str, ...] = ("hot", "cold", "scarce")


ENTRANTS = (
    Entrant("floor: memcpy", floor="memcpy", caches=("hot",)),
    Entrant("floor: pread", floor="pread"),
    Entrant("floor: io_uring O_DIRECT", floor="uring", caches=("cold", "scarce")),
    Entrant("floor: io_uring O_DIRECT, copied", floor="uring-copy", caches=("cold", "scarce")),
    Entrant("floor: io_uring O_DIRECT, kept in memory", floor="uring-keep", caches=("cold",)),
    Entrant("UniRecord, verify=never", "unirecord", options={"verify": "never"}),
    Entrant("UniRecord", "unirecord"),
    Entrant("UniRecord, io=uring-direct", "unirecord", options={"io": "uring-direct"}, caches=("cold",)),
    Entrant(
        "UniRecord, io=uring-direct, verify=never",
        "unirecord",
        options={"io": "uring-direct", "verify": "never"},
        caches=("cold",),
    ),
    Entrant("FFCV", "ffcv", "ffcv", caches=("hot", "cold")),
    Entrant("FFCV, quasi-random", "ffcv", "ffcv", options={"memory": "scarce"}, caches=("scarce",)),
    Entrant("LMDB", "lmdb", "lmdb"),
    Entrant("ArrayRecord", "arrayrecord", "arrayrecord"),
    Entrant("ArrayRecord + Grain", "grain", "arrayrecord"),
    Entrant("Bagz", "bagz", "bagz"),
    Entrant("MosaicML Streaming", "mosaicml", "mosaicml"),
    Entrant("LitData", "litdata", "litdata"),
    Entrant("Lance", "lance", "lance"),
    Entrant("HF datasets", "datasets", "datasets"),
    Entrant("WebDataset", "webdataset", "webdataset"),
    Entrant("TFRecord (tf.data)", "tfrecord", "tensorflow"),
    Entrant("MindRecord (MindSpore)", "mindrecord", "mindspore"),
    Entrant("one file per sample", "files"),
    Entrant("DataLoader over memmap", "memmap_torch", "torch"),
)


def last_json(text: str) -> Any:
    """The last line of `text` that is JSON; drivers' libraries print what they like before it."""
    lines = [line for line in text.splitlines() if line.startswith("{")]
    try:
        return json.loads(lines[-1]) if lines else None
    except ValueError:
        return None


def call(command: list[str], seconds: float = PROCESS_SECONDS) -> dict[str, Any]:
    """Runs `command` in a process of its own; its last JSON line, or {"failed": reason}."""
    # What is imported is compiled once, as it is for whoever uses it, and not in the timed part of each run.
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, cwd=HERE, env=variables
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {seconds:.0f} s"}
    result = last_json(done.stdout)
    if done.returncode == 0 and isinstance(result, dict):
        return result
    if done.returncode == -signal.SIGKILL:
        return {"failed": "killed: the system had no memory left for it"}
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()] or ["no output"]
    return {"failed": lines[-1][:200]}


class Field:
    """All that is needed to run an entrant: built floor, environments, written data."""

    def __init__(self, cache: Path, data: Path) -> None:
        self.cache = cache
        self.data = data
        self.floor = cache / "floor"

    def build_floor(self) -> str:
        """Compiles floor.c where that has not been done since it was changed; "" or the reason it can't."""
        source = HERE / "floor.c"
        if self.floor.exists() and self.floor.stat().st_mtime > source.stat().st_mtime:
            return ""
        self.cache.mkdir(parents=True, exist_ok=True)
        command = ["cc", "-std=c11", "-O2", "-pthread", str(source), "-o", str(self.floor)]
        done = subprocess.run(command, capture_output=True, text=True)
        return "" if done.returncode == 0 else done.stderr.strip()[-200:]

    def python(self, environment: str) -> str:
        return str(environments.interpreter(self.cache, environment)) if environment else sys.executable

    def ready(self, entrant: Entrant) -> str:
        """Installs what the entrant needs; "" or the reason it can't take part."""
        if entrant.floor:
            return self.build_floor()
        return environments.ensure(self.cache, entrant.environment) if entrant.environment else ""

    def directory(self, entrant: Entrant, raw: Raw) -> Path:
        return raw.directory if entrant.floor else raw.directory.parent / entrant.peer

    def _driver(self, entrant: Entrant, task: str, raw: Raw) -> list[str]:
        return [self.python(entrant.environment), str(HERE / "driver.py"), entrant.peer, task, "--raw",
                str(raw.directory), "--data", str(self.directory(entrant, raw))]  # fmt: skip

    def write(self, entrant: Entrant, raw: Raw) -> dict[str, Any]:
        """Writes the entrant's files once; {"failed"} or {"unsuitable"} say why not."""
        return {} if entrant.floor else call(self._driver(entrant, "write", raw))

    def _command(self, entrant: Entrant, raw: Raw, threads: int, seconds: float, cache: str) -> list[str]:
        cold = cache == "cold"
        seconds *= {"hot": 1, "scarce": 2, "cold": 5}[cache]
        if entrant.floor:
            offsets = "-" if raw.row_bytes else str(raw.offsets_path)
            return [str(self.floor), entrant.floor, str(raw.data_path), offsets, str(raw.rows), str(raw.row_bytes),
                    str(threads), str(0.0 if cold else seconds), "256", str(DEPTH)]  # fmt: skip
        command = self._driver(entrant, "read", raw)
        command += ["--threads", str(threads), "--seconds", str(seconds)]
        command += [f"--option={name}={value}" for name, value in entrant.options.items()]
        return [*command, "--cold"] if cold else command

    def read(self, entrant: Entrant, raw: Raw, threads: int, seconds: float, cache: str) -> dict[str, Any]:
        """One timed run, with the page cache "hot", "cold" for one epoch, or "scarce": too small for the data."""
        directory = self.directory(entrant, raw)
        how = caches.fill(directory) or "filled" if cache == "hot" else caches.cold(directory)
        command = self._command(entrant, raw, threads, seconds, cache)
        if cache == "cold" and entrant.floor:  # a peer's driver does so after its imports
            caches.have_memory(raw.total_bytes + caches.SPARE)
        if cache == "scarce":
            try:
                command = caches.scarce(command, raw.total_bytes)
            except OSError as error:
                return {"failed": f"memory cannot be limited here: {error}"}
        return {**call(command, 120 + 20 * seconds), "cache_by": how}
