"""The memory of a conversion does not grow with what is converted: the peak over an input and over ten times as much.

Batches, units and row groups are made small here, so that small files have many of them.
"""

from __future__ import annotations

import io
import json
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import unirecord
from unirecord.convert.sources import jsonl, npy_files, text_files, tfrecord, webdataset
from unirecord.writing import index_file, target

BLOB = bytes(range(256)) * 40
SMALL, LARGE = 90, 900  # rows of 10 KB


def _tar(path: Path, rows: int) -> None:
    with tarfile.open(path, "w") as tar:
        for i in range(rows):
            member = tarfile.TarInfo(f"{i:06d}.jpg")
            member.size = len(BLOB)
            tar.addfile(member, io.BytesIO(BLOB))


def _npy(path: Path, rows: int) -> None:
    np.save(path, np.zeros((rows, len(BLOB)), np.uint8))


def _jsonl(path: Path, rows: int) -> None:
    path.write_text((json.dumps({"n": 1, "text": "x" * 10_000, "thing": {"a": [1]}}) + "\n") * rows)


def _tfrecord(path: Path, rows: int) -> None:
    with unirecord.Writer(path.with_suffix(".urec"), {"x": "bytes", "n": "int64"}) as writer:
        writer.write_batch({"x": [BLOB] * rows, "n": np.arange(rows)})
    unirecord.export(path.with_suffix(".urec"), path)


@pytest.mark.parametrize("make", [_tar, _npy, _jsonl, _tfrecord], ids=lambda make: make.__name__.strip("_"))
def test_ten_times_the_rows_take_no_more_memory(
    make: Callable[[Path, int], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = 100_000
    for module, name in (
        (target, "TARGET_BYTES"), (index_file, "_KEEP_BYTES"), (text_files, "BLOCK_BYTES"),
        (jsonl, "_KEPT_BYTES"),
        (webdataset, "_UNIT_BYTES"), (webdataset, "_BATCH_BYTES"), (npy_files, "_UNIT_BYTES"),
        (tfrecord, "_UNIT_BYTES"), (tfrecord, "_BATCH_BYTES"), (tfrecord, "_SAMPLE_BYTES"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, small)
    for rows in (SMALL, LARGE):
        make(tmp_path / f"{rows}.{make.__name__.strip('_')}", rows)

    def peak(rows: int) -> int:
        source = tmp_path / f"{rows}.{make.__name__.strip('_')}"
        tracemalloc.reset_peak()
        assert unirecord.write_dataset(source, tmp_path / "out", overwrite=True) == rows
        return tracemalloc.get_traced_memory()[1]

    peak(SMALL)  # what is imported and kept at the first time does not count
    tracemalloc.start()
    try:
        peaks = peak(SMALL), peak(LARGE)
    finally:
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 1_000_000, peaks  # of 8 MB more
