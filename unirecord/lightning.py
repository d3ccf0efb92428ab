"""The door to Lightning: what `unirecord.frameworks.lightning` gives, under a short name."""

from .frameworks.lightning import LightningLoader, loader

__all__ = ["LightningLoader", "loader"]
