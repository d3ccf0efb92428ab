"""What holds for every test: property tests draw the same cases on every run, without a deadline; no pager starts.

A process that dies by a signal shows its stacks, those that tests start included, as pytest's own does.
"""

from __future__ import annotations

import os

from hypothesis import settings

os.environ["UNIRECORD_PAGER"] = ""
os.environ["PYTHONFAULTHANDLER"] = "1"

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
