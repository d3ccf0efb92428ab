"""A column as a stream of documents whose windows, or packed samples, stand in the place of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NoReturn, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ..core import APART, DOCUMENTS, ELEMENTS, LABELS, PACKED, POSITIONS, WHOLE, NativeLoader, NativeStream
from ..errors import SchemaError
from ..format.column import Column
from ..format.schema import Schema
from ..order.selection import Selection
from ..order.spec import OrderSpec
from ..order.windows import Packing, Windows, WindowTable
from ..query.columns import element_lengths
from ..snapshot.part_set import Empty, Io, PartSet, Snapshot, Verify
from .batch import SampleReader, Told, WhereFrom
from .boxes import Crop
from .opened import OpenedData

__all__ = ["StreamData", "StreamRule", "element_type"]

Numbers = NDArray[np.int64]
Read = TypeVar("Read")


@dataclass(frozen=True)
class StreamRule:
    """What becomes of the values of ``column``: ``windows``, or packed samples of ``length`` elements if None.

    ``padding``: what samples are filled up with, or None: they are left out. ``documents``, ``positions``, ``labels``:
    names of columns that say which row each element is of, its place in its run, and what it is as a label, or None.
    """

    column: str
    length: int
    windows: Windows | None
    padding: int | float | None
    documents: str | None
    positions: str | None
    labels: str | None

    def form(self, dtype: np.dtype[Any]) -> str:
        """Its one form for elements of a type, which is part of the identity of the samples."""
        windows = self.windows
        how = "packed" if windows is None else f"{windows.stride},{'document' if windows.apart else 'none'}"
        filled = "none" if self.padding is None else _as_element(self.padding, dtype).tobytes().hex()
        return f"{self.column}:{self.length},{how},{filled}"


Streams = Sequence[tuple[StreamRule, Selection]]


def _pieces_of(
    base: PartSet, rule: StreamRule, selection: Selection, dtype: np.dtype[Any]
) -> tuple[Packing, Callable[[Numbers], Numbers]]:
    lengths = element_lengths(base, rule.column, selection, dtype.itemsize)
    if rule.windows is None:
        return Packing.of(lengths, rule.length), selection.row_ids
    return Packing.of_windows(rule.windows, lengths), selection.row_ids


class StreamParts:
    """The samples of a stream as the rows of a set of parts, for all that reads rows by their numbers."""

    base: PartSet
    rule: StreamRule
    dtype: np.dtype[Any]
    held: int
    is_fetched: bool

    live = None  # no sample has been deleted: they are made of the rows that are there

    def __init__(self, base: PartSet, streams: Streams, dtype: np.dtype[Any]) -> None:
        """Of several ``streams`` over the same parts the samples stand one after the other."""
        rule, selection = streams[0]
        self.base, self.rule, self.dtype = base, rule, dtype
        native, ordinal = base.source_of(base.schema.ordinal(rule.column))
        lengths = element_lengths(base, rule.column, selection, dtype.itemsize)
        pieces, every = None, 1
        if len(streams) > 1:
            every_one = [_pieces_of(base, rule, chosen, dtype) for rule, chosen in streams]
            packing = Packing.joined(every_one)
            selection = Selection(base.rows)
            kind, before, samples, pieces = PACKED, packing.starts, packing.samples, packing.pieces
            self.held = packing.held
        elif rule.windows is None:
            packing = Packing.of(lengths, rule.length)
            kind, before, samples, pieces = PACKED, packing.starts, packing.samples, packing.pieces
            self.held = packing.held
        else:
            table = WindowTable.of(rule.windows, lengths, len(selection))
            kind = APART if rule.windows.apart else WHOLE
            before, samples, every = table.before, table.samples, table.every
            self.held = table.held
        self.rows: int = samples
        self.starts: Numbers = np.array([0, samples], np.int64)
        self.stream: NativeStream = NativeStream(
            native,
            kind,
            ordinal,
            length=rule.length,
            stride=rule.length if rule.windows is None else rule.windows.stride,
            samples=samples,
            documents=len(selection),
            before=before,
            every=every,
            pieces=pieces,
            selection=selection.as_c(),
            padding=None if rule.padding is None else _as_element(rule.padding, dtype),
            element_bytes=dtype.itemsize,
            is_signed=dtype.kind == "i",
        )
        self.io: Io = base.io
        self.verify: Verify = base.verify
        self.is_fetched = base.is_fetched
        outputs = [(rule.column, _type_name(dtype))]
        if rule.labels is not None and dtype.kind not in "iu":
            raise SchemaError(f"column {rule.column!r} is of {dtype.name}: labels are whole numbers")
        numbers = ((DOCUMENTS, rule.documents), (POSITIONS, rule.positions), (LABELS, rule.labels))
        outputs += [(name, "int64") for _, name in numbers if name is not None]
        if len({name for name, _ in outputs}) < len(outputs):
            raise SchemaError(f"columns of the same name: {[name for name, _ in outputs]}; give others")
        self.outputs: list[int] = [ELEMENTS, *(number for number, name in numbers if name is not None)]
        self.schema: Schema = Schema(Column(name, kind_of, (rule.length,)) for name, kind_of in outputs)

    @property
    def least_types(self) -> dict[str, np.dtype[Any]]:
        """The narrowest types that hold the numbers of the columns beside the elements, which are read as int64."""
        rule = self.rule
        label = np.result_type(self.dtype, np.int8) if self.dtype.kind in "iu" else np.dtype(np.int64)
        if label.kind == "f":  # beside uint64
            label = np.dtype(np.int64)
        found = (
            (rule.documents, np.min_scalar_type(-max(self.base.rows, 1))),
            (rule.positions, np.min_scalar_type(rule.length - 1)),
            (rule.labels, label),
        )
        return {name: kind for name, kind in found if name is not None}

    @property
    def io_name(self) -> str:
        """The way of reading in use."""
        return self.base.io_name

    def read(self, samples: Numbers, ordinals: Sequence[int], empty: Empty = np.empty) -> list[NDArray[Any]]:
        """Columns of these samples, [samples, length] each."""
        outside = samples[(samples < 0) | (samples >= self.rows)]
        if len(outside):
            raise IndexError(f"sample {outside[0]} is out of range: there are {self.rows}")
        self.check_open()
        arrays = [empty((len(samples), self.rule.length), self._dtype(i)) for i in ordinals]
        self.stream.read(samples, [self.outputs[i] for i in ordinals], arrays)
        return arrays

    def _dtype(self, ordinal: int) -> np.dtype[Any]:
        return self.dtype if self.outputs[ordinal] == ELEMENTS else np.dtype(np.int64)

    def locate(self, row: int) -> tuple[str, int]:
        """Path, and number in its part, of the row with which a sample begins."""
        if not 0 <= row < self.rows:
            raise IndexError(f"sample {row} is out of range: there are {self.rows}")
        begins = np.empty((1, self.rule.length), np.int64)
        self.stream.read(np.array([row], np.int64), [DOCUMENTS], [begins])
        return self.base.locate(int(begins[0, 0]))

    def open_loader(self, *, columns: Sequence[int], **options: Any) -> NativeLoader:
        """The C loader of its samples."""
        outputs = [self.outputs[i] for i in columns]
        return self.base.open_loader(columns=outputs, stream=self.stream, **options)

    @property
    def mean_block_row_bytes(self) -> float:
        """Bytes of a sample by which blocks are chosen."""
        return self.mean_row_bytes()

    def mean_row_bytes(self, columns: Sequence[int] | None = None) -> float:
        """Bytes of a sample in these columns."""
        chosen = range(len(self.outputs)) if columns is None else columns
        return float(sum(self.rule.length * self._dtype(i).itemsize for i in chosen))

    def group_rows(self) -> int:
        """Samples that lie together: of one, as far as the files say."""
        return 1

    def check_open(self) -> None:
        """Raises ClosedError after ``close``."""
        self.base.check_open()

    def close(self) -> None:
        """Closes the files."""
        self.base.close()


class StreamReader:
    """Reads chosen columns of samples of a stream, as ``SampleReader`` reads rows. Thread-safe."""

    def __init__(
        self, parts: StreamParts, columns: Sequence[tuple[int, Column]], told: Sequence[Told]
    ) -> None:
        self._parts, self._told = parts, told
        self._ordinals = [ordinal for ordinal, _ in columns]
        self._names = [column.name for _, column in columns]

    def one(self, row: int) -> dict[str, Any]:
        """A sample; its arrays are its own."""
        found = self._parts.read(np.array([row], np.int64), self._ordinals)
        sample = {name: values[0] for name, values in zip(self._names, found, strict=True)}
        for told in self._told:
            told.add_one(sample, row)
        return sample

    def one_by_one(self) -> Callable[[int], dict[str, Any]]:
        """``one``, for many calls."""
        return self.one

    def many(self, rows: Numbers) -> list[dict[str, Any]]:
        """These samples, read with one call; their arrays are pieces of one block of memory."""
        batch = self.batch(rows)
        return [dict(zip(batch, values, strict=True)) for values in zip(*batch.values(), strict=True)]

    def placing(self, rows: Numbers, read: Callable[[], Read]) -> Read:
        """What ``read`` makes of the samples."""
        return read()

    def batch(self, rows: Numbers, empty: Empty = np.empty) -> dict[str, Any]:
        """These samples as a dict of arrays [n, length]."""
        batch: dict[str, Any] = dict(
            zip(self._names, self._parts.read(rows, self._ordinals, empty), strict=True)
        )
        for told in self._told:
            told.add(batch, rows)
        return batch


class StreamData(OpenedData):
    """Samples of a stream over opened data, and chosen columns of them. Pickled, it is made anew of the same data."""

    def __init__(
        self,
        base: OpenedData,
        streams: Streams,
        columns: Sequence[str] | None = None,
        parts: StreamParts | None = None,
        where_from: WhereFrom | None = None,
    ) -> None:
        """``streams``: what is cut from which rows; the samples of several stand one after the other."""
        self.base, self.streams = base, tuple(streams)
        self._stream = parts or StreamParts(base.parts, streams, element_type(base, streams[0][0].column))
        stored = base.parts.snapshot
        made_of = "/".join(
            f"{selection.digest()}/{rule.form(self._stream.dtype)}" for rule, selection in streams
        )
        self._init(
            base.path,
            cast("PartSet", self._stream),
            _StreamSnapshot.over(stored, self._stream, made_of),
            columns,
            where_from,
        )

    def _tells_row(self, columns: Sequence[str]) -> bool:
        return False  # a sample is of many rows

    def _reader(self) -> SampleReader:
        return cast("SampleReader", StreamReader(self._stream, self.columns, self.told))

    def cropped(
        self, crops: Mapping[str, Crop] | None, return_places: bool
    ) -> tuple[list[Column], dict[int, Column]]:
        """The columns; crops are refused: they are of values as they are stored."""
        if crops:
            raise ValueError(
                f"crops of {', '.join(map(repr, crops))}: crops are taken of values as they are stored, and windows "
                "and packed samples are cut of these already: give them the length that is wanted"
            )
        return super().cropped(crops, return_places)

    @property
    def mean_elements(self) -> Fraction:
        """Elements of a sample, without what it is filled up with, in the mean."""
        return Fraction(self._stream.held, max(self._stream.rows, 1))

    @property
    def least_types(self) -> dict[str, np.dtype[Any]]:
        """As what the numbers beside the elements are written."""
        return self._stream.least_types

    def _over(self, columns: Sequence[str] | None, where_from: WhereFrom | None) -> StreamData:
        return StreamData(self.base, self.streams, columns, self._stream, where_from)

    def with_blocks(self, spec: OrderSpec, rows: int, given: tuple[int | None, int | None]) -> OrderSpec:
        """The order with the sizes of its blocks; orders by parts are refused: samples reach from one to the next."""
        if spec.mode in ("parts", "within-parts"):
            raise ValueError(
                f'shuffle="{spec.mode}": windows and packed samples belong to no part; shuffle with True or "block"'
            )
        return super().with_blocks(spec, rows, given)

    def where_rows(self, selection: Selection, where: str) -> NoReturn:
        """Refused: conditions are about rows."""
        raise ValueError(
            f"where={where!r}: conditions are about documents: choose them first, then make the stream of them"
        )

    def published(self, snapshot: Snapshot) -> NoReturn:
        """Refused: the samples are those of the data as it was."""
        raise ValueError("a stream is made of data as they were: refresh these, and make it anew")

    def __reduce__(self) -> tuple[Any, ...]:
        return StreamData, (self.base, self.streams, self._names, None, self.where_from)


@dataclass(frozen=True)
class _StreamSnapshot(Snapshot):
    """The snapshot of the data, with the samples of a stream as rows."""

    samples: int = 0

    @classmethod
    def over(cls, stored: Snapshot, parts: StreamParts, made_of: str) -> _StreamSnapshot:
        kept = {name: getattr(stored, name) for name in ("parts", "index", "metadata", "path", "one_schema")}
        told = ("identity", "rows_identity", "parts_identity")
        kept |= {name: f"{getattr(stored, name)}/{made_of}" for name in told}
        return cls(**kept, schema=parts.schema, samples=parts.rows)

    @property
    def rows(self) -> int:
        return self.samples


def _as_element(value: float, dtype: np.dtype[Any]) -> NDArray[Any]:
    """A value to fill up with, as an element; ValueError where it is none."""
    try:
        element = np.array([value]).astype(dtype) if dtype.kind in "fc" else np.array([value], dtype)
    except (OverflowError, TypeError):
        element = None
    if element is None or (element[0] != value and value == value):
        raise ValueError(f"pad={value!r} is no element of {dtype.name}")
    return element


def _type_name(dtype: np.dtype[Any]) -> str:
    return dtype.name


def element_type(base: OpenedData, name: str) -> np.dtype[Any]:
    """What the values of a column are made of; SchemaError when that is no run of numbers."""
    schema = base.parts.snapshot.schema
    column = schema.columns[schema.ordinal(name)]
    if not column.is_array and column.type in ("bytes", "text"):
        return np.dtype(np.uint8)
    dtype = column.dtype
    whole = column.is_array and column.shape is not None and len(column.shape) == 1
    if dtype is None or not whole or dtype.itemsize > 8 or (column.fixed_bytes and column.nullable):
        raise SchemaError(
            f"column {name!r} is {column.spec!r}: a stream is made of bytes, text, or arrays of one dimension"
        )
    return np.dtype(dtype)
