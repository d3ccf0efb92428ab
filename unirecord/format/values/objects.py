"""Objects (nested dicts and lists) to msgpack and back and to JSON; an unsupported value is named by its place."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgpack
import numpy as np

from ...core import check_object, is_canonical
from ...errors import CorruptionError, SchemaError

if TYPE_CHECKING:
    from ..nested import Nested

__all__ = [
    "Extension",
    "MAX_DEPTH",
    "PackedObject",
    "base64_text",
    "json_object",
    "object_text",
    "pack_object",
    "unpack_canonical",
    "unpack_object",
]


# Values that Python has no type for.


@dataclass(frozen=True, slots=True)
class Extension:
    """A value in an object that msgpack calls an extension, and that UniRecord gives no meaning: kept as it is.

    Attributes:
        code: its type, from -128 to 127 but for -1, which is that of a time.
        data: its bytes.

    Raises ValueError for another code, and TypeError for what is no bytes.
    """

    code: int
    data: bytes

    def __post_init__(self) -> None:
        """Refuse what msgpack cannot hold."""
        if type(self.code) is not int or not -128 <= self.code <= 127 or self.code == _TIMESTAMP:
            raise ValueError(
                f"code is {self.code!r}; expected a number from -128 to 127, and not -1, a time's"
            )
        if type(self.data) is not bytes:
            raise TypeError(f"data is {type(self.data).__name__}; expected bytes")


_TIMESTAMP: Final = -1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_YEARS: Final = range(-62_135_596_800, 253_402_300_800)  # 1 to 9999: seconds that a datetime holds
_SECOND: Final = 1_000_000_000


def _timestamp_of(time: datetime) -> msgpack.Timestamp:
    """The point in time, with the nanoseconds that times of pandas have."""
    since = time - _EPOCH
    nanoseconds = since.microseconds * 1000 + getattr(since, "nanoseconds", 0)
    return msgpack.Timestamp(since.days * 86_400 + since.seconds, nanoseconds)


def _time_of(stamp: msgpack.Timestamp) -> datetime | msgpack.Timestamp:
    """As a datetime, of which nothing gets lost; the timestamp itself where that holds more."""
    if stamp.nanoseconds % 1000 or stamp.seconds not in _YEARS:
        return stamp
    return _EPOCH + timedelta(seconds=stamp.seconds, microseconds=stamp.nanoseconds // 1000)


def _with_times(value: Any) -> Any:
    """The value, in which timestamps have become datetimes."""
    if isinstance(value, msgpack.Timestamp):
        return _time_of(value)
    if isinstance(value, list):
        value[:] = map(_with_times, value)
    elif isinstance(value, dict):
        for key, item in value.items():
            value[key] = _with_times(item)
    return value


def _time_text(time: datetime | msgpack.Timestamp) -> str:
    """A time as ISO 8601 has it, in UTC."""
    if isinstance(time, datetime):
        return time.isoformat()
    return f"{np.datetime64(time.seconds, 's')}.{time.nanoseconds:09d}+00:00"


# Objects (nested dicts and lists) to msgpack and back; an unsupported value is named by its place.


class PackedObject:
    """An object that a source gives as the msgpack that `pack_object` makes of it.

    ``of`` is the nested type that the source has found it to be of.
    """

    __slots__ = ("of", "packed")

    def __init__(self, packed: bytes, of: Nested | None = None) -> None:
        self.packed, self.of = packed, of


MAX_DEPTH: Final = 64
_PLAIN: Final = frozenset((type(None), bool, float, bytes))
_INT_MIN: Final = -(1 << 63)
_INT_MAX: Final = (1 << 64) - 1


def pack_object(value: object, place: str = "object", level: int = 1) -> bytes:
    """Return ``value`` as msgpack, to stand at this level of nesting.

    Allowed are None, bool, int of 64 bits, float, str, bytes, datetime with a time zone, `Extension`, list, tuple
    (comes back as list) and dict with str, int or bytes keys, nested up to 64 deep; numpy scalars are stored as the
    Python value. Raises `SchemaError` that names the place, such as ``meta.boxes[3]``.
    """
    _check(value, place, level)
    packed = msgpack.packb(value, use_bin_type=True, default=_packable)
    assert isinstance(packed, bytes)
    return packed


def unpack_object(data: bytes | memoryview) -> Any:
    """Return the object that msgpack ``data`` holds; `CorruptionError` when it breaks the rules of docs/spec/format.md.

    The rules: one value, strings of UTF-8, timestamps in the forms of msgpack, no key twice in a map, nested up to 64
    deep. Memory and time are in proportion to the length of ``data``, whatever counts it claims. Timestamps come as
    datetimes in UTC, as `msgpack.Timestamp` where those cannot hold them; other extensions come as `Extension`.
    """
    raw = bytes(data)
    check_object(raw)
    try:
        value = msgpack.unpackb(raw, raw=False, strict_map_key=False, ext_hook=Extension)
    except UnicodeDecodeError as error:
        raise CorruptionError(f"the object holds a string that is not UTF-8 ({error.reason})") from None
    return _with_times(value) if b"\xff" in raw else value  # the type of a timestamp


def unpack_canonical(data: bytes | memoryview) -> Any:
    """The same, and `CorruptionError` where another encoding says the same in fewer bytes, or a float has 32 bits."""
    raw = bytes(data)
    value = unpack_object(raw)
    if not is_canonical(raw):
        raise CorruptionError(
            "it is not in its one form, with heads as short as they can be and floats of 64 bits"
        )
    return value


def _packable(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, datetime):
        return _timestamp_of(value)
    if isinstance(value, Extension):  # past the check of msgpack's own class, which knows codes from 0
        return tuple.__new__(msgpack.ExtType, (value.code, value.data))
    raise TypeError(f"{type(value).__name__} is not supported")  # _check has refused all others


def _check(value: object, place: str, depth: int) -> None:
    kind = type(value)
    if kind in _PLAIN:
        return
    if isinstance(value, str):
        _check_text(value, place)
    elif isinstance(value, int | np.integer):
        if not _INT_MIN <= int(value) <= _INT_MAX:
            raise SchemaError(f"{place}: {value} does not fit 64 bits; store it as a string")
    elif isinstance(value, dict | list) or kind is tuple:
        if depth > MAX_DEPTH:
            raise SchemaError(f"{place}: nested more than {MAX_DEPTH} deep")
        _check_items(value, place, depth)
    elif isinstance(value, datetime):
        if value.utcoffset() is None:
            raise SchemaError(
                f"{place}: a datetime without a time zone is no point in time; give it one, such as "
                "value.replace(tzinfo=datetime.timezone.utc), or store value.isoformat()"
            )
    elif not isinstance(
        value, float | bytes | np.bool_ | np.float16 | np.float32 | Extension | msgpack.Timestamp
    ):
        raise SchemaError(f"{place}: {_kind_name(value)} is not supported{_advice(value)}")


def _check_items(value: Any, place: str, depth: int) -> None:
    if not isinstance(value, dict):
        for i, item in enumerate(value):
            if type(item) not in _PLAIN:
                _check(item, f"{place}[{i}]", depth + 1)
        return
    for key, item in value.items():
        if isinstance(key, bool) or not isinstance(key, str | int | bytes):
            raise SchemaError(f"{place}: a key is a str, int or bytes, got {_kind_name(key)} {key!r}")
        _check(key, f"{place} key {key!r}", depth)
        if type(item) not in _PLAIN:
            _check(item, f"{place}.{key}" if isinstance(key, str) else f"{place}[{key!r}]", depth + 1)


def _check_text(value: str, place: str) -> None:
    if value.isascii():
        return
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise SchemaError(
            f"{place}: the text has a lone surrogate at {error.start}, not valid Unicode"
        ) from None


def _kind_name(value: object) -> str:
    kind = type(value)
    return (
        kind.__name__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__name__}"
    )


def _advice(value: object) -> str:
    if isinstance(value, np.ndarray):
        return "; give it a column of its own, or store value.tolist()"
    if isinstance(value, set | frozenset):
        return "; store a list"
    if hasattr(value, "isoformat"):
        return "; store value.isoformat()"
    return "; an object holds None, bool, int, float, str, bytes, datetime, list and dict"


# Objects as JSON can hold them, with no key lost and no number that JSON does not have.


def json_object(value: Any, of_bytes: Callable[[bytes], Any]) -> Any:
    """The object with bytes as ``of_bytes`` shows them, times in ISO 8601, and NaN and infinities as strings.

    An extension is ``{"extension": its code, "data": its bytes}``.
    A map whose keys are all strings stays one; any other becomes a list of [key, value], so that 1 and "1" stay two.
    """
    if isinstance(value, dict):
        items = [(key, json_object(item, of_bytes)) for key, item in value.items()]
        if all(type(key) is str for key in value):
            return dict(items)
        return [[key.hex() if isinstance(key, bytes) else key, item] for key, item in items]
    if isinstance(value, list):
        return [json_object(item, of_bytes) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, datetime | msgpack.Timestamp):
        return _time_text(value)
    if isinstance(value, Extension):
        return {"extension": value.code, "data": of_bytes(value.data)}
    return of_bytes(value) if isinstance(value, bytes) else value


def object_text(value: Any, of_bytes: Callable[[bytes], Any]) -> str:
    """The same as JSON text."""
    return json.dumps(json_object(value, of_bytes), ensure_ascii=False)


def base64_text(value: bytes) -> str:
    """Bytes as base64 (RFC 4648)."""
    return base64.b64encode(value).decode()
