"""Sums and products of sizes in the C core: checked, or said to be exact where they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CSRC = Path(__file__).resolve().parents[2] / "csrc"

# Nothing of a file or a caller is in the sizes of these: they digest and permute, modulo 2^64 on purpose.
MODULAR = {"base/hash.c", "order/order.c", "order/permute.c"}

_NAMES = (
    "bytes size sizes offset offsets_at capacity length lengths needed width payload used room place stride"
)
_SIZE = rf"(?:\w*_)?(?:{'|'.join(_NAMES.split())})"
_CAST = r"(?:\((?:uint64_t|size_t|int64_t|uintptr_t)\)\s*)?"
_PATH = r"(?:\w+(?:\[[^\]]*\])?(?:->|\.))*"
_OPERATOR = r"(?:[+*]|[+*]=)"
BARE = re.compile(
    rf"\b{_SIZE}\b(?:\[[^\]]*\])?\)*\s{_OPERATOR}\s(?!sizeof|1\b)|[\w)\]]\s{_OPERATOR}\s\(?{_CAST}{_PATH}{_SIZE}\b(?!\()"
)


def bare_arithmetic(text: str) -> list[int]:
    """Lines with ``+`` or ``*`` on a size, and no comment on or right above them that says why that is ``exact:``."""
    blank = lambda match: re.sub(r"[^\n]", " ", match.group())  # noqa: E731
    code = re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.S).split("\n")
    said = [i for i, line in enumerate(text.split("\n")) if "exact:" in line]
    return [
        i + 1
        for i, line in enumerate(code)
        if BARE.search(line) and not line.lstrip().startswith("#") and not {i, i - 1} & set(said)
    ]


@pytest.mark.parametrize(
    "path", sorted(CSRC.rglob("*.[ch]")), ids=lambda path: path.relative_to(CSRC).as_posix()
)
def test_sizes_are_added_and_multiplied_by_checked_functions(path: Path) -> None:
    name = path.relative_to(CSRC).as_posix()
    if name in MODULAR:
        pytest.skip("its arithmetic is modulo 2^64")
    found = [f"{name}:{line}" for line in bare_arithmetic(path.read_text(encoding="utf-8"))]
    assert not found, f"use csrc/base/check.h, or say after 'exact:' why it cannot wrap: {found}"


@pytest.mark.parametrize(
    "line",
    [
        "at = offset + bytes;",
        "bytes += (uint64_t)got;",
        "total = n * info->fixed_bytes;",
        "p = data + (uint64_t)place * width;",
        "end = spans[i].offset + left;",
        "at = align_up(at + data_bytes[c]);",
    ],
)
def test_the_lint_sees_bare_arithmetic(line: str) -> None:
    assert bare_arithmetic(line) == [1]
    assert bare_arithmetic(f"{line} /* exact: inside the file */") == []
    assert bare_arithmetic(f"/* exact: inside the file */\n{line}") == []


@pytest.mark.parametrize(
    "line", ["uint8_t *bytes = to;", "if (!ur_add(offset, bytes, &end)) return;", "/* a + bytes */"]
)
def test_the_lint_lets_other_lines_be(line: str) -> None:
    assert bare_arithmetic(line) == []
