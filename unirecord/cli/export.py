"""``unirecord export PATH DST``: a dataset to files of another format."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Final

from ..convert.export import Exporting
from ..convert.sinks.kinds import SINK_KINDS, SINKS
from ..errors import SchemaError
from ..sizes import format_size, many
from .arguments import (
    CACHE,
    CACHE_BYTES,
    COLUMNS,
    DATASETS,
    JSON,
    LIMIT,
    OVERWRITE,
    STORAGE,
    TARGET,
    WHERE,
    Argument,
    UsageError,
    command,
    count,
    target,
)
from .terminal import ProgressBar, answer, duration, say, warn

__all__ = ["export_command"]

_WRITES: Final = ", ".join(sink.about for sink in SINKS)


@command(
    f"""Write a dataset, or some of its rows and columns, as {_WRITES}. Nothing is visible at DST until all of it is
    written. What becomes of values that the format holds otherwise is shown.""",
    """
    unirecord export pictures.urec folder --to images
    unirecord export people people.parquet --where 'age >= 18' --columns name,age
    unirecord export train shards --to webdataset --parts 64
    unirecord export train train.jsonl --limit 1000
    """,
    DATASETS,
    TARGET.but(type=target, help="a file with the format's ending, or else a folder of files"),
    Argument("--to", choices=SINK_KINDS, help="the format, when the ending of DST does not say it"),
    WHERE,
    COLUMNS,
    LIMIT,
    Argument(
        "--parts", type=count, metavar="N", help="N files in the folder DST, with a share of the rows each"
    ),
    OVERWRITE.but(help="replace an earlier export, once the new one is complete"),
    JSON,
    STORAGE,
    CACHE,
    CACHE_BYTES,
)
def export_command(args: argparse.Namespace) -> int:
    started = time.monotonic()
    options = {name: getattr(args, name) for name in ("columns", "where", "limit", "parts", "overwrite")}
    path = args.path[0] if len(args.path) == 1 else args.path
    try:
        job = Exporting(path, args.target, args.to, **options)
    except (ValueError, SchemaError) as error:
        raise UsageError(str(error).replace("with to=:", "with --to:")) from None
    with job:
        total = len(job.rows)
        if not args.json:
            source = args.path[0] + (" …" if len(args.path) > 1 else "")
            say(f"{source} → {args.target}  ({job.sink.kind}, {many(total, 'row')})")
            say(*(f"  {note}" for note in job.notes))
            sys.stdout.flush()
        with ProgressBar("writing", total, "{:,} rows".format) as bar:
            done = job.run(bar.update)
        warn(*(f"unirecord: {args.target}: {said}" for said in job.said))
    found = {name: getattr(done, name) for name in ("kind", "path", "rows", "files", "bytes")}
    seconds = time.monotonic() - started
    files = f"{many(done.files, 'file')}, {format_size(done.bytes)}"
    rate = f", {done.rows / seconds:,.0f} rows/s" if seconds > 0 and done.rows >= 1000 else ""
    return answer(args, found, [f"wrote {files}, in {duration(seconds)}{rate}"])
