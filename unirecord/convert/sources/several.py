"""Several sources as one: each is read as what it is, one after the other, in the columns that they have together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, chain
from typing import Any, ClassVar, Final

import numpy as np

from ...errors import SchemaError, did_you_mean
from ...format.column import Column
from ...format.logical import other_logical, shown
from ...format.schema import Schema
from ...progress import Progress, Tracker
from ...sizes import many
from .folder_walk import natural_order
from .input_path import InputPath
from .kinds import open_source, refuse_unknown, source_type
from .media_types import file_type
from .overrides import TypesThere
from .source import (
    NoRowsError,
    Options,
    RawBatch,
    RowPlace,
    Source,
    Unit,
    WrongSourceError,
    file_sizes,
    reduced,
)

__all__ = ["SeveralSources", "open_sources"]


def open_sources(
    inputs: Sequence[InputPath],
    kind: str | None = None,
    options: Options | None = None,
    progress: Progress | None = None,
) -> Source:
    """Look through the raw data at one path or at several, and return it as one source; raises like `open_source`.

    Of several, each option is for those of them that obey it; one that none of them obeys is refused.
    """
    options = options or Options()
    if len(inputs) == 1:
        return open_source(inputs[0], kind, options, progress)
    refuse_unknown(options)
    kinds = [source_type(one, kind) for one in inputs]
    for name in options.given():
        if not any(name in one.takes() for one in kinds):
            read = ", ".join(dict.fromkeys(one.kind for one in kinds))
            raise WrongSourceError(
                f"--{name.replace('_', '-')}: the sources are read as {read}, which do not obey it"
            )
    return SeveralSources(inputs, kind, kinds, options, progress)


class SeveralSources(Source):
    """The rows of several sources, in the order in which these are given.

    A column has one type in all of them: the wider of two types of numbers; a string where that is what one of them
    has and the others give text. A column that some lack is null there, where it can be null in the others. A source
    without rows decides nothing that those with rows say.
    """

    kind: ClassVar[str] = "several"
    about: ClassVar[str] = "several sources"

    def __init__(
        self,
        inputs: Sequence[InputPath],
        kind: str | None,
        kinds: Sequence[type[Source]],
        options: Options,
        progress: Progress | None = None,
    ) -> None:
        """``kind`` is what was asked for, and ``kinds`` what each of ``inputs`` is."""
        self._kind, self._kinds = kind, tuple(kinds)
        self._inputs = tuple(inputs)
        named = InputPath(f"{inputs[0].name} and {len(inputs) - 1:,} more", inputs[0].path, members=())
        super().__init__(named, options, progress)

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Look through each, again where what others hold says other types or classes, and put them together."""
        self._sources: list[Source] = []
        sizes = [0 if progress is None else sum(file_sizes(one)) for one in self._inputs]
        tracker = Tracker(sum(sizes), progress)
        empty: dict[int, NoRowsError] = {}
        for number, end in enumerate(accumulate(sizes)):
            tell = partial(_reach, tracker, end - sizes[number], sizes[number])
            try:
                self._sources.append(self._opened(number, options, progress=tell))
            except NoRowsError as error:
                empty[number] = error
            tracker.reach(end)
        if not self._sources:
            raise empty[0]
        without = [one.name for number, one in enumerate(self._inputs) if number in empty]
        there = [number for number in range(len(self._inputs)) if number not in empty]
        self._inputs = tuple(self._inputs[number] for number in there)
        self._kinds = tuple(self._kinds[number] for number in there)
        options = self._with_all_classes(options)
        _refuse_unknown(options, self._sources)
        self.schema: Schema = self._joined(options)
        self.units: Sequence[Unit] = [
            Unit(unit.name, (number, unit), unit.rows)
            for number, source in enumerate(self._sources)
            for unit in source.units
        ]
        with_rows = [one for one in self._sources if one.rows != 0]
        self.notes: list[str] = list(
            dict.fromkeys(note for one in with_rows or self._sources for note in one.notes)
        )
        without += [one.path for one in self._sources if with_rows and one.rows == 0]
        self.notes += [f"{path}: no rows" for path in without]
        self.notes += _said_of_nulls(self.schema, self._sources)
        self.notes += _said_of_types(self.schema, self._sources)
        self.left_out = [one for source in self._sources for one in source.left_out]
        self.metadata: dict[str, Any] | None = self._one_metadata()
        self.asked: Mapping[str, str] = {
            name: text for source in self._sources for name, text in source.asked.items()
        }
        self.indexed: Sequence[str] = list(dict.fromkeys(chain(*(one.indexed for one in self._sources))))
        self.read_once: bool = any(one.read_once for one in self._sources)
        self.reads_ahead: bool = any(one.reads_ahead for one in self._sources)
        self.computes: bool = any(one.computes for one in self._sources)
        for attribute in _SAID_OF_KINDS:
            said = [getattr(one, attribute) for one in self._sources]
            if all(one == said[0] for one in said):
                setattr(self, attribute, said[0])

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield the rows of a unit of one of them, in the columns of all."""
        number, inner = unit.place
        source = self._sources[number]
        for batch in source.read(inner):
            columns = {
                name: batch.columns[name] if name in batch.columns else [None] * batch.rows
                for name in self.schema.names
            }
            yield replace(batch, columns=columns)

    def places_of(self, unit: Unit, rows: Sequence[int]) -> list[RowPlace]:
        """Those of the one whose unit it is."""
        number, inner = unit.place
        places: list[RowPlace] = self._sources[number].places_of(inner, rows)
        return places

    def files(self) -> Iterable[str]:
        """The files of all."""
        return chain.from_iterable(one.files() for one in self._sources)

    def done(self) -> None:
        """Told to each."""
        for one in self._sources:
            one.done()

    def _opened(
        self,
        number: int,
        options: Options,
        types: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> Source:
        """Look through one, with the types that were asked for of columns that it has, and those of ``types``."""
        takes = self._kinds[number].takes()
        overrides = TypesThere({**options.overrides, **(types or {})}, {})
        asked = {name: options.get(name) for name in options.given() if name in takes and name != "classes"}
        own = Options(
            overrides,
            options.classes if "classes" in takes else None,
            options.threads,
            options.on_error,
            options.wanted,
            **asked,
        )
        return open_source(self._inputs[number], self._kind, own, progress)

    def _with_all_classes(self, options: Options) -> Options:
        """The options, with the classes of all where some number others than the rest; these are opened anew."""
        found = {
            number: list(one.metadata["classes"])
            for number, one in enumerate(self._sources)
            if one.takes_classes and isinstance(one.metadata, dict) and "classes" in one.metadata
        }
        together = sorted(set(chain.from_iterable(found.values())), key=natural_order)
        if options.classes is not None or len({tuple(classes) for classes in found.values()}) < 2:
            return options
        asked = {name: options.get(name) for name in options.given()}
        options = Options(
            options.overrides, together, options.threads, options.on_error, options.wanted, **asked
        )
        for number in found:
            self._sources[number] = self._opened(number, options)
        return options

    def _joined(self, options: Options) -> Schema:
        """The columns of all, in the order in which they come first; sources that have to give text are opened anew."""
        names = list(dict.fromkeys(name for one in self._sources for name in one.schema.names))
        if options.wanted is not None and options.wanted.names <= set(names):
            names = [name for name in names if options.wants(name) or name in options.overrides]
        columns = []
        for name in names:
            every = {
                number: one.schema[name] for number, one in enumerate(self._sources) if name in one.schema
            }
            with_rows = {
                number: column for number, column in every.items() if self._sources[number].rows != 0
            }
            columns.append(self._one_type(name, with_rows or every, options))
        return Schema(columns)

    def _one_type(self, name: str, found: dict[int, Column], options: Options) -> Column:
        nullable = any(column.nullable for column in found.values())
        joined = _wider(list(found.values()))
        if joined is None and any(column.is_string for column in found.values()):
            others = [number for number, column in found.items() if not column.is_string]
            if all(self._sources[number].values_are_text for number in others):
                for number in others:
                    self._give_text(number, name, options, found)
                joined = next(column for column in found.values() if column.is_string)
        if joined is None:
            raise SchemaError(self._differ(name, found))
        lacking = [one for number, one in enumerate(self._sources) if number not in found and one.rows != 0]
        if lacking and not nullable:
            there = _listed([self._sources[number].path for number in found])
            raise SchemaError(
                f"{_listed([one.path for one in lacking])} has no column {name!r}, and in {there} it cannot be null: "
                f"--schema {name}={_not_null(joined, nullable=True)} makes it null, --columns leaves it out"
            )
        return _not_null(joined, nullable=nullable)

    def _give_text(self, number: int, name: str, options: Options, found: Mapping[int, Column]) -> None:
        as_text = {one.name: "string" for one in self._sources[number].schema if one.is_string}
        try:
            self._sources[number] = self._opened(number, options, {**as_text, name: "string"})
        except SchemaError as error:
            raise SchemaError(f"{self._differ(name, found)}\n  {error}") from None

    def _differ(self, name: str, found: Mapping[int, Column]) -> str:
        """What is said of a column that has types in which no values of one fit the other."""
        by_type: dict[str, str] = {}
        for number, column in found.items():
            logical = "" if column.logical is None else f", {shown(column.logical)},"
            by_type.setdefault(f"{column}{logical}", self._sources[number].path)
        said = " and ".join(f"{kind} in {path}" for kind, path in by_type.items())
        return f"column {name!r} is {said}: --schema {name}=TYPE gives it one type, --columns leaves it out"

    def _one_metadata(self) -> dict[str, Any] | None:
        """The metadata of all where it is the same; else of the first that has some, and what is left out is said."""
        said = [one for one in self._sources if one.metadata is not None]
        for one in said[1:]:
            if one.metadata != said[0].metadata:
                self.left_out.append(
                    reduced(f"the metadata of {one.path}", f"left out: that of {said[0].path} is kept")
                )
        return said[0].metadata if said else None


def _reach(tracker: Tracker, start: int, size: int, done: int, total: int) -> None:
    """Say how far one of several is that has ``size`` bytes; 0 in all: that is not known."""
    if total:
        tracker.reach(start + size * done // total)


# What kinds of sources say of themselves, which holds of all where all say the same.
_SAID_OF_KINDS: Final = (
    "kind", "item", "takes_classes", "picture_sizes", "pixel_columns", "relative_columns", "path_column",
)  # fmt: skip


def _refuse_unknown(options: Options, sources: Sequence[Source]) -> None:
    """Refuse a type that was asked for of a column that none of them has."""
    there = {name for one in sources for name in one.schema.names}
    asked = options.overrides.asked if isinstance(options.overrides, TypesThere) else options.overrides
    for name in asked:
        if name not in there:
            raise SchemaError(
                f"there is no column {name!r} in the data{did_you_mean(name, there)}; it has {', '.join(sorted(there))}"
            )


def _wider(columns: Sequence[Column]) -> Column | None:
    """The column that takes the values of all, apart from nulls; None where there is none."""
    first = _not_null(columns[0])
    for column in map(_not_null, columns[1:]):
        if column.type == first.type == "object":
            first = _joined_objects(first, column)
            continue
        if other_logical(first.logical, column.logical):
            return None
        if column == first:
            continue
        if column.is_blob or first.is_blob or column.dtype is None or first.dtype is None:
            return None
        kinds = {column.dtype.kind, first.dtype.kind}
        if not kinds <= set("iuf"):
            return None
        both = np.result_type(column.dtype, first.dtype)
        if both.kind == "f" and "f" not in kinds:  # uint64 beside a signed type
            return None
        first = first if both == first.dtype else replace(column, type=str(both))
    return _media_of_all(columns, first)


def _joined_objects(first: Column, column: Column) -> Column:
    """Objects of the nested type that takes the values of both; without one where there is none."""
    if first.nested == column.nested:
        return first
    both = None if first.nested is None or column.nested is None else first.nested.joined(column.nested)
    logical = {} if both is None else {"logical": {"type": "nested", "of": str(both)}}
    try:
        return Schema.parse({first.name: {"type": "object", **logical}})[0]
    except SchemaError:  # of both together it is too long
        return Schema.parse({first.name: "object"})[0]


def _not_null(column: Column, *, nullable: bool = False) -> Column:
    return replace(column, nullable=nullable)


def _media_of_all(columns: Sequence[Column], joined: Column) -> Column:
    """The column, with the media type that all files have, or that says no more than what they have in common."""
    said = {column.media_type for column in columns}
    if len(said) == 1:
        return joined
    kinds = {media.partition("/")[0] for media in said if media is not None}
    if None in said or len(kinds) != 1:
        return Schema.parse({joined.name: joined.type})[0]
    return Schema.parse({joined.name: file_type(f"{kinds.pop()}/*", joined.type)})[0]


def _said_of_types(schema: Schema, sources: Sequence[Source]) -> list[str]:
    return [
        f"{column.name} has no nested type: none takes the values of all sources"
        for column in schema
        if column.type == "object" and column.nested is None
        and any(column.name in one.schema and one.schema[column.name].nested is not None for one in sources)
    ]  # fmt: skip


def _said_of_nulls(schema: Schema, sources: Sequence[Source]) -> list[str]:
    lacking = {
        name: [one.path for one in sources if name not in one.schema and one.rows != 0]
        for name in schema.names
    }
    return [
        f"{name}: null in {_listed(paths)}, which has no such column"
        for name, paths in lacking.items()
        if paths
    ]


def _listed(paths: Sequence[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{paths[0]} (and {many(len(paths) - 1, 'other')})"
