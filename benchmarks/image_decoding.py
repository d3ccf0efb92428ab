"""Photographs as JPEG to random crops of 224 x 224 in batches of 256: ours, a bare C loop, and what others have."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import environments
from compare import Measurement, Plan
from entrants import HERE, Field, call

ROOT = HERE.parent
SMALL = 20  # times fewer photographs


@dataclass(frozen=True)
class Photographs:
    """A set: photographs.py says how it is made."""

    name: str
    count: int
    width: int
    height: int
    bytes: int


SETS = (
    Photographs("500 x 375, 55 KB", 1000, 500, 375, 55_000),
    Photographs("500 x 375, 110 KB", 1000, 500, 375, 110_000),
    Photographs("2000 x 1500, 700 KB", 100, 2000, 1500, 700_000),
)
FLOOR = "floor: whole pictures, in C"
BESIDE = "UniRecord's unit beside the floor, processor time picture by picture"
ENTRANTS = (  # name, driver, environment
    ("UniRecord, pipeline", "unirecord_pipeline", ""),
    ("UniRecord, pipeline, auto", "unirecord_auto", ""),
    ("UniRecord, batches(transform=), simplejpeg + OpenCV", "unirecord_transform", "pictures"),
    ("DataLoader, simplejpeg + OpenCV", "dataloader", "pictures"),
    ("DataLoader, torchvision", "torchvision_loader", "torchvision"),
    ("FFCV, RandomResizedCropRGBImageDecoder", "ffcv_loader", "ffcv"),
    ("DALI on the CPU, image_random_crop", "dali", "dali"),
    ("Grain, simplejpeg + OpenCV", "grain_threads", "grain"),
    ("MindData, RandomCropDecodeResize, AutoTune", "minddata", "mindspore"),
    ("SPDL, simplejpeg + OpenCV", "spdl_threads", "pictures"),
    ("tf.data, decode_and_crop_jpeg", "tfdata", "tensorflow"),
)

OPERATORS = (  # of the pipeline suite: five operators in Python
    ("UniRecord, pipeline, auto", "operators_unirecord", "pictures"),
    ("DataLoader", "operators_dataloader", "pictures"),
    ("SPDL", "operators_spdl", "pictures"),
    ("tf.data, numpy_function, AUTOTUNE", "operators_tfdata", "tensorflow"),
    ("MindData, AutoTune", "operators_minddata", "mindspore"),
)


def build_floor(field: Field) -> str:
    """Compiles pictures_floor.c; "" or the reason it can't."""
    field.cache.mkdir(parents=True, exist_ok=True)
    csrc = ROOT / "csrc"
    parts = [
        HERE / "pictures_floor.c",
        *csrc.glob("picture/*.c"),
        *csrc.glob("picture/jpeg/*.c"),
        csrc / "base" / "fail.c",
    ]
    options = ["-std=c11", "-O3", "-pthread", f"-I{csrc}"]
    command = ["cc", *options, *map(str, parts), "-ljpeg", "-o", str(field.cache / "pictures_floor")]
    done = subprocess.run(command, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stderr.strip()[-200:]


def make(field: Field, plan: Plan, photographs: Photographs) -> tuple[Path, int, str]:
    """The folder of a set, how many they are, and "" or the reason it can't be made."""
    count = photographs.count // SMALL if plan.small else photographs.count
    folder = field.data / "photographs" / f"{photographs.width}-{photographs.bytes}-{count}"
    reason = "" if (folder / ".complete").exists() else environments.ensure(field.cache, "photographs")
    if not reason:
        words = map(str, (count, photographs.width, photographs.height, photographs.bytes))
        python = field.python("photographs") if not (folder / ".complete").exists() else field.python("")
        reason = str(call([python, str(HERE / "photographs.py"), str(folder), *words]).get("failed", ""))
    return folder, count, reason


def drivers(
    field: Field, plan: Plan, entrants: tuple[tuple[str, str, str], ...], folder: Path, threads: int
) -> Iterator[tuple[str, list[str], str]]:
    """Name, command line, and "" or why it can't run."""
    for name, driver, environment in entrants:
        if plan.only and not any(part.lower() in name.lower() for part in plan.only):
            continue
        reason = environments.ensure(field.cache, environment) if environment else ""
        task = str(HERE / "tasks" / "pictures.py")
        words = [driver, str(folder), str(threads), str(3 * plan.seconds)]
        yield name, [field.python(environment), task, *words], reason


def floors(
    field: Field, plan: Plan, folder: Path, count: int, threads: int
) -> Iterator[tuple[str, list[str], str]]:
    """The same for the bare loop in C."""
    seconds = str(3 * plan.seconds)
    files = [str(folder / "data.bin"), str(folder / "offsets.bin"), str(count), str(threads), seconds]
    floor = [str(field.cache / "pictures_floor"), *files]
    yield FLOOR, floor, build_floor(field)
    if threads == 1:
        yield BESIDE, [*floor[:4], "0", seconds], build_floor(field)


def timed(plan: Plan, place: Measurement, taking: list[tuple[str, list[str], str]]) -> Iterator[Measurement]:
    """One after the other, in a new order each round; rates include making the batch."""
    Random(plan.round).shuffle(taking)
    for name, command, absent in taking:
        measured = {"absent": absent} if absent else call(command)
        if "failed" in measured:
            measured = {"absent": measured["failed"]}
        yield {**place, "entrant": name, **measured}


def measure(field: Field, plan: Plan) -> Iterator[Measurement]:
    """Each set, on each number of threads."""
    for photographs in SETS:
        folder, count, reason = make(field, plan, photographs)
        place = {"suite": "pictures", "workload": photographs.name, "cache": "hot"}
        if reason:
            yield {**place, "entrant": "", "absent": reason}
            continue
        for threads in plan.threads:
            taking = [
                *floors(field, plan, folder, count, threads),
                *drivers(field, plan, ENTRANTS, folder, threads),
            ]
            yield from timed(plan, {**place, "threads": threads}, taking)


def operators(field: Field, plan: Plan) -> Iterator[Measurement]:
    """Five operators in Python over the first set."""
    folder, _, reason = make(field, plan, SETS[0])
    place = {"suite": "pipeline", "workload": "five operators in Python", "cache": "hot"}
    if reason:
        yield {**place, "entrant": "", "absent": reason}
        return
    for threads in plan.threads:
        taking = list(drivers(field, plan, OPERATORS, folder, threads))
        yield from timed(plan, {**place, "threads": threads}, taking)
