"""NumPy files as records: the arrays of .npy files or of one .npz side by side, a row per entry of their first axis."""

from __future__ import annotations

import io
import math
import os
import struct
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar, Final, NamedTuple

import numpy as np

from ...errors import SchemaError
from ...format.schema import Schema
from ...format.values.strings import UnicodeRefused, unicode_list
from ...progress import Progress
from .base import AskedOption, Options, RawBatch, Source, Unit, column_names
from .claims import TRUST, refuse_claims
from .input_path import MAX_SPOOL_BYTES, InputPath
from .overrides import apply_overrides
from .parallel_arrays import equally_long, wanted_types

__all__ = [
    "NpyFiles",
    "NpyHeader",
    "npy_array",
    "npy_header",
]


# The content of a .npy file as an array, of plain numbers only: nothing is unpickled, no size is believed.


_KINDS = "?biufc"


class NpyHeader(NamedTuple):
    """What a .npy file holds, and where."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    offset: int

    @property
    def nbytes(self) -> int:
        """Bytes of all values."""
        return self.dtype.itemsize * math.prod(self.shape)


def npy_header(head: bytes) -> NpyHeader:
    """Return what the first bytes say; ``ValueError`` when they are no header, or one of Python objects."""
    file = io.BytesIO(head)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            version = np.lib.format.read_magic(file)
            if version == (1, 0):
                shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
            elif version in ((2, 0), (3, 0)):
                shape, fortran, dtype = np.lib.format.read_array_header_2_0(file)
            else:
                raise ValueError(f"version {version} of .npy is not known")
    except (ValueError, SyntaxError, TypeError, OverflowError, RecursionError, MemoryError) as error:
        raise ValueError(
            f"no .npy header: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
        ) from None
    if dtype.hasobject:
        raise ValueError("an array of Python objects, which are not unpickled")
    if any(type(d) is not int or d < 0 for d in shape) or len(shape) > 32:
        raise ValueError(f"the shape {shape}")
    return NpyHeader(dtype, tuple(shape), bool(fortran), file.tell())


def npy_array(data: bytes | memoryview) -> Any:
    """Return the array of a whole .npy file; ``ValueError`` says what is wrong with it."""
    header = npy_header(bytes(data[:65_536]))
    if header.dtype.kind not in _KINDS:
        raise ValueError(f"an array of {header.dtype}, not of numbers")
    if header.nbytes != len(data) - header.offset:
        raise ValueError(f"{len(data) - header.offset:,} bytes where the header says {header.nbytes:,}")
    flat = np.frombuffer(data, header.dtype, math.prod(header.shape), header.offset)
    array = flat.reshape(header.shape, order="F" if header.fortran else "C")
    return array.astype(header.dtype.newbyteorder("<"), order="C", copy=False)


_UNIT_BYTES: Final = 16_000_000
_HEADER_BYTES: Final = 65_536
_PIECE: Final = 1 << 20
_LOCAL_HEADER: Final = struct.Struct("<4s22xHH")


@dataclass
class _Array:
    """One array: the file that holds it, and where."""

    name: str
    file: InputPath
    start: int
    size: int
    header: NpyHeader

    @property
    def row_bytes(self) -> int:
        return self.header.nbytes // max(self.header.shape[0], 1)

    def rows(self, first: int, count: int) -> Any:
        """Some entries of the first axis."""
        dtype, shape = self.header.dtype, self.header.shape
        with self.file.open() as file:
            if self.header.fortran and len(shape) > 1:
                file.seek(self.start + self.header.offset)
                whole = np.frombuffer(file.read(self.header.nbytes), dtype).reshape(shape, order="F")
                return np.ascontiguousarray(whole[first : first + count])
            file.seek(self.start + self.header.offset + first * self.row_bytes)
            data = file.read(count * self.row_bytes)
        if len(data) < count * self.row_bytes:
            raise SchemaError(f"{self.name} has become shorter")
        return np.frombuffer(data, dtype).reshape(count, *shape[1:])


class NpyFiles(Source):
    """Arrays of one length. A structured array has a column per field. Nothing is unpickled."""

    schema: Schema
    units: Sequence[Unit]

    notes: list[str]

    kind: ClassVar[str] = "npy"
    about: ClassVar[str] = "NumPy files (.npy, .npz)"
    suffixes: ClassVar[tuple[str, ...]] = (".npy", ".npz")
    options: ClassVar[tuple[AskedOption, ...]] = (TRUST,)

    @classmethod
    def recognises(cls, source: InputPath) -> bool:
        """By the names, or by the first bytes."""
        return source.holds(cls.suffixes) or source.head(6) == b"\x93NUMPY"

    @classmethod
    def can_read(cls, source: InputPath) -> bool:
        """Files, and folders of them."""
        return source.is_file or source.holds(cls.suffixes)

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Read the headers of the arrays."""
        self._spools: list[BinaryIO] = []
        self._columns: list[str] = []
        arrays: list[_Array] = []
        for file in self.input.files(self.suffixes):
            if file.suffix == ".npz" or file.head(2) == b"PK":
                arrays += self._of_archive(file, options)
            else:
                column = os.path.splitext(os.path.basename(file.name))[0]
                arrays += self._array(column, file.name, file, 0, file.size(), options)
        if not arrays:
            raise SchemaError(f"{self.path} holds no arrays")
        lengths = {column: one.header.shape[0] for column, one in zip(self._columns, arrays, strict=True)}
        kept = set(equally_long(lengths, options, self.path))
        arrays = [one for column, one in zip(self._columns, arrays, strict=True) if column in kept]
        self._columns = [column for column in self._columns if column in kept]
        rows = arrays[0].header.shape[0]
        self._arrays = arrays
        self.schema = apply_overrides(self._types(options), options.overrides)
        refuse_claims(self.input, options, rows, sum(array.row_bytes for array in arrays))
        step = max(1, _UNIT_BYTES // max(1, sum(array.row_bytes for array in arrays)))
        self.units = [
            Unit(f"{self.path}, rows from {start}", start, min(step, rows - start))
            for start in range(0, rows, step)
        ]

    def _array(
        self, column: str, name: str, file: InputPath, start: int, size: int, options: Options
    ) -> list[_Array]:
        """The array in a file, from ``start`` on; none where it can be no column, and is not wanted as one."""
        try:
            header = _header(name, file, start, size)
        except SchemaError:
            if options.wants(column):
                raise
            return []
        self._columns.append(column)
        return [_Array(name, file, start, size, header)]

    def _of_archive(self, file: InputPath, options: Options) -> Iterator[_Array]:
        """The arrays of a .npz file; compressed ones are copied to unnamed temporary files first."""
        left = MAX_SPOOL_BYTES
        try:
            with file.open() as stream, zipfile.ZipFile(stream) as archive:
                for info in archive.infolist():
                    name = f"{file.name}, {info.filename}"
                    column = info.filename.removesuffix(".npy")
                    if info.flag_bits & 1:
                        raise SchemaError(f"{name} is encrypted")
                    if info.compress_type == zipfile.ZIP_STORED:
                        stream.seek(info.header_offset)
                        mark, names, extra = _LOCAL_HEADER.unpack(stream.read(_LOCAL_HEADER.size))
                        if mark != b"PK\x03\x04":
                            raise SchemaError(f"{name}: its header is damaged")
                        start = info.header_offset + _LOCAL_HEADER.size + names + extra
                        yield from self._array(column, name, file, start, info.file_size, options)
                        continue
                    left -= info.file_size
                    if left < 0:
                        raise SchemaError(f"{file.name} decompresses to more than {MAX_SPOOL_BYTES:,} bytes")
                    copy = self._copied(archive, info, name)
                    yield from self._array(column, name, copy, 0, info.file_size, options)
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            struct.error,
            NotImplementedError,
            OSError,
        ) as error:
            raise SchemaError(f"{file.name} is damaged: {error}") from None

    def _copied(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> InputPath:
        spool = tempfile.TemporaryFile(prefix="unirecord-")  # noqa: SIM115 (kept by the source)
        self._spools.append(spool)
        size = 0
        with archive.open(info) as member:
            while piece := member.read(_PIECE):
                size += len(piece)
                if size > info.file_size:
                    break
                spool.write(piece)
        spool.flush()
        if size != info.file_size:
            raise SchemaError(f"{name} is said to have {info.file_size:,} bytes, but has others")
        return InputPath(name.replace(".", "_"), f"/proc/{os.getpid()}/fd/{spool.fileno()}")

    def __getstate__(self) -> dict[str, Any]:
        """All but the temporary files, which other processes reach through this one."""
        return {**self.__dict__, "_spools": []}

    def _types(self, options: Options) -> dict[str, Any]:
        fields: list[tuple[str, int, str | None, Any, tuple[int, ...]]] = []
        for i, (column, array) in enumerate(zip(self._columns, self._arrays, strict=True)):
            dtype, shape = array.header.dtype, array.header.shape[1:]
            if dtype.fields is None:
                fields.append((column, i, None, dtype, shape))
                continue
            for name in dtype.names or ():
                inner = dtype.fields[name][0]
                fields.append((name, i, name, inner.base, (*shape, *inner.shape)))
        names, changed = column_names([field[0] for field in fields], self.path)
        self.left_out += changed
        named = dict(zip(names, fields, strict=True))
        types = wanted_types(
            names, lambda name: _spec(f"{self.path}: {name}", named[name][3], named[name][4]), options
        )
        self._places = {name: (named[name][1], named[name][2]) for name in types}
        return types

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield a range of rows."""
        rows = unit.rows or 0
        parts = [array.rows(unit.place, rows) for array in self._arrays]
        columns = {}
        for name, (number, field) in self._places.items():
            values = parts[number] if field is None else parts[number][field]
            if values.dtype.kind in "SV":
                raw = np.ascontiguousarray(values)
                values = [
                    bytes(value).rstrip(b"\0") if values.dtype.kind == "S" else bytes(value) for value in raw
                ]
            elif values.dtype.kind == "U":
                try:
                    values = unicode_list(values)
                except UnicodeRefused as refused:
                    where = f"{self._arrays[number].name}, row {unit.place + refused.row}"
                    raise SchemaError(f"{where}, column {name!r}: {refused}") from None
            elif values.dtype.byteorder == ">":
                values = values.astype(values.dtype.newbyteorder("<"))
            columns[name] = values
        yield RawBatch(columns, rows)


def _header(name: str, file: InputPath, start: int, size: int) -> NpyHeader:
    with file.open() as stream:
        stream.seek(start)
        head = stream.read(min(_HEADER_BYTES, size))
    try:
        header = npy_header(head)
    except ValueError as error:
        raise SchemaError(f"{name}: {error}") from None
    if not header.dtype.itemsize:
        raise SchemaError(f"{name}: its items ({header.dtype}) have no bytes, so that it holds none")
    if not header.shape:
        raise SchemaError(f"{name} holds a single value, not one a row; --columns chooses the others")
    if header.nbytes != size - header.offset:
        raise SchemaError(
            f"{name} holds {size - header.offset:,} bytes, but its header says {header.nbytes:,}"
        )
    return header


def _spec(where: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    if dtype.kind in "?biufc" and dtype.itemsize <= 16:
        name = dtype.newbyteorder("<").name
        if not shape:
            return name
        if all(shape):
            return {"type": name, "shape": list(shape)}
        return {"type": name, "shape": [d or -1 for d in shape]}
    if not shape and dtype.kind in "USVMm":
        return {"U": "string", "S": "bytes", "V": "bytes"}.get(dtype.kind, "int64")
    raise SchemaError(f"{where} is {dtype} of shape {list(shape)}, which no column type holds")
