"""The C core knows no Python, its files call each other in no circle, and its pure ones touch no system."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CSRC = ROOT / "csrc"

PURE_C = (
    "base/hash.c", "base/object.c", "order/order.c", "order/permute.c", "part/parse.c"
)  # fmt: skip


def c_files() -> list[Path]:
    return sorted([*CSRC.rglob("*.[ch]")])


def name_of(path: Path) -> str:
    """A file of the core as an ``#include`` names it."""
    return path.relative_to(CSRC).as_posix()


def test_the_c_core_does_not_know_python() -> None:
    knowing = [
        name_of(path) for path in c_files() if re.search(r"Python\.h|\bPy[A-Z_]\w*\(", path.read_text())
    ]
    assert not knowing, knowing


def test_every_c_file_says_its_one_job_first() -> None:
    silent = [
        name for path in c_files() if not path.read_text().startswith(f"/* {(name := name_of(path))} - ")
    ]
    assert not silent, silent


def c_code(path: Path) -> str:
    """The file without comments and strings."""
    return re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', "", path.read_text(), flags=re.S)


@cache
def c_definitions() -> dict[str, str]:
    """The file that defines each function of the core which others can call."""
    pattern = re.compile(r"^(?!static\b|typedef\b)[A-Za-z_][\w \t*()]*?\b(ur_\w+)\([^;{]*\)\s*\{", re.M)
    return {name: name_of(path) for path in CSRC.rglob("*.c") for name in pattern.findall(c_code(path))}


def c_calls() -> dict[str, set[str]]:
    """For each C file, those whose functions it calls or takes."""
    defined = c_definitions()
    return {
        (name := name_of(path)): {defined[n] for n in re.findall(r"\bur_\w+", c_code(path)) if n in defined}
        - {name}
        for path in CSRC.rglob("*.c")
    }


def cycles(edges: dict[str, set[str]]) -> list[tuple[str, ...]]:
    """Files that reach themselves, in groups that reach each other."""

    def reached(start: str) -> set[str]:
        found: set[str] = set()
        left = [start]
        while left:
            for there in edges.get(left.pop(), set()) - found:
                found.add(there)
                left.append(there)
        return found

    far = {name: reached(name) for name in edges}
    return sorted({tuple(sorted(b for b in far[a] if a in far.get(b, ()))) for a in far if a in far[a]})


def test_c_files_call_each_other_in_no_circle() -> None:
    assert len(c_definitions()) > 100
    assert cycles(c_calls()) == []


def test_the_check_for_circles_sees_them() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [("b", "c")]


def test_c_headers_include_each_other_in_no_circle() -> None:
    included = {
        name_of(p): set(re.findall(r'#include "([\w/]+\.h)"', p.read_text())) for p in CSRC.rglob("*.h")
    }
    assert set().union(*included.values()) <= set(included)
    assert cycles(included) == []


def test_a_c_header_declares_what_files_of_its_folder_define() -> None:
    wrong = []
    for path in CSRC.rglob("*.h"):
        if path.parent == CSRC:  # what is public, of every file
            continue
        for name in re.findall(r"\b(ur_\w+)\([^;{}]*\)(?:\s*__attribute__[^;]*)?;", c_code(path)):
            home = c_definitions().get(name)
            if home is not None and home.rpartition("/")[0] != path.parent.relative_to(CSRC).as_posix():
                wrong.append(f"{name_of(path)} declares {name}, which {home} defines")
    assert not wrong, wrong


@pytest.mark.parametrize("name", PURE_C)
def test_pure_c_files_touch_no_system_call(name: str) -> None:
    text = (CSRC / name).read_text()
    assert not re.search(r"#include <(unistd|fcntl|pthread|sys/\w+|stdio)\.h>", text)


def test_all_c_files_stand_in_folders_and_the_public_headers_above_them() -> None:
    assert {path.name for path in CSRC.glob("*.[ch]")} == {"unirecord.h", "unirecord_internal.h"}
    assert not [
        name_of(path)
        for path in CSRC.rglob("*.c")
        if len(path.relative_to(CSRC).parts) != 2 and "jpeg" not in path.parts
    ]
