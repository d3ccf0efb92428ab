"""The examples of docs/query.md do what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from run_page import run_page

from unirecord import QueryError, UniRecordDataset
from unirecord.format.schema import Schema
from unirecord.query import compile_query

PAGE = (Path(__file__).parents[2] / "docs" / "query.md").read_text(encoding="utf-8")
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


def test_code_of_the_page_gives_the_rows_that_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_page(Path(__file__).parents[2] / "docs" / "query.md")
    with UniRecordDataset("digits.urec", columns=["label", "width"]) as ds:
        rows = [(int(row["label"]), int(row["width"])) for row in ds]
    chosen = [label in (3, 8) and width >= 16 for label, width in rows]
    assert len(names["ds"]) == sum(chosen) > 0
    narrow = [number for number, (label, width) in enumerate(rows) if label == 3 and width > 10]
    assert names["query"].rows(names["parts"]).tolist() == narrow


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
