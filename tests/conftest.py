"""What holds for every test: property tests draw the same cases on every run, without a deadline."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
