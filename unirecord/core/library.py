"""The C core through cffi: its library, what its failures raise, and handles that are given up once."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from shlex import quote
from types import MappingProxyType
from typing import Any, Final, NoReturn

import numpy as np

from .._core import ffi as ffi
from .._core import lib as lib
from ..errors import (
    ClosedError,
    ColumnError,
    CorruptionError,
    FormatError,
    MissingError,
    SchemaError,
    StaleError,
    UniRecordError,
)

# What the interpreter is: one of several is refused, and whether threads of Python take turns is asked.


def check_interpreter() -> None:
    """UniRecordError in any but the main one: what is alive in another when the process ends keeps it from ending."""
    try:
        own, main = (
            ctypes.PYFUNCTYPE(ctypes.c_void_p)((name, ctypes.pythonapi))
            for name in ("PyInterpreterState_Get", "PyInterpreterState_Main")
        )
    except AttributeError:  # another Python than CPython
        return
    if own() != main():
        raise UniRecordError(
            "UniRecord works in the main interpreter of a process, and this is a subinterpreter, which NumPy does not "
            "support either: use threads or processes (with mod_wsgi: WSGIApplicationGroup %{GLOBAL})"
        )


def has_gil() -> bool:
    """Whether Python's lock is there, and has not been switched off."""
    held: bool = getattr(sys, "_is_gil_enabled", lambda: True)()
    return held


# Failures of the C core as exceptions: which file, row, column and offset, what was found, and what to do about it.


@dataclass(frozen=True)
class Failure:
    """A ur_error as plain values; None where a place does not apply."""

    status: int  # ur_status of csrc/unirecord.h
    reason: int  # ur_reason
    errno: int
    in_index: bool
    part: int | None
    row: int | None
    column: int | None
    offset: int | None
    what: str


def raise_failure(failure: Failure, paths: Sequence[str], names: Sequence[str] = ()) -> NoReturn:
    """Raises the exception of a failed call, with file, row, column, offset and what to do."""
    status, what = failure.status, failure.what
    if status == lib.UR_CLOSED:
        raise ClosedError("the dataset has been closed")
    if status == lib.UR_NO_MEMORY:
        raise MemoryError(what)
    if failure.reason == lib.UR_REASON_ROW:
        raise IndexError(what)
    data = paths[failure.part] if failure.part is not None and failure.part < len(paths) else None
    if data is None:
        data = paths[0] if len(paths) == 1 else "the dataset"
    path = data + ".idx" if failure.in_index else data
    column = names[failure.column] if failure.column is not None and failure.column < len(names) else None
    text = _sentence(failure, path, column)
    if failure.reason == lib.UR_REASON_SCHEMA:
        raise SchemaError(text)
    if status == lib.UR_ARGUMENT:
        raise ValueError(what if failure.row is None else text)
    if status == lib.UR_NOT_FOUND:
        raise MissingError(_missing(data, failure.in_index))
    if status == lib.UR_FORMAT:
        raise FormatError(f"{text}; {_format_advice(failure.reason, data)}")
    if status == lib.UR_COLUMN:
        raise ColumnError(f"{text}; the other columns can be read without it")
    if status == lib.UR_CORRUPT:
        raise CorruptionError(
            f"{text}; {_corrupt_advice(failure.reason, data, failure.in_index)}",
            path=path,
            row=failure.row,
            column=column,
            offset=failure.offset,
        )
    if status == lib.UR_STALE:
        raise StaleError(f"{text}; {_stale_advice(failure.reason, data, failure.in_index)}")
    if status == lib.UR_IO:
        raise OSError(failure.errno, f"{what}: {os.strerror(failure.errno)}", path)
    raise UniRecordError(text)


def _sentence(failure: Failure, path: str, column: str | None) -> str:
    place = path
    if failure.row is not None:
        place += f", row {failure.row}"
    if column is not None:
        place += f", column {column!r}"
    if failure.offset is not None:
        place += f", at byte {failure.offset}"
    return f"{place}: {failure.what}"


