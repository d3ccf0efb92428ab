"""What a mixture of two sources can do, tried: UniRecord, Megatron-Energon and MosaicML Streaming, as a table.

python benchmarks/mixtures_tried.py [--folder DIR]

Each row of the sources is a text that names it. A job has ranks, which are processes, and workers of each; what its
ranks are given is written down, and a second job goes on from the states of the first one. Cells are what came of it:
rows that are missing in an epoch, rows that came again, how far a share was off, or the error. A peer that cannot be
imported is left out.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import io
import multiprocessing
import os
import pickle
import socket
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mixtures import BUFFER, METADATASET, SHARDS, WEIGHTS, prepare_energon

import unirecord

# Neither 2 nor 3 ranks divide their sum.
ROWS = {"web": 3503, "books": 1500}
FEW = {"web": 3503, "books": 300}
BATCH, DRAWS, STEPS, SECONDS = 8, 5000, 61, 120

Names = list[str]


@dataclass(frozen=True)
class Job:
    """What is run: so many `draws` by weight, or an epoch in which every row is to come once, `weighted` or not."""

    ranks: int = 1
    workers: int = 2
    draws: int | None = None
    weighted: bool = False
    # Stops behind so many steps.
    steps: int | None = None
    states: tuple[Any, ...] = ()


@dataclass
class Came:
    """The samples of each rank, and the states behind them."""

    ranks: list[Names]
    states: tuple[Any, ...]

    def together(self) -> Names:
        """In the order of steps: a batch of each rank in turn."""
        longest = max(map(len, self.ranks))
        return [
            name
            for start in range(0, longest, BATCH)
            for names in self.ranks
            for name in names[start : start + BATCH]
        ]


class UniRecord:
    """By its defaults."""

    title, module, version = "UniRecord", "unirecord", "unirecord"

    @staticmethod
    def write(folder: Path, rows: dict[str, int]) -> None:
        for source, count in rows.items():
            with unirecord.Writer(folder / f"{source}.urec", {"text": "string"}) as writer:
                writer.write_batch({"text": [f"{source} {row}" for row in range(count)]})

    @staticmethod
    def mixture(folder: Path, job: Job, rank: int = 0) -> unirecord.UniRecordDataset:
        sources = {
            source: unirecord.UniRecordDataset(
                folder / f"{source}.urec", rank, job.ranks, shuffle=True, remainder="uneven"
            )
            for source in WEIGHTS
        }
        if job.draws:
            return unirecord.mix(sources, WEIGHTS, samples=job.draws)
        return unirecord.mix(sources, WEIGHTS if job.weighted else None, stop="all", repeat=1)

    @classmethod
    def run(cls, folder: Path, job: Job, rank: int) -> tuple[Names, Any]:
        loader = cls.mixture(folder, job, rank).batches(BATCH, num_threads=job.workers)
        if job.states:
            # One state is every rank's.
            loader.load_state_dict(job.states[0])
        return taken((batch["text"] for batch in loader), job), loader.state_dict()


class Energon:
    """A blend by weights, or an epochized one, which its guide has for epochs; ranks by its `WorkerConfig`."""

    title, module, version = "Megatron-Energon", "megatron.energon", "megatron-energon"

    @staticmethod
    def write(folder: Path, rows: dict[str, int]) -> None:
        for source, count in rows.items():
            (folder / source).mkdir()
            for shard in range(SHARDS):
                with tarfile.open(folder / source / f"{shard:03}.tar", "w") as tar:
                    for row in range(count * shard // SHARDS, count * (shard + 1) // SHARDS):
                        text = f"{source} {row}".encode()
                        entry = tarfile.TarInfo(f"{row:08}.txt")
                        entry.size = len(text)
                        tar.addfile(entry, io.BytesIO(text))
        prepare_energon(folder, ("--sample-type", "TextSample", "--field-map", '{"text": "txt"}'))
        for kind, key in (("blend", "weight"), ("blend_epochized", "repetitions")):
            parts = "".join(
                f"      - {{{key}: {weight if key == 'weight' else 1}, path: ./{source}}}\n"
                for source, weight in WEIGHTS.items()
            )
            (folder / f"{kind}.yaml").write_text(f"{METADATASET}    {kind}:\n{parts}")

    @staticmethod
    def loader(folder: Path, job: Job, rank: int) -> Any:
        peer = importlib.import_module("megatron.energon")
        ds = peer.get_train_dataset(
            folder / f"{'blend' if job.draws or job.weighted else 'blend_epochized'}.yaml",
            batch_size=BATCH,
            shuffle_buffer_size=BUFFER,
            max_samples_per_sequence=BUFFER,
            worker_config=peer.WorkerConfig(rank=rank, world_size=job.ranks, num_workers=job.workers),
            repeat=bool(job.draws),
        )
        return peer.get_savable_loader(ds)

    @classmethod
    def run(cls, folder: Path, job: Job, rank: int) -> tuple[Names, Any]:
        loader = cls.loader(folder, job, rank)
        if job.states:
            loader.restore_state_rank(job.states[rank])
        return taken((batch.text for batch in loader), job), loader.save_state_rank()

    @staticmethod
    def shared_out(states: tuple[Any, ...], ranks: int) -> tuple[Any, ...]:
        """What `energon checkpoint redist` makes of the states."""
        torch = importlib.import_module("torch")
        with tempfile.TemporaryDirectory() as name:
            files = [str(Path(name) / f"rank{rank}.pth") for rank in range(len(states))]
            for file, state in zip(files, states, strict=True):
                torch.save(state, file)
            command = [str(Path(sys.executable).parent / "energon"), "checkpoint", "redist"]
            command += ["--new-world-size", str(ranks), *files, f"{name}/new"]
            # It does not make the folder by itself.
            Path(name, "new").mkdir()
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(done.stderr.strip().splitlines()[-1])
            made = [f"{name}/new/rank{rank}.pth" for rank in range(ranks)]
            return tuple(torch.load(file, weights_only=False) for file in made)


class MosaicML:
    """Streams, by proportion or each repeated once."""

    title, module, version = "MosaicML Streaming", "streaming", "mosaicml-streaming"

    @staticmethod
    def write(folder: Path, rows: dict[str, int]) -> None:
        peer = importlib.import_module("streaming")
        for source, count in rows.items():
            with peer.MDSWriter(
                out=str(folder / source), columns={"text": "str"}, size_limit=1 << 13
            ) as writer:
                for row in range(count):
                    writer.write({"text": f"{source} {row}"})

    @staticmethod
    def run(folder: Path, job: Job, rank: int) -> tuple[Names, Any]:
        peer = importlib.import_module("streaming")
        total = sum(WEIGHTS.values())
        streams = []
        for source, weight in WEIGHTS.items():
            shares = {"proportion": weight / total} if job.draws or job.weighted else {}
            once: dict[str, Any] = {} if job.draws else {"repeat": 1}
            streams.append(peer.Stream(local=str(folder / source), **shares, **once))
        ds = peer.StreamingDataset(streams=streams, shuffle=True, batch_size=BATCH, epoch_size=job.draws)
        loader = peer.StreamingDataLoader(ds, batch_size=BATCH, num_workers=job.workers)
        if job.states:
            loader.load_state_dict(job.states[0])
        return taken((batch["text"] for batch in loader), job), loader.state_dict()


ENTRANTS = (UniRecord, Energon, MosaicML)


def taken(batches: Iterator[Names], job: Job) -> Names:
    """The names in batches, as far as the job goes."""
    names: Names = []
    for step, batch in enumerate(batches, 1):
        names += batch
        if step == job.steps or (job.draws and len(names) >= job.draws):
            break
    return names


def of_rank(entrant: Any, folder: Path, job: Job, rank: int, port: int, where: Path) -> None:
    """A rank's process: its samples and its state, or what went wrong, into a file."""
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(job.ranks), "LOCAL_RANK": str(rank)}
    os.environ |= {"LOCAL_WORLD_SIZE": str(job.ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    try:
        answer: Any = entrant.run(folder, job, rank)
    except Exception as error:
        answer = error
    try:
        content = pickle.dumps(answer)
    except Exception:
        content = pickle.dumps(RuntimeError(f"{type(answer).__name__}: {answer}"))
    where.write_bytes(content)


def run(entrant: Any, folder: Path, job: Job) -> Came:
    """All ranks of a job, each a process."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with tempfile.TemporaryDirectory() as name:
        files = [Path(name) / str(rank) for rank in range(job.ranks)]
        processes = [
            multiprocessing.get_context("fork").Process(
                target=of_rank, args=(entrant, folder, job, rank, port, file)
            )
            for rank, file in enumerate(files)
        ]
        for process in processes:
            process.start()
        until = time.monotonic() + SECONDS
        for process in processes:
            process.join(max(0, until - time.monotonic()))
        late = [process for process in processes if process.is_alive()]
        for process in late:
            process.kill()
            process.join()
        answers = [pickle.loads(file.read_bytes()) for file in files if file.exists()]
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    if late or len(answers) < job.ranks:
        raise TimeoutError(f"not done after {SECONDS} s")
    return Came([names for names, _ in answers], tuple(state for _, state in answers))


def epoch(came: Counter[str], rows: dict[str, int]) -> str:
    """Whether every row came once."""
    whole = {f"{source} {row}" for source, count in rows.items() for row in range(count)}
    again, missing = sum(came.values()) - len(came), len(whole - set(came))
    if again or missing:
        return f"{missing:,} of {len(whole):,} rows missing, {again:,} again"
    return f"yes, {len(whole):,} of {len(whole):,}"


def once(entrant: Any, folder: Path) -> str:
    """An epoch of two ranks."""
    return epoch(Counter(run(entrant, folder, Job(ranks=2)).together()), ROWS)


def share(entrant: Any, folder: Path) -> str:
    """The largest distance of a source from its share at any prefix."""
    web = off = 0.0
    for count, name in enumerate(run(entrant, folder, Job(draws=DRAWS)).together(), 1):
        web += name.startswith("web")
        off = max(off, abs(web - count * WEIGHTS["web"] / sum(WEIGHTS.values())))
    return f"{off:.1f} samples"


def distinct(entrant: Any, folder: Path) -> str:
    """How many rows came in as many draws as rows."""
    return f"{len(set(run(entrant, folder, Job(draws=DRAWS)).together())):,} of {DRAWS:,}"


def ends(entrant: Any, folder: Path) -> str:
    """How often rows of a source come that is too small for its share."""
    came = Counter(run(entrant, folder, Job(draws=DRAWS)).together())
    times = [came[f"books {row}"] for row in range(FEW["books"])]
    return f"{min(times)} to {max(times)} times, {sum(times):,} in all"


def left_out(entrant: Any, folder: Path) -> str:
    """An epoch by weights in which no source is repeated."""
    names = run(entrant, folder, Job(weighted=True)).together()
    front = sum(name.startswith("books") for name in names[:900])
    return f"{epoch(Counter(names), FEW)}; {front} of the first 900"


def resumed(ranks: int, workers: int) -> Callable[[Any, Path], str]:
    """Part of an epoch by two ranks of two workers, and the rest by so many."""

    def rest(entrant: Any, folder: Path) -> str:
        begun = run(entrant, folder, Job(ranks=2, steps=STEPS))
        states = begun.states
        if ranks != 2 and entrant is Energon:
            states = Energon.shared_out(states, ranks)
        came = run(entrant, folder, Job(ranks=ranks, workers=workers, states=states)).together()
        if (answer := epoch(Counter(begun.together() + came), ROWS)).startswith("yes") and ranks == 2:
            same = run(entrant, folder, Job(ranks=2)).together() == begun.together() + came
            answer += ", in the same order" if same else ", in another order"
        return answer

    return rest


def asked(entrant: Any, folder: Path) -> str:
    """Which rows a step gets, without reading to there."""
    if entrant is not UniRecord:
        return "no call"
    job = Job(draws=DRAWS, ranks=2)
    order = UniRecord.mixture(folder, job).order
    taken_ms = []
    for step in range(10**9, 10**9 + 5):
        begun = time.perf_counter()
        order.rows_of(step, BATCH)
        taken_ms.append((time.perf_counter() - begun) * 1e3)
    names = order.rows_of(STEPS, BATCH, rank=0, read=True)["text"]
    assert list(names) == run(entrant, folder, job).ranks[0][STEPS * BATCH :][:BATCH]
    return f"`rows_of`, `steps_of`: {statistics.median(taken_ms):.1f} ms at step 10⁹"


TRIED: tuple[tuple[str, dict[str, int], Callable[[Any, Path], str]], ...] = (
    ("each row once in an epoch, 2 ranks", ROWS, once),
    ("farthest from 70 % at any prefix", ROWS, share),
    ("rows that came in as many draws as rows", ROWS, distinct),
    ("a source of 300 rows that is to give 1,500: each row comes", FEW, ends),
    ("it is left out once it is read, weights 70:30", FEW, left_out),
    ("an epoch goes on with the same ranks and workers", ROWS, resumed(2, 2)),
    ("with 3 workers", ROWS, resumed(2, 3)),
    ("with 3 ranks", ROWS, resumed(3, 2)),
    ("with 1 rank of 4 workers", ROWS, resumed(1, 4)),
    ("which rows a step gets, asked ahead", ROWS, asked),
)


def present() -> list[Any]:
    """Those that can be imported; the others are named."""
    found: list[Any] = []
    for entrant in ENTRANTS:
        try:
            importlib.import_module(entrant.module)
        except ImportError as error:
            print(f"{entrant.title} is left out: {error}")
        else:
            found.append(entrant)
    return found


def tried(what: Callable[[Any, Path], str], entrant: Any, folder: Path) -> str:
    """What came of it, or the error."""
    try:
        return what(entrant, folder)
    except Exception as error:
        said = " ".join(str(error).split()) or "no more is said"
        return f"refused: {type(error).__name__}: {said}"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--only", help="part of a line's name")
    args = parser.parse_args()
    entrants = present()
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folders = {}
        for entrant in entrants:
            for rows in (ROWS, FEW):
                folder = Path(name) / entrant.title / str(rows["books"])
                folder.mkdir(parents=True)
                entrant.write(folder, rows)
                folders[entrant, rows["books"]] = folder
        heads = [f"{entrant.title} {importlib.metadata.version(entrant.version)}" for entrant in entrants]
        print(f"| | {' | '.join(heads)} |\n|---{'|---' * len(heads)}|")
        for title, rows, what in TRIED:
            if args.only and args.only not in title:
                continue
            cells = [tried(what, entrant, folders[entrant, rows["books"]]) for entrant in entrants]
            print(f"| {title} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
