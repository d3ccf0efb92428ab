"""Checks a dataset whole: headers, identities, every digest, every zero byte; indexes say what the data says."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from itertools import accumulate

from ..core import LeavablePool, result_of, usable_cores
from ..errors import CorruptionError, UniRecordError
from ..format import layout
from ..format.metadata import say_the_same
from ..format.values import unpack_object
from ..parts.data_file import DataFile, DataHead, DictionaryPage, RowGroup
from ..parts.dataset_path import deletion_of, resolve
from ..parts.deletions import check_deletion
from ..parts.layouts import is_column_part
from ..parts.manifest import Manifest, schema_digest
from ..parts.part_set import Decoders, PartSet
from ..progress import Progress, Tracker
from ..sizes import many
from ..storage.registry import location_of
from .content import Finding, check_group
from .history import damaged_versions
from .index_check import NONSENSE, IndexFile, check_blocks, compare_with_data, find_index
from .report import Problem, Report
from .targets import Target, targets
from .walk import Ancillary, Damage, End, Page, walk

__all__ = ["Problem", "Report", "verify"]

_REPAIR = "Run: unirecord repair"
_RESTORE = "Restore the file from a copy"
_MOST_THREADS = 8  # memory and disk are the limit beyond
_ALONE_BYTES = 256 << 20  # larger row groups are checked one at a time


def verify(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    quick: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Checks the dataset at ``path``, or all of a list of them, and reports what is wrong; files are only read.

    What is wrong with the files is in the report, never an exception. Memory is bounded by a few row groups,
    whatever the size of the dataset.

    Args:
        path: a part, a directory, or a list of these.
        quick: look at headers, identities, sizes and the manifest alone.
        threads: by default the processors that this process may use, at most 8.
        progress: called with (bytes done, bytes in all), from any thread, never from two at once.

    Raises:
        MissingError: there is nothing at ``path``, or what is no dataset.
        ValueError: the list is empty.
    """
    started = time.monotonic()
    paths = [os.fspath(p) for p in ([path] if isinstance(path, (str, os.PathLike)) else path)]
    if not paths:
        raise ValueError("path is an empty list; expected at least one part or directory")
    report = Report(", ".join(paths), quick)
    found = [targets(each) for each in paths]
    readers = [_Reader(each) for each in paths]
    parts = [
        (part, listing, reader)
        for reader, (listed, listing, _) in zip(readers, found, strict=True)
        for part in listed
    ]
    report.problems += [problem for _, _, problems in found for problem in problems]
    report.problems += [problem for each in paths for problem in _versions(each)]
    report.problems += [problem for part, _, _ in parts for problem in _deletions(part)]
    report.column_parts = sum(part.is_column_part for part, _, _ in parts)
    report.parts = len(parts) - report.column_parts
    sizes = [_size(part.path) + _size(part.path + ".idx") for part, _, _ in parts]
    tracker = Tracker(sum(sizes), progress)
    workers = threads or min(_MOST_THREADS, usable_cores())
    pool = LeavablePool(workers, "unirecord-verify")
    try:
        for (part, listing, reader), ends in zip(parts, accumulate(sizes), strict=True):
            known = len(report.problems)
            _Part(part, listing, report, tracker).check(pool, workers)
            if len(report.problems) == known:
                report.problems += reader.refuses(part)
            tracker.reach(ends)  # with what was not read: heads, ends, all behind damage
        if report.ok:
            report.problems += [problem for reader in readers for problem in reader.refuses_all()]
    finally:
        pool.leave()
        for reader in readers:
            reader.close()
    report.seconds = time.monotonic() - started
    return report


def _deletions(part: Target) -> list[Problem]:
    """What is wrong with the file that says which rows of a part have been deleted."""
    if part.entry is None:
        return []
    deletion = deletion_of(os.path.dirname(part.path), part.entry)
    try:
        if deletion is not None:
            check_deletion(deletion, part.entry.id, part.entry.rows)
    except (OSError, UniRecordError) as error:
        assert deletion is not None
        return [Problem(deletion.path, str(error), "which rows of the part have been deleted", _RESTORE)]
    return []


