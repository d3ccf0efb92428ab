"""Memory that a worker process of a DataLoader lends to whoever gets its batches, and uses again when it has come back.

PyTorch puts each batch into new shared memory, and the kernel has to clear every page of it first: for large rows that
takes several times as long as to copy them. Here a worker keeps the memory of a few batches. The process that gets a
batch says in the first page of its memory when the last tensor over it is gone.
"""

from __future__ import annotations

import importlib
import mmap
import os
import weakref
from collections.abc import Callable
from multiprocessing.reduction import DupFd, ForkingPickler
from typing import Any

import numpy as np

from ..core import Locked, all_forks

__all__ = ["Loan", "Use", "take"]

_HEAD = mmap.PAGESIZE  # one byte for each loan, then the data
_OUT, _BACK, _NEVER = 0, 1, 2
_MOST = (
    16  # pieces of memory that a worker knows of; more at once are forgotten, and go when they are let go of
)
_IDLE = 32  # reads after which one that has lain idle is given back to the system


class Use:
    """The memory of one read, as numpy's array interface; it is taken again when no array looks into it any more."""

    def __init__(self, block: _Block, size: int) -> None:
        self.block = block
        self.size = size
        self.address: int = block.address
        self.__array_interface__: dict[str, object] = {
            "version": 3,
            "typestr": "|u1",
            "shape": (size,),
            "data": (block.address, False),
        }

    def holds(self, tensor: Any) -> bool:
        """Whether all of a tensor lies at the beginning of this memory, and nothing else has to be said of it."""
        plain = tensor.is_contiguous() and not tensor.requires_grad and not tensor.is_neg()
        return plain and tensor.data_ptr() == self.address and tensor.nbytes <= self.size


class _Block:
    """One piece of memory, its descriptor and its loans."""

    def __init__(self, size: int) -> None:
        self.capacity: int = -(-size // _HEAD) * _HEAD
        self.descriptor: int = os.memfd_create("unirecord-batch")
        try:
            os.ftruncate(self.descriptor, _HEAD + self.capacity)
            mapped = np.frombuffer(mmap.mmap(self.descriptor, _HEAD + self.capacity), np.uint8)
        except BaseException:
            os.close(self.descriptor)
            raise
        self._answers = mapped[:_HEAD]
        self.address: int = mapped[_HEAD:].ctypes.data
        self._loans = 0
        self._use: Callable[[], Use | None] = lambda: None
        self.last: int = 0
        weakref.finalize(self, os.close, self.descriptor)

    def use(self, size: int) -> Use:
        self._answers[: self._loans] = _OUT
        self._loans = 0
        use = Use(self, size)
        self._use = weakref.ref(use)
        return use

    def lend(self) -> int | None:
        """The place in the first page where who gets it answers; None: there is none left."""
        if self._loans == _HEAD:
            return None
        self._loans += 1
        return self._loans - 1

    def is_free(self) -> bool:
        # In this order: only who has the use can lend.
        return self._use() is None and bool((self._answers[: self._loans] == _BACK).all())

    def never_comes_back(self) -> bool:
        return bool((self._answers[: self._loans] == _NEVER).any())


class _Ring:
    """The blocks of this process, the one used last at the end."""

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._lock = Locked()
        self._reads = 0
        self.forks: int = all_forks()

    def take(self, size: int) -> Use:
        with self._lock.lock:
            self._reads += 1
            self._blocks = [block for block in self._blocks if not self._is_of_no_use(block)]
            fitting = [block for block in self._blocks if block.capacity >= size and block.is_free()]
            if fitting:
                block = min(reversed(fitting), key=lambda block: block.capacity)
                self._blocks.remove(block)
            else:
                block = _Block(size)
                del self._blocks[: max(0, len(self._blocks) - _MOST + 1)]
            self._blocks.append(block)
            block.last = self._reads
            return block.use(size)

    def _is_of_no_use(self, block: _Block) -> bool:
        return block.never_comes_back() or (self._reads - block.last > _IDLE and block.is_free())


class Loan:
    """A tensor over a use, to be pickled: other processes of this job map the memory, everyone else gets a copy."""

    def __init__(self, use: Use, tensor: Any) -> None:
        self.use = use
        self.tensor = tensor

    def __reduce__(self) -> tuple[Any, ...]:
        return _itself, (self.tensor,)


def _itself(tensor: Any) -> Any:
    return tensor


class _Lent(mmap.mmap):
    """The memory of a loan in the process that got it."""

    place = 0
    forks = 0  # all of them, when it came

    def __del__(self, now: Callable[[], int] = all_forks) -> None:
        # After a fork two processes look into it, of which neither knows when the other one is done.
        self[self.place] = _BACK if self.forks == now() else _NEVER


_rings: list[_Ring] = []


def _ring() -> _Ring:
    """The blocks that no other process can write in: a fork's two sides have the memory of those before in common."""
    if not _rings or _rings[0].forks != all_forks():
        _rings[:] = [_Ring()]
    return _rings[0]


def take(torch: Any, size: int) -> Use | None:
    """Memory of ``size`` bytes; None where there is none of this kind, or the user has asked for another kind."""
    if not hasattr(os, "memfd_create") or torch.multiprocessing.get_sharing_strategy() != "file_descriptor":
        return None
    try:
        return _ring().take(size)
    except OSError:  # no descriptor, no memory
        return None


def _reduce(loan: Loan) -> tuple[Any, ...]:
    place = loan.use.block.lend()
    if place is None:
        return loan.__reduce__()
    tensor = loan.tensor
    file = DupFd(loan.use.block.descriptor)
    return _received, (file, place, tensor.nbytes, tensor.dtype, tuple(tensor.shape))


ForkingPickler.register(Loan, _reduce)


def _received(file: Any, place: int, size: int, dtype: Any, shape: tuple[int, ...]) -> Any:
    """The tensor of a loan from another process, which has its memory back when the last view of it is gone."""
    descriptor = file.detach()
    try:
        memory = _Lent(descriptor, _HEAD + size)
    finally:
        os.close(descriptor)
    memory.place, memory.forks = place, all_forks()
    torch = importlib.import_module("torch")
    return torch.frombuffer(memory, dtype=torch.uint8, count=size, offset=_HEAD).view(dtype).view(shape)
