"""Numbers that the C core and the package both need are the same: the format's, and those of the C interface."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from unirecord import Column
from unirecord.core.scan import TYPE_CODES
from unirecord.format import column as column_module
from unirecord.format import layout, schema

CSRC = Path(__file__).resolve().parents[2] / "csrc"

# Where format/layout.py has another name for what csrc/base/layout.h defines.
OTHER_NAMES = {
    "FILE_HEADER_BYTES": "HEADER_BYTES",
    "HEAD_LIMIT": "MAX_HEAD_BYTES",
    "ALIGN": "PAGE_ALIGN",
    "DOMAIN_DATA_HEADER": "DOMAIN_HEADER",
    "DOMAIN_DATA_HEAD": "DOMAIN_HEAD",
    "DOMAIN_PAGE_HEADER": "DOMAIN_PAGE",
    "DOMAIN_SCALAR_PAGE": "DOMAIN_SCALARS",
    "DOMAIN_UNIT": "DOMAIN_UNITS",
}
# What the C core needs alone: offsets of fields (struct formats on the other side, compared by every test that reads),
# limits that Python states elsewhere, and the end of an enumeration.
C_ALONE = re.compile(r"AT_\w+|ID_BYTES|MAX_RANK|MAX_ROWS|SECTION_KINDS|TYPE_\w+")


def numbers(text: str) -> dict[str, int | bytes]:
    """The values of ``#define UR_X`` and of ``UR_X = 1`` in an enumeration."""
    found: dict[str, int | bytes] = {}
    for name, number in re.findall(r"#define UR_(\w+) (?:UINT64_C\()?(\w+)\)?$", text, re.M):
        found[name] = int(number.rstrip("u"), 0)
    for name, shift in re.findall(r"#define UR_(\w+) \(1u << (\d+)\)$", text, re.M):
        found[name] = 1 << int(shift)
    for name, magic in re.findall(r'#define UR_(\w+) "(.*)"$', text, re.M):
        found[name] = magic.encode().decode("unicode_escape").encode("latin-1")
    for name, number in re.findall(r"\bUR_(\w+) = (\d+)", text):
        found[name] = int(number)
    return found


C = numbers((CSRC / "base" / "layout.h").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", sorted(name for name in C if not C_ALONE.fullmatch(name)))
def test_the_format_has_the_same_numbers_in_c_and_python(name: str) -> None:
    assert getattr(layout, OTHER_NAMES.get(name, name)) == C[name]


def test_no_number_of_the_format_was_overlooked() -> None:
    assert {
        "PHI",
        "PAGE_MAGIC",
        "VERSION",
        "SECTION_ORDER",
        "DOMAIN_CONTENT",
        "PAGE_END",
        "BLOCK_BYTES",
    } <= set(C)
    assert [n for n in vars(layout) if n.startswith(("SECTION_", "DOMAIN_", "PAGE_")) and n.isupper()] == [
        n
        for n in vars(layout)
        if n in {OTHER_NAMES.get(c, c) for c in C} and n.startswith(("SECTION_", "DOMAIN_", "PAGE_"))
    ]


@pytest.mark.parametrize("name", sorted(name for name in C if name.startswith("TYPE_")))
def test_column_types_have_the_same_codes_in_c_and_python(name: str) -> None:
    kind = name.removeprefix("TYPE_").lower()
    if kind == "array":
        assert Column("x", "int8", (1,)).code == C[name]
    elif kind in ("bfloat16", "complex64", "complex128"):
        assert Column("x", kind, (1,)).dtype_code == C[name]
    # Where the codes for types of later versions begin and end.
    elif kind == "later_scalars":
        assert range(C[name], C["TYPE_LATER_BLOBS"]) == column_module._LATER_SCALARS
    elif kind in ("later_blobs", "later_end"):
        assert range(C["TYPE_LATER_BLOBS"], C["TYPE_LATER_END"]) == column_module._LATER_BLOBS
    else:
        assert Column("x", kind).code == C[name]


def test_scans_name_types_by_the_codes_of_the_format() -> None:
    kinds = [
        n.removeprefix("TYPE_").lower()
        for n, code in C.items()
        if n.startswith("TYPE_") and code in range(1, 13)
    ]
    columns = [Column("x", kind) for kind in kinds]
    assert {str(column.dtype and column.dtype.str[1:]): column.code for column in columns} == TYPE_CODES


def test_limits_that_python_states_for_itself_are_those_of_the_core() -> None:
    assert C["MAX_RANK"] == column_module._MAX_RANK
    assert C["MAX_COLUMNS"] == schema._MAX_COLUMNS
