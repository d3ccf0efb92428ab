"""Several sets with the same rows, read as one with columns of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from .fetching import Fetching
from .handle import Handle
from .library import ffi, lib
from .parts import NativePart, NativeSet

__all__ = ["JoinedSet"]


class JoinedSet(NativeSet):
    """The rows of ``layers``, which have as many parts and rows in each: column i is ``places[i]``, (layer, column).

    Opens a part of each layer; the errors of a layer name its files.
    """

    paths: Sequence[str]
    names: tuple[str, ...]

    layers: tuple[NativeSet, ...]
    places: tuple[tuple[int, int], ...]

    __slots__ = ("layers", "places")

    def __init__(self, layers: Sequence[NativeSet], places: Sequence[tuple[int, int]]) -> None:
        self.layers, self.places = tuple(layers), tuple(places)
        self.paths, self.names = layers[0].paths, ()
        self.moved_on: Callable[[str | None], str] = layers[0].moved_on
        self.fetching: tuple[Fetching, ...] = tuple(
            fetching for layer in layers for fetching in layer.fetching
        )
        out, error = ffi.new("ur_set **"), ffi.new("ur_error *")
        sets = ffi.new("ur_set *[]", [layer.pointer for layer in layers])
        columns = ffi.new("ur_joined_column[]", list(places))
        if lib.ur_set_join(sets, len(layers), columns, len(places), out, error) != lib.UR_OK:
            self.fail(error)
        self.pointer: Any = out[0]
        self.handle: Handle = Handle(out[0], lib.ur_set_release, *(layer.handle for layer in layers))

    def fail(self, error: Any) -> NoReturn:
        """Raises what a failed call on this set says."""
        for fetching in self.fetching:
            fetching.raise_kept()
        layer = 0
        if 0 <= error.column < len(self.places):
            layer, error.column = self.places[error.column]
        self.layers[layer].fail(error)

    def part(self, number: int) -> NativePart:
        """Part ``number`` of the first layer, opened if need be."""
        return self.layers[0].part(number)

    def advise(self, rows: npt.NDArray[np.int64]) -> None:
        """Tells the kernel, or what reads ahead, that the blobs of these rows will be read soon."""
        lib.ur_set_advise(self.pointer, ffi.from_buffer("int64_t[]", rows), len(rows))
