"""What a dataset is: its schema, parts and sizes, what each column takes, and the span of its scalar columns."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np

from ..format import layout
from ..format.column import Column, shown_type
from ..format.schema import Schema
from ..format.sketches import MOST, Hashes, Sketch, estimated, hashes_of, hashes_of_numbers
from ..format.values import PackedStrings
from ..progress import Progress, Tracker
from ..query.columns import FlatColumns, Vector, all_strings, all_valid, all_values, columns_of, corrupt
from ..sizes import many
from ..snapshot.part_set import Part, PartRef, PartSet, Snapshot, resolve
from ..storage.schemes import location_of
from .statistics import column_statistics, count_rows, distinct_count

__all__ = ["ColumnDescription", "Description", "PartDescription", "describe", "spelled"]

# Up to so many rows of a part, lengths are summed one by one; beyond, evenly spaced blocks of rows stand for all.
_SUMMED_ROWS: Final = 8_000_000
_SAMPLE_BLOCKS: Final = 256
_SAMPLE_ROWS: Final = 8_192
# Where rows have been deleted, up to so many strings without a dictionary are looked at in a column.
_TEXTS: Final = 2_000_000
_COLUMN_SECTIONS: Final = (
    layout.SECTION_LENGTHS,
    layout.SECTION_VALUES,
    layout.SECTION_VALIDITY,
    layout.SECTION_CODES,
    layout.SECTION_DICTIONARY_OFFSETS,
    layout.SECTION_DICTIONARY_ENTRIES,
    layout.SECTION_STRING_OFFSETS,
    layout.SECTION_STRING_BYTES,
    layout.SECTION_ZONES,
    layout.SECTION_ZONE_FLAGS,
    layout.SECTION_ORDER,
    layout.SECTION_RAW_LENGTHS,
    layout.SECTION_CODEC_DICTIONARY,
    layout.SECTION_CHUNK_SHAPE,
    layout.SECTION_CHUNK_STARTS,
    layout.SECTION_CHUNK_ENDS,
    layout.SECTION_CHUNK_DIGESTS,
    layout.SECTION_SKETCH,
    layout.SECTION_LOOK_UP,
)


@dataclass(frozen=True)
class PartDescription:
    """One part and the sizes of its two files in bytes."""

    name: str
    id: str
    rows: int
    data_bytes: int
    index_bytes: int


@dataclass
class ColumnDescription:
    """One column over all parts.

    Attributes:
        name, type, shape, nullable, logical, chunks, annotations: as in the schema.
        indexed: whether it can be looked up by value.
        codec: how its cells are compressed; ``"plain, zstd"`` where parts differ, None where none is.
        raw_bytes: what its values take before they are compressed.
        data_bytes: what its cells take in the data files, with dictionaries, without padding and digests.
        index_bytes: what its sections take in the indexes.
        exact: False where a size was estimated: from evenly spaced blocks of rows, or of scalar columns whose pages are
            compressed, which have no bytes of their own, as its share of them by raw size.
        nulls: how many values are null.
        distinct: how many different values there are; None where nobody knows.
        distinct_exact: False where that was estimated from hashes of the values of each part, mostly to 3 %.
        min, max: least and greatest value, without nulls and NaNs; None for blob columns, where there is none, and for
            more than 2,000,000 strings without a dictionary where rows have been deleted.

    Bytes are those of all rows that are stored; ``nulls``, ``distinct``, ``min`` and ``max`` are of the rows that have
    not been deleted.
    """

    name: str
    type: str
    shape: list[int] | None
    nullable: bool
    indexed: bool
    codec: str | None = None
    raw_bytes: int = 0
    data_bytes: int = 0
    index_bytes: int = 0
    exact: bool = True
    nulls: int = 0
    distinct: int | None = None
    distinct_exact: bool = True
    min: Any = None
    max: Any = None
    annotations: dict[str, Any] = field(default_factory=dict)
    logical: dict[str, Any] | None = None
    chunks: list[int] | None = None


def spelled(column: ColumnDescription) -> str:
    """The type of a column with its shape."""
    shape = f"[{', '.join(map(str, column.shape))}]" if column.shape else ""
    return f"{shown_type(column.type.rstrip('?'))}{shape}{'?' if column.nullable else ''}"


@dataclass
class Description:
    """A dataset as it stands on disk.

    Attributes:
        path: what was described.
        kind: ``"part"``, ``"directory"`` or ``"parts"`` (a list or glob).
        identity: which data it is: another text for other data.
        rows: rows of all parts that have not been deleted.
        data_bytes, index_bytes: sizes of all files.
        columns: a list of ``ColumnDescription``.
        parts: a list of ``PartDescription``.
        index: names of the columns that can be looked up by value.
        metadata: what the writer was given as ``metadata``.
        deleted: how many rows have been deleted; they are still among the rows and bytes of parts.
    """

    path: str
    kind: str
    identity: str
    rows: int
    data_bytes: int
    index_bytes: int
    columns: list[ColumnDescription]
    parts: list[PartDescription]
    index: list[str]
    metadata: Any = None
    deleted: int = 0

    @property
    def said_of_deleted(self) -> str:
        """How many rows have been deleted, and which of the figures are with those."""
        deleted = many(self.deleted, "row", "have")
        return f"{deleted} been deleted; parts and bytes are as they are stored, with those, and values without them"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON where the user's metadata is."""
        return asdict(self)


