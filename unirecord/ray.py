"""The door to Ray Data: what `unirecord.frameworks` has for it, under short names."""

from .frameworks.ray_datasink import write
from .frameworks.ray_datasource import read

__all__ = ["read", "write"]
