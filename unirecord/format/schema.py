"""The schema: names, types and shapes of the columns, from and to the forms a user and a file give them."""

from __future__ import annotations

import difflib
import math
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from ..errors import FormatError, SchemaError
from .annotations import checked_annotations, pack_annotations, unpack_annotations
from .codec import Codec

__all__ = ["Column", "Schema", "near"]

# Type codes of docs/format.md, "Column types".
_ELEMENTS: Final[dict[str, tuple[int, str]]] = {
    "bool": (1, "?"),
    "int8": (2, "<i1"),
    "uint8": (3, "<u1"),
    "int16": (4, "<i2"),
    "uint16": (5, "<u2"),
    "int32": (6, "<i4"),
    "uint32": (7, "<u4"),
    "int64": (8, "<i8"),
    "uint64": (9, "<u8"),
    "float16": (10, "<f2"),
    "float32": (11, "<f4"),
    "float64": (12, "<f8"),
    "bfloat16": (13, "<u2"),  # numpy has no bfloat16: its bits travel as uint16
    "complex64": (14, "<c8"),
    "complex128": (15, "<c16"),
}
_ARRAY_ONLY: Final = ("bfloat16", "complex64", "complex128")
_VARIABLE: Final[dict[str, int]] = {"string": 20, "bytes": 30, "text": 31, "object": 33}
_ARRAY_CODE: Final = 32
_PLAIN_TYPES: Final = tuple(t for t in _ELEMENTS if t not in _ARRAY_ONLY) + tuple(_VARIABLE)
_DTYPES: Final[dict[str, np.dtype[np.generic]]] = {t: np.dtype(d) for t, (_, d) in _ELEMENTS.items()}
_TABLE_ENTRY: Final = struct.Struct("<BBBBB3xQQ8x")
_CONTROL: Final = re.compile("[\\x00-\\x1f\\x7f-\\x9f]")
_MAX_NAME_BYTES: Final = 255
_MAX_COLUMNS: Final = 65_534
_MAX_RANK: Final = 32
_MAX_CELL_BYTES: Final = 1 << 62


