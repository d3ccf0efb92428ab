"""Nested types: which structs, lists and maps the objects of a column are: text, tree, and a check of values.

The text is that of docs/spec/format.md, "Nested types", as in ``list<struct<role: string, content: string>>``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..core import ObjectShape, ShapeKind, cached_property
from ..errors import SchemaError
from ..sizes import many

if TYPE_CHECKING:
    import pyarrow

__all__ = [
    "Nested",
    "nested_array",
    "nested_from",
    "nested_of",
    "nested_of_shape",
    "nested_type",
    "stored_type",
]


MAX_TEXT: Final = 1 << 16
MAX_DEPTH: Final = 32
_WIDE: Final = 64  # elements of a fixed size: what nulls of fewer take is not counted
_MOST_ELEMENTS: Final = 1 << 27  # of such values in a batch
_MOST_SIZE: Final = (1 << 31) - 1  # that Arrow counts to
_INTEGERS: Final = {
    **{f"int{bits}": range(-(1 << bits - 1), 1 << bits - 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": range(1 << bits) for bits in (8, 16, 32, 64)},
}
# Times, and the integers that Arrow has for them.
_TIMES: Final = {
    "date32": "int32", "date64": "int64", "time32": "int32", "time64": "int64", "timestamp": "int64",
    "duration": "int64",
}  # fmt: skip
_TEXTS: Final = ("string", "large_string", "string_view")
_BYTES: Final = ("binary", "large_binary", "binary_view", "fixed_size_binary")
# Up to what magnitude, itself not, finite numbers are rounded to finite ones.
_FLOATS: Final = {"float16": 65_520.0, "float32": float((1 << 128) - (1 << 103)), "float64": math.inf}
_DECIMALS: Final = {"decimal32": 9, "decimal64": 18, "decimal128": 38, "decimal256": 76}  # digits at most
_LISTS: Final = ("list", "large_list", "fixed_size_list")
_PLAIN: Final = frozenset(("null", "bool", "date32", "date64", *_INTEGERS, *_FLOATS, *_TEXTS, *_BYTES)) - {
    "fixed_size_binary"
}
# What stands in brackets or parentheses behind a name.
_PARAMETERS: Final = {
    "fixed_size_binary": re.compile(r"\[([1-9][0-9]{0,9})\]"),
    "time32": re.compile(r"\[(s|ms)\]"),
    "time64": re.compile(r"\[(us|ns)\]"),
    "duration": re.compile(r"\[(s|ms|us|ns)\]"),
    "timestamp": re.compile(r"\[(s|ms|us|ns)(?:, ([A-Za-z0-9_+:/-]{1,64}))?\]"),
    **{name: re.compile(r"\(([1-9][0-9]?), (0|[1-9][0-9]?)\)") for name in _DECIMALS},
}
_SHAPES: Final = {
    ShapeKind.BOOL: "true or false", ShapeKind.INTEGER: "a whole number", ShapeKind.REAL: "a number",
    ShapeKind.TEXT: "text", ShapeKind.BYTES: "bytes", ShapeKind.LIST: "a list", ShapeKind.MAP: "an object",
    ShapeKind.OTHER: "something else",
}  # fmt: skip
_PLAIN_SHAPES: Final = {
    ShapeKind(0): "null", ShapeKind.TEXT: "string", ShapeKind.BOOL: "bool", ShapeKind.BYTES: "binary"
}  # fmt: skip
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_FIELD: Final = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)|"((?:[^"\\]|\\["\\])*)"')
_SIZE: Final = re.compile(r"\[([1-9][0-9]{0,9})\]")
_DECIMAL: Final = re.compile(r"-?[0-9]+(?:\.([0-9]+))?")


@dataclass(frozen=True)
class Nested:
    """A type of values within an object, or of the whole of it.

    Attributes:
        kind: its name, such as ``"struct"``, ``"list"`` or ``"timestamp"``.
        parameters: what stands behind a name: unit and zone, digits, a size.
        fields: the fields of a struct; of a list its items, under the name "item"; of a map key and value.
        nullable: whether it may be None.
    """

    kind: str
    parameters: tuple[str, ...] = ()
    fields: tuple[tuple[str, Nested], ...] = ()
    nullable: bool = True

    def __str__(self) -> str:
        """Return the text, in its one form."""
        inner = [str(field) for _, field in self.fields]
        if self.kind == "struct":
            inner = [f"{_quoted(name)}: {text}" for (name, _), text in zip(self.fields, inner, strict=True)]
        size = f"[{self.parameters[0]}]" if self.kind == "fixed_size_list" else ""
        if self.kind in ("struct", "map", *_LISTS):
            text = f"{self.kind}<{', '.join(inner)}>{size}"
        elif self.parameters:
            listed = ", ".join(self.parameters)
            text = f"{self.kind}({listed})" if self.kind in _DECIMALS else f"{self.kind}[{listed}]"
        else:
            text = self.kind
        return text if self.nullable else f"{text} not null"

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of the fields of a struct."""
        return frozenset(name for name, _ in self.fields)

    def replaced(self, leaves: Mapping[str, str]) -> Nested:
        """The type with kinds that are named here in the place of others, without parameters."""
        if self.kind in leaves:
            return Nested(leaves[self.kind], nullable=self.nullable)
        return replace(self, fields=tuple((name, field.replaced(leaves)) for name, field in self.fields))

    @cached_property
    def width(self) -> int:
        """Elements that Arrow has even for a null: those of fixed sizes; else 1."""
        if self.kind == "struct":
            return 1 + sum(field.width for _, field in self.fields)
        if self.kind == "fixed_size_list":
            return int(self.parameters[0]) * self.fields[0][1].width
        return int(self.parameters[0]) if self.kind == "fixed_size_binary" else 1

    @cached_property
    def is_wide(self) -> bool:
        """Whether nulls of it may take much more memory than is stored of them."""
        return self.width > _WIDE or any(field.is_wide for _, field in self.fields)

    def elements(self, value: Any) -> int:
        """How many elements Arrow has for a value of this type."""
        if value is None or not self.fields:
            return self.width
        if self.kind == "struct":
            return 1 + sum(field.elements(value.get(name)) for name, field in self.fields)
        if self.kind == "map":
            (_, key), (_, item) = self.fields
            return sum(key.elements(name) + item.elements(one) for name, one in value)
        return sum(map(self.fields[0][1].elements, value))

    @cached_property
    def _fits(self) -> Callable[[Any], bool]:
        """What finds in the usual values, and quickly, that they are of this type; of others it says nothing."""
        kind, nullable = self.kind, self.nullable
        if kind == "struct":
            names = self.names
            keys, of_fields = [name for name, _ in self.fields], [field._fits for _, field in self.fields]

            def fits(value: Any) -> bool:
                if type(value) is not dict:
                    return nullable and value is None
                if not value.keys() <= names:
                    return False
                return all(map(_call, of_fields, map(value.get, keys)))

            return fits
        if kind in ("list", "large_list"):
            of_item = self.fields[0][1]._fits

            def fits(value: Any) -> bool:
                if type(value) is not list:
                    return nullable and value is None
                return all(map(of_item, value))

            return fits
        if kind in _INTEGERS or kind in _TIMES:
            bounds = _INTEGERS[_TIMES.get(kind, kind)]
            return lambda value: value in bounds if type(value) is int else nullable and value is None
        types: list[type] = [type(None)] if nullable else []
        if kind in _TEXTS:
            types.append(str)
        elif kind in _FLOATS:
            limit = _FLOATS[kind]
            return lambda value: (
                _is_float(value, limit) if type(value) is float else nullable and value is None
            )
        elif kind in _BYTES and not self.parameters:
            types.append(bytes)
        elif kind == "bool":
            types.append(bool)
        usual = frozenset(types)
        return lambda value: type(value) in usual

    def joined(self, other: Nested) -> Nested | None:
        """The type that takes the values of both; None where there is none. Fields that one lacks are null in it."""
        nullable = self.nullable or other.nullable
        for one, rest in ((self, other), (other, self)):
            if one.kind == "null":
                return replace(rest, nullable=True)
        if self.kind != other.kind and {self.kind, other.kind} <= {*_INTEGERS, *_FLOATS}:
            # values keep what they are: each is compared with the type
            wider = str(np.result_type(self.kind, other.kind))
            return Nested(wider, nullable=nullable) if wider in _INTEGERS or wider in _FLOATS else None
        if (self.kind, self.parameters) != (other.kind, other.parameters):
            return None
        if self.kind != "struct":
            pairs = zip(self.fields, other.fields, strict=True)
            inner = [(name, one.joined(two)) for (name, one), (_, two) in pairs]
        else:
            mine, theirs = dict(self.fields), dict(other.fields)
            inner = [(name, one.joined(theirs.get(name, _NULL))) for name, one in self.fields]
            inner += [(name, one.joined(_NULL)) for name, one in other.fields if name not in mine]
        fields = tuple((name, one) for name, one in inner if one is not None)
        return replace(self, fields=fields, nullable=nullable) if len(fields) == len(inner) else None

    def takes(self, shape: ObjectShape) -> bool:
        """Whether all values of a shape are of this type, as far as the shape tells; else each must be asked."""
        kinds = shape.kinds & ~ShapeKind.NULL
        if kinds != shape.kinds and not self.nullable:
            return False
        if not kinds:
            return True
        if kinds == ShapeKind.MAP and self.kind == "struct":
            of_field = dict(self.fields)
            return all(field.nullable for field in of_field.values()) and all(
                name in of_field and of_field[name].takes(one) for name, one in shape.fields
            )
        if kinds == ShapeKind.LIST and self.kind in _LISTS:
            size = int(self.parameters[0]) if self.parameters else None
            fits = shape.items is None or self.fields[0][1].takes(shape.items)
            return fits and (size is None or shape.sizes == (size, size))
        if kinds == ShapeKind.INTEGER and (self.kind in _INTEGERS or self.kind in _TIMES):
            bounds = _INTEGERS[_TIMES.get(self.kind, self.kind)]
            return shape.integers[0] in bounds and shape.integers[1] in bounds
        if kinds in ShapeKind.REAL | ShapeKind.INTEGER and self.kind in _FLOATS:
            exact = 1 << np.finfo(self.kind).nmant + 1
            return (
                max(-shape.integers[0], shape.integers[1]) <= exact and shape.most_real < _FLOATS[self.kind]
            )
        if kinds == ShapeKind.BYTES and self.kind in _BYTES:
            return not self.parameters or shape.sizes == (int(self.parameters[0]),) * 2
        return (kinds == ShapeKind.TEXT and self.kind in _TEXTS) or (
            kinds == ShapeKind.BOOL and self.kind == "bool"
        )

    def problem(self, value: Any, place: str) -> str | None:
        """Why a value is none of this type, with its place; None where it is one."""
        if self._fits(value):
            return None
        if value is None:
            return None if self.nullable else f"{place} is None, and {self} takes no null"
        if self.kind == "struct":
            return self._struct_problem(value, place)
        if self.kind == "map":
            return self._map_problem(value, place)
        if self.kind in _LISTS:
            return self._list_problem(value, place)
        return None if self._is_leaf(value) else f"{place} is no {self}: {value!r:.60}{self._advice}"

    def _struct_problem(self, value: Any, place: str) -> str | None:
        if not isinstance(value, dict):
            return f"{place} is no {self!s:.200}: {value!r:.60}"
        if not value.keys() <= self.names:
            more = next(key for key in value if key not in self.names)
            return f"{place} has {more!r:.60}, which is no field of {self!s:.200}"
        for name, field in self.fields:
            found = field.problem(value.get(name), f"{place}.{name}")
            if found is not None:
                return found
        return None

    def _list_problem(self, value: Any, place: str) -> str | None:
        if not isinstance(value, list | tuple):
            return f"{place} is no {self!s:.200}: {value!r:.60}"
        if self.parameters and len(value) != int(self.parameters[0]):
            return f"{place} has {many(len(value), 'item')}, and {self!s:.200} has {self.parameters[0]}"
        item = self.fields[0][1]
        for number, one in enumerate(value):
            found = item.problem(one, f"{place}[{number}]")
            if found is not None:
                return found
        return None

    def _map_problem(self, value: Any, place: str) -> str | None:
        if not isinstance(value, list | tuple) or not all(
            isinstance(pair, list | tuple) and len(pair) == 2 for pair in value
        ):
            return f"{place} is no {self!s:.200}, which is a list of [key, value]: {value!r:.60}"
        (_, key), (_, item) = self.fields
        for number, (name, one) in enumerate(value):
            if name is None:
                return f"{place}[{number}][0] is None, and keys of maps are never null"
            found = key.problem(name, f"{place}[{number}][0]") or item.problem(one, f"{place}[{number}][1]")
            if found is not None:
                return found
        return None

    def _is_leaf(self, value: Any) -> bool:
        kind = self.kind
        if kind in _TEXTS:
            return isinstance(value, str)
        if kind in _INTEGERS or kind in _TIMES:
            bounds = _INTEGERS[_TIMES.get(kind, kind)]
            return (
                isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) in bounds
            )
        if kind in _FLOATS:
            if type(value) is int:
                return abs(value) < _FLOATS[kind] and int(np.dtype(kind).type(value)) == value
            return isinstance(value, float | np.floating) and _is_float(float(value), _FLOATS[kind])
        if kind == "bool":
            return isinstance(value, bool | np.bool_)
        if kind in _BYTES:
            size = int(self.parameters[0]) if self.parameters else None
            return isinstance(value, bytes) and size in (None, len(value))
        return kind in _DECIMALS and isinstance(value, str) and self._is_decimal(value)

    def _is_decimal(self, value: str) -> bool:
        found = _DECIMAL.fullmatch(value)
        precision, scale = map(int, self.parameters)
        return (
            found is not None
            and len(found[1] or "") == scale
            and len(value.lstrip("-").replace(".", "").lstrip("0")) <= precision
        )

    @property
    def _advice(self) -> str:
        if self.kind in _TIMES:
            return "; a time is the integer that Arrow has for it"
        return "; a decimal is text with as many digits behind the point" if self.kind in _DECIMALS else ""


