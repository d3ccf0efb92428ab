"""The door to Hugging Face: importing it makes ``datasets.load_dataset("unirecord", data_files=…)`` work."""

from .frameworks.hf import dataset, read_splits, register, table, write_splits

__all__ = ["dataset", "read_splits", "register", "table", "write_splits"]

register()
