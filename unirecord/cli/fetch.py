"""``unirecord fetch URL --cache DIR``: rows of a dataset in an object store, brought into a cache ahead of use."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any, Final

from ..dataset.dataset import UniRecordDataset
from ..sizes import format_size
from ..storage.registry import location_of
from .progress_bar import ProgressBar
from .storage_option import add_storage_option
from .terminal import print_json, say
from .usage import UsageError, make_parser, names, size

__all__ = ["add_parser"]

_DESCRIPTION: Final = """Read rows of a dataset in an object store once, so that a cache on a local disk has them when
training asks for them. What the cache has already is not fetched; when it, or the disk, is full, fetching ends."""

_EXAMPLES: Final = """examples:
  unirecord fetch s3://bucket/train --cache /scratch/cache --cache-bytes 200GB
  unirecord fetch s3://bucket/train --cache /scratch/cache --cache-bytes 200GB --where "label < 10"
  unirecord fetch s3://bucket/train --cache /scratch/cache --cache-bytes 200GB --columns tokens"""


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = make_parser(
        subparsers.add_parser,
        "fetch",
        help="bring rows into a cache ahead of their use",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
    parser.add_argument("path", metavar="URL", help="a part or a directory in an object store, or a pattern")
    parser.add_argument("--cache", metavar="DIR", required=True, help="the cache, made if need be")
    parser.add_argument(
        "--cache-bytes", metavar="SIZE", type=size, required=True, help="what all of it may take of the disk"
    )
    parser.add_argument("--where", metavar="CONDITION", help="only rows that meet it")
    parser.add_argument("--columns", metavar="NAMES", type=names, help="only these columns, as a,b")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    add_storage_option(parser)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    if location_of(args.path).in_file_system:
        raise UsageError(f"{args.path} is on a disk: what is fetched into a cache is in an object store")
    options = {"columns": args.columns, "where": args.where}
    with UniRecordDataset(args.path, cache=args.cache, cache_bytes=args.cache_bytes, **options) as ds:
        rows = 0
        with ProgressBar("fetching", len(ds)) as bar:
            for batch in ds.batches(256):
                rows += len(next(iter(batch.values())))
                bar.update(rows)
                now = ds.cache_stats()
                if now.full or now.stopped:
                    break
        total, stats = len(ds), ds.cache_stats()
    code = 1 if stats.stopped else 0
    if args.json:
        print_json({"rows": rows, "rows_in_all": total, **asdict(stats)})
        return code
    left = f", so {total - rows:,} rows are left" if rows < total else ""
    full = "; the disk takes no more" + left if stats.stopped else "; the cache is full" + left
    full = full if stats.stopped or (stats.full and left) else ""
    say(
        f"{args.path}: {rows:,} of {total:,} rows; {format_size(stats.fetched_bytes)} fetched, "
        f"{format_size(stats.kept_bytes)} of it kept, {format_size(stats.hit_bytes)} were there{full}"
    )
    return code
