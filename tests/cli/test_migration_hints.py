"""What an AttributeError tells to use instead works when it is done: each call, each option, each command."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import shlex
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import unirecord
from unirecord import UniRecordDataset, Writer, write_dataset
from unirecord.cli import main
from unirecord.migration_hints import (
    OF_DATASETS,
    OF_PACKAGES,
    OF_WRITERS,
    READING_ARGUMENTS,
    WRITING_ARGUMENTS,
    explains_arguments,
)

TABLES = (OF_DATASETS, OF_WRITERS, OF_PACKAGES, READING_ARGUMENTS, WRITING_ARGUMENTS)
SAID = sorted({said for table in TABLES for said in table.values()})
ROWS = [
    {"label": i % 5, "path": f"{i}.png", "key": "abc"[i % 3], "a": i, "image": b"x" * i} for i in range(40)
]
START = re.compile(
    r"\b(?:unirecord\.|ds[.\[]|writer\.|polars\.|(?:UniRecordDataset|Writer|len|list|enumerate)\()"
)
OPTIONS = re.compile(r"(\w+=\S*(?: and \w+=)?) of ((?:[\w.]+(?:\(\))?)(?: or [\w.]+\(\))?)")
CLOSES = {"(": ")", "[": "]", "{": "}"}
NOT_TRIED = {
    "unirecord.torch": "torch",
    "unirecord.tf": "tensorflow",
}
NEW = count()


def calls(text: str) -> list[str]:
    """The expressions in a message, to the end of their last bracket or name."""
    text = re.sub(r"`[^`]*`", "", text)
    found, at = [], 0
    while match := START.search(text, at):
        at = match.start()
        while at < len(text):
            if text[at] in CLOSES:
                at = closed(text, at)
            elif re.match(r"\w|\.\w", text[at : at + 2]):
                at += 1
            else:
                break
        found.append(text[match.start() : at])
    return found


def closed(text: str, at: int) -> int:
    """Behind the bracket that closes the one at a place."""
    depth = 0
    for place in range(at, len(text)):
        depth += (text[place] in "([{") - (text[place] in ")]}")
        if not depth:
            return place + 1
    raise AssertionError(f"a bracket stays open in {text!r}")


@pytest.fixture(scope="module", autouse=True)
def _here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("here")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_dataset(ROWS, "data", index=["key"], metadata={"classes": list("abcde")})
        Path("shards").mkdir()
        tar = min((Path(__file__).parents[1] / "data" / "webdataset").glob("*.tar"))
        shutil.copy(tar, "shards")
        Path("people.csv").write_text("id,name\n1,ann\n")
        Path("fixes.csv").write_text("path,label\n3.png,4\n")
        Path("more.csv").write_text("key,score\na,1\nb,2\nc,3\n")
        yield


def names(ds: UniRecordDataset, writer: Writer, call: str) -> dict[str, Any]:
    """What the words in a call stand for; a path is that of the dataset, or a new one where one is written."""
    path = (
        "data" if "export(" in call or "append(" in call or "describe(" in call or "target" in call else "new"
    )
    if "UniRecordDataset(" in call:
        path = "data"
    if any(
        change in call for change in ("_columns(", "compact(", "delete(", "update(", "upsert(", "set_values(")
    ):
        path = shutil.copytree("data", f"new{next(NEW)}")
    record = {name: b"x" if name == "image" else 1 for name in ("label", "image") if name in writer.schema}
    columns = {"label": np.arange(3), "image": [b"x"] * 3}
    return {
        "unirecord": unirecord, "UniRecordDataset": UniRecordDataset, "Writer": Writer, "ds": ds, "writer": writer,
        "web": ds, "code": ds, "path": f"new{next(NEW)}" if path == "new" else path, "source": "people.csv",
        "dataset": ROWS, "folder": "shards", "a": "data", "b": "data", "f": lambda sample: sample, "n": 1, "i": 1,
        "state": ds.state_dict(), "rows": [3, 1], "names": ["label"], "start": 2, "stop": 5, "record": record,
        "columns": ["label"] if "to_batches" in call else columns, "array": np.zeros((2, 224, 224), np.float32),
        "table": pa.table(columns).cast(pa.schema({"label": pa.int32(), "image": pa.binary()})),
        "schema": {"label": "int32", "image": "bytes"}, **packages(call),
        "score": lambda batch: {"score": np.zeros(len(batch["label"]))},
    }  # fmt: skip


def packages(call: str) -> dict[str, Any]:
    return {"polars": pytest.importorskip("polars")} if "polars" in call else {}


def follow(call: str, ds: UniRecordDataset, writer: Writer) -> Any:
    filled = call.replace("where=…", "where='label == 3'").replace("workers=…", "workers=1")
    filled = filled.replace("max_part_bytes=…", "max_part_bytes='1MB'").replace("'x.", f"'x{next(NEW)}.")
    ending = "" if "write_dataset" in call else ".csv"
    filled = filled.replace("target", f"'target{next(NEW)}{ending}'")
    for package in (name for start, name in NOT_TRIED.items() if call.startswith(start)):
        if "…" in call or importlib.util.find_spec(package) is None:
            return None
    if call.startswith(("unirecord.torch", "unirecord.tf", "unirecord.images")):
        importlib.import_module(".".join(call.split(".")[:2]))
    return eval(filled, names(ds, writer, call))


def test_hints_of_the_package_need_no_writer_and_no_dataset_yet() -> None:
    for name, said in OF_PACKAGES.items():
        assert not said.startswith(("writer.", "ds.")), name


@pytest.mark.parametrize("said", SAID)
def test_what_is_said_can_be_done(said: str) -> None:
    tried = 0
    with UniRecordDataset("data") as ds:
        writer = Writer(f"w{next(NEW)}", {"label": "int32", "image": "bytes"})
        try:
            for call in calls(said):
                found = follow(call, ds, writer)
                if isinstance(found, Writer) and "write_batch" in said:
                    writer.abort()
                    writer = found
                elif isinstance(found, Writer):
                    found.abort()
                elif isinstance(found, UniRecordDataset) and call.startswith("UniRecordDataset("):
                    found.close()
                tried += 1
        finally:
            writer.abort()
        for options, owners in OPTIONS.findall(said):
            for owner in owners.split(" or "):
                called = {"batches()": ds.batches, "UniRecordDataset": UniRecordDataset}.get(owner) or eval(
                    owner.removesuffix("()"), {"ds": ds, "unirecord": unirecord, "Writer": Writer}
                )
                for option in re.findall(r"(\w+)=", options):
                    assert option in inspect.signature(called).parameters, owner
                    tried += 1
    for command in re.findall(r"`unirecord ([^`]*)`", said):
        assert main(shlex.split(command.replace("PATH", "data").replace("DST", f"dst{next(NEW)}"))) == 0, (
            command
        )
        tried += 1
    assert tried or re.search(r"iterate over ds|leave it out|columns are the schema|publishes all", said), (
        "it says nothing to do"
    )


def reading_calls(ds: UniRecordDataset) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    found: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "UniRecordDataset": (UniRecordDataset, ("data",)),
        "ds.batches": (ds.batches, (2,)),
        "ds.view": (ds.view, ()),
        "ds.pipeline": (ds.pipeline, ()),
    }
    loaders = {"torch": "loader", "jax": "loader", "lightning": "loader", "tf": "dataset"}
    for name, function in loaders.items():
        if importlib.util.find_spec({"tf": "tensorflow"}.get(name, name)) is not None:
            module = importlib.import_module(f"unirecord.{name}")
            found[f"{name}.{function}"] = (getattr(module, function), (ds, 2))
    return found


def test_an_argument_of_another_library_says_what_to_use_here() -> None:
    with UniRecordDataset("data") as ds:
        for call, given in reading_calls(ds).values():
            takes = inspect.signature(call).parameters
            here = (
                inspect.signature(ds.batches).parameters
                if "options" in takes or "read_ahead" in takes
                else {}
            )
            for name, said in READING_ARGUMENTS.items():
                if name in takes or name in here:
                    continue
                with pytest.raises(
                    TypeError, match=f"unexpected keyword argument '{name}'; {re.escape(said)}$"
                ):
                    call(*given, **{name: 1})
        for name, said in WRITING_ARGUMENTS.items():
            for write in (Writer, unirecord.append):
                with pytest.raises(
                    TypeError, match=f"unexpected keyword argument '{name}'; {re.escape(said)}$"
                ):
                    write("never", {"label": "int32"}, **{name: 1})
    for source in ("people.csv", ["people.csv", "more.csv"], [{"a": 1}], {"a": [1]}):
        with pytest.raises(
            TypeError, match=f"no option compression=; {re.escape(WRITING_ARGUMENTS['compression'])}$"
        ):
            write_dataset(source, "never", compression="zstd")
    assert not Path("never").exists()


def test_an_argument_that_is_misspelt_is_named_and_what_else_is_wrong_is_as_ever() -> None:
    with UniRecordDataset("data") as ds:
        with pytest.raises(TypeError, match=r"'prefetchh'[;.] [Dd]id you mean 'prefetch'\?$"):
            ds.batches(2, prefetchh=3)  # type: ignore[call-overload]
        with pytest.raises(TypeError, match=r"unexpected keyword argument 'nonsense'$"):
            ds.batches(2, nonsense=3)  # type: ignore[call-overload]
        with pytest.raises(TypeError, match=r"missing 1 required positional argument: 'batch_size'$"):
            ds.batches()  # type: ignore[call-overload]
        with pytest.raises(TypeError, match=r"transform must be a function, got 3$"):
            ds.view(transform=3)  # type: ignore[call-overload]

        def wrong(sample: Any) -> Any:
            return dict(**sample, columns=UniRecordDataset("data", batch_size=3))  # type: ignore[call-overload]

        with pytest.raises(TypeError, match=r"'batch_size'; ds\.batches\(32\) gives batches$"):
            wrong({})
    assert inspect.signature(Writer).parameters["schema"].default is None
    assert explains_arguments({})(len)([1]) == 1
