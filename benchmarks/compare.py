"""Entrants side by side on one workload: each in a process of its own, in an order that changes with the round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from entrants import Entrant, Field
from workloads import Raw, Workload, generate

Measurement = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """What a round of a run measures, and how thoroughly."""

    workloads: Sequence[Workload]
    caches: Sequence[str]
    threads: Sequence[int]
    round: int
    seconds: float
    only: Sequence[str] = ()
    small: bool = False

    def takes(self, entrant: Entrant) -> bool:
        """The floor always takes part, the others unless `only` leaves them out."""
        name = entrant.name.lower()
        return bool(entrant.floor) or not self.only or any(part.lower() in name for part in self.only)


def _obstacle(field: Field, entrant: Entrant, raw: Raw) -> str:
    """Installs and writes; "" or why the entrant can't run."""
    reason = field.ready(entrant)
    if reason:
        return f"not available here: {reason}"
    outcome = field.write(entrant, raw)
    return str(outcome.get("failed") or outcome.get("unsuitable") or "")


def compare(
    field: Field, plan: Plan, suite: str, workload: Workload, entrants: Sequence[Entrant]
) -> Iterator[Measurement]:
    """One measurement per entrant, cache state and number of threads; a line with "absent" for who can't run."""
    raw = generate(workload, field.data / workload.name / "raw")
    able = []
    for entrant in entrants:
        if not plan.takes(entrant):
            continue
        obstacle = _obstacle(field, entrant, raw)
        if obstacle:
            yield {"suite": suite, "workload": workload.name, "entrant": entrant.name, "absent": obstacle}
        else:
            able.append(entrant)
    for cache in plan.caches:
        for threads in plan.threads if cache == "hot" else plan.threads[:1]:
            taking = [one for one in able if cache in one.caches]
            Random(plan.round).shuffle(taking)  # nobody always follows the same one, and the state it leaves
            place = {"suite": suite, "workload": workload.name, "round": plan.round}
            yield from _timed(field, plan, raw, taking, cache, threads, place)


def _timed(
    field: Field,
    plan: Plan,
    raw: Raw,
    entrants: Sequence[Entrant],
    cache: str,
    threads: int,
    place: Measurement,
) -> Iterator[Measurement]:
    for entrant in entrants:
        measured = field.read(entrant, raw, threads, plan.seconds, cache)
        reason = measured.pop("failed", None) or measured.pop("unsuitable", None)
        note = {"absent": reason} if reason else {}
        yield {**place, "cache": cache, "threads": threads, "entrant": entrant.name, **measured, **note}
