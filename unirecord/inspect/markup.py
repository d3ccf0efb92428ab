"""HTML put together from elements, in which text is always escaped; small charts, and a page as a whole file."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Final

from ..errors import ExistsError
from ..storage.schemes import location_of
from ..storage.staged import StagedFile

__all__ = [
    "BEGINNING",
    "Markup",
    "POLICY",
    "element",
    "fragment",
    "histogram",
    "join",
    "line",
    "meter",
    "page",
    "points",
    "shown",
    "write_page",
]


# HTML put together from elements: text is always escaped, so nothing in the data can be markup or script.


_NAME: Final = re.compile(r"[a-z][a-z0-9-]*", re.IGNORECASE)
_VOID: Final = {"img", "meta", "br", "input"}
_VOID_SHAPES: Final = {"rect", "polyline", "line"}
# Nothing is loaded and nothing runs, whatever the page holds: pictures are in it, there is no script.
POLICY: Final = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)
_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --line: #d0d7de; --ground: #ffffff; --card: #f6f8fa;
  --bar: #2f6f9f; --warn: #9a3412 }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9aa4af; --line: #30363d; --ground: #0d1117;
  --card: #161b22; --bar: #6cb2e4; --warn: #fdba74 } }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 76rem; padding: 1rem; font: 16px/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--ground); overflow-wrap: anywhere }
h1 { font-size: 1.4rem; margin: 0.5rem 0 } h2 { font-size: 1.15rem; margin: 2rem 0 0.5rem }
h3 { font-size: 1rem; margin: 1.25rem 0 0.25rem } .card h3 { margin-top: 0 }
nav { display: flex; flex-wrap: wrap; column-gap: 1rem; overflow-wrap: normal } a { color: var(--bar) }
[aria-current] { color: var(--ink); font-weight: 600; text-decoration: none }
a:focus-visible, summary:focus-visible, [tabindex]:focus-visible { outline: 2px solid var(--bar) }
.soft { color: var(--soft); font-size: 0.875rem } .warn { color: var(--warn) }
.scroll { overflow-x: auto; max-width: 100%; background: /* a shadow at an edge behind which there is more */
  linear-gradient(90deg, var(--ground) 40%, transparent) 0 0 / 2rem 100% no-repeat local,
  linear-gradient(-90deg, var(--ground) 40%, transparent) 100% 0 / 2rem 100% no-repeat local,
  linear-gradient(90deg, var(--soft), transparent) 0 0 / 0.75rem 100% no-repeat scroll,
  linear-gradient(-90deg, var(--soft), transparent) 100% 0 / 0.75rem 100% no-repeat scroll }
table { border-collapse: collapse; font-size: 0.875rem } caption { text-align: left; color: var(--soft) }
th, td { border-bottom: 1px solid var(--line); padding: 0.25rem 0.75rem 0.25rem 0; text-align: left;
  vertical-align: top; overflow-wrap: normal }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums }
td.number, .time { white-space: nowrap }
td.any { overflow-wrap: anywhere } .cards { margin-top: 1rem }
td.wide { overflow-wrap: anywhere; min-width: 8rem; max-width: 24rem }
.cards { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fill, minmax(min(100%, 22rem), 1fr)) }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: 0.75rem; min-width: 0 }
.sheet { display: flex; flex-wrap: wrap; gap: 0.5rem } .sheet figure { margin: 0; width: 8rem }
.sheet img { display: block; max-width: 8rem; max-height: 8rem; background: var(--card) }
figcaption { font-size: 0.75rem; color: var(--soft) }
svg { display: block; width: 100%; height: auto } svg rect { fill: var(--bar) }
svg polyline { fill: none; stroke: var(--bar) }
svg.points { background: var(--card) } svg.points rect { fill-opacity: 0.7 }
form { display: flex; flex-wrap: wrap; gap: 0.5rem 1rem; align-items: end; margin: 0.75rem 0 }
label { display: flex; flex-direction: column; font-size: 0.875rem; color: var(--soft); min-width: 0; max-width: 100% }
label.wide { flex: 1 1 20rem } input, select, button { font: inherit; padding: 0.3rem 0.5rem; color: var(--ink);
  background: var(--ground); border: 1px solid var(--soft); border-radius: 4px; max-width: 100% }
input.short { width: 7rem } button { background: var(--bar); color: var(--ground); border-color: var(--bar) }
input:focus-visible, select:focus-visible, button:focus-visible { outline: 2px solid var(--bar); outline-offset: 1px }
.pager { display: flex; flex-wrap: wrap; gap: 0.25rem 1rem; align-items: baseline; margin: 0.75rem 0 }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 0.875rem; margin: 0; max-height: 40rem;
  overflow: auto }
.skip { position: absolute; left: -99rem } .skip:focus { position: static }
td.small img { max-width: 6rem; max-height: 4rem } td.large img { max-width: 100%; height: auto }
.meter { display: block; height: 0.5rem; background: var(--bar); min-width: 1px }
"""

