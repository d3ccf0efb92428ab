"""Arrow and Feather files, and folders that Hugging Face `datasets` saved, as records."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from functools import partial
from shlex import quote
from typing import Any, ClassVar, Final

from ...errors import SchemaError
from ...progress import Progress
from .arrow_columns import choose_columns, null_count, rows_of_batches, same_fields
from .foreign_libraries import foreign_call, needed
from .input_path import InputPath
from .jsonl import json_object
from .source import TRUST, AskedOption, Options, Partitions, RawBatch, Source, Unit

__all__ = ["ArrowFiles"]

_NEEDS: Final = "an Arrow file"
_UNIT_BYTES: Final = 32_000_000
_INFO: Final = "dataset_info.json"
_STATE: Final = "state.json"
_SPLIT: Final = "dataset_dict.json"


class ArrowFiles(Source):
    """Arrow files of one schema: with a table of their batches (Feather), or streams, as `save_to_disk` writes them."""

    kind: ClassVar[str] = "arrow"
    about: ClassVar[str] = "Arrow or Feather files, or a saved Hugging Face dataset"
    handles: ClassVar[tuple[str, ...]] = ("_open",)
    any_names: ClassVar[bool] = True
    suffixes: ClassVar[tuple[str, ...]] = (".arrow", ".feather", ".ipc", ".arrows")
    first_bytes: ClassVar[bytes] = b"ARROW1"
    takes_folders: ClassVar[bool] = True
    also_named: ClassVar[tuple[str, ...]] = (_SPLIT,)
    options: ClassVar[tuple[AskedOption, ...]] = (TRUST,)
    libraries: ClassVar[tuple[str, ...]] = ("pyarrow.ipc",)

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Go through the headers of all record batches; values are read only to see what types leave open."""
        self._features: dict[str, Any] = {}
        self._files = self._saved() or self.files_to_read()
        self._open: _ArrowFile | None = None
        self.units: Sequence[Unit] = []
        nulls: dict[str, bool | None] = {}
        fields: Any = None
        sample: Any = None
        row = 0
        for number, file in self.each_file(self._files, progress):
            with foreign_call("pyarrow", file.name):
                opened = self._file(number)
                fields = opened.schema if fields is None else fields
                same_fields(fields, opened.schema, self._files[0].name, file.name, options)
                batches = opened.batches(0)
            first, rows, size = 0, 0, 0
            for i in itertools.count():
                with foreign_call("pyarrow", f"{file.name}, record batch {i}"):
                    batch = next(batches, None)
                    if batch is None:
                        break
                    if sample is None and batch.num_rows:
                        sample = batch.slice(0, 1000)
                    for name, column in zip(batch.schema.names, batch.columns, strict=True):
                        nulls[name] = bool(nulls.get(name) or null_count(column))
                    rows, size = rows + batch.num_rows, size + batch.nbytes
                if size >= _UNIT_BYTES:
                    self._add_unit(number, first, i + 1, row, rows)
                    row, first, rows, size = row + rows, i + 1, 0, 0
            self._add_unit(number, first, None, row, rows)
            row += rows
        self._partitions = Partitions(self.input, self._files, fields.names, options)
        self._names = choose_columns(self, fields, sample, nulls, options, self._partitions, self._features)

    def _add_unit(self, number: int, first: int, stop: int | None, row: int, rows: int) -> None:
        name = self._files[number].name
        if first:
            name += f", record batches from {first}"
        self.units = [*self.units, Unit(name, (number, first, stop, row), rows)]

    def _saved(self) -> list[InputPath]:
        """The files of a folder that `datasets` saved, in its order; none of another folder."""
        if not self.input.is_folder:
            return []
        if (split := self._object(_SPLIT)) is not None:
            parts = [str(name) for name in split.get("splits", [])]
            steps = " and ".join(
                f"`unirecord write {quote(os.path.join(self.path, name))} {quote(name)}`" for name in parts
            )
            raise SchemaError(
                f"{self.path} holds the splits {', '.join(parts)}; write each to a dataset of its own: {steps}"
            )
        info, state = self._object(_INFO), self._object(_STATE)
        try:
            self._features = dict(info["features"]) if info else {}
            names = [one["filename"] for one in state["_data_files"]] if state else []
        except (TypeError, KeyError, ValueError) as error:
            raise SchemaError(
                f"{self.path}: {_STATE} and {_INFO} do not list its files ({error!r})"
            ) from None
        for name in names:
            if not isinstance(name, str) or os.path.basename(name) != name:
                raise SchemaError(f"{self.path}: {_STATE} names {name!r}, which is no file of the folder")
        files = [self._below(name) for name in names]
        missing = next((file.name for file in files if not os.path.isfile(file.path)), None)
        if missing is not None:
            raise SchemaError(f"{missing} is missing, which {_STATE} names")
        return files

    def _below(self, name: str) -> InputPath:
        return InputPath(os.path.join(self.path, name), os.path.join(self.input.path, name))

    def _object(self, name: str) -> dict[str, Any] | None:
        """What a file of the folder says; None where there is none."""
        file = self._below(name)
        return json_object(file) if os.path.isfile(file.path) else None

    def _file(self, number: int) -> _ArrowFile:
        if self._open is None or self._open.number != number:
            self._open = _ArrowFile(number, self._files[number].local_path())
        return self._open

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield the rows of a range of record batches."""
        number, first, stop, row = unit.place
        with foreign_call("pyarrow", unit.name):
            batches = self._file(number).batches(first)
        some = itertools.islice(batches, None if stop is None else stop - first)
        more = partial(self._partitions.columns, number)
        yield from rows_of_batches("pyarrow", some, self.schema, self._names, unit.name, row, more)


class _ArrowFile:
    """One open file of record batches: read, and not mapped, so that one that shrinks is an error and no signal."""

    def __init__(self, number: int, path: str) -> None:
        self.number = number
        self._ipc = needed("pyarrow.ipc", _NEEDS, "pyarrow")
        self._map = needed("pyarrow", _NEEDS).OSFile(path)
        head = self._map.read(6)
        self._map.seek(0)
        self._table = self._ipc.open_file(self._map) if head == b"ARROW1" else None
        self._stream: Any = None
        self._next = 0
        if self._table is None:
            self._stream = self._ipc.open_stream(self._map)
        self.schema = (self._table or self._stream).schema

    def batches(self, first: int) -> Iterator[Any]:
        """Yield the record batches from one on."""
        if self._table is not None:
            for i in range(first, self._table.num_record_batches):
                yield _checked(self._table.get_batch(i))
            return
        if self._next > first:
            self._map.seek(0)
            self._stream, self._next = self._ipc.open_stream(self._map), 0
        while True:
            batch = next(self._stream, None)
            if batch is None:
                return
            self._next += 1
            if self._next > first:
                yield _checked(batch)


def _checked(batch: Any) -> Any:
    """The batch, once its offsets are known to stay in its memory: a damaged file says anything."""
    batch.validate(full=True)
    return batch
