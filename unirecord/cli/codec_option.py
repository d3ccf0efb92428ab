"""The ``--codec`` option of ``unirecord write``: a codec for all blob columns, for some, or what a sample says."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace

from ..convert.sources import Source
from ..core import check_codec
from ..errors import SchemaError
from ..format.codec import Codec
from ..format.column import Column
from ..format.schema import Schema
from ..format.values import ColumnBatch, RecordEncoder
from ..parts.part_set import PartSet, Snapshot
from ..writing.codec_choice import CodecChoice, choose_codecs
from .usage import UsageError, pairs

__all__ = ["with_codecs"]

_AUTO = "auto"
_THERE_IS_NONE = (
    "no column holds bytes, text, arrays or objects, which alone are compressed; --schema NAME=text stores a column "
    "of strings so"
)


def with_codecs(
    schema: Schema, text: str | None, source: Source, before: Snapshot | None
) -> tuple[Schema, Mapping[str, str]]:
    """The schema with the codecs that ``text`` asks for, and what is to be said of each column that was tried.

    ``text``: ``auto``, a codec for all blob columns, or ``COLUMN=CODEC,…``, where auto may stand too; None: as the
    last part of the dataset ``before`` has them, to which rows are appended, if any.
    """
    if text is None:
        return (schema if before is None else _like_last_part(schema, before)), {}
    asked = _asked(schema, text)
    tried = [name for name, codec in asked.items() if codec == _AUTO]
    choices: Mapping[str, CodecChoice] = {}
    if tried:
        check_codec(Codec.parse("zstd").code)
        choices = choose_codecs(schema, _sample(schema, source))
    columns = []
    for column in schema:
        codec = asked.get(column.name)
        if codec == _AUTO:
            columns.append(replace(column, codec=choices[column.name].codec))
        elif codec is not None:
            columns.append(_compressed(schema, column.name, codec))
        else:
            columns.append(column)
    return Schema(columns), {name: choices[name].why for name in tried}


def _like_last_part(schema: Schema, before: Snapshot) -> Schema:
    if not before.parts:
        return schema
    opened = PartSet(before, knows_deletions=True)  # reads no rows
    try:
        last = opened.part(len(opened) - 1).stored_schema
    finally:
        opened.close()
    return Schema(replace(c, codec=last[c.name].codec if c.name in last else None) for c in schema)


def _asked(schema: Schema, text: str) -> dict[str, str]:
    """The codec asked for by name of column."""
    blobs = [column.name for _, column in schema.blobs]
    if "=" not in text:
        if text != _AUTO and not blobs:
            raise UsageError(f"--codec {text!r}: {_THERE_IS_NONE}")
        return dict.fromkeys(blobs, text)
    try:
        asked = pairs(text, "COLUMN=CODEC")
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"--codec: {error}") from None
    for name in asked:
        if name not in blobs:
            others = f"those that can be compressed are {', '.join(blobs)}" if blobs else _THERE_IS_NONE
            raise UsageError(f"--codec: {name!r} is no blob column; {others}")
    return asked


def _compressed(schema: Schema, name: str, codec: str) -> Column:
    spec = schema[name].spec
    plain = {"type": spec} if isinstance(spec, str) else spec
    try:
        return Schema.parse({name: {**plain, "codec": codec}})[0]
    except SchemaError as error:
        raise UsageError(f"--codec: {error}") from None


def _sample(schema: Schema, source: Source) -> ColumnBatch:
    """The first batch of the source, as it would be stored."""
    encoder = RecordEncoder(schema, "ignore")
    first = next(source.batches(), None)
    return encoder.encode_batch(first.columns, 0) if first is not None else encoder.take()
