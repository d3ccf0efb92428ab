"""What a writer refuses: each wrong call and each bad record by name, without harm to what is there or comes after."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unirecord
from unirecord import ClosedError, ExistsError, SchemaError, UniRecordDataset, Writer

SCHEMA: dict[str, Any] = {
    "file_name": "string",
    "label": "int32",
    "data": "bytes",
    "points": {"type": "float32", "shape": [2, 2]},
}


def record(i: int = 0, **changes: Any) -> dict[str, Any]:
    return {
        "file_name": f"{i}.jpg",
        "label": i,
        "data": b"x" * i,
        "points": np.full((2, 2), i, "f4"),
        **changes,
    }


def read(path: Path) -> list[dict[str, Any]]:
    with UniRecordDataset(path) as dataset:
        return [dataset[i] for i in range(len(dataset))]


def without(name: str) -> dict[str, Any]:
    return {k: v for k, v in record().items() if k != name}


BAD_RECORDS: list[tuple[Any, str]] = [
    ({**without("label"), "labels": 1}, "column 'label' is missing; did you mean 'labels'"),
    ({**without("data"), "dat": b""}, "column 'data' is missing; did you mean 'dat'"),
    (record(file_name=3), "column 'file_name': expected string, got int 3"),
    (record(label="3"), "column 'label': expected int32, got str '3'"),
    (record(label=1 << 40), "column 'label': expected int32, got 1099511627776, out of range"),
    (record(data="x"), "column 'data': expected bytes, got str"),
    (record(points=[[0.0, 1.0], [2.0, 3.0]]), "column 'points': expected float32 array .* got list"),
    (record(points=np.zeros((2, 2))), "column 'points': .* got float64 array"),
    (record(points=np.zeros((2, 3), "f4")), r"column 'points': .* shape \[2, 3\]"),
    (without("label"), "column 'label' is missing"),
    (record(other=1), "field 'other' is not a column"),
    ([1, 2], "a record is a dict"),
]


@pytest.mark.parametrize(("bad", "said"), BAD_RECORDS)
def test_one_bad_record_among_good_ones_is_named_and_the_rest_kept(
    tmp_path: Path, bad: Any, said: str
) -> None:
    path = tmp_path / "x.urec"
    with Writer(path, SCHEMA) as writer:
        writer.write(record(1))
        with pytest.raises(SchemaError, match=rf"^row 1\b.*{said}"):
            writer.write(bad)
        writer.write(record(2))
        assert writer.rows == 2
    assert [r["label"] for r in read(path)] == [1, 2]


@pytest.mark.parametrize(("bad", "said"), [b for b in BAD_RECORDS if isinstance(b[0], dict)])
def test_a_bad_record_in_a_batch_takes_no_row_of_it(tmp_path: Path, bad: dict[str, Any], said: str) -> None:
    path = tmp_path / "x.urec"
    names = {**record(), **bad} if set(record()) <= set(bad) else bad
    batch = {name: [record(3).get(name), bad[name]] for name in names}
    with Writer(path, SCHEMA) as writer:
        writer.write_batch({name: [value] for name, value in record(1).items()})
        with pytest.raises(SchemaError, match=said.split(":")[0]):
            writer.write_batch(batch)
        writer.write(record(2))
    assert [r["label"] for r in read(path)] == [1, 2]


def test_extra_fields_can_be_ignored(tmp_path: Path) -> None:
    with Writer(tmp_path / "x.urec", {"label": "int8"}, extra="ignore") as writer:
        writer.write({"label": 1, "other": 2})
        writer.write_batch({"label": [2, 3], "other": ["a"]})
    assert [r["label"] for r in read(tmp_path / "x.urec")] == [1, 2, 3]


def test_records_that_no_schema_fits_name_both_rows(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "x.urec")
    writer.write({"x": 1})
    writer.write({"x": "a"})
    with pytest.raises(SchemaError, match="column 'x': row 0 holds int64 and row 1 holds string"):
        writer.close()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "schema",
    [
        {"x": "str"},
        {"x": {"type": "np.int32"}},
        {"x": {"type": "np.float64"}},
        {"x": {"type": "array"}},
        {"x": {"type": "byte"}},
        {"x": {"type": "strint"}},
        {"x": {"type": "float3", "shape": [1]}},
        {"x": {"type": "string", "shape": [1]}},
        {"x": {"type": "bytes", "shape": [1]}},
        {"": "int32"},
        {"na\tme": "int32"},
        {"na\x85me": "int32"},
        {"é" * 128: "int32"},
        {"\udc80": "int32"},
        {},
        "int32",
    ],
)
def test_a_bad_schema_is_refused_by_the_constructor(tmp_path: Path, schema: Any) -> None:
    with pytest.raises(SchemaError):
        Writer(tmp_path / "x.urec", schema)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("index", "error"),
    [
        (["label", "label"], SchemaError),
        (["data"], SchemaError),
        (["points"], SchemaError),
        (["lable"], SchemaError),
        ("label", TypeError),
        ([3], TypeError),
    ],
)
def test_a_bad_index_is_refused_by_the_constructor(
    tmp_path: Path, index: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        Writer(tmp_path / "x.urec", SCHEMA, index=index)
    assert os.listdir(tmp_path) == []


def test_a_name_that_starts_with_a_digit_can_be_written_and_indexed(tmp_path: Path) -> None:
    with Writer(
        tmp_path / "x.urec", {"3_name": "int32", "A": "int8", "a": "int8"}, index=["3_name", "A", "a"]
    ) as writer:
        writer.write({"3_name": 1, "A": 2, "a": 3})
    assert read(tmp_path / "x.urec") == [{"3_name": 1, "A": 2, "a": 3}]


@pytest.mark.parametrize("overwrite", [1, None, "yes"])
def test_overwrite_is_a_bool(tmp_path: Path, overwrite: Any) -> None:
    with pytest.raises(TypeError, match="overwrite"):
        Writer(tmp_path / "x.urec", SCHEMA, overwrite=overwrite)


@pytest.mark.parametrize("size", ["0", 0, -1, "20 parsecs", "many", 1.5, True])
def test_a_bad_part_size_is_refused(tmp_path: Path, size: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        Writer(tmp_path / "x", SCHEMA, max_part_bytes=size)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["x.urec", "x"])
def test_an_existing_dataset_is_refused_and_stays(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with Writer(path, {"label": "int8"}) as writer:
        writer.write({"label": 7})
    with pytest.raises(ExistsError, match="overwrite"):
        Writer(path, {"label": "int8"})
    with contextlib.suppress(InterruptedError), Writer(path, {"label": "int8"}, overwrite=True) as writer:
        writer.write({"label": 8})
        raise InterruptedError
    assert read(path) == [{"label": 7}]
    with Writer(path, {"label": "int16"}, overwrite=True) as writer:
        writer.write({"label": 9})
        assert read(path) == [{"label": 7}]
    assert read(path) == [{"label": 9}]


def test_writing_after_close_is_refused(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "x.urec", {"label": "int8"})
    writer.close()
    with pytest.raises(ClosedError, match="the writer is closed"):
        writer.write({"label": 1})
    with pytest.raises(ClosedError, match="the writer is closed"):
        writer.write_batch({"label": [1]})
    writer.close()
    assert read(tmp_path / "x.urec") == []


def test_no_rows_and_no_schema_is_refused_and_publishes_nothing(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="schema"):
        Writer(tmp_path / "x.urec").close()
    assert os.listdir(tmp_path) == []


def test_an_empty_batch_is_no_row(tmp_path: Path) -> None:
    with Writer(tmp_path / "x.urec", {"label": "int8"}) as writer:
        writer.write_batch({"label": []})
    assert read(tmp_path / "x.urec") == []


@pytest.mark.parametrize("path", ["", "x.urec/", ".urec", "a\0b", None, 3])
def test_what_is_no_path_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ValueError, TypeError)):
        Writer(path, {"label": "int8"})
    assert os.listdir(tmp_path) == []


def test_a_missing_folder_is_reported_by_the_constructor(tmp_path: Path) -> None:
    for name in ("x.urec", "x"):
        with pytest.raises(FileNotFoundError, match="none"):
            Writer(tmp_path / "none" / name, {"label": "int8"})


def test_a_file_in_the_place_of_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("mine")
    with pytest.raises(OSError, match="x"):
        Writer(tmp_path / "x", {"label": "int8"}, overwrite=True)
    (tmp_path / "d.urec").mkdir()
    with pytest.raises(OSError, match=r"d\.urec"):
        Writer(tmp_path / "d.urec", {"label": "int8"}, overwrite=True)
    assert (tmp_path / "x").read_text() == "mine"


def constructor_is_refused(folder: Path) -> bool:
    try:
        Writer(folder / "x.urec", {"label": "int8"})
    except PermissionError as error:
        return str(folder) in str(error)
    return False


def test_a_read_only_folder_is_reported_by_the_constructor(tmp_path: Path) -> None:
    """Root may write anywhere, so a root gives its privileges up in a child."""
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o555)
    for parent in [tmp_path, *tmp_path.parents][:3]:  # pytest's own, which nobody else may enter
        if parent.stat().st_uid == os.geteuid() and parent != Path("/tmp"):
            parent.chmod(parent.stat().st_mode | 0o055)
    pid = os.fork()
    if pid == 0:
        if os.geteuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        os._exit(0 if constructor_is_refused(folder) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_appending_other_columns_is_refused(tmp_path: Path) -> None:
    with Writer(tmp_path / "x", {"label": "int8"}) as writer:
        writer.write({"label": 1})
    with pytest.raises(SchemaError):
        unirecord.append(tmp_path / "x", {"label": "int16"})
    with (
        unirecord.append(tmp_path / "x") as writer,
        pytest.raises(SchemaError, match="row 0, column 'label'"),
    ):
        writer.write({"label": 1000})
    with pytest.raises(SchemaError, match="a single part is never changed"):
        unirecord.append(tmp_path / "x.urec")
    assert read(tmp_path / "x") == [{"label": 1}]
