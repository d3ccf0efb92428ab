"""``unirecord demo PATH``: the dataset of the pages, to try things out with."""

from __future__ import annotations

import argparse
from typing import Final

from ..examples import digits
from .terminal import say
from .usage import CommandParser

__all__ = ["demo_command"]

_DESCRIPTION: Final = """Write 300 handwritten digits as a dataset: pictures, pixels, labels and a few columns
more, which the pages of the documentation read. In Python: unirecord.examples.digits(PATH)."""

_EXAMPLES: Final = """examples:
  unirecord demo digits.urec
  unirecord demo digits.urec && unirecord inspect digits.urec --where "label == 3 and width > 16\""""


def demo_command(parser: CommandParser) -> None:
    """Add the command."""
    parser.describe(_DESCRIPTION, _EXAMPLES)
    parser.add_argument("path", metavar="PATH", help="NAME.urec for one part, another name for a directory")
    parser.add_argument("--overwrite", action="store_true", help="replace what is there")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    digits(args.path, overwrite=args.overwrite)
    say(f"{args.path}: 300 handwritten digits; unirecord inspect {args.path}")
    return 0
