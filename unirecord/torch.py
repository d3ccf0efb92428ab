"""The door to PyTorch: what `unirecord.frameworks.torch` gives, under a short name."""

from .frameworks.torch import TorchLoader, loader, to_tensors
from .frameworks.torch_sampler import EpochSampler

__all__ = ["EpochSampler", "TorchLoader", "loader", "to_tensors"]
