"""Rows deleted of datasets in an object store, versions restored: done or not, whichever request was the last."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from objectstore import Server
from written_store import URL, append_rows, folder, killed_at_every_request, served, write

import unirecord
from unirecord import UniRecordDataset, restore, verify
from unirecord.cli import main
from unirecord.storage import object_store

server = pytest.fixture(served)


def seen(path: str = URL, **options: int) -> list[int]:
    with UniRecordDataset(path, shuffle=False, **options) as ds:
        return [int(row["n"]) for row in ds]


def deletion_files(server: Server) -> list[str]:
    return sorted(path.name for path in folder(server).glob("*.del-*"))


def test_delete_restore_and_log_go_as_on_a_disk(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    write(range(5))
    append_rows(range(5, 9))
    assert main(["delete", URL, "--where", "n >= 3 and n < 6"]) == 0
    assert unirecord.delete(URL, rows=[8]).version == 4
    left = [0, 1, 2, 6, 7]
    assert seen() == left
    assert seen(version=3) == [*left, 8]
    assert seen(f"{URL}@2") == list(range(9))
    assert len(deletion_files(server)) == 3
    assert main(["inspect", URL, "--where", "n < 7", "--count"]) == 0
    assert capsys.readouterr().out.split()[-1] == "4"
    assert restore(URL, 3) == 5
    assert seen() == [*left, 8]
    assert [one.command for one in unirecord.versions(URL)] == [
        "write",
        "append",
        "delete",
        "delete",
        "restore",
    ]
    assert verify(URL).ok
    with pytest.raises(IndexError, match="row 4 has been deleted already"):
        unirecord.delete(URL, rows=[4])
    assert unirecord.delete(URL, where="n > 100") == unirecord.Deleted(0, 5)


def test_who_deletes_while_others_publish_looks_again(server: Server) -> None:
    write(range(6))
    others: list[Callable[[], object]] = [
        lambda: append_rows(range(6, 9)),
        lambda: unirecord.delete(URL, rows=[1]),
    ]

    original = object_store.ObjectWrites.put_if

    def put_if(self: object_store.ObjectWrites, url: str, content: bytes, before: object) -> object:
        found = original(self, url, content, before)  # type: ignore[arg-type]
        if ".del-" in url and others:
            others.pop()()
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(object_store.ObjectWrites, "put_if", put_if)
        assert unirecord.delete(URL, where="n < 3 or n == 7").rows == 3
    assert seen() == [3, 4, 5, 6, 8]
    assert verify(URL).ok


def test_every_request_failing_in_turn_deletes_or_does_not(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    write(range(6))
    outcomes = set()
    for _ in killed_at_every_request(server, lambda: unirecord.delete(URL, where="n < 2"), most=60):
        found = seen()
        assert found in (list(range(6)), list(range(2, 6)))
        outcomes.add(len(found))
        if deletion_files(server) and len(found) == 6:  # of a process that did not live to publish it
            unirecord.delete(URL, where="n < 2")
            assert seen() == list(range(2, 6))
    assert outcomes == {4, 6}
    assert "could not be deleted" in capsys.readouterr().err
