"""The door to Ray Data: what `unirecord.frameworks` has for it, under short names."""

from .frameworks.ray_data import engine, read, write

__all__ = ["engine", "read", "write"]
