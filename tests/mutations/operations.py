"""Ten things a user does with a dataset; each ends with values, a report, or an error that a user can act on."""

from __future__ import annotations

import contextlib
import io
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from conformance.canonical import freeze

import unirecord
from unirecord import UniRecordDataset
from unirecord.cli import main
from unirecord.loading.batch import valid_rows

ALLOWED = (unirecord.UniRecordError, OSError, MemoryError)
MOST_SAMPLES = 40  # of those that a part claims to have
MOST_BATCHES = 8


class Wrong(Exception):
    """What may not happen."""


class Case:
    """One mutated dataset, and what has been read of it."""

    def __init__(self, path: Path, scratch: Path, pick: random.Random) -> None:
        self.path, self.scratch, self.pick = path, scratch, pick
        self.options: dict[str, Any] = {
            "io": pick.choice(["mmap", "pread", "memory", "auto"]),
            "verify": pick.choice(["first", "never", "always"]),
        }
        self.samples: dict[int, Any] = {}
        self.digest = xxhash.xxh3_64()

    def keep(self, place: int, sample: Any) -> None:
        """Notes what was read; the same sample read in another way must be the same."""
        form = repr(sample)
        self.digest.update(form.encode())
        if self.samples.setdefault(place, form) != form:
            raise Wrong(f"sample {place} is {form:.200} here, and was {self.samples[place]:.200}")


def opened(case: Case) -> None:
    with UniRecordDataset(case.path, **case.options) as ds:
        case.digest.update(repr((len(ds), ds.schema)).encode())
        str(ds.metadata)


def by_index(case: Case) -> None:
    with UniRecordDataset(case.path, **case.options) as ds:
        for i in [*range(min(len(ds), MOST_SAMPLES)), len(ds) - 1]:
            with contextlib.suppress(*ALLOWED, *([IndexError] if i < 0 else [])):
                case.keep(i, _frozen(ds[i]))


def batches(case: Case) -> None:
    with UniRecordDataset(case.path, **case.options) as ds:
        at = 0
        for batch, _ in zip(ds.batches(5), range(MOST_BATCHES), strict=False):
            columns = {name: _values(value) for name, value in batch.items()}
            if not columns:
                return
            for values in zip(*columns.values(), strict=True):
                case.keep(at, dict(zip(columns, values, strict=True)))
                at += 1


def parts(case: Case) -> None:
    """A part of a value is that of the whole value, where both are given."""
    with UniRecordDataset(case.path, **case.options) as ds:
        columns = [column for column in ds.schema if column.chunks is not None]
        for column in columns:
            for i in range(min(len(ds), 5)):
                with contextlib.suppress(*ALLOWED):
                    part = ds.read_part(i, column.name, np.s_[1:])
                    case.digest.update(repr(freeze(part)).encode())
                    whole = ds[i][column.name]
                    if isinstance(whole, str):
                        whole = whole.encode()
                    if freeze(part) != freeze(None if whole is None else whole[1:]):
                        raise Wrong(f"a part of sample {i}, column {column.name!r}, is not that of its value")


def query(case: Case) -> None:
    with UniRecordDataset(case.path, **case.options) as ds:
        scalars = [column for _, column in ds.schema.scalars]
        if not scalars:
            return
        column = case.pick.choice(scalars)
    value = "'a%'" if column.type == "string" else "0"
    ways = [f"{column.name} is not null", f"{column.name} != {value}", f"{column.name} in ({value}, {value})"]
    if column.type == "string":
        ways.append(f"{column.name} like {value}")
    with UniRecordDataset(case.path, where=case.pick.choice(ways), **case.options) as ds:
        case.digest.update(ds.order.row_ids(0, 50).tobytes())
        for sample in ds.take(5):
            case.digest.update(repr(_frozen(sample)).encode())
        ds.take(50).scalars([column.name])


def describe(case: Case) -> None:
    str(unirecord.describe(case.path))


def verify(case: Case) -> None:
    report = unirecord.verify(case.path, threads=1)
    str(report)
    if not report.ok:
        return
    try:  # what is found good is read
        with UniRecordDataset(case.path, **case.options) as ds:
            for i in range(min(len(ds), MOST_SAMPLES)):
                str(ds[i])
    except ALLOWED as error:
        raise Wrong(f"verify finds it good, and readers refuse it: {type(error).__name__} {error}") from error


def repair(case: Case) -> None:
    output = case.scratch / ("out" if case.path.is_dir() else "out.urec")
    copy = case.scratch / "copy" / case.path.name
    shutil.rmtree(copy.parent, ignore_errors=True)
    if case.path.is_dir():
        shutil.copytree(case.path, copy)
    else:
        copy.parent.mkdir()
        for suffix in ("", ".idx"):
            shutil.copy(f"{case.path}{suffix}", f"{copy}{suffix}")
    str(unirecord.repair(copy, output=output))
    if output.exists():
        report = unirecord.verify(output, threads=1)
        if not report.ok:
            raise Wrong(f"repair wrote what verify rejects: {report}")


def rewritten(case: Case) -> None:
    """What is written of it anew is found good, or it is not written."""
    folder = case.scratch / "anew"
    shutil.rmtree(folder, ignore_errors=True)
    made = folder / "d"
    folder.mkdir()
    way = case.pick.choice(["reshard", "write", "sort"])
    if way == "write":
        unirecord.write_dataset(case.path, made)
    else:
        unirecord.merge([case.path], made)
        if way == "reshard":
            rows = unirecord.describe(made).rows
            done = unirecord.reshard(made, min(2, max(rows, 1)), drop_deleted=True)
        else:
            with UniRecordDataset(made) as ds:
                scalars = [column.name for _, column in ds.schema.scalars]
            done = unirecord.sort(made, case.pick.choice(scalars), descending=True) if scalars else None
        if done is None or not done.written:
            return
    report = unirecord.verify(made, threads=1)
    if not report.ok:
        raise Wrong(f"{way} wrote what verify rejects: {report}")


def inspect(case: Case) -> None:
    ways = [["--json"], ["--stats", "--json"], ["--csv"], ["--row", "0"], ["--sort", "a"], []]
    way = case.pick.choice(ways)
    with contextlib.suppress(*ALLOWED), UniRecordDataset(case.path) as ds:
        names = [column.name for column in ds.schema]
        if names and case.pick.random() < 0.4:
            name = case.pick.choice(names)
            quoted = "`" + name.replace("`", "``") + "`"
            pictures = [f"--extract={name}", "--out", str(case.scratch / "extracted")]
            way = case.pick.choice([pictures, [f"--group-by={quoted}", "--json"], [f"--sort={quoted}"]])
    out, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
        main(["inspect", str(case.path), "--debug", *way])
    if "internal error" in said.getvalue():
        raise Wrong(f"inspect {way}: {said.getvalue()[-1500:]}")


def _frozen(sample: Any) -> Any:
    return {name: freeze(value) for name, value in sample.items()}


def _values(column: Any) -> Iterator[Any]:
    if isinstance(column, np.ma.MaskedArray):
        known = valid_rows(column)
        return (freeze(item) if valid else None for item, valid in zip(column.data, known, strict=True))
    return (freeze(item) for item in column)


OPERATIONS: dict[str, Callable[[Case], None]] = {
    operation.__name__: operation
    for operation in (opened, by_index, batches, parts, query, describe, verify, repair, rewritten, inspect)
}
