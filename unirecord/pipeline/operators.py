"""The operators of a pipeline as values: what the user asked for, checked when it was asked, and what one may be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..core import cached_property, has_gil
from ..errors import UniRecordError
from ..order.spec import check_integer

__all__ = [
    "InPlace",
    "InPlaceTogether",
    "Kind",
    "Operator",
    "SkipSample",
    "Threads",
    "function_name",
]


# What an operator of a pipeline may be beside a plain function: one that writes in place, or leaves samples out.


class SkipSample(UniRecordError):
    """Raised by an operator: leave this sample out. It is counted, and named with the message in the log."""


@runtime_checkable
class InPlace(Protocol):
    """An operator on one column whose results all have one dtype and shape, and which writes each into given memory.

    ``pipeline.map(operator, columns=[name])`` followed by ``batch`` gives it the sample's slot of the batch, so that
    nothing is copied; else the slot is an array of the sample's own. ``into`` is called by several threads at once, and
    should release the GIL for most of its time.

    Attributes:
        dtype, shape: of one result.
        random: whether results depend on ``key``.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    random: bool

    def into(self, cell: NDArray[np.uint8], out: NDArray[Any], key: int) -> str | None:
        """Writes the result for one sample; a text says that it only stands in for it, and why: it goes to the log.

        Args:
            cell: the stored bytes, uint8[n], read-only or not; good until the call returns.
            out: the slot, C-contiguous, of ``dtype`` and ``shape``; it holds what an earlier batch left there.
            key: 64 bits mixed from seed, epoch, row, draw and the operator's number; the same for a sample wherever and
                whenever it is made. 0 where ``random`` is False.

        Raises:
            SkipSample: leave the sample out.
            UniRecordError: the cell is broken; the error reaches the user with the row and its part.
        """


@runtime_checkable
class InPlaceTogether(InPlace, Protocol):
    """One that writes several results in one call, so that no Python runs between them."""

    def into_each(
        self, cells: Sequence[NDArray[np.uint8]], outs: Sequence[NDArray[Any]], keys: Sequence[int]
    ) -> Sequence[int]:
        """Does what ``into`` does for each of several samples.

        Args:
            cells: the stored bytes of each.
            outs: the slot of each.
            keys: 64 bits for each.

        Returns:
            The numbers of those for which ``into`` is called after all. It raises nothing: what is wrong with one of
            them is for ``into`` to say.
        """


# The operators of a pipeline as values: what the user asked for, checked when it was asked.


Kind = Literal[
    "map", "filter", "where", "flat_map", "select", "batch", "unbatch", "map_batch", "prefetch", "device"
]
Threads = int | Literal["auto"]

_ON_SAMPLES = {"map", "filter", "where", "flat_map", "select", "batch"}
_ON_BATCHES = {"map_batch", "unbatch", "device"}


@dataclass(frozen=True)
class Operator:
    """One call of a method of a pipeline.

    ``fn`` is what is called; ``columns`` are what it gets, and gives: None means the whole sample or batch.
    ``threads`` is a number or "auto", ``processes`` 0 for threads. ``random`` is 0, or the operator's number among the
    random ones, from 1. ``size`` is that of a batch, or of a prefetch; ``condition`` the text of a "where".
    ``gathered`` (of a batch): it is of samples as they are stored, and has the forms that ``ds.batches`` gives them.
    """

    kind: Kind
    name: str
    fn: Callable[..., Any] | InPlace | None = None
    columns: tuple[str, ...] | None = None
    threads: Threads = "auto"
    processes: int = 0
    random: int = 0
    vectorised: bool = False
    size: int = 0
    drop_last: bool = False
    condition: str | None = None
    gathered: bool = False

    @cached_property  # a protocol is looked through at each isinstance, which shows when it is asked for each sample
    def in_place(self) -> InPlace | None:
        """The operator that writes into given memory, where it is one."""
        return self.fn if self.kind == "map" and isinstance(self.fn, InPlace) else None

    @property
    def multiplies(self) -> bool:
        """Whether several elements may come of one."""
        return self.kind in ("flat_map", "unbatch")

    @property
    def keeps_count(self) -> bool:
        """Whether exactly one element comes of one, or one batch of so many."""
        return self.kind in ("map", "select", "batch", "map_batch", "prefetch", "device")

    def changed(self, **fields: Any) -> Operator:
        """The same with other fields."""
        return replace(self, **fields)

    def __str__(self) -> str:
        said = []
        if self.kind == "where":
            said.append(repr(self.condition))
        elif self.fn is not None:
            said.append(self.name)
        if self.columns is not None:
            said.append(f"columns={list(self.columns)}")
        if self.kind in ("batch", "prefetch"):
            said.append(str(self.size))
        said += [f"{flag}=True" for flag in ("vectorised", "drop_last") if getattr(self, flag)]
        if self.random:
            said.append("random=True")
        if self.processes:
            said.append(f"processes={self.processes}")
        elif self.threads != "auto":
            said.append(f"threads={self.threads}")
        if self.kind == "device":
            return f"{self.name}()"
        shown = "filter" if self.kind == "where" else self.kind
        return f"{shown}({', '.join(said)})"


def function_name(fn: Any) -> str:
    """What a function is called in messages."""
    name = getattr(fn, "__qualname__", None) or type(fn).__name__
    return str(name).rpartition("<locals>.")[2]


def check_order(operators: Sequence[Operator], new: Operator) -> None:
    """Refuses an operator that cannot stand behind these; ValueError says what could."""
    batched = False
    for operator in operators:
        batched = operator.kind == "batch" or (batched and operator.kind != "unbatch")
        if operator.kind == "device":
            raise ValueError(f"{operator} is the last operator of a pipeline: {new} cannot come behind it")
    if new.kind in _ON_SAMPLES and batched:
        instead = "map_batch" if new.kind == "map" else "unbatch() first"
        raise ValueError(f"{new} works on samples, and behind batch() there are batches: use {instead}")
    if new.kind in _ON_BATCHES and not batched:
        raise ValueError(f"{new} works on batches: call batch() first")


def check_workers(threads: Any, processes: Any) -> tuple[Threads, int]:
    """The two as they are to be; ValueError, TypeError for anything else.

    Where threads are not held up by one another (free-threaded Python), those are as many threads.
    """
    processes = check_integer("processes", processes, 0, 1024)
    if threads != "auto":
        threads = check_integer("threads", threads, 1, 1024)
        if processes:
            raise ValueError(
                "an operator runs on threads or in processes: give one of threads= and processes="
            )
    if processes and not has_gil():
        return processes, 0
    return threads, processes


def check_columns(columns: Any, known: Sequence[str] | None, name: str) -> tuple[str, ...] | None:
    """Names of columns as a tuple; refused where they are not among ``known``."""
    if columns is None:
        return None
    if isinstance(columns, str):
        raise ValueError(
            f"columns must be a list of names, got the string {columns!r}: write columns=[{columns!r}]"
        )
    given = tuple(columns)
    if not given or not all(isinstance(column, str) for column in given):
        raise ValueError(f"columns must be a list of one name or more, got {columns!r}")
    if len(set(given)) != len(given):
        raise ValueError(f"columns names a column twice: {list(given)}")
    missing = [column for column in given if known is not None and column not in known]
    if missing:
        raise ValueError(f"{name}: there is no column {missing[0]!r}; there are {', '.join(known or ())}")
    return given
