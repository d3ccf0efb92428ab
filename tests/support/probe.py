"""Reads every value of a part through the C reader as stored bytes, cheaply enough to do it 100,000 times."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from partgen import MadePart

from unirecord._core import ffi, lib

SMALL = 1 << 16  # first guess for the values of a column of variable width
LIMIT = 1 << 30  # more than any test part holds
IO = {"mmap": lib.UR_IO_MAP, "pread": lib.UR_IO_PREAD, "uring": lib.UR_IO_URING, "memory": lib.UR_IO_MEMORY}
VERIFY = {"first": lib.UR_VERIFY_FIRST, "always": lib.UR_VERIFY_ALWAYS, "never": lib.UR_VERIFY_NEVER}


class Refused(Exception):
    """The C reader said no."""

    def __init__(self, error: Any) -> None:
        self.status, self.row, self.column = error.status, error.row, error.column
        super().__init__(
            f"{ffi.string(lib.ur_status_text(error.status)).decode()}: {ffi.string(error.what).decode()}"
        )


class Probe:
    """Opens and reads the part at `path` again and again; buffers are made once, for `rows` rows of these columns."""

    def __init__(
        self,
        path: Path,
        columns: list[tuple[bool, int]],
        rows: int,
        ordinals: Sequence[int] | None = None,
    ) -> None:
        """`columns`: for each, (nullable, bytes of a value or 0 when that varies); `ordinals`: which they are."""
        self.path, self.rows, self.columns = path, rows, columns
        self.error = ffi.new("ur_error *")
        self.set_out = ffi.new("ur_set **")
        self.options = ffi.new("ur_set_options *")
        self.ref = ffi.new("ur_part_ref *")
        self.name = ffi.new("char[]", os.fsencode(path))
        self.ref.data_path, self.ref.rows = self.name, -1
        self.ids = ffi.new("int64_t[]", list(range(rows)))
        self.outputs = ffi.new("ur_output[]", len(columns))
        self.kept: list[Any] = []
        for i, (_, fixed) in enumerate(columns):
            data = ffi.new("uint8_t[]", max(1, rows * fixed if fixed else SMALL))
            offsets = ffi.NULL if fixed else ffi.new("int64_t[]", rows + 1)
            valid = ffi.new("uint8_t[]", rows + 1)
            self.kept.append([data, offsets, valid])
            self.outputs[i].column, self.outputs[i].data = i if ordinals is None else ordinals[i], data
            self.outputs[i].capacity = rows * fixed if fixed else SMALL
            self.outputs[i].offsets, self.outputs[i].valid = offsets, valid

    def read(self, io: str = "mmap", verify: str = "first") -> list[tuple[bytes, bytes, bytes]]:
        """Per column (values, offsets, validity) of all rows, as raw buffers; Refused when the reader refuses."""
        self.options.io, self.options.verify = IO[io], VERIFY[verify]
        if lib.ur_set_open(self.ref, 1, self.options, self.set_out, self.error) != lib.UR_OK:
            raise Refused(self.error)
        try:
            if lib.ur_set_rows(self.set_out[0]) != self.rows:
                raise AssertionError(f"{self.path}: the reader sees {lib.ur_set_rows(self.set_out[0])} rows")
            status = self._call()
            while status == lib.UR_TOO_SMALL:
                self._grow()
                status = self._call()
            if status != lib.UR_OK:
                raise Refused(self.error)
            return [self._column(i) for i in range(len(self.columns))]
        finally:
            lib.ur_set_release(self.set_out[0])

    def _call(self) -> int:
        return int(
            lib.ur_set_read(self.set_out[0], self.ids, self.rows, self.outputs, len(self.columns), self.error)
        )

    def _grow(self) -> None:
        for i, kept in enumerate(self.kept):
            output = self.outputs[i]
            if output.used > output.capacity:
                assert output.used < LIMIT, f"{self.path}: column {i} is said to have {output.used} bytes"
                kept[0] = ffi.new("uint8_t[]", output.used)
                output.data, output.capacity = kept[0], output.used

    def _column(self, i: int) -> tuple[bytes, bytes, bytes]:
        output, (data, offsets, valid) = self.outputs[i], self.kept[i]
        size = offsets[self.rows] if offsets != ffi.NULL else self.rows * self.columns[i][1]
        assert size == output.used or not self.rows
        places = bytes(ffi.buffer(offsets, 8 * (self.rows + 1))) if offsets != ffi.NULL else b""
        return bytes(ffi.buffer(data, size)), places, bytes(ffi.buffer(valid, self.rows))


def expected(
    raw: list[list[bytes | None]], columns: list[tuple[bool, int]]
) -> list[tuple[bytes, bytes, bytes]]:
    """What Probe.read must give for these stored values."""
    out = []
    for i, (_, fixed) in enumerate(columns):
        cells = [row[i] for row in raw]
        stored = [bytes(fixed) if cell is None else cell for cell in cells]
        ends = [0]
        for cell in stored:
            ends.append(ends[-1] + len(cell))
        places = b"" if fixed else b"".join(end.to_bytes(8, "little") for end in ends)
        out.append((b"".join(stored), places, bytes(cell is not None for cell in cells)))
    return out


def probe_of(made: MadePart, names: Sequence[str] | None = None) -> Probe:
    """A probe for a generated part, of its columns of these names; of all if None."""
    chosen = [i for i, c in enumerate(made.spec.columns) if names is None or c.name in names]
    return Probe(made.path, [shape_of(made)[i] for i in chosen], len(made.raw), chosen)


def shape_of(made: MadePart) -> list[tuple[bool, int]]:
    """The columns of a generated part, as Probe takes them."""
    return [(c.nullable, c.fixed) for c in made.spec.columns]
