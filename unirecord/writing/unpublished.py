"""Writers that are open: one that is dropped, or alive when its process ends, is said on stderr and cleaned up."""

from __future__ import annotations

import atexit
import os
import sys
from typing import Protocol

from ..core import WeakObjects

__all__ = ["say_dropped", "watch"]


class OpenWriter(Protocol):
    """What is asked of a Writer."""

    path: str

    @property
    def rows(self) -> int:
        """Rows that it has taken."""

    def is_open(self) -> bool:
        """Whether it is neither closed nor aborted, and this process's own."""

    def abort(self) -> None:
        """Gives up."""


_open: WeakObjects[OpenWriter] = WeakObjects()
_watching = 0  # the process that looks at its end


def watch(writer: OpenWriter) -> None:
    """Has the writer looked at when the process ends."""
    global _watching
    _open.add(writer)
    process = sys.modules.get("multiprocessing.process")
    if _watching != os.getpid() and process is not None and process.parent_process() is not None:
        from multiprocessing.util import Finalize  # such a process ends without atexit

        Finalize(None, _at_end, exitpriority=1)
    _watching = os.getpid()
    atexit.unregister(_at_end)  # and again as the latest, to run before what the writer needs has ended
    atexit.register(_at_end)


def say_dropped(writer: OpenWriter, how: str) -> None:
    """One line on stderr: a user who meets no error would take the rows for written."""
    count = f"{writer.rows:,} rows" if writer.rows != 1 else "1 row"
    line = f"unirecord: {writer.path}: a Writer with {count} {how} without close(): nothing was published; "
    if sys.stderr is not None:
        print(line + "use `with Writer(...)`, or call close() or abort()", file=sys.stderr)


def _at_end() -> None:
    for writer in _open:
        if writer.is_open():
            if not _died_visibly():
                say_dropped(writer, "was alive when its process ended")
            writer.abort()


def _died_visibly() -> bool:
    """Whether the process ends by an exception that Python has just shown."""
    return getattr(sys, "last_value", None) is not None and not hasattr(sys, "ps1")
