"""Whether bytes are an object: csrc/object.c."""

from __future__ import annotations

from ..errors import CorruptionError
from .library import ffi, lib

_check = lib.ur_object_check  # looked up once: objects are small and many


def check_object(raw: bytes) -> None:
    """CorruptionError when ``raw`` is no msgpack by the rules of docs/format.md; strings may be any bytes."""
    if _check(raw, len(raw), ffi.NULL) == lib.UR_OK:
        return
    error = ffi.new("ur_error *")
    status = _check(raw, len(raw), error)
    what = ffi.string(error.what).decode()
    raise MemoryError(what) if status == lib.UR_NO_MEMORY else CorruptionError(what)
