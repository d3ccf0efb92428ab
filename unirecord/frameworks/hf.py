"""Hugging Face datasets: a shard as an IterableDataset with exact states, or its scalars as a Dataset."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import wraps
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import datasets
import numpy as np
from datasets.formatting import PythonFormatter
from datasets.iterable_dataset import _BaseExamplesIterable

from ..convert.row_choice import check_split_target
from ..convert.write_dataset import WrittenRows, write_dataset
from ..dataset.dataset import UniRecordDataset
from ..dataset.position import SharedEpoch
from ..dataset.tables import arrow_array, arrow_schema, stored_array
from ..errors import MissingError, SchemaError
from ..format.arrow_types import FEATURE_KEY
from ..format.column import Column
from ..loading.batch import valid_rows
from ..loading.loader import BatchMemory, BatchReader, LoaderOptions
from ..order.spec import check_integer
from ..snapshot import manifest
from ..storage.local import make_directories
from ..storage.schemes import location_of
from . import hf_builder
from .arguments import check_dataset

if TYPE_CHECKING:
    import datasets
    import pyarrow

__all__ = ["dataset", "read_splits", "register", "table", "write_splits"]


# Columns as Hugging Face features, and the values of a batch as Arrow arrays of their types.


_ARRAY_DIMS = (2, 5)  # of datasets.Array2D … Array5D
_COMPLEX = ("complex64", "complex128")  # their Arrow form has a dimension more


def features_of(columns: Sequence[Column]) -> datasets.Features:
    """``datasets.Features`` of the columns.

    What came from ``datasets`` is what it was there. Else bytes annotated as pictures are ``Image``, as sound
    ``Audio``, integers annotated with classes ``ClassLabel``, arrays of two to five fixed dimensions ``Array2D`` …
    ``Array5D``; everything else has the Arrow type of ``to_batches`` (docs/exporting.md).
    """
    import datasets

    return datasets.Features({column.name: _feature(column) for column in columns})


def _feature(column: Column) -> Any:
    import datasets

    said = column.annotations.get(FEATURE_KEY)
    if said is not None:
        return _said_feature(column, said)
    if _is_media(column, "image"):
        return datasets.Image()
    if _is_media(column, "audio"):
        # `datasets` decodes sound by torchcodec; without it, a sample is the bytes as they are stored
        return datasets.Audio(decode=find_spec("torchcodec") is not None)
    if _classes(column) is not None:
        return datasets.ClassLabel(names=_classes(column))
    if _is_dense(column):
        kind = getattr(datasets, f"Array{len(column.item_shape)}D")
        return kind(shape=column.item_shape, dtype=str(column.dtype))
    if column.is_string:
        return datasets.Value("string")
    return datasets.Features.from_arrow_schema(arrow_schema([column]))[column.name]


# What files say of features is checked by these before `datasets` sees it: it calls functions of pyarrow by names.
_KINDS = frozenset(
    (
        "Value", "List", "LargeList", "Sequence", "ClassLabel", "Translation", "TranslationVariableLanguages",
        "Array2D", "Array3D", "Array4D", "Array5D", "Image", "Audio", "Video", "Pdf", "Nifti", "Mesh", "Json",
    )
)  # fmt: skip
_DTYPE = re.compile(
    r"null|bool|u?int(?:8|16|32|64)|float(?:16|32|64)?|double|(?:large_)?string|string_view|(?:large_)?binary|binary_view"
    r"|date(?:32|64)|(?:timestamp|time32|time64|duration)\[[A-Za-z0-9_ =,+:/-]{1,80}\]"
    r"|decimal(?:128|256)\([0-9]{1,2}, ?-?[0-9]{1,2}\)"
)


def _said_feature(column: Column, said: Any) -> Any:
    """The feature that a column had where it came from; SchemaError where its annotation is none."""
    from datasets.features.features import generate_from_dict

    try:
        parsed = json.loads(said)
        _check_feature(parsed)
        found = generate_from_dict(parsed)
        datasets.Features({column.name: found}).arrow_schema.field(0)
        return found
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise SchemaError(
            f"column {column.name!r}: its annotation {FEATURE_KEY!r} is no feature of datasets ({error}); read it "
            "otherwise, or write the column anew without the annotation"
        ) from None


def _check_feature(node: Any) -> None:
    """ValueError for what names another class or type than those of features."""
    if isinstance(node, list):
        for one in node:
            _check_feature(one)
    if not isinstance(node, dict):
        return
    kind = node.get("_type")
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise ValueError(f"there is no feature {kind!r:.60}")
        dtype = node.get("dtype", "null")
        if not isinstance(dtype, str) or _DTYPE.fullmatch(dtype) is None:
            raise ValueError(f"there is no type {dtype!r:.60}")
        _check_feature(node.get("feature"))
    else:
        for one in node.values():
            _check_feature(one)


def _is_media(column: Column, kind: str) -> bool:
    """Whether the bytes of a column are said to be pictures ("image") or sound ("audio")."""
    return not column.is_array and (column.media_type or "").startswith(f"{kind}/")


def _classes(column: Column) -> list[str] | None:
    return None if column.is_array or column.classes is None else list(column.classes)


def _is_dense(column: Column) -> bool:
    least, most = _ARRAY_DIMS
    fixed = column.is_array and column.free_dims == 0 and least <= len(column.item_shape) <= most
    return fixed and column.type not in ("bool", *_COMPLEX) and 0 not in column.item_shape


def feature_array(column: Column, values: Any, kind: pyarrow.DataType) -> pyarrow.Array:
    """The values of a batch as an array of the type that the column's feature has."""
    import pyarrow

    if FEATURE_KEY in column.annotations:
        try:
            return _as_feature(
                stored_array(column, values) if _classes(column) else arrow_array(column, values), kind
            )
        except pyarrow.ArrowException as error:
            raise SchemaError(
                f"column {column.name!r}: a value does not fit what it was in datasets, {kind} ({error}); write the "
                f"column anew without the annotation {FEATURE_KEY!r}"
            ) from None
    if _is_dense(column):
        return pyarrow.ExtensionArray.from_storage(kind, _nested(column, values, kind.storage_type))
    found = stored_array(column, values) if _classes(column) is not None else arrow_array(column, values)
    return _as_feature(found, kind)


