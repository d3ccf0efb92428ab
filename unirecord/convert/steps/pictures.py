"""The step that changes the pictures in columns, and the columns that tell their size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

import numpy as np

from ...errors import PictureError, SchemaError
from ...format.schema import Schema
from ..sources.base import LeftOut, RawBatch, Unit
from .base import Change, Step, chosen_rows
from .picture_change import PictureChange

__all__ = ["ChangePictures"]

_MEDIA: Final = {"jpeg": "image/jpeg", "webp": "image/webp", "png": "image/png"}


class ChangePictures(Step):
    """Changes the pictures of ``columns``.

    ``sizes`` names the columns that hold a picture's width and height. Of a picture that cannot be decoded, the row is
    left out, or with ``refuses`` that is an error.
    """

    rows_at_once: ClassVar[int | None] = (
        8  # the first ones of some units are made again, to compare what was written
    )

    def __init__(
        self,
        change: PictureChange,
        columns: Sequence[str],
        sizes: Mapping[str, tuple[str, str]],
        *,
        refuses: bool = False,
    ) -> None:
        self._change, self._columns, self._refuses = change, tuple(columns), refuses
        self._sizes = dict(sizes)

    def schema(self, before: Schema) -> Schema:
        """The same, but for the media type; raw pixels are arrays."""
        found: dict[str, object] = {}
        for column in before:
            found[column.name] = column.spec
            if column.name not in self._columns:
                continue
            encoding = self._change.encoding
            null = "?" if column.nullable else ""
            if encoding is not None and encoding.format == "raw":
                found[column.name] = {"type": f"uint8{null}", "shape": [-1, -1, 3]}
                continue
            said = column.annotations.get("media_type")
            media = said if said in _MEDIA.values() else "image/*"
            media = media if encoding is None else _MEDIA[encoding.format]
            found[column.name] = {
                "type": column.wire_type, "annotations": {**column.annotations, "media_type": media}
            }  # fmt: skip
        return Schema.parse(found)

    def begin(self, unit: Unit) -> Change:
        """The same for all units, but for the number of the row that a message names."""
        first = 0

        def change(batch: RawBatch) -> RawBatch:
            nonlocal first
            number, first = first, first + batch.rows
            return self._batch(batch, unit.name, number)

        return change

    def _batch(self, batch: RawBatch, name: str, first: int) -> RawBatch:
        columns = {one: list(batch.columns[one]) for one in self._changed_columns(batch)}
        places, left_out = [], []
        for i in range(batch.rows):
            try:
                self._row(columns, i)
            except PictureError as error:
                path = batch.columns.get("path")
                where = path[i] if path is not None else f"{name}, row {first + i}"
                if self._refuses:
                    raise SchemaError(f"{where}: {error}; --on-error skip leaves it out") from None
                left_out.append(LeftOut(str(where), str(error)))
            else:
                places.append(i)
        changed = replace(batch, columns={**batch.columns, **columns})
        return chosen_rows(changed, np.array(places, np.int64), tuple(left_out))

    def _changed_columns(self, batch: RawBatch) -> list[str]:
        sizes = [name for column in self._columns for name in self._sizes.get(column, ())]
        return [*self._columns, *(name for name in sizes if name in batch.columns)]

    def _row(self, columns: dict[str, list[Any]], i: int) -> None:
        for column in self._columns:
            data = columns[column][i]
            if data is None:
                continue
            columns[column][i], *size = self._change(bytes(data))
            for name, pixels in zip(self._sizes.get(column, ()), size, strict=False):
                if name in columns:
                    columns[name][i] = pixels
