"""Bytes that are no values, under right digests: nothing that writes rows anew publishes what verify rejects."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgpack
import numpy as np
import pytest
from partgen import MadePart, write
from partgen_bytes import Col, Spec

import unirecord


class Forged(Col):
    """A column whose nulls, or frames, are stored as these bytes."""

    null: bytes | None = None
    frame: bytes | None = None

    def stored(self, value: bytes | None) -> list[bytes]:
        return [self.null] if value is None and self.null is not None else super().stored(value)

    def compressed(self, value: bytes) -> bytes:
        if value == b"forged" * 9 and self.frame is not None:
            return self.frame
        return super().compressed(value)


def forged(column: Forged, *, null: bytes | None = None, frame: bytes | None = None) -> Forged:
    column.null, column.frame = null, frame
    return column


VALUES: dict[str, tuple[Col, bytes, bytes | None]] = {
    "bool": (Col("c", "bool"), b"\1", b"\2"),
    "string": (Col("c", "string"), b"a", b"a\xff"),
    "text": (Col("c", "text"), "é".encode(), b"\xc3"),
    "compressed text": (Col("c", "text", codec=1), b"a" * 99, b"a" * 98 + b"\xff"),
    "frame": (forged(Forged("c", "bytes", codec=1), frame=b"\x28\xb5\x2f\xfd" * 5), b"", b"forged" * 9),
    "object": (Col("c", "object"), msgpack.packb({"a": 1}), b"\x82\xa1a\x01\xa1a\x02"),
    "array of one free dimension": (Col("c", "int32", [-1, 2]), bytes(8), bytes(7)),
    "array of two": (Col("c", "int8", [-1, -1]), bytes(16), bytes(3) + b"\xff" * 16),
    "null of variable width": (forged(Forged("c", "bytes", None, True), null=b"x"), b"y", None),
    "null of fixed width": (forged(Forged("c", "int16", [3], True), null=b"x" * 6), b"y" * 6, None),
}


def directory(path: Path, column: Col, good: bytes, bad: bytes | None) -> Path:
    """Two parts of five rows; the value is in the second."""
    parts = []
    last = b"z" if column.base == "string" else good
    for number, values in enumerate(([good] * 5, [good, good, bad, good, last])):
        spec = Spec(bytes([number + 1]) * 16, [Col("n", "int32"), column], unit_rows=0)
        spec.groups = [5]
        spec.group_rows = 8 if spec.row_bytes or not spec.blobs else 0
        made = MadePart(path.parent / f"{number}.urec", spec, [])
        made.raw = [[np.int32(5 * number + i).tobytes(), value] for i, value in enumerate(values)]
        parts.append(write(made).path)
    unirecord.merge(parts, path)
    return path


def joined(path: Path) -> Path:
    unirecord.rename_columns(path, {"c": "d"})
    unirecord.compact(path, join_columns=True)
    return path


def dropped(path: Path) -> Path:
    unirecord.delete(path, rows=[9])
    unirecord.compact(path, drop_deleted=True)
    return path


def purged(path: Path) -> Path:
    unirecord.purge(path, rows=[9])
    return path


def compacted(path: Path) -> Path:
    unirecord.compact(path)
    return path


def resharded(path: Path) -> Path:
    unirecord.reshard(path, 3)
    return path


def ordered(path: Path) -> Path:
    unirecord.sort(path, "n", descending=True)
    return path


def written(path: Path) -> Path:
    unirecord.write_dataset(path, path.parent / "written")
    return path.parent / "written"


def shared_out(path: Path) -> list[Path]:
    unirecord.split(path, path.parent / "shares", {"a": 0.5, "b": 0.5})
    return [path.parent / "shares" / name for name in "ab"]


def merged(path: Path) -> Path:
    """Merging writes no row anew: what is damaged stays found out."""
    unirecord.merge([path], path.parent / "both")
    assert not unirecord.verify(path.parent / "both", threads=1).ok
    return unirecord.repair(path, output=path.parent / "saved") and path.parent / "saved"


WAYS: list[Callable[[Path], Path | list[Path]]] = [
    compacted,
    resharded,
    ordered,
    dropped,
    purged,
    joined,
    written,
    shared_out,
    merged,
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("value", VALUES)
def test_what_is_no_value_is_written_nowhere_under_new_digests(
    tmp_path: Path, way: Callable[[Path], Path | list[Path]], value: str
) -> None:
    path = directory(tmp_path / "d", *VALUES[value])
    [problem] = unirecord.verify(path, threads=1).problems
    assert problem.row == 2
    named = Path(problem.path).name
    made: Path | list[Path] | None = None
    with contextlib.suppress(unirecord.CorruptionError), naming(named):
        made = way(path)
    if made is None:  # nothing was published
        [again] = unirecord.verify(path, threads=1).problems
        assert Path(again.path).name == named
    else:
        assert unirecord.verify(made, threads=1).problems == []
        assert len(unirecord.UniRecordDataset(made)) in (9, 10)


@contextlib.contextmanager
def naming(file: str) -> Iterator[None]:
    """What is said of damage names the file."""
    try:
        yield
    except unirecord.CorruptionError as error:
        if file not in str(error):
            raise AssertionError(f"{file} is not named: {error}") from error
        raise
