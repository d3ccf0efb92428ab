"""Commands for the first minutes: ``unirecord demo`` and ``unirecord doctor``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import groupby
from shlex import quote
from typing import Final

from ..examples import digits
from ..inspect.machine import Fact, examine
from .arguments import JSON, OVERWRITE, PATH, command
from .terminal import answer, say, table

__all__ = [
    "demo_command",
    "doctor_command",
]


# ``unirecord demo PATH``: the dataset of the pages, to try things out with.


@command(
    """Write 300 handwritten digits as a dataset: pictures, pixels, labels and a few columns more, which the pages of
    the documentation read. In Python: unirecord.examples.digits(PATH).""",
    """
    unirecord demo digits.urec
    unirecord demo digits.urec && unirecord inspect digits.urec --where "label == 3 and width > 16"
    """,
    PATH.but(help="NAME.urec for one part, another name for a directory"),
    OVERWRITE,
)
def demo_command(args: argparse.Namespace) -> int:
    digits(args.path, overwrite=args.overwrite)
    say(f"{args.path}: 300 handwritten digits; unirecord inspect {quote(args.path)}")
    return 0


# ``unirecord doctor [PATH]``: what this machine and this environment have, and what they lack.


_TITLES: Final = {
    "core": "Package",
    "machine": "Machine",
    "reading": "Ways of reading (io=)",
    "packages": "Optional packages",
    "place": "This place",
}
_MARKS: Final = {"good": "ok", "missing": "--", "bad": "BAD"}


@command(
    """Look at this installation: versions, what the C core was built with, which ways of reading work here (io_uring
    too), limits, optional packages; what is missing is said with what to do. A dataset of one row is written and
    read, in PATH or among temporary files, and removed. Exit code 1 when something needed does not work.""",
    """
    unirecord doctor
    unirecord doctor /data          the file system that datasets lie in, too
    unirecord doctor --json         for a report of a problem
    """,
    PATH.but(nargs="?", help="a directory where datasets lie or will lie"),
    JSON,
)
def doctor_command(args: argparse.Namespace) -> int:
    facts = examine(args.path)
    return answer(args, facts, _told(facts), all(fact.state != "bad" for fact in facts))


def _told(facts: Sequence[Fact]) -> Iterator[str]:
    for area, group in groupby(facts, lambda fact: fact.area):
        yield _TITLES[area]
        rows = [(_MARKS[fact.state], fact.name, fact.says) for fact in group]
        yield from (f"  {line}" for line in table(rows))
        yield ""
    advised = [(fact.name, fact.advice) for fact in facts if fact.advice]
    if advised:
        yield "What to do, where it is wanted"
        yield from (f"  {line}" for line in table(advised))
    elif all(fact.state == "good" for fact in facts):
        yield "Nothing is missing."
