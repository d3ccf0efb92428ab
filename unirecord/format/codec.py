"""How the cells of a blob column are compressed: what a schema says, and what the column table holds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from ..core import CODEC_SHUFFLE_ZSTD, CODEC_ZSTD
from .layout import MAX_EXPANSION_BITS

__all__ = ["Codec", "impossible_sizes"]

_CODES: Final = {"zstd": CODEC_ZSTD, "shuffle+zstd": CODEC_SHUFFLE_ZSTD}
_NAMES: Final = {code: name for name, code in _CODES.items()}
_SPEC: Final = re.compile(r"(zstd|shuffle\+zstd)(?::([0-9]{1,2}))?")
_USUAL_LEVEL: Final = 3
_LEVELS: Final = range(1, 23)


@dataclass(frozen=True)
class Codec:
    """A codec by its code in the column table; ``level`` is the writer's own affair, and is not stored."""

    code: int
    level: int = _USUAL_LEVEL

    @classmethod
    def parse(cls, text: object) -> Codec:
        """The codec that a schema names by ``text``, such as "zstd:9"; ValueError says what there is."""
        match = _SPEC.fullmatch(text) if isinstance(text, str) else None
        if match is None or (match[2] is not None and int(match[2]) not in _LEVELS):
            raise ValueError(
                f'unknown codec {text!r}; there are "zstd", and for arrays "shuffle+zstd", '
                f'with a level from 1 to {_LEVELS[-1]} if wanted, as in "zstd:9"'
            )
        return cls(_CODES[match[1]], int(match[2] or _USUAL_LEVEL))

    @property
    def name(self) -> str:
        """Its name; of a codec of a later version, its number."""
        return _NAMES.get(self.code, f"codec {self.code}")

    def spec_for(self, element_bytes: int) -> str:
        """What `parse` takes where elements have ``element_bytes``: there is nothing to shuffle in one byte."""
        name = _NAMES[CODEC_ZSTD] if self.shuffles and element_bytes == 1 else self.name
        return name if self.level == _USUAL_LEVEL else f"{name}:{self.level}"

    @property
    def shuffles(self) -> bool:
        """Whether the bytes of elements are put in order of their place first."""
        return self.code == CODEC_SHUFFLE_ZSTD

    @property
    def is_known(self) -> bool:
        """Whether this version can read it."""
        return self.code in _NAMES


def impossible_sizes(stored: npt.NDArray[np.uint64], raw: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Which cells of ``stored`` bytes cannot be values of ``raw`` bytes, whatever is in them."""
    frames = (stored > 0) & (stored < raw) & (raw >> np.uint64(MAX_EXPANSION_BITS) <= stored)
    wrong: npt.NDArray[np.bool_] = ~(frames | (stored == raw))
    return wrong
