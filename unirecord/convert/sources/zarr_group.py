"""Zarr folders as records: the arrays of one length side by side, by the zarr package."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from ...errors import SchemaError
from ...format.schema import Schema
from ...format.values.strings import unicode_list
from ...progress import Progress
from .array_attributes import (
    annotations_of_attributes,
    equally_long,
    in_own_chunks,
    plain_attributes,
    said_of_attributes,
    wanted_types,
)
from .foreign_libraries import foreign_call, needed
from .input_path import InputPath
from .media_types import annotated
from .source import TRUST, AskedOption, Options, RawBatch, Source, Unit, column_names, reduced, refuse_claims

__all__ = ["ZarrGroup"]

_NEEDS: Final = "a Zarr folder"
_UNIT_BYTES: Final = 16_000_000
_MOST: Final = 10_000  # arrays of a folder
_MARKS: Final = ("zarr.json", ".zgroup", ".zarray", ".zmetadata")
# Codecs that make numbers, text and bytes of bytes, and nothing else, by their names in formats 2 and 3.
_CODECS: Final = frozenset((
    "adler32", "astype", "bitround", "blosc", "bytes", "bz2", "crc32", "crc32c", "delta", "endian", "fixedscaleoffset",
    "fletcher32", "gzip", "jenkins_lookup3", "lz4", "lzma", "packbits", "quantize", "sharding_indexed", "shuffle",
    "transpose", "vlen-bytes", "vlen-utf8", "zlib", "zstd",
))  # fmt: skip


class ZarrGroup(Source):
    """Arrays of one length, a row per entry of the first axis; groups are part of the names. Formats 2 and 3."""

    kind: ClassVar[str] = "zarr"
    about: ClassVar[str] = "a Zarr folder"
    handles: ClassVar[tuple[str, ...]] = ("_arrays",)
    reads: ClassVar[str] = "a folder"
    reads_files: ClassVar[bool] = False
    suffixes: ClassVar[tuple[str, ...]] = (".zarr",)
    options: ClassVar[tuple[AskedOption, ...]] = (TRUST,)
    libraries: ClassVar[tuple[str, ...]] = ("zarr",)

    @classmethod
    def recognises(cls, source: InputPath) -> bool:
        """By the file that says what the folder is."""
        return source.is_folder and any(os.path.isfile(os.path.join(source.path, name)) for name in _MARKS)

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Read what the folder says of its arrays."""
        self._arrays: dict[str, Any] | None = None
        with foreign_call("zarr", self.path):
            found = self._opened()
        for name, array in found.items():
            self._refuse_codecs(name, array.metadata)
        if not self._alone:
            self._refuse_unknown(found)
        if not any(array.shape for array in found.values()):
            raise SchemaError(f"{self.path} holds no arrays with rows")
        scalars = [name for name, array in found.items() if not array.shape]
        self.left_out.extend([reduced(f"array {name!r}", "a single value, left out") for name in scalars])
        kept = [name for name, array in found.items() if array.shape]
        names, changed = column_names(kept, self.path, options)
        self.left_out.extend(changed)
        named = dict(zip(names, kept, strict=True))
        lengths = {column: found[name].shape[0] for column, name in named.items()}
        together = equally_long(lengths, options, self.path)
        types = wanted_types(
            together, lambda column: self._spec(named[column], found[named[column]]), options
        )
        self._names = {column: named[column] for column in types}
        kept = list(self._names.values())
        attributes = {column: _attributes(found[name]) for column, name in self._names.items()}
        types = {
            column: annotated(in_own_chunks(spec, found[self._names[column]].chunks), **attributes[column][0])
            for column, spec in types.items()
        }
        of_group = plain_attributes({} if self._alone else self._of_group)
        self.metadata: dict[str, Any] | None = {"attributes": of_group[0]} if of_group[0] else None
        self.left_out.extend(said_of_attributes({**attributes, "the group": ({}, of_group[1])}))
        self.schema: Schema = options.schema(types)
        width = sum(
            found[name].dtype.itemsize * int(np.prod(found[name].shape[1:], dtype=np.int64)) for name in kept
        )
        chunk = max(found[name].chunks[0] for name in kept)
        many = found[kept[0]].shape[0]
        refuse_claims(self.input, options, many, width)
        step = max(1, _UNIT_BYTES // max(1, width))
        step = max(chunk, step // chunk * chunk) if width * chunk <= 8 * _UNIT_BYTES else step
        self.units: Sequence[Unit] = [
            Unit(f"{self.path}, rows from {i}", i, min(step, many - i)) for i in range(0, many, step)
        ]

    def _refuse_codecs(self, name: str, metadata: Any) -> None:
        """Refuse an array that zarr has opened with a codec that is not known: ``pickle`` runs what a chunk says."""
        for codec in _codecs(metadata):
            if codec == "pickle":
                raise SchemaError(f"{self.path}/{name}: its objects are pickled, which is not read")
            if codec not in _CODECS:
                raise SchemaError(
                    f"{self.path}/{name}: its codec {codec[:60]!r} is not read; write the array with one of "
                    f"{', '.join(sorted(_CODECS))}"
                )

    def _refuse_unknown(self, arrays: Iterable[str]) -> None:
        """Refuse folders of which nothing says what they are: zarr leaves out an array without its metadata."""
        root = self.input.path
        entered: set[tuple[int, int]] = set()
        for folder, folders, files in os.walk(root, followlinks=True):  # links, too: zarr follows them
            info, name = os.stat(folder), os.path.relpath(folder, root)
            again = (info.st_dev, info.st_ino) in entered  # by a link back up the tree
            entered.add((info.st_dev, info.st_ino))
            if again or name in arrays:
                folders.clear()
            elif (
                folder != root
                and not {*_MARKS} & {*files}
                and not any(array.startswith(f"{name}/") for array in arrays)
                and _holds_files(folder)
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
            self._of_group = dict(root.attrs)
            self._alone = isinstance(root, zarr.Array)
            if self._alone:
                name = os.path.basename(os.path.abspath(self.path)).removesuffix(".zarr") or "array"
                self._arrays = {name: root}
            else:
                self._arrays = dict(sorted(_below(zarr, root)))
        return self._arrays

    def _spec(self, name: str, array: Any) -> Any:
        kind, shape = array.dtype, array.shape
        if kind.kind in "?biufc" and kind.itemsize <= 16 and all(shape[1:]):
            type_name = kind.newbyteorder("<").name
            return {"type": type_name, "shape": list(shape[1:])} if shape[1:] else type_name
        if len(shape) == 1 and kind.fields is None and kind.kind in "UTSVMm":
            return {"U": "string", "T": "string", "S": "bytes", "V": "bytes"}.get(kind.kind, "int64")
        if len(shape) == 1 and kind.kind == "O":
            return "bytes" if "vlen-bytes" in _codecs(array.metadata) else "string"
        raise SchemaError(
            f"{self.path}: {name!r} is {kind} of shape {list(shape)}, which no column type holds"
        )

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield a range of rows."""
        rows = unit.rows or 0
        columns: dict[str, Any] = {}
        for column in self.schema.names:
            name = self._names[column]
            with foreign_call("zarr", f"{unit.name}, array {name!r}"):
                columns[column] = _values(self._opened()[name][unit.place : unit.place + rows])
        yield RawBatch(columns, rows)


def _codecs(metadata: Any) -> Iterator[str]:
    """The names of all codecs by which zarr would decode the chunks of an array, those inside shards, too."""
    if metadata.zarr_format == 2:
        for codec in (*(metadata.filters or ()), *filter(None, [metadata.compressor])):
            yield str(codec.codec_id)
        return
    pending = [*metadata.codecs]
    while pending:
        codec = pending.pop()
        pending += [*getattr(codec, "codecs", ()), *getattr(codec, "index_codecs", ())]
        yield str(codec.to_dict()["name"]).removeprefix("numcodecs.")


def _attributes(array: Any) -> tuple[dict[str, Any], list[str]]:
    """The annotations that the attributes of an array make, and the names of attributes that make none.

    What xarray calls ``_FillValue`` lies in format 2 where zarr has the number of cells that nobody wrote.
    """
    given = dict(array.attrs)
    fill = getattr(array, "fill_value", None)
    if array.metadata.zarr_format == 2 and "_ARRAY_DIMENSIONS" in given and fill is not None:
        given = {"_FillValue": fill, **given}
    return annotations_of_attributes(given)


def _holds_files(folder: str) -> bool:
    return any(files for _, _, files in os.walk(folder))


def _below(zarr: Any, group: Any) -> Iterator[tuple[str, Any]]:
    for many, (name, one) in enumerate(group.members(max_depth=None)):
        if many >= _MOST:
            raise SchemaError(f"it holds more than {_MOST:,} arrays")
        if isinstance(one, zarr.Array):
            if ".." in name.split("/"):  # as consolidated metadata may call it
                raise SchemaError(f"the array {name!r} lies outside of the folder")
            yield name, one


def _values(found: Any) -> Any:
    values = np.asarray(found)
    if values.dtype.kind == "O":
        return [value if isinstance(value, bytes) else str(value) for value in values.tolist()]
    if values.dtype.kind == "U":
        return unicode_list(values)
    if values.dtype.kind == "T":
        return values.tolist()
    if values.dtype.kind in "SV":
        return [bytes(value) for value in values]
    if values.dtype.kind in "mM":
        return values.astype(f"{values.dtype.kind}8[ns]").view("i8")
    return values.astype(values.dtype.newbyteorder("<"), copy=False)
