"""What a call that failed, or was refused, leaves behind: nothing that the next one takes for its own.

One table of such calls; those of writers and conversions at every system call: test_writer_crash.py and others.
"""

from __future__ import annotations

import errno
import os
import shutil
import socket
import struct
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from writing import write

from unirecord import CorruptionError, UniRecordDataset, UniRecordError, Writer, append, write_dataset
from unirecord.convert import task as task_module
from unirecord.core import xxh3_128
from unirecord.dataset.batch_loader import changed
from unirecord.loading.loader import TrackedBatch
from unirecord.loading.stats import Recorder
from unirecord.pipeline.workers import Channel
from unirecord.snapshot import manifest
from unirecord.snapshot.deletions import Deletion, check_deletion, rows_deleted
from unirecord.storage import system
from unirecord.storage.cache import KEPT, RECORD, Segment, head_of, paths_of
from unirecord.writing.journal import Journal


class Full(system.OsCalls):
    """A disk that is full for the ``at``-th write from now on, of which ``part`` bytes are written."""

    def __init__(self, at: int, part: int) -> None:
        self.at, self.part = at, part

    def writev(self, fd: int, buffers: Sequence[Any]) -> int:
        """Writes, or a part, or nothing."""
        self.at -= 1
        if self.at == 0 and self.part:
            return super().writev(fd, [memoryview(buffers[0]).cast("B")[: self.part]])
        if self.at <= 0:
            raise OSError(errno.ENOSPC, "no space left on device")
        return super().writev(fd, buffers)


def segment_in(folder: Path) -> Segment:
    secret = bytes(range(16))
    journal, content = paths_of(str(folder), "s3://a/b", secret)
    for file, text in ((journal, head_of("s3://a/b")), (content, b"")):
        Path(file).touch(0o600)
        Path(file).write_bytes(text)
    return Segment(str(folder), "s3://a/b", secret)


def records(*sizes: int) -> Any:
    found = np.zeros(len(sizes), RECORD)
    found["kind"], found["bytes"] = KEPT, sizes
    return found


@pytest.mark.parametrize("at", [1, 2], ids=["the bytes", "the journal"])
@pytest.mark.parametrize("part", [0, 5])
def test_what_did_not_fit_a_cache_leaves_no_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int, part: int
) -> None:
    segment = segment_in(tmp_path)
    segment.append([b"abc", b"defgh"], records(3, 5))
    before = segment.sizes()
    monkeypatch.setattr(system, "os_calls", Full(at, part))
    with pytest.raises(OSError, match="no space"):
        segment.append([b"0123456789"], records(10))
    monkeypatch.undo()
    assert segment.sizes() == before
    segment.append([b"xyz"], records(3))
    found = segment.news()
    assert found["bytes"].tolist() == [3, 5, 3]
    assert [segment.read(int(r["place"]), int(r["bytes"])) for r in found] == [b"abc", b"defgh", b"xyz"]
    assert segment.damaged == 0
    segment.close()


def test_half_a_record_of_a_process_that_died_is_written_over(tmp_path: Path) -> None:
    segment = segment_in(tmp_path)
    segment.append([b"abc"], records(3))
    with open(segment.journal, "ab") as journal:
        journal.write(bytes(7))
    segment.append([b"xyz"], records(3))
    assert (segment.news()["bytes"].tolist(), segment.damaged) == ([3, 3], 0)
    segment.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write(tmp_path / "a.urec", {"i": "int64"}, [{"i": i} for i in range(20)])
    return tmp_path / "a.urec"


def test_a_loaded_state_is_forgotten_when_the_next_pass_has_begun(path: Path) -> None:
    ds = UniRecordDataset(path, shuffle=True)
    ds.load_state_dict({**ds.state_dict(), "position": 5})
    position = ds.read_cursor.position
    assert len(next(iter(ds.batches(20)))["i"]) == 15
    assert position.from_state
    assert len(next(iter(ds.batches(20)))["i"]) == 20
    assert not position.from_state
    ds.load_state_dict({**ds.state_dict(), "position": 5})
    next(iter(ds.batches(3)))
    next(iter(ds.batches(3)))
    assert not position.from_state


def test_a_state_of_another_place_is_not_taken_for_that_of_the_pass(path: Path) -> None:
    """A sampler has taken its pass up from a state; the dataset's own follows, of the same checkpoint or of another."""
    ds = UniRecordDataset(path, shuffle=True)
    position, run = ds.read_cursor.position, ds.read_cursor.plan.order.run(0, 5)
    position.take_up(run)
    position.resume(0, 5)
    assert position.follows(run)
    for epoch, place in ((0, 7), (1, 5)):
        position.take_up(run)
        position.resume(epoch, place)
        assert not position.follows(run)
        assert position.next_pass == (epoch, place)


