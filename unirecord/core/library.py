"""The C core's functions, and its errors as exceptions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NoReturn

import numpy as np

from .._core import ffi as ffi
from .._core import lib as lib
from .failure import Failure, raise_failure
from .interpreter import check_interpreter, has_gil

check_interpreter()
if not has_gil():
    # cffi makes each function when it is first asked for, under a mutex of its own: a child of a fork meanwhile would
    # wait for it for ever.
    for _name in dir(lib):
        getattr(lib, _name)

_NOWHERE: Final = 2**64 - 1


def buffer_of(data: Any) -> Any:
    """The same bytes for `ffi.from_buffer`, of an array in place of a memoryview.

    A memoryview and what looks into it may come into one reference cycle, as locals of a frame that an exception has
    ended. The collector clears the memoryview first where it finds it first, and CPython then ends the process when
    the other lets it go. An array is nothing that the collector clears.
    """
    return np.frombuffer(data, np.uint8) if isinstance(data, memoryview) else data


def failure_of(error: Any) -> Failure:
    """What a filled ur_error says."""
    return Failure(
        error.status,
        error.reason,
        error.os_errno,
        error.file == lib.UR_FILE_INDEX,
        None if error.part < 0 else error.part,
        None if error.row < 0 else error.row,
        None if error.column < 0 else error.column,
        None if error.offset == _NOWHERE else error.offset,
        ffi.string(error.what).decode("utf-8", "replace"),
    )


def raise_for(error: Any, paths: Sequence[str], names: Sequence[str] = ()) -> NoReturn:
    """Raises what a filled ur_error says of one of ``paths`` (data files by number of the part)."""
    raise_failure(failure_of(error), paths, names)
