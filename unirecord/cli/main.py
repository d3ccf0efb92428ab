"""The ``unirecord`` command: picks the subcommand, and turns every failure into one line and an exit code."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from .. import __version__
from ..errors import ExistsError, MissingError, QueryError, UniRecordError
from ..storage.publications import forget_publications, published_paths
from .store_options import cache_options, storage_options
from .terminal import paged, silence, to_nowhere, unread, warn
from .usage import CommandParser, UsageError, make_parser

__all__ = ["main", "make_command_line"]

# Each command, and the module that has NAME_command(subparsers), which sets ``run``: arguments → exit code.
_COMMANDS: Final = (
    ("write", "write"),
    ("export", "export"),
    ("inspect", "inspect"),
    ("view", "view"),
    ("trace", "trace"),
    ("audit", "audit"),
    ("report", "audit"),
    ("log", "versions"),
    ("diff", "diff"),
    ("restore", "versions"),
    ("gc", "versions"),
    ("delete", "deletion"),
    ("add-columns", "columns"),
    ("drop-columns", "columns"),
    ("rename-columns", "columns"),
    ("evict", "deletion"),
    ("purge", "deletion"),
    ("compact", "layout"),
    ("reshard", "layout"),
    ("sort", "layout"),
    ("merge", "layout"),
    ("split", "write"),
    ("verify", "integrity"),
    ("repair", "integrity"),
    ("bench", "bench"),
    ("fetch", "cache"),
    ("cache", "cache"),
    ("demo", "demo"),
    ("doctor", "doctor"),
    ("completion", "completion"),
)
# What people type for options of the command itself.
_MEANT: Final = {"help": "--help", "version": "--version"}
# Commands that do something, and may be told to do it without a word; commands whose answer may be long.
_QUIET: Final = (
    *("write", "export", "restore", "gc", "delete", "evict", "purge", "compact", "reshard"),
    *("sort", "merge", "split", "add-columns", "drop-columns", "rename-columns"),
    *("verify", "report", "fetch", "demo"),
)
_PAGED: Final = ("inspect", "trace", "audit", "log", "diff")

_DESCRIPTION: Final = "Training data as records: convert once, look inside, read at full speed."
_EXAMPLES: Final = """examples:
  unirecord demo digits.urec                    a small dataset to try things out with
  unirecord write pictures/ pictures.urec       class folders of pictures → one part
  unirecord write table.csv table --index id    a CSV file → a directory of parts
  unirecord export table table.parquet          a dataset → files of another format
  unirecord inspect pictures.urec               schema, sizes, first rows
  unirecord view pictures.urec                  the same in a browser: rows, pictures, epochs
  unirecord trace table --seed 1 --batch 256 --step 12345   which rows a step of training got
  unirecord audit run1/receipts                 was every sample delivered exactly once
  unirecord report run1/receipts run1.html      the same as a page to look at
  unirecord add-columns table more.csv --key id   more columns, beside the parts
  unirecord log table                           its versions; table@7 is the seventh
  unirecord diff table@5 table@7                what is not the same in two datasets
  unirecord verify pictures.urec                check every byte
  unirecord repair pictures.urec                rebuild a lost index, salvage rows
  unirecord bench pictures.urec                 how fast it reads on this machine
  unirecord fetch s3://bucket/train --cache /scratch/cache --cache-bytes 200GB   bring rows ahead
  unirecord cache ls /scratch/cache             what a cache of an object store holds
  unirecord doctor                              what this machine has, and what is missing

exit codes: 0 good · 1 the data is bad · 2 the call is wrong · 130 interrupted"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line with ``argv`` (default: the process's own) and return the exit code."""
    _open_closed_streams()
    forget_publications()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that lacks a character gets its escape, not an error
            stream.reconfigure(errors="backslashreplace")
    try:
        args = make_command_line().parse_args(_meant(sys.argv[1:] if argv is None else list(argv)))
    except (
        BrokenPipeError,
        KeyboardInterrupt,
    ) as error:  # loading the commands takes a second where disks are slow
        return _exit_code(error)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning  # type: ignore[assignment]
            with _manners(args), storage_options(args), cache_options(args):
                code: int = args.run(args)
            sys.stdout.flush()
        return code
    except BaseException as error:
        if getattr(args, "debug", False) and not isinstance(error, BrokenPipeError):
            warn(*traceback.format_exc().rstrip("\n").split("\n"))
        with unread(True):
            return _exit_code(error)


def _open_closed_streams() -> None:
    """What is closed (`>&-`) is empty, or goes nowhere; the first file that is opened would else get its number."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


@contextmanager
def _manners(args: argparse.Namespace) -> Iterator[None]:
    """How much is said, and through what."""
    if args.quiet and getattr(args, "dry_run", False):
        raise UsageError("--dry-run says what would be done, and --quiet leaves that out; choose one")
    if args.quiet and getattr(args, "progress", None):
        raise UsageError("--progress asks for lines, and --quiet for none; choose one")
    with unread(args.works), silence(args.quiet), paged(args.paged):
        yield


def _meant(words: list[str]) -> list[str]:
    """The command line with `help` and `version` as the options they are: `help write` is `write --help`."""
    option = _MEANT.get(words[0]) if words else None
    return words if option is None else [*words[1:], option]


def make_command_line() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = make_parser(CommandParser, prog="unirecord", description=_DESCRIPTION, epilog=_EXAMPLES)
    parser.add_argument("--version", action="version", version=f"unirecord {__version__}")
    parser.set_defaults(run=lambda _: _show_help(parser), quiet=False, paged=False, works=False)
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, module in _COMMANDS:
        room = importlib.import_module(f".{module}", __package__)
        getattr(room, f"{name.replace('-', '_')}_command")(subparsers)
    for name in _QUIET:
        subparsers.choices[name].add_argument(
            "--quiet", action="store_true", help="say nothing of what went well; no progress is shown"
        )
    for name in (*_QUIET, "repair", "audit", "diff"):  # what they say by their exit code is said to the end
        subparsers.choices[name].set_defaults(works=True)
    for name in _PAGED:
        subparsers.choices[name].set_defaults(paged=True)
    return parser


def _show_help(parser: argparse.ArgumentParser) -> int:
    parser.print_help(sys.stderr)
    return 2


def _show_warning(message: Warning | str, category: type[Warning], *_: object) -> None:
    warn(*f"unirecord: {category.__name__}: {message}".split("\n"))


def _exit_code(error: BaseException) -> int:
    """Say on one line of stderr what went wrong, and return the exit code."""
    if isinstance(error, BrokenPipeError):  # the reader of our output has gone, as in `… | head`
        to_nowhere(sys.stdout)
        return 0
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    if isinstance(error, KeyboardInterrupt):
        return _say(str(error) or _interrupted(), 130)
    if isinstance(error, QueryError):  # its further lines show the place in the text
        warn(*f"unirecord: {error}".split("\n"))
        return 2
    if isinstance(error, UsageError | MissingError | ExistsError):
        return _say(str(error), 2)
    if isinstance(error, UniRecordError):
        return _say(str(error), 1)
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return _say(f"{place}{error.strerror or error}", 1)
    if isinstance(error, MemoryError):
        return _say("out of memory", 1)
    return _say(f"internal error, {type(error).__name__}: {error} (--debug shows where; please report it)", 1)


def _interrupted() -> str:
    done = published_paths()
    if not done:
        return "interrupted; nothing was published"
    return f"interrupted, when {', '.join(done)} had been published; what was to follow may be left undone"


def _say(message: str, code: int) -> int:
    line = " ".join(message.split("\n"))
    warn(f"unirecord: {line}")
    return code
