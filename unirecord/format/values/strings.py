"""Strings of a column in one piece of memory, as a scalar page and Arrow hold them, and not one object each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, overload

import numpy as np
import numpy.typing as npt

from ...core import take_strings

__all__ = ["PackedStrings", "Texts", "UnicodeRefused", "joined_strings", "unicode_list"]

Array = npt.NDArray[Any]


_LAST_CHARACTER: Final = 0x10FFFF


class UnicodeRefused(ValueError):
    """An array of strings has a word that is no character; ``row``: the first such row."""

    def __init__(self, row: int, word: int) -> None:
        super().__init__(f"a word of its text is {word:#x}, which is no Unicode")
        self.row = row


def unicode_list(values: Array) -> list[Any]:
    """Return the strings of an array of NumPy's ``U`` (of any shape) as its ``tolist`` does.

    `UnicodeRefused` where a word is no character: NumPy makes a str of it that is broken, and that breaks whatever
    uses it.
    """
    words = (
        np.ascontiguousarray(values).view(values.dtype.str[0] + "u4")
        if values.dtype.itemsize
        else np.zeros(0)
    )
    wrong = words > _LAST_CHARACTER
    if wrong.any():
        raise UnicodeRefused(int(wrong.reshape(len(values), -1).any(axis=1).argmax()), int(words[wrong][0]))
    return list(values.tolist())


class PackedStrings(Sequence[bytes]):
    """Byte strings: string i is ``data[ends[i] : ends[i + 1]]``; slices are views.

    Attributes:
        data: uint8 [bytes].
        ends: int64 [B + 1], never falling, inside of ``data``; the first need not be 0.
    """

    data: npt.NDArray[Any]
    ends: npt.NDArray[np.int64]

    def __init__(self, data: Array, ends: npt.NDArray[np.int64]) -> None:
        """ValueError where the ends fall, or lead out of the data."""
        if int(ends[0]) < 0 or int(ends[-1]) > len(data) or (ends[1:] < ends[:-1]).any():
            raise ValueError("the ends of strings fall, or lead out of the data")
        self.data, self.ends = data, ends

    @classmethod
    def of(cls, cells: Sequence[bytes | memoryview]) -> PackedStrings:
        """The cells, one after the other."""
        return cls.of_sizes(b"".join(cells), np.fromiter(map(len, cells), np.int64, len(cells)))

    @classmethod
    def of_sizes(cls, data: Any, sizes: Array) -> PackedStrings:
        """The strings of these sizes that follow each other in a bytes-like object."""
        ends = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, dtype=np.int64, out=ends[1:])
        return cls(np.frombuffer(data, np.uint8), ends)

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Bytes of each."""
        return self.ends[1:] - self.ends[:-1]

    @property
    def content(self) -> Array:
        """The bytes of all, uint8."""
        return self.data[int(self.ends[0]) : int(self.ends[-1])]

    def take(self, places: npt.NDArray[np.int64]) -> PackedStrings:
        """The strings at these places, in memory of their own."""
        return PackedStrings(*take_strings(self.data, self.ends, places))

    def copy(self) -> PackedStrings:
        """The same in memory of its own."""
        return PackedStrings(self.content.copy(), self.ends - self.ends[0])

    def __len__(self) -> int:
        return len(self.ends) - 1

    @overload
    def __getitem__(self, place: int) -> bytes: ...
    @overload
    def __getitem__(self, place: slice) -> PackedStrings: ...
    def __getitem__(self, place: int | slice) -> bytes | PackedStrings:
        if isinstance(place, slice):
            start, stop, step = place.indices(len(self))
            if step != 1:
                raise ValueError("slices of strings have step 1")
            found = PackedStrings.__new__(PackedStrings)
            found.data, found.ends = self.data, self.ends[start : max(stop, start) + 1]
            return found
        at = range(len(self))[place]
        return self.data[int(self.ends[at]) : int(self.ends[at + 1])].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        whole, ends = self.content.tobytes(), (self.ends - self.ends[0]).tolist()
        return (whole[a:b] for a, b in pairwise(ends))


def joined_strings(parts: Sequence[PackedStrings]) -> PackedStrings:
    """The strings of all parts; a single one is given back as it is."""
    if len(parts) == 1:
        return parts[0]
    sizes = [part.sizes for part in parts]
    data = [part.content for part in parts]
    return PackedStrings.of_sizes(
        np.concatenate(data) if data else b"", np.concatenate(sizes) if sizes else np.zeros(0, np.int64)
    )


@dataclass(frozen=True)
class Texts(Sequence[str | None]):
    """Text that is known to be UTF-8, None where it is null: what a source gives for a column, made of `PackedStrings`.

    Attributes:
        strings: empty where null.
        valid: bool [B]; None: none is null.
    """

    strings: PackedStrings
    valid: npt.NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.strings)

    @overload
    def __getitem__(self, place: int) -> str | None: ...
    @overload
    def __getitem__(self, place: slice) -> Texts: ...
    def __getitem__(self, place: int | slice) -> str | Texts | None:
        if isinstance(place, slice):
            return Texts(self.strings[place], None if self.valid is None else self.valid[place])
        return None if self.valid is not None and not self.valid[place] else self.strings[place].decode()

    def __iter__(self) -> Iterator[str | None]:
        whole = self.strings.content.tobytes()
        if whole.isascii():  # its places are those of its bytes
            text, ends = whole.decode(), (self.strings.ends - self.strings.ends[0]).tolist()
            texts = (text[a:b] for a, b in pairwise(ends))
        else:
            texts = (string.decode() for string in self.strings)
        if self.valid is None:
            return texts
        pairs = zip(texts, self.valid.tolist(), strict=True)
        return (text if present else None for text, present in pairs)

    def take(self, places: npt.NDArray[np.int64]) -> Texts:
        """The values at these places."""
        return Texts(self.strings.take(places), None if self.valid is None else self.valid[places])

    @classmethod
    def of(cls, values: Sequence[Any], *, nullable: bool) -> Texts | None:
        """A list of str, and of None if ``nullable``; None where anything else is among them, or no valid Unicode."""
        kinds = set(map(type, values))
        valid = None
        if nullable and type(None) in kinds:
            kinds.discard(type(None))
            valid = np.fromiter((value is not None for value in values), np.bool_, len(values))
            values = ["" if value is None else value for value in values]
        if not kinds <= {str}:
            return None
        whole = "".join(values)
        try:
            data = whole.encode()
        except UnicodeEncodeError:
            return None
        measured: Any = values if len(data) == len(whole) else map(str.encode, values)
        return cls(
            PackedStrings.of_sizes(data, np.fromiter(map(len, measured), np.int64, len(values))), valid
        )

    @classmethod
    def of_memory(cls, data: Any, ends: Array, valid: npt.NDArray[np.bool_] | None) -> Texts:
        """Text where another library keeps it, whose nulls are empty; UnicodeDecodeError where it is no UTF-8.

        ValueError where the ends lead out of the data.
        """
        strings = PackedStrings(np.frombuffer(data, np.uint8), ends.astype(np.int64, copy=False))
        content = strings.content
        if len(content) and int(content.max()) >= 0x80:
            str(content.data, "utf-8")
            starts = strings.ends[:-1][strings.sizes > 0]
            if ((strings.data[starts] & 0xC0) == 0x80).any():  # a character that two strings share
                for string in strings:
                    string.decode()
        return cls(strings, valid)
