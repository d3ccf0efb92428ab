"""Pictures with captions of two sources, mixed 70:30: samples a second beside Megatron-Energon and MosaicML Streaming.

python benchmarks/mixtures.py [--pictures N] [--seconds S] [--rounds N] [--workers N] [--folder DIR]

The pictures are made: 400 x 300 pixels of noise whose spectrum is that of photographs, as JPEG of 0.57 bytes a pixel,
which ImageNet's have. A sample is a random-resized crop of 224 with a flip, and the caption; batches of 64, shuffled.
"guide": float32, channels first, as the peers' own pages set it up: Energon decodes to tensors, which torchvision
crops; MosaicML's pictures are cropped by torchvision and become tensors; ours are of `images.Decode`. "Pillow": one
function decodes and crops for all, to uint8. "decoded": uint8, ours of `images.Decode`, theirs as for "Pillow".
All have as many workers, and take turns: medians of the rounds, and of the quotients of each round. The time of the
processors is that of this process and its workers, which says more where others use the machine as well. A peer that
cannot be imported is left out.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import io
import multiprocessing
import operator
import os
import random
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import unirecord

WIDTH, HEIGHT, SIDE, BATCH = 400, 300, 224, 64
WEIGHTS = {"web": 7, "books": 3}
# What Energon's guide has.
BUFFER = 100
SHARDS = 8
# Batches that are not counted: workers start, and have made some ahead when the clock starts.
WARM = 8
FEWEST = 10
# No pass ends while it is timed.
LONG = 1_000_000

Batches = Iterator[Any]
# Source, row, picture and caption.
Samples = Iterable[tuple[str, int, bytes, str]]
Draw = Callable[[], float]


def picture(number: int) -> bytes:
    """JPEG of noise whose amplitudes fall with the frequency, in channels that are much alike, as of photographs."""
    rng = np.random.default_rng(number)
    frequency = np.hypot(np.fft.fftfreq(HEIGHT)[:, None], np.fft.rfftfreq(WIDTH)[None])
    frequency[0, 0] = np.inf
    noise = rng.normal(size=(HEIGHT, WIDTH, 1)) + 0.3 * rng.normal(size=(HEIGHT, WIDTH, 3))
    spectrum = np.fft.rfft2(noise, axes=(0, 1)) / frequency[..., None] ** 1.1
    waves = np.fft.irfft2(spectrum, (HEIGHT, WIDTH), axes=(0, 1))
    pixels = np.clip(waves / waves.std() * 50 + 120, 0, 255).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=90)
    return file.getvalue()


def samples(pictures: int) -> Samples:
    """Of each source as many as its weight says."""
    number = 0
    for source, weight in WEIGHTS.items():
        for row in range(pictures * weight // sum(WEIGHTS.values())):
            yield source, row, picture(number), f"picture {row} of {source}, and what is to be seen there"
            number += 1


def cropped(file: Any, draw: Draw = random.random) -> NDArray[np.uint8]:
    """What Pillow decodes of an open picture: a random-resized crop and a flip, as torchvision draws them."""
    image = file.convert("RGB")
    for _ in range(10):
        area = image.width * image.height * (0.08 + 0.92 * draw())
        ratio = (3 / 4) * (16 / 9) ** draw()
        wide, high = round((area * ratio) ** 0.5), round((area / ratio) ** 0.5)
        if wide <= image.width and high <= image.height:
            break
    else:
        wide = high = min(image.size)
    left, top = int(draw() * (image.width - wide + 1)), int(draw() * (image.height - high + 1))
    box = (left, top, left + wide, top + high)
    pixels = np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BILINEAR, box))
    return pixels[:, :: -1 if draw() < 0.5 else 1].copy()


@functools.cache
def of_torchvision(*more: str) -> Any:
    """The same as torchvision does it, and what comes behind."""
    transforms = importlib.import_module("torchvision.transforms")
    steps = [transforms.RandomResizedCrop((SIDE, SIDE)), transforms.RandomHorizontalFlip()]
    return transforms.Compose(steps + [getattr(transforms, name)() for name in more])


def ours(folder: Path, how: str, workers: int) -> Batches:
    """A pipeline behind `unirecord.mix`."""
    sources = {name: unirecord.UniRecordDataset(folder / f"{name}.urec", shuffle=True) for name in WEIGHTS}
    pipeline = unirecord.mix(sources, WEIGHTS, samples=LONG).pipeline(cpus=workers)
    if how == "Pillow":
        pipeline = pipeline.map(
            lambda data, rng: cropped(Image.open(io.BytesIO(data)), rng.random),
            columns=["image"],
            random=True,
        )
    else:
        form: dict[str, Any] = {"dtype": "float32", "layout": "chw"} if how == "guide" else {}
        decode = unirecord.images.Decode(SIDE, "random-resized", flip=0.5, **form)
        pipeline = pipeline.map(decode, columns=["image"])
    return (batch["image"] for batch in pipeline.batch(BATCH))


def write_ours(folder: Path, made: Samples) -> None:
    """A file for each source."""
    writers = {
        name: unirecord.Writer(folder / f"{name}.urec", {"image": "bytes", "caption": "string"})
        for name in WEIGHTS
    }
    for source, _, data, caption in made:
        writers[source].write({"image": data, "caption": caption})
    for writer in writers.values():
        writer.close()


def energon(folder: Path, how: str, workers: int) -> Batches:
    """A blend, with the task encoder of its guide, or one that calls our function of Pillow."""
    peer = importlib.import_module("megatron.energon")
    from_numpy = importlib.import_module("torch").from_numpy

    class Encoder(peer.DefaultTaskEncoder):
        decoder = peer.SampleDecoder(image_decode="torchrgb" if how == "guide" else "pil")

        def encode_sample(self, sample: Any) -> Any:
            image = sample.image
            sample.image = of_torchvision()(image) if how == "guide" else from_numpy(cropped(image))
            return sample

    config = peer.WorkerConfig(rank=0, world_size=1, num_workers=workers)
    ds = peer.get_train_dataset(
        folder / "blend.yaml",
        batch_size=BATCH,
        shuffle_buffer_size=BUFFER,
        max_samples_per_sequence=BUFFER,
        worker_config=config,
        task_encoder=Encoder(),
    )
    return (batch.image for batch in peer.get_loader(ds))


def write_energon(folder: Path, made: Samples) -> None:
    """Tar files and what `energon prepare` makes of them, and the blend."""
    with contextlib.ExitStack() as stack:
        tars: dict[Path, tarfile.TarFile] = {}
        for source, row, data, caption in made:
            shard = folder / source / f"{row % SHARDS:03}.tar"
            if shard not in tars:
                shard.parent.mkdir(exist_ok=True)
                tars[shard] = stack.enter_context(tarfile.open(shard, "w"))
            for kind, content in (("jpg", data), ("txt", caption.encode())):
                entry = tarfile.TarInfo(f"{row:08}.{kind}")
                entry.size = len(content)
                tars[shard].addfile(entry, io.BytesIO(content))
    prepare_energon(folder, ("--sample-type", "CaptioningSample", "--field-map", FIELDS))
    blend = "".join(f"      - {{weight: {weight}, path: ./{name}}}\n" for name, weight in WEIGHTS.items())
    (folder / "blend.yaml").write_text(f"{METADATASET}    blend:\n{blend}")


FIELDS = '{"image": "jpg", "caption": "txt"}'
METADATASET = "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n"


def prepare_energon(folder: Path, options: tuple[str, ...]) -> None:
    """Runs its command on the folder of each source."""
    for name in WEIGHTS:
        command = [str(Path(sys.executable).parent / "energon"), "prepare", str(folder / name)]
        command += ["--non-interactive", "--no-progress", "--split-ratio", "1,0,0", *options]
        subprocess.run(command, check=True, capture_output=True)


def mosaicml(folder: Path, how: str, workers: int) -> Batches:
    """Streams by proportion, in a dataset with a transform as its guide has, behind a DataLoader."""
    peer = importlib.import_module("streaming")

    class Captions(peer.StreamingDataset):  # type: ignore[misc]
        def __getitem__(self, number: int) -> Any:
            sample = super().__getitem__(number)
            crop = of_torchvision("ToTensor") if how == "guide" else cropped
            return crop(sample["image"]), sample["caption"]

    total = sum(WEIGHTS.values())
    streams = [
        peer.Stream(local=str(folder / name), proportion=weight / total) for name, weight in WEIGHTS.items()
    ]
    ds = Captions(streams=streams, shuffle=True, batch_size=BATCH, epoch_size=LONG)
    return (batch[0] for batch in peer.StreamingDataLoader(ds, batch_size=BATCH, num_workers=workers))


def write_mosaicml(folder: Path, made: Samples) -> None:
    """Shards of each source."""
    peer = importlib.import_module("streaming")
    columns = {"image": "jpeg", "caption": "str"}
    writers = {name: peer.MDSWriter(out=str(folder / name), columns=columns) for name in WEIGHTS}
    for source, _, data, caption in made:
        # A picture that comes from a file is stored as it is.
        (folder / "one.jpg").write_bytes(data)
        writers[source].write({"image": Image.open(folder / "one.jpg"), "caption": caption})
    for writer in writers.values():
        writer.finish()


@dataclass(frozen=True)
class Entrant:
    """Who takes part: how its data are written, and its batches."""

    name: str
    module: str
    write: Callable[[Path, Samples], None]
    batches: Callable[[Path, str, int], Batches]


ENTRANTS = (
    Entrant("UniRecord", "unirecord", write_ours, ours),
    Entrant("Megatron-Energon", "megatron.energon", write_energon, energon),
    Entrant("MosaicML Streaming", "streaming", write_mosaicml, mosaicml),
)
FORMS = {
    "guide": ((BATCH, 3, SIDE, SIDE), "float32"),
    "decoded": ((BATCH, SIDE, SIDE, 3), "uint8"),
    "Pillow": ((BATCH, SIDE, SIDE, 3), "uint8"),
}


def processor_seconds() -> float:
    """What this process and its workers have taken."""
    ticks = 0
    for child in multiprocessing.active_children():
        # Behind the name, which may hold blanks: state and ten numbers, then user and system time.
        stat = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(stat[11]) + int(stat[12])
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def measured(batches: Batches, how: str, seconds: float) -> tuple[float, float]:
    """Samples a second, and a second of the processors; the form of a batch is looked at."""
    for _ in range(WARM):
        batch = next(batches)
    assert (tuple(batch.shape), str(batch.dtype).removeprefix("torch.")) == FORMS[how]
    count, begun, processor = 0, time.perf_counter(), processor_seconds()
    while time.perf_counter() - begun < seconds or count < FEWEST * BATCH:
        count += len(next(batches))
    return count / (time.perf_counter() - begun), count / (processor_seconds() - processor)


def present() -> list[Entrant]:
    """Those that can be imported; the others are named."""
    found = []
    for entrant in ENTRANTS:
        try:
            importlib.import_module(entrant.module)
        except ImportError as error:
            print(f"{entrant.name} is left out: {error}")
        else:
            found.append(entrant)
    return found


def main() -> None:
    """Prints a line for each form and entrant."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pictures", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=4.0, help="of a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", type=Path)
    args = parser.parse_args()
    entrants = present()
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        made = list(samples(args.pictures))
        print(f"{len(made)} pictures of {statistics.fmean(len(data) for _, _, data, _ in made):,.0f} bytes")
        folders = {entrant.name: Path(name) / entrant.name for entrant in entrants}
        for entrant in entrants:
            folders[entrant.name].mkdir()
            entrant.write(folders[entrant.name], made)
        del made
        print("\n| | | samples/s | UniRecord / this | a second of the processors | UniRecord / this |")
        print("|---|---|---:|---:|---:|---:|")
        for how in FORMS:
            found: dict[str, list[tuple[float, float]]] = {entrant.name: [] for entrant in entrants}
            for _ in range(args.rounds):
                for entrant in entrants:
                    batches = entrant.batches(folders[entrant.name], how, args.workers)
                    found[entrant.name].append(measured(batches, how, args.seconds))
                    del batches
            for entrant_name, rounds in found.items():
                cells = []
                for theirs, of_ours in zip(
                    zip(*rounds, strict=True), zip(*found["UniRecord"], strict=True), strict=True
                ):
                    times = statistics.median(map(operator.truediv, of_ours, theirs))
                    cells.append(f"{statistics.median(theirs):,.0f} | {times:.1f}")
                print(f"| {how} | {entrant_name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
