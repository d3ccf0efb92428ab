"""Datasets written to an object store: there whole or not at all, whatever request fails, is lost, late, or the last.

What is in the store is read as the files that the store of the tests keeps, without the client.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from objectstore import Fault, Request, Server
from objectstore_writing import uploads
from writing import SIX, SIX_SCHEMA, read, same
from written_store import (
    PIECE,
    SCHEMA,
    URL,
    append_rows,
    fill,
    folder,
    numbers,
    served,
    spooled,
    unnamed,
    write,
)

import unirecord
from unirecord import ExistsError, SchemaError, StaleError, UniRecordDataset, UniRecordError, Writer, append
from unirecord.cli import main
from unirecord.snapshot.versions import read_version
from unirecord.storage.location import Undecided

server = pytest.fixture(served)


def test_what_is_written_is_what_was_given(server: Server, tmp_path: Path) -> None:
    with Writer(URL, SIX_SCHEMA, index=["label"], metadata={"a": 1}, max_part_bytes=1) as writer:
        for row in SIX:
            writer.write(row)
        assert not (folder(server) / "manifest.json").exists()
    same(read(folder(server)), SIX)
    with UniRecordDataset(URL, where="label == 31") as ds:
        assert len(ds) == 1
        assert ds.metadata == {"a": 1}
    with append(URL) as writer:
        writer.write(SIX[0])
    same(read(folder(server)), [*SIX, SIX[0]])
    with Writer(URL, SIX_SCHEMA, overwrite=True) as writer:
        writer.write(SIX[1])
    same(read(folder(server)), [SIX[1]])
    assert unnamed(server) == []
    assert uploads(server.root) == spooled(server) == []


def test_what_is_written_takes_retries_and_timeouts_in_seconds(server: Server) -> None:
    retries = {"max_retries": 5, "retry_timeout": 30, "backoff": {"init_backoff": 0.01, "max_backoff": 0.5}}
    options = {"retry_config": retries, "timeout": 30, "client_options": {"connect_timeout": 2.5}}
    with Writer(URL, SCHEMA, storage_options=options) as writer:
        writer.write({"n": 1, "b": b"x"})
    with append(URL, storage_options={**options, "timeout": "30", "read_timeout": "20s"}) as writer:
        writer.write({"n": 2, "b": b"y"})
    assert numbers(server) == [1, 2]


def test_large_parts_go_in_pieces_of_which_few_are_on_their_way(server: Server) -> None:
    server.latency = 0.002
    with Writer(URL, {"b": "bytes"}) as writer:
        writer.write({"b": os.urandom(40 * PIECE)})
    pieces = [request for request in server.requests if "partNumber" in request.query]
    assert len(pieces) >= 40
    assert 2 <= server.most_in_flight <= 8
    with UniRecordDataset(folder(server)) as ds:
        assert len(ds[0]["b"]) == 40 * PIECE


Work = Callable[[], None]
BEFORE = list(range(3))
WORKLOADS: dict[str, tuple[bool, Work, list[int]]] = {
    "new": (False, lambda: write(range(3, 9)), list(range(3, 9))),
    "overwrite": (True, lambda: write(range(3, 9), overwrite=True), list(range(3, 9))),
    "append": (True, lambda: append_rows(range(3, 9)), list(range(9))),
    "reshard": (True, lambda: unirecord.reshard(URL, 2) and None, BEFORE),
    "sort": (True, lambda: unirecord.sort(URL, "n", descending=True) and None, BEFORE[::-1]),
}
FAULTS = {
    "error": Fault(status=500),
    "refused": Fault(status=403),
    "no answer": Fault(hang_up=True),
    "answer lost": Fault(lost=True),
    "done twice": Fault(twice=True),
    "late": Fault(late=True),
}
TRIED = [
    *(("append", kind) for kind in FAULTS),
    *(("new", kind) for kind in ("error", "answer lost", "late")),
    *(("overwrite", kind) for kind in ("refused", "done twice", "late")),
    *(("sort", kind) for kind in ("error", "answer lost", "late")),
    ("reshard", "done twice"),
]


def place(request: Request) -> tuple[str, str, str]:
    return request.method, request.key, re.sub(r"uploadId=\w+", "uploadId", request.query)


class FailAt:
    """The request of a number fails, and so it does when it is made again; or, ``dead``, all from there on.

    Counted are requests that change something, or ``every`` one.
    """

    def __init__(self, number: int, fault: Fault, *, dead: bool, every: bool) -> None:
        self.number, self.fault, self.dead, self.every = number, fault, dead, every
        self.count = 0
        self.place: object = None
        self.reached = False

    def __call__(self, request: Request) -> Fault | None:
        changes = request.method not in ("GET", "HEAD")
        self.count += changes or self.every
        if self.dead and self.reached:
            return Fault(hang_up=True)
        if self.count == self.number and not self.reached:
            self.place, self.reached = place(request), True
        fails = self.reached and place(request) == self.place
        return (self.fault if changes or self.fault.status else Fault(hang_up=True)) if fails else None


def outcomes(
    server: Server, workload: str, fault: Fault, *, dead: bool = False, every: bool = False
) -> Iterator[BaseException | None]:
    """Does the work with each of its requests failing in turn; what it raised. The store is as it was before each."""
    exists, work, _ = WORKLOADS[workload]
    write(range(3))
    shutil.move(folder(server), server.root.parent / "before")
    for number in range(1, 100):
        clear(server)
        if exists:
            shutil.copytree(server.root.parent / "before", folder(server))
        server.fault = fail = FailAt(number, fault, dead=dead, every=every)
        raised: BaseException | None = None
        try:
            work()
        except (UniRecordError, OSError) as error:
            raised = error
        server.fault = lambda request: None
        if not fail.reached:
            assert raised is None
            assert number > (15 if every else 6)
            return
        yield raised


def clear(server: Server) -> None:
    shutil.rmtree(server.root)
    (server.root / "bucket").mkdir(parents=True)


@pytest.mark.parametrize(("workload", "kind"), TRIED)
def test_every_request_failing_in_turn_leaves_the_old_dataset_or_the_new_one(
    server: Server, workload: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    exists, _, after = WORKLOADS[workload]
    before = BEFORE if exists else None
    errors = 0
    for raised in outcomes(server, workload, FAULTS[kind], every=kind == "no answer"):
        server.do_late()
        said = capsys.readouterr().err
        if raised is None:
            assert numbers(server) == after
        else:
            errors += 1
            undecided = isinstance(raised, Undecided)
            assert numbers(server) in ((before, after) if undecided else (before,))
            assert "bucket/train" in str(raised)
        assert spooled(server) == []
        if unnamed(server) and kind == "late":  # it arrived when the writer had gone: the next one says so
            write(range(1), overwrite=True)
            said = capsys.readouterr().err.replace("which no manifest names", "could not be deleted")
        if unnamed(server):
            assert "could not be deleted" in said or "not known whether" in said
    assert errors or kind in ("answer lost", "done twice")


@pytest.mark.parametrize("fault", [Fault(hang_up=True), Fault(lost=True)], ids=["before", "after"])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_writer_whose_last_request_it_was_leaves_the_old_dataset_or_the_new_one(
    server: Server, workload: str, fault: Fault, capsys: pytest.CaptureFixture[str]
) -> None:
    """To the store, a machine that dies and one that is cut off are the same; the next writer gets on."""
    exists, _, after = WORKLOADS[workload]
    before = BEFORE if exists else None
    seen = set()
    for _ in outcomes(server, workload, fault, dead=True):
        found = numbers(server)
        assert found in (before, after)
        seen.add(str(found))
        left = unnamed(server)
        if workload != "append":
            continue
        capsys.readouterr()
        write(range(2), overwrite=True)
        assert numbers(server) == [0, 1]
        said = capsys.readouterr().err
        assert ("which no manifest names" in said) == bool(left)
        assert not left or left[0] in said
    assert seen == ({str(before), str(after)} if fault.lost else {str(before)} | ({str(after)} & seen))


def test_of_two_new_datasets_the_first_wins_and_the_other_is_told(server: Server) -> None:
    second = Writer(URL, SCHEMA)
    fill(second, range(5))
    write(range(3))
    with pytest.raises(StaleError, match="another writer has published another dataset"):
        second.close()
    assert numbers(server) == [0, 1, 2]
    assert unnamed(server) == spooled(server) == []
    with pytest.raises(ExistsError, match="append"):
        write(range(3))


def test_two_that_append_at_once_both_do(server: Server) -> None:
    write(range(3))
    with append(URL) as first, append(URL) as second:
        fill(first, range(3, 5))
        fill(second, range(5, 8))
    assert numbers(server) == [0, 1, 2, 5, 6, 7, 3, 4]
    append_rows(range(8, 9))
    assert numbers(server) == [0, 1, 2, 5, 6, 7, 3, 4, 8]
    assert unnamed(server) == []


def test_who_appends_to_what_is_replaced_meanwhile_is_told(server: Server) -> None:
    write(range(3))
    late = append(URL)
    fill(late, range(3, 5))
    write(range(7), overwrite=True)
    with pytest.raises(StaleError, match="another dataset"):
        late.close()
    assert numbers(server) == list(range(7))
    late = Writer(URL, SCHEMA, overwrite=True)
    fill(late, range(2))
    append_rows(range(7, 8))
    with pytest.raises(StaleError, match="another dataset"):
        late.close()
    assert numbers(server) == list(range(8))
    assert unnamed(server) == []


def test_a_writer_is_told_of_parts_without_a_manifest(server: Server) -> None:
    write(range(3))
    (folder(server) / "manifest.json").unlink()
    with pytest.raises(ExistsError, match="or is at work"):
        write(range(3))


def test_what_may_be_published_is_not_removed(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    asked = 0

    def fault(request: Request) -> Fault | None:
        nonlocal asked
        asked += request.method == "PUT" and request.key.endswith("manifest.json")
        return Fault(late=request.method == "PUT", hang_up=request.method != "PUT") if asked else None

    server.fault = fault
    with pytest.raises(OSError, match="did not say whether this was published") as raised:
        write(range(3))
    assert raised.value.filename == f"{URL}/manifest.json"
    server.fault = lambda request: None
    assert numbers(server) is None
    server.do_late()
    assert numbers(server) == [0, 1, 2]


def test_a_store_without_conditional_puts_is_told_of(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CONDITIONAL_PUT", "disabled")
    with pytest.warns(UserWarning, match="no conditional puts"):
        write(range(3))
    assert numbers(server) == [0, 1, 2]
    first = append(URL)
    fill(first, range(3, 4))
    with pytest.warns(UserWarning, match="no conditional puts"):
        append_rows(range(4, 5))
    with pytest.warns(UserWarning, match="no conditional puts"):
        first.close()
    assert numbers(server) == [0, 1, 2, 4, 3]


def test_conversions_write_to_a_store(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "in.csv"
    source.write_text("a,b\n" + "".join(f"{i},x{i}\n" for i in range(500)))
    assert main(["write", str(source), URL, "--index", "a", "--workers", "2", "--max-part-bytes", "2kB"]) == 0
    assert "wrote 500 rows" in capsys.readouterr().out
    with UniRecordDataset(folder(server), shuffle=False) as ds:
        assert [int(ds[i]["a"]) for i in (0, 250, 499)] == [0, 250, 499]
    assert main(["write", str(source), URL]) != 0
    assert "--overwrite replaces it, --append adds to a directory" in capsys.readouterr().err
    assert main(["write", str(source), URL, "--append"]) == 0
    assert unirecord.write_dataset(source, URL, overwrite=True) == 500
    assert unnamed(server) == spooled(server) == []


def test_a_conversion_that_fails_leaves_nothing(server: Server) -> None:
    def rows() -> Iterator[dict[str, Any]]:
        for i in range(2_000):
            yield {"a": i if i < 1_900 else "text", "b": bytes(5_000)}

    with pytest.raises(SchemaError):
        unirecord.write_dataset(rows, URL, schema={"a": "int32", "b": "bytes"}, max_part_bytes="1MB")
    assert any(request.key.endswith(".urec") for request in server.requests)
    assert not folder(server).exists() or unnamed(server) == []
    assert spooled(server) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"split": {"x": 0.5, "y": 0.5}, "resume": True}, "not gone on with in an object store"),
        ({"on_error": "report"}, "a report is written to a disk only"),
        ({"id": bytes(16)}, "leave it out"),
    ],
    ids=str,
)
def test_what_a_store_cannot_have_is_refused(
    server: Server, tmp_path: Path, options: dict[str, Any], said: str
) -> None:
    (tmp_path / "in.csv").write_text("a\n1\n")
    with pytest.raises((UniRecordError, ValueError), match=said):
        unirecord.write_dataset(tmp_path / "in.csv", URL, **options)
    assert not [request for request in server.requests if request.method not in ("GET", "HEAD")]
    assert spooled(server) == []


@pytest.mark.parametrize(
    ("url", "said"),
    [("s3://bucket/one.urec", "directories of parts"), ("https://host/train", "only read")],
)
def test_what_cannot_be_written_to_is_said(server: Server, url: str, said: str) -> None:
    with pytest.raises(UniRecordError, match=said):
        Writer(url, {"a": "int32"})


def test_versions_are_kept_in_a_store_too(server: Server) -> None:
    write(range(2))
    append_rows(range(2, 3))
    append_rows(range(3, 5))
    kept = sorted(name for name in os.listdir(folder(server)) if name.startswith("manifest-"))
    assert kept == ["manifest-000001", "manifest-000002"]
    for number, rows in ((1, 2), (2, 3), (3, 5)):
        with UniRecordDataset(URL, version=number) as dataset:
            assert [int(row["n"]) for row in dataset] == list(range(rows))
    assert [(one.number, one.rows, one.command) for one in unirecord.versions(URL)] == [
        (1, 2, "write"), (2, 3, "append"), (3, 5, "append")
    ]  # fmt: skip
    [first, *_] = unirecord.versions(URL)
    [part] = read_version(folder(server), 1).parts
    assert first.when == int(os.path.getmtime(os.path.join(folder(server), part.name)))
    with pytest.raises(unirecord.MissingError, match="version 4 is not kept; there are 1, 2, 3"):
        UniRecordDataset(f"{URL}@4")
    write(range(7, 9), overwrite=True)
    assert [one.number for one in unirecord.versions(URL)] == [4]
    assert len(os.listdir(folder(server))) == 3
