"""The state of a pipeline: that of its dataset, and how ranks whose operators leave samples out have come how far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..order.rest import Rest, stepped_ranges
from ..order.spec import check_integer
from ..sizes import many
from .chunk import ElementPlace, inner_of, place_at, position_of
from .operators import Operator
from .source import Origin

__all__ = ["Standing", "keeps_count", "loaded"]


_KEY = "pipeline"
_FIELDS = {"shard", "start", "results", "left", "partly", "inner", "operators"}

_OWN_WAY = "each rank goes on from its own state, or any number of ranks from those of all in a list"


def keeps_count(operators: Sequence[Operator]) -> bool:
    """Whether one sample comes of one, so that a position says the same on every rank."""
    return all(operator.keeps_count for operator in operators)


@dataclass(frozen=True)
class Standing:
    """How far a rank has come in an epoch: ``place``, and ``results`` since all ranks took the epoch up.

    They took it up as ``rest`` says; ``partly`` has how many elements of samples left had been delivered then, by their
    position. ``uneven``: samples have been left out that no operator is there to leave out, and later ones have
    taken their places.
    """

    place: ElementPlace
    rest: Rest
    partly: Mapping[int, Sequence[int]] = field(default_factory=dict)
    results: int = 0
    uneven: bool = False

    @classmethod
    def at(cls, position: int) -> Standing:
        """All ranks take an epoch up at a position."""
        return cls(position, Rest.at(position))

    def begun(self, shard: tuple[int, int]) -> dict[int, Sequence[int]]:
        """How many elements have been delivered of samples that a rank gets, by the places before them."""
        rank, ranks = shard
        found: dict[int, Sequence[int]] = {}
        positions = np.array(list(self.partly), np.int64)
        for place, inner in zip(self.rest.places(positions).tolist(), self.partly.values(), strict=True):
            if (place - rank - self.rest.start) % ranks == 0:
                found[place - rank] = inner
        inner = inner_of(self.place)
        return {**found, position_of(self.place): inner} if any(inner) else found

    def extend(
        self, state: dict[str, Any], operators: Sequence[Operator], shard: tuple[int, int]
    ) -> dict[str, Any]:
        """A dataset's state with what a pipeline has to add: nothing where all ranks have come equally far."""
        told = self.uneven and shard[1] > 1
        if keeps_count(operators) and position_of(self.place) >= self.rest.behind and not told:
            return state
        own: dict[str, Any] = {"shard": list(shard), "start": self.rest.start, "results": self.results}
        if len(self.rest.left):
            own["left"] = stepped_ranges(self.rest.left, shard[1])
        inner = inner_of(self.place)
        if any(inner):
            own["inner"] = inner
        if self.partly:
            own["partly"] = [[position, *inner] for position, inner in self.partly.items()]
        if any(inner) or self.partly:
            own["operators"] = _shape(operators)
        return {**state, _KEY: own}


@dataclass(frozen=True)
class _RankState:
    """The state of a rank: that of the dataset, and what a pipeline has added to it, None where it has not."""

    dataset: dict[str, Any]
    own: Mapping[str, Any] | None

    @classmethod
    def of(cls, state: object) -> _RankState:
        if not isinstance(state, Mapping):
            raise ValueError(f"a state is a dict from state_dict(), not {type(state).__name__}")
        rest = {name: value for name, value in state.items() if name != _KEY}
        own = state.get(_KEY)
        if own is not None:
            wrong = not isinstance(own, Mapping) or not {"shard", "start", "results"} <= set(own) <= _FIELDS
            if wrong or len(_counts(own["shard"])) != 2:
                raise ValueError(f"the state's {_KEY} is {own!r:.200}; it does not come from state_dict()")
        return cls(rest, own)

    @property
    def shard(self) -> tuple[int, int] | None:
        """The rank and the number of ranks, where it says them."""
        return None if self.own is None else (self.own["shard"][0], self.own["shard"][1])

    def standing(self, operators: Sequence[Operator], samples: int) -> Standing:
        """How far it had come; ValueError where that depends on operators that are others here."""
        position = check_integer("the state's position", self.dataset.get("position"), 0)
        if self.own is None:
            return Standing.at(position)
        inner = _counts(self.own.get("inner", []))
        partly = {sample: counts for sample, *counts in map(_counts, _list(self.own.get("partly", [])))}
        if (inner or partly) and self.own.get("operators") != _shape(operators):
            raise ValueError(
                f"the state stands in the middle of what {self.own.get('operators')} make of a sample, and the "
                f"operators here are {_shape(operators)}: build the pipeline as it was built then, or start the epoch "
                "anew"
            )
        rest = Rest.of_state(self.own["start"], self.own.get("left", []), samples)
        results = check_integer("the state's results", self.own["results"], 0)
        if position < rest.start or not all(partly.values()):
            raise ValueError(f"the state's {_KEY} does not come from state_dict()")
        return Standing(place_at(position, inner), rest, partly, results, uneven=True)


