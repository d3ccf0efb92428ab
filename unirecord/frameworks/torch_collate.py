"""Samples of one read that still know it, for default_collate to hand on, and memory that workers lend with a batch."""

from __future__ import annotations

import importlib
import mmap
import os
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from multiprocessing.reduction import DupFd, ForkingPickler
from operator import is_
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Locked, all_forks
from ..format.column import Column
from ..format.meaning import as_stored
from ..loading.batch import SampleReader, items_of

__all__ = [
    "Loan",
    "ReadMemory",
    "Sample",
    "Use",
    "introduce",
    "samples_for_collate",
    "take",
]


# Memory that a worker process of a DataLoader lends to whoever gets its batches, and uses again when it has
# come back.
#
# PyTorch puts each batch into new shared memory, and the kernel has to clear every page of it first: for
# large rows that
# takes several times as long as to copy them. Here a worker keeps the memory of a few batches. The process
# that gets a
# batch says in the first page of its memory when the last tensor over it is gone.


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


# Samples of one read that still know it, so that PyTorch's default_collate hands the read on, not a second
# copy.


_PARCEL = 1 << 20  # bytes of a batch above which shared memory costs less than sending them through a pipe
_DTYPES = ("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")
_ALIGNMENT = 64

_known_to_torch = False
# What became of the batch before tells what is worth preparing, in this process.
_collated = False  # default_collate has met samples
_sent_as_made = (
    False  # and nobody has changed the large arrays of what it made before they went to another process
)


class Sample(dict[str, Any]):
    """A dict; the first one of a read carries the read. Copies and pickles are plain dicts.

    ``bfloat16`` names the columns whose bits numpy holds as uint16.
    """

    __slots__ = ("bfloat16", "read")
    read: ReadMemory
    bfloat16: frozenset[str]

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


class Collated(dict[str, Any]):
    """A batch in a worker process, a dict, that sends its small tensors to the parent in one piece.

    Each tensor in memory of its own, as torch sends them, costs a file descriptor passed between the processes,
    which takes longer than to read a batch of small rows. Copies and pickles are plain dicts. ``placed`` are the
    large tensors as they were made, and the memory that some of them are lent in.
    """

    __slots__ = ("placed",)
    placed: dict[str, tuple[Any, Use | None]]

    def __reduce__(self) -> tuple[Any, ...]:
        global _sent_as_made
        torch = sys.modules["torch"]
        left: dict[str, Any] = {}
        places: list[tuple[str, Any, tuple[int, ...], int]] = []
        parcel = bytearray()
        for name, value in self.items():
            if _goes_into_parcel(torch, value, _PARCEL - len(parcel)):
                parcel.extend(bytes(-len(parcel) % _ALIGNMENT))
                places.append((name, value.dtype, tuple(value.shape), len(parcel)))
                parcel.extend(memoryview(value.reshape(-1).view(torch.uint8).numpy()))
            left[name] = None if places and places[-1][0] == name else value
        _sent_as_made = all(left.get(name) is tensor for name, (tensor, _) in self.placed.items())
        for name, (tensor, use) in self.placed.items():
            if use is not None and left.get(name) is tensor and use.holds(tensor):
                left[name] = Loan(use, tensor)
        return _unpacked, (left, places, parcel)


def _goes_into_parcel(torch: Any, value: Any, room: int) -> bool:
    if type(value) is not torch.Tensor or value.layout is not torch.strided or value.device.type != "cpu":
        return False
    if value.ndim == 0 or not 0 < value.nbytes <= room or not value.is_contiguous():
        return False
    known = value.dtype.is_floating_point or str(value.dtype).removeprefix("torch.") in _DTYPES
    return known and not value.requires_grad and not value.is_neg()


def _unpacked(
    batch: dict[str, Any], places: list[tuple[str, Any, tuple[int, ...], int]], parcel: bytearray
) -> dict[str, Any]:
    """A batch from another process: tensors over one piece of memory."""
    torch = importlib.import_module("torch")
    for name, value in batch.items():
        if type(value) is Loan:  # a copy in this process
            batch[name] = value.tensor
    for name, dtype, shape, at in places:
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        raw = torch.frombuffer(parcel, dtype=torch.uint8, count=size, offset=at)
        batch[name] = raw.view(dtype).view(shape)
    return batch


