"""The ``unirecord`` command: the table of commands, the call of one, and failures as a line and an exit code."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, Final, NamedTuple

from .. import __version__
from ..errors import ExistsError, MissingError, QueryError, UniRecordError
from ..storage.publications import forget_publications, published_paths
from .arguments import Argument, CommandParser, Declared, UsageError, command, refuse, stores_as_asked
from .terminal import paged, say, silence, to_nowhere, unread, warn

__all__ = [
    "COMMANDS",
    "Command",
    "completion_command",
    "main",
    "make_command_line",
]

_QUIET: Final = Argument(
    "--quiet", action="store_true", help="say nothing of what went well; no progress is shown"
)

# The table of commands: what each is called and does, and the module that is imported when it is called.


class Command(NamedTuple):
    """One command. ``module`` of this folder declares it, as NAME_command.

    ``quiet``: it does something, and may be told to do it without a word. ``works``: what it says by its exit code is
    said to the end, also when its reader has gone. ``paged``: its answer may be long.
    """

    name: str
    module: str
    help: str
    aliases: tuple[str, ...] = ()
    quiet: bool = False
    works: bool = False
    paged: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """All that it is called."""
        return self.name, *self.aliases

    def parser(self) -> CommandParser:
        """The parser of its arguments; its module is imported here."""
        module = import_module(f".{self.module}", __package__)
        declared: Declared = getattr(module, f"{self.name.replace('-', '_')}_command")
        parser = declared.parser(f"unirecord {self.name}")
        if self.quiet:
            _QUIET.add_to(parser)
        parser.set_defaults(works=self.quiet or self.works, paged=self.paged)
        return parser


COMMANDS: Final = (
    Command("write", "write", "convert raw data to a dataset", aliases=("convert",), quiet=True),
    Command("export", "export", "write a dataset as files of another format", quiet=True),
    Command(
        "inspect",
        "inspect",
        "look inside a dataset",
        aliases=("info", "head", "ls"),
        paged=True,
    ),
    Command("view", "view", "look at a dataset in a browser"),
    Command("trace", "trace", "which rows a training step got", paged=True),
    Command("audit", "audit", "was every sample delivered exactly once", works=True, paged=True),
    Command("report", "audit", "a training job as a page to look at", quiet=True),
    Command("log", "maintenance", "list the versions of a dataset", paged=True),
    Command("diff", "diff", "compare two datasets", works=True, paged=True),
    Command("restore", "maintenance", "go back to an earlier version", aliases=("rollback",), quiet=True),
    Command("gc", "maintenance", "remove old versions", quiet=True),
    Command("delete", "maintenance", "delete rows", quiet=True),
    Command("update", "columns", "correct values by a table", quiet=True),
    Command("upsert", "columns", "the same, and append rows that are new", quiet=True),
    Command("set", "columns", "give rows that meet a condition a value", quiet=True),
    Command("add-columns", "columns", "add columns", quiet=True),
    Command("drop-columns", "columns", "drop columns", quiet=True),
    Command("rename-columns", "columns", "give columns other names", quiet=True),
    Command("evict", "maintenance", "remove the oldest parts", quiet=True),
    Command("purge", "maintenance", "erase rows for good", quiet=True),
    Command("compact", "maintenance", "put small parts together", quiet=True),
    Command("reshard", "maintenance", "make N equal parts", quiet=True),
    Command("sort", "maintenance", "order the rows by a column", quiet=True),
    Command("merge", "maintenance", "one dataset of several", quiet=True),
    Command("split", "write", "several datasets of one", quiet=True),
    Command("verify", "integrity", "check every byte", aliases=("check",), quiet=True),
    Command("repair", "integrity", "rebuild a lost index, salvage rows", works=True),
    Command("bench", "bench", "how fast this dataset reads here"),
    Command("fetch", "cache", "bring rows into a cache ahead of their use", quiet=True),
    Command("cache", "cache", "list, check and clear a cache of an object store"),
    Command("demo", "start", "write a small dataset to try things out with", quiet=True),
    Command("doctor", "start", "what this machine has, and what is missing"),
    Command("completion", "main", "let the shell complete commands and options"),
)


# ``unirecord completion bash|zsh|fish``: a script by which a shell completes commands, options and names of columns.


_ZSH: Final = """\
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
(( $+functions[complete] )) || { autoload -Uz bashcompinit && bashcompinit; }
"""


@command(
    """Print a script by which a shell completes commands, options and their values, among them the columns of the
    dataset that the call names (`completion columns PATH` prints them). File names are completed as the shell does.""",
    """
    source <(unirecord completion bash)      in ~/.bashrc
    source <(unirecord completion zsh)       in ~/.zshrc
    unirecord completion fish > ~/.config/fish/completions/unirecord.fish
    """,
    Argument("shell", choices=["bash", "zsh", "fish", "columns"], help="the shell"),
    Argument(
        "paths", metavar="PATH", nargs="*", help="of columns: words of a call, of which one is a dataset"
    ),
)
def completion_command(args: argparse.Namespace) -> int:
    refuse({f"{args.shell} takes no PATH": bool(args.paths) and args.shell != "columns"})
    if args.shell == "columns":
        say(*_columns_of(args.paths))
        return 0
    script = _script("fish") if args.shell == "fish" else _script("bash")
    say(*((_ZSH if args.shell == "zsh" else "") + script).rstrip("\n").split("\n"))
    return 0


def _columns_of(words: Sequence[str]) -> list[str]:
    """The columns of the first word that is a dataset, as queries and lists have them; none where there is none."""
    from ..query.tree import Field
    from ..snapshot.dataset_path import resolve

    for word in words:
        with suppress(UniRecordError, OSError):
            return [str(Field(name, 0, "")) for name in resolve(word).schema.names]
    return []


def _script(shell: str) -> str:
    """A script of the package, made by ``docs/build_man.py``: the parsers of all commands take a second to import."""
    with open(os.path.join(os.path.dirname(__file__), f"completion.{shell}"), encoding="utf-8") as file:
        return file.read()


# What people type for options of the command itself.
_MEANT: Final = {"help": "--help", "version": "--version"}

_DESCRIPTION: Final = "Training data as records: convert once, look inside, read at full speed."
_EXAMPLES: Final = """
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
  unirecord update table --from fixes.csv --key id   corrected values, in the same rows
  unirecord log table                           its versions; table@7 is the seventh
  unirecord diff table@5 table@7                what is not the same in two datasets
  unirecord verify pictures.urec                check every byte
  unirecord repair pictures.urec                rebuild a lost index, salvage rows
  unirecord bench pictures.urec                 how fast it reads on this machine
  unirecord fetch s3://bucket/train --cache /scratch/cache --cache-bytes 200GB   bring rows ahead
  unirecord cache ls /scratch/cache             what a cache of an object store holds
  unirecord doctor                              what this machine has, and what is missing"""
_EXIT_CODES: Final = "exit codes: 0 good · 1 the data is bad · 2 the call is wrong · 130 interrupted"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line with ``argv`` (default: the process's own) and return the exit code."""
    _open_closed_streams()
    forget_publications()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that lacks a character gets its escape, not an error
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            args = make_command_line().parse_args(_meant(sys.argv[1:] if argv is None else list(argv)))
        finally:
            # What --help has printed, while a closed pipe can still be caught.
            sys.stdout.flush()
    # Importing a command takes a second where disks are slow.
    except (BrokenPipeError, KeyboardInterrupt) as error:
        return _exit_code(error)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning  # type: ignore[assignment]
            with _manners(args), stores_as_asked(args):
                code: int = args.run(args)
            sys.stdout.flush()
        return code
    except BaseException as error:
        if getattr(args, "debug", False) and not isinstance(error, BrokenPipeError):
            import traceback

            warn(*traceback.format_exc().rstrip("\n").split("\n"))
        with unread(True):
            return _exit_code(error)