def loaded(given: object, operators: Sequence[Operator], origin: Origin) -> tuple[dict[str, Any], Standing]:
    """The dataset's state, and how far this rank has come, of a state or of those of all ranks in their order.

    ValueError where the states do not say it.
    """
    shard, samples = origin.shard, origin.samples
    if isinstance(given, Mapping) or not isinstance(given, Sequence):
        one = _RankState.of(given)
        if one.shard in (None, shard):
            return one.dataset, one.standing(operators, samples)
        states = [one] if one.shard == (0, 1) else _of_all_ranks(one, operators, origin)
    else:
        states = [_RankState.of(state) for state in given]
    for rank, state in enumerate(states):
        if state.shard not in (None, (rank, len(states))):
            assert state.shard is not None
            raise ValueError(
                f"these are the states of {many(len(states), 'rank')}, and number {rank} was saved by rank "
                f"{state.shard[0]} of {state.shard[1]}: give the state of each rank, in the order of ranks"
            )
    if not states:
        raise ValueError("load_state_dict([]): give the state of each rank, in the order of ranks")
    if len(states) == shard[1]:
        own = states[shard[0]]
        return own.dataset, own.standing(operators, samples)
    return _merged(states, operators, samples)


def _of_all_ranks(one: _RankState, operators: Sequence[Operator], origin: Origin) -> list[_RankState]:
    """The states of all ranks of a job, each after as many results as one of them; ValueError where one cannot tell.

    Which samples meet conditions on stored rows, the order says. What functions leave out or make, only running does.
    """
    assert one.shard is not None
    assert one.own is not None
    rank, ranks = one.shard
    said = f"the state was saved by rank {rank} of {ranks}, and this is rank {origin.shard[0]} of {origin.shard[1]}"
    way = f"{_OWN_WAY}: load_state_dict([state of rank 0, state of rank 1, …])"
    conditions = [operator.condition or "" for operator in operators if operator.kind == "where"]
    planned = conditions and all(operator.keeps_count or operator.kind == "where" for operator in operators)
    if not planned or "excluded" in one.dataset:
        raise ValueError(
            f"{said}: operators that leave samples out or make several of one let ranks come differently far, so {way}"
        )
    standing = one.standing(operators, origin.samples)
    batch = next((operator for operator in operators if operator.kind == "batch"), None)
    size = 1 if batch is None else batch.size
    places = origin.places_after(
        one.dataset,
        standing.rest,
        ranks,
        conditions,
        standing.results * size,
        size if batch is not None and batch.drop_last else 1,
    )
    place, goes_on = places[rank] if 0 <= rank < len(places) else (-1, False)
    if not goes_on:
        raise ValueError(
            f"{said}: it had handed out all of its epoch, and whether others had, only their states say, so {way}"
        )
    if place != standing.place:
        raise ValueError(f"{said}: more has been left out there than by conditions, so {way}")
    return [
        _RankState({**one.dataset, "position": place}, {**one.own, "shard": [number, ranks]})
        for number, (place, _) in enumerate(places)
    ]


