"""Adds columns to a directory: a column part beside each part, made of its rows by a function, or found in a table."""

from __future__ import annotations

import os
import secrets
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ..errors import StaleError, TransformError, UniRecordError
from ..format.metadata import pack_user
from ..format.schema import Schema
from ..parts import manifest
from ..parts.layouts import ColumnFile, column_part_metadata
from ..parts.manifest import Manifest, PartEntry
from ..parts.part_set import resolve
from ..parts.readable import check_readable
from ..parts.rearranging import rearranged, state_of_entry
from ..parts.snapshot import state_of_part
from ..parts.versions import no_directory
from ..progress import Progress, Tracker
from ..storage.registry import location_of, path_of_dataset
from ..storage.storage_options import use_storage
from ..writing.arguments import storage_to_write_to
from ..writing.changing_columns import as_columns_change
from ..writing.conversion_journal import entry_from_json, entry_to_json
from ..writing.part_writer import PartContent, PartSequence
from ..writing.publisher import Publisher, open_publisher
from ..writing.row_groups import shape_without_rows
from .column_wish import ColumnWish, MadeColumns
from .conversion import Interrupted
from .sources.left_out import LeftOut, warn_of_left_out
from .task import Job, run_task
from .worker_pool import run_in_workers

__all__ = ["ColumnsAdded", "add_columns"]

_WHOLE: Final = 1 << 62  # bytes: a column part has all rows of its part


@dataclass(frozen=True)
class ColumnsAdded:
    """What `unirecord.add_columns` has done.

    Attributes:
        version: the version with the new columns.
        columns: the names of all columns, in order.
        rows: how many rows have got values.
        parts: how many column parts have been written.
        resumed: how many of them an earlier run had finished.
        without: rows that the table has no values for, which are null there.
        unused: rows of the table that no row of the dataset goes with.
        said: what else is other than before, or did not follow the change; a sentence each, also warned of.
    """

    version: int
    columns: tuple[str, ...]
    rows: int
    parts: int
    resumed: int = 0
    without: int = 0
    unused: int = 0
    said: tuple[str, ...] = ()


