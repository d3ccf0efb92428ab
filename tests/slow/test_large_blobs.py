"""A blob of three gigabytes is written and read as any other: it takes as much disk, and memory to be read."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from unirecord import UniRecordDataset, Writer


def test_a_blob_of_three_gigabytes(tmp_path: Path) -> None:
    size = 3 * 10**9
    blob = np.zeros(size, np.uint8)  # untouched zero pages take no memory
    blob[0] = blob[size // 2] = blob[-1] = 7
    with Writer(tmp_path / "x.urec", {"b": "bytes", "n": "int32"}) as writer:
        writer.write({"b": b"before", "n": 0})
        writer.write_batch({"b": [blob.data, b"after"], "n": [1, 2]})
    assert (tmp_path / "x.urec").stat().st_size > size
    with UniRecordDataset(tmp_path / "x.urec", columns=["b"]) as dataset:
        assert dataset[0]["b"] == b"before"
        assert dataset[2]["b"] == b"after"
        found = np.frombuffer(dataset[1]["b"], np.uint8)
        assert len(found) == size
        assert np.flatnonzero(found[:: size // 2 - 1 or 1])[0] == 0
        assert (found[0], found[size // 2], found[-1], int(found.sum(dtype=np.int64))) == (7, 7, 7, 21)
    (tmp_path / "x.urec").unlink()
