"""A process of `multiprocessing` that ends with the one that has started it."""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Final

_LOOK_SECONDS: Final = 0.5


def end_with_parent() -> None:
    """This process ends when the one that has started it does, however that ends: by SIGKILL nobody else would end it.

    AssertionError in a process that `multiprocessing` has not started.
    """
    import multiprocessing  # not with the package, whose import it would slow down

    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_wait, args=(parent,), name="unirecord-parent", daemon=True).start()


def _wait(parent: Any) -> None:
    if os.getppid() == parent.pid:
        # Not join(), which forked siblings hold up: they have inherited the other end of its pipe.
        while os.getppid() == parent.pid:
            time.sleep(_LOOK_SECONDS)
    else:
        parent.join()  # a server of forks stands between, or it has ended already
    os._exit(1)
