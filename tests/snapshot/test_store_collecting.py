"""`gc` in an object store: what nobody can still read goes, and nothing that is published meanwhile is hurt."""

from __future__ import annotations

import json
import math
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from objectstore import Fault, Request, Server
from written_store import URL, append_rows, fill, folder, served, write

import unirecord
from unirecord import (
    BusyError,
    MissingError,
    StaleError,
    UniRecordDataset,
    UniRecordError,
    append,
    restore,
    verify,
)
from unirecord.cli import main
from unirecord.storage.pacing import Durations
from unirecord.writing import garbage

server = pytest.fixture(served)
STEP = 1 if os.environ.get("UNIRECORD_STEPS") else 3  # of the requests at which something happens


def seen(path: str = URL, **options: int) -> list[int]:
    with UniRecordDataset(path, shuffle=False, **options) as ds:
        return [int(row["n"]) for row in ds]


def numbers() -> list[int]:
    return [one.number for one in unirecord.versions(URL)]


def changed() -> dict[int, list[int]]:
    """Versions 1 [0], 2 [0, 1], 3 [0] again, 4 [0, 2]; the part of 1 alone is in version 2."""
    write(range(1))
    append_rows(range(1, 2))
    restore(URL, 1)
    append_rows(range(2, 3))
    return {1: [0], 2: [0, 1], 3: [0], 4: [0, 2]}


def put_back(server: Server, kept: dict[str, bytes]) -> None:
    for path in folder(server).iterdir():
        path.unlink()
    for name, content in kept.items():
        (folder(server) / name).write_bytes(content)


def objects(server: Server) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder(server).iterdir()}


def age(server: Server, days: float, *names: str) -> None:
    for name in names or [path.name for path in folder(server).iterdir()]:
        then = time.time() - days * 86_400
        os.utime(folder(server) / name, (then, then))


def check(server: Server, content: dict[int, list[int]]) -> list[int]:
    """Every version that is there has its rows; and nothing is lost when the next one collects."""
    there = numbers()
    assert [seen(version=number) for number in there] == [content[number] for number in there]
    assert verify(URL).ok
    unirecord.gc(URL, keep=1, older_than=0)
    assert seen() == content[there[-1]]
    left = {path.name.removesuffix(".idx") for path in folder(server).iterdir()} - {"manifest.json"}
    named = unirecord.snapshot.manifest.read(str(folder(server) / "manifest.json")).parts
    assert left == {part.name for part in named}
    return there


