"""What to use here for a method that is known from another library, as the message of an AttributeError."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["OF_DATASETS", "OF_DRAWS", "OF_PACKAGES", "OF_TORCH_LOADERS", "OF_WRITERS", "no_attribute"]

# Names of Hugging Face datasets, tf.data, WebDataset, torchdata, MindSpore, torchvision, Lance, Zarr, LMDB and pandas.
OF_DATASETS: Final[Mapping[str, str]] = {
    "map": "ds.pipeline().map(f) in parallel, or transform= of UniRecordDataset or batches(), is called on each sample",
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
    "sort": "`unirecord write PATH DST --sort label` writes rows sorted; ds.select(rows) takes rows in any order",
    "unique": "ds.scalars(['label']) reads a scalar column as an array, for numpy.unique",
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
    "map_dict": "ds.pipeline().map(f, columns=['image']) changes some columns",
    "decode": "transform= of UniRecordDataset decodes a sample; unirecord.images.Decode decodes pictures",
    "to_tuple": "columns= of UniRecordDataset or ds.view() reads only some columns",
    "element_spec": "ds.schema says the columns and their types",
    "output_shapes": "ds.schema says the columns and their types",
    "output_types": "ds.schema says the columns and their types",
    "get_col_names": "ds.column_names are their names",
    "rename_column": "unirecord.rename_columns(path, {'label': 'kind'}) gives columns of a directory other names",
    "rename_columns": "unirecord.rename_columns(path, {'label': 'kind'}) gives columns of a directory other names",
    "rename": "unirecord.rename_columns(path, {'label': 'kind'}) gives columns of a directory other names",
    "cast": "unirecord.write_dataset(path, target, schema={'label': 'int64'}) writes it with other types",
    "cast_column": "unirecord.write_dataset(path, target, schema={'label': 'int64'}) writes it with other types",
    "add_column": "unirecord.add_columns(path, {'score': 'float64'}, score) adds columns to a directory",
    "add_columns": "unirecord.add_columns(path, {'score': 'float64'}, score) adds columns to a directory",
    "add_item": "unirecord.append(path) opens a writer that adds rows",
    "append": "unirecord.append(path) opens a writer that adds rows",
    "concatenate": "UniRecordDataset([a, b]) opens several as one",
    "zip": "columns of one row belong into one dataset; unirecord.write_dataset writes them together",
    "interleave": "shuffle=True of UniRecordDataset mixes the rows of all parts",
    "padded_batch": "ds.batches(32) keeps values of differing shapes as RaggedArray; pad them in transform=",
    "batched": "ds.batches(32) gives batches",
    "unbatch": "iterate over ds: samples one by one",
    "enumerate": "enumerate(ds), or ds.order.row_ids() for the numbers of rows",
    "with_epoch": "an epoch is every row once; ds.set_epoch(n) begins another order",
    "with_length": "len(ds) is the number of rows",
    "set_init_step": "ds.load_state_dict(state) goes on where ds.state_dict() was taken",
    "count_rows": "len(ds) is the number of rows, ds.view(where=…) counts those that meet a condition",
    "num_samples": "len(ds) is the number of rows",
    "num_records": "len(ds) is the number of rows",
    "size": "len(ds) is the number of rows",
    "num_columns": "len(ds.column_names) is the number of columns",
    "num_classes": "len(ds.metadata['classes']) is their number, if the writer gave some",
    "targets": "ds.scalars(['label'])['label'] are the labels of all rows as an array",
    "imgs": "ds.scalars(['path', 'label']) are the paths and labels of all rows",
    "samples": "ds[i] is a sample; ds.scalars(['path', 'label']) are the paths and labels of all rows",
    "to_table": "ds.to_arrow() is an Arrow table",
    "to_polars": "polars.DataFrame(ds) is a polars DataFrame, and unirecord.polars.scan(ds) a LazyFrame",
    "scanner": "ds.to_batches(columns) of a ds.view(where=…) gives Arrow record batches",
    "to_dict": "ds.to_arrow().to_pydict() is a dict of lists",
    "to_list": "list(ds) is a list of dicts",
    "to_json": "unirecord.export(path, 'x.jsonl') writes it",
    "to_numpy": "ds.scalars(names) reads scalar columns as arrays, ds[start:stop] rows",
    "to_dataloader": "unirecord.torch.loader(ds, 32) gives tensors; a stock DataLoader takes ds, too",
    "to_tf_dataset": "unirecord.tf.dataset(ds, 32) is a tf.data.Dataset",
    "to_tf": "unirecord.tf.dataset(ds, 32) is a tf.data.Dataset",
    "to_iterable_dataset": "iterate over ds",
    "keys": "ds.column_names are the names of columns; index=['key'] at writing and where=\"key == 'a'\" find a row",
    "get": "ds[i] is a row; index=['key'] at writing and where=\"key == 'a'\" find one by a value",
    "begin": "there are no transactions: ds[i] reads a row, unirecord.Writer writes",
    "cursor": "iterate over ds",
    "attrs": "ds.metadata is what the writer gave",
    "info": "ds.metadata is what the writer gave, unirecord.describe(path) says what is in the files",
    "describe": "unirecord.describe(path) says what is in the files, `unirecord inspect PATH --stats` statistics",
    "value_counts": "`unirecord inspect PATH --group-by label` counts",
    "groupby": "`unirecord inspect PATH --group-by label` counts",
    "query": "ds.view(where='label == 3') keeps the rows that meet a condition",
    "loc": "ds[3], ds[3:9] and ds[[3, 1]] read rows",
    "tail": "ds[-5:] are the last rows",
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
    "done": "writer.close(), or the end of the with block, publishes the dataset",
    "save": "writer.close(), or the end of the with block, publishes the dataset",
    "sync": "rows are on disk once writer.close() has returned; nothing is visible before",
    "writerows": "writer.write_batch(columns) adds many rows",
    "write_many": "writer.write_batch(columns) adds many rows",
    "write_rows": "writer.write_batch(columns) adds many rows",
    "writeheader": "the schema is an argument: Writer(path, {'label': 'int32', 'image': 'bytes'})",
    "extend": "writer.write_batch(columns) adds many rows",
    "add_batch": "writer.write_batch(columns) adds many rows",
    "create_dataset": "Writer(path, {'x': 'float32[224,224]'}) and writer.write_batch({'x': array})",
    "create_array": "Writer(path, {'x': 'float32[224,224]'}) and writer.write_batch({'x': array})",
    "create_group": "columns are the schema; a name such as group_x stands for a group",
    "begin": "there are no transactions: rows are written, and close() publishes all or nothing",
    "from_webdataset": "unirecord.write_dataset('shards/', path) converts WebDataset shards",
    "finalize": "writer.close(), or the end of the with block, publishes the dataset",
}  # fmt: skip

# Names of datasets that batches drawn of one do not have.
OF_DRAWS: Final[Mapping[str, str]] = {
    "pipeline": "pipelines are of samples: drawn.batches(transform=f, batch_transform=g) calls these on threads",
    "scalars": "ask the dataset that is drawn from: drawn.dataset.scalars()",
    "row_ids": "drawn.order.rows_of(step) gives the rows of a batch",
    "rows_of": "drawn.order.rows_of(step) gives the rows of a batch",
    "view": "choose rows, columns and ranks of the dataset first, and draw then",
    "select": "choose rows of the dataset first, and draw then",
    "shuffle": "shuffle=True of the dataset orders each epoch of drawn batches anew",
}

# Names of the packages themselves.
OF_PACKAGES: Final[Mapping[str, str]] = {
    "Dataset": "UniRecordDataset(path) opens a dataset, unirecord.write_dataset(source, path) makes one",
    "StreamingDataset": "UniRecordDataset(path) opens a dataset",
    "MindDataset": "UniRecordDataset(path) opens a dataset",
    "ImageFolder": "unirecord.write_dataset(folder, path), and then UniRecordDataset(path)",
    "load_dataset": "UniRecordDataset(path) opens a dataset",
    "load_from_disk": "UniRecordDataset(path) opens a dataset",
    "open": "UniRecordDataset(path) opens a dataset",
    "read": "UniRecordDataset(path) opens a dataset",
    "Reader": "UniRecordDataset(path) opens a dataset",
    "FileReader": "UniRecordDataset(path) opens a dataset",
    "Loader": "UniRecordDataset(path).batches(32) loads batches",
    "DataLoader": "unirecord.torch.loader(ds, 32) gives tensors; ds.batches(32) needs no framework",
    "FileWriter": "unirecord.Writer(path, schema) writes a dataset",
    "MDSWriter": "unirecord.Writer(path, schema) writes a dataset",
    "ShardWriter": "unirecord.Writer(path, schema, max_part_bytes=…) writes a dataset in parts",
    "DatasetWriter": "unirecord.Writer(path, schema) writes a dataset",
    "TFRecordWriter": "unirecord.Writer(path, schema) writes a dataset",
    "optimize": "unirecord.write_dataset(source, path, workers=…) writes a dataset",
    "write": "unirecord.write_dataset(source, path) writes a dataset, unirecord.Writer rows one by one",
    "save": "unirecord.write_dataset(source, path) writes a dataset",
    "concatenate_datasets": "UniRecordDataset([a, b]) opens several as one",
}  # fmt: skip


_NO_BATCH_SAMPLER = (
    "it has none in which accelerate.skip_first_batches, or a Trainer that resumes, could pass over batches. "
    "load_state_dict(state) goes on at the very sample (TrainingArguments(ignore_data_skip=True)); "
    "DataLoader(ds, batch_size, sampler=unirecord.torch.EpochSampler(ds)) is a loader that they know how to skip in"
)
# Names that PyTorch's DataLoader has, and our loaders of tensors have not.
OF_TORCH_LOADERS: Final[Mapping[str, str]] = {"batch_sampler": _NO_BATCH_SAMPLER}


def no_attribute(kind: str, name: str, known: Mapping[str, str]) -> str:
    """Return the message: Python's own, and what to use here where another library has such a name."""
    said = f"{kind!r} object has no attribute {name!r}"
    return f"{said}; {known[name]}" if name in known else said
