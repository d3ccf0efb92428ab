"""The journal of a long job: its plan, the tasks that are done, and how far those that began have come."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from ..errors import UniRecordError
from ..snapshot.manifest import PART_NAME, PartEntry, part_id, part_name
from ..snapshot.manifest_fields import checked_hex, checked_number
from ..storage import local as store
from ..storage.schemes import location_of, read_file
from ..storage.staged import write_staged

__all__ = [
    "COLUMNS_OF",
    "JOURNAL_FILE",
    "Journal",
    "OWN_PARTS",
    "PLAN_FILE",
    "begins_anew",
    "entry_from_json",
    "entry_to_json",
    "left_out_fields",
    "owns",
    "plan_of",
]


# What of a job is done: files inside the folder being written that name its finished parts.
#
# Whoever may write to the folder may have changed these files, so nothing in them is used that has not passed the
# checks here: a plan that does not is none, and a task whose record does not is not finished. Parts have the names
# and ids that follow from the plan's id, so that no record names a file of anything else.


_MOST_BYTES: Final = 1 << 30
_SHAPE: Final = ("blob_align", "unit_rows", "group_rows", "row_bytes")
_ENTRY: Final = set(PartEntry._fields) - {"deleted"}
_TAG: Final = r"(?:-[0-9a-f]{8})?"  # in an object store, where several conversions may be at work
# The source of a job that lays rows of its dataset out anew: nothing but time is lost with what it has finished.
OWN_PARTS: Final = "its own parts, laid out anew"
# What that of columns that are added begins with.
COLUMNS_OF: Final = "columns of "
PLAN_FILE: Final = re.compile(rf"\.conversion{_TAG}\.json")
JOURNAL_FILE: Final = re.compile(
    rf"\.conversion{_TAG}\.json|\.task{_TAG}-[0-9]{{6,12}}\.json|\.task{_TAG}-[0-9]{{6,12}}\.begun\.json"
)


class Journal:
    """The journal in a folder: the plan of the job, and a record of each task whose parts are on disk.

    The job is a conversion, columns that are added, or parts that are laid out anew. A task of several parts has
    another record before, of those that are finished, and of where to go on.
    """

    def __init__(self, folder: str, tag: str = "") -> None:
        self.folder = folder
        self.tag = tag  # what its names have besides
        self.plan_name: str = f".conversion{tag}.json"

    def begin(self, plan: dict[str, Any]) -> None:
        """Begins anew with a plan."""
        self.clear()
        self._write(self.plan_name, plan)

    def plan(self) -> dict[str, Any] | None:
        """The plan, or None when there is none that can be read."""
        return _or_none(_checked_plan, self._read(self.plan_name))

    def note_published(self, listed: Callable[[], Sequence[PartEntry]]) -> None:
        """Says so where a manifest has published the conversion, whose run died before it could say so itself.

        ``listed`` gives the parts that the manifest lists. The plan then stays alone, for who asks to go on with it,
        and owns no part any more.
        """
        plan = self.plan()
        if plan is None:
            return
        if "published" not in plan:
            own = [entry for entry in listed() if _is_new(plan, entry.name)]
            if not own:
                return
            plan["published"] = {"rows": sum(entry.rows for entry in own), "left_out": self._left_out()}
            self._write(self.plan_name, plan)
        self._clear(sorted(set(self._names()) - {self.plan_name}, reverse=True))

    def published(self) -> bool:
        """Whether what is there is of a conversion that has been published."""
        return "published" in (self.plan() or {})

    def has_published(self, listed: Callable[[], Sequence[PartEntry]]) -> bool:
        """Whether one of the parts that ``listed`` gives is among those that it names as finished, by name and content.

        That tells it from another conversion of the same id.
        """
        plan = self.plan()
        if plan is None or "published" in plan:
            return False
        own = {(entry.name, entry.content) for entry in listed() if _is_new(plan, entry.name)}
        return bool(own) and any((part["name"], part["content"]) in own for part in self._finished())

    def _left_out(self) -> list[Any]:
        return [one for _, record in sorted(self.tasks().items()) for one in record.get("left_out", [])]

    def record(self, task: int, record: dict[str, Any]) -> None:
        """Says that all parts of a task are complete and on disk."""
        self._write(self._task_name(task), record)
        self.forget_checkpoint(task)

    def record_checkpoint(self, task: int, record: dict[str, Any]) -> None:
        """Says that some parts of a task are complete and on disk."""
        self._write(self._task_name(task, ".begun"), record)

    def tasks(self) -> dict[int, dict[str, Any]]:
        """The records of finished tasks; one that cannot be read is not finished."""
        return self._records("")

    def task_checkpoints(self) -> dict[int, dict[str, Any]]:
        """The records of tasks some of whose parts are finished."""
        finished = self.tasks()
        return {task: record for task, record in self._records(".begun").items() if task not in finished}

    def begun(self, task: int) -> dict[str, Any] | None:
        """The record of a task some of whose parts are finished."""
        name = self._task_name(task, ".begun")
        return self._checked([name])[name]

    def parts(self) -> list[str]:
        """Names of all finished parts."""
        return [part["name"] for part in self._finished()]

    def _finished(self) -> list[dict[str, Any]]:
        records = [*self.tasks().values(), *self.task_checkpoints().values()]
        return [part for record in records for part in record["parts"]]

    def owner(self) -> Callable[[str], bool]:
        """What tells whether a part belongs to the conversion, by its name."""
        plan = self.plan()

        def is_own(name: str) -> bool:
            return plan is not None and "published" not in plan and owns(plan, name)

        return is_own

    def _records(self, ending: str) -> dict[int, dict[str, Any]]:
        pattern = re.compile(rf"\.task{re.escape(self.tag)}-([0-9]{{6,12}}){re.escape(ending)}\.json")
        found = {name: int(match[1]) for name in self._names() if (match := pattern.fullmatch(name))}
        records = self._checked(list(found))
        return {found[name]: record for name, record in records.items() if record is not None}

    def _checked(self, names: Sequence[str]) -> dict[str, dict[str, Any] | None]:
        """The records of these names that pass all checks; of two that name one part, the first."""
        found: dict[str, dict[str, Any] | None] = dict.fromkeys(names)
        if not names:
            return found
        plan, *records = self._read_each([self.plan_name, *names])
        plan = _or_none(_checked_plan, plan)
        known: set[str] = set()
        for name, record in zip(names, records, strict=True):
            checked = None if plan is None else _or_none(partial(_checked_record, plan), record)
            parts = {part["name"] for part in checked["parts"]} if checked is not None else set()
            if checked is not None and known.isdisjoint(parts):
                found[name] = checked
                known |= parts
        return found

    def forget(self, task: int) -> None:
        """Takes a task for unfinished."""
        self._clear([self._task_name(task)])

    def forget_checkpoint(self, task: int) -> None:
        """Takes a task for one of which no part is finished."""
        self._clear([self._task_name(task, ".begun")])

    def clear(self) -> None:
        """Removes the journal, the plan last."""
        names = self._names()
        self._clear(sorted(set(names) - {self.plan_name}, reverse=True))
        self._clear([self.plan_name] if self.plan_name in names else [])

    def _task_name(self, task: int, ending: str = "") -> str:
        return f".task{self.tag}-{task:06d}{ending}.json"

    def _names(self) -> list[str]:
        try:
            names = location_of(self.folder).names(self.folder)
        except FileNotFoundError:
            return []
        own = re.compile(rf"\.(conversion{self.tag}|task{self.tag}-[0-9]{{6,12}}(\.begun)?)\.json")
        return [name for name in names if name.startswith(".") and own.fullmatch(name)]

    def _clear(self, names: Sequence[str]) -> None:
        for name in names:
            store.clear(os.path.join(self.folder, name))

    def _read_each(self, names: Sequence[str]) -> list[dict[str, Any] | None]:
        return [self._read(name) for name in names]

    def _write(self, name: str, content: dict[str, Any]) -> None:
        # What a power cut takes back is done again.
        write_staged(os.path.join(self.folder, name), None, json.dumps(content).encode())

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            return as_object(read_file(os.path.join(self.folder, name), _MOST_BYTES))
        except (OSError, UniRecordError):
            return None


def as_object(text: bytes) -> dict[str, Any] | None:
    """What a file of a journal says; None where it does not hold an object of JSON."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def plan_of(text: bytes) -> dict[str, Any] | None:
    """The plan that a file holds; None where it is none, or says what no writer has written."""
    return _or_none(_checked_plan, as_object(text))


