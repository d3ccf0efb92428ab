"""What all sources of Arrow columns share: types, what Hugging Face says of them, and values viewed where they lie."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from ...dataset.tables import arrow_schema
from ...errors import SchemaError
from ...format.arrow_types import FEATURE_KEY, TYPE_KEY, arrow_spec, from_arrow
from ...format.column import ARROW_KEY, CHUNKS_KEY, DICTIONARY_KEY, LOGICAL_KEY, Column
from ...format.meaning import DAY
from ...format.nested import nested_from, nested_of, stored_type
from ...format.schema import Schema
from ...format.values.batch import numbers_of, texts_of
from ...writing.inference import text_type
from .foreign_libraries import RAISED, foreign_call, foreign_items, needed
from .media_types import file_type
from .source import Options, Partitions, RawBatch, Source, column_name, column_names, reduced

__all__ = [
    "ArrowEvidence",
    "arrow_values",
    "choose_columns",
    "class_names",
    "features_of",
    "null_count",
    "holds_files",
    "is_text",
    "raw_batches",
    "rows_of_batches",
    "same_fields",
]


# The types of Arrow columns as column types, with what Hugging Face says of them: classes, pictures, sound.


_INTERVAL: Final = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")])
_MOST_DAYS: Final = 100_000_000  # of which the microseconds fit 64 bits
_ELEMENTS: Final = {
    "bool": "bool", "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64",
    "uint8": "uint8", "uint16": "uint16", "uint32": "uint32", "uint64": "uint64",
    "halffloat": "float16", "float": "float32", "double": "float64",
}  # fmt: skip
_FILE_FEATURES: Final = {
    "Image": "image/*", "Audio": "audio/*", "Video": "video/*", "Pdf": "application/pdf",
}  # fmt: skip


def features_of(metadata: Mapping[bytes, bytes] | None) -> dict[str, Any]:
    """What Hugging Face says of the columns in the metadata of an Arrow schema."""
    try:
        info = json.loads((metadata or {}).get(b"huggingface", b"{}"))
        features = info["info"]["features"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return features if isinstance(features, dict) else {}


def class_names(feature: Any) -> list[str] | None:
    """The names of the classes of a ``ClassLabel``; None of any other feature."""
    if not isinstance(feature, dict) or feature.get("_type") != "ClassLabel":
        return None
    names = feature.get("names")
    if isinstance(names, dict):  # older files: number → name
        names = [
            names[key]
            for key in sorted(names, key=lambda k: int(k) if len(str(k)) < 20 and str(k).isdecimal() else -1)
        ]
    return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else None


def said_by_export(metadata: Mapping[bytes, bytes] | None, spec: Any) -> dict[str, Any]:
    """What `unirecord export` has said of a column in the metadata of its field, in the user's form.

    Nothing where that is damaged. ``spec``: the type of the column, which a logical type must fit.
    """
    try:
        found = json.loads((metadata or {}).get(ARROW_KEY, b"{}"))
        beside = {key: found.pop(key) for key in (LOGICAL_KEY, CHUNKS_KEY) if key in found}
        said = {**beside, **({"annotations": found} if found else {})}
        # All types take annotations.
        known = {"type": "bytes"} if not beside else spec if isinstance(spec, Mapping) else {"type": spec}
        Schema.parse({"x": {**known, **said}})
    except (ValueError, TypeError, AttributeError, RecursionError, SchemaError):
        return {}
    return said


def _exported_classes(pa: Any, field: Any, nulls: bool | None) -> str | None:
    """The type of the numbers of classes that have been exported as a dictionary of their names; None of all else."""
    if not pa.types.is_dictionary(field.type):
        return None
    stored = (field.metadata or {}).get(TYPE_KEY, b"").decode(errors="replace")
    logical = said_by_export(field.metadata, stored).get(LOGICAL_KEY)
    if logical is None or logical.get("type") != "class":
        return None
    return f"{stored.removesuffix('?')}{'?' * bool(nulls)}"


def holds_files(feature: Any) -> bool:
    """Whether what Hugging Face says of a column has files within structs or lists."""
    if isinstance(feature, list):
        return any(map(holds_files, feature))
    if not isinstance(feature, dict) or feature.get("_type") in _FILE_FEATURES:
        return False
    return any(
        holds_files(one) or (isinstance(one, dict) and one.get("_type") in _FILE_FEATURES)
        for one in feature.values()
    )


def of_files(spec: Any, feature: Any) -> Any:
    """The type with the media type of files that Hugging Face says of the column."""
    kind = feature.get("_type") if isinstance(feature, dict) else None
    return (
        file_type(_FILE_FEATURES[kind], spec)
        if kind in _FILE_FEATURES and spec in ("bytes", "bytes?")
        else spec
    )


@dataclass
class ArrowEvidence:
    """What the values of an Arrow column seen so far allow.

    Attributes:
        type: the Arrow type.
        feature: what Hugging Face says of it.
        nulls: whether a value is null; None where nothing is known.
    """

    type: Any
    feature: Any = None
    nulls: bool | None = None
    inner_nulls: bool = False
    ragged: bool = False
    longest: int = 0

    def sample(self, array: Any) -> None:
        """Take values into account that show what a type leaves open."""
        pa = needed("pyarrow", "Arrow data")
        array = plain_storage(array)
        if array.null_count:
            self.nulls = True
        kind = array.type
        if is_text(pa, kind):
            longest = needed("pyarrow.compute", "Arrow data").max(
                needed("pyarrow.compute", "Arrow data").binary_length(array)
            )
            self.longest = max(self.longest, longest.as_py() or 0)
        elif is_list(pa, kind):
            self._sample_lists(pa, array)

    def _sample_lists(self, pa: Any, array: Any) -> None:
        rows: Any = np.arange(len(array))  # the row of each list
        for depth in range(32):
            if not is_list(pa, array.type):
                break
            if depth and array.null_count:
                self.inner_nulls = True
            sizes = needed("pyarrow.compute", "Arrow data").fill_null(
                needed("pyarrow.compute", "Arrow data").list_value_length(array), 0
            )
            sizes = sizes.to_numpy(zero_copy_only=False).astype(np.int64)
            if depth and len(rows):
                _, first = np.unique(rows, return_index=True)
                alike = np.repeat(sizes[first], np.diff([*first, len(rows)]))
                self.ragged = self.ragged or bool((sizes != alike).any())
            rows = np.repeat(rows, sizes)
            array = array.flatten()
        self.inner_nulls = self.inner_nulls or bool(array.null_count)

    def spec(self) -> Any:
        """The column's type in the user's form."""
        pa = needed("pyarrow", "Arrow data")
        spec = _spec(pa, self.type, self.feature)
        if isinstance(spec, dict) and (self.inner_nulls or self.ragged):
            return "object"
        if isinstance(spec, dict) and self.nulls:
            return {**spec, "type": f"{spec['type']}?"}
        if spec == "string":
            spec = text_type(self.longest)
        return f"{spec}?" if isinstance(spec, str) and spec != "object" and self.nulls else spec


def plain_storage(array: Any) -> Any:
    """The array without its extension type, run-end encoding or dictionary."""
    pa = needed("pyarrow", "Arrow data")
    array = _laid_out_plainly(pa, array)
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage if hasattr(array, "storage") else array.cast(array.type.storage_type)
    if pa.types.is_dictionary(array.type):
        if pa.types.is_string_view(array.type.value_type):  # Polars: Arrow cannot take from such a dictionary
            words = array.dictionary.cast(pa.large_string())
            array = pa.DictionaryArray.from_arrays(array.indices, words)
        array = array.dictionary_decode()
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    return array


def plain_type(pa: Any, kind: Any) -> Any:
    """The type of the same values without run-end encoding and views of lists, which say how they are laid out."""
    types = pa.types
    if types.is_run_end_encoded(kind):
        return plain_type(pa, kind.value_type)
    if types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return pa.struct([field.with_type(plain_type(pa, field.type)) for field in fields])
    large = types.is_large_list(kind) or types.is_large_list_view(kind)
    if not (large or types.is_list(kind) or types.is_list_view(kind)):
        return kind
    inner = kind.value_field.with_type(plain_type(pa, kind.value_type))
    return pa.large_list(inner) if large else pa.list_(inner)


def null_count(array: Any) -> int:
    """How many nulls an array has, or runs of them: one that is run-end encoded says of itself that it has none."""
    while needed("pyarrow", "Arrow data").types.is_run_end_encoded(array.type):
        array = array.values
    count: int = array.null_count
    return count


def _laid_out_plainly(pa: Any, array: Any) -> Any:
    """The array as one of `plain_type`."""
    # Lists are put together anew: casts of pyarrow 26 take other rows than those of a slice of list views.
    kind, plain = array.type, plain_type(pa, array.type)
    if plain == kind:
        return array
    if pa.types.is_run_end_encoded(kind):
        values = _laid_out_plainly(pa, array.values)
        if pa.types.is_string_view(values.type):
            values = values.cast(pa.large_string())
        rows = np.arange(array.offset, array.offset + len(array))
        return values.take(pa.array(np.searchsorted(numbers_of(array.run_ends), rows, side="right")))
    absent = array.is_null()
    if pa.types.is_struct(kind):
        children = [_laid_out_plainly(pa, child) for child in array.flatten()]
        return pa.StructArray.from_arrays(children, fields=list(plain), mask=absent)
    sizes = needed("pyarrow.compute", "Arrow data").list_value_length(array).fill_null(0)
    ends = np.concatenate([[0], np.cumsum(numbers_of(sizes), dtype=np.int64)])
    made = pa.LargeListArray if pa.types.is_large_list(plain) else pa.ListArray
    offsets = pa.array(ends, pa.int64() if pa.types.is_large_list(plain) else pa.int32())
    return made.from_arrays(offsets, _laid_out_plainly(pa, array.flatten()), type=plain, mask=absent)


def _durations(pa: Any, array: Any) -> Any:
    """Intervals, which are what DuckDB has for durations; SchemaError where one has months."""
    parts = np.frombuffer(array.buffers()[1] or b"", _INTERVAL, len(array), array.offset * _INTERVAL.itemsize)
    absent = numbers_of(array.is_null())
    far = (parts["months"] != 0) | (np.abs(parts["days"].astype(np.int64)) > _MOST_DAYS)
    if (wrong := ~absent & far).any():
        raise SchemaError(
            f"{array[int(wrong.argmax())].as_py()} is no duration, as months differ in length: convert it to days or "
            "seconds"
        )
    if (parts["nanoseconds"][~absent] % 1_000).any():
        whole = zip(absent.tolist(), parts["days"].tolist(), parts["nanoseconds"].tolist(), strict=True)
        found = [None if null else days * DAY * 1_000_000_000 + rest for null, days, rest in whole]
        return pa.array(found, pa.duration("ns"))
    microseconds = parts["days"] * np.int64(DAY * 1_000_000) + parts["nanoseconds"] // 1_000
    return pa.array(microseconds, pa.duration("us"), mask=absent)


def is_text(pa: Any, kind: Any) -> bool:
    """Whether values are Unicode."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_bytes(pa: Any, kind: Any) -> bool:
    """Whether values are bytes."""
    types = pa.types
    return bool(
        types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
        or types.is_binary_view(kind)
    )  # fmt: skip


