"""Conversions of numbered rows, and what must be there when they have come through."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from numbers_source import SCHEMA, Numbers, values

from unirecord import UniRecordDataset, verify, write_dataset
from unirecord.convert import task
from unirecord.convert.conversion import Conversion
from unirecord.convert.sources.source import Source
from unirecord.format.schema import Schema

ID = bytes(range(16))

UNITS = [130, 70, 1, 300, 0, 220, 90, 260, 40, 180]

ROWS = sum(UNITS)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def convert(target: Path, source: Source, **options: Any) -> tuple[int, list[Any]]:
    progress = options.pop("progress", None)
    spec = Conversion(source, str(target), Schema.parse(SCHEMA), **{"id": ID, "index": ["n"], **options})
    return spec.run(progress)


def check(target: Path, rows: int = ROWS) -> None:
    ds = UniRecordDataset(target)
    assert [one["n"] for one in ds] == list(range(rows))
    assert all(ds[i] == values(i) for i in range(0, rows, 97))
    assert verify(target).ok


def written_alone(folder: Path) -> dict[str, bytes]:
    """What one process makes of the units."""
    before, task._LEAST_BYTES = task._LEAST_BYTES, 100_000
    try:
        convert(folder / "out", Numbers(folder, UNITS))
    finally:
        task._LEAST_BYTES = before
    check(folder / "out")
    found = files(folder / "out")
    assert len(found) > 8  # several parts
    return found


def check_refused(options: dict[str, Any], error: type[Exception], text: str, folder: Path) -> None:
    """``write_dataset`` with these options is an error that says ``text``, and leaves nothing."""
    with pytest.raises(error, match=text):
        write_dataset(Numbers(folder, UNITS), folder / "out", **options)
    assert os.listdir(folder) == []


def start(tmp_path: Path, out: str, pause: float) -> subprocess.Popen[str]:
    code = (
        "import sys; from pathlib import Path; from numbers_source import *\n"
        "from unirecord.convert import task; task._LEAST_BYTES = 100_000\n"
        "from unirecord.convert.conversion import Conversion\n"
        f"source = Numbers(Path({str(tmp_path)!r}), {UNITS}, pause={pause})\n"
        f"wish = Conversion(source, {out!r}, Schema.parse(SCHEMA), id=bytes(range(16)), index=['n'],\n"
        "    workers=2, resume=True)\n"
        "wish.run(lambda standing: print(standing.tasks, standing.resumed, flush=True))\n"
    )
    place = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    return subprocess.Popen(
        [sys.executable, "-c", code], env=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
