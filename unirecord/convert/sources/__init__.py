"""Raw data to records: a source reads what a user has, and yields columns ready for `Writer.write_batch`."""

from __future__ import annotations

from .base import Batch, Scan, Source
from .opening import KINDS, open_source

__all__ = ["KINDS", "Batch", "Scan", "Source", "open_source"]