def test_a_refused_state_and_an_overtaken_pass_move_nothing(path: Path) -> None:
    ds = UniRecordDataset(path)
    first, second = iter(ds.batches(3)), iter(ds.batches(4))
    next(first)
    next(second)
    before = ds.state_dict()
    next(first)
    assert ds.state_dict() == before
    with pytest.raises((ValueError, TypeError, KeyError)):
        ds.load_state_dict({**before, "position": -1})
    assert ds.state_dict() == before


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_a_stage_ends_at_an_error_and_begins_no_batch_after_it_has_been_left(workers: int) -> None:
    begun: list[int] = []

    def change(delivered: TrackedBatch[Any]) -> TrackedBatch[Any]:
        begun.append(delivered.batch)
        if delivered.batch == 2:
            raise KeyError("two")
        return delivered

    batches = (TrackedBatch(number, 0, number + 1, (), 1, 0, 0, None) for number in range(1000))
    stage = changed(batches, change, workers, Recorder())
    given = []
    taken = (delivered.batch for delivered in stage)
    with pytest.raises(KeyError, match="two"):
        given.extend(taken)
    assert given == [0, 1]
    # Small batches are changed several at a time: what other threads had in hand may have begun, and nothing after it.
    count = len(begun)
    assert list(stage) == []
    time.sleep(0.05)
    assert len(begun) == count < 1000
    assert begun.count(2) == 1
    assert workers or begun == [0, 1, 2]


def test_shared_pieces_that_are_given_up_are_mapped_on_neither_side() -> None:
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    here, there = Channel(ends[0]), Channel(ends[1])

    def mapped() -> int:
        return Path("/proc/self/maps").read_text().count("memfd:unirecord-pipeline")

    before = mapped()
    kept = []
    for size in range(1, 13):  # all in use at once, so that each has a piece of its own
        here.send(np.full(size * 5000, size, np.uint8))
        kept.append(there.receive())
    assert [int(array[-1]) for array in kept] == list(range(1, 13))
    assert mapped() - before == 2 * 12
    del kept
    there.say_taken()
    for size in (70_000, 80_000, 90_000, 100_000):  # larger than all: each takes the place of the smallest
        here.send(np.full(size, 7, np.uint8))
        last = there.receive()
        assert last[-1] == 7
        del last
        there.say_taken()
    assert len(here._own) == len(there._maps)
    assert mapped() - before == len(here._own) + len(there._maps)
    here.close()
    there.close()


def test_shared_pieces_that_hold_nothing_are_together_no_larger_than_the_last_one() -> None:
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    here, there = Channel(ends[0]), Channel(ends[1])
    for size in (int(100_000 * 1.3**i) for i in range(7)):  # none fits into a piece of one before it
        here.send(np.zeros(size, np.uint8))
        there.receive()
        there.say_taken()
        assert sum(map(len, here._own.values())) < 2.5 * size + 10_000
        here.send(np.zeros(100, np.uint8))  # a small one, for which none is given up
        there.receive()
        there.say_taken()
    assert sorted(here._own) == sorted(there._maps)
    here.close()
    there.close()


def test_a_shared_piece_that_is_used_again_is_not_free_until_it_is_given_back() -> None:
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    here, there = Channel(ends[0]), Channel(ends[1])
    for _ in range(3):  # each time in the piece of the time before
        here.send(np.zeros(50_000, np.uint8))
        there.receive()
        there.say_taken()
    kept = []
    for value in range(1, 5):
        here.send(np.full(50_000, value, np.uint8))
        kept.append(there.receive())
    assert [(int(array[0]), int(array[-1])) for array in kept] == [(value, value) for value in range(1, 5)]
    del kept
    here.close()
    there.close()


def test_a_writer_that_failed_and_was_closed_leaves_a_place_for_the_next(path: Path, tmp_path: Path) -> None:
    before = path.read_bytes()

    def fail() -> None:
        with Writer(path, {"i": "int64"}, overwrite=True) as writer:
            writer.write({"i": 1})
            raise KeyError("the user's")

    with pytest.raises(KeyError):
        fail()
    assert path.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["a.urec", "a.urec.idx"]
    write(path, {"i": "int64"}, [{"i": 7}], overwrite=True)
    with UniRecordDataset(path) as ds:
        assert [int(sample["i"]) for sample in ds] == [7]


def test_a_kept_manifest_of_another_dataset_keeps_none_of_its_parts(tmp_path: Path) -> None:
    folder, other = tmp_path / "data", tmp_path / "other"
    for each in (folder, other):
        write(each, {"i": "int64"}, [{"i": 0}])
        for i in (1, 2):
            with append(each) as writer:
                writer.write({"i": i})
    kept = sorted(other.glob("manifest-*"))[-1]
    parts = [part.name for part in manifest.read(str(kept)).parts]
    for name in parts:
        for file in (name, f"{name}.idx"):
            shutil.copy(other / file, folder / file)
    shutil.copy(kept, folder / kept.name)
    with append(folder) as writer:
        writer.write({"i": 3})
    assert not [name for name in parts if (folder / name).exists() or (folder / f"{name}.idx").exists()]
    with UniRecordDataset(folder) as ds:
        assert [int(sample["i"]) for sample in ds] == [0, 1, 2, 3]


