"""What to use here for a method or an argument that is known from another library, as the message of an error."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, Final, TypeVar, cast

from .errors import did_you_mean

__all__ = [
    "OF_DATASETS",
    "OF_DRAWS",
    "OF_PACKAGES",
    "OF_TORCH_LOADERS",
    "OF_WRITERS",
    "READING_ARGUMENTS",
    "WRITING_ARGUMENTS",
    "argument_hint",
    "explains_arguments",
    "no_attribute",
]

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
    "find": "ds.get('path', '3.png') is the row whose column has a value",
    "lookup": "ds.get('path', '3.png') is the row whose column has a value",
    "search": "ds.get('path', '3.png') is the row whose column has a value",
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
    "window": "unirecord.sequences(ds, length=10) has samples that span rows",
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
    "agg": "`unirecord inspect PATH --group-by label` counts",
    "group_by": "`unirecord inspect PATH --group-by label` counts",
    "count_values": "`unirecord inspect PATH --group-by label` counts",
    "pivot": "`unirecord inspect PATH --group-by label` counts",
    "sum": "unirecord.describe(path) says what is in the files, `unirecord inspect PATH --stats` statistics",
    "mean": "unirecord.describe(path) says what is in the files, `unirecord inspect PATH --stats` statistics",
    "max": "unirecord.describe(path) says what is in the files, `unirecord inspect PATH --stats` statistics",
    "min": "unirecord.describe(path) says what is in the files, `unirecord inspect PATH --stats` statistics",
    "n_unique": "unirecord.describe(path) says what is in the files, `unirecord inspect PATH --stats` statistics",
    "nunique": "unirecord.describe(path) says what is in the files, `unirecord inspect PATH --stats` statistics",
    "null_count": "unirecord.describe(path) says what is in the files, `unirecord inspect PATH --stats` statistics",
    "isna": "unirecord.describe(path) says what is in the files, `unirecord inspect PATH --stats` statistics",
    "isnull": "unirecord.describe(path) says what is in the files, `unirecord inspect PATH --stats` statistics",
    "glimpse": "unirecord.describe(path) says what is in the files, `unirecord inspect PATH --stats` statistics",
    "stats": "unirecord.describe(path) says what is in the files, `unirecord inspect PATH --stats` statistics",
    "collect": "polars.DataFrame(ds) is a polars DataFrame, and unirecord.polars.scan(ds) a LazyFrame",
    "lazy": "polars.DataFrame(ds) is a polars DataFrame, and unirecord.polars.scan(ds) a LazyFrame",
    "scan": "polars.DataFrame(ds) is a polars DataFrame, and unirecord.polars.scan(ds) a LazyFrame",
    "where": "ds.view(where='label == 3') keeps the rows that meet a condition",
    "filter_rows": "ds.view(where='label == 3') keeps the rows that meet a condition",
    "sql": "ds.view(where='label == 3') keeps the rows that meet a condition",
    "drop": "columns= of UniRecordDataset or ds.view() reads only some columns",
    "drop_columns": "columns= of UniRecordDataset or ds.view() reads only some columns",
    "pop": "columns= of UniRecordDataset or ds.view() reads only some columns",
    "drop_duplicates": "ds.scalars(['label']) reads a scalar column as an array, for numpy.unique",
    "unique_values": "ds.scalars(['label']) reads a scalar column as an array, for numpy.unique",
    "values": "ds.scalars(['label']) reads a scalar column as an array, for numpy.unique",
    "get_column": "ds.scalars(['label']) reads a scalar column as an array, for numpy.unique",
    "column": "ds.scalars(['label']) reads a scalar column as an array, for numpy.unique",
    "sort_values": "`unirecord write PATH DST --sort label` writes rows sorted; ds.select(rows) takes rows in any "
    "order",
    "order_by": "`unirecord write PATH DST --sort label` writes rows sorted; ds.select(rows) takes rows in any order",
    "astype": "unirecord.write_dataset(path, target, schema={'label': 'int64'}) writes it with other types",
    "class_encode_column": "unirecord.write_dataset(path, target, schema={'label': 'int64'}) writes it with other "
    "types",
    "apply": "ds.pipeline().map(f) in parallel, or transform= of UniRecordDataset or batches(), is called on each "
    "sample",
    "pipe": "ds.pipeline().map(f) in parallel, or transform= of UniRecordDataset or batches(), is called on each "
    "sample",
    "with_columns": "ds.pipeline().map(f) in parallel, or transform= of UniRecordDataset or batches(), is called on "
    "each sample",
    "with_column": "ds.pipeline().map(f) in parallel, or transform= of UniRecordDataset or batches(), is called on "
    "each sample",
    "explode": "ds.pipeline().map(f) in parallel, or transform= of UniRecordDataset or batches(), is called on each "
    "sample",
    "slice": "ds[3], ds[3:9] and ds[[3, 1]] read rows",
    "at": "ds[3], ds[3:9] and ds[[3, 1]] read rows",
    "iat": "ds[3], ds[3:9] and ds[[3, 1]] read rows",
    "row": "ds[3], ds[3:9] and ds[[3, 1]] read rows",
    "rows": "ds[3], ds[3:9] and ds[[3, 1]] read rows",
    "limit": "ds[3], ds[3:9] and ds[[3, 1]] read rows",
    "first": "ds[3], ds[3:9] and ds[[3, 1]] read rows",
    "take_rows": "ds[3], ds[3:9] and ds[[3, 1]] read rows",
    "last": "ds[-5:] are the last rows",
    "iter_rows": "iterate over ds",
    "itertuples": "iterate over ds",
    "iterrows": "iterate over ds",
    "items": "iterate over ds",
    "to_generator": "iterate over ds",
    "iter_batches": "ds.batches(32) gives batches",
    "to_pylist": "list(ds) is a list of dicts",
    "to_pydict": "ds.to_arrow().to_pydict() is a dict of lists",
    "arrow": "ds.to_arrow() is an Arrow table",
    "to_arrow_table": "ds.to_arrow() is an Arrow table",
    "df": "polars.DataFrame(ds) is a polars DataFrame, and unirecord.polars.scan(ds) a LazyFrame",
    "fetchdf": "polars.DataFrame(ds) is a polars DataFrame, and unirecord.polars.scan(ds) a LazyFrame",
    "to_torch": "unirecord.torch.loader(ds, 32) gives tensors; a stock DataLoader takes ds, too",
    "to_numpy_iterator": "iterate over ds: samples are NumPy arrays",
    "write_parquet": "unirecord.export(path, 'x.parquet') writes it",
    "save": "unirecord.export(path, target) writes other formats",
    "num_examples": "len(ds) is the number of rows",
    "len": "len(ds) is the number of rows",
    "count": "len(ds) is the number of rows",
    "add_rows": "unirecord.append(path) opens a writer that adds rows",
    "insert": "unirecord.append(path) opens a writer that adds rows",
    "with_row_index": "enumerate(ds), or ds.order.row_ids() for the numbers of rows",
    "versions": "`unirecord log PATH` lists the versions of a directory, PATH@3 opens one",
    "version": "`unirecord log PATH` lists the versions of a directory, PATH@3 opens one",
    "tags": "`unirecord log PATH` lists the versions of a directory, PATH@3 opens one",
    "checkout": "PATH@3 opens version 3, `unirecord log PATH` lists them",
    "checkout_version": "PATH@3 opens version 3, `unirecord log PATH` lists them",
    "restore": "`unirecord log PATH` lists the versions, the command restore goes back to one",
    "delete": "unirecord.delete(path, where='label == 3') deletes rows of a directory",
    "create_index": "unirecord.write_dataset(source, target, index=['id']) makes columns to look up by value",
    "create_scalar_index": "unirecord.write_dataset(source, target, index=['id']) makes columns to look up by value",
    "set_index": "unirecord.write_dataset(source, target, index=['id']) makes columns to look up by value",
    "optimize": "unirecord.compact(path) puts small parts together",
    "compact_files": "unirecord.compact(path) puts small parts together",
    "cleanup_old_versions": "`unirecord gc PATH --keep 3` removes old versions",
    "fragments": "unirecord.describe(path) says what is in the files",
    "get_fragments": "unirecord.describe(path) says what is in the files",
    "nbytes": "unirecord.describe(path) says what is in the files",
    "estimated_size": "unirecord.describe(path) says what is in the files",
    "memory_usage": "unirecord.describe(path) says what is in the files",
    "dataset_size": "unirecord.describe(path) says what is in the files",
    "join": "unirecord.add_columns(path, ['score'], 'more.csv', key='key') adds the columns of a table by a key",
    "merge": "unirecord.add_columns(path, ['score'], 'more.csv', key='key') adds the columns of a table by a key",
    "update": "unirecord.update(path, 'fixes.csv', key='path') gives values of rows that are there",
    "upsert": "unirecord.upsert(path, 'fixes.csv', key='path') corrects rows that are there, and adds new ones",
    "merge_insert": "unirecord.upsert(path, 'fixes.csv', key='path') corrects rows that are there, and adds new ones",
    "fillna": "unirecord.set_values(path, 'label is null', {'label': 0}) gives rows that meet a condition a value",
}  # fmt: skip

# Names of MindSpore's FileWriter, TFRecordWriter, ShardWriter, MDSWriter, h5py and pandas.
OF_WRITERS: Final[Mapping[str, str]] = {
    "add_schema": "the schema is an argument: Writer(path, {'label': 'int32', 'image': 'bytes'})",
    "add_index": "Writer(path, schema, index=['label']) makes columns that are looked up by value",
    "write_raw_data": "writer.write(record) takes one record, writer.write_batch(columns) many",
    "commit": "unirecord.write_dataset(source, path) writes a dataset of a file, a table, arrays or rows",
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
    "finish": "unirecord.write_dataset(source, path) writes a dataset of a file, a table, arrays or rows",
    "done": "unirecord.write_dataset(source, path) writes a dataset of a file, a table, arrays or rows",
    "save": "unirecord.write_dataset(source, path) writes a dataset of a file, a table, arrays or rows",
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
    "finalize": "unirecord.write_dataset(source, path) writes a dataset of a file, a table, arrays or rows",
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
    "from_pandas": "unirecord.write_dataset(source, path) writes a dataset of a file, a table, arrays or rows",
    "from_polars": "unirecord.write_dataset(source, path) writes a dataset of a file, a table, arrays or rows",
    "from_arrow": "unirecord.write_dataset(source, path) writes a dataset of a file, a table, arrays or rows",
    "from_dict": "unirecord.write_dataset(source, path) writes a dataset of a file, a table, arrays or rows",
    "from_list": "unirecord.write_dataset(source, path) writes a dataset of a file, a table, arrays or rows",
    "from_generator": "unirecord.write_dataset(source, path) writes a dataset of a file, a table, arrays or rows",
    "from_csv": "unirecord.write_dataset(source, path) writes a dataset of a file, a table, arrays or rows",
    "from_json": "unirecord.write_dataset(source, path) writes a dataset of a file, a table, arrays or rows",
    "from_parquet": "unirecord.write_dataset(source, path) writes a dataset of a file, a table, arrays or rows",
    "read_csv": "unirecord.write_dataset(source, path) writes a dataset of a file, a table, arrays or rows",
    "read_json": "unirecord.write_dataset(source, path) writes a dataset of a file, a table, arrays or rows",
    "read_parquet": "unirecord.write_dataset(source, path) writes a dataset of a file, a table, arrays or rows",
    "read_table": "unirecord.write_dataset(source, path) writes a dataset of a file, a table, arrays or rows",
    "from_numpy": "unirecord.write_dataset(source, path) writes a dataset of a file, a table, arrays or rows",
    "create_dataset": "unirecord.write_dataset(source, path) writes a dataset of a file, a table, arrays or rows",
    "create": "unirecord.write_dataset(source, path) writes a dataset of a file, a table, arrays or rows",
    "write_table": "unirecord.write_dataset(source, path) writes a dataset of a file, a table, arrays or rows",
    "to_parquet": "unirecord.export(path, 'x.parquet') writes it",
    "to_csv": "unirecord.export(path, 'x.csv') writes it",
    "open_dataset": "UniRecordDataset(path) opens a dataset",
    "LanceDataset": "UniRecordDataset(path) opens a dataset",
    "LocalDataset": "UniRecordDataset(path) opens a dataset",
    "IterableDataset": "UniRecordDataset(path) opens a dataset",
    "WebDataset": "UniRecordDataset(path) opens a dataset",
    "TFRecordDataset": "UniRecordDataset(path) opens a dataset",
    "RecordReader": "UniRecordDataset(path) opens a dataset",
    "DatasetReader": "UniRecordDataset(path) opens a dataset",
    "ArrayRecordReader": "UniRecordDataset(path) opens a dataset",
    "MDSReader": "UniRecordDataset(path) opens a dataset",
    "load": "UniRecordDataset(path) opens a dataset",
    "connect": "UniRecordDataset(path) opens a dataset",
    "scan": "UniRecordDataset(path) opens a dataset",
    "RecordWriter": "unirecord.Writer(path, schema) writes a dataset",
    "StreamingWriter": "unirecord.Writer(path, schema) writes a dataset",
    "ArrayRecordWriter": "unirecord.Writer(path, schema) writes a dataset",
    "TarWriter": "unirecord.Writer(path, schema) writes a dataset",
    "StreamingDataLoader": "unirecord.torch.loader(ds, 32) gives tensors; ds.batches(32) needs no framework",
    "Features": "a schema is a dict: Writer(path, {'label': 'int32', 'image': 'bytes'})",
    "ClassLabel": "Writer(path, {'kind': {'type': 'int32', 'logical': {'type': 'class', 'names': ['cat', 'dog']}}})",
    "LeRobotDataset": "unirecord.sequences(ds, at={'a': range(16)}) has samples that span rows",
    "NGram": "unirecord.sequences(ds, at={'a': [-1, 0]}) has samples that span rows",
    "BatchGenerator": "unirecord.sequences(ds, length=10) has samples that span rows",
    "interleave_datasets": "unirecord.mix({'web': web, 'code': code}, {'web': 0.7, 'code': 0.3}) draws from several",
}  # fmt: skip


_NO_BATCH_SAMPLER = (
    "it has none in which accelerate.skip_first_batches, or a Trainer that resumes, could pass over batches. "
    "load_state_dict(state) goes on at the very sample (TrainingArguments(ignore_data_skip=True)); "
    "DataLoader(ds, batch_size, sampler=unirecord.torch.EpochSampler(ds)) is a loader that they know how to skip in"
)
# Names that PyTorch's DataLoader has, and our loaders of tensors have not.
OF_TORCH_LOADERS: Final[Mapping[str, str]] = {"batch_sampler": _NO_BATCH_SAMPLER}


_COLUMNS = "columns= of UniRecordDataset or ds.view() reads only some columns"
_ORDER = "shuffle=True of UniRecordDataset or ds.view() orders each epoch anew"
_ROWS = "where= of UniRecordDataset or ds.view() keeps the rows that meet a condition"
_SEED = "seed= of UniRecordDataset or ds.view() says which order"
_SHARE = "shard_id= and num_shards= of UniRecordDataset or ds.view() give a share of the rows"
_TRANSFORM = "transform= of UniRecordDataset or batches() is called on each sample"
_BATCHES = "ds.batches(32) gives batches"
_AHEAD = "prefetch= of batches() or unirecord.torch.loader is how many batches are read ahead"
_PARTS = "ds.split([0.8, 0.2]) gives parts that no row is in twice"
_CACHE = "cache= of UniRecordDataset is a folder for what is read of an object store"
# Arguments of PyTorch's DataLoader and DistributedSampler, Hugging Face datasets, tf.data, MosaicML's StreamingDataset,
# MindSpore, pandas and pyarrow, and of other calls here, where this one does not have them.
READING_ARGUMENTS: Final[Mapping[str, str]] = {
    "columns": _COLUMNS,
    "usecols": _COLUMNS,
    "columns_list": _COLUMNS,
    "features": _COLUMNS,
    "shuffle": _ORDER,
    "sampler": _ORDER,
    "shuffle_buffer": _ORDER,
    "buffer_size": _ORDER,
    "where": _ROWS,
    "filter": _ROWS,
    "filters": _ROWS,
    "seed": _SEED,
    "generator": _SEED,
    "shuffle_seed": _SEED,
    "shard_id": _SHARE,
    "num_shards": _SHARE,
    "rank": _SHARE,
    "world_size": _SHARE,
    "num_replicas": _SHARE,
    "shard_index": _SHARE,
    "transform": _TRANSFORM,
    "transforms": _TRANSFORM,
    "map_fn": _TRANSFORM,
    "batch_size": _BATCHES,
    "batch": _BATCHES,
    "drop_last": "drop_last= of batches() leaves out the last rows that fill no batch",
    "drop_remainder": "drop_last= of batches() leaves out the last rows that fill no batch",
    "collate_fn": "collate_fn= of batches() makes a batch of samples",
    "num_workers": "num_workers= of batches() or unirecord.torch.loader calls a transform in processes",
    "num_parallel_workers": "num_workers= of batches() or unirecord.torch.loader calls a transform in processes",
    "num_parallel_calls": "num_workers= of batches() or unirecord.torch.loader calls a transform in processes",
    "persistent_workers": "there is no such thing to say: leave it out",
    "multiprocessing_context": "there is no such thing to say: leave it out",
    "worker_init_fn": "there is no such thing to say: leave it out",
    "streaming": "data are read when they are asked for: leave it out",
    "prefetch": _AHEAD,
    "prefetch_factor": _AHEAD,
    "predownload": _AHEAD,
    "pin_memory": "pin_memory= of unirecord.torch.loader is for its tensors",
    "device": "device= of unirecord.torch.loader is where its tensors go",
    "split": _PARTS,
    "cache_dir": _CACHE,
    "local": _CACHE,
    "remote": _CACHE,
    "keep_in_memory": "io='memory' of UniRecordDataset keeps the data in memory",
    "memory_map": "io='mmap' of UniRecordDataset maps the files",
    "mmap": "io='mmap' of UniRecordDataset maps the files",
    "limit": "ds.take(100) has the first rows alone",
    "nrows": "ds.take(100) has the first rows alone",
    "epochs": "call ds.set_epoch(n) and iterate again for each epoch",
    "num_epochs": "call ds.set_epoch(n) and iterate again for each epoch",
}  # fmt: skip

_CODEC = (
    "codec= of unirecord.write_dataset compresses columns; in a schema one says it: "
    "Writer(path, {'image': {'type': 'bytes', 'codec': 'zstd'}})"
)
_PART_SIZE = "max_part_bytes= of Writer or unirecord.write_dataset is the greatest size of a part"
_SCHEMA = "the schema is an argument: Writer(path, {'label': 'int32', 'image': 'bytes'})"
_MODE = "unirecord.append(path) opens a writer that adds rows; overwrite= of Writer replaces what is there"
# Arguments of MosaicML's MDSWriter, LitData's optimize, MindSpore's FileWriter, Hugging Face datasets and pyarrow.
WRITING_ARGUMENTS: Final[Mapping[str, str]] = {
    "compression": _CODEC,
    "codec": _CODEC,
    "compression_level": _CODEC,
    "columns": _SCHEMA,
    "features": _SCHEMA,
    "size_limit": _PART_SIZE,
    "chunk_bytes": _PART_SIZE,
    "max_shard_size": _PART_SIZE,
    "maxsize": _PART_SIZE,
    "shard_num": _PART_SIZE,
    "mode": _MODE,
    "append": _MODE,
    "exist_ok": _MODE,
    "hashes": "all bytes are under digests: leave it out",
    "batch_size": "writer.write(record) takes one record, writer.write_batch(columns) many",
}  # fmt: skip


_Function = TypeVar("_Function", bound=Callable[..., Any])
_UNKNOWN: Final = re.compile(r"got an unexpected keyword argument '(\w+)'$")


def argument_hint(name: str, known: Mapping[str, str], there: Iterable[str]) -> str:
    """What to say of an argument that there is not: what to use here, or which one of those that there are is meant."""
    return f"; {known[name]}" if name in known else did_you_mean(name, there)


def explains_arguments(known: Mapping[str, str]) -> Callable[[_Function], _Function]:
    """Have a function say, of an argument that it does not take, what to use here, or which one is meant.

    For functions that are called once for a dataset, a writer or an epoch: a call costs about 0.3 µs more.
    """

    def explained(function: _Function) -> _Function:
        @wraps(function)
        def call(*given: Any, **named: Any) -> Any:
            try:
                return function(*given, **named)
            except TypeError as error:
                # Python's own, of this function or of one that it hands its arguments on to.
                unknown = _UNKNOWN.search(str(error))
                if unknown is None or unknown[1] not in named:
                    raise
                hint = argument_hint(unknown[1], known, inspect.signature(function).parameters)
                raise TypeError(f"{error}{hint}") from None

        return cast(_Function, call)

    return explained


def no_attribute(kind: str, name: str, known: Mapping[str, str]) -> str:
    """Return the message: Python's own, and what to use here where another library has such a name."""
    said = f"{kind!r} object has no attribute {name!r}"
    return f"{said}; {known[name]}" if name in known else said
