"""docs/api.md is what the docstrings say, whole, and its code runs."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import unirecord  # noqa: E402
from docs import build_api  # noqa: E402

PAGE = build_api.PAGE.read_text(encoding="utf-8")


def called() -> list[tuple[str, Any]]:
    """Everything public that can be called with arguments, and public methods of public classes."""
    found: list[tuple[str, Any]] = []
    for name, thing in build_api.public_names().items():
        if build_api.is_error(thing):
            continue
        if inspect.isclass(thing):
            found += [
                (f"{name}.{method}", one)
                for method, one in build_api.members(thing)
                if inspect.isroutine(one) and not method.startswith("__")
            ]
        if not inspect.isclass(thing) or "Args:" in (thing.__doc__ or ""):
            found.append((name, thing))
    return found


@pytest.mark.parametrize("name", [name for name in unirecord.__all__ if name != "__version__"])
def test_every_public_name_has_a_place_on_the_page(name: str) -> None:
    assert re.search(rf"^(### `{name}\b|\| `{name}`)", PAGE, flags=re.M)


@pytest.mark.parametrize(("name", "thing"), called(), ids=[name for name, _ in called()])
def test_every_argument_is_explained(name: str, thing: Any) -> None:
    text = inspect.getdoc(thing)
    assert text
    words = set(re.findall(r"\w+", text))
    assert set(inspect.signature(thing).parameters) - {"self", "cls"} - words == set()


def test_the_page_is_what_the_docstrings_say() -> None:
    assert build_api.page() == PAGE, "run `make docs`"


def test_entries_of_a_docstring_become_a_list() -> None:
    text = "Reads.\n\nArgs:\n    path: where; what\n        goes on.\n    a, b: how.\n\nRaises:\n    OSError: never."
    assert build_api.described(text, {"path": "str"}) == (
        "Reads.\n\n- `path` (`str`): where; what goes on.\n- `a`, `b`: how.\n\nRaises:\n\n- `OSError`: never."
    )


def test_a_new_room_of_public_names_is_not_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_api, "SECTIONS", {"Writing": ("writing",)})
    with pytest.raises(SystemExit, match="UniRecordDataset"):
        build_api.page()


def test_the_table_of_errors_is_the_hierarchy() -> None:
    rows = dict(re.findall(r"^\| `(\w+Error)` \| (?:`(\w+)`)? ?\|", PAGE, flags=re.M))
    assert rows["SchemaError"] == "ValueError"
    assert rows["MissingError"] == "FileNotFoundError"
    assert rows["CorruptionError"] == ""
    assert {f"{name}" for name in rows} == {name for name in unirecord.__all__ if name.endswith("Error")}


def test_the_code_of_the_page_runs(tmp_path: Path) -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, flags=re.S))
    assert "UniRecordDataset" in code
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
