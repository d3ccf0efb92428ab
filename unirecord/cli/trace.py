"""``unirecord trace``: which rows a step of training got, and when a row was delivered."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from pathlib import Path
from shlex import quote
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..convert.sources.foreign_libraries import needed
from ..dataset.cursor import OPTIONAL, ResumeState
from ..dataset.dataset import UniRecordDataset
from ..dataset.draws import DrawnBatches, balanced, bucketed, mix, weighted
from ..errors import MissingError, UniRecordError
from ..format.meaning import as_stored
from ..loading.batch import split_batch
from ..order.spec import REMAINDERS
from ..sizes import many
from .arguments import (
    BATCH,
    BY,
    CACHE,
    CACHE_BYTES,
    COLUMNS,
    CSV,
    DATASETS,
    EXTRACT,
    JSON,
    LIMIT,
    OUT,
    ROW,
    SEED,
    STORAGE,
    WHERE,
    Argument,
    UsageError,
    command,
    count,
    one_of,
    pairs,
    refuse,
    titled,
    wrong_call,
)
from .cells import csv_cell, extract_cells, print_samples
from .terminal import fitted_table, print_csv, print_json_list, say

__all__ = ["mixture_of_state", "named_path", "options_of", "trace_command"]


_LIMIT: Final = 20
_BATCH: Final = 32


def _range(text: str) -> range:
    first, colon, end = text.partition(":")
    return range(count(first), count(end) if colon else count(first) + 1)


def _weights(text: str) -> dict[str, float]:
    given = pairs(text, "NAME=WEIGHT")
    try:
        return {name: float(weight) for name, weight in given.items()}
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: a weight is a number") from None


def _times(text: str) -> int | dict[str, int]:
    return (
        {name: count(often) for name, often in pairs(text, "NAME=N").items()} if "=" in text else count(text)
    )


SHUFFLES: Final = {
    "yes": True,
    "no": False,
    "block": "block",
    "parts": "parts",
    "within-parts": "within-parts",
}


@command(
    """Say which rows a step of a training job got, or will get, and when a row came, or will come. Nothing of a run
    is needed but its numbers: the order is computed. Give the options that the job has: seed, batch size of a
    rank, ranks, and whatever else its dataset was opened with; or a state or checkpoint of it.""",
    """
    unirecord trace data --seed 1 --batch 256 --ranks 8 --step 12345            all rows of a step
    unirecord trace data --seed 1 --batch 256 --ranks 8 --step 12345 --rank 3 --columns path,label
    unirecord trace data --state last.pt --batch 256 --ranks 8                  the step before a checkpoint
    unirecord trace data --seed 1 --batch 256 --ranks 8 --row 4711 --epochs 0:3  when a row comes
    unirecord trace data --seed 1 --batch 256 --step 800 --extract image --out step800/
    unirecord trace web=web code=code --weights web=0.7,code=0.3 --batch 256 --step 800   of a mixture
    unirecord trace data --state last.pt --drawn-by label                       of balanced(ds, "label", …)
    """,
    DATASETS.but(help="a part or a directory of parts; of a mixture NAME=PATH of each source"),
    titled(
        "the job",
        BATCH,
        Argument("--ranks", type=count, default=1, metavar="N", help="how many ranks it has (default 1)"),
        Argument("--drop-last", action="store_true", help="its loaders leave out a smaller last batch"),
        SEED.but(help="its seed (default 0)"),
        Argument("--shuffle", choices=SHUFFLES, help="its order (default yes: shuffle=True)"),
        Argument(
            "--block-rows", type=count, metavar="N", help="as given to the dataset, for --shuffle block"
        ),
        Argument("--window-blocks", type=count, metavar="N", help="as given to the dataset"),
        Argument("--remainder", choices=REMAINDERS, help="as given to the dataset (default pad)"),
        WHERE.but(help="as given to the dataset"),
        Argument(
            "--state",
            metavar="FILE",
            help="a state_dict in JSON, or a checkpoint of PyTorch: instead of these",
        ),
        Argument("--start", type=count, metavar="P", help="the position at which the epoch was taken up"),
        Argument("--weights", type=_weights, metavar="NAME=W,…", help="of a mixture, as given to it"),
        Argument("--stop", choices=("first", "all"), help="of a mixture, as given to it (default first)"),
        Argument("--samples", type=count, metavar="N", help="of a mixture, as given to it"),
        Argument("--repeat", type=_times, metavar="N|NAME=N,…", help="of a mixture, as given to it"),
        BY.but(help="of a mixture, as given to it"),
        Argument("--drawn-by", metavar="COLUMN", help="the column of drawn batches, with their --state"),
    ),
    titled(
        "what is asked",
        Argument("--step", type=count, metavar="N", help="a step: in --epoch, or over all epochs from 0"),
        Argument("--epoch", type=count, metavar="E", help="the epoch in which --step counts"),
        Argument("--rank", type=count, metavar="R", help="one rank's batch alone"),
        ROW.but(metavar="A,B", help="rows by number (of a mixture NAME:A): when do they come?"),
        Argument("--epochs", type=_range, metavar="A:B", help="in these epochs, without B (default: one)"),
    ),
    titled(
        "what is shown",
        COLUMNS.but(help="values of the rows (default: scalar columns)"),
        LIMIT.but(help="at most N lines (default 20; --csv, --json: all)"),
        one_of(CSV, JSON),
        EXTRACT,
        OUT,
    ),
    STORAGE,
    CACHE,
    CACHE_BYTES,
)
def trace_command(args: argparse.Namespace) -> int:
    _check(args)
    state = None if args.state is None else read_state(args.state)
    job = opened_job(args, state)
    with job.ds, wrong_call():
        if args.row is not None:
            _show_deliveries(job, args)
        else:
            _show_step(job, args, _step(job, args, state))
    return 0


def _check(args: argparse.Namespace) -> None:
    if args.state is not None:
        _refuse(args, "--state, which says it", *OF_STATE)
    unasked = args.row is None and args.step is None and args.state is None
    refuse(
        {
            "say what is asked: --step N, or --row N, or --state FILE for the step before it": unasked,
            "--extract COLUMN and --out DIR go together": (args.extract is None) != (args.out is None),
            "--start is a position in an epoch: give --epoch as well": args.start is not None
            and args.state is None
            and args.epoch is None
            and args.epochs is None,
        }
    )
    if args.row is not None:
        _refuse(args, "--row", "step", "epoch", "rank", "columns", "extract", "out")
    else:
        _refuse(args, "a step", "epochs")
    if args.extract is not None:
        _refuse(args, "--extract", "columns", "limit", "csv")


def _refuse(args: argparse.Namespace, what: str, *others: str) -> None:
    given = [f"--{name.replace('_', '-')}" for name in others if getattr(args, name) not in (None, False)]
    if given:
        raise UsageError(f"{', '.join(given)} cannot be given with {what}")


@dataclass(frozen=True)
class _Step:
    """The step that is asked for, in its epoch."""

    epoch: int
    number: int
    start: int
    per_epoch: int

    def __str__(self) -> str:
        whole = "" if self.start else f", step {self.epoch * self.per_epoch + self.number:,} of the job"
        return f"epoch {self.epoch:,}, step {self.number:,} of {self.per_epoch:,}{whole}"


def _step(job: TracedJob, args: argparse.Namespace, state: dict[str, Any] | None) -> _Step:
    per_epoch = job.steps_in_epoch()
    if state is not None:
        done = -(-(state["position"] - job.start) // job.step_positions)
        number = done - 1 if args.step is None else args.step
        if number < 0:
            raise UsageError(
                f"{args.state} stands at the start of epoch {state['epoch']}: give --step for one of its steps"
            )
        return _Step(state["epoch"], number, job.start, per_epoch)
    if args.epoch is not None:
        return _Step(args.epoch, args.step, job.start, per_epoch)
    if per_epoch == 0:
        none = f"no full batch of {job.batch}" if job.ds.num_rows else "no samples"
        raise UsageError(f"there is no step {args.step}: an epoch has {none}")
    epoch, number = divmod(args.step, per_epoch)
    return _Step(epoch, number, job.start, per_epoch)


def _show_step(job: TracedJob, args: argparse.Namespace, step: _Step) -> None:
    """Prints the rows of a step, rank by rank, or writes blobs of theirs to files."""
    places, rows = _rows(job, args, step)
    if args.extract is not None:
        extract_cells(args, job.ds.read_cursor.plan.data.parts, np.unique(rows))
        return
    schema = job.ds.schema
    if args.columns is None:
        columns = [column.name for _, column in schema.scalars]
    else:
        columns = [schema.columns[schema.ordinal(name)].name for name in args.columns]
    limit, gone = _limit(args, len(rows)), _gone(job, args, step)
    values = _values(job, rows[:limit], columns)
    of_rows = ["rank", "slot", *(["source"] if job.sources else []), "row"]
    lines = (
        (
            dict(zip(of_rows, [*place, *(part for part in job.named(row) if part is not None)], strict=True)),
            sample,
        )
        for place, row, sample in zip(places, rows.tolist(), values, strict=False)
    )
    head = {
        "epoch": step.epoch, "step": step.number, "steps_in_epoch": step.per_epoch, "rows": len(rows),
        "left_out": gone,
    }  # fmt: skip
    shown = not args.json and not args.csv
    if shown:
        say(f"{step}: {many(len(rows), 'row')}")
    align = "".join("<" if name == "source" else ">" for name in of_rows)
    print_samples(args, head, "samples", [*of_rows, *columns], lines, align)
    if shown and limit < len(rows):
        say(f"… {len(rows) - limit:,} more (--limit)")
    if shown and gone:
        named = ", ".join(map(str, gone[:_LIMIT])) + (", …" if len(gone) > _LIMIT else "")
        say(f"left out on purpose: {many(len(gone), 'row')}: {named}")


def _gone(job: TracedJob, args: argparse.Namespace, step: _Step) -> list[int]:
    """The rows that the state says are left out of a step."""
    steps = job.ds.order._job(job.batch, job.ranks, job.drop_last, step.start)
    found = job.ds.read_cursor.exclusion_mask(step.epoch, steps).rows_at(
        steps.unwrapped(step.number, args.rank)
    )
    rows: list[int] = found.own[found.out].tolist()
    return rows


def _limit(args: argparse.Namespace, most: int) -> int:
    if args.limit is not None:
        return int(args.limit)
    return most if args.csv or args.json else _LIMIT


def _rows(job: TracedJob, args: argparse.Namespace, step: _Step) -> tuple[Iterator[tuple[int, int]], Any]:
    """(rank, slot) and row of each sample of a step."""
    if args.rank is not None and args.rank >= args.ranks:
        raise UsageError(f"there is no rank {args.rank}: the job has {args.ranks}, numbered from 0 (--ranks)")
    ranks = range(args.ranks) if args.rank is None else [args.rank]
    batches = [job.rows_of(step.number, step.epoch, rank) for rank in ranks]
    places = ((rank, slot) for rank, batch in zip(ranks, batches, strict=True) for slot in range(len(batch)))
    return places, np.concatenate(batches)


def _values(job: TracedJob, rows: Any, columns: list[str]) -> Iterator[dict[str, Any]]:
    """These columns of these rows."""
    if not columns:
        yield from [{}] * len(rows)
        return
    chosen = job.ds.view(columns=columns)
    for start in range(0, len(rows), _BATCH):
        some = rows[start : start + _BATCH]
        batch = chosen.read_rows(some)
        yield from split_batch({name: as_stored(batch[name]) for name in columns}, len(some))


def _show_deliveries(job: TracedJob, args: argparse.Namespace) -> None:
    """Prints when rows come."""
    rows = [job.row(text) for text in args.row.split(",")]
    found = job.steps_of(rows, [job.epoch] if args.epochs is None else args.epochs)
    exclusions, asked = job.ds.read_cursor.exclusions, np.array(rows, np.int64)
    gone = set(asked[exclusions.skipped((1 << 63) - 1, asked, asked)[0]].tolist())
    columns = ["row", "epoch", "step", "rank", "slot"]
    entries: list[dict[str, Any]] = []
    for number, epoch, *place in zip(*(found[name].tolist() for name in columns), strict=True):
        source, row = job.named(number)
        comes = place[0] >= 0
        values = [row, epoch, *(place if comes else [None] * 3)]
        entry = ({"source": source} if job.sources else {}) | dict(zip(columns, values, strict=True))
        entries.append(entry if comes or number not in gone else entry | {"left_out": True})
    if job.sources:
        columns = ["source", *columns]
    limit = _limit(args, len(entries))
    if args.json:
        print_json_list({"steps_in_epoch": job.steps_in_epoch()}, "deliveries", entries[:limit])
    elif args.csv:
        print_csv([columns, *([csv_cell(entry[name]) for name in columns] for entry in entries[:limit])])
    else:
        body = [[_shown(name, entry) for name in columns] for entry in entries[:limit]]
        say(*fitted_table([columns, *body], "<" * (len(columns) - 5) + ">>>>>"))
        if limit < len(entries):
            say(f"… {len(entries) - limit:,} more (--limit)")


def _shown(name: str, entry: dict[str, Any]) -> str:
    if entry[name] is not None:
        return str(entry[name])
    if name != "step":
        return ""
    return "left out" if "left_out" in entry else "not delivered"


Numbers = NDArray[np.int64]

# The options that a state says.
OF_STATE: Final = (
    "seed", "shuffle", "block_rows", "window_blocks", "where", "remainder", "epoch", "weights", "stop", "samples",
    "repeat", "by",
)  # fmt: skip
_OF_MIXTURE: Final = ("weights", "stop", "samples", "repeat", "by")


@dataclass(frozen=True)
class TracedJob:
    """What is asked: ``drawn`` batches, else batches of ``batch`` samples of ``ds``, on each of ``ranks``.

    ``sources`` are the names of a mixture's, and ``first_rows`` where the rows of each begin in its data.
    """

    ds: UniRecordDataset[Any]
    drawn: DrawnBatches | None
    batch: int
    ranks: int
    drop_last: bool
    start: int
    sources: tuple[str, ...] = ()
    first_rows: tuple[int, ...] = ()

    @property
    def epoch(self) -> int:
        """The current epoch: the one of the state."""
        return self.ds.epoch if self.drawn is None else self.drawn.epoch

    @property
    def step_positions(self) -> int:
        """Positions that a step of all ranks takes."""
        return self.ranks * (self.batch if self.drawn is None else 1)

    def steps_in_epoch(self) -> int:
        """Steps of an epoch."""
        return int(self._ask("steps_in_epoch"))

    def rows_of(self, step: int, epoch: int, rank: int) -> Numbers:
        """The rows of a rank's batch."""
        rows: Numbers = self._ask("rows_of", step, epoch=epoch, rank=rank)
        return rows

    def steps_of(self, rows: Sequence[int], epochs: Iterable[int]) -> dict[str, Numbers]:
        """When rows come."""
        found: dict[str, Numbers] = self._ask("steps_of", rows, epochs=epochs)
        return found

    def _ask(self, name: str, *what: Any, **asked: Any) -> Any:
        asked |= {"num_shards": self.ranks, "start": self.start}
        if self.drawn is not None:
            return getattr(self.drawn.order, name)(*what, **asked)
        return getattr(self.ds.order, name)(*what, self.batch, drop_last=self.drop_last, **asked)

    def named(self, row: int) -> tuple[str | None, int]:
        """The source of a row, None where there is but one, and its number there."""
        if not self.sources:
            return None, row
        source = int(np.searchsorted(self.first_rows, row, side="right")) - 1
        return self.sources[source], row - self.first_rows[source]

    def row(self, text: str) -> int:
        """The row that is called so: a number, of a mixture SOURCE:NUMBER."""
        source, _, number = text.rpartition(":")
        if not self.sources:
            return _number(text)
        if source not in self.sources:
            raise UsageError(
                f"--row {text}: name the source as well, such as --row {quote(f'{self.sources[0]}:{number}')}"
            )
        place, found = self.sources.index(source), _number(number)
        ends = (*self.first_rows[1:], self.ds.read_cursor.plan.order.selection.rows)
        if found >= ends[place] - self.first_rows[place]:
            raise UsageError(
                f"--row {text}: {source} has {many(ends[place] - self.first_rows[place], 'row')}"
            )
        return self.first_rows[place] + found


