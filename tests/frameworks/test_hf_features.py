"""What came from Hugging Face datasets is what it was there: features, files within lists, and splits."""

from __future__ import annotations

import datetime
import decimal
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unirecord
from unirecord import ExistsError, MissingError, SchemaError, UniRecordDataset, UniRecordError, Writer

datasets = pytest.importorskip("datasets")
pytest.importorskip("PIL.Image")

from datasets import (  # noqa: E402
    Array2D,
    Audio,
    ClassLabel,
    Dataset,
    DatasetDict,
    Features,
    Image,
    Json,
    LargeList,
    List,
    Sequence,
    Translation,
    TranslationVariableLanguages,
    Value,
    load_dataset,
)

import unirecord.hf  # noqa: E402


def png(shade: int = 0) -> bytes:
    from PIL import Image as Pictures

    out = io.BytesIO()
    Pictures.new("RGB", (2, 2), (shade, 0, 0)).save(out, "png")
    return out.getvalue()


NOON = datetime.datetime(2020, 1, 1, 12)
CASES: dict[str, tuple[Any, Any]] = {
    "int": (Value("int64"), 1),
    "small": (Value("uint8"), 3),
    "half": (Value("float16"), 1.5),
    "text": (Value("string"), "a"),
    "long text": (Value("large_string"), "a"),
    "bytes": (Value("binary"), b"x"),
    "time": (Value("timestamp[us, tz=UTC]"), NOON.replace(tzinfo=datetime.UTC)),
    "day": (Value("date32"), NOON.date()),
    "clock": (Value("time32[s]"), datetime.time(1, 2, 3)),
    "price": (Value("decimal128(9, 2)"), decimal.Decimal("1.50")),
    "class": (ClassLabel(names=["x", "y"]), 1),
    "list": (List(Value("int64")), [1, 2]),
    "large list": (LargeList(Value("int8")), [1]),
    "three": (List(Value("float32"), length=3), [1.0, 2.0, 3.0]),
    "classes": (List(ClassLabel(names=["x", "y"])), [1, 0]),
    "times": (List(Value("timestamp[s]")), [NOON]),
    "decimals": (List(Value("decimal128(20, 3)")), [decimal.Decimal("1.500")]),
    "class in a struct": ({"k": ClassLabel(names=["p", "q"]), "v": Value("string")}, {"k": 0, "v": "z"}),
    "chat": (List({"role": Value("string"), "content": Value("string")}), [{"role": "u", "content": "hé"}]),
    "sequence": (Sequence({"a": Value("int32")}), {"a": [1, 2]}),
    "translation": (Translation(languages=["en", "fr"]), {"en": "a", "fr": "b"}),
    "translations": (
        TranslationVariableLanguages(languages=["en", "fr"]), {"language": ["en", "fr"], "translation": ["a", "b"]},
    ),
    "matrix": (Array2D(shape=(2, 3), dtype="float32"), np.ones((2, 3), np.float32)),
    "rows": (Array2D(shape=(None, 3), dtype="float32"), np.ones((4, 3), np.float32)),
    "json": (Json(), {"any": [1, None]}),
    "picture": (Image(), {"bytes": png(), "path": None}),
    "file": (Image(decode=False), {"bytes": png(), "path": None}),
    "pictures": (List(Image()), [{"bytes": png(), "path": "a.png"}]),
    "picture in a struct": ({"im": Image(decode=False)}, {"im": {"bytes": png(), "path": None}}),
    "sound": (Audio(sampling_rate=16_000, decode=False), {"bytes": b"RIFF", "path": None}),
}  # fmt: skip
FEATURES = {name: feature for name, (feature, _) in CASES.items()}


@pytest.fixture(scope="module")
def everything() -> Any:
    rows = [{name: value for name, (_, value) in CASES.items()}] * 3
    stored = {
        "bytes": Value("binary"),
        "path": Value("string"),
    }  # `Audio` itself takes files by torchcodec alone
    found = Dataset.from_list(rows, features=Features({**FEATURES, "sound": stored}))
    return found.cast_column("sound", FEATURES["sound"])


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.tobytes() if hasattr(value, "getbands") else value


@pytest.mark.parametrize("way", ["memory", "parquet", "save_to_disk"])
def test_features_and_values_come_back(everything: Any, tmp_path: Path, way: str) -> None:
    if way != "memory":  # datasets itself fails to write these
        everything = everything.remove_columns(["translation", "translations"])
    source: Any = everything
    if way == "parquet":
        everything.to_parquet(source := tmp_path / "x.parquet")
    elif way == "save_to_disk":
        everything.save_to_disk(source := tmp_path / "saved")
    unirecord.write_dataset(source, tmp_path / "out", workers=1)
    ds = UniRecordDataset(tmp_path / "out")
    back = unirecord.hf.dataset(ds)
    for name, feature in everything.features.items():
        assert back.features[name] == feature, name
    assert back.features == everything.features
    table = unirecord.hf.table(ds.view(columns=list(everything.features)))
    assert table.features == everything.features
    for found in (list(back)[1], table[1]):
        for name, value in everything[1].items():
            assert plain(found[name]) == plain(value), name


