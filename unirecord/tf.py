"""The door to TensorFlow: what `unirecord.frameworks.tf` gives, under a short name."""

from .frameworks.tf import dataset

__all__ = ["dataset"]
