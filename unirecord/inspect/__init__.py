"""Looking at datasets as they lie on disk: describe, verify, repair."""

from __future__ import annotations

from .describe import Description, describe
from .repair import repair
from .report import Problem, RepairReport, Report
from .verify import verify

__all__ = ["Description", "Problem", "RepairReport", "Report", "describe", "repair", "verify"]
