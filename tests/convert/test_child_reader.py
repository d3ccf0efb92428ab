"""Sources that are looked through and read in a child process: what ends the child is an error of ours, and no more."""

from __future__ import annotations

import gc
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deadly_source import ROWS, DeadlySource

from unirecord import UniRecordDataset, write_dataset
from unirecord.convert.sources import LeftOut, Options, RawBatch, Source, child_reader, open_input
from unirecord.convert.sources.child_reader import looked_through
from unirecord.errors import MissingError, SchemaError, UniRecordError
from unirecord.format.values.strings import PackedStrings, Texts


def opened(path: Path, *lines: str, **options: Any) -> Source:
    path.write_text("\n".join(lines))
    return looked_through(DeadlySource, open_input(str(path)), Options(**options))


def numbers(source: Source, unit: int) -> list[int]:
    return [int(n) for batch in source.batches_of(source.units[unit]) for n in batch.columns["n"]]


@pytest.fixture(autouse=True)
def _small_limits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_reader, "_LEAST_SECONDS", 1.0)
    # What works has as long of the clock as ever: a busy machine may give it little of that time.
    callspec = getattr(request.node, "callspec", None)
    if callspec is not None and callspec.params.get("what") in ("wait", "lock"):
        monkeypatch.setattr(child_reader, "_LEAST_CLOCK_SECONDS", 2.0)
        monkeypatch.setattr(child_reader, "_CLOCK_SECONDS_A_SECOND", 1)


DEATHS = [
    *((name, f"dies of it by {name} \\(the library says why\\)")
      for name in ("SIGSEGV", "SIGBUS", "SIGABRT", "SIGFPE", "SIGILL")),
    ("spin", r"more than 1 seconds of processor time for one step.*--trust-sizes .*gives it 60 minutes"),
    ("wait", r"one step took more than 2 seconds, most of them without work.*trust_sizes=True\) gives it 60"),
    ("lock", "one step took more than 2 seconds"),
    ("memory", "it needs more than .* of memory"),
    ("panic", "cannot be read: range end index 9 out of range"),
    ("exit", "ended with exit code 3"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "said"), DEATHS, ids=[what for what, _ in DEATHS])
def test_what_ends_the_child_names_the_file_and_the_unit(tmp_path: Path, what: str, said: str) -> None:
    source = opened(tmp_path / "x", "numbers", what, "numbers")
    assert numbers(source, 0) == [0] * ROWS
    for _ in range(2):  # the second time nobody tries it
        with pytest.raises(SchemaError, match=rf"{tmp_path}/x, line 1[ ,].*{said}"):
            numbers(source, 1)
    assert numbers(source, 2) == [2] * ROWS
    assert (tmp_path / "x.read").read_text().split() == (
        ["0", "1", "2"] if what[:3] != "pan" else ["0", "1", "1", "2"]
    )
    with pytest.raises(SchemaError, match=f"{tmp_path}/x .*{said}|{tmp_path}/x, at .*{said}"):
        opened(tmp_path / "x", f"look {what}")


def test_what_somebody_else_ends_is_no_fault_of_the_file(tmp_path: Path) -> None:
    source = opened(tmp_path / "x", "SIGKILL", "numbers")
    with pytest.raises(UniRecordError, match=r"x, line 0 was ended by SIGKILL \(out of memory\?\)") as caught:
        numbers(source, 0)
    assert not isinstance(caught.value, SchemaError)
    assert numbers(source, 1) == [1] * ROWS


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("what", ["SIGSEGV", "panic", "spin", "wait"])
def test_on_error_skip_leaves_out_the_unit_that_is_deadly(tmp_path: Path, what: str, workers: int) -> None:
    source = opened(tmp_path / "x", "numbers", what, "numbers")
    report = tmp_path / "left-out.jsonl"
    rows = write_dataset(source, tmp_path / "out", on_error="report", report=report, workers=workers)
    with UniRecordDataset(tmp_path / "out") as ds:
        assert [row["n"] for row in ds] == [0] * ROWS + [1] * 2 + [2] * ROWS
    assert rows == 2 * ROWS + 2
    assert f"{tmp_path}/x, line 1" in report.read_text()
    with pytest.raises(SchemaError, match="x, line 1"):
        write_dataset(source, tmp_path / "other", workers=workers)
    assert not (tmp_path / "other").exists()


