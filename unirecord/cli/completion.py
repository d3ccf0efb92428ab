"""``unirecord completion bash|zsh|fish``: a script by which a shell completes commands and options."""

from __future__ import annotations

import argparse
import os
from typing import Final

from .terminal import say
from .usage import CommandParser

__all__ = ["completion_command"]

_DESCRIPTION: Final = """Print a script by which a shell completes commands, options and their values. File names
are completed as the shell does."""

_EXAMPLES: Final = """examples:
  source <(unirecord completion bash)      in ~/.bashrc
  source <(unirecord completion zsh)       in ~/.zshrc
  unirecord completion fish > ~/.config/fish/completions/unirecord.fish"""

_ZSH: Final = """\
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
(( $+functions[complete] )) || { autoload -Uz bashcompinit && bashcompinit; }
"""


def completion_command(parser: CommandParser) -> None:
    """Add the command."""
    parser.describe(_DESCRIPTION, _EXAMPLES)
    parser.add_argument("shell", choices=["bash", "zsh", "fish"], help="the shell")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    script = _script("fish") if args.shell == "fish" else _script("bash")
    say(*((_ZSH if args.shell == "zsh" else "") + script).rstrip("\n").split("\n"))
    return 0


def _script(shell: str) -> str:
    """A script of the package, made by ``docs/build_man.py``: the parsers of all commands take a second to import."""
    with open(os.path.join(os.path.dirname(__file__), f"completion.{shell}"), encoding="utf-8") as file:
        return file.read()
