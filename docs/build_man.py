"""What is made of the parsers of the command line: the manual page docs/unirecord.1, the calls in docs/cli.md, and the
scripts by which shells complete, unirecord/cli/completion.*: `make docs` writes them.
"""

from __future__ import annotations

import argparse
import re
import shlex
import textwrap
from pathlib import Path
from typing import Final

from unirecord.cli.main import COMMANDS, Command, make_command_line

ROOT = Path(__file__).resolve().parent.parent

_COLUMNS: Final = ("A", "A,B", "A,-B", "COLUMN", "CONDITION")  # what help calls columns of a dataset
_LONGEST: Final = 60  # of the values of an option that a call shows

_FISH_COLUMNS: Final = (
    '(__fish_complete_list , "unirecord completion columns -- (commandline -opc)[3..-1] 2>/dev/null")'
)
_BASH: Final = """\
_unirecord_columns() {{
  local cur="${{COMP_WORDS[COMP_CWORD]}}" before="" name
  case "$cur" in *,*) before="${{cur%,*}}," ;; esac
  COMPREPLY=()
  while IFS= read -r name; do
    printf -v name %q "$name"
    case "$name" in "${{cur##*,}}"*) COMPREPLY+=("$before$name") ;; esac
  done < <("${{COMP_WORDS[0]}}" completion columns -- "${{COMP_WORDS[@]:2}}" 2>/dev/null)
}}
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
  case "$command $prev" in
    {columns}) _unirecord_columns; return ;;
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


def manual_page() -> str:
    """The page `unirecord(1)` in the language of man."""
    parser = make_command_line()
    said = parser.description or ""
    lines = [
        '.TH UNIRECORD 1 "" "UniRecord" "User Commands"',
        ".ad l", ".nh",
        ".SH NAME", f"unirecord \\- {_text(said[0].lower() + said[1:].rstrip('.'))}",
        ".SH SYNOPSIS", ".B unirecord", ".I COMMAND", "[\\fIOPTIONS\\fR] \\fIPATH\\fR...",
        ".SH DESCRIPTION", _text(said), ".PP", *_verbatim(parser.epilog or ""),
        ".SH COMMANDS",
    ]  # fmt: skip
    for command in COMMANDS:
        parser = command.parser()
        aliases = f" (also {', '.join(command.aliases)})" if command.aliases else ""
        lines += [
            f".SS unirecord {_text(command.name + aliases)}",
            _text(" ".join((parser.description or "").split())),
        ]
        for action in sorted(parser._actions, key=lambda action: bool(action.option_strings)):
            if action.help == argparse.SUPPRESS or isinstance(action, argparse._HelpAction):
                continue
            lines += [".TP", _named(action), _text(" ".join(_help(action).split()))]
        lines += [".PP", *_verbatim(parser.epilog or "")]
    return "\n".join([*lines, ""])


def _help(action: argparse.Action) -> str:
    return (action.help or "").replace("%%", "%")


def _named(action: argparse.Action) -> str:
    """An option with what it takes, or the name of an argument."""
    takes = "" if action.nargs == 0 else _value(action)
    if not action.option_strings:
        return f"\\fI{_text(takes)}\\fR"
    flags = ", ".join(f"\\fB{_text(flag)}\\fR" for flag in action.option_strings)
    return f"{flags} \\fI{_choices(takes)}\\fR" if takes else flags


def _choices(takes: str) -> str:
    """What an option takes; a line may end behind each choice."""
    return _text(takes).replace("|", "|\\:")


def _value(action: argparse.Action) -> str:
    if action.choices is not None and action.metavar is None:
        return "|".join(map(str, action.choices))
    return str(action.metavar or action.dest.upper())


def _verbatim(text: str) -> list[str]:
    return [".nf", *map(_text, text.split("\n")), ".fi"] if text else []


def _text(text: str) -> str:
    """Text of a line: what man would take as a request or an escape is said otherwise."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    escaped = "".join(char if char.isascii() else f"\\[u{ord(char):04X}]" for char in escaped)
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


def _options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """What a parser takes and shows in its help."""
    return [action for action in parser._actions if action.help != argparse.SUPPRESS]


def _flags(parser: argparse.ArgumentParser) -> list[str]:
    return [flag for action in _options(parser) for flag in action.option_strings]