def describe(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    exact: bool = False,
    progress: Progress | None = None,
) -> Description:
    """What lies at ``path``: kind, rows, bytes, columns with their statistics, and parts, from the indexes alone.

    Args:
        path: one part, a directory of parts, a glob, or a list of these.
        exact: count the different values that the statistics of parts only estimate, by all that are there.
        progress: then told how many values have been counted, and of how many.

    Raises:
        MissingError, FormatError, CorruptionError, StaleError: a file is missing, not ours, damaged, or another
            one than expected.
    """
    snapshot = resolve(path)
    columns = [
        ColumnDescription(
            c.name,
            c.wire_type,
            list(c.shape) if c.shape else None,
            c.nullable,
            c.name in snapshot.index,
            annotations=c.annotations,
            logical=c.logical,
            chunks=list(c.chunks) if c.chunks else None,
        )
        for c in snapshot.schema
    ]
    opened = PartSet(snapshot, knows_deletions=True)
    try:
        parts = [opened.part(i) for i in range(len(opened))]
        of_parts = columns_of(opened)
        described = [_describe_part(part, ref) for part, ref in zip(parts, snapshot.parts, strict=True)]
        for i, found in enumerate(columns):
            found.codec = _codecs(parts, i)
            for part, one in zip(parts, of_parts, strict=True):
                _add_sizes(found, part.stored_schema[i], i, part, one)
        _share_pages(snapshot.schema, columns, sum(part.data_bytes for part in described))
        for i, (column, found) in enumerate(zip(snapshot.schema, columns, strict=True)):
            if opened.live is not None or i in opened.patched:
                _add_values_there(found, column, opened, None if exact else _TEXTS)
            else:
                _add_span(found, i, parts)
                if column.is_ordered:
                    found.distinct, found.distinct_exact = _distinct(column, i, parts, of_parts)
            if column.is_ordered:
                found.min, found.max = column.shown(found.min), column.shown(found.max)
        if exact:
            _count_exactly(opened, columns, progress)
    finally:
        opened.close()
    return Description(
        path=_shown(path),
        kind=_kind(path, snapshot),
        identity=snapshot.identity,
        rows=sum(part.rows for part in described) - snapshot.deleted,
        data_bytes=sum(part.data_bytes for part in described),
        index_bytes=sum(part.index_bytes for part in described),
        columns=columns,
        parts=described,
        index=list(snapshot.index),
        metadata=snapshot.metadata,
        deleted=snapshot.deleted,
    )


def _shown(path: Any) -> str:
    return os.fspath(path) if isinstance(path, str | os.PathLike) else ", ".join(os.fspath(p) for p in path)


def _kind(path: Any, snapshot: Snapshot) -> str:
    if isinstance(path, str | os.PathLike):
        location, path = location_of(os.fspath(path)), os.fspath(path)
        if not location.in_file_system and snapshot.parts:  # whose names say it, without a request
            named, first = location.absolute(path), snapshot.parts[0].path
            if first.rpartition("/")[0] == named:
                return "directory"
            if first == named:
                return "part"
        found = location.find(path)
        if found is not None:
            return "directory" if found.kind == "directory" else "part"
    return "part" if len(snapshot.parts) == 1 else "parts"


