"""Column names: any UTF-8 without control characters, written, stored, queried and given on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import read_part
from reference_directory import read_directory

import unirecord
from unirecord import FormatError, SchemaError, UniRecordDataset, Writer
from unirecord.cli.main import main
from unirecord.format.schema import Schema
from unirecord.query.tree import Field

ODD = [
    "a b",
    "na-me",
    "x.y",
    "`",
    "a`b``",
    '"',
    "'",
    "\\",
    "é",
    "\u0065\u0301",
    "日本語",
    "\u200b",
    " ",
    "a,b",
    "row",
]
REFUSED = [
    ("", "0 bytes"),
    ("x" * 256, "256 bytes"),
    ("é" * 128, "256 bytes"),
    *((f"a{chr(code)}", "control character") for code in (0, 9, 10, 0x1F, 0x7F, 0x80, 0x85, 0x9F)),
    ("a\ud800", "lone surrogate"),
    (3, "a name is a str"),
]


@pytest.mark.parametrize(("name", "said"), REFUSED)
def test_a_name_that_is_not_allowed_is_refused_by_writer_and_reader(name: Any, said: str) -> None:
    with pytest.raises(SchemaError, match=f"is not allowed: .*{said}"):
        Schema.parse({name: "int32"})
    with pytest.raises(FormatError, match="the stored schema"):
        Schema.from_wire([[name, "int32", None]])


@pytest.mark.parametrize("name", ["x" * 255, "é" * 127 + "x", "\xa0", "\u2028"])
def test_the_longest_and_the_oddest_names_are_taken(name: str) -> None:
    assert Schema.from_wire(Schema.parse({name: "int32"}).to_wire()).names == (name,)


def test_odd_names_go_through_files_manifests_and_queries(tmp_path: Path) -> None:
    schema = dict.fromkeys(ODD, "int32")
    with Writer(tmp_path / "set", schema, index=ODD[:3]) as writer:
        for row in range(10):
            writer.write({name: row + i for i, name in enumerate(ODD)})
    ds = UniRecordDataset(tmp_path / "set")
    assert list(ds[0]) == ODD
    assert list(next(iter(ds.batches(4)))) == ODD
    assert unirecord.verify(tmp_path / "set").ok
    for i, name in enumerate(ODD):
        quoted = "`" + name.replace("`", "``") + "`"
        assert UniRecordDataset(tmp_path / "set", where=f"{quoted} == {i + 4}").order.row_ids().tolist() == [
            4
        ]
    (part,) = read_directory(tmp_path / "set")
    assert [c.name for c in part.schema] == ODD


@pytest.mark.parametrize("ending", ["csv", "jsonl", "tfrecord", "mds"])
@pytest.mark.parametrize("name", [*ODD, '"q"', '""', "a;b", " a ", "#"])
def test_odd_names_are_exported_and_read_back(tmp_path: Path, name: str, ending: str) -> None:
    with Writer(tmp_path / "x.urec", {name: "string", "other": "string"}) as writer:
        writer.write({name: "a,b", "other": '"'})
    unirecord.export(tmp_path / "x.urec", tmp_path / f"y.{ending}", ending)
    unirecord.write_dataset(tmp_path / f"y.{ending}", tmp_path / "z.urec")
    assert UniRecordDataset(tmp_path / "z.urec")[0] == {name: "a,b", "other": '"'}


def test_a_manifest_escapes_quotes_and_backslashes_alone(tmp_path: Path) -> None:
    with Writer(tmp_path / "set", dict.fromkeys(ODD, "int32")) as writer:
        writer.write(dict.fromkeys(ODD, 1))
    text = (tmp_path / "set" / "manifest.json").read_text(encoding="utf-8")
    for name in ODD:
        assert '["' + name.replace("\\", "\\\\").replace('"', '\\"') + '","int32",null]' in text


def test_command_line_lists_take_names_in_backticks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Writer(tmp_path / "a.urec", {"a,b": "int32", "c": "int32", "`": "int32", " d ": "int8"}) as writer:
        writer.write({"a,b": 1, "c": 2, "`": 3, " d ": 4})
    assert main(["inspect", str(tmp_path / "a.urec"), "--csv", "--columns", "`a,b`, c,````,` d `"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("1,2,3,4")
    for wrong in ("a,,c", "", "`a", "a,"):
        with pytest.raises(SystemExit):
            main(["inspect", str(tmp_path / "a.urec"), "--csv", "--columns", wrong])


def test_names_before_an_equals_sign_may_be_in_backticks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, names = str(tmp_path / "d"), ["i=j", "c,d", "e`f", "[x", "a"]
    (tmp_path / "x.jsonl").write_text(json.dumps(dict.fromkeys(names, 1)))
    types = "`i=j`=int8, `c,d` = int16,`e``f`=int32,`[x`=uint8,a=int32"
    assert main(["write", str(tmp_path / "x.jsonl"), path, "--schema", types]) == 0
    with UniRecordDataset(path) as ds:
        assert ds.schema.to_spec() == dict(
            zip(names, ["int8", "int16", "int32", "uint8", "int32"], strict=True)
        )
    assert main(["write", str(tmp_path / "x.jsonl"), path, "--overwrite", "--schema", "e`f=int8,a=int8"]) == 0
    assert main(["set", path, "--where", "a == 1", "`i=j`=5", "`e``f`=6", "e`f=7"]) == 2
    assert main(["set", path, "--where", "a == 1", "`i=j`=5", "`e``f`=6", "c,d=7"]) == 0
    capsys.readouterr()
    assert main(["inspect", path, "--key", "`i=j`=5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["values"] == {"i=j": 5, "c,d": 7, "e`f": 6, "[x": 1, "a": 1}


names = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=40)


@settings(max_examples=60, deadline=None)
@given(names)
def test_any_name_is_stored_quoted_and_found(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    folder = tmp_path_factory.mktemp("name")
    with Writer(folder / "a.urec", {name: "int32", name + "2": "bytes?"}) as writer:
        writer.write({name: 7, name + "2": None})
    assert read_part(folder / "a.urec").schema[0].name == name
    field = Field(name, 0, "int32")
    found = UniRecordDataset(folder / "a.urec", where=f"{field} == 7")
    assert found[0] == {name: 7, name + "2": None}
    assert json.loads(json.dumps(found.state_dict()))["where"] == f"{field} == 7"
