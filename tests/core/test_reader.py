"""The C reader through Python: the rows that were written, by every way, and an error for every wrong file."""

from __future__ import annotations

import os
import pickle
import random
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from partgen import MadePart, generate
from read_parts import WAYS, many_parts, part, read_all, stored

from unirecord import ClosedError, CorruptionError, MissingError, SchemaError, Writer
from unirecord.query.columns import PartColumns, all_strings, all_valid, all_values, columns_of
from unirecord.snapshot.part_set import PartSet, resolve


def expect_rows(parts: PartSet, made: MadePart, rows: list[int]) -> None:
    columns = list(range(len(parts.schema)))
    results = parts.read(np.array(rows, np.int64), columns)
    for c in columns:
        assert [stored(results[c], i) for i in range(len(rows))] == [made.raw[row][c] for row in rows]


@pytest.mark.parametrize("io", WAYS)
def test_random_parts_are_read_alike_by_every_way(tmp_path: Path, io: str) -> None:
    for seed in range(40):
        made = generate(seed, tmp_path, f"{seed}.urec")
        rows = list(range(len(made.raw)))
        rows += random.Random(seed).choices(rows, k=9) if rows else []
        for verify in ("first", "always", "never"):
            parts = PartSet(resolve(made.path), io, verify)
            expect_rows(parts, made, rows)
            expect_rows(parts, made, rows[::-1])
            parts.close()


def test_a_row_alone_is_the_row(tmp_path: Path) -> None:
    for seed in range(30):
        made = generate(seed, tmp_path, f"{seed}.urec")
        parts = PartSet(resolve(made.path))
        plan = parts.reader(range(len(parts.schema)))
        for row in range(min(20, len(made.raw))):
            values = [
                v.tobytes() if isinstance(v, (np.ndarray, np.generic)) else v
                for v in plan.read_one(row).values()
            ]
            assert values == made.raw[row]


def test_the_views_of_a_part_hold_its_columns(tmp_path: Path) -> None:
    for seed in range(30):
        made = generate(seed, tmp_path, f"{seed}.urec")
        parts = PartSet(resolve(made.path))
        part = parts.part(0)
        opened = PartColumns(lambda part=part: part, lambda *_: np.empty(0), part.path, part.rows)
        parts.close()  # what has been opened stays good
        for c, column in enumerate(parts.schema):
            values = [row[c] for row in made.raw]
            if column.is_string:
                found = [None if v is None else v.encode() for v in all_strings(opened, c, column.name)]
                assert found == values
            elif not column.is_blob:
                valid = all_valid(opened, c)
                array = all_values(opened, c)
                assert len(array) == 0 or not array.flags.writeable
                assert [
                    array[i].tobytes() if valid is None or valid[i] else None for i in range(opened.rows)
                ] == values


def test_views_keep_the_part_open(tmp_path: Path) -> None:
    parts = PartSet(resolve(part(tmp_path)))
    values = all_values(columns_of(parts)[0], 0)
    parts.close()
    del parts
    assert values.tolist() == list(range(100))


def test_what_is_read_is_writable_and_fresh(tmp_path: Path) -> None:
    parts = PartSet(resolve(part(tmp_path)))
    first = parts.read(np.array([1, 2]), [3])[0].data
    first[:] = 0
    assert parts.read(np.array([1, 2]), [3])[0].data.tolist() == [[1] * 4, [2] * 4]


def test_rows_out_of_range_are_index_errors(tmp_path: Path) -> None:
    parts = PartSet(resolve(part(tmp_path)))
    for row in (-1, 100, 2**62):
        with pytest.raises(IndexError, match=str(row)):
            parts.read(np.array([0, row]), [0])


def test_wrong_options_are_value_errors(tmp_path: Path) -> None:
    source = resolve(part(tmp_path))
    with pytest.raises(ValueError, match="'mmap'"):
        PartSet(source, io="disk")
    with pytest.raises(ValueError, match="'always'"):
        PartSet(source, verify="yes")


def test_a_closed_set_says_so(tmp_path: Path) -> None:
    parts = PartSet(resolve(part(tmp_path)))
    parts.read(np.array([1]), [0])
    parts.close()
    parts.close()
    with pytest.raises(ClosedError):
        parts.read(np.array([1]), [0])


# ---- paths -----------------------------------------------------------------------------------------------------------


def test_every_form_of_path_gives_its_rows(tmp_path: Path) -> None:
    a, b = part(tmp_path, "a.urec", 10), part(tmp_path, "b.urec", 20)
    folder = many_parts(tmp_path / "set", 300)
    assert resolve(a).rows == resolve(str(a)).rows == 10
    assert resolve([b, a]).rows == 30
    assert [p.path for p in resolve(str(tmp_path / "*.urec")).parts] == [str(a), str(b)]
    source = resolve(folder)
    assert source.rows == 300
    assert len(source.parts) > 1
    order = np.random.default_rng(0).permutation(300)
    assert (PartSet(source).read(order, [0])[0].data == order).all()
    assert PartSet(source).locate(299) == (source.parts[-1].path, source.parts[-1].rows - 1)
    assert pickle.loads(pickle.dumps(source)).parts == source.parts