def _is_float(value: float, limit: float) -> bool:
    return -limit < value < limit or not math.isfinite(value)


def _call(of_field: Callable[[Any], bool], value: Any) -> bool:
    return of_field(value)


_NULL: Final = Nested("null")


@lru_cache(256)
def nested_of(text: str) -> Nested:
    """The type that a text says; ValueError, with the place, where it says none.

    Nothing is evaluated, and memory and time are in proportion to the text, which has 64 KiB at most.
    """
    if len(text) > MAX_TEXT:
        raise ValueError(f"a nested type has {MAX_TEXT:,} characters at most, and this one {len(text):,}")
    reader = _Reader(text)
    found = reader.type(1)
    if reader.at != len(text):
        raise reader.wrong("an end")
    if found.kind not in ("struct", "map", *_LISTS):
        raise ValueError(f"{text!r:.80} is no struct, list or map")
    if str(found) != text:
        raise ValueError(f"it is written {str(found)!r:.200}")
    return found


def nested_of_shape(shape: ObjectShape | None, place: str) -> Nested:
    """The type that takes all values of a shape; ValueError says why there is none, with the place.

    Integers are int64, or uint64 where they need it, numbers of both kinds float64 where that is exact.
    """
    if shape is None:
        raise ValueError(f"{place} has too many different keys")
    found = _of_shape(shape, place, 1)
    if not _says_something(found):
        raise ValueError(f"{place} has no values but nulls, empty lists and objects of those")
    try:
        return nested_of(str(found))
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None


