"""A training job as one page: its launches, what each epoch delivered, and whether that is proven."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from ..loading.stats import STATS_SUFFIX, Stats
from ..order.coverage import PositionRange
from ..sizes import format_size, many
from ..storage.schemes import location_of
from .audit import AuditedEpoch, AuditedOrder, AuditReport
from .markup import Markup, element, join, meter, page

__all__ = [
    "SavedStats",
    "ranks_named",
    "run_report",
    "saved_stats",
]


# Figures that loaders and pipelines have saved beside their receipts.


_MOST_FILES: Final = 1_000
_MOST_BYTES: Final = 1 << 20


class SavedStats(NamedTuple):
    """One file: whose figures they are by its name, and the figures, or the ``problem`` why it cannot be read."""

    name: str
    stats: Stats | None
    problem: str = ""


def saved_stats(folder: str) -> list[SavedStats]:
    """The figures in a folder, by name; of very many files the first ones."""
    place = location_of(folder)
    names = sorted(name for name in place.names(folder) if name.endswith(STATS_SUFFIX))[:_MOST_FILES]
    return [_read(os.path.join(folder, name), name.removesuffix(STATS_SUFFIX)) for name in names]


def _read(path: str, name: str) -> SavedStats:
    try:
        content = location_of(path).read(path, _MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise ValueError("it is too large")
        return SavedStats(name, Stats.from_dict(json.loads(content)))
    except (OSError, ValueError, RecursionError) as error:
        return SavedStats(name, None, f"cannot be read: {error}")


_LAUNCHES: Final = 500  # the last ones, of each order
_EPOCHS: Final = 1_000  # the last ones, of each order
_RANGES: Final = 10  # of positions, of each kind and epoch
_PROBLEMS: Final = 200
_RANKS: Final = 8  # that are named
_STAGES: Final = 1_000
_PARTS: Final = 200


def run_report(found: AuditReport, stats: Sequence[SavedStats] = ()) -> bytes:
    """The page, in UTF-8, with figures that loaders have saved: it needs no other file and no network, and no script.

    Of long lists it shows a part.
    """
    sections = [_section("Result", "result", _result(found))]
    for number, order in enumerate(found.orders, 1):
        name = "Order" if len(found.orders) == 1 else f"Order {number:,}"
        sections.append(_section(name, f"order-{number}", _order(order)))
    if stats:
        sections.append(_section("Waits", "waits", _waits(stats)))
    return page(
        f"{found.folder}: UniRecord audit",
        element("header", element("h1", "Run report"), element("p", found.folder, class_="soft")),
        element("main", *sections),
    )


def _section(title: str, name: str, *content: object) -> Markup:
    return element("section", element("h2", title), *content, id=name)


def _result(found: AuditReport) -> Markup:
    verdict = (
        "Proven: every position of every epoch came exactly once, but for those left out on purpose."
        if found.ok
        else "NOT proven that every position came exactly once."
    )
    rows = "compared with the dataset" if found.checked_rows else "not compared with a dataset"
    facts = [("files", f"{found.files:,}"), ("cut off by a kill", f"{found.torn:,}"), ("rows", rows)]
    listed = [
        element("tr", element("th", name, scope="row"), element("td", value, class_="any"))
        for name, value in facts
    ]
    problems = [element("li", text, class_="warn") for text in found.problems[:_PROBLEMS]]
    return join(
        element("p", element("strong", verdict), class_=None if found.ok else "warn"),
        _scrolled("receipts", element("table", *listed)),
        element("ul", *problems) if problems else "",
        _more(len(found.problems) - _PROBLEMS, "problem"),
    )


def _order(found: AuditedOrder) -> Markup:
    kind = (found.order.get("drawn") or {}).get("rule", found.order["shuffle"])
    seed = "" if found.order["shuffle"] == "sequential" else f", seed {found.order['seed']}"
    says = (
        f"{many(found.samples, 'sample')} an epoch, order {kind}{seed}, remainder {found.order['remainder']}"
    )
    launches = [
        [
            element("span", _utc(one.time_ns), class_="time"),
            f"{one.ranks:,}", f"{one.batch_size:,}", f"{one.epoch:,}", f"{one.start:,}",
            "yes" if one.from_state else "no", f"{one.undone:,}", ranks_named(one.without),
        ]
        for one in found.launches[-_LAUNCHES:]
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
    epochs = [_epoch(found, epoch) for epoch in found.epochs[-_EPOCHS:]]
    columns = ["epoch", "state", "positions", "exactly once", "share", "again as padding"]
    columns += ["left out", "twice", "never"]
    return join(
        element("p", says, class_="soft"),
        element("h3", "Launches"),
        _table("launches", head, launches, {1, 2, 3, 4, 6}),
        _more(len(found.launches) - _LAUNCHES, "earlier launch"),
        element("h3", "Epochs"),
        _table("epochs", columns, epochs, {2, 3, 5}),
        _more(len(found.epochs) - _EPOCHS, "earlier epoch"),
    )


def _epoch(order: AuditedOrder, found: AuditedEpoch) -> list[object]:
    state = ("exact" if found.exact else "NOT exact") + ("" if found.finished else ", under way")
    left_out = [element("div", f"{why}: {_ranges(ranges)}") for why, ranges in found.left_out.items()]
    share = found.delivered / order.samples if order.samples else 0.0
    return [
        f"{found.epoch:,}",
        state if found.exact else element("strong", state, class_="warn"),
        f"{found.positions:,} of {order.samples:,}",
        f"{found.delivered:,}",
        join(f"{share:.1%}", meter(share)),
        f"{found.repeated:,}",
        join(*left_out) if left_out else "none",
        _ranges(found.twice),
        _ranges(found.never),
    ]


def ranks_named(ranks: Sequence[int]) -> str:
    """Ranks, the first of many; empty where there are none."""
    return ", ".join(map(str, ranks[:_RANKS])) + (", …" if len(ranks) > _RANKS else "")


def _waits(stats: Sequence[SavedStats]) -> Markup:
    """What each rank's loader waited for, and what each of its stages did."""
    found = [(one.name, one.stats) for one in stats if one.stats is not None]
    head = ["figures of", "results", "seconds", "waited", "share", "bound by"]
    rows = [
        [
            name, f"{one.results:,.0f}", f"{one.seconds:,.1f} s", f"{one.wait_s:,.1f} s",
            _share(one.wait_s / one.seconds if one.seconds else 0.0), one.bound,
        ]
        for name, one in found
    ]  # fmt: skip
    stages = [
        [
            name, stage.name, f"{stage.elements:,.0f}", f"{stage.busy_s:,.1f} s", f"{stage.workers:.1f}",
            _known_share(stage.wait_in), _known_share(stage.wait_out), _share(stage.share),
        ]
        for name, one in found
        for stage in one.stages
    ]  # fmt: skip
    of_stages = [
        "figures of", "stage", "elements", "work", "workers", "without input", "without takers", "share of work",
    ]  # fmt: skip
    says = "Waited: the time in which the training loop waited for a batch. Work: the time of all workers of a stage."
    wrong = [element("li", f"{one.name}: {one.problem}", class_="warn") for one in stats if one.problem]
    return join(
        element("p", says, class_="soft"),
        _table("waits", head, rows, {1, 2, 3}) if rows else "",
        element("h3", "Stages") if stages else "",
        _table("stages", of_stages, stages[:_STAGES], {2, 3, 4}) if stages else "",
        _more(len(stages) - _STAGES, "stage"),
        _parts(found),
        element("ul", *wrong) if wrong else "",
    )


