"""The door to Keras: what `unirecord.frameworks.keras` gives, under a short name."""

from .frameworks.keras import dataset

__all__ = ["dataset"]
