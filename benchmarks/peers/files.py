"""One file per sample, in folders of 1,000."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from protocol import Gather
from workloads import Raw

MOST = 100_000  # files; a million of them would measure the file system's directory code for minutes


def _path(directory: Path, number: int) -> str:
    return f"{directory}/{number // 1000:04d}/{number:07d}"


def write(raw: Raw, directory: Path) -> None:
    for number in range(min(raw.rows, MOST)):
        if number % 1000 == 0:
            os.makedirs(f"{directory}/{number // 1000:04d}")
        with open(_path(directory, number), "wb", buffering=0) as out:
            out.write(raw.row(number))


class FilesReader(Gather):
    def __init__(self, raw: Raw, directory: Path, threads: int) -> None:
        super().__init__(replace(raw, rows=min(raw.rows, MOST)), threads)
        self.directory = directory

    def fetch(self, ids: list[int]) -> Any:
        rows = []
        for number in ids:
            with open(_path(self.directory, number), "rb", buffering=0) as file:
                rows.append(file.read())
        return rows


def open_reader(raw: Raw, directory: Path, threads: int) -> FilesReader:
    return FilesReader(raw, directory, threads)
