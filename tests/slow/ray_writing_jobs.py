"""Writing with a real Ray (`make ray`): tasks killed, run again and run twice; every row is there once, or nothing is.

Not named test_*: installing Ray and starting it take longer than every run of the tests can spare.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numbers_source import SCHEMA, Numbers

from ray_cluster import cluster  # noqa: F401  # isort: skip

import ray
import ray.data

import unirecord
import unirecord.ray
from unirecord import ExistsError, SchemaError, UniRecordDataset, verify
from unirecord.cli import main
from unirecord.convert import task as task_module
from unirecord.convert.conversion import Conversion
from unirecord.format.schema import Schema
from unirecord.frameworks import ray_data
from unirecord.frameworks.ray_data import engine as engine_on_ray
from unirecord.storage.staged import ORPHAN_SECONDS

N = 1000


def columns(batch: dict[str, Any]) -> dict[str, Any]:
    """A column of every kind that Ray has, made of the row's number."""
    n = batch["id"]
    boxes = np.empty(len(n), object)
    for i, number in enumerate(n):
        boxes[i] = np.full((number % 3 + 1, 4), number, np.int16)
    return {
        "n": n,
        "single": (n / 7).astype(np.float32),
        "name": np.array([f"row {i}" for i in n]),
        "data": np.array([bytes([i % 256]) * (i % 300) for i in n], dtype=object),
        "fixed": np.repeat(n[:, None, None], 6, axis=1).reshape(-1, 2, 3).astype(np.float32),
        "boxes": boxes,
    }


def numbered(rows: int = N, blocks: int = 8) -> Any:
    return ray.data.range(rows, override_num_blocks=blocks).map_batches(columns)


def check(path: Path, rows: int = N, start: int = 0) -> None:
    """Every row is there once, with its own values."""
    seen = []
    for one in UniRecordDataset(path):
        n = int(one["n"])
        seen.append(n)
        wanted = {name: values[0] for name, values in columns({"id": np.array([n])}).items()}
        for name in ("single", "name", "data"):
            assert one[name] == wanted[name], name
        for name in ("fixed", "boxes"):
            assert np.array_equal(one[name], wanted[name]), name
            assert one[name].dtype == wanted[name].dtype
    assert sorted(seen) == list(range(start, start + rows))
    assert verify(path).ok


