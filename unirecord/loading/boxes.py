"""Parts of values, a box of an array or a run of bytes: spelled as numpy indexes, and read without the rest."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import index as as_integer
from types import EllipsisType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import SchemaError
from ..format.chunks import shape_of_value
from ..format.column import Column
from ..format.values import array_in_cell
from ..order.spec import check_integer
from ..sizes import many
from ..snapshot.part_set import PartSet

__all__ = ["Crop", "cropped_columns", "part_of_value", "place_columns"]

Key = int | slice | EllipsisType | tuple[int | slice | EllipsisType, ...]


@dataclass(frozen=True)
class Crop:
    """A box of so many elements along each dimension, taken of every value of a column at a place that is drawn.

    Attributes:
        shape: its size along each dimension of the arrays.
    """

    shape: tuple[int, ...]

    def __init__(self, shape: int | Sequence[int]) -> None:
        """Take a size for each dimension of the arrays, as in ``Crop((1, 64, 64))``; of bytes a number of them."""
        if isinstance(shape, int | np.integer) and not isinstance(shape, bool):
            shape = (int(shape),)
        if isinstance(shape, str | bytes) or not isinstance(shape, Sequence | np.ndarray):
            raise TypeError(
                f"a crop has a size for each dimension, as in Crop((1, 64, 64)); got {shape!r:.100}"
            )
        object.__setattr__(self, "shape", tuple(check_integer("a size of a crop", d, 1) for d in shape))


def cropped_columns(columns: Sequence[Column], crops: Mapping[str, Crop]) -> list[Column]:
    """The columns as batches have them, with the shape of its crop where there is one.

    Raises:
        SchemaError: there is no such column, or it has no values that boxes are taken of.
        ValueError: a crop has other dimensions than the arrays, or is larger.
        TypeError: it is no `Crop`.
    """
    if not isinstance(crops, Mapping):
        raise TypeError(
            f'crops: give a unirecord.Crop by the name of its column, as in crops={{"field": Crop((1, 64, 64))}}; '
            f"got {crops!r:.100}"
        )
    names = {column.name for column in columns}
    for name, crop in crops.items():
        if name not in names:
            raise SchemaError(
                f"crops: there is no column {name!r} in these batches: {', '.join(sorted(names))}"
            )
        if not isinstance(crop, Crop):
            raise TypeError(f"crops: column {name!r} takes a unirecord.Crop, got {crop!r:.100}")
    return [_cropped(column, crops[column.name]) if column.name in crops else column for column in columns]


def _cropped(column: Column, crop: Crop) -> Column:
    if column.type == "text" and not column.is_array:
        raise SchemaError(
            f"column {column.name!r} is {column}: a crop counts bytes, and could begin or end inside a character; "
            "crops are taken of bytes and of arrays"
        )
    of_bytes = column.type == "bytes" and not column.is_array
    if not of_bytes and (column.shape is None or column.free_dims > 1):
        raise SchemaError(
            f"column {column.name!r} is {column}: crops are taken of bytes, and of arrays of one free dimension at most"
        )
    shape = column.shape or (-1,)
    fits = len(crop.shape) == len(shape)
    if not fits or any(size > whole != -1 for size, whole in zip(crop.shape, shape, strict=True)):
        raise ValueError(f"column {column.name!r}: a crop of {crop.shape} does not fit {column}")
    kind = "uint8" if of_bytes else column.type
    return replace(column, type=kind, shape=crop.shape, packed_annotations=b"")


def place_columns(
    columns: Sequence[Column], crops: Mapping[str, Crop], names: Collection[str]
) -> dict[int, Column]:
    """By the number of a column of which crops are taken, the column of batches that says where they begin.

    SchemaError where one of ``names`` is that of such a column already.
    """
    found = {}
    for c, column in enumerate(columns):
        if column.name in crops:
            name = f"{column.name}_place"
            if name in names:
                raise SchemaError(f"there is a column {name!r} already, where places of crops would stand")
            found[c] = Column(name, "int64", (len(crops[column.name].shape),))
    return found


class Box(NamedTuple):
    """Where a box begins and how many elements it has along each dimension; ``shape``: that of what numpy gives."""

    starts: tuple[int, ...]
    sizes: tuple[int, ...]
    shape: tuple[int, ...]


def box_of(key: object, shape: tuple[int, ...], name: str) -> Box:
    """The box that an index names in an array of this shape.

    IndexError for what lies outside, TypeError and ValueError for indexes that are no box.
    """
    given = list(key) if isinstance(key, tuple) else [key]
    ellipses = [i for i, one in enumerate(given) if one is Ellipsis]
    if len(ellipses) > 1:
        raise IndexError(f"column {name!r}: an index has one ellipsis, '...', at most")
    missing = len(shape) - (len(given) - len(ellipses))
    if missing < 0:
        raise IndexError(
            f"column {name!r}: too many indexes: its values have {many(len(shape), 'dimension')}, and "
            f"{len(given) - len(ellipses)} were given"
        )
    at = ellipses[0] if ellipses else len(given)
    given[at : at + len(ellipses)] = [slice(None)] * missing
    starts, sizes, kept = [], [], []
    for dimension, (one, whole) in enumerate(zip(given, shape, strict=True)):
        if isinstance(one, slice):
            start, stop, step = one.indices(whole)
            if step != 1:
                raise ValueError(
                    f"column {name!r}: the slice {one} has step {step}; a part of a value has step 1: take the step "
                    "of what is read"
                )
            starts.append(start if stop > start else 0)
            sizes.append(max(stop - start, 0))
            kept.append(sizes[-1])
            continue
        place = _integer(one, name)
        if not -whole <= place < whole:
            raise IndexError(
                f"column {name!r}: index {place} is out of bounds for dimension {dimension} of size {whole}"
            )
        starts.append(place % whole)
        sizes.append(1)
    return Box(tuple(starts), tuple(sizes), tuple(kept))


def _integer(one: object, name: str) -> int:
    try:
        is_one = not isinstance(one, bool | np.bool_) and not (isinstance(one, np.ndarray) and one.ndim)
        return as_integer(one if is_one else None)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(
            f"column {name!r}: a part of a value is named by integers, slices and '...', as in "
            f"numpy.s_[0, 100:164, 200:264]; got {one!r:.100}"
        ) from None


def part_of_value(parts: PartSet, ordinal: int, row: int, key: Any) -> Any:
    """The part of the value of a row that ``key`` names, None for null: of arrays an array, of bytes and text bytes.

    Raises:
        SchemaError: the column has no values with parts.
        IndexError, TypeError, ValueError: as `box_of` says.
    """
    column = parts.schema.columns[ordinal]
    if not column.is_array:
        return _run_of_bytes(parts, ordinal, column, row, key)
    if column.free_dims > 1:
        return _of_whole(parts, ordinal, column, row, key)
    assert column.shape is not None
    shape = column.shape
    if column.free_dims:
        size = parts.value_size(ordinal, row)
        if size is None:
            return None
        shape = shape_of_value(column, size)
    box = box_of(key, shape, column.name)
    found = parts.read_boxes(ordinal, np.array([row], np.int64), box.sizes, np.array([box.starts], np.int64))
    if found.valid is not None and not found.valid[0]:
        return None
    array: NDArray[Any] = found.data.reshape(box.shape)
    return array


def _run_of_bytes(parts: PartSet, ordinal: int, column: Column, row: int, key: Any) -> bytes | None:
    if column.type not in ("bytes", "text"):
        raise SchemaError(
            f"column {column.name!r} is {column}: arrays have parts, and bytes and text; read the value with ds[i]"
        )
    if not isinstance(key, slice):
        raise TypeError(
            f"column {column.name!r}: a part of {column.type} is a slice of its bytes, as in numpy.s_[100:200]; "
            f"got {key!r:.100}"
        )
    rows = np.array([row], np.int64)
    size = parts.value_size(ordinal, row)
    if size is None:
        return None
    box = box_of(key, (size,), column.name)
    return parts.read_boxes(ordinal, rows, box.sizes, np.array([box.starts], np.int64)).data.tobytes()


def _of_whole(parts: PartSet, ordinal: int, column: Column, row: int, key: Any) -> Any:
    """Of an array with several free dimensions, which is read whole: it says its shape at its end."""
    found = parts.read(np.array([row], np.int64), [ordinal])[0]
    if found.valid is not None and not found.valid[0]:
        return None
    array = array_in_cell(column, memoryview(found.data))
    box = box_of(key, array.shape, column.name)
    chosen = tuple(slice(start, start + size) for start, size in zip(box.starts, box.sizes, strict=True))
    return array[chosen].reshape(box.shape).copy()