def test_what_a_type_says_is_said_once(everything: Any, tmp_path: Path) -> None:
    """Other rows can be appended to columns of which nothing else is known."""
    unirecord.write_dataset(everything, tmp_path / "out", workers=1)
    schema = UniRecordDataset(tmp_path / "out").schema
    said = {name for name in FEATURES if "huggingface" in schema[name].annotations}
    assert not said & {
        "int", "small", "half", "text", "time", "day", "clock", "price", "class", "large list", "three", "chat",
        "sequence", "matrix", "picture", "decimals",
    }  # fmt: skip


def kinds() -> st.SearchStrategy[Any]:
    """Features, with a value of each."""
    leaves = st.sampled_from([
        (Value("int32"), 1), (Value("string"), "a"), (Value("bool"), True), (Value("float64"), 0.5),
        (ClassLabel(names=["n", "y"]), 1), (Value("timestamp[ms]"), NOON), (Value("binary"), b"b"),
    ])  # fmt: skip
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            inner.map(lambda made: (List(made[0]), [made[1]])),
            inner.map(lambda made: (LargeList(made[0]), [made[1], made[1]])),
            st.dictionaries(st.sampled_from(["a", "b", "c d"]), inner, min_size=1, max_size=3).map(
                lambda made: (
                    {name: feature for name, (feature, _) in made.items()},
                    {name: value for name, (_, value) in made.items()},
                )
            ),
        ),
        max_leaves=6,
    )


@settings(deadline=None, max_examples=40)
@given(made=kinds(), has_null=st.booleans())
def test_any_features_come_back(tmp_path_factory: pytest.TempPathFactory, made: Any, has_null: bool) -> None:
    feature, value = made
    rows = [{"x": value}] + [{"x": None}] * has_null
    given = Dataset.from_list(rows, features=Features({"x": feature}))
    path = tmp_path_factory.mktemp("features") / "x"
    unirecord.write_dataset(given, path, workers=1)
    back = unirecord.hf.dataset(UniRecordDataset(path))
    assert back.features == given.features
    assert [row["x"] for row in back] == given["x"][:]


def test_files_that_are_named_within_lists_are_brought_along(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png(7))
    rows = [{"x": [str(tmp_path / "a.png")], "y": {"im": str(tmp_path / "a.png")}}]
    given = Dataset.from_list(rows, features=Features({"x": List(Image()), "y": {"im": Image()}}))
    unirecord.write_dataset(given, tmp_path / "out", workers=1)
    (tmp_path / "a.png").unlink()
    (row,) = unirecord.hf.dataset(UniRecordDataset(tmp_path / "out"))
    assert row["x"][0].getpixel((0, 0)) == row["y"]["im"].getpixel((0, 0)) == (7, 0, 0)


# ---- hostile annotations, and values that fit no longer -----------------------------------------------------


@pytest.mark.parametrize(
    "said",
    [
        "", "[", "3", '"Value"', "null", json.dumps({"_type": "os.system"}), json.dumps({"_type": "Value", "dtype": 3}),
        json.dumps({"_type": "Value", "dtype": "log_memory_allocations"}), json.dumps({"_type": "Value"}),
        json.dumps({"_type": "List", "feature": {"_type": "Value", "dtype": "system_memory_pool"}}),
        json.dumps({"a": [{"_type": "Value", "dtype": "_gdb_test_session"}]}), json.dumps({"_type": "List"}),
        json.dumps({"_type": "Array2D", "shape": [1], "dtype": "int8"}), '{"a":' * 5_000 + "1" + "}" * 5_000,
        json.dumps({"_type": "Array2D", "shape": [1, 1], "dtype": "cpu_count"}),
        json.dumps({"_type": "ClassLabel", "names": 3}),
    ],
)  # fmt: skip
def test_an_annotation_that_is_no_feature_is_an_error_that_names_the_column(
    tmp_path: Path, said: str
) -> None:
    schema = {"x": {"type": "int64", "annotations": {"huggingface": said}}}
    with Writer(tmp_path / "x.urec", schema) as writer:
        writer.write({"x": 1})
    ds = UniRecordDataset(tmp_path / "x.urec")
    assert ds[0]["x"] == 1
    with pytest.raises(SchemaError, match="column 'x': its annotation 'huggingface'"):
        unirecord.hf.dataset(ds)


def test_values_that_do_not_fit_the_feature_are_an_error(tmp_path: Path) -> None:
    said = json.dumps({"_type": "Value", "dtype": "int8"})
    with Writer(
        tmp_path / "x.urec", {"x": {"type": "int64", "annotations": {"huggingface": said}}}
    ) as writer:
        writer.write({"x": 300})
    data = unirecord.hf.dataset(UniRecordDataset(tmp_path / "x.urec"))
    with pytest.raises(SchemaError, match="column 'x': a value does not fit what it was in datasets, int8"):
        list(data)


