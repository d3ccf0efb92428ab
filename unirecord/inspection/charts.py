"""Small charts as SVG: bars of a histogram, a line, a share of a whole. Each says in words what it shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .markup import Markup, element

__all__ = ["histogram", "line", "meter", "points"]

_WIDTH: Final = 320
_HEIGHT: Final = 80
_SQUARE: Final = 160  # height where both directions matter
_GAP: Final = 1.0
_POINTS: Final = 200  # of a line


def histogram(counts: Sequence[int], labels: Sequence[str], says: str) -> Markup:
    """Bars as high as the counts; ``labels`` are what is said of each bar. A bar that holds anything can be seen."""
    most, step = max(counts, default=0) or 1, _WIDTH / max(1, len(counts))
    bars = []
    for place, (count, label) in enumerate(zip(counts, labels, strict=True)):
        high = max(1.0, _HEIGHT * count / most) if count else 0.0
        bars.append(
            element(
                "g",
                element("title", f"{label}: {count:,}"),
                element(
                    "rect", x=f"{place * step:.2f}", y=f"{_HEIGHT - high:.2f}", width=f"{max(step - _GAP, 0.5):.2f}",
                    height=f"{high:.2f}",
                ),
            )
        )  # fmt: skip
    return element("svg", *bars, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img", aria_label=says)


def line(values: Sequence[float], says: str) -> Markup:
    """A line through finite values; of many, evenly spaced ones."""
    values = (
        [values[place * len(values) // _POINTS] for place in range(_POINTS)]
        if len(values) > _POINTS
        else values
    )
    low, high = min(values), max(values)
    span, step = (high - low) or 1.0, _WIDTH / max(1, len(values) - 1)
    points = " ".join(
        f"{place * step:.1f},{2 + (_HEIGHT - 4) * (high - value) / span:.1f}"
        for place, value in enumerate(values)
    )
    return element(
        "svg",
        element("polyline", points=points),
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        aria_label=says,
    )


def points(places: Sequence[tuple[float, float]], says: str) -> Markup:
    """Points at (across, up), each 0 to 1."""
    marks = [
        element(
            "rect",
            x=f"{2 + (_WIDTH - 6) * x:.1f}",
            y=f"{2 + (_SQUARE - 6) * (1 - y):.1f}",
            width="2",
            height="2",
        )
        for x, y in places
    ]
    return element(
        "svg", *marks, viewBox=f"0 0 {_WIDTH} {_SQUARE}", role="img", aria_label=says, class_="points"
    )


def meter(share: float) -> Markup:
    """A bar as wide as the share, 0 to 1, of what it stands in."""
    return element("span", class_="meter", style=f"width:{100 * min(max(share, 0.0), 1.0):.1f}%")
