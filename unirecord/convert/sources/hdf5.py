"""HDF5 files as records: the datasets of one length side by side, file after file, by h5py."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from ...errors import SchemaError
from ...format.schema import Schema
from ...progress import Progress
from .array_attributes import (
    annotations_of_attributes,
    equally_long,
    in_own_chunks,
    plain_attributes,
    said_of_attributes,
    shown_types,
    wanted_types,
)
from .foreign_libraries import foreign_call, needed
from .media_types import annotated
from .source import (
    TRUST,
    AskedOption,
    LeftOut,
    Options,
    RawBatch,
    Source,
    Unit,
    column_names,
    reduced,
    refuse_claims,
)

__all__ = ["Hdf5File"]

_UNIT_BYTES: Final = 16_000_000
_MOST: Final = 10_000  # datasets of a file


class Hdf5File(Source):
    """HDF5 files whose datasets have one length, a row per entry of the first axis; groups are part of the names.

    Several files have the same datasets, and what is said of these is what the first says.
    """

    kind: ClassVar[str] = "hdf5"
    about: ClassVar[str] = "HDF5 files"
    suffixes: ClassVar[tuple[str, ...]] = (".h5", ".hdf5", ".he5", ".nc", ".nc4")
    first_bytes: ClassVar[bytes] = b"\x89HDF\r\n\x1a\n"
    takes_folders: ClassVar[bool] = True
    options: ClassVar[tuple[AskedOption, ...]] = (TRUST,)
    libraries: ClassVar[tuple[str, ...]] = ("h5py",)

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Read what the files say of their datasets."""
        self._files = self.files_to_read()
        self.units: Sequence[Unit] = []
        rows = width = 0
        for number, file in self.each_file(self._files, progress):
            types, many, row_bytes = self._look(number, options)
            if number == 0:
                self.schema: Schema = options.schema(self._said_by_first)
                first = types
            elif types != first:
                raise SchemaError(
                    f"{file.name} has {shown_types(types)}, but {self._files[0].name} has {shown_types(first)}; "
                    f"write them to datasets of their own"
                )
            rows, width = rows + many, max(width, row_bytes)
            refuse_claims(self.input, options, rows, width)
            step = max(1, _UNIT_BYTES // max(1, row_bytes))
            self.units += [
                Unit(f"{file.name}, rows from {i}", (number, i), min(step, many - i))
                for i in range(0, many, step)
            ]

    def _look(self, number: int, options: Options) -> tuple[dict[str, Any], int, int]:
        """The types of the columns of a file, its rows, and the bytes of one."""
        h5py = needed("h5py", "an HDF5 file")
        path = self._files[number].name
        found: list[tuple[str, Any, tuple[int, ...], Any]] = []

        def take(name: str, one: Any) -> None:
            if isinstance(one, h5py.Dataset):
                if len(found) >= _MOST:
                    raise SchemaError(f"{path} holds more than {_MOST:,} datasets")
                if one.is_virtual or one.external:
                    raise SchemaError(f"{path}: {name!r} is kept in other files, which are not read")
                found.append((name, one.dtype, one.shape or (), h5py.check_string_dtype(one.dtype)))

        attributes: dict[str, tuple[dict[str, Any], list[str]]] = {}
        chunks: dict[str, Any] = {}
        with self._opened(number) as file:
            self._guard(lambda: file.visititems(take), path)
            self.left_out.extend(self._guard(lambda: _links(h5py, file), path))
            of_file = self._guard(lambda: plain_attributes(file.attrs), path)
            for name, *_ in found:
                chunks[name] = self._guard(lambda name=name: file[name].chunks, path)
                attributes[name] = self._guard(
                    lambda name=name: annotations_of_attributes(file[name].attrs), path
                )
        scalars = [name for name, _, shape, _ in found if not shape]
        if len(scalars) == len(found):
            raise SchemaError(f"{path} holds no datasets with rows")
        self.left_out.extend([reduced(f"dataset {name!r}", "a single value, left out") for name in scalars])
        found = [one for one in found if one[2]]
        names, changed = column_names([name for name, *_ in found], path, options)
        arrays = dict(zip(names, found, strict=True))
        together = equally_long({n: one[2][0] for n, one in arrays.items()}, options, path)
        types = wanted_types(together, lambda column: self._spec(h5py, path, *arrays[column]), options)
        arrays = {column: arrays[column] for column in types}
        for column, (_, dtype, *_) in arrays.items():
            classes = _classes(h5py.check_enum_dtype(dtype))
            if classes is not None:
                types[column] = self.classes_type(column, types[column], classes)
            elif h5py.check_enum_dtype(dtype) and number == 0:
                why = "left out: they do not number the values from 0 without a gap"
                self.left_out.append(reduced(f"the names of the values of {column}", why, column=column))
        if number == 0:
            self._names = {column: one[0] for column, one in arrays.items()}
            self._said_by_first = {
                column: annotated(
                    in_own_chunks(spec, chunks[self._names[column]]), **attributes[self._names[column]][0]
                )
                for column, spec in types.items()
            }
            self.left_out.extend(changed)
            self.left_out.extend(said_of_attributes({c: attributes[name] for c, name in self._names.items()}))
            self.metadata: dict[str, Any] | None = {"attributes": of_file[0]} if of_file[0] else None
            self.left_out.extend(said_of_attributes({"the file": ({}, of_file[1])}))
        width = sum(one[1].itemsize * int(np.prod(one[2][1:], dtype=np.int64)) for one in arrays.values())
        return types, next(iter(arrays.values()))[2][0], width

    def _spec(self, h5py: Any, path: str, name: str, dtype: Any, shape: tuple[int, ...], text: Any) -> Any:
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
        raise SchemaError(f"{path}: {name!r} is {dtype} of shape {list(shape)}, which no column type holds")

    def _opened(self, number: int) -> Any:
        h5py, file = needed("h5py", "an HDF5 file"), self._files[number]
        return self._guard(lambda: h5py.File(file.local_path(), "r"), file.name)

    def _guard(self, call: Any, path: str) -> Any:
        with foreign_call("h5py", path):
            return call()

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield a range of rows."""
        number, start = unit.place
        path, stop = self._files[number].name, start + (unit.rows or 0)
        with self._opened(number) as file:
            columns = {
                column: self._guard(lambda name=name: _values(file[name], start, stop), path)
                for column, name in self._names.items()
                if column in self.schema
            }
        yield RawBatch(columns, unit.rows or 0)


def _classes(numbers: dict[str, int] | None) -> list[str] | None:
    """The names of the values of an enum, where these are 0, 1, 2 …; None of anything else."""
    if not numbers or sorted(numbers.values()) != list(range(len(numbers))):
        return None
    return sorted(numbers, key=numbers.__getitem__)


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