class ReadMemory:
    """Memory of one read, and the samples made of it.

    In a worker process of a ``DataLoader`` large arrays lie in memory shared with the parent, as the tensors that
    ``default_collate`` makes there do, and in memory that has been used before where batches go there as they are.
    """

    def __init__(self, torch: Any, bfloat16: frozenset[str], listed: frozenset[str]) -> None:
        self._torch = torch
        self._bfloat16 = bfloat16
        self._listed = listed
        self._in_worker = torch.utils.data.get_worker_info() is not None
        self._shared = _collated and self._in_worker
        # By the id of an array, which lives as long as this.
        self._tensors: dict[int, Any] = {}
        self._uses: dict[int, Use] = {}
        self._values: dict[str, Any] = {}
        self._items: dict[str, Sequence[Any]] = {}
        self._count = 0

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """An array to read into."""
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        if not self._shared or size <= _PARCEL:
            return np.empty(shape, dtype)
        use = take(self._torch, size) if _sent_as_made else None
        if use is not None:
            array: NDArray[Any] = np.asarray(use).view(dtype).reshape(shape)
            self._uses[id(array)] = use
            self._tensors[id(array)] = self._torch.from_numpy(array)
            return array
        try:
            storage = self._torch.UntypedStorage._new_shared(size)
        except (AttributeError, RuntimeError):  # a torch without it, or /dev/shm is full
            self._shared = False
            return np.empty(shape, dtype)
        raw = self._torch.empty(0, dtype=self._torch.uint8).set_(storage)
        array = raw.numpy().view(dtype).reshape(shape)
        tensor = raw.view(self._torch.from_numpy(np.empty(0, dtype)).dtype).view(shape)
        self._tensors[id(array)] = tensor
        return array

    def samples(
        self, values: Mapping[str, Any], items: Mapping[str, Sequence[Any]], rows: int
    ) -> list[Sample]:
        """The samples of a read: ``values`` as a batch, ``items`` as lists of what the samples have."""
        names = list(items)
        made = [Sample(zip(names, row, strict=True)) for row in zip(*items.values(), strict=True)]
        made = made or [Sample() for _ in range(rows)]
        if self._bfloat16:
            for sample in made:
                sample.bfloat16 = self._bfloat16
        if made:
            made[0].read = self
            self._values, self._items = dict(values), dict(items)
            self._count = len(made)
        return made

    def is_whole(self, samples: Sequence[Any]) -> bool:
        """Whether these have all values of the read, the very objects, in its order, and nothing else."""
        width = len(self._items)
        if len(samples) != self._count:
            return False
        try:
            return all(len(sample) == width for sample in samples) and all(
                all(map(is_, [sample[name] for sample in samples], items))
                for name, items in self._items.items()
            )
        except (KeyError, TypeError):
            return False

    def collated(self, collate: Callable[[Any], Any]) -> dict[str, Any]:
        """The read as ``default_collate`` would make it of the samples; arrays are not copied."""
        torch = self._torch
        result: dict[str, Any] = Collated() if self._in_worker else {}
        for name, value in self._values.items():
            if name in self._listed:  # default_collate would take None anywhere but in the first place
                result[name] = list(self._items[name])
            elif type(value) is not np.ndarray:  # masked, or ragged arrays and objects
                result[name] = _named(name, collate, self._items[name])
            elif id(value) in self._tensors:
                result[name] = self._tensors[id(value)]
            else:
                result[name] = torch.from_numpy(value)
        as_bfloat16(torch, result, self._bfloat16)
        if isinstance(result, Collated):
            large = {name: id(value) for name, value in self._values.items() if id(value) in self._tensors}
            result.placed = {name: (result[name], self._uses.get(key)) for name, key in large.items()}
        return result


def _named(name: str, collate: Callable[[Any], Any], items: Sequence[Any]) -> Any:
    try:
        return collate(items)
    except (TypeError, RuntimeError) as error:  # nulls, arrays of different sizes, objects
        raise TypeError(
            f"default_collate cannot make a batch of column {name!r} ({error}). Leave it out with columns=[…], fill or "
            "pad its values in a transform, give the DataLoader a collate_fn, or use unirecord.torch.loader"
        ) from error


def as_bfloat16(torch: Any, batch: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The batch with its columns of bfloat16, which numpy holds as uint16, as what they are."""
    for name in names:
        batch[name] = batch[name].view(torch.bfloat16)
    return batch


def samples_for_collate(
    reader: SampleReader, columns: Sequence[Column], rows: NDArray[np.int64]
) -> Sequence[dict[str, Any]]:
    """The samples of these rows, which ``default_collate`` need not copy; where PyTorch's loader is in use."""
    bfloat16 = frozenset(column.name for column in columns if column.type == "bfloat16")
    listed = frozenset(
        column.name
        for column in columns
        if column.type in ("string", "bytes", "text") and not column.is_array
    )
    memory = ReadMemory(sys.modules["torch"], bfloat16, listed)

    def read() -> Sequence[dict[str, Any]]:
        batch = reader.batch(rows, memory.empty)
        stored = {name: as_stored(values) for name, values in batch.items()}
        return memory.samples(stored, items_of(batch), len(rows))

    return reader.placing(rows, read)


def introduce() -> None:
    """Registers ``Sample`` where default_collate's documentation says, and with torch's tree functions.

    And NumPy's times, of which it makes tensors of stored integers.
    """
    global _known_to_torch
    if _known_to_torch:
        return
    _known_to_torch = True
    collate = importlib.import_module("torch.utils.data._utils.collate")
    collate.default_collate_fn_map[Sample] = _collate
    for time in (np.datetime64, np.timedelta64):
        collate.default_collate_fn_map.setdefault(time, _collate_times)
    trees = importlib.import_module("torch.utils._pytree")
    for kind in (Sample, Collated):
        trees.register_pytree_node(
            kind,
            lambda d: (list(d.values()), list(d)),
            lambda values, names: dict(zip(names, values, strict=True)),
        )


def _collate_times(times: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    return sys.modules["torch"].from_numpy(as_stored(np.array(times)))


def _collate(samples: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """A batch of samples that begins with a ``Sample``."""
    global _collated
    _collated = True
    torch_collate = importlib.import_module("torch.utils.data._utils.collate").collate
    read = getattr(samples[0], "read", None)
    if read is not None and read.is_whole(samples):
        return read.collated(lambda items: torch_collate(items, collate_fn_map=collate_fn_map))
    first, *others = samples
    batch = torch_collate([dict(first), *others], collate_fn_map=collate_fn_map)
    return as_bfloat16(sys.modules["torch"], batch, getattr(first, "bfloat16", ()))
