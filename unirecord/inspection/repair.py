"""Makes readable again what can be: rebuilds indexes, salvages damaged or unfinished data files into new parts."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Sequence
from dataclasses import replace

import msgpack

from ..errors import BusyError, ExistsError, FormatError, SchemaError, UniRecordError
from ..parts import manifest
from ..parts.data_file import DataFile
from ..parts.layouts import is_column_part
from ..parts.manifest import Manifest, PartEntry
from ..parts.versions import located_version, published_as
from ..progress import Progress, Tracker
from ..storage import local as store
from ..storage.claim import check_unclaimed
from ..storage.registry import location_of, path_on_disk
from ..storage.staged import StagedFile
from ..writing.batch_writer import write_batches
from ..writing.index_file import build_index
from ..writing.part_writer import PartContent
from ..writing.version_files import check_only_grew, keep_version
from .index_check import NONSENSE, IndexFile, check_blocks, compare_with_data, find_index
from .report import RepairReport, Salvaged
from .salvage import Survey, sound_batches, survey
from .targets import Target, targets

__all__ = [
    "RepairReport",
    "Salvaged",
    "correct_sizes",
    "has_other_sizes",
    "rebuild_manifest",
    "repair",
    "why_not_listed",
]


# Makes the manifest of a directory anew from the parts that are there, or corrects what it says of them.


def _content(path: str) -> str:
    with DataFile(path) as data:
        return f"{data.content_digest(data.head()):016x}"


def rebuild_manifest(path: str, found: Sequence[tuple[Target, Survey]], staged: StagedFile) -> None:
    """Publishes through ``staged`` a manifest that names these parts, sound and with their indexes, in their order.

    Schema, index columns and the user's metadata stand in every part. SchemaError when two parts do not agree.
    """
    check_only_grew(path)
    heads = [state.head for _, state in found if state.head is not None]
    first = heads[0].metadata
    for (part, _), head in zip(found, heads, strict=True):
        if is_column_part(head.metadata.user):
            raise SchemaError(
                f"{part.path} has columns of another part, and which part that is stood in the manifest that is lost; "
                f"copy the newest version that is kept to {manifest.NAME}, or open the parts by themselves"
            )
    for (part, _), head in zip(found, heads, strict=True):
        if not head.schema.says_the_same_as(first.schema):
            raise SchemaError(
                f"{part.path} has another schema than {found[0][0].path}, so that they are not of one dataset; "
                f"move those that do not belong to it out of {path}, and repair it again"
            )
    digest = manifest.schema_digest(first.schema)
    entries = tuple(
        PartEntry(
            os.path.basename(part.path),
            head.header.id,
            state.rows or 0,
            *_sizes(part.path),
            digest,
            _content(part.path),
        )
        for (part, state), head in zip(found, heads, strict=True)
    )
    user = None if first.user is None else msgpack.packb(first.user, use_bin_type=True)
    index = tuple(name for name in first.index if all(name in head.metadata.index for head in heads))
    last = max(int(entry.name.split("-")[1]) for entry in entries)
    made = Manifest(secrets.token_bytes(16), 1, last + 1, first.schema, index, user, entries)
    staged.append([manifest.encode(made)])
    staged.sync()
    staged.publish()


def why_not_listed(part: Target, state: Survey, listing: Manifest | None) -> str | None:
    """Why a whole part is not the one that the manifest names, if it is another; sizes aside."""
    entry, head = part.entry, state.head
    if entry is None or head is None or listing is None or not state.sound:
        return None
    for what, found, listed in (
        ("id", head.header.id.hex(), entry.id.hex()),
        ("number of rows", state.rows, entry.rows),
        ("content digest", _content(part.path), entry.content),
    ):
        if found != listed:
            return f"its {what} is {found}, the manifest says {listed}"
    same = head.schema.says_the_same_as(part.schema or listing.schema)
    return None if same else "its schema is not the one in the manifest"


def has_other_sizes(part: Target) -> bool:
    """Whether the files of a part with its index are not as long as the manifest says."""
    entry = part.entry
    return entry is not None and _sizes(part.path) != (entry.bytes, entry.index_bytes)


def _sizes(path: str) -> tuple[int, int]:
    location = location_of(path)
    return location.size(path), location.size(path + ".idx")


def correct_sizes(parts: Sequence[Target], listing: Manifest, staged: StagedFile) -> None:
    """Publishes through ``staged`` the same manifest with the sizes that the files of its parts have."""
    sizes = {os.path.basename(part.path): _sizes(part.path) for part in parts}
    entries = tuple(_with_sizes(entry, sizes) for entry in listing.parts)
    corrected = published_as(replace(listing, parts=entries), listing, "repair", staged.path)
    staged.append([manifest.encode(corrected)])
    staged.sync()
    keep_version(os.path.dirname(staged.path), listing.generation)
    staged.publish()


def _with_sizes(entry: PartEntry, sizes: dict[str, tuple[int, int]]) -> PartEntry:
    size, index_size = sizes[entry.name]
    entry = entry._replace(bytes=size, index_bytes=index_size)
    if entry.columns is None:
        return entry
    files = [
        file._replace(bytes=sizes[file.name][0], index_bytes=sizes[file.name][1])
        for file in entry.columns.files
    ]
    return entry._replace(columns=replace(entry.columns, files=tuple(files)))


def repair(
    path: str | os.PathLike[str],
    *,
    output: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> RepairReport:
    """Rebuilds what is lost at ``path``; data files are never changed (docs/repair.md).

    A lost or bad index is rebuilt beside its data file, and a lost manifest from the parts, with all that are there:
    also those that a writer which died never published. Wrong sizes in a manifest are corrected. When a data file is
    damaged or unfinished, or not the one that the manifest names, the rows whose digests hold go into a new dataset.

    Args:
        path: a part or a directory.
        output: where the new dataset goes: by default ``NAME.repaired.urec`` beside a part, or ``NAME.repaired``
            beside a directory, whose sound parts are copied as well.
        progress: called with (bytes done, bytes in all), from any thread, never from two at once.

    Raises:
        MissingError: there is nothing at ``path``, or what is no dataset.
        ExistsError: there is something at ``output``.
        FormatError: the head of the data file is lost, so that nothing can be salvaged.
    """
    started = time.monotonic()
    path = path_on_disk(os.fspath(path), "what is repaired")
    folder, version = located_version(path)
    if version is not None:
        raise ValueError(f"{path}: the newest version is repaired, not an earlier one; name {folder}")
    parts, listing, problems = targets(path)
    report, location = RepairReport(path), location_of(path)
    tracker = Tracker(sum(one.size for p in parts if (one := location.find(p.path)) is not None), progress)
    found = [(part, _survey(part, tracker)) for part in parts]
    lost = location.is_directory(path) and not location.is_taken(os.path.join(path, manifest.NAME))
    others = [why_not_listed(part, state, listing) for part, state in found]
    if (lost or not problems) and all(state.sound for _, state in found) and not any(others):
        problems_of = [_index_problem(part.path, state) for part, state in found]
        if lost or any(problems_of) or any(map(has_other_sizes, parts)):
            _mend(report, found, problems_of, listing, lost=lost)
        else:
            report.parts = [_sound(part, state) for part, state in found]
    else:
        if listing is not None and listing.deleted:
            raise UniRecordError(
                f"{path}: {listing.deleted:,} of its rows have been deleted, and what is salvaged would have them "
                "again; put the damaged file back from a copy, or go back to a version before that by `unirecord "
                "restore`"
            )
        if listing is not None and listing.layouts:
            raise UniRecordError(
                f"{path}: its columns lie in several files, which are not salvaged together; put the damaged file back "
                "from a copy, go back to a version without it by `unirecord restore`, or repair the file by itself: "
                "`unirecord verify` names it"
            )
        if listing is not None and all(
            state.head is None or state.head.schema != listing.schema for _, state in found
        ):
            listing = None
        report.parts = _outcomes(found, listing, others)
        target = _target(path, output)
        _write(target, listing, found)
        for part in report.parts:
            part.output = target
    report.seconds = time.monotonic() - started
    return report


def _survey(part: Target, tracker: Tracker) -> Survey:
    known = part.entry.rows if part.entry is not None else _rows_of_index(part.path)
    try:
        return survey(part.path, known, tracker.advance)
    except OSError as error:
        result = Survey(None, known)
        result.lose(0, known or 0, f"the data file cannot be read: {error.strerror or error}")
        return result


def _rows_of_index(path: str) -> int | None:
    """How many rows the index says the part has, if it is the part's."""
    try:
        with DataFile(path) as data:
            head = data.head()
            name, _ = find_index(path, head.header.id, data.content_digest(head))
        if name is None:
            return None
        with location_of(name).open(name) as file:
            return IndexFile(name, file).header.rows
    except (OSError, UniRecordError):
        return None