def _as_feature(found: pyarrow.Array, kind: pyarrow.DataType) -> pyarrow.Array:
    """An array as one of the type that a feature has; bytes as those of a file without a name."""
    import pyarrow

    if isinstance(kind, pyarrow.BaseExtensionType):
        return pyarrow.ExtensionArray.from_storage(kind, _as_feature(found, kind.storage_type))
    if pyarrow.types.is_struct(kind) and pyarrow.types.is_large_binary(found.type):
        empty = pyarrow.nulls(len(found), pyarrow.string())
        return pyarrow.StructArray.from_arrays(
            [found.cast(pyarrow.binary()), empty], ["bytes", "path"], mask=found.is_null()
        )
    return found if found.type == kind else found.cast(kind)


def _nested(column: Column, values: Any, kind: pyarrow.DataType) -> pyarrow.Array:
    """Lists in lists over the memory of the batch, as the storage of ``Array2D`` and its like has them."""
    import pyarrow

    flat = pyarrow.array(np.ma.getdata(values).reshape(-1))
    sizes = (len(values), *column.item_shape)
    for level in range(len(sizes) - 1, 0, -1):
        lists = int(np.prod(sizes[:level], dtype=np.int64))
        offsets = np.arange(lists + 1, dtype=np.int32) * np.int32(sizes[level])
        mask = None
        if level == 1 and isinstance(values, np.ma.MaskedArray):
            mask = pyarrow.array(~valid_rows(values))
        flat = pyarrow.ListArray.from_arrays(pyarrow.array(offsets), flat, mask=mask)
    return flat if flat.type == kind else flat.cast(kind)


