"""Whose a conversion to an object store is: its plan, which each run takes over by a conditional put."""

from __future__ import annotations

import json
import posixpath
import secrets
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..errors import StaleError
from ..parts.manifest import PART_NAME
from ..storage.object_writes import ObjectWrites, Outrun, Versioned
from .conversion_journal import PLAN_FILE, Journal, owns, plan_of
from .object_journal import ObjectJournal

__all__ = ["ENDS_IT", "NOT_KNOWN", "STOPPED", "Plan", "Plans", "is_of", "say"]

ENDS_IT: Final = (
    "the same command with --resume goes on with it; it goes when a whole dataset is published there"
)
STOPPED: Final = f"a conversion that is at work, or was stopped: {ENDS_IT}"
NOT_KNOWN: Final = "of which it is not known whether they are published"
_SHOWN: Final = 3


@dataclass
class Plan:
    """The plan of a conversion in an object store, as it was read or put last.

    Each run that goes on with the conversion, and who gives it up, puts it anew on the condition that it is still what
    it was: of two at once, one does, and the other is told by an `Outrun`. So nobody deletes what another publishes.
    """

    url: str
    content: dict[str, Any]
    version: Versioned

    @classmethod
    def begin(cls, url: str, content: dict[str, Any], writes: ObjectWrites) -> Plan:
        """Puts the first one."""
        return cls(url, content, writes.put_if(url, _encoded(content, "begun"), None))

    @property
    def is_given_up(self) -> bool:
        """Whether its parts are being deleted, so that nobody goes on with them."""
        return self.content.get("state") == "given up"

    @property
    def may_be_published(self) -> bool:
        """Whether a run has been about to publish."""
        return self.content.get("state") == "publishing"

    @property
    def id(self) -> bytes:
        """The id of the dataset, or of the rows that are appended."""
        return bytes.fromhex(self.content["id"])

    def journal(self, writes: ObjectWrites) -> ObjectJournal:
        """The journal that it is the plan of."""
        folder, name = posixpath.split(self.url)
        return ObjectJournal(folder, name.removeprefix(".conversion").removesuffix(".json"), writes)

    def put(self, state: str, writes: ObjectWrites) -> None:
        """Says what is going on, as this run, unless another one has said something since; `Outrun` then."""
        text = _encoded(self.content, state)
        self.version = writes.put_if(self.url, text, self.version)
        self.content = json.loads(text)

    def take(self, writes: ObjectWrites) -> None:
        """Goes on with the conversion; StaleError when another run does, or has ended it, since it was read."""
        try:
            self.put("publishing" if self.may_be_published else "begun", writes)
        except Outrun as error:
            what = (
                "has just ended it or given it up" if error.now is None else "goes on with it at this moment"
            )
            raise StaleError(
                f"{self.url}: another run of this conversion {what}; nothing was changed"
            ) from None


def _encoded(content: dict[str, Any], state: str) -> bytes:
    return json.dumps({**content, "state": state, "run": secrets.token_hex(8)}).encode()


def _among(names: Iterable[str], folder: str, writes: ObjectWrites) -> list[Plan]:
    """The plans of all conversions that are at work in a directory, or have been stopped there."""
    urls = [posixpath.join(folder, name) for name in sorted(names) if PLAN_FILE.fullmatch(name)]
    found = []
    for url, version in zip(urls, writes.read_each(urls), strict=True):
        content = None if version is None else plan_of(version.content)
        if version is not None and content is not None:
            found.append(Plan(url, content, version))
    return found


class Plans:
    """The conversions that are at work in a directory, or were stopped there, and that which one claim is a run of."""

    def __init__(self, path: str, names: Iterable[str], writes: ObjectWrites) -> None:
        self._path, self._writes = path, writes
        self.there: list[Plan] = _among(names, path, writes)
        self.own: Plan | None = None

    def begin(self, plan: dict[str, Any], journal: Journal) -> None:
        """Begins a conversion."""
        self.own = Plan.begin(posixpath.join(self._path, journal.plan_name), plan, self._writes)

    def earlier(self, what: dict[str, str]) -> dict[str, Any] | None:
        """The plan of a stopped conversion: of one that does ``what``, or else of another that is there; or None."""
        plans = [plan.content for plan in self.there if not plan.is_given_up]
        same = [plan for plan in plans if plan.get("what") == what]
        return next(iter(same or plans), None)

    def go_on(self, plan: dict[str, Any]) -> Plan:
        """Takes a conversion over; StaleError when another run has."""
        [found] = [one for one in self.there if one.content is plan]
        found.take(self._writes)
        self.own = found
        return found

    def publishing(self) -> None:
        """Lets the plan say that parts are being published: from then on nobody gives them up."""
        if self.own is None:
            return
        try:
            self.own.put("publishing", self._writes)
        except Outrun:
            raise StaleError(
                f"{self._path}: another run has gone on with this conversion, or has given it up, while this one was "
                "at work; nothing of this one was published"
            ) from None

    def give_up_own(self) -> bool:
        """Lets the plan say that its parts are being deleted; False when they are not this run's to delete."""
        if self.own is None:
            return True
        try:
            self.own.put("given up", self._writes)
        except Outrun as error:
            now = None if error.now is None else plan_of(error.now.content)
            return now is None or now.get("state") == "given up"
        except OSError as error:
            say(self._path, [], f"its parts stay, since the store does not answer ({error}); {ENDS_IT}")
            return False
        return True

    def give_up(self, plan: Plan, names: Iterable[str]) -> list[str] | None:
        """Ends a conversion that was stopped: which of these objects are its parts', to be deleted.

        None when a run has gone on with it since it was looked at.
        """
        try:
            plan.put("given up", self._writes)
        except Outrun:
            return None
        return [name for name in sorted(names) if is_of(plan, name)]


def is_of(plan: Plan, name: str) -> bool:
    """Whether an object is one of the two of a part of that conversion."""
    part = name.removesuffix(".idx")
    return PART_NAME.fullmatch(part) is not None and owns(plan.content, part)


def say(path: str, names: Sequence[str], what: str) -> None:
    """A line on stderr: an error is on its way, or all is well but for what is left."""
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else "")
    if sys.stderr is not None:
        print(f"unirecord: {path}: {shown + ', ' if shown else ''}{what}", file=sys.stderr)
