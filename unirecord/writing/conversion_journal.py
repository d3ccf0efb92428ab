"""What of a conversion is done: files inside the folder being written that name its finished parts."""

from __future__ import annotations

import json
import os
import re
from typing import Any, Final

from ..errors import UniRecordError
from ..parts.manifest import PartEntry
from ..storage import local as store
from ..storage.registry import location_of, read_file
from ..storage.staged import StagedFile

__all__ = ["JOURNAL_FILE", "Journal", "entry_from_json", "entry_to_json"]

_MOST_BYTES: Final = 1 << 30
_PLAN: Final = ".conversion.json"
_TASK: Final = re.compile(r"\.task-([0-9]{6,12})\.json")
JOURNAL_FILE: Final = re.compile(rf"{re.escape(_PLAN)}|{_TASK.pattern}")


class Journal:
    """The journal in a folder: the plan of the conversion, and a record of each task whose parts are on disk."""

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
        """Says that the parts of a task are complete and on disk."""
        self._write(f".task-{task:06d}.json", record)

    def tasks(self) -> dict[int, dict[str, Any]]:
        """The records of finished tasks; one that cannot be read is not finished."""
        found = {}
        for name in self._names():
            match = _TASK.fullmatch(name)
            record = self._read(name) if match else None
            if match and record is not None:
                found[int(match[1])] = record
        return found

    def forget(self, task: int) -> None:
        """Takes a task for unfinished."""
        store.clear(os.path.join(self.folder, f".task-{task:06d}.json"))

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
            staged.publish()
        finally:
            staged.discard()

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            found = json.loads(read_file(os.path.join(self.folder, name), _MOST_BYTES))
        except (OSError, ValueError, UniRecordError):
            return None
        return found if isinstance(found, dict) else None


def entry_to_json(entry: PartEntry) -> dict[str, Any]:
    """A part of the manifest as plain values."""
    return {**vars(entry), "id": entry.id.hex()}


def entry_from_json(value: dict[str, Any]) -> PartEntry:
    """The same back."""
    return PartEntry(**{**value, "id": bytes.fromhex(value["id"])})
