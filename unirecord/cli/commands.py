"""The table of commands: what each is called and does, and the module that is imported when it is called."""

from __future__ import annotations

from importlib import import_module
from typing import Final, NamedTuple

from .usage import CommandParser

__all__ = ["COMMANDS", "Command"]


class Command(NamedTuple):
    """One command. ``module`` of this folder has NAME_command(parser), which sets ``run``: arguments → exit code.

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
        parser = CommandParser(prog=f"unirecord {self.name}")
        module = import_module(f".{self.module}", __package__)
        getattr(module, f"{self.name.replace('-', '_')}_command")(parser)
        if self.quiet:
            parser.add_argument(
                "--quiet", action="store_true", help="say nothing of what went well; no progress is shown"
            )
        parser.set_defaults(works=self.quiet or self.works, paged=self.paged)
        return parser


COMMANDS: Final = (
    Command("write", "write", "convert raw data to a dataset", aliases=("convert",), quiet=True),
    Command("export", "export", "write a dataset as files of another format", quiet=True),
    Command(
        "inspect",
        "inspect",
        "look inside a dataset",
        aliases=(
            "info",
            "head",
            "ls",
        ),
        paged=True,
    ),
    Command("view", "view", "look at a dataset in a browser"),
    Command("trace", "trace", "which rows a training step got", paged=True),
    Command("audit", "audit", "was every sample delivered exactly once", works=True, paged=True),
    Command("report", "audit", "a training job as a page to look at", quiet=True),
    Command("log", "versions", "list the versions of a dataset", paged=True),
    Command("diff", "diff", "compare two datasets", works=True, paged=True),
    Command("restore", "versions", "go back to an earlier version", quiet=True),
    Command("gc", "versions", "remove old versions", quiet=True),
    Command("delete", "deletion", "delete rows", quiet=True),
    Command("add-columns", "columns", "add columns", quiet=True),
    Command("drop-columns", "columns", "drop columns", quiet=True),
    Command("rename-columns", "columns", "give columns other names", quiet=True),
    Command("evict", "deletion", "remove the oldest parts", quiet=True),
    Command("purge", "deletion", "erase rows for good", quiet=True),
    Command("compact", "layout", "put small parts together", quiet=True),
    Command("reshard", "layout", "make N equal parts", quiet=True),
    Command("sort", "layout", "order the rows by a column", quiet=True),
    Command("merge", "layout", "one dataset of several", quiet=True),
    Command("split", "write", "several datasets of one", quiet=True),
    Command("verify", "integrity", "check every byte", aliases=("check",), quiet=True),
    Command("repair", "integrity", "rebuild a lost index, salvage rows", works=True),
    Command("bench", "bench", "how fast this dataset reads here"),
    Command("fetch", "cache", "bring rows into a cache ahead of their use", quiet=True),
    Command("cache", "cache", "list, check and clear a cache of an object store"),
    Command("demo", "demo", "write a small dataset to try things out with", quiet=True),
    Command("doctor", "doctor", "what this machine has, and what is missing"),
    Command("completion", "completion", "let the shell complete commands and options"),
)