def _or_none(check: Callable[[Any], dict[str, Any]], found: Any) -> dict[str, Any] | None:
    try:
        return check(found)
    except (TypeError, KeyError, ValueError, UniRecordError):
        return None


def _checked_plan(plan: Any) -> dict[str, Any]:
    checked_hex(plan["id"], "id")
    checked_number(plan["first"], "first")
    files = plan["files"]
    if not (_is_texts(plan["what"]) and (_is_texts(files) or files == [])):
        raise ValueError("it does not say what is written, and of which files")
    if "to" in plan:
        checked_hex(plan["to"], "to")
    if "published" in plan:
        checked_number(plan["published"]["rows"], "rows")
        left_out_fields(plan["published"]["left_out"])
    if not all(isinstance(plan.get(name, ""), str) for name in ("state", "run")):
        raise ValueError("its state is no text")
    return dict(plan)


def _checked_record(plan: dict[str, Any], record: Any) -> dict[str, Any]:
    """The record of a task that is finished, or (with ``unit``) begun."""
    entries = [_checked_entry(plan, part) for part in record["parts"]]
    if type(record["parts"]) is not list or len({entry.name for entry in entries}) < len(entries):
        raise ValueError("it names a part twice")
    left_out_fields(record["left_out"])
    if not isinstance(record.get("of", ""), str):
        raise ValueError("it does not say what it is of")
    rows = sum(entry.rows for entry in entries)
    if "unit" not in record:
        if checked_number(record["rows"], "rows") != rows:
            raise ValueError("its parts have another number of rows")
        return dict(record)
    checked_number(record["unit"], "unit")
    shape = [checked_number(record["shape"][name], name) for name in _SHAPE]
    if checked_number(record["skip"], "skip") > rows or len(record["shape"]) != len(shape):
        raise ValueError("it goes on elsewhere than behind its parts")
    for column, content in record["dictionaries"]:
        checked_number(column, "column")
        bytes.fromhex(content)
    return dict(record)


