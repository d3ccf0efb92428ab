"""How far ``unirecord write`` says it is: rates and times by a clock that the tests turn, on a terminal and as JSON."""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from numbers_converted import ROWS, UNITS, convert
from numbers_source import Numbers

from unirecord import UniRecordDataset
from unirecord.cli import main
from unirecord.cli.terminal import ProgressBar, ProgressLines, Rates
from unirecord.cli.write import ConversionProgress, survey_progress
from unirecord.convert import task
from unirecord.convert.conversion import Standing


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def line(self) -> str:
        """What is to be seen."""
        return self.getvalue().rpartition("\r")[2].removesuffix("\x1b[K")


@pytest.fixture
def wait(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def wait(seconds: float) -> None:
        now[0] += seconds

    return wait


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    screen = Terminal()
    monkeypatch.setattr("unirecord.cli.terminal.sys", SimpleNamespace(stderr=screen))  # pytest has sys.stderr
    _columns(monkeypatch, 160)
    return screen


def _columns(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((columns, 25)))


def test_rates_are_of_what_this_run_has_done(wait: Callable[[float], None]) -> None:
    pace = Rates()
    assert (pace.rate(5), pace.left(5, 10)) == (0, None)
    wait(4)
    assert (pace.rate(1_000), pace.left(1_000, 4_000)) == (250, 12)
    assert (pace.rate(1_000, 600), pace.left(1_000, 4_000, 600)) == (100, 30)
    assert pace.left(1_000, None) is pace.left(0, 10) is None
    assert pace.rate(0, 600) == 0  # of a worker that died
    assert pace.left(5_000, 4_000) == 0


def test_the_progress_bar_tells_rate_and_time_left(wait: Callable[[float], None], terminal: Terminal) -> None:
    bar = ProgressBar("writing", 1_000)
    wait(10)
    bar.update(250)
    assert terminal.line() == f"writing  {'█' * 6}{'░' * 18}  25%  250  25/s  30 s left"
    shown = terminal.getvalue()
    wait(0.01)
    bar.update(251)
    assert terminal.getvalue() == shown, "at most ten times a second"
    bar.close()
    assert terminal.line() == ""
    quiet = io.StringIO()
    ProgressBar("writing", 10, stream=quiet).update(5)
    assert quiet.getvalue() == ""


@pytest.mark.parametrize("columns", range(20, 130, 3))
def test_a_line_fits_any_terminal_and_no_word_is_cut(
    columns: int, wait: Callable[[float], None], terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    _columns(monkeypatch, columns)
    with ConversionProgress("writing", 4_000_000, None) as progress:
        wait(100)
        progress.show(
            Standing(1_000_000, 4_000_000, 3 << 30, 2, 16, parts=["part-000002-0a0b0c0d.urec", "b.urec"])
        )
        line = terminal.line()
    assert len(line) < columns
    pieces = [
        "writing", "25%", "1,000,000 rows", "10,000 rows/s", "5:00 left", "3.2 GB, 32.2 MB/s",
        "2 of 16 parts done", "at part-000002-0a0b0c0d.urec and 1 more",
    ]  # fmt: skip
    there = [piece for piece in line.replace("█", " ").replace("░", " ").split("  ") if piece.strip()]
    assert [piece.strip() for piece in there] == pieces[: len(there)]
    assert len(there) > (4 if columns >= 80 else 2 if columns >= 50 else 1)


def test_a_run_that_goes_on_counts_its_own_rows_only(
    wait: Callable[[float], None], terminal: Terminal
) -> None:
    lines = io.StringIO()
    standing = Standing(
        6_000, 10_000, 600_000, 6, 10, resumed=5, resumed_rows=5_000, resumed_bytes=400_000, parts=["a"]
    )
    shown = ConversionProgress("writing", 10_000, None)
    told = ConversionProgress("writing", 10_000, ProgressLines(lines), share="val")
    wait(10)
    shown.show(standing)
    told.show(standing)
    assert "100 rows/s  40 s left" in terminal.line()
    assert json.loads(lines.getvalue()) == {
        "stage": "writing", "share": "val", "rows": 6_000, "all_rows": 10_000, "bytes": 600_000, "tasks": 6,
        "all_tasks": 10, "resumed": 5, "resumed_rows": 5_000, "resumed_bytes": 400_000, "parts": ["a"],
        "dropped": 0, "published": False, "rows_read": 0, "all_rows_read": None, "resumed_read": 0,
        "rows_per_second": 100.0, "bytes_per_second": 20_000, "seconds_left": 40.0, "seconds": 10.0,
    }  # fmt: skip
    assert told.resumed == 5_000


def test_where_rows_are_chosen_the_time_left_is_that_of_the_rows_to_be_read(
    wait: Callable[[float], None], terminal: Terminal
) -> None:
    lines = io.StringIO()
    standing = Standing(30, None, 600, 0, 1, rows_read=6_000, all_rows_read=10_000, resumed_read=5_000)
    shown = ConversionProgress("writing", None, None)
    told = ConversionProgress("writing", None, ProgressLines(lines))
    wait(10)
    shown.show(standing)
    told.show(standing)
    assert "60%  6,000 rows  100 rows/s  40 s left  30 written  600 B" in terminal.line()
    assert json.loads(lines.getvalue())["seconds_left"] == 40


def test_the_last_drawing_has_the_rate_however_short_it_took(
    wait: Callable[[float], None], terminal: Terminal
) -> None:
    progress = ConversionProgress("writing", None, None)
    wait(0.01)
    progress.show(Standing(100, None, 9, 0, 1))
    assert "/s  " not in terminal.line()  # of the first 10 ms
    progress.show(Standing(200, None, 9, 1, 1))
    assert terminal.line() == "200 rows written, 20,000 rows/s, comparing some of them with the source …"


def test_json_is_told_every_half_second_and_never_beside_a_bar(
    wait: Callable[[float], None], terminal: Terminal
) -> None:
    lines = ProgressLines()
    with survey_progress("looking through", lines) as tell:
        tell(10, 40)
        tell(20, 40)
    progress = ConversionProgress("writing", 100, lines)
    for i in range(8):
        wait(0.2)
        progress.show(Standing(10 * i, 100, i, 0, 1))
    progress.show(Standing(100, 100, 100, 1, 1))
    told = [json.loads(line) for line in terminal.getvalue().splitlines()]
    assert "\r" not in terminal.getvalue()
    assert told[0] == {"stage": "looking through", "bytes_read": 10, "all_bytes": 40, "seconds": 0.0}
    assert [(line["rows"], line["seconds"]) for line in told[1:]] == [(20, 0.6), (50, 1.2), (100, 1.6)]


@pytest.mark.parametrize("workers", [1, 2])
def test_what_is_told_adds_up_and_names_the_parts(
    workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "_LEAST_BYTES", 100_000)
    seen: list[dict[str, Any]] = []
    convert(
        tmp_path / "out", Numbers(tmp_path, UNITS), workers=workers,
        progress=lambda standing: seen.append({**vars(standing)}),
    )  # fmt: skip
    names = {path.name for path in (tmp_path / "out").glob("part-*.urec")}
    assert {name for one in seen for name in one["parts"]} == names
    assert max(len(one["parts"]) for one in seen) <= workers
    assert (seen[-1]["rows"], seen[-1]["parts"]) == (ROWS, [])
    files = [path for path in (tmp_path / "out").iterdir() if path.name != "manifest.json"]
    assert seen[-1]["bytes"] == sum(path.stat().st_size for path in files)
    assert all(0 <= one["bytes"] <= seen[-1]["bytes"] for one in seen)


@pytest.mark.parametrize("target", ["d", "d.urec"])
def test_the_command_tells_each_stage(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("a,b\n" + "".join(f"{i % 7},x{i}\n" for i in range(500)))
    assert main(["write", "t.csv", target, "--progress", "json", "--sort", "a"]) == 0
    out, err = capsys.readouterr()
    last = {line["stage"]: line for line in map(json.loads, err.splitlines())}
    assert {stage: line.get("rows") for stage, line in last.items()} == {
        "looking through": None, "reading": 500, "writing": 500,
    }  # fmt: skip
    assert "wrote 500 rows" in out
    assert main(["write", "t.csv", "s", "--progress", "json", "--split", "a=0.5,b=0.5"]) == 0
    out, err = capsys.readouterr()
    shares = {line["share"]: line["rows"] for line in map(json.loads, err.splitlines()) if "share" in line}
    with UniRecordDataset("s/a") as a, UniRecordDataset("s/b") as b:
        assert shares == {"a": len(a), "b": len(b)}
    assert sum(shares.values()) == 500
    assert out.splitlines()[-1].startswith("in all 500 rows, in ")
