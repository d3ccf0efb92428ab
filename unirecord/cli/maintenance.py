"""Commands that change a dataset that lies there: its rows, its parts and its versions."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Sequence
from shlex import quote
from typing import Any, Final

from ..inspect.history import Version, versions
from ..sizes import format_size, many, utc_time
from ..snapshot.versions import split_version
from ..writing.deletion import Evicted, Purged, delete, evict, purge
from ..writing.garbage import Collected, gc
from ..writing.manifest_changes import restore
from ..writing.rewrite import Rewritten, compact, merge, reshard, sort
from .arguments import (
    BY,
    DIRECTORY,
    DROP_DELETED,
    DRY_RUN,
    DUPLICATES_FILE,
    GREATEST_PART,
    JSON,
    PATH,
    PATHS,
    RESUME,
    ROW_NUMBERS,
    STORAGE,
    TARGET,
    WHERE,
    Argument,
    UsageError,
    cache_refused,
    command,
    is_elsewhere,
    names,
    one_of,
    refuse,
    size,
    wrong_call,
)
from .terminal import ProgressBar, answer, fitted_table, say, warn

__all__ = [
    "compact_command",
    "delete_command",
    "evict_command",
    "gc_command",
    "log_command",
    "merge_command",
    "purge_command",
    "reshard_command",
    "restore_command",
    "sort_command",
]


# ``unirecord delete``, ``evict`` and ``purge``: rows that leave a dataset.


_SHOWN: Final = 3  # files


@command(
    """Delete rows of a dataset: the next version does not have them. The others keep their numbers, and what is
    running goes on with what it has opened. The bytes stay on disk, for the versions before.""",
    """
    unirecord delete dataset --where 'label == 3 and score < 0.1'
    unirecord delete dataset --rows 17,1000-1999
    unirecord delete dataset --duplicates-by path --duplicates-file gone.jsonl
    """,
    DIRECTORY,
    one_of(
        WHERE.but(help="the rows that meet it"),
        ROW_NUMBERS,
        Argument(
            "--duplicates-by",
            type=names,
            metavar="A,B",
            help="of the rows with the same values in these columns all but the first",
        ),
        required=True,
    ),
    DUPLICATES_FILE.but(help="list these, with the rows that they are duplicates of, as JSON Lines"),
    JSON,
    STORAGE,
)
def delete_command(args: argparse.Namespace) -> int:
    with wrong_call():
        found = delete(
            args.path,
            where=args.where,
            rows=args.rows,
            duplicates_by=args.duplicates_by,
            duplicates_file=args.duplicates_file,
        )
    none = "meets that" if args.duplicates_by is None else "is a duplicate"
    done = f"{many(found.rows, 'row', 'are')} deleted in version {found.version}"
    return answer(
        args, found, [f"{args.path}: {done if found.rows else f'no row {none}; nothing was published'}"]
    )


@command(
    """Remove the oldest parts of a dataset until the others are within a limit: the next version does not have them,
    and the numbers of the rows that stay go down. Earlier versions keep the bytes on disk until gc removes them.""",
    """
    unirecord evict events --max-bytes 200GB --dry-run
    unirecord evict events --max-bytes 200GB && unirecord gc events --keep 1    and all earlier versions
    """,
    DIRECTORY,
    Argument(
        "--max-bytes", type=size, required=True, metavar="SIZE", help="of the parts that stay, as 200GB"
    ),
    DRY_RUN,
    JSON,
    STORAGE,
)
def evict_command(args: argparse.Namespace) -> int:
    found = evict(args.path, args.max_bytes, dry_run=args.dry_run)
    return answer(args, found, _evicted(args, found))


def _evicted(args: argparse.Namespace, found: Evicted) -> Iterator[str]:
    if not found.parts:
        yield f"{args.path}: {format_size(found.left)}, which is within the limit; nothing was published"
    else:
        what = "would go" if args.dry_run else f"gone in version {found.version}"
        yield (
            f"{args.path}: {many(found.parts, 'part')} with {many(found.rows, 'row')}, "
            f"{format_size(found.bytes)}, {what}; {format_size(found.left)} stay"
        )
    if found.kept_by:
        yield f"  the bytes stay on disk for {len(found.kept_by):,} earlier versions, until unirecord gc"


@command(
    """Erase rows for good, as a privacy law may ask: the rows are deleted, the parts that have deleted rows are
    written anew without their bytes, and all earlier versions are removed. Then what is stored in their place is read
    back: nothing. What had been deleted before is erased with them. The other rows keep their numbers. It is refused
    while somebody reads the dataset.""",
    """
    unirecord purge dataset --where 'user == 4711' --dry-run
    unirecord purge dataset --where 'user == 4711' --yes
    unirecord purge dataset --yes                  what has been deleted already
    """,
    DIRECTORY.but(help="a directory of parts on a disk"),
    one_of(WHERE.but(help="the rows that meet it"), ROW_NUMBERS),
    one_of(
        Argument("--yes", action="store_true", help="do it: nothing of it can be restored"),
        DRY_RUN,
        required=True,
    ),
    JSON,
)
def purge_command(args: argparse.Namespace) -> int:
    with ProgressBar("purging", 0, format_size) as bar, wrong_call():
        found = purge(args.path, where=args.where, rows=args.rows, dry_run=args.dry_run, progress=bar.update)
    return answer(args, found, _purged(args, found))


def _purged(args: argparse.Namespace, found: Purged) -> Iterator[str]:
    if not found.rows and not found.lost:
        yield f"{args.path}: there is nothing to erase"
        return
    would = "would be " if args.dry_run else ""
    yield (
        f"{args.path}: {many(found.rows, 'row')} {would}erased, {many(found.parts, 'part')} {would}written anew; "
        f"{_versions(found.lost)} {'would be' if args.dry_run else 'are'} lost, with all that nothing else names"
    )
    if args.dry_run:
        return
    yield (
        f"  {many(found.files, 'file')} of {format_size(found.bytes)} removed; read back: nothing is stored of "
        f"{many(found.blank, 'deleted row')}"
    )
    if found.unnamed:
        shown = ", ".join(found.unnamed[:_SHOWN]) + (" and more" if len(found.unnamed) > _SHOWN else "")
        yield f"  {many(len(found.unnamed), 'file', 'are')} there that no version names, and not looked at: {shown}"
    for name in found.elsewhere:
        yield f"  {name} had another name on this disk, as merge gives: its bytes are still there"


def _versions(numbers: Sequence[int]) -> str:
    if not numbers:
        return "no version"
    shown = ", ".join(map(str, numbers[:12])) + (
        f" and {len(numbers) - 12:,} more" if len(numbers) > 12 else ""
    )
    return f"version {shown}" if len(numbers) == 1 else f"versions {shown}"


# ``unirecord compact``, ``reshard``, ``sort`` and ``merge``: the same rows in other parts.


@command(
    """Put small parts of a dataset together: the next version has the same rows, with the same numbers and in the
    same order, so that jobs go on where they stand. Each row is checked on the way. The parts that were there
    stay, for the versions before, until `unirecord gc`.""",
    """
    unirecord compact dataset --dry-run
    unirecord compact dataset --part-bytes 4GB
    unirecord compact dataset --rows-per-part 1000000
    """,
    one_of(
        GREATEST_PART.but(help="neighbours are put together up to this (default 20GB)"),
        Argument("--rows-per-part", type=int, metavar="N", help="parts of so many rows in place of it"),
    ),
    Argument(
        "--join-columns",
        action="store_true",
        help="write parts anew whose columns lie in column parts, or have other names in their files",
    ),
    DIRECTORY,
    DROP_DELETED,
    one_of(RESUME, DRY_RUN),
    JSON,
    STORAGE,
)
def compact_command(args: argparse.Namespace) -> int:
    return _laid_out(
        args,
        "compacting",
        compact,
        part_bytes=args.part_bytes,
        rows_per_part=args.rows_per_part,
        drop_deleted=args.drop_deleted,
        join_columns=args.join_columns,
    )


def _laid_out(
    args: argparse.Namespace, label: str, work: Callable[..., Rewritten], *how: Any, **options: Any
) -> int:
    """Do the work on the dataset under a bar, and say what has been done."""
    with ProgressBar(label, 0, format_size) as bar, wrong_call():
        found = work(
            args.path, *how, resume=args.resume, dry_run=args.dry_run, progress=bar.update, **options
        )
    before, would = many(found.parts_before, "part"), "would have" if args.dry_run else "has"
    copied = f"{many(found.written, 'part')} of {many(found.rows, 'row')}, {format_size(found.bytes)}"
    done = (
        f"version {found.version} {would} {many(found.parts_after, 'part')} in place of {found.parts_before:,}; "
        f"{copied}, {'would be' if args.dry_run else 'is' if found.written == 1 else 'are'} new"
        + (f"; an earlier run had finished {found.resumed:,} of them" if found.resumed else "")
    )
    same = f"its {before} stay as they are; nothing was published"
    return answer(args, found, [f"{args.path}: {done if found.written else same}"])


@command(
    """Lay the rows of a dataset out in N parts of equal numbers of rows. The rows keep their numbers and their
    order, so that jobs go on where they stand. Each row is checked on the way. The parts that were there stay,
    for the versions before, until `unirecord gc`.""",
    """
    unirecord reshard dataset 64
    """,
    DIRECTORY,
    DROP_DELETED,
    one_of(RESUME, DRY_RUN),
    JSON,
    STORAGE,
    Argument("parts", type=int, metavar="N", help="how many parts"),
)
def reshard_command(args: argparse.Namespace) -> int:
    return _laid_out(args, "laying out", reshard, args.parts, drop_deleted=args.drop_deleted)


@command(
    """Bring the rows of a dataset into the order of a scalar column. The rows get other numbers, and deleted ones
    stay behind: a job that was stopped before goes on with the version that it began with. Each row is checked on
    the way. The parts that were there stay, for the versions before, until `unirecord gc`.""",
    """
    unirecord sort dataset --by timestamp --dry-run
    unirecord sort dataset --by score --descending
    unirecord sort dataset --by label --cluster     rows of a label side by side
    """,
    DIRECTORY,
    BY.but(required=True, metavar="COLUMN", help="a scalar column; NaN after numbers, null last"),
    one_of(
        Argument("--descending", action="store_true", help="the greatest first"),
        Argument(
            "--cluster",
            action="store_true",
            help="equal values side by side, in the order in which they first come",
        ),
    ),
    GREATEST_PART,
    one_of(RESUME, DRY_RUN),
    JSON,
    STORAGE,
)
def sort_command(args: argparse.Namespace) -> int:
    return _laid_out(
        args,
        "sorting",
        sort,
        args.by,
        descending=args.descending,
        cluster=args.cluster,
        part_bytes=args.part_bytes,
    )


@command(
    """Make one dataset of several: the rows of the first, then those of the second. Parts are linked where the file
    system can, so that nothing is copied; all must have the same columns, index and metadata.""",
    """
    unirecord merge all day1 day2 day3@4
    unirecord merge all day1 day2 --copy
    """,
    TARGET.but(help="the directory to be made"),
    PATHS.but(help="datasets, in the order of their rows"),
    Argument("--copy", action="store_true", help="copy the parts, link none"),
    DRY_RUN,
    JSON,
    STORAGE,
)
def merge_command(args: argparse.Namespace) -> int:
    with ProgressBar("merging", 0, format_size) as bar, wrong_call():
        found = merge(args.paths, args.target, link=not args.copy, dry_run=args.dry_run, progress=bar.update)
    copied = f"{found.linked:,} linked, {found.parts - found.linked:,} copied"
    parts = f"{many(found.parts, 'part')} ({'not made' if args.dry_run else copied})"
    said = f"{args.target}: {many(found.rows, 'row')} in {parts}, {format_size(found.bytes)}"
    return answer(args, found, [said])


# ``unirecord log``, ``restore`` and ``gc``: the versions of a dataset.


@command(
    """List the versions of a dataset that are kept: each publication of a directory is one. The newest comes last.
    PATH@7 is version 7 wherever a path is read. Exit code 1 when the manifest of one is damaged.""",
    """
    unirecord log dataset
    unirecord log dataset --json
    unirecord inspect dataset@7
    """,
    DIRECTORY,
    JSON,
    STORAGE,
    *cache_refused("it reads manifests alone, which no cache keeps"),
)
def log_command(args: argparse.Namespace) -> int:
    found = versions(args.path)
    damaged = [version for version in found if version.problem is not None]
    head = ["version", "published (UTC)", "by", "rows", "parts", "bytes"]
    code = answer(args, found, fitted_table([head, *map(_row, found)], "><<>>>"), not damaged)
    for version in () if args.json else damaged:
        warn(f"unirecord: version {version.number} cannot be read: {version.problem}")
    return code


def _row(version: Version) -> list[str]:
    by = version.command if version.of is None else f"{version.command} of {version.of}"
    counts = ["?" if count is None else f"{count:,}" for count in (version.rows, version.parts)]
    size = "?" if version.bytes is None else format_size(version.bytes)
    when = "?" if version.when is None else utc_time(version.when)
    return [str(version.number), when, by, *counts, size]


@command(
    """Publish the content of an earlier version of a dataset as the newest one. Nothing is copied or removed: what
    was the newest stays a version, to which restore goes back in the same way.""",
    """
    unirecord log dataset
    unirecord restore dataset@5
    """,
    PATH.but(metavar="PATH@N", help="a version of a directory of parts, as `unirecord log` lists it"),
    STORAGE,
)
def restore_command(args: argparse.Namespace) -> int:
    path, version = split_version(args.path)
    if version is None:
        raise UsageError(f"which version? {path}@N, as `unirecord log {quote(path)}` lists them")
    with wrong_call():
        published = restore(path, version)
    say(f"{path}: version {published} has the content of version {version}")
    return 0


_AGE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhdw])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def _age(text: str) -> float:
    found = _AGE.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no age; write 7d, 12h, 30m or 45s")
    return float(found[1]) * _SECONDS[found[2]]


@command(
    """Remove versions of a dataset, and the parts that no other version names. What a process on this machine has
    open stays. In an object store nobody can see who reads: --older-than says how long readers and writers may
    live, and must be given.""",
    """
    unirecord gc dataset --keep 10 --older-than 7d --dry-run
    unirecord gc dataset --keep 1                  the newest alone
    unirecord gc s3://bucket/dataset --keep 1 --older-than 7d
    """,
    DIRECTORY,
    Argument(
        "--keep",
        type=int,
        default=10,
        metavar="N",
        help="versions that stay, the newest among them (default 10)",
    ),
    Argument(
        "--older-than",
        type=_age,
        metavar="AGE",
        help="as 7d, 12h or 30m: younger versions stay too, and what an --append that was stopped has left (without it "
        "7d); in an object store, those that were the newest since, and files that no version names",
    ),
    DRY_RUN,
    JSON,
    STORAGE,
)
def gc_command(args: argparse.Namespace) -> int:
    unseen = args.older_than is None and is_elsewhere(args)
    refuse(
        {
            "--keep is at least 1: the newest version always stays": args.keep < 1,
            "who reads an object store cannot be seen: give --older-than, such as 7d, which no job reaches": unseen,
        }
    )
    found = gc(args.path, keep=args.keep, older_than=args.older_than, dry_run=args.dry_run)
    return answer(args, found, _collected(args, found))


def _collected(args: argparse.Namespace, found: Collected) -> Iterator[str]:
    what = "would be removed" if args.dry_run else "removed"
    parts = f"{found.parts:,} {'part or file' if found.parts == 1 else 'parts and files'} beside them"
    yield f"{args.path}: {_versions(found.removed)} {what}, with {parts}, {format_size(found.bytes)}"
    if found.in_use:
        yield f"  {_versions(found.in_use)} stay: somebody reads them"
    if found.unknown:
        yield f"  {_versions(found.unknown)} stay: this file system has no locks that tell who reads them"