def test_what_only_removed_versions_name_goes(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    content = changed()
    there = objects(server)
    found = unirecord.gc(URL, keep=2, older_than=timedelta(0), dry_run=True)
    assert (found.removed, found.kept, found.parts, found.in_use) == ((1, 2), (3, 4), 1, ())
    assert objects(server) == there
    assert main(["gc", URL, "--keep", "2", "--older-than", "0s", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["removed"], said["bytes"]) == ([1, 2], found.bytes)
    assert len(objects(server)) == len(there) - 4
    assert [seen(version=number) for number in numbers()] == [content[3], content[4]]
    puts = len(server.requests)
    assert unirecord.gc(URL, keep=2, older_than=0).parts == 0
    assert not any(request.method == "PUT" for request in server.requests[puts:])
    append_rows(range(3, 4))
    check(server, {3: [0], 4: [0, 2], 5: [0, 2, 3]})


def test_what_may_be_read_or_written_stays(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version is as old as the one after it: until then it was opened as the newest."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(int(time.time() - 9 * 86_400)))
    changed()
    (folder(server) / "part-000009-00000000.urec").write_bytes(b"of a writer that was killed")
    (folder(server) / "part-000009-00000000.urec.del-000099").write_bytes(b"of one that deletes now")
    age(server, 9)
    age(server, 5, "manifest-000002", "part-000009-00000000.urec")
    found = unirecord.gc(URL, keep=1, older_than=timedelta(days=7), dry_run=True)
    assert (found.removed, found.parts) == ((1, 3), 0)
    assert unirecord.gc(URL, keep=1, older_than=timedelta(days=10)).removed == ()
    monkeypatch.undo()


def test_young_publications_keep_the_version_before(server: Server) -> None:
    changed()
    age(server, 9)
    assert unirecord.gc(URL, keep=1, older_than=timedelta(days=7)).removed == ()


def test_what_it_does_not_take_is_said(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(MissingError, match="no such file or directory"):
        unirecord.gc(URL, older_than=0)
    write(range(1))
    with pytest.raises(ValueError, match="older_than says how long readers"):
        unirecord.gc(URL)
    assert main(["gc", URL]) == 2
    assert "give --older-than" in capsys.readouterr().err
    assert unirecord.gc(URL, older_than=0, storage_options={"region": "us-east-1"}).removed == ()
    for call in (unirecord.gc, unirecord.versions):
        with pytest.raises(ValueError, match="this is on a disk"):
            call(folder(server), storage_options={"region": "x"})
    with pytest.raises(ValueError, match="no storage option 'regoin'"):
        unirecord.delete(URL, rows=[0], storage_options={"regoin": "x"})
    assert unirecord.delete(URL, rows=[0], storage_options={"region": "us-east-1"}).version == 2
    assert unirecord.restore(URL, 1, storage_options={"region": "us-east-1"}) == 3
    (folder(server) / "manifest-000001").write_text("{}")
    with pytest.raises(unirecord.FormatError, match="manifest-000001"):
        unirecord.gc(URL, keep=1, older_than=0)


@pytest.mark.parametrize("lost", [False, True])
def test_dead_at_any_request_it_leaves_whole_versions(server: Server, lost: bool) -> None:
    content = changed()
    kept, outcomes = objects(server), set()
    for number in range(1, 60, STEP):
        put_back(server, kept)
        count = 0

        def die(request: Request, number: int = number) -> Fault | None:
            nonlocal count
            count += 1
            is_it = count == number and lost and request.method != "GET"
            return Fault(lost=is_it, hang_up=not is_it) if count >= number else None

        server.fault = die
        with suppress(OSError, UniRecordError):
            unirecord.gc(URL, keep=1, older_than=0)
        server.fault = lambda request: None
        outcomes.add(len(check(server, content)))
        if count < number:
            break
    else:
        raise AssertionError("it makes more requests than that")
    assert {1, 4} <= outcomes


OTHERS: dict[str, tuple[Callable[[], object], list[int]]] = {
    "append": (lambda: append_rows(range(3, 4)), [0, 2, 3]),
    "delete": (lambda: unirecord.delete(URL, rows=[1]), [0]),
    "restore": (lambda: restore(URL, 2), [0, 1]),
    "gc": (lambda: unirecord.gc(URL, keep=2, older_than=0), [0, 2]),
    "overwrite": (lambda: write(range(5, 7), overwrite=True), [5, 6]),
}


def between(server: Server, number: int, one: Callable[[], object], other: Callable[[], object]) -> int:
    """Does ``one``, and ``other`` just before its ``number``-th request is answered; how many requests there were.

    No request is made a second time because it is late: the copy would be answered before ``other`` has ended.
    """
    count, busy, done = 0, False, threading.Event()

    def interfere(request: Request) -> Fault | None:
        nonlocal count, busy
        if not busy:
            count += 1
            if count == number:
                busy = True
                return Fault(before=alone)
        return None

    def alone() -> None:
        nonlocal busy
        try:
            other()
        finally:
            busy = False
            done.set()

    server.fault = interfere
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Durations, "long", lambda *_: math.inf)
        try:
            one()
        finally:
            if count >= number:
                done.wait()
            server.fault = lambda request: None
    return count


@pytest.mark.parametrize("what", OTHERS)
def test_what_is_published_at_any_request_of_it_stays(server: Server, what: str) -> None:
    other, after = OTHERS[what]
    changed()
    kept, told = objects(server), 0
    for number in range(1, 60, STEP):
        put_back(server, kept)
        errors: list[Exception] = []
        count = between(server, number, lambda: unirecord.gc(URL, keep=1, older_than=0), noted(other, errors))
        if count < number:
            break
        told += len(errors)
        assert all(isinstance(error, (StaleError, MissingError)) for error in errors), errors
        assert seen() == ([0, 2] if errors else after), (number, errors)
        assert verify(URL).ok
    else:
        raise AssertionError("it makes more requests than that")
    assert number > 8
    assert told or what != "restore"  # of a version that is being removed


def noted(work: Callable[[], object], errors: list[Exception]) -> Callable[[], None]:
    def do() -> None:
        try:
            work()
        except Exception as error:
            errors.append(error)

    return do


@pytest.mark.parametrize("what", OTHERS)
def test_whoever_publishes_while_it_collects_has_published_or_is_told(server: Server, what: str) -> None:
    """With no age at all it takes the parts of live writers for those of dead ones."""
    other, after = OTHERS[what]
    changed()
    kept, outcomes = objects(server), set()
    for number in range(1, 80, STEP):
        put_back(server, kept)
        told = False

        def work() -> None:
            nonlocal told
            try:
                other()
            except (StaleError, MissingError):
                told = True

        collect: list[Exception] = []
        count = between(server, number, work, noted(lambda: unirecord.gc(URL, keep=1, older_than=0), collect))
        if count < number:
            break
        outcomes.add(told)
        assert seen() == ([0, 2] if told else after), number
        assert verify(URL).ok
        assert all(isinstance(error, MissingError) for error in collect), collect
    else:
        raise AssertionError("it makes more requests than that")
    assert outcomes == {"append": {False, True}, "overwrite": {False, True}, "restore": {True}}.get(
        what, {False}
    )


def test_a_conversion_that_was_stopped_keeps_its_parts(server: Server, tmp_path: Path) -> None:
    write(range(1))
    with append(URL) as writer:
        fill(writer, range(1, 3))
    part = "part-000007-0badcafe.urec"
    (folder(server) / part).write_bytes(b"x")
    from unirecord.snapshot.manifest import part_id

    dataset_id = bytes(range(16))
    own = f"part-000007-{part_id(dataset_id, 7)[:4].hex()}.urec"
    (folder(server) / own).write_bytes(b"x")
    plan = {"id": dataset_id.hex(), "first": 7, "what": {}, "files": {}, "state": "begun"}
    (folder(server) / f".conversion-{dataset_id[:4].hex()}.json").write_text(json.dumps(plan))
    assert unirecord.gc(URL, keep=1, older_than=0).parts == 1
    assert not (folder(server) / part).exists()
    assert (folder(server) / own).exists()


def test_where_others_publish_all_the_time_it_says_so_and_a_later_call_collects(
    server: Server,
) -> None:
    content, said = changed(), garbage._said
    rows = iter(range(3, 100))

    def after_another(*given: Any) -> Any:
        append_rows(range(row := next(rows), row + 1))
        return said(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(garbage, "_ATTEMPTS", 3)
        patch.setattr(garbage, "_said", after_another)
        with pytest.raises(
            BusyError, match="others have published here 3 times while this looked; try again later"
        ):
            unirecord.gc(URL, keep=2, older_than=0)
    assert numbers() == [1, 2, 3, 4, 5, 6, 7]
    assert unirecord.gc(URL, keep=2, older_than=0).removed == (1, 2, 3, 4, 5)
    check(server, content | {6: [0, 2, 3, 4], 7: [0, 2, 3, 4, 5]})
