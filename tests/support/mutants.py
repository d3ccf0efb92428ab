"""Applies the one-line changes of mutants.txt, each in a copy of the tree, and says which of them no test sees.

``python mutants.py [WORD ...]``: those whose file, lines or tests have one of the words in them; all by default.
``make mutants MUTANTS="WORD ..."`` does so with what has been built. Exits 1 where one survives or no longer matches.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import hypothesis
import numpy as numpy
import pytest

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("mutants.txt")
SECONDS = 600  # a change may make what it is tried with run for ever
# One failing example is enough: nobody reads the smallest one, which takes minutes to find.
hypothesis.settings.register_profile("mutants", phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate))


@dataclass(frozen=True)
class Mutant:
    """A line of a file, without the space around it, what stands there instead, and what must fail then.

    ``tests`` are pytest's, or programs in tests/c, by their names.
    """

    number: int
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def __str__(self) -> str:
        return f"{LIST.name}:{self.number}: {self.file}: {self.old} -> {self.new}"

    def places(self, text: str) -> list[int]:
        """The lines of the file, by number, that it may be applied to: one, if it is still of this file."""
        return [i for i, line in enumerate(text.splitlines()) if line.strip() == self.old]

    def applied(self, text: str) -> str:
        """The file with the change."""
        lines = text.splitlines(keepends=True)
        [place] = self.places(text)
        lines[place] = lines[place].replace(self.old, self.new)
        return "".join(lines)


def read(path: Path = LIST) -> Iterator[Mutant]:
    """The mutants of a list: a file, then for each change of it "-", "+", "!" before old line, new line and tests."""
    file, old, new, number = "", "", "", 0
    for i, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        mark, text = line[:2], line[2:].strip()
        if mark == "- ":
            old, number = text, i
        elif mark == "+ ":
            new = text
        elif mark == "! ":
            yield Mutant(number, file, old, new, tuple(text.split()))
        elif line and not line.startswith("#"):
            file = line


def copy_tree(to: Path) -> None:
    """What git has, and the modules that have been compiled."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    built = [path.relative_to(ROOT).as_posix() for path in (ROOT / "unirecord").glob("*.so")]
    for name in [*filter(None, done.stdout.decode().split("\0")), *built]:
        source, target = ROOT / name, to / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


def write(file: Path, text: str, turn: int) -> None:
    """Has it compiled anew: Python looks at its time in whole seconds, so that gets one that it has not had."""
    file.write_text(text, encoding="utf-8")
    if file.suffix == ".py":
        os.utime(file, (turn, turn))


def is_one_failing(tests: Sequence[str], tree: Path) -> bool:
    """Whether one of the tests fails in the tree, as it is now. CalledProcessError where it does not compile."""
    ours = [test for test in tests if "::" in test or test.endswith(".py")]
    for program in tests:
        if program not in ours:
            subprocess.run(
                ["make", "-s", f"build/c/{program}"], cwd=tree, stdout=subprocess.DEVNULL, check=True
            )
            if fails(lambda program=program: os.execv(f"build/c/{program}", [program]), tree):  # type: ignore[misc]
                return True
    return bool(ours) and fails(
        lambda: int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", *(f"tests/{test}" for test in ours)])),
        tree,
    )


def fails(run: Callable[[], int], tree: Path) -> bool:
    """Whether that, in a child in the tree, gives something else than 0, or nothing; TimeoutError when it does not end.

    A child has the libraries of the tests already, which take longer to import than most tests to run; the package,
    which is another one in each tree, only this has.
    """
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(SECONDS)
            os.chdir(tree)
            tempfile.tempdir = str(tree / "tmp")  # else the one that this process has asked for already
            hypothesis.settings.load_profile("mutants")
            # plugins that other packages bring import these in every child
            os.environ.update(
                PYTHONPATH=str(tree), TMPDIR=str(tree / "tmp"), PYTEST_DISABLE_PLUGIN_AUTOLOAD="1"
            )
            sys.path.insert(0, str(tree))
            for descriptor in (1, 2):
                os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
            code = run()
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code == -signal.SIGALRM:
        raise TimeoutError
    if code in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise RuntimeError("one of the tests is not there")
    return code != 0


def main(words: list[str]) -> int:
    """Tries them; says which are killed, and in the end which are not."""
    chosen = [m for m in read() if not words or any(word in f"{m} {m.tests}" for word in words)]
    left = []
    with tempfile.TemporaryDirectory(prefix="unirecord-mutants-") as name:
        tree = Path(name)
        copy_tree(tree)
        (tree / "tmp").mkdir()
        if is_one_failing(sorted({test for mutant in chosen for test in mutant.tests}), tree):
            print("one of the tests fails without any change")
            return 1
        for at, mutant in enumerate(chosen, 1):
            file = tree / mutant.file
            text = file.read_text(encoding="utf-8")
            if len(mutant.places(text)) != 1:
                said = "does not match one line"
            else:
                write(file, mutant.applied(text), at)
                try:
                    said = "killed" if is_one_failing(mutant.tests, tree) else "SURVIVED"
                except subprocess.CalledProcessError:
                    said = "does not compile"
                except (
                    TimeoutError
                ):  # which says no more than that something hangs, and takes as long each time
                    said = f"has no test that ends in {SECONDS} seconds"
                write(file, text, len(chosen) + at)
            print(f"{at}/{len(chosen)} {said}: {mutant}", flush=True)
            if said != "killed":
                left.append(f"{said}: {mutant}")
    print(*left, f"{len(chosen) - len(left)} of {len(chosen)} killed", sep="\n")
    return 1 if left or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
