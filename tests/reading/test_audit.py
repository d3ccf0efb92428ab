"""Receipts and their audit: jobs that are killed and go on, against what was really handed out, counted row by row."""

from __future__ import annotations

import json
import struct
import zlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from receipt_jobs import Job

import unirecord
from unirecord import UniRecordDataset
from unirecord.cli.main import main
from unirecord.dataset.receipts import BATCH, RECORD_BYTES, Head, Record, packed, unpacked
from unirecord.storage import system

FROZEN_CRC = "09a813ab"
ROWS = 23


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audit") / "data"
    with unirecord.Writer(folder, {"i": "int32", "label": "int8"}, max_part_bytes=4096) as writer:
        for i in range(ROWS):
            writer.write({"i": i, "label": i % 3})
    return folder


MODES = [False, True, "block", "parts", "within-parts"]


def mixed(ds: UniRecordDataset) -> UniRecordDataset:
    sources = {"a": ds.select(range(9)), "b": ds.select(range(9, 23))}
    return unirecord.mix(sources, {"a": 2, "b": 3}, seed=5, samples=19)


SELECTIONS = {
    "mixed": mixed,
    "weighted": lambda ds: unirecord.weighted(ds, "label"),
    "all": lambda ds: ds,
    "where": lambda ds: ds.view(where="label != 1"),
    "picked": lambda ds: ds.select([5, 1, 22, 17, 2, 9, 8]),
}


