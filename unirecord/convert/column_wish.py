"""Which columns are to be added, and what gives their values: a function, or a table, as a source of column parts."""

from __future__ import annotations

import hashlib
import marshal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ..errors import SchemaError, StaleError
from ..format.column import Column, pack_annotations
from ..format.metadata import CREATED_BY
from ..format.schema import Schema
from ..parts.part_set import PartSet, Snapshot
from ..parts.snapshot import classes_of
from ..storage.registry import location_of
from ..writing.arguments import check_indexable
from .column_source import ColumnMaker, ColumnSource, FunctionMaker
from .joined_table import join_table
from .sources.left_out import LeftOut

__all__ = ["ColumnWish", "MadeColumns"]

# Annotations with a meaning (docs/schema.md) that is of some types alone.
_ONLY_OF: Final[dict[str, Callable[[Column], bool]]] = {
    "classes": lambda column: column.dtype is not None and column.dtype.kind in "iu",
    "media_type": lambda column: column.type == "bytes",
    "unit": lambda column: column.dtype is not None,
}


@dataclass(frozen=True)
class MadeColumns:
    """The new columns of a snapshot, as a source; those to be looked up by value; how many rows went without.

    ``left_out``: what of the table is in no column. ``what`` tells the same call from another one: what an earlier run
    has made is only taken over where it is the same.
    """

    source: ColumnSource
    schema: Schema
    index: tuple[str, ...]
    what: dict[str, str]
    without: int = 0
    unused: int = 0
    said: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


@dataclass(frozen=True)
class ColumnWish:
    """What `add_columns` was asked for."""

    folder: str
    columns: Any
    values: Any
    key: str | Sequence[str] | None
    reads: Sequence[str] | None
    index: tuple[str, ...]
    replace: bool
    batch_size: int | None
    keep: bool = False

    @property
    def is_function(self) -> bool:
        """Whether a function makes the values; else they are in a table."""
        return callable(self.values) and not isinstance(self.values, type)

    def source(self, snapshot: Snapshot, *, again: bool = False) -> MadeColumns:
        """The columns of what is there now. ``again``: rows came, or parts changed, since this was first asked."""
        maker: ColumnMaker
        without = unused = 0
        left_out: tuple[LeftOut, ...] = ()
        if self.is_function:
            schema = Schema.parse(_described(self.columns))
            reads = snapshot.schema.names if self.reads is None else self.reads
            for name in reads:
                snapshot.schema.ordinal(name)
            maker, values = FunctionMaker(self.values, reads), _code_of(self.values)
        else:
            if again and self.key is None:
                raise StaleError(
                    f"{self.folder}: its rows have changed while columns were added, and without key= the rows of the "
                    "table go with them by their order; nothing was published"
                )
            parts = PartSet(snapshot, knows_deletions=True)
            try:
                joined = join_table(parts, self.columns, self.values, self.key, keep=self.keep)
            finally:
                parts.close()
            schema, maker, values = joined.schema, joined.maker, joined.digest
            without, unused, left_out = joined.without, joined.unused, joined.left_out
        there = [name for name in schema.names if name in snapshot.schema]
        if there and not self.replace:
            raise SchemaError(
                f"{self.folder}: there is a column {there[0]!r} already; replace=True gives it the new values"
            )
        schema, said = _with_annotations(schema, self.columns, snapshot.schema)
        if not isinstance(self.columns, (Mapping, Schema)):
            said += _said_of_types(schema, snapshot.schema)
        said += _said_of_others(schema, snapshot)
        kept = [n for n in snapshot.index if n in there and n not in self.index and not schema[n].is_blob]
        index = (*kept, *self.index)
        check_indexable(schema, index)
        what = {
            "the source": f"columns of {location_of(self.folder).absolute(self.folder)}",
            "the columns": repr([(column, column.codec) for column in schema]),
            "the values": values,
            "the key": repr(self.key),
            "what is read": repr(self.reads),
            "the index": repr(index),
            "what is kept": repr(self.keep),
            "the rows": "" if self.is_function or self.key is not None else snapshot.rows_identity,
            "the version of unirecord": CREATED_BY,
        }
        source = ColumnSource(snapshot, schema, maker, self.batch_size)
        return MadeColumns(source, schema, index, what, without, unused, tuple(said), left_out)


def _with_annotations(schema: Schema, given: Any, before: Schema) -> tuple[Schema, list[str]]:
    """The columns, replaced ones with the annotations they had unless others are given, and what these cannot be of."""
    said: list[str] = []
    columns = []
    for column in schema:
        spec = given.get(column.name) if isinstance(given, Mapping) else None
        is_given = column.packed_annotations or (isinstance(spec, Mapping) and "annotations" in spec)
        if column.name in before and not is_given:
            known = before[column.name].annotations
            lost = [key for key, is_of in _ONLY_OF.items() if key in known and not is_of(column)]
            if lost:
                said.append(f"{column.name} is {column} now, without its annotation {', '.join(lost)}")
            left = {key: value for key, value in known.items() if key not in lost}
            column = replace(column, packed_annotations=pack_annotations(column.name, left))
        columns.append(column)
    return Schema(columns), said


def _said_of_types(schema: Schema, before: Schema) -> list[str]:
    return [
        f"{column.name} is {column} now, and was {before[column.name]}"
        for column in schema
        if column.name in before and str(column) != str(before[column.name])
    ]


def _said_of_others(schema: Schema, snapshot: Snapshot) -> list[str]:
    """Columns, and names in the metadata, that were made of what is replaced, and do not follow."""
    before, said = snapshot.schema, []
    stays = [name for name in before.names if name not in schema]
    pictures = [c.name for c in before if str(c.annotations.get("media_type", "")).startswith("image/")]
    sizes = [name for name in stays if name in ("width", "height")]
    for name in (name for name in pictures if name in schema and sizes):
        said += [f"{name} has new values; {' and '.join(sizes)} are of the pictures of before"]
    named = "label" in before and ("classes" in before["label"].annotations or classes_of(snapshot.metadata))
    for new, old in (("label", "class"), ("class", "label")):
        if new in schema and named and new in before and old in stays:
            said.append(f"{new} has new values; {old}, which says the same otherwise, has those of before")
    known = classes_of(snapshot.metadata)
    if known is not None and "label" in schema:
        names = schema["label"].annotations.get("classes", known)
        if names != known:
            said.append("label has other classes; those in the metadata are the ones of before")
    return said


def _described(columns: Any) -> Any:
    if isinstance(columns, (Mapping, Schema)):
        return columns
    raise ValueError(f'columns is {columns!r}; a function needs them with their types: {{"caption": "text"}}')


def _code_of(function: Any) -> str:
    """Tells a function from another one as far as its name and its code do; what it calls and holds is not seen."""
    named = (
        f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__name__)}"
    )
    code = getattr(function, "__code__", None)
    return named if code is None else f"{named} {hashlib.sha256(marshal.dumps(code, 2)).hexdigest()}"
