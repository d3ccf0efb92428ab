"""A manifest is read as it was written, and anything else is refused by file and reason."""

from __future__ import annotations

import gc
import json
import re
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import reseal
from hypothesis import given
from hypothesis import strategies as st
from reference_rules import wide_digest

import unirecord
from unirecord.errors import CorruptionError, FormatError, UniRecordError
from unirecord.format.schema import Schema
from unirecord.snapshot import manifest
from unirecord.snapshot.layouts import Layout, PartColumns
from unirecord.snapshot.manifest import Manifest, PartEntry
from unirecord.snapshot.part_list import PartList, decode_piece, encode_piece
from unirecord.snapshot.snapshot import ListedRefs

SCHEMA = Schema.parse({"x": "int32", "b": {"type": "float32", "shape": [-1, 4]}})
DIGEST = manifest.schema_digest(SCHEMA)


def entry(number: int) -> PartEntry:
    part_id = manifest.part_id(b"d" * 16, number)
    return PartEntry(
        manifest.part_name(number, part_id), part_id, 10 * number, 1_000, 500, DIGEST, "0123456789abcdef" * 2
    )


GOOD = Manifest(b"d" * 16, 3, 7, SCHEMA, ("x",), b"\x81\xa1a\x01", (entry(1), entry(6)))


def changed(**keys: Any) -> bytes:
    """A manifest with other values, and a digest that is right."""
    content = json.loads(manifest.encode(GOOD)) | keys
    return reseal.sealed({key: value for key, value in content.items() if value is not ...})


def parts(**keys: Any) -> list[dict[str, Any]]:
    found = json.loads(manifest.encode(GOOD))["parts"]
    return [found[0], found[1] | keys]


def test_what_is_optional_is_kept_and_what_is_required_must_be_known() -> None:
    later = replace(GOOD, optional={"lineage": [1, {"x": None}]}, created_by="unirecord 9.9")
    assert manifest.decode(manifest.encode(later), "m") == later
    with pytest.raises(FormatError, match=r"erasures.*upgrade"):
        manifest.decode(changed(required=["erasures"]), "m")
    with pytest.raises(FormatError, match="do not agree whether rows have been deleted"):
        manifest.decode(changed(required=["deletions"]), "m")
    # What is empty is left out: a manifest has one form.
    empty = ({"required": []}, {"optional": {}}, {"layouts": []}, {"pieces": []})
    for keys in (*empty, {"required": "x"}, {"required": [1]}, {"optional": []}, {"more": 1}):
        with pytest.raises(FormatError):
            manifest.decode(changed(**keys), "m")


@pytest.mark.parametrize("made", [GOOD, replace(GOOD, parts=(), metadata=None, index=(), next_part=0)])
def test_a_manifest_comes_back(made: Manifest) -> None:
    assert manifest.decode(manifest.encode(made), "m") == made
    assert manifest.encode(made).endswith(b"}\n")


@pytest.mark.parametrize(
    "made",
    [
        replace(GOOD, optional={"a": 1, "parts": [1]}),
        replace(GOOD, parts=(), optional={"a": {"parts": [json.loads(manifest.encode(GOOD))["parts"][0]]}}),
        replace(GOOD, created_by='x","digest":"0123456789abcdef",é'),
        replace(GOOD, parts=(entry(6)._replace(rows=(1 << 62), bytes=(1 << 63) - 1),)),
    ],
)
def test_what_stands_in_other_keys_is_not_taken_for_parts(made: Manifest) -> None:
    assert manifest.decode(manifest.encode(made), "m") == made


@pytest.mark.parametrize("in_pieces", [0, 1, 2])
def test_the_parts_of_a_manifest_are_a_sequence_like_any_other(in_pieces: int) -> None:
    listed = manifest.decode(manifest.encode(GOOD), "m").parts
    assert isinstance(listed, PartList)
    found: PartList = listed
    if in_pieces:
        content = encode_piece(listed[:in_pieces], GOOD.id, 0)
        rows = sum(part.rows for part in listed[:in_pieces])
        piece = decode_piece(content, wide_digest(content).hex(), GOOD.id, in_pieces, rows, "p")
        found = PartList([piece], listed[in_pieces:], DIGEST, ())
    assert (found[0], found[-1], found[:1], found[::-1]) == (
        entry(1),
        entry(6),
        (entry(1),),
        (entry(6), entry(1)),
    )
    paths = ListedRefs("/data/", found.fields).paths
    every = ["/data/" + entry(1).name, "/data/" + entry(6).name]
    assert [list(paths[some]) for some in (slice(None), slice(1, None), slice(0, 1), slice(5, None))] == [
        every, every[1:], every[:1], []
    ]  # fmt: skip
    assert list(found) == [entry(1), entry(6)]
    assert list(reversed(found)) == [entry(6), entry(1)]
    assert found == (entry(1), entry(6))
    for other in ((entry(1),), (entry(1), entry(1)), 1):
        assert found != other
    assert found.index(entry(6)) == 1
    assert repr(found) == repr(GOOD.parts)
    assert [type(value) for value in found[0]] == [type(value) for value in entry(1)]
    for number in (2, -3):
        with pytest.raises(IndexError):
            found[number]


