"""One column of a schema: its type, shape, codec and annotations, from the form that a user or a file gives."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import msgpack
import numpy as np
import numpy.typing as npt

from ..core import CODEC_SHUFFLE_ZSTD, CODEC_ZSTD, cached_property
from ..errors import ColumnError, FormatError, SchemaError, did_you_mean
from ..sizes import many
from .layout import CODEC_CHUNKED, MAX_EXPANSION_BITS
from .logical import canonical, from_text, is_of_later_version, other_logical, problem_of, shown
from .meaning import Meaning
from .nested import Nested, nested_of

__all__ = [
    "ARROW_KEY",
    "Codec",
    "checked_annotations",
    "impossible_sizes",
    "differing_annotation",
    "differing_meaning",
    "pack_annotations",
    "unpack_annotations",
    "with_meaning_of",
    "name_problem",
]


# What is said of a column beside its type (unit, colour space): plain values that readers ignore.


ARROW_KEY: Final = (
    b"unirecord.annotations"  # of the metadata of an Arrow field: the column's annotations, as JSON
)
# In the map of a column's annotations as files have it; beside the type, never among the annotations, where a
# user gives and sees them: what the values stand for, and how they are cut where they are stored.
LOGICAL_KEY: Final = "logical"
# Of a column of strings or of classes that Arrow had as a dictionary, and is given: "ordered" or "unordered".
DICTIONARY_KEY: Final = "dictionary"
CHUNKS_KEY: Final = "chunks"
BESIDE: Final = (LOGICAL_KEY, CHUNKS_KEY)
MAX_DEPTH: Final = 16
# Of the keys with a meaning (docs/schema.md) those that say what a value stands for.
_MEANINGS: Final = ("unit", "origin", "color_space", "scale_factor", "add_offset", "tokenizer")
_MANIFEST_INTEGERS: Final = range(-(1 << 63), 1 << 64)


def pack_annotations(column: str, annotations: object) -> bytes:
    """The annotations that a user gives for a column, packed; nothing for none. SchemaError for what is not allowed."""
    if annotations is None:
        return b""
    if not isinstance(annotations, Mapping):
        raise SchemaError(
            f'column {column!r}: annotations are a dict such as {{"unit": "ms"}}, '
            f"got {type(annotations).__name__}"
        )
    found = dict(annotations)
    beside = next((key for key in BESIDE if key in found), None)
    if beside is not None:
        raise SchemaError(
            f"column {column!r}: {beside!r} stands beside the type and not among the annotations: "
            f'{{"type": …, "{beside}": …}}'
        )
    return _checked(column, found)


def _checked(column: str, annotations: dict[str, Any]) -> bytes:
    """What is to stand in a file, packed; SchemaError for what cannot."""
    problem = _problem(annotations, "annotations", 1)
    if problem is not None:
        raise SchemaError(f"column {column!r}: {problem}")
    return _packed(annotations)


def differing_meaning(one: Column, other: Column) -> str | None:
    """What values of two columns are to be understood otherwise by, with both; None where they mean the same.

    Of the logical type it is enough that one of them has none; of annotations, both have it, and it differs.
    """
    if other_logical(one.logical, other.logical):
        return f"its logical type is {shown(other.logical)} and not {shown(one.logical)}"
    return differing_annotation(one, other)


def differing_annotation(one: Column, other: Column) -> str | None:
    """The same of annotations alone."""
    mine, theirs = one.annotations, other.annotations
    for key in _MEANINGS:
        if key in mine and key in theirs and _contradict(mine[key], theirs[key]):
            return f"its annotation {key} is {theirs[key]!r} and not {mine[key]!r}"
    return None


def _contradict(one: Any, other: Any) -> bool:
    """Whether two annotations say different things: where both have a digest, as tokenizers do, by that alone."""
    digests = [said.get("sha256") for said in (one, other) if isinstance(said, dict)]
    if len(digests) == 2 and None not in digests:
        return bool(digests[0] != digests[1])
    return bool(one != other)


def with_meaning_of(column: Column, other: Column) -> tuple[Column, list[str]]:
    """The column with all that is said of another one, and what of that is lost, as it fits no such values."""
    known, lost = other.wire_annotations, []
    if LOGICAL_KEY in known and problem_of(known[LOGICAL_KEY], column.type, column.shape) is not None:
        del known[LOGICAL_KEY]
        lost.append(f"logical type {shown(other.logical)}")
    if column.dtype is None and known.pop("unit", None) is not None:
        lost.append("annotation unit")
    return replace(column, packed_annotations=_packed(known)), lost


def checked_annotations(column: str, stored: object) -> bytes:
    """The annotations in a stored schema, packed; FormatError when they are none."""
    if not isinstance(stored, dict):
        raise FormatError(f"the stored schema's column {column!r} has annotations that are no map")
    problem = _problem(stored, "annotations", 1)
    if problem is not None:
        raise FormatError(f"the stored schema's column {column!r}: {problem}")
    if not _is_sorted(stored):
        raise FormatError(
            f"the annotations of the stored schema's column {column!r} do not have their keys in the order of "
            "code points"
        )
    return _packed(stored)


def unpack_annotations(packed: bytes) -> dict[str, Any]:
    """What was packed, in objects of the caller's own."""
    return dict(msgpack.unpackb(packed)) if packed else {}


