"""The journal of a job that writes to an object store: whose it is, and an object for each task."""

from __future__ import annotations

import json
import posixpath
import secrets
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..errors import StaleError, UniRecordError
from ..format import layout
from ..snapshot.manifest import PART_NAME, PartEntry
from ..storage.location import Location
from ..storage.object_store import ObjectWrites, Outrun, Versioned
from .journal import COLUMNS_OF, OWN_PARTS, PLAN_FILE, Journal, as_object, owns, plan_of

__all__ = [
    "NOT_KNOWN",
    "ObjectJournal",
    "StoredPlan",
    "Plans",
    "how_it_ends",
    "is_of",
    "kind_of",
    "say",
    "tag_of",
    "uploaded",
]


# The journal of a job that writes to an object store: objects beside the parts, one for each task.


class ObjectJournal(Journal):
    """The journal at a URL, of one of the jobs that may be at work there; picklable.

    What the store does not answer is an OSError: a record that cannot be read is not taken for one that is not there.
    """

    def __init__(self, url: str, tag: str, writes: ObjectWrites) -> None:
        super().__init__(url, tag)
        self._writes = writes

    def _write(self, name: str, content: dict[str, Any]) -> None:
        self._writes.put(posixpath.join(self.folder, name), json.dumps(content).encode())

    def _read(self, name: str) -> dict[str, Any] | None:
        return self._read_each([name])[0]

    def _read_each(self, names: Sequence[str]) -> list[dict[str, Any] | None]:
        urls = [posixpath.join(self.folder, name) for name in names]
        found = self._writes.read_each(urls)
        return [None if one is None else as_object(one.content) for one in found]

    def _clear(self, names: Sequence[str]) -> None:
        left = self._writes.delete([posixpath.join(self.folder, name) for name in names])
        if left:
            raise OSError(f"{left[0]}: the store did not say that this was deleted")


def tag_of(dataset_id: bytes) -> str:
    """What the names of the journal of a conversion have besides, of the id of what it writes."""
    return f"-{dataset_id[:4].hex()}"


def uploaded(location: Location, folder: str, entries: Sequence[PartEntry]) -> set[str]:
    """The names of those parts both of whose files are there: of the right length, id and digest of the content.

    Asked at once of all: the beginning of each file tells. OSError when the store does not say.
    """
    wanted = [
        (posixpath.join(folder, entry.name + ending), size)
        for entry in entries
        for ending, size in (("", layout.HEADER_BYTES), (".idx", layout.INDEX_HEADER_BYTES))
    ]
    heads = location.read_heads(wanted)
    whole = set()
    for entry, data, index in zip(entries, heads[::2], heads[1::2], strict=True):
        for found in (data, index):
            if isinstance(found, BaseException) and not isinstance(
                found, (FileNotFoundError, UniRecordError)
            ):
                raise found
        if isinstance(data, tuple) and isinstance(index, tuple) and _is_part(entry, data, index):
            whole.add(entry.name)
    return whole


def _is_part(entry: PartEntry, data: tuple[bytes, int], index: tuple[bytes, int]) -> bool:
    try:
        of_data = layout.unpack_file_header(bytes(data[0])[: layout.HEADER_BYTES])
        of_index = layout.unpack_index_header(bytes(index[0])[: layout.INDEX_HEADER_BYTES])
    except UniRecordError:
        return False
    same = of_data.id == entry.id == of_index.id and of_index.content_digest.hex() == entry.content
    return same and (data[1], index[1], of_index.rows) == (entry.bytes, entry.index_bytes, entry.rows)


# Whose a job that writes to an object store is: its plan, which each run takes over by a conditional put.


NOT_KNOWN: Final = "of which it is not known whether they are published"
_SHOWN: Final = 3


def kind_of(plan: Mapping[str, Any]) -> str:
    """What a job is, by its plan."""
    if _is_rewrite(plan):
        return "a rewrite (compact, reshard or sort)"
    of_columns = str(plan["what"].get("the source")).startswith(COLUMNS_OF)
    return "a call that adds columns" if of_columns else "a conversion"


