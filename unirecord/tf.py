"""The door to TensorFlow: what `unirecord.frameworks.tf` gives, under a short name."""

from .frameworks.tf import to_tf

__all__ = ["to_tf"]
