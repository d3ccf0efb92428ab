"""Elements on their way through a pipeline, each with its place in the epoch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

__all__ = [
    "Bounds",
    "Chunk",
    "Note",
    "ElementPlace",
    "inner_of",
    "joined",
    "place_at",
    "position_of",
]


# What travels from stage to stage: some neighbouring elements of the stream, each with its place in the
# epoch.


# The place between two elements. For samples as they are read: the global position (docs/spec/order.md). Behind an
# operator that makes several elements of one: (the place before the one, how many of its elements came before);
# (place, 0) is said as the place behind all of them.
ElementPlace: TypeAlias = "int | tuple[ElementPlace, int]"


Bounds = Callable[[ElementPlace], tuple[int, int]]  # the places before and behind the batch of a sample


class Note(NamedTuple):
    """A row that was left out, and why; None: its bytes are corrupt. ``kept``: something stands in for it."""

    row: int
    why: str | None
    kept: bool = False


class Chunk:
    """Elements: samples, or whole batches of them.

    ``begins`` and ``ends`` are the places before and behind each element. ``rows`` has the row of the dataset that a
    sample comes from, or for a batch the list of those of its samples; ``keys`` likewise what their randomness is keyed
    by, and is empty where nothing is random. ``notes`` are of rows before the first element, between, or behind.
    ``error`` is what happened instead of the next element: nothing comes after it. ``size`` is what the elements take
    of memory, about, in bytes. ``made`` is what the next stage makes of its elements, group by group, where that
    has been done in the same task, with the nanoseconds that it took.
    """

    __slots__ = ("begins", "ends", "error", "keys", "made", "notes", "rows", "size", "values")

    def __init__(
        self,
        values: list[Any],
        begins: Sequence[ElementPlace],
        ends: Sequence[ElementPlace],
        rows: Sequence[Any],
        keys: Sequence[Any],
        notes: tuple[Note, ...] = (),
        error: BaseException | None = None,
    ) -> None:
        self.values: list[Any] = values
        self.begins: Sequence[ElementPlace] = begins
        self.ends: Sequence[ElementPlace] = ends
        self.rows: Sequence[Any] = rows
        self.keys: Sequence[Any] = keys
        self.notes: tuple[Note, ...] = notes
        self.error: BaseException | None = error
        self.size: int = 0
        self.made: Sequence[tuple[Chunk, int]] = ()

    @classmethod
    def failed(cls, error: BaseException, notes: tuple[Note, ...] = ()) -> Chunk:
        """No element, and an error instead of the next."""
        return cls([], (), (), (), (), notes, error)

    def __len__(self) -> int:
        return len(self.values)

    def piece(self, start: int, stop: int) -> Chunk:
        """Elements [start, stop); the notes go with the first, an error with the last."""
        count = len(self.values)
        if start == 0 and stop == count:
            return self
        piece = Chunk(
            self.values[start:stop],
            self.begins[start:stop],
            self.ends[start:stop],
            self.rows[start:stop],
            self.keys[start:stop],
            self.notes if start == 0 else (),
            self.error if stop == count else None,
        )
        piece.size = (
            self.size * stop // count - self.size * start // count
        )  # all pieces together have all of it
        return piece

    def with_values(self, values: list[Any]) -> Chunk:
        """The same places with other elements."""
        return Chunk(values, self.begins, self.ends, self.rows, self.keys, self.notes, self.error)

    def only(self, kept: Sequence[int], values: list[Any], notes: tuple[Note, ...] = ()) -> Chunk:
        """The elements whose numbers are ``kept``, now ``values``."""
        begins, ends, rows, keys = self.begins, self.ends, self.rows, self.keys
        return Chunk(
            values,
            [begins[i] for i in kept],
            [ends[i] for i in kept],
            [rows[i] for i in kept],
            [keys[i] for i in kept] if keys else keys,
            self.notes + notes,
            self.error,
        )

    def until(self, count: int, error: BaseException) -> Chunk:
        """The first ``count`` elements, and an error instead of the next."""
        cut = self.piece(0, count)
        return Chunk(cut.values, cut.begins, cut.ends, cut.rows, cut.keys, self.notes, error)


def joined(chunks: Sequence[Chunk]) -> Chunk:
    """One chunk of the elements of several, none of which has an error but perhaps the last."""
    begins: list[ElementPlace] = []
    ends: list[ElementPlace] = []
    whole = Chunk([], begins, ends, [], [], (), chunks[-1].error)
    for chunk in chunks:
        whole.values += chunk.values
        begins += chunk.begins
        ends += chunk.ends
        whole.rows += chunk.rows  # type: ignore[operator]
        whole.keys += chunk.keys  # type: ignore[operator]
        whole.notes += chunk.notes
        whole.size += chunk.size
    return whole


def position_of(place: ElementPlace) -> int:
    """The global position of the sample that a place is before, or in."""
    while isinstance(place, tuple):
        place = place[0]
    return place


def inner_of(place: ElementPlace) -> list[int]:
    """How many elements of the sample, of each of the operators that make several of one, come before a place."""
    inner: list[int] = []
    while isinstance(place, tuple):
        place, index = place
        inner.append(index)
    return inner[::-1]


def place_at(position: int, inner: Sequence[int]) -> ElementPlace:
    """The place in the middle of the sample at a position."""
    place: ElementPlace = position
    for index in inner:
        place = (place, index)
    return place
