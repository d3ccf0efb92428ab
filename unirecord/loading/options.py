"""How batches are made, checked when a loader is made, and the sizes that follow from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from os import PathLike
from typing import Any, Final, Literal, TypedDict

from ..core import usable_cores
from ..order.spec import check_integer
from .batch import collate

__all__ = [
    "MOST_PREFETCH",
    "UNCHANGED",
    "LoaderOptions",
    "OnCorrupt",
    "ReadAhead",
    "Transform",
    "Unchanged",
    "check_callable",
    "check_on_corrupt",
]

OnCorrupt = Literal["raise", "skip"]
Transform = Callable[[Any], Any]


class Unchanged(Enum):
    """The type of ``UNCHANGED``: what stands for an option that stays as it is."""

    UNCHANGED = "as it is"

    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED: Final = Unchanged.UNCHANGED


class ReadAhead(TypedDict, total=False):
    """The options of a loader that do not change what kind of thing a batch is."""

    drop_last: bool
    prefetch: int | None
    num_threads: int | None
    num_workers: int | None
    receipts: str | PathLike[str] | None
    random: bool


MOST_PREFETCH = 4096  # batches that the C core reads ahead
_READ_AHEAD_BYTES = 32 << 20
_USUAL_PREFETCH = 16
_FETCH_AHEAD_BYTES = 256 << 20  # what 25 ms of latency take at ten gigabytes a second
_ROWS_AWAITED = 1024  # by all threads together: four times the requests that a process has in flight
_MOST_FETCHING = 32
_MOST_THREADS = 4  # memory bandwidth, not cores, is what more threads would share


@dataclass(frozen=True)
class LoaderOptions:
    """How batches are made, checked when it is made itself.

    ``transform`` gets one sample; ``collate_fn`` makes a batch of what it returns (of the samples themselves where
    there is no transform); ``batch_transform`` gets that batch, or the one that was read. ``num_workers`` are the
    threads that call them; with 0 it is the thread that asks for a batch. ``receipts`` is the folder for them.
    ``random``: ``transform`` gets a generator of the sample's own as well.
    """

    batch_size: int
    drop_last: bool = False
    prefetch: int | None = None
    num_threads: int | None = None
    transform: Transform | None = None
    collate_fn: Callable[[list[Any]], Any] | None = None
    batch_transform: Transform | None = None
    num_workers: int | None = None
    on_corrupt: OnCorrupt = "raise"
    receipts: str | PathLike[str] | None = None
    random: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "batch_size", check_integer("batch_size", self.batch_size, 1, 1 << 62))
        for name, least, most in (
            ("prefetch", 1, MOST_PREFETCH),
            ("num_threads", 1, 1024),
            ("num_workers", 0, 1024),
        ):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, check_integer(name, value, least, most))
        for name in ("transform", "collate_fn", "batch_transform"):
            check_callable(name, getattr(self, name))
        for name in ("drop_last", "random"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} must be True or False, got {getattr(self, name)!r}")
        if self.random and self.transform is None:
            raise ValueError(
                "random=True gives a generator to the transform, and there is none: give transform="
            )
        check_on_corrupt(self.on_corrupt)

    @property
    def changes_batches(self) -> bool:
        """Whether what is read is given on as something else."""
        return any(f is not None for f in (self.transform, self.collate_fn, self.batch_transform))

    def collate(self, samples: list[Any]) -> Any:
        """Samples as one batch."""
        return (self.collate_fn or collate)(samples)

    def prefetch_for(self, row_bytes: float, fetched: bool = False) -> int:
        """Batches to keep ready: as asked, or as many small ones as fit into a fixed amount of memory.

        ``fetched``: of what comes from an object store, after some time.
        """
        if self.prefetch is not None:
            return self.prefetch
        bound = _FETCH_AHEAD_BYTES if fetched else _READ_AHEAD_BYTES
        fitting = int(bound / max(1.0, row_bytes * self.batch_size))
        return max(2, min(_MOST_FETCHING if fetched else _USUAL_PREFETCH, fitting))

    def threads(self, fetched: bool = False) -> int:
        """Reading threads: as asked, or one per usable core, up to four; or as many as wait for many rows at once."""
        if self.num_threads:
            return self.num_threads
        if fetched:
            return max(2, min(_MOST_FETCHING, -(-_ROWS_AWAITED // self.batch_size)))
        return max(1, min(_MOST_THREADS, usable_cores()))

    def workers(self) -> int:
        """Transforming threads: as asked, or one per usable core."""
        return usable_cores() if self.num_workers is None else self.num_workers


def check_callable(name: str, value: object, needed: bool = False) -> None:
    """Refuses what cannot be called, when it is given and not when it is first needed; None unless it is needed."""
    if (value is not None or needed) and not callable(value):
        raise TypeError(f"{name} must be a function, got {value!r}")


def check_on_corrupt(value: object) -> None:
    """Refuses any but the two ways of treating corrupt rows."""
    if value not in ("raise", "skip"):
        raise ValueError(f'on_corrupt must be "raise" or "skip", got {value!r}')
