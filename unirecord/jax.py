"""The door to JAX: what `unirecord.frameworks.jax` gives, under a short name."""

from .frameworks.jax import loader, to_arrays

__all__ = ["loader", "to_arrays"]