def _number(text: str) -> int:
    try:
        return count(text)
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"--row: {error}") from None


def opened_job(args: argparse.Namespace, state: Mapping[str, Any] | None) -> TracedJob:
    """The job as its options or its state say; a state is refused where it is of other data or options."""
    drawn = None if state is None else state.get("drawn")
    rule = None if drawn is None else str(drawn.get("rule"))
    try:
        mixed = rule == "mixture" or len(args.path) > 1
        job = _mixed(args, state) if mixed else _plain(args, state, drawn, rule)
        if state is not None:
            (job.ds if job.drawn is None else job.drawn).load_state_dict(state)
    except UniRecordError:
        raise
    except (ValueError, TypeError, KeyError) as error:
        raise UsageError(str(error) if state is None else f"{args.state}: {error}") from error
    return job


def _plain(
    args: argparse.Namespace,
    state: Mapping[str, Any] | None,
    drawn: Mapping[str, Any] | None,
    rule: str | None,
) -> TracedJob:
    if state is not None:
        _refuse_pieces(args.state, str(state["identity"]))
    given = [f"--{name}" for name in _OF_MIXTURE if getattr(args, name) is not None]
    drawn_by = args.drawn_by
    refuse(
        {
            f"{', '.join(given)}: for a mixture, give each source as NAME=PATH": given,
            f"{args.state} is of {rule} draws, and says not of which column: give --drawn-by COLUMN "
            "(weights that are in no column: ask order.rows_of and order.steps_of in Python)": (
                drawn is not None and drawn_by is None
            ),
            "--drawn-by is for the --state of drawn batches; this job has none": (
                drawn is None and drawn_by is not None
            ),
        }
    )
    ds = UniRecordDataset(args.path[0], **_options(args, state))
    if drawn is None:
        return _job(args, ds, None)
    made = _drawn(ds, drawn, rule, drawn_by)
    batched = made.read_cursor.plan.order.batched
    return _job(args, ds if batched else made, made if batched else None)


