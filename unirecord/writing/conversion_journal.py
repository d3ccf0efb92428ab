"""What of a conversion is done: files inside the folder being written that name its finished parts."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from ..errors import UniRecordError
from ..parts.manifest import PartEntry, part_id, part_name
from ..storage import local as store
from ..storage.registry import location_of, read_file
from ..storage.staged import StagedFile

__all__ = [
    "JOURNAL_FILE",
    "PLAN_FILE",
    "Journal",
    "as_object",
    "begins_anew",
    "entry_from_json",
    "entry_to_json",
    "owns",
]

_MOST_BYTES: Final = 1 << 30
_TAG: Final = r"(?:-[0-9a-f]{8})?"  # in an object store, where several conversions may be at work
PLAN_FILE: Final = re.compile(rf"\.conversion{_TAG}\.json")
JOURNAL_FILE: Final = re.compile(
    rf"\.conversion{_TAG}\.json|\.task{_TAG}-[0-9]{{6,12}}\.json|\.task{_TAG}-[0-9]{{6,12}}\.begun\.json"
)


class Journal:
    """The journal in a folder: the plan of the conversion, and a record of each task whose parts are on disk.

    A task of several parts has another record before, of those that are finished, and of where to go on.
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
        return self._read(self.plan_name)

    def settle(self, listed: Sequence[PartEntry]) -> None:
        """Says so where a manifest that lists these parts has published the conversion, whose run died before it could.

        The plan then stays alone, for who asks to go on with it, and owns no part any more.
        """
        plan = self.plan()
        if plan is None:
            return
        if "published" not in plan:
            own = [entry for entry in listed if _is_new(plan, entry.name)]
            if not own:
                return
            plan["published"] = {"rows": sum(entry.rows for entry in own), "left_out": self._left_out()}
            self._write(self.plan_name, plan)
        self._clear(sorted(set(self._names()) - {self.plan_name}, reverse=True))

    def published(self) -> bool:
        """Whether what is there is of a conversion that has been published."""
        return "published" in (self.plan() or {})

    def has_published(self, listed: Sequence[PartEntry]) -> bool:
        """Whether one of these parts is among those that it names as finished, by name and content.

        That tells it from another conversion of the same id.
        """
        plan = self.plan()
        if plan is None or "published" in plan:
            return False
        own = {(entry.name, entry.content) for entry in listed if _is_new(plan, entry.name)}
        return bool(own) and any((part["name"], part["content"]) in own for part in self._finished())

    def _left_out(self) -> list[Any]:
        return [one for _, record in sorted(self.tasks().items()) for one in record.get("left_out", [])]

    def record(self, task: int, record: dict[str, Any]) -> None:
        """Says that all parts of a task are complete and on disk."""
        self._write(self._task_name(task), record)
        self.forget_begun(task)

    def record_begun(self, task: int, record: dict[str, Any]) -> None:
        """Says that some parts of a task are complete and on disk."""
        self._write(self._task_name(task, ".begun"), record)

    def tasks(self) -> dict[int, dict[str, Any]]:
        """The records of finished tasks; one that cannot be read is not finished."""
        return self._records("")

    def begun_tasks(self) -> dict[int, dict[str, Any]]:
        """The records of tasks some of whose parts are finished."""
        finished = self.tasks()
        return {task: record for task, record in self._records(".begun").items() if task not in finished}

    def begun(self, task: int) -> dict[str, Any] | None:
        """The record of a task some of whose parts are finished."""
        return self._read(self._task_name(task, ".begun"))

    def parts(self) -> list[str]:
        """Names of all finished parts."""
        return [part["name"] for part in self._finished()]

    def _finished(self) -> list[dict[str, Any]]:
        records = [*self.tasks().values(), *self.begun_tasks().values()]
        return [part for record in records for part in record["parts"]]

    def owner(self) -> Callable[[str], bool]:
        """What tells whether a part belongs to the conversion, by its name."""
        plan = self.plan()

        def is_own(name: str) -> bool:
            return plan is not None and "published" not in plan and owns(plan, name)

        return is_own

    def _records(self, ending: str) -> dict[int, dict[str, Any]]:
        pattern = re.compile(rf"\.task{re.escape(self.tag)}-([0-9]{{6,12}}){re.escape(ending)}\.json")
        found = {int(match[1]): name for name in self._names() if (match := pattern.fullmatch(name))}
        records = self._read_each(list(found.values()))
        return {task: record for task, record in zip(found, records, strict=True) if record is not None}

    def forget(self, task: int) -> None:
        """Takes a task for unfinished."""
        self._clear([self._task_name(task)])

    def forget_begun(self, task: int) -> None:
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
        return [name for name in names if own.fullmatch(name)]

    def _clear(self, names: Sequence[str]) -> None:
        for name in names:
            store.clear(os.path.join(self.folder, name))

    def _read_each(self, names: Sequence[str]) -> list[dict[str, Any] | None]:
        return [self._read(name) for name in names]

    def _write(self, name: str, content: dict[str, Any]) -> None:
        staged = StagedFile(os.path.join(self.folder, name))
        try:
            staged.append([json.dumps(content).encode()])
            staged.sync()
            staged.publish(durable=False)  # what a power cut takes back is done again
        finally:
            staged.discard()

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            return as_object(read_file(os.path.join(self.folder, name), _MOST_BYTES))
        except (OSError, UniRecordError):
            return None


def as_object(text: bytes) -> dict[str, Any] | None:
    """What a file of a journal says; None where it does not hold an object of JSON."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def owns(plan: dict[str, Any], name: str) -> bool:
    """Whether a part, by its name, is one of the conversion of a plan."""
    try:
        dataset_id = bytes.fromhex(plan["id"])
    except (KeyError, TypeError, ValueError):
        return False
    number = int(name.split("-")[1])
    return bool(dataset_id) and name == part_name(number, part_id(dataset_id, number))


def _is_new(plan: dict[str, Any], name: str) -> bool:
    """Whether a part is one that the conversion of a plan made, and not of what was there before."""
    return owns(plan, name) and int(name.split("-")[1]) >= plan.get("first", 0)


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
