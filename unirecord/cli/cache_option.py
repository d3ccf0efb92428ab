"""The options ``--cache`` and ``--cache-bytes`` of the commands that read rows of object stores."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from ..parts.cache_options import CacheOptions, use_cache_by_default
from .storage_option import is_elsewhere
from .usage import UsageError, size

__all__ = ["add_cache_options", "cache_options", "refuse_cache"]


def add_cache_options(parser: argparse.ArgumentParser) -> None:
    """Add them."""
    parser.add_argument(
        "--cache",
        dest="cache_folder",
        metavar="DIR",
        help="keep what an object store sends in this directory, and take from there what it has",
    )
    parser.add_argument(
        "--cache-bytes",
        dest="cache_limit",
        metavar="SIZE",
        type=size,
        help="what all of the cache may take of the disk, as 200GB",
    )


def refuse_cache(parser: argparse.ArgumentParser, why: str) -> None:
    """Have them refused with a sentence: ``why`` this command has none."""
    for name in ("cache", "cache-bytes"):
        parser.add_argument(f"--{name}", dest="no_cache", help=argparse.SUPPRESS)
    parser.set_defaults(why_no_cache=why)


@contextmanager
def cache_options(args: argparse.Namespace) -> Iterator[None]:
    """The command runs within; UsageError where a cache cannot be."""
    folder, limit = getattr(args, "cache_folder", None), getattr(args, "cache_limit", None)
    if getattr(args, "no_cache", None) is not None:
        raise UsageError(f"--cache is not taken here: {args.why_no_cache}")
    if (folder is None) != (limit is None):
        raise UsageError(
            "--cache and --cache-bytes belong together: a directory on a local disk, and the bytes that it may take, "
            "as --cache /scratch/cache --cache-bytes 200GB"
        )
    if folder is not None and not is_elsewhere(args):
        raise UsageError("--cache is of object stores, and nothing that is named is in one")
    with use_cache_by_default(CacheOptions.of(folder, limit)):
        yield
