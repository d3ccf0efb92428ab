"""The door to Hugging Face: importing it makes ``datasets.load_dataset("unirecord", data_files=…)`` work."""

from .frameworks.hf import dataset, register, table

__all__ = ["dataset", "register", "table"]

register()