def _outcomes(
    found: list[tuple[Target, Survey]], listing: Manifest | None, others: list[str | None]
) -> list[Salvaged]:
    """What a new dataset gets of each part; ``others``: why it is not the one that the manifest names."""
    schemas = [state.head.schema for _, state in found if state.head is not None]
    schema = listing.schema if listing is not None else next(iter(schemas), None)
    outcomes = []
    for (part, state), other in zip(found, others, strict=True):
        if state.head is not None and state.head.schema != schema:
            state.lost.clear()
            state.lose(0, state.rows or 0, "its schema is not the dataset's; it can be opened by itself")
        elif other is not None:
            state.reasons.append(other)
        outcomes.append(_outcome(part, state))
    return outcomes


def _outcome(part: Target, state: Survey) -> Salvaged:
    rows = state.rows
    lost = sum(stop - first for first, stop in state.lost)
    if rows is not None:
        kept = rows - lost
    else:
        kept = 0 if state.head is None else sum(batch.rows for batch in sound_batches(part.path))
    action = "none" if state.sound else "salvaged"
    return Salvaged(part.path, None, action, rows, kept, state.lost, state.reasons)


def _sound(part: Target, state: Survey) -> Salvaged:
    return Salvaged(part.path, None, "none", state.rows, state.rows or 0, [], list(state.reasons))


