"""Blocks of Ray Data as columns: Arrow's types, and Ray's own for arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ..convert.sources.arrow_types import ArrowEvidence
from ..convert.sources.arrow_values import arrow_values
from ..errors import SchemaError
from ..format.column import Column
from ..format.schema import Schema

__all__ = ["columns_of", "schema_of", "with_tensors"]

_TENSOR: Final = "tensor"  # in the names of Ray's extension types
_OBJECT: Final = "object"
_ELEMENTS: Final = {"halffloat": "float16", "float": "float32", "double": "float64"}
_BATCH_BYTES: Final = 8_000_000


def schema_of(fields: Any, given: Mapping[str, Any]) -> Schema:
    """Return the schema for an Arrow schema of Ray; ``given`` replaces types by name.

    A column that Arrow calls nullable is nullable, since no block has been looked at when the first is written.
    """
    found = {}
    for field in fields:
        if field.name in given:
            continue
        found[field.name] = _spec(field)
    unknown = sorted(set(given) - set(fields.names))
    if unknown:
        raise SchemaError(
            f"schema: the dataset has no column {unknown[0]!r}; it has {', '.join(fields.names)}"
        )
    return Schema.parse({name: given.get(name, found.get(name)) for name in fields.names})


def _spec(field: Any) -> Any:
    kind = field.type
    said = _extension(kind)
    if _OBJECT in said:
        raise SchemaError(
            f"column {field.name!r} holds Python objects, which Ray keeps pickled; map them to numbers, text, bytes or "
            "arrays, or say its type with schema="
        )
    if _TENSOR not in said:
        return ArrowEvidence(kind, nulls=field.nullable).spec()
    element = _ELEMENTS.get(str(kind.value_type), str(kind.value_type))
    return {"type": element, "shape": [-1 if size is None else size for size in kind.shape]}


def _extension(kind: Any) -> str:
    name = getattr(kind, "extension_name", "")
    return name if name.startswith("ray.") else ""


def with_tensors(table: Any, columns: Sequence[Column]) -> Any:
    """A table of ``to_batches`` with arrays of one shape as Ray's tensors, over the same memory, in place of lists.

    Ray makes arrays and tensors of those, one for a batch, and of lists objects. Nulls and complex numbers stay lists.
    """
    import numpy as np
    from ray.data.extensions import ArrowTensorArray

    for number, column in enumerate(columns):
        shape = column.item_shape
        if not column.is_array or column.nullable or -1 in shape or column.type.startswith("complex"):
            continue
        values = table.column(number).combine_chunks()
        for _ in shape:
            values = values.flatten()
        array = values.to_numpy(zero_copy_only=False).astype(column.dtype, copy=False)
        tensors = ArrowTensorArray.from_numpy(np.reshape(array, (table.num_rows, *shape)))
        table = table.set_column(number, table.schema.field(number).with_type(tensors.type), tensors)
    return table


def columns_of(block: Any, schema: Schema) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield rows and columns of a block, about 8 MB at a time; SchemaError names a column that it lacks."""
    import pyarrow

    table = block
    if not isinstance(block, pyarrow.Table):
        from ray.data.block import BlockAccessor

        table = BlockAccessor.for_block(block).to_arrow()
    lacking = [name for name in schema.names if name not in table.column_names]
    if lacking and table.num_rows:
        raise SchemaError(f"a block has no column {lacking[0]!r}; it has {', '.join(table.column_names)}")
    more = [name for name in table.column_names if name not in schema]
    if more and table.num_rows:
        raise SchemaError(f"a block has a column {more[0]!r}, which the first block did not have")
    step = max(1, table.num_rows * _BATCH_BYTES // max(table.nbytes, 1))
    for start in range(0, table.num_rows, step):
        piece = table.slice(start, step)
        yield piece.num_rows, {name: _values(piece, schema, name) for name in schema.names}


def _values(table: Any, schema: Schema, name: str) -> Any:
    column = table.column(name)
    if _extension(column.type):
        from ray.data.block import BlockAccessor

        return list(BlockAccessor.for_block(table.select([name])).to_numpy(name))
    try:
        return arrow_values(column.combine_chunks(), schema[name])
    except SchemaError as error:
        raise SchemaError(f"column {name!r}: {error}") from None
