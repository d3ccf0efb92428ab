"""`audit`: whether every position of every epoch of a job was delivered exactly once, by what its ranks wrote down."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any, Final

from ..dataset.dataset import UniRecordDataset
from ..errors import FormatError
from ..order.coverage import Coverage, PositionRange, Stretch, coverage
from ..sizes import many
from .receipts import (
    JobPass,
    Launch,
    Placed,
    RankFile,
    launches,
    ranges_left_out,
    read_receipts,
    receipt_paths,
    rows_that_differ,
)

__all__ = [
    "AuditReport",
    "AuditedEpoch",
    "AuditedLaunch",
    "AuditedOrder",
    "audit",
    "ranks_named",
    "said_of_order",
]

_MOST_WITHOUT: Final = 100  # ranks of a launch that are known by their numbers …
_MOST_NAMED: Final = 8  # … and that are named in a line


@dataclass(frozen=True)
class AuditedLaunch:
    """Ranks that began together at position ``start`` of ``epoch``; ``time_ns`` since 1970, by the clock of one.

    ``undone``: samples that it had delivered behind the place at which a later launch has begun from a state, so that
    they are no part of what the job has learnt. ``without``: its ranks that have no receipts, the first 100 of them.
    """

    time_ns: int
    ranks: int
    batch_size: int
    epoch: int
    start: int
    from_state: bool
    undone: int
    without: tuple[int, ...] = ()


@dataclass(frozen=True)
class AuditedEpoch:
    """What is known of the first ``positions`` positions of an epoch: all of them, unless it is under way.

    ``delivered`` of them came exactly once, ``repeated`` samples came again by ``remainder="pad"``. ``left_out`` are
    those left out on purpose, by the reason: ``"remainder"``, ``"drop_last"``, ``"corrupt"``, ``"excluded"``,
    ``"skipped"`` (by an operator of a pipeline). ``never`` and ``twice`` are mistakes: neither delivered nor left out,
    and delivered more often than once. So ``positions`` are the delivered ones and those of the three, each once.
    """

    epoch: int
    positions: int
    finished: bool
    delivered: int
    repeated: int
    left_out: Mapping[str, tuple[PositionRange, ...]]
    never: tuple[PositionRange, ...]
    twice: tuple[PositionRange, ...]

    @property
    def exact(self) -> bool:
        """Whether each position came exactly once, but for those left out on purpose."""
        return not self.never and not self.twice


@dataclass(frozen=True)
class AuditedOrder:
    """One order that was delivered: ``order`` is a state without its place, ``samples`` the selected rows."""

    order: Mapping[str, Any]
    samples: int
    launches: tuple[AuditedLaunch, ...]
    epochs: tuple[AuditedEpoch, ...]


@dataclass(frozen=True)
class AuditReport:
    """What `audit` has found; ``problems`` says in words what keeps it from being a proof.

    ``torn`` is the number of files whose last record a kill has cut off: its batch was not handed out.
    ``checked_rows``: whether digests were compared with a dataset.
    """

    folder: str
    files: int
    torn: int
    orders: tuple[AuditedOrder, ...]
    problems: tuple[str, ...]
    checked_rows: bool

    @property
    def ok(self) -> bool:
        """Whether it is proven: no problems, and every position of every epoch exactly once or left out on purpose."""
        return not self.problems and all(epoch.exact for order in self.orders for epoch in order.epochs)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values, with ``ok`` and each epoch's ``exact``."""
        found = asdict(self)
        for order, own in zip(self.orders, found["orders"], strict=True):
            for epoch, plain in zip(order.epochs, own["epochs"], strict=True):
                plain["exact"] = epoch.exact
        return {"ok": self.ok, **found}


def said_of_order(order: AuditedOrder) -> str:
    """How many samples an epoch of the order has, and what it is, in words."""
    kind = (order.order.get("drawn") or {}).get("rule", order.order["shuffle"])
    seed = "" if order.order["shuffle"] == "sequential" else f", seed {order.order['seed']}"
    what = f"order {kind}{seed}, remainder {order.order['remainder']}"
    return f"{many(order.samples, 'sample')} an epoch, {what}"


def ranks_named(ranks: Sequence[int]) -> str:
    """Ranks, the first of many; empty where there are none."""
    return ", ".join(map(str, ranks[:_MOST_NAMED])) + (", …" if len(ranks) > _MOST_NAMED else "")


