"""`make mindspore`: unirecord.mindspore.dataset(ds) beside MindRecord's reader: rows, names, types and sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mindspore.dataset
import numpy as np
import pytest
from mindspore.mindrecord import FileWriter

import unirecord
from unirecord import SchemaError, UniRecordDataset, Writer

ROWS = 50


def row(n: int) -> dict[str, Any]:
    return {"n": n, "x": np.full((2, 3), n, np.float32), "name": f"row {n}"}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("mindspore") / "a.urec"
    with Writer(found, {"n": "int64", "x": {"type": "float32", "shape": [2, 3]}, "name": "string"}) as writer:
        for n in range(ROWS):
            writer.write(row(n))
    return found


def test_names_types_shapes_and_size(path: Path) -> None:
    data = unirecord.mindspore.dataset(UniRecordDataset(path), 8, drop_last=True)
    assert data.get_col_names() == ["n", "x", "name"]
    assert data.get_dataset_size() == 6
    assert [str(kind) for kind in data.output_types()[:2]] == ["int64", "float32"]
    assert data.output_shapes()[:2] == [[8], [8, 2, 3]]
    first = next(data.create_dict_iterator(num_epochs=1, output_numpy=True))
    assert first["n"].tolist() == list(range(8)), "looking at the types has not begun an epoch"


def test_the_rows_are_those_of_mindrecord(path: Path, tmp_path: Path) -> None:
    writer = FileWriter(str(tmp_path / "a.mindrecord"))
    writer.add_schema(
        {"n": {"type": "int64"}, "x": {"type": "float32", "shape": [2, 3]}, "name": {"type": "string"}}
    )
    writer.write_raw_data([row(n) for n in range(ROWS)])
    writer.commit()
    theirs = mindspore.dataset.MindDataset(str(tmp_path / "a.mindrecord"), shuffle=False).batch(8)
    ours = unirecord.mindspore.dataset(UniRecordDataset(path), 8)
    pairs = zip(
        theirs.create_dict_iterator(num_epochs=1, output_numpy=True),
        ours.create_dict_iterator(num_epochs=1, output_numpy=True),
        strict=True,
    )
    for found, expected in ((b, a) for a, b in pairs):
        assert set(found) == set(expected)
        for name in found:
            assert found[name].dtype == expected[name].dtype
            assert found[name].tolist() == expected[name].tolist()


def test_one_iterator_goes_through_epochs(path: Path) -> None:
    ds = UniRecordDataset(path, shuffle=True, seed=1)
    wanted = []
    for epoch in range(3):
        ds.set_epoch(epoch)
        wanted.append(ds.order.row_ids().tolist())
    ds.set_epoch(0)
    iterator = unirecord.mindspore.dataset(ds, 8).create_dict_iterator(num_epochs=3, output_numpy=True)
    assert [[int(n) for batch in iterator for n in batch["n"]] for _ in range(3)] == wanted


def test_operators_of_mindspore_follow(path: Path) -> None:
    data = unirecord.mindspore.dataset(UniRecordDataset(path), 8).map(lambda x: x * 2, input_columns=["x"])
    found = [x for r in data.create_dict_iterator(num_epochs=1, output_numpy=True) for x in r["x"][:, 0, 0]]
    assert found == [2 * n for n in range(ROWS)]


def test_what_has_no_form_is_refused(path: Path, tmp_path: Path) -> None:
    with Writer(tmp_path / "b.urec", {"blob": "bytes", "t": "text"}) as writer:
        writer.write({"blob": b"", "t": "a\0"})
    with pytest.raises(SchemaError, match="'blob'"):
        unirecord.mindspore.dataset(UniRecordDataset(tmp_path / "b.urec"), 1)
    with pytest.raises(ValueError, match="transform"):
        unirecord.mindspore.dataset(UniRecordDataset(path, transform=len), 1)
    texts = unirecord.mindspore.dataset(UniRecordDataset(tmp_path / "b.urec", columns=["t"]), 1)
    with pytest.raises(RuntimeError, match="zero character"):
        list(texts.create_dict_iterator(num_epochs=1, output_numpy=True))


def cells(data: Any, name: str) -> list[Any]:
    return [
        x for r in data.create_dict_iterator(num_epochs=1, output_numpy=True) for x in r[name].reshape(-1)
    ]


def test_what_a_refused_transform_is_advised_works(path: Path) -> None:
    ds = UniRecordDataset(path, columns=["n"], transform=len)
    with pytest.raises(
        ValueError,
        match=r"use unirecord.mindspore.dataset\(ds.view\(transform=None\), …\), and .map\(\) on what it",
    ):
        unirecord.mindspore.dataset(ds, 8)
    data = unirecord.mindspore.dataset(ds.view(transform=None), 8)
    assert cells(data.map(lambda n: n * 2, input_columns=["n"]), "n") == [2 * n for n in range(ROWS)]


def test_what_a_column_without_a_form_is_advised_works(tmp_path: Path) -> None:
    with Writer(tmp_path / "b.urec", {"n": "int64", "blob": "bytes"}) as writer:
        for n in range(ROWS):
            writer.write({"n": n, "blob": bytes([n, n])})
    with pytest.raises(
        SchemaError,
        match=r"with columns=\[...\], or convert it in a pipeline, and give its batches to a GeneratorDataset",
    ):
        unirecord.mindspore.dataset(UniRecordDataset(tmp_path / "b.urec"), 8)
    chosen = unirecord.mindspore.dataset(UniRecordDataset(tmp_path / "b.urec", columns=["n"]), 8)
    assert cells(chosen, "n") == list(range(ROWS))
    pipeline = UniRecordDataset(tmp_path / "b.urec").pipeline()
    converted = pipeline.map(lambda blob: np.frombuffer(blob, np.uint8), columns=["blob"]).batch(10)
    data = mindspore.dataset.GeneratorDataset(
        lambda: ((one["n"], one["blob"]) for one in converted), ["n", "x"]
    )
    assert cells(data, "x") == [n for n in range(ROWS) for _ in range(2)]


def test_what_drawn_batches_are_advised_works(path: Path) -> None:
    drawn = unirecord.balanced(UniRecordDataset(path, columns=["n"]), "n", classes=2, per_class=1)
    with pytest.raises(TypeError, match=r"GeneratorDataset takes drawn.batches\(\) as it is, once an epoch"):
        unirecord.mindspore.dataset(drawn, 2)
    data = mindspore.dataset.GeneratorDataset(drawn.batches(), ["batch"])
    found = [x for r in data.create_dict_iterator(num_epochs=1, output_numpy=True) for x in r["batch"]["n"]]
    assert sorted(found) == list(range(ROWS))
