"""A column as a stream of documents whose windows, or packed samples, stand in the place of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NoReturn, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ..core import (
    APART,
    DOCUMENTS,
    ELEMENTS,
    LABELS,
    LENGTHS,
    OF_RUNS,
    PACKED,
    POSITIONS,
    RUNS,
    WHOLE,
    NativeLoader,
    NativeStream,
)
from ..errors import SchemaError
from ..format.column import Column
from ..format.schema import Schema
from ..order.selection import Selection
from ..order.spec import OrderSpec
from ..order.windows import Packing, Windows, WindowTable
from ..query.columns import element_lengths
from ..snapshot.part_set import Empty, Io, PartSet, Snapshot, Verify
from .batch import SampleReader, Told, WhereFrom, column_value, items_of
from .boxes import Crop
from .opened import OpenedData

__all__ = ["SEQ_LENS", "StreamData", "StreamRule", "WrittenPacks", "element_type"]

Numbers = NDArray[np.int64]
Read = TypeVar("Read")


SEQ_LENS = (
    "seq_lens"  # the column that says how long documents are in packed samples, unless it is named otherwise
)


@dataclass(frozen=True)
class WrittenPacks:
    """What rows that are packed samples say of the runs of documents in them: how many each has, and their lengths.

    ``column``: that of the lengths. ``names``: what each run's document is called; by default its number among all.
    """

    column: str
    counts: Numbers
    lengths: Numbers
    names: Numbers

    @classmethod
    def read(
        cls, data: OpenedData, selection: Selection, column: str, lengths: str, documents: str
    ) -> WrittenPacks:
        """Those of the selected rows; SchemaError where ``column`` is of no samples, or ``lengths`` do not fit them."""
        schema = data.parts.schema
        samples = schema[column]
        if samples.shape is None or len(samples.shape) != 1 or samples.shape[0] < 0:
            raise SchemaError(
                f"column {column!r} is {samples.spec!r}, of no packed samples, which have one length: say the length "
                "that documents are to be packed to"
            )
        if lengths not in schema:
            raise SchemaError(
                f"there is no column {lengths!r} that says how long the documents are in the samples of {column!r}: "
                "say the length that documents are to be packed to, or name the column by lengths="
            )
        counts, found = _runs(data.parts, selection, lengths)
        names = np.arange(len(found))
        if documents in schema and schema[documents].shape == (-1,):
            of_each, names = _runs(data.parts, selection, documents)
            if not np.array_equal(of_each, counts):
                raise SchemaError(
                    f"columns {lengths!r} and {documents!r} say different numbers of documents in a sample"
                )
        packs = cls(lengths, counts, found, names)
        packs._check(data.parts, selection, samples.shape[0])
        return packs

    def _check(self, parts: PartSet, selection: Selection, length: int) -> None:
        bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.counts)])
        # No sum exceeds 2^63 of what is cut at a number that is too long anyhow.
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.minimum(self.lengths, length + 1))])
        wrong = np.diff(ends[bounds]) > length
        wrong[np.repeat(np.arange(len(self.counts)), self.counts)[(self.lengths < 1) | (self.names < 0)]] = (
            True
        )
        if wrong.any():
            place = int(np.flatnonzero(wrong)[0])
            path, row = parts.locate(int(selection.row_ids(np.array([place]))[0]))
            said = self.lengths[bounds[place] : bounds[place + 1]]
            raise SchemaError(
                f"{path}: row {row}, column {self.column!r}: {said.tolist()[:8]} are no lengths of documents in a "
                f"sample of {length}"
            )

    def packing(self) -> Packing:
        """The samples, of the rows by their numbers in the selection."""
        return Packing.of_runs(self.counts, self.lengths)


def _runs(parts: PartSet, selection: Selection, name: str) -> tuple[Numbers, Numbers]:
    """How many numbers each of the selected rows has in a column, and all of them."""
    column = parts.schema[name]
    dtype = column.dtype
    if dtype is None or dtype.kind not in "iu" or column.shape != (-1,) or column.nullable:
        raise SchemaError(
            f"column {name!r} is {column.spec!r}: of each document in a sample there is a whole number"
        )
    counts, numbers = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for _, rows in selection.pieces():
        (read,) = parts.read(rows, [parts.schema.ordinal(name)])
        value = column_value(column, read.data, read.offsets, read.valid)
        counts.append(value.element_lengths)
        numbers.append(value.values.astype(np.int64))
    return np.concatenate(counts), np.concatenate(numbers)


@dataclass(frozen=True)
class StreamRule:
    """What becomes of the values of ``column``: ``windows``, or packed samples of ``length`` elements if None.

    ``padding``: what samples are filled up with, or None: they are left out. ``documents``, ``positions``, ``labels``:
    names of columns that say which row each element is of, its place in its run, and what it is as a label, or None.
    ``lengths``, ``runs``: of columns that say of each run how long it is, and which row it is of. ``packs``: what the
    values say that are packed samples already.
    """

    column: str
    length: int
    windows: Windows | None
    padding: int | float | None
    documents: str | None
    positions: str | None
    labels: str | None
    lengths: str | None
    runs: str | None = None
    packs: WrittenPacks | None = field(default=None, compare=False, repr=False)

    def outputs(self) -> dict[str, int]:
        """The columns of samples, and what the C loader calls each."""
        named = (
            (self.column, ELEMENTS),
            (self.documents, DOCUMENTS),
            (self.positions, POSITIONS),
            (self.labels, LABELS),
            (self.lengths, LENGTHS),
            (self.runs, RUNS),
        )
        given = [(name, number) for name, number in named if name is not None]
        if len(dict(given)) < len(given):
            raise SchemaError(f"columns of the same name: {[name for name, _ in given]}; give others")
        return dict(given)

    def form(self, dtype: np.dtype[Any]) -> str:
        """Its one form for elements of a type, which is part of the identity of the samples."""
        windows = self.windows
        how = "packed" if windows is None else f"{windows.stride},{'document' if windows.apart else 'none'}"
        how = how if self.packs is None else f"written:{self.packs.column}"
        filled = "none" if self.padding is None else _as_element(self.padding, dtype).tobytes().hex()
        return f"{self.column}:{self.length},{how},{filled}"


Streams = Sequence[tuple[StreamRule, Selection]]


def _pieces_of(
    base: PartSet, rule: StreamRule, selection: Selection, dtype: np.dtype[Any]
) -> tuple[Packing, Callable[[Numbers], Numbers]]:
    if rule.packs is not None:
        return rule.packs.packing(), selection.row_ids
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
        pieces, names, every = None, None, 1
        if len(streams) > 1 or rule.windows is None:
            every_one = [_pieces_of(base, rule, chosen, dtype) for rule, chosen in streams]
            packs = [one.packs.names for one, _ in streams if one.packs is not None]
            names = np.concatenate(packs) if packs else None
            packing = every_one[0][0]
            if len(streams) > 1:
                packing, selection = Packing.joined(every_one), Selection(base.rows)
            kind, before, samples, pieces = PACKED, packing.starts, packing.samples, packing.pieces
            self.held = packing.held
        else:
            lengths = element_lengths(base, rule.column, selection, dtype.itemsize)
            table = WindowTable.of(rule.windows, lengths, len(selection))
            kind = APART if rule.windows.apart else WHOLE
            before, samples, every = table.before, table.samples, table.every
            self.held = table.held
        self.rows: int = samples
        self.starts: Numbers = np.array([0, samples], np.int64)
        self._documents, self._before, self._pieces = selection, before, pieces
        self._most_runs = len(selection) if pieces is None else len(pieces)
        self._most_name = base.rows - 1 if names is None else int(names.max(initial=0))
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
            numbers=names,
            selection=selection.as_c(),
            padding=None if rule.padding is None else _as_element(rule.padding, dtype),
            element_bytes=dtype.itemsize,
            is_signed=dtype.kind == "i",
        )
        self.io: Io = base.io
        self.verify: Verify = base.verify
        self.is_fetched = base.is_fetched
        if rule.labels is not None and dtype.kind not in "iu":
            raise SchemaError(f"column {rule.column!r} is of {dtype.name}: labels are whole numbers")
        if rule.lengths is not None and rule.length > np.iinfo(np.int32).max:
            raise SchemaError(
                f"length={rule.length:,}: {rule.lengths!r} are int32, which do not count as many elements"
            )
        outputs = rule.outputs()
        self.outputs: list[int] = list(outputs.values())
        self.schema: Schema = Schema(map(self._column, outputs, self.outputs))

    def _column(self, name: str, output: int) -> Column:
        if output == ELEMENTS:  # its tokenizer, say, is that of the samples as well
            said = {"annotations": self.base.schema[name].annotations}
            return Schema.parse({name: {"type": self.dtype.name, "shape": [self.rule.length], **said}})[0]
        return Column(name, self._dtype_of(output).name, (-1,) if output in OF_RUNS else (self.rule.length,))

    @property
    def least_types(self) -> dict[str, np.dtype[Any]]:
        """The narrowest types that hold what is said of runs."""
        found = {self.rule.lengths: self.rule.length, self.rule.runs: self._most_name}
        return {name: np.min_scalar_type(max(most, 0)) for name, most in found.items() if name is not None}

    @property
    def io_name(self) -> str:
        """The way of reading in use."""
        return self.base.io_name

    def read(self, samples: Numbers, ordinals: Sequence[int], empty: Empty = np.empty) -> list[Any]:
        """Columns of these samples: arrays [samples, length], of what is said of runs `RaggedArray`s."""
        outside = samples[(samples < 0) | (samples >= self.rows)]
        if len(outside):
            raise IndexError(f"sample {outside[0]} is out of range: there are {self.rows}")
        self.check_open()
        whole = [i for i in ordinals if self.outputs[i] not in OF_RUNS]
        found: dict[int, Any] = {
            i: empty((len(samples), self.rule.length), self._dtype_of(self.outputs[i])) for i in whole
        }
        self.stream.read(samples, [self.outputs[i] for i in whole], [found[i] for i in whole])
        for i in ordinals:
            if i not in found:
                data, offsets = self.stream.read_runs(samples, self.outputs[i])
                found[i] = column_value(self.schema.columns[i], data, offsets, None)
        return [found[i] for i in ordinals]

    def _dtype_of(self, output: int) -> np.dtype[Any]:
        if output == ELEMENTS:
            return self.dtype
        return OF_RUNS[output] if output in OF_RUNS else np.dtype(np.int64)

    def locate(self, row: int) -> tuple[str, int]:
        """Path, and number in its part, of the row with which a sample begins."""
        if not 0 <= row < self.rows:
            raise IndexError(f"sample {row} is out of range: there are {self.rows}")
        if self._pieces is not None:
            first = self._pieces[self._before[row], :1]
            return self.base.locate(int(self._documents.row_ids(first)[0]))
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
        runs = self._most_runs / max(self.rows, 1)
        outputs = [self.outputs[i] for i in chosen]
        counts = [runs if output in OF_RUNS else self.rule.length for output in outputs]
        return sum(n * self._dtype_of(output).itemsize for n, output in zip(counts, outputs, strict=True))

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
        sample: dict[str, Any] = {name: values[0] for name, values in zip(self._names, found, strict=True)}
        for told in self._told:
            told.add_one(sample, row)
        return sample

    def one_by_one(self) -> Callable[[int], dict[str, Any]]:
        """``one``, for many calls."""
        return self.one

    def many(self, rows: Numbers) -> list[dict[str, Any]]:
        """These samples, read with one call; their arrays are pieces of one block of memory."""
        batch = items_of(self.batch(rows))
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
        """As what is said of runs is written."""
        return self._stream.least_types

    def as_written(self) -> StreamData:
        """The same samples with what is written of them: in place of a number for each element, those of its runs."""
        rule = self.streams[0][0]
        names = [column.name for _, column in self.columns]
        of_each = {rule.documents, rule.positions, rule.labels}
        if of_each.isdisjoint(names):
            return self
        lengths = rule.lengths or SEQ_LENS
        runs = rule.documents if rule.documents in names else None
        streams = [
            (
                replace(rule, documents=None, positions=None, labels=None, lengths=lengths, runs=runs),
                selection,
            )
            for rule, selection in self.streams
        ]
        kept = [name for name in names if name not in of_each and name != lengths]
        return StreamData(
            self.base, streams, [*kept, lengths, *([runs] if runs else [])], None, self.where_from
        )

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
