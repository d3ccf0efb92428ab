"""The door to Grain: what `unirecord.frameworks.grain` gives, under short names."""

from .frameworks.grain import Source, batches, dataset

__all__ = ["Source", "batches", "dataset"]
