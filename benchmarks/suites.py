"""What is measured, by name: each suite yields measurements."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

import compression
import conversion
import frameworks
import image_decoding
import object_store
import scaling
from compare import Measurement, Plan, compare
from entrants import ENTRANTS, HERE, Entrant, Field, call
from workloads import Raw, Workload, generate

WAYS = ("mmap", "pread", "uring", "uring-direct", "memory")
VERIFY = ("never", "first", "always")
SIZES = (64, 512, 4 << 10, 32 << 10, 256 << 10, 2 << 20, 16 << 20)
SIZE_TOTAL = 512 << 20
SMALL_TOTAL = 64 << 20
MEMCPY = ENTRANTS[0]
UNVERIFIED = Entrant("UniRecord, verify=never", "unirecord", options={"verify": "never"})


def peers(field: Field, plan: Plan) -> Iterator[Measurement]:
    """Every peer beside the floor."""
    for workload in plan.workloads:
        yield from compare(field, plan, "peers", workload, ENTRANTS)


def ways(field: Field, plan: Plan) -> Iterator[Measurement]:
    """UniRecord's ways of reading, each forced."""
    entrants = [
        Entrant(f"io={way}", "unirecord", options={"verify": "never", "io": way}, caches=("hot", "cold"))
        for way in WAYS
    ]
    for workload in plan.workloads:
        yield from compare(field, replace(plan, only=()), "ways", workload, entrants)


def sizes(field: Field, plan: Plan) -> Iterator[Measurement]:
    """Row sizes from 64 B to 16 MB, cached, beside memcpy."""
    total = SMALL_TOTAL if plan.small else SIZE_TOTAL
    for size in SIZES:
        workload = Workload(f"size-{size}", f"{size} B rows", max(8, total // size), size)
        yield from compare(
            field, replace(plan, caches=("hot",), only=()), "sizes", workload, [MEMCPY, UNVERIFIED]
        )


def _raw(field: Field, workload: Workload) -> Raw:
    return generate(workload, field.data / workload.name / "raw")


def _task(field: Field, plan: Plan, name: str, python: str, *options: str) -> Iterator[Measurement]:
    """Runs tasks/NAME.py in a process of its own, which answers {"measurements": [...]}."""
    command = [python, str(HERE / "tasks" / f"{name}.py"), "--data", str(field.data), *options]
    result = call([*command, "--small"] if plan.small else command)
    if "failed" in result:
        yield {"suite": name, "workload": " ".join(options), "entrant": "", "absent": result["failed"]}
    for measurement in result.get("measurements", ()):
        yield {"suite": name, **measurement}


def _peer_task(
    field: Field, plan: Plan, name: str, entrant: str, environment: str, *options: str, workload: str = ""
) -> Iterator[Measurement]:
    """The same by the Python of an environment, or why that is not there."""
    if reason := field.ready(Entrant(entrant, environment=environment)):
        yield {"suite": name, "workload": workload, "entrant": entrant, "absent": reason}
        return
    yield from _task(field, plan, name, field.python(environment), *options)


def opening(field: Field, plan: Plan) -> Iterator[Measurement]:
    """Time to open and read one row, and memory for it, from 10^3 to 10^8 rows."""
    yield from _task(field, plan, "opening", sys.executable)


def latency(field: Field, plan: Plan) -> Iterator[Measurement]:
    """One row, and 256 by a list of indices."""
    for workload in plan.workloads:
        if workload.name == "rows":
            field.write(UNVERIFIED, _raw(field, workload))
            yield from _task(field, plan, "latency", sys.executable)


def verifying(field: Field, plan: Plan) -> Iterator[Measurement]:
    """First epochs under each `verify`, each in a fresh process; later epochs in turns."""
    for workload in plan.workloads:
        field.write(UNVERIFIED, _raw(field, workload))
        turn = VERIFY[plan.round % 3 :] + VERIFY[: plan.round % 3]
        for verify in (*((one,) for one in turn), turn):
            options = ("--workload", workload.name, "--verify", *verify)
            yield from _task(field, plan, "verifying", sys.executable, *options)


def parts(field: Field, plan: Plan) -> Iterator[Measurement]:
    """The same rows in one part and in many."""
    for workload in plan.workloads:
        if workload.name != "arrays":
            _raw(field, workload)
            yield from _task(field, plan, "parts", sys.executable, "--workload", workload.name)


def pipeline(field: Field, plan: Plan) -> Iterator[Measurement]:
    """What operators of a pipeline cost, and how its stages scale."""
    yield from _task(field, plan, "pipeline", sys.executable)
    folder, _, reason = image_decoding.make(field, plan, image_decoding.SETS[0])
    options = () if reason else ("--photographs", str(folder))
    for measurement in _task(field, plan, "autotuning", sys.executable, *options):
        yield {**measurement, "suite": "pipeline"}
    yield from image_decoding.operators(field, plan)


def language(field: Field, plan: Plan) -> Iterator[Measurement]:
    """Windows of tokens, beside a numpy memmap of the same tokens and Megatron's GPTDataset."""
    of_numpy = ("numpy memmap, a slice a window", "numpy memmap, a strided view")
    yield from _task(field, plan, "language", sys.executable, "--entrants", "UniRecord", *of_numpy)
    name = "Megatron GPTDataset"
    yield from _peer_task(field, plan, "language", name, "megatron", "--entrants", name, workload="windows")


def crops(field: Field, plan: Plan) -> Iterator[Measurement]:
    """Crops out of large arrays in chunks, beside HDF5, Zarr and preads of the same chunks."""
    yield from _task(field, plan, "crops", sys.executable, "--entrants", "floor", "unirecord")
    for name in ("h5py", "zarr", "tensorstore"):
        yield from _peer_task(field, plan, "crops", name, "array_files", "--entrants", name)


def small_tables(field: Field, plan: Plan) -> Iterator[Measurement]:
    """What a table of few values takes, beside Parquet."""
    yield from _task(field, plan, "small_tables", sys.executable)


def object_cache(field: Field, plan: Plan) -> Iterator[Measurement]:
    """A cache of an object store on the loopback: full, beside the disk, and of a part of the data."""
    yield from _task(field, plan, "object_cache", sys.executable)


WRITERS = (
    ("unirecord", ""),
    ("flat", ""),
    ("bagz", "bagz"),
    ("arrayrecord", "arrayrecord"),
    ("lmdb", "lmdb"),
)


def writing(field: Field, plan: Plan) -> Iterator[Measurement]:
    """Rows a second written, until the file is closed."""
    names = [_raw(field, workload).name for workload in plan.workloads if workload.name != "arrays"]
    turn = plan.round % len(WRITERS)  # each is first once: disks take the first gigabytes faster
    for writer, environment in (*WRITERS[turn:], *WRITERS[:turn]):
        options = ("--writer", writer, "--workload", *names)
        yield from _peer_task(field, plan, "writing", writer, environment, *options)


SUITES: dict[str, Callable[[Field, Plan], Iterator[Measurement]]] = {
    "peers": peers,
    "ways": ways,
    "verifying": verifying,
    "latency": latency,
    "opening": opening,
    "parts": parts,
    "language": language,
    "writing": writing,
    "pipeline": pipeline,
    "sizes": sizes,
    "batch_sizes": scaling.measure,
    "object_cache": object_cache,
    "crops": crops,
    "small_tables": small_tables,
    "frameworks": frameworks.measure,
    "pictures": image_decoding.measure,
    "compression": compression.measure,
    "conversion": conversion.measure,
    "store": object_store.measure,
}