def _checked_entry(plan: dict[str, Any], part: Any) -> PartEntry:
    """A part whose name and id are those that the conversion gives one of its parts."""
    if set(part) != _ENTRY or part["columns"] is not None:
        raise ValueError(f"a part needs the keys {sorted(_ENTRY)}")
    checked_hex(part["id"], "id of a part")
    for name in ("schema", "content"):
        checked_hex(part[name], f"{name} of a part")
    for name in ("rows", "bytes", "index_bytes"):
        checked_number(part[name], name)
    match = PART_NAME.fullmatch(part["name"])
    number = -1 if match is None else int(match[1])
    own = b"" if number < 0 else part_id(bytes.fromhex(plan["id"]), number)
    if number < plan["first"] or part["id"] != own.hex() or part["name"] != part_name(number, own):
        raise ValueError("it is no part of this conversion")
    return entry_from_json(part)


def left_out_fields(value: Any) -> list[tuple[str, str, bool, int, int, str | None]]:
    """What was left out, as a journal has it: name, reason, whether expected, rows, count, column; else ValueError."""
    if not isinstance(value, list):
        raise ValueError("left_out is no list")
    for name, reason, expected, rows, count, column in value:
        checked_number(rows, "rows")
        checked_number(count, "count")
        texts = [name, reason, *([] if column is None else [column])]
        if not all(isinstance(text, str) for text in texts) or not isinstance(expected, bool):
            raise ValueError("left_out names no sample")
    return [tuple(one) for one in value]


def _is_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


def owns(plan: dict[str, Any], name: str) -> bool:
    """Whether a part, by its name, is one of the conversion of a plan."""
    if not name.startswith("part-"):  # a list of parts
        return False
    number = int(name.split("-")[1])
    return name == part_name(number, part_id(bytes.fromhex(plan["id"]), number))


def _is_new(plan: dict[str, Any], name: str) -> bool:
    """Whether a part is one that the conversion of a plan made, and not of what was there before."""
    return owns(plan, name) and int(name.split("-")[1]) >= plan["first"]


def begins_anew(dropped: int) -> str:
    """What a user is told of finished parts of a stopped conversion that were given up."""
    parts = "1 finished part" if dropped == 1 else f"{dropped:,} finished parts"
    return f"begins anew, without {parts} of a run that was stopped; resume goes on with such where nothing differs"


def entry_to_json(entry: PartEntry) -> dict[str, Any]:
    """A part that is finished, of which no row has been deleted, as plain values."""
    fields = entry._asdict()
    del fields["deleted"]
    return {**fields, "id": entry.id.hex()}


def entry_from_json(value: dict[str, Any]) -> PartEntry:
    """The same back."""
    return PartEntry(**{**value, "id": bytes.fromhex(value["id"])})
