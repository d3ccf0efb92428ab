"""The schema: the columns of a dataset in their order, from and to the forms a user and a file give them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from ..core import cached_property
from ..errors import FormatError, MissingError, SchemaError, did_you_mean
from .column import TABLE_ENTRY, Codec, Column, column_from_wire, parse_column
from .layout import CODEC_CHUNKED

_MAX_COLUMNS: Final = 65_534
_AT_CODEC: Final = 4  # of an entry of the column table


class Schema:
    """The columns of a dataset in their order. Immutable, hashable; build one with `Schema.parse`."""

    __slots__ = ("__dict__", "columns")
    columns: tuple[Column, ...]

    def __init__(self, columns: Iterable[Column]) -> None:
        """Take columns that are already valid; `parse` and `from_wire` check theirs."""
        object.__setattr__(self, "columns", tuple(columns))

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse: a schema is shared between handles."""
        raise AttributeError(f"a Schema cannot be changed (setting {name!r})")

    def __reduce__(self) -> tuple[type[Schema], tuple[tuple[Column, ...]]]:
        """Pickle as the columns alone."""
        return (Schema, (self.columns,))

    @classmethod
    def parse(cls, spec: Mapping[str, object] | Schema) -> Schema:
        """Return the schema that ``spec`` describes.

        ``spec`` maps names to a type name (``"int32"``, ``"string?"``) or to ``{"type": …, "shape": […], "logical": …,
        "chunks": …, "codec": …, "annotations": {…}}``, of which all but the type may be left out, or to a `Column`.
        Raises `SchemaError`.
        """
        if isinstance(spec, Schema):
            return spec
        if not isinstance(spec, Mapping):
            raise SchemaError(
                f'a schema is a dict like {{"image": "bytes", "label": "int32"}}, got {type(spec).__name__}'
            )
        if not 1 <= len(spec) <= _MAX_COLUMNS:
            raise SchemaError(f"a schema has 1 to {_MAX_COLUMNS:,} columns, got {len(spec):,}")
        return cls(parse_column(name, value) for name, value in spec.items())

    @classmethod
    def from_wire(cls, wire: object) -> Schema:
        """Internal: the schema that a file's metadata holds; `FormatError` when it is none."""
        if not isinstance(wire, list) or not 1 <= len(wire) <= _MAX_COLUMNS:
            raise FormatError(f"the stored schema is not a list of 1 to {_MAX_COLUMNS:,} columns")
        schema = cls(column_from_wire(i, entry) for i, entry in enumerate(wire))
        if len(schema._ordinals) != len(wire):
            raise FormatError("the stored schema names a column twice")
        return schema

    def to_wire(self) -> list[list[object]]:
        """Internal: ``[[name, type, shape or None], …]``, as the metadata has it; annotations are a fourth element."""
        return [
            [*entry, column.wire_annotations] if column.packed_annotations else entry
            for entry, column in zip(self.types_to_wire(), self.columns, strict=True)
        ]

    def types_to_wire(self) -> list[list[object]]:
        """Internal: `to_wire` without annotations."""
        return [[c.name, c.wire_type, None if c.shape is None else list(c.shape)] for c in self.columns]

    def says_the_same_as(self, other: Schema) -> bool:
        """Whether the columns equal those of ``other``, and their annotations too."""
        return self == other and all(
            a.packed_annotations == b.packed_annotations for a, b in zip(self, other, strict=True)
        )

    def with_annotations_of(self, other: Schema) -> Schema:
        """The columns, each with what ``other`` says of the column of its name."""
        given = {column.name: column.packed_annotations for column in other}
        return Schema(replace(c, packed_annotations=given.get(c.name, b"")) for c in self.columns)

    def to_spec(self) -> dict[str, str | dict[str, object]]:
        """Return the dict from which `parse` makes this schema again."""
        return {c.name: c.spec for c in self.columns}

    def column_table(self) -> bytes:
        """Internal: the column table of docs/spec/format.md, 32 bytes a column."""
        return self._column_table

    @cached_property
    def _column_table(self) -> bytes:
        return b"".join(column.table_entry for column in self.columns)

    def plain(self) -> Schema:
        """Return the same columns, none of them compressed."""
        return Schema(replace(c, codec=None) for c in self.columns)

    def with_codecs(self, table: bytes, *, chunks_of_another: bool = False) -> Schema:
        """Internal: the same columns, compressed as a column table says; `FormatError` when it is not theirs.

        ``chunks_of_another``: what these columns say of chunks is said of another part.
        """
        codes = table[_AT_CODEC :: TABLE_ENTRY.size]
        same = self if not any(codes) and not any(c.codec for c in self.columns) else None
        found = same or Schema(
            replace(c, codec=_codec_of(code)) for c, code in zip(self.columns, codes, strict=False)
        )
        own = found.column_table()
        if chunks_of_another:
            own, table = _without_chunks(own), _without_chunks(table)
        if own != table:
            raise FormatError("the column table and the schema in the metadata differ")
        return found

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names, in order."""
        return tuple(c.name for c in self.columns)

    @cached_property
    def scalars(self) -> tuple[tuple[int, Column], ...]:
        """(ordinal, column) of every scalar column, strings included."""
        return tuple((i, c) for i, c in enumerate(self.columns) if not c.is_blob)

    @cached_property
    def blobs(self) -> tuple[tuple[int, Column], ...]:
        """(ordinal, column) of every blob column."""
        return tuple((i, c) for i, c in enumerate(self.columns) if c.is_blob)

    @cached_property
    def _ordinals(self) -> dict[str, int]:
        return {c.name: i for i, c in enumerate(self.columns)}

    def ordinal(self, name: str) -> int:
        """The ordinal of column ``name``; SchemaError names the columns there are and the nearest one."""
        try:
            return self._ordinals[name]
        except (KeyError, TypeError):
            raise SchemaError(
                f"there is no column {name!r}{did_you_mean(name, self.names) or '.'} "
                f"The columns are: {_listing(self.names)}"
            ) from None

    def __getitem__(self, key: str | int) -> Column:
        """Return a column by its name or ordinal."""
        return self.columns[key if isinstance(key, int) else self.ordinal(key)]

    def __contains__(self, name: object) -> bool:
        """Whether a column has this name."""
        return name in self._ordinals

    def __len__(self) -> int:
        """Return the number of columns."""
        return len(self.columns)

    def __iter__(self) -> Iterator[Column]:
        """Iterate over the columns."""
        return iter(self.columns)

    def __eq__(self, other: object) -> bool:
        """Whether names, types, shapes and order are the same."""
        return self.columns == other.columns if isinstance(other, Schema) else NotImplemented

    def __hash__(self) -> int:
        """Hash of the columns."""
        return hash(self.columns)

    def __repr__(self) -> str:
        """Return ``Schema({…})`` with the user's form."""
        return f"Schema({self.to_spec()!r})"

    def _repr_html_(self) -> str | None:
        from ..inspect.notebook import schema_html

        # Without Jinja2 the text stays.
        with suppress(MissingError):
            return schema_html(self)
        return None


def _without_chunks(table: bytes) -> bytes:
    """A column table in which no cell is said to be cut into chunks."""
    entries = bytearray(table)
    codes = entries[_AT_CODEC :: TABLE_ENTRY.size]
    entries[_AT_CODEC :: TABLE_ENTRY.size] = bytes(
        code - CODEC_CHUNKED if CODEC_CHUNKED <= code < 2 * CODEC_CHUNKED else code for code in codes
    )
    return bytes(entries)


def _codec_of(code: int) -> Codec | None:
    """What the column table says of how cells are compressed, whether or not they are cut into chunks."""
    if CODEC_CHUNKED <= code < 2 * CODEC_CHUNKED:
        code -= CODEC_CHUNKED
    return Codec(code) if code else None


def _listing(names: Sequence[str], most: int = 20) -> str:
    shown = ", ".join(repr(n) for n in names[:most])
    return shown + (f", … ({len(names):,} in all)" if len(names) > most else "")
