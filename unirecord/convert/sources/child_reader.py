"""Sources whose libraries have ended processes over damaged files, looked through and read in a child process.

What ends the child, takes too long or needs too much memory there is an error that names the file and the unit.
"""

from __future__ import annotations

import json
import os
import pickle
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import pairwise
from typing import IO, Any, Final

import numpy as np

from ...core import Locked, end_with
from ...errors import SchemaError, UniRecordError
from ...format.values.strings import PackedStrings, Texts
from ...pipeline.workers import Channel, Ended, Portable
from ...progress import Progress
from ...sizes import format_size
from . import foreign_libraries
from .input_path import InputPath
from .source import TRUST, Options, RawBatch, Source, Unit, file_sizes, refuse_claims, row_bytes

__all__ = ["looked_through", "main"]

# The parent's search path comes first, so that the child imports what the parent did.
_COMMAND: Final = """import json, sys
sys.path[:] = json.loads(sys.argv[1])
from unirecord.convert.sources.child_reader import main
main(int(sys.argv[2]), int(sys.argv[3]))"""
_ANSWERS: Final = ("done", "failed", "short of memory")
# Signals by which a process dies of what it does itself; by others somebody else has ended it.
_OWN_SIGNALS: Final = frozenset((
    signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGSYS,
    signal.SIGPROF, signal.SIGALRM,
))  # fmt: skip
_LEAST_SECONDS: Final = 5.0  # of processor time
_MOST_SECONDS: Final = 600.0
_TRUSTED_SECONDS: Final = 3600.0  # of a file whose sizes are trusted
# Of the clock, for what waits without working, by a lock or by storage that does not answer. A busy machine may give a
# process a tenth of the time.
_LEAST_CLOCK_SECONDS: Final = 600.0
_CLOCK_SECONDS_A_SECOND: Final = 10
_BYTES_A_SECOND: Final = 1_000_000
_LEAST_BYTES: Final = 512 << 20
_BYTES_A_BYTE: Final = 64
_BYTES_A_CORE: Final = 16 << 20  # the stacks of threads that libraries start
_TELL_SECONDS: Final = 0.1


@dataclass(frozen=True)
class _Limits:
    """What one step may take: the look at a file, or a batch. 0 bytes: as many as it likes."""

    seconds: float = _TRUSTED_SECONDS
    clock_seconds: float = _CLOCK_SECONDS_A_SECOND * _TRUSTED_SECONDS
    bytes: int = 0

    @property
    def hint(self) -> str:
        """How to give more time, where there is a way."""
        if not self.bytes:
            return ""
        return f"; --trust-sizes (trust_sizes=True) gives it {_TRUSTED_SECONDS / 60:,.0f} minutes"

    @classmethod
    def of(cls, source: InputPath, options: Options) -> _Limits:
        """In proportion to the largest file."""
        if options.get(TRUST.name):
            return cls()
        largest = max(file_sizes(source), default=0)
        seconds = min(_LEAST_SECONDS + largest / _BYTES_A_SECOND, _MOST_SECONDS)
        clock = max(_LEAST_CLOCK_SECONDS, _CLOCK_SECONDS_A_SECOND * seconds)
        cores = (os.cpu_count() or 1) * _BYTES_A_CORE
        return cls(seconds, clock, _LEAST_BYTES + cores + _BYTES_A_BYTE * largest)


def looked_through(
    make: type[Source], source: InputPath, options: Options, progress: Progress | None = None
) -> Source:
    """Return a source of a kind; where its libraries are said, a child looks through it, and reads it.

    ``progress`` is told bytes of its files, whatever the kind counts as it looks through them. Raises what ``make``
    does, and `SchemaError` where its files claim far more than they hold.
    """
    tell = None if progress is None else _in_bytes(source, progress)
    found = _in_child(make, source, options, tell) if make.libraries else make(source, options, tell)
    if TRUST in make.options:
        refuse_claims(source, options, found.rows or 0, row_bytes(found.schema))
    return found


