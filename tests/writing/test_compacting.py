"""Rows laid out in other parts are the same rows: as values, in order, by number, and for a job that goes on."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import faults
import numpy as np
import partgen
import pytest
from changed_datasets import SCHEMAS, make, named_by, parts_of, row, seen, seen_versions
from partgen_bytes import Col, Spec
from reference import decode
from reference_directory import read_directory
from writing import files, same, write

import unirecord
from unirecord import CorruptionError, MissingError, StaleError, UniRecordDataset, UniRecordError
from unirecord.cli import main
from unirecord.snapshot import manifest
from unirecord.writing import part_writer, rewrite
from unirecord.writing.change import Interrupted


def second_reader(path: Path) -> list[int]:
    """The column "n", which is the first, as the reader made from the specification alone finds it."""
    return [
        decode(part.head.columns[0], raw[0])
        for part in read_directory(path)
        for number, raw in enumerate(part.raw)
        if number not in part.deleted
    ]


LAYOUTS: dict[str, tuple[Callable[[Path], Any], list[int]]] = {
    "one part": (unirecord.compact, [101]),
    "rows": (lambda path: unirecord.compact(path, rows_per_part=40), [40, 40, 21]),
    "shards": (lambda path: unirecord.reshard(path, 6), [16, 17, 17, 17, 17, 17]),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", SCHEMAS)
def test_rows_are_the_same_in_other_parts(tmp_path: Path, kind: str, layout: str) -> None:
    path, (change, expected) = make(tmp_path / "x", kind), LAYOUTS[layout]
    schema = SCHEMAS[kind]
    with faults.unsynced():
        unirecord.delete(path, rows=[0, 62, 63, 100])
        done = change(path)
    left = [n for n in range(101) if n not in (0, 62, 63, 100)]
    assert parts_of(path) == expected
    assert (done.version, done.parts_before, done.parts_after) == (6, 4, len(expected))
    with UniRecordDataset(path) as ds:
        assert ds.order.row_ids().tolist() == left
        same(list(ds), [row(schema, n) for n in left])
        assert ds.metadata == {"m": 1}
        assert len(ds.view(where="n == 40")) == 1
        assert ds.read_rows(np.array([99]))["n"].tolist() == [99]
    assert unirecord.verify(path).ok
    assert second_reader(path) == left
    assert seen(path, version=5) == left
    unirecord.gc(path, keep=1)
    assert seen(path) == left
    assert len([name for name in files(path) if name.endswith(".urec")]) == len(expected)


@pytest.mark.parametrize("shuffle", [False, True, "block"])
def test_a_job_goes_on_with_the_same_samples_in_the_same_order(tmp_path: Path, shuffle: Any) -> None:
    path = make(tmp_path / "x")
    unirecord.delete(path, where="n > 90")
    options = {"shuffle": shuffle, "seed": 4, "where": "n != 7"}
    with UniRecordDataset(path, **options) as before:
        before.exclude([11, 12])
        samples = iter(before)
        for _ in range(23):
            next(samples)
        state = json.loads(json.dumps(before.state_dict()))
        rest = [int(one["n"]) for one in samples]
        numbers = before.order.row_ids().tolist()
    for change, _ in LAYOUTS.values():
        change(path)
        with UniRecordDataset(path, **options) as after:
            after.load_state_dict(state)
            assert [int(one["n"]) for one in after] == rest
            after.set_epoch(0)
            assert after.order.row_ids().tolist() == numbers
            loader = after.batches(5)
            loader.load_state_dict(state)
            assert [n for batch in loader for n in batch["n"].tolist()] == rest
    unirecord.delete(path, rows=[50])
    with UniRecordDataset(path, **options) as other, pytest.raises(StaleError, match="identity"):
        other.load_state_dict(state)


@pytest.mark.parametrize("shuffle", [True, "block"])
def test_a_running_job_takes_other_parts_in_between_epochs(tmp_path: Path, shuffle: Any) -> None:
    path = make(tmp_path / "x")
    with UniRecordDataset(path, shuffle=shuffle) as running, UniRecordDataset(path, shuffle=shuffle) as left:
        unirecord.compact(path)
        assert running.refresh()
        for _ in range(3):
            assert [int(one["n"]) for one in running] == [int(one["n"]) for one in left]
        assert not running.refresh()


@pytest.mark.parametrize("shuffle", ["parts", "within-parts"])
def test_an_order_by_parts_is_of_its_parts(tmp_path: Path, shuffle: Any) -> None:
    path = make(tmp_path / "x")
    with UniRecordDataset(path, shuffle=shuffle) as before:
        state = before.state_dict()
        unirecord.compact(path)
    with UniRecordDataset(path, shuffle=shuffle) as after, pytest.raises(StaleError, match="identity"):
        after.load_state_dict(state)
    with UniRecordDataset(path, version=4, shuffle=shuffle) as kept:
        kept.load_state_dict(state)


def test_what_grows_after_that_has_an_order_of_its_own(tmp_path: Path) -> None:
    path = make(tmp_path / "x", "numbers", (5, 5))
    unirecord.compact(path)
    with UniRecordDataset(path) as two:
        state = two.state_dict()
    with unirecord.append(path) as writer:
        writer.write({"n": 10})
    with UniRecordDataset(path) as three, pytest.raises(StaleError):
        three.load_state_dict(state)
    with UniRecordDataset(path) as three:
        state = three.state_dict()
    unirecord.compact(path)
    with UniRecordDataset(path) as four:
        four.load_state_dict(state)
        assert seen(path) == list(range(11))


def test_parts_that_are_large_enough_stay(tmp_path: Path) -> None:
    path = make(tmp_path / "x", "numbers", (10, 10_000, 10, 10))
    names = [part.name for part in manifest.read(str(path / "manifest.json")).parts]
    planned = unirecord.compact(path, part_bytes=10_000, dry_run=True)
    assert parts_of(path) == [10, 10_000, 10, 10]
    assert planned == unirecord.compact(path, part_bytes="10 kB")
    assert (planned.parts_after, planned.written, planned.rows) == (3, 1, 20)
    assert parts_of(path) == [10, 10_000, 20]
    assert [part.name for part in manifest.read(str(path / "manifest.json")).parts][:2] == names[:2]
    assert unirecord.compact(path, part_bytes=10_000).version == planned.version
    assert len(unirecord.versions(path)) == 5


def test_cells_stay_compressed_where_dictionaries_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(tmp_path / "x", "compressed", (3, 4, 5))

    def refuse(*_: Any) -> None:
        raise AssertionError("a cell was compressed, or decompressed")

    monkeypatch.setattr(part_writer.Compressor, "add", refuse)
    monkeypatch.setattr(part_writer, "rows_as_batch", refuse)
    unirecord.compact(path)
    assert parts_of(path) == [12]
    same(list(UniRecordDataset(path)), [row(SCHEMAS["compressed"], n) for n in range(12)])


def test_parts_with_other_dictionaries_are_compressed_anew(tmp_path: Path) -> None:
    path, schema = tmp_path / "x", {"n": "int64", "t": {"type": "text", "codec": "zstd"}}
    words = [
        f"the {n % 31} is a {n % 17} of the {n % 7}, and what is said is said again" for n in range(4_000)
    ]
    with unirecord.Writer(path, schema) as writer:
        writer.write_batch({"n": np.arange(2_500), "t": words[:2_500]})
    with unirecord.append(path) as writer:
        writer.write_batch({"n": np.arange(2_500, 4_000), "t": [word.upper() for word in words[2_500:]]})
    dictionaries = [tuple(part.dictionaries.values()) for part in read_directory(path)]
    assert len(set(dictionaries)) == 2
    unirecord.compact(path)
    (part,) = read_directory(path)
    assert tuple(part.dictionaries.values()) == dictionaries[0]
    texts = [one["t"] for one in UniRecordDataset(path)]
    assert texts == words[:2_500] + [word.upper() for word in words[2_500:]]
    assert unirecord.verify(path).ok


def test_parts_of_other_padding_are_put_together(tmp_path: Path) -> None:
    path = tmp_path / "x"
    sizes = [10] * 50 + [3_000] * 60
    with unirecord.Writer(path, {"b": "bytes", "c": "bytes"}) as writer:
        for size in sizes[:50]:
            writer.write({"b": bytes([size % 251]) * size, "c": b"x"})
    with unirecord.append(path) as writer:
        for size in sizes[50:]:
            writer.write({"b": bytes([size % 251]) * size, "c": b"x"})
    unirecord.compact(path)
    assert [len(one["b"]) for one in UniRecordDataset(path)] == sizes
    assert unirecord.verify(path).ok
    read_directory(path)


@pytest.mark.parametrize("kind", ["numbers", "fixed", "variable", "compressed"])
def test_damage_is_said_and_not_carried_over(tmp_path: Path, kind: str) -> None:
    path = make(tmp_path / "x", kind, (5, 9))
    part = manifest.read(str(path / "manifest.json")).parts[1]
    there = files(path)
    whole = (path / part.name).read_bytes()
    found = set()
    for at in range(0, len(whole), 37):
        (path / part.name).write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        problem = refused(path)
        if problem is not None:
            assert part.name in str(problem), at
            found.add(type(problem))
            assert files(path) == there, at
            continue
        # zeros that no digest covers: what was published is as it was written
        (path / part.name).write_bytes(whole)
        assert unirecord.verify(path).ok, at
        assert seen(path) == list(range(14)), at
        shutil.rmtree(path)
        make(path, kind, (5, 9))
        part = manifest.read(str(path / "manifest.json")).parts[1]
        there, whole = files(path), (path / part.name).read_bytes()
    assert CorruptionError in found


def refused(path: Path) -> UniRecordError | None:
    try:
        unirecord.reshard(path, 3)
    except UniRecordError as error:
        return error
    return None


def test_a_damaged_row_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write(path, {"b": "bytes"}, [{"b": bytes([n]) * 5_000} for n in range(8)])
    (part,) = manifest.read(str(path / "manifest.json")).parts
    whole = bytearray((path / part.name).read_bytes())
    whole[whole.index(bytes([5]) * 5_000) + 100] ^= 1
    (path / part.name).write_bytes(whole)
    with pytest.raises(CorruptionError, match=rf"{part.name}: the bytes of row 5 ") as caught:
        unirecord.reshard(path, 2)
    assert caught.value.row == 5
    assert seen_versions(path) == [1]


@pytest.mark.parametrize("stops", ["damage", "Ctrl-C", "nothing"])
def test_parts_are_written_at_the_same_time_and_end_together(
    tmp_path: Path, stops: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six, each of two, on three threads: in their order, or none of them; what Ctrl-C left the next one gives up."""
    monkeypatch.setattr(rewrite, "usable_cores", lambda: 3)
    path = tmp_path / "x"
    with faults.unsynced():
        write(path, {"n": "int64", "b": "bytes"}, [{"n": 0, "b": b""}])
        for n in range(1, 12):
            with unirecord.append(path) as writer:
                writer.write({"n": n, "b": bytes([n]) * 5_000})
    there, told = sorted(files(path)), []
    if stops == "damage":
        part = manifest.read(str(path / "manifest.json")).parts[7]
        whole = bytearray((path / part.name).read_bytes())
        whole[whole.index(bytes([7]) * 5_000) + 100] ^= 1
        (path / part.name).write_bytes(whole)

    def progress(done: int, of: int) -> None:
        told.append((done, of))
        if stops == "Ctrl-C" and len(told) == 3:
            raise KeyboardInterrupt

    ways: dict[str, Any] = {"damage": CorruptionError, "Ctrl-C": Interrupted}
    with pytest.raises(ways[stops]) if stops in ways else nullcontext(), faults.unsynced():
        unirecord.compact(path, rows_per_part=2, progress=progress)
    if stops == "nothing":
        assert seen(path) == list(range(12))
        assert parts_of(path) == [2] * 6
        assert told == sorted(told)
        assert told[-1][0] == told[-1][1]
    else:
        left = sorted(name for name in files(path) if not name.startswith(".append-"))
        assert left == there
        assert (left != sorted(files(path))) == (stops == "Ctrl-C")
        if stops == "Ctrl-C":
            with faults.unsynced():
                assert unirecord.compact(path, rows_per_part=2).resumed == 0
            assert seen(path) == list(range(12))
            assert not [name for name in files(path) if name.startswith(".")]
    assert [thread for thread in threading.enumerate() if "rewrite" in thread.name] == []