def _refuse_pieces(path: str, identity: str) -> None:
    """UsageError for a state of windows or packed samples, whose identity says of which (docs/spec/states.md)."""
    _, made, what = identity.partition("/")
    if made:
        column, _, size = what.partition("/")[2].partition(":")
        kind = "packed samples" if ",packed," in size else "windows"
        raise UsageError(
            f"{path} is of {kind} of the column {column!r}, and trace names rows: one of these may be pieces of "
            'several. Make them in Python as the job does, with documents="document", which says of each element which '
            "row it is of, and ask for order.rows_of(step, batch_size, epoch=..., read=True)"
        )


def _drawn(ds: UniRecordDataset[Any], drawn: Mapping[str, Any], rule: str | None, column: str) -> Any:
    """What a state says was drawn of a dataset, by a column."""
    if rule == "balanced":
        return balanced(ds, column, **{name: drawn[name] for name in ("classes", "per_class", "batches")})
    if rule == "bucketed":
        names = ("edges", "batch_size", "max_length", "drop_last")
        return bucketed(ds, column, **{name: drawn[name] for name in names})
    if rule == "weighted":
        return weighted(ds, column, samples=drawn["samples"], replacement=drawn.get("replacement", True))
    raise UsageError(f"the state is of {rule!r} draws, which this unirecord does not know")


