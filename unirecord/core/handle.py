"""References to things of the C core: given up once, when nobody can call with them any more."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .library import ffi


class Handle:
    """One reference to something of the C core, given up when the last owner of this object is gone; then ``borrowed``.

    Call with ``pointer``, and hold the Handle for as long. No finalizer runs after the reference has been given up
    (a generator's ``finally``, an ``__exit__`` or a ``__del__`` in a reference cycle, in whatever order the collector
    takes them), and no other thread is in a call.
    """

    # A cdata with a destructor is a container with a finalizer, which the collector runs before those of others in the
    # same cycle. An array of objects is none in its eyes: what lies inside looks used, and so do the things borrowed,
    # until the array itself goes, after all finalizers.
    __slots__ = ("__weakref__", "_owner", "pointer")

    def __init__(self, pointer: Any, release: Callable[[Any], object], *borrowed: object) -> None:
        """``release``: a function of the C core. ``borrowed``: what must outlive it; must not refer to its owner."""
        self.pointer: Any = pointer
        self._owner = np.empty(1, object)
        self._owner[0] = ffi.gc(pointer, keeping(release, borrowed) if borrowed else release)

    def __reduce__(self) -> Any:
        raise TypeError("what lies in the C core cannot be copied or pickled")


def keeping(function: Callable[[Any], object], kept: object) -> Callable[[Any], object]:
    """The function, for `ffi.gc`, with things that are let go after it has been called.

    No bytecode runs in it, so a signal's exception (Ctrl-C) comes up where it can be raised, and is not lost.
    """
    call = partial(function)
    call.kept = kept  # type: ignore[attr-defined]
    return call


def view_of(handle: Handle, pointer: Any, size: int) -> memoryview:
    """Read-only memory of something that ``handle`` holds; keeps it. For arrays, which the collector does not enter."""
    data = ffi.gc(pointer, keeping(bool, handle))
    return memoryview(ffi.buffer(data, size)).toreadonly()
