"""A source to one part: before it is published, the number of rows and some of them are compared with the source."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numbers_source import SCHEMA, Numbers, values

from unirecord import CorruptionError, StaleError, UniRecordDataset, Writer, write_dataset
from unirecord.cli import main
from unirecord.convert import conversion
from unirecord.convert.conversion import Standing, write_part
from unirecord.convert.sources.source import RawBatch, Unit
from unirecord.writing.part_writer import FinishedPart, PartWriter

UNITS = [130, 0, 70, 1, 90]
ROWS = sum(UNITS)
ID = bytes(range(16))


class Changing(Numbers):
    """Gives another value in row ``changed`` when it is read again, or no rows of a unit at all."""

    changed: int = -1
    gone: str = ""

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        seen = self.__dict__.setdefault("seen", set())
        for batch in super().read(unit):
            if unit.name in seen and unit.name == self.gone:
                return
            if unit.name in seen and self.changed in batch.columns["n"]:
                batch.columns["blob"][batch.columns["n"].index(self.changed)] = b"another"
            yield batch
        seen.add(unit.name)


@pytest.mark.parametrize("limit", [None, 0, 1, 140, ROWS, ROWS + 1])
@pytest.mark.parametrize("known", [True, False])
def test_the_bytes_are_those_of_a_writer(tmp_path: Path, known: bool, limit: int | None) -> None:
    left_out = frozenset({3, 131, 200})
    source = Numbers(tmp_path, UNITS, known=known, left_out=left_out)
    told: list[Standing] = []
    rows, without = write_part(
        source, str(tmp_path / "a.urec"), source.schema, index=["name"], metadata={"a": 1}, id=ID, limit=limit,
        progress=lambda standing: told.append(replace(standing)),
    )  # fmt: skip
    wanted = [n for n in range(ROWS) if n not in left_out][:limit]
    assert rows == len(wanted) == told[-1].rows
    assert (told[-1].tasks, told[-1].all_tasks, told[-1].parts) == (1, 1, [])
    assert all((one.tasks, one.parts) == (0, ["a.urec"]) for one in told[:-1])
    with Writer(tmp_path / "b.urec", SCHEMA, index=["name"], metadata={"a": 1}, id=ID) as writer:
        for n in wanted:
            writer.write(values(n))
    for end in ("", ".idx"):
        assert (tmp_path / f"a.urec{end}").read_bytes() == (tmp_path / f"b.urec{end}").read_bytes()
    if limit is None:
        assert len(without) == 3


@pytest.mark.parametrize(
    "changed", [0, 49, 130, 179, 201, 250]
)  # of the first, a middle and the last unit with rows
def test_a_source_that_has_changed_publishes_nothing(tmp_path: Path, changed: int) -> None:
    source = Changing(tmp_path, UNITS)
    source.changed = changed
    with pytest.raises(
        CorruptionError, match=r"a\.urec: column 'blob' of the \d+ rows from [\d,]+ on is not what"
    ):
        write_part(source, str(tmp_path / "a.urec"), source.schema)
    assert os.listdir(tmp_path) == []


def test_a_source_whose_rows_are_gone_publishes_nothing(tmp_path: Path) -> None:
    source = Changing(tmp_path, UNITS, known=False)
    source.gone = "unit 4"
    with pytest.raises(StaleError, match="unit 4 has no rows any more; nothing was published"):
        write_part(source, str(tmp_path / "a.urec"), source.schema)
    source = Numbers(tmp_path, UNITS)
    source.__class__ = type("Fewer", (Numbers,), {"rows": property(lambda self: ROWS + 1)})
    with pytest.raises(StaleError, match=r"292 rows were to be written, and 291 were; nothing was published"):
        write_part(source, str(tmp_path / "a.urec"), source.schema)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("where", ["data", "index"])
def test_what_the_disk_has_changed_is_not_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    finish = PartWriter.finish

    def damaged(self: PartWriter, index_path: str) -> FinishedPart:
        part = finish(self, index_path)
        file = part.data.temporary if where == "data" else part.index.temporary
        with open(file, "r+b") as out:
            out.seek(os.path.getsize(file) // 3)
            out.write(bytes(os.path.getsize(file) // 3))
        return part

    path = str(tmp_path / "a.urec")
    with Writer(path, {"n": "int64"}) as writer:
        writer.write({"n": 7})
    before = (tmp_path / "a.urec").read_bytes()
    monkeypatch.setattr(PartWriter, "finish", damaged)
    source = Numbers(tmp_path, [90])
    with pytest.raises(CorruptionError) as caught:
        write_part(source, path, source.schema, overwrite=True)
    assert str(caught.value).startswith(path)
    assert "unirecord-" not in str(caught.value).replace(str(tmp_path), "")  # the name of no temporary file
    assert (tmp_path / "a.urec").read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["a.urec", "a.urec.idx"]


def test_it_holds_for_the_command_and_for_steps_and_codecs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[int, int]] = []
    compare = conversion.compare

    def counted(path: str, first: int, expected: Any, schema: Any, source: str) -> None:
        compared.append((first, expected.rows))
        compare(path, first, expected, schema, source)

    monkeypatch.setattr(conversion, "compare", counted)
    table = tmp_path / "x.csv"
    table.write_text("a,b\n" + "".join(f"{i},{'x' * i}\n" for i in range(300)))
    assert main(["write", str(table), str(tmp_path / "a.urec"), "--where", "a >= 100", "--schema", "b=text",
                 "--codec", "zstd", "--rename", "a=n"]) == 0  # fmt: skip
    assert compared == [(0, 100)]
    assert write_dataset(table, tmp_path / "b.urec", shuffle_seed=3) == 300
    assert len(compared) == 3  # the rows that are written beside the target, and the part
    assert write_dataset(({"a": i} for i in range(9)), tmp_path / "c.urec") == 9
    assert len(compared) == 3  # what comes once cannot be compared
    with UniRecordDataset(tmp_path / "a.urec") as ds:
        np.testing.assert_array_equal(ds.scalars(["n"])["n"], np.arange(100, 300))