def _options(args: argparse.Namespace, state: Mapping[str, Any] | None) -> dict[str, Any]:
    if state is not None:
        return options_of(state)
    return {
        "shuffle": SHUFFLES[args.shuffle or "yes"],
        "seed": args.seed or 0,
        "where": args.where,
        "remainder": args.remainder or "pad",
        "block_rows": args.block_rows,
        "window_blocks": args.window_blocks,
    }


def _mixed(args: argparse.Namespace, state: Mapping[str, Any] | None) -> TracedJob:
    """A mixture of NAME=PATH; a state says how it was made, and each source with it."""
    paths = dict(named_path(one) for one in args.path)
    said = "is not for a mixture, whose sources may differ: give its --state, or ask order.rows_of and "
    said += "order.steps_of in Python"
    others = ("where", "block_rows", "window_blocks", "drawn_by")
    refuse(
        {
            "two sources have the same name": len(paths) < len(args.path),
            **{f"--{name.replace('_', '-')} {said}": getattr(args, name) is not None for name in others},
        }
    )
    ds = _mixture(args, paths) if state is None else mixture_of_state(state, paths)
    rule: Any = ds.read_cursor.plan.order.rule
    sources = [(source.name, source.first_row) for source in rule.sources]
    names, first_rows = zip(*sources, strict=True)
    return _job(args, ds, None, names, first_rows)


