"""Arrays of one layout beside each other, and the attributes that say what their values are."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from ...errors import SchemaError
from ...format.column import BESIDE
from ...format.schema import Schema
from .source import LeftOut, Options, reduced

__all__ = [
    "annotations_of_attributes",
    "equally_long",
    "in_own_chunks",
    "plain_attributes",
    "said_of_attributes",
    "shown_types",
    "wanted_types",
]


# Arrays that lie side by side make rows where they are equally long: which of them a dataset is made of.


_LISTED: Final = 12  # arrays, in a message


def equally_long(lengths: Mapping[str, int], options: Options, where: str) -> list[str]:
    """The names of the arrays that make rows together: all, or of arrays of several lengths those that are wanted.

    Raises `SchemaError` where these differ, which names those that most of them go together with.
    """
    if len(set(lengths.values())) == 1:
        return list(lengths)
    chosen = [name for name in lengths if options.wants(name)]
    if len({lengths[name] for name in chosen}) == 1:
        return chosen
    told = ", ".join(f"{name} {length:,}" for name, length in list(lengths.items())[:_LISTED])
    more = f" and {len(lengths) - _LISTED:,} more" if len(lengths) > _LISTED else ""
    most = Counter(lengths.values()).most_common(1)[0][0]
    together = ",".join([name for name, length in lengths.items() if length == most][:_LISTED])
    raise SchemaError(
        f"{where}: its arrays differ in length ({told}{more}); they make no rows together: --columns chooses some that "
        f"do, such as {together}"
    )


def wanted_types(columns: Iterable[str], type_of: Callable[[str], Any], options: Options) -> dict[str, Any]:
    """The type of each column; one that no type holds is left out where it is not wanted, else `SchemaError`."""
    found: dict[str, Any] = {}
    for column in columns:
        try:
            found[column] = type_of(column)
        except SchemaError:
            if options.wants(column):
                raise
    return found


def shown_types(types: Mapping[str, Any]) -> str:
    """The columns with their types, in a message."""
    return ", ".join(f"{column.name} {column}" for column in Schema.parse(types))


# What files of arrays (HDF5, NetCDF, Zarr) say of an array beside its numbers, as annotations of its
# column.


# What the libraries note for themselves: names of dimensions, and references between datasets.
_STRUCTURE: Final = frozenset((
    "CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "DIMENSION_LABELS", "_Netcdf4Dimid", "_Netcdf4Coordinates",
    "_nc3_strict", "_NCProperties", "_ARRAY_DIMENSIONS",
))  # fmt: skip
_OURS: Final = {"units": "unit", "long_name": "description"}
_MOST_BYTES: Final = 4_096  # of the JSON of an attribute
_MOST: Final = 100  # of an array
# By these the numbers that are stored are not those that are meant.
_PACKED: Final = ("scale_factor", "add_offset", "_FillValue", "missing_value")


def plain_attributes(given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The attributes as values of JSON, and the names of those that are none, or are too large."""
    found: dict[str, Any] = {}
    left: list[str] = []
    for name in given:
        if name in _STRUCTURE:
            continue
        try:
            value = _plain(given[name])
            fits = len(found) < _MOST and len(json.dumps(value)) <= _MOST_BYTES
        except Exception:  # whatever a library raises of a type that it does not know
            fits = False
        if fits:
            found[name] = value
        else:
            left.append(name)
    return found, left


def annotations_of_attributes(given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The same as annotations, under the names that these have in every dataset (docs/schema.md)."""
    plain, left = plain_attributes({name: value for name, value in given.items() if name not in BESIDE})
    left += [name for name in BESIDE if name in given]
    said = {name: value for name, value in plain.items() if name not in _OURS}
    for theirs, ours in _OURS.items():
        if theirs in plain:
            said[ours if ours not in plain and isinstance(plain[theirs], str) else theirs] = plain[theirs]
    return said, left


def said_of_attributes(given: Mapping[str, tuple[Mapping[str, Any], Sequence[str]]]) -> list[LeftOut]:
    """What a user should know of columns: that their numbers are packed, and which attributes were left out."""
    said = []
    for column, (kept, left) in given.items():
        packed = [f"{key} {kept[key]}" for key in _PACKED if key in kept]
        if packed:
            why = f"packed ({', '.join(packed)}): as they are stored; the annotations say what they mean"
            said.append(reduced(f"the numbers of {column}", why, column=column))
        for name in left:
            why = "left out: it is large, or neither text nor numbers"
            if name in BESIDE:
                why = "left out: a schema says something else by this name"
            said.append(reduced(f"attribute {name!r} of {column}", why, column=column))
    return said


def _plain(value: Any) -> Any:
    """A value of an attribute as JSON has it; an array of one number as the number, and what is no number as text."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "?biufSUO":
            raise TypeError(str(value.dtype))
        value = value.tolist()
        value = value[0] if isinstance(value, list) and len(value) == 1 else value
    elif isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(type(value).__name__)


# Large arrays are cut into chunks as their source cuts them.


_LARGE: Final = 1 << 20  # bytes of a value from which on it is cut as its source cuts it …
_LEAST_CHUNK: Final = 4096  # … into chunks of so many bytes at least


def in_own_chunks(spec: Any, chunks: Sequence[int] | None) -> Any:
    """The type of a column of large arrays with the chunks of its source, where rows lie along the first dimension."""
    if (
        not isinstance(spec, dict)
        or "shape" not in spec
        or not chunks
        or len(chunks) != len(spec["shape"]) + 1
    ):
        return spec
    shape, width = spec["shape"], np.dtype(spec["type"]).itemsize
    own = [min(int(part), whole) for part, whole in zip(chunks[1:], shape, strict=True)]
    if own == shape or width * math.prod(shape) < _LARGE or width * math.prod(own) < _LEAST_CHUNK:
        return spec
    return {**spec, "chunks": own}
