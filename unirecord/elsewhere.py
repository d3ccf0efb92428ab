"""What to use here for a method that is known from another library, as the message of an AttributeError."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["OF_DATASETS", "OF_WRITERS", "no_attribute"]

# Names of Hugging Face datasets, tf.data, WebDataset, torchdata, MindSpore and pandas.
OF_DATASETS: Final[Mapping[str, str]] = {
    "map": "transform= of UniRecordDataset or batches() is called on each sample",
    "with_transform": "transform= of UniRecordDataset or batches() is called on each sample",
    "set_transform": "transform= of UniRecordDataset or batches() is called on each sample",
    "filter": "ds.view(where='label == 3') keeps the rows that meet a condition",
    "train_test_split": "ds.split([0.8, 0.2]) gives parts that no row is in twice",
    "random_split": "ds.split([0.8, 0.2]) gives parts that no row is in twice",
    "features": "ds.schema says the columns and their types",
    "column_schema": "ds.schema says the columns and their types",
    "dtypes": "ds.schema says the columns and their types",
    "columns": "ds.column_names are their names, ds.schema their types",
    "shape": "len(ds) is the number of rows, ds.schema says the columns",
    "shuffle": "shuffle=True of UniRecordDataset or ds.view() orders each epoch anew",
    "shard": "shard_id= and num_shards= of UniRecordDataset or ds.view() give a share of the rows",
    "batch": "ds.batches(32) gives batches",
    "iter": "ds.batches(32) gives batches",
    "prefetch": "ds.batches(32, prefetch=4) reads batches ahead",
    "repeat": "call ds.set_epoch(n) and iterate again for each epoch",
    "cache": "io='memory' of UniRecordDataset keeps the data in memory",
    "with_format": "samples are NumPy arrays; unirecord.torch and unirecord.tf give tensors",
    "set_format": "samples are NumPy arrays; unirecord.torch and unirecord.tf give tensors",
    "select_columns": "columns= of UniRecordDataset or ds.view() reads only some columns",
    "remove_columns": "columns= of UniRecordDataset or ds.view() reads only some columns",
    "sort": "`unirecord inspect PATH --sort` shows rows sorted; ds.select(rows) takes rows in any order",
    "unique": "ds.scalars(['label']) reads a scalar column as an array, for numpy.unique",
    "head": "ds.take(5) is the first rows, ds[0] one of them",
    "save_to_disk": "unirecord.export(path, target) writes other formats",
    "to_parquet": "unirecord.export(path, 'x.parquet') writes it",
    "to_csv": "unirecord.export(path, 'x.csv') writes it",
    "push_to_hub": "unirecord.export(path, 'x.parquet') writes what hubs take",
    "create_dict_iterator": "iterate over ds, or over ds.batches(32)",
    "create_tuple_iterator": "iterate over ds, or over ds.batches(32)",
    "get_dataset_size": "len(ds) is the number of rows",
    "cardinality": "len(ds) is the number of rows",
    "as_numpy_iterator": "iterate over ds: samples are NumPy arrays",
    "iloc": "ds[3], ds[3:9] and ds[[3, 1]] read rows",
    "classes": "ds.metadata['classes'] are the names, if the writer gave some",
    "class_to_idx": "ds.metadata['classes'] are the names in the order of their numbers",
}  # fmt: skip

# Names of MindSpore's FileWriter, TFRecordWriter, ShardWriter, MDSWriter, h5py and pandas.
OF_WRITERS: Final[Mapping[str, str]] = {
    "add_schema": "the schema is an argument: Writer(path, {'label': 'int32', 'image': 'bytes'})",
    "add_index": "Writer(path, schema, index=['label']) makes columns that are looked up by value",
    "write_raw_data": "writer.write(record) takes one record, writer.write_batch(columns) many",
    "commit": "writer.close(), or the end of the with block, publishes the dataset",
    "open_for_append": "unirecord.append(path) opens a writer that adds rows",
    "set_header_size": "there is no such limit: leave it out",
    "set_page_size": "there is no such limit: leave it out",
    "append": "writer.write(record) adds a row; unirecord.append(path) adds to a dataset that is there",
    "add": "writer.write(record) adds a row",
    "add_item": "writer.write(record) adds a row",
    "put": "writer.write(record) adds a row",
    "writerow": "writer.write(record) adds a row",
    "write_table": "writer.write_batch(table) takes Arrow tables and DataFrames",
    "from_indexed_dataset": "unirecord.write_dataset(dataset, path) writes any map-style dataset",
    "flush": "rows are on disk once writer.close() has returned; nothing is visible before",
    "finish": "writer.close(), or the end of the with block, publishes the dataset",
    "finalize": "writer.close(), or the end of the with block, publishes the dataset",
}  # fmt: skip


def no_attribute(kind: str, name: str, known: Mapping[str, str]) -> str:
    """Return the message: Python's own, and what to use here where another library has such a name."""
    said = f"{kind!r} object has no attribute {name!r}"
    return f"{said}; {known[name]}" if name in known else said