def test_parts_of_a_dataset_are_no_objects_until_they_are_asked_for(tmp_path: Path) -> None:
    many = 3_000
    entries = tuple(entry(number) for number in range(many))
    divided, pieces = manifest.divided(replace(GOOD, parts=entries, next_part=many), None)
    (tmp_path / "manifest.json").write_bytes(manifest.encode(divided))
    for name, content in pieces.items():
        (tmp_path / name).write_bytes(content)
    for part in entries:
        (tmp_path / part.name).touch()
        (tmp_path / (part.name + ".idx")).touch()
    unirecord.UniRecordDataset(tmp_path)  # what is imported and kept is there
    gc.collect()
    before = len(gc.get_objects())
    dataset = unirecord.UniRecordDataset(tmp_path)
    assert len(gc.get_objects()) - before < many // 10
    assert dataset.num_rows == sum(part.rows for part in entries)


def test_every_changed_byte_is_refused() -> None:
    text = manifest.encode(GOOD)
    for place in range(len(text)):
        for other in (text[place] ^ 1, text[place] ^ 0x20, 0x20):
            if other != text[place]:
                with pytest.raises(UniRecordError, match="folder/m"):
                    manifest.decode(text[:place] + bytes([other]) + text[place + 1 :], "folder/m")


def test_every_truncation_is_refused() -> None:
    text = manifest.encode(GOOD)
    for size in range(len(text)):
        with pytest.raises(UniRecordError):
            manifest.decode(text[:size], "m")


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"format": "other"}, "not the manifest"),
        ({"version": 2}, "upgrade"),
        ({"version": 0}, "version"),
        ({"version": "1"}, "version"),
        ({"version": True}, "version"),
        ({"id": "zz"}, "id"),
        ({"id": "D" * 32}, "id"),
        ({"id": ...}, "keys"),
        ({"new": 1}, "keys"),
        ({"generation": 0}, "generation"),
        ({"generation": 1.0}, "generation"),
        ({"generation": 2**63}, "generation"),
        ({"next_part": -1}, "next_part"),
        ({"next_part": 6}, "next_part"),
        ({"schema": []}, "schema"),
        ({"schema": [["x", "int33", None]]}, "x"),
        ({"index": ["z"]}, "index"),
        ({"index": "x"}, "index"),
        ({"metadata": 3}, "base64"),
        ({"metadata": "?"}, "base64"),
        ({"parts": {}}, "parts"),
        ({"parts": [1]}, "part"),
        ({"parts": parts(name="../part-000006-00000000.urec")}, "name of a part"),
        ({"parts": parts(name="part-000006-00000000.urec")}, "does not go with"),
        ({"parts": parts(rows=-1)}, "rows"),
        ({"parts": parts(bytes=True)}, "bytes"),
        ({"parts": parts(more=1)}, "keys"),
        ({"parts": parts(schema="0" * 32)}, "another schema"),
        ({"parts": parts(content="0" * 15)}, "content of a part"),
        ({"parts": parts(content=7)}, "content of a part"),
        ({"created_by": None}, "created_by"),
        ({"publication": 3}, "publication is 3; expected an object"),
        ({"publication": None}, "publication is None; expected an object"),
        ({"same_rows": []}, "same_rows"),
        ({"rows_dropped": {}}, "rows_dropped is {}; expected a list"),
        ({"given_up": "x"}, "given_up"),
        ({"parts": parts() * 2}, "same name"),
    ],
)
def test_what_breaks_a_rule_is_refused_though_its_digest_is_right(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(FormatError, match=said):
        manifest.decode(changed(**keys), "m")


OTHER_SPELLINGS: list[tuple[bytes, bytes]] = [
    (b"}\n", b"}"), (b"}\n", b"}\n\n"), (b"}\n", b" \r\t}\n"), (b'"x"', b'"\\u0078"'),
    (b":3,", b" :\t3,\n"), (b"[", b"[\r\n"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), OTHER_SPELLINGS)
def test_any_spelling_of_the_same_content_is_read_by_its_own_digest_alone(one: bytes, other: bytes) -> None:
    text = manifest.encode(GOOD)
    changed = text.replace(one, other)
    assert changed != text
    assert manifest.decode(reseal.sealed_text(changed), "m") == GOOD
    with pytest.raises(CorruptionError):
        manifest.decode(changed, "m")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'"version":1', b'"version":1,"version":1'),
        (b'"version":1', b'"version":1,"\\u0076ersion":1'),
        (b'"rows":10,', b'"rows":10,"rows":10,'),
        (b'"version":1', b'"version":01'),
        (b'"version":1', b'"version":1,"optional":{"a":NaN}'),
        (b'"version":1', b'"version":1,"optional":{"a":1e999}'),
        (b'"version":1', b'"version":1,"optional":{"a":1.' + b"0" * 4_300 + b"}"),
        (b'"version":1', b'"version":1,"optional":{"a":"\\ud800"}'),
        (b'"version":1', b'"version":1,"optional":{"\\udc00\\ud800":1}'),
        (b'"version":1', b'"version":1,"optional":{"a":"\xed\xa0\x80"}'),
        (b'"version":1', b'"version":1,"publication":{"a":' + b"[" * 63 + b"]" * 63 + b"}"),
        (b"}\n", b"}{"),
    ],
)
def test_what_is_no_json_of_a_manifest_is_refused_though_its_digest_is_right(
    one: bytes, other: bytes
) -> None:
    text = manifest.encode(GOOD)
    assert one in text
    with pytest.raises(FormatError):
        manifest.decode(reseal.sealed_text(text.replace(one, other, 1)), "m")


