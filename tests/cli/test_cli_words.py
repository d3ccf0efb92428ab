"""What the shell and the manual page know of the command line, and what is said of words that are no options."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from unirecord import Writer
from unirecord.cli.main import COMMANDS, Command, main

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from docs import build_man  # noqa: E402


def refused(call: list[str]) -> int:
    """The exit code of a call that the parser refuses."""
    with pytest.raises(SystemExit) as raised:
        main(call)
    return int(raised.value.code or 0)


def completed(script: str, *words: str, path: str = "") -> list[str]:
    """What bash offers for the last word; ``path``: where programs are that it may start, by default none."""
    asked = "\n".join(
        [
            script,
            f"COMP_WORDS=({' '.join(repr(word) for word in words)})",
            "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))",
            "COMPREPLY=()",
            "_unirecord",
            'printf "%s\\n" "${COMPREPLY[@]}"',
        ]
    )
    bash = shutil.which("bash") or "bash"
    done = subprocess.run([bash, "-c", asked], env={"PATH": path}, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.splitlines() if done.stdout.strip() else []


def test_bash_completes_commands_options_and_values(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert completed(script, "unirecord", "insp") == ["inspect"]
    assert {"write", "view", "completion"} <= set(completed(script, "unirecord", ""))
    assert completed(script, "unirecord", "--ver") == ["--version"]
    assert completed(script, "unirecord", "verify", "--qui") == ["--quick", "--quiet"]
    assert completed(script, "unirecord", "check", "--qui") == ["--quick", "--quiet"]
    assert completed(script, "unirecord", "convert", "x", "--from", "im") == ["images"]
    assert completed(script, "unirecord", "cache", "cl") == ["clear"]
    assert completed(script, "unirecord", "help", "insp") == ["inspect"]
    assert completed(script, "unirecord", "inspect", "da") == []  # the shell completes files


def test_other_shells_have_scripts_of_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    for shell, begins in (("zsh", "(( $+functions[compdef] ))"), ("fish", "complete -c unirecord ")):
        assert main(["completion", shell]) == 0
        script = capsys.readouterr().out
        assert script.startswith(begins)
        for word in ("inspect", "group-by", "storage-option", "completion"):
            assert word in script, word
        assert "%%" not in script  # what argparse makes of it in --help
    assert refused(["completion", "tcsh"]) == 2


@pytest.mark.parametrize("path", build_man.PAGES, ids=lambda path: path.name)
def test_what_is_made_of_the_parsers_says_what_they_say(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == build_man.PAGES[path](), "make docs writes it anew"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_pages_and_shells_know_every_option_of_a_command(command: Command) -> None:
    options = {
        flag
        for action in command.parser()._actions
        for flag in action.option_strings
        if flag.startswith("--") and action.help != argparse.SUPPRESS
    } - {"--help", "--debug"}
    made = {path.name: path.read_text(encoding="utf-8") for path in build_man.PAGES}
    manual = (
        made["unirecord.1"].split(f".SS unirecord {command.name}".replace("-", "\\-"))[1].split("\n.SS ")[0]
    )
    call = made["cli.md"].split(f"\n## {command.name}\n\n```\n")[1].split("\n```\n")[0]
    case = re.escape("|".join(command.names))
    bash = re.search(rf"^    {case}\) words=(.*) ;;$", made["completion.bash"], re.MULTILINE)
    here = f"'__fish_seen_subcommand_from {' '.join(command.names)}'"
    fish = [line for line in made["completion.fish"].splitlines() if here in line]
    assert bash
    found = {
        "manual": set(re.findall(r"\\fB(--[a-z-]+)", manual.replace("\\-", "-"))),
        "call": set(re.findall(r"--[a-z-]+", call)),
        "bash": set(re.findall(r"--[a-z-]+", bash[1])),
        "fish": {f"--{name}" for line in fish for name in re.findall(r" -l ([a-z-]+)", line)},
    }
    for name, flags in found.items():
        assert flags - {"--help", "--debug"} == options, name


def test_the_manual_page_is_in_the_language_of_man() -> None:
    page = build_man.manual_page()
    assert page.isascii()
    assert page.startswith(".TH UNIRECORD 1")
    for line in page.split("\n"):
        request = re.match(r"[.']\S*", line)
        known = (".TH", ".ad", ".nh", ".SH", ".SS", ".B", ".I", ".TP", ".PP", ".nf", ".fi")
        assert request is None or request[0] in known, line
    assert page.count(".SS unirecord ") == 33


def test_options_that_are_wrong_name_the_command_and_what_was_meant(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert refused(["inspect", "x", "--wehre", "a == 1"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("unirecord inspect: ")
    assert said.count("\n") == 1
    assert "did you mean '--where'" in said
    assert refused(["inspect", "x", "--bogus"]) == 2
    assert "unknown argument --bogus; unirecord inspect --help lists the options" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            ["sort", "x", "--bye", "3"],
            "unknown argument --bye; did you mean '--by'? (the following arguments are required: --by)",
        ),
        (
            ["inspect", "--bogus=1"],
            "unknown argument --bogus=1; unirecord inspect --help lists the options"
            " (the following arguments are required: PATH)",
        ),
        (["sort", "--", "--bye"], "sort: the following arguments are required: --by"),
        (["no-such", "--json"], "unirecord: argument COMMAND: there is no 'no-such'"),
    ],
)
def test_an_option_that_is_not_known_is_said_where_something_is_missing(
    call: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(call) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "meant"),
    [(["help"], ["--help"]), (["help", "write"], ["write", "--help"]), (["version"], ["--version"])],
)
def test_words_that_people_type_for_options_are_taken(
    typed: list[str], meant: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    def said(words: list[str]) -> str:
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 0
        return capsys.readouterr().out

    assert said(typed) == said(meant) != ""


def test_columns_of_the_dataset_in_the_call_are_completed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Writer(
        tmp_path / "x.urec",
        {"first name": "int64", "label": "int64", "like": "int64", "$(touch ran)": "int64"},
    ) as writer:
        writer.write({"first name": 1, "label": 2, "like": 3, "$(touch ran)": 4})
    assert main(["completion", "bash"]) == 0
    script, path = capsys.readouterr().out, str(tmp_path / "x.urec")

    def offered(*words: str) -> list[str]:
        return completed(script, "unirecord", *words, path=str(Path(sys.executable).parent))

    assert offered("inspect", path, "--columns", "") == [
        r"\`first\ name\`",
        "label",
        r"\`like\`",
        "\\`\\$\\(touch\\ ran\\)\\`",
    ]
    assert offered("head", "-n", "3", path, "--columns", "label,l") == ["label,label"]
    assert offered("inspect", path, "--where", "l") == ["label"]
    assert offered("inspect", str(tmp_path / "none"), "--sort", "l") == []
    assert main(["completion", "columns", "--", "--limit", "none", path]) == 0
    assert capsys.readouterr().out == "`first name`\nlabel\n`like`\n`$(touch ran)`\n"
    assert main(["completion", "bash", path]) == 2
    assert not list(Path.cwd().glob("ran"))
