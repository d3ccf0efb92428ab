"""The door to PyTorch: what `unirecord.frameworks.torch` gives, under a short name."""

from .frameworks.torch import EpochSampler, TorchLoader, loader, padding_free, to_tensors

__all__ = ["EpochSampler", "TorchLoader", "loader", "padding_free", "to_tensors"]
