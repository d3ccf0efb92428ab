"""Refuses subinterpreters: what is still alive in one when the process ends would keep it from ending."""

from __future__ import annotations

import ctypes

from ..errors import UniRecordError


def check_interpreter() -> None:
    """UniRecordError in any interpreter but the main one."""
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
