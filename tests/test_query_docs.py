"""The examples of docs/query.md do what the page says."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

from unirecord import QueryError, Writer
from unirecord.format.schema import Schema
from unirecord.query import compile_query

PAGE = (Path(__file__).parent.parent / "docs" / "query.md").read_text(encoding="utf-8")
SCHEMA = {
    "label": "int32",
    "width": "int32",
    "height": "int32?",
    "score": "float32?",
    "class": "string",
    "path": "string",
    "flag": "bool",
    "a": "int8",
    "b": "float64",
    "x": "float64",
    "like": "int8",
    "3_d": "int8",
}


def test_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import duckdb  # noqa: F401

    monkeypatch.chdir(tmp_path)
    with Writer("digits", {"image": "bytes", "label": "int32", "width": "int32"}, index=["label"]) as writer:
        for i in range(100):
            writer.write({"image": bytes(i), "label": i % 10, "width": i})
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.S):
        exec(compile(block, "docs/query.md", "exec"), names)
    assert len(names["ds"]) == sum(i % 10 in (3, 8) and i >= 16 for i in range(100))  # type: ignore[arg-type]
    assert names["query"].rows(names["parts"]).tolist() == [*range(13, 100, 10)]  # type: ignore[attr-defined]
    assert os.path.isdir("digits")


def test_every_expression_of_the_table_is_understood() -> None:
    schema = Schema.parse(SCHEMA)
    table = PAGE.split("## What can be written")[1].split("\n\n")[1]
    tried = 0
    for line in table.splitlines()[2:]:
        cell = line.replace("`` `like` ``", "").replace("`` `3_d` ``", "").split("|")[2]
        for text in re.findall(r"`([^`]+)`", cell):
            if re.search(r"\w (==|>=|<=|<|like|in|not in|between|is|\*) |startswith\(|^(not )?flag", text):
                compile_query(text, schema)
                tried += 1
    assert tried >= 15


def test_promises_of_the_page() -> None:
    schema = Schema.parse(SCHEMA)
    with pytest.raises(QueryError) as caught:
        compile_query("label == 3 and lable > 4", schema)
    assert str(caught.value) in PAGE
    for text in [
        'path like "100!%" escape "!"',
        "label != 3 or height is null",
        "`like` == 1 and `3_d` == 2",
    ]:
        compile_query(text, schema)
    assert str(compile_query("label = 3", schema)) == str(compile_query("3 == label", schema))
    assert float(np.float32(0.1)) != 0.1  # why a written decimal takes the column's type
