"""The examples of docs/pipeline.md run as they are written."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scenes import jpeg

import unirecord
from unirecord import Pipeline, UniRecordDataset
from unirecord.images import Decode

PAGE = (Path(__file__).parents[2] / "docs" / "pipeline.md").read_text(encoding="utf-8")


def test_the_python_of_the_page_runs(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    pytest.importorskip("torch")
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, flags=re.S))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "as it runs" in done.stdout
    assert "bound by" in done.stdout


# What stands for a value in the tables, and what they leave open.
VALUES = {
    "seed": "1",
    "cpus": "1",
    "memory": "'1GB'",
    "collate_fn": "list",
    "drop_last": "True",
    "columns": "['image']",
}
SAME_NAMES = "the same names"


def snippets() -> list[str]:
    """The code in the right-hand columns of the tables "From …"."""
    tables = PAGE.split("## From tf.data")[1]
    rows = [line.strip("| ").rsplit(" | ", 1) for line in tables.splitlines() if line.startswith("| ")]
    found = []
    for there, here in rows:
        names = there if here == SAME_NAMES else here
        found += re.findall(r"`([^`]+)`", names)
    return list(dict.fromkeys(found))


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("tables") / "photos.urec"
    with unirecord.Writer(path, {"image": "bytes", "label": "int64"}) as writer:
        for label in range(6):
            writer.write({"image": jpeg(40, 30, label), "label": label})
    return str(path)


@pytest.mark.parametrize("snippet", snippets())
def test_what_the_tables_say_is_there(snippet: str, photos: str) -> None:
    def first(*given: Any) -> Any:
        return given[0]

    code = re.sub(r"(\w+)=…", lambda match: f"{match[1]}={VALUES[match[1]]}", snippet).replace("...", "path")
    ds = UniRecordDataset(photos)
    names: dict[str, Any] = {
        "Pipeline": Pipeline,
        "UniRecordDataset": UniRecordDataset,
        "Decode": Decode,
        "path": photos,
        "n": 2,
        "i": 1,
        "shard_id": 1,
        "num_shards": 2,
        "columns": ["label"],
        **dict.fromkeys(("f", "a", "b", "transform"), first),
        "keep": lambda *given: True,
        "ds": ds,
        "samples": ds.pipeline(),
        "loader": ds.pipeline().batch(2),
    }
    if re.fullmatch(r"\.\w+", code):
        assert hasattr(Pipeline, code[1:])
    elif code == '.to_torch("cuda")':
        assert "device" in inspect.signature(Pipeline.to_torch).parameters
    elif code.startswith("."):
        assert list(eval("samples" + code, names))
    elif match := re.fullmatch(r"(\w+)=(\w*)", code):
        takers = (UniRecordDataset, UniRecordDataset.pipeline, Pipeline.map)
        assert any(match[1] in inspect.signature(taker).parameters for taker in takers)
    elif re.fullmatch(r"\w+(\(\))?", code):
        assert hasattr(Pipeline, code.removesuffix("()"))
    elif code.startswith("for "):
        exec(code + ": pass", names)
    else:
        assert eval(code, names) is not None