def _missing(data: str, in_index: bool) -> str:
    if in_index:
        return (
            f"{data}.idx: this index is missing; run `unirecord repair {quote(data)}` to rebuild it from the data "
            "file"
        )
    return (
        f"{data}: this part does not exist; check the path, or put the file and its index ({data}.idx) back"
    )


def _format_advice(reason: int, data: str) -> str:
    if reason == lib.UR_REASON_NEWER:
        return "upgrade unirecord"
    if reason == lib.UR_REASON_UNFINISHED:
        return f"`unirecord repair {quote(data)}` saves the whole row groups that were written"
    return (
        "check the path: only files made by UniRecord can be read; `unirecord write` makes them from CSV, "
        "JSON Lines and folders of pictures"
    )


def _corrupt_advice(reason: int, data: str, in_index: bool) -> str:
    if reason == lib.UR_REASON_PATCH:
        return "go back to a version before the correction: `unirecord restore PATH@N` (`unirecord log` lists them)"
    if in_index:
        return f"run `unirecord repair {quote(data)}` to rebuild the index from the data file"
    return (
        f"run `unirecord verify {quote(data)}` to see what is lost, and `unirecord repair {quote(data)}` to save "
        "the rest"
    )


def _stale_advice(reason: int, data: str, in_index: bool) -> str:
    if reason == lib.UR_REASON_OTHER_CONTENT:
        return f"run `unirecord repair {quote(data)}` to rebuild it from {data}"
    if reason != lib.UR_REASON_OTHER_PART:
        return "open the dataset again"
    if in_index:
        return f"put the index of {data} back, or run `unirecord repair {quote(data)}` to rebuild it"
    return "put the right file back, or open the dataset again"


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


def raise_refused(
    error: Any,
    kinds: Mapping[int, type[Exception]] = MappingProxyType({}),
    other: type[Exception] = ValueError,
) -> NoReturn:
    """Raises what the core says of a call: MemoryError, or the error of its status."""
    what = ffi.string(error.what).decode("utf-8", "replace")
    named: dict[int, type[Exception]] = {lib.UR_NO_MEMORY: MemoryError, **kinds}
    raise named.get(error.status, other)(what)


def raise_for(error: Any, paths: Sequence[str], names: Sequence[str] = ()) -> NoReturn:
    """Raises what a filled ur_error says of one of ``paths`` (data files by number of the part)."""
    raise_failure(failure_of(error), paths, names)


# References to things of the C core: given up once, when nobody can call with them any more.


class Handle:
    """One reference to something of the C core, given up when the last owner of this object is gone; then ``borrowed``.

    Call with ``pointer``, and hold the Handle for as long. No finalizer runs after the reference has been given up
    (a generator's ``finally``, an ``__exit__`` or a ``__del__`` in a reference cycle, in whatever order the collector
    takes them), and no other thread is in a call.
    """

    # A cdata with a destructor is a container with a finalizer, which the collector runs before those of others in the
    # same cycle. An array of objects is none in its eyes: what lies inside looks used, and so do the things borrowed,
    # until the array itself goes, after all finalizers.
    __slots__ = ("__weakref__", "_owner", "pointer")

    def __init__(self, pointer: Any, release: Callable[[Any], object], *borrowed: object) -> None:
        """``release``: a function of the C core. ``borrowed``: what must outlive it; must not refer to its owner."""
        self.pointer: Any = pointer
        self._owner = np.empty(1, object)
        self._owner[0] = ffi.gc(pointer, keeping(release, borrowed) if borrowed else release)

    def __reduce__(self) -> Any:
        raise TypeError("what lies in the C core cannot be copied or pickled")


def keeping(function: Callable[[Any], object], kept: object) -> Callable[[Any], object]:
    """The function, for `ffi.gc`, with things that are let go after it has been called.

    No bytecode runs in it, so a signal's exception (Ctrl-C) comes up where it can be raised, and is not lost.
    """
    call = partial(function)
    call.kept = kept  # type: ignore[attr-defined]
    return call


def view_of(handle: Handle, pointer: Any, size: int) -> memoryview:
    """Read-only memory of something that ``handle`` holds; keeps it. For arrays, which the collector does not enter."""
    data = ffi.gc(pointer, keeping(bool, handle))
    return memoryview(ffi.buffer(data, size)).toreadonly()