# The stream that ``dataset`` gives: a shard's order in stretches, in the epoch of each pass, with exact states.


_TABLE_BYTES = 4 << 20
_TABLE_ROWS = 1000  # what datasets itself reads at a time


class ShardStream(datasets.IterableDataset):  # type: ignore[misc]
    """An ``IterableDataset`` whose epoch is also that of what is made of it later.

    Each method of datasets makes a stream that begins in epoch 0, whatever has been set before; here
    ``set_epoch(2)`` and then ``with_format("arrow")`` give epoch 2.
    """

    def set_epoch(self, epoch: int) -> None:
        """Makes the next pass that of ``epoch``; also over streams made of this one, unless they are given another."""
        super().set_epoch(epoch)
        self._ex_iterable.set_epoch(epoch)


class UniRecordExamples(_BaseExamplesIterable):  # type: ignore[misc]
    """What datasets iterates over, whatever stands before it: stretches of the order of the pass's epoch."""

    _sleep_on_threads_shutdown = False

    def __init__(
        self,
        ds: UniRecordDataset,
        given: UniRecordDataset,
        features: datasets.Features,
        stretches: list[tuple[int, int]],
    ) -> None:
        """``ds`` is a view of the dataset that was ``given``; its current epoch is the stream's epoch 0."""
        super().__init__()
        self._ds, self._given = ds, given
        self._features, self._stretches = features, stretches
        self._first = ds.epoch
        self._set = SharedEpoch()  # by set_epoch of the stream that the user has
        self._own = 0  # of the pass, where the stream that is iterated has been given one
        self._for_worker = False  # whether the next call of shift_rngs is about a worker's number

    def set_epoch(self, epoch: int) -> None:
        """Names the epoch of passes that are not given another."""
        self._set.set(epoch)

    @property
    def _epoch(self) -> int:
        if not self._ds.read_cursor.plan.order.shuffled:
            return self._first
        return self._first + (self._own or self._set.get())

    @property
    def num_shards(self) -> int:
        return len(self._stretches)

    @property
    def iter_arrow(self) -> Any:
        return self._iter_arrow

    def _init_state_dict(self) -> dict[str, Any]:
        kind = type(self).__name__
        self._state_dict = {"shard_idx": 0, "shard_example_idx": 0, "epoch": self._epoch, "type": kind}
        return self._state_dict

    def _iter_arrow(self) -> Iterator[tuple[str, pyarrow.Table]]:
        epoch = self._epoch
        # A loaded state stands in the dict that _init_state_dict gave; `datasets` tells nobody.
        state: dict[str, Any] = self._state_dict or self._init_state_dict()
        if state["epoch"] != epoch:
            # `datasets` has found its own epoch to be the state's: the dataset's is another. A set_epoch of the stream
            # would make `datasets` forget the state.
            raise ValueError(
                f"the state is of epoch {state['epoch']}, and this is epoch {epoch}: call "
                f"ds.set_epoch({state['epoch'] - (epoch - self._first)}) before unirecord.hf.dataset(ds), as where it "
                "was taken"
            )
        for number in range(state["shard_idx"], len(self._stretches)):
            first, last = self._stretches[number]
            for end, table in self._read(epoch, first + state["shard_example_idx"], last):
                state["shard_example_idx"] = end - first
                yield f"{number}_{end}", table
            state["shard_idx"] = number + 1
            state["shard_example_idx"] = 0

    def _read(self, epoch: int, first: int, last: int) -> Iterator[tuple[int, pyarrow.Table]]:
        """The samples [first, last) of an epoch, each table with the number behind its last sample."""
        import pyarrow

        self._ds.read_cursor.refuse_later_exclusions(self._given.read_cursor, "unirecord.hf.dataset()")
        plan, schema = self._ds.read_cursor.plan, self._features.arrow_schema
        columns = plan.data.batch_columns()
        size = max(1, min(_TABLE_ROWS, int(_TABLE_BYTES / max(plan.row_bytes, 1.0))))
        run = plan.order.run(epoch, first * self._ds.num_shards)
        run = replace(run, samples=last - first)
        options = LoaderOptions(size, on_corrupt=self._ds.on_corrupt)
        exclusion_mask = self._ds.read_cursor.exclusion_mask(epoch)
        for delivered in BatchReader(plan, run, options, BatchMemory(), exclusion_mask):
            batch = delivered.batch
            arrays = [
                feature_array(column, batch[column.name], schema.field(column.name).type)
                for column in columns
            ]
            yield (delivered.end // run.stride, pyarrow.Table.from_arrays(arrays, schema=schema))

    def __iter__(self) -> Iterator[tuple[str, dict[str, Any]]]:
        formatter = PythonFormatter()
        for key, table in self._iter_arrow():
            for row in range(len(table)):
                yield f"{key}_{row}", formatter.format_row(table.slice(row, 1))

    def shift_rngs(self, value: int) -> UniRecordExamples:
        """What datasets calls for everything in a stream: with the epoch of a pass, then with a worker's number.

        ``shuffle_data_sources`` is also called by ``.shuffle()``, and not behind ``take`` and ``skip``.
        """
        shifted = copy(self)
        if self._for_worker:
            shifted._for_worker = False
        else:
            shifted._own = value
        return shifted

    def shuffle_data_sources(self, generator: np.random.Generator) -> UniRecordExamples:
        """The order is the dataset's own."""
        return self

    def shard_data_sources(self, num_shards: int, index: int, contiguous: bool = True) -> UniRecordExamples:
        kept = self.split_shard_indices_by_worker(num_shards, index, contiguous=contiguous)
        sharded = copy(self)
        sharded._stretches = [self._stretches[number] for number in kept]
        sharded._for_worker = (num_shards, index) == _worker()
        return sharded

    def reshard_data_sources(self) -> UniRecordExamples:
        return self


def _worker() -> tuple[int, int] | None:
    """(number of workers, this one's number) in a worker of a DataLoader."""
    if "torch" not in sys.modules:
        return None
    from torch.utils.data import get_worker_info

    info = get_worker_info()
    return None if info is None else (info.num_workers, info.id)


# Hugging Face datasets: a shard as an IterableDataset of stretches with exact states, or its scalars as a Dataset.


_SHARDS = 64  # of a dataset that is shuffled or has one part: enough for the workers of a machine


def register() -> None:
    """Adds ``"unirecord"``, and files that end with ``.urec``, to what ``datasets.load_dataset`` knows.

    ``import unirecord.hf`` does so. Options are those of `hf_builder.UnirecordConfig`: ``columns``, ``where``,
    ``features``.
    """
    import inspect

    from datasets import packaged_modules

    name = "unirecord"
    lines = inspect.getsource(hf_builder).splitlines()
    packaged_modules._PACKAGED_DATASETS_MODULES[name] = (
        hf_builder.__name__,
        packaged_modules._hash_python_lines(lines),
    )
    packaged_modules._EXTENSION_TO_MODULE[".urec"] = (name, {})
    packaged_modules._MODULE_TO_EXTENSIONS[name] = [".urec"]
    packaged_modules._MODULE_TO_METADATA_FILE_NAMES[name] = [hf_builder.MANIFEST]
    packaged_modules._MODULE_TO_METADATA_EXTENSIONS[name] = []
    data_files = datasets.data_files
    if not hasattr(data_files.resolve_pattern, "__wrapped__"):
        data_files.resolve_pattern = _with_folders(data_files.resolve_pattern)
    # Lists that other modules of datasets have taken by name: what is not in them is no data file of a folder, and
    # a manifest that is not metadata is a file of JSON, which wins over as many parts.
    for known, added in (
        (packaged_modules._ALL_EXTENSIONS, ".urec"),
        (packaged_modules._ALL_ALLOWED_EXTENSIONS, ".urec"),
        (packaged_modules._ALL_METADATA_FILENAMES, hf_builder.MANIFEST),
    ):
        if added not in known:
            known.append(added)


def _with_folders(resolve_pattern: Callable[..., list[str]]) -> Callable[..., list[str]]:
    """How ``datasets`` finds the files of a pattern; a folder of parts, which is an error there, names these."""

    @wraps(resolve_pattern)
    def resolved(pattern: str, base_path: str, *options: Any, **named: Any) -> list[str]:
        try:
            return resolve_pattern(pattern, base_path, *options, **named)
        except FileNotFoundError as error:
            for inside in (hf_builder.MANIFEST, "*.urec"):
                with suppress(FileNotFoundError):
                    return resolve_pattern(f"{pattern.rstrip('/')}/{inside}", base_path, *options, **named)
            raise error

    return resolved


def write_splits(
    splits: Mapping[str, datasets.Dataset], folder: str | os.PathLike[str], **options: Any
) -> dict[str, WrittenRows]:
    """Writes a ``datasets.DatasetDict``: each split as a dataset of its own, ``folder/train`` and so on.

    ``load_dataset("unirecord", data_dir=folder)`` and `read_splits` have the splits again. All are looked through
    before the first is written, and each is published when it is whole. Where one cannot be written, those before it
    are there, and the error's notes name them: what goes on is a call with the others, into the same folder.

    Args:
        splits: the datasets, by their names.
        folder: where the datasets are to be; it is made.
        **options: as for ``unirecord.write_dataset``.

    Returns:
        The rows of each split, as ``unirecord.write_dataset`` has them.

    Raises:
        ValueError: there is no split, or a name is none of a folder.
        ExistsError, MissingError: there is something at ``folder`` that is not to be replaced, or nothing above it.
        UniRecordError: as of ``unirecord.write_dataset``; its notes name the splits that are there.
    """
    place = os.fspath(folder)
    wrong = [name for name in splits if not re.fullmatch(r"\w[\w.-]*", name) or name.endswith(".urec")]
    if wrong or not splits:
        raise ValueError(f"splits are called by the names of their folders, got {wrong or 'none'}")
    check_split_target(
        place, list(splits), overwrite=options.get("overwrite", False), resume=options.get("resume", False)
    )
    look = {**options, "dry_run": True, "progress": None}
    looked = {name: write_dataset(one, f"{place}/{name}", **look) for name, one in splits.items()}
    if options.get("dry_run", False):
        return looked
    if location_of(place).in_file_system:
        make_directories(place)
    written: dict[str, WrittenRows] = {}
    for name, one in splits.items():
        try:
            written[name] = write_dataset(one, f"{place}/{name}", **options)
        except BaseException as error:
            missing = ", ".join(one for one in splits if one not in written)
            error.add_note(
                f"{place}: of the splits there is {', '.join(written) or 'none'}, whole, and not {missing}: "
                "write_splits with these, into the same folder, goes on"
            )
            raise
    return written


def read_splits(folder: str | os.PathLike[str], **options: Any) -> datasets.IterableDatasetDict:
    """The datasets in a folder, each as `dataset` gives it, by their names.

    Args:
        folder: a folder, as `write_splits` and ``unirecord write --split`` make it.
        **options: as for ``UniRecordDataset``.

    Returns:
        A ``datasets.IterableDatasetDict``.

    Raises:
        MissingError: there is no dataset in the folder.
        UniRecordError, ValueError: as of ``UniRecordDataset``.
    """
    place = os.fspath(folder)
    location = location_of(place)
    there = sorted(location.names(place)) if location.is_directory(place) else []
    paths = {name.removesuffix(".urec"): os.path.join(place, name) for name in there}
    found = {
        name: dataset(UniRecordDataset(path, **options))
        for name, path in paths.items()
        if path.endswith(".urec") or (location.is_directory(path) and manifest.NAME in location.names(path))
    }
    if not found or manifest.NAME in there:
        raise MissingError(f"{place}: there is no folder of datasets, as unirecord.hf.write_splits makes it")
    return datasets.IterableDatasetDict(found)


def dataset(ds: UniRecordDataset, num_shards: int | None = None) -> datasets.IterableDataset:
    """A dataset's shard as a ``datasets.IterableDataset``, in the order of its current epoch.

    Its shards, which workers and nodes share out, are stretches of that order: the parts where a dataset of several is
    not shuffled, else ``num_shards`` of equal size. ``set_epoch(n)`` is epoch ``ds.epoch + n``, with the order of that
    epoch, also behind ``take``, ``skip`` and all other methods of ``datasets``; without a shuffle it changes nothing.
    ``state_dict()`` is exact, and loading one, in the epoch in which it was taken, reads nothing that was delivered. A
    transform is not called: use ``.map()`` on what is returned.

    Raises ValueError for a dataset with a transform.
    """
    import datasets

    check_dataset(ds, "iterate over drawn.batches()")
    if ds.transform is not None:
        raise ValueError(
            "the dataset has a transform, which an IterableDataset would not call: its features are not known. "
            "Use unirecord.hf.dataset(ds.view(transform=None)), and .map() on what it gives"
        )
    if num_shards is not None:
        check_integer("num_shards", num_shards, 1)
    view = ds.view()
    features = features_of(view.read_cursor.plan.data.batch_columns())
    examples = UniRecordExamples(view, ds, features, _stretches(view, num_shards))
    stream: datasets.IterableDataset = ShardStream(examples, info=datasets.DatasetInfo(features=features))
    return stream


def table(ds: UniRecordDataset) -> datasets.Dataset:
    """The columns of a dataset's shard as an Arrow-backed ``datasets.Dataset``, in the order of its epoch.

    They are those that the dataset was opened with (``columns=``), and where none were named the scalar ones, which
    come from the index alone. Raises ValueError for a dataset with a transform or without such columns.
    """
    import datasets
    import pyarrow

    check_dataset(ds, "drawn.dataset is what they have been drawn from")
    if ds.transform is not None:
        raise ValueError(
            "the dataset has a transform, which a table would not call: use "
            "unirecord.hf.table(ds.view(transform=None))"
        )
    chosen = ds.read_cursor.plan.data.are_chosen
    names = ds.read_cursor.plan.data.stored_names()
    columns = [ds.schema[name] for name in names if chosen or not ds.schema[name].is_blob]
    if not columns:
        raise ValueError(
            "a table holds scalar columns, and there are none: name columns of the dataset by columns="
        )
    ds.read_cursor.refuse_exclusions("a table")
    if any(column.is_blob for column in columns):
        return datasets.Dataset(pyarrow.concat_tables(dataset(ds, 1).with_format("arrow").iter(_TABLE_ROWS)))
    values = ds.scalars([column.name for column in columns], order="samples")
    features = features_of(columns)
    schema = features.arrow_schema
    arrays = [
        pyarrow.array(values[column.name], pyarrow.string())
        if column.is_string
        else feature_array(column, values[column.name], schema.field(column.name).type)
        for column in columns
    ]
    return datasets.Dataset(pyarrow.Table.from_arrays(arrays, schema=schema))


def _stretches(ds: UniRecordDataset, num_shards: int | None) -> list[tuple[int, int]]:
    """Where the shards begin and end, in samples of this rank's epoch."""
    plan, samples = ds.read_cursor.plan, len(ds)
    bounds: Any = None
    if num_shards is None and not plan.order.shuffled and ds.num_shards == 1:
        sizes = plan.order.selection.part_rows(plan.data.parts.starts)
        if np.count_nonzero(sizes) > 1:
            bounds = [0, *np.cumsum(sizes[np.flatnonzero(sizes)]).tolist()]
    if bounds is None:
        count = max(1, min(num_shards or _SHARDS, samples))
        bounds = [samples * shard // count for shard in range(count + 1)]
    return list(pairwise(bounds))
