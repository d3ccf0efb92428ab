"""Checks that what a row group stores can be values of its columns, whatever its digests say."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from ..format.value_rules import BROKEN, NO_TEXT, broken_scalars, no_texts
from ..parts.data_file import DataHead, RowGroup
from ..parts.part_set import CellValues, Decoders
from .finding import Finding, findings_for
from .walk import cell_places

__all__ = ["check_blob_values", "check_scalar_values"]


def check_scalar_values(head: DataHead, group: RowGroup) -> Iterator[Finding]:
    """Bools are 0 or 1, nulls are stored as zero, and strings are UTF-8."""
    for (_, column), found in zip(head.schema.scalars, group.page.scalars, strict=True):
        if found.strings is not None:
            bad = group.first_row + no_texts(found.values, found.strings)
            yield from findings_for(bad, group.offset, NO_TEXT, column.name)
        bad = group.first_row + broken_scalars(column, found.values, found.valid)
        yield from findings_for(bad, group.offset, BROKEN, column.name)


def check_blob_values(
    head: DataHead,
    group: RowGroup,
    payload: npt.NDArray[np.uint8],
    lost: npt.NDArray[np.bool_],
    decoders: Decoders,
) -> Iterator[Finding]:
    """Cells of the rows that are not ``lost`` can be decompressed and decoded, and nulls are empty or zero."""
    cells = CellValues(head.schema, *cell_places(head, group), group.page.raw_lengths, payload, decoders)
    for j, (ordinal, column) in enumerate(head.schema.blobs):
        if ordinal in decoders.lost:
            span = (group.first_row, group.first_row + group.page.rows)
            what = f"the cells cannot be decompressed: {decoders.lost[ordinal]}"
            yield Finding(group.blob_payload, what, span, column.name)
        for what, rows in cells.problems(j, group.page.blob_valid[j], ~lost):
            yield from findings_for(rows + group.first_row, group.blob_payload, what, column.name)