def _says_something(nested: Nested) -> bool:
    if nested.fields:
        return any(_says_something(field) for _, field in nested.fields)
    return nested.kind != "null"


def _of_shape(shape: ObjectShape, place: str, depth: int) -> Nested:
    if depth > MAX_DEPTH:
        raise ValueError(f"{place} is nested deeper than {MAX_DEPTH} levels")
    kinds = shape.kinds & ~ShapeKind.NULL
    if kinds == ShapeKind.MAP:
        if not shape.fields:
            raise ValueError(f"{place} is an object without keys wherever it is")
        return Nested(
            "struct",
            (),
            tuple((name, _of_shape(one, f"{place}.{name}", depth + 1)) for name, one in shape.fields),
        )
    if kinds == ShapeKind.LIST:
        item = Nested("null") if shape.items is None else _of_shape(shape.items, f"{place}[]", depth + 1)
        return Nested("list", (), (("item", item),))
    least, most = shape.integers
    if kinds == ShapeKind.INTEGER and (most < 1 << 63 or least >= 0):
        return Nested("int64" if most < 1 << 63 else "uint64")
    if (
        ShapeKind.REAL in kinds
        and kinds in ShapeKind.REAL | ShapeKind.INTEGER
        and max(-least, most) <= 1 << 53
    ):
        return Nested("float64")
    if kinds in _PLAIN_SHAPES:
        return Nested(_PLAIN_SHAPES[kinds])
    raise ValueError(f"{place} is {' and '.join(text for kind, text in _SHAPES.items() if kind & kinds)}")


