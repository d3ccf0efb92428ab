"""``unirecord completion bash|zsh|fish``: a script by which a shell completes commands and options."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from typing import Any, Final

from .terminal import say
from .usage import make_parser

__all__ = ["commands_of", "completion_command"]

_DESCRIPTION: Final = """Print a script by which a shell completes commands, options and their values. File names
are completed as the shell does."""

_EXAMPLES: Final = """examples:
  source <(unirecord completion bash)      in ~/.bashrc
  source <(unirecord completion zsh)       in ~/.zshrc
  unirecord completion fish > ~/.config/fish/completions/unirecord.fish"""

_BASH: Final = """\
_unirecord() {{
  local cur="${{COMP_WORDS[COMP_CWORD]}}" prev="${{COMP_WORDS[COMP_CWORD-1]}}" command="" words="" word i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "${{COMP_WORDS[i]}}" in
      -*) ;;
      *) command="${{COMP_WORDS[i]}}"; break ;;
    esac
  done
  case "$command $prev" in
{values}
  esac
  case "$command" in
{words}
  esac
  COMPREPLY=()
  if [[ -z "$command" || "$cur" == -* || "$prev" == "$command" ]]; then
    for word in $words; do
      case "$word" in
        "$cur"*) if [[ "$word" != -* || "$cur" == -* ]]; then COMPREPLY+=("$word"); fi ;;
      esac
    done
  fi
}}
complete -o default -F _unirecord unirecord
"""

_ZSH: Final = """\
(( $+functions[compdef] )) || {{ autoload -Uz compinit && compinit; }}
(( $+functions[complete] )) || {{ autoload -Uz bashcompinit && bashcompinit; }}
{bash}"""


def completion_command(subparsers: Any) -> None:
    """Add the command; what it prints is of all commands that are added, before it or after."""
    parser = make_parser(
        subparsers.add_parser, "completion", help="let the shell complete commands and options",
        description=_DESCRIPTION, epilog=_EXAMPLES,
    )  # fmt: skip
    parser.add_argument("shell", choices=["bash", "zsh", "fish"], help="the shell")
    parser.set_defaults(run=lambda args: _run(args, subparsers))


def _run(args: argparse.Namespace, subparsers: Any) -> int:
    bash = _bash(subparsers)
    made = {"bash": bash, "zsh": _ZSH.format(bash=bash), "fish": _fish(subparsers)}
    say(*made[args.shell].rstrip("\n").split("\n"))
    return 0


def commands_of(subparsers: Any) -> Iterator[tuple[list[str], str, argparse.ArgumentParser]]:
    """Each command's names, the first of them its own, its help, and its parser."""
    helps = {action.dest: action.help or "" for action in subparsers._choices_actions}
    names: dict[int, list[str]] = {}
    for name, parser in subparsers.choices.items():
        names.setdefault(id(parser), []).append(name)
    for name, parser in subparsers.choices.items():
        if names[id(parser)][0] == name:
            yield names[id(parser)], helps[name], parser


def _options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """What a parser takes and shows in its help."""
    return [action for action in parser._actions if action.help != argparse.SUPPRESS]


def _flags(parser: argparse.ArgumentParser) -> list[str]:
    return [flag for action in _options(parser) for flag in action.option_strings]


def _bash(subparsers: Any) -> str:
    values, words = [], []
    every = " ".join(name for names, _, _ in commands_of(subparsers) for name in names)
    words.append(f'    "") words={shlex.quote(every + " --help --version")} ;;')
    words.append(f"    help) words={shlex.quote(every)} ;;")
    for names, _, parser in commands_of(subparsers):
        choices = [
            str(one)
            for action in _options(parser)
            if not action.option_strings
            for one in action.choices or ()
        ]
        words.append(f"    {'|'.join(names)}) words={shlex.quote(' '.join([*choices, *_flags(parser)]))} ;;")
        for action in _options(parser):
            if action.option_strings and action.choices:
                places = "|".join(f'"{name} {flag}"' for name in names for flag in action.option_strings)
                chosen = shlex.quote(" ".join(map(str, action.choices)))
                values.append(f'    {places}) COMPREPLY=($(compgen -W {chosen} -- "$cur")); return ;;')
    return _BASH.format(values="\n".join(values), words="\n".join(words))


def _fish(subparsers: Any) -> str:
    every = " ".join(name for names, _, _ in commands_of(subparsers) for name in names)
    lines = [f"complete -c unirecord -n '__fish_seen_subcommand_from help' -f -a {_quoted(every)}"]
    for names, help_, parser in commands_of(subparsers):
        lines.append(f"complete -c unirecord -n __fish_use_subcommand -a {names[0]} -d {_quoted(help_)}")
        here = f"-n {_quoted('__fish_seen_subcommand_from ' + ' '.join(names))}"
        for action in _options(parser):
            choices = " ".join(map(str, action.choices or ()))
            flags = " ".join(
                f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
                for flag in action.option_strings
            )
            takes = "" if action.nargs == 0 else f"-x -a {_quoted(choices)}" if choices else "-r"
            if flags:
                said = re.split(r"[;(]", action.help or "")[0].strip().replace("%%", "%")
                pieces = ["complete -c unirecord", here, flags, takes, f"-d {_quoted(said)}"]
                lines.append(" ".join(piece for piece in pieces if piece))
            elif choices:
                lines.append(f"complete -c unirecord {here} -f -a {_quoted(choices)}")
    return "\n".join([*lines, ""])


def _quoted(text: str) -> str:
    """A word of fish in single quotes."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