@settings(max_examples=25, deadline=None)
@given(
    mode=st.sampled_from(MODES),
    chosen=st.sampled_from(sorted(SELECTIONS)),
    remainder=st.sampled_from(["pad", "drop", "uneven"]),
    batch=st.integers(1, 6),
    drop_last=st.booleans(),
    launches=st.lists(
        st.tuples(st.integers(1, 4), st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=4
    ),
)
def test_a_job_that_is_killed_and_goes_on_is_proven_exact(
    path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    mode: object,
    chosen: str,
    remainder: str,
    batch: int,
    drop_last: bool,
    launches: list[tuple[int, int, int]],
) -> None:
    """Each launch: ranks, steps to the checkpoint that the next one loads, further steps that the kill undoes."""
    folder = tmp_path_factory.mktemp("receipts")
    base = SELECTIONS[chosen](UniRecordDataset(path, shuffle=mode, seed=5, remainder=remainder))
    job = Job(base, folder, batch, drop_last)
    for ranks, steps, lost in launches[:-1]:
        job.launch(ranks, steps, lost)
    job.launch(launches[-1][0])
    report = unirecord.audit(folder, base)
    assert report.ok, report
    (order,) = report.orders
    assert {epoch for epoch, _ in job.rows} <= {audited.epoch for audited in order.epochs}
    for audited in order.epochs:
        assert audited.finished
        here = [count for (epoch, _), count in job.rows.items() if epoch == audited.epoch]
        assert audited.delivered + audited.repeated == sum(here)
        if chosen not in ("mixed", "weighted"):  # there a row may come at several positions
            assert audited.delivered == len(here)
        left_out = sum(r.count for ranges in audited.left_out.values() for r in ranges)
        assert left_out == len(base) - audited.delivered


def audited(folder: Path, **options: object) -> tuple[unirecord.AuditReport, list[unirecord.AuditedEpoch]]:
    report = unirecord.audit(folder, **options)
    return report, [epoch for order in report.orders for epoch in order.epochs]


def spelled(ranges: Iterable[unirecord.PositionRange]) -> list[int]:
    return sorted(p for r in ranges for p in range(r.first, r.stop, r.stride))


def shards(
    path: Path, folder: Path, ranks: int, batch: int = 2, **options: object
) -> list[unirecord.BatchLoader]:
    base = UniRecordDataset(path, shuffle=True, seed=1, **options)
    return [
        base.view(shard_id=rank, num_shards=ranks).batches(batch, receipts=folder, num_threads=1)
        for rank in range(ranks)
    ]


def test_a_launch_that_forgets_its_state_is_named(path: Path, tmp_path: Path) -> None:
    """The most frequent mistake: the model goes on from a checkpoint, the data begin again."""
    for loader in shards(path, tmp_path, 2, remainder="uneven"):
        for number, _ in enumerate(loader):
            if number == 2:
                break
    for loader in shards(path, tmp_path, 2, remainder="uneven"):
        list(loader)
    report, (epoch,) = audited(tmp_path)
    assert not report.ok
    assert spelled(epoch.twice) == list(range(12))
    assert epoch.never == ()
    report, (epoch,) = audited(tmp_path, restarts=True)
    assert report.ok
    assert report.orders[0].launches[0].undone == 12


@settings(max_examples=25, deadline=None)
@given(
    launches=st.lists(
        st.tuples(st.integers(1, 3), st.integers(1, 9), st.booleans(), st.integers(0, 9)),
        min_size=1,
        max_size=4,
    )
)
def test_every_position_is_counted_once_whatever_launches_forget(
    path: Path, tmp_path_factory: pytest.TempPathFactory, launches: list[tuple[int, int, bool, int]]
) -> None:
    """Each launch without a state: ranks, samples of a batch, ``drop_last``, and the steps after which it is killed."""
    folder = tmp_path_factory.mktemp("receipts")
    base = UniRecordDataset(path, shuffle=True, seed=5, remainder="uneven")
    position_of = {int(row): position for position, row in enumerate(base.order.row_ids())}
    came: Counter[int] = Counter()
    for ranks, batch, drop_last, steps in launches:
        for rank in range(ranks):
            own = base.view(shard_id=rank, num_shards=ranks)
            for step, found in enumerate(own.batches(batch, drop_last=drop_last, receipts=folder)):
                came.update(position_of[int(row)] for row in found["i"])
                if step == steps:
                    break
    for epoch in unirecord.audit(folder).orders[0].epochs if came else ():
        told = {why: spelled(ranges) for why, ranges in epoch.left_out.items()}
        gone = [*spelled(epoch.never), *(position for ranges in told.values() for position in ranges)]
        assert sorted(gone) == [p for p in range(epoch.positions) if came[p] == 0]
        assert sorted(spelled(epoch.twice)) == [p for p in range(ROWS) if came[p] > 1]
        assert epoch.delivered == sum(came[p] == 1 for p in range(epoch.positions))


def test_a_state_that_is_further_on_than_what_was_delivered_leaves_a_gap(path: Path, tmp_path: Path) -> None:
    first = shards(path, tmp_path, 2)
    for loader in first:
        next(iter(loader))
    state = {**first[0].state_dict(), "position": 12}
    for loader in shards(path, tmp_path, 3, remainder="pad"):
        loader.load_state_dict(state)
        list(loader)
    report, (epoch,) = audited(tmp_path)
    assert not report.ok
    assert spelled(epoch.never) == list(range(4, 12))
    assert epoch.twice == ()


def test_a_rank_without_receipts_is_missed(path: Path, tmp_path: Path) -> None:
    for loader in shards(path, tmp_path, 4, remainder="uneven"):
        list(loader)
    (gone,) = tmp_path.glob("*-rank-2-of-4-*")
    gone.unlink()
    report, (epoch,) = audited(tmp_path)
    assert not report.ok
    assert spelled(epoch.never) == [2, 6, 10, 14, 18, 22]
    under_way = tmp_path / "under-way"
    for loader in shards(path, under_way, 4)[:3]:
        passing = iter(loader)
        next(passing), next(passing)
    report = unirecord.audit(under_way)
    assert "no receipts since position 0: 3" in report.problems[0]


def test_an_epoch_that_is_left_early_is_not_whole(path: Path, tmp_path: Path) -> None:
    (loader,) = shards(path, tmp_path, 1)
    for _ in loader:
        break
    next(iter(loader))
    report, (first, second) = audited(tmp_path)
    assert not report.ok
    assert spelled(first.never) == list(range(2, 23))
    assert (second.finished, second.positions, second.exact) == (False, 2, True)


def test_what_is_left_out_on_purpose_is_named_by_its_reason(path: Path, tmp_path: Path) -> None:
    base = UniRecordDataset(path, remainder="drop")
    for rank in range(4):
        own = base.view(shard_id=rank, num_shards=4)
        list(own.batches(2, drop_last=True, receipts=tmp_path))
    report, (epoch,) = audited(tmp_path)
    assert report.ok
    assert {why: spelled(ranges) for why, ranges in epoch.left_out.items()} == {
        "drop_last": [16, 17, 18, 19],
        "remainder": [20, 21, 22],
    }
    assert epoch.delivered == 16


def test_corrupt_rows_that_are_skipped_are_named(tmp_path: Path) -> None:
    file = tmp_path / "a.urec"
    with unirecord.Writer(file, {"x": "bytes"}) as writer:
        for i in range(12):
            writer.write({"x": bytes([65 + i]) * 5000})
    data = bytearray(file.read_bytes())
    for i in (3, 8):
        at = data.index(bytes([65 + i]) * 5000)
        data[at] ^= 1
    file.write_bytes(data)
    ds = UniRecordDataset(file, shuffle=True, seed=3, on_corrupt="skip")
    rows = ds.order.row_ids().tolist()
    for _ in range(2):
        list(ds.batches(1 if _ else 5, receipts=tmp_path / "receipts"))
    report, epochs = audited(tmp_path / "receipts", dataset=ds)
    assert report.ok, report
    assert spelled(epochs[0].left_out["corrupt"]) == sorted([rows.index(3), rows.index(8)])
    assert [epoch.delivered for epoch in epochs] == [10, 10]


def test_rows_are_compared_with_those_of_the_dataset(path: Path, tmp_path: Path) -> None:
    (loader,) = shards(path, tmp_path, 1)
    list(loader)
    ds = UniRecordDataset(path, shuffle=True, seed=1)
    assert unirecord.audit(tmp_path, ds).ok
    with pytest.raises(ValueError, match="seed is 1 in the state and 2 here"):
        unirecord.audit(tmp_path, UniRecordDataset(path, shuffle=True, seed=2))
    (file,) = tmp_path.iterdir()
    head, records = taken_apart(file)
    batch = unpacked(records[3], 3)
    records[3] = packed(batch._replace(digest=batch.digest ^ 1), 3)
    file.write_bytes(head + b"".join(records))
    report = unirecord.audit(tmp_path, ds)
    assert "record 3: the batch from position 4 of epoch 0 on had other rows" in report.problems[0]
    assert not report.ok
    assert unirecord.audit(tmp_path).ok


def taken_apart(file: Path) -> tuple[bytes, list[bytes]]:
    data = file.read_bytes()
    _, size = Head.unpacked(data, str(file))
    return data[:size], [data[at : at + RECORD_BYTES] for at in range(size, len(data), RECORD_BYTES)]


def test_every_tail_that_a_kill_leaves_is_good(path: Path, tmp_path: Path) -> None:
    (loader,) = shards(path, tmp_path, 1, batch=5)
    list(loader)
    (file,) = tmp_path.iterdir()
    data = file.read_bytes()
    _, size = Head.unpacked(data, str(file))
    for length in range(0, len(data), 7):
        file.write_bytes(data[:length])
        report, epochs = audited(tmp_path)
        assert report.ok
        batches = max((length - size) // RECORD_BYTES - 1, 0)
        assert sum(epoch.delivered for epoch in epochs) == min(batches * 5, ROWS)
    file.write_bytes(
        data[:-RECORD_BYTES] + bytes(2 * RECORD_BYTES)
    )  # what a power cut leaves of a file's end
    report, (epoch,) = audited(tmp_path)
    assert (report.ok, report.torn, epoch.finished, epoch.delivered) == (True, 1, False, ROWS)


def test_damage_before_the_end_is_a_problem_and_never_a_proof(path: Path, tmp_path: Path) -> None:
    (loader,) = shards(path, tmp_path, 1, batch=5)
    list(loader)
    (file,) = tmp_path.iterdir()
    data = file.read_bytes()
    for at in range(0, len(data), 11):
        file.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        report, epochs = audited(tmp_path)
        assert len(report.problems) == 1
        assert not report.ok
        assert epochs == []


HOSTILE = {
    "no receipts": lambda head, records: b"something else",
    "a long head": lambda head, records: head[:8] + b"\xff\xff\xff\x7f" + head[12:],
    "a record twice": lambda head, records: head + b"".join([*records[:2], records[1], *records[2:]]),
    "a batch that is left out": lambda head, records: head + renumbered([records[0], *records[2:]]),
    "a batch twice": lambda head, records: head + renumbered([*records[:2], records[1], *records[2:]]),
    "no beginning": lambda head, records: head + renumbered(records[1:]),
    "more than there is": lambda head, records: head + renumbered(records, 1, samples=1 << 20),
    "a far position": lambda head, records: head + renumbered(records, 0, first=1 << 50),
    "less than nothing": lambda head, records: head + renumbered(records, 1, less=1),
}


def renumbered(records: list[bytes], at: int = -1, **changes: int) -> bytes:
    plain = [next(r for n in range(9) if (r := unpacked(record, n)) is not None) for record in records]
    if at >= 0:
        plain[at] = plain[at]._replace(**changes)
    return b"".join(packed(record, number) for number, record in enumerate(plain))


@pytest.mark.parametrize("kind", HOSTILE)
def test_files_that_no_loader_writes_are_refused_by_name(path: Path, tmp_path: Path, kind: str) -> None:
    (loader,) = shards(path, tmp_path, 1, batch=5)
    list(loader)
    (file,) = tmp_path.iterdir()
    file.write_bytes(HOSTILE[kind](*taken_apart(file)))
    report = unirecord.audit(tmp_path)
    assert not report.ok
    assert [str(file) in problem for problem in report.problems] == [True]


@pytest.mark.parametrize(
    "fields",
    [
        {"ranks": 1 << 40},
        {"ranks": 0},
        {"rank": 9},
        {"samples": -1},
        {"batch_size": 0},
        {"drop_last": 3},
        {"order": 7},
    ],
    ids=str,
)
def test_a_head_with_wrong_numbers_is_refused(path: Path, tmp_path: Path, fields: dict[str, object]) -> None:
    (loader,) = shards(path, tmp_path, 1, batch=5)
    list(loader)
    (file,) = tmp_path.iterdir()
    head, records = taken_apart(file)
    own, _ = Head.unpacked(head, "")
    text = json.dumps({**vars(own), **fields}, sort_keys=True).encode()
    start = head[:8] + struct.pack("<II", len(text), zlib.crc32(text))
    file.write_bytes(start + text + b"".join(records))
    report = unirecord.audit(tmp_path)
    assert "the head says nothing that a loader writes" in report.problems[0]


def test_what_a_batch_costs_is_one_call_of_48_bytes(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it is made before the batch is handed out, so that a kill loses nothing that was."""
    calls: list[tuple[str, int]] = []
    monkeypatch.setattr(
        system.os_calls, "write", lambda fd, data: calls.append(("write", len(data))) or len(data)
    )
    monkeypatch.setattr(system.os_calls, "fsync", lambda fd: calls.append(("fsync", 0)))
    (loader,) = shards(path, tmp_path, 1, batch=5)
    passing = iter(loader)
    for number in range(1, 4):
        next(passing)
        assert calls[1:] == [("write", 48)] * number
    loader.state_dict()
    assert calls[4:] == [("fsync", 0)]


def test_a_full_disk_ends_the_pass_before_the_batch_is_handed_out(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (loader,) = shards(path, tmp_path, 1, batch=5)
    passing = iter(loader)
    next(passing)
    with monkeypatch.context() as patch:
        patch.setattr(system.os_calls, "write", lambda fd, data: 7)
        with pytest.raises(OSError, match=r"only 7 of 48 bytes.*the batch is not handed out"):
            next(passing)
    assert loader.state_dict()["position"] == 5
    loader.load_state_dict(loader.state_dict())
    list(loader)
    assert unirecord.audit(tmp_path).ok


def test_receipts_are_the_same_in_every_version(path: Path, tmp_path: Path) -> None:
    """Frozen: the record of a batch, by the page alone."""
    record = Record(BATCH, 3, 1000, 0, 256, 2, 0x0123456789ABCDEF, 1_700_000_000_000_000_000)
    body = struct.pack("<BBHIQQQqI", 2, 0, 0, 256, 3, 1000, 0x0123456789ABCDEF, 1_700_000_000_000_000_000, 2)
    expected = body + struct.pack("<I", zlib.crc32(struct.pack("<Q", 41) + body))
    assert packed(record, 41) == expected
    assert expected[-4:].hex() == FROZEN_CRC


def test_a_loader_of_torch_writes_receipts_as_well(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    import unirecord.torch

    ds = UniRecordDataset(path, shuffle=True)
    list(unirecord.torch.loader(ds, 4, receipts=tmp_path))
    assert unirecord.audit(tmp_path, ds).ok


def test_the_command_says_what_is_wrong_and_how_it_ends(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    folder = tmp_path / "re\x1bceipts"
    (loader,) = shards(path, folder, 1)
    list(loader)
    assert main(["audit", str(folder), "--dataset", str(path)]) == 0
    shown = capsys.readouterr()
    assert "proven: every position exactly once" in shown.out
    assert "\x1b" not in shown.out + shown.err
    assert main(["audit", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["orders"][0]["epochs"][0]["exact"] is True
    (again,) = shards(path, folder, 1)
    list(again)
    assert main(["audit", str(folder)]) == 1
    assert "TWICE: 23 positions: 0 … 22" in capsys.readouterr().out
    assert main(["audit", str(tmp_path / "none")]) == 2