def _mend(
    report: RepairReport,
    found: list[tuple[Target, Survey]],
    problems: list[str | None],
    listing: Manifest | None,
    *,
    lost: bool,
) -> None:
    """Rebuilds indexes that are not as they must be, and a manifest that is lost or wrong; no writer may write."""
    location = location_of(report.path)
    place = os.path.join(report.path, manifest.NAME) if location.is_directory(report.path) else report.path
    claim = StagedFile(place, claims=report.path, like=found[0][0].path)
    try:
        claim.keep()
        check_unclaimed(place, report.path)
        if lost and location.is_taken(place):
            raise BusyError(f"{place}: it has been published meanwhile; run repair again if there is need")
        for (part, state), problem in zip(found, problems, strict=True):
            report.parts.append(_sound(part, state))
            if problem is not None:
                _rebuild_index(report.parts[-1], problem)
        if lost:
            rebuild_manifest(report.path, found, claim)
            report.manifest = place
        elif listing is not None and any(has_other_sizes(part) for part, _ in found):
            if manifest.read(place) != listing:
                raise BusyError(
                    f"{place}: it has been published meanwhile; run repair again if there is need"
                )
            correct_sizes([part for part, _ in found], listing, claim)
            report.manifest, report.corrected = place, True
    finally:
        claim.discard()


def _rebuild_index(part: Salvaged, problem: str) -> None:
    name = part.path + ".idx"
    staged = StagedFile(name, like=name if location_of(name).find(name) is not None else part.path)
    try:
        build_index(part.path, staged)
        staged.sync()
        staged.publish()
    finally:
        staged.discard()
    store.clear(name + ".new")
    part.action, part.output = "index", name
    part.reasons.append(problem)


def _index_problem(path: str, state: Survey) -> str | None:
    """What is wrong with the index of a sound data file."""
    assert state.head is not None
    head = state.head
    with DataFile(path) as data:
        name, why = find_index(path, head.header.id, data.content_digest(head))
    if name is None:
        return why
    try:
        with location_of(name).open(name) as file, DataFile(path) as data:
            index = IndexFile(name, file)
            size = (
                index.header.data_bytes == data.size
                and index.header.data_header_digest == head.header.header_digest
            )
            bad = [] if size else [(0, "it was made for another data file")]
            bad = bad or list(check_blocks(index)) or list(compare_with_data(index, data))
            if not bad and name.endswith(".new"):
                return f"{name}: it was not given its name"
            return f"{name}: {bad[0][1]}" if bad else None
    except (UniRecordError, OSError) as error:
        return f"{name}: {error}"
    except NONSENSE as error:
        return f"{name}: its numbers cannot be right ({error!r})"


def _target(path: str, output: str | os.PathLike[str] | None) -> str:
    location = location_of(path)
    if output is not None:
        target = os.fspath(output)
    elif location.is_directory(path):
        target = path.rstrip("/") + ".repaired"
    else:
        folder, name = os.path.split(path)
        name = name.removesuffix(".tmp").removesuffix(".urec").lstrip(".")
        target = os.path.join(folder, f"{name}.repaired.urec")
    if location_of(target).is_taken(target):
        raise ExistsError(f"{target} exists already; choose another output")
    if not location.is_directory(path) and not target.endswith(".urec"):
        raise ValueError(f"{target}: the output of a part ends in .urec")
    return target


def _write(target: str, listing: Manifest | None, found: list[tuple[Target, Survey]]) -> None:
    """Writes all rows that are whole, in order, as a new dataset."""
    heads = [state.head for _, state in found if state.head is not None]
    if not heads:
        raise FormatError(f"{found[0][0].path}: nothing can be salvaged: {found[0][1].reasons[0]}")
    first = heads[0].metadata
    schema = first.schema  # with its codecs, which a manifest does not hold
    if listing is not None and listing.schema != schema:
        schema = listing.schema
    user = listing.metadata if listing is not None else msgpack.packb(first.user, use_bin_type=True)
    content = PartContent(schema, first.index, user if user is not None else b"\xc0")
    whole = (part.path for part, state in found if state.head is not None and state.head.schema == schema)
    write_batches(target, content, (batch for path in whole for batch in sound_batches(path)))
