"""Which files the columns of a snapshot are read from, and one layer of these, opened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..core import NativeSet
from ..format import metadata
from ..format.schema import Schema
from ..storage.storage_options import StorageOptions, use_storage
from .cache import CachedParts, CacheOptions, default_cache, file_of
from .part import Part
from .prefetch import Fetcher, PrefetchedRuns, fetch_for
from .snapshot import ListedRefs, PartRef, Snapshot, core_refs

__all__ = [
    "Layer",
    "OpenedLayer",
    "Stored",
    "layers_of",
    "places_in",
]


# Which files the columns of a snapshot are read from: layers, each with one file of every part and columns of it.


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


# One layer of a snapshot, opened: the C core's set of its files, what brings their bytes, and the cache of them.


class OpenedLayer:
    """A layer whose files can be read. Thread-safe; usable after fork.

    ``data_bytes``: of the data files of all layers, for ``io="auto"`` to compare with memory. ``moved_on``: whether
    another dataset has been put in this one's place since, asked when a file is missing or another one.

    Raises:
        ValueError: ``io`` or ``cache`` is given that is not for where the files are.
    """

    def __init__(
        self,
        layer: Layer,
        io: str,
        verify: str,
        cache: CacheOptions | None,
        storage: StorageOptions | None,
        data_bytes: int,
        moved_on: Callable[[], bool],
    ) -> None:
        refs = layer.refs
        with use_storage(storage):
            fetch = _fetch_for(refs, verify != "never")
        if fetch is not None and io != "auto":
            raise ValueError(
                f'io is {io!r}, a way of reading files; an object store is read with "auto" alone'
            )
        if cache is None and fetch is not None:
            cache = default_cache()
        self.layer = layer
        self.is_fetched: bool = fetch is not None
        self.cache_options = cache
        self.cached: CachedParts | None = _cached(layer, cache, fetch)
        self.ahead: PrefetchedRuns | None = None if fetch is None else fetch.ahead
        self.native: NativeSet = NativeSet(
            core_refs(refs),
            io,
            verify,
            layer.schema.names,
            data_bytes,
            layer.schema.column_table(),
            lambda path: _moved_on(moved_on, fetch, path),
            layer.packed_schema,
            fetch if self.cached is None else self.cached.fetch,
            None if fetch is None else fetch.sizes,
            None if self.cached is None else self.cached.table,
            None if fetch is None else fetch.read_ahead,
            layouts=[stored.columns for stored in layer.stored],
            of_parts=layer.of_parts,
        )

    def part(self, number: int) -> Part:
        """The file of part ``number``, opened if need be."""
        ref, stored = self.layer.refs[number], self.layer.stored_in(number)
        return Part(self.native.part(number), ref.path, self.layer.schema, stored.schema, stored.columns)

    def close(self) -> None:
        """Closes the files, and keeps nothing more in the cache."""
        self.native.close()
        if self.ahead is not None:
            self.ahead.clear()
        if self.cached is not None:
            self.cached.close()


def _fetch_for(refs: Sequence[PartRef], checked: bool) -> Fetcher | None:
    if isinstance(refs, ListedRefs):
        fields = refs.fields
        return fetch_for(refs.paths, np.stack([fields.bytes, fields.index_bytes], axis=1), checked=checked)
    sizes = np.array([(ref.bytes, ref.index_bytes) for ref in refs], np.int64).reshape(-1, 2)
    return fetch_for([ref.path for ref in refs], sizes, [ref.beginnings for ref in refs], checked)


def _moved_on(has_moved_on: Callable[[], bool], fetch: Fetcher | None, path: str | None) -> str:
    """What has been put in the place of the parts, or of the file at ``path``; "" for nothing."""
    if has_moved_on():
        return "another dataset has been published here"
    if fetch is not None and path is not None and fetch.has_changed(path):
        return "the object has been replaced"
    return ""


def _cached(layer: Layer, cache: CacheOptions | None, fetch: Fetcher | None) -> CachedParts | None:
    """The files as a cache has them. ValueError for files on a disk."""
    if cache is None or not layer.refs:
        return None
    if fetch is None:
        raise ValueError(
            f"{layer.refs[0].path} is on a disk: cache= is for what is read from an object store"
        )
    files = [
        file_of(path, ref, size)
        for ref, both in zip(layer.refs, fetch.sizes.tolist(), strict=True)
        for path, size in zip((ref.path, ref.path + ".idx"), both, strict=True)
    ]
    known = all(ref.id is not None and ref.content for ref in layer.refs)
    return CachedParts(cache, files, fetch, fetch.heads if known else lambda part: ())
