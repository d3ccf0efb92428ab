"""The door to pictures: `Decode`, an operator of pipelines and a function."""

from .pipeline.pictures import Decode

__all__ = ["Decode"]
