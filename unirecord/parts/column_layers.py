"""Which files the columns of a snapshot are read from: layers, each with one file of every part and columns of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..format import metadata
from ..format.schema import Schema
from .snapshot import PartRef, Snapshot

__all__ = ["Layer", "Stored", "layers_of", "places_in"]


@dataclass(frozen=True)
class Stored:
    """What a file of a layer stores: the schema that it was written with, and where in it the layer's columns are."""

    schema: Schema
    columns: tuple[int, ...]


@dataclass(frozen=True)
class Layer:
    """Columns of the dataset that lie in one file of each part.

    Attributes:
        columns: their ordinals in the dataset's schema.
        schema: the schema of these alone.
        refs: the file of each part.
        stored: what files store, where that is not the schema, in its order and with its names.
        of_parts: for each part 0, or n where its file is as ``stored[n - 1]`` says.
        packed_schema: what the metadata of the other files says, or b"" where that is not to be compared.
    """

    columns: tuple[int, ...]
    schema: Schema
    refs: Sequence[PartRef]
    stored: tuple[Stored, ...] = ()
    of_parts: tuple[int, ...] = ()
    packed_schema: bytes = b""

    def stored_in(self, part: int) -> Stored:
        """What the file of this part stores."""
        number = self.of_parts[part] if self.of_parts else 0
        return self.stored[number - 1] if number else Stored(self.schema, tuple(range(len(self.schema))))


def layers_of(snapshot: Snapshot) -> tuple[Layer, ...]:
    """As few layers as possible; one, of all columns, where no part has a layout. The first has the first column."""
    schema = snapshot.schema
    packed = metadata.packed_schema(schema) if snapshot.one_schema else b""
    if not snapshot.layouts:
        return (Layer(tuple(range(len(schema))), schema, snapshot.parts, packed_schema=packed),)
    together: dict[tuple[int, ...], list[int]] = {}
    for column in range(len(schema)):
        together.setdefault(tuple(layout.columns[column][0] for layout in snapshot.layouts), []).append(
            column
        )
    return tuple(_layer(snapshot, tuple(columns), packed) for columns in together.values())


def _layer(snapshot: Snapshot, columns: tuple[int, ...], packed: bytes) -> Layer:
    schema = snapshot.schema
    stored, files = [], []
    for layout in snapshot.layouts:
        file = layout.columns[columns[0]][0]
        files.append(file)
        stored.append(Stored(layout.files[file], tuple(layout.columns[column][1] for column in columns)))
    plain = 0
    if len(columns) < len(schema):  # of parts that have all columns in one file, some are read
        stored.append(Stored(schema, columns))
        plain, packed = len(stored), b""
    refs = (
        part if not part.layout else (part, *part.files)[files[part.layout - 1]] for part in snapshot.parts
    )
    return Layer(
        columns,
        Schema(schema.columns[column] for column in columns),
        tuple(refs),
        tuple(stored),
        tuple(part.layout or plain for part in snapshot.parts),
        packed,
    )


def places_in(layers: Sequence[Layer]) -> list[tuple[int, int]]:
    """For each column of the dataset the number of its layer, and its ordinal there."""
    places = {
        column: (number, i) for number, layer in enumerate(layers) for i, column in enumerate(layer.columns)
    }
    return [places[column] for column in range(len(places))]
