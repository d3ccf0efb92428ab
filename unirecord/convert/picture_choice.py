"""Which columns of a source hold pictures, and the step that changes them."""

from __future__ import annotations

from collections.abc import Sequence

from ..pipeline.pictures import pillow
from .sources.base import Source, WrongSourceError
from .sources.image_header import NotAnImageError, read_image_header
from .steps.columns import check_columns
from .steps.pictures import ChangePictures, PictureChange

__all__ = ["picture_step"]

_LOOKED_AT = 3  # pictures that tell whether a column holds any


def picture_step(
    source: Source,
    names: Sequence[str],
    change: PictureChange,
    columns: Sequence[str] | None,
    *,
    refuses: bool,
) -> ChangePictures:
    """The step for the pictures in ``columns``, by default in all of ``names`` that hold some.

    Raises `WrongSourceError` where there are none, or where other columns to be written tell places in their pixels.
    """
    pillow()
    if columns is None:
        drawn = [
            name for name in names if name not in source.pixel_columns
        ]  # a mask is no picture of colours
        columns = [name for name in drawn if _is_said_to_hold_pictures(source, name)] or _found(source, drawn)
        if not columns:
            raise WrongSourceError(
                f"{source.path}: no column holds files of pictures that could be changed; "
                "--picture-columns names those that do"
            )
    check_columns("picture-columns", columns, source.schema)
    for name in columns:
        column = source.schema[name]
        if name not in names or column.type != "bytes" or column.is_array:
            what = str(column) if name in names else "not written"
            raise WrongSourceError(f"--picture-columns: {name!r} is {what}, not a column of files")
    turned = change.encoding is not None and change.encoding.format == "raw"
    told = (*source.pixel_columns, *(source.relative_columns if turned else ()))
    placed = [name for name in told if name in names]
    if placed and (change.resize or change.max_side or turned):
        raise WrongSourceError(
            f"{', '.join(placed)} tell places in the pixels of the pictures as they are: leave those out with "
            "--columns, or the pictures in their size"
        )
    return ChangePictures(change, columns, source.picture_sizes, refuses=refuses)


def _is_said_to_hold_pictures(source: Source, name: str) -> bool:
    return str(source.schema[name].annotations.get("media_type", "")).startswith("image/")


def _found(source: Source, names: Sequence[str]) -> list[str]:
    """The columns whose first values are pictures."""
    if source.read_once:
        return []
    first = next((batch for batch in source.batches() if batch.rows), None)
    if first is None:
        return []
    files = [n for n in names if source.schema[n].type == "bytes" and not source.schema[n].is_array]
    return [name for name in files if _are_pictures(list(first.columns[name][:_LOOKED_AT]))]


def _are_pictures(values: Sequence[object]) -> bool:
    files = [value for value in values if isinstance(value, bytes | bytearray | memoryview)]
    try:
        for file in files:
            read_image_header(bytes(file))
    except NotAnImageError:
        return False
    return bool(files)
