"""Conversions to an object store that were stopped: gone on with to the same bytes as on a disk, or given up whole."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from numbers_converted import check, files
from objectstore import Fault, Request, Server
from objectstore_writing import uploads
from resumed_store import (
    ROWS,
    UNITS,
    check_published_whole,
    conversion,
    every_request,
    killed_at_random,
    small_tasks,
)
from written_store import URL, folder, numbers, served, spooled, write

from unirecord import CorruptionError, ExistsError, StaleError, append, write_dataset
from unirecord.cli import main
from unirecord.format import layout

server = pytest.fixture(served)


@pytest.fixture(autouse=True)
def _small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    small_tasks(monkeypatch)


def journal(server: Server) -> list[str]:
    return sorted(path.name for path in folder(server).glob(".*"))


def stopped(server: Server, place: Path, after: int, **options: object) -> list[str]:
    """A run that dies at the end of that many parts; the names of what it has left."""
    parts = 0

    def fault(request: Request) -> Fault | None:
        nonlocal parts
        parts += request.method == "PUT" and ".task-" in request.key
        return Fault(hang_up=True) if parts > after else None

    server.fault = fault
    with pytest.raises(OSError, match="bucket/train"):
        conversion(place, **options).run()
    server.fault = lambda request: None
    return sorted(files(folder(server)))


def test_killed_at_requests_it_goes_on_to_the_same_bytes(server: Server, tmp_path: Path) -> None:
    """Some of the requests, done and not; `make store-resumes` has each."""
    count = every_request(server, tmp_path, lambda: conversion(tmp_path), step=29)
    assert count > 25
    assert spooled(server) == []


@pytest.mark.parametrize("seed", [0])
def test_killed_any_number_of_times_it_goes_on(seed: int, server: Server, tmp_path: Path) -> None:
    deaths = killed_at_random(server, tmp_path, random.Random(seed), 25)
    assert deaths
    check_published_whole(server, tmp_path)
    assert spooled(server) == []


def test_what_is_finished_is_not_uploaded_again(server: Server, tmp_path: Path) -> None:
    left = [name for name in stopped(server, tmp_path, 3) if name.endswith(".urec")]
    server.requests.clear()
    told = []
    conversion(tmp_path).run(lambda standing: told.append((standing.resumed_rows, standing.rows)))
    put = Counter(request.key.rpartition("/")[2] for request in server.requests if request.method == "PUT")
    assert len(left) >= 3
    assert sum(put[name] for name in left) <= 1  # that which was on its way
    assert told[0][0] > 0
    assert told[-1][1] == ROWS
    check_published_whole(server, tmp_path)


@pytest.mark.parametrize("of", ["", ".idx"], ids=["data", "index"])
def test_a_part_that_is_not_what_was_uploaded_is_written_again(
    server: Server, tmp_path: Path, of: str
) -> None:
    left = [name for name in stopped(server, tmp_path, 3) if name.endswith(".urec")]
    for place, name in enumerate(left):
        content = (folder(server) / (name + of)).read_bytes()
        changed = content[:-1] if place == 0 else content[:20] + bytes([content[20] ^ 1]) + content[21:]
        (folder(server) / (name + of)).write_bytes(changed)
    conversion(tmp_path).run()
    check_published_whole(server, tmp_path)


def test_workers_go_on_too(server: Server, tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_text("a,b\n" + "".join(f"{i},{'x' * 400}{i}\n" for i in range(300)))
    options = ["--workers", "2", "--max-part-bytes", "30kB", "--index", "a"]
    server.fault = lambda request: Fault(
        hang_up=request.key.endswith("manifest.json") and request.method == "PUT"
    )
    assert main(["write", str(source), URL, *options]) != 0
    server.fault = lambda request: None
    server.requests.clear()
    assert main(["write", str(source), URL, "--resume", *options]) == 0
    assert not [request for request in server.requests if request.method == "PUT" and ".urec" in request.key]
    assert sorted(files(folder(server)))[0] == "manifest.json"
    with pytest.raises(ExistsError):
        write_dataset(source, URL)


def test_a_run_that_was_killed_when_it_had_published_is_taken_for_done(
    server: Server, tmp_path: Path
) -> None:
    published = False

    def fault(request: Request) -> Fault | None:
        nonlocal published
        lost = request.method == "PUT" and request.key.endswith("manifest.json")
        dead, published = published, published or lost
        return Fault(hang_up=dead, lost=lost)

    for options in ({}, {"append": True}, {"overwrite": True}):
        published, server.fault = False, fault
        with pytest.raises(OSError, match=r"manifest\.json"):
            conversion(tmp_path, **options).run()
        server.fault = lambda request: None
        assert journal(server)
        server.requests.clear()
        conversion(tmp_path, **options).run()
        assert journal(server) == []
        assert not [
            request for request in server.requests if request.method == "PUT" and ".urec" in request.key
        ]
        rows = ROWS * (2 if options == {"append": True} else 1)
        assert len(numbers(server) or []) == rows
    check(folder(server), ROWS)
    with pytest.raises(ExistsError):
        conversion(tmp_path).run()


def test_appending_goes_on_behind_what_others_have_appended(server: Server, tmp_path: Path) -> None:
    conversion(tmp_path).run()
    stopped(server, tmp_path, 3, append=True)
    assert len(numbers(server) or []) == ROWS
    conversion(tmp_path, units=[5], append=True, resume=False).run()  # which leaves the stopped one alone
    conversion(tmp_path, append=True).run()
    assert numbers(server) == [*range(ROWS), *range(5), *range(ROWS)]
    assert journal(server) == []


def test_what_was_another_conversion_is_said_and_stays(server: Server, tmp_path: Path) -> None:
    left = stopped(server, tmp_path, 3)
    with pytest.raises(StaleError, match="another conversion: its content"):
        conversion(tmp_path, units=[*UNITS, 3]).run()
    assert sorted(files(folder(server))) == left
    conversion(tmp_path).run()
    check_published_whole(server, tmp_path)


def test_what_is_left_of_a_conversion_is_named_and_goes_when_the_dataset_is_replaced(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conversion(tmp_path, units=[2]).run()
    left = [name for name in stopped(server, tmp_path, 3, append=True) if name.startswith((".", "part"))]
    assert "--resume (resume=True in Python) goes on with it" in capsys.readouterr().err
    conversion(tmp_path, units=[3], append=True, resume=False).run()
    said = capsys.readouterr().err
    assert "was stopped" in said
    assert any(name in said for name in left)
    assert set(left) < set(files(folder(server)))
    write(range(2), overwrite=True)
    assert numbers(server) == [0, 1]
    assert len(files(folder(server))) == 3
    with pytest.raises(ExistsError):
        conversion(tmp_path).run()


def test_a_conversion_that_lives_when_the_dataset_is_replaced_is_told(server: Server, tmp_path: Path) -> None:
    conversion(tmp_path, units=[3]).run()

    def replace() -> None:
        write(range(5), overwrite=True)

    with pytest.raises(StaleError, match="nothing of this one was published"):
        conversion(tmp_path, append=True).run(before_publishing=replace)
    assert numbers(server) == [0, 1, 2, 3, 4]
    assert len(files(folder(server))) == 3
    assert spooled(server) == uploads(server.root) == []


def test_of_two_runs_of_one_conversion_the_later_publishes_and_the_other_is_told(
    server: Server, tmp_path: Path
) -> None:
    def again() -> None:
        conversion(tmp_path).run()

    with pytest.raises(StaleError, match="another run has gone on"):
        conversion(tmp_path).run(before_publishing=again)
    check_published_whole(server, tmp_path)


def test_a_part_that_was_deleted_meanwhile_is_not_published(server: Server) -> None:
    write(range(3))
    before = sorted(files(folder(server)))
    late = append(URL)
    late.write({"n": 3, "b": bytes(3_000)})
    deleted = []

    def fault(request: Request) -> None:
        for path in folder(server).glob("part-*.urec"):
            if path.name not in before:
                deleted.append(path.name)
                path.unlink()

    server.fault = fault
    with pytest.raises(StaleError, match="was deleted meanwhile"):
        late.close()
    assert deleted
    assert sorted(files(folder(server))) == before


def test_parts_of_an_earlier_run_are_opened_before_they_are_published(server: Server, tmp_path: Path) -> None:
    left = [name for name in stopped(server, tmp_path, 3) if name.endswith(".urec")]

    def damage() -> None:  # of the second one, behind the head, which is compared when the part is taken over
        index = folder(server) / f"{left[-1]}.idx"
        changed = bytearray(index.read_bytes())
        changed[layout.INDEX_HEADER_BYTES + 8] ^= 1
        index.write_bytes(changed)
        server.requests.clear()

    with pytest.raises(CorruptionError, match=left[-1]):
        conversion(tmp_path).run(before_publishing=damage)
    assert "manifest.json" not in files(folder(server))
    asked = Counter(
        request.key.rpartition("/")[2].removesuffix(".idx")
        for request in server.requests
        if request.method == "GET" and ".urec" in request.key
    )
    assert asked.pop(left[-1]) <= 6  # what seems damaged is asked for again
    assert asked
    assert set(asked.values()) == {2}
    assert asked.keys() < set(left)
    conversion(tmp_path).run()
    check_published_whole(server, tmp_path)


def test_a_part_whose_index_is_not_answered_for_is_not_written_again(server: Server, tmp_path: Path) -> None:
    left = [name for name in stopped(server, tmp_path, 3) if name.endswith(".urec")]

    def there() -> dict[str, bytes]:
        return {name: content for name, content in files(folder(server)).items() if ".conversion" not in name}

    before = there()
    server.fault = lambda request: Fault(hang_up=True) if request.key.endswith(f"{left[-1]}.idx") else None
    with pytest.raises(OSError, match=left[-1]):
        conversion(tmp_path).run()
    assert there() == before
    server.fault = lambda request: None
    conversion(tmp_path).run()
    check_published_whole(server, tmp_path)