def named_path(text: str) -> tuple[str, str]:
    """The name and the path of NAME=PATH."""
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise UsageError(f"{text}: give each source of a mixture as NAME=PATH")
    return name, path


def _mixture(args: argparse.Namespace, paths: Mapping[str, str]) -> UniRecordDataset[Any]:
    return _mix(
        {name: (path, {"remainder": args.remainder or "pad"}) for name, path in paths.items()},
        args.weights,
        seed=args.seed or 0,
        shuffle=SHUFFLES[args.shuffle or "yes"],
        stop=args.stop or "first",
        samples=args.samples,
        repeat=args.repeat,
        by=args.by,
    )


def mixture_of_state(state: Mapping[str, Any], paths: Mapping[str, str]) -> UniRecordDataset[Any]:
    """The mixture that a state, or the order of receipts, is of, of the datasets at these paths by name."""
    drawn = state.get("drawn") or {}
    if drawn.get("rule") != "mixture":
        raise UsageError("the state is not of a mixture: give the one PATH that it is of")
    told = {source["name"]: source for source in drawn["sources"]}
    itself = [(name, rule) for name, one in told.items() for rule in ("weighted", "mixture") if rule in one]
    if itself:
        raise UsageError(
            f"source {itself[0][0]!r} is {itself[0][1]} itself, which no path tells: ask in Python, by order.rows_of "
            "and order.steps_of of the mixture, or unirecord.audit(folder, ds)"
        )
    if set(told) != set(paths):
        raise UsageError(f"the state is of the sources {sorted(told)}; give each of them as NAME=PATH")
    stages = [(start, dict(zip(told, weights, strict=True))) for start, weights in drawn["weights"]]
    repeat = dict(zip(told, drawn["repeat"], strict=True)) if "repeat" in drawn else None
    then = {
        name: dict(zip(told, weights, strict=True))
        for name, weights in zip(told, drawn.get("then", ()), strict=False)
        if weights is not None
    }
    return _mix(
        {
            name: (paths[name], options_of({**one, "remainder": state["remainder"]}))
            for name, one in told.items()
        },
        stages[0][1],
        told,
        seed=state["seed"],
        shuffle=options_of(state)["shuffle"],
        samples=drawn["samples"],
        schedule=dict(stages[1:]) or None,
        repeat=repeat,
        then=then or None,
        by=drawn.get("by"),
    )