def near(word: str, options: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the option nearest to ``word``, or nothing when none is near."""
    by_folded = {option.lower(): option for option in options}
    found = difflib.get_close_matches(str(word).lower(), list(by_folded), n=1, cutoff=0.6)
    return f"; did you mean {by_folded[found[0]]!r}?" if found else ""


@dataclass(frozen=True)
class Column:
    """One column of a schema: immutable and hashable.

    Attributes:
        name: its name.
        type: the name of its type (docs/schema.md); of an array, that of its elements.
        shape: the shape of an array, −1 for a free dimension; None for all else.
        nullable: whether values may be None.
        codec: how its cells are compressed, or None; says nothing of its values, so it takes no part in ``==``.

    Columns are equal whatever their annotations say.
    """

    name: str
    type: str
    shape: tuple[int, ...] | None = None
    nullable: bool = False
    packed_annotations: bytes = field(default=b"", compare=False, repr=False)
    codec: Codec | None = field(default=None, compare=False)

    @property
    def annotations(self) -> dict[str, Any]:
        """What the writer said of it beside its type (docs/schema.md), or nothing; a dict of the caller's own."""
        return unpack_annotations(self.packed_annotations)

    @property
    def is_array(self) -> bool:
        """Whether its values are arrays."""
        return self.shape is not None

    @property
    def is_string(self) -> bool:
        """Whether it is the scalar type ``string``."""
        return self.type == "string"

    @property
    def is_blob(self) -> bool:
        """Whether its values lie in the blob pages: bytes, text, array or object."""
        return self.shape is not None or self.type in ("bytes", "text", "object")

    @property
    def code(self) -> int:
        """Internal: type code in the column table."""
        if self.shape is not None:
            return _ARRAY_CODE
        return _VARIABLE[self.type] if self.type in _VARIABLE else _ELEMENTS[self.type][0]

    @property
    def dtype_code(self) -> int:
        """Internal: type code of an array's elements; 0 when not an array."""
        return _ELEMENTS[self.type][0] if self.shape is not None else 0

    @property
    def dtype(self) -> np.dtype[np.generic] | None:
        """Dtype of the values or elements (bfloat16: uint16), or None for string, bytes, text and object."""
        return _DTYPES.get(self.type)

    @property
    def free_dims(self) -> int:
        """How many dimensions of the shape are free."""
        return 0 if self.shape is None else self.shape.count(-1)

    @property
    def item_shape(self) -> tuple[int, ...]:
        """Shape of one value of fixed width: () for scalars; free dimensions stay −1."""
        return self.shape or ()

    @property
    def fixed_bytes(self) -> int:
        """Bytes of one value, or 0 when that varies."""
        dtype = self.dtype
        if dtype is None or self.free_dims:
            return 0
        return dtype.itemsize * math.prod(self.shape or ())

    @property
    def stored_bytes(self) -> int:
        """Internal: bytes of its cell in every row, or 0 when that varies."""
        return 0 if self.codec is not None else self.fixed_bytes

    @property
    def lengths_dtype(self) -> str:
        """Internal: dtype of the lengths of its cells, and of its values, in a scalar page."""
        return "<u8" if self.codec is None else "<u4"

    @property
    def has_raw_lengths(self) -> bool:
        """Internal: whether the lengths of its values are stored beside those of its cells."""
        return self.codec is not None and self.fixed_bytes == 0

    @property
    def element_bytes(self) -> int:
        """Internal: bytes of an array's element; 1 when not an array."""
        return 1 if self.shape is None else _DTYPES[self.type].itemsize

    @property
    def wire_type(self) -> str:
        """Internal: the type's name as the metadata holds it, with ``?`` when nullable."""
        return self.type + "?" if self.nullable else self.type

    @property
    def spec(self) -> str | dict[str, object]:
        """The form a user writes: ``"int32?"``, or a dict with ``"type"`` and what else there is."""
        if self.shape is None and self.codec is None and not self.packed_annotations:
            return self.wire_type
        shape = {} if self.shape is None else {"shape": list(self.shape)}
        codec = {} if self.codec is None else {"codec": self.codec.spec}
        annotations = {"annotations": self.annotations} if self.packed_annotations else {}
        return {"type": self.wire_type, **shape, **codec, **annotations}

    def __str__(self) -> str:
        """Return e.g. ``float32[-1, 4]`` or ``int32?``, as messages show a type and `Schema.parse` takes it."""
        return f"{self.type}{'' if self.shape is None else list(self.shape)}{'?' * self.nullable}"


class Schema:
    """The columns of a dataset in their order. Immutable, hashable; build one with `Schema.parse`."""

    __slots__ = ("__dict__", "columns")
    columns: tuple[Column, ...]

    def __init__(self, columns: Iterable[Column]) -> None:
        """Take columns that are already valid; `parse` and `from_wire` check theirs."""
        object.__setattr__(self, "columns", tuple(columns))

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse: a schema is shared between handles."""
        raise AttributeError(f"a Schema cannot be changed (setting {name!r})")

    def __reduce__(self) -> tuple[type[Schema], tuple[tuple[Column, ...]]]:
        """Pickle as the columns alone."""
        return (Schema, (self.columns,))

    @classmethod
    def parse(cls, spec: Mapping[str, object] | Schema) -> Schema:
        """Return the schema that ``spec`` describes.

        ``spec`` maps names to a type name (``"int32"``, ``"string?"``) or to ``{"type": …, "shape": […],
        "annotations": {…}}``, of which all but the type may be left out. Raises `SchemaError`.
        """
        if isinstance(spec, Schema):
            return spec
        if not isinstance(spec, Mapping):
            raise SchemaError(
                f'a schema is a dict like {{"image": "bytes", "label": "int32"}}, got {type(spec).__name__}'
            )
        if not 1 <= len(spec) <= _MAX_COLUMNS:
            raise SchemaError(f"a schema has 1 to {_MAX_COLUMNS:,} columns, got {len(spec):,}")
        return cls(_parse_column(name, value) for name, value in spec.items())

    @classmethod
    def from_wire(cls, wire: object) -> Schema:
        """Internal: the schema that a file's metadata holds; `FormatError` when it is none."""
        if not isinstance(wire, list) or not 1 <= len(wire) <= _MAX_COLUMNS:
            raise FormatError(f"the stored schema is not a list of 1 to {_MAX_COLUMNS:,} columns")
        schema = cls(_column_from_wire(i, entry) for i, entry in enumerate(wire))
        if len(schema._ordinals) != len(wire):
            raise FormatError("the stored schema names a column twice")
        return schema

    def to_wire(self) -> list[list[object]]:
        """Internal: ``[[name, type, shape or None], …]``, as the metadata has it; annotations are a fourth element."""
        return [
            [*entry, column.annotations] if column.packed_annotations else entry
            for entry, column in zip(self.types_to_wire(), self.columns, strict=True)
        ]

    def types_to_wire(self) -> list[list[object]]:
        """Internal: `to_wire` without annotations."""
        return [[c.name, c.wire_type, None if c.shape is None else list(c.shape)] for c in self.columns]

    def says_the_same_as(self, other: Schema) -> bool:
        """Whether the columns equal those of ``other``, and their annotations too."""
        return self == other and all(
            a.packed_annotations == b.packed_annotations for a, b in zip(self, other, strict=True)
        )

    def with_annotations_of(self, other: Schema) -> Schema:
        """The columns, each with what ``other`` says of the column of its name."""
        given = {column.name: column.packed_annotations for column in other}
        return Schema(replace(c, packed_annotations=given.get(c.name, b"")) for c in self.columns)

    def to_spec(self) -> dict[str, str | dict[str, object]]:
        """Return the dict from which `parse` makes this schema again."""
        return {c.name: c.spec for c in self.columns}

    def column_table(self) -> bytes:
        """Internal: the column table of docs/format.md, 32 bytes a column."""
        return self._column_table

    @cached_property
    def _column_table(self) -> bytes:
        return b"".join(map(_table_entry, self.columns))

    def plain(self) -> Schema:
        """Return the same columns, none of them compressed."""
        return Schema(replace(c, codec=None) for c in self.columns)

    def with_codecs(self, table: bytes) -> Schema:
        """Internal: the same columns, compressed as a column table says; `FormatError` when it is not theirs."""
        codes = table[4 :: _TABLE_ENTRY.size]
        same = self if not any(codes) and not any(c.codec for c in self.columns) else None
        found = same or Schema(
            replace(c, codec=Codec(code) if code else None)
            for c, code in zip(self.columns, codes, strict=False)
        )
        if found.column_table() != table:
            raise FormatError("the column table and the schema in the metadata differ")
        return found

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names, in order."""
        return tuple(c.name for c in self.columns)

    @cached_property
    def scalars(self) -> tuple[tuple[int, Column], ...]:
        """(ordinal, column) of every scalar column, strings included."""
        return tuple((i, c) for i, c in enumerate(self.columns) if not c.is_blob)

    @cached_property
    def blobs(self) -> tuple[tuple[int, Column], ...]:
        """(ordinal, column) of every blob column."""
        return tuple((i, c) for i, c in enumerate(self.columns) if c.is_blob)

    @cached_property
    def _ordinals(self) -> dict[str, int]:
        return {c.name: i for i, c in enumerate(self.columns)}

    def ordinal(self, name: str) -> int:
        """The ordinal of column ``name``; SchemaError names the columns there are and the nearest one."""
        try:
            return self._ordinals[name]
        except (KeyError, TypeError):
            raise SchemaError(
                f"there is no column {name!r}{near(name, self.names) or '.'} "
                f"The columns are: {_listing(self.names)}"
            ) from None

    def __getitem__(self, key: str | int) -> Column:
        """Return a column by its name or ordinal."""
        return self.columns[key if isinstance(key, int) else self.ordinal(key)]

    def __contains__(self, name: object) -> bool:
        """Whether a column has this name."""
        return name in self._ordinals

    def __len__(self) -> int:
        """Return the number of columns."""
        return len(self.columns)

    def __iter__(self) -> Iterator[Column]:
        """Iterate over the columns."""
        return iter(self.columns)

    def __eq__(self, other: object) -> bool:
        """Whether names, types, shapes and order are the same."""
        return self.columns == other.columns if isinstance(other, Schema) else NotImplemented

    def __hash__(self) -> int:
        """Hash of the columns."""
        return hash(self.columns)

    def __repr__(self) -> str:
        """Return ``Schema({…})`` with the user's form."""
        return f"Schema({self.to_spec()!r})"


def _table_entry(c: Column) -> bytes:
    codec = 0 if c.codec is None else c.codec.code
    value = c.fixed_bytes if codec else 0
    return _TABLE_ENTRY.pack(
        c.code, c.dtype_code, int(c.nullable), len(c.shape or ()), codec, c.stored_bytes, value
    )


def _listing(names: Sequence[str], most: int = 20) -> str:
    shown = ", ".join(repr(n) for n in names[:most])
    return shown + (f", … ({len(names):,} in all)" if len(names) > most else "")


_TIMES: Final = ("datetime", "timedelta", "timestamp", "date")


def _parse_column(name: object, spec: object) -> Column:
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
                f'column {name!r}: {wrong}; a column is {{"type": …}}, with "shape": […] and "annotations": {{…}} '
                "where it has them"
            )
        if spec.get("codec") is not None:
            rest = {key: value for key, value in spec.items() if key != "codec"}
            return _compressed(_parse_column(name, rest), spec["codec"])
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
    return f"column {name!r}: unknown type {base!r}{near(base, _PLAIN_TYPES) or '.'} The types are: {known}"


def _parse_array(name: str, base: str, shape: object, nullable: bool, annotations: bytes) -> Column:
    if base in _VARIABLE:
        raise SchemaError(f"column {name!r}: {base} takes no shape; only arrays of numbers do")
    if base not in _ELEMENTS:
        known = ", ".join(_ELEMENTS)
        raise SchemaError(
            f"column {name!r}: unknown array type {base!r}{near(base, _ELEMENTS) or '.'} "
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
    return fixed * _DTYPES[base].itemsize < _MAX_CELL_BYTES


def _column_from_wire(i: int, entry: object) -> Column:
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
    if base not in _ELEMENTS or not dims_ok or not _shape_ok(shape, base):
        raise FormatError(
            f"the stored schema's column {name!r} has the unknown array type {type_name!r} of shape {shape!r}"
        )
    return Column(name, base, tuple(shape), nullable, annotations)