def _in_bytes(source: InputPath, progress: Progress) -> Progress:
    """What may be told of anything that is counted, and tells of as large a share of the bytes."""
    size = 0

    def tell(done: int, total: int) -> None:
        nonlocal size
        size = size or sum(file_sizes(source))
        progress(size * done // max(total, 1), size)

    return tell


def _in_child(make: type[Source], source: InputPath, options: Options, progress: Progress | None) -> Source:
    child = _Child(make.libraries, _Limits.of(source, options))
    found: Source = child.ask(("look", make, source, options), source.name, progress)
    found.input = source  # which keeps the copy of a pipe
    found.reads_ahead = True
    found.read = partial(_read_in_child, child, pickle.dumps(found))  # type: ignore[method-assign]
    return found


def _read_in_child(child: _Child, source: bytes, unit: Unit) -> Iterator[RawBatch]:
    """Yield the batches of a unit of a source, read in a child, which is started anew where it has ended."""
    began, reading = child.ask(("read", unit), unit.name, source=source)
    try:
        while (packed := child.ask(("next", reading), unit.name, began=began)) is not None:
            yield _unpacked(packed)
    finally:
        child.drop(began, reading)


class _Child:
    """A process that serves one request at a time; any thread may ask."""

    def __init__(self, libraries: tuple[str, ...], limits: _Limits) -> None:
        self._libraries, self._limits = libraries, limits
        self._lock = Locked()
        self._process: _Process | None = None
        self._began = 0  # how many processes have been started
        self._deadly: dict[str, str] = {}  # what processes have died of, and what was said of it

    def __getstate__(self) -> dict[str, Any]:
        """What it takes to start another one."""
        return {"_libraries": self._libraries, "_limits": self._limits}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        _Child.__init__(self, state["_libraries"], state["_limits"])

    def ask(
        self,
        message: tuple[Any, ...],
        where: str,
        progress: Progress | None = None,
        source: bytes | None = None,
        began: int | None = None,
    ) -> Any:
        """Have it do something, and return what comes of it; with ``source`` the number of the process, too.

        ``where`` is what is read, for messages. ``began``: the process that is meant, and no later one.
        """
        with self._lock.lock:
            if where in self._deadly:
                raise SchemaError(self._deadly[where])
            process = self._process
            if process is None or process.parent != os.getpid():
                if began is not None:
                    raise UniRecordError(f"{where}: the process that read it has ended")
                self._process = process = _Process(self._libraries, self._limits)
                self._began += 1
                if source is not None:
                    self._answer(process, ("source", source), where, None)
            elif began not in (None, self._began):
                raise UniRecordError(f"{where}: the process that read it has ended")
            found = self._answer(process, message, where, progress)
            return found if source is None else (self._began, found)

    def _answer(
        self, process: _Process, message: tuple[Any, ...], where: str, progress: Progress | None
    ) -> Any:
        try:
            kind, content = process.answer(message, progress)
        except Ended:
            self._process = None
            error = process.died(where)
            if isinstance(error, SchemaError):
                self._deadly[where] = str(error)
            raise error from None
        except BaseException:  # such as Ctrl-C: it is in the middle of something
            self._process = None
            process.end()
            raise
        if kind == "short of memory":
            if not self._limits.bytes:
                raise MemoryError(f"{process.place(where)}: there is not as much memory as it needs")
            self._deadly[where] = (
                f"{process.place(where)} cannot be read: it needs more than {format_size(self._limits.bytes)} of "
                "memory for one step, so it is damaged, or made to take much; --trust-sizes (trust_sizes=True) gives it"
            )
            raise SchemaError(self._deadly[where])
        if kind == "failed":
            raise content.error()
        return content

    def drop(self, began: int, reading: int) -> None:
        """Say that no more is asked of what was being read."""
        with self._lock.lock, suppress(Ended):
            if self._process is not None and self._began == began and self._process.parent == os.getpid():
                self._process.channel.send(("drop", reading))


class _Process:
    """A child process and the channel to it."""

    def __init__(self, libraries: tuple[str, ...], limits: _Limits) -> None:
        self.parent = os.getpid()
        self._limits = limits
        self._at = ""
        self._said = tempfile.TemporaryFile(prefix="unirecord-")  # noqa: SIM115 (what it says as it dies)
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            self._process = self._started(its.fileno())
        self.channel = Channel(mine)
        self.end = weakref.finalize(self, _end, self._process, mine, self._said, self.parent)
        self.channel.send(("begin", libraries, limits))

    def _started(self, fd: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-c", _COMMAND, json.dumps(sys.path), str(fd), str(self.parent)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._said,
            pass_fds=[fd],
            env=_environment(),
            start_new_session=True,  # Ctrl-C is for this process, which ends it
        )

    def answer(self, message: tuple[Any, ...], progress: Progress | None) -> tuple[str, Any]:
        """What it answers; Ended when it has died."""
        self.channel.send(message)
        while True:
            kind, *content = self.channel.receive(lambda: self._process.poll() is None)
            if kind in _ANSWERS:
                return kind, content[0]
            if kind == "at":
                self._at = content[0]
            elif kind == "warning":
                warnings.warn(content[0], content[1], stacklevel=2)
            elif progress is not None:
                progress(*content)

    def place(self, where: str) -> str:
        """What is read, with the file, or the unit of it, that it is at."""
        if self._at.startswith(where):
            return self._at
        return f"{where}, at {self._at}" if self._at not in where else where

    def died(self, where: str) -> UniRecordError:
        """The error that says how."""
        code = self._process.wait()
        self._said.seek(0)
        lines = self._said.read().decode("utf-8", "replace").split("\n")
        said = next((f" ({' '.join(line.split())[:300]})" for line in reversed(lines) if line.strip()), "")
        self.end()
        where = self.place(where)
        if code >= 0:
            return SchemaError(f"{where} cannot be read: its library ended with exit code {code}{said}")
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        if -code not in _OWN_SIGNALS:
            return UniRecordError(f"the process that reads {where} was ended by {name} (out of memory?)")
        if -code == signal.SIGPROF:
            return SchemaError(
                f"{where} cannot be read: it took more than {self._limits.seconds:,.0f} seconds of processor time "
                f"for one step, so it is damaged, or made to take long{self._limits.hint}"
            )
        if -code == signal.SIGALRM:
            return SchemaError(
                f"{where} cannot be read: one step took more than {self._limits.clock_seconds:,.0f} seconds, most of "
                f"them without work, so it is damaged, or its storage does not answer{self._limits.hint}"
            )
        return SchemaError(
            f"{where} cannot be read: its library dies of it by {name}{said}; it is damaged, or of a kind that the "
            "library does not take"
        )


def _environment() -> dict[str, str]:
    """Of a child; without Python's own stacks of what died, which would stand behind what the library has said."""
    given = {name: value for name, value in os.environ.items() if name != "PYTHONFAULTHANDLER"}
    return {"OPENBLAS_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system", **given}


def _end(process: subprocess.Popen[bytes], sock: socket.socket, said: IO[bytes], parent: int) -> None:
    sock.close()
    said.close()
    if os.getpid() == parent:  # a fork of it has no children
        process.kill()
        process.wait()


# ---- in the child ----------------------------------------------------------------------------------------


def main(fd: int, parent: int) -> None:
    """Serve the parent until it has ended."""
    end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent says when to stop
    # Its death is an error that names the file; the memory of the file's library is nobody's to look at.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    # What the parent ignores or its thread blocks is inherited, and the limits of time end nothing then.
    for number in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _OWN_SIGNALS)
    serving = _Serving(Channel(socket.socket(fileno=fd)))
    with suppress(Ended):
        while True:
            serving.serve(serving.channel.receive())


