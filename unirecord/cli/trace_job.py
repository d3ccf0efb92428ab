"""The job that ``unirecord trace`` is asked about: a dataset, a mixture of several or drawn batches, as it has them."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..dataset.dataset import UniRecordDataset
from ..dataset.drawn_batches import DrawnBatches
from ..dataset.mixing import mix
from ..errors import UniRecordError
from .state_options import options_of
from .usage import UsageError, count

__all__ = ["OF_STATE", "SHUFFLES", "Job", "mixture_of_state", "named_path", "opened_job"]

Numbers = NDArray[np.int64]

SHUFFLES: Final = {
    "yes": True,
    "no": False,
    "block": "block",
    "parts": "parts",
    "within-parts": "within-parts",
}
# The options that a state says.
OF_STATE: Final = (
    "seed", "shuffle", "block_rows", "window_blocks", "where", "remainder", "epoch", "weights", "stop", "samples"
)  # fmt: skip
_OF_MIXTURE: Final = ("weights", "stop", "samples")


@dataclass(frozen=True)
class Job:
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
            return getattr(self.drawn, name)(*what, **asked)
        return getattr(self.ds, name)(*what, self.batch, drop_last=self.drop_last, **asked)

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
                f"--row {text}: name the source as well, such as --row {self.sources[0]}:{number}"
            )
        place, found = self.sources.index(source), _number(number)
        ends = (*self.first_rows[1:], self.ds._cursor.plan.order.selection.rows)
        if found >= ends[place] - self.first_rows[place]:
            raise UsageError(f"--row {text}: {source} has {ends[place] - self.first_rows[place]} rows")
        return self.first_rows[place] + found


def _number(text: str) -> int:
    try:
        return count(text)
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"--row: {error}") from None


def opened_job(args: argparse.Namespace, state: Mapping[str, Any] | None) -> Job:
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
) -> Job:
    given = [f"--{name}" for name in _OF_MIXTURE if getattr(args, name) is not None]
    if given:
        raise UsageError(f"{', '.join(given)}: for a mixture, give each source as NAME=PATH")
    if state is not None:
        _refuse_pieces(args.state, str(state["identity"]))
    ds = UniRecordDataset(args.path[0], **_options(args, state))
    batches = None
    if drawn is not None:
        if args.drawn_by is None:
            raise UsageError(
                f"{args.state} is of {rule} draws, and says not of which column: give --drawn-by COLUMN "
                "(weights that are in no column: ask rows_of and steps_of in Python)"
            )
        made = _drawn(ds, drawn, rule, args.drawn_by)
        batches, ds = (made, ds) if isinstance(made, DrawnBatches) else (None, made)
    elif args.drawn_by is not None:
        raise UsageError("--drawn-by is for the --state of drawn batches; this job has none")
    return _job(args, ds, batches)


def _refuse_pieces(path: str, identity: str) -> None:
    """UsageError for a state of windows or packed samples, whose identity says of which (docs/order.md)."""
    _, made, what = identity.partition("/")
    if made:
        column, _, size = what.partition("/")[2].partition(":")
        kind = "packed samples" if ",packed," in size else "windows"
        raise UsageError(
            f"{path} is of {kind} of the column {column!r}, and trace names rows: one of these may be pieces of "
            'several. Make them in Python as the job does, with documents="document", which says of each element which '
            "row it is of, and ask for rows_of(step, batch_size, epoch=..., read=True)"
        )


def _drawn(ds: UniRecordDataset[Any], drawn: Mapping[str, Any], rule: str | None, column: str) -> Any:
    """What a state says was drawn of a dataset, by a column."""
    if rule == "balanced":
        return ds.balanced(column, **{name: drawn[name] for name in ("classes", "per_class", "batches")})
    if rule == "bucketed":
        names = ("edges", "batch_size", "max_length", "drop_last")
        return ds.bucketed(column, **{name: drawn[name] for name in names})
    if rule == "weighted":
        return ds.weighted(column, samples=drawn["samples"], replacement=drawn.get("replacement", True))
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


def _mixed(args: argparse.Namespace, state: Mapping[str, Any] | None) -> Job:
    """A mixture of NAME=PATH; a state says how it was made, and each source with it."""
    paths = dict(named_path(one) for one in args.path)
    if len(paths) < len(args.path):
        raise UsageError("two sources have the same name")
    for name in ("where", "block_rows", "window_blocks", "drawn_by"):
        if getattr(args, name) is not None:
            raise UsageError(
                f"--{name.replace('_', '-')} is not for a mixture, whose sources may differ: give its --state, "
                "or ask rows_of and steps_of in Python"
            )
    ds = _mixture(args, paths) if state is None else mixture_of_state(state, paths)
    rule: Any = ds._cursor.plan.order.rule
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
    weights = None if args.weights is None else {name: float(weight) for name, weight in args.weights.items()}
    return _mix(
        {name: (path, {"remainder": args.remainder or "pad"}) for name, path in paths.items()},
        weights,
        seed=args.seed or 0,
        shuffle=SHUFFLES[args.shuffle or "yes"],
        stop=args.stop or "first",
        samples=args.samples,
    )


def mixture_of_state(state: Mapping[str, Any], paths: Mapping[str, str]) -> UniRecordDataset[Any]:
    """The mixture that a state, or the order of receipts, is of, of the datasets at these paths by name."""
    drawn = state.get("drawn") or {}
    if drawn.get("rule") != "mixture":
        raise UsageError("the state is not of a mixture: give the one PATH that it is of")
    told = {source["name"]: source for source in drawn["sources"]}
    if set(told) != set(paths):
        raise UsageError(f"the state is of the sources {sorted(told)}; give each of them as NAME=PATH")
    stages = [(start, dict(zip(told, weights, strict=True))) for start, weights in drawn["weights"]]
    return _mix(
        {
            name: (paths[name], options_of({**one, "remainder": state["remainder"]}))
            for name, one in told.items()
        },
        stages[0][1],
        seed=state["seed"],
        shuffle=options_of(state)["shuffle"],
        samples=drawn["samples"],
        schedule=dict(stages[1:]) or None,
    )


def _mix(sources: Mapping[str, tuple[str, Any]], weights: Any, **options: Any) -> UniRecordDataset[Any]:
    """A mixture of the datasets at these paths, opened with these options."""
    with ExitStack() as opened:  # the mixture opens them anew
        return mix(
            {
                name: opened.enter_context(UniRecordDataset(path, **own))
                for name, (path, own) in sources.items()
            },
            weights,
            **options,
        )


def _job(
    args: argparse.Namespace,
    ds: UniRecordDataset[Any],
    drawn: DrawnBatches | None,
    sources: tuple[str, ...] = (),
    first_rows: tuple[int, ...] = (),
) -> Job:
    if drawn is None and args.batch is None:
        raise UsageError("give --batch, the samples in a batch of one rank")
    if drawn is not None and (args.batch is not None or args.drop_last):
        raise UsageError(
            "the batches are drawn, and say themselves how large they are: leave out --batch and --drop-last"
        )
    return Job(ds, drawn, args.batch or 1, args.ranks, args.drop_last, args.start or 0, sources, first_rows)
