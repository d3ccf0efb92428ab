"""One form for a value whoever delivers it: equal forms are equal types, shapes and bits."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import numpy as np
import xxhash

Sample = dict[str, Any]


@cache
def _name(dtype: Any) -> str:
    """The name of a type of NumPy's, which takes it long to make."""
    return str(dtype.name)


def freeze(value: Any) -> Any:
    """The value as nested tuples; bfloat16 is the uint16 that holds its bits."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, np.generic):
        return (_name(value.dtype), value.tobytes())
    if isinstance(value, np.ndarray):
        return (_name(value.dtype), value.shape, value.tobytes())
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, float):
        return ("float", struct.pack("<d", value))
    if isinstance(value, (bool, int)):
        return (type(value).__name__, value)
    if isinstance(value, datetime):
        since = value - datetime(1970, 1, 1, tzinfo=UTC)
        return ("time", since // timedelta(seconds=1), since.microseconds * 1000)
    if hasattr(value, "nanoseconds"):
        return ("time", value.seconds, value.nanoseconds)
    if hasattr(value, "code"):
        return ("extension", value.code, value.data)
    if isinstance(value, Mapping):
        return ("dict", *((freeze(key), freeze(item)) for key, item in value.items()))
    if isinstance(value, (list, tuple)):
        return ("list", *map(freeze, value))
    raise TypeError(f"no loader should deliver a {type(value).__name__}: {value!r}")


def stored(value: Any) -> Any:
    """A frozen value as it is where times are the integers that are stored."""
    if isinstance(value, tuple) and value[0] == "datetime64[D]":
        return ("int32", value[1][:4])
    is_time = isinstance(value, tuple) and str(value[0]).startswith(("datetime64", "timedelta64"))
    return ("int64", *value[1:]) if is_time else value


def frozen(sample: Mapping[str, Any]) -> Sample:
    """A sample with its values frozen."""
    return {name: freeze(value) for name, value in sample.items()}


def digested(sample: Mapping[str, Any]) -> dict[str, np.int64]:
    """The transform of the harness: one number that depends on all of a sample, and that any loader can stack."""
    return {"digest": np.int64(xxhash.xxh3_64_intdigest(repr(frozen(sample)).encode()) >> 1)}
