"""What holds for every test: property tests draw the same cases on every run, without a deadline; no pager starts.

A process that dies by a signal shows its stacks, those that tests start included, as pytest's own does.
"""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import settings

os.environ["UNIRECORD_PAGER"] = ""
os.environ["PYTHONFAULTHANDLER"] = "1"
# Streams are buffered, as in a user's shell.
os.environ.pop("PYTHONUNBUFFERED", None)
# Programs that tests start find what tests share, as tests do.
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(Path(__file__).parent / "support"), os.environ.get("PYTHONPATH")])
)

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True, scope="module")
def _what_is_imported_is_not_garbage() -> None:
    """Leaves out of later collections what was there before: with the frameworks imported, each would take a second."""
    gc.collect()
    gc.freeze()
