"""The reference reader against the generator: two readings of docs/spec/format.md that must agree."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conformance.canonical import frozen, stored
from partgen import generate
from probe import expected, probe_of, shape_of
from reference import Bad, read_data, read_part
from sweeps import WHOLE, stride

from unirecord import ColumnError, UniRecordDataset
from unirecord.inspect.verify import verify


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


def test_parts_with_types_of_a_later_version_are_read_but_for_those_columns(tmp_path: Path) -> None:
    """By the reference, by the C reader, and by the package, which refuses each such column by its name."""
    codes = set()
    for seed in range(3000, 3000 + (300 if WHOLE else 60)):
        made = generate(seed, tmp_path, later=True)
        part = read_part(made.path)
        assert part.raw == made.raw, seed
        known = [c.name for c in part.schema if c.is_known]
        unknown = [c for c in part.schema if not c.is_known]
        codes |= {c.code for c in unknown}
        probe, want = probe_of(made, known), expected(part.raw, shape_of(made))
        for io in ("mmap", "pread"):
            assert probe.read(io) == [want[i] for i, c in enumerate(part.schema) if c.is_known], (seed, io)
        problems = verify(made.path, threads=1).problems
        assert {problem.column for problem in problems} == {c.name for c in unknown}, seed
        with UniRecordDataset(made.path, columns=known) as ds:
            for got, row in zip(ds, made.rows, strict=True):
                found = {name: stored(value) for name, value in frozen(got).items()}
                assert found == frozen({name: row[name] for name in known}), seed
        with UniRecordDataset(made.path) as ds:
            if len(ds):
                with pytest.raises(ColumnError, match=f"type ({'|'.join(str(c.code) for c in unknown)})"):
                    ds[0]
    assert min(codes) < 128 <= max(codes)


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
