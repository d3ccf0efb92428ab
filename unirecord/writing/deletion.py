"""Rows that are taken away: deleted, evicted by age, and purged from every file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from secrets import randbits
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..core import xxh3_128
from ..errors import (
    BusyError,
    CorruptionError,
    ExistsError,
    SchemaError,
    StaleError,
    UniRecordError,
    did_you_mean,
)
from ..format.column import Column
from ..order.selection import Selection, each_once, row_numbers
from ..progress import Progress
from ..sizes import many, parse_size
from ..snapshot import manifest
from ..snapshot.data_file import DataFile
from ..snapshot.dataset_path import deletion_of, no_directory, resolve
from ..snapshot.deletions import NAME as DELETION
from ..snapshot.deletions import encode_deletion, rows_deleted
from ..snapshot.manifest import PART_NAME, DeletedRows, Manifest, PartEntry, bytes_of_part, files_of_part
from ..snapshot.part_set import ColumnResult, Decoders, PartSet
from ..snapshot.versions import (
    files_of,
    kept_name,
    kept_versions,
    publication_of,
    published_as,
    read_newest,
    read_version,
)
from ..storage import local as store
from ..storage.claim import is_leased
from ..storage.schemes import location_of, path_of_dataset, path_on_disk
from ..storage.staged import new_text
from ..storage.storage_options import use_storage
from .change import Change, OvertakenError, changing, opened
from .directory_claim import with_indexes
from .garbage import Collected, gc
from .journal import Journal
from .rewrite import bare_deletions, deleted_rows, joined_small, rewrite_parts
from .target import check_beside, storage_to_write_to

__all__ = [
    "Deleted",
    "Dictionaries",
    "Evicted",
    "Purged",
    "check_numbers",
    "delete",
    "dictionaries_of",
    "evict",
    "look_at_rows",
    "purge",
    "rows_named",
]


# Deletes rows of a directory: a small file for each part concerned, which the next version names; no part
# changes.


Numbers = NDArray[np.int64]
_LISTED_AT_ONCE: Final = 1 << 18
# After these, each row has the number that it had.
_KEEP_NUMBERS: Final = frozenset(
    (
        *("append", "delete", "compact", "reshard", "purge", "update", "upsert", "set"),
        *("add-columns", "drop-columns", "rename-columns"),
    )
)


@dataclass(frozen=True)
class Deleted:
    """What `unirecord.delete` has done.

    Attributes:
        rows: how many rows have been deleted.
        version: the version without them; the one that was there where no row was concerned.
    """

    rows: int
    version: int


def delete(
    path: str | os.PathLike[str],
    *,
    where: str | None = None,
    rows: int | Sequence[int] | NDArray[np.integer[Any]] | None = None,
    duplicates_by: Sequence[str] | None = None,
    duplicates_file: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Deleted:
    """Deletes rows of the directory at ``path``: from the next version on they are not there (docs/growing.md).

    The other rows keep their numbers. Jobs that run go on with what they have opened. The bytes stay on disk, for the
    versions before.

    Args:
        path: a directory of parts, also in an object store.
        where: a condition (docs/query.md): the rows that meet it.
        rows: row numbers in the dataset, as ``ds.order.row_ids`` gives them, in place of ``where``.
        duplicates_by: in place of both, columns: of the rows with the same values in them all but the first go.
        duplicates_file: where these are listed, JSON Lines: ``{"row": 7, "of": 3}``.
        storage_options: how an object store is reached, as for `UniRecordDataset`.

    Raises:
        ExistsError: there is something at ``duplicates_file``.
        MissingError: there is no directory of parts.
        IndexError: there is no row of that number, or no more.
        QueryError: the condition is wrong.
        StaleError: another writer has replaced the dataset meanwhile, or rows have other numbers than they had.
        SchemaError: there is no such column.
        UniRecordError: the directory is in storage that is only read.
        ValueError: not exactly one of ``where``, ``rows`` and ``duplicates_by`` is given, ``duplicates_file`` is in the
            dataset, or ``storage_options`` for a disk.
    """
    folder = path_of_dataset(os.fspath(path))
    if [where is None, rows is None, duplicates_by is None].count(False) != 1:
        raise ValueError("give where, a condition, or rows, by their numbers, or duplicates_by, columns")
    if isinstance(duplicates_by, str) or (duplicates_by is not None and not duplicates_by):
        raise ValueError(f"duplicates_by is a list of names, one at least, got {duplicates_by!r}")
    listed = None if duplicates_file is None else os.fspath(duplicates_file)
    if listed is not None and duplicates_by is None:
        raise ValueError("duplicates_file lists the rows that duplicates_by deletes, which is not given")
    if listed is not None:
        check_beside("duplicates_file", listed, folder)
    if listed is not None and location_of(path_on_disk(listed, "a list of duplicates")).is_taken(listed):
        raise ExistsError(f"{listed} exists already; name another file")
    with use_storage(storage_to_write_to(folder, storage_options)):
        if not location_of(folder).is_directory(folder):
            raise no_directory(
                folder,
                ", and only of those can rows be deleted; write a single part again without them",
            )
        seen: Manifest | None = None
        while True:
            with suppress(OvertakenError), changing(folder) as change:
                if rows is not None and seen is not None:
                    check_numbers(folder, change.before, seen)
                seen = seen or change.before
                return _delete(folder, change, where, rows, duplicates_by, listed)


def check_numbers(folder: str, now: Manifest | None, seen: Manifest) -> None:
    """StaleError where rows may have other numbers than when the manifest was ``seen``."""
    assert now is not None
    for number, command in _published_since(folder, now, seen):
        if command not in _KEEP_NUMBERS:
            raise StaleError(
                f"{folder}: rows have got other numbers meanwhile, by version {number} ({command}), so these cannot be "
                "told by the numbers that they had; nothing was changed"
            )


def _published_since(folder: str, now: Manifest, seen: Manifest) -> Iterator[tuple[int, str]]:
    """The versions that have come since a manifest was ``seen``, each with what published it."""
    for number in range(seen.generation + 1, now.generation + 1):
        listing = now if number == now.generation else read_version(folder, number)
        yield number, publication_of(listing, os.path.join(folder, manifest.NAME)).command


def _delete(
    folder: str,
    change: Change,
    where: str | None,
    rows: Any,
    duplicates_by: Sequence[str] | None,
    listed: str | None,
) -> Deleted:
    before = change.before
    assert before is not None
    of: Numbers | None = None
    with opened(folder, change) as parts:
        if duplicates_by is None:
            found = rows_named(parts, where, rows)
        else:
            found, of = _duplicates(folder, parts, duplicates_by)
    if of is not None and listed is not None:
        with new_text(listed) as add:
            for i in range(0, len(found), _LISTED_AT_ONCE):
                pairs = zip(found[i : i + _LISTED_AT_ONCE], of[i : i + _LISTED_AT_ONCE], strict=True)
                add(f'{{"row": {row}, "of": {first}}}\n' for row, first in pairs)
    if not len(found):
        return Deleted(0, before.generation)
    after = before

    def without_them(now: Manifest | None) -> Manifest:
        nonlocal after
        assert now is not None
        parts = _replaced(now, changed) if now is not before else entries
        after = published_as(replace(now, parts=parts), now, "delete", folder)
        return after

    made: list[str] = []
    try:
        entries = _without(folder, change, found, made)
        changed = {
            old.name: (old, new) for old, new in zip(before.parts, entries, strict=True) if old is not new
        }
        change.publish(without_them)
    finally:
        if not change.published:
            change.clear(made)
    return Deleted(len(found), after.generation)


def _replaced(now: Manifest, changed: Mapping[str, tuple[PartEntry, PartEntry]]) -> tuple[PartEntry, ...]:
    """The parts that are there now, without the same rows; OvertakenError where others have deleted of these parts.

    Or have laid them out anew: then the change is made of what is there now.
    """
    parts, found = [], 0
    for part in now.parts:
        old, new = changed.get(part.name, (part, part))
        found += new is not part
        if part._replace(columns=old.columns) != old:
            raise OvertakenError
        parts.append(part._replace(deleted=new.deleted))
    if found < len(changed):
        raise OvertakenError
    return tuple(parts)


def _duplicates(folder: str, parts: PartSet, key: Sequence[str]) -> tuple[Numbers, Numbers]:
    """The rows that are there and have the key of an earlier one, ascending, and the first row of each such key."""
    from ..query.duplicates import KeyTable, stored_keys
    from ..query.query import live_rows

    for name in key:
        if name not in parts.schema:
            raise SchemaError(
                f"{folder}: there is no column {name!r}{did_you_mean(name, parts.schema.names)}; the columns are "
                f"{', '.join(parts.schema.names)}"
            )
    found: list[tuple[Numbers, Numbers]] = [(np.empty(0, np.int64), np.empty(0, np.int64))]
    with KeyTable() as table:
        for keys in stored_keys(parts, key, (rows for _, rows in live_rows(parts).pieces()), randbits(64)):
            table.add(keys)
        found += table.duplicates()
    rows, firsts = map(np.concatenate, zip(*found, strict=True))
    return rows, firsts


def rows_named(parts: PartSet, where: str | None, rows: Any) -> Numbers:
    """The rows that are there and meet a condition, or have these numbers, ascending; IndexError where one is not."""
    from ..query import compile_query
    from ..query.query import live_rows, live_rows_that_meet

    if where is not None:
        return live_rows_that_meet(parts, compile_query(where, parts.schema))
    return _asked(live_rows(parts), rows)


def _asked(live: Selection, rows: Any) -> Numbers:
    wanted = each_once(row_numbers(rows, live.rows))
    there, _ = live.places(wanted)
    if len(there) < len(wanted):
        gone = np.setdiff1d(np.arange(len(wanted)), there)[0]
        raise IndexError(f"row {wanted[gone]} has been deleted already")
    return wanted


def _without(folder: str, change: Change, found: Numbers, made: list[str]) -> tuple[PartEntry, ...]:
    """The parts with their deletion files, which are written; ``made`` gets the names of these."""
    before = change.before
    assert before is not None
    entries: list[PartEntry] = []
    start = 0
    for entry in before.parts:
        first, last = np.searchsorted(found, [start, start + entry.rows]).tolist()
        new = found[first:last] - start
        start += entry.rows
        if not len(new):
            entries.append(entry)
            continue
        before_it = rows_deleted(deletion_of(folder, entry), entry.id, entry.rows)
        deleted = np.sort(np.concatenate([before_it, new]))  # no row is in both
        content = encode_deletion(entry.id, entry.rows, deleted)
        name = change.put_file(entry.name, before.generation + 1, content, made)
        gone = DeletedRows(name, len(deleted), len(content), xxh3_128(content).hex())
        entries.append(entry._replace(deleted=gone))
    return tuple(entries)


# Has the oldest parts of a directory go until it is small enough, as one publication.


@dataclass(frozen=True)
class Evicted:
    """What `unirecord.evict` has done, or would do.

    Attributes:
        version: the version without the parts; the one that was there where none had to go.
        parts: how many parts have gone.
        rows: their rows, those that had been deleted too.
        bytes: of their files.
        left: bytes of the files that the version names.
        kept_by: earlier versions that still name such a part, whose bytes stay on disk until `gc` removes these.
        collected: what `gc` has removed then, if it was asked for.
    """

    version: int
    parts: int
    rows: int
    bytes: int
    left: int
    kept_by: tuple[int, ...]
    collected: Collected | None = None


def evict(
    path: str | os.PathLike[str],
    max_bytes: int | str,
    *,
    collect: bool = False,
    dry_run: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Evicted:
    """Removes the oldest parts of the directory at ``path`` until the others are within a limit (docs/growing.md).

    The oldest are the first ones, as appending puts them. The numbers of the rows that stay go down by as many as have
    gone. One part always stays.

    Args:
        path: a directory of parts, also in an object store.
        max_bytes: of data files, indexes and files of deleted rows: a number, or text like ``"200GB"``.
        collect: on a disk, remove all earlier versions as well (`gc` with ``keep=1``): until then they keep the bytes.
        dry_run: change nothing, and say what would be done.
        storage_options: how an object store is reached, as for `UniRecordDataset`.

    Raises:
        MissingError: there is no directory of parts.
        StaleError: another writer has replaced the dataset meanwhile.
        UniRecordError: the last part alone is larger than the limit, or the directory is in storage that is only read.
        ValueError: ``max_bytes`` is no size, ``collect`` in an object store, or ``storage_options`` for a disk.
    """
    folder, limit = path_of_dataset(os.fspath(path)), parse_size(max_bytes)
    with use_storage(storage_to_write_to(folder, storage_options)):
        if not location_of(folder).is_directory(folder):
            raise no_directory(folder)
        if collect and not location_of(folder).in_file_system:
            raise ValueError(
                f"{folder}: collect=True is of a disk; in an object store run unirecord.gc with older_than, which says "
                "how long readers may live"
            )
        found, _ = _planned_eviction(folder, read_newest(folder), limit)
        if found.parts and not dry_run:
            with suppress(OvertakenError), changing(folder) as change:

                def without_oldest(now: Manifest | None) -> Manifest:
                    nonlocal found
                    assert now is not None
                    found, parts = _planned_eviction(folder, now, limit)
                    if not found.parts:
                        raise OvertakenError  # by another one that has evicted them
                    return published_as(replace(now, parts=parts), now, "evict", folder)

                change.publish(without_oldest)
    return replace(found, collected=gc(folder, keep=1)) if collect and not dry_run else found


def _planned_eviction(folder: str, before: Manifest, limit: int) -> tuple[Evicted, Sequence[PartEntry]]:
    sizes = list(map(bytes_of_part, before.parts))
    left, gone = sum(sizes), 0
    while left > limit and gone < len(sizes) - 1:
        left -= sizes[gone]
        gone += 1
    if left > limit:
        raise UniRecordError(
            f"{folder}: its last part alone has {many(left, 'byte')}, more than {limit:,}, and one part always stays; "
            "`unirecord reshard` makes smaller parts"
        )
    parts = before.parts[:gone]
    names = {file.name for part in parts for file in files_of_part(before, part)}
    version = before.generation + bool(gone)
    kept_by = tuple(
        [n for n in _kept(folder, before) if names & files_of(manifest.read(_kept_path(folder, n)))]
    )
    if gone:
        kept_by = (*kept_by, before.generation)
    rows = sum(part.rows for part in parts)
    return Evicted(version, gone, rows, sum(sizes[:gone]), left, kept_by), before.parts[gone:]


def _kept(folder: str, before: Manifest) -> list[int]:
    return [n for n in kept_versions(location_of(folder).names(folder)) if n < before.generation]


def _kept_path(folder: str, number: int) -> str:
    return os.path.join(folder, kept_name(number))


# Dictionaries that may have been trained on rows that are to be erased.


_WORD: Final = 8  # bytes in a row that a dictionary and a value share
_BLOCK: Final = 16 << 20
_TABLE_BITS: Final = 22
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)
_SHIFT: Final = np.uint64(64 - _TABLE_BITS)
Words = NDArray[np.uint64]


class _WordSet:
    """Words of 8 bytes, told where they stand in memory, at any offset."""

    def __init__(self, words: Words) -> None:
        self.words = np.unique(words)
        self._table = np.zeros(1 << _TABLE_BITS, bool)
        self._table[_place(self.words)] = True

    def found_in(self, data: bytes) -> Iterator[Numbers]:
        """Which of the words stand in ``data``."""
        for offset in range(min(_WORD, len(data))):
            words = np.frombuffer(data, "<u8", (len(data) - offset) // _WORD, offset)
            places = np.flatnonzero(self._table[_place(words)])
            numbers = np.searchsorted(self.words, words[places])
            numbers[numbers == len(self.words)] = 0
            same = self.words[numbers] == words[places] if len(self.words) else np.zeros(0, bool)
            if same.any():
                yield numbers[same]


def _place(words: Words) -> Words:
    return (words * _SPREAD) >> _SHIFT


class Dictionaries:
    """The compression dictionaries of parts, and which of them share 8 bytes in a row with a value."""

    def __init__(self, contents: Iterable[tuple[str, bytes]]) -> None:
        """``contents``: names of parts, each with one of its dictionaries."""
        self._parts: dict[bytes, set[str]] = {}
        for name, content in contents:
            self._parts.setdefault(content, set()).add(name)
        each = [_windows(content) for content in self._parts]
        self._words = _WordSet(np.concatenate([np.empty(0, np.uint64), *each]))
        self._owners = [np.isin(self._words.words, windows) for windows in each]
        self.concerned: set[str] = set()

    def look_at(self, values: bytes) -> None:
        """Adds to ``concerned`` the names of parts that have such a dictionary."""
        if not self._parts:
            return
        for numbers in self._words.found_in(values):
            for owned, names in zip(self._owners, self._parts.values(), strict=True):
                if not names <= self.concerned and owned[numbers].any():
                    self.concerned |= names

    def take_all(self) -> None:
        """Adds all parts that have one: values are damaged, so that nobody can tell."""
        self.concerned.update(*self._parts.values())


def _windows(content: bytes) -> Words:
    each = [
        np.frombuffer(content, "<u8", (len(content) - at) // _WORD, at)
        for at in range(_WORD)
        if len(content) - at >= _WORD
    ]
    return np.concatenate([np.empty(0, np.uint64), *each])


def dictionaries_of(folder: str, entry: PartEntry) -> Iterator[tuple[str, bytes]]:
    """The dictionaries of a part and of its column parts, each with the part's name."""
    for file in _files_of_values(folder, entry):
        with DataFile(file) as data:
            for page in data.dictionaries(data.head()):
                yield entry.name, page.content


