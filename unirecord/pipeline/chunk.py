"""Elements on their way through a pipeline, and where a pass of it stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from ..order.spec import check_integer
from .operators import Operator

__all__ = [
    "Bounds",
    "Chunk",
    "Note",
    "ElementPlace",
    "extended",
    "inner_of",
    "joined",
    "keeps_count",
    "place_at",
    "position_of",
    "split_state",
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


# The state of a pipeline: that of its dataset, and how much of the sample it stands in has been delivered.


_KEY = "pipeline"


def keeps_count(operators: Sequence[Operator]) -> bool:
    """Whether one sample comes of one, so that a position says the same on every rank."""
    return all(operator.keeps_count for operator in operators)


def extended(
    state: dict[str, Any], operators: Sequence[Operator], place: ElementPlace | None, shard: tuple[int, int]
) -> dict[str, Any]:
    """A dataset's state with what a pipeline has to add: nothing where it delivers one sample for one."""
    if keeps_count(operators):
        return state
    inner = [] if place is None else inner_of(place)
    own: dict[str, Any] = {"shard": list(shard)}
    if any(inner):
        own |= {"inner": inner, "operators": _shape(operators)}
    return {**state, _KEY: own}


def split_state(
    state: object, operators: Sequence[Operator], shard: tuple[int, int]
) -> tuple[Any, list[int]]:
    """The dataset's state of a pipeline's, and how many elements are to be left out; ValueError if it is of another."""
    if not isinstance(state, Mapping) or _KEY not in state:
        return state, []
    rest = {name: value for name, value in state.items() if name != _KEY}
    own = state[_KEY]
    if not isinstance(own, Mapping) or not {"shard"} <= set(own) <= {"shard", "inner", "operators"}:
        raise ValueError(f"the state's {_KEY} is {own!r}; it does not come from state_dict()")
    if list(own["shard"]) != list(shard) and [*own["shard"][1:], shard[1]] != [1, 1]:
        raise ValueError(
            f"the state was saved by rank {own['shard'][0]} of {own['shard'][1]}, and this is rank {shard[0]} of "
            f"{shard[1]}: operators that leave samples out or make several of one let ranks come differently far, so "
            "each rank goes on from a state of its own, with as many ranks"
        )
    inner = [check_integer("the state's inner", index, 0) for index in own.get("inner", [])]
    if inner and own.get("operators") != _shape(operators):
        raise ValueError(
            f"the state stands in the middle of what {own.get('operators')} make of a sample, and the operators here "
            f"are {_shape(operators)}: build the pipeline as it was built then, or start the epoch anew"
        )
    return rest, inner


def place_at(position: int, inner: Sequence[int]) -> ElementPlace:
    """The place in the middle of the sample at a position."""
    place: ElementPlace = position
    for index in inner:
        place = (place, index)
    return place


def _shape(operators: Sequence[Operator]) -> list[str]:
    """What of the operators decides how many elements come of a sample, in words that JSON can hold."""
    return [
        operator.kind + (f" {operator.size}" if operator.kind == "batch" else "")
        for operator in operators
        if operator.kind in ("filter", "where", "flat_map", "batch", "unbatch")
    ]
