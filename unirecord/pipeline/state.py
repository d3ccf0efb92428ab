"""The state of a pipeline: that of its dataset, and how much of the sample it stands in has been delivered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..order.spec import check_integer
from .chunk import Place, inner_of
from .operators import Operator

__all__ = [
    "extended",
    "keeps_count",
    "place_at",
    "split_state",
]


_KEY = "pipeline"


def keeps_count(operators: Sequence[Operator]) -> bool:
    """Whether one sample comes of one, so that a position says the same on every rank."""
    return all(operator.keeps_count for operator in operators)


def extended(
    state: dict[str, Any], operators: Sequence[Operator], place: Place | None, shard: tuple[int, int]
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


def place_at(position: int, inner: Sequence[int]) -> Place:
    """The place in the middle of the sample at a position."""
    place: Place = position
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
