"""Which samples belong to a rank and to a step of a job, and how an order is asked for: plain arithmetic, no I/O."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..sizes import many

__all__ = [
    "JobSteps",
    "MODES",
    "OrderSpec",
    "Remainder",
    "Sharding",
    "Shuffle",
    "check_shard_arguments",
    "choose_blocks",
    "launched_ranks",
    "shard_from_environment",
]


# Which samples belong to a rank, and how the order of an epoch is asked for: plain arithmetic, no I/O.


# The names that `shuffle=` takes, and the numbers of ur_order_mode in csrc/unirecord.h.
MODES = {"sequential": 0, "shuffle": 1, "block": 2, "parts": 3, "within-parts": 4}
REMAINDERS = ("pad", "drop", "uneven")
Remainder = Literal["pad", "drop", "uneven"]
Shuffle = bool | Literal["block", "parts", "within-parts"]

_SHUFFLES = {
    True: "shuffle",
    False: "sequential",
    "block": "block",
    "parts": "parts",
    "within-parts": "within-parts",
}
_MAX_SHARDS = 1 << 31

# What launchers set: (name, rank, world size). The first pair of which either is present decides.
_LAUNCHERS = (
    ("torchrun", "RANK", "WORLD_SIZE"),
    ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI", "PMI_RANK", "PMI_SIZE"),
    ("Slurm", "SLURM_PROCID", "SLURM_NTASKS"),
)

_BLOCK_BYTES = (1 << 20, 8 << 20)  # blocks long enough for a disk or a network to deliver at full speed
_WINDOW_BLOCKS = 16
_WINDOW_ROWS = 4096


@dataclass(frozen=True)
class Sharding:
    """The positions of one rank in an epoch of ``rows`` samples, from global position ``start`` on.

    Rank r of N has positions start + r, start + r + N, ...; ``remainder`` says what becomes of the last,
    incomplete round: "pad" fills it from the beginning of the epoch, "drop" leaves it out, "uneven" gives it
    to the first ranks alone.
    """

    rows: int
    shard_id: int = 0
    num_shards: int = 1
    remainder: str = "pad"
    start: int = 0

    def __post_init__(self) -> None:
        for name, least in (("rows", 0), ("start", 0), ("num_shards", 1), ("shard_id", 0)):
            _keep_integer(self, name, least)
        if self.num_shards > _MAX_SHARDS:
            raise ValueError(f"num_shards is {self.num_shards}; at most 2^31 are supported")
        if self.shard_id >= self.num_shards:
            raise ValueError(
                f"shard_id is {self.shard_id}, but with num_shards={self.num_shards} "
                f"it must be 0 … {self.num_shards - 1}"
            )
        if self.num_shards > max(self.rows, 1):
            raise ValueError(
                f"num_shards={self.num_shards} is more than the {many(self.rows, 'row')} there are to share: "
                "a shard would be empty"
            )
        if self.remainder not in REMAINDERS:
            raise ValueError(
                f"remainder is {self.remainder!r}; it must be one of {', '.join(map(repr, REMAINDERS))}"
            )

    @property
    def length(self) -> int:
        """How many samples this rank has from ``start`` on."""
        remaining = max(self.rows - self.start, 0)
        if self.remainder == "drop":
            return remaining // self.num_shards
        if self.remainder == "uneven":
            return max(-(-(remaining - self.shard_id) // self.num_shards), 0)
        return -(-remaining // self.num_shards)

    @property
    def first(self) -> int:
        """The position of this rank's first sample, not yet wrapped; ``num_shards`` away is its next."""
        return self.start + self.shard_id

    def position(self, i: int) -> int:
        """The position in the order of the rank's i-th sample; negative i count from the end."""
        length = self.length
        if not -length <= i < length:
            raise IndexError(
                f"sample {i} is out of range: shard {self.shard_id} of {self.num_shards} has "
                f"{many(length, 'sample')}"
            )
        return (self.first + (i + length if i < 0 else i) * self.num_shards) % self.rows

    def delivered(self, samples: int) -> int:
        """The global position when every rank has delivered ``samples`` more: what a state records."""
        return self.start + samples * self.num_shards

    def resumed(self, position: int) -> Sharding:
        """The same rank, going on at a global position that a state has recorded on any number of ranks."""
        return Sharding(self.rows, self.shard_id, self.num_shards, self.remainder, position)