def _packed(annotations: dict[str, Any]) -> bytes:
    packed: bytes = msgpack.packb(_sorted(annotations), use_bin_type=True) if annotations else b""
    return packed


def _sorted(value: Any) -> Any:
    """The keys of all maps in the order of their code points, as the manifest has them."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list | tuple) else value


def _is_sorted(value: Any) -> bool:
    if isinstance(value, dict):
        return list(value) == sorted(value) and all(map(_is_sorted, value.values()))
    return not isinstance(value, list) or all(map(_is_sorted, value))


def _problem(value: object, place: str, depth: int) -> str | None:
    """What keeps a value from standing in msgpack and in JSON alike."""
    if value is None or type(value) is bool:
        return None
    if type(value) is int:
        return None if value in _MANIFEST_INTEGERS else f"{place}: {value} does not fit 64 bits"
    if type(value) is float:
        return None if math.isfinite(value) else f"{place}: {value} is no number"
    if type(value) is str:
        return None if _is_unicode(value) else f"{place}: the text has a lone surrogate"
    if not isinstance(value, dict | list | tuple):
        return f"{place}: {type(value).__name__} is not supported; None, bool, int, float, str, list and dict are"
    if depth > MAX_DEPTH:
        return f"{place}: nested more than {MAX_DEPTH} deep"
    if isinstance(value, dict):
        for key in value:
            if type(key) is not str or not _is_unicode(key):
                return f"{place}: a key is a str, got {key!r}"
        items = [(f"{place}.{key}", item) for key, item in value.items()]
    else:
        items = [(f"{place}[{i}]", item) for i, item in enumerate(value)]
    return next((p for where, item in items if (p := _problem(item, where, depth + 1)) is not None), None)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# How the cells of a blob column are compressed: what a schema says, and what the column table holds.


_CODES: Final = {"zstd": CODEC_ZSTD, "shuffle+zstd": CODEC_SHUFFLE_ZSTD}
_NAMES: Final = {code: name for name, code in _CODES.items()}
_SPEC: Final = re.compile(r"(zstd|shuffle\+zstd)(?::([0-9]{1,2}))?")
_USUAL_LEVEL: Final = 3
_LEVELS: Final = range(1, 23)


@dataclass(frozen=True)
class Codec:
    """A codec by its code in the column table; ``level`` is the writer's own affair, and is not stored."""

    code: int
    level: int = _USUAL_LEVEL

    @classmethod
    def parse(cls, text: object) -> Codec:
        """The codec that a schema names by ``text``, such as "zstd:9"; ValueError says what there is."""
        match = _SPEC.fullmatch(text) if isinstance(text, str) else None
        if match is None or (match[2] is not None and int(match[2]) not in _LEVELS):
            raise ValueError(
                f'unknown codec {text!r}; there are "zstd", and for arrays "shuffle+zstd", '
                f'with a level from 1 to {_LEVELS[-1]} if wanted, as in "zstd:9"'
            )
        return cls(_CODES[match[1]], int(match[2] or _USUAL_LEVEL))

    @property
    def name(self) -> str:
        """Its name; of a codec of a later version, its number."""
        return _NAMES.get(self.code, f"codec {self.code}")

    def spec_for(self, element_bytes: int) -> str:
        """What `parse` takes where elements have ``element_bytes``: there is nothing to shuffle in one byte."""
        name = _NAMES[CODEC_ZSTD] if self.shuffles and element_bytes == 1 else self.name
        return name if self.level == _USUAL_LEVEL else f"{name}:{self.level}"

    @property
    def shuffles(self) -> bool:
        """Whether the bytes of elements are put in order of their place first."""
        return self.code == CODEC_SHUFFLE_ZSTD

    @property
    def is_known(self) -> bool:
        """Whether this version can read it."""
        return self.code in _NAMES


