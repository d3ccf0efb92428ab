"""The manual page of the command line, made from its parser."""

from __future__ import annotations

import argparse

from .completion import commands_of

__all__ = ["manual_page"]


def manual_page(parser: argparse.ArgumentParser) -> str:
    """The page `unirecord(1)` in the language of man."""
    [subparsers] = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    said = parser.description or ""
    lines = [
        '.TH UNIRECORD 1 "" "UniRecord" "User Commands"',
        ".ad l", ".nh",
        ".SH NAME", f"unirecord \\- {_text(said[0].lower() + said[1:].rstrip('.'))}",
        ".SH SYNOPSIS", ".B unirecord", ".I COMMAND", "[\\fIOPTIONS\\fR] \\fIPATH\\fR...",
        ".SH DESCRIPTION", _text(said), ".PP", *_verbatim(parser.epilog or ""),
        ".SH COMMANDS",
    ]  # fmt: skip
    for names, _, command in commands_of(subparsers):
        aliases = f" (also {', '.join(names[1:])})" if names[1:] else ""
        lines += [
            f".SS unirecord {_text(names[0] + aliases)}",
            _text(" ".join((command.description or "").split())),
        ]
        for action in sorted(command._actions, key=lambda action: bool(action.option_strings)):
            if action.help == argparse.SUPPRESS or isinstance(action, argparse._HelpAction):
                continue
            lines += [".TP", _named(action), _text(" ".join(_help(action).split()))]
        lines += [".PP", *_verbatim(command.epilog or "")]
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