def _stopped(target: Path) -> list[dict[str, Any]]:
    """Leaves a conversion that was stopped when its first task was done; what it converts."""
    rows = [{"i": i, "b": bytes(2_000)} for i in range(300)]
    record_task, calls = Journal.record, []

    def stops(self: Journal, task: int, record: dict[str, Any]) -> None:
        record_task(self, task, record)
        calls.append(task)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Journal, "record", stops)
        patch.setattr(task_module, "_LEAST_BYTES", 100_000)
        with pytest.raises(KeyboardInterrupt):
            write_dataset(rows, target, max_part_bytes=200_000, id=bytes(16))
    assert calls
    return rows


REFUSED: dict[str, Callable[[Path], Any]] = {
    "a writer": lambda target: Writer(target, {"i": "int64"}),
    "an appender": lambda target: append(target),
    "another conversion that goes on": lambda target: write_dataset(
        [{"j": 1}, {"j": 2}], target, resume=True
    ),
    "one of another id": lambda target: write_dataset(
        [{"i": i, "b": bytes(2_000)} for i in range(300)],
        target,
        max_part_bytes=200_000,
        id=b"1" * 16,
        resume=True,
    ),
    "a writer of a wrong schema": lambda target: Writer(target, {"i": "nothing"}),
}


@pytest.mark.parametrize("who", REFUSED)
def test_who_is_refused_leaves_anothers_journal_as_it_is(
    tmp_path: Path, who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "data"
    rows = _stopped(target)

    def left() -> dict[str, bytes]:
        return {
            str(path.relative_to(tmp_path)): path.read_bytes()
            for path in sorted(tmp_path.rglob("*"))
            if path.is_file() and not path.name.endswith(".tmp")  # which nobody goes on with
        }

    before = left()
    assert [name for name in before if ".task" in name]
    with pytest.raises((UniRecordError, ValueError)):
        REFUSED[who](target)
    assert left() == before
    monkeypatch.setattr(task_module, "_LEAST_BYTES", 100_000)
    assert write_dataset(rows, target, max_part_bytes=200_000, id=bytes(16), resume=True) == len(rows)
    with UniRecordDataset(target) as ds:
        assert [int(sample["i"]) for sample in ds] == list(range(300))


def test_a_directory_that_was_given_up_leaves_no_part(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    write(folder, {"b": "bytes"}, [{"b": b"old"}])

    def left() -> list[str]:
        return sorted(os.listdir(folder))

    before = left()
    for make in (
        lambda: Writer(folder, {"b": "bytes"}, overwrite=True, max_part_bytes=4_096),
        lambda: append(folder, max_part_bytes=4_096),
    ):
        writer = make()
        for _ in range(20):
            writer.write({"b": bytes(3_000)})
        writer.abort()
        assert left() == before
    with UniRecordDataset(folder) as ds:
        assert [bytes(sample["b"]) for sample in ds] == [b"old"]


def numbers(head: tuple[int, int, int], rows: list[int]) -> bytes:
    kind, part_rows, count = head
    return struct.pack("<8sIIQQ16s16x", b"\x89URDL\r\n\x1a", 1, kind, part_rows, count, bytes(16)) + (
        np.array(rows, f"<u{kind}").tobytes()
        if kind
        else sum(1 << row for row in rows).to_bytes(24, "little")
    )


@pytest.mark.parametrize(
    ("kind", "rows", "count", "said"),
    [
        (4, [1, 129, 130], 3, "are not all rows"),
        (4, [1, 5, 5], 3, "do not ascend"),
        (4, [5, 1, 129], 3, "do not ascend"),
        (0, [*range(5), 130], 6, "the part does not have"),
        (0, [*range(6), 129], 6, "names 7 rows, and says 6"),
        (0, [*range(6)], 7, "names 6 rows, and says 7"),
        (0, [1, 5, 129], 3, "is not the form for so many rows"),
        (4, [*range(6)], 6, "is not the form for so many rows"),
        (4, [1, 5, 129], 3, ""),
        (0, [*range(5), 129], 6, ""),
    ],
)
def test_a_deletion_file_of_other_rows_is_refused(
    tmp_path: Path, kind: int, rows: list[int], count: int, said: str
) -> None:
    content = numbers((kind, 130, count), rows)
    (tmp_path / "d").write_bytes(content)
    deletion = Deletion(str(tmp_path / "d"), count, len(content), xxh3_128(content).hex())
    if said:
        with pytest.raises(CorruptionError, match=said):
            check_deletion(deletion, bytes(16), 130)
    else:
        assert rows_deleted(deletion, bytes(16), 130).tolist() == rows


def test_a_record_of_a_cache_is_of_its_place_in_its_journal(tmp_path: Path) -> None:
    """A copy of a record is none; those behind it are."""
    segment = segment_in(tmp_path)
    segment.append([b"abc"], records(3))
    content = Path(segment.journal).read_bytes()
    with open(segment.journal, "ab") as journal:
        journal.write(content[-RECORD.itemsize :])
    segment.append([b"defgh"], records(5))
    assert (segment.news()["bytes"].tolist(), segment.damaged) == ([3, 5], 1)
    segment.append([b"xy"], records(2))
    assert (segment.news()["bytes"].tolist(), segment.damaged) == ([2], 1)
    segment.close()