def how_it_ends(plan: Mapping[str, Any]) -> str:
    """How a job that was stopped is gone on with, and when what it has left goes."""
    goes = (
        "with `unirecord gc`, once it is old"
        if _is_rewrite(plan)
        else "when a whole dataset is published there"
    )
    return f"the same with --resume (resume=True in Python) goes on with it; it goes {goes}"


def _is_rewrite(plan: Mapping[str, Any]) -> bool:
    return bool(plan["what"].get("the source") == OWN_PARTS)


@dataclass
class StoredPlan:
    """The plan of a job in an object store, as it was read or put last.

    Each run that goes on with the job, and who gives it up, puts it anew on the condition that it is still what
    it was: of two at once, one does, and the other is told by an `Outrun`. So nobody deletes what another publishes.
    """

    url: str
    content: dict[str, Any]
    version: Versioned

    @classmethod
    def begin(cls, url: str, content: dict[str, Any], writes: ObjectWrites) -> StoredPlan:
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
        """Goes on with the job; StaleError when another run does, or has ended it, since it was read."""
        try:
            self.put("publishing" if self.may_be_published else "begun", writes)
        except Outrun as error:
            what = (
                "has just ended it or given it up" if error.now is None else "goes on with it at this moment"
            )
            raise StaleError(f"{self.url}: another run of the same {what}; nothing was changed") from None


def _encoded(content: dict[str, Any], state: str) -> bytes:
    return json.dumps({**content, "state": state, "run": secrets.token_hex(8)}).encode()


def _among(names: Iterable[str], folder: str, writes: ObjectWrites) -> list[StoredPlan]:
    """The plans of all conversions that are at work in a directory, or have been stopped there."""
    urls = [posixpath.join(folder, name) for name in sorted(names) if PLAN_FILE.fullmatch(name)]
    found = []
    for url, version in zip(urls, writes.read_each(urls), strict=True):
        content = None if version is None else plan_of(version.content)
        if version is not None and content is not None:
            found.append(StoredPlan(url, content, version))
    return found


class Plans:
    """The conversions that are at work in a directory, or were stopped there, and that which one claim is a run of."""

    def __init__(self, path: str, names: Iterable[str], writes: ObjectWrites) -> None:
        self._path, self._writes = path, writes
        self.there: list[StoredPlan] = _among(names, path, writes)
        self.own: StoredPlan | None = None

    def begin(self, plan: dict[str, Any], journal: Journal) -> None:
        """Begins a conversion."""
        self.own = StoredPlan.begin(posixpath.join(self._path, journal.plan_name), plan, self._writes)

    def earlier(self, what: dict[str, str], *, same_source: bool) -> dict[str, Any] | None:
        """The plan of a stopped job: of one that does ``what``, or else of another that is there; or None.

        ``same_source``: only of one that writes what is in the same source.
        """
        plans = [plan.content for plan in self.there if not plan.is_given_up]
        same = [plan for plan in plans if plan["what"] == what]
        if same_source:
            plans = [plan for plan in plans if plan["what"].get("the source") == what["the source"]]
        return next(iter(same or plans), None)

    def go_on(self, plan: dict[str, Any]) -> StoredPlan:
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
                f"{self._path}: another run has gone on with the same, or has given it up, while this one was "
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
            how = how_it_ends(self.own.content)
            say(self._path, [], f"its parts stay, since the store does not answer ({error}); {how}")
            return False
        return True

    def give_up(self, plan: StoredPlan, names: Iterable[str]) -> list[str] | None:
        """Ends a conversion that was stopped: which of these objects are its parts', to be deleted.

        None when a run has gone on with it since it was looked at.
        """
        try:
            plan.put("given up", self._writes)
        except Outrun:
            return None
        return [name for name in sorted(names) if is_of(plan, name)]


def is_of(plan: StoredPlan, name: str) -> bool:
    """Whether an object is one of the two of a part of that conversion."""
    part = name.removesuffix(".idx")
    return PART_NAME.fullmatch(part) is not None and owns(plan.content, part)


def say(path: str, names: Sequence[str], what: str) -> None:
    """A line on stderr: an error is on its way, or all is well but for what is left."""
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else "")
    if sys.stderr is not None:
        print(f"unirecord: {path}: {shown + ', ' if shown else ''}{what}", file=sys.stderr)
