"""The worked example of docs/spec/format.md: byte for byte what the writer makes, and what the reference reads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from reference import read_part

PAGE = Path(__file__).parents[2] / "docs" / "spec" / "format.md"
ID = bytes(range(16))
ROWS = [(7, "cat", b"\x01\x02\x03"), (8, "dog", b"\xff")]


def hex_dumps() -> list[bytes]:
    """The files shown on the page; a line `*` repeats the line above up to the next address."""
    dumps = []
    for block in re.findall(r"```hex\n(.*?)```", PAGE.read_text(), re.DOTALL):
        out = b""
        for line in block.splitlines():
            if line == "*":
                continue
            address, *digits = line.split()
            while len(out) < int(address, 16):
                out += out[-16:]
            out += bytes.fromhex("".join(digits))
        dumps.append(out)
    return dumps


@pytest.fixture
def example(tmp_path: Path) -> Path:
    data, index = hex_dumps()
    path = tmp_path / "example.urec"
    path.write_bytes(data)
    Path(f"{path}.idx").write_bytes(index)
    return path


def test_reference_reads_the_example(example: Path) -> None:
    part = read_part(example)
    assert [c.name for c in part.schema] == ["label", "name", "image"]
    assert [tuple(row.values()) for row in part.rows] == ROWS
    assert part.head.id == ID


def test_writer_makes_the_example_byte_for_byte(tmp_path: Path, example: Path) -> None:
    import unirecord

    path = tmp_path / "written.urec"
    schema = {"label": "int32", "name": "string", "image": "bytes"}
    with unirecord.Writer(path, schema, id=ID) as writer:
        for label, name, image in ROWS:
            writer.write({"label": label, "name": name, "image": image})
    for suffix in ("", ".idx"):
        assert Path(f"{path}{suffix}").read_bytes() == Path(f"{example}{suffix}").read_bytes(), suffix
