"""Parquet files, partition columns in their paths, and folders that belong to a table format."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, Final

from ...progress import Progress
from .arrow_columns import choose_columns, rows_of_batches, same_fields
from .foreign_libraries import foreign_call, needed
from .source import TRUST, AskedOption, Options, Partitions, RawBatch, Source, Unit, WrongSourceError

__all__ = [
    "ParquetFiles",
    "refuse_table_folder",
]


# Folders that belong to a table format: their files alone are not the table, so they are not read as loose
# files.


# Table formats: what the folder of each holds, its name, and what reads it.
_FORMATS: Final = (
    ("_delta_log", "Delta Lake", "deltalake.DeltaTable({path!r}).to_pyarrow_table()"),
    (".hoodie", "Apache Hudi", "spark.read.format('hudi').load({path!r}).toPandas()"),
    ("metadata", "Apache Iceberg", "catalog.load_table(NAME).scan().to_arrow() of pyiceberg"),
    ("snapshot", "Apache Paimon", "its reader (pypaimon), which gives an Arrow table"),
)


def refuse_table_folder(name: str, path: str) -> None:
    """Raise `WrongSourceError` where the folder at ``path``, which messages call ``name``, is a table, or in one.

    Rows that were removed or replaced still lie in its files, and which those are its log alone tells.
    """
    place = os.path.abspath(path)
    while True:
        for mark, kind, way in _FORMATS:
            if _belongs_to(mark, place):
                which = name if place == os.path.abspath(path) else f"{name}, in {place},"
                raise WrongSourceError(
                    f"{which} is a table of {kind}, whose files hold removed rows, too; read it by its own reader, "
                    f"and pass the table to unirecord.write_dataset: {way.format(path=place)}"
                )
        above = os.path.dirname(place)
        last = os.path.basename(place)
        if above == place or ("=" not in last and last != "data"):
            return
        place = above


def _belongs_to(mark: str, folder: str) -> bool:
    """Whether a folder is of the table format that has ``mark`` in it."""
    place = os.path.join(folder, mark)
    if not os.path.isdir(place):
        return False
    if mark not in ("metadata", "snapshot"):
        return True
    try:
        names = os.listdir(place)
    except OSError:
        return False
    if mark == "metadata":
        return any(name.endswith(".metadata.json") for name in names)
    return "LATEST" in names and os.path.isdir(os.path.join(folder, "schema"))


# Parquet files as records: a file, a folder of them or a pattern; a row group is a unit.


_NEEDS: Final = "a Parquet file"
_BATCH_BYTES: Final = 8_000_000
_SAMPLE_ROWS: Final = 1_000


class ParquetFiles(Source):
    """Parquet files of one schema, by pyarrow."""

    kind: ClassVar[str] = "parquet"
    about: ClassVar[str] = "Parquet files"
    handles: ClassVar[tuple[str, ...]] = ("_open",)
    any_names: ClassVar[bool] = True
    suffixes: ClassVar[tuple[str, ...]] = (".parquet", ".pq")
    first_bytes: ClassVar[bytes] = b"PAR1"
    takes_folders: ClassVar[bool] = True
    options: ClassVar[tuple[AskedOption, ...]] = (TRUST,)
    libraries: ClassVar[tuple[str, ...]] = ("pyarrow.parquet",)

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Read what the ends of the files say, and the first rows."""
        pa = needed("pyarrow", _NEEDS)
        self._files = self.files_to_read()
        self._open: tuple[int, Any] | None = None
        self.units: Sequence[Unit] = []
        nulls: dict[str, bool | None] = {}
        fields: Any = None
        row = 0
        for number, file in self.each_file(self._files, progress):
            with foreign_call("pyarrow", file.name):
                opened = self._parquet(number)
                if fields is None:
                    fields = opened.schema_arrow
                same_fields(fields, opened.schema_arrow, self._files[0].name, file.name, options)
                groups = opened.metadata.num_row_groups
                columns_of = _columns_of(pa, opened.schema_arrow)
            for group in range(groups):
                name = f"{file.name}, row group {group}"
                with foreign_call("pyarrow", name):
                    found = opened.metadata.row_group(group)
                    _add_nulls(nulls, found, columns_of)
                    self.units.append(Unit(name, (number, group, row), found.num_rows))
                    row += found.num_rows
        for name in fields.names:
            if nulls.get(name) is None and fields.field(name).nullable:
                nulls[name] = None if pa.types.is_nested(fields.field(name).type) else True
        self._partitions = Partitions(self.input, self._files, fields.names, options)
        self._names = choose_columns(self, fields, self._sample(), nulls, options, self._partitions)

    def _sample(self) -> Any:
        """The first rows of the first file that has any."""
        for unit in self.units:
            if unit.rows:
                with foreign_call("pyarrow", unit.name):
                    number, group, _ = unit.place
                    return next(self._parquet(number).iter_batches(_SAMPLE_ROWS, [group], use_threads=False))
        return None

    def _parquet(self, number: int) -> Any:
        if self._open is None or self._open[0] != number:
            reader = needed("pyarrow.parquet", _NEEDS, "pyarrow")
            self._open = (number, reader.ParquetFile(self._files[number].local_path(), pre_buffer=False))
        return self._open[1]

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield the rows of a row group."""
        number, group, row = unit.place
        with foreign_call("pyarrow", unit.name):
            opened = self._parquet(number)
            found = opened.metadata.row_group(group)
            width = max(found.total_byte_size, 1) // max(found.num_rows, 1)
            step = max(1, min(1 << 16, _BATCH_BYTES // max(width, 1)))
            columns = [self._names[name] for name in self.schema.names if name in self._names]
            batches = opened.iter_batches(step, [group], columns, use_threads=False)
        more = partial(self._partitions.columns, number)
        yield from rows_of_batches("pyarrow", batches, self.schema, self._names, unit.name, row, more)


def _columns_of(pa: Any, fields: Any) -> list[tuple[str, bool]]:
    """Of each column of the file, in their order, the name of the field that it is of, and whether it is within it.

    Paths do not tell: ``a.b`` is the field b of a struct a, or a column that is called so.
    """
    return [
        (field.name, pa.types.is_nested(_plain(pa, field.type)))
        for field in fields
        for _ in range(_leaves(pa, field.type))
    ]


def _plain(pa: Any, kind: Any) -> Any:
    while isinstance(kind, pa.BaseExtensionType) or pa.types.is_dictionary(kind):
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind.storage_type
    return kind


def _leaves(pa: Any, kind: Any) -> int:
    kind = _plain(pa, kind)
    if not pa.types.is_nested(kind):
        return 1
    return sum(_leaves(pa, kind.field(i).type) for i in range(kind.num_fields))


def _add_nulls(nulls: dict[str, bool | None], group: Any, columns_of: Sequence[tuple[str, bool]]) -> None:
    """Take in what the statistics of a row group say about nulls: True, False, or None where nobody knows.

    Of a nested column they count empty lists, too, so only none at all says something.
    """
    if group.num_columns != len(columns_of):  # of a type that is stored otherwise: nothing is known
        nulls.update(dict.fromkeys((name for name, _ in columns_of), None))
        return
    for i, (name, nested) in enumerate(columns_of):
        statistics = group.column(i).statistics
        if statistics is None or not statistics.has_null_count or (nested and statistics.null_count):
            nulls[name] = nulls.get(name) or None
        elif statistics.null_count:
            nulls[name] = True
        else:
            nulls.setdefault(name, False)