def _parts(stats: Sequence[tuple[str, Stats]]) -> Markup:
    """The parts of the dataset that reading took the longest of, all ranks together."""
    slowest = sorted(
        ((part, name, one) for name, one in stats for part in one.parts), key=lambda found: -found[0].seconds
    )
    if not slowest:
        return join()
    rows = [
        [
            part.path, name, f"{part.batches:,.0f}", format_size(round(part.bytes)), _duration(part.seconds),
            f"{part.bytes / part.seconds / 1e6:,.0f} MB/s" if part.seconds else "",
            _share(part.seconds / one.parts_s if one.parts_s else 0.0),
        ]
        for part, name, one in slowest[:_PARTS]
    ]  # fmt: skip
    timed = sum(one.parts_timed for _, one in stats)
    seconds = sum(one.parts_s for _, one in stats)
    says = (
        f"The slowest parts first. Batches that take long enough are timed part by part: {_duration(seconds)} of all "
        f"reading, {timed:,.0f} parts counted for each rank. Batches that come out of memory are too quick for it. "
        "Share: of what was timed on that rank."
    )
    head = ["part", "figures of", "batches", "bytes", "reading", "rate", "share"]
    return join(
        element("h3", "Parts"),
        element("p", says, class_="soft"),
        _table("parts", head, rows, {2, 3, 4, 5}),
        _more(timed - len(rows), "part", " that took less"),
    )


def _known_share(share: float | None) -> Markup:
    return join("not measured") if share is None else _share(share)


def _duration(seconds: float) -> str:
    return f"{seconds:,.1f} s" if seconds >= 1 else f"{seconds * 1e3:,.1f} ms"


def _share(share: float) -> Markup:
    return join(f"{share:.1%}", meter(share))


def _ranges(found: Sequence[PositionRange]) -> str:
    if not found:
        return "none"
    named = "; ".join(map(str, found[:_RANGES])) + ("; …" if len(found) > _RANGES else "")
    return f"{sum(one.count for one in found):,}: {named}"


def _utc(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _table(says: str, head: Sequence[str], rows: Sequence[Sequence[object]], numbers: set[int]) -> Markup:
    kind = ["number" if column in numbers else None for column in range(len(head))]
    first = element(
        "tr", *(element("th", name, scope="col", class_=c) for name, c in zip(head, kind, strict=True))
    )
    body = [
        element(
            "tr",
            element("th", row[0], scope="row"),
            *(element("td", cell, class_=c) for cell, c in zip(row[1:], kind[1:], strict=True)),
        )
        for row in rows
    ]
    return _scrolled(says, element("table", element("thead", first), element("tbody", *body)))


def _scrolled(says: str, content: Markup) -> Markup:
    return element("div", content, class_="scroll", tabindex="0", role="region", aria_label=says)


def _more(count: int, noun: str, which: str = "") -> Markup:
    return element("p", f"and {many(count, noun)}{which}", class_="soft") if count > 0 else join()
