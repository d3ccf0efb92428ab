"""Bytes of parts that are asked for, as arrays, and where they lie in what has come: no step of Python for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, overload

import numpy as np
import numpy.typing as npt

from .library import buffer_of, ffi

__all__ = ["PUT", "Answer", "Put", "Range", "Ranges"]

# Range number `range` lies at byte `place` of answer number `answer`.
PUT: Final = np.dtype([("range", "<i8"), ("answer", "<i8"), ("place", "<u8")])
assert PUT.itemsize == ffi.sizeof("ur_put")

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes [offset, offset + size) of the data file, or of the index, of a part.

    ``keep``: cells or blocks of an index, which a cache may keep.
    """

    part: int
    in_index: bool
    offset: int
    size: int
    keep: bool = False


class Ranges(Sequence[Range]):
    """Ranges, sorted by part, file and offset: a `Range` is made where one is looked at."""

    __slots__ = ("in_index", "keeps", "offsets", "parts", "sizes")

    def __init__(
        self,
        parts: I64,
        in_index: npt.NDArray[np.bool_],
        offsets: I64,
        sizes: I64,
        keeps: npt.NDArray[np.bool_],
    ) -> None:
        self.parts, self.offsets, self.sizes = parts, offsets, sizes
        self.in_index, self.keeps = in_index, keeps

    @classmethod
    def of(cls, ranges: Sequence[Range]) -> Ranges:
        """The same as arrays."""
        if isinstance(ranges, Ranges):
            return ranges
        numbers = np.array([(r.part, r.in_index, r.offset, r.size, r.keep) for r in ranges], np.int64)
        parts, in_index, offsets, sizes, keeps = numbers.reshape(-1, 5).T
        return cls(parts, in_index != 0, offsets, sizes, keeps != 0)

    def __len__(self) -> int:
        return len(self.parts)

    @overload
    def __getitem__(self, at: int) -> Range: ...
    @overload
    def __getitem__(self, at: slice) -> Ranges: ...
    def __getitem__(self, at: int | slice) -> Range | Ranges:
        if isinstance(at, slice):
            return self._at(at)
        part, in_index = int(self.parts[at]), bool(self.in_index[at])
        return Range(part, in_index, int(self.offsets[at]), int(self.sizes[at]), bool(self.keeps[at]))

    def __iter__(self) -> Iterator[Range]:
        columns = (self.parts, self.in_index, self.offsets, self.sizes, self.keeps)
        return (Range(*each) for each in zip(*(column.tolist() for column in columns), strict=True))

    def only(self, numbers: I64) -> Ranges:
        """Those of these numbers."""
        return self if len(numbers) == len(self) else self._at(numbers)

    def _at(self, at: Any) -> Ranges:
        return Ranges(self.parts[at], self.in_index[at], self.offsets[at], self.sizes[at], self.keeps[at])


class Answer:
    """Bytes that have come, and where they lie; held as long as this is."""

    __slots__ = ("address", "data", "size")

    def __init__(self, data: Any) -> None:
        self.data: Any = data
        view = ffi.from_buffer(buffer_of(data))
        self.address: int = int(ffi.cast("uintptr_t", view))
        self.size: int = len(view)


class Put(Protocol):
    """Takes the bytes of ranges, in any order and any thread, until the function that was given it returns."""

    def __call__(self, number: int, found: Any) -> Any:
        """Takes those of a range, by its number: a buffer of its size. Gives the memory that they are in now."""

    def many(self, answers: Sequence[Answer], puts: npt.NDArray[Any]) -> None:
        """Takes those of several (`PUT`)."""

    def there(self, number: int) -> Any:
        """The memory of a range whose bytes have been taken."""
