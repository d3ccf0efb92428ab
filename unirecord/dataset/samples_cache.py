"""A cache of samples that grows while a job trains: producers add parts, each epoch takes those that are there.

Each part is a file that is published by one rename, so producers need nothing of each other. Only the trainer removes
parts, between two epochs: those of an epoch are there until it ends, and until it is resumed.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from ..core import end_with_parent
from ..errors import BusyError, ClosedError, StaleError, UniRecordError
from ..order.randomness import seed_globals
from ..sizes import many, parse_size
from ..storage.claim import lock
from ..storage.own_directory import SamplesFolder, own_directory, own_file
from ..writing.writer import Writer
from .dataset import UniRecordDataset

__all__ = [
    "Producing",
    "Remote",
    "SamplesCache",
    "samples_cache",
]


# What the producers of a cache of samples do: take records from the user's function, and publish parts of them.


Remote = Callable[[int, int], Iterable[Mapping[str, Any]]]

_LOOK_SECONDS: Final = 0.02  # after which a producer without room looks again
_NUMBER: Final = 8  # bytes that a number takes, about


@dataclass(frozen=True)
class Producing:
    """What one producer does, in a process of its own: ``remote(producer, producers)`` gives its records."""

    remote: Remote
    folder: SamplesFolder
    schema: Mapping[str, Any]
    producer: int
    producers: int

    def __call__(self) -> None:
        end_with_parent()  # a part that is half written goes when the next trainer comes
        seed_globals(
            int.from_bytes(os.urandom(8), "little")
        )  # what it made before it was started again comes no second time
        records = iter(self.remote(self.producer, self.producers))
        while (first := next(records, None)) is not None:
            self._wait_for_room()
            name = f"samples-{time.time_ns():020d}-{self.producer:04d}.urec"
            with Writer(os.path.join(self.folder.path, name), self.schema) as writer:
                size = 0
                record: Mapping[str, Any] | None = first
                while record is not None:
                    writer.write(record)
                    size += sum(map(_bytes_of, record.values()))
                    record = next(records, None) if size < self.folder.part_bytes else None

    def _wait_for_room(self) -> None:
        """All producers may be about to write a part."""
        while self.folder.used() + 2 * self.producers * self.folder.part_bytes > self.folder.limit:
            time.sleep(_LOOK_SECONDS)


def _bytes_of(value: Any) -> int:
    size = getattr(value, "nbytes", None)
    if size is None:
        size = len(value) if isinstance(value, bytes | bytearray | str) else _NUMBER
    return int(size)


_LOCK: Final = "trainer.lock"
_PARTS: Final = 16  # that a cache consists of at least, so that little is evicted at a time
_STATE: Final = {"parts", "epoch", "dataset"}


class SamplesCache:
    """What ``samples_cache`` makes: a context manager, whose producers run until it is closed."""

    def __init__(
        self, folder: SamplesFolder, work: Sequence[Producing], context: str, options: Mapping[str, Any]
    ) -> None:
        self._folder, self._options = folder, dict(options)
        path = os.path.join(folder.path, _LOCK)
        self._lock = own_file(path, os.O_RDWR | os.O_CREAT)
        if lock(self._lock, path) is False:
            raise BusyError(f"{folder.path}: another trainer that is alive uses this cache of samples")
        folder.clear_unfinished()
        self._epoch = -1
        self._names: list[str] = []
        self._dataset: UniRecordDataset[Any] | None = None
        self._resumed: Mapping[str, Any] | None = None
        self._closed = False
        start: Any = multiprocessing.get_context(context)
        self._room = 3 * len(work) * folder.part_bytes  # for what producers add in an epoch, at the least
        self._producers = [start.Process(target=of, daemon=True) for of in work]
        for producer in self._producers:
            producer.start()

    def next_epoch(self) -> UniRecordDataset[Any]:
        """The samples that are there, in the order of the next epoch; waits until there are any.

        The dataset of the epoch before is closed, and the oldest parts go where producers have no room. After
        ``load_state_dict``, the rest of the epoch that the state is of.

        Raises:
            UniRecordError: a producer has failed, or all have ended without a sample.
            StaleError: parts of the resumed epoch have gone.
        """
        if self._closed:
            raise ClosedError("the cache of samples has been closed")
        self._check_producers()
        self._close_dataset()
        if self._resumed is not None:
            state, self._resumed = self._resumed, None
            self._open(int(state["epoch"]), list(state["parts"]))
            assert self._dataset is not None
            self._dataset.load_state_dict(state["dataset"])
            return self._dataset
        self._folder.evict(self._room)
        while not (names := self._folder.names()):
            self._check_producers()
            if not any(producer.is_alive() for producer in self._producers) and not self._folder.names():
                raise UniRecordError(f"{self._folder.path}: no producer has given a sample")
            time.sleep(_LOOK_SECONDS)
        return self._open(self._epoch + 1, names)

    def _open(self, epoch: int, names: list[str]) -> UniRecordDataset[Any]:
        gone = sorted(set(names) - set(self._folder.names()))
        if gone:
            raise StaleError(
                f"{self._folder.path}: {many(len(gone), 'part')} of epoch {epoch} have been evicted "
                f"since, {gone[0]} first: "
                "an epoch can be resumed until the one after it has begun"
            )
        paths = [os.path.join(self._folder.path, name) for name in names]
        self._dataset = UniRecordDataset(paths, **self._options)
        self._dataset.set_epoch(epoch)
        self._epoch, self._names = epoch, names
        return self._dataset

    def _check_producers(self) -> None:
        for number, producer in enumerate(self._producers):
            if producer.exitcode:
                raise UniRecordError(f"{self._folder.path}: producer {number} {_ended(producer.exitcode)}")

    @property
    def bytes(self) -> int:
        """Bytes of all files of the cache, those of parts that are being written too."""
        return self._folder.used()

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the parts of the current epoch, oldest first."""
        return tuple(self._names)

    def state_dict(self) -> dict[str, Any]:
        """Where the current epoch stands, and which parts it is of. ValueError before the first one."""
        if self._dataset is None:
            raise ValueError("no epoch has begun: next_epoch() begins one")
        return {"epoch": self._epoch, "parts": list(self._names), "dataset": self._dataset.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes ``next_epoch`` give the rest of the epoch in which ``state`` was taken."""
        if set(state) != _STATE:
            raise ValueError(f"this is no state of a cache of samples: it has {sorted(state)}")
        self._resumed = state

    def _close_dataset(self) -> None:
        if self._dataset is not None:
            self._dataset.close()
            self._dataset = None

    def close(self) -> None:
        """Ends the producers, and closes the current dataset; what is there stays for the next job."""
        if self._closed:
            return
        self._closed = True
        self._close_dataset()
        for producer in self._producers:
            producer.terminate()
        for producer in self._producers:
            producer.join()
        self._folder.clear_unfinished()
        self._lock.close()

    def __enter__(self) -> SamplesCache:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _ended(exitcode: int) -> str:
    """How a process ended: by an exception, or by a signal, of which it could say nothing."""
    if exitcode > 0:
        return f"has ended with exit code {exitcode}; what it raised stands in the output of this process"
    try:
        name = signal.Signals(-exitcode).name
    except ValueError:
        name = f"signal {-exitcode}"
    often = " (where memory ran out, the kernel does so)" if name == "SIGKILL" else ""
    return f"was killed by {name}{often}"


def samples_cache(
    remote: Remote,
    dir: str | os.PathLike[str],
    bytes: int | str,
    policy: Literal["grow"] = "grow",
    *,
    schema: Mapping[str, Any],
    producers: int = 1,
    start_method: str = "spawn",
    **options: Any,
) -> SamplesCache:
    """Samples that producers fetch or compute while a job trains on those that are there: docs/storage.md.

    Args:
        remote: called as ``remote(producer, producers)`` in each producer's process, gives records, with or without an
            end; picklable.
        dir: a directory on a local disk, made if need be; what is there from before is used.
        bytes: what the cache takes of the disk, as ``"300GB"``. A part of it, an eighth, is room to write.
        policy: ``"grow"``: parts are added until there is no room, then the oldest ones go between two epochs.
        schema: of the records (docs/schema.md).
        producers: processes that call ``remote``.
        start_method: how they are started: ``"spawn"``, ``"forkserver"`` or ``"fork"``.
        **options: of ``UniRecordDataset``, such as ``shuffle=True, seed=1``.

    Raises:
        BusyError: another trainer uses the directory.
        ValueError, TypeError: a wrong argument.
    """
    if not callable(remote):
        raise TypeError(
            f"remote is a function that is called as remote(producer, producers) and gives records, not {remote!r}; "
            "rows of a dataset in an object store are kept by UniRecordDataset(..., cache=, cache_bytes=)"
        )
    if policy != "grow":
        raise ValueError(f'policy is {policy!r}; there is "grow"')
    if producers < 1:
        raise ValueError(f"producers is {producers}; expected 1 or more")
    limit = parse_size(bytes)
    path = os.path.abspath(os.fspath(dir))
    own_directory(path)
    folder = SamplesFolder(path, limit, max(limit // (_PARTS * producers), 1))
    work = [Producing(remote, folder, dict(schema), i, producers) for i in range(producers)]
    return SamplesCache(folder, work, start_method, options)
