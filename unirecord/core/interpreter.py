"""What the interpreter is: one of several is refused, and whether threads of Python take turns is asked."""

from __future__ import annotations

import ctypes
import sys

from ..errors import UniRecordError


def check_interpreter() -> None:
    """UniRecordError in any but the main one: what is alive in another when the process ends keeps it from ending."""
    try:
        own, main = (
            ctypes.PYFUNCTYPE(ctypes.c_void_p)((name, ctypes.pythonapi))
            for name in ("PyInterpreterState_Get", "PyInterpreterState_Main")
        )
    except AttributeError:  # another Python than CPython
        return
    if own() != main():
        raise UniRecordError(
            "UniRecord works in the main interpreter of a process, and this is a subinterpreter, which NumPy does not "
            "support either: use threads or processes (with mod_wsgi: WSGIApplicationGroup %{GLOBAL})"
        )


def has_gil() -> bool:
    """Whether Python's lock is there, and has not been switched off."""
    held: bool = getattr(sys, "_is_gil_enabled", lambda: True)()
    return held
