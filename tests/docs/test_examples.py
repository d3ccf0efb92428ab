"""The examples run, and what they train has learnt to read digits; the distributed one is in tests/slow/."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from example_runs import EXAMPLES, accuracies, run


@pytest.mark.parametrize("name", ["pytorch", "tensorflow_fit"])
def test_examples_on_one_process(tmp_path: Path, name: str) -> None:
    done = run(str(EXAMPLES / f"{name}.py"), str(tmp_path))
    assert done.returncode == 0, done.stderr
    found = accuracies(done.stdout)
    assert len(found) == 10
    assert found[-1] > 90


def test_every_example_is_run_by_some_test() -> None:
    """Some by those that `make slow`, `make ray` and `make trainers` run, which take longer than each run can spare."""
    written = "\n".join(path.read_text(encoding="utf-8") for path in EXAMPLES.parent.glob("tests/**/*.py"))
    imported = {"digits"}  # by the others
    names = {path.stem for path in EXAMPLES.iterdir() if path.is_file()} - imported
    assert len(names) >= 11
    assert {name for name in names if not re.search(rf"\b{name}\b", written)} == set()


def test_the_mixture_goes_on_with_other_weights_and_is_audited(tmp_path: Path) -> None:
    done = run(str(EXAMPLES / "mixture.py"), str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "4 steps of 2 ranks: 112 web, 48 code",
        "the rest of the epoch on 3 ranks: 120 web, 120 code",
        "every sample exactly once: True, 400 samples",
    ]
