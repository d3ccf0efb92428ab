"""Types and codecs of a later version: each closes its own column, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from partgen import MadePart, write
from partgen_bytes import Col
from reference import read_part
from reference_directory import read_directory
from small_parts import later_part

import unirecord
from unirecord.cli import main
from unirecord.format.column import Column
from unirecord.format.schema import Schema
from unirecord.inspect.repair import repair
from unirecord.inspect.verify import verify

KNOWN = ["n", "word", "bytes", "last"]
CLOSED = {"big": "type 70", "blob": "type 130", "tiny": "type 127", "packed": "type 191", "other": "codec 33"}


@pytest.fixture
def part(tmp_path: Path) -> MadePart:
    return later_part(tmp_path / "a.urec")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory of two such parts."""
    path = tmp_path / "set"
    path.mkdir()
    for number in range(2):
        part_id = bytes([number]) + b"l" * 15
        later_part(path / f"part-{number:06}-{part_id[:4].hex()}.urec", part_id=part_id, seed=number)
    repair(path)  # writes the manifest
    return path


def test_the_reference_takes_the_part_as_it_is(part: MadePart) -> None:
    part.spec.columns[7].codec = 0
    write(part)
    assert read_part(part.path).raw == part.raw


@pytest.mark.parametrize("io", ["mmap", "pread", "memory"])
def test_the_other_columns_are_read(part: MadePart, io: Any) -> None:
    with unirecord.UniRecordDataset(part.path, columns=KNOWN, io=io) as ds:
        for i, row in enumerate(part.rows):
            assert {name: np.asarray(value).tobytes() for name, value in ds[i].items()} == {
                name: np.asarray(row[name]).tobytes() for name in KNOWN
            }
        assert sum(len(batch["n"]) for batch in ds.batches(3)) == 7
        assert len(ds.view(where="n <= 0")) == sum(row["n"] <= 0 for row in part.rows)


@pytest.mark.parametrize("column", CLOSED)
@pytest.mark.parametrize(
    "use",
    [
        lambda ds: ds[3],
        lambda ds: ds[[1, 2]],
        lambda ds: list(ds.batches(3)),
        lambda ds: list(ds.pipeline().batch(2)),
        lambda ds: list(ds),
        lambda ds: list(ds.to_batches()),
    ],
    ids=["row", "rows", "batches", "pipeline", "samples", "arrow"],
)
def test_a_column_is_refused_by_name_when_it_is_used(
    part: MadePart, column: str, use: Callable[[Any], Any]
) -> None:
    with unirecord.UniRecordDataset(part.path, columns=["n", column]) as ds:
        with pytest.raises(unirecord.ColumnError, match=f"column '{column}'.*{CLOSED[column]}.*upgrade"):
            use(ds)
        assert len(ds) == 7


@pytest.mark.parametrize("column", ["big", "blob"])
def test_queries_and_tables_refuse_it_too(part: MadePart, column: str) -> None:
    with unirecord.UniRecordDataset(part.path) as ds:
        with pytest.raises(unirecord.QueryError, match=f"{column}.*unknown type"):
            ds.view(where=f"{column} == 1")
        with pytest.raises((unirecord.ColumnError, unirecord.SchemaError), match=column):
            ds.scalars([column])
    with unirecord.UniRecordDataset(part.path) as ds:
        assert len(ds.view(where="tiny is null")) == sum(row["tiny"] is None for row in part.rows)


def test_verify_says_what_it_did_not_check_and_checks_the_rest(part: MadePart) -> None:
    assert {problem.column for problem in verify(part.path).problems} == set(CLOSED)
    assert all("were not checked" in problem.what for problem in verify(part.path).problems)
    data = bytearray(part.data)
    data[part.data.index(part.rows[5]["blob"])] ^= 1
    part.path.write_bytes(data)
    assert any(problem.row is not None for problem in verify(part.path).problems)


def test_repair_makes_the_same_index_again(part: MadePart) -> None:
    Path(f"{part.path}.idx").unlink()
    repair(part.path)
    assert {problem.column for problem in verify(part.path).problems} == set(CLOSED)
    part.spec.columns[7].codec = 0
    write(part)
    Path(f"{part.path}.idx").unlink()
    repair(part.path)
    assert read_part(part.path).raw == part.raw


def test_repair_of_damaged_rows_refuses_what_it_could_not_check(part: MadePart, tmp_path: Path) -> None:
    data = bytearray(part.data)
    data[part.data.index(part.rows[5]["blob"])] ^= 1
    part.path.write_bytes(data)
    with pytest.raises(unirecord.ColumnError, match=r"column 'big'.*upgrade"):
        repair(part.path, output=tmp_path / "out.urec")
    assert not (tmp_path / "out.urec").exists()


def test_inspect_shows_it_as_unknown(part: MadePart, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(part.path)]) == 0
    out, err = capsys.readouterr()
    assert all(f"unknown type {code}" in out for code in (70, 127, 130, 191))
    assert "codec 33" in out
    assert "column 'big'" in err
    assert main(["inspect", "--stats", str(part.path)]) == 0
    assert main(["inspect", "--html", f"{part.path}.html", str(part.path)]) == 0


