"""Which columns are to be added, and what gives their values: a function, or a table, as a source of column parts."""

from __future__ import annotations

import hashlib
import marshal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import SchemaError, StaleError
from ..format.metadata import CREATED_BY
from ..format.schema import Schema
from ..parts.part_set import PartSet, Snapshot
from ..storage.registry import location_of
from ..writing.arguments import check_indexable
from .column_source import ColumnMaker, ColumnSource, FunctionMaker
from .joined_table import join_table

__all__ = ["ColumnWish", "MadeColumns"]


@dataclass(frozen=True)
class MadeColumns:
    """The new columns of a snapshot, as a source; those to be looked up by value; how many rows went without.

    ``what`` tells the same call from another one: what an earlier run has made is only taken over where it is the same.
    """

    source: ColumnSource
    schema: Schema
    index: tuple[str, ...]
    what: dict[str, str]
    without: int = 0
    unused: int = 0


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

    @property
    def is_function(self) -> bool:
        """Whether a function makes the values; else they are in a table."""
        return callable(self.values) and not isinstance(self.values, type)

    def source(self, snapshot: Snapshot, *, again: bool = False) -> MadeColumns:
        """The columns of what is there now. ``again``: rows came, or parts changed, since this was first asked."""
        maker: ColumnMaker
        without = unused = 0
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
                joined = join_table(parts, self.columns, self.values, self.key)
            finally:
                parts.close()
            schema, maker, values = joined.schema, joined.maker, joined.digest
            without, unused = joined.without, joined.unused
        there = [name for name in schema.names if name in snapshot.schema]
        if there and not self.replace:
            raise SchemaError(
                f"{self.folder}: there is a column {there[0]!r} already; replace=True gives it the new values"
            )
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
            "the rows": "" if self.is_function or self.key is not None else snapshot.rows_identity,
            "the version of unirecord": CREATED_BY,
        }
        source = ColumnSource(snapshot, schema, maker, self.batch_size)
        return MadeColumns(source, schema, index, what, without, unused)


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
