"""What commands take: how it is declared, read and refused; and what several of them take."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import shlex
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise, takewhile
from typing import Any, Final, NamedTuple, NoReturn

from ..errors import SchemaError, UniRecordError, did_you_mean
from ..sizes import parse_size
from .terminal import escaped

__all__ = [
    "cache_refused",
    "is_elsewhere",
    "stores_as_asked",
    "Argument",
    "CommandParser",
    "Declared",
    "UsageError",
    "command",
    "count",
    "imported",
    "row_numbers",
    "names",
    "one_of",
    "pairs",
    "refuse",
    "size",
    "target",
    "titled",
    "wrong_call",
]

_LISTED_NAME = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^`,\s](?:[^,]*[^,\s])?))\s*(?=,|$)")

_PAIR = re.compile(
    r"\s*(?:`((?:[^`]|``)+)`|([^`,=\s](?:[^,=]*[^,=\s])?))\s*="
    r"\s*(?:`((?:[^`]|``)+)`|([^`,\s](?:[^,]*[^,\s])?))\s*(?=,|$)"
)

_ASSIGNED = re.compile(r"(?:`((?:[^`]|``)+)`|([^=]+))=(.*)", re.DOTALL)


class UsageError(Exception):
    """The call is wrong: exit code 2."""


def refuse(wrong: Mapping[str, object]) -> None:
    """UsageError with the first of these sentences that holds."""
    for said, holds in wrong.items():
        if holds:
            raise UsageError(said)


@contextmanager
def wrong_call(
    ours: type[UniRecordError] = SchemaError, plain: tuple[type[Exception], ...] = (IndexError, ValueError)
) -> Iterator[None]:
    """Within, errors are of the call: of our own those of the kind ``ours``, of Python's those that are ``plain``."""
    try:
        yield
    except ours as error:
        raise UsageError(str(error)) from error
    except UniRecordError:
        raise
    except plain as error:
        raise UsageError(str(error)) from error


