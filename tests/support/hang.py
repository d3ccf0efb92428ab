"""When a test takes what has not ended for hanging: after minutes, because machines are slow, busy and instrumented."""

from __future__ import annotations

HANG_SECONDS = 600
