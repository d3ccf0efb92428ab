"""``unirecord report DIR FILE``: a training job as a page to look at, by its receipts."""

from __future__ import annotations

import argparse
from typing import Any, Final

from ..inspection.page_file import write_page
from ..inspection.run_report import run_report
from ..inspection.stats_files import saved_stats
from ..sizes import format_size
from .audit import add_questions, audited
from .terminal import say
from .usage import make_parser

__all__ = ["add_parser"]

_DESCRIPTION: Final = """Write what audit finds as a page to look at in a browser: the launches of a job, what each
epoch delivered, what was left out, came twice or never. Exit code 1 when it is not proven; the page is written then
too."""

_EXAMPLES: Final = """examples:
  unirecord report run1/receipts run1.html
  unirecord report run1/receipts run1.html --dataset data    rows are compared too"""


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = make_parser(
        subparsers.add_parser, "report", help="a training job as a page to look at", description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )  # fmt: skip
    add_questions(parser)
    parser.add_argument("page", metavar="FILE", help="the page to write; an earlier page is replaced")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    found = audited(args)
    size = write_page(run_report(found, saved_stats(args.folder)), args.page)
    result = "proven" if found.ok else "NOT proven"
    say(f"{args.page}: {format_size(size)}, to be opened in a browser; it needs no network ({result})")
    return 0 if found.ok else 1
