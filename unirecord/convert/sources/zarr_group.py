"""Zarr folders as records: the arrays of one length side by side, by the zarr package."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, Final

import numpy as np

from ...errors import SchemaError
from ...format.schema import Schema
from ...progress import Progress
from .base import Options, RawBatch, Source, Unit, column_names
from .folder_walk import walk
from .input_path import InputPath
from .overrides import apply_overrides
from .packages import needed

__all__ = ["ZarrGroup"]

_NEEDS: Final = "a Zarr folder"
_UNIT_BYTES: Final = 16_000_000
_MOST: Final = 10_000  # arrays of a folder
_MARKS: Final = ("zarr.json", ".zgroup", ".zarray", ".zmetadata")
_PICKLED: Final = b"pickle"


class ZarrGroup(Source):
    """Arrays of one length, a row per entry of the first axis; groups are part of the names. Formats 2 and 3."""

    schema: Schema
    units: Sequence[Unit]

    notes: list[str]

    kind: ClassVar[str] = "zarr"
    about: ClassVar[str] = "a Zarr folder"
    reads: ClassVar[str] = "a folder"
    suffixes: ClassVar[tuple[str, ...]] = (".zarr",)

    @classmethod
    def recognises(cls, source: InputPath) -> bool:
        """By the file that says what the folder is."""
        return cls.can_read(source)

    @classmethod
    def can_read(cls, source: InputPath) -> bool:
        """A folder with such a file."""
        return source.is_folder and any(os.path.isfile(os.path.join(source.path, name)) for name in _MARKS)

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Read what the folder says of its arrays."""
        self._arrays: dict[str, Any] | None = None
        self._refuse_pickles()
        with self._guarded(self.path):
            found = self._opened()
        self._refuse_unknown(found)
        if not found:
            raise SchemaError(f"{self.path} holds no arrays")
        rows = {array.shape[0] for array in found.values() if array.shape}
        if len(rows) != 1:
            lengths = ", ".join(f"{name} {array.shape[0]:,}" for name, array in found.items() if array.shape)
            raise SchemaError(
                f"{self.path}: its arrays differ in length ({lengths}); they make no rows together"
            )
        scalars = [name for name, array in found.items() if not array.shape]
        if scalars:
            self.notes.append(f"{', '.join(scalars)}: single values, left out")
        kept = [name for name, array in found.items() if array.shape]
        names, notes = column_names(kept, self.path)
        self.notes += notes
        self._names = dict(zip(names, kept, strict=True))
        types = {column: self._spec(name, found[name]) for column, name in self._names.items()}
        self.schema = apply_overrides(types, options.overrides)
        width = sum(
            found[name].dtype.itemsize * int(np.prod(found[name].shape[1:], dtype=np.int64)) for name in kept
        )
        chunk = max(found[name].chunks[0] for name in kept)
        (many,) = rows
        step = max(1, _UNIT_BYTES // max(1, width))
        step = max(chunk, step // chunk * chunk) if width * chunk <= 8 * _UNIT_BYTES else step
        self.units = [
            Unit(f"{self.path}, rows from {i}", i, min(step, many - i)) for i in range(0, many, step)
        ]

    def _refuse_pickles(self) -> None:
        """Refuse arrays that are unpickled when they are read, which runs what the file says."""
        for path, reason in walk(self.input.path):
            if reason is None and os.path.basename(path) == "zarr.json":
                self._refuse_pickles_in(path)
        for folder, _, files in os.walk(self.input.path):
            for name in files:
                if name in _MARKS[1:]:
                    self._refuse_pickles_in(os.path.relpath(os.path.join(folder, name), self.input.path))

    def _refuse_pickles_in(self, path: str) -> None:
        with open(os.path.join(self.input.path, path), "rb") as file:
            text = file.read()
        if _PICKLED in text or b"\\u" in text:
            raise SchemaError(f"{self.path}/{path}: its objects are pickled, which is not read")

    def _refuse_unknown(self, arrays: Iterable[str]) -> None:
        """Refuse folders of which nothing says what they are: zarr leaves out an array without its metadata."""
        root = self.input.path
        for folder, folders, files in os.walk(root):
            name = os.path.relpath(folder, root)
            if _is_array(folder, files):
                folders.clear()
            elif (
                folder != root
                and not {*_MARKS} & {*files}
                and not any(array.startswith(f"{name}/") or array == name for array in arrays)
                and any(inside for _, _, inside in os.walk(folder))
            ):
                raise SchemaError(
                    f"{self.path}/{name}: zarr.json, .zarray or .zgroup is missing, which says what it holds; "
                    "put it back, or move the folder away to leave it out"
                )
            folders[:] = sorted(one for one in folders if not one.startswith("."))

    def _opened(self) -> dict[str, Any]:
        """The arrays by name; an array alone is called as its folder is."""
        if self._arrays is None:
            zarr = needed("zarr", _NEEDS)
            root = zarr.open(self.input.path, mode="r")
            if isinstance(root, zarr.Array):
                name = os.path.basename(os.path.abspath(self.path)).removesuffix(".zarr") or "array"
                self._arrays = {name: root}
            else:
                self._arrays = dict(sorted(_below(zarr, root)))
        return self._arrays

    @contextmanager
    def _guarded(self, where: str) -> Iterator[None]:
        try:
            yield
        except (SchemaError, FileNotFoundError, MemoryError):
            raise
        except Exception as error:  # each codec has errors of its own
            raise SchemaError(f"{where} cannot be read: {error or type(error).__name__}") from None

    def _spec(self, name: str, array: Any) -> Any:
        kind, shape = array.dtype, array.shape
        if kind.kind in "?biufc" and kind.itemsize <= 16 and all(shape[1:]):
            type_name = kind.newbyteorder("<").name
            return {"type": type_name, "shape": list(shape[1:])} if shape[1:] else type_name
        if len(shape) == 1 and kind.fields is None and kind.kind in "UTSVMm":
            return {"U": "string", "T": "string", "S": "bytes", "V": "bytes"}.get(kind.kind, "int64")
        if len(shape) == 1 and kind.kind == "O":
            return "string"
        raise SchemaError(
            f"{self.path}: {name!r} is {kind} of shape {list(shape)}, which no column type holds"
        )

    def __getstate__(self) -> dict[str, Any]:
        """All but the open arrays."""
        return {**self.__dict__, "_arrays": None}

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield a range of rows."""
        rows = unit.rows or 0
        columns: dict[str, Any] = {}
        for column, name in self._names.items():
            with self._guarded(f"{unit.name}, array {name!r}"):
                columns[column] = _values(self._opened()[name][unit.place : unit.place + rows])
        yield RawBatch(columns, rows)


def _is_array(folder: str, files: list[str]) -> bool:
    if "zarr.json" not in files:
        return ".zarray" in files
    with suppress(ValueError), open(os.path.join(folder, "zarr.json"), "rb") as file:
        said = json.load(file)
        return isinstance(said, dict) and said.get("node_type") == "array"
    return False


def _below(zarr: Any, group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for many, (name, one) in enumerate(group.members(max_depth=None)):
        if many >= _MOST:
            raise SchemaError(f"it holds more than {_MOST:,} arrays")
        if isinstance(one, zarr.Array):
            yield prefix + name, one


def _values(found: Any) -> Any:
    values = np.asarray(found)
    if values.dtype.kind in "OTU":
        return [str(value) for value in values.tolist()]
    if values.dtype.kind in "SV":
        return [bytes(value) for value in values]
    if values.dtype.kind in "mM":
        return values.astype(f"{values.dtype.kind}8[ns]").view("i8")
    return values.astype(values.dtype.newbyteorder("<"), copy=False)
