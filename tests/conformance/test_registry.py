"""Every public way to get samples has a consumer in the registry, and whoever adds one is told to add another."""

from __future__ import annotations

import importlib
import pkgutil

import conformance.frameworks  # noqa: F401  (registers consumers)
import unirecord.frameworks
from conformance.case import CASES_A_DATASET
from conformance.consumers import CONSUMERS
from conformance.test_conformance import DATASETS
from unirecord import UniRecordDataset

# Too large for every run: `make mindspore`.
APART = {"unirecord.mindspore.dataset"}
COVERED = {consumer.covers for consumer in CONSUMERS} | APART
DELIVERING_PROTOCOLS = {"__getitem__", "__getitems__", "__iter__"}

# Public names of a dataset that hand out no samples, or do so through a dataset that the harness reads.
NO_LOADERS = {
    *("path", "schema", "column_names", "metadata", "num_rows", "shard_id", "num_shards", "io", "epoch"),
    *("transform", "on_corrupt", "order", "locate", "set_epoch", "state_dict", "load_state_dict"),
    *("view", "select", "take", "skip", "split", "distributed", "refresh", "close", "cache_stats"),
    *("exclude", "excluded_rows"),
    *("head", "sample"),  # look at it: test_notebook.py compares them with ds[i]
    *("get",),  # a row by a key: test_keys.py compares it with ds[i]
    *("read_part",),  # a part of a value: test_chunks.py compares it with the whole one
}
# What the modules of frameworks export and what it is reached through.
FRAMEWORK_NAMES = {
    "torch.loader": "unirecord.torch.loader",
    "torch.TorchLoader": "unirecord.torch.loader",
    "torch.to_tensors": "unirecord.torch.loader",
    "torch.padding_free": "unirecord.torch.loader",  # test_torch_packing.py compares it with the samples
    "torch.EpochSampler": "torch.utils.data.DataLoader",
    "keras.dataset": "unirecord.keras.dataset",
    "jax.loader": "unirecord.jax.loader",
    "jax.to_arrays": "UniRecordDataset.pipeline",
    "grain.Source": "unirecord.grain.Source",
    "grain.batches": "unirecord.grain.batches",
    "grain.dataset": "unirecord.grain.dataset",
    "arrow.dataset": "UniRecordDataset.to_batches",  # test_arrow_streams.py compares these two with the rows
    "polars.scan": "UniRecordDataset.to_batches",
    "hf.read_splits": "unirecord.hf.dataset",
    "hf.register": "unirecord.hf.dataset",
    "hf.write_splits": "unirecord.hf.dataset",
    "hf.dataset": "unirecord.hf.dataset",
    "hf.table": "unirecord.hf.table",
    "lightning.loader": "unirecord.lightning.loader",
    "lightning.LightningLoader": "unirecord.lightning.loader",
    "mindspore.dataset": "unirecord.mindspore.dataset",
    "tf.dataset": "unirecord.tf.dataset",
}
# What the others stand on; no user reaches these.
BENEATH = {
    *(
        "array_trees",
        "arguments",
        "hf_builder",
        "torch_collate",
    ),
    *("valid_names",),
}
# What runs on a cluster: tests/slow/ray_reading_jobs.py compares its rows with those of the dataset (`make ray`).
ON_A_CLUSTER = {"ray_data"}


def test_every_method_of_a_dataset_that_delivers_samples_has_a_consumer() -> None:
    public = {name for name in dir(UniRecordDataset) if not name.startswith("_")} | DELIVERING_PROTOCOLS
    unknown = {name for name in public - NO_LOADERS if f"UniRecordDataset.{name}" not in COVERED}
    assert unknown == set(), "register a consumer for it, or name it above if it delivers no samples"
    assert public >= NO_LOADERS, "no longer a public name"


def test_every_framework_has_a_consumer() -> None:
    exported = set()
    for module in pkgutil.iter_modules(unirecord.frameworks.__path__):
        if module.name in BENEATH | ON_A_CLUSTER:
            continue
        found = importlib.import_module(f"unirecord.frameworks.{module.name}")
        exported |= {f"{module.name}.{name}" for name in found.__all__}
    assert exported == set(FRAMEWORK_NAMES), "register a consumer, and say here which it is"
    assert set(FRAMEWORK_NAMES.values()) <= COVERED


def test_names_are_unique_and_the_normal_run_has_two_thousand_cases() -> None:
    assert len({consumer.name for consumer in CONSUMERS}) == len(CONSUMERS)
    assert DATASETS * CASES_A_DATASET >= 2000