# Of what stands in somebody else's page: it takes the colours that it finds there.
_FRAGMENT_STYLE: Final = """
.unirecord { overflow-x: auto; max-width: 100% } .unirecord .soft { opacity: 0.7; font-size: 0.875em }
.unirecord table { border-collapse: collapse; margin: 0.5em 0 }
.unirecord td.wide { overflow-wrap: anywhere; max-width: 24em }
.unirecord th, .unirecord td { text-align: left; vertical-align: top; padding: 0.2em 0.8em 0.2em 0 }
.unirecord td.number { text-align: right; white-space: nowrap } .unirecord img { max-width: 8em; max-height: 8em }
.unirecord svg { display: block; width: 8em; height: 2em } .unirecord svg rect { fill: #4a90c4 }
.unirecord svg polyline { fill: none; stroke: #4a90c4; stroke-width: 2 }
"""

BEGINNING: Final = b'<!doctype html>\n<html lang="en" data-made-by="unirecord">'  # of every page


class Markup(str):
    """Text that is markup already; made by this module alone."""

    __slots__ = ()


def shown(text: object) -> str:
    """Text with a visible escape in place of every character that cannot be seen, or that turns the text around."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in str(text))


def _markup(child: object) -> str:
    return child if isinstance(child, Markup) else html.escape(shown(child))


def join(*children: object) -> Markup:
    """Children one after the other; what is no markup is text."""
    return Markup("".join(map(_markup, children)))


def element(tag: str, /, *children: object, **attributes: object) -> Markup:
    """An element; ``class_`` is the attribute class, ``aria_label`` is aria-label; an attribute None is left out."""
    found = {
        key.rstrip("_").replace("_", "-"): value for key, value in attributes.items() if value is not None
    }
    assert all(_NAME.fullmatch(word) for word in (tag, *found))
    given = "".join(f' {key}="{html.escape(shown(value), quote=True)}"' for key, value in found.items())
    if tag in _VOID or tag in _VOID_SHAPES:
        assert not children
        return Markup(f"<{tag}{given}>" if tag in _VOID else f"<{tag}{given}/>")
    return Markup(f"<{tag}{given}>{join(*children)}</{tag}>")


def page(title: str, *body: object, policy: str = POLICY) -> bytes:
    """A whole page, which needs nothing but itself, unless a ``policy`` for its contents says more."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("title", title),
        Markup(f"<style>{_STYLE}</style>"),
    )
    return BEGINNING + join(head, element("body", *body), Markup("</html>\n")).encode()


def fragment(*body: object) -> Markup:
    """A piece that stands in somebody else's page, such as a notebook's."""
    return element("div", Markup(f"<style>{_FRAGMENT_STYLE}</style>"), *body, class_="unirecord")


# Small charts as SVG: bars of a histogram, a line, a share of a whole. Each says in words what it shows.


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


# A page is written to a file whole or not at all, and only in place of an earlier page.


def write_page(content: bytes, target: str) -> int:
    """Writes a page to the file ``target``, whole or not at all; returns its bytes.

    ExistsError where something is that is no page of this package; an earlier one is replaced.
    """
    there = location_of(target)
    if not there.in_file_system or (
        there.is_taken(target) and there.read(target, len(BEGINNING)) != BEGINNING
    ):
        raise ExistsError(
            f"{target} is there and is no report, or is no file of this machine; give another name"
        )
    file = StagedFile(target)
    try:
        file.append([content])
        file.sync()
        file.publish()
    finally:
        file.discard()
    return len(content)
