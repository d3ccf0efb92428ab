"""Many buffers to the end of a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from .library import buffer_of, ffi, lib


def append(fd: int, buffers: Sequence[Any]) -> int:
    """Write the buffers where the file stands, and return how many bytes it took; others run meanwhile.

    Fewer than all when a call took fewer, or failed after others had not; the first one's failure is an OSError.
    """
    pieces = [ffi.from_buffer(buffer_of(buffer)) for buffer in buffers]
    written = ffi.new("uint64_t *")
    lengths = ffi.new("uint64_t[]", list(map(len, pieces)))
    code = lib.ur_append(fd, ffi.new("void *[]", pieces), lengths, len(pieces), written)
    if code:
        raise OSError(code, os.strerror(code))
    return int(written[0])
