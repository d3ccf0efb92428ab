"""The text of a manifest's list of parts, read column by column: numbers, hex digits and names of all parts at once."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from .manifest_fields import MOST

__all__ = ["PartFields", "read_fields"]

# A part as it is written: keys in order, nothing left out and nothing between them, a name that goes with the id.
_FIELDS: Final = (
    (b'{"bytes":', b""),
    (b'"content":"', b'"'),
    (b'"id":"', b'"'),
    (b'"index_bytes":', b""),
    (b'"name":"part-', b'.urec"'),
    (b'"rows":', b""),
    (b'"schema":"', b'"}'),
)
_SIZE, _CONTENT, _ID, _INDEX_SIZE, _NAME, _ROWS, _SCHEMA = range(len(_FIELDS))
# bytes of a part, with its commas, at least
_LEAST: Final = sum(len(begin) + len(end) + 1 for begin, end in _FIELDS) + 3 + 16 + 32 + 15 + 16
_DIGITS: Final = (1, 19)  # of a number below 2^63
_NAME_DIGITS: Final = (6, 12)  # of the number in a name
_BEFORE_NAME: Final = len("part-")
_OF_ID: Final = 8  # digits of the id at the end of a name

Places = NDArray[np.int64]
Text = NDArray[np.uint8]

_IS_HEX: Final = np.zeros(256, np.bool_)
_IS_HEX[list(b"0123456789abcdef")] = True


class PartFields(NamedTuple):
    """The fields of n parts, each of which is one that a part may have."""

    names: tuple[str, ...]
    numbers: Places  # in the names
    ids: bytes  # 16 of each
    rows: Places
    bytes: Places
    index_bytes: Places
    contents: NDArray[np.uint64]
    schemas: NDArray[np.bytes_]  # of 16 hex digits


class _NotAsWritten(Exception):
    """Something in the text is not as a part is written."""


def read_fields(listed: bytes) -> PartFields | None:
    """What text of parts says, each with a comma behind it; None where any is not written as a part is.

    Each byte is looked at. Takes time and memory of a few times the text at most.
    """
    count, rest = divmod(listed.count(b","), len(_FIELDS))
    if rest or not count or count * _LEAST > len(listed) or not listed.endswith(b","):
        return None
    try:
        return _read(listed, count)
    except _NotAsWritten:
        return None


def _read(listed: bytes, count: int) -> PartFields:
    text = np.frombuffer(listed, np.uint8)
    stops: Places = np.flatnonzero(text == ord(","))
    starts = np.concatenate(([0], stops[:-1] + 1)).reshape(count, -1)
    stops = stops.reshape(count, -1)
    begins: Places = starts + np.array([len(begin) for begin, _ in _FIELDS])
    ends: Places = stops - np.array([len(end) for _, end in _FIELDS])
    _demand(begins <= ends)  # nothing below reads outside of its field
    for i, (begin, end) in enumerate(_FIELDS):
        _demand(_cut(text, starts[:, i], len(begin)) == np.frombuffer(begin, np.uint8))
        if end:
            _demand(_cut(text, ends[:, i], len(end)) == np.frombuffer(end, np.uint8))
    sizes, indexes, rows = (
        _numbers(text, begins[:, i], ends[:, i], _DIGITS, plain=True) for i in (_SIZE, _INDEX_SIZE, _ROWS)
    )
    content, part_id, schema = (
        _hex(text, begins[:, i], ends[:, i], digits)
        for i, digits in ((_CONTENT, 16), (_ID, 32), (_SCHEMA, 16))
    )
    numbers = _numbers_of_names(text, begins[:, _NAME], ends[:, _NAME], part_id)
    letters = listed.decode("ascii")
    names = zip(
        (begins[:, _NAME] - _BEFORE_NAME).tolist(), (stops[:, _NAME] - 1).tolist(), strict=True
    )  # up to the quotation mark
    return PartFields(
        tuple([letters[start:stop] for start, stop in names]),
        numbers,
        bytes.fromhex(part_id.tobytes().decode()),
        rows,
        sizes,
        indexes,
        np.frombuffer(bytes.fromhex(content.tobytes().decode()), ">u8").astype(np.uint64),
        np.frombuffer(schema.tobytes(), "S16"),
    )


def _demand(holds: NDArray[np.bool_]) -> None:
    if not holds.all():
        raise _NotAsWritten


def _cut(text: Text, starts: Places, size: int) -> Text:
    """The ``size`` bytes of the text from each of these places on: [n, size]."""
    return sliding_window_view(text, size)[starts]


def _hex(text: Text, begins: Places, ends: Places, digits: int) -> Text:
    """Fields of so many lower-case hex digits."""
    _demand(ends - begins == digits)
    found = _cut(text, begins, digits)
    _demand(_IS_HEX[found])
    return found


def _numbers(text: Text, begins: Places, ends: Places, digits: tuple[int, int], *, plain: bool) -> Places:
    """Fields of so many decimal digits, below 2^63; ``plain``: without zeros in front."""
    length = ends - begins
    least, most = digits
    _demand((length >= least) & (length <= most))
    _demand((length == 1) | (text[begins] != ord("0")) | (not plain))
    numbers = np.zeros(len(begins), np.uint64)  # exact: 19 digits are below 2^64
    for place in range(int(length.max())):
        there = length > place
        digit = text[np.where(there, begins + place, begins)] - np.uint8(ord("0"))  # below "0": above 9
        _demand(digit <= 9)
        numbers = np.where(there, numbers * np.uint64(10) + digit, numbers)
    _demand(numbers <= MOST)
    return numbers.astype(np.int64)


def _numbers_of_names(text: Text, begins: Places, ends: Places, ids: Text) -> Places:
    """The numbers of names that end with a dash and the first digits of the id."""
    dashes = ends - _OF_ID - 1
    numbers = _numbers(text, begins, dashes, _NAME_DIGITS, plain=False)
    _demand(text[dashes] == ord("-"))
    _demand(_cut(text, dashes + 1, _OF_ID) == ids[:, :_OF_ID])
    return numbers
