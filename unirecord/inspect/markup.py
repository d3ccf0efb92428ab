"""Pages by templates: the one place where HTML is made, in which all text is escaped."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any, Final

from ..errors import MissingError
from ..format.column import SCALAR_TYPES
from ..sizes import format_size, many
from .cells import example, short
from .describe import spelled

__all__ = ["POLICY", "render", "shown", "templates"]

# Nothing is loaded and nothing runs, whatever the page holds: pictures are in it, there is no script.
POLICY: Final = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)


def templates() -> Any:
    """The templates of this package, as an environment of Jinja2; MissingError where that is not installed."""
    try:
        return _environment(importlib.import_module("jinja2"))
    except ImportError as error:
        raise MissingError(
            "pages and notebooks' tables are made by Jinja2, which is not installed: "
            f"pip install 'unirecord[view]' ({error})"
        ) from None


@cache
def _environment(jinja2: Any) -> Any:
    # A cache without bounds has no lock, which a forked child might find held.
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("unirecord.inspect"), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, auto_reload=False, cache_size=-1,
    )  # fmt: skip
    # Nothing is exempt from being escaped.
    del made.filters["safe"]
    made.filters |= {
        "example": example, "many": many, "number": "{:,}".format, "short": short, "size": format_size,
        "spelled": spelled,
    }  # fmt: skip
    made.globals["scalar_types"] = SCALAR_TYPES
    return made


def render(template: str, **given: Any) -> str:
    """What a template makes of what it is given: values and lists, never markup, and no names that data have made up.

    Every character that cannot be seen, or that turns the text around, is a visible escape.
    """
    return shown(templates().get_template(template).render({"policy": POLICY, **given}))


def shown(text: str) -> str:
    """Text with a visible escape in place of every character that cannot be seen, or that turns the text around."""
    return "\n".join(
        line if line.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)
        for line in text.split("\n")
    )
