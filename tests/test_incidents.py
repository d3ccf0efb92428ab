"""The commands of docs/incidents.md run as written, on a job that was killed and resumed."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

import unirecord
from unirecord.cli.main import main

PAGE = (Path(__file__).parent.parent / "docs" / "incidents.md").read_text(encoding="utf-8")
COMMANDS = [shlex.split(line)[1:] for line in re.findall(r"^unirecord .*$", PAGE, re.MULTILINE)]


def test_each_incident_is_five_commands_and_all_of_them_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with unirecord.Writer(
        "data", {"path": "string", "label": "int8", "image": "bytes"}, index=["path"]
    ) as writer:
        for i in range(160):
            writer.write({"path": f"p{i}", "label": i % 7, "image": bytes([i]) * 20})
    state = None
    (leaving_out,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    for steps in (7, 99):
        loaders = []
        for rank in range(2):
            if state is not None:
                Path("last.json").write_text(json.dumps(state))
                names = {"rank": rank}
                exec(leaving_out, names)
                loaders.append(names["loader"])
                continue
            ds = unirecord.UniRecordDataset("data", rank, 2, shuffle=True, seed=1)
            loaders.append(ds.batches(4, receipts="run1/receipts", num_threads=1))
        passes = [iter(loader) for loader in loaders]
        for step in range(steps):
            batches = [next(own, None) for own in passes]  # ranks are in step
            if None in batches:
                break
            if step == 4 and state is None:
                state = loaders[0].state_dict()
    assert [len(re.findall(r"^unirecord ", part, re.MULTILINE)) for part in PAGE.split("\n## ")[1:]] == [
        5,
        5,
        5,
    ]
    for command in COMMANDS:
        assert main(command) == 0, (command, capsys.readouterr())
    shown = capsys.readouterr().out
    assert "proven" in shown
    assert "left out on purpose (excluded): 1 position" in shown
    assert "left out" in shown.split("not delivered")[0]
    assert len(list(Path("step12").iterdir())) == 8