def is_list(pa: Any, kind: Any) -> bool:
    """Whether values are lists."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def is_file(pa: Any, kind: Any, feature: Any) -> bool:
    """Whether values are files with their names, as Hugging Face keeps pictures and sound."""
    if not pa.types.is_struct(kind) or kind.num_fields != 2:
        return False
    fields = {kind.field(i).name: kind.field(i).type for i in range(2)}
    said = isinstance(feature, dict) and feature.get("_type") in _FILE_FEATURES
    return set(fields) == {"bytes", "path"} and (said or is_bytes(pa, fields["bytes"]))


def _is_uuid(pa: Any, kind: Any) -> bool:
    return isinstance(kind, pa.BaseExtensionType) and kind.extension_name == "arrow.uuid"


def is_time(pa: Any, kind: Any) -> bool:
    """Whether values are points in time, dates, times of day or durations."""
    return bool(pa.types.is_temporal(kind) and not pa.types.is_interval(kind))


def _spec(pa: Any, kind: Any, feature: Any) -> Any:
    if isinstance(kind, pa.BaseExtensionType):
        if hasattr(kind, "shape") and isinstance(kind.shape, list | tuple):  # a tensor
            element = _ELEMENTS.get(str(getattr(kind, "value_type", "")), None)
            if element is not None and all(isinstance(d, int) and d > 0 for d in kind.shape):
                return {"type": element, "shape": list(kind.shape)}
        kind = pa.string() if _is_uuid(pa, kind) else kind.storage_type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if class_names(feature) is not None:
        return "int32"
    name = str(kind)
    if name in _ELEMENTS:
        return _ELEMENTS[name]
    if pa.types.is_interval(kind):
        kind = pa.duration("us")
    if (known := arrow_spec(kind)) is not None:
        return known
    if is_text(pa, kind) or pa.types.is_null(kind) or pa.types.is_decimal(kind):
        return "string"
    if is_bytes(pa, kind) or is_file(pa, kind, feature):
        return "bytes"
    if is_list(pa, kind):
        return _list_spec(pa, kind, feature)
    return "object"


def _list_spec(pa: Any, kind: Any, feature: Any) -> Any:
    shape: list[int] = []
    while is_list(pa, kind):
        shape.append(kind.list_size if pa.types.is_fixed_size_list(kind) and kind.list_size > 0 else -1)
        kind = kind.value_type
    said = feature.get("shape") if isinstance(feature, dict) else None  # of `Array2D` and others
    if isinstance(said, list | tuple) and len(said) == len(shape):
        dims = [-1 if d is None else d for d in said]
        shape = dims if all(type(d) is int and (d > 0 or d == -1) for d in dims) else shape
    known = arrow_spec(kind) or {"type": _ELEMENTS.get(str(kind))}
    return (
        "object"
        if known["type"] is None or pa.types.is_decimal(kind) or len(shape) > 32
        else {**known, "shape": shape}
    )


def nested_text(field: Any) -> str | None:
    """Which structs, lists and maps the values of an Arrow field are, as logical types say it; None for others."""
    try:
        text = str(nested_from(field.type, field.nullable))
        nested_of(text)
    except ValueError:
        return None
    return text


# The values of Arrow columns as what `Writer.write_batch` takes, viewed where the memory is laid out alike.


def arrow_values(array: Any, column: Column, read_file: Callable[[str], bytes] | None = None) -> Any:
    """Return the values of an Arrow array for a column; ``read_file`` reads files that are only named.

    Raises `SchemaError` without the row where values do not fit.
    """
    pa = needed("pyarrow", "Arrow data")
    if (
        isinstance(array.type, pa.BaseExtensionType)
        and hasattr(array, "to_numpy_ndarray")
        and column.is_array
    ) and not array.null_count:
        return array.to_numpy_ndarray()
    if _is_uuid(pa, array.type) and column.type != "bytes":
        return array.to_pylist()
    array = plain_storage(array)
    if pa.types.is_interval(array.type) and column.type != "object":
        array = _durations(pa, array)
    kind = array.type
    known = from_arrow(column, array)
    if known is not None:
        return known
    if column.is_array:
        return _arrays(pa, array, column)
    if column.type == "object":
        nested = column.nested
        if nested is not None:
            wanted = stored_type(nested)
            return (array if array.type == wanted else array.cast(wanted)).to_pylist()
        return _plain_leaves(pa, array).to_pylist()
    if is_file(pa, kind, None):
        return _files(array, read_file)
    if is_bytes(pa, kind):
        return _cells(pa, array)
    if is_text(pa, kind):
        texts = texts_of(array) if column.type == "string" else None
        if texts is not None:
            return texts
        values = array.to_pylist()
        return [None if v is None else v.encode() for v in values] if column.type == "bytes" else values
    if column.type in ("string", "text") and (pa.types.is_decimal(kind) or is_time(pa, kind)):
        return _as_text(pa, array)
    if is_time(pa, kind):
        array = _nanoseconds(pa, array)
    return _scalars(array)


def _as_text(pa: Any, array: Any) -> list[str | None]:
    """Times and decimals as the texts that they are read from, too."""
    known = arrow_spec(array.type)
    if known is None:
        found: list[str | None] = array.cast(pa.string()).to_pylist()
        return found
    column = Schema.parse({"x": {**known, "type": f"{known['type']}?"}})["x"]
    values = from_arrow(column, array)
    return [column.shown(value) for value in (list(values) if column.is_array else values.tolist())]


def _scalars(array: Any) -> Any:
    numbers = numbers_of(array)
    return array.to_pylist() if numbers is None else numbers


def _nanoseconds(pa: Any, array: Any) -> Any:
    """Points in time as nanoseconds since 1970, times of day since midnight, durations as they are."""
    kind = array.type
    try:
        if pa.types.is_timestamp(kind):
            return array.cast(pa.timestamp("ns", kind.tz)).cast(pa.int64())
        if pa.types.is_date(kind):
            return array.cast(pa.timestamp("ns")).cast(pa.int64())
        if pa.types.is_time(kind):
            return array.cast(pa.time64("ns")).cast(pa.int64())
        return array.cast(pa.duration("ns")).cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise SchemaError(f"{kind} is no whole number of nanoseconds of 64 bits ({error})") from None


def _plain_leaves(pa: Any, array: Any) -> Any:
    """Nested values whose times are nanoseconds and whose decimals are text, as those of columns are."""
    counted, plain = _nested(pa, array.type, last=False), _nested(pa, array.type, last=True)
    if plain == array.type:
        return array
    try:
        return array.cast(counted).cast(plain)
    except pa.ArrowException as error:
        raise SchemaError(f"a value inside {array.type} has no plain form ({error})") from None


def _nested(pa: Any, kind: Any, *, last: bool) -> Any:
    """The type in which leaves are plain; before the ``last`` step times are still those of nanoseconds."""
    types = pa.types
    if types.is_timestamp(kind) or types.is_date(kind):
        return pa.int64() if last else pa.timestamp("ns", getattr(kind, "tz", None))
    if types.is_time(kind) or types.is_duration(kind):
        return pa.int64() if last else pa.time64("ns") if types.is_time(kind) else pa.duration("ns")
    if types.is_decimal(kind):
        return pa.string()
    if types.is_interval(kind):
        raise SchemaError(f"{kind} is no number of nanoseconds, since months differ; convert it")
    if types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return pa.struct([field.with_type(_nested(pa, field.type, last=last)) for field in fields])
    if types.is_map(kind):
        return pa.map_(kind.key_type, kind.item_field.with_type(_nested(pa, kind.item_type, last=last)))
    if is_list(pa, kind):
        inner = kind.value_field.with_type(_nested(pa, kind.value_type, last=last))
        if types.is_fixed_size_list(kind):
            return pa.list_(inner, kind.list_size)
        return pa.large_list(inner) if types.is_large_list(kind) else pa.list_(inner)
    return kind


def _cells(pa: Any, array: Any) -> list[Any]:
    """Bytes as views of the array's memory."""
    if pa.types.is_binary_view(array.type) or pa.types.is_fixed_size_binary(array.type):
        array = array.cast(pa.large_binary())
    wide = pa.types.is_large_binary(array.type)
    _, places, data = array.buffers()
    places = np.frombuffer(
        places, np.int64 if wide else np.int32, len(array) + 1, array.offset * (8 if wide else 4)
    )
    view = memoryview(data) if data is not None else memoryview(b"")
    ends = places.tolist()
    cells: list[Any] = [view[a:b] for a, b in itertools.pairwise(ends)]
    if array.null_count:
        for i in np.flatnonzero(numbers_of(array.is_null())):
            cells[i] = None
    return cells


