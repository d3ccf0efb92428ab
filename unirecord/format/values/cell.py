"""One value to the bytes of its cell and back: a function per column, made once, that refuses what does not fit."""

from __future__ import annotations

import math
import operator
import reprlib
import struct
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import numpy as np

from ...errors import CorruptionError, SchemaError, did_you_mean
from ...sizes import many
from ..column import Column
from .objects import PackedObject, pack_object, unpack_object
from .tensors import array_of

__all__ = [
    "Encode",
    "MAX_STRING_BYTES",
    "NAT",
    "PER_SECOND",
    "Refused",
    "UNITS",
    "array_in_cell",
    "array_view",
    "counted",
    "decode_cell",
    "encoder_for",
    "expected",
    "flat_bytes",
    "free_dims_suffix",
    "is_missing",
    "is_time",
    "nullable_encoder",
    "refusal",
    "scalar_format",
    "shown",
    "time_unit",
]


# numpy's datetime64 and timedelta64 as whole numbers of a unit, since 1970-01-01 for points in time; NaT is null.


NAT: Final = -(1 << 63)
UNITS: Final = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds", "D": "days"}


def is_time(values: Any) -> bool:
    """Whether it is an array or scalar of datetime64 or timedelta64."""
    return isinstance(values, np.ndarray | np.generic) and values.dtype.kind in "mM"


def time_unit(column: Column, values: Any) -> str | None:
    """The unit in which a scalar column holds such values of numpy's; None where it holds none."""
    if column.shape is not None or column.type not in ("int32", "int64"):
        return None
    said = column.known_logical
    if said is None:
        return "ns" if column.type == "int64" else None
    if values.dtype.kind == "M":
        return "D" if said["type"] == "date" else said["unit"] if said["type"] == "timestamp" else None
    return said["unit"] if said["type"] == "duration" else None


