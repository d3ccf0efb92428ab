"""Every option of a command beside every view: what is printed shows that it was obeyed, or it is refused by name."""

from __future__ import annotations

import argparse
import ast
from collections import Counter
from pathlib import Path

import pytest

import unirecord
from unirecord import Writer
from unirecord.cli import main
from unirecord.cli.inspect import inspect_command
from unirecord.cli.main import COMMANDS, Command, make_command_line
from unirecord.convert.sources import SOURCES

VIEWS: dict[str, list[str]] = {
    "overview": [],
    "rows": ["--where", "n >= 4"],
    "--count": ["--count"],
    "--group-by": ["--group-by", "label"],
    "--stats": ["--stats"],
    "--row": ["--row", "7"],
    "--key": ["--key", "n=7"],
    "--extract": ["--extract", "blob", "--out", "out"],
    "--explain": ["--where", "n >= 4", "--explain"],
}
OPTIONS: dict[str, list[str]] = {
    "--rows": ["--rows", "2"],
    "--json": ["--json"],
    "--html": ["--html", "page.html"],
    "--where": ["--where", "n >= 20"],
    "--columns": ["--columns", "n"],
    "--limit": ["--limit", "2"],
    "--offset": ["--offset", "1"],
    "--sort": ["--sort=-label"],
    "--sample": ["--sample", "3"],
    "--seed": ["--seed", "4"],
    "--csv": ["--csv"],
    "--quote-formulas": ["--quote-formulas"],
    "--out": ["--out", "elsewhere"],
    "--name": ["--name", "n"],
    "--mean": ["--mean", "n"],
    "--sum": ["--sum", "n"],
    "--exact": ["--exact"],
    "--cache": ["--cache", "kept", "--cache-bytes", "1MB"],
    "--cache-bytes": ["--cache-bytes", "1MB"],
    "--storage-option": ["--storage-option", "region=here"],
}
NEEDS = {"--seed": ["--sample", "3"], "--quote-formulas": ["--csv"]}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with Writer("a.urec", {"n": "int64", "label": "string", "blob": "bytes"}) as writer:
        for i in range(30):
            writer.write({"n": i, "label": f"={(7 * i) % 5}", "blob": bytes([i])})
    # Estimates, as of many rows.
    monkeypatch.setattr("unirecord.inspect.statistics._KEPT", 10)
    monkeypatch.setattr("unirecord.inspect.describe._distinct", lambda *_: (7, False))
    return tmp_path


def printed(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str]:
    """The exit code and the output, with the files that were made."""
    try:
        code = main(["inspect", "a.urec", *argv])
    except SystemExit as ended:
        code = int(str(ended.code))
    said = capsys.readouterr()
    made = sorted(str(path) for folder in ("out", "elsewhere") for path in Path(folder).glob("*"))
    for name in made:
        Path(name).unlink()
    return code, said.out + said.err + "".join(made)


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("view", VIEWS)
def test_an_option_of_inspect_is_obeyed_or_refused(
    here: Path, capsys: pytest.CaptureFixture[str], view: str, option: str
) -> None:
    plain = [*VIEWS[view], *NEEDS.get(option, [])]
    code, without = printed(capsys, *plain)
    if code == 2:
        assert NEEDS[option][0] in without  # what it needs is refused already
        return
    assert code == 0, without
    code, found = printed(capsys, *plain, *OPTIONS[option])
    if code == 2:
        assert option in found, "the option is not named"
    else:
        assert (code, found != without) == (0, True), "it has no effect"


def declared() -> Counter[str]:
    """How often the room declares each option: as what commands take, or to a parser."""
    calls = (
        node
        for file in (Path(unirecord.__file__).parent / "cli").glob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", getattr(node.func, "attr", "")) in ("Argument", "add_argument")
    )
    words = (word.value for call in calls for word in call.args if isinstance(word, ast.Constant))
    return Counter(word for word in words if word.startswith("--"))


def test_each_option_is_declared_once() -> None:
    """`--keep` is two: versions that `gc` keeps, and values that `add-columns` keeps; and so is `--from`: what a source
    is, and the table that `update` takes values from.
    """
    found = declared()
    assert {option for option, times in found.items() if times > 1} == {"--keep", "--from"}
    asked = {one.name: one for source in SOURCES for one in source.options}
    assert all(asked[one.name] == one for source in SOURCES for one in source.options)
    of_sources = {f"--{name.replace('_', '-')}" for name in asked}
    assert not of_sources & found.keys()
    parsers = [make_command_line(), *(command.parser() for command in COMMANDS)]
    known = {option for parser in parsers for option in parser._option_string_actions}
    assert known - {"-h", "--help", "-n"} == found.keys() | of_sources


def test_every_option_of_inspect_is_tried() -> None:
    known = set(inspect_command.parser("inspect")._option_string_actions) - {"-h", "--help", "--debug", "-n"}
    assert known == set(OPTIONS) | {word for words in VIEWS.values() for word in words if word[:2] == "--"}


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--max-part-bytes", "1GB"], "--max-part-bytes: b.urec is to be one part"),
        (["--classes-from", "a.urec"], "--classes-from: there are no classes"),
        (["--check-pictures"], "check-pictures"),
        (["--append"], "a single part cannot grow"),
        (["--append", "--overwrite"], "not allowed with argument"),
        (["--index", "z"], "--index: there is no column 'z'"),
        (["--columns", "z"], "--columns"),
    ],
)
def test_an_option_of_write_that_does_not_apply_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str], argv: list[str], said: str
) -> None:
    Path("x.csv").write_text("a,b\n1,2\n")
    try:
        code = main(["write", "x.csv", "b.urec", *argv])
    except SystemExit as ended:
        code = int(str(ended.code))
    assert code == 2
    assert said in capsys.readouterr().err
    assert not Path("b.urec").exists()


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_an_option_that_is_given_twice_is_refused_and_none_forgotten(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = command.parser()
    takes_value = [action for action in parser._actions if action.option_strings and action.nargs != 0]
    for action in takes_value:
        parser.given.clear()
        found, option = argparse.Namespace(), action.option_strings[-1]
        action(parser, found, ["a"], option)
        if type(action).__name__ in ("_AppendAction", "_ExtendAction"):
            action(parser, found, ["b"], option)
            assert len(getattr(found, action.dest)) >= 2
            continue
        with pytest.raises(SystemExit):
            action(parser, found, ["b"], option)
        assert f"{option} is given twice" in capsys.readouterr().err