@dataclass(frozen=True)
class OrderSpec:
    """All that decides an epoch's order but the rows: equal specs give equal orders."""

    mode: str = "sequential"
    seed: int = 0
    epoch: int = 0
    block_rows: int = 1
    window_blocks: int = 1

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"there is no order {self.mode!r}; there are {', '.join(map(repr, MODES))}")
        for name, least, most in (
            ("seed", 0, (1 << 64) - 1),
            ("epoch", 0, (1 << 64) - 1),
            ("block_rows", 1, 1 << 62),
            ("window_blocks", 1, 1 << 62),
        ):
            _keep_integer(self, name, least, most)

    @classmethod
    def parse(
        cls, shuffle: Shuffle, seed: int = 0, epoch: int = 0, block_rows: int = 1, window_blocks: int = 1
    ) -> OrderSpec:
        """The spec for what a user gives as ``shuffle=``."""
        known = isinstance(shuffle, (bool, str)) and shuffle in _SHUFFLES
        if not known:
            raise ValueError(
                f'shuffle is {shuffle!r}; it must be True, False, "block", "parts" or "within-parts"'
            )
        return cls(_SHUFFLES[shuffle], seed, epoch, block_rows, window_blocks)

    def changed(
        self, shuffle: Shuffle | None, seed: int | None, block_rows: int | None, window_blocks: int | None
    ) -> OrderSpec:
        """The order with what is given in place of its own."""
        return replace(
            self,
            mode=self.mode if shuffle is None else OrderSpec.parse(shuffle).mode,
            seed=self.seed if seed is None else seed,
            block_rows=self.block_rows if block_rows is None else block_rows,
            window_blocks=self.window_blocks if window_blocks is None else window_blocks,
        )

    def check_blocks_given(self, blocks: tuple[int | None, int | None]) -> None:
        """Refuses sizes of blocks that a user has named for an order that has none."""
        named = [
            name
            for name, size in zip(("block_rows", "window_blocks"), blocks, strict=True)
            if size is not None
        ]
        if named and self.mode != "block":
            shuffle = next(asked for asked, mode in _SHUFFLES.items() if mode == self.mode)
            raise ValueError(
                f'{" and ".join(named)}: sizes for shuffle="block", and this dataset has shuffle={shuffle!r}: '
                f'leave them out, or ask for shuffle="block"'
            )

    @property
    def code(self) -> int:
        """The mode as the C core numbers it."""
        return MODES[self.mode]

    def at_epoch(self, epoch: int) -> OrderSpec:
        """The same order in another epoch."""
        return OrderSpec(self.mode, self.seed, epoch, self.block_rows, self.window_blocks)


def check_integer(name: str, value: object, least: int, most: int | None = None) -> int:
    """``value`` as an int if it is an integer in range; bools and floats are mistakes, not numbers."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} is {value!r}; it must be an integer")
    number = value.__index__()
    if number < least or (most is not None and number > most):
        limit = f"at least {least}" if most is None else f"between {least} and {most}"
        raise ValueError(f"{name} is {number}; it must be {limit}")
    return int(number)


def _keep_integer(owner: object, name: str, least: int, most: int | None = None) -> None:
    """Checks a field of a frozen dataclass and makes it a plain int: numpy's overflow, and JSON does not know them."""
    object.__setattr__(owner, name, check_integer(name, getattr(owner, name), least, most))


def check_shard_arguments(shard_id: int | None, num_shards: int | None) -> tuple[int, int]:
    """(shard_id, num_shards) as given, or (0, 1) when neither is; one alone is a mistake."""
    if shard_id is None and num_shards is None:
        return 0, 1
    if shard_id is None:
        raise ValueError(
            f"num_shards={num_shards} is given without shard_id: give both, or neither for all rows"
        )
    if num_shards is None:
        raise ValueError(
            f"shard_id={shard_id} is given without num_shards: give both, or neither for all rows"
        )
    count = check_integer("num_shards", num_shards, 1)
    return check_integer("shard_id", shard_id, 0, count - 1), count


def shard_from_environment(
    shard_id: int | None = None, num_shards: int | None = None, environ: Mapping[str, str] | None = None
) -> tuple[int, int]:
    """(rank, ranks) of Ray Train's worker, else as the launcher has set them, else (0, 1); explicit arguments win."""
    if shard_id is not None or num_shards is not None:
        return check_shard_arguments(shard_id, num_shards)
    of_ray = _ray_train_ranks() if environ is None else None
    if of_ray is not None:
        return of_ray
    variables = os.environ if environ is None else environ
    for launcher, rank_name, size_name in _LAUNCHERS:
        rank, size = variables.get(rank_name), variables.get(size_name)
        if rank is None and size is None:
            continue
        if rank is None or size is None:
            present, absent = (size_name, rank_name) if rank is None else (rank_name, size_name)
            raise ValueError(
                f"the environment has {present}={variables[present]} ({launcher}) but no {absent}: "
                "set both, or give shard_id and num_shards"
            )
        return _parse_ranks(rank_name, rank, size_name, size)
    return 0, 1


def launched_ranks() -> tuple[int, int]:
    """(rank, ranks) of this process, as ``shard_from_environment`` finds them; (0, 1) where that is unclear."""
    try:
        return shard_from_environment()
    except ValueError:
        return 0, 1


def _ray_train_ranks() -> tuple[int, int] | None:
    """Those of this worker of Ray Train, whose cluster may itself stand in a launcher's job; None elsewhere."""
    ray_train = sys.modules.get("ray.train")  # which whoever runs a worker has imported
    if ray_train is None:
        return None
    try:
        context = ray_train.get_context()
        rank, size = context.get_world_rank(), context.get_world_size()
    except RuntimeError:  # not within a worker
        return None
    return None if rank is None or size is None else (int(rank), int(size))