def disturbed(how: str, folder: Path) -> Any:
    """The class of our sink whose tasks die, or write twice, once each."""
    base = ray_data._datasink()

    def first_time(task: int) -> bool:
        try:
            os.close(os.open(folder / f"{how}-{task}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    class Disturbed(base):  # type: ignore[misc, valid-type]
        def write(self, blocks: Iterable[Any], ctx: Any) -> Any:
            given = list(blocks)
            if how == "twice":
                super().write(given, ctx)
            if how == "twice at once":
                other = ray.remote(num_cpus=0)(base.write).remote(
                    self, given, ctx
                )  # another attempt, elsewhere
                mine = super().write(given, ctx)
                return mine if ctx.task_idx % 2 else ray.get(other)
            if how == "killed when written" and first_time(ctx.task_idx):
                super().write(given, ctx)
                os.kill(os.getpid(), signal.SIGKILL)
            return super().write(self._cut(given, ctx), ctx)

        def _cut(self, blocks: list[Any], ctx: Any) -> Iterator[Any]:
            for block in blocks:
                yield block
                if how == "killed at work" and first_time(ctx.task_idx):
                    os.kill(os.getpid(), signal.SIGKILL)

    return Disturbed


@pytest.mark.parametrize(
    "how", ["in peace", "twice", "twice at once", "killed at work", "killed when written"]
)
def test_every_row_is_written_once(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if how != "in peace":
        kind = disturbed(how, tmp_path)
        monkeypatch.setattr(ray_data, "_datasink", lambda: kind)
    assert unirecord.ray.write(numbered(), tmp_path / "out", min_task_bytes=1, schema={"n": "int64"}) == N
    check(tmp_path / "out")
    parts = list((tmp_path / "out").glob("*.urec"))
    assert len(parts) == 8
    if how.startswith("killed"):
        assert len(list(tmp_path.glob(f"{how}-*"))) == 8
    assert {path.name for path in tmp_path.iterdir() if not path.name.startswith(how)} == {"out"}


def test_blocks_are_put_together_and_parts_cut(tmp_path: Path) -> None:
    unirecord.ray.write(numbered(), tmp_path / "one", min_task_bytes="1GiB")
    assert len(list((tmp_path / "one").glob("*.urec"))) == 1
    unirecord.ray.write(numbered(), tmp_path / "many", min_task_bytes="1GiB", max_part_bytes=50_000)
    assert len(list((tmp_path / "many").glob("*.urec"))) > 3
    check(tmp_path / "one")
    check(tmp_path / "many")


def test_the_order_is_kept_where_ray_keeps_it(tmp_path: Path) -> None:
    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    try:
        unirecord.ray.write(numbered(), tmp_path / "out", min_task_bytes=1)
    finally:
        context.execution_options.preserve_order = False
    assert [one["n"] for one in UniRecordDataset(tmp_path / "out")] == list(range(N))


def test_rows_are_added_and_datasets_replaced(tmp_path: Path) -> None:
    unirecord.ray.write(numbered(100), tmp_path / "out", metadata={"a": 1}, index=["n"])
    with pytest.raises(ExistsError, match="is there already"):
        unirecord.ray.write(numbered(100), tmp_path / "out")
    more = ray.data.range(50).map_batches(lambda batch: columns({"id": batch["id"] + 100}))
    unirecord.ray.write(more, tmp_path / "out", append=True)
    check(tmp_path / "out", 150)
    assert UniRecordDataset(tmp_path / "out").metadata == {"a": 1}
    unirecord.ray.write(numbered(30), tmp_path / "out", overwrite=True)
    check(tmp_path / "out", 30)


def test_a_failed_job_publishes_nothing_and_says_why(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"task \d, row \d+, column 'n': expected int8"):
        unirecord.ray.write(numbered(), tmp_path / "out", schema={"n": "int8"}, min_task_bytes=1)
    assert not (tmp_path / "out").exists()
    with pytest.raises(SchemaError, match=r"no column 'm'"):
        unirecord.ray.write(numbered(), tmp_path / "out", schema={"m": "int8"})
    with pytest.raises(FileNotFoundError, match="make it first"):
        unirecord.ray.write(numbered(), tmp_path / "not there" / "out")
    with pytest.raises(ValueError, match="one part"):
        unirecord.ray.write(numbered(), tmp_path / "out.urec")
    unirecord.ray.write(numbered(), tmp_path / "out")
    check(tmp_path / "out")


def test_what_an_error_advises_works(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"choose a name without \.urec"):
        unirecord.ray.write(numbered(), tmp_path / "a.urec")
    unirecord.ray.write(numbered(), tmp_path / "a")
    check(tmp_path / "a")
    objects = ray.data.range(4).map(lambda row: {"n": row["id"], "o": Fraction(row["id"], 4)})
    with pytest.raises(SchemaError, match="map them to numbers, text, bytes or arrays"):
        unirecord.ray.write(objects, tmp_path / "b")
    unirecord.ray.write(objects.map(lambda row: {"n": row["n"], "o": float(row["o"])}), tmp_path / "b")
    assert sorted(float(sample["o"]) for sample in UniRecordDataset(tmp_path / "b")) == [0, 0.25, 0.5, 0.75]
    with pytest.raises(SchemaError, match="pass schema= with all of them"):
        unirecord.ray.write(numbered(10).filter(lambda row: False), tmp_path / "c")


def test_a_dataset_without_rows(tmp_path: Path) -> None:
    none = numbered(10).filter(lambda row: False)
    unirecord.ray.write(none, tmp_path / "out", schema=dict.fromkeys(columns({"id": np.arange(1)}), "int64"))
    assert len(UniRecordDataset(tmp_path / "out")) == 0


UNITS = [130, 70, 1, 300, 0, 220, 90, 260, 40, 180]


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("deaths", [0, 2])
def test_a_conversion_on_ray_makes_the_same_bytes(
    deaths: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_module, "_LEAST_BYTES", 100_000)

    def convert(target: Path, **options: Any) -> None:
        source = Numbers(tmp_path, UNITS, deadly=-1 if target.name == "one" else 530, deaths=deaths)
        Conversion(source, str(target), Schema.parse(SCHEMA), id=bytes(16), index=["n"], **options).run()

    convert(tmp_path / "one")
    convert(tmp_path / "ray", engine=engine_on_ray(str(tmp_path / "ray")))
    assert files(tmp_path / "ray") == files(tmp_path / "one")
    assert len(list(tmp_path.glob("death*"))) == deaths


class Raced(Numbers):
    """Each attempt at the last unit begins when there are two of them."""

    def read(self, unit: Any) -> Iterator[Any]:
        if unit.name == f"unit {len(self.sizes) - 1}" and (self.folder / "raced").exists():
            (self.folder / f"attempt-{os.getpid()}-{time.monotonic_ns()}").touch()
            ends = time.monotonic() + 120
            while len(list(self.folder.glob("attempt-*"))) < 2 and time.monotonic() < ends:
                time.sleep(0.05)
        yield from super().read(unit)


def test_two_attempts_at_one_task_that_both_end_count_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_module, "_LEAST_BYTES", 100_000)
    ended: list[str] = []

    class AllTold:
        """Ray, but the driver hears of the two attempts that are left when both have ended."""

        def __getattr__(self, name: str) -> Any:
            return getattr(ray, name)

        def wait(self, refs: list[Any]) -> Any:
            if not list(tmp_path.glob("first")):
                (tmp_path / "first").touch()
                return ray.wait(refs)
            ready, rest = ray.wait(refs, num_returns=len(refs))
            ended.extend(folder for folder, _ in ray.get(ready))
            return ready, rest

    units = [900, 50]

    def convert(target: Path, **options: Any) -> None:
        Conversion(
            Raced(tmp_path, units),
            str(target),
            Schema.parse(SCHEMA),
            id=bytes(16),
            max_part_bytes=1 << 30,
            **options,
        ).run()

    convert(tmp_path / "one")
    (tmp_path / "raced").touch()
    monkeypatch.setattr(ray_data, "import_ray", AllTold)
    convert(tmp_path / "ray", engine=engine_on_ray(str(tmp_path / "ray")))
    assert len(set(ended)) == 2
    assert len({Path(folder).name.rpartition("-")[0] for folder in ended}) == 1  # of one task
    assert files(tmp_path / "ray") == files(tmp_path / "one")
    assert not (tmp_path / ".ray.attempts").exists()


def test_what_a_failed_job_leaves_is_swept_by_age(tmp_path: Path) -> None:
    def fails() -> None:
        with pytest.raises(SchemaError, match="expected int8"):
            unirecord.ray.write(numbered(), tmp_path / "out", schema={"n": "int8"}, min_task_bytes=1)

    fails()
    (left,) = (tmp_path / ".out.attempts").iterdir()
    assert any(left.iterdir())
    unirecord.ray.write(numbered(), tmp_path / "out")
    assert left.exists()
    for place in [*left.rglob("*"), left]:
        os.utime(place, (time.time() - 2 * ORPHAN_SECONDS,) * 2)
    unirecord.ray.write(numbered(), tmp_path / "out", overwrite=True)
    assert not (tmp_path / ".out.attempts").exists()
    check(tmp_path / "out")


def test_a_task_that_always_dies_ends_the_conversion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_module, "_LEAST_BYTES", 100_000)
    source = Numbers(tmp_path, UNITS, deadly=530, deaths=1000)
    spec = Conversion(
        source, str(tmp_path / "out"), Schema.parse(SCHEMA), engine=engine_on_ray(str(tmp_path / "out"))
    )
    with pytest.raises(unirecord.UniRecordError, match="failed on Ray"):
        spec.run()
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / ".out.attempts").exists()


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "people.csv").write_text("name,age\n" + "".join(f"p{i},{i}\n" for i in range(500)))
    common = [str(tmp_path / "people.csv"), "--id", "00" * 16]
    assert main(["write", *common[:1], str(tmp_path / "one"), *common[1:]]) == 0
    assert main(["write", *common[:1], str(tmp_path / "ray"), *common[1:], "--engine", "ray"]) == 0
    assert files(tmp_path / "ray") == files(tmp_path / "one")
    assert "wrote 500 rows" in capsys.readouterr().out