def _open_closed_streams() -> None:
    """What is closed (`>&-`) is empty, or goes nowhere; the first file that is opened would else get its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115


@contextmanager
def _manners(args: argparse.Namespace) -> Iterator[None]:
    """How much is said, and through what."""
    dry, lines = getattr(args, "dry_run", False), getattr(args, "progress", None)
    refuse(
        {
            "--dry-run says what would be done, and --quiet leaves that out; choose one": args.quiet and dry,
            "--progress asks for lines, and --quiet for none; choose one": args.quiet and lines,
        }
    )
    with unread(args.works), silence(args.quiet), paged(args.paged):
        yield


def _meant(words: list[str]) -> list[str]:
    """The command line with `help` and `version` as the options they are: `help write` is `write --help`."""
    option = _MEANT.get(words[0]) if words else None
    return words if option is None else [*words[1:], option]


class _Uncalled(CommandParser):
    """Stands for a command among all: its module is imported when its arguments are to be parsed, and no sooner."""

    def __init__(self, command: Command, **options: Any) -> None:
        super().__init__(add_help=False, **options)
        self._command = command

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse by the command's own parser."""
        return self._command.parser().parse_known_args(args, namespace)


def make_command_line() -> CommandParser:
    """The parser of the command line, which knows of each command its name and what it does."""
    parser = CommandParser(prog="unirecord")
    parser.describe(_DESCRIPTION, _EXAMPLES)
    parser.epilog = f"{parser.epilog}\n\n{_EXIT_CODES}"
    parser.add_argument("--version", action="version", version=f"unirecord {__version__}")
    parser.set_defaults(run=lambda _: _show_help(parser), quiet=False, paged=False, works=False)
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=_Uncalled)
    for one in COMMANDS:
        subparsers.add_parser(one.name, aliases=one.aliases, help=one.help, command=one)
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
