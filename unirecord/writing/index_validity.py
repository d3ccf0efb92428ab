"""What the index holds of the validity of a column: packed bits, and how many values are null."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..format import layout

Array = npt.NDArray[Any]


class ValidityBits:
    """Packs validity to bits across blocks."""

    def __init__(self) -> None:
        self._carry = np.zeros(0, bool)

    def push(self, valid: npt.NDArray[np.bool_], last: bool) -> Array:
        bits = np.concatenate([self._carry, valid])
        whole = len(bits) if last else len(bits) // 8 * 8
        self._carry = bits[whole:]
        return np.packbits(bits[:whole], bitorder="little")


class BlobValidity:
    """A nullable blob column, of which the index holds the validity alone."""

    def __init__(self) -> None:
        self._bits = ValidityBits()
        self._nulls = 0

    def observe(self, valid: npt.NDArray[np.bool_]) -> None:
        self._nulls += int(len(valid) - np.count_nonzero(valid))

    def sections(self, rows: int) -> dict[int, tuple[int, int, int]]:
        return {layout.SECTION_VALIDITY: (1, -(-rows // 8), 0)}

    def packed(self, valid: npt.NDArray[np.bool_], last: bool) -> Array:
        """The bytes that a block adds to the section."""
        return self._bits.push(valid, last)

    def statistics(self) -> dict[str, Any]:
        return {"nulls": self._nulls}