def test_diff_and_export_leave_nothing_out_in_silence(
    part: MadePart, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = later_part(tmp_path / "b.urec", part_id=b"o" * 16, seed=9)
    for command in (
        ["diff", str(part.path), str(other.path)],
        ["export", str(part.path), str(tmp_path / "out.jsonl")],
        ["write", str(part.path), str(tmp_path / "out")],
    ):
        assert main(command) != 0
        assert "upgrade unirecord" in capsys.readouterr().err
    assert not (tmp_path / "out.jsonl").exists()
    assert main(["export", "--columns", "n,word", str(part.path), str(tmp_path / "out.jsonl")]) == 0


@pytest.mark.parametrize(
    "change",
    [
        lambda path: unirecord.append(path),
        lambda path: unirecord.compact(path),
        lambda path: unirecord.reshard(path, 1),
        lambda path: unirecord.sort(path, "n"),
    ],
    ids=["append", "compact", "reshard", "sort"],
)
def test_whoever_would_write_it_anew_refuses_by_name(folder: Path, change: Callable[[Path], Any]) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(unirecord.ColumnError, match=r"column '(big|blob)'.*upgrade"):
        change(folder)
    after = {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".lock"}
    assert {name: content for name, content in after.items() if name in before} == before


@pytest.mark.parametrize("dry_run", [False, True])
def test_purging_refuses_to_write_it_anew_before_a_row_is_deleted(folder: Path, dry_run: bool) -> None:
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(unirecord.ColumnError, match=r"column '(big|blob)'.*upgrade"):
        unirecord.purge(folder, where="n < 0", dry_run=dry_run)
    assert {path: path.read_bytes() for path in folder.iterdir() if path.suffix != ".lock"} == before
    assert len(unirecord.versions(folder)) == 1


def test_columns_that_are_known_are_written_anew_without_the_others(part: MadePart, tmp_path: Path) -> None:
    rows = [{"word": row["word"], "n": row["n"]} for row in part.rows]
    unirecord.write_dataset(part.path, tmp_path / "some", columns=["word", "n"])
    assert main(["write", str(part.path), str(tmp_path / "more"), "--columns", "word,n", "--index", "n"]) == 0
    for path in (tmp_path / "some", tmp_path / "more"):
        with unirecord.UniRecordDataset(path) as ds:
            assert [{**row} for row in ds] == rows
    with pytest.raises(unirecord.ColumnError, match=r"column 'big'.*upgrade"):
        unirecord.write_dataset(part.path, tmp_path / "all")
    assert not (tmp_path / "all").exists()


def test_merging_keeps_it_byte_for_byte(folder: Path, tmp_path: Path) -> None:
    other = later_part(tmp_path / "b.urec", part_id=b"o" * 16, seed=9)
    unirecord.merge([folder, other.path], tmp_path / "merged")
    kept = {path.read_bytes() for path in (tmp_path / "merged").glob("*.urec")}
    assert kept == {path.read_bytes() for path in [*folder.glob("*.urec"), other.path]}


def test_what_writes_no_rows_goes_on(folder: Path) -> None:
    unirecord.rename_columns(folder, {"big": "huge"})
    assert unirecord.UniRecordDataset(folder).schema["huge"].type == "type70:16"
    unirecord.delete(folder, where="n < 0")
    unirecord.drop_columns(folder, ["huge", "blob", "tiny", "packed", "other"])
    with unirecord.UniRecordDataset(folder) as ds:
        rows = sum(len(batch["n"]) for batch in ds.batches(3))
        assert rows == len(ds) > 0
    unirecord.compact(folder)
    assert verify(folder).ok


def test_the_reference_reads_the_directory(folder: Path) -> None:
    for path in folder.glob("*.urec"):
        part_id = bytes.fromhex(path.name[-13:-5]) + b"l" * 12
        made = later_part(path, part_id=part_id)
        made.spec.columns[7].codec = 0
        write(made)
    (folder / "manifest.json").unlink()
    repair(folder)
    assert [len(part.raw) for part in read_directory(folder)] == [7, 7]


@pytest.mark.parametrize(
    "name",
    ["type63", "type64", "type64:0", "type64:3", "type64:128", "type064:8", "type127:08", "type128:8", "type192",
     "type1000", "type-64:8", "type70:16:16", "type", "Type130"],
)  # fmt: skip
def test_a_name_that_says_no_place_of_its_values_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(unirecord.FormatError, match="unknown type"):
        Schema.from_wire([["a", name, None]])
    with pytest.raises(unirecord.FormatError, match="unknown array type"):
        Schema.from_wire([["a", "type64:8", [2]]])


def test_no_schema_is_spelled_with_it() -> None:
    with pytest.raises(unirecord.ColumnError, match=r"column 'a' has type 70.*upgrade"):
        unirecord.Schema.parse({"a": "type70:16"})
    assert not Column("a", "type130").is_ordered


def test_an_index_has_no_order_of_it(tmp_path: Path) -> None:
    made = later_part(tmp_path / "a.urec")
    made.spec.index = ["big"]
    write(made)
    with pytest.raises(unirecord.FormatError, match="no order"):
        unirecord.UniRecordDataset(made.path)
    assert not verify(made.path).ok


def test_a_table_of_another_type_than_the_schema_is_refused(tmp_path: Path) -> None:
    made = later_part(tmp_path / "a.urec")
    made.spec.columns[1] = Liar("big", "type71:16")
    write(made)
    with pytest.raises(unirecord.FormatError, match="column table"):
        unirecord.UniRecordDataset(made.path)


class Liar(Col):
    """A column of which the metadata say another type than the column table."""

    @property
    def kind(self) -> str:
        return "type70:16"
