"""Parquet, Arrow and Lance, by pyarrow and pylance: record batches as `UniRecordDataset.to_batches` makes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from ...dataset.dataset import UniRecordDataset
from ...errors import SchemaError
from ...format.column import Column
from ...storage.staged import StagedFolder
from .sink import Advance, Sink, refuse

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet

__all__ = [
    "ARROW",
    "LANCE",
    "PARQUET",
]


# Parquet and Arrow files, by pyarrow: record batches as `UniRecordDataset.to_batches` makes them.


_GROUP_BYTES: Final = 64 << 20  # of values in a row group, about
_GROUP_ROWS: Final = 1 << 20


def _write_parquet(rows: UniRecordDataset, out: BinaryIO, advance: Advance) -> None:
    """Write the rows in row groups of about 64 MB."""
    import pyarrow
    import pyarrow.parquet

    with rows.to_batches() as reader, pyarrow.parquet.ParquetWriter(out, reader.schema) as writer:
        waiting: list[pyarrow.RecordBatch] = []
        for batch in reader:
            waiting.append(batch)
            count = sum(len(one) for one in waiting)
            if sum(one.nbytes for one in waiting) >= _GROUP_BYTES or count >= _GROUP_ROWS:
                _write_group(writer, waiting)
                waiting.clear()
            advance(len(batch))
        if waiting:
            _write_group(writer, waiting)


def _write_group(writer: pyarrow.parquet.ParquetWriter, batches: Sequence[pyarrow.RecordBatch]) -> None:
    """Write a row group; `SchemaError` for a value that its column has no place for, as times in another unit."""
    import pyarrow

    table = pyarrow.Table.from_batches(batches)
    try:
        writer.write_table(table, row_group_size=max(len(table), 1))
    except pyarrow.ArrowInvalid as error:
        raise SchemaError(
            f"Parquet cannot hold a value ({error}): leave its column out (--columns), or export to arrow"
        ) from None


# Parquet: arrays are lists, a level for each dimension; the Arrow schema is kept in the file.
PARQUET: Final = Sink(
    kind="parquet",
    about="Parquet",
    suffix=".parquet",
    requires="pyarrow",
    imports="pyarrow.parquet",
    write=_write_parquet,
)


def _write_arrow(rows: UniRecordDataset, out: BinaryIO, advance: Advance) -> None:
    """Write the rows, a record batch of about 8 MB at a time."""
    import pyarrow

    with rows.to_batches() as reader:
        # A file has one dictionary of a column, and batches of strings have each their own.
        columns = [rows.schema[name] for name in rows.column_names]
        words = [i for i, column in enumerate(columns) if column.is_string and column.dictionary is not None]
        schema = reader.schema
        for place in words:
            schema = schema.set(place, schema.field(place).with_type(pyarrow.string()))
        with pyarrow.ipc.new_file(out, schema) as writer:
            for batch in reader:
                writer.write_batch(batch.cast(schema) if words else batch)
                advance(len(batch))


# The Arrow file format, also called Feather 2, uncompressed: it can be mapped.
ARROW: Final = Sink(
    kind="arrow",
    about="Arrow (Feather)",
    suffix=".arrow",
    requires="pyarrow",
    imports="pyarrow",
    write=_write_arrow,
)


# Lance datasets, by pylance: record batches as `UniRecordDataset.to_batches` makes them.


def _check_lance(columns: Sequence[Column], metadata: Any) -> list[str]:
    """Refuse arrays whose free dimension comes after a fixed one, and names with a dot: Lance has neither."""
    refuse(
        columns, "lance", lambda c: "." in c.name or not c.name,
        "a name with a dot is one of a field inside another there; leave it out, or rename it first",
    )  # fmt: skip
    shapes = {column.name: column.item_shape for column in columns if column.is_array}
    refuse(
        columns, "lance", lambda c: any(
            size != -1 and -1 in shapes[c.name][i + 1 :] for i, size in enumerate(shapes.get(c.name, ()))
        ), "it has no lists inside lists of a fixed size; leave it out",
    )  # fmt: skip
    return []


def _write_lance(rows: UniRecordDataset, folder: StagedFolder, parts: int, advance: Advance) -> Sequence[str]:
    """Write the rows, a record batch of about 8 MB at a time."""
    import lance
    import pyarrow

    with rows.to_batches() as reader:

        def told() -> Iterator[pyarrow.RecordBatch]:
            for batch in reader:
                yield batch
                advance(len(batch))

        stream = pyarrow.RecordBatchReader.from_batches(reader.schema, told())
        lance.write_dataset(stream, folder.folder, mode="create")
    return ()


# A Lance dataset of one version; types are those of Parquet and Arrow.
LANCE: Final = Sink(
    kind="lance",
    about="Lance",
    suffix=".lance",
    requires="pylance",
    imports="lance",
    check=_check_lance,
    write_folder=_write_lance,
)
