"""Every single bit of small parts, flipped: the reader refuses, or every value is the one that was written."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from partgen import MadePart
from probe import Refused, expected, probe_of, shape_of
from small_parts import (
    compressed_part,
    fixed_part,
    nullable_fixed_part,
    nullable_part,
    scalar_part,
    variable_part,
)

KINDS: dict[str, Callable[[Path], MadePart]] = {
    "variable": variable_part,
    "variable, one digest a row": lambda path: variable_part(path, unit_rows=1),
    "variable, one digest for two rows": lambda path: variable_part(path, unit_rows=2),
    "fixed, rows share digests": fixed_part,
    "fixed, one digest a cell": lambda path: fixed_part(path, unit_rows=0),
    "scalars only": scalar_part,
    "nullable": nullable_part,
    "nullable, one digest a cell": lambda path: nullable_part(path, unit_rows=0),
    "nullable, fixed": nullable_fixed_part,
    "compressed": compressed_part,
}


def flip_all(made: MadePart, suffix: str, io: str) -> tuple[int, int]:
    """Flips each bit of the file and reads the part; (refused, read and right)."""
    probe, want = probe_of(made), expected(made.raw, shape_of(made))
    assert probe.read(io) == want
    content = made.index if suffix else made.data
    refused = right = 0
    fd = os.open(f"{made.path}{suffix}", os.O_WRONLY)
    try:
        for place in range(len(content)):
            for bit in range(8):
                os.pwrite(fd, bytes([content[place] ^ 1 << bit]), place)
                try:
                    found = probe.read(io)
                except Refused:
                    refused += 1
                else:
                    assert found == want, (
                        f"bit {bit} of byte {place} of {made.path}{suffix} gives wrong values"
                    )
                    right += 1
            os.pwrite(fd, content[place : place + 1], place)
    finally:
        os.close(fd)
    assert probe.read(io) == want
    return refused, right


@pytest.mark.parametrize("suffix", ["", ".idx"], ids=["data file", "index"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_flipped_bit_is_refused_or_changes_no_value(
    tmp_path: Path, kind: str, suffix: str, record_property: Callable[[str, object], None]
) -> None:
    made = KINDS[kind](tmp_path / "part.urec")
    for io in ("mmap", "pread"):
        refused, right = flip_all(made, suffix, io)
        assert refused + right == 8 * len(made.index if suffix else made.data)
        assert refused > right / 2
        record_property(f"{kind}{suffix} {io}", f"{refused} refused, {right} unchanged")
        print(f"{kind}, {suffix or 'data'}, {io}: {refused} refused, {right} without effect")
