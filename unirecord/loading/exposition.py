"""Figures of a loader for what watches a job: text as Prometheus scrapes it, and scalars as TensorBoard draws them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

__all__ = ["Metric", "add_scalars", "exposition"]


class Metric(NamedTuple):
    """One figure: its name without ``unirecord_``, "counter" or "gauge", what it is, its values by labels."""

    name: str
    kind: str
    says: str
    samples: tuple[tuple[Mapping[str, str], float], ...]


def exposition(metrics: Iterable[Metric], labels: Mapping[str, str] | None) -> str:
    """Prometheus' text format 0.0.4; ``labels`` stand at every value. ValueError for a name that no label can have."""
    common = dict(labels or {})
    for name in common:
        _check(name)
    lines: list[str] = []
    for metric in metrics:
        name = f"unirecord_{metric.name}"
        lines += [f"# HELP {name} {metric.says}", f"# TYPE {name} {metric.kind}"]
        for own, value in metric.samples:
            if twice := common.keys() & own.keys():
                raise ValueError(f"label {min(twice)!r} is one of {name} itself; give yours another name")
            found = ",".join(f'{key}="{_escaped(str(text))}"' for key, text in {**common, **own}.items())
            lines.append(f"{name}{{{found}}} {_number(value)}" if found else f"{name} {_number(value)}")
    return "".join(f"{line}\n" for line in lines)


def add_scalars(metrics: Iterable[Metric], writer: Any, step: int) -> None:
    """Calls ``writer.add_scalar(tag, value, step)`` for each figure; what labels say stands behind a slash."""
    for metric in metrics:
        for own, value in metric.samples:
            writer.add_scalar("/".join(["unirecord", metric.name, *own.values()]), float(value), step)


def _check(name: str) -> None:
    plain = name.replace("_", "a")
    if not (plain.isascii() and plain.isalnum()) or plain[0].isdigit() or name.startswith("__"):
        raise ValueError(
            f"label {name!r}: expected ASCII letters, digits and _, no digit first, and not two _ first"
        )


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    if isinstance(value, int) or math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
