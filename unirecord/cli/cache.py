"""``unirecord fetch`` and ``unirecord cache``: the rows of an object store that lie on a local disk."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from typing import Final

from ..dataset.dataset import UniRecordDataset
from ..errors import MissingError
from ..sizes import format_size, many
from ..storage.cache import CacheDirectory, check_segments, is_cache
from ..storage.schemes import location_of
from .arguments import (
    CACHE,
    CACHE_BYTES,
    COLUMNS,
    JSON,
    PATH,
    STORAGE,
    WHERE,
    Argument,
    UsageError,
    command,
    refuse,
)
from .terminal import ProgressBar, answer, say, warn

__all__ = ["cache_command", "fetch_command"]


@command(
    """Look after a cache on a local disk (cache= of a dataset, unirecord fetch). It may be in use meanwhile: what a
    process has open is not cleared.""",
    """
    unirecord cache ls /scratch/cache
    unirecord cache verify /scratch/cache               read all of it; what is damaged is dropped
    unirecord cache clear /scratch/cache                all that is not pinned
    unirecord cache clear /scratch/cache s3://bucket/train
    unirecord cache pin /scratch/cache s3://bucket/train        `clear` leaves it, unless it is named
    unirecord cache pin /scratch/cache s3://bucket/train --off
    """,
    Argument("action", choices=("ls", "verify", "clear", "pin"), help="what is done"),
    Argument("directory", metavar="DIR", help="the cache"),
    Argument("urls", metavar="URL", nargs="*", default=[], help="folders in a store, as `ls` names them"),
    Argument("--off", action="store_true", help="of pin: `clear` may take it again"),
    JSON.but(help="of ls and verify: print the figures as JSON"),
)
def cache_command(args: argparse.Namespace) -> int:
    if not is_cache(args.directory):
        raise MissingError(f"{args.directory}: there is no cache here")
    whole = args.action in ("ls", "verify")
    refuse(
        {
            "--off is of pin": args.off and args.action != "pin",
            "--json is of ls and verify": args.json and not whole,
            f"{args.action} takes no URL: it looks at the whole cache": args.urls and whole,
            "pin takes a URL, as `unirecord cache ls` names it": args.action == "pin" and not args.urls,
        }
    )
    args.urls = [url.rstrip("/") for url in args.urls]
    return _ACTIONS[args.action](args, CacheDirectory(args.directory, 0))


def _list(args: argparse.Namespace, directory: CacheDirectory) -> int:
    found = {"bytes": directory.used(), "segments": directory.segments()}
    return answer(args, found, _listed(args, directory))


def _listed(args: argparse.Namespace, directory: CacheDirectory) -> Iterator[str]:
    for segment in directory.segments():
        told = [
            format_size(segment.bytes),
            f"{many(segment.ranges, 'range')} of {many(segment.objects, 'file')}",
        ]
        told += ["pinned"] * segment.pinned + [f"{segment.damaged:,} damaged records"] * (segment.damaged > 0)
        yield f"{segment.url}  {', '.join([segment.problem] if segment.problem else told)}"
    yield f"{args.directory}: {format_size(directory.used())} in all"


def _verify(args: argparse.Namespace, directory: CacheDirectory) -> int:
    with ProgressBar("verifying", directory.used(), format_size) as bar:
        report = check_segments(directory, bar.update)
    if args.json or not (report.damaged or report.problems):
        sent = f"{many(report.ranges, 'range', 'are')} as sent, {format_size(report.bytes)} in all"
        return answer(args, report, [f"{args.directory}: {sent}"], not (report.damaged or report.problems))
    warn(
        f"unirecord: {args.directory}: {many(report.damaged, 'entry', 'were')} damaged, and have been dropped",
        *(f"  {problem}" for problem in report.problems),
    )
    return 1


def _clear(args: argparse.Namespace, directory: CacheDirectory) -> int:
    before = directory.used()
    busy = directory.clear(args.urls)
    say(f"{args.directory}: {format_size(before - directory.used())} cleared")
    if busy:
        warn(f"unirecord: in use, and left: {', '.join(busy)}")
    return 1 if busy else 0


def _pin(args: argparse.Namespace, directory: CacheDirectory) -> int:
    for url in args.urls:
        directory.pin(url, not args.off)
        say(f"{url}: {'`clear` may take it' if args.off else '`clear` leaves it, unless it is named'}")
    return 0


_ACTIONS: Final = {"ls": _list, "verify": _verify, "clear": _clear, "pin": _pin}


@command(
    """Read rows of a dataset in an object store once, so that a cache on a local disk has them when training asks
    for them. What the cache has already is not fetched; when it, or the disk, is full, fetching ends.""",
    """
    unirecord fetch s3://bucket/train --cache /scratch/cache --cache-bytes 200GB
    unirecord fetch s3://bucket/train --cache /scratch/cache --cache-bytes 200GB --where "label < 10"
    unirecord fetch s3://bucket/train --cache /scratch/cache --cache-bytes 200GB --columns tokens
    """,
    PATH.but(metavar="URL", help="a part or a directory in an object store, or a pattern"),
    CACHE.but(dest="cache", required=True, help="the cache, made if need be"),
    CACHE_BYTES.but(dest="cache_bytes", required=True),
    WHERE,
    COLUMNS,
    JSON,
    STORAGE,
)
def fetch_command(args: argparse.Namespace) -> int:
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
    left = f", so {many(total - rows, 'row', 'are')} left" if rows < total else ""
    full = (
        "; the disk takes no more" if stats.stopped else "; the cache is full" if stats.full and left else ""
    )
    said = (
        f"{args.path}: {rows:,} of {many(total, 'row')}; {format_size(stats.fetched_bytes)} fetched, "
        f"{format_size(stats.kept_bytes)} of it kept, {format_size(stats.hit_bytes)} were there{full and full + left}"
    )
    return answer(args, {"rows": rows, "rows_in_all": total, **asdict(stats)}, [said], not stats.stopped)