def audit(
    folder: str | os.PathLike[str],
    dataset: UniRecordDataset[Any] | None = None,
    *,
    restarts: bool = False,
) -> AuditReport:
    """Finds out whether a job delivered every position of every epoch exactly once (docs/order.md).

    Crashes, resumes and other numbers of ranks are taken into account. Takes time by the number of receipts, not of
    rows, unless there is a ``dataset``.

    Args:
        folder: what the loaders of all ranks were given as ``receipts=``, or copies of all their files in one folder.
        dataset: opened with the order of the job: then the rows of every batch are computed anew and compared.
        restarts: a launch that begins without a loaded state undoes what was delivered from there on as well. For jobs
            whose checkpoints hold the epoch alone; otherwise what such a launch delivers came twice.

    Raises:
        MissingError: there are no receipts.
        StaleError, ValueError: receipts are of another dataset than ``dataset``, or of other options.
    """
    path = os.fspath(folder)
    paths = receipt_paths(path)
    files: list[RankFile] = []
    problems: list[str] = []
    torn = 0
    for name in paths:
        found = _read(name, problems)
        torn += found is None or found.torn > 0
        if found is not None:
            files.append(found)
    by_order: dict[str, list[RankFile]] = defaultdict(list)
    for file in files:
        by_order[file.head.key].append(file)
    orders = tuple(_audited(same, restarts, problems) for same in by_order.values())
    if dataset is not None:
        for file in files:
            problems += rows_that_differ(file, dataset)
    return AuditReport(path, len(paths), torn, orders, tuple(problems), dataset is not None)


def _read(path: str, problems: list[str]) -> RankFile | None:
    try:
        return read_receipts(path)
    except FormatError as error:
        problems.append(str(error))
    return None


def _audited(files: Sequence[RankFile], restarts: bool, problems: list[str]) -> AuditedOrder:
    head = files[0].head
    found = launches(files, restarts)
    epochs: dict[int, list[tuple[Launch, JobPass]]] = defaultdict(list)
    for launch in found:
        for part in launch.passes():
            limit = launch.stands(part.epoch)
            if limit is None or limit > part.start:
                epochs[part.epoch].append((launch, part))
    under_way = _under_way(found, problems)
    audited = []
    for epoch, parts in sorted(epochs.items()):
        open_here = under_way if under_way is not None and under_way.epoch == epoch else None
        audited.append(_epoch(head.samples, epoch, parts, open_here, problems))
    shown = tuple(
        AuditedLaunch(
            one.time_ns,
            one.head.ranks,
            one.head.batch_size,
            *one.place,
            one.from_state,
            one.undone,
            tuple(
                islice((rank for rank in range(one.head.ranks) if rank not in one.sessions), _MOST_WITHOUT)
            ),
        )
        for one in found
    )
    return AuditedOrder(head.order, head.samples, shown, tuple(audited))


def _under_way(found: Sequence[Launch], problems: list[str]) -> JobPass | None:
    """The pass that the job stands in, if it has not come to its end."""
    if not found:
        return None
    last = list(found[-1].passes())[-1]
    if last.over:
        return None
    missing = (
        sorted(set(range(last.head.ranks)) - set(last.ranks)) if last.head.ranks > len(last.ranks) else []
    )
    if missing and any(part.samples > last.head.batch_size for part in last.ranks.values()):
        problems.append(
            f"epoch {last.epoch}: of {many(last.head.ranks, 'rank')}, these have no receipts since "
            f"position {last.start:,}: "
            f"{ranks_named(missing)}"
        )
    return last


def _epoch(
    samples: int,
    epoch: int,
    parts: Sequence[tuple[Launch, JobPass]],
    under_way: JobPass | None,
    problems: list[str],
) -> AuditedEpoch:
    delivered: list[Stretch] = []
    by_rule: dict[str, list[Stretch]] = defaultdict(list)
    points: dict[str, list[Placed]] = defaultdict(list)
    for launch, part in parts:
        limit = launch.stands(epoch)
        stop = (1 << 64) if limit is None else limit
        delivered += _within(part.delivered(), stop)
        if part.over:
            for why, left in part.left_out_by_rule():
                by_rule[why] += _within([left], stop)
        for rank, own in part.ranks.items():
            for why, numbers in own.left_out.items():
                first, ranks = part.start + rank, part.head.ranks
                told = first + own.samples * ranks
                points[why].append(Placed(numbers, first, ranks, min(stop, samples, told)))
    finished = under_way is None
    horizon = samples if under_way is None else min(under_way.front, samples)
    try:
        found = coverage(delivered, by_rule, 0, horizon)
        behind = coverage(delivered, by_rule, horizon, samples)
    except OverflowError as error:
        problems.append(f"epoch {epoch}: {error}")
        found = behind = Coverage([], [], {})
    left_out = {why: ranges for why, ranges in found.left_out.items() if ranges}
    for why, several in points.items():
        below = [replace(one, stop=min(one.stop, horizon)) for one in several]
        left_out[why] = ranges_left_out(below, found.twice)
    gone = sum(r.count for ranges in left_out.values() for r in ranges)
    again = (stretch.clipped(samples, 1 << 64) for stretch in delivered)
    repeated = sum(stretch.count for stretch in again if stretch is not None)
    wrong = sum(r.count for r in (*found.never, *found.twice))
    return AuditedEpoch(
        epoch, horizon, finished, horizon - gone - wrong, repeated,
        {why: tuple(ranges) for why, ranges in left_out.items()}, tuple(found.never),
        (*found.twice, *behind.twice),
    )  # fmt: skip


def _within(found: Iterable[Stretch], stop: int) -> Iterator[Stretch]:
    for stretch in found:
        clipped = stretch.clipped(0, stop)
        if clipped is not None:
            yield clipped
