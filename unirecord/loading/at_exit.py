"""Iterators that are still open when the interpreter ends: closed while the modules that they need are whole."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import wraps
from threading import current_thread, main_thread
from typing import Any, ParamSpec, TypeVar

from ..core import WeakObjects

__all__ = ["closed_at_exit"]

P = ParamSpec("P")
T = TypeVar("T")

_OPEN: WeakObjects[Generator[Any, None, None]] = WeakObjects()


def closed_at_exit(make: Callable[P, Generator[T, None, None]]) -> Callable[P, Generator[T, None, None]]:
    """For generator functions whose generators users keep: what is left of one is closed before modules are emptied.

    A generator in a variable of a script is otherwise finalised when the globals of modules may be None already, and
    its ``finally`` fails. Those of other threads stay as they are: their threads may go on while this one ends.
    """

    @wraps(make)
    def begin(*args: P.args, **kwargs: P.kwargs) -> Generator[T, None, None]:
        generator = make(*args, **kwargs)
        if current_thread() is main_thread():
            _OPEN.add(generator)
        return generator

    return begin


def _close_all() -> None:
    for generator in _OPEN:
        with suppress(ValueError):  # a thread is in it
            generator.close()


atexit.register(_close_all)
