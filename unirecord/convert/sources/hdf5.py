"""HDF5 files as records: the datasets of one length side by side, by h5py."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from ...errors import SchemaError
from ...format.schema import Schema
from ...progress import Progress
from .array_attributes import annotations_of_attributes, plain_attributes, said_of_attributes
from .base import AskedOption, LeftOut, Options, RawBatch, Source, Unit, column_names, reduced
from .claims import TRUST, refuse_claims
from .foreign_calls import foreign_call
from .input_path import InputPath
from .media_types import annotated
from .packages import needed
from .parallel_arrays import equally_long, wanted_types

__all__ = ["Hdf5File"]

_UNIT_BYTES: Final = 16_000_000
_MAGIC: Final = b"\x89HDF\r\n\x1a\n"
_MOST: Final = 10_000  # datasets of a file


class Hdf5File(Source):
    """An HDF5 file whose datasets have one length, a row per entry of the first axis; groups are part of the names."""

    schema: Schema
    units: Sequence[Unit]

    notes: list[str]
    metadata: dict[str, Any] | None

    kind: ClassVar[str] = "hdf5"
    about: ClassVar[str] = "an HDF5 file"
    reads: ClassVar[str] = "a file"
    suffixes: ClassVar[tuple[str, ...]] = (".h5", ".hdf5", ".he5")
    options: ClassVar[tuple[AskedOption, ...]] = (TRUST,)
    libraries: ClassVar[tuple[str, ...]] = ("h5py",)

    @classmethod
    def recognises(cls, source: InputPath) -> bool:
        """By the name, or by the first bytes."""
        return source.is_file and (source.suffix in cls.suffixes or source.head(8) == _MAGIC)

    @classmethod
    def can_read(cls, source: InputPath) -> bool:
        """Any file."""
        return source.is_file

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Read what the file says of its datasets."""
        h5py = needed("h5py", "an HDF5 file")
        found: list[tuple[str, Any, tuple[int, ...], Any]] = []

        def take(name: str, one: Any) -> None:
            if isinstance(one, h5py.Dataset):
                if len(found) >= _MOST:
                    raise SchemaError(f"{self.path} holds more than {_MOST:,} datasets")
                if one.is_virtual or one.external:
                    raise SchemaError(f"{self.path}: {name!r} is kept in other files, which are not read")
                found.append((name, one.dtype, one.shape or (), h5py.check_string_dtype(one.dtype)))

        attributes: dict[str, tuple[dict[str, Any], list[str]]] = {}
        with self._opened() as file:
            self._guard(lambda: file.visititems(take))
            self.left_out += self._guard(lambda: _links(h5py, file))
            of_file = self._guard(lambda: plain_attributes(file.attrs))
            for name, *_ in found:
                attributes[name] = self._guard(lambda name=name: annotations_of_attributes(file[name].attrs))
        scalars = [name for name, _, shape, _ in found if not shape]
        if len(scalars) == len(found):
            raise SchemaError(f"{self.path} holds no datasets with rows")
        self.left_out += [reduced(f"dataset {name!r}", "a single value, left out") for name in scalars]
        found = [one for one in found if one[2]]
        names, changed = column_names([name for name, *_ in found], self.path, options)
        self.left_out += changed
        arrays = dict(zip(names, found, strict=True))
        together = equally_long({n: one[2][0] for n, one in arrays.items()}, options, self.path)
        types = wanted_types(together, lambda column: self._spec(h5py, *arrays[column]), options)
        arrays = {column: arrays[column] for column in types}
        self._names = {column: one[0] for column, one in arrays.items()}
        types = {
            column: annotated(spec, **attributes[self._names[column]][0]) for column, spec in types.items()
        }
        self.left_out += said_of_attributes(
            {column: attributes[name] for column, name in self._names.items()}
        )
        self.metadata = {"attributes": of_file[0]} if of_file[0] else None
        self.left_out += said_of_attributes({"the file": ({}, of_file[1])})
        self.schema = options.schema(types)
        width = sum(one[1].itemsize * int(np.prod(one[2][1:], dtype=np.int64)) for one in arrays.values())
        step = max(1, _UNIT_BYTES // max(1, width))
        many = next(iter(arrays.values()))[2][0]
        refuse_claims(self.input, options, many, width)
        self.units = [
            Unit(f"{self.path}, rows from {i}", i, min(step, many - i)) for i in range(0, many, step)
        ]

    def _spec(self, h5py: Any, name: str, dtype: Any, shape: tuple[int, ...], text: Any) -> Any:
        inner = h5py.check_vlen_dtype(dtype)
        if text is not None and len(shape) == 1:
            return "string"
        if inner is not None and len(shape) == 1 and np.dtype(inner).kind in "?biufc":
            return {"type": np.dtype(inner).newbyteorder("<").name, "shape": [-1]}
        if (
            inner is None
            and dtype.kind in "?biufc"
            and h5py.check_ref_dtype(dtype) is None
            and all(shape[1:])
        ):
            kind = dtype.newbyteorder("<").name
            return {"type": kind, "shape": list(shape[1:])} if shape[1:] else kind
        if dtype.kind in "SV" and len(shape) == 1 and dtype.fields is None:
            return "bytes"
        raise SchemaError(
            f"{self.path}: {name!r} is {dtype} of shape {list(shape)}, which no column type holds"
        )

    def _opened(self) -> Any:
        h5py = needed("h5py", "an HDF5 file")
        return self._guard(lambda: h5py.File(self.input.local_path(), "r"))

    def _guard(self, call: Any) -> Any:
        with foreign_call("h5py", self.path):
            return call()

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield a range of rows."""
        stop = unit.place + (unit.rows or 0)
        with self._opened() as file:
            columns = {
                column: self._guard(lambda name=name: _values(file[name], unit.place, stop))
                for column, name in self._names.items()
                if column in self.schema
            }
        yield RawBatch(columns, unit.rows or 0)


def _links(h5py: Any, file: Any) -> list[LeftOut]:
    """Links that are not followed: what they lead to is in the file under another name, or in another file."""
    found: list[LeftOut] = []

    def look(name: str, link: Any) -> None:
        if isinstance(link, h5py.SoftLink):
            found.append(reduced(f"link {name!r}", f"left out: it leads to {link.path!r} of the same file"))
        elif isinstance(link, h5py.ExternalLink):
            found.append(
                reduced(f"link {name!r}", f"left out: it leads into another file, {link.filename!r}")
            )

    file.visititems_links(look)
    return found


def _values(dataset: Any, start: int, stop: int) -> Any:
    values = dataset[start:stop]
    if values.dtype.kind == "O":
        return [value.decode() if isinstance(value, bytes) else value for value in values]
    if (
        values.dtype.kind == "S"
        and dataset.file
        and needed("h5py", "").check_string_dtype(dataset.dtype) is not None
    ):
        return [bytes(value).decode() for value in values]
    if values.dtype.kind in "SV":
        return [bytes(value) for value in values]
    return values.astype(values.dtype.newbyteorder("<"), copy=False)
