"""Failures of the C core as exceptions: which file, row, column and offset, what was found, and what to do about it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from .._core import lib
from ..errors import (
    ClosedError,
    CodecError,
    CorruptionError,
    FormatError,
    MissingError,
    SchemaError,
    StaleError,
    UniRecordError,
)


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
        raise ValueError(what)
    if status == lib.UR_NOT_FOUND:
        raise MissingError(_missing(data, failure.in_index))
    if status == lib.UR_FORMAT:
        raise FormatError(f"{text}; {_format_advice(failure.reason, data)}")
    if status == lib.UR_CODEC:
        raise CodecError(f"{text}; the other columns can be read without it")
    if status == lib.UR_CORRUPT:
        raise CorruptionError(
            f"{text}; {_corrupt_advice(data, failure.in_index)}",
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
        return f"{data}.idx: this index is missing; run `unirecord repair {data}` to rebuild it from the data file"
    return (
        f"{data}: this part does not exist; check the path, or put the file and its index ({data}.idx) back"
    )


def _format_advice(reason: int, data: str) -> str:
    if reason == lib.UR_REASON_NEWER:
        return "upgrade unirecord"
    if reason == lib.UR_REASON_UNFINISHED:
        return f"`unirecord repair {data}` saves the whole row groups that were written"
    return (
        "check the path: only files made by UniRecord can be read; `unirecord write` makes them from CSV, "
        "JSON Lines and folders of pictures"
    )


def _corrupt_advice(data: str, in_index: bool) -> str:
    if in_index:
        return f"run `unirecord repair {data}` to rebuild the index from the data file"
    return (
        f"run `unirecord verify {data}` to see what is lost, and `unirecord repair {data}` to save the rest"
    )


def _stale_advice(reason: int, data: str, in_index: bool) -> str:
    if reason == lib.UR_REASON_OTHER_CONTENT:
        return f"run `unirecord repair {data}` to rebuild it from {data}"
    if reason != lib.UR_REASON_OTHER_PART:
        return "open the dataset again"
    if in_index:
        return f"put the index of {data} back, or run `unirecord repair {data}` to rebuild it"
    return "put the right file back, or open the dataset again"
