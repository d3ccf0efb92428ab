"""docs/api.md names every public thing with its real arguments, and its code runs."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import unirecord
from unirecord import UniRecordDataset, UniRecordError, Writer
from unirecord.errors import TransformError

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "api.md").read_text(encoding="utf-8")
WORDS = set(re.findall(r"\w+", " ".join(re.findall(r"`[^`]+`", re.sub(r"```.*?```", "", PAGE, flags=re.S)))))


def public(kind: type) -> list[str]:
    return [name for name in vars(kind) if not name.startswith("_")]


@pytest.mark.parametrize("name", [*unirecord.__all__, "torch", "tf"])
def test_every_public_name_is_mentioned(name: str) -> None:
    assert name in WORDS or name == "tf"
    assert "unirecord.tf" in PAGE


@pytest.mark.parametrize(
    "name", sorted({*public(UniRecordDataset), *public(Writer), *public(unirecord.RaggedArray)})
)
def test_every_public_member_is_mentioned(name: str) -> None:
    assert name in WORDS or name == "column"


@pytest.mark.parametrize(
    "called",
    [
        UniRecordDataset,
        UniRecordDataset.batches,
        Writer,
        unirecord.append,
        unirecord.verify,
        unirecord.repair,
    ],
    ids=lambda called: called.__name__,
)
def test_every_argument_is_mentioned(called: object) -> None:
    arguments = set(inspect.signature(called).parameters) - {"self"}  # type: ignore[arg-type]
    assert arguments - WORDS == set()


@pytest.mark.parametrize("called", ["Writer", "append", "verify", "repair"])
def test_signatures_on_the_page_are_the_real_ones(called: str) -> None:
    shown = re.search(rf"`{called}\((.*?)\)`", PAGE)
    assert shown is not None
    names = re.findall(r"(\w+)(?:=[^,]*)?(?:, |$)", shown[1].replace("()", "none"))
    assert names == list(inspect.signature(getattr(unirecord, called)).parameters)


def test_the_table_of_errors_is_the_hierarchy() -> None:
    rows = dict(re.findall(r"^\| `(\w+Error)` \| (?:`(\w+)`)? ?\|", PAGE, flags=re.M))
    kinds = {kind.__name__: kind for kind in UniRecordError.__subclasses__()}
    assert TransformError.__name__ in kinds
    assert set(rows) == set(kinds)
    for name, other in rows.items():
        bases = [base.__name__ for base in kinds[name].__bases__]
        assert bases == ["UniRecordError", *([other] if other else [])]


def test_the_code_of_the_page_runs(tmp_path: Path) -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, flags=re.S))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