def test_another_part_under_the_name_is_refused(tmp_path: Path) -> None:
    path, other = make(tmp_path / "x", "numbers", (5, 9)), make(tmp_path / "y", "numbers", (5, 9))
    one, two = (manifest.read(str(folder / "manifest.json")).parts[1].name for folder in (path, other))
    shutil.copy(other / two, path / one)
    with pytest.raises(CorruptionError, match="not the part that the manifest names"):
        unirecord.compact(path)


def test_what_is_asked_wrongly_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = make(tmp_path / "x", "numbers", (5, 9))
    wrong: list[dict[str, Any]] = [
        {"part_bytes": 1, "rows_per_part": 1},
        {"part_bytes": 0},
        {"rows_per_part": 0},
        {"rows_per_part": True},
        {"part_bytes": "x"},
    ]
    for options in wrong:
        with pytest.raises(ValueError, match=r"part|no size"):
            unirecord.compact(path, **options)
    for parts in (0, 15, 1.5):
        with pytest.raises(ValueError, match="parts"):
            unirecord.reshard(path, parts)  # type: ignore[arg-type]
    with pytest.raises(MissingError, match="no such file or directory"):
        unirecord.compact(tmp_path / "y")
    other = unirecord.Writer(path, {"n": "int64"}, overwrite=True)
    with pytest.raises(unirecord.BusyError):
        unirecord.compact(path)
    other.abort()
    assert main(["reshard", str(path), "99"]) == 2
    assert "a part has one row at least" in capsys.readouterr().err
    assert seen_versions(path) == [1, 2]


