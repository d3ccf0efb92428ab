"""What holds for every test: property tests draw the same cases on every run, without a deadline; no pager starts."""

from __future__ import annotations

import os

from hypothesis import settings

os.environ["UNIRECORD_PAGER"] = ""

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
