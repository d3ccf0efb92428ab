"""The types of Arrow columns as column types, with what Hugging Face says of them: classes, pictures, sound."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ...errors import SchemaError
from ...format.column import ARROW_KEY
from ...format.schema import Schema
from .packages import needed

__all__ = ["ArrowEvidence", "annotated", "annotations_of", "class_names", "features_of", "nullable"]

_LONG_TEXT: Final = 4096
_ELEMENTS: Final = {
    "bool": "bool", "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64",
    "uint8": "uint8", "uint16": "uint16", "uint32": "uint32", "uint64": "uint64",
    "halffloat": "float16", "float": "float32", "double": "float64",
}  # fmt: skip
_FILE_FEATURES: Final = {
    "Image": "image/*", "Audio": "audio/*", "Video": "video/*", "Pdf": "application/pdf",
}  # fmt: skip


def nullable(spec: str) -> str | None:
    """The type with null, if there is one."""
    try:
        Schema.parse({"x": spec + "?"})
    except SchemaError:
        return None
    return spec + "?"


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


def annotations_of(metadata: Mapping[bytes, bytes] | None) -> dict[str, Any]:
    """What `unirecord export` has said of a column in the metadata of its field; nothing where that is damaged."""
    try:
        found = json.loads((metadata or {}).get(ARROW_KEY, b"{}"))
        Schema.parse({"x": {"type": "bytes", "annotations": found}})
    except (ValueError, RecursionError, SchemaError):
        return {}
    return dict(found)


def annotated(spec: Any, feature: Any) -> Any:
    """The type with what Hugging Face says of the column: names of classes, or the media type of files."""
    names = class_names(feature)
    if names and spec in ("int32", "int32?"):
        return {"type": spec, "annotations": {"classes": names}}
    kind = feature.get("_type") if isinstance(feature, dict) else None
    if kind in _FILE_FEATURES and spec in ("bytes", "bytes?"):
        return {"type": spec, "annotations": {"media_type": _FILE_FEATURES[kind]}}
    return spec


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
        if spec == "string" and self.longest > _LONG_TEXT and (not self.nulls or nullable("text")):
            spec = "text"
        if isinstance(spec, str) and spec != "object" and self.nulls:
            return nullable(spec) or spec
        return spec


def plain_storage(array: Any) -> Any:
    """The array without its extension type, run-end encoding or dictionary."""
    pa = needed("pyarrow", "Arrow data")
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


def is_time(pa: Any, kind: Any) -> bool:
    """Whether values are points in time, dates, times of day or durations."""
    return bool(pa.types.is_temporal(kind) and not pa.types.is_interval(kind))


def _spec(pa: Any, kind: Any, feature: Any) -> Any:
    if isinstance(kind, pa.BaseExtensionType):
        if hasattr(kind, "shape") and isinstance(kind.shape, list | tuple):  # a tensor
            element = _ELEMENTS.get(str(getattr(kind, "value_type", "")), None)
            if element is not None and all(isinstance(d, int) and d > 0 for d in kind.shape):
                return {"type": element, "shape": list(kind.shape)}
        kind = kind.storage_type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if class_names(feature) is not None:
        return "int32"
    name = str(kind)
    if name in _ELEMENTS:
        return _ELEMENTS[name]
    if is_text(pa, kind) or pa.types.is_null(kind) or pa.types.is_decimal(kind):
        return "string"
    if is_bytes(pa, kind) or is_file(pa, kind, feature):
        return "bytes"
    if is_time(pa, kind):
        return "int64"
    if is_list(pa, kind):
        return _list_spec(pa, kind, feature)
    return "object"


def _list_spec(pa: Any, kind: Any, feature: Any) -> Any:
    shape: list[int] = []
    while is_list(pa, kind):
        shape.append(kind.list_size if pa.types.is_fixed_size_list(kind) and kind.list_size > 0 else -1)
        kind = kind.value_type
    said = feature.get("shape") if isinstance(feature, dict) else None  # of `Array2D` and others
    if isinstance(said, list) and len(said) == len(shape) and all(type(d) is int and d > 0 for d in said):
        shape = said
    element = _ELEMENTS.get(str(kind))
    return "object" if element is None or len(shape) > 32 else {"type": element, "shape": shape}
