"""The door to PyTorch: what `unirecord.frameworks.torch` gives, under a short name."""

from .frameworks.torch import TorchLoader, loader, to_tensors

__all__ = ["TorchLoader", "loader", "to_tensors"]
