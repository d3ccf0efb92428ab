"""Columns as Hugging Face features, and the values of a batch as Arrow arrays of their types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..format.column import Column
from ..loading.batch import valid_rows
from .arrow_values import arrow_array, arrow_schema

if TYPE_CHECKING:
    import datasets
    import pyarrow

__all__ = ["feature_array", "features_of"]

_ARRAY_DIMS = (2, 5)  # of datasets.Array2D … Array5D
_COMPLEX = ("complex64", "complex128")  # their Arrow form has a dimension more


def features_of(columns: Sequence[Column]) -> datasets.Features:
    """``datasets.Features`` of the columns.

    Bytes annotated as pictures are ``Image``, integers annotated with classes ``ClassLabel``, arrays of two to five
    fixed dimensions ``Array2D`` … ``Array5D``; everything else has the Arrow type of ``to_batches`` (docs/query.md).
    """
    import datasets

    return datasets.Features({column.name: _feature(column) for column in columns})


def _feature(column: Column) -> Any:
    import datasets

    if _is_picture(column):
        return datasets.Image()
    if _classes(column) is not None:
        return datasets.ClassLabel(names=_classes(column))
    if _is_dense(column):
        kind = getattr(datasets, f"Array{len(column.item_shape)}D")
        return kind(shape=column.item_shape, dtype=str(column.dtype))
    return datasets.Features.from_arrow_schema(arrow_schema([column]))[column.name]


def _is_picture(column: Column) -> bool:
    media = column.annotations.get("media_type")
    return (
        column.type == "bytes"
        and not column.is_array
        and isinstance(media, str)
        and media.startswith("image/")
    )


def _classes(column: Column) -> list[str] | None:
    names = column.annotations.get("classes")
    if column.dtype is None or column.dtype.kind not in "iu" or column.is_array or column.type == "bfloat16":
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return None
    return names if len(set(names)) == len(names) else None


def _is_dense(column: Column) -> bool:
    least, most = _ARRAY_DIMS
    fixed = column.is_array and column.free_dims == 0 and least <= len(column.item_shape) <= most
    return fixed and column.type not in ("bool", *_COMPLEX) and 0 not in column.item_shape


def feature_array(column: Column, values: Any, kind: pyarrow.DataType) -> pyarrow.Array:
    """The values of a batch as an array of the type that the column's feature has."""
    import pyarrow

    if _is_dense(column):
        return pyarrow.ExtensionArray.from_storage(kind, _nested(column, values, kind.storage_type))
    found = arrow_array(column, values)
    if _is_picture(column):
        empty = pyarrow.nulls(len(found), pyarrow.string())
        return pyarrow.StructArray.from_arrays(
            [found.cast(pyarrow.binary()), empty], ["bytes", "path"], mask=found.is_null()
        )
    return found if found.type == kind else found.cast(kind)


def _nested(column: Column, values: Any, kind: pyarrow.DataType) -> pyarrow.Array:
    """Lists in lists over the memory of the batch, as the storage of ``Array2D`` and its like has them."""
    import pyarrow

    flat = pyarrow.array(np.ma.getdata(values).reshape(-1))
    sizes = (len(values), *column.item_shape)
    for level in range(len(sizes) - 1, 0, -1):
        lists = int(np.prod(sizes[:level], dtype=np.int64))
        offsets = np.arange(lists + 1, dtype=np.int32) * np.int32(sizes[level])
        mask = None
        if level == 1 and isinstance(values, np.ma.MaskedArray):
            mask = pyarrow.array(~valid_rows(values))
        flat = pyarrow.ListArray.from_arrays(pyarrow.array(offsets), flat, mask=mask)
    return flat if flat.type == kind else flat.cast(kind)
