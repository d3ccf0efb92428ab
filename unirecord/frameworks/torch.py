"""PyTorch: batches as tensors on the CPU, in pinned memory or on a CUDA device, and samplers of epochs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import repeat
from operator import length_hint
from os import PathLike
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast, overload

import numpy as np
from numpy.typing import NDArray

from ..dataset.batch_loader import Batchable, BatchLoader, batch_options
from ..dataset.cursor import Cursor, SampledCursor
from ..dataset.dataset import UniRecordDataset
from ..format.meaning import as_stored
from ..loading.batch import RaggedArray
from ..loading.boxes import Crop
from ..loading.loader import BatchTransform, LoaderOptions, ReadAhead, TrackedBatch
from ..migration_hints import OF_TORCH_LOADERS, READING_ARGUMENTS, explains_arguments, no_attribute
from ..order.permutation import EpochRun
from ..sizes import many
from .arguments import check_readable, check_valid_names
from .array_trees import filled_and_valid, with_arrays

if TYPE_CHECKING:
    import torch
    from typing_extensions import Unpack

    from ..dataset.draws import DrawnBatches

__all__ = ["EpochSampler", "TorchLoader", "loader", "padding_free", "to_tensors"]


# Tensors on their way to a device: pinned memory, and copies that run beside the step.


_IN_FLIGHT = 2  # batches whose copy to the device runs while another one is used


class Pinned:
    """The stage that copies tensors to pinned memory."""

    def __call__(self, batches: Iterator[TrackedBatch[Any]]) -> Iterator[TrackedBatch[Any]]:
        return (delivered.map(self._pinned) for delivered in batches)

    def _pinned(self, batch: Any) -> Any:
        return with_tensors(batch, in_pinned_memory)


@dataclass(frozen=True)
class Moved:
    """The stage that moves tensors to a device, and waits for it."""

    device: Any

    def __call__(self, batches: Iterator[TrackedBatch[Any]]) -> Iterator[TrackedBatch[Any]]:
        return (delivered.map(lambda batch: _moved(batch, self.device, False)) for delivered in batches)


@dataclass(frozen=True)
class CopiedAhead:
    """The stage that copies tensors to a CUDA device on a stream beside the step, ``_IN_FLIGHT`` batches ahead.

    A host batch is held until its copy has ended: only then may its memory be filled again. The consumer's stream
    waits for the copy, and the tensors are marked as used on it, so that they may be kept and freed like any others.
    """

    device: Any

    def __call__(self, batches: Iterator[TrackedBatch[Any]]) -> Iterator[TrackedBatch[Any]]:
        import torch

        side = torch.cuda.Stream(self.device)
        # Of each batch on its way: what is delivered, the event after the copy, its host memory.
        ready: deque[tuple[TrackedBatch[Any], Any, Any]] = deque()
        held: deque[tuple[Any, Any]] = deque()

        def start_copy() -> None:
            delivered = next(batches, None)
            if delivered is None:
                return
            with torch.cuda.stream(side):
                moved = _moved(delivered.batch, self.device, True)
            ready.append((delivered.with_batch(moved), side.record_event(), delivered.batch))

        try:
            for _ in range(_IN_FLIGHT):
                start_copy()
            while ready:
                delivered, copied, host = ready.popleft()
                held.append((copied, host))
                del host
                while held and held[0][0].query():
                    held.popleft()
                stream = torch.cuda.current_stream(self.device)
                stream.wait_event(copied)
                for tensor in _leaves(delivered.batch):
                    tensor.record_stream(stream)
                start_copy()
                yield delivered
                del delivered
        finally:
            side.synchronize()  # before the memory of batches in `held` and `ready` may be filled again


def pinned_piece(size: int) -> Any:
    """``size`` bytes of pinned memory as a numpy array that owns it."""
    import torch

    return torch.empty(size, dtype=torch.uint8, pin_memory=True).numpy()


def in_pinned_memory(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.is_pinned() or tensor.device.type != "cpu" else tensor.pin_memory()


def _moved(batch: Any, device: Any, non_blocking: bool) -> Any:
    """The batch with every tensor in it on ``device``."""
    return with_tensors(batch, lambda tensor: tensor.to(device, non_blocking=non_blocking))


def with_tensors(batch: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The batch with what ``change`` makes of each tensor; dicts, lists and tuples are gone into."""
    import torch

    if isinstance(batch, torch.Tensor):
        return change(batch)
    if isinstance(batch, Mapping):
        return {key: with_tensors(value, change) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        items = [with_tensors(item, change) for item in batch]
        if all(new is old for new, old in zip(items, batch, strict=True)):
            return batch
        return type(batch)(*items) if hasattr(batch, "_fields") else type(batch)(items)
    return batch


def _leaves(batch: Any) -> Iterator[torch.Tensor]:
    import torch

    if isinstance(batch, torch.Tensor):
        yield batch
    elif isinstance(batch, Mapping):
        for value in batch.values():
            yield from _leaves(value)
    elif isinstance(batch, (list, tuple)):
        for value in batch:
            yield from _leaves(value)


# Windows and packed samples without what they are filled up with, as attention over sequences of various lengths takes
# them.


_NO_TARGET = -100  # torch.nn.CrossEntropyLoss(ignore_index=-100)


def padding_free(
    batch: Mapping[str, Any],
    column: str = "tokens",
    document: str = "document",
    lengths: str = "seq_lens",
) -> dict[str, torch.Tensor | int]:
    """A batch of packed samples or windows laid out flat, as models take it that attend within each document alone.

    The names are those of Hugging Face's ``DataCollatorWithFlattening``, so that ``model(**padding_free(batch))`` is a
    step without padding; ``cu_seq_lens_q`` and ``max_length_q`` are ``cu_seqlens_q`` and ``max_seqlen_q`` of
    FlashAttention's ``flash_attn_varlen_func``.

    Args:
        batch: of `unirecord.packed` or `unirecord.windows` with ``documents`` or ``lengths``, or of what has been
            written of them: arrays or tensors [n, length], or a sample, [length].
        column: the tokens.
        document: the column that says which document each is of, -1 where filled up; not needed beside ``lengths``.
        lengths: the column that says how long documents are, in their order.

    Returns:
        ``input_ids``, ``labels`` and ``position_ids`` (int64[1, tokens]; a label is -100 where a document begins),
        ``cu_seq_lens_q`` and ``cu_seq_lens_k`` (int32[documents + 1]), ``max_length_q`` and ``max_length_k`` (int).

    Raises:
        KeyError: the batch lacks one of the columns.
    """
    import torch

    tokens = torch.atleast_2d(torch.as_tensor(batch[column])).to(torch.int64)
    if lengths in batch:
        runs, there = _runs_by_lengths(batch[lengths], tokens)
    else:
        runs, there = _runs_by_document(torch.atleast_2d(torch.as_tensor(batch[document])))
    ids, longest = tokens[there], int(runs.max()) if len(runs) else 0
    ends = torch.cat([runs.new_zeros(1), runs.cumsum(0)])
    starts = ends[:-1]
    labels = ids.clone()
    labels[starts] = _NO_TARGET
    positions = torch.arange(len(ids), device=ids.device) - starts.repeat_interleave(runs)
    bounds = ends.to(torch.int32)
    return {
        "input_ids": ids[None], "labels": labels[None], "position_ids": positions[None],
        "cu_seq_lens_q": bounds, "cu_seq_lens_k": bounds, "max_length_q": longest, "max_length_k": longest,
    }  # fmt: skip


def _runs_by_document(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """How long each run of one document is (int64), and which places hold a token."""
    import torch

    begins = torch.ones_like(rows, dtype=torch.bool)
    begins[:, 1:] = rows[:, 1:] != rows[:, :-1]
    there = rows >= 0
    starts = begins[there].nonzero()[:, 0]
    return torch.cat([starts, starts.new_tensor([int(there.sum())])]).diff(), there


def _runs_by_lengths(lengths: Any, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The same of ``tokens``, by the lengths of a batch or a sample."""
    import torch

    if isinstance(lengths, (list, tuple)) and len(lengths) and hasattr(lengths[0], "__len__"):
        of_rows = [torch.as_tensor(one).to(torch.int64) for one in lengths]
        runs, counts = torch.cat(of_rows), torch.tensor([len(one) for one in of_rows])
    elif hasattr(lengths, "offsets"):
        ragged = lengths if isinstance(lengths, RaggedTensor) else ragged_tensor(lengths, None)
        runs, counts = ragged.values.to(torch.int64), ragged.offsets.diff()
    else:
        runs = torch.as_tensor(lengths).to(torch.int64)
        counts = torch.tensor([len(runs)])
    runs = runs.to(tokens.device)
    row = torch.arange(len(tokens), device=tokens.device).repeat_interleave(counts.to(tokens.device))
    held = runs.new_zeros(len(tokens)).index_add(0, row, runs)
    return runs, torch.arange(tokens.shape[1], device=tokens.device) < held[:, None]


# Values of different lengths as tensors: packed, jagged, padded, or one by one.


@dataclass(frozen=True)
class RaggedTensor:
    """The values of a batch, one after the other, and where each begins.

    Attributes:
        values: [total, …], the elements of all values.
        offsets: int64[n + 1]: value i is ``values[offsets[i]:offsets[i + 1]]``, which is empty where null.
        max_seqlen: elements of the longest value.
        valid: bool[n], False where null, or None for a column that is not nullable.
    """

    values: torch.Tensor
    offsets: torch.Tensor
    max_seqlen: int
    valid: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def cu_seqlens(self) -> torch.Tensor:
        """``offsets`` as int32[n + 1], as attention over packed sequences takes them."""
        import torch

        if self.values.shape[0] > torch.iinfo(torch.int32).max:
            raise ValueError(
                f"{many(self.values.shape[0], 'element', 'are')} more than int32 offsets can count"
            )
        return self.offsets.to(torch.int32)

    def to(self, device: Any, non_blocking: bool = False) -> RaggedTensor:
        """The same on ``device``, copied as ``torch.Tensor.to`` does with ``non_blocking``."""
        moved = {
            name: tensor.to(device, non_blocking=non_blocking)
            for name in ("values", "offsets", "valid")
            if (tensor := getattr(self, name)) is not None
        }
        return replace(self, **moved)

    def nested(self) -> torch.Tensor:
        """A nested tensor of jagged layout over the same memory; its lengths are those of the values."""
        import torch

        make: Any = torch.nested.nested_tensor_from_jagged
        nested: torch.Tensor = make(self.values, self.offsets)
        return nested

    def padded(self, value: float = 0) -> torch.Tensor:
        """One tensor [n, max_seqlen, …], each value filled up with ``value``."""
        out = self.values.new_full((len(self), self.max_seqlen, *self.values.shape[1:]), value)
        _bits(out)[self.mask()] = _bits(self.values)
        return out

    def mask(self) -> torch.Tensor:
        """Which places of ``padded()`` hold an element: bool [n, max_seqlen]."""
        import torch

        places = torch.arange(self.max_seqlen, device=self.offsets.device)
        return places < torch.diff(self.offsets)[:, None]

    def tensors(self) -> list[torch.Tensor]:
        """Each value as a tensor that looks into ``values``."""
        return list(self.values.split(self.offsets.diff().tolist()))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory as signed numbers: PyTorch has few operations for unsigned ones of more than 8 bits."""
    import torch

    signed = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}
    return tensor.view(signed.get(tensor.dtype, tensor.dtype))


def ragged_tensor(ragged: RaggedArray, dtype: torch.dtype | None) -> RaggedTensor:
    """The values of a batch as tensors, with elements of ``dtype``; ValueError where one does not fit."""
    import torch

    offsets = ragged.element_offsets
    values = torch.from_numpy(ragged.values)
    if ragged.column.type == "bfloat16":
        values = values.view(torch.bfloat16)
    if dtype is not None and dtype != values.dtype:
        converted = values.to(dtype)
        if not dtype.is_floating_point and not dtype.is_complex:
            _check_kept(ragged, converted)
        values = converted
    lengths = np.diff(offsets)
    valid = None if ragged.valid is None else torch.from_numpy(ragged.valid)
    return RaggedTensor(values, torch.from_numpy(offsets), int(lengths.max(initial=0)), valid)


def _check_kept(ragged: RaggedArray, converted: torch.Tensor) -> None:
    """Refuses a type of integers that does not hold every element."""
    before, after = ragged.values, converted.numpy()
    wrong = np.flatnonzero((before != after).reshape(-1) | ((before < 0) != (after < 0)).reshape(-1))
    if len(wrong):
        raise ValueError(
            f"column {ragged.column.name!r}: {before.reshape(-1)[wrong[0]]} does not fit {converted.dtype}"
        )


# A sampler for PyTorch's own DataLoader, each of whose passes is an epoch of a dataset.


class EpochSampler:
    """What a ``DataLoader`` takes as ``sampler=``, so that each of its passes is the next epoch of a dataset.

    It gives pairs of an epoch and a position, so that a worker process knows the epoch of each sample it is asked for,
    whatever becomes of the dataset meanwhile. A pass begins when its first sample is asked for: in the epoch that
    ``set_epoch`` names, here or of the dataset, where a state that has been loaded into the dataset says, or in the
    epoch after the pass before. Lightning, Accelerate and the Trainer of transformers find ``set_epoch``, and
    torchdata's ``StatefulDataLoader`` the state of each pass.

    Args:
        ds: the dataset, which is what the ``DataLoader`` reads. Its shuffle, seed and shard hold.
    """

    def __init__(self, ds: UniRecordDataset[Any]) -> None:
        if not isinstance(ds, UniRecordDataset):
            raise TypeError(
                f"EpochSampler takes a UniRecordDataset, not {ds!r:.100}; batches that have been drawn are a batch "
                "sampler themselves: DataLoader(drawn.dataset, batch_sampler=drawn)"
            )
        self._cursor = ds.read_cursor

    def __len__(self) -> int:
        """How many samples the next pass has."""
        return self._cursor.samples_left()

    def __iter__(self) -> EpochPass:
        return EpochPass(self._cursor)

    @property
    def epoch(self) -> int:
        """The current epoch of the dataset."""
        return self._cursor.position.epoch

    def set_epoch(self, epoch: int) -> None:
        """Makes the next pass that of ``epoch``."""
        self._cursor.position.set_epoch(epoch)


class EpochPass:
    """One pass of a sampler, with the state that torchdata's ``StatefulDataLoader`` keeps of it."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._run: EpochRun | None = None
        self._given: Iterator[int] = iter(())
        self._places: Iterator[tuple[int, int]] | None = None

    def __iter__(self) -> EpochPass:
        return self

    def __next__(self) -> tuple[int, int]:
        if self._places is None:
            self._places = self._begun()
        return next(self._places)

    def _begun(self) -> Iterator[tuple[int, int]]:
        cursor, plan = self._cursor, self._cursor.plan
        plan.data.parts.check_open()
        if self._run is None:
            self._run = cursor.position.begin(plan.order, sampled=True)
        else:
            cursor.position.take_up(self._run)
        run = self._run
        positions = range(run.first, run.first + run.samples * run.stride, run.stride)
        self._given = cursor.position.follow(run, range(run.after(1), run.after(run.samples + 1), run.stride))
        return zip(repeat(run.epoch), map(positions.__getitem__, self._given), strict=False)

    def state_dict(self) -> dict[str, Any]:
        """A state of the dataset: as far as samples have been asked for, or where this pass would begin."""
        run = self._run
        if run is None:
            return self._cursor.state_at(*self._cursor.position.next_pass)
        given = 0 if self._places is None else run.samples - length_hint(self._given)
        return self._cursor.state_at(run.epoch, run.after(given))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes this pass go on where ``state`` was taken, on any number of ranks; it has begun then."""
        cursor = self._cursor
        cursor.load_state_dict(state)
        self._run, self._places = cursor.plan.order.run(*cursor.position.next_pass), None
        cursor.position.take_up(self._run)


# PyTorch: batches as tensors without worker processes, on the CPU, in pinned memory or on a CUDA device.


Batch = TypeVar("Batch")
Loader = TypeVar("Loader", bound="TorchLoader[Any]")


@overload
def loader(
    ds: UniRecordDataset[Any],
    batch_size: int,
    *,
    transform: Callable[[Any], Any] | None = ...,
    collate_fn: Callable[[list[Any]], Batch],
    pin_memory: bool = ...,
    device: Any = ...,
    **read_ahead: Unpack[ReadAhead],
) -> TorchLoader[Batch]: ...
@overload
def loader(
    ds: DrawnBatches,
    batch_size: None = ...,
    *,
    transform: Callable[[Any], Any] | None = ...,
    collate_fn: Callable[[list[Any]], Any] | None = ...,
    pin_memory: bool = ...,
    device: Any = ...,
    **read_ahead: Unpack[ReadAhead],
) -> TorchLoader[Any]: ...
@overload
def loader(
    ds: UniRecordDataset[Any],
    batch_size: None = ...,
    *,
    batch_sampler: Iterable[Any],
    transform: Callable[[Any], Any] | None = ...,
    collate_fn: Callable[[list[Any]], Any] | None = ...,
    pin_memory: bool = ...,
    device: Any = ...,
    **read_ahead: Unpack[ReadAhead],
) -> TorchLoader[Any]: ...
@overload
def loader(
    ds: UniRecordDataset,
    batch_size: int,
    *,
    transform: None = ...,
    collate_fn: None = ...,
    pin_memory: bool = ...,
    device: Any = ...,
    **read_ahead: Unpack[ReadAhead],
) -> TorchLoader[dict[str, Any]]: ...
@overload
def loader(
    ds: UniRecordDataset[Any],
    batch_size: int,
    *,
    transform: Callable[[Any], Any] | None = ...,
    collate_fn: None = ...,
    pin_memory: bool = ...,
    device: Any = ...,
    **read_ahead: Unpack[ReadAhead],
) -> TorchLoader[Any]: ...
@explains_arguments(READING_ARGUMENTS)
def loader(
    ds: Batchable,
    batch_size: int | None = None,
    *,
    batch_sampler: Iterable[Any] | None = None,
    transform: Callable[[Any], Any] | None = None,
    collate_fn: Callable[[list[Any]], Any] | None = None,
    drop_last: bool = False,
    pin_memory: bool = False,
    device: Any = None,
    prefetch: int | None = None,
    num_threads: int | None = None,
    num_workers: int | None = None,
    receipts: str | PathLike[str] | None = None,
    random: bool = False,
    crops: Mapping[str, Crop] | None = None,
    return_places: bool = False,
) -> TorchLoader[Any]:
    """Batches of a dataset's shard as tensors; iterate over it as over a ``DataLoader``, once per epoch.

    Without a transform a batch is a dict: arrays and scalars are tensors [batch, …] that share the memory the C
    threads filled; strings are lists; other values of variable width ``RaggedArray``; both hold None where null. A
    tensor ``x`` of a nullable column comes with a bool tensor ``x_valid`` [batch]; where that is False, ``x`` is NaN or
    0. See docs/pytorch.md.

    Args:
        ds: the dataset; its shard, order, epoch, ``columns`` and ``where`` hold. Or the batches that have been drawn
            of one.
        batch_size: samples in a batch; of batches that have been drawn or sampled, none is given.
        batch_sampler: what says the batches instead, as for a ``DataLoader``: an iterable of lists of places in
            ``ds``, which has neither shuffle nor shards then. It is asked ahead, anew for each epoch.
        transform: called with every sample, on Python threads; the dataset's own ``transform`` by default.
        collate_fn: makes a batch of the list of samples, transformed or as stored; ``default_collate`` by default
            where there is a transform.
        drop_last: leave out a last batch that is smaller.
        pin_memory: let tensors lie in pinned memory, for fast copies to a CUDA device; nothing where there is none.
        device: where the tensors are to be; for a CUDA device copies run beside the step, on a stream of their own.
        prefetch, num_threads, num_workers, receipts, random, crops, return_places: as for
            ``UniRecordDataset.batches``.
    """
    return made_loader(
        TorchLoader,
        ds,
        batch_size,
        batch_sampler=batch_sampler,
        transform=transform,
        collate_fn=collate_fn,
        pin_memory=pin_memory,
        device=device,
        drop_last=drop_last,
        prefetch=prefetch,
        num_threads=num_threads,
        num_workers=num_workers,
        receipts=receipts,
        random=random,
        crops=crops,
        return_places=return_places,
    )


def made_loader(
    kind: type[Loader],
    ds: Batchable,
    batch_size: int | None = None,
    *,
    batch_sampler: Iterable[Any] | None = None,
    transform: Callable[[Any], Any] | None = None,
    collate_fn: Callable[[list[Any]], Any] | None = None,
    pin_memory: bool = False,
    device: Any = None,
    **read_ahead: Unpack[ReadAhead],
) -> Loader:
    """A loader of a kind, with the arguments of ``loader``."""
    check_readable(ds, "loader")
    own = ds.transform if transform is None else transform
    if own is not None and collate_fn is None:
        collate_fn = _default_collate
    cursor = None
    if batch_sampler is not None:
        cursor = _sampled(ds, batch_size, batch_sampler, read_ahead)
        options = LoaderOptions(
            1, transform=own, collate_fn=collate_fn, on_corrupt=ds.on_corrupt, **read_ahead
        )
    else:
        options = batch_options(ds, batch_size, own, collate_fn, None, read_ahead, ", or a batch_sampler")
    sampler: Any = ds if ds.read_cursor.plan.order.batched else batch_sampler
    if sampler is None:
        sampler = EpochSampler(cast("UniRecordDataset[Any]", ds))
    return kind(ds, options, pin_memory=pin_memory, device=device, cursor=cursor, sampler=sampler)


def _sampled(
    ds: Batchable,
    batch_size: int | None,
    sampler: Iterable[Any],
    read_ahead: ReadAhead,
) -> SampledCursor:
    """What reads the batches of a sampler; ValueError for options that say otherwise what a batch is."""
    if ds.read_cursor.plan.order.batched:
        raise ValueError("these batches have been drawn already: batch_sampler= takes a dataset")
    named = {"batch_size": batch_size is not None, "drop_last": read_ahead.get("drop_last", False)}
    for name in (name for name, given in named.items() if given):
        raise ValueError(f"{name}= and batch_sampler= both say what a batch is: give one of them")
    if read_ahead.get("receipts") is not None:
        raise ValueError(
            "receipts are of positions in the order of a dataset, and a batch sampler has its own"
        )
    return SampledCursor(ds.read_cursor, sampler)


def _default_collate(samples: list[Any]) -> Any:
    from torch.utils.data import default_collate

    from .torch_collate import introduce

    introduce()
    return default_collate(samples)


class TorchLoader(BatchLoader[Batch]):
    """What ``loader`` returns: batches with a length, an epoch and a state, like a stateful ``DataLoader``."""

    def __init__(
        self,
        ds: Batchable,
        options: LoaderOptions,
        *,
        pin_memory: bool,
        device: Any,
        sampler: Any,
        cursor: SampledCursor | None = None,
    ) -> None:
        """``sampler``: what says the order; trainers that count epochs by themselves call its ``set_epoch``."""
        import torch

        self.sampler = sampler

        self.device: Any | None = None if device is None else torch.device(device)
        cuda = self.device is not None and self.device.type == "cuda"
        pinned = (pin_memory or cuda) and torch.cuda.is_available()
        stages: list[BatchTransform] = []
        if not options.changes_batches:
            check_valid_names(ds)
            stages.append(ToTensors(_bfloat16_columns(ds)))
        elif pinned:  # what is collated lies in memory of its own
            stages.append(Pinned())
        if cuda:
            stages.append(CopiedAhead(self.device))
        elif self.device is not None and self.device.type != "cpu":
            stages.append(Moved(self.device))
        super().__init__(ds, options, stages=stages, memory=pinned_piece if pinned else None, cursor=cursor)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(
                no_attribute(type(self).__name__, name, OF_TORCH_LOADERS), name=name, obj=self
            )


def _bfloat16_columns(ds: Batchable) -> frozenset[str]:
    return frozenset(name for name in ds.column_names if ds.schema[name].type == "bfloat16")


@dataclass(frozen=True)
class ToTensors:
    """The stage that puts tensors in place of arrays, over the same memory."""

    bfloat16: frozenset[str]

    def __call__(self, batches: Iterator[TrackedBatch[Any]]) -> Iterator[TrackedBatch[Any]]:
        return (delivered.map(self._tensors) for delivered in batches)

    def _tensors(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        return to_tensors(batch, self.bfloat16)


def to_tensors(batch: Mapping[str, Any], bfloat16: Collection[str] = ()) -> dict[str, Any]:
    """A batch of ``UniRecordDataset.batches()`` with tensors in place of arrays; they share its memory. Or a sample.

    Times are the integers that are stored, in the unit of their column (``ds.schema["taken"].logical``). So
    ``DataLoader(ds, batch_size=None, collate_fn=to_tensors)`` takes times. Columns named in ``bfloat16``, whose bits
    numpy holds as uint16, become tensors of that type.
    """
    tensors: dict[str, Any] = {}
    for name, value in batch.items():
        if isinstance(value, np.ma.MaskedArray):
            filled, valid = filled_and_valid(value)
            tensors[name] = _tensor(filled, name in bfloat16)
            tensors[f"{name}_valid"] = _tensor(valid, False)
        else:
            known = type(value) is np.ndarray or isinstance(value, (np.number, np.bool_, np.datetime64))
            tensors[name] = _tensor(np.asarray(value), name in bfloat16) if known else value
    return tensors


def _tensor(array: NDArray[Any], bits: bool) -> torch.Tensor:
    """A tensor over the memory of an array, or over a copy where PyTorch cannot look into it.

    That is where it runs backwards, is read-only or has the bytes of another machine. ``bits``: of bfloat16.
    """
    import torch

    array = as_stored(array)
    if not array.flags.writeable or min(array.strides, default=0) < 0 or not array.dtype.isnative:
        array = np.array(array, array.dtype.newbyteorder("="), order="C")
    tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if bits else tensor


@dataclass(frozen=True)
class OnTheWay:
    """How the batches of a pipeline come to a device.

    ``change`` is done to a batch on any thread, ``stages`` stand before the consumer, and what makes a batch does so in
    memory of ``memory(size)``, uint8[size]: None for ordinary memory.
    """

    change: Callable[[Any], Any]
    stages: tuple[BatchTransform, ...]
    memory: Callable[[int], NDArray[np.uint8]] | None


def on_the_way(device: Any, pin_memory: bool, bfloat16: Collection[str]) -> OnTheWay:
    """To ``device``, or nowhere: as tensors, those named in ``bfloat16`` of that type.

    Batches on the way to a CUDA device are made in pinned memory; those that an operator has put elsewhere are copied
    there. Either kind is used again only when the last view of it is gone, and a copy that runs holds one.
    """
    import torch

    device = None if device is None else torch.device(device)
    cuda = device is not None and device.type == "cuda"
    pinned = (pin_memory or cuda) and torch.cuda.is_available()

    def change(batch: Any) -> Any:
        tensors = with_arrays(batch, _tensor, bfloat16)
        return with_tensors(tensors, in_pinned_memory) if pinned else tensors

    stages: tuple[BatchTransform, ...] = ()
    if cuda:
        stages = (CopiedAhead(device),)
    elif device is not None and device.type != "cpu":
        stages = (Moved(device),)
    return OnTheWay(change, stages, pinned_piece if pinned else None)
