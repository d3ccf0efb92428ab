"""What folders say of the files in them: partition columns, and tables of formats that are more than their files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sources import rows_at

from unirecord.convert.sources import open_source
from unirecord.errors import SchemaError


def save(path: Path) -> None:
    """A file of one row, by its suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"q": [1]}), path)
    elif path.suffix == ".arrow":
        with (
            pa.OSFile(str(path), "wb") as sink,
            pa.ipc.new_file(sink, pa.schema([("q", pa.int64())])) as file,
        ):
            file.write_table(pa.table({"q": [1]}))
    else:
        path.write_text('{"q": 1}\n' if path.suffix == ".jsonl" else "q\n1\n")


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".csv", ".jsonl"])
@pytest.mark.parametrize("pattern", ["", "/*/*/*"])
def test_partition_columns_are_columns(suffix: str, pattern: str, tmp_path: Path) -> None:
    for folder in ("year=2023/cls=a%2Fb", "year=2024/cls=7", "year=__HIVE_DEFAULT_PARTITION__/cls=c"):
        save(tmp_path / "t" / folder / f"part-0{suffix}")
    source = open_source(f"{tmp_path}/t{pattern}")
    assert source.schema.to_spec() == {"q": "int64", "year": "int64?", "cls": "string"}
    assert sorted(rows_at(f"{tmp_path}/t{pattern}"), key=lambda row: row["cls"]) == [
        {"q": 1, "year": 2024, "cls": "7"},
        {"q": 1, "year": 2023, "cls": "a/b"},
        {"q": 1, "year": None, "cls": "c"},
    ]


def test_what_pandas_has_partitioned_comes_back(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"a": [1, 2], "year": [2023, 2024], "cls": ["cat", "dog"]})
    frame.to_parquet(tmp_path / "t", partition_cols=["year", "cls"])
    assert rows_at(tmp_path / "t") == frame.to_dict("records")


def test_a_column_of_the_file_counts_and_folders_that_differ_are_refused(tmp_path: Path) -> None:
    save(tmp_path / "t/q=5/a.csv")
    assert rows_at(tmp_path / "t") == [{"q": 1}]
    save(tmp_path / "t/a.csv")
    with pytest.raises(SchemaError, match=r"its folders say .*write them to datasets of their own"):
        open_source(str(tmp_path / "t"))


@pytest.mark.parametrize(
    ("mark", "name"),
    [
        ("_delta_log/0.json", "Delta Lake"),
        (".hoodie/hoodie.properties", "Apache Hudi"),
        ("metadata/v1.metadata.json", "Apache Iceberg"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"kind": "parquet"}])
def test_the_folder_of_a_table_format_is_refused_by_its_name(
    mark: str, name: str, options: dict[str, Any], tmp_path: Path
) -> None:
    save(tmp_path / "t/data/k=1/a.parquet")
    (tmp_path / "t" / mark).parent.mkdir()
    (tmp_path / "t" / mark).write_text("{}")
    for folder in ("t", "t/data", "t/data/k=1"):
        with pytest.raises(SchemaError, match=f"is a table of {name}.*unirecord.write_dataset"):
            open_source(str(tmp_path / folder), **options)
    assert rows_at(f"{tmp_path}/t/data/k=1/*.parquet") == [{"q": 1}]
