"""Producers, a deleter, a compactor and a trainer at once, one of them killed each turn (`make chaos`: minutes)."""

from __future__ import annotations

import tempfile
from pathlib import Path

import chaos


def test_whoever_is_killed_nothing_is_torn_missing_twice_or_wrong() -> None:
    with tempfile.TemporaryDirectory() as folder:
        counts = chaos.in_turns(Path(folder), turns=2, seed=21)
    assert counts["kills"] == 2
    assert counts["appends"] >= 3
