"""The door to pyarrow's datasets: what `unirecord.frameworks.arrow` gives, under a short name."""

from .frameworks.arrow import dataset

__all__ = ["dataset"]