# ---- splits -------------------------------------------------------------------------------------------------


def splits() -> Any:
    made = {
        name: Dataset.from_dict(
            {"x": list(range(rows)), "chat": [[{"role": "u"}]] * rows},
            features=Features({"x": Value("int64"), "chat": List({"role": Value("string")})}),
        )
        for name, rows in (("train", 5), ("test", 3))
    }
    return DatasetDict(made)


def test_a_dataset_dict_is_a_folder_per_split_and_back(tmp_path: Path) -> None:
    given = splits()
    written = unirecord.hf.write_splits(given, tmp_path / "out", workers=1)
    assert written == {"train": 5, "test": 3}
    assert len(UniRecordDataset(tmp_path / "out" / "train")) == 5
    back = unirecord.hf.read_splits(tmp_path / "out", where="x > 0")
    assert {name: len(list(one)) for name, one in back.items()} == {"train": 4, "test": 2}
    loaded = load_dataset("unirecord", data_dir=str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))
    assert {name: one["x"][:] for name, one in loaded.items()} == {
        name: one["x"][:] for name, one in given.items()
    }
    assert all(one.features == given["train"].features for one in (*loaded.values(), *back.values()))
    with pytest.raises(SchemaError, match=r"unirecord\.hf\.write_splits"):
        unirecord.write_dataset(given, tmp_path / "other")
    with pytest.raises(MissingError, match="no folder of datasets"):
        unirecord.hf.read_splits(tmp_path / "out" / "train")
    with pytest.raises(ExistsError):
        unirecord.hf.write_splits(given, tmp_path / "out")
    with pytest.raises(MissingError, match="the folder above does not exist"):
        unirecord.hf.write_splits(given, tmp_path / "nowhere" / "out")
    for wrong in ({}, {"../x": given["train"]}, {"": given["train"]}, {"a.urec": given["train"]}):
        with pytest.raises(ValueError, match="splits are called by the names of their folders"):
            unirecord.hf.write_splits(wrong, tmp_path / "wrong")


def test_splits_that_cannot_be_written_are_named_and_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(one: Any, path: str, **options: Any) -> Any:
        if path.endswith("test") and not options.get("dry_run", False):
            raise OSError("the disk is full")
        return unirecord.write_dataset(one, path, **options)

    whole = splits()["train"]
    with monkeypatch.context() as patch:
        patch.setattr("unirecord.frameworks.hf.write_dataset", write)
        with pytest.raises(OSError, match="full") as raised:
            unirecord.hf.write_splits({"train": whole, "test": whole, "more": whole}, tmp_path / "out")
    assert raised.value.__notes__ == [
        f"{tmp_path / 'out'}: of the splits there is train, whole, and not test, more: write_splits with these, into "
        "the same folder, goes on"
    ]
    assert sorted(unirecord.hf.read_splits(tmp_path / "out")) == ["train"]
    rest = {"test": whole, "more": whole}
    assert unirecord.hf.write_splits(rest, tmp_path / "out") == {"test": 5, "more": 5}
    assert sorted(unirecord.hf.read_splits(tmp_path / "out")) == ["more", "test", "train"]


def test_all_splits_are_looked_through_before_one_is_written(tmp_path: Path) -> None:
    given = splits()
    given["test"] = given["test"].rename_column("x", "y")
    with pytest.raises(UniRecordError):
        unirecord.hf.write_splits(given, tmp_path / "out", columns=["x"])
    assert not (tmp_path / "out").exists()
    assert unirecord.hf.write_splits(splits(), tmp_path / "out", dry_run=True) == {"train": 5, "test": 3}
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("parts", ["one.urec", "many", "single", "loose"])
@pytest.mark.parametrize("option", ["data_files", "data_dir"])
def test_a_folder_is_loaded_by_its_name(tmp_path: Path, parts: str, option: str, streaming: bool) -> None:
    def write(path: Path, first: int = 0, **options: Any) -> None:
        with Writer(path, {"n": "int64", "s": "string"}, **options) as writer:
            for n in range(first, first + 300):
                writer.write({"n": n, "s": "a" * 50})

    path = tmp_path / parts
    if parts == "loose":
        path.mkdir()
        write(path / "a.urec")
        write(path / "b.urec", 300)
    else:
        write(path, **({"max_part_bytes": 12_000} if parts == "many" else {}))
    if parts == "one.urec" and option == "data_dir":
        return
    data = load_dataset(
        "unirecord", split="train", streaming=streaming, cache_dir=str(tmp_path / "cache"),
        **{option: str(path)},
    )  # fmt: skip
    assert sorted(row["n"] for row in data) == list(range(600 if parts == "loose" else 300))


def test_a_folder_without_parts_is_not_found_as_before(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="Unable to find"):
        load_dataset("unirecord", data_files=str(tmp_path / "empty"), cache_dir=str(tmp_path / "cache"))
    with pytest.raises(FileNotFoundError, match="Unable to find"):
        load_dataset("csv", data_files=str(tmp_path / "empty"), cache_dir=str(tmp_path / "cache"))
