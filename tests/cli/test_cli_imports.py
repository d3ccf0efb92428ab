"""What a call of the command line imports: of the commands the one that is called, and for a word about them none."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from unirecord.cli.main import COMMANDS

# What every call imports of the package.
LIGHT = {
    *(
        "unirecord",
        "unirecord.errors",
        "unirecord.sizes",
        "unirecord.storage",
        "unirecord.storage.publications",
    ),
    *(f"unirecord.cli{name}" for name in ("", ".main", ".arguments", ".terminal")),
}
# Command modules that stand on another: an audit reads the states and the paths that a trace reads.
STANDS_ON = {"audit": {"trace"}, "columns": {"write"}}
# The one that has the table, and the scripts of completion, is always there.
MODULES = {command.module for command in COMMANDS} - {"main"}
INSTALLED = {"numpy", "cffi", "msgpack", "_cffi_backend", "unirecord"}

WORDS: list[list[str]] = [
    *([], ["--version"], ["--help"], ["help"], ["no-such-command"], ["completion", "--help"]),
    *(["completion", shell] for shell in ("bash", "zsh", "fish")),
]


def in_fresh_python(code: str) -> Any:
    """What the code, which leaves it in `found`, has found."""
    whole = f"import json, sys\n{code}\nprint(json.dumps(found), file=sys.__stderr__)"
    done = subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stderr.splitlines()[-1])


def imported_by(words: Sequence[str]) -> set[str]:
    """The modules that a call of the command line imports, beside those that Python has at its start."""
    found = in_fresh_python(
        f"""
before = set(sys.modules)
from unirecord.cli import main
try:
    main({list(words)!r})
except SystemExit:
    pass
found = sorted(set(sys.modules) - before)
"""
    )
    return set(found)


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_a_word_about_the_commands_imports_none_of_them_and_no_reader(words: list[str]) -> None:
    found = imported_by(words)
    ours = {name for name in found if name.split(".")[0] == "unirecord"}
    assert ours == LIGHT
    others = {name.split(".")[0] for name in found - ours}
    assert others <= set(sys.stdlib_module_names) | {"_sysconfigdata"}, "the standard library is enough"
    heavy = {"subprocess", "dataclasses", "inspect", "typing_extensions", "asyncio", "concurrent", "tempfile"}
    assert not heavy & found
    assert len(found) <= 70, sorted(found)


def test_the_help_of_a_command_imports_no_other_command() -> None:
    found = imported_by(["write", "--help"])
    assert {name for name in MODULES if f"unirecord.cli.{name}" in found} == {"write"}
    assert len([name for name in found if name.startswith("unirecord")]) <= 320


def test_each_command_imports_its_own_module_and_no_framework() -> None:
    """The modules of the room are forgotten before each command; those below stay, which makes it quick."""
    found = in_fresh_python(
        """
import importlib
found = {"others": [], "commands": {}}
names = [c.name for c in importlib.import_module("unirecord.cli.main").COMMANDS]
for name in names:
    for module in [m for m in sys.modules if m.startswith("unirecord.cli")]:
        del sys.modules[module]
    [command] = [c for c in importlib.import_module("unirecord.cli.main").COMMANDS if c.name == name]
    early = [m for m in sys.modules if m.startswith("unirecord.cli.")]
    assert command.parser().prog == f"unirecord {name}"
    late = [m for m in sys.modules if m.startswith("unirecord.cli.") and m not in early]
    found["commands"][name] = [m.rpartition(".")[2] for m in late]
found["others"] = sorted({m.split(".")[0] for m in sys.modules} - set(sys.stdlib_module_names))
"""
    )
    assert list(found["commands"]) == [command.name for command in COMMANDS]
    for command in COMMANDS:
        commands = MODULES & set(found["commands"][command.name])
        assert commands == MODULES & {command.module, *STANDS_ON.get(command.module, ())}, command.name
    frameworks = {
        "torch",
        "tensorflow",
        "jax",
        "pyarrow",
        "pandas",
        "PIL",
        "obstore",
        "fsspec",
        "ray",
        "datasets",
    }
    assert not frameworks & set(found["others"])


def test_no_two_commands_have_one_name() -> None:
    names = [name for command in COMMANDS for name in command.names]
    assert len(names) == len(set(names))
