"""The reference reader against the generator: two readings of docs/spec/format.md that must agree."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from partgen import generate
from probe import expected, probe_of, shape_of
from reference import Bad, read_data, read_part
from sweeps import WHOLE, stride


def same(a: Any, b: Any) -> bool:
    if isinstance(a, (np.ndarray, np.generic)):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, tuple):  # an extension, of which msgpack makes no more than the generator's
        return isinstance(b, tuple) and a == b
    return type(a) is type(b) and a == b


@pytest.mark.parametrize("batch", range(10))
def test_reference_reads_what_the_generator_wrote(tmp_path: Path, batch: int) -> None:
    for seed in range(30 * batch, 30 * batch + 30):
        made = generate(seed, tmp_path)
        part = read_part(made.path)
        assert part.raw == made.raw, seed
        for got, want in zip(part.rows, made.rows, strict=True):
            assert list(got) == list(want)
            assert all(same(got[name], want[name]) for name in want), seed
        assert part.head.user == made.spec.user


@pytest.mark.parametrize("batch", range(10))
def test_c_reader_reads_random_parts_as_the_reference_does(tmp_path: Path, batch: int) -> None:
    """Every stored byte of every value, in two ways of reading. UNIRECORD_PARTS: how many parts."""
    parts = int(os.environ.get("UNIRECORD_PARTS", "600" if WHOLE else "200")) // 10
    for seed in range(1000 + batch * parts, 1000 + batch * parts + parts):
        made = generate(seed, tmp_path)
        part = read_part(made.path)
        assert part.raw == made.raw
        want = expected(part.raw, shape_of(made))
        probe = probe_of(made)
        for io in ("mmap", "pread"):
            assert probe.read(io) == want, (seed, io)


def test_reference_reads_a_part_without_its_index(tmp_path: Path) -> None:
    made = generate(5, tmp_path, rows=9)
    Path(f"{made.path}.idx").unlink()
    assert read_part(made.path, index=False).raw == made.raw
    with pytest.raises(Bad, match="missing"):
        read_part(made.path)


def test_reference_refuses_truncations_of_a_data_file(tmp_path: Path) -> None:
    made = generate(11, tmp_path, rows=3)
    for size in range(0, len(made.data), stride(1, 3)):
        with pytest.raises(Bad):
            read_data(made.data[:size])