def counted(values: np.ndarray[Any, Any], unit: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return int64 of a unit (`NAT` for NaT), and bool: which of them say exactly what ``values`` do."""
    kind = f"{'datetime64' if values.dtype.kind == 'M' else 'timedelta64'}[{unit}]"
    with np.errstate(over="ignore"):
        try:
            converted = values.astype(kind)
        except OverflowError:  # newer numpy refuses where older ones wrap
            return np.zeros(values.shape, np.int64), np.zeros(values.shape, np.bool_)
        exact = (converted.astype(values.dtype) == values) & ~np.isnat(converted) | np.isnat(values)
    return converted.view(np.int64) if converted.ndim else converted.astype(np.int64), exact


# One value to the bytes of its cell: a function per column, made once, that refuses what does not fit.


Encode = Callable[[Any], bytes]
Array = np.ndarray[Any, Any]

_FORMATS: Final = {
    "int8": "b", "int16": "h", "int32": "i", "int64": "q",
    "uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q",
    "float16": "e", "float32": "f", "float64": "d",
}  # fmt: skip
MAX_STRING_BYTES: Final = (1 << 32) - 1


class Refused(Exception):
    """A value does not fit its column; the text says what came and what to do, not where."""


def encoder_for(column: Column) -> Encode:
    """Return the function that turns a non-null value of this column into its bytes, or raises `Refused`."""
    if column.shape is not None:
        return _array_encoder(column, column.shape)
    if column.type == "bool":
        return _encode_bool
    if column.type in _FORMATS:
        maker = _float_encoder if column.type.startswith("float") else _int_encoder
        return maker(column, struct.Struct("<" + _FORMATS[column.type]))
    if column.type == "object":
        return _object_encoder(column)
    return {"string": _encode_string, "text": _encode_text, "bytes": _encode_bytes}[column.type]


def scalar_format(column: Column) -> str | None:
    """Return the struct letter of an integer or float column."""
    return None if column.is_blob else _FORMATS.get(column.type)


def expected(column: Column) -> str:
    """Return what a value of the column is, for a message."""
    what = column.type
    if column.shape is not None:
        dims = ", ".join("any" if d == -1 else str(d) for d in column.shape)
        what = f"{column.type} array of shape [{dims}]"
    if column.known_logical is not None and column.known_logical["type"] in _MEANT:
        what = f"{column.known_logical['type']} as {what}"
    return f"{what} or None" if column.nullable else what


def is_missing(value: object) -> bool:
    """Whether a value means "no value": None, NaN, pandas' NA, NaT. NaN does so only where a column holds no floats."""
    if value is None:
        return True
    if isinstance(value, float | np.floating):
        return bool(value != value)
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    kind = type(value)
    return kind.__name__ in ("NAType", "NaTType") and kind.__module__.partition(".")[0] == "pandas"


def nullable_encoder(column: Column, encode: Encode) -> Callable[[Any], bytes | None]:
    """Return the column's encoder with None for what is missing, when it is nullable."""
    if not column.nullable:
        return encode

    def encode_or_null(value: Any) -> bytes | None:
        if value is None:
            return None
        try:
            return encode(value)
        except Refused:
            if is_missing(value):
                return None
            raise

    return encode_or_null


def refusal(column: Column, refused: Refused, value: object) -> str:
    """Return what the column expected, what came, and what to do about a missing value."""
    text = f"expected {expected(column)}, {refused}"
    if column.nullable or not is_missing(value):
        return text
    return f'{text}; the type "{column}?" takes it as null'


def shown(value: object) -> str:
    """Return the value for a message: its type and a short form of it."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} array of shape {list(value.shape)}"
    if value is None:
        return "None"
    kind = type(value)
    name = f"numpy.{kind.__name__}" if isinstance(value, np.generic) else kind.__name__
    return f"{name} {reprlib.repr(value.item() if isinstance(value, np.generic) else value)}"


def _unwrapped(value: Any) -> Any:
    """Return the scalar inside a 0-dimensional array (numpy, torch, …), else the value."""
    if (
        getattr(value, "shape", None) == ()
        and not isinstance(value, np.generic)
        and hasattr(value, "__array__")
    ):
        array, name = _foreign_array(value)
        if name != array.dtype.name:
            raise Refused(f"got one {name} number, which no column holds; make it a float32")
        return array[()]
    return value


def _foreign_array(value: Any) -> tuple[Array, str]:
    try:
        return array_of(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise Refused(f"got {type(value).__name__} that numpy cannot read ({error})") from None


def _encode_bool(value: Any) -> bytes:
    if value is True:
        return b"\1"
    if value is False:
        return b"\0"
    value = _unwrapped(value)
    if not isinstance(value, np.bool_):
        raise Refused(f"got {shown(value)}; pass True or False")
    return b"\1" if value else b"\0"


def _int_encoder(column: Column, packer: struct.Struct) -> Encode:
    pack, meant = packer.pack, meant_number(column)
    assert column.dtype is not None
    limits = np.iinfo(column.dtype.name)

    def encode(value: Any) -> bytes:
        if type(value) is not int:
            value = meant(_unwrapped(value))
            if isinstance(value, bool | np.bool_ | float | str | bytes) or not hasattr(value, "__index__"):
                raise Refused(f"got {shown(value)}")
            try:
                value = operator.index(value)
            except TypeError:  # an array of several
                raise Refused(f"got {shown(value)}") from None
        try:
            return pack(value)
        except struct.error:
            raise Refused(f"got {value}, out of range ({limits.min} to {limits.max})") from None

    return encode


def _float_encoder(column: Column, packer: struct.Struct) -> Encode:
    pack, unpack, dtype = packer.pack, packer.unpack, column.dtype

    def encode(value: Any) -> bytes:
        if type(value) is not float:
            value = _unwrapped(value)
            if isinstance(value, np.generic) and value.dtype == dtype:
                return value.tobytes()  # bit-exact: a conversion would make a signalling NaN quiet
            if isinstance(value, int | np.integer) and not isinstance(value, bool):
                return from_int(int(value))
            if not isinstance(value, float | np.floating):
                raise Refused(f"got {shown(value)}")
            value = float(value)
        try:
            return pack(value)
        except OverflowError:
            raise Refused(f"got {value!r}, which is finite but too large for {column.type}") from None

    def from_int(value: int) -> bytes:
        try:
            packed = pack(value)
        except (OverflowError, struct.error):
            packed = b""
        if not packed or unpack(packed)[0] != value:
            raise Refused(
                f"got int {value}, which {column.type} cannot hold exactly; pass float(value) to round it"
            )
        return packed

    return encode


def _encode_text(value: Any) -> bytes:
    if not isinstance(value, str):
        if isinstance(value, UUID):
            return str(value).encode()
        raise Refused(f"got {shown(value)}" + ("; decode it to str" if isinstance(value, bytes) else ""))
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise Refused(
            f"got text with a lone surrogate at {error.start}, which is not valid Unicode"
        ) from None


def _encode_string(value: Any) -> bytes:
    encoded = _encode_text(value)
    if len(encoded) > MAX_STRING_BYTES:
        raise Refused(
            f'got a string of {many(len(encoded), "byte")}; strings hold less than 4 GiB, use the type "text"'
        )
    return encoded


def flat_bytes(value: Any) -> bytes | memoryview:
    """Return a bytes-like value as bytes or as a flat view of its memory; `Refused` for anything else."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, np.ndarray):
        if value.dtype != np.uint8 or value.ndim != 1:
            raise Refused(f"got {shown(value)}; pass value.tobytes(), or make it an array column")
        return np.ascontiguousarray(value).data
    try:
        view = memoryview(value)
    except TypeError:
        advice = "; encode it, e.g. value.encode()" if isinstance(value, str) else ""
        raise Refused(f"got {shown(value)}{advice}") from None
    if view.format not in ("B", "b", "c") or view.ndim != 1:
        raise Refused(f"got {shown(value)}, whose items are not single bytes")
    return view.cast("B") if view.c_contiguous else view.tobytes()


def _encode_bytes(value: Any) -> bytes:
    # Copied: the caller may change a bytearray or array after write() has returned.
    return value if type(value) is bytes else bytes(flat_bytes(value))


def _object_encoder(column: Column) -> Encode:
    name, nested = column.name, column.nested

    def encode(value: Any) -> bytes:
        if type(value) is PackedObject:
            if nested is None or value.of == nested:
                return value.packed
            value = unpack_object(value.packed)
        problem = None if nested is None else nested.problem(value, name)
        if problem is not None:
            raise Refused(problem)
        try:
            return pack_object(value, name)
        except SchemaError as error:
            raise Refused(str(error)) from None

    return encode


def array_view(column: Column, value: Any) -> Array:
    """Return an array-like (not a list) in the column's dtype and byte order; `Refused` if it has another."""
    array, name = _read_array(column, value)
    if isinstance(array, np.ma.MaskedArray):
        if np.ma.is_masked(array):
            raise Refused(f"got a masked {shown(array)}; fill it first")
        array = np.asarray(array)
    if name == "bfloat16" != column.type:
        raise Refused(f"got a bfloat16 array of shape {list(array.shape)}; convert it to {column.type} first")
    if array.dtype == column.dtype:
        return array
    if array.dtype.newbyteorder("<") == column.dtype:
        return array.astype(column.dtype)
    raise Refused(f"got {shown(array)}; convert it with value.astype({_numpy_name(column)!r})")


def _read_array(column: Column, value: Any) -> tuple[Array, str]:
    if isinstance(value, np.generic) or not hasattr(value, "__array__"):
        listed = isinstance(value, list | tuple)
        advice = f"; pass np.asarray(value, {_numpy_name(column)!r})" if listed else ""
        raise Refused(f"got {shown(value)}{advice}")
    return _foreign_array(value)


def _numpy_name(column: Column) -> str:
    return "uint16" if column.type == "bfloat16" else column.type


def free_dims_suffix(shape: tuple[int, ...], actual: tuple[int, ...]) -> bytes:
    """Return what follows an array with several free dimensions, else nothing; `Refused` when it misfits."""
    if len(actual) != len(shape) or any(d not in (-1, a) for d, a in zip(shape, actual, strict=True)):
        raise Refused(f"got an array of shape {list(actual)}")
    free = [a for d, a in zip(shape, actual, strict=True) if d == -1]
    return struct.pack(f"<{len(free)}Q", *free) if len(free) > 1 else b""


def _array_encoder(column: Column, shape: tuple[int, ...]) -> Encode:
    dtype = column.dtype
    meant = (column.known_logical or {}).get("type")
    if meant == "decimal":
        return _wide_decimal_encoder(column)

    def encode_uuid(value: Any) -> bytes:
        return value.bytes if isinstance(value, UUID) else encode_fixed(value)

    def encode_fixed(value: Any) -> bytes:
        if type(value) is not np.ndarray or value.dtype is not dtype:
            value = array_view(column, value)
        if value.shape != shape:
            raise Refused(f"got an array of shape {list(value.shape)}")
        data: bytes = value.tobytes()
        return data

    def encode_free(value: Any) -> bytes:
        value = array_view(column, value)
        suffix = free_dims_suffix(shape, value.shape)
        data: bytes = value.tobytes()
        return data + suffix if suffix else data

    return encode_uuid if meant == "uuid" else encode_free if -1 in shape else encode_fixed


# What logical types stand for, as Python and numpy have it, to the number that is stored.


PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_EPOCH: Final = datetime(1970, 1, 1)
_MOST_SHIFT: Final = 100  # places by which a decimal's digits are moved; more are too many anyway


def meant_number(column: Column) -> Callable[[Any], Any]:
    """Return what makes the number of a ``datetime``, ``Decimal``, name of a class, …, and leaves all else as it is.

    `Refused` for one of these that the column's logical type is not of, or that it does not hold exactly.
    """
    said = column.known_logical or {}
    kind: str | None = said.get("type")
    of_kind = _MEANT[kind](said) if kind in _MEANT else None

    if of_kind is None:
        times = (np.datetime64, np.timedelta64)
        return lambda value: _numpy_number(column, value) if isinstance(value, times) else value

    def number(value: Any) -> Any:
        if hasattr(value, "asm8"):  # of pandas, which is one of Python's, too, but counts nanoseconds
            _check_zone(value, said)
            value = value.asm8
        if isinstance(value, np.datetime64 | np.timedelta64):
            return _numpy_number(column, value)
        found = of_kind(value)
        return value if found is None else found

    return number


def _numpy_number(column: Column, value: Any) -> int:
    unit = time_unit(column, value)
    if unit is None or np.isnat(value):
        raise Refused(
            f"got {value.dtype} {value}; a column of times, or an int64 column takes it, as nanoseconds since 1970"
        )
    (number,), (exact,) = counted(np.array([value]), unit)
    if not exact:
        raise Refused(f"got {value.dtype} {value}, which is no whole number of {UNITS[unit]} of 64 bits")
    return int(number)


def _check_zone(value: Any, said: Mapping[str, Any]) -> None:
    """Refuse a point in time where the clock on a wall is stored, and the other way round."""
    zoned = getattr(value, "tzinfo", None) is not None
    if said.get("type") == "timestamp" and isinstance(value, datetime) and zoned != ("zone" in said):
        has = "has none" if zoned else f"is in {said['zone']}"
        raise Refused(f"got {shown(value)} with{'' if zoned else 'out'} a time zone, and the column {has}")


def _whole(value: Any, microseconds: int, unit: str) -> int:
    number, rest = divmod(microseconds * PER_SECOND[unit], 1_000_000)
    if rest:
        raise Refused(f"got {shown(value)}, which is no whole number of {UNITS[unit]}")
    return number


def _span(value: timedelta) -> int:
    """Microseconds."""
    return (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds


def _timestamps(said: Mapping[str, Any]) -> Callable[[Any], int | None]:
    unit = said["unit"]

    def number(value: Any) -> int | None:
        if not isinstance(value, datetime):
            return None
        _check_zone(value, said)
        since = value.replace(tzinfo=None) - (value.utcoffset() or timedelta()) - _EPOCH
        return _whole(value, _span(since), unit)

    return number


def _dates(said: Mapping[str, Any]) -> Callable[[Any], int | None]:
    def number(value: Any) -> int | None:
        is_day = isinstance(value, date) and not isinstance(value, datetime)
        return value.toordinal() - _EPOCH.toordinal() if is_day else None

    return number


def _clock_times(said: Mapping[str, Any]) -> Callable[[Any], int | None]:
    unit = said["unit"]

    def number(value: Any) -> int | None:
        if not isinstance(value, time) or value.tzinfo is not None:
            return None
        seconds = value.hour * 3_600 + value.minute * 60 + value.second
        return _whole(value, seconds * 1_000_000 + value.microsecond, unit)

    return number


def _durations(said: Mapping[str, Any]) -> Callable[[Any], int | None]:
    unit = said["unit"]
    return lambda value: _whole(value, _span(value), unit) if isinstance(value, timedelta) else None


def _decimals(said: Mapping[str, Any]) -> Callable[[Any], int | None]:
    precision, scale = said["precision"], said["scale"]

    def number(value: Any) -> int | None:
        if not isinstance(value, Decimal):
            return None
        sign, digits, exponent = value.as_tuple()
        if not isinstance(exponent, int):
            raise Refused(f"got {shown(value)}, which is no number")
        shift = exponent + scale
        if any(digits) and (abs(shift) > _MOST_SHIFT or len(digits) > _MOST_SHIFT):
            raise Refused(f"got {shown(value)}, which has more digits than {precision}")
        found = int("".join(map(str, digits[:_MOST_SHIFT])))
        if found and shift >= 0:
            found *= 10**shift
        elif found:
            found, rest = divmod(found, 10**-shift)
            if rest:
                raise Refused(f"got {shown(value)}, which has more than {scale} digits behind the point")
        if found >= 10**precision:
            raise Refused(
                f"got {shown(value)}, which has more than {precision - scale} digits before the point"
            )
        return -found if sign else found

    return number


def _classes(said: Mapping[str, Any]) -> Callable[[Any], int | None]:
    numbers = {name: number for number, name in enumerate(said["names"])}

    def number(value: Any) -> int | None:
        if isinstance(value, str) and value not in numbers:
            raise Refused(f"got {shown(value)}, which is no class{did_you_mean(value, numbers)}")
        return numbers[value] if isinstance(value, str) else None

    return number


_MEANT: Final[dict[str | None, Callable[[Mapping[str, Any]], Callable[[Any], int | None]]]] = {
    "timestamp": _timestamps,
    "date": _dates,
    "time": _clock_times,
    "duration": _durations,
    "decimal": _decimals,
    "class": _classes,
}


def _wide_decimal_encoder(column: Column) -> Encode:
    """Of two words: the array of them is taken, too."""
    assert column.known_logical is not None
    number_of = _decimals(column.known_logical)

    def encode(value: Any) -> bytes:
        found = number_of(value)
        if found is not None:
            return found.to_bytes(16, "little", signed=True)
        words = array_view(column, value)
        if words.shape != column.shape:
            raise Refused(f"got an array of shape {list(words.shape)}")
        data: bytes = words.tobytes()
        return data

    return encode


# Bytes of one blob cell back to the value that was written.


def decode_cell(column: Column, data: bytes | memoryview) -> Any:
    """Return the value of a blob cell: bytes, str, an array with memory of its own, or the object.

    Raises `CorruptionError` when the bytes cannot be a value of the column; the caller adds the place.
    """
    if column.shape is not None:
        return array_in_cell(column, memoryview(data)).copy()
    if column.type == "bytes":
        return bytes(data)
    if column.type == "text":
        try:
            return str(data, "utf-8")
        except UnicodeDecodeError as error:
            raise CorruptionError(f"the text is not valid UTF-8 at byte {error.start}") from None
    return unpack_object(data)


def array_in_cell(column: Column, data: memoryview) -> np.ndarray[Any, Any]:
    """The array that a cell holds, as a view of it (docs/spec/format.md, "Blob page"); raises like `decode_cell`."""
    shape, dtype = column.shape, column.dtype
    assert shape is not None
    assert dtype is not None
    if column.free_dims:
        shape = _actual_shape(shape, dtype.itemsize, data)
        data = data[: math.prod(shape) * dtype.itemsize]
    elif len(data) != column.fixed_bytes:
        raise CorruptionError(f"{column} takes {many(column.fixed_bytes, 'byte')}, found {len(data):,}")
    try:
        if not len(data):
            return np.empty(shape, dtype)
        return np.frombuffer(data, dtype).reshape(shape)
    except ValueError as error:  # dimensions beyond what numpy can address
        raise CorruptionError(f"the shape {list(shape)} is impossible ({error})") from None


def _actual_shape(shape: tuple[int, ...], itemsize: int, data: memoryview) -> tuple[int, ...]:
    """Return the shape with its free dimensions: from the length if one is free, else from the cell's end."""
    free = shape.count(-1)
    fixed_bytes = itemsize * math.prod(d for d in shape if d != -1)
    if free == 1:
        count, rest = divmod(len(data), fixed_bytes)
        if rest:
            raise CorruptionError(
                f"{many(len(data), 'byte', 'are')} no whole number of {fixed_bytes:,}-byte entries"
            )
        return tuple(count if d == -1 else d for d in shape)
    suffix = 8 * free
    if len(data) < suffix:
        raise CorruptionError(
            f"the cell has {many(len(data), 'byte')}, its {free} free dimensions alone take {suffix}"
        )
    dims = struct.unpack(f"<{free}Q", data[len(data) - suffix :])
    if fixed_bytes * math.prod(dims) != len(data) - suffix:
        raise CorruptionError(
            f"the stored dimensions {list(dims)} do not match the cell's {many(len(data), 'byte')}"
        )
    left = iter(dims)
    return tuple(next(left) if d == -1 else d for d in shape)