def imported(option: str, named: str) -> Callable[..., Any]:
    """The function that an option names as MODULE:NAME, found as `python -m` finds it."""
    module, _, name = named.partition(":")
    if not module or not name:
        raise UsageError(f"{option} is MODULE:NAME, got {named!r}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"{option} {named}: {error}") from error
    if not callable(found):
        raise UsageError(f"{option} {named}: it is {type(found).__name__}, which cannot be called")
    return found  # type: ignore[no-any-return]


class _Once(argparse.Action):
    """Stores the value of an option, and refuses the option a second time, which would forget the first one."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option: str | None = None,
    ) -> None:
        if option is not None and isinstance(parser, CommandParser):
            if self.dest in parser.given:
                parser.error(f"{option} is given twice: give it once, with all of its values")
            parser.given.add(self.dest)
        setattr(namespace, self.dest, values)


class CommandParser(argparse.ArgumentParser):
    """A parser that names the subcommand's usage for an unknown option, guesses what was meant, and escapes.

    It has ``--debug``, and no short forms of long options.
    """

    _words: Sequence[str] = ()  # that are parsed

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **options)
        self.given: set[str] = set()
        for action in (None, "store"):
            self.register("action", action, _Once)
        self.add_argument(
            "--debug", action="store_true", default=argparse.SUPPRESS, help="show the traceback of an error"
        )

    def describe(self, description: str, examples: str) -> None:
        """Say what the command is for, above the options, and show examples below them, whose line breaks stay."""
        self.description = textwrap.fill(" ".join(description.split()), 79)
        self.epilog = "examples:\n" + textwrap.indent(textwrap.dedent(examples).strip(), "  ")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; what is unknown is refused here, where the subcommand is known."""
        self._words = list(sys.argv[1:] if args is None else args)
        self.given.clear()
        found, unknown = super().parse_known_args(args, namespace)
        if unknown and not any(word.startswith("-") for word in unknown):
            unknown = self._gathered(found, unknown)
        if unknown:
            self._refuse(self._unknown(unknown))
        return found, unknown

    def _gathered(self, found: argparse.Namespace, words: list[str]) -> list[str]:
        """Take words behind options for further ones of the first of ``gathers``, and the last for the second."""
        if (gathers := self.get_default("gathers")) is None:
            return words
        several, last = gathers
        setattr(found, several, [*getattr(found, several), getattr(found, last), *words[:-1]])
        setattr(found, last, words[-1])
        return []

    def error(self, message: str) -> NoReturn:
        """Refuse the call; an option that is not known comes first, since it may be the one that is missed."""
        options = takewhile(lambda word: word != "--", self._words if self._subparsers is None else [])
        unknown = [
            word
            for word in options
            if word.startswith("--") and word.partition("=")[0] not in self._option_string_actions
        ]
        self._refuse(
            f"{self._unknown(unknown)} ({message})" if unknown else message + self._joined_value(message)
        )

    def _joined_value(self, message: str) -> str:
        """How a value that begins with a dash is given to the option that a message says has none."""
        for option, value in pairwise(self._words):
            dashed = value.startswith("-") and not value.startswith("--")
            if dashed and message == f"argument {option}: expected one argument":
                return f"; a value that begins with - is joined to its option: {option}={shlex.quote(value)}"
        return ""

    def _refuse(self, message: str) -> NoReturn:
        way = "" if "--help" in message else f"; {self.prog} --help shows how it is called"
        self.exit(2, f"{self.prog}: {' '.join(message.splitlines())}{way}\n")

    def _unknown(self, words: Sequence[str]) -> str:
        """What is said of words that are not known."""
        guesses = [_near(word.partition("=")[0], self._option_string_actions) for word in words]
        guess = next((guess for guess in guesses if guess), f"; {self.prog} --help lists the options")
        return f"unknown argument{'s' if len(words) > 1 else ''} {' '.join(words)}{guess}"

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = list(map(str, action.choices))
            raise argparse.ArgumentError(
                action,
                f"there is no {str(value)!r}{did_you_mean(str(value), known)} (there are {', '.join(known)})",
            )

    def _print_message(self, message: str, file: Any = None) -> None:
        super()._print_message(escaped(message, keep="\n"), file)


# What a command takes is declared, and parsers, their help, completion and the pages are made of that.


class Argument:
    """An option or argument, declared once for all commands that take it."""

    def __init__(self, *names: str, **settings: Any) -> None:
        """``names`` and ``settings`` are those of ``add_argument``."""
        self._names, self._settings = names, settings

    def but(self, **settings: Any) -> Argument:
        """The same as a command words it, or where it differs there."""
        return Argument(*self._names, **self._settings | settings)

    def add_to(self, container: argparse._ActionsContainer) -> None:
        """Add it to a parser, or to a group of one."""
        container.add_argument(*self._names, **self._settings)


class _Group(NamedTuple):
    """Arguments under a title; without one they exclude each other, and ``required`` says that one must be given."""

    arguments: tuple[Argument | _Group, ...]
    title: str | None = None
    required: bool = False

    def add_to(self, container: argparse._ActionsContainer) -> None:
        """Add them to a parser, or to a group of one."""
        group: argparse._ActionsContainer
        if self.title is None:
            group = container.add_mutually_exclusive_group(required=self.required)
        else:
            group = container.add_argument_group(self.title)
        for one in self.arguments:
            one.add_to(group)


def one_of(*arguments: Argument, required: bool = False) -> _Group:
    """Arguments of which a call has one at most, or exactly one where that is ``required``."""
    return _Group(arguments, required=required)


def titled(title: str, *arguments: Argument | _Group) -> _Group:
    """Arguments that help shows together below a title."""
    return _Group(arguments, title)


Run = Callable[[argparse.Namespace], int]


class Declared(NamedTuple):
    """What a command is for, examples, what it takes and what it does: arguments → exit code."""

    description: str
    examples: str
    takes: tuple[Argument | _Group, ...]
    defaults: dict[str, Any]
    run: Run

    def parser(self, prog: str) -> CommandParser:
        """The parser of its arguments."""
        parser = CommandParser(prog=prog)
        parser.describe(self.description, self.examples)
        for one in self.takes:
            one.add_to(parser)
        parser.set_defaults(run=self.run, **self.defaults)
        return parser


def command(
    description: str, examples: str, *takes: Argument | _Group, **defaults: Any
) -> Callable[[Run], Declared]:
    """Declare the command that the function runs; ``defaults`` are those of its parser."""
    return lambda run: Declared(description, examples, takes, defaults, run)


def _near(text: str, options: Iterable[str]) -> str:
    """The option that was meant, by what stands behind the dashes, which all of them share."""
    names = [option.lstrip("-") for option in options if option.startswith("--")]
    guess = did_you_mean(text.lstrip("-"), names) if text.startswith("-") else ""
    return guess.replace("'", "'--", 1)


def names(text: str) -> list[str]:
    """Read ``a,b,c``; in backticks, as queries have them, a name may hold commas and blanks at its ends."""
    found, at = [], 0
    while at <= len(text):
        item = _LISTED_NAME.match(text, at)
        if item is None:
            raise argparse.ArgumentTypeError(f"{text!r} is not a list of column names such as a,b")
        found.append(item[2] if item[1] is None else item[1].replace("``", "`"))
        at = item.end() + 1
    return found


def pairs(text: str, form: str = "OLD=NEW") -> dict[str, str]:
    """Read ``old=new,…``; in backticks, either may hold commas, and the first ``=``."""
    found: dict[str, str] = {}
    at = 0
    while at <= len(text):
        item = _PAIR.match(text, at)
        if item is None:
            raise argparse.ArgumentTypeError(f"{text[at:].partition(',')[0]!r} is not of the form {form}")
        old, new = (
            item[plain] if item[quoted] is None else item[quoted].replace("``", "`")
            for quoted, plain in ((1, 2), (3, 4))
        )
        if old in found:
            raise argparse.ArgumentTypeError(f"{old!r} is named twice")
        found[old] = new
        at = item.end() + 1
    return found


def assigned(text: str) -> tuple[str, str]:
    """Read ``name=value``; in backticks the name may hold the first ``=``. ValueError for what has none."""
    item = _ASSIGNED.fullmatch(text)
    if item is None:
        raise ValueError(f"{text!r} says no value")
    return (item[2] if item[1] is None else item[1].replace("``", "`")), item[3]


def target(text: str) -> str:
    """Read where something is to be written."""
    if text == "-":
        raise argparse.ArgumentTypeError("nothing is written to standard output; './-' is a name")
    return text


def count(text: str) -> int:
    """Read a whole number, 0 or more."""
    try:
        value = int(text.replace(",", "").replace("_", ""))
    except ValueError:
        value = -1
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 0 or more")
    return value


def size(text: str) -> int:
    """Read a size such as ``20GB``."""
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


_MOST_ROWS: Final = 1 << 28  # named one by one


def row_numbers(text: str) -> list[int]:
    """The row numbers that ``17,1000-1999`` names, for argparse."""
    rows: list[int] = []
    for piece in text.split(","):
        first, dash, last = piece.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise argparse.ArgumentTypeError(
                f"{piece!r} is no row; write numbers and ranges, as 17,1000-1999"
            )
        begin, end = int(first), int(last) if dash else int(first)
        if end < begin or len(rows) + end - begin >= _MOST_ROWS:
            raise argparse.ArgumentTypeError(
                f"{piece!r} is an empty range, or names too many rows: use --where"
            )
        rows.extend(range(begin, end + 1))
    return rows


# What several commands take.


PATH: Final = Argument("path", metavar="PATH", help="a part or a directory of parts")
DIRECTORY: Final = PATH.but(help="a directory of parts")
DATASETS: Final = PATH.but(nargs="+", help="a part, a directory of parts, a glob, or several")
PATHS: Final = Argument("paths", metavar="PATH", nargs="+")
TARGET: Final = Argument("target", metavar="DST", type=target)

WHERE: Final = Argument("--where", metavar="CONDITION", help="only rows that meet it, such as 'label == 3'")
COLUMNS: Final = Argument("--columns", type=names, metavar="A,B", help="only these columns")
LIMIT: Final = Argument("-n", "--limit", type=count, metavar="N", help="at most N rows")
SAMPLE: Final = Argument("--sample", type=count, metavar="N")
SEED: Final = Argument("--seed", type=int, metavar="S")
SORT: Final = Argument("--sort", metavar="A")
ROW: Final = Argument("--row")
ROWS: Final = Argument("--rows")
ROW_NUMBERS: Final = ROWS.but(
    type=row_numbers, metavar="ROWS", help="row numbers and ranges, the last one included"
)
KEY: Final = Argument("--key", type=names, metavar="A,B", help="columns that tell all rows apart")
DUPLICATES_FILE: Final = Argument("--duplicates-file", metavar="FILE")
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
def stores_as_asked(args: argparse.Namespace) -> Iterator[None]:
    """A command that may read object stores runs within: how they are reached, and where what they send is kept."""
    if not hasattr(args, "storage_option"):
        yield
        return
    from ..snapshot.cache import CacheOptions, use_cache_by_default
    from ..storage.storage_options import storage_of, use_storage_by_default

    given: dict[str, Any] = {}
    for text in args.storage_option:
        name, equals, value = text.partition("=")
        refuse({"--storage-option is NAME=VALUE, such as region=eu-west-1": not (name and equals)})
        given[name] = value
        if name == "max_requests_per_second":
            with suppress(ValueError):  # text that is no number is refused below
                given[name] = float(value)
    folder, limit = getattr(args, "cache_folder", None), getattr(args, "cache_limit", None)
    of_stores = "is of object stores, and nothing that is named is in one"
    refuse(
        {
            f"--storage-option {of_stores}": given and not is_elsewhere(args),
            **{f"--cache is not taken here: {why}": True for why in getattr(args, "no_cache", None) or ()},
            "--cache and --cache-bytes belong together: a directory on a local disk, and the bytes that it may take, "
            "as --cache /scratch/cache --cache-bytes 200GB": (folder is None) != (limit is None),
            f"--cache {of_stores}": folder is not None and not is_elsewhere(args),
        }
    )
    with wrong_call(plain=(TypeError, ValueError)):
        options = storage_of(given)
    with use_storage_by_default(options), use_cache_by_default(CacheOptions.of(folder, limit)):
        yield


def is_elsewhere(args: argparse.Namespace) -> bool:
    """Whether anything that the command names is in an object store."""
    named = (getattr(args, name, None) or () for name in ("path", "paths", "source", "target"))
    return any("://" in path for one in named for path in ([one] if isinstance(one, str) else one))
