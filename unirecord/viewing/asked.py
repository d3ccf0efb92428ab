"""What a request asks, as typed values: a field that is wrong is refused, and said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs, urlencode

__all__ = ["Asked", "AskedWrongly", "link"]

_MOST_FIELDS: Final = 50


class AskedWrongly(Exception):
    """The request cannot be answered; ``str()`` of it says why, for whoever looks at the page."""


@dataclass(frozen=True)
class Asked:
    """The fields of a request by name, each once and not empty."""

    fields: Mapping[str, str]

    @classmethod
    def of(cls, query: str) -> Asked:
        """The fields of a URL's query; AskedWrongly for more than a page has."""
        try:
            found = parse_qs(query, errors="replace", max_num_fields=_MOST_FIELDS)
        except ValueError:
            raise AskedWrongly(f"a request has at most {_MOST_FIELDS} fields") from None
        return cls({name: values[-1] for name, values in found.items()})

    def text(self, name: str) -> str:
        """A text; empty where there is none."""
        return self.fields.get(name, "").strip()

    def number(self, name: str, default: int = 0, most: int = (1 << 63) - 1, least: int = 0) -> int:
        """A whole number, ``least`` to ``most``."""
        given = self.text(name).replace(",", "").replace("_", "")
        if not given:
            return default
        value = int(given) if given.isdecimal() and given.isascii() and len(given) <= 20 else -1
        if not least <= value <= most:
            raise AskedWrongly(f"{name}: {given[:40]!r} is no whole number of {least:,} to {most:,}")
        return value

    def one_of(self, name: str, options: Sequence[str]) -> str:
        """One of these; the first where there is none."""
        given = self.text(name) or options[0]
        if given not in options:
            raise AskedWrongly(f"{name}: {given[:40]!r} is none of {', '.join(options)}")
        return given

    def link(self, page: str, /, **changes: object) -> str:
        """The address of a page with these fields, but for ``changes``; None leaves one out."""
        return link(page, **{**self.fields, **changes})


def link(page: str, /, **fields: object) -> str:
    """The address of a page, as the pages beside it name it."""
    given = {name: str(value) for name, value in fields.items() if value not in (None, "")}
    return f"{page}?{urlencode(given, errors='replace')}" if given else page
