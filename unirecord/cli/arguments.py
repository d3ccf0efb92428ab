"""What several commands take, each declared once; and what the options of object stores come to."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from ..snapshot.cache import CacheOptions, use_cache_by_default
from ..storage.storage_options import storage_of, use_storage_by_default
from .usage import Argument, UsageError, count, names, size, target, wrong_call

__all__ = ["cache_options", "cache_refused", "is_elsewhere", "storage_options"]

PATH: Final = Argument("path", metavar="PATH", help="a part or a directory of parts")
DIRECTORY: Final = PATH.but(help="a directory of parts")
DATASETS: Final = PATH.but(nargs="+", help="a part, a directory of parts, a glob, or several")
PATHS: Final = Argument("paths", metavar="PATH", nargs="+")
TARGET: Final = Argument("target", metavar="DST", type=target)

WHERE: Final = Argument("--where", metavar="CONDITION", help="only rows that meet it, such as 'label == 3'")
COLUMNS: Final = Argument("--columns", type=names, metavar="A,B", help="only these columns")
LIMIT: Final = Argument("--limit", type=count, metavar="N", help="at most N rows")
SAMPLE: Final = Argument("--sample", type=count, metavar="N")
SEED: Final = Argument("--seed", type=int, metavar="S")
SORT: Final = Argument("--sort", metavar="A")
ROW: Final = Argument("--row")
ROWS: Final = Argument("--rows")
KEY: Final = Argument("--key", type=names, metavar="A,B", help="columns that tell all rows apart")
BATCH: Final = Argument("--batch", type=count, metavar="N", help="samples in a batch of one rank")
BY: Final = Argument("--by", metavar="A")
STRATIFY: Final = Argument(
    "--stratify", metavar="A", help="these shares of the rows with each value of this column"
)
SCHEMA: Final = Argument(
    "--schema",
    metavar="TYPES",
    help="column types: name=type,…, JSON text, or a JSON file; arrays have their shape: "
    "tokens=int32[128],boxes=float32[-1,4]",
)
INDEX: Final = Argument(
    "--index", type=names, default=[], metavar="A,B", help="columns to be looked up by value"
)
WORKERS: Final = Argument("--workers", type=count, default=1, metavar="N", help="processes that write")
GREATEST_PART: Final = Argument("--part-bytes", metavar="SIZE", help="greatest size of a part (default 20GB)")

JSON: Final = Argument("--json", action="store_true", help="print as JSON")
CSV: Final = Argument("--csv", action="store_true", help="print as CSV")
HTML: Final = Argument("--html", metavar="FILE", help="write a page to look at in a browser")
EXTRACT: Final = Argument("--extract", metavar="COLUMN", help="write this column's blobs to files in --out")
OUT: Final = Argument("--out", metavar="DIR", help="folder for --extract, made if need be")

DRY_RUN: Final = Argument("--dry-run", action="store_true", help="say what would be done, and change nothing")
OVERWRITE: Final = Argument("--overwrite", action="store_true", help="replace what is there")
RESUME: Final = Argument(
    "--resume", action="store_true", help="go on with what the same command has left when it was stopped"
)
DROP_DELETED: Final = Argument(
    "--drop-deleted", action="store_true", help="leave out the bytes of rows that have been deleted"
)

STORAGE: Final = Argument(
    "--storage-option",
    action="append",
    default=[],
    metavar="NAME=VALUE",
    help="of an object store, such as endpoint=http://host:9000; secrets are better left to the environment",
)
CACHE: Final = Argument(
    "--cache",
    dest="cache_folder",
    metavar="DIR",
    help="keep what an object store sends in this directory, and take from there what it has",
)
CACHE_BYTES: Final = Argument(
    "--cache-bytes",
    dest="cache_limit",
    metavar="SIZE",
    type=size,
    help="what all of the cache may take of the disk, as 200GB",
)


def cache_refused(why: str) -> tuple[Argument, ...]:
    """The options of a cache where a command has none: whoever gives one is told ``why``."""
    told = {"dest": "no_cache", "action": "append", "type": lambda _: why, "help": argparse.SUPPRESS}
    return CACHE.but(**told), CACHE_BYTES.but(**told)


@contextmanager
def storage_options(args: argparse.Namespace) -> Iterator[None]:
    """The command runs within; UsageError for what is no option, or where nothing is in a store."""
    given: dict[str, Any] = {}
    for text in getattr(args, "storage_option", ()):
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError("--storage-option is NAME=VALUE, such as region=eu-west-1")
        given[name] = value
        if name == "max_requests_per_second":
            with suppress(ValueError):  # text that is no number is refused below
                given[name] = float(value)
    if given and not is_elsewhere(args):
        raise UsageError("--storage-option is of object stores, and nothing that is named is in one")
    with wrong_call(plain=(TypeError, ValueError)):
        options = storage_of(given)
    with use_storage_by_default(options):
        yield


def is_elsewhere(args: argparse.Namespace) -> bool:
    """Whether anything that the command names is in an object store."""
    named = (getattr(args, name, None) or () for name in ("path", "paths", "source", "target"))
    return any("://" in path for one in named for path in ([one] if isinstance(one, str) else one))


@contextmanager
def cache_options(args: argparse.Namespace) -> Iterator[None]:
    """The command runs within; UsageError where a cache cannot be."""
    folder, limit = getattr(args, "cache_folder", None), getattr(args, "cache_limit", None)
    for why in getattr(args, "no_cache", None) or ():
        raise UsageError(f"--cache is not taken here: {why}")
    if (folder is None) != (limit is None):
        raise UsageError(
            "--cache and --cache-bytes belong together: a directory on a local disk, and the bytes that it may take, "
            "as --cache /scratch/cache --cache-bytes 200GB"
        )
    if folder is not None and not is_elsewhere(args):
        raise UsageError("--cache is of object stores, and nothing that is named is in one")
    with use_cache_by_default(CacheOptions.of(folder, limit)):
        yield
