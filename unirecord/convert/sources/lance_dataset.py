"""Lance datasets as records: the newest version, fragment by fragment, by pylance."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

from ...progress import Progress
from .arrow_columns import choose_columns, rows_of_batches
from .foreign_libraries import foreign_call, needed
from .input_path import InputPath
from .source import TRUST, AskedOption, Options, RawBatch, Source, Unit

__all__ = ["LanceDataset"]

_NEEDS: Final = "a Lance dataset"
_SAMPLE_ROWS: Final = 1_000
_BLOB_ROWS: Final = 16  # at a time: each may be large
_VERSIONS: Final = "_versions"


class LanceDataset(Source):
    """A folder that Lance wrote; rows that were deleted are not there."""

    kind: ClassVar[str] = "lance"
    about: ClassVar[str] = "a Lance dataset"
    handles: ClassVar[tuple[str, ...]] = ("_dataset",)
    reads: ClassVar[str] = "a folder"
    reads_files: ClassVar[bool] = False
    suffixes: ClassVar[tuple[str, ...]] = (".lance",)
    options: ClassVar[tuple[AskedOption, ...]] = (TRUST,)
    libraries: ClassVar[tuple[str, ...]] = ("lance",)

    @classmethod
    def recognises(cls, source: InputPath) -> bool:
        """By its folder of versions."""
        return source.is_folder and os.path.isdir(os.path.join(source.path, _VERSIONS))

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Count the rows of all fragments, and read some."""
        self._dataset: Any = None
        self._version: int | None = None
        with foreign_call("lance", self.path):
            dataset = self._opened()
            self._version = dataset.version
            fragments = list(dataset.get_fragments())
        self.units: Sequence[Unit] = []
        row = 0
        for fragment in fragments:
            name = f"{self.path}, fragment {fragment.fragment_id}"
            with foreign_call("lance", name):
                rows = fragment.count_rows()
            self.units.append(Unit(name, (fragment.fragment_id, row), rows))
            row += rows
        with foreign_call("lance", self.path):
            fields, self._reading = _without_descriptors(dataset.schema)
            sample = dataset.scanner(limit=_SAMPLE_ROWS, batch_size=_SAMPLE_ROWS, **self._reading).head(
                _BLOB_ROWS if self._reading else _SAMPLE_ROWS
            )
            nulls = {field.name: self._has_nulls(dataset, field) for field in fields}
        self._names = choose_columns(self, fields, sample if sample.num_rows else None, nulls, options)

    def _has_nulls(self, dataset: Any, field: Any) -> bool | None:
        """Whether a column has nulls; None where counting them would read large values."""
        if not field.nullable:
            return False
        types = needed("pyarrow", _NEEDS).types
        if not (types.is_primitive(field.type) or types.is_string(field.type)):
            return None
        return bool(dataset.count_rows(filter=f"`{field.name}` IS NULL"))

    def _opened(self) -> Any:
        if self._dataset is None:
            lance = needed("lance", _NEEDS, "pylance")
            self._dataset = lance.dataset(self.input.path, version=self._version)
        return self._dataset

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield the rows of a fragment."""
        number, row = unit.place
        columns = [self._names[name] for name in self.schema.names]
        step = _BLOB_ROWS if self._reading else _SAMPLE_ROWS
        with foreign_call("lance", unit.name):
            fragment = self._opened().get_fragment(number)
            batches = fragment.to_batches(columns=columns, batch_size=step, **self._reading)
        yield from rows_of_batches("lance", batches, self.schema, self._names, unit.name, row)


def _without_descriptors(fields: Any) -> tuple[Any, dict[str, str]]:
    """The schema with blob columns as the bytes they stand for, and what asks Lance for these, and no descriptors."""
    pa = needed("pyarrow", _NEEDS)
    blobs = [
        i
        for i, field in enumerate(fields)
        if "lance.blob" in str(field.type) or (field.metadata or {}).get(b"lance-encoding:blob") == b"true"
    ]
    for i in blobs:
        fields = fields.set(i, pa.field(fields.field(i).name, pa.large_binary(), fields.field(i).nullable))
    return fields, {"blob_handling": "all_binary"} if blobs else {}
