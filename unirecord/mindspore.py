"""The door to MindSpore: what `unirecord.frameworks.mindspore` gives, under a short name."""

from .frameworks.mindspore import dataset

__all__ = ["dataset"]
