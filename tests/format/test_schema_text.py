"""--schema: its short form, JSON text and a file, and what of them is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from unirecord.convert.sources.overrides import parse_overrides
from unirecord.errors import SchemaError


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("a=int32", {"a": "int32"}),
        (" a = int32? , b=string", {"a": "int32?", "b": "string"}),
        ("a=int32[3,-1],b=bool", {"a": {"type": "int32", "shape": [3, -1]}, "b": "bool"}),
        (
            "a=decimal(12,2),b=bool",
            {
                "a": {"type": "int64", "logical": {"type": "decimal", "precision": 12, "scale": 2}},
                "b": "bool",
            },
        ),
        ('{"a": {"type": "int8", "shape": [2]}}', {"a": {"type": "int8", "shape": [2]}}),
    ],
)
def test_schema_text_forms(text: str, spec: Any) -> None:
    assert parse_overrides(text) == spec


def test_schema_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('{"a": "int8"}')
    assert parse_overrides(str(tmp_path / "s.json")) == {"a": "int8"}


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "a=",
        "=int8",
        "a=int8,",
        "a=in",
        "a=int8[x]",
        '{"a"',
        '{"a": 3}',
        '{"a": "int8", "a": "int16"}',
        "a=int8,a=int16",
        "/none.json",
    ],
)
def test_bad_schema_text_is_refused(text: str) -> None:
    with pytest.raises(SchemaError):
        parse_overrides(text)
