"""The list of a dataset's parts in pieces: what is written and read, and what becomes of each piece."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import faults
import pytest
from listed_pieces import DIGEST, empty, entry, hostile_pieces, mixed
from objectstore import Server
from reference_directory import read_directory
from reference_rules import wide_digest
from written_store import URL, append_rows, folder, killed_at_every_request, numbers, served, write

import unirecord
from unirecord.errors import CorruptionError, FormatError, UniRecordError
from unirecord.snapshot import manifest, part_list
from unirecord.snapshot.manifest import Manifest
from unirecord.snapshot.part_list import PartList, decode_piece, encode_piece, piece_name

MOST_BYTES = 64 << 10


def publication(before: Manifest, count: int) -> tuple[Manifest, dict[str, bytes], int]:
    """The version after ``before`` with so many parts more: its new pieces, and the bytes that are written."""
    first = before.next_part
    more = [entry(number) for number in range(first, first + count)]
    after = replace(
        before,
        generation=before.generation + 1,
        next_part=first + count,
        parts=part_list.appended(before.parts, more),
    )
    after, made = manifest.divided(after, before)
    return after, made, len(manifest.encode(after)) + sum(map(len, made.values()))


def test_every_publication_into_a_hundred_thousand_parts_writes_64_kb_at_most() -> None:
    found, _, _ = publication(empty(), 100_000)
    written = []
    for _ in range(3 * part_list.MOST_IN_TEXT):
        found, _, size = publication(found, 1)
        written.append(size)
    assert max(written) <= MOST_BYTES
    assert len(found.parts) == 100_000 + len(written)
    for count in (2, 50, 128, 129, 500):
        found, made, size = publication(found, count)
        assert size <= MOST_BYTES
        assert len(made) <= 1


@pytest.mark.parametrize("count", [1, 3, 100, 400, 1_000])
def test_a_list_that_grows_is_written_once_and_never_again(count: int) -> None:
    """What a publication writes follows its own parts, whatever was there; pieces are full, and stay as they are."""
    found, kept, most = empty(), set[str](), 0
    for _ in range(20_000 // count):
        before = found
        found, made, size = publication(before, count)
        own = 60 * count + MOST_BYTES
        assert size <= own
        assert isinstance(found.parts, PartList)
        names = {piece_name(piece.digest) for piece in found.parts.pieces}
        gone = kept - names
        assert len(gone) <= 1
        assert names - kept == set(made)
        kept = names
        most = max(most, len(names))
    assert len(found.parts) == 20_000 // count * count
    assert most <= 2 + 2 * 20_000 // part_list.MOST_IN_PIECE


@pytest.mark.parametrize("seed", range(5))
def test_a_piece_comes_back(seed: int) -> None:
    parts = mixed(seed)
    content = encode_piece(parts, b"d" * 16, seed)
    digest = wide_digest(content).hex()
    piece = decode_piece(content, digest, b"d" * 16, len(parts), sum(part.rows for part in parts), "p")
    listed = PartList([piece], [], DIGEST, ["a" * 32, "b" * 32])
    assert list(listed) == parts
    assert listed.rows == sum(part.rows for part in parts)
    assert listed.deleted == sum(part.deleted is not None for part in parts)
    assert listed.fields.names == tuple(part.name for part in parts)
    assert [type(value) for value in listed[0]] == [type(value) for value in parts[0]]


# Directories whose lists are in pieces of a few parts.


@pytest.fixture(autouse=True)
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "tmp_path" in request.fixturenames:
        monkeypatch.setattr(part_list, "MOST_IN_PIECE", 5)
        monkeypatch.setattr(part_list, "MOST_IN_TEXT", 2)


def grow(path: Path, n: int) -> None:
    with unirecord.append(path) as writer:
        writer.write({"n": n})


def grown(path: Path, parts: int) -> Path:
    with unirecord.Writer(path, {"n": "int64"}) as writer:
        writer.write({"n": 0})
    for n in range(1, parts):
        grow(path, n)
    return path


def seen(path: Path | str, **options: Any) -> list[int]:
    with unirecord.UniRecordDataset(path, **options) as dataset:
        return [row["n"] for row in dataset]


def pieces(path: Path) -> set[str]:
    return {name for name in os.listdir(path) if name.startswith("parts-")}


def named(path: Path, name: str = "manifest.json") -> set[str]:
    listed = json.loads((path / name).read_text())
    return {f"parts-{piece['digest']}" for piece in listed.get("pieces", [])}


def referenced(path: Path) -> int:
    """Rows that the reader by the page finds."""
    return sum(len(part.raw) - len(part.deleted) for part in read_directory(path))


def test_a_directory_with_pieces_is_read_in_all_its_versions(tmp_path: Path) -> None:
    path = grown(tmp_path / "x", 17)
    assert len(named(path)) >= 3
    assert seen(path) == list(range(17))
    assert referenced(path) == 17
    assert unirecord.verify(path).ok
    for version in (1, 3, 4, 8, 9, 16, 17):
        assert seen(f"{path}@{version}") == list(range(version))
    with unirecord.UniRecordDataset(path) as dataset:
        assert [row["n"] for row in pickle.loads(pickle.dumps(dataset))] == list(range(17))
        if (child := os.fork()) == 0:
            os._exit(0 if [row["n"] for row in dataset] == list(range(17)) else 1)
        assert os.waitpid(child, 0)[1] == 0


def test_gc_keeps_what_a_version_names_and_removes_what_none_does(tmp_path: Path) -> None:
    path = grown(tmp_path / "x", 17)
    kept = {name for one in os.listdir(path) if one.startswith("manifest") for name in named(path, one)}
    assert pieces(path) == kept
    unirecord.gc(path, keep=1)
    assert pieces(path) == named(path)
    assert seen(path) == list(range(17))
    (path / f"parts-{'0' * 32}").write_bytes(b"left by a writer that was killed")
    grow(path, 17)
    assert pieces(path) >= named(path)
    assert f"parts-{'0' * 32}" not in pieces(path)


def test_gc_leaves_the_pieces_of_a_version_that_is_open(tmp_path: Path) -> None:
    path = grown(tmp_path / "x", 9)
    with unirecord.UniRecordDataset(path) as dataset:
        for n in range(9, 17):
            grow(path, n)
        unirecord.gc(path, keep=1)
        manifest._kept_pieces.clear()
        assert [row["n"] for row in dataset] == list(range(9))
        assert seen(f"{path}@9") == list(range(9))


def deleted(path: Path) -> list[int]:
    unirecord.delete(path, where="n == 3")
    return [n for n in range(17) if n != 3]


def compacted(path: Path) -> list[int]:
    unirecord.compact(path)
    return list(range(17))


def added(path: Path) -> list[int]:
    unirecord.add_columns(path, {"twice": "int64"}, lambda row: {"twice": 2 * row["n"]})
    assert [row["twice"] for row in unirecord.UniRecordDataset(path)] == [2 * n for n in range(17)]
    return list(range(17))


def renamed(path: Path) -> list[int]:
    unirecord.rename_columns(path, {"n": "m"})
    unirecord.rename_columns(path, {"m": "n"})
    return list(range(17))


def evicted(path: Path) -> list[int]:
    size = sum(part.bytes + part.index_bytes for part in manifest.read(f"{path}/manifest.json").parts)
    unirecord.evict(path, max_bytes=size * 10 // 17)
    left = seen(path)
    assert 8 <= len(left) <= 10
    return list(range(17 - len(left), 17))


def restored(path: Path) -> list[int]:
    unirecord.restore(path, 9)
    return list(range(9))


def purged(path: Path) -> list[int]:
    unirecord.purge(path, where="n == 5")
    return [n for n in range(17) if n != 5]


CHANGES: list[Callable[[Path], list[int]]] = [deleted, compacted, added, renamed, evicted, restored, purged]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_every_change_of_a_directory_with_pieces_is_read_by_the_page_and_can_be_grown(
    tmp_path: Path, change: Callable[[Path], list[int]]
) -> None:
    path = grown(tmp_path / "x", 17)
    expected = change(path)
    for n in range(100, 106):
        manifest._kept_pieces.clear()
        assert sorted(seen(path)) == sorted(expected)
        assert referenced(path) == len(expected)
        if "twice" in unirecord.UniRecordDataset(path).schema:
            with unirecord.append(path) as writer:
                writer.write({"n": n, "twice": 2 * n})
        else:
            grow(path, n)
        expected = [*expected, n]
    assert unirecord.verify(path).ok
    unirecord.gc(path, keep=1)
    assert pieces(path) == named(path)
    assert sorted(seen(path)) == sorted(expected)


def test_a_change_of_one_part_writes_one_piece_anew(tmp_path: Path) -> None:
    path = grown(tmp_path / "x", 17)
    before = named(path)
    unirecord.delete(path, where="n == 3")
    assert len(before - named(path)) == len(named(path) - before) == 1


def test_a_reader_and_a_writer_read_each_piece_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = grown(tmp_path / "x", 17)
    manifest._kept_pieces.clear()
    asked: list[str] = []
    real = manifest.read_file

    def counted(file: str, most: int) -> bytes:
        asked.append(os.path.basename(file))
        return real(file, most)

    monkeypatch.setattr(manifest, "read_file", counted)
    assert seen(path) == list(range(17))
    assert {name for name in asked if name.startswith("parts-")} == named(path)
    asked.clear()
    assert seen(path) == list(range(17))
    assert not [name for name in asked if name.startswith("parts-")]
    monkeypatch.undo()
    before = named(path)
    done = os.fork()
    if done == 0:  # another process publishes
        part_list.MOST_IN_PIECE, part_list.MOST_IN_TEXT = 5, 2
        for n in range(17, 21):
            grow(path, n)
        os._exit(0)
    assert os.waitpid(done, 0)[1] == 0
    monkeypatch.setattr(manifest, "read_file", counted)
    assert seen(path) == list(range(21))
    assert {name for name in asked if name.startswith("parts-")} == named(path) - before


# What is wrong with a piece, and what was left of one.


def taken_by(path: Path) -> bool:
    manifest._kept_pieces.clear()
    try:
        manifest.read(str(path / "manifest.json"))
    except (FormatError, CorruptionError):
        return False
    return True


def test_a_piece_that_is_missing_cut_or_changed_is_named(tmp_path: Path) -> None:
    path = grown(tmp_path / "x", 9)
    name = sorted(named(path))[0]
    whole = (path / name).read_bytes()
    (path / name).unlink()
    manifest._kept_pieces.clear()
    with pytest.raises(CorruptionError, match=rf"{name}: this file, which lists .* is missing"):
        seen(path)
    report = unirecord.verify(path)
    assert any(name in str(problem) for problem in report.problems)
    for size in range(len(whole)):
        (path / name).write_bytes(whole[:size])
        assert not taken_by(path)
    for at in range(len(whole)):
        (path / name).write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert not taken_by(path)
    with pytest.raises(CorruptionError, match=rf"{name}: the digest"):
        seen(path)
    saved = unirecord.repair(path, output=tmp_path / "saved")
    assert saved.kept == 9
    assert sorted(seen(tmp_path / "saved")) == list(range(9))


def test_hostile_pieces_are_an_error_of_ours_in_bounded_memory(tmp_path: Path) -> None:
    taken = 0
    for content, text in hostile_pieces(1):
        digest = json.loads(text)["pieces"][0]["digest"]
        (tmp_path / f"parts-{digest}").write_bytes(content)
        (tmp_path / "manifest.json").write_bytes(text)
        taken += taken_by(tmp_path)
        with pytest.raises(UniRecordError):
            unirecord.UniRecordDataset(tmp_path)
    assert 20 <= taken < 300


def test_an_append_killed_at_any_call_leaves_whole_versions_and_no_stray_piece(tmp_path: Path) -> None:
    with faults.unsynced():
        grown(tmp_path / "0", 8)
    folded, at, alive = 0, 0, True
    while alive:
        at += 1
        path = tmp_path / str(at)
        with faults.unsynced():
            path.mkdir()
            for name in os.listdir(tmp_path / "0"):
                if os.path.isfile(tmp_path / "0" / name):
                    os.link(tmp_path / "0" / name, path / name)
            before = named(path)
        alive = faults.killed(lambda path=path: grow(path, 8), at, torn=False)  # type: ignore[misc]
        manifest._kept_pieces.clear()
        assert seen(path) in (list(range(8)), list(range(9))), at
        folded += named(path) != before
        with faults.unsynced():
            there = seen(path)
            grow(path, 99)
            assert seen(path) == [*there, 99]
            unirecord.gc(path, keep=1)
        assert pieces(path) == named(path), at
        assert not [name for name in os.listdir(path) if name.endswith(".tmp") and "parts-" in name]
    assert folded
    assert at > 20


# Pieces in an object store.


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    yield from served(tmp_path, monkeypatch)


def grown_in_store(count: int) -> None:
    write(range(1))
    for n in range(1, count):
        append_rows(range(n, n + 1))


def kept_pieces(server: Server) -> set[str]:
    """Those that some manifest names."""
    names = [name for name in os.listdir(folder(server)) if name.startswith("manifest")]
    return {piece for name in names for piece in named(folder(server), name)}


def test_pieces_in_a_store_are_read_and_collected(server: Server) -> None:
    grown_in_store(13)
    assert len(named(folder(server))) >= 2
    assert pieces(folder(server)) == kept_pieces(server)
    manifest._kept_pieces.clear()
    with unirecord.UniRecordDataset(URL) as dataset:
        assert [row["n"] for row in dataset] == list(range(13))
    server.requests.clear()
    with unirecord.UniRecordDataset(URL) as dataset:
        assert len(dataset) == 13
    assert not [request for request in server.requests if "/parts-" in request.key]
    for version in (1, 3, 6, 7):
        with unirecord.UniRecordDataset(f"{URL}@{version}") as dataset:
            assert len(dataset) == version
    (folder(server) / f"parts-{'0' * 32}").write_bytes(b"left by a writer that was killed")
    unirecord.gc(URL, keep=1, older_than=0)
    assert pieces(folder(server)) == named(folder(server))
    assert numbers(server) == list(range(13))


def test_who_publishes_second_in_a_store_leaves_no_piece_of_the_first_try(server: Server) -> None:
    grown_in_store(8)  # the next one makes a piece
    with unirecord.append(URL) as second:
        second.write({"n": 9, "b": b""})
        append_rows(range(8, 9))
    assert numbers(server) == list(range(10))
    assert pieces(folder(server)) == kept_pieces(server)


def test_an_append_to_a_store_that_dies_at_any_request_loses_no_piece(server: Server) -> None:
    grown_in_store(8)
    seen_rows = set()
    for number, failed in killed_at_every_request(server, lambda: append_rows(range(8, 9)), most=60):
        manifest._kept_pieces.clear()
        found = numbers(server)
        assert found in (list(range(8)), list(range(9))), number
        assert failed or found == list(range(9))
        seen_rows.add(len(found))
        append_rows(range(99, 100))
        assert numbers(server) == [*found, 99]
        unirecord.gc(URL, keep=1, older_than=0)
        assert pieces(folder(server)) == named(folder(server)), number
        assert numbers(server) == [*found, 99]
    assert seen_rows == {8, 9}