def test_trusted_sizes_have_an_hour_and_all_memory(tmp_path: Path) -> None:
    limits = child_reader._Limits.of(open_input(str(tmp_path)), Options(trust_sizes=True))
    assert (limits.seconds, limits.clock_seconds, limits.bytes) == (3600, 36_000, 0)
    most = (512 + (os.cpu_count() or 1) * 16) << 20
    source = opened(tmp_path / "x", f"take {most + (1 << 20)}", trust_sizes=True)
    assert numbers(source, 0) == [0] * ROWS


@pytest.mark.parametrize(
    ("what", "said"), [("spin", "1 seconds of processor time"), ("wait", "2 seconds, most")]
)
def test_what_never_ends_has_a_limit_of_time_when_sizes_are_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, said: str
) -> None:
    limits = child_reader._Limits(1.0, 2.0 if what == "wait" else 600.0)
    monkeypatch.setattr(child_reader._Limits, "of", classmethod(lambda cls, source, options: limits))
    source = opened(tmp_path / "x", what, "numbers", trust_sizes=True)
    with pytest.raises(SchemaError, match=f"x, line 0 cannot be read: .*more than {said}") as caught:
        numbers(source, 0)
    assert "trust" not in str(caught.value)
    assert numbers(source, 1) == [1] * ROWS


@pytest.mark.parametrize(
    ("size", "seconds", "clock_seconds", "megabytes"),
    [
        (0, 5, 600, 512),
        (40_000, 5.04, 600, 512 + 64 * 40_000 / (1 << 20)),
        (85_000_000, 90, 900, 512 + 64 * 85_000_000 / (1 << 20)),
        (10**10, 600, 6000, 512 + 64 * 10**10 / (1 << 20)),
    ],
)
def test_limits_are_those_that_the_page_states(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    size: int,
    seconds: float,
    clock_seconds: float,
    megabytes: float,
) -> None:
    monkeypatch.undo()
    for name, length in (("a", size // 2), ("b", size), ("c", 0)):
        with open(tmp_path / name, "wb") as file:
            file.truncate(length)
    limits = child_reader._Limits.of(open_input(str(tmp_path)), Options())
    cores = (os.cpu_count() or 1) * 16
    assert (limits.seconds, limits.clock_seconds) == pytest.approx((seconds, clock_seconds))
    assert limits.bytes == round((megabytes + cores) * (1 << 20))


def test_a_step_takes_as_much_memory_as_is_stated_and_no_more(tmp_path: Path) -> None:
    most = (512 + (os.cpu_count() or 1) * 16) << 20
    source = opened(tmp_path / "x", f"take {most - (64 << 20)}", f"take {most + (1 << 20)}", "numbers")
    assert numbers(source, 0) == [0] * ROWS
    with pytest.raises(
        SchemaError, match=r"x, line 1.* it needs more than [0-9.]+ MB of memory for one step"
    ):
        numbers(source, 1)
    assert numbers(source, 2) == [2] * ROWS


@pytest.mark.parametrize("what", ["spin", "wait"])
def test_what_the_parent_ignores_or_blocks_limits_the_child_all_the_same(tmp_path: Path, what: str) -> None:
    numbers_of = (signal.SIGPROF, signal.SIGALRM)
    before = [signal.signal(number, signal.SIG_IGN) for number in numbers_of]
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers_of)
    try:
        source = opened(tmp_path / "x", what)
        with pytest.raises(SchemaError, match=r"line 0 cannot be read: .*seconds"):
            numbers(source, 0)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers_of)
        for number, handler in zip(numbers_of, before, strict=True):
            signal.signal(number, handler)


def test_the_child_leaves_no_core_file(tmp_path: Path) -> None:
    source = opened(tmp_path / "x", "numbers")
    assert numbers(source, 0) == [0] * ROWS
    reader: Any = source.read
    limits = Path(f"/proc/{reader.args[0]._process._process.pid}/limits").read_text()
    assert re.search(r"Max core file size +0 ", limits)


def test_what_is_no_error_of_a_file_is_raised_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="a deadly file needs a package"):
        opened(tmp_path / "x", "look missing")
    source = opened(tmp_path / "x", "bug", "warn")
    with pytest.raises(AssertionError, match="a mistake of ours") as caught:
        numbers(source, 0)
    assert "deadly_source.py" in caught.value.__notes__[0]
    with pytest.warns(UserWarning, match="something is odd"):
        assert numbers(source, 1) == [1] * ROWS