def _files(array: Any, read_file: Callable[[str], bytes] | None) -> list[Any]:
    cells = _cells(needed("pyarrow", "Arrow data"), array.field("bytes"))
    absent = numbers_of(array.is_null())
    paths: list[str | None] | None = None
    for i, cell in enumerate(cells):
        if absent[i]:
            cells[i] = None
        elif cell is None:
            paths = array.field("path").to_pylist() if paths is None else paths
            path = paths[i]
            if path is not None:
                if read_file is None:
                    raise SchemaError(
                        f"the file {path!r} is named, but its bytes are not there; save the dataset with its files"
                    )
                cells[i] = read_file(path)
    return cells


def _arrays(pa: Any, array: Any, column: Column) -> Any:
    if not is_list(pa, array.type):
        return array.to_pylist()
    if array.null_count and column.nullable:
        found: list[Any] = [None] * len(array)
        present = np.flatnonzero(numbers_of(array.is_valid())).tolist()
        for row, value in zip(present, _arrays(pa, array.drop_null(), column), strict=True):
            found[row] = value
        return found
    if array.null_count:
        row = int(np.flatnonzero(numbers_of(array.is_null()))[0])
        raise SchemaError(
            f"a list is null (the {row + 1}th of its batch); --schema {column.name}=object takes it, "
            f"and so does {column}?"
        )
    sizes, inner = _parts(pa, array)
    flat = _dense(pa, inner, column)
    if flat is None:
        return [_ragged(row, column) for row in array.to_pylist()]
    if len(sizes) and (sizes == sizes[0]).all():
        return flat.reshape(len(sizes), int(sizes[0]), *flat.shape[1:])
    ends = np.concatenate(([0], np.cumsum(sizes))).tolist()
    return [flat[a:b] for a, b in itertools.pairwise(ends)]


