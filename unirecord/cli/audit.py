"""``unirecord audit`` and ``unirecord report``: whether a job delivered every sample once, by its receipts."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ..dataset.dataset import UniRecordDataset
from ..errors import UniRecordError
from ..inspect.audit import AuditedEpoch, AuditedOrder, AuditReport, audit, ranks_named, said_of_order
from ..inspect.markup import templates
from ..inspect.reports import run_page, saved_stats, write_page
from ..order.coverage import PositionRange
from ..sizes import format_size, many, utc_time
from .arguments import JSON, Argument, UsageError, command
from .terminal import answer, fitted_table, say, warn
from .trace import mixture_of_state, named_path, options_of

__all__ = ["audit_command", "report_command"]


_MOST: Final = 10


def audited(args: argparse.Namespace) -> AuditReport:
    """What the arguments of both ask for."""
    report = audit(args.folder, restarts=args.restarts)
    return report if args.dataset is None else _with_dataset(args, report)


_QUESTIONS: Final = (
    Argument("folder", metavar="DIR", help="the folder given to the loaders as receipts=, of all ranks"),
    Argument(
        "--restarts",
        action="store_true",
        help="launches without a loaded state undo what came before as well: checkpoints hold the epoch alone",
    ),
)
_DATASET: Final = Argument(
    "--dataset",
    metavar="PATH",
    action="extend",
    nargs="+",
    help="compare the rows of every batch with this dataset's order; of a mixture NAME=PATH of each source",
)


@command(
    """Prove, by the receipts that the loaders of a job have written, that every position of every epoch was
    delivered exactly once, over crashes, resumes and changed numbers of ranks; or name what came twice, never, or
    was left out on purpose. Exit code 1 when it is not proven.""",
    """
    unirecord audit run1/receipts                   by arithmetic alone
    unirecord audit run1/receipts --dataset data    and every batch had the rows that the order gives
    unirecord audit run1/receipts --dataset web=web code=code    of a mixture
    unirecord audit run1/receipts --json
    """,
    *_QUESTIONS,
    _DATASET,
    JSON,
)
def audit_command(args: argparse.Namespace) -> int:
    report = audited(args)
    return answer(args, report, _said(report), report.ok)


def _with_dataset(args: argparse.Namespace, report: AuditReport) -> AuditReport:
    if len(report.orders) != 1:
        raise UsageError(
            f"{args.folder} holds receipts of {many(len(report.orders), 'order')}; --dataset compares one: "
            "give each its own folder"
        )
    try:
        with _opened(args, report.orders[0].order) as ds:
            return audit(args.folder, ds, restarts=args.restarts)
    except UniRecordError:
        raise
    except ValueError as error:
        raise UsageError(
            f"{error} (for draws, and rows chosen with select, take, skip or split: unirecord.audit(folder, ds))"
        ) from error


def _opened(args: argparse.Namespace, order: Mapping[str, Any]) -> UniRecordDataset[Any]:
    """The dataset, or the mixture of several, that has the order of the receipts."""
    drawn = order.get("drawn") or {}
    if drawn.get("rule") == "mixture":
        named = ", ".join(f"{source['name']}=PATH" for source in drawn["sources"])
        if not all("=" in one for one in args.dataset):
            raise UsageError(f"{args.folder} holds receipts of a mixture: give each of its sources, {named}")
        return mixture_of_state(order, dict(named_path(one) for one in args.dataset))
    if len(args.dataset) > 1:
        raise UsageError(
            f"{args.folder} holds receipts of one dataset, and --dataset names {len(args.dataset)}"
        )
    return UniRecordDataset(args.dataset[0], **options_of(order))


def _said(report: AuditReport) -> Iterator[str]:
    torn = f", {report.torn:,} cut off by a kill" if report.torn else ""
    yield f"{report.folder}: {many(report.files, 'file')}{torn}"
    for order in report.orders:
        yield from _said_of_order(order)
    warn(*(f"unirecord: {problem}" for problem in report.problems))
    rows = ", with the rows that the dataset gives there" if report.checked_rows else ""
    proven = f"proven: every position exactly once, but for those left out on purpose{rows}"
    yield proven if report.ok else "NOT proven"


def _said_of_order(order: AuditedOrder) -> Iterator[str]:
    yield said_of_order(order)
    rows = [
        [
            utc_time(one.time_ns // 10**9),
            str(one.ranks), f"{one.batch_size:,}", f"{one.epoch:,}", f"{one.start:,}",
            "yes" if one.from_state else "no", f"{one.undone:,}", ranks_named(one.without),
        ]
        for one in order.launches
    ]  # fmt: skip
    head = [
        "launch (UTC)",
        "ranks",
        "batch",
        "epoch",
        "position",
        "from a state",
        "undone later",
        "no receipts from",
    ]
    yield from fitted_table([head, *rows], "<>>>><><")
    for epoch in order.epochs:
        yield from _lines(order, epoch)


def _lines(order: AuditedOrder, epoch: AuditedEpoch) -> Iterator[str]:
    whole = (
        f"all {order.samples:,}" if epoch.finished else f"the first {epoch.positions:,} of {order.samples:,}"
    )
    way = "" if epoch.finished else ", under way"
    verdict = "exact" if epoch.exact else "NOT exact"
    yield f"epoch {epoch.epoch:,}{way}: {verdict}: of {whole} positions {epoch.delivered:,} exactly once"
    if epoch.repeated:
        yield f'  again by remainder="pad": {epoch.repeated:,} from the front'
    for why, ranges in epoch.left_out.items():
        yield f"  left out on purpose ({why}): {_ranges(ranges)}"
    for what, ranges in (("TWICE", epoch.twice), ("NEVER", epoch.never)):
        if ranges:
            yield f"  {what}: {_ranges(ranges)}"


def _ranges(ranges: Sequence[PositionRange]) -> str:
    count = sum(found.count for found in ranges)
    named = "; ".join(map(str, ranges[:_MOST])) + ("; …" if len(ranges) > _MOST else "")
    return f"{many(count, 'position')}: {named}"


@command(
    """Write what audit finds as a page to look at in a browser: the launches of a job, what each epoch delivered,
    what was left out, came twice or never. Exit code 1 when it is not proven; the page is written then too.""",
    """
    unirecord report run1/receipts run1.html
    unirecord report run1/receipts run1.html --dataset data    rows are compared too
    unirecord report run1/receipts run1.html --dataset web=web code=code    of a mixture
    """,
    *_QUESTIONS,
    _DATASET,
    Argument("page", metavar="FILE", nargs="?", help="the page to write; an earlier page is replaced"),
)
def report_command(args: argparse.Namespace) -> int:
    if args.page is None:
        # Behind --dataset, which takes all that follows, the page is the last.
        if args.dataset is None or len(args.dataset) < 2:
            raise UsageError("name the page to write: unirecord report DIR FILE")
        args.page = args.dataset.pop()
    # What is lacking is said before the work, not after it.
    templates()
    found = audited(args)
    size = write_page(run_page(found, saved_stats(args.folder)), args.page)
    result = "proven" if found.ok else "NOT proven"
    say(f"{args.page}: {format_size(size)}, to be opened in a browser; it needs no network ({result})")
    return 0 if found.ok else 1
