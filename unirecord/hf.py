"""The door to Hugging Face: importing it makes ``datasets.load_dataset("unirecord", data_files=…)`` work."""

from .frameworks.hf import register, to_hf, to_hf_table

__all__ = ["register", "to_hf", "to_hf_table"]

register()
