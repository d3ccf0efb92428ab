"""One layer of a snapshot, opened: the C core's set of its files, what brings their bytes, and the cache of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..core import NativeSet
from ..storage.registry import location_of
from ..storage.storage_options import StorageOptions, use_storage
from .cache_options import CacheOptions, default_cache
from .cached import CachedParts, file_of
from .column_layers import Layer
from .fetched import Fetcher, fetch_for
from .part import Part
from .part_refs import ListedRefs, PartRef, core_refs
from .read_ahead import ReadAhead

__all__ = ["OpenedLayer"]


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
            fetch, sizes = _fetch_for(refs, verify != "never")
        if fetch is not None and io != "auto":
            raise ValueError(
                f'io is {io!r}, a way of reading files; an object store is read with "auto" alone'
            )
        if cache is None and fetch is not None:
            cache = default_cache()
        self.layer = layer
        self.is_fetched: bool = fetch is not None
        self.cache_options = cache
        self.cached: CachedParts | None = _cached(layer, cache, fetch, sizes)
        self.ahead: ReadAhead | None = None if fetch is None else fetch.ahead
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
            sizes,
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


def _fetch_for(refs: Sequence[PartRef], checked: bool) -> tuple[Fetcher | None, Sequence[tuple[int, int]]]:
    if isinstance(refs, ListedRefs) and location_of(refs.paths.folder).in_file_system:
        return None, ()
    return fetch_for(
        [(ref.path, ref.bytes, ref.index_bytes) for ref in refs], [ref.beginnings for ref in refs], checked
    )


def _moved_on(has_moved_on: Callable[[], bool], fetch: Fetcher | None, path: str | None) -> str:
    """What has been put in the place of the parts, or of the file at ``path``; "" for nothing."""
    if has_moved_on():
        return "another dataset has been published here"
    if fetch is not None and path is not None and fetch.has_changed(path):
        return "the object has been replaced"
    return ""


def _cached(
    layer: Layer, cache: CacheOptions | None, fetch: Fetcher | None, sizes: Sequence[tuple[int, int]]
) -> CachedParts | None:
    """The files as a cache has them. ValueError for files on a disk."""
    if cache is None or not layer.refs:
        return None
    if fetch is None:
        raise ValueError(
            f"{layer.refs[0].path} is on a disk: cache= is for what is read from an object store"
        )
    files = [
        file_of(path, ref, size)
        for ref, both in zip(layer.refs, sizes, strict=True)
        for path, size in zip((ref.path, ref.path + ".idx"), both, strict=True)
    ]
    known = all(ref.id is not None and ref.content for ref in layer.refs)
    return CachedParts(cache, files, fetch, fetch.heads if known else lambda part: ())
