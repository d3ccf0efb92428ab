"""``--engine`` of ``unirecord write``: what runs the tasks of a conversion instead of this process."""

from __future__ import annotations

import argparse

from ..convert.conversion import Engine
from ..frameworks.ray_engine import ray_engine
from .usage import UsageError

__all__ = ["add_engine_option", "engine_of"]


def add_engine_option(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    parser.add_argument(
        "--engine", choices=("ray",), help="run the tasks on a Ray cluster instead (docs/ray.md)"
    )


def engine_of(args: argparse.Namespace) -> Engine | None:
    """Return the engine asked for; UsageError for options that it cannot obey, SchemaError when it is missing."""
    if args.engine is None:
        return None
    excluded = {
        "a DST of one part": args.target.endswith(".urec"),
        "--workers": args.workers > 1,
        "--limit": args.limit is not None,
        "--split": args.split is not None,
        "--split-by": args.split_by is not None,
    }
    for name, given in excluded.items():
        if given:
            raise UsageError(f"--engine {args.engine} writes parts as the cluster has room; leave out {name}")
    return ray_engine(args.target)