def test_a_manifest_begins_with_its_digest() -> None:
    text = manifest.encode(GOOD)
    for other in (b" " + text, b"\xef\xbb\xbf" + text, text.replace(b'{"digest"', b'{ "digest"')):
        with pytest.raises(FormatError, match="does not begin with its digest"):
            manifest.decode(reseal.sealed_text(other) if other.startswith(b'{"d') else other, "m")


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_other_bytes_are_refused(text: bytes) -> None:
    with pytest.raises(FormatError):
        manifest.decode(text, "m")


def test_deep_nesting_is_refused() -> None:
    for text in (b"[" * 200_000, b'{"a":' * 200_000, b'{"format":NaN}'):
        with pytest.raises(FormatError):
            manifest.decode(text, "m")


def test_part_names_hold_number_and_id() -> None:
    assert manifest.part_name(12, bytes.fromhex("0a1b2c3d" + "00" * 12)) == "part-000012-0a1b2c3d.urec"
    assert re.fullmatch(manifest.PART_NAME, manifest.part_name(10**11, b"\xff" * 16))


def test_memory_for_a_manifest_follows_its_size_and_not_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_bytes(manifest.encode(GOOD))
    tracemalloc.start()
    assert manifest.read(str(path)) == GOOD
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


@pytest.mark.parametrize("io", ["mmap", "pread", "memory"])
def test_a_part_whose_columns_have_other_names_is_refused(tmp_path: Path, io: Any) -> None:
    path = str(tmp_path / "set")
    with unirecord.Writer(path, {"x": "int32", "y": "int32", "b": "bytes"}, max_part_bytes=4096) as writer:
        for i in range(60):
            writer.write({"x": i, "y": -i, "b": b"x" * 100})
    second = unirecord.describe(path).parts[1].name
    data, index = (Path(path, name) for name in (second, second + ".idx"))
    other, other_index = bytearray(data.read_bytes()), bytearray(index.read_bytes())
    for content in (other, other_index):  # the names change places, the column table stays
        at = content.index(b"\xa1x")
        behind = content.index(b"\xa1y")
        content[at + 1], content[behind + 1] = content[behind + 1], content[at + 1]
    reseal.data(other)
    reseal.index(other_index, other)
    data.write_bytes(other)
    index.write_bytes(other_index)
    dataset = unirecord.UniRecordDataset(path, io=io)
    assert dataset[0]["x"] == 0  # the first part is as it was
    for read in (
        lambda: dataset[59],
        lambda: list(dataset.batches(8)),
        lambda: dataset.scalars(["x"]),
        lambda: len(dataset.view(where="x == 59")),
    ):
        with pytest.raises(
            unirecord.CorruptionError, match="schema in its metadata is not the dataset's"
        ) as caught:
            read()
        assert caught.value.path == str(data)
    assert unirecord.UniRecordDataset(str(data))[0]["y"] > 0  # alone it says what it is


def test_layouts_whose_files_have_other_annotations_stay_two_when_columns_change() -> None:
    """Each part keeps the schema that its own file was written with."""
    files = [Schema.parse({"m": {"type": "int64", "annotations": {"unit": unit}}}) for unit in ("s", "ms")]
    digest = manifest.schema_digest(files[0])
    laid_out = [
        entry(number)._replace(schema=digest, columns=PartColumns(number, ())) for number in range(len(files))
    ]
    schema = Schema.parse({"n": "int64"})
    layouts = tuple(Layout((file,), ((0, 0),)) for file in files)
    before = Manifest(bytes(16), 1, 2, schema, (), parts=tuple(laid_out), layouts=layouts)
    after = manifest.rearranged(before, Schema.parse({"k": "int64"}), [0])
    assert [layout.files[0].columns[0].annotations["unit"] for layout in after.layouts] == ["s", "ms"]
    assert [part.columns for part in after.parts] == [part.columns for part in laid_out]
