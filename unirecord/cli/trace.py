"""``unirecord trace PATH``: which rows a step of a training job got, and when a row came or will come."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ..inspection.extract import extract
from ..loading.batch import split_batch
from ..order.spec import REMAINDERS
from ..sizes import format_size
from .cache_option import add_cache_options
from .cells import cell_json, cell_text
from .storage_option import add_storage_option
from .table import print_table
from .terminal import print_csv, print_json, print_json_list, say
from .trace_job import OF_STATE, SHUFFLES, Job, opened_job
from .trace_state import read_state
from .usage import UsageError, count, make_parser, names, pairs

__all__ = ["add_parser"]

_DESCRIPTION: Final = """Say which rows a step of a training job got, or will get, and when a row came, or will come.
Nothing of a run is needed but its numbers: the order is computed. Give the options that the job has: seed, batch size
of a rank, ranks, and whatever else its dataset was opened with; or a state or checkpoint of it."""

_EXAMPLES: Final = """examples:
  unirecord trace data --seed 1 --batch 256 --ranks 8 --step 12345            all rows of a step
  unirecord trace data --seed 1 --batch 256 --ranks 8 --step 12345 --rank 3 --columns path,label
  unirecord trace data --state last.pt --batch 256 --ranks 8                  the step before a checkpoint
  unirecord trace data --seed 1 --batch 256 --ranks 8 --row 4711 --epochs 0:3  when a row comes
  unirecord trace data --seed 1 --batch 256 --step 800 --extract image --out step800/
  unirecord trace web=web code=code --weights web=0.7,code=0.3 --batch 256 --step 800   of a mixture
  unirecord trace data --state last.pt --drawn-by label                       of ds.balanced("label", …)"""

_LIMIT: Final = 20
_BATCH: Final = 32


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = make_parser(
        subparsers.add_parser, "trace", help="which rows a training step got", description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )  # fmt: skip
    parser.add_argument(
        "path",
        metavar="PATH",
        nargs="+",
        help="a part or a directory of parts; of a mixture NAME=PATH of each source",
    )
    job = parser.add_argument_group("the job")
    job.add_argument("--batch", type=count, metavar="N", help="samples in a batch of one rank")
    job.add_argument("--ranks", type=count, default=1, metavar="N", help="how many ranks it has (default 1)")
    job.add_argument("--drop-last", action="store_true", help="its loaders leave out a smaller last batch")
    job.add_argument("--seed", type=int, metavar="S", help="its seed (default 0)")
    job.add_argument("--shuffle", choices=SHUFFLES, help="its order (default yes: shuffle=True)")
    job.add_argument(
        "--block-rows", type=count, metavar="N", help="as given to the dataset, for --shuffle block"
    )
    job.add_argument("--window-blocks", type=count, metavar="N", help="as given to the dataset")
    job.add_argument("--remainder", choices=REMAINDERS, help="as given to the dataset (default pad)")
    job.add_argument("--where", metavar="CONDITION", help="as given to the dataset")
    job.add_argument(
        "--state", metavar="FILE", help="a state_dict in JSON, or a checkpoint of PyTorch: instead of these"
    )
    job.add_argument("--start", type=count, metavar="P", help="the position at which the epoch was taken up")
    job.add_argument("--weights", type=pairs, metavar="NAME=W,…", help="of a mixture, as given to it")
    job.add_argument("--stop", choices=("first", "all"), help="of a mixture, as given to it (default first)")
    job.add_argument("--samples", type=count, metavar="N", help="of a mixture, as given to it")
    job.add_argument("--drawn-by", metavar="COLUMN", help="the column of drawn batches, with their --state")
    asked = parser.add_argument_group("what is asked")
    asked.add_argument(
        "--step", type=count, metavar="N", help="a step: in --epoch, or over all epochs from 0"
    )
    asked.add_argument("--epoch", type=count, metavar="E", help="the epoch in which --step counts")
    asked.add_argument("--rank", type=count, metavar="R", help="one rank's batch alone")
    asked.add_argument(
        "--row", metavar="A,B", help="rows by number (of a mixture NAME:A): when do they come?"
    )
    asked.add_argument(
        "--epochs", type=_range, metavar="A:B", help="in these epochs, without B (default: one)"
    )
    shown = parser.add_argument_group("what is shown")
    shown.add_argument(
        "--columns", type=names, metavar="A,B", help="values of the rows (default: scalar columns)"
    )
    shown.add_argument(
        "--limit", type=count, metavar="N", help="at most N lines (default 20; --csv, --json: all)"
    )
    shown.add_argument("--csv", action="store_true", help="print as CSV")
    shown.add_argument("--json", action="store_true", help="print as JSON")
    shown.add_argument("--extract", metavar="COLUMN", help="write this column's blobs to files in --out")
    shown.add_argument("--out", metavar="DIR", help="folder for --extract, made if need be")
    add_storage_option(parser)
    add_cache_options(parser)
    parser.set_defaults(run=_run)


def _range(text: str) -> range:
    first, colon, end = text.partition(":")
    return range(count(first), count(end) if colon else count(first) + 1)


def _run(args: argparse.Namespace) -> int:
    _check(args)
    state = None if args.state is None else read_state(args.state)
    job = opened_job(args, state)
    with job.ds:
        try:
            if args.row is not None:
                _show_deliveries(job, args)
            else:
                _show_step(job, args, _step(job, args, state))
        except (IndexError, ValueError) as error:
            raise UsageError(str(error)) from error
    return 0


def _check(args: argparse.Namespace) -> None:
    if args.state is not None:
        given = [f"--{name.replace('_', '-')}" for name in OF_STATE if getattr(args, name) is not None]
        if given:
            raise UsageError(f"{', '.join(given)} cannot be given with --state, which says it")
    if args.row is None and args.step is None and args.state is None:
        raise UsageError("say what is asked: --step N, or --row N, or --state FILE for the step before it")
    if args.row is not None:
        _refuse(args, "--row", "step", "epoch", "rank", "columns", "extract", "out")
    else:
        _refuse(args, "a step", "epochs")
    if args.csv and args.json:
        raise UsageError("--csv and --json cannot both be given")
    if (args.extract is None) != (args.out is None):
        raise UsageError("--extract COLUMN and --out DIR go together")
    if args.extract is not None:
        _refuse(args, "--extract", "columns", "limit", "csv")
    if args.start is not None and args.state is None and args.epoch is None and args.epochs is None:
        raise UsageError("--start is a position in an epoch: give --epoch as well")


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


def _step(job: Job, args: argparse.Namespace, state: dict[str, Any] | None) -> _Step:
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


def _show_step(job: Job, args: argparse.Namespace, step: _Step) -> None:
    """Prints the rows of a step, rank by rank, or writes blobs of theirs to files."""
    places, rows = _rows(job, args, step)
    if args.extract is not None:
        _extract(job, args, rows)
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
    if args.json:
        head = {
            "epoch": step.epoch, "step": step.number, "steps_in_epoch": step.per_epoch, "rows": len(rows),
            "left_out": gone,
        }  # fmt: skip
        items = ({**place, "values": {k: cell_json(v) for k, v in sample.items()}} for place, sample in lines)
        print_json_list(head, "samples", items)
        return
    if args.csv:
        print_csv([[*of_rows, *columns]])
        print_csv([*place.values(), *(_csv_cell(v) for v in sample.values())] for place, sample in lines)
        return
    say(f"{step}: {len(rows):,} {'row' if len(rows) == 1 else 'rows'}")
    body = [[*map(str, place.values()), *map(cell_text, sample.values())] for place, sample in lines]
    print_table([[*of_rows, *columns], *body], "".join("<" if name == "source" else ">" for name in of_rows))
    if limit < len(rows):
        say(f"… {len(rows) - limit:,} more (--limit)")
    if gone:
        named = ", ".join(map(str, gone[:_LIMIT])) + (", …" if len(gone) > _LIMIT else "")
        say(f"left out on purpose: {len(gone):,} {'row' if len(gone) == 1 else 'rows'}: {named}")


def _gone(job: Job, args: argparse.Namespace, step: _Step) -> list[int]:
    """The rows that the state says are left out of a step."""
    if not job.ds._cursor.exclusions:
        return []
    steps = job.ds._job(job.batch, job.ranks, job.drop_last, step.start)
    leaving = job.ds._cursor.leaving(step.epoch, steps)
    assert leaving is not None
    found = leaving.rows_at(steps.unwrapped(step.number, args.rank))
    rows: list[int] = found.own[found.out].tolist()
    return rows


def _limit(args: argparse.Namespace, most: int) -> int:
    if args.limit is not None:
        return int(args.limit)
    return most if args.csv or args.json else _LIMIT


def _rows(job: Job, args: argparse.Namespace, step: _Step) -> tuple[Iterator[tuple[int, int]], Any]:
    """(rank, slot) and row of each sample of a step."""
    if args.rank is not None and args.rank >= args.ranks:
        raise UsageError(f"there is no rank {args.rank}: the job has {args.ranks}, numbered from 0 (--ranks)")
    ranks = range(args.ranks) if args.rank is None else [args.rank]
    batches = [job.rows_of(step.number, step.epoch, rank) for rank in ranks]
    places = ((rank, slot) for rank, batch in zip(ranks, batches, strict=True) for slot in range(len(batch)))
    return places, np.concatenate(batches)


def _values(job: Job, rows: Any, columns: list[str]) -> Iterator[dict[str, Any]]:
    """These columns of these rows."""
    if not columns:
        yield from [{}] * len(rows)
        return
    chosen = job.ds.view(columns=columns)
    for start in range(0, len(rows), _BATCH):
        some = rows[start : start + _BATCH]
        batch = chosen.read_rows(some)
        yield from split_batch({name: batch[name] for name in columns}, len(some))


def _csv_cell(value: Any) -> Any:
    if value is None:
        return ""
    return value if isinstance(value, str | np.generic) else cell_text(value)


def _extract(job: Job, args: argparse.Namespace, rows: Any) -> None:
    done = extract(job.ds._cursor.plan.data.parts, np.unique(rows), args.extract, args.out)
    if args.json:
        print_json({"folder": done.folder, "files": done.files, "bytes": done.bytes, "nulls": done.nulls})
    else:
        say(
            f"{done.files:,} {'file' if done.files == 1 else 'files'}, {format_size(done.bytes)}, in {done.folder}"
        )


def _show_deliveries(job: Job, args: argparse.Namespace) -> None:
    """Prints when rows come."""
    rows = [job.row(text) for text in args.row.split(",")]
    found = job.steps_of(rows, [job.epoch] if args.epochs is None else args.epochs)
    names = ["row", "epoch", "step", "rank", "slot"]
    entries = [
        dict(zip(names, values, strict=True))
        for values in zip(*(found[n].tolist() for n in names), strict=True)
    ]
    exclusions, asked = job.ds._cursor.exclusions, np.array(rows, np.int64)
    gone = set(asked[exclusions.holes((1 << 63) - 1, asked, asked)[0]].tolist())
    numbers = [entry["row"] for entry in entries]
    if job.sources:
        entries = [
            {"source": source, **entry, "row": row}
            for entry in entries
            for source, row in [job.named(entry["row"])]
        ]
        names = ["source", *names]
    for number, entry in zip(numbers, entries, strict=True):
        if entry["step"] < 0:
            entry |= {"step": None, "rank": None, "slot": None}
            if number in gone:
                entry["left_out"] = True
    limit = _limit(args, len(entries))
    if args.json:
        print_json_list({"steps_in_epoch": job.steps_in_epoch()}, "deliveries", entries[:limit])
    elif args.csv:
        print_csv(
            [names, *(["" if entry[n] is None else entry[n] for n in names] for entry in entries[:limit])]
        )
    else:
        body = [[_shown(name, entry) for name in names] for entry in entries[:limit]]
        print_table([names, *body], "<" * (len(names) - 5) + ">>>>>")
        if limit < len(entries):
            say(f"… {len(entries) - limit:,} more (--limit)")


def _shown(name: str, entry: dict[str, Any]) -> str:
    if entry[name] is not None:
        return str(entry[name])
    if name != "step":
        return ""
    return "left out" if "left_out" in entry else "not delivered"
