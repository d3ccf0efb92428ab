"""``unirecord verify`` and ``unirecord repair``: whether every byte is right, and what can be done if not."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from ..inspect.repair import RepairReport, Salvaged, repair
from ..inspect.verify import verify
from ..sizes import format_size, many
from .arguments import JSON, PATH, PATHS, STORAGE, Argument, cache_refused, command, wrong_call
from .terminal import ProgressBar, answer, duration, warn

__all__ = ["repair_command", "verify_command"]


@command(
    """Check a dataset whole: headers, identities, every digest, every byte that should be zero, and that each index
    says what its data file does. Files are only read. Exit code 1 when anything is wrong.""",
    """
    unirecord verify pictures.urec
    unirecord verify train val            several at once
    unirecord verify dataset --quick      headers, identities and sizes alone
    unirecord verify dataset --json
    """,
    PATHS.but(help="parts and directories of parts"),
    Argument("--quick", action="store_true", help="look at headers, identities and sizes alone"),
    JSON,
    STORAGE,
    *cache_refused("it checks what the store has, and nothing that was kept of it"),
)
def verify_command(args: argparse.Namespace) -> int:
    with ProgressBar("verifying", 0, format_size) as bar:
        report = verify(args.paths, quick=args.quick, progress=bar.update)
    parts = many(report.parts, "part")
    if report.column_parts:
        parts += f", {many(report.column_parts, 'column part')}"
    looked = (
        f"{parts}, {many(report.rows, 'row')}, {format_size(report.bytes)}, in {duration(report.seconds)}"
    )
    if args.json or report.ok:
        what = "headers and sizes are" if report.quick else "every byte is"
        return answer(args, report, [f"{report.path}: {what} as written ({looked})"], report.ok)
    found = many(len(report.problems), "problem")
    warn(f"unirecord: {report.path}: {found} ({looked})", *(f"  {problem}" for problem in report.problems))
    return 1


@command(
    """Rebuild a lost or bad index from its data file, and salvage the rows of a damaged or unfinished data file into
    a new part. Data files are never changed. Exit code 1 when rows were lost.""",
    """
    unirecord repair pictures.urec
    unirecord repair dataset --output dataset.saved
    """,
    PATH,
    Argument("--output", metavar="DST", help="where salvaged rows go (default: NAME.repaired beside PATH)"),
    JSON,
)
def repair_command(args: argparse.Namespace) -> int:
    with ProgressBar("repairing", 0, format_size) as bar, wrong_call():
        report = repair(args.path, output=args.output, progress=bar.update)
    return answer(args, report, _repaired(report), report.ok)


def _repaired(report: RepairReport) -> Iterator[str]:
    for part in report.parts:
        yield _told(part)
        for first, stop in part.lost[:20]:
            yield f"  lost: row {first:,}" if stop == first + 1 else f"  lost: rows {first:,} to {stop - 1:,}"
        if len(part.lost) > 20:
            yield f"  … and {len(part.lost) - 20:,} more ranges"
        yield from (f"  because: {reason}" for reason in part.reasons[:20])
    if report.corrected:
        yield f"{report.manifest}: the sizes of files in it were wrong, and were corrected"
    elif report.manifest is not None:
        made = f"was made anew from {many(len(report.parts), 'part')}; a writer that died may have left some"
        yield f"{report.manifest}: {made}"
    lost = f", {report.lost:,} lost" if report.lost else ""
    yield f"{report.path}: {many(report.kept, 'row')} can be read{lost} (in {duration(report.seconds)})"


def _told(part: Salvaged) -> str:
    if part.action == "index":
        return f"{part.path}: the index was rebuilt, {many(part.kept, 'row')}"
    if part.action == "salvaged":
        saved = (
            many(part.kept, "row", "were")
            if part.rows is None
            else f"{part.kept:,} of {many(part.rows, 'row')} were"
        )
        return f"{part.path}: {saved} saved to {part.output}"
    copied = f" were copied to {part.output}" if part.output is not None else ""
    return f"{part.path}: is sound, {many(part.kept, 'row')}{copied}"
