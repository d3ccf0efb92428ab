"""The manual page docs/unirecord.1, from the parser of the command line: `make docs` writes it."""

from __future__ import annotations

from pathlib import Path

from unirecord.cli.main import make_command_line
from unirecord.cli.manual import manual_page

PAGE = Path(__file__).resolve().parent / "unirecord.1"


def page() -> str:
    """The page as the parser is now."""
    return manual_page(make_command_line())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