def _parts(pa: Any, array: Any) -> tuple[Any, Any]:
    """The lengths of the lists, and all they hold one after the other."""
    if pa.types.is_fixed_size_list(array.type):
        sizes = np.full(len(array), array.type.list_size, np.int64)
    else:
        sizes = np.diff(numbers_of(array.offsets)).astype(np.int64)
    return sizes, array.flatten()


def _dense(pa: Any, array: Any, column: Column) -> Any:
    """What lists hold as one array [n, …]; None where inner lists differ in length or a value is null."""
    if array.null_count:
        return None
    if not is_list(pa, array.type):
        numbers = from_arrow(column, array) if is_time(pa, array.type) else numbers_of(array)
        return array.to_numpy(zero_copy_only=False) if numbers is None else numbers
    sizes, inner = _parts(pa, array)
    flat = _dense(pa, inner, column)
    if flat is None or (len(sizes) and (sizes != sizes[0]).any()):
        return None
    fixed = array.type.list_size if pa.types.is_fixed_size_list(array.type) else 0
    return flat.reshape(len(sizes), int(sizes[0]) if len(sizes) else fixed, *flat.shape[1:])


def _ragged(row: Any, column: Column) -> Any:
    """One row whose inner lists may differ from those of other rows, but not among each other."""
    try:
        found = np.array(row, dtype=column.dtype)
    except (ValueError, TypeError) as error:
        raise SchemaError(
            f"lists of differing lengths, or a null in one; --schema {column.name}=object takes them"
        ) from error
    shape = column.shape or ()
    if not found.size and found.ndim < len(shape):  # what empty lists would hold
        return found.reshape(*found.shape, *(max(size, 0) for size in shape[found.ndim :]))
    return found


