"""Lance datasets, by pylance: record batches as `UniRecordDataset.to_batches` makes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from ...dataset.dataset import UniRecordDataset
from ...format.column import Column
from ...storage.staged import StagedFolder
from .base import Advance, Sink, refuse

if TYPE_CHECKING:
    import pyarrow

__all__ = ["LANCE"]


def _check(columns: Sequence[Column], metadata: Any) -> list[str]:
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
    refuse(
        columns, "lance", lambda c: "." in c.name,
        "a dot in a name is for it a field of a struct; rename the column, or leave it out with columns",
    )  # fmt: skip
    return []


def _write_folder(
    rows: UniRecordDataset, folder: StagedFolder, parts: int, advance: Advance
) -> Sequence[str]:
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
    check=_check,
    write_folder=_write_folder,
)