def bash_script() -> str:
    """The script by which bash, and zsh, complete."""
    values, words, columns = [], [], []
    every = " ".join(name for command in COMMANDS for name in command.names)
    words.append(f'    "") words={shlex.quote(every + " --help --version")} ;;')
    words.append(f"    help) words={shlex.quote(every)} ;;")
    for command in COMMANDS:
        names, parser = command.names, command.parser()
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
            if _takes_columns(action):
                columns += [f'"{name} {flag}"' for name in names for flag in action.option_strings]
    return _BASH.format(values="\n".join(values), words="\n".join(words), columns="|".join(columns))


def _takes_columns(action: argparse.Action) -> bool:
    """Whether the values of an option are columns of the dataset, or begin with one."""
    return bool(action.option_strings) and action.dest != "names" and action.metavar in _COLUMNS


def fish_script() -> str:
    """The script by which fish completes."""
    every = " ".join(name for command in COMMANDS for name in command.names)
    lines = [f"complete -c unirecord -n '__fish_seen_subcommand_from help' -f -a {_quoted(every)}"]
    for command in COMMANDS:
        names, parser = command.names, command.parser()
        lines.append(
            f"complete -c unirecord -n __fish_use_subcommand -a {names[0]} -d {_quoted(command.help)}"
        )
        here = f"-n {_quoted('__fish_seen_subcommand_from ' + ' '.join(names))}"
        for action in _options(parser):
            choices = " ".join(map(str, action.choices or ()))
            flags = " ".join(
                f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
                for flag in action.option_strings
            )
            takes = "" if action.nargs == 0 else f"-x -a {_quoted(choices)}" if choices else "-r"
            if _takes_columns(action):
                takes = f"-x -a {_quoted(_FISH_COLUMNS)}"
            if flags:
                said = re.split(r"[;(]", action.help or "")[0].strip().replace("%%", "%")
                pieces = ["complete -c unirecord", here, flags, takes, f"-d {_quoted(said)}"]
                lines.append(" ".join(piece for piece in pieces if piece))
            elif choices:
                lines.append(f"complete -c unirecord {here} -f -a {_quoted(choices)}")
    return "\n".join([*lines, ""])


def _call(command: Command) -> str:
    """How a command is called: what must be given, what may be, and what excludes each other."""
    parser = command.parser()
    exclusive = {
        id(one): group for group in parser._mutually_exclusive_groups for one in group._group_actions
    }
    pieces = dict[int, list[argparse.Action]]()
    for action in sorted(_options(parser), key=lambda action: bool(action.option_strings)):
        if not isinstance(action, argparse._HelpAction) and action.dest != "debug":
            pieces.setdefault(id(exclusive.get(id(action), action)), []).append(action)
    required = {id(group) for group in parser._mutually_exclusive_groups if group.required}
    texts = []
    for group, actions in pieces.items():
        text = " | ".join(map(_given, actions))
        needed = group in required or any(action.required for action in actions)
        texts.append(text if needed and len(actions) == 1 else f"({text})" if needed else f"[{text}]")
    # A line may end behind each piece, and not inside one.
    words = " ".join(text.replace(" ", "\0") for text in ["unirecord", command.name, *texts])
    lines = textwrap.wrap(
        words, 100, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines).replace("\0", " ")


def _given(action: argparse.Action) -> str:
    """An option or argument as it is given."""
    takes = _value(action)
    takes = "FORMAT" if len(takes) > _LONGEST else takes
    takes = " ".join([takes] * action.nargs) if isinstance(action.nargs, int) else takes
    more = " …" if action.nargs in ("+", "*") or isinstance(action, argparse._AppendAction) else ""
    return " ".join([*action.option_strings[-1:], *([takes] if takes else [])]) + more


def cli_page() -> str:
    """docs/cli.md, in which the call of each command is the one that its parser takes."""
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    for command in COMMANDS:
        first, heading, rest = page.partition(f"\n## {command.name}\n\n```\n")
        assert heading, f"docs/cli.md has no call of {command.name}"
        page = first + heading + _call(command) + rest[rest.index("\n```\n") :]
    return page


def _quoted(text: str) -> str:
    """A word of fish in single quotes."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


# Each file, and what makes it.
PAGES = {
    ROOT / "docs" / "unirecord.1": manual_page,
    ROOT / "docs" / "cli.md": cli_page,
    ROOT / "unirecord" / "cli" / "completion.bash": bash_script,
    ROOT / "unirecord" / "cli" / "completion.fish": fish_script,
}

if __name__ == "__main__":
    for path, make in PAGES.items():
        path.write_text(make(), encoding="utf-8")