# Rows that come as Arrow record batches: a schema from types and a sample; rows to batches.


_BATCH_BYTES: Final = 8_000_000
_BATCH_ROWS: Final = 1 << 16
_MOST_FEATURE: Final = 1 << 16  # characters
_NEEDS: Final = "Arrow data"
_REFUSED: Final[tuple[type[Exception], ...]] = (SchemaError, *RAISED["pyarrow"])


def choose_columns(
    source: Source,
    fields: Any,
    sample: Any,
    nulls: Mapping[str, bool | None],
    options: Options,
    partitions: Partitions | None = None,
    said: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, str]:
    """Set the schema of a source, and return the names of the Arrow fields by those of their columns.

    The schema is made from an Arrow schema, some of the rows, and whether each column has nulls; and from
    ``partitions``, columns that the rows have not. ``said``: what is said of columns elsewhere than in the Arrow
    schema, as Hugging Face says it.
    """
    pa = needed("pyarrow", _NEEDS)
    names, changed = (
        column_names(fields.names, source.path, options)
        if partitions is None
        else (partitions.own_names, partitions.changed)
    )
    source.left_out += changed
    features = {**features_of(fields.metadata), **said}
    found: dict[str, Any] = {}
    classes: dict[str, list[str]] = {}
    for i, name in enumerate(names):
        feature = features.get(fields.names[i])
        field = fields.field(i).with_type(plain_type(pa, fields.field(i).type))
        evidence = ArrowEvidence(field.type, feature, nulls.get(fields.names[i]))
        if sample is not None:
            with foreign_call("pyarrow", f"{source.path}, column {name!r}"):
                for chunk in _chunks(sample.column(i)):
                    evidence.sample(chunk)
        found[name] = of_files(evidence.spec(), feature)
        labels: Sequence[str] | None = class_names(feature)
        if labels is not None and found[name] in ("int32", "int32?"):
            found[name] = source.classes_type(name, found[name], labels)
        nested = nested_text(field) if found[name] == "object" else None
        if nested is not None:
            found[name] = {"type": "object", LOGICAL_KEY: {"type": "nested", "of": nested}}
        found[name] = _exported_classes(pa, field, evidence.nulls) or found[name]
        exported = said_by_export(field.metadata, found[name])
        if exported:
            found[name] = {**_whole(found[name]), **exported}
        elif (dictionary := _dictionary(pa, field.type, found[name])) is not None:
            found[name] = {**_whole(found[name]), "annotations": {DICTIONARY_KEY: dictionary}}
        if feature is not None:
            found[name] = _with_feature(source, found[name], name, field.type, feature)
        labels = labels or Schema.parse({name: found[name]})[name].classes
        if labels is not None:
            classes[name] = list(labels)
        _note(source, pa, name, field.type, feature)
    source.schema = options.schema(found if partitions is None else {**found, **partitions.types})
    if classes:
        first = classes.get("label") or next(iter(classes.values()))
        source.metadata = {"classes": first}
        if len(classes) > 1:
            source.metadata["class_names"] = classes
    return dict(zip(names, fields.names, strict=True))


