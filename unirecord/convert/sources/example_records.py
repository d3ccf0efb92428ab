"""What sources of records of bytes share: tf.train.Examples become columns, anything else one column of bytes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from ...errors import SchemaError
from ...format.schema import Schema
from ...progress import Progress
from .base import Options, RawBatch, Source, Unit, column_names
from .convert import Misfit
from .input_path import InputPath
from .overrides import apply_overrides
from .protobuf import WireError
from .splits import refuse_split_files
from .tf_example import FeatureEvidence, feature_value, parse_example

__all__ = ["ExampleRecords"]

_BATCH_BYTES: Final = 8_000_000
_BATCH_ROWS: Final = 4_096
_SAMPLE_RECORDS: Final = 2_000
_SAMPLE_BYTES: Final = 64_000_000
_RAW: Final = "record"


class ExampleRecords(Source):
    """Files of records. A feature with one value in every record is a scalar, one with several an array.

    Types are those of the first records of each file. ``--schema record=bytes`` keeps Examples as they are, too.
    """

    units: Sequence[Unit]
    schema: Schema

    notes: list[str]

    @abstractmethod
    def record_files(self) -> list[InputPath]:
        """The files, in order."""

    @abstractmethod
    def walk(self, number: int, file: InputPath, row: int) -> Iterable[Unit]:
        """The units of a file; ``row`` is the number of its first record in the dataset."""

    @abstractmethod
    def records(self, unit: Unit) -> Iterator[tuple[str, Any]]:
        """Yield what a message calls each record, and its bytes, checked."""

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Find where all records lie, and look at the content of some."""
        self._files = self.record_files()
        refuse_split_files(self.path, [file.name for file in self._files])
        self.units = []
        evidence: dict[str, FeatureEvidence] = {}
        seen = row = 0
        self._raw = False
        asked_raw = set(options.overrides) == {_RAW}
        sampled = False
        for number, file in enumerate(self._files):
            units = list(self.walk(number, file, row))
            self.units += units
            rows = sum(unit.rows or 0 for unit in units)
            row += rows
            seen_here = self._look(units, evidence, asked_raw)
            seen += seen_here
            sampled = sampled or seen_here < rows
            file.release()
            if progress is not None:
                progress(number + 1, len(self._files))
        if not row:
            raise SchemaError(f"{self.path} holds no records")
        if not evidence or (asked_raw and _RAW not in evidence):
            self._raw = True
        if self._raw:
            self.notes.append("its records are no tf.train.Example, so they are written as they are")
        found = {_RAW: "bytes"} if self._raw else self._types(evidence, seen)
        if sampled and not self._raw:
            self.notes.append(f"the types are those of {seen:,} records; --schema replaces them")
        self.schema = apply_overrides(found, options.overrides)

    def _types(self, evidence: dict[str, FeatureEvidence], seen: int) -> dict[str, Any]:
        names, changed = column_names(sorted(evidence), self.path)
        self.left_out += changed
        self._features = dict(zip(names, sorted(evidence), strict=True))
        return {name: evidence[feature].spec(seen) for name, feature in self._features.items()}

    def _look(self, units: list[Unit], evidence: dict[str, FeatureEvidence], asked_raw: bool) -> int:
        """Take the first records of a file into account, and return how many."""
        seen = size = 0
        for unit in units:
            for where, data in self.records(unit):
                if seen >= _SAMPLE_RECORDS or size >= _SAMPLE_BYTES:
                    return seen
                seen, size = seen + 1, size + len(data)
                if self._raw:
                    continue
                try:
                    features = parse_example(memoryview(data))
                except WireError as error:
                    if evidence and not asked_raw:
                        raise SchemaError(
                            f"{where} is no tf.train.Example, as those before it are: {error}; "
                            f"--schema {_RAW}=bytes keeps all as they are"
                        ) from None
                    self._raw = True
                    continue
                for name, value in features.items():
                    evidence.setdefault(name, FeatureEvidence(name)).add(value, where)
        return seen

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield the records of a part of a file."""
        columns: dict[str, list[Any]] = {name: [] for name in self.schema.names}
        rows = size = 0
        for where, data in self.records(unit):
            if self._raw:
                columns[_RAW].append(data)
            else:
                self._add(columns, where, memoryview(data))
            rows, size = rows + 1, size + len(data)
            if rows >= _BATCH_ROWS or size >= _BATCH_BYTES:
                yield RawBatch(columns, rows)
                columns, rows, size = {name: [] for name in self.schema.names}, 0, 0
        if rows:
            yield RawBatch(columns, rows)

    def _add(self, columns: dict[str, list[Any]], where: str, data: memoryview) -> None:
        try:
            values = self._values(where, data)
        except SchemaError as error:
            if not self.keeps_misfits:
                raise
            values = [Misfit(str(error))] * len(self.schema)
        for column, value in zip(self.schema.names, values, strict=True):
            columns[column].append(value)

    def _values(self, where: str, data: memoryview) -> list[Any]:
        try:
            features = parse_example(data)
        except WireError as error:
            raise SchemaError(f"{where} is no tf.train.Example: {error}") from None
        values = []
        for column in self.schema:
            name = self._features[column.name]
            try:
                values.append(feature_value(features.pop(name, None), column))
            except ValueError as error:
                raise SchemaError(f"{where}, feature {name!r}: {error}") from None
        if features:
            raise SchemaError(
                f"{where} has the feature {next(iter(features))!r}, which the records that were looked at have not"
            )
        return values