def _versions(path: str) -> list[Problem]:
    return [
        Problem(name, what, "which parts that version had; the newest is whole", "Remove the file")
        for name, what in damaged_versions(path)
    ]


class _Reader:
    """The dataset at a path as who reads it opens it, before it is checked; what it refuses is wrong."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._parts: PartSet | None = None
        self._why: Exception | None = None
        try:
            self._parts = PartSet(resolve(path), knows_deletions=True)
        except (OSError, UniRecordError) as error:
            self._why = error

    def refuses_all(self) -> list[Problem]:
        """Why it cannot be opened at all."""
        if self._why is None:
            return []
        place = getattr(self._why, "path", None) or self._path
        what = str(self._why).removeprefix(f"{place}: ")
        return [Problem(place, f"readers refuse it: {what}", "all rows", _RESTORE)]

    def refuses(self, target: Target) -> list[Problem]:
        """Why the part that a file is of cannot be opened; it is opened by itself where the dataset cannot be."""
        try:
            if self._parts is not None:
                _open(self._parts, target.number or 0)
                return []
            alone = PartSet(resolve(target.path))
            try:
                _open(alone, 0)
            finally:
                alone.close()
        except (OSError, UniRecordError) as error:
            place = getattr(error, "path", None) or target.path
            what = str(error).removeprefix(f"{place}: ")
            advice = _REPAIR if place.endswith(".idx") else _RESTORE
            return [
                Problem(place, f"readers refuse it: {what}", "all rows of the part", advice, target.number)
            ]
        return []

    def close(self) -> None:
        """Closes the files."""
        if self._parts is not None:
            self._parts.close()


def _open(parts: PartSet, number: int) -> None:
    """Opens a part, and reads all that its index says of it."""
    part = parts.part(number)
    for read in ("content", "stored_schema", "statistics"):
        getattr(part, read)


def _size(path: str) -> int:
    found = location_of(path).find(path)
    return 0 if found is None else found.size


class _Part:
    """The verification of one part; what it finds goes into the report."""

    def __init__(self, target: Target, listing: Manifest | None, report: Report, tracker: Tracker) -> None:
        self.target, self.listing, self.report, self.tracker = target, listing, report, tracker

    def problem(
        self, what: str, lost: str, advice: str, *, path: str | None = None, offset: int | None = None,
        row: int | None = None, column: str | None = None,
    ) -> None:  # fmt: skip
        where = path or self.target.path
        what = what.removeprefix(where + ": ")
        self.report.problems.append(
            Problem(where, what, lost, advice, self.target.number, row, column, offset)
        )

    def check(self, pool: LeavablePool, workers: int) -> None:
        """Checks the data file, and then its index."""
        try:
            with DataFile(self.target.path) as data:
                self.report.bytes += data.size
                self._check_data(data, pool, workers)
        except FileNotFoundError:
            self.problem("the data file is missing", self._all_rows(), _RESTORE)
        except UniRecordError as error:
            self.problem(str(error), self._all_rows(), _RESTORE, offset=getattr(error, "offset", None))
        except OSError as error:
            self.problem(
                f"it cannot be read ({error.strerror or error})",
                self._all_rows(),
                "Check the file's rights and the disk",
            )

    def _all_rows(self) -> str:
        entry = self.target.entry
        return f"all {many(entry.rows, 'row')} of the part" if entry is not None else "all rows of the part"

    def _check_data(self, data: DataFile, pool: LeavablePool, workers: int) -> None:
        try:
            head = data.head()
        except UniRecordError as error:
            offset = getattr(error, "offset", None)
            self.problem(str(error), self._all_rows(), _RESTORE, offset=offset)
            return
        self._check_listing(data, head)
        before = len(self.report.problems)
        end = (
            self._check_end(data, head) if self.report.quick else self._check_rows(data, head, pool, workers)
        )
        if end is not None:
            self.report.rows += 0 if self.target.is_column_part else end.rows
            entry = self.target.entry
            if entry is not None and entry.rows != end.rows:
                what = f"the part has {many(end.rows, 'row')}, the manifest says {entry.rows}"
                self.problem(what, "nothing in the files", _RESTORE, offset=end.offset)
        self._check_index(data, head, end, len(self.report.problems) == before)

    def _check_listing(self, data: DataFile, head: DataHead) -> None:
        """The part is the one that the manifest names."""
        entry = self.target.entry
        if entry is None or self.listing is None:
            return
        other = "another part stands under this name"
        if entry.id != head.header.id:
            self.problem(
                f"its id is {head.header.id.hex()}, the manifest says {entry.id.hex()}: {other}",
                self._all_rows(),
                _RESTORE,
            )
        if entry.bytes != data.size:
            what = f"the file has {data.size} bytes, the manifest says {entry.bytes}"
            self.problem(
                what, "what was cut off" if data.size < entry.bytes else "nothing", _REPAIR, offset=data.size
            )
        content = data.content_digest(head)
        if content is not None and f"{content:016x}" != entry.content:
            self.problem(
                f"its content digest is {content:016x}, the manifest says {entry.content}: {other}",
                self._all_rows(),
                _RESTORE,
            )
        expected = self.target.schema or self.listing.schema
        if schema_digest(head.schema) != entry.schema or not head.schema.says_the_same_as(expected):
            self.problem("its schema is not the dataset's", self._all_rows(), _RESTORE)
        self._check_metadata(head, self.listing)

    def _check_metadata(self, head: DataHead, listing: Manifest) -> None:
        """What a part says beside its schema is what the manifest says, or that it is a column part."""
        entry, said = self.target.entry, head.metadata
        assert entry is not None
        if self.target.is_column_part:
            if not is_column_part(said.user):
                self.problem("it does not say that it is a column part", "nothing in the files", _RESTORE)
            return
        if entry.columns is not None:  # its columns have other names now
            return
        if said.index != listing.index:
            what = f"its index columns are {list(said.index)}, the manifest says {list(listing.index)}"
            self.problem(what, "look-ups by value may be slow", _RESTORE)
        user = None if listing.metadata is None else unpack_object(listing.metadata)
        if not say_the_same(said.user, user):
            self.problem("its metadata are not those of the manifest", "the user's metadata", _RESTORE)

    def _check_end(self, data: DataFile, head: DataHead) -> End | None:
        """The end page alone, for the quick look."""
        at = data.size - layout.PAGE_HEADER_BYTES
        try:
            page = data.end_page(head)
        except CorruptionError as error:
            self.problem(
                f"{error}: it is unfinished or was cut off", "the rows behind the cut", _REPAIR, offset=at
            )
            return None
        return End(at, page.rows, page.group, page.payload_digest)

    def _check_rows(self, data: DataFile, head: DataHead, pool: LeavablePool, workers: int) -> End | None:
        end = None
        decoders = Decoders.of(data, head)
        for ordinal, why in decoders.unavailable.items():
            what = f"its values were not checked, but for their digests: {why}"
            advice = "Verify it again where it can be read"
            self.problem(what, "nothing", advice, column=head.schema[ordinal].name)
        for found, findings in _in_parallel(data, head, decoders, pool, workers):
            if isinstance(found, Damage):
                self._damage(found)
            elif isinstance(found, End):
                end = found
            elif isinstance(found, DictionaryPage):
                self.tracker.advance(found.end - found.offset)
            elif isinstance(found, Ancillary):
                if found.what is not None:
                    self.problem(found.what, "nothing that this version reads", _REPAIR, offset=found.offset)
                self.tracker.advance(found.end - found.offset)
            else:
                for finding in findings:
                    self._finding(finding)
                self.tracker.advance(found.end - found.offset)
        return end

    def _damage(self, found: Damage) -> None:
        if found.next_row is None:
            what = f"the file is unfinished or was cut off behind row {found.first_row} ({found.what})"
            lost = f"rows from {found.first_row} on, unless the index is whole"
        else:
            what, lost = (
                found.what,
                f"rows {found.first_row} to {found.next_row - 1}, unless the index is whole",
            )
            if found.next_row == found.first_row:
                lost = "nothing"
        self.problem(what, lost, _REPAIR, offset=found.offset, row=found.first_row)

    def _finding(self, found: Finding) -> None:
        if found.rows is None:
            self.problem(
                found.what,
                "nothing",
                "Writing the data again would remove it",
                offset=found.offset,
                column=found.column,
            )
            return
        first, stop = found.rows
        lost = f"row {first}" if stop == first + 1 else f"rows {first} to {stop - 1}"
        if found.each is not None:
            lost = f"{len(found.each)} of {lost}"
        lost += f", column {found.column!r}" if found.column is not None else ""
        self.problem(
            found.what,
            lost,
            f"{_REPAIR} (it keeps the other rows)",
            offset=found.offset,
            row=first,
            column=found.column,
        )

    def _check_index(self, data: DataFile, head: DataHead, end: End | None, sound: bool) -> None:
        name, why = find_index(self.target.path, head.header.id, data.content_digest(head))
        if name is None:
            self.problem(
                why, "nothing: it can be rebuilt from the data file", _REPAIR, path=self.target.path + ".idx"
            )
            return
        try:
            with location_of(name).open(name) as file:
                self.report.bytes += file.size
                self._check_index_file(IndexFile(name, file), data, head, end, sound)
        except (UniRecordError, OSError) as error:
            self._index_problem(name, str(error), getattr(error, "offset", None))
        except NONSENSE as error:
            self._index_problem(name, f"its numbers cannot be right ({error!r})", None)
        self.tracker.advance(_size(name))

    def _index_problem(self, name: str, what: str, offset: int | None) -> None:
        self.problem(what, "nothing: it can be rebuilt from the data file", _REPAIR, path=name, offset=offset)

    def _check_index_file(
        self, index: IndexFile, data: DataFile, head: DataHead, end: End | None, sound: bool
    ) -> None:
        header, entry = index.header, self.target.entry
        facts = [("length of the data file", header.data_bytes, data.size)]
        facts.append(
            ("digest of the data file's header", header.data_header_digest, head.header.header_digest)
        )
        if end is not None:
            facts += [("rows", header.rows, end.rows), ("row groups", header.groups, end.groups)]
        if entry is not None:
            facts.append(("length of the index in the manifest", entry.index_bytes, index.size))
        for what, says, found in facts:
            if says != found:
                self._index_problem(index.path, f"{what}: expected {says}, found {found}", None)
                sound = False
        if self.report.quick:
            return
        bad = list(check_blocks(index))
        if not bad and sound:
            bad = list(compare_with_data(index, data))
        for offset, what in bad:
            self._index_problem(index.path, what, offset)


def _in_parallel(
    data: DataFile, head: DataHead, decoders: Decoders, pool: LeavablePool, workers: int
) -> Iterator[tuple[Page, list[Finding]]]:
    """Walks the file; row groups are checked by the pool, at most a few at a time, and come out in order."""
    waiting: deque[tuple[Page, Future[list[Finding]] | None]] = deque()
    for found in walk(data, head):
        large = isinstance(found, RowGroup) and found.blob_bytes > _ALONE_BYTES
        while waiting and (large or len(waiting) > workers):
            done, task = waiting.popleft()
            yield done, result_of(task) if task else []
        if isinstance(found, RowGroup):
            waiting.append((found, pool.submit(check_group, data, head, found, decoders)))
            if large:
                done, task = waiting.popleft()
                yield done, result_of(task) if task else []
        else:
            waiting.append((found, None))
    for done, task in waiting:
        yield done, result_of(task) if task else []
