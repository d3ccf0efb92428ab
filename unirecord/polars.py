"""The door to Polars: what `unirecord.frameworks.polars` gives, under a short name."""

from .frameworks.polars import scan

__all__ = ["scan"]
