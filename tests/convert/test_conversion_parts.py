"""Tasks of several parts: what a stopped run has finished of them stays, and none of it is lost in silence."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import faults
import pytest
from numbers_converted import ID, ROWS, UNITS, check, convert, files
from numbers_source import Numbers

from unirecord import ExistsError, StaleError, UniRecordDataset, Writer, append
from unirecord.convert import conversion
from unirecord.convert.conversion import Conversion, Standing
from unirecord.convert.row_choice import RowChoice
from unirecord.convert.sources import open_source, text_files
from unirecord.convert.sources.source import Options, Source
from unirecord.format.schema import Schema
from unirecord.writing import part_writer
from unirecord.writing.change import Interrupted
from unirecord.writing.journal import Journal

MOST = 70_000  # bytes of a part


@pytest.fixture(autouse=True)
def _one_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """All units are one task, whose parts are cut by their size."""
    monkeypatch.setattr(conversion, "divide", lambda units, *_, **__: [(0, len(units))])


def _left_out(tmp_path: Path) -> Source:
    return RowChoice(on_error="skip").of(
        Numbers(tmp_path, UNITS, bad=frozenset({200, 777}), left_out=frozenset({5, 1290}))
    )


class Interrupter:
    """Ctrl-C as soon as rows go into part ``count``; ``rows``: what an earlier run had written by then."""

    def __init__(self, count: int) -> None:
        self.count, self.rows, self.resumed = count, -1, -1

    def __call__(self, standing: Standing) -> None:
        if self.rows < 0:
            self.rows, self.resumed = standing.rows, standing.resumed_rows
        assert standing.resumed_rows <= standing.rows <= (standing.all_rows or ROWS)
        assert standing.resumed_read <= standing.rows_read
        if standing.parts and int(standing.parts[0].split("-")[1]) >= self.count:
            raise KeyboardInterrupt


@pytest.mark.parametrize("skipping", [False, True])
def test_a_task_goes_on_behind_its_finished_parts(skipping: bool, tmp_path: Path) -> None:
    def source() -> Source:
        return _left_out(tmp_path) if skipping else Numbers(tmp_path, UNITS)

    expected = convert(tmp_path / "whole", source(), max_part_bytes=MOST)
    parts = len(list((tmp_path / "whole").glob("*.urec")))
    assert parts > 5
    written = 0
    for count in range(2, parts - 1, 3):
        at = Interrupter(count)
        with pytest.raises(Interrupted, match=r"\d+ finished parts are kept"):
            convert(tmp_path / "out", source(), max_part_bytes=MOST, resume=True, progress=at)
        assert at.rows == at.resumed == written
        there = list((tmp_path / ".out.tmp").glob("part-*.urec"))
        assert len(there) >= count
        written = sum(len(UniRecordDataset(part)) for part in there)
    at = Interrupter(1000)
    found = convert(tmp_path / "out", source(), max_part_bytes=MOST, resume=True, workers=1, progress=at)
    assert (at.rows, at.resumed) == (written, written)
    assert found == expected
    assert files(tmp_path / "out") == files(tmp_path / "whole")


@pytest.mark.parametrize("seed", range(3))
def test_killed_at_any_system_call_a_task_of_parts_ends_with_the_same_bytes(
    seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    convert(tmp_path / "whole", Numbers(tmp_path, UNITS), max_part_bytes=MOST)
    finished = 0
    for _ in range(100):
        alive = not faults.killed(
            lambda: convert(tmp_path / "out", Numbers(tmp_path, UNITS), max_part_bytes=MOST, resume=True) and None,
            chance.randint(20, 160),
            chance.random() < 0.5,
        )  # fmt: skip
        if alive or (tmp_path / "out").exists():
            break
        now = len(Journal(str(tmp_path / ".out.tmp")).parts())
        assert now >= finished, "a finished part was lost"
        finished = now
    found = {name: data for name, data in files(tmp_path / "out").items() if not name.startswith(".")}
    assert found == files(tmp_path / "whole")


def test_parts_to_come_are_compressed_with_the_dictionaries_of_those_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_writer, "_FIRST_BYTES", 100_000)
    monkeypatch.setattr(text_files, "BLOCK_BYTES", 50_000)
    words = random.Random(0)
    names = [f"{words.getrandbits(40):x}" for _ in range(300)]
    lines = (json.dumps({"n": n, "t": " ".join(words.choices(names, k=20))}) for n in range(4_000))
    (tmp_path / "t.jsonl").write_text("".join(f"{line}\n" for line in lines))
    schema = {"n": "int64", "t": {"type": "text", "codec": "zstd"}}
    call = Conversion(
        open_source(str(tmp_path / "t.jsonl"), None, Options({"t": "text"})),
        str(tmp_path / "whole"), Schema.parse(schema), id=ID, max_part_bytes=100_000,
    )  # fmt: skip
    call.run()
    call.path, call.resume = str(tmp_path / "out"), True
    with pytest.raises(Interrupted):
        call.run(Interrupter(2))
    (begun,) = Journal(str(tmp_path / ".out.tmp")).task_checkpoints().values()
    assert len(begun["dictionaries"][0][1]) > 2_000
    call.run()
    assert files(tmp_path / "out") == files(tmp_path / "whole")


def test_finished_parts_of_a_task_are_checked_before_they_are_taken_up(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        convert(tmp_path / "out", Numbers(tmp_path, UNITS), max_part_bytes=MOST, progress=Interrupter(4))
    part = min((tmp_path / ".out.tmp").glob("part-*.urec"))
    part.write_bytes(part.read_bytes()[:-100])
    at = Interrupter(1000)
    convert(tmp_path / "out", Numbers(tmp_path, UNITS), max_part_bytes=MOST, resume=True, progress=at)
    assert at.resumed == 0
    check(tmp_path / "out")


def test_a_source_with_fewer_rows_than_are_written_is_not_gone_on_with(tmp_path: Path) -> None:
    def source(units: list[int]) -> Numbers:
        return Numbers(tmp_path, units, known=False)

    with pytest.raises(Interrupted):
        convert(tmp_path / "out", source([ROWS]), max_part_bytes=MOST, progress=Interrupter(4))
    with pytest.raises(StaleError, match=r"unit 0 has \d+ rows fewer"):
        convert(tmp_path / "out", source([200]), max_part_bytes=MOST, resume=True)


def test_a_worker_that_is_killed_loses_its_part_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def in_two(units: list[Any], *_: object, **__: object) -> list[tuple[int, int]]:
        return [(0, 5), (5, len(units))]

    monkeypatch.setattr(conversion, "divide", in_two)
    convert(tmp_path / "whole", Numbers(tmp_path, UNITS), max_part_bytes=MOST)
    begun: list[int] = []
    rows: list[int] = []

    def seen(standing: Standing) -> None:
        rows.append(standing.rows)
        begun.append(len(Journal(str(tmp_path / ".out.tmp")).task_checkpoints()))

    source = Numbers(tmp_path, UNITS, deadly=ROWS - 1, deaths=2)
    convert(tmp_path / "out", source, max_part_bytes=MOST, workers=2, progress=seen)
    assert (tmp_path / "death1").exists()
    assert (max(begun) > 0, rows[-1]) == (True, ROWS)
    assert files(tmp_path / "out") == files(tmp_path / "whole")


def _stop(target: Path, **options: Any) -> list[str]:
    with pytest.raises(Interrupted):
        convert(
            target, Numbers(target.parent, UNITS), max_part_bytes=MOST, progress=Interrupter(3), **options
        )
    folder = target if target.exists() else target.parent / f".{target.name}.tmp"
    return sorted(os.listdir(folder))


@pytest.mark.parametrize("made", [False, True])
def test_a_writer_refuses_to_give_up_what_a_stopped_conversion_has_left(made: bool, tmp_path: Path) -> None:
    if made:
        (tmp_path / "out").mkdir()
    there = _stop(tmp_path / "out")
    with pytest.raises(
        ExistsError, match=r"has left 3 finished parts.*--resume.*overwrite=True to give that up"
    ):
        Writer(tmp_path / "out", {"n": "int64"})
    assert sorted(os.listdir(tmp_path / ("out" if made else ".out.tmp"))) == there
    convert(tmp_path / "out", Numbers(tmp_path, UNITS), max_part_bytes=MOST, resume=True)
    check(tmp_path / "out")
    assert os.listdir(tmp_path) == ["out"]


def test_a_directory_made_beside_a_stopped_conversion_does_not_end_it(tmp_path: Path) -> None:
    there = _stop(tmp_path / "out")
    (tmp_path / "out").mkdir()
    with pytest.raises(ExistsError, match="3 finished parts"):
        Writer(tmp_path / "out", {"n": "int64"})
    assert sorted(os.listdir(tmp_path / ".out.tmp")) == there
    (tmp_path / "out").rmdir()
    convert(tmp_path / "out", Numbers(tmp_path, UNITS), max_part_bytes=MOST, resume=True)
    check(tmp_path / "out")


@pytest.mark.parametrize("made", [False, True])
def test_a_writer_that_overwrites_says_what_it_gives_up(made: bool, tmp_path: Path) -> None:
    if made:
        (tmp_path / "out").mkdir()
    _stop(tmp_path / "out")
    with (
        pytest.warns(
            UserWarning, match=r"out begins anew, without 3 finished parts of a run that was stopped"
        ),
        Writer(tmp_path / "out", {"n": "int64"}, overwrite=True) as writer,
    ):
        writer.write({"n": 1})
    assert [row["n"] for row in UniRecordDataset(tmp_path / "out")] == [1]
    assert os.listdir(tmp_path) == ["out"]
    assert len(os.listdir(tmp_path / "out")) == 3


def test_appending_gives_up_nothing_and_the_same_conversion_says_what_it_does(tmp_path: Path) -> None:
    out, options = tmp_path / "out", {"append": True, "index": None, "max_part_bytes": MOST}
    convert(out, Numbers(tmp_path, [30]))
    _stop(out, append=True, index=None)
    with append(out) as writer:
        writer.write({"n": 30, "name": "x", "blob": b""})
    dropped: list[int] = []

    def seen(standing: Standing) -> None:
        dropped.append(standing.dropped)

    assert convert(out, Numbers(tmp_path, [5]), progress=seen, **{**options, "id": None})[0] == 5
    assert set(dropped) == {0}  # it was another one
    convert(out, Numbers(tmp_path, UNITS), progress=seen, **{**options, "id": None})
    assert dropped[-1] == 2
    numbers = [row["n"] for row in UniRecordDataset(out)]
    assert numbers == [*range(31), *range(5), *range(ROWS)]
    assert not [name for name in os.listdir(out) if name.startswith(".")]


def test_what_was_killed_in_an_empty_directory_goes_on_there(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    _stop(tmp_path / "out")
    (tmp_path / "out" / ".task-000000.begun.json").unlink()  # killed before it was noted
    assert convert(tmp_path / "out", Numbers(tmp_path, UNITS), max_part_bytes=MOST, resume=True)[0] == ROWS
    check(tmp_path / "out")
    assert not [name for name in os.listdir(tmp_path / "out") if name.startswith(".")]