def test_auto_weighs_all_parts_together_against_memory(tmp_path: Path) -> None:
    with Writer(tmp_path / "a.urec", {"x": "bytes"}) as writer:
        writer.write_batch({"x": [bytes([i]) * 40_000 for i in range(4)]})
    source = resolve(tmp_path / "a.urec")
    sibling = replace(source.parts[0], path=str(tmp_path / "never-opened.urec"), bytes=1 << 60)
    small, large = PartSet(source), PartSet(replace(source, parts=(*source.parts, sibling)))
    best = PartSet(source, io="uring-direct")
    for parts in (small, large, best):
        assert stored(parts.read(np.array([3]), [0])[0], 0) == bytes([3]) * 40_000
    assert small.io_name == "mmap"
    assert (
        large.io_name == best.io_name != "mmap"
    )  # the best that this kernel has, which may have no io_uring


def test_identity_changes_with_the_parts(tmp_path: Path) -> None:
    a, b = part(tmp_path, "a.urec", 10), part(tmp_path, "b.urec", 10)
    identities = [resolve(path).identity for path in (a, b, [a, b], [b, a])]
    assert len(set(identities)) == 4
    assert resolve([a, b]).identity == identities[2]


@pytest.mark.parametrize("what", ["nothing", "*.none", "missing.urec", "empty"])
def test_a_path_to_nothing_is_missing(tmp_path: Path, what: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(MissingError, match=what.replace("*", r"\*")):
        resolve(tmp_path / what)


def test_an_empty_list_and_no_path_are_refused() -> None:
    with pytest.raises(ValueError, match="empty list"):
        resolve([])
    with pytest.raises(TypeError, match="path"):
        resolve(3)  # type: ignore[arg-type]


def test_different_schemas_are_named(tmp_path: Path) -> None:
    a, b = part(tmp_path), tmp_path / "b.urec"
    with Writer(b, {"x": "int64"}) as writer:
        writer.write({"x": 1})
    with pytest.raises(SchemaError, match=r"b\.urec.*a\.urec.*'x'.*int64"):
        resolve([a, b])


class Contested(list[Any]):
    """Looks as if it held something until it is asked for it: another thread was faster."""

    def __bool__(self) -> bool:
        return True


# ---- processes and threads -------------------------------------------------------------------------------------------


def test_the_last_spare_buffers_may_go_to_another_thread(tmp_path: Path) -> None:
    plan = PartSet(resolve(part(tmp_path))).reader([0])
    plan._spare, plan._spare_rows = Contested(), Contested()
    assert plan.read_one(7) == {"x": np.int32(7)}
    assert plan.read(np.array([7, 8]))[0].data.tolist() == [7, 8]


@pytest.mark.parametrize("io", WAYS)
def test_threads_share_a_set(tmp_path: Path, io: str) -> None:
    parts = PartSet(resolve(part(tmp_path)), io)
    wrong: list[Any] = []

    def read(seed: int) -> None:
        r = np.random.default_rng(seed)
        for _ in range(60):
            rows = r.integers(0, 100, 17)
            numbers, images = parts.read(rows, [0, 2])
            if numbers.data.tolist() != rows.tolist() or any(
                stored(images, i) != bytes([row]) * row for i, row in enumerate(rows.tolist())
            ):
                wrong.append(rows)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_closing_while_others_read_ends_in_closed_errors(tmp_path: Path) -> None:
    path = part(tmp_path, "a.urec", 20)

    def read(parts: PartSet, failures: list[type[BaseException]]) -> None:
        try:
            while True:
                parts.read(np.arange(20), [0, 1, 2, 3])
        except BaseException as error:
            failures.append(type(error))

    for _ in range(20):
        parts = PartSet(resolve(path))
        failures: list[type[BaseException]] = []
        threads = [threading.Thread(target=read, args=(parts, failures)) for _ in range(2)]
        for thread in threads:
            thread.start()
        parts.close()
        for thread in threads:
            thread.join(10)
        assert failures == [ClosedError, ClosedError]


def test_few_descriptors_are_enough_for_many_parts(tmp_path: Path) -> None:
    import resource

    folder = many_parts(tmp_path / "set", 1000)
    source = resolve(folder)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 12, hard))
    try:
        parts = PartSet(source)
        for seed in range(5):
            rows = np.random.default_rng(seed).integers(0, 1000, 8)
            assert (parts.read(rows, [0])[0].data == rows).all()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_batch_costs_few_system_calls(tmp_path: Path) -> None:
    path = tmp_path / "a.urec"
    with Writer(path, {"x": {"type": "uint8", "shape": [512]}}) as writer:
        writer.write_batch({"x": np.zeros((1000, 512), np.uint8)})
    parts = PartSet(resolve(path), "pread")
    rows = np.arange(0, 512, 2)

    def reads() -> int:
        with open("/proc/self/io") as file:
            return int(next(line for line in file if line.startswith("syscr")).split()[1])

    parts.read(rows, [0])
    before = reads()
    own = reads() - before  # what looking costs
    parts.read(rows, [0])
    assert reads() - before - 2 * own <= 20  # neighbours are read together


def test_no_descriptor_and_no_map_is_left(tmp_path: Path) -> None:
    path = part(tmp_path, "a.urec", 20)
    bad = tmp_path / "bad.urec"
    bad.write_bytes(path.read_bytes()[:-1])
    shutil.copy(f"{path}.idx", f"{bad}.idx")

    def state() -> tuple[int, int]:
        with open("/proc/self/maps") as maps:
            return len(os.listdir("/proc/self/fd")), sum(str(tmp_path) in line for line in maps)

    read_all(path, "uring-direct")  # this thread's ring stays
    before = state()
    for i in range(60):
        read_all(path, WAYS[i % len(WAYS)])
        with pytest.raises(CorruptionError):
            read_all(bad)
    after = state()
    assert after[0] <= before[0]  # descriptors that garbage of other tests held may have gone
    assert after[1] == before[1]