def _whole(spec: Any) -> dict[str, Any]:
    return dict(spec) if isinstance(spec, Mapping) else {"type": spec}


def _dictionary(pa: Any, kind: Any, spec: Any) -> str | None:
    """How Arrow has a dictionary of strings that becomes a column of such a type; None of all else."""
    if not pa.types.is_dictionary(kind):
        return None
    if spec in ("string", "string?"):
        return "unordered"
    is_class = isinstance(spec, Mapping) and (spec.get(LOGICAL_KEY) or {}).get("type") == "class"
    return "ordered" if is_class and kind.ordered else None


def _with_feature(source: Source, spec: Any, name: str, kind: Any, feature: Any) -> Any:
    """The type with what Hugging Face says of the column, where the type itself does not say as much."""
    column = Schema.parse({name: spec})[name]
    if _is_said(column, kind, feature):
        return spec
    text = json.dumps(feature, ensure_ascii=False, sort_keys=True)
    if len(text) > _MOST_FEATURE:
        said = f"what Hugging Face says of it has {len(text):,} characters, of {_MOST_FEATURE:,} at most"
        source.left_out.append(reduced(f"column {name!r}", said, column=name))
        return spec
    whole = _whole(spec)
    return {**whole, "annotations": {**whole.get("annotations", {}), FEATURE_KEY: text}}