def _mix(
    sources: Mapping[str, tuple[str, Any]],
    weights: Any,
    told: Mapping[str, Any] | None = None,
    **options: Any,
) -> UniRecordDataset[Any]:
    """A mixture of the datasets at these paths, opened with these options; ``told``: what a state says of them."""
    with ExitStack() as opened:  # the mixture opens them anew
        given = {
            name: opened.enter_context(UniRecordDataset(path, **own)) for name, (path, own) in sources.items()
        }
        _refuse_narrowed(given, told or {})
        return mix(given, weights, **options)


def _refuse_narrowed(given: Mapping[str, UniRecordDataset[Any]], told: Mapping[str, Any]) -> None:
    """UsageError that names the sources of a state whose rows have been chosen in a way that no path tells."""
    plans = {name: given[name].read_cursor.plan for name in told}
    # What has been made of the rows of a path is named behind them: loading/streams.py, _StreamSnapshot.
    cut = [name for name, plan in plans.items() if told[name]["identity"].startswith(f"{plan.identity}/")]
    if cut:
        raise UsageError(
            f"source {', '.join(map(repr, cut))} is of windows or packed samples, which no path tells: ask in Python, "
            "by order.rows_of and order.steps_of of the mixture, or unirecord.audit(folder, ds)"
        )
    narrowed = [
        name
        for name, plan in plans.items()
        if plan.identity == told[name]["identity"]
        and plan.order.selection.digest() != told[name]["selection"]
    ]
    if narrowed:
        raise UsageError(
            f"source {', '.join(map(repr, narrowed))} has other rows in the mixture than its path gives: chosen with "
            "select, take, skip or split, or as anchors of sequences, which no path tells: ask in Python, by "
            "order.rows_of and order.steps_of of the mixture, or unirecord.audit(folder, ds)"
        )


