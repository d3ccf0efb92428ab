"""What of a conversion is done: files inside the folder being written that name its finished parts."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from typing import Any, Final

from ..errors import UniRecordError
from ..parts.manifest import PartEntry, part_id, part_name
from ..storage import local as store
from ..storage.registry import location_of, read_file
from ..storage.staged import StagedFile

__all__ = ["JOURNAL_FILE", "Journal", "begins_anew", "entry_from_json", "entry_to_json"]

_MOST_BYTES: Final = 1 << 30
_PLAN: Final = ".conversion.json"
_TASK: Final = re.compile(r"\.task-([0-9]{6,12})\.json")
_BEGUN: Final = re.compile(r"\.task-([0-9]{6,12})\.begun\.json")
JOURNAL_FILE: Final = re.compile(rf"{re.escape(_PLAN)}|{_TASK.pattern}|{_BEGUN.pattern}")


class Journal:
    """The journal in a folder: the plan of the conversion, and a record of each task whose parts are on disk.

    A task of several parts has another record before, of those that are finished, and of where to go on.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def begin(self, plan: dict[str, Any]) -> None:
        """Begins anew with a plan."""
        self.clear()
        self._write(_PLAN, plan)

    def plan(self) -> dict[str, Any] | None:
        """The plan, or None when there is none that can be read."""
        return self._read(_PLAN)

    def record(self, task: int, record: dict[str, Any]) -> None:
        """Says that all parts of a task are complete and on disk."""
        self._write(f".task-{task:06d}.json", record)
        self.forget_begun(task)

    def record_begun(self, task: int, record: dict[str, Any]) -> None:
        """Says that some parts of a task are complete and on disk."""
        self._write(_begun_name(task), record)

    def tasks(self) -> dict[int, dict[str, Any]]:
        """The records of finished tasks; one that cannot be read is not finished."""
        return self._records(_TASK)

    def begun_tasks(self) -> dict[int, dict[str, Any]]:
        """The records of tasks some of whose parts are finished."""
        finished = self.tasks()
        return {task: record for task, record in self._records(_BEGUN).items() if task not in finished}

    def begun(self, task: int) -> dict[str, Any] | None:
        """The record of a task some of whose parts are finished."""
        return self._read(_begun_name(task))

    def parts(self) -> list[str]:
        """Names of all finished parts."""
        records = [*self.tasks().values(), *self.begun_tasks().values()]
        return [part["name"] for record in records for part in record["parts"]]

    def owner(self) -> Callable[[str], bool]:
        """What tells whether a part belongs to the conversion, by its name."""
        plan = self.plan()
        try:
            dataset_id = b"" if plan is None else bytes.fromhex(plan["id"])
        except (KeyError, TypeError, ValueError):
            dataset_id = b""

        def owns(name: str) -> bool:
            number = int(name.split("-")[1])
            return bool(dataset_id) and name == part_name(number, part_id(dataset_id, number))

        return owns

    def _records(self, names: re.Pattern[str]) -> dict[int, dict[str, Any]]:
        found = {}
        for name in self._names():
            match = names.fullmatch(name)
            record = self._read(name) if match else None
            if match and record is not None:
                found[int(match[1])] = record
        return found

    def forget(self, task: int) -> None:
        """Takes a task for unfinished."""
        store.clear(os.path.join(self.folder, f".task-{task:06d}.json"))

    def forget_begun(self, task: int) -> None:
        """Takes a task for one of which no part is finished."""
        store.clear(os.path.join(self.folder, _begun_name(task)))

    def clear(self) -> None:
        """Removes the journal, the plan last."""
        for name in sorted(self._names(), reverse=True):
            store.clear(os.path.join(self.folder, name))

    def _names(self) -> list[str]:
        try:
            names = location_of(self.folder).names(self.folder)
        except FileNotFoundError:
            return []
        return [name for name in names if JOURNAL_FILE.fullmatch(name)]

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
            found = json.loads(read_file(os.path.join(self.folder, name), _MOST_BYTES))
        except (OSError, ValueError, UniRecordError):
            return None
        return found if isinstance(found, dict) else None


def begins_anew(dropped: int) -> str:
    """What a user is told of finished parts of a stopped conversion that were given up."""
    parts = "1 finished part" if dropped == 1 else f"{dropped:,} finished parts"
    return f"begins anew, without {parts} of a run that was stopped; resume goes on with such where nothing differs"


def _begun_name(task: int) -> str:
    return f".task-{task:06d}.begun.json"


def entry_to_json(entry: PartEntry) -> dict[str, Any]:
    """A part that is finished, of which no row has been deleted, as plain values."""
    fields = entry._asdict()
    del fields["deleted"]
    return {**fields, "id": entry.id.hex()}


def entry_from_json(value: dict[str, Any]) -> PartEntry:
    """The same back."""
    return PartEntry(**{**value, "id": bytes.fromhex(value["id"])})
