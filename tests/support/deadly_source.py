"""A source of numbers whose library ends the process, hangs or takes memory, where its file says so."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from unirecord.convert.sources import Options, RawBatch, Source, Unit
from unirecord.convert.sources.foreign_libraries import foreign_call
from unirecord.errors import MissingError
from unirecord.format.schema import Schema

ROWS = 5


class PanicException(BaseException):
    """What Rust's libraries raise, by its name."""


class DeadlySource(Source):
    """A unit for each line of a file; a line says what comes of it: ``numbers``, or a way to die."""

    schema: Schema
    units: Sequence[Unit]

    kind: ClassVar[str] = "deadly"
    libraries: ClassVar[tuple[str, ...]] = ("json",)

    def look_through(self, options: Options, progress: Any) -> None:
        """A first line ``look X`` is done at once."""
        with self.input.open() as file:
            lines = file.read().decode().split("\n")
        self.schema = Schema.parse({"n": "int64"})
        self.units = [Unit(f"{self.path}, line {i}", (i, line), ROWS) for i, line in enumerate(lines)]
        if lines[0].startswith("look "):
            with foreign_call("h5py", self.path):
                _do(lines[0].removeprefix("look "))

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Two batches; what the line says happens between them."""
        number, line = unit.place
        with open(f"{self.path}.read", "a") as file:
            file.write(f"{number}\n")
        yield RawBatch({"n": np.full(2, number)}, 2)
        with foreign_call("h5py", unit.name):
            _do(line)
        yield RawBatch({"n": np.full(ROWS - 2, number)}, ROWS - 2)


def _do(what: str) -> None:
    if what.startswith("SIG"):
        os.write(2, b"some lines\nthe library says why\n")
        os.kill(os.getpid(), signal.Signals[what])
        time.sleep(60)
    elif what == "spin":
        while True:
            pass
    elif what == "wait":
        os.read(os.pipe()[0], 1)
    elif what == "lock":
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()
    elif what == "locked":
        ctypes.PyDLL(None).pause()  # keeps Python's lock
    elif what == "memory":
        bytearray(1 << 34)
    elif what.startswith("take "):
        bytearray(int(what.removeprefix("take ")))
    elif what == "panic":
        raise PanicException("range end index 9\nout of range")
    elif what == "exit":
        os._exit(3)
    elif what == "missing":
        raise MissingError("a deadly file needs a package")
    elif what == "bug":
        raise AssertionError("a mistake of ours")
    elif what == "warn":
        warnings.warn("something is odd", stacklevel=1)