def _quoted(name: str) -> str:
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        return name
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


class _Reader:
    """Reads a text by recursive descent, as deep as types may be nested."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def wrong(self, wanted: str) -> ValueError:
        return ValueError(
            f"expected {wanted} at character {self.at + 1}, got {self.text[self.at : self.at + 20]!r}"
        )

    def takes(self, mark: str) -> bool:
        if not self.text.startswith(mark, self.at):
            return False
        self.at += len(mark)
        return True

    def must(self, mark: str) -> None:
        if not self.takes(mark):
            raise self.wrong(repr(mark))

    def matched(self, pattern: re.Pattern[str], wanted: str) -> re.Match[str]:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise self.wrong(wanted)
        self.at = found.end()
        return found

    def type(self, depth: int) -> Nested:
        if depth > MAX_DEPTH:
            raise ValueError(f"a nested type is at most {MAX_DEPTH} levels deep")
        start = self.at
        kind = self.matched(_NAME, "a type")[0]
        parameters: tuple[str, ...] = ()
        fields: tuple[tuple[str, Nested], ...] = ()
        if kind == "struct":
            fields = self.struct(depth)
        elif kind == "map":
            self.must("<")
            key = self.type(depth + 1)
            if not key.nullable:
                raise ValueError("a key of a map is never null: 'not null' is left out there")
            self.must(", ")
            fields = (("key", key), ("value", self.type(depth + 1)))
            self.must(">")
        elif kind in _LISTS:
            self.must("<")
            fields = (("item", self.type(depth + 1)),)
            self.must(">")
            if kind == "fixed_size_list":
                parameters = (self.matched(_SIZE, "a size in brackets")[1],)
                self.check_size(parameters[0])
        elif kind in _PARAMETERS:
            given = self.matched(_PARAMETERS[kind], f"what stands behind {kind}")
            parameters = tuple(one for one in given.groups() if one is not None)
            if kind == "fixed_size_binary":
                self.check_size(parameters[0])
            if kind in _DECIMALS and not int(parameters[1]) <= int(parameters[0]) <= _DECIMALS[kind]:
                raise ValueError(f"{kind} has {_DECIMALS[kind]} digits at most, and no more behind the point")
        elif kind not in _PLAIN:
            self.at = start
            raise self.wrong("a type")
        return Nested(kind, parameters, fields, not self.takes(" not null"))

    def check_size(self, size: str) -> None:
        if int(size) > _MOST_SIZE:
            raise ValueError(f"a fixed size is {_MOST_SIZE:,} at most, got {size}")

    def struct(self, depth: int) -> tuple[tuple[str, Nested], ...]:
        self.must("<")
        fields: dict[str, Nested] = {}
        while not self.takes(">"):
            if fields:
                self.must(", ")
            found = self.matched(_FIELD, "the name of a field")
            name = found[1] if found[1] is not None else re.sub(r"\\(.)", r"\1", found[2], flags=re.DOTALL)
            if name in fields:
                raise ValueError(f"a struct has the field {name!r:.80} twice")
            self.must(": ")
            fields[name] = self.type(depth + 1)
        return tuple(fields.items())


# The same as Arrow has it: the type, and the values: objects hold times as integers, decimals as text, maps as pairs.


def nested_type(nested: Nested) -> pyarrow.DataType:
    """The Arrow type that a nested type says; times and decimals among them."""
    import pyarrow

    kind, parameters = nested.kind, nested.parameters
    fields = [pyarrow.field(name, nested_type(one), one.nullable) for name, one in nested.fields]
    if kind == "struct":
        return pyarrow.struct(fields)
    if kind == "map":
        return pyarrow.map_(fields[0].type, fields[1])
    if kind == "fixed_size_list":
        return pyarrow.list_(fields[0], int(parameters[0]))
    if kind in _LISTS:
        return getattr(pyarrow, {"list": "list_"}.get(kind, kind))(fields[0])
    if kind == "fixed_size_binary":
        return pyarrow.binary(int(parameters[0]))
    if kind in ("bool", "binary_view", "string_view"):
        return getattr(pyarrow, {"bool": "bool_"}.get(kind, kind))()
    given = [int(one) if one.isdigit() else one for one in parameters]
    return getattr(pyarrow, kind)(*given)


def stored_type(nested: Nested) -> pyarrow.DataType:
    """The Arrow type of what objects hold: integers in the place of times, and text in that of decimals."""
    return nested_type(nested.replaced({**_TIMES, **dict.fromkeys(_DECIMALS, "string")}))


def nested_from(kind: pyarrow.DataType, nullable: bool = True) -> Nested:
    """The nested type that says an Arrow type; of dictionaries and extensions it says what lies below."""
    import pyarrow

    types = pyarrow.types
    if isinstance(kind, pyarrow.BaseExtensionType):
        return nested_from(kind.storage_type, nullable)
    if types.is_dictionary(kind):
        return nested_from(kind.value_type, nullable)
    parameters: tuple[Any, ...] = ()
    fields = [kind.field(number) for number in range(kind.num_fields)]
    if types.is_struct(kind):
        name = "struct"
    elif types.is_map(kind):
        name, fields = (
            "map",
            [kind.key_field.with_nullable(True).with_name("key"), kind.item_field.with_name("value")],
        )
    elif types.is_fixed_size_list(kind):
        name, fields, parameters = "fixed_size_list", [kind.value_field.with_name("item")], (kind.list_size,)
    elif types.is_list(kind) or types.is_large_list(kind):
        name, fields = ("list" if types.is_list(kind) else "large_list"), [kind.value_field.with_name("item")]
    elif types.is_timestamp(kind):
        name, parameters = "timestamp", (kind.unit, *([] if kind.tz is None else [kind.tz]))
    elif types.is_time(kind) or types.is_duration(kind):
        name, parameters = str(kind).partition("[")[0], (kind.unit,)
    elif types.is_date(kind):
        name = str(kind).partition("[")[0]
    elif types.is_decimal(kind):
        name, parameters = str(kind).partition("(")[0], (kind.precision, kind.scale)
    elif types.is_fixed_size_binary(kind):
        name, parameters = "fixed_size_binary", (kind.byte_width,)
    else:
        name = {"halffloat": "float16", "float": "float32", "double": "float64"}.get(str(kind), str(kind))
    inner = tuple((field.name, nested_from(field.type, field.nullable)) for field in fields)
    return Nested(name, tuple(map(str, parameters)), inner, nullable)


def nested_array(name: str, nested: Nested, values: Sequence[Any], takes_none: bool) -> pyarrow.Array:
    """The objects of a column as an array of their type; SchemaError for one that is none of it."""
    import pyarrow

    kind = nested_type(nested)
    rebuilt = _rebuilder(nested)
    items = []
    for number, item in enumerate(values):
        problem = None if item is None and takes_none else nested.problem(item, name)
        if problem is not None:
            raise SchemaError(
                f"column {name!r}, value {number} of its batch: {problem}. Its logical type says {nested!s:.200}: "
                "correct the value, or write the column anew as an object without a logical type"
            )
        items.append(item if item is None or rebuilt is None else rebuilt(item))
    if nested.is_wide and sum(map(nested.elements, values)) > _MOST_ELEMENTS:
        raise SchemaError(
            f"column {name!r}: {many(len(values), 'value')} of {nested!s:.200} take more than {_MOST_ELEMENTS:,} "
            "elements, nulls of a fixed size included: take fewer at a time, as by to_batches(batch_size=1)"
        )
    try:
        found = pyarrow.array(items, nested_type(nested.replaced(_TIMES)))
        return found if found.type == kind else found.cast(kind)
    except pyarrow.ArrowException as error:
        raise SchemaError(f"column {name!r} cannot be given as {kind}: {error}") from None


def _rebuilder(nested: Nested) -> Callable[[Any], Any] | None:
    """What gives a value the form in which pyarrow takes maps and decimals; None where there are none of them."""
    if nested.kind in _DECIMALS:
        return Decimal
    inner = [_rebuilder(one) for _, one in nested.fields]
    if nested.kind != "map" and not any(inner):
        return None

    def each(one: Callable[[Any], Any] | None, value: Any) -> Any:
        return value if one is None or value is None else one(value)

    def rebuilt(value: Any) -> Any:
        if nested.kind == "struct":
            return {
                name: each(one, value.get(name)) for (name, _), one in zip(nested.fields, inner, strict=True)
            }
        if nested.kind == "map":
            return [(each(inner[0], key), each(inner[1], item)) for key, item in value]
        return [each(inner[0], item) for item in value]

    return rebuilt