def add_columns(
    path: str | os.PathLike[str],
    columns: Mapping[str, Any] | Schema | Sequence[str] | None,
    values: Any,
    *,
    key: str | Sequence[str] | None = None,
    reads: Sequence[str] | None = None,
    index: Sequence[str] = (),
    replace: bool = False,
    keep: bool = False,
    batch_size: int | None = None,
    workers: int = 1,
    resume: bool = False,
    progress: Progress | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> ColumnsAdded:
    """Adds columns to the directory at ``path``, as the next version; its files stay as they are (docs/growing.md).

    Beside each part a column part is written, with the same rows and only the new columns. Rows keep their numbers, and
    every order and state stays as it is. Others may append meanwhile: their rows get values too, before this publishes.

    Args:
        path: a directory of parts, also in an object store.
        columns: the new columns, as for `Writer`: ``{"caption": "text"}``. Of a table also a list of names, or None for
            all of its columns but the key, with the types that are found there.
        values: a function, called with a batch of rows (a dict of columns, as ``read_rows`` gives it), which returns a
            dict of the new columns, each with as many values; or a table: whatever ``unirecord write`` or
            `write_dataset` reads, a path or an object.
        key: of a table: the column, or columns, by whose values its rows and those of the dataset go together; each key
            is in the table once. Without it the table has as many rows as the dataset, in the same order.
        reads: of a function: the columns that it is given; all by default.
        index: scalar columns of the new ones to be looked up by value, as for `Writer`.
        replace: columns that are there already get the new values, in their places; those that were looked up by value
            still are, and annotations stay unless others are given. A warning says what does not follow.
        keep: of a table with a key: in columns that are replaced, rows that it has no row for keep their values.
        batch_size: rows that a function is called with at a time; by default about 8 MiB of them, 4,096 at most.
        workers: processes that write column parts at the same time.
        resume: go on with what the same call has left when it was stopped.
        progress: called with (rows done, rows in all).
        storage_options: how an object store is reached, as for `UniRecordDataset`.

    Raises:
        SchemaError: a column is there already, values do not fit, or the table lacks a key of a column without nulls.
        TransformError: the function raised; ``__cause__`` is what it raised.
        MissingError: there is no directory of parts, or no table.
        StaleError: another writer has changed the columns, or the dataset, meanwhile; nothing of this was published.
        BusyError: another run of the same call is at work, with ``resume``.
        UniRecordError: the directory is in storage that is only read.
        ValueError: a wrong argument.
    """
    folder = path_of_dataset(os.fspath(path))
    if type(workers) is not int or workers < 1:
        raise ValueError(f"workers is a number of processes, 1 or more, got {workers!r}")
    if batch_size is not None and (type(batch_size) is not int or batch_size < 1):
        raise ValueError(f"batch_size is a number of rows, 1 or more, got {batch_size!r}")
    is_function = callable(values) and not isinstance(values, type)
    if is_function and key is not None:
        raise ValueError("key= is of a table, and a function was given")
    if not is_function and reads is not None:
        raise ValueError("reads= is of a function, and a table was given")
    if keep and (not replace or key is None):
        raise ValueError(
            "keep=True is of a table with key=, whose columns replace those that are there: replace=True"
        )
    with use_storage(storage_to_write_to(folder, storage_options)):
        if not location_of(folder).is_directory(folder):
            raise no_directory(folder, ", and only those can have columns added")
        wish = ColumnWish(folder, columns, values, key, reads, tuple(index), replace, batch_size, keep)
        run = _Run(wish, workers, progress)
        added = run.run(resume=resume)
    for said in added.said:
        warnings.warn(f"{folder}: {said}", stacklevel=2)
    warn_of_left_out(run.left_out, "the table", 2)
    return added


class _More(Exception):
    """Others have published parts meanwhile that have no column parts yet."""


class _Run:
    """One run: column parts of all parts that are there, until none is without when it publishes."""

    def __init__(self, wish: ColumnWish, workers: int, progress: Progress | None) -> None:
        self._wish, self._workers, self._progress = wish, workers, progress
        self._made: dict[str, PartEntry] = {}  # column parts, by what their parts are (`state_of_part`)
        self._resumed: set[str] = set()  # of them, those that an earlier run made
        self._tasks = 0
        self.left_out: tuple[LeftOut, ...] = ()  # of the table

    def run(self, *, resume: bool) -> ColumnsAdded:
        wish = self._wish
        if wish.is_function and self._workers > 1 and getattr(wish.values, "__module__", "") == "__main__":
            raise ValueError(
                "the function is defined in the script that runs, where worker processes do not find it: put it into a "
                "module of its own, or use workers=1"
            )
        made = wish.source(resolve(wish.folder))
        own = secrets.token_bytes(16)
        claim = open_publisher(
            wish.folder, own, overwrite=False, append=True, unfinished="resume" if resume else "drop"
        )
        begun = False
        try:
            claim.keep()
            plan = self._begin(claim, made, own, resume=resume)
            begun = True
            while True:
                self._write(claim, plan, made)
                try:
                    added = self._publish(claim, made)
                    self.left_out = made.left_out
                    return added
                except _More:
                    made.source.done()
                    made = wish.source(resolve(wish.folder), again=True)
        except BaseException as error:
            if begun:
                self._give_up(claim, error)
            else:  # what an earlier run has left is not this one's
                claim.suspend()
            raise
        finally:
            made.source.done()

    # ---- writing -------------------------------------------------------------------------------------------

    def _begin(self, claim: Publisher, made: MadeColumns, own: bytes, *, resume: bool) -> dict[str, Any]:
        """The plan of this run, or of the one that it goes on with, whose column parts are taken over."""
        assert claim.before is not None
        what = made.what
        plan = claim.earlier(what) if resume else None
        if plan is not None and "published" not in plan:
            differs = [name for name in what if plan["what"].get(name) != what[name]]
            if differs:
                raise StaleError(
                    f"{self._wish.folder}: what an earlier call has left is of another one: {differs[0]} differ; "
                    "without resume it begins anew"
                )
            claim.go_on(plan)
            self._take_over(claim, plan)
            return plan
        states = [state_of_part(made.source.snapshot, part) for part in made.source.snapshot.parts]
        plan = {
            "id": own.hex(),
            "first": claim.before.next_part,
            "what": what,
            "files": [],
            "columns_of": states,
        }
        claim.begin(plan)
        return plan

    def _take_over(self, claim: Publisher, plan: dict[str, Any]) -> None:
        of, records = plan.get("columns_of", []), claim.journal.tasks()
        entries = {
            task: entry_from_json(record["parts"][0])
            for task, record in records.items()
            if len(record["parts"]) == 1
        }
        whole = claim.whole(list(entries.values()))
        for task, entry in entries.items():
            if task < len(of) and entry.name in whole:
                self._made[of[task]] = entry
                self._resumed.add(of[task])
            else:
                claim.journal.forget(task)
        self._tasks = len(of)

    def _write(self, claim: Publisher, plan: dict[str, Any], made: MadeColumns) -> None:
        """The column parts of all parts of the source that have none yet."""
        folder, source, snapshot = self._wish.folder, made.source, made.source.snapshot
        parts = snapshot.parts
        states = [state_of_part(snapshot, part) for part in parts]
        planned = {part: number for number, part in enumerate(plan.get("columns_of", []))}
        self._tasks = max(self._tasks, len(planned))
        numbers: list[int] = []  # of the task of each part
        for state in states:
            number = planned.get(state)
            if number is None:
                number, self._tasks = self._tasks, self._tasks + 1
            numbers.append(number)
        tasks = [(0, 0)] * self._tasks
        for unit, number in enumerate(numbers):
            tasks[number] = (unit, unit + 1)
        job = Job(
            source,
            PartContent(made.schema, made.index, pack_user(column_part_metadata())),
            tuple(tasks),
            claim.folder,
            bytes.fromhex(plan["id"]),
            plan["first"],
            _WHOLE,
            os.path.join(folder, manifest.NAME),
            claim.place,
            claim.deliver,
            claim.journal,
        )
        of = dict(zip(numbers, states, strict=True))
        tracker = Tracker(sum(part.rows for part in parts), self._progress)
        tracker.advance(
            sum(part.rows for part, state in zip(parts, states, strict=True) if state in self._made)
        )
        waiting = [number for number in numbers if of[number] not in self._made]
        empty = [number for number in waiting if not parts[tasks[number][0]].rows]
        for number in empty:
            self._made[of[number]] = _write_empty(job, number)
        waiting = [number for number in waiting if number not in empty]

        def done(task: int, record: dict[str, Any]) -> None:
            self._made[of[task]] = entry_from_json(record["parts"][0])

        if self._workers > 1 and len(waiting) > 1:
            run_in_workers(
                job, waiting, self._workers, claim.lock_number(),
                lambda task, rows, size, part: tracker.advance(rows), done,
            )  # fmt: skip
            return
        for task in waiting:
            done(task, run_task(job, task, lambda rows, size, part: tracker.advance(rows)))

    # ---- publishing ----------------------------------------------------------------------------------------

    def _publish(self, claim: Publisher, made: MadeColumns) -> ColumnsAdded:
        schema, folder = made.schema, self._wish.folder
        after: Manifest | None = None

        def with_columns(before: Manifest | None) -> bytes:
            nonlocal after
            assert before is not None
            entries = {part.id: self._made.get(state_of_entry(before, part)) for part in before.parts}
            files = {
                part: ColumnFile(entry.name, entry.id, entry.bytes, entry.index_bytes, entry.content)
                for part, entry in entries.items()
                if entry is not None
            }
            if len(files) < len(entries):
                raise _More
            for part in before.parts:
                entry = entries[part.id]
                if entry is not None and entry.rows != part.rows:
                    raise StaleError(
                        f"{folder}: what is there for {part.name} has {entry.rows:,} rows, and the part {part.rows:,}; "
                        "without resume it begins anew"
                    )
            whole, places = _placed(before.schema, schema)
            stays = [name for name in before.index if name not in schema or name in made.index]
            changed = replace(
                rearranged(before, whole, places, schema, files),
                index=(*stays, *(name for name in made.index if name not in stays)),
                next_part=max([before.next_part, *(_number(entry) + 1 for entry in self._made.values())]),
            )
            after = as_columns_change(changed, before, "add-columns", folder)
            text = manifest.encode(after)
            manifest.decode(text, os.path.join(folder, manifest.NAME))
            return text

        there = {state_of_part(made.source.snapshot, part) for part in made.source.snapshot.parts}
        gone = [state for state in self._made if state not in there]  # laid out anew, or replaced, meanwhile
        claim.clear([self._made.pop(state).name for state in gone])
        check_readable(claim.place, schema, claim.not_opened(list(self._made.values())))
        claim.publish(with_columns)
        claim.release()
        assert after is not None
        return ColumnsAdded(
            after.generation,
            after.schema.names,
            after.rows - after.deleted,
            len(self._made),
            len(self._resumed & self._made.keys()),
            made.without,
            made.unused,
            made.said,
        )

    def _give_up(self, claim: Publisher, error: BaseException) -> None:
        """Leaves finished column parts to a later run where that can go on; Ctrl-C then says how."""
        wrong_data = isinstance(error, UniRecordError) and type(error) not in (UniRecordError, TransformError)
        if claim.published or wrong_data or not self._made:
            claim.abandon()
            return
        claim.suspend()
        kept = (
            f"nothing was published, and {len(self._made):,} finished column parts are kept: the same with --resume "
            "(resume=True in Python) goes on, without it begins anew"
        )
        if isinstance(error, KeyboardInterrupt):
            raise Interrupted(f"interrupted; {kept}") from None
        if isinstance(error, TransformError):
            raise TransformError(f"{error}; {kept}") from error.__cause__


def _number(entry: PartEntry) -> int:
    return int(entry.name.split("-")[1])


def _placed(before: Schema, added: Schema) -> tuple[Schema, list[int]]:
    """The columns that there are then, and where each is: behind those of before, the added ones by their number."""
    new = {column.name: (column, len(before) + place) for place, column in enumerate(added)}
    both = [new.get(column.name, (column, place)) for place, column in enumerate(before)]
    columns, places = [column for column, _ in both], [place for _, place in both]
    for place, column in enumerate(added):
        if column.name not in before:
            columns.append(column)
            places.append(len(before) + place)
    return Schema(columns).plain(), places


def _write_empty(job: Job, task: int) -> PartEntry:
    parts = PartSequence(
        job.folder,
        job.dataset_id,
        lambda i: job.part_number(task, i),
        job.max_part_bytes,
        job.like,
        job.deliver,
    )
    try:
        parts.write_empty(job.content, shape_without_rows(job.content.schema))
    except BaseException:
        parts.discard()
        raise
    [entry] = parts.entries
    job.journal.record(task, {"rows": 0, "parts": [entry_to_json(entry)], "left_out": []})
    return entry