def _parse_ranks(rank_name: str, rank: str, size_name: str, size: str) -> tuple[int, int]:
    try:
        numbers = int(rank), int(size)
    except ValueError:
        raise ValueError(
            f"{rank_name}={rank!r} and {size_name}={size!r} in the environment must be integers"
        ) from None
    if not 0 <= numbers[0] < numbers[1]:
        raise ValueError(f"{rank_name}={rank} in the environment is out of range: {size_name}={size}")
    return numbers


def choose_blocks(rows: int, group_rows: int, mean_row_bytes: float) -> tuple[int, int]:
    """(block_rows, window_blocks) for ``shuffle="block"`` when the user names none.

    A pure function of what the files say, so that every rank chooses the same. A block is a row group, kept between 1
    and 8 MiB; a window is 16 blocks, or as many as 4,096 rows need.
    """
    row_bytes = max(int(mean_row_bytes), 1)
    least, most = (max(limit // row_bytes, 1) for limit in _BLOCK_BYTES)
    block_rows = max(min(max(group_rows, least), most, max(rows, 1)), 1)
    return block_rows, max(_WINDOW_BLOCKS, -(-_WINDOW_ROWS // block_rows))


# Which positions of an epoch a step of a job takes, and which step takes a position: arithmetic alone.


Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class JobSteps:
    """The steps of an epoch: in each, every rank takes a batch of ``batch_size`` samples.

    Sample i of rank r stands at position start + r + i·N, modulo the rows. So a step of the whole job is a run of
    neighbouring positions, whatever the number of ranks. ``sharding`` may be that of any rank.
    """

    sharding: Sharding
    batch_size: int
    drop_last: bool = False

    def __post_init__(self) -> None:
        check_integer("batch_size", self.batch_size, 1, (1 << 62) // self.sharding.num_shards)

    def __len__(self) -> int:
        """Steps of the whole job: those of rank 0, which has most."""
        return -(-int(self.samples(np.zeros(1, np.int64))[0]) // self.batch_size)

    def split(self, step: int) -> tuple[int, int]:
        """(epoch, step of that epoch) of a step that is counted from the start of epoch 0."""
        steps = len(self)
        if steps == 0:
            none = f"no full batch of {self.batch_size}" if self.sharding.rows else "no samples"
            raise IndexError(f"there is no step {step}: an epoch has {none}")
        return divmod(check_integer("step", step, 0), steps)

    def located(self, step: int, epoch: int | None) -> tuple[int, int]:
        """(epoch, step of it); a step without an epoch is counted over all epochs, of which none was taken up later.

        ValueError for a step without an epoch where an epoch begins behind its front.
        """
        if epoch is not None:
            return check_integer("epoch", epoch, 0, (1 << 63) - 1), step
        if self.sharding.start:
            raise ValueError(
                "start is a position in an epoch: give the epoch that was taken up there as well"
            )
        return self.split(step)

    def positions(self, step: int, rank: int | None = None) -> Numbers:
        """The positions of a step, in their order: of one rank, or of the whole job."""
        return self.unwrapped(step, rank) % max(self.sharding.rows, 1)

    def unwrapped(self, step: int, rank: int | None = None) -> Numbers:
        """The same, of which those beyond the end of the epoch stand for its front."""
        steps, ranks = len(self), self.sharding.num_shards
        if not 0 <= check_integer("step", step, 0) < steps:
            raise IndexError(f"there is no step {step}: an epoch has {steps} of {self.batch_size} a rank")
        first, last = 0, ranks
        if rank is not None:
            first = check_integer("rank", rank, 0, ranks - 1)
            last = first + 1
        within = np.arange(
            step * self.batch_size, min((step + 1) * self.batch_size, self._most()), dtype=np.int64
        )
        rank_of = np.arange(first, last, dtype=np.int64)
        delivered = within[:, None] < self.samples(rank_of)[None, :]
        return np.asarray(self.sharding.start + (within[:, None] * ranks + rank_of)[delivered], np.int64)

    def places(self, positions: Numbers) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """(which of ``positions``, step, rank, slot in the rank's batch) of every time that one is delivered.

        With ``remainder="pad"`` the first positions may come again at the end; those left out do not come at all.
        """
        ranks, rows = self.sharding.num_shards, self.sharding.rows
        which = np.tile(np.arange(len(positions), dtype=np.int64), 2)
        after = np.concatenate([positions, positions + rows]) - self.sharding.start
        sample, rank = np.divmod(after, ranks)
        came = (after >= 0) & (sample < self.samples(rank))
        step, slot = np.divmod(sample[came], self.batch_size)
        return which[came], step, rank[came], slot

    def _most(self) -> int:
        return int(self.samples(np.zeros(1, np.int64))[0])

    def samples(self, rank: Numbers) -> Numbers:
        """How many samples each of these ranks delivers."""
        sharding = self.sharding
        left = max(sharding.rows - sharding.start, 0)
        if sharding.remainder == "uneven":
            samples = np.maximum(-((rank - left) // sharding.num_shards), 0)
        else:
            samples = np.full(len(rank), sharding.length, np.int64)
        return samples // self.batch_size * self.batch_size if self.drop_last else samples