def _is_said(column: Column, kind: Any, feature: Any) -> bool:
    """Whether `unirecord.hf` makes this feature of the column alone."""
    pa = needed("pyarrow", _NEEDS)
    if pa.types.is_null(kind) or not isinstance(feature, dict):
        return True
    of_kind = feature.get("_type")
    if of_kind == "ClassLabel":
        return class_names(feature) == (None if column.classes is None else list(column.classes))
    if of_kind in ("Image", "Audio"):
        said = {key for key, value in feature.items() if value is not None} - {"_type"}
        return not said and (column.media_type or "").startswith(f"{of_kind.lower()}/")
    if of_kind in ("Array2D", "Array3D", "Array4D", "Array5D"):
        shape = list(column.shape or ())
        return [*feature.get("shape", ())] == shape and feature.get("dtype") == column.type
    return _is_plain(feature, str(kind)) and arrow_schema([column]).field(0).type == kind


def _is_plain(feature: Any, kind: str) -> bool:
    """Whether an Arrow type says all that a feature says; Parquet has not all units of times."""
    if not isinstance(feature, dict):
        return False
    of_kind = feature.get("_type")
    if not isinstance(of_kind, str):
        return all(_is_plain(one, kind) for one in feature.values())
    if of_kind == "Value":
        dtype = str(feature.get("dtype"))
        return "[" not in dtype or dtype in kind
    return of_kind in ("List", "LargeList") and _is_plain(feature.get("feature"), kind)


