"""One column of a schema: its type, shape and codec, and what they say of its cells."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from .annotations import unpack_annotations
from .codec import Codec

# Type codes of docs/format.md, "Column types".
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
VARIABLE: Final[dict[str, int]] = {"string": 20, "bytes": 30, "text": 31, "object": 33}
_ARRAY_CODE: Final = 32
DTYPES: Final[dict[str, np.dtype[np.generic]]] = {t: np.dtype(d) for t, (_, d) in ELEMENTS.items()}
TABLE_ENTRY: Final = struct.Struct("<BBBBB3xQQ8x")


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

    @property
    def annotations(self) -> dict[str, Any]:
        """What the writer said of it beside its type (docs/schema.md), or nothing; a dict of the caller's own."""
        return unpack_annotations(self.packed_annotations)

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
        return self.shape is not None or self.type in ("bytes", "text", "object")

    @property
    def code(self) -> int:
        """Internal: type code in the column table."""
        if self.shape is not None:
            return _ARRAY_CODE
        return VARIABLE[self.type] if self.type in VARIABLE else ELEMENTS[self.type][0]

    @property
    def dtype_code(self) -> int:
        """Internal: type code of an array's elements; 0 when not an array."""
        return ELEMENTS[self.type][0] if self.shape is not None else 0

    @property
    def dtype(self) -> np.dtype[np.generic] | None:
        """Dtype of the values or elements (bfloat16: uint16), or None for string, bytes, text and object."""
        return DTYPES.get(self.type)

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
        annotations = {"annotations": self.annotations} if self.packed_annotations else {}
        return {"type": self.wire_type, **shape, **codec, **annotations}

    def __str__(self) -> str:
        """Return e.g. ``float32[-1, 4]`` or ``int32?``, as messages show a type and `Schema.parse` takes it."""
        return f"{self.type}{'' if self.shape is None else list(self.shape)}{'?' * self.nullable}"

    @property
    def table_entry(self) -> bytes:
        """Internal: its 32 bytes of the column table of docs/format.md."""
        codec = 0 if self.codec is None else self.codec.code
        value = self.fixed_bytes if codec else 0
        return TABLE_ENTRY.pack(
            self.code,
            self.dtype_code,
            int(self.nullable),
            len(self.shape or ()),
            codec,
            self.stored_bytes,
            value,
        )