def _files_of_values(folder: str, entry: PartEntry) -> list[str]:
    columns = () if entry.columns is None else entry.columns.files
    return [os.path.join(folder, name) for name in (entry.name, *(file.name for file in columns))]


def look_at_rows(folder: str, entry: PartEntry, rows: Numbers, dictionaries: Dictionaries) -> None:
    """Has the dictionaries look at all values of these rows of a part."""
    for file in _files_of_values(folder, entry):
        parts = PartSet(resolve(file))
        try:
            columns = [i for i, column in enumerate(parts.schema) if column.is_blob or column.is_string]
            step = min(max(int(_BLOCK / max(parts.mean_row_bytes(), 1.0)), 1), 1 << 16)
            for first in range(0, len(rows), step):
                for column in parts.read(rows[first : first + step], columns):
                    dictionaries.look_at(column.data.tobytes())
        except CorruptionError:
            dictionaries.take_all()
        finally:
            parts.close()


_NONE: Final = np.empty(0, np.int64)


@dataclass(frozen=True)
class Purged:
    """What `unirecord.purge` has erased, or would erase.

    Attributes:
        rows: rows whose bytes were erased, those that had been deleted before among them.
        version: the only version that is left.
        parts: parts that were written anew.
        lost: earlier versions that are gone with all that they named, ascending.
        files, bytes: that were removed with these.
        blank: deleted rows of the version that is left, of which nothing is stored: they were read back.
        unnamed: files in the directory that no version names, and that may have anything in them.
        elsewhere: files of parts that have been removed here and have another name on this disk, where the bytes are.
    """

    rows: int
    version: int
    parts: int
    lost: tuple[int, ...]
    files: int = 0
    bytes: int = 0
    blank: int = 0
    unnamed: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()


