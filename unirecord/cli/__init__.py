"""The command line: arguments, printing and exit codes, nothing else."""

from __future__ import annotations

from .main import main

__all__ = ["main"]
