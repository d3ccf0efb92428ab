"""A column from the form that a user writes, and from the form that a file's metadata has."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from ..errors import FormatError, SchemaError, did_you_mean
from .annotations import checked_annotations, pack_annotations
from .codec import Codec
from .column import DTYPES, ELEMENTS, VARIABLE, Column

_ARRAY_ONLY: Final = ("bfloat16", "complex64", "complex128")
_PLAIN_TYPES: Final = tuple(t for t in ELEMENTS if t not in _ARRAY_ONLY) + tuple(VARIABLE)
_CONTROL: Final = re.compile("[\\x00-\\x1f\\x7f-\\x9f]")
_MAX_NAME_BYTES: Final = 255
_MAX_RANK: Final = 32
_MAX_CELL_BYTES: Final = 1 << 62
_TIMES: Final = ("datetime", "timedelta", "timestamp", "date")


def parse_column(name: object, spec: object) -> Column:
    problem = _name_problem(name)
    if problem is not None or not isinstance(name, str):
        raise SchemaError(f"column name {name!r} is not allowed: {problem}")
    shape: object = None
    type_name: object = spec
    annotations = b""
    if isinstance(spec, Mapping):
        extra = [k for k in spec if k not in ("type", "shape", "codec", "annotations")]
        if "type" not in spec or extra:
            wrong = f"unknown key {extra[0]!r}" if extra else "'type' is missing"
            raise SchemaError(
                f'column {name!r}: {wrong}; a column is {{"type": …}}, with "shape": […], "codec": … and '
                '"annotations": {…} where it has them'
            )
        if spec.get("codec") is not None:
            rest = {key: value for key, value in spec.items() if key != "codec"}
            return _compressed(parse_column(name, rest), spec["codec"])
        type_name, shape = spec["type"], spec.get("shape")
        annotations = pack_annotations(name, spec.get("annotations"))
    if not isinstance(type_name, str):
        raise SchemaError(
            f'column {name!r}: a type is given by its name, such as "int32", '
            f"got {type_name!r}{_dtype_hint(type_name)}"
        )
    nullable = type_name.endswith("?")
    base = type_name[:-1] if nullable else type_name
    if shape is None and "[" in base:
        base, shape = _short_array(name, base)
    if shape is not None:
        return _parse_array(name, base, shape, nullable, annotations)
    if base not in _PLAIN_TYPES:
        raise SchemaError(_unknown_type(name, base))
    return Column(name, base, None, nullable, annotations)


def _name_problem(name: object) -> str | None:
    """What keeps a value from being a column's name."""
    if not isinstance(name, str):
        return f"a name is a str, not {type(name).__name__}"
    if _CONTROL.search(name):
        return "it has a control character"
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "it has a lone surrogate, so it is not Unicode text"
    if not 1 <= size <= _MAX_NAME_BYTES:
        return f"it has {size} bytes in UTF-8, and names have 1 to {_MAX_NAME_BYTES}"
    return None


def _compressed(column: Column, codec: object) -> Column:
    try:
        found = Codec.parse(codec)
    except ValueError as error:
        raise SchemaError(f"column {column.name!r}: {error}") from None
    if not column.is_blob:
        raise SchemaError(
            f"column {column.name!r}: {column} takes no codec; bytes, text, object and arrays do"
        )
    if found.shuffles and column.element_bytes == 1:
        raise SchemaError(
            f'column {column.name!r}: {column} has no elements of several bytes to shuffle; use "zstd"'
        )
    return replace(column, codec=found)


def _short_array(name: str, text: str) -> tuple[str, list[int]]:
    """Split ``uint16[-1, 4]`` into its type and shape."""
    base, _, dims = text.partition("[")
    if base.startswith(_TIMES):
        raise SchemaError(_unknown_type(name, text))
    try:
        shape = [int(dim) for dim in dims.removesuffix("]").split(",")] if dims.endswith("]") else None
    except ValueError:
        shape = None
    if shape is None:
        raise SchemaError(f"column {name!r}: {text!r} is not of the form type[dimensions], as in int32[-1,4]")
    return base.strip(), shape


