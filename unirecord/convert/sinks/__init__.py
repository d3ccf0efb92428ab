"""Rows to the files of other formats: a sink writes what a dataset holds as what somebody else reads."""

from .sink import Advance, Sink, batches, refuse, samples

__all__ = ["Advance", "Sink", "batches", "refuse", "samples"]