def purge(
    path: str | os.PathLike[str],
    *,
    where: str | None = None,
    rows: int | Sequence[int] | NDArray[np.integer[Any]] | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Purged:
    """Erases rows of the directory at ``path`` for good, and all that had been deleted before (docs/growing.md).

    The rows are deleted, the parts that have deleted rows written anew without their bytes, and all earlier versions
    removed: nothing can be restored. All other rows keep their numbers. What is stored in the place of the erased rows
    is read back then, and is blank. Killed anywhere, the same call again does what is left.

    Args:
        path: a directory of parts on a disk.
        where: a condition (docs/query.md): the rows that meet it.
        rows: row numbers in place of ``where``; those that have been deleted already may be among them. With neither,
            what has been deleted is erased.
        dry_run: change nothing, and say what would be erased.
        progress: called with (bytes done, bytes in all) while parts are written.

    Raises:
        BusyError: somebody reads a version, so that it cannot be removed, or a live writer is at work.
        CorruptionError: a part that must be written anew is damaged in another row: it is as `compact` says.
        MissingError, IndexError, QueryError: as of `delete`.
        StaleError: an earlier version has been restored meanwhile, or another dataset has taken its place.
        UniRecordError: a deleted row still has values; the directory is in an object store; or its file system has no
            locks that tell who reads.
        ValueError: both ``where`` and ``rows`` are given.
    """
    folder = os.fspath(path)
    if where is not None and rows is not None:
        raise ValueError("give where, a condition, or rows, by their numbers, not both")
    if not location_of(folder).in_file_system:
        raise UniRecordError(
            f"{folder}: rows are purged on a disk only: in an object store nobody can see who reads, nor what old "
            "objects the store keeps; delete the rows, `unirecord write` what is left to another place, and remove this"
        )
    if not location_of(folder).is_directory(folder):
        raise no_directory(folder)
    _refuse_readers(folder)
    newest = read_newest(folder)
    asked = None if rows is None else _not_yet(folder, newest, rows)
    erases_more = where is not None or (asked is not None and bool(np.size(asked)))
    if erases_more:
        _refuse_unknown(folder, newest)
    if dry_run:
        return _planned(folder, newest, where, asked)
    if erases_more:
        delete(folder, where=where, rows=asked)
    return _erased(folder, progress)


def _refuse_unknown(folder: str, newest: Manifest) -> None:
    """Parts with columns that cannot be read here cannot be written anew, so no row of them is to be deleted first."""
    for entry in newest.parts:
        with DataFile(os.path.join(folder, entry.name)) as data:
            head = data.head()
            Decoders.of(data, head).check_available(head, data.path)


def _erased(folder: str, progress: Progress | None) -> Purged:
    seen = read_newest(folder)
    rows = _count(folder, seen)
    elsewhere: tuple[str, ...] = ()

    def trained_on_them(newest: Manifest) -> set[str]:
        nonlocal elsewhere
        for number, command in _published_since(folder, newest, seen):
            if command == "restore":
                raise StaleError(
                    f"{folder}: version {number} has restored an earlier one meanwhile, where rows that were to be "
                    "erased are not deleted; nothing was erased: see which rows they are now, and purge them again"
                )
        exclusion_mask = _exclusion_mask(folder, newest)
        stale = {entry.name for entry, _ in exclusion_mask}
        dictionaries = Dictionaries(
            found
            for entry in newest.parts
            if entry.name not in stale
            for found in dictionaries_of(folder, entry)
        )
        for entry, gone in exclusion_mask:
            look_at_rows(folder, entry, gone, dictionaries)
        elsewhere = tuple(_linked(folder, stale | dictionaries.concerned))
        return dictionaries.concerned

    done = rewrite_parts(
        folder,
        lambda parts: joined_small(parts, 1),  # each for itself
        "purge",
        False,
        progress,
        drop=True,
        without_dictionaries=trained_on_them,
        resume=True,
    )
    collected = gc(folder, keep=1)
    if collected.in_use or collected.unknown:
        held = ", ".join(map(str, collected.in_use or collected.unknown))
        raise BusyError(
            f"{folder}: somebody has begun to read version {held} meanwhile, which has the rows that are to be erased: "
            "they are deleted, and their bytes stay until the same purge is run again"
        )
    newest = read_newest(folder)
    unnamed = _unnamed(folder, newest)
    of_conversion = Journal(folder).owner()
    for name in unnamed:
        part = name.removesuffix(".idx")
        if DELETION.fullmatch(part) or (PART_NAME.fullmatch(part) and not of_conversion(part)):
            raise UniRecordError(
                f"{os.path.join(folder, name)}: this file of a version that has been removed could not be; see to what "
                "is in the way, and run the same purge again"
            )
    return Purged(
        rows, newest.generation, done.written, collected.removed, collected.parts, collected.bytes,
        _check_blank(folder, newest), tuple(unnamed), elsewhere,
    )  # fmt: skip


def _refuse_readers(folder: str) -> None:
    """Before anything is changed: no version may be open that would have to go."""
    names = [kept_name(number) for number in kept_versions(location_of(folder).names(folder))]
    for name in (*names, manifest.NAME):
        leased = is_leased(os.path.join(folder, name))
        if leased is None:
            raise UniRecordError(
                f"{folder}: this file system has no locks that tell who reads, so that nothing is erased here; copy "
                "the directory to a local disk, purge it there, and replace this"
            )
        if leased:
            version = read_newest(folder).generation if name == manifest.NAME else int(name.split("-")[1])
            raise BusyError(
                f"{folder}: somebody reads version {version}, whose rows cannot be erased meanwhile; nothing was "
                "changed: end what has it open on this machine, and purge again"
            )


def _not_yet(folder: str, newest: Manifest, rows: Any) -> Any:
    """Those that have not been deleted yet, so that a purge that was killed can be run again; all else as it is."""
    asked = np.atleast_1d(np.asarray(rows))
    if asked.dtype.kind not in "iu" or asked.ndim != 1:
        return rows
    start, gone = 0, [np.empty(0, np.int64)]
    for entry in newest.parts:
        if entry.deleted is not None:
            gone.append(deleted_rows(folder, entry) + start)
        start += entry.rows
    return asked[~np.isin(asked, np.concatenate(gone))]


def _planned(folder: str, newest: Manifest, where: str | None, asked: Any) -> Purged:
    more = _NONE
    if where is not None or asked is not None:
        opened = PartSet(resolve(folder), knows_deletions=True)
        try:
            more = rows_named(opened, where, asked)
        finally:
            opened.close()
    start, parts, known = 0, 0, bare_deletions(newest)
    for entry in newest.parts:
        first, last = np.searchsorted(more, [start, start + entry.rows])
        parts += bool(first < last) or (entry.deleted is not None and entry.deleted.digest not in known)
        start += entry.rows
    gone = _count(folder, newest, more)
    lost = kept_versions(location_of(folder).names(folder))
    lost += [newest.generation] if parts else []
    return Purged(gone, newest.generation + bool(len(more)) + bool(parts), parts, tuple(lost))


def _listings(folder: str, newest: Manifest) -> list[Manifest]:
    """The newest version, and those that are kept."""
    kept = kept_versions(location_of(folder).names(folder))
    return [newest, *(manifest.read(os.path.join(folder, kept_name(number))) for number in kept)]


def _count(folder: str, newest: Manifest, more: Numbers = _NONE) -> int:
    """How many rows have bytes that go, each once, in however many parts; ``more`` are deleted of the newest as well.

    A row is known by its number in the dataset, which it keeps but where rows were sorted. Blank ones, of which an
    earlier call has left no bytes in their part, are not counted there.
    """
    listings = sorted(_listings(folder, newest), key=lambda listing: listing.generation)
    blank: dict[str, Numbers] = {}
    for listing in listings:
        known = bare_deletions(listing)
        for entry in listing.parts:
            if entry.deleted is not None and entry.deleted.digest in known:
                blank[entry.name] = np.union1d(blank.get(entry.name, _NONE), deleted_rows(folder, entry))
    numbered, counted = [_NONE], 0
    current = {entry.name for entry in newest.parts}
    for listing in listings:
        if (
            publication_of(listing, os.path.join(folder, manifest.NAME)).command == "sort"
            and listing is not listings[0]
        ):
            counted += len(np.unique(np.concatenate(numbered)))
            numbered = [_NONE]
        start = 0
        for entry in listing.parts:
            stays = entry.deleted is None or (listing is not newest and entry.name in current)
            gone = _NONE if stays else deleted_rows(folder, entry)
            numbered.append(np.setdiff1d(gone, blank.get(entry.name, _NONE)) + start)
            start += entry.rows
    return counted + len(np.unique(np.concatenate([*numbered, more])))


def _exclusion_mask(folder: str, newest: Manifest) -> list[tuple[PartEntry, Numbers]]:
    """The parts that have bytes of deleted rows, by any version that is kept, and these rows."""
    listings = _listings(folder, newest)
    current = {entry.name for entry in newest.parts}
    found: dict[str, tuple[PartEntry, Numbers]] = {}
    for listing in listings:
        bare = bare_deletions(listing)
        for entry in listing.parts:
            is_current = listing is newest or entry.name not in current
            if entry.deleted is None or entry.deleted.digest in bare or not is_current:
                continue
            rows = deleted_rows(folder, entry)
            before = found.get(entry.name)
            found[entry.name] = entry, rows if before is None else np.union1d(before[1], rows)
    return list(found.values())


def _linked(folder: str, names: set[str]) -> list[str]:
    paths = [os.path.join(folder, file) for name in sorted(names) for file in (name, name + ".idx")]
    return [path for path in paths if store.other_names(path)]


def _check_blank(folder: str, newest: Manifest) -> int:
    """Reads what is stored in place of the deleted rows, which is nothing; how many they are."""
    blank = 0
    for entry in newest.parts:
        if entry.deleted is None:
            continue
        parts = PartSet(resolve(os.path.join(folder, entry.name)))
        try:
            rows = deleted_rows(folder, entry)
            blank += len(rows)
            for first in range(0, len(rows), 1 << 16):
                found = parts.read(rows[first : first + (1 << 16)], range(len(parts.schema)))
                for column, one in zip(parts.schema, found, strict=True):
                    if not _is_blank(column, one):
                        raise UniRecordError(
                            f"{os.path.join(folder, entry.name)}: deleted rows of it still have values in column "
                            f"{column.name!r}; run the same purge again"
                        )
        finally:
            parts.close()
    return blank


def _is_blank(column: Column, found: ColumnResult) -> bool:
    if found.valid is not None and not found.valid.any():
        return True
    if found.offsets is not None and (np.diff(found.offsets) <= 1).all():  # an object of nothing has a byte
        return True
    return not found.data.view(np.uint8).any()


def _unnamed(folder: str, newest: Manifest) -> list[str]:
    named = {manifest.NAME, *with_indexes(files_of(newest))}
    return [
        name for name in (os.path.relpath(file, folder) for file in _files_below(folder)) if name not in named
    ]


def _files_below(folder: str) -> list[str]:
    found, waiting = [], [folder]
    while waiting:
        place = waiting.pop()
        for name in location_of(place).names(place):
            path = os.path.join(place, name)
            there = location_of(path).find(path)
            if there is not None and there.kind == "directory" and location_of(path).link(path) is None:
                waiting.append(path)
            elif there is not None and there.kind == "file":
                found.append(path)
    return sorted(found)