def _dtype_hint(value: object) -> str:
    """Name the type that a numpy dtype or Python class given as a type probably means."""
    try:
        found = np.dtype(value).name if isinstance(value, type | np.dtype) else ""
    except TypeError:
        found = ""
    if value is bytes or value is str:
        found = "bytes" if value is bytes else "string"
    return f'; did you mean "{found}"?' if found in _PLAIN_TYPES else ""


def _unknown_type(name: str, base: str) -> str:
    if base in _ARRAY_ONLY:
        return (
            f'column {name!r}: {base} is for arrays; add a shape, such as {{"type": "{base}", "shape": [-1]}}'
        )
    if base.startswith(_TIMES):
        return (
            f'column {name!r}: {base}: times have no type of their own; "int64" holds nanoseconds since 1970'
        )
    known = ", ".join(_PLAIN_TYPES)
    return f"column {name!r}: unknown type {base!r}{did_you_mean(base, _PLAIN_TYPES) or '.'} The types are: {known}"


def _parse_array(name: str, base: str, shape: object, nullable: bool, annotations: bytes) -> Column:
    if base in VARIABLE:
        raise SchemaError(f"column {name!r}: {base} takes no shape; only arrays of numbers do")
    if base not in ELEMENTS:
        known = ", ".join(ELEMENTS)
        raise SchemaError(
            f"column {name!r}: unknown array type {base!r}{did_you_mean(base, ELEMENTS) or '.'} "
            f"The types are: {known}"
        )
    if isinstance(shape, str | bytes) or not isinstance(shape, Sequence | np.ndarray):
        raise SchemaError(f"column {name!r}: a shape is a list of dimensions, such as [3, -1], got {shape!r}")
    dims = tuple(shape)
    whole = all(isinstance(d, int | np.integer) and not isinstance(d, bool) for d in dims)
    if not whole or not _shape_ok([int(d) for d in dims], base):
        raise SchemaError(
            f"column {name!r}: shape {list(dims)!r} is not allowed: 1 to {_MAX_RANK} dimensions, "
            f"each at least 1, or -1 where it varies, and below 2^62 bytes (a scalar has no shape)"
        )
    return Column(name, base, tuple(int(d) for d in dims), nullable, annotations)


def _shape_ok(dims: Sequence[int], base: str) -> bool:
    if not 1 <= len(dims) <= _MAX_RANK or any(d < 1 and d != -1 for d in dims):
        return False
    fixed = math.prod(d for d in dims if d != -1)
    return fixed * DTYPES[base].itemsize < _MAX_CELL_BYTES


def column_from_wire(i: int, entry: object) -> Column:
    if not isinstance(entry, list) or len(entry) < 3:
        raise FormatError(f"the stored schema's column {i} is not [name, type, shape]")
    name, type_name, shape = entry[:3]
    problem = _name_problem(name)
    if problem is not None or not isinstance(name, str):
        raise FormatError(f"the stored schema's column {i} cannot be called {name!r}: {problem}")
    annotations = checked_annotations(name, entry[3]) if len(entry) > 3 else b""
    if not isinstance(type_name, str):
        raise FormatError(f"the stored schema's column {name!r} has no type name")
    nullable = type_name.endswith("?")
    base = type_name[:-1] if nullable else type_name
    if shape is None:
        if base not in _PLAIN_TYPES:
            raise FormatError(f"the stored schema's column {name!r} has the unknown type {type_name!r}")
        return Column(name, base, None, nullable, annotations)
    dims_ok = isinstance(shape, list) and all(type(d) is int for d in shape)
    if base not in ELEMENTS or not dims_ok or not _shape_ok(shape, base):
        raise FormatError(
            f"the stored schema's column {name!r} has the unknown array type {type_name!r} of shape {shape!r}"
        )
    return Column(name, base, tuple(shape), nullable, annotations)
