"""Figures of what runs in a job, for what watches it: text for Prometheus, and scalars for TensorBoard."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import cache
from typing import Any, ClassVar, Literal, NamedTuple

__all__ = ["Figures", "Metric", "MetricName", "exposition"]


class MetricName(NamedTuple):
    """What a field of `Figures` is called outside: the metric's name without ``unirecord_``, its kind and labels.

    The value is the field's divided by ``per``. Where the field holds other `Figures`, ``name`` is the label that tells
    these apart.
    """

    name: str
    kind: Literal["counter", "gauge", "each"]
    labels: Mapping[str, str] = {}
    per: float = 1


class Metric(NamedTuple):
    """One metric: its name without ``unirecord_``, "counter" or "gauge", what it is, its values by labels."""

    name: str
    kind: str
    says: str
    samples: list[tuple[Mapping[str, str], float]]


class Figures:
    """A frozen dataclass whose fields are figures; ``METRICS`` names those that are metrics.

    What each is stands in the docstring of the dataclass, once: there the metrics have their texts from.
    """

    METRICS: ClassVar[Mapping[str, MetricName]]

    def to_dict(self) -> dict[str, Any]:
        """The fields as a dict that JSON can hold."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]

    def to_prometheus(self, labels: Mapping[str, str] | None = None) -> str:
        """The figures in Prometheus' text format 0.0.4, to be served or written to a file that is collected.

        Args:
            labels: stand at every value, such as ``{"rank": "0"}``; their values are escaped.

        Raises:
            ValueError: a label has a name that Prometheus does not allow, or that a figure has itself, such as "stage".
        """
        return exposition(self._metrics(), labels)

    def to_tensorboard(self, writer: Any, step: int) -> None:
        """Calls ``writer.add_scalar(tag, value, step)`` for each figure, as a ``SummaryWriter`` has it.

        What labels say stands in the tag behind a slash.
        """
        for metric in self._metrics():
            for own, value in metric.samples:
                writer.add_scalar("/".join(["unirecord", metric.name, *own.values()]), float(value), step)

    def _metrics(self, labels: Mapping[str, str] | None = None) -> list[Metric]:
        """The figures by metric; one that is None is not known, and left out."""
        found: dict[str, Metric] = {}
        for field, named in self.METRICS.items():
            value = getattr(self, field)
            if named.kind == "each":
                for number, figures in enumerate(value):
                    for metric in figures._metrics({named.name: f"{number} {figures.name}"}):
                        found.setdefault(metric.name, metric._replace(samples=[])).samples.extend(
                            metric.samples
                        )
            elif value is not None:
                empty = Metric(
                    named.name, named.kind, _meanings(inspect.getdoc(type(self)) or "").get(field, ""), []
                )
                samples = found.setdefault(named.name, empty).samples
                samples.append(
                    ({**(labels or {}), **named.labels}, value if named.per == 1 else value / named.per)
                )
        return list(found.values())


@cache
def _meanings(docstring: str) -> dict[str, str]:
    """What it says of each field, the first sentence; nothing under ``python -OO``, where it is empty."""
    _, _, attributes = docstring.partition("\nAttributes:\n")
    found = re.findall(r"^    (\w[\w, ]*): (.*(?:\n        .*)*)", attributes, re.MULTILINE)
    return {
        name.strip(): re.split(r"\.(?:\s|$)", " ".join(text.split()))[0].replace("``", "")
        for names, text in found
        for name in names.split(",")
    }


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
        return repr(int(value) if isinstance(value, bool) else value)
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
