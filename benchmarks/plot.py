"""Plots as SVG: bars and lines on logarithmic scales."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

INK, MUTED, GRID = "#1f2933", "#6b7785", "#dfe4ea"
COLOURS = ("#b0bac5", "#0b6e99", "#d1495b", "#edae49", "#66a182")
FONT = 'font-family="system-ui, sans-serif" font-size="12"'
BAR, GAP, LEFT, WIDTH = 16, 8, 210, 760

Bar = tuple[str, float, int]  # label, value, colour


def _text(x: float, y: float, text: str, anchor: str = "start", fill: str = INK) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}" {FONT}>{escape(text)}</text>'


def _document(width: float, height: float, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height:.0f}" role="img">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="#ffffff"/>', *parts, "</svg>", ""])


def _short(value: float) -> str:
    for unit, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value:.3g}"


def bars(title: str, unit: str, values: Sequence[Bar]) -> str:
    """Horizontal bars, the longest first, on a logarithmic scale from a power of ten below the smallest."""
    values = sorted(values, key=lambda bar: -bar[1])
    low = 10 ** math.floor(math.log10(min(bar[1] for bar in values)) - 0.2)
    high = max(bar[1] for bar in values)
    scale = (WIDTH - LEFT - 80) / math.log10(high / low)
    parts = [_text(12, 22, title)]
    bottom = 44 + len(values) * (BAR + GAP)
    for power in range(round(math.log10(low)), math.ceil(math.log10(high)) + 1):
        x = LEFT + scale * (power - math.log10(low))
        if x < WIDTH - 40:
            parts.append(f'<line x1="{x:.1f}" y1="34" x2="{x:.1f}" y2="{bottom}" stroke="{GRID}"/>')
            parts.append(_text(x, bottom + 16, _short(10.0**power), "middle", MUTED))
    for row, (label, value, colour) in enumerate(values):
        y = 40 + row * (BAR + GAP)
        length = scale * math.log10(value / low)
        parts.append(_text(LEFT - 8, y + 12, label, "end"))
        parts.append(
            f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" fill="{COLOURS[colour]}"/>'
        )
        parts.append(_text(LEFT + length + 6, y + 12, _short(value), "start", MUTED))
    parts.append(_text(WIDTH - 12, bottom + 34, unit + " (logarithmic)", "end", MUTED))
    return _document(WIDTH, bottom + 44, parts)


Line = tuple[str, Sequence[tuple[float, float]]]


Ring = tuple[int, float, float]  # number of the line, step, value


def lines(
    title: str, unit: str, series: Sequence[Line], labels: Sequence[str], rings: Sequence[Ring] = ()
) -> str:
    """Values over steps named by `labels`: (step number, value) each; values on a logarithmic scale."""
    values = [value for _, points in series for _, value in points] + [value for *_, value in rings]
    low = 10 ** math.floor(math.log10(min(values)))
    high = 10 ** math.ceil(math.log10(max(values)))
    left, top, right, bottom = 70, 40, WIDTH - 260, 300

    def place(step: float, value: float) -> tuple[float, float]:
        x = left + (right - left) * step / max(1, len(labels) - 1)
        return x, bottom - (bottom - top) * math.log10(value / low) / math.log10(high / low)

    parts = [_text(12, 22, title)]
    for power in range(round(math.log10(low)), round(math.log10(high)) + 1):
        y = place(0, 10.0**power)[1]
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="{GRID}"/>')
        parts.append(_text(left - 8, y + 4, _short(10.0**power), "end", MUTED))
    for step, label in enumerate(labels):
        parts.append(_text(place(step, low)[0], bottom + 18, label, "middle", MUTED))
    for number, (name, points) in enumerate(series):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in points))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(
            f'<rect x="{right + 16}" y="{top + 20 * number}" width="12" height="12" fill="{colour}"/>'
        )
        parts.append(_text(right + 34, top + 10 + 20 * number, name))
    for number, step, value in rings:
        x, y = place(step, value)
        colour = COLOURS[number % len(COLOURS)]
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="none" stroke="{colour}" stroke-width="3"/>'
        )
    parts.append(_text(12, bottom + 40, unit, "start", MUTED))
    return _document(WIDTH, bottom + 50, parts)