def _describe_part(part: Part, ref: PartRef) -> PartDescription:
    """A part; the bytes of its column parts are among its own."""
    info, name = part.info, os.path.basename(part.path)
    if not ref.layout:
        return PartDescription(name, part.id.hex(), part.rows, int(info.data_bytes), int(info.index_bytes))
    files = (ref, *ref.files)
    sizes = sum(file.bytes for file in files), sum(file.index_bytes for file in files)
    return PartDescription(name, (ref.id or b"").hex(), part.rows, *sizes)


def _add_sizes(found: ColumnDescription, column: Column, i: int, part: Part, columns: FlatColumns) -> None:
    for kind in _COLUMN_SECTIONS:
        section = part.vector(kind, i)
        if section is not None:
            found.index_bytes += section[0].nbytes
    if column.nullable:
        found.data_bytes += -(-part.rows // 8)
        found.raw_bytes += -(-part.rows // 8)
    dictionary = part.vector(layout.SECTION_CODEC_DICTIONARY, i)
    if dictionary is not None:
        found.data_bytes += dictionary[0].nbytes
    if column.is_string:
        taken, exact = _string_bytes(column, i, part, columns)
        raw = taken
    else:
        raw, whole = part.rows * column.fixed_bytes, True
        if not column.fixed_bytes:
            raw, whole = _summed(columns.value_lengths(i))
        taken, exact = (raw, True) if column.codec is None else _summed(columns.lengths(i))
        exact = exact and whole
    found.data_bytes += taken
    found.raw_bytes += raw
    found.exact = found.exact and exact


def _share_pages(schema: Schema, columns: Sequence[ColumnDescription], data_bytes: int) -> None:
    """What scalar columns take where their pages are compressed together: of what is left, by their raw sizes."""
    scalars = [found for column, found in zip(schema, columns, strict=True) if not column.is_blob]
    raw = sum(found.data_bytes for found in scalars)
    left = max(data_bytes - sum(found.data_bytes for found in columns) + raw, 0)
    if raw <= left:
        return
    for found in scalars:
        found.data_bytes = found.data_bytes * left // raw
        found.exact = False


def _codecs(parts: Sequence[Part], i: int) -> str | None:
    codecs = {part.stored_schema[i].codec for part in parts if part.rows}
    if not codecs - {None}:
        return None
    return ", ".join(sorted("plain" if codec is None else codec.name for codec in codecs))


def _summed(lengths: Vector) -> tuple[int, bool]:
    """Return the sum of the lengths, and whether every row was looked at."""
    rows = len(lengths)
    if rows <= _SUMMED_ROWS:
        return int(lengths.whole().sum(dtype=np.uint64)), True
    total = looked = 0
    for block in range(_SAMPLE_BLOCKS):
        start = block * (rows - _SAMPLE_ROWS) // (_SAMPLE_BLOCKS - 1)
        total += int(lengths.span(start, start + _SAMPLE_ROWS).sum(dtype=np.uint64))
        looked += _SAMPLE_ROWS
    return total * rows // looked, False


def _string_bytes(column: Column, i: int, part: Part, columns: FlatColumns) -> tuple[int, bool]:
    """Return the bytes of a string column with its lengths, and whether every row was looked at."""
    dictionary = columns.dictionary(i)
    if dictionary is None:
        return 4 * part.rows + columns.strings(i).data.array.nbytes, True
    codes, offsets = dictionary.codes.whole(), dictionary.entries.offsets.whole()
    if len(offsets) < 2:
        return 4 * part.rows, True
    stride = max(1, len(codes) // _SUMMED_ROWS)
    if len(codes) and int(codes.max()) >= len(offsets) - 1:
        raise corrupt(
            columns, column.name, f"a code exceeds the {many(len(offsets) - 1, 'string')} of the dictionary"
        )
    counts = np.bincount(codes[::stride], minlength=len(offsets) - 1)[: len(offsets) - 1]
    statistics = part.statistics[i] or {}
    counts[0] -= min(
        int(counts[0]), (statistics.get("nulls") or 0) // stride
    )  # a null's code is 0, its length too
    return 4 * part.rows + int(counts @ np.diff(offsets).astype(np.int64)) * stride, stride == 1


def _add_span(found: ColumnDescription, i: int, parts: Sequence[Part]) -> None:
    """Join the least and greatest value, and the count of nulls, of all parts."""
    known = [s for part in parts if (s := part.statistics[i]) is not None]
    found.nulls = sum(s.get("nulls") or 0 for s in known)
    lows = [s["min"] for s in known if s.get("min") is not None]
    highs = [s["max"] for s in known if s.get("max") is not None]
    if lows and highs:
        found.min, found.max = min(lows), max(highs)


def _count_exactly(parts: PartSet, columns: Sequence[ColumnDescription], progress: Progress | None) -> None:
    """Count the different values of columns of which that is not known exactly."""
    left = [
        found
        for column, found in zip(parts.schema, columns, strict=True)
        if column.is_ordered and (found.distinct is None or not found.distinct_exact)
    ]
    counted = Tracker(len(left) * count_rows(parts, None), progress)
    for found in left:
        found.distinct, found.distinct_exact = distinct_count(parts, found.name, counted.advance), True


def _add_values_there(found: ColumnDescription, column: Column, parts: PartSet, texts: int | None) -> None:
    """The same of the rows that are there, by their values: the statistics of parts are of all that are stored."""
    values = column_statistics(parts, column.name, None, texts)
    found.nulls = values.nulls
    if column.is_ordered:
        found.min, found.max, found.distinct = values.min, values.max, values.distinct


def _distinct(
    column: Column, i: int, parts: Sequence[Part], of_parts: Sequence[FlatColumns]
) -> tuple[int | None, bool]:
    """How many values differ, and whether that is exact: by the statistics and sketches of the parts."""
    filled = [(part, columns) for part, columns in zip(parts, of_parts, strict=True) if part.rows]
    known = [part.statistics[i] or {} for part, _ in filled]
    counts = [one.get("distinct") for one in known]
    if len(filled) == 1 and counts[0] is not None:
        return counts[0], True
    if column.type == "bool":
        return len({one[name] for one in known for name in ("min", "max")} - {None}), True
    sketches = [_sketch(column, i, part, columns) for part, columns in filled]
    there = [hashes for hashes in sketches if hashes is not None]
    if len(there) < len(sketches):
        return None, True
    found, exact = estimated(there)
    if exact:
        return found, True
    least, most = _bounds(column, known)
    found = max(least, found if most is None else min(found, most))
    return found, found == least == most


def _bounds(column: Column, known: Sequence[dict[str, Any]]) -> tuple[int, int | None]:
    """How many different values there are at least, and at most, by the statistics of parts."""
    counts = [one.get("distinct") for one in known]
    spans = sorted((one["min"], one["max"]) for one in known if None not in (one.get("min"), one.get("max")))
    is_whole = column.dtype is not None and column.dtype.kind in "iu"
    most = [max(high for _, high in spans) - spans[0][0] + 1] if is_whole and spans else []
    there = [count for count in counts if count is not None]
    if len(there) < len(counts):
        return max(there, default=0), min(most, default=None)
    most.append(sum(there))
    # No value is in two parts of which each has all of its own below those of the next; NaN would be.
    apart = len(spans) == len(known) and all(a[1] < b[0] for a, b in pairwise(spans))
    return sum(there) if apart and (is_whole or column.is_string) else max(there), min(most)


def _sketch(column: Column, i: int, part: Part, columns: FlatColumns) -> Hashes | None:
    """The least hashes of the values of a part; None where a large one comes without."""
    section = part.vector(layout.SECTION_SKETCH, i)
    if section is not None:
        check = section[1]
        hashes: Hashes = np.asarray(section[0])
        check(0, len(hashes))
        if len(hashes) > MOST or (hashes[1:] <= hashes[:-1]).any():
            raise corrupt(columns, column.name, "the hashes of its values do not ascend, or are too many")
        return hashes
    if columns.rows > layout.SKETCHED_ROWS:
        return None
    found, valid = Sketch(), all_valid(columns, i)
    if column.is_string:
        texts = (text for text in all_strings(columns, i, column.name) if text is not None)
        strings = PackedStrings.of([text.encode() for text in texts])
        found.add(hashes_of(strings.data, strings.ends))
    else:
        values = all_values(columns, i)
        found.add(hashes_of_numbers(values if valid is None else values[valid]))
    return found.hashes