def test_the_child_ends_with_its_source(tmp_path: Path) -> None:
    source = opened(tmp_path / "x", "numbers", "numbers")
    assert numbers(source, 0) == [0] * ROWS
    reader: Any = source.read
    pid = reader.args[0]._process._process.pid
    copy = pickle.loads(pickle.dumps(source))
    del source, reader
    gc.collect()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert numbers(copy, 1) == [1] * ROWS  # by a child of its own


def is_there(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("what", ["numbers", "wait", "locked"])
def test_the_child_ends_with_its_parent(tmp_path: Path, what: str) -> None:
    """Between two batches, or stuck in its library for ever, which has Python's lock or not."""
    source = opened(tmp_path / "x", what, trust_sizes=True)
    reader: Any = source.read
    forked = os.fork()
    if not forked:
        try:
            # a fork has no part in the child of its parent
            batches = source.batches_of(source.units[0])
            next(batches)
            (tmp_path / "pid").write_text(str(reader.args[0]._process._process.pid))
            if what != "numbers":
                threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGKILL)).start()
            next(batches)
        finally:
            os._exit(0)
    ended = os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1])
    assert ended == (0 if what == "numbers" else -signal.SIGKILL)
    pid = int((tmp_path / "pid").read_text())
    assert pid != reader.args[0]._process._process.pid
    for _ in range(500):
        if not is_there(pid):
            break
        time.sleep(0.02)
    else:
        raise AssertionError("it is still there")
    if what == "numbers":
        assert numbers(source, 0) == [0] * ROWS


def test_the_child_outlives_the_thread_that_has_started_it(tmp_path: Path) -> None:
    source = opened(tmp_path / "x", "numbers", "numbers")
    reader: Any = source.read
    copy = pickle.loads(pickle.dumps(source))
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.extend(numbers(copy, 0)))
    thread.start()
    thread.join()
    pid = copy.read.args[0]._process._process.pid
    assert pid != reader.args[0]._process._process.pid
    time.sleep(0.5)
    assert numbers(copy, 1) == [1] * ROWS
    assert copy.read.args[0]._process._process.pid == pid


def test_two_units_are_read_at_once(tmp_path: Path) -> None:
    source = opened(tmp_path / "x", "numbers", "numbers")
    both = [source.batches_of(unit) for unit in source.units]
    found = [int(next(batches).columns["n"][0]) for _ in range(2) for batches in both]
    assert found == [0, 1, 0, 1]
    both[0].close()
    assert [next(both[1], None)] == [None]


def test_a_batch_goes_through_whatever_its_columns_are() -> None:
    masked = np.ma.MaskedArray([1, 2, 3], [False, True, False])
    memory = memoryview(b"abcdef")
    columns: dict[str, Any] = {
        "numbers": np.arange(6.0)[::2], "wide": np.arange(12).reshape(3, 2, 2), "masked": masked,
        "views": [memory[:2], None, memory[2:]], "bytes": [b"a", b"", bytes(300)], "mixed": [b"a", memory, None],
        "texts": Texts(PackedStrings.of([b"\xc3\xa9", b"", b"x"]), np.array([True, False, True])),
        "part of texts": Texts(PackedStrings.of([b"%d" % i for i in range(9)]))[4:7],
        "list": ["é", None, "x"], "objects": [{"a": [b"b", None]}, 3, None],
        "ragged": [np.arange(2), None, np.arange(0)], "other ragged": [np.arange(2), np.arange(2.0), None],
        "square": [np.zeros((1, 2)), np.zeros((2, 2)), np.zeros((0, 2))], "empty": [], "nulls": [None] * 3,
    }  # fmt: skip
    sent = pickle.loads(
        pickle.dumps(child_reader._packed(RawBatch(columns, 3, (LeftOut("a", "b"),))), protocol=5)
    )
    found = child_reader._unpacked(sent)
    assert (found.rows, found.left_out) == (3, (LeftOut("a", "b"),))
    for name, values in columns.items():
        other = found.columns[name]
        assert repr(list(map(_plain, other))) == repr(list(map(_plain, values))), name
        assert getattr(other, "dtype", None) == getattr(values, "dtype", None)
    assert [type(value) for value in found.columns["bytes"]] == [bytes] * 3


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview) else value


def test_nothing_that_a_child_had_open_is_left_to_the_collector(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "a.parquet")
    code = "import sys, unirecord; unirecord.write_dataset(sys.argv[1], sys.argv[2])"
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", code, tmp_path / "a.parquet", tmp_path / "out"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "ResourceWarning" not in done.stderr
