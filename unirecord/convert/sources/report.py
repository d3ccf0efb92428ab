"""What a conversion left out and why, as a JSON Lines file that appears whole."""

from __future__ import annotations

import json
from collections.abc import Iterable

from ...storage.staged import StagedFile
from .base import LeftOut

__all__ = ["write_report"]


def write_report(path: str, left_out: Iterable[LeftOut]) -> None:
    """Write one object a line, ``{"file": …, "reason": …}``, replacing the file that is there.

    ``rows`` is added where it is not one row.
    """
    lines = (
        json.dumps({"file": one.name, "reason": one.reason, **({} if one.rows == 1 else {"rows": one.rows})})
        + "\n"
        for one in left_out
    )
    staged = StagedFile(path)
    try:
        staged.append(["".join(lines).encode()])
        staged.sync()
        staged.publish()
    finally:
        staged.discard()