class _Serving:
    """The source that a child has, and which of its units are being read."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._limits = _Limits()
        self._source: Source | None = None
        self._reading: dict[int, Iterator[RawBatch]] = {}
        self._numbers = 0
        self._told = 0.0
        self._place = ""
        InputPath.opened = foreign_libraries.begun = self._at
        warnings.showwarning = self._warn

    def serve(self, message: tuple[Any, ...]) -> None:
        """Do what a message says."""
        kind, *content = message
        if kind == "begin":
            self._begin(*content)
            return
        if kind == "drop":
            self._reading.pop(content[0], None)
            return
        actions: dict[str, Callable[..., Any]] = {
            "look": self._look, "source": self._take, "read": self._read, "next": self._next,
        }  # fmt: skip
        self._step()
        try:
            answer: tuple[Any, ...] = ("done", actions[kind](*content))
        except MemoryError:
            answer = ("short of memory", None)
        except Ended:
            raise
        except BaseException as error:
            answer = ("failed", Portable.of(error))
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
        self.channel.send(answer)

    def _begin(self, libraries: tuple[str, ...], limits: _Limits) -> None:
        """Import the libraries, and allow as much memory beyond what they take."""
        for library in libraries:
            with suppress(ImportError):  # which the source says in its own words
                import_module(library)
        self._limits = limits
        if limits.bytes:
            with suppress(OSError, ValueError), open("/proc/self/status", encoding="ascii") as status:
                taken = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmData:"))
                resource.setrlimit(resource.RLIMIT_DATA, (taken + limits.bytes, resource.RLIM_INFINITY))

    def _step(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, self._limits.seconds)
        signal.setitimer(signal.ITIMER_REAL, self._limits.clock_seconds)

    def _look(self, make: type[Source], source: InputPath, options: Options) -> Source:
        self._source = make(source, options, self._progress)
        return self._source

    def _take(self, source: bytes) -> None:
        self._source = pickle.loads(source)

    def _read(self, unit: Unit) -> int:
        assert self._source is not None
        self._numbers += 1
        self._reading[self._numbers] = self._source.read(unit)
        return self._numbers

    def _next(self, reading: int) -> Any:
        batch = next(self._reading[reading], None)
        if batch is None:
            del self._reading[reading]
        return None if batch is None else _packed(batch)

    def _progress(self, done: int, total: int) -> None:
        self._step()
        if time.monotonic() - self._told >= _TELL_SECONDS:
            self._told = time.monotonic()
            self.channel.send(("progress", done, total))

    def _at(self, name: str) -> None:
        if name != self._place:
            self._place = name
            self.channel.send(("at", name))

    def _warn(self, message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        known = category if category.__module__ == "builtins" else UserWarning
        self.channel.send(("warning", str(message), known))


# ---- what goes through the channel -----------------------------------------------------------------------


def _packed(batch: RawBatch) -> Any:
    return (
        {name: _packed_column(values) for name, values in batch.columns.items()},
        batch.rows,
        batch.left_out,
        batch.misfits,
    )


def _unpacked(packed: Any) -> RawBatch:
    columns, *rest = packed
    return RawBatch({name: _column(*column) for name, column in columns.items()}, *rest)


def _packed_column(values: Any) -> tuple[Any, ...]:
    """A column as few arrays, which are sent without being pickled one by one."""
    if isinstance(values, Texts):
        return "texts", values.strings.copy(), values.valid
    if isinstance(values, np.ma.MaskedArray):
        return "masked", np.asarray(values.data), np.ma.getmaskarray(values)
    if type(values) is list and values:
        kinds = set(map(type, values)) - {type(None)}
        if kinds and kinds <= {memoryview, bytes}:
            absent = np.fromiter((value is None for value in values), np.bool_, len(values))
            given = [value for value in values if value is not None]
            sizes = np.fromiter(
                (0 if value is None else len(value) for value in values), np.int64, len(values)
            )
            # one alone, which may be a whole file, is sent from where it lies
            cells = PackedStrings.of_sizes(given[0] if len(given) == 1 else b"".join(given), sizes)
            return "cells", cells, absent if absent.any() else None, kinds == {bytes}
        if (
            kinds == {np.ndarray}
            and len({(value.dtype, value.ndim) for value in values if value is not None}) == 1
        ):
            given = [value for value in values if value is not None]
            if given[0].ndim == 1 and not given[0].dtype.hasobject:
                sizes = np.fromiter(
                    (-1 if value is None else len(value) for value in values), np.int64, len(values)
                )
                return "arrays", np.concatenate(given), sizes
    return "values", values


def _column(kind: str, *content: Any) -> Any:
    if kind == "texts":
        return Texts(*content)
    if kind == "masked":
        return np.ma.MaskedArray(*content)
    if kind == "cells":
        strings, absent, are_bytes = content
        view, ends = memoryview(strings.data), strings.ends.tolist()
        cells: list[Any] = list(strings) if are_bytes else [view[a:b] for a, b in pairwise(ends)]
        for i in np.flatnonzero(absent).tolist() if absent is not None else ():
            cells[i] = None
        return cells
    if kind == "arrays":
        flat, sizes = content
        ends = np.cumsum(np.maximum(sizes, 0)).tolist()
        return [None if n < 0 else flat[end - n : end] for end, n in zip(ends, sizes.tolist(), strict=True)]
    return content[0]