def impossible_sizes(stored: npt.NDArray[np.uint64], raw: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Which cells of ``stored`` bytes cannot be values of ``raw`` bytes, whatever is in them."""
    frames = (stored > 0) & (stored < raw) & (raw >> np.uint64(MAX_EXPANSION_BITS) <= stored)
    wrong: npt.NDArray[np.bool_] = ~(frames | (stored == raw))
    return wrong


# One column of a schema: its type, shape and codec, and what they say of its cells.


# Type codes of docs/spec/format.md, "Column types".
ELEMENTS: Final[dict[str, tuple[int, str]]] = {
    "bool": (1, "?"),
    "int8": (2, "<i1"),
    "uint8": (3, "<u1"),
    "int16": (4, "<i2"),
    "uint16": (5, "<u2"),
    "int32": (6, "<i4"),
    "uint32": (7, "<u4"),
    "int64": (8, "<i8"),
    "uint64": (9, "<u8"),
    "float16": (10, "<f2"),
    "float32": (11, "<f4"),
    "float64": (12, "<f8"),
    "bfloat16": (13, "<u2"),  # numpy has no bfloat16: its bits travel as uint16
    "complex64": (14, "<c8"),
    "complex128": (15, "<c16"),
}
# Types of later versions: scalars, which state their width, and blobs of variable width. Their names say all that one
# must know to read the other columns.
_LATER_SCALARS: Final = range(64, 128)
_LATER_BLOBS: Final = range(128, 192)
_LATER: Final = re.compile(r"type([1-9][0-9]{1,2})(?::(1|2|4|8|16|32|64))?")
VARIABLE: Final[dict[str, int]] = {"string": 20, "bytes": 30, "text": 31, "object": 33}
_ARRAY_CODE: Final = 32
DTYPES: Final[dict[str, np.dtype[np.generic]]] = {t: np.dtype(d) for t, (_, d) in ELEMENTS.items()}
TABLE_ENTRY: Final = struct.Struct("<BBBBB3xQQ8x")


@lru_cache(1024)
def _later(type_name: str) -> tuple[int, int] | None:
    """Code of a type of a later version, and bytes of its values, 0 for blobs; None for all other names."""
    match = _LATER.fullmatch(type_name)
    if match is None:
        return None
    code, width = int(match[1]), int(match[2] or 0)
    return (code, width) if code in (_LATER_SCALARS if width else _LATER_BLOBS) else None


@dataclass(frozen=True)
class Column:
    """One column of a schema: immutable and hashable.

    Attributes:
        name: its name.
        type: the name of its type (docs/schema.md); of an array, that of its elements.
        shape: the shape of an array, −1 for a free dimension; None for all else.
        nullable: whether values may be None.
        codec: how its cells are compressed, or None; says nothing of its values, so it takes no part in ``==``.

    Columns are equal whatever their annotations say.
    """

    name: str
    type: str
    shape: tuple[int, ...] | None = None
    nullable: bool = False
    packed_annotations: bytes = field(default=b"", compare=False, repr=False)
    codec: Codec | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Forget chunks that do not fit: those of a column that another has been made of, with another shape."""
        if CHUNKS_KEY.encode() not in self.packed_annotations:
            return
        said = self.wire_annotations
        if CHUNKS_KEY in said and self.chunks_problem(said[CHUNKS_KEY]) is not None:
            left = {key: value for key, value in said.items() if key != CHUNKS_KEY}
            object.__setattr__(self, "packed_annotations", _packed(left))

    @property
    def annotations(self) -> dict[str, Any]:
        """What the writer said of it beside its type (docs/schema.md), or nothing; a dict of the caller's own."""
        return {key: value for key, value in self.wire_annotations.items() if key not in BESIDE}

    @property
    def wire_annotations(self) -> dict[str, Any]:
        """Internal: the same as files have it, with the logical type and the shape of chunks."""
        return unpack_annotations(self.packed_annotations)

    @property
    def logical(self) -> dict[str, Any] | None:
        """Its logical type: a dict of its own with the name under ``"type"``, and parameters; None for none.

        One that this version does not know is given as it is stored; the values are those of the stored type.
        """
        said = self.wire_annotations.get(LOGICAL_KEY) if self.packed_annotations else None
        return said if isinstance(said, dict) else None

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The names of its classes, value i the i-th; None where its logical type says none."""
        found: list[str] | None = self._parameter("class", "names")
        return None if found is None else tuple(found)

    @cached_property
    def meaning(self) -> Meaning | None:
        """Internal: what its stored values stand for by its logical type; None where these are all that is known."""
        return Meaning.of(self.logical, self.type, self.shape)

    def shown(self, value: Any) -> Any:
        """Internal: a stored value for people: times, decimals and classes as text, all others as they are."""
        return value if value is None or self.meaning is None else self.meaning.text(value)

    @cached_property
    def dictionary(self) -> str | None:
        """Internal: "ordered" or "unordered" where Arrow gets its values as a dictionary of strings; else None."""
        said = self.wire_annotations.get(DICTIONARY_KEY) if self.packed_annotations else None
        if self.classes is not None and self.shape is None:
            return "ordered" if said == "ordered" else "unordered"
        return "unordered" if self.is_string and said is not None else None

    @property
    def is_wide_decimal(self) -> bool:
        """Internal: whether its values are decimals of more than 18 digits, which are stored as two words."""
        return self.is_array and self._parameter("decimal", "scale") is not None

    @property
    def media_type(self) -> str | None:
        """Internal: what files its values are, as ``"image/jpeg"``; None where its logical type says none."""
        found: str | None = self._parameter("media", "media")
        return found

    @property
    def nested(self) -> Nested | None:
        """Internal: which structs, lists and maps its objects are; None where its logical type says nothing of it."""
        found: str | None = self._parameter("nested", "of")
        return None if found is None else nested_of(found)

    def decimal(self, values: Any) -> Any:
        """What stored values of a ``decimal`` column say: a ``Decimal``, or of several values a list of them.

        Args:
            values: as samples and batches have them: integers, those of more than 18 digits as two words. None, and
                what is masked, is None.

        Raises:
            TypeError: the column's logical type is another one, or none.
        """
        scale = self._parameter("decimal", "scale")
        if scale is None:
            raise TypeError(
                f"column {self.name!r} holds no decimals: its logical type is {shown(self.logical)}"
            )
        if isinstance(values, list) or getattr(values, "ndim", 0) > len(self.shape or ()):
            return [self.decimal(value) for value in values]
        if values is None or np.ma.is_masked(values):
            return None
        low, high = np.asarray(values).tolist() if self.is_array else (int(values), 0)
        number = (high << 64) + low % (1 << 64) if self.is_array else low
        return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))

    def _parameter(self, kind: str, name: str) -> Any:
        """A parameter of its logical type; None where that is another one, or makes no sense."""
        said = self.known_logical
        return None if said is None or said["type"] != kind else said[name]

    @cached_property
    def known_logical(self) -> dict[str, Any] | None:
        """Internal: its logical type, where this version knows it and it makes sense; not to be changed."""
        said = self.logical
        return None if said is None or problem_of(said, self.type, self.shape) is not None else said

    @cached_property
    def chunks(self) -> tuple[int, ...] | None:
        """The shape of the chunks that its values are cut into; of bytes and text, their size alone; None: it is whole.

        An annotation that does not fit the column cuts nothing.
        """
        said = (
            self.wire_annotations.get(CHUNKS_KEY) if CHUNKS_KEY.encode() in self.packed_annotations else None
        )
        if said is None or self.chunks_problem(said) is not None:
            return None
        return tuple(said) if isinstance(said, list) else (said,)

    def chunks_problem(self, said: object) -> str | None:
        """Internal: what keeps values from being cut so, as annotations have it; None for nothing."""
        if self.shape is None and self.type in ("bytes", "text"):
            good = type(said) is int and 1 <= said < _MAX_CELL_BYTES
            return None if good else f"{self} is cut into chunks of so many bytes, at least 1, as in 65536"
        if self.shape is None:
            return f"{self} cannot be cut into chunks: bytes, text and arrays can"
        if self.free_dims > 1:
            return (
                f"{self} cannot be cut into chunks: arrays of one free dimension at most can, whose shape is known by "
                "their length"
            )
        good = (
            isinstance(said, list)
            and len(said) == len(self.shape)
            and all(
                type(part) is int and 1 <= part <= (_MAX_CELL_BYTES - 1 if whole == -1 else whole)
                for part, whole in zip(said, self.shape, strict=True)
            )
        )
        return (
            None
            if good
            else (
                f"{self} is cut into chunks of {many(len(self.shape), 'dimension')}, each from 1 to that of the array"
            )
        )

    @property
    def wrong_logical(self) -> str | None:
        """Internal: what no version may say of its logical type, or None: what a later one may say is none."""
        said = self.wire_annotations.get(LOGICAL_KEY) if self.packed_annotations else None
        problem = None if said is None else problem_of(said, self.type, self.shape)
        if problem is None or (isinstance(said, dict) and is_of_later_version(said)):
            return None
        return f"its logical type is none: {problem}"

    def without_logical(self) -> Column:
        """Internal: the same, of whose values no logical type is said."""
        left = {key: value for key, value in self.wire_annotations.items() if key != LOGICAL_KEY}
        return replace(self, packed_annotations=_packed(left))

    @property
    def is_array(self) -> bool:
        """Whether its values are arrays."""
        return self.shape is not None

    @property
    def is_string(self) -> bool:
        """Whether it is the scalar type ``string``."""
        return self.type == "string"

    @property
    def is_blob(self) -> bool:
        """Whether its values lie in the blob pages: bytes, text, array or object."""
        return self.shape is not None or self.type in ("bytes", "text", "object") or self._is_later_blob

    @property
    def is_known(self) -> bool:
        """Whether this version knows its type; the values of others cannot be read."""
        return self.type in ELEMENTS or self.type in VARIABLE

    def check_known(self) -> None:
        """Internal: raise `ColumnError` where its type is not known, so that nobody can say what its values are."""
        if not self.is_known:
            raise ColumnError(
                f"column {self.name!r} has type {self.code}, which this version does not know: upgrade unirecord; the "
                "other columns can be read without it"
            )

    @property
    def is_ordered(self) -> bool:
        """Whether its values have an order: those of scalar columns, of a type that is known."""
        return not self.is_blob and self.is_known

    @property
    def is_sortable(self) -> bool:
        """Internal: whether rows have an order by it: scalar columns, and decimals of two words, which no index has."""
        return self.is_ordered or self.is_wide_decimal

    @property
    def _is_later_blob(self) -> bool:
        return self.type.startswith("type") and ":" not in self.type

    @property
    def code(self) -> int:
        """Internal: type code in the column table."""
        if self.shape is not None:
            return _ARRAY_CODE
        if (later := None if self.is_known else _later(self.type)) is not None:
            return later[0]
        return VARIABLE[self.type] if self.type in VARIABLE else ELEMENTS[self.type][0]

    @property
    def dtype_code(self) -> int:
        """Internal: type code of an array's elements; 0 when not an array."""
        return ELEMENTS[self.type][0] if self.shape is not None else 0

    @property
    def dtype(self) -> np.dtype[np.generic] | None:
        """Dtype of the values or elements, or None for string, bytes, text and object.

        That of bfloat16 is uint16; that of scalars of a type that is not known, as many bytes of no meaning.
        """
        found = DTYPES.get(self.type)
        if found is None and not self.is_known and (later := _later(self.type)) is not None and later[1]:
            return np.dtype((np.void, later[1]))
        return found

    @cached_property
    def time_dtype(self) -> np.dtype[np.generic] | None:
        """Internal: dtype that its values have in samples and batches where they are times that NumPy knows; else None.

        Those are timestamps, dates and durations, one a row; `as_times` and `as_stored` go there and back.
        """
        said = None if self.is_array else self.known_logical
        kinds = {"timestamp": "M8", "date": "M8", "duration": "m8"}
        if said is None or said["type"] not in kinds:
            return None
        return np.dtype(f"{kinds[said['type']]}[{said.get('unit', 'D')}]")

    @property
    def free_dims(self) -> int:
        """How many dimensions of the shape are free."""
        return 0 if self.shape is None else self.shape.count(-1)

    @property
    def item_shape(self) -> tuple[int, ...]:
        """Shape of one value of fixed width: () for scalars; free dimensions stay −1."""
        return self.shape or ()

    @property
    def fixed_bytes(self) -> int:
        """Bytes of one value, or 0 when that varies."""
        dtype = self.dtype
        if dtype is None or self.free_dims:
            return 0
        return dtype.itemsize * math.prod(self.shape or ())

    @property
    def stored_bytes(self) -> int:
        """Internal: bytes of its cell in every row, or 0 when that varies."""
        return 0 if self.codec is not None else self.fixed_bytes

    @property
    def lengths_dtype(self) -> str:
        """Internal: dtype of the lengths of its cells, and of its values, in a scalar page."""
        return "<u8" if self.codec is None else "<u4"

    @property
    def has_raw_lengths(self) -> bool:
        """Internal: whether the lengths of its values are stored beside those of its cells."""
        return self.codec is not None and self.fixed_bytes == 0

    @property
    def has_chunk_lengths(self) -> bool:
        """Internal: whether the lengths of the chunks of its cells are stored."""
        return self.codec is not None and self.chunks is not None

    @property
    def element_bytes(self) -> int:
        """Internal: bytes of an array's element; 1 when not an array."""
        return 1 if self.shape is None else DTYPES[self.type].itemsize

    @property
    def wire_type(self) -> str:
        """Internal: the type's name as the metadata holds it, with ``?`` when nullable."""
        return self.type + "?" if self.nullable else self.type

    @property
    def spec(self) -> str | dict[str, object]:
        """The form a user writes: ``"int32?"``, or a dict with ``"type"`` and what else there is."""
        if self.shape is None and self.codec is None and not self.packed_annotations:
            return self.wire_type
        shape = {} if self.shape is None else {"shape": list(self.shape)}
        codec = {} if self.codec is None else {"codec": self.codec.spec_for(self.element_bytes)}
        said = self.wire_annotations
        logical = {LOGICAL_KEY: said.pop(LOGICAL_KEY)} if LOGICAL_KEY in said else {}
        chunks = {CHUNKS_KEY: said.pop(CHUNKS_KEY)} if CHUNKS_KEY in said else {}
        annotations = {"annotations": said} if said else {}
        return {"type": self.wire_type, **shape, **logical, **chunks, **codec, **annotations}

    def __str__(self) -> str:
        """Return e.g. ``float32[-1, 4]`` or ``int32?``, as messages show a type and `Schema.parse` takes it."""
        return f"{self.type}{'' if self.shape is None else list(self.shape)}{'?' * self.nullable}"

    @property
    def table_entry(self) -> bytes:
        """Internal: its 32 bytes of the column table of docs/spec/format.md."""
        codec = 0 if self.codec is None else self.codec.code
        value = self.fixed_bytes if codec else 0
        if self.chunks is not None:
            codec |= CODEC_CHUNKED
        return TABLE_ENTRY.pack(
            self.code,
            self.dtype_code,
            int(self.nullable),
            len(self.shape or ()),
            codec,
            self.stored_bytes,
            value,
        )


# A column from the form that a user writes, and from the form that a file's metadata has.


_ARRAY_ONLY: Final = ("bfloat16", "complex64", "complex128")
_PLAIN_TYPES: Final = tuple(t for t in ELEMENTS if t not in _ARRAY_ONLY) + tuple(VARIABLE)
SCALAR_TYPES: Final = frozenset({*ELEMENTS, "string"} - {*_ARRAY_ONLY})
_CONTROL: Final = re.compile("[\\x00-\\x1f\\x7f-\\x9f]")
_MAX_NAME_BYTES: Final = 255
_MAX_RANK: Final = 32
_MAX_CELL_BYTES: Final = 1 << 62
_TIMES: Final = ("datetime", "timedelta", "timestamp", "date", "time", "duration", "decimal")


def parse_column(name: object, spec: object) -> Column:
    problem = name_problem(name)
    if problem is not None or not isinstance(name, str):
        raise SchemaError(f"column name {name!r} is not allowed: {problem}")
    if isinstance(spec, Column):  # as it is stored elsewhere: a logical type of a later version is kept
        spec.check_known()
        return replace(spec, name=name)
    shape: object = None
    type_name: object = spec
    annotations = b""
    if isinstance(spec, Mapping):
        extra = [
            k for k in spec if k not in ("type", "shape", "codec", "annotations", LOGICAL_KEY, CHUNKS_KEY)
        ]
        if "type" not in spec or extra:
            wrong = f"unknown key {extra[0]!r}" if extra else "'type' is missing"
            raise SchemaError(
                f'column {name!r}: {wrong}; a column is {{"type": …}}, with "shape": […], "logical": …, '
                '"chunks": …, "codec": … and "annotations": {…} where it has them'
            )
        if spec.get("codec") is not None:
            rest = {key: value for key, value in spec.items() if key != "codec"}
            return _compressed(parse_column(name, rest), spec["codec"])
        for key, put in ((LOGICAL_KEY, _of_logical_type), (CHUNKS_KEY, _in_chunks)):
            if spec.get(key) is not None:
                return put(parse_column(name, {k: v for k, v in spec.items() if k != key}), spec[key])
        type_name, shape = spec["type"], spec.get("shape")
        annotations = pack_annotations(name, spec.get("annotations"))
    if not isinstance(type_name, str):
        raise SchemaError(
            f'column {name!r}: a type is given by its name, such as "int32", '
            f"got {type_name!r}{_dtype_hint(type_name)}"
        )
    nullable = type_name.endswith("?")
    base = type_name[:-1] if nullable else type_name
    if (meant := from_text(base)) is not None:
        stored, words, logical = meant
        rest = {} if words is None and shape is None else {"shape": words if shape is None else shape}
        plain = {"type": stored + "?" * nullable, "annotations": unpack_annotations(annotations)}
        return parse_column(name, {**plain, **rest, LOGICAL_KEY: logical})
    if shape is None and "[" in base:
        base, shape = _short_array(name, base)
    if shape is not None:
        return _parse_array(name, base, shape, nullable, annotations)
    if base not in _PLAIN_TYPES:
        if _later(base) is not None:
            Column(name, base).check_known()
        raise SchemaError(_unknown_type(name, base))
    return Column(name, base, None, nullable, annotations)


def shown_type(type_name: str) -> str:
    """A type for people: that of a later version by its number."""
    later = _later(type_name.removesuffix("?"))
    return type_name if later is None else f"unknown type {later[0]}{'?' * type_name.endswith('?')}"


def name_problem(name: object) -> str | None:
    """Internal: what keeps a value from being a column's name; None where it can be one."""
    if not isinstance(name, str):
        return f"a name is a str, not {type(name).__name__}"
    if _CONTROL.search(name):
        return "it has a control character"
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "it has a lone surrogate, so it is not Unicode text"
    if not 1 <= size <= _MAX_NAME_BYTES:
        return f"it has {many(size, 'byte')} in UTF-8, and names have 1 to {_MAX_NAME_BYTES}"
    return None


def _compressed(column: Column, codec: object) -> Column:
    try:
        found = Codec.parse(codec)
    except ValueError as error:
        raise SchemaError(f"column {column.name!r}: {error}") from None
    if not column.is_blob:
        raise SchemaError(
            f"column {column.name!r}: {column} takes no codec; bytes, text, object and arrays do"
        )
    if found.shuffles and column.element_bytes == 1:
        raise SchemaError(
            f'column {column.name!r}: {column} has no elements of several bytes to shuffle; use "zstd"'
        )
    return replace(column, codec=found)


def _in_chunks(column: Column, chunks: object) -> Column:
    """The column cut into chunks, which a user gives as a number or a list of numbers, numpy's too."""
    said: object = chunks
    if isinstance(chunks, int | np.integer) and not isinstance(chunks, bool):
        said = [int(chunks)] if column.is_array else int(chunks)
    elif isinstance(chunks, Sequence | np.ndarray) and not isinstance(chunks, str | bytes):
        said = [int(d) if isinstance(d, np.integer) else d for d in chunks]
    problem = column.chunks_problem(said)
    if problem is not None:
        raise SchemaError(f"column {column.name!r}: chunks {chunks!r}: {problem}")
    return _with(column, CHUNKS_KEY, said)


def _of_logical_type(column: Column, logical: object) -> Column:
    return _with(column, LOGICAL_KEY, canonical(column.name, logical, column.type, column.shape))


def _with(column: Column, key: str, said: object) -> Column:
    return replace(column, packed_annotations=_checked(column.name, {**column.wire_annotations, key: said}))


def _short_array(name: str, text: str) -> tuple[str, list[int]]:
    """Split ``uint16[-1, 4]`` into its type and shape."""
    base, _, dims = text.partition("[")
    if base.startswith(_TIMES):
        raise SchemaError(_unknown_type(name, text))
    try:
        shape = [int(dim) for dim in dims.removesuffix("]").split(",")] if dims.endswith("]") else None
    except ValueError:
        shape = None
    if shape is None:
        raise SchemaError(f"column {name!r}: {text!r} is not of the form type[dimensions], as in int32[-1,4]")
    return base.strip(), shape


def _dtype_hint(value: object) -> str:
    """Name the type that a numpy dtype or Python class given as a type probably means."""
    try:
        found = np.dtype(value).name if isinstance(value, type | np.dtype) else ""
    except TypeError:
        found = ""
    if value is bytes or value is str:
        found = "bytes" if value is bytes else "string"
    return f'; did you mean "{found}"?' if found in _PLAIN_TYPES else ""


def _unknown_type(name: str, base: str) -> str:
    if base in _ARRAY_ONLY:
        return (
            f'column {name!r}: {base} is for arrays; add a shape, such as {{"type": "{base}", "shape": [-1]}}'
        )
    if base.startswith(_TIMES):
        return (
            f"column {name!r}: {base}: it is a logical type over a stored one, such as "
            '{"type": "int64", "logical": {"type": "timestamp", "unit": "us", "zone": "UTC"}}, in short '
            '"timestamp[us, UTC]"'
        )
    known = ", ".join(_PLAIN_TYPES)
    return f"column {name!r}: unknown type {base!r}{did_you_mean(base, _PLAIN_TYPES) or '.'} The types are: {known}"


def _parse_array(name: str, base: str, shape: object, nullable: bool, annotations: bytes) -> Column:
    if base in VARIABLE:
        raise SchemaError(f"column {name!r}: {base} takes no shape; only arrays of numbers do")
    if base not in ELEMENTS:
        known = ", ".join(ELEMENTS)
        raise SchemaError(
            f"column {name!r}: unknown array type {base!r}{did_you_mean(base, ELEMENTS) or '.'} "
            f"The types are: {known}"
        )
    if isinstance(shape, str | bytes) or not isinstance(shape, Sequence | np.ndarray):
        raise SchemaError(f"column {name!r}: a shape is a list of dimensions, such as [3, -1], got {shape!r}")
    dims = tuple(shape)
    whole = all(isinstance(d, int | np.integer) and not isinstance(d, bool) for d in dims)
    if not whole or not _shape_ok([int(d) for d in dims], base):
        raise SchemaError(
            f"column {name!r}: shape {list(dims)!r} is not allowed: 1 to {_MAX_RANK} dimensions, "
            f"each at least 1, or -1 where it varies, and below 2^62 bytes (a scalar has no shape)"
        )
    return Column(name, base, tuple(int(d) for d in dims), nullable, annotations)


def _shape_ok(dims: Sequence[int], base: str) -> bool:
    if not 1 <= len(dims) <= _MAX_RANK or any(d < 1 and d != -1 for d in dims):
        return False
    fixed = math.prod(d for d in dims if d != -1)
    return fixed * DTYPES[base].itemsize < _MAX_CELL_BYTES


def column_from_wire(i: int, entry: object) -> Column:
    if not isinstance(entry, list) or len(entry) not in (3, 4):
        raise FormatError(
            f"the stored schema's column {i} is not [name, type, shape] or [name, type, shape, annotations]"
        )
    name, type_name, shape = entry[:3]
    problem = name_problem(name)
    if problem is not None or not isinstance(name, str):
        raise FormatError(f"the stored schema's column {i} cannot be called {name!r}: {problem}")
    annotations = checked_annotations(name, entry[3]) if len(entry) > 3 else b""
    if len(entry) > 3 and not annotations:
        raise FormatError(
            f"the annotations of the stored schema's column {name!r} are an empty map; they are left out then"
        )
    if not isinstance(type_name, str):
        raise FormatError(f"the stored schema's column {name!r} has no type name")
    nullable = type_name.endswith("?")
    base = type_name[:-1] if nullable else type_name
    if shape is None:
        if base not in _PLAIN_TYPES and _later(base) is None:
            raise FormatError(f"the stored schema's column {name!r} has the unknown type {type_name!r}")
        return _with_checked_chunks(Column(name, base, None, nullable, annotations), annotations)
    dims_ok = isinstance(shape, list) and all(type(d) is int for d in shape)
    if base not in ELEMENTS or not dims_ok or not _shape_ok(shape, base):
        raise FormatError(
            f"the stored schema's column {name!r} has the unknown array type {type_name!r} of shape {shape!r}"
        )
    return _with_checked_chunks(Column(name, base, tuple(shape), nullable, annotations), annotations)


def _with_checked_chunks(column: Column, annotations: bytes) -> Column:
    """A column made of these; FormatError where it has forgotten chunks that do not fit it."""
    if column.packed_annotations != annotations:
        problem = column.chunks_problem(unpack_annotations(annotations).get(CHUNKS_KEY))
        raise FormatError(f"the stored schema's column {column.name!r} has chunks that are none: {problem}")
    return column