def _note(source: Source, pa: Any, name: str, kind: Any, feature: Any) -> None:
    known = arrow_spec(kind)
    if known is not None and known["logical"].get("zone") != getattr(kind, "tz", None):
        said = f"of {kind} the time zone is UTC here: the points in time are the same"
        source.left_out.append(reduced(f"column {name!r}", said, column=name))
    elif known is None and pa.types.is_decimal(kind):
        source.notes.append(f"{name}: {kind} is written as text, so that no digit is lost")
    elif _is_uuid(pa, kind):
        source.notes.append(f"{name}: UUIDs are written as text, which conditions and keys find")
    elif is_file(pa, kind, feature):
        source.notes.append(f"{name}: files, written byte for byte")


def raw_batches(
    table: Any,
    schema: Schema,
    names: Mapping[str, str],
    where: str,
    first_row: int,
    read_file: Callable[[str], bytes] | None = None,
) -> Iterator[RawBatch]:
    """Yield the rows of a record batch or table, a few MB at a time; ``names`` as `choose_columns` gives them."""
    rows = table.num_rows
    step = max(1, min(_BATCH_ROWS, rows * _BATCH_BYTES // max(table.nbytes, 1)))
    for start in range(0, rows, step):
        piece = table.slice(start, step)
        columns: dict[str, Any] = {}
        for column in (one for one in schema if one.name in names):
            chunks = _chunks(piece.column(names[column.name]))
            try:
                columns[column.name] = _joined([arrow_values(one, column, read_file) for one in chunks])
            except _REFUSED as error:
                raise SchemaError(
                    f"{where}, rows from {first_row + start}, column {column.name!r}: {error}"
                ) from None
        yield RawBatch(columns, piece.num_rows)


def rows_of_batches(
    library: str,
    batches: Iterable[Any],
    schema: Schema,
    names: Mapping[str, str],
    where: str,
    row: int,
    more: Callable[[int], Mapping[str, Any]] = lambda rows: {},
) -> Iterator[RawBatch]:
    """Yield the rows of record batches that a library reads, of which the first is number ``row``; see `raw_batches`.

    ``more``: the columns that the batches have not, for so many rows.
    """
    for batch in foreign_items(library, where, batches):
        for raw in raw_batches(batch, schema, names, where, row):
            raw.columns.update(more(raw.rows))
            yield raw
        row += batch.num_rows


def same_fields(first: Any, other: Any, first_name: str, other_name: str, options: Options) -> None:
    """Refuse files whose columns differ in name, type or order; where some are wanted, in the types of those alone."""
    names = [name for i, name in enumerate(first.names) if options.wants(column_name(name, i))]
    if not set(names) <= set(other.names) or (options.wanted is None and first.names != other.names):
        raise SchemaError(
            f"{other_name} has the columns {', '.join(other.names)}, but {first_name} has {', '.join(first.names)}; "
            f"write them to datasets of their own"
        )
    for name in names:
        mine, its = (schema.field(schema.names.index(name)).type for schema in (first, other))
        if mine != its:
            raise SchemaError(
                f"{other_name}: column {name!r} is {its}, but {mine} in {first_name}; convert one of them"
            )


def _chunks(column: Any) -> list[Any]:
    return list(column.chunks) if hasattr(column, "chunks") else [column]


def _joined(pieces: list[Any]) -> Any:
    if len(pieces) == 1:
        return pieces[0]
    joined: list[Any] = []
    for piece in pieces:
        joined += list(piece.tolist() if hasattr(piece, "mask") and piece.ndim == 1 else piece)
    return joined
