"""The options that say how an object store is reached, and where what was read of it is kept."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..snapshot.cache import CacheOptions, use_cache_by_default
from ..storage.storage_options import storage_of, use_storage_by_default
from .usage import UsageError, size

__all__ = [
    "add_cache_options",
    "add_storage_option",
    "cache_options",
    "is_elsewhere",
    "refuse_cache",
    "storage_options",
]


def add_storage_option(parser: argparse.ArgumentParser) -> None:
    """Add it."""
    parser.add_argument(
        "--storage-option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="of an object store, such as endpoint=http://host:9000; secrets are better left to the environment",
    )


@contextmanager
def storage_options(args: argparse.Namespace) -> Iterator[None]:
    """The command runs within; UsageError for what is no option, or where nothing is in a store."""
    given: dict[str, Any] = {}
    for text in getattr(args, "storage_option", ()):
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError("--storage-option is NAME=VALUE, such as region=eu-west-1")
        given[name] = float(value) if name == "max_requests_per_second" and _is_number(value) else value
    if given and not is_elsewhere(args):
        raise UsageError("--storage-option is of object stores, and nothing that is named is in one")
    try:
        options = storage_of(given)
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None
    with use_storage_by_default(options):
        yield


def is_elsewhere(args: argparse.Namespace) -> bool:
    """Whether anything that the command names is in an object store."""
    return any("://" in path for path in _paths(args))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _paths(args: argparse.Namespace) -> Iterator[str]:
    for name in ("path", "paths", "source", "target"):
        value = getattr(args, name, None)
        yield from [value] if isinstance(value, str) else map(str, value or ())


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
        parser.add_argument(f"--{name}", dest="no_cache", action="append", help=argparse.SUPPRESS)
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