def test_the_commands_say_what_they_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = make(tmp_path / "x", "numbers", (5, 9))
    assert main(["compact", str(path), "--dry-run"]) == 0
    assert "version 3 would have 1 part in place of 2" in capsys.readouterr().out
    assert main(["compact", str(path), "--part-bytes", "1GB"]) == 0
    assert "version 3 has 1 part in place of 2; 1 part of 14 rows" in capsys.readouterr().out
    assert main(["compact", str(path)]) == 0
    assert "1 part stay as they are; nothing was published" in capsys.readouterr().out
    assert main(["reshard", str(path), "4", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["parts_after"] == 4
    assert [version.command for version in unirecord.versions(path)] == [
        "write",
        "append",
        "compact",
        "reshard",
    ]
    told: list[tuple[int, int]] = []
    unirecord.compact(path, progress=lambda done, total: told.append((done, total)))
    assert told
    assert told == sorted(told)


@pytest.mark.parametrize("said", [{}, {"identity": "x"}, None])
def test_nonsense_about_the_rows_is_refused(tmp_path: Path, said: Any) -> None:
    path = make(tmp_path / "x", "numbers", (5, 9))
    unirecord.compact(path)
    place = path / "manifest.json"
    found = manifest.read(str(place))
    whole = found.same_rows
    assert whole is not None
    wrong = (
        [{**whole, key: value} for key in whole for value in (-1, "g" * 32, None, [])]
        if said is None
        else [said]
    )
    for one in wrong:
        place.write_bytes(manifest.encode(replace(found, same_rows=one)))
        with pytest.raises(unirecord.FormatError, match="makes no sense"):
            UniRecordDataset(path)


def check_whole(path: Path, at: int) -> int:
    assert seen(path) == [n for n in range(14) if n != 3], at
    with faults.unsynced():
        unirecord.delete(path, rows=[13])
    named = {name for n in seen_versions(path) for name in named_by(path, n)}
    there = {name for name in files(path) if ".urec" in name and not name.endswith(".idx")}
    assert there == named, at
    return len(parts_of(path))


def small(path: Path) -> Path:
    make(path, "variable", (5, 9))
    with faults.unsynced():
        unirecord.delete(path, rows=[3])
    return path


def test_a_compaction_killed_at_any_call_is_done_or_not(tmp_path: Path) -> None:
    small(tmp_path / "0")
    at, alive, outcomes = 0, True, set()
    while alive:
        at += 1
        path = Path(shutil.copytree(tmp_path / "0", tmp_path / str(at)))
        alive = faults.killed(lambda path=path: unirecord.compact(path), at, torn=at % 2 == 0)  # type: ignore[misc]
        outcomes.add(check_whole(path, at))
        shutil.rmtree(path)
    assert at > 20
    assert outcomes == {1, 2}


def test_a_call_that_fails_in_a_compaction_leaves_nothing_behind(tmp_path: Path) -> None:
    small(tmp_path / "0")
    counted = Path(shutil.copytree(tmp_path / "0", tmp_path / "count"))
    with faults.system(faults.count_only) as watched:
        unirecord.compact(counted)
    for at in range(1, watched.count + 1):
        path = Path(shutil.copytree(tmp_path / "0", tmp_path / str(at)))
        there = files(path)
        with suppress(OSError), faults.system(faults.fail_at(at)):
            unirecord.compact(path)
        if len(parts_of(path)) == 2:
            assert {name for name in files(path) if ".urec" in name} <= set(there) or at < 4, at
        check_whole(path, at)
        shutil.rmtree(path)


@pytest.mark.parametrize(
    "rewrite", [lambda path: unirecord.reshard(path, 2), lambda path: unirecord.sort(path, "n")]
)
def test_bytes_between_cells_that_no_digest_covers_are_zero_in_what_is_written(
    tmp_path: Path, rewrite: Callable[[Path], object]
) -> None:
    spec = Spec(b"p" * 16, [Col("n", "int32"), Col("b", "bytes")], align=8, groups=[2])
    made = partgen.write(
        partgen.MadePart(tmp_path / "a.urec", spec, [[b"\1" * 4, b"abc"], [bytes(4), b"defgh"]])
    )
    damaged = bytearray(made.data)
    damaged[made.data.index(b"abc") + 3] = 7
    made.path.write_bytes(damaged)
    unirecord.merge([made.path], tmp_path / "d")
    assert "padding bytes between cells are not zero" in str(unirecord.verify(tmp_path / "d").problems[0])
    rewrite(tmp_path / "d")
    assert unirecord.verify(tmp_path / "d").ok
    assert {row["b"] for row in unirecord.UniRecordDataset(tmp_path / "d")} == {b"abc", b"defgh"}
