"""The commands and the code of docs/exporting.md run as written."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from unirecord import UniRecordDataset, Writer
from unirecord.cli import main
from unirecord.convert.sinks.registry import SINKS

PAGE = (Path(__file__).parent.parent / "docs" / "exporting.md").read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("pictures.urec", "train"):
        with Writer(
            name, {"image": "bytes", "label": "int32"}, metadata={"classes": ["a", "b", "c", "d"]}
        ) as writer:
            writer.write_batch(
                {"image": [b"\xff\xd8\xff" + bytes(i) for i in range(100)], "label": np.arange(100) % 4}
            )
    with Writer("people", {"name": "string", "age": "int16"}) as writer:
        writer.write_batch({"name": [f"p{i}" for i in range(50)], "age": np.arange(50)})
    return tmp_path


def test_the_commands_run(folder: Path) -> None:
    commands = re.findall(r"^unirecord (export .*)$", PAGE, flags=re.M)
    assert len(commands) == 3
    for command in commands:
        assert main(shlex.split(command)) == 0
    assert len(list((folder / "folder").rglob("*.jpg"))) == 100
    assert len(list((folder / "shards").glob("*.tar"))) == 64


def test_the_code_runs(folder: Path) -> None:
    import duckdb

    names: dict[str, object] = {"ds": UniRecordDataset("train"), "duckdb": duckdb}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.S):
        exec(compile(block, "docs/exporting.md", "exec"), names)
    assert (folder / "train.parquet").exists()


def test_every_format_is_in_the_tables() -> None:
    command = (Path(__file__).parent.parent / "docs" / "cli.md").read_text(encoding="utf-8")
    section = command.split("\n## export\n")[1].split("\n## ")[0]
    for sink in SINKS:
        assert f"`{sink.kind}`" in section
        assert re.search(rf"^\| `{sink.kind}` \|.*", PAGE, flags=re.M), sink.kind
        assert not sink.suffix or f"`{sink.suffix}`" in PAGE