def _merged(
    states: Sequence[_RankState], operators: Sequence[Operator], samples: int
) -> tuple[dict[str, Any], Standing]:
    """How all ranks together had come: ``start`` samples delivered, these left, and some of them in part."""
    _check_alike([state.dataset for state in states])
    ranks, standings = len(states), [state.standing(operators, samples) for state in states]
    told = [standing.rest for state, standing in zip(states, standings, strict=True) if state.own is not None]
    places = [position_of(standing.place) for standing in standings]
    begun = told[0] if told else Rest.at(min(places))
    if any(rest.start != begun.start or not np.array_equal(rest.left, begun.left) for rest in told) or any(
        place < begun.start or (place - begun.start) % ranks for place in places
    ):
        raise ValueError(
            f"these states are not of {many(ranks, 'rank')} that have taken the epoch up together: give those that "
            "were saved at one time, one of each rank"
        )
    furthest = max(places)
    ahead = [
        np.arange(place + rank, min(furthest + rank, samples), ranks) for rank, place in enumerate(places)
    ]
    ahead.append(np.arange(furthest, begun.behind))
    behind = min(max(furthest, begun.behind), samples)
    left = np.sort(begun.positions(np.concatenate(ahead)))
    rest = Rest(behind - len(left), left)
    partly: dict[int, Sequence[int]] = {}
    for standing in standings:
        partly |= standing.partly
    for rank, standing in enumerate(standings):
        inner = inner_of(standing.place)
        _check_of_one_sample(operators, inner, rank, ranks)
        place = position_of(standing.place) + rank
        if any(inner) and place < samples:
            partly[int(begun.positions(np.array([place]))[0])] = inner
    to_come = {
        position: inner for position, inner in partly.items() if position >= behind or position in left
    }
    dataset = {**states[0].dataset, "position": rest.start}
    excluded = _excluded([state.dataset.get("excluded", []) for state in states])
    if excluded:
        dataset["excluded"] = excluded
    return dataset, Standing(rest.start, rest, to_come)


def _check_alike(states: Sequence[dict[str, Any]]) -> None:
    """ValueError where they are not of one job and one epoch."""
    first = states[0]
    for rank, state in enumerate(states):
        for name in sorted((first.keys() | state.keys()) - {"position", "excluded"}):
            if first.get(name) == state.get(name):
                continue
            found = f"{name} is {first.get(name)!r:.100} in the state of rank 0 and {state.get(name)!r:.100} in that"
            way = (
                f"go on with {many(len(states), 'rank')}, each from its own state, or save states when all stand in "
                "one epoch, such as before set_epoch of the next"
                if name == "epoch"
                else "give the states of one job, which were saved at one time"
            )
            raise ValueError(f"{found} of rank {rank}: {way}")


def _check_of_one_sample(operators: Sequence[Operator], inner: Sequence[int], rank: int, ranks: int) -> None:
    """ValueError in the middle of what was made of a batch: its samples are those of a rank."""
    batched = next((n for n, operator in enumerate(operators) if operator.kind == "batch"), len(operators))
    if any(inner[sum(operator.multiplies for operator in operators[:batched]) :]):
        raise ValueError(
            f"the state of rank {rank} stands in the middle of what has been made of a batch, which other ranks would "
            f"make of other samples: go on with {many(ranks, 'rank')}, each from its own state, or save states where "
            "whole batches have been handed out"
        )


def _excluded(of_ranks: Sequence[Any]) -> Any:
    """What has been excluded on all ranks, each since the first of them knew; ValueError where one does not."""
    rules = [[{**entry, "since": None} for entry in entries] for entries in of_ranks]
    if any(rule != rules[0] for rule in rules):
        raise ValueError(
            "the ranks have not excluded the same rows: exclude them on every rank, then save states"
        )
    return [
        {**entries[0], "since": min(entry["since"] for entry in entries)}
        for entries in zip(*of_ranks, strict=True)
    ]


def _counts(given: object) -> list[int]:
    return [check_integer("the state's inner", index, 0) for index in _list(given)]


def _list(given: object) -> Sequence[Any]:
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise ValueError(f"the state's {_KEY} has {given!r:.100}, which does not come from state_dict()")
    return given


def _shape(operators: Sequence[Operator]) -> list[str]:
    """What of the operators decides how many elements come of a sample, in words that JSON can hold."""
    return [
        operator.kind + (f" {operator.size}" if operator.kind == "batch" else "")
        for operator in operators
        if operator.kind in ("filter", "where", "flat_map", "batch", "unbatch")
    ]
