"""Registers the consumers of every framework that is installed."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

MODULES = {
    "torch_consumers": "torch",
    "tf_consumers": "tensorflow",
    "jax_consumers": "jax",
    "grain_consumers": "grain",
    "keras_consumers": "keras",
    "hf_consumers": "datasets",
    "mindspore_consumers": "mindspore",
}

REGISTERED = [
    import_module(f"conformance.{module}") for module, package in MODULES.items() if find_spec(package)
]