def _job(
    args: argparse.Namespace,
    ds: UniRecordDataset[Any],
    drawn: DrawnBatches | None,
    sources: tuple[str, ...] = (),
    first_rows: tuple[int, ...] = (),
) -> TracedJob:
    own = "the batches are drawn, and say themselves how large they are: leave out --batch and --drop-last"
    refuse(
        {
            "give --batch, the samples in a batch of one rank": drawn is None and args.batch is None,
            own: drawn is not None and (args.batch is not None or args.drop_last),
        }
    )
    return TracedJob(
        ds, drawn, args.batch or 1, args.ranks, args.drop_last, args.start or 0, sources, first_rows
    )


_NAMES: Final = frozenset(field.name for field in fields(ResumeState) if field.name not in OPTIONAL)
_MOST_DEPTH: Final = 32


def read_state(path: str) -> dict[str, Any]:
    """The one state in a file; UsageError when there is none, or there are several that differ."""
    found = dict(_states(_content(path), "", 0))
    different = {json.dumps(state, sort_keys=True, default=str): place for place, state in found.items()}
    if not found:
        raise UsageError(f"{path} holds no state of a dataset or loader, which state_dict() gives")
    if len(different) > 1:
        places = ", ".join(place or "the top" for place in different.values())
        raise UsageError(
            f"{path} holds {len(different)} different states, at {places}: write the right one to a file"
        )
    return next(iter(found.values()))


def _content(path: str) -> Any:
    """What is in the file, without running anything that it holds."""
    try:
        with open(path, "rb") as file:
            begin = file.read(1)  # a checkpoint may be larger than memory
    except FileNotFoundError:
        raise MissingError(f"{path} does not exist: --state takes a file with a state_dict") from None
    if begin in (b"{", b"["):
        try:
            return json.loads(Path(path).read_text("utf-8"))
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{path} begins like JSON and is none: {error}") from None
    torch = needed("torch", f"{path}, which is no JSON and may be a checkpoint of PyTorch,")
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # pickle fails in many ways
        reason = (str(error) if begin else "it is empty").split("\n")[0]
        raise UsageError(
            f"{path} is neither JSON nor a checkpoint that torch.load(weights_only=True) takes: {reason}"
        ) from None


def _states(value: Any, place: str, depth: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place, state) of every state below a value."""
    if depth > _MOST_DEPTH:
        return
    if isinstance(value, Mapping):
        if value.keys() >= _NAMES:
            yield place, {name: value[name] for name in (*_NAMES, *OPTIONAL, "version") if name in value}
            return
        inside = [(str(key), item) for key, item in value.items()]
    elif isinstance(value, list | tuple):
        inside = [(str(number), item) for number, item in enumerate(value)]
    else:
        return
    for name, item in inside:
        yield from _states(item, f"{place}.{name}" if place else name, depth + 1)


def options_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """Options of ``UniRecordDataset``, from a state or from the order that receipts name."""
    options = {name: state[name] for name in ("seed", "where", "remainder")}
    options["shuffle"] = {"sequential": False, "shuffle": True}.get(state["shuffle"], state["shuffle"])
    if options["shuffle"] == "block":
        options |= {name: state[name] for name in ("block_rows", "window_blocks")}
    return options
