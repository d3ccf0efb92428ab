"""What a writer need not choose has one form: files of another, with right digests, are found."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import partgen_bytes
import pytest
import reseal
from partgen import write
from reference import Bad, read_part
from reference_directory import read_directory
from reference_rules import wide_digest
from small_parts import variable_part

import unirecord
from unirecord import UniRecordDataset


def wider_lengths(patched: pytest.MonkeyPatch) -> None:
    def section(cells: list[bytes]) -> tuple[int, int, bytes]:
        return 2, 0, np.array([len(cell) for cell in cells], "<u2").tobytes()

    patched.setattr(partgen_bytes, "lengths_section", section)


def wider_order(patched: pytest.MonkeyPatch) -> None:
    inner = partgen_bytes.scalar_sections

    def sections(spec: Any, found: Any, i: int, column: Any) -> Any:
        said = inner(spec, found, i, column)
        if (14, i) in found:
            found[14, i] = (8, 0, np.frombuffer(found[14, i][2], "<u4").astype("<u8").tobytes())
        return said

    patched.setattr(partgen_bytes, "scalar_sections", sections)


def sections_further_apart(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(partgen_bytes, "in_body", lambda content: partgen_bytes.pad(content, 64) + bytes(64))


def a_gap_of_nothing(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(partgen_bytes, "gap_of", lambda at, size: 64)


def metadata_as(change: Callable[[bytes], bytes]) -> Callable[[pytest.MonkeyPatch], None]:
    inner = partgen_bytes.packed_metadata
    return lambda patched: patched.setattr(partgen_bytes, "packed_metadata", lambda spec: change(inner(spec)))


def longer_head_of_a_name(patched: pytest.MonkeyPatch) -> None:
    metadata_as(lambda packed: packed.replace(b"\xa4word", b"\xd9\x04word", 1))(patched)


def wider_number(patched: pytest.MonkeyPatch) -> None:
    metadata_as(lambda packed: packed.replace(b"\xa4unit\x07", b"\xa4unit\xcc\x07"))(patched)


def float_of_32_bits(patched: pytest.MonkeyPatch) -> None:
    whole = b"\xa5scale\xcb\x3f\xe0" + bytes(6)
    metadata_as(lambda packed: packed.replace(whole, b"\xa5scale\xca\x3f" + bytes(3)))(patched)


def keys_of_annotations_in_another_order(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(partgen_bytes, "in_order", lambda said: dict(sorted(said.items(), reverse=True)))


def one_more_element_of_an_entry(patched: pytest.MonkeyPatch) -> None:
    inner = partgen_bytes.metadata

    def said(spec: Any) -> dict[str, Any]:
        found = inner(spec)
        found["schema"][0].append(None)
        return found

    patched.setattr(partgen_bytes, "metadata", said)


def longer_heads_of_statistics(patched: pytest.MonkeyPatch) -> None:
    inner = partgen_bytes.packed_statistics
    patched.setattr(
        partgen_bytes,
        "packed_statistics",
        lambda *all: inner(*all).replace(b"\xa5nulls", b"\xd9\x05nulls", 1),
    )


# Whether it is seen when a part is opened. Else it takes all rows, or is in places that readers of rows do not compare.
OTHER_FORMS: list[tuple[Callable[[pytest.MonkeyPatch], None], bool]] = [
    (wider_lengths, False),
    (wider_order, True),
    (sections_further_apart, False),
    (a_gap_of_nothing, False),
    (longer_head_of_a_name, True),
    (wider_number, True),
    (float_of_32_bits, True),
    (keys_of_annotations_in_another_order, True),
    (one_more_element_of_an_entry, True),
    (longer_heads_of_statistics, True),
]


@pytest.mark.parametrize(("form", "when_opened"), OTHER_FORMS, ids=[form.__name__ for form, _ in OTHER_FORMS])
def test_another_form_of_a_part_is_found(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    form: Callable[[pytest.MonkeyPatch], None],
    when_opened: bool,
) -> None:
    made = variable_part(tmp_path / "v.urec")
    made.spec.columns[0].annotations = {"unit": 7, "scale": 0.5}
    assert unirecord.verify(write(made).path, threads=1).ok
    before = made.data, made.index
    form(monkeypatch)
    write(made)
    assert (made.data, made.index) != before
    assert not unirecord.verify(made.path, threads=1).ok
    with pytest.raises(Bad):
        read_part(made.path)
    if when_opened:
        with pytest.raises((unirecord.FormatError, unirecord.CorruptionError)):
            unirecord.describe(made.path)


def test_a_large_payload_without_its_gap_is_found(tmp_path: Path) -> None:
    with unirecord.Writer(tmp_path / "a.urec", {"b": "bytes"}) as writer:
        writer.write({"b": bytes(70_000)})
    with open(tmp_path / "a.urec", "rb") as file:
        (scalar, _, _), (blob, kind, size), _ = reseal.pages(content := file.read())
    assert kind == 2
    assert size >= 65_536
    gap = int.from_bytes(content[blob + 40 : blob + 48], "little")
    assert gap > 0
    assert (blob + 64 + gap) % 4096 == 0
    changed = bytearray(content[: blob + 64] + content[blob + 64 + gap :])
    changed[blob + 40 : blob + 48] = bytes(8)
    reseal.page_header(changed, blob)
    reseal.page_header(changed, reseal.pages(changed)[-1][0])
    (tmp_path / "a.urec").write_bytes(changed)
    assert "breaks the rules of the format" in str(unirecord.verify(tmp_path / "a.urec").problems[0])
    assert scalar < blob


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    with unirecord.Writer(tmp_path / "d", {"n": "int32"}) as writer:
        for i in range(1000):
            writer.write({"n": i})
    unirecord.delete(tmp_path / "d", rows=[1, 2])
    return tmp_path / "d"


def deletion(path: Path) -> dict[str, Any]:
    [part] = json.loads((path / "manifest.json").read_text())["parts"]
    found: dict[str, Any] = part["deletions"]
    return found


def with_part(path: Path, changes: dict[str, Any]) -> None:
    content = json.loads((path / "manifest.json").read_text())
    content["parts"][0] |= changes
    (path / "manifest.json").write_bytes(reseal.sealed(content))


def refuses(path: Path, message: str) -> None:
    with pytest.raises((unirecord.FormatError, unirecord.CorruptionError), match=message):
        UniRecordDataset(path)[0]
    assert not unirecord.verify(path).ok
    with pytest.raises(Bad):
        read_directory(path)


def test_deleted_rows_in_the_form_that_takes_more_bytes_are_refused(directory: Path) -> None:
    said = deletion(directory)
    before = (directory / said["name"]).read_bytes()
    assert before[12:16] == b"\4\0\0\0"
    bits = np.zeros(1024, bool)
    bits[[1, 2]] = True
    for form, body in (
        (0, np.packbits(bits, bitorder="little").tobytes()),
        (8, np.array([1, 2], "<u8").tobytes()),
    ):
        content = before[:12] + form.to_bytes(4, "little") + before[16:64] + body
        (directory / said["name"]).write_bytes(content)
        digest = wide_digest(content).hex()
        with_part(directory, {"deletions": {**said, "bytes": len(content), "digest": digest}})
        refuses(directory, "form")


def test_a_number_in_a_name_has_no_zeros_beyond_six_digits(directory: Path) -> None:
    [part] = json.loads((directory / "manifest.json").read_text())["parts"]
    longer = part["name"].replace("part-", "part-0")
    for name in (part["name"], f"{part['name']}.idx"):
        (directory / name).rename(directory / name.replace("part-", "part-0"))
    with_part(directory, {"name": longer})
    refuses(directory, "not the name of a part")


def test_a_version_in_a_name_has_no_zeros_beyond_six_digits(directory: Path) -> None:
    said = deletion(directory)
    longer = said["name"].replace(".del-", ".del-0")
    (directory / said["name"]).rename(directory / longer)
    with_part(directory, {"deletions": {**said, "name": longer}})
    refuses(directory, "deletions|deleted")


def test_annotations_of_a_manifest_have_their_keys_in_order(directory: Path) -> None:
    content = json.loads((directory / "manifest.json").read_text())
    content["schema"][0].append({"unit": "m", "origin": "x"})
    (directory / "manifest.json").write_bytes(reseal.sealed(content))
    refuses(directory, "order of code points")


def test_metadata_of_a_manifest_have_one_form(directory: Path) -> None:
    content = json.loads((directory / "manifest.json").read_text())
    content["metadata"] = base64.b64encode(b"\xd9\x01a").decode()
    (directory / "manifest.json").write_bytes(reseal.sealed(content))
    refuses(directory, "one form")
