"""What all sources of Arrow columns share: a schema from types and a sample; rows to batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final

from ...errors import SchemaError
from ...format.schema import Schema
from .arrow_types import ArrowEvidence, annotated, annotations_of, class_names, features_of, is_file, is_time
from .arrow_values import arrow_values
from .base import RawBatch, Source, column_names, reduced
from .foreign_calls import RAISED, foreign_call
from .overrides import apply_overrides
from .packages import needed

__all__ = ["ArrowSource", "same_fields"]

_BATCH_BYTES: Final = 8_000_000
_BATCH_ROWS: Final = 1 << 16
_NEEDS: Final = "Arrow data"
_REFUSED: Final[tuple[type[Exception], ...]] = (SchemaError, *RAISED["pyarrow"])


class ArrowSource(Source):
    """A source whose rows come as Arrow record batches."""

    schema: Schema

    notes: list[str]
    metadata: dict[str, Any] | None

    item: ClassVar[str] = "row"
    read_file: Callable[[str], bytes] | None = None

    def settle(
        self,
        fields: Any,
        sample: Any,
        nulls: Mapping[str, bool | None],
        overrides: Mapping[str, Any],
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Set the schema from an Arrow schema, some of the rows, and whether each column has nulls.

        ``more``: columns that the rows have not, with their types.
        """
        pa = needed("pyarrow", _NEEDS)
        names, changed = column_names([*fields.names, *more], self.path)
        self._said_elsewhere = dict(zip(more, names[len(fields.names) :], strict=True))
        names = names[: len(fields.names)]
        self.left_out += changed
        self._names = dict(zip(names, fields.names, strict=True))
        features = {**features_of(fields.metadata), **self.said_of_columns()}
        found: dict[str, Any] = {}
        classes: dict[str, list[str]] = {}
        for i, name in enumerate(names):
            feature = features.get(fields.names[i])
            evidence = ArrowEvidence(fields.field(i).type, feature, nulls.get(fields.names[i]))
            if sample is not None:
                with foreign_call("pyarrow", f"{self.path}, column {name!r}"):
                    for chunk in _chunks(sample.column(i)):
                        evidence.sample(chunk)
            found[name] = annotated(evidence.spec(), feature)
            said = annotations_of(fields.field(i).metadata)
            if said:
                spec = found[name] if isinstance(found[name], Mapping) else {"type": found[name]}
                found[name] = {**spec, "annotations": {**spec.get("annotations", {}), **said}}
            labels = class_names(feature) or class_names(
                {"_type": "ClassLabel", "names": said.get("classes")}
            )
            if labels is not None:
                classes[name] = labels
            self._note(pa, name, fields.field(i).type, feature)
        found |= {self._said_elsewhere[name]: kind for name, kind in more.items()}
        self.schema = apply_overrides(found, overrides)
        if classes:
            first = classes.get("label") or next(iter(classes.values()))
            self.metadata = {"classes": first}
            if len(classes) > 1:
                self.metadata["class_names"] = classes

    def said_of_columns(self) -> Mapping[str, Any]:
        """What is said of columns elsewhere than in the Arrow schema, as Hugging Face says it."""
        return {}

    def _note(self, pa: Any, name: str, kind: Any, feature: Any) -> None:
        if is_time(pa, kind):
            since = "since midnight" if pa.types.is_time(kind) else "since 1970"
            what = "nanoseconds" if pa.types.is_duration(kind) else f"nanoseconds {since}"
            self.notes.append(f"{name}: {kind} is written as {what}")
            if getattr(kind, "tz", None) not in (None, "UTC"):
                said = f"of {kind} the time zone is left out"
                self.left_out.append(reduced(f"column {name!r}", said, column=name))
        elif pa.types.is_decimal(kind):
            self.notes.append(f"{name}: {kind} is written as text, so that no digit is lost")
        elif is_file(pa, kind, feature):
            self.notes.append(f"{name}: files, written byte for byte")

    def raw_batches(self, table: Any, where: str, first_row: int) -> Iterator[RawBatch]:
        """Yield the rows of a record batch or table, a few MB at a time."""
        rows = table.num_rows
        step = max(1, min(_BATCH_ROWS, rows * _BATCH_BYTES // max(table.nbytes, 1)))
        for start in range(0, rows, step):
            piece = table.slice(start, step)
            columns: dict[str, Any] = {}
            for column in (one for one in self.schema if one.name in self._names):
                try:
                    columns[column.name] = _joined(
                        [
                            arrow_values(c, column, self.read_file)
                            for c in _chunks(piece.column(self._names[column.name]))
                        ]
                    )
                except _REFUSED as error:
                    raise SchemaError(
                        f"{where}, rows from {first_row + start}, column {column.name!r}: {error}"
                    ) from None
            yield RawBatch(columns, piece.num_rows)


def same_fields(first: Any, other: Any, first_name: str, other_name: str) -> None:
    """Refuse files whose columns differ in name, type or order."""
    if first.names != other.names:
        raise SchemaError(
            f"{other_name} has the columns {', '.join(other.names)}, but {first_name} has {', '.join(first.names)}; "
            f"write them to datasets of their own"
        )
    for i, name in enumerate(first.names):
        if first.field(i).type != other.field(i).type:
            raise SchemaError(
                f"{other_name}: column {name!r} is {other.field(i).type}, but {first.field(i).type} in {first_name}; "
                f"convert one of them"
            )


def _chunks(column: Any) -> list[Any]:
    return list(column.chunks) if hasattr(column, "chunks") else [column]


def _joined(pieces: list[Any]) -> Any:
    if len(pieces) == 1:
        return pieces[0]
    joined: list[Any] = []
    for piece in pieces:
        joined += list(piece.tolist() if hasattr(piece, "mask") and piece.ndim == 1 else piece)
    return joined
