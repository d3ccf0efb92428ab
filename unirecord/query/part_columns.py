"""The scalar columns of a part's mapped index, as a query reads them: views, each checked where it is touched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .source import ColumnSource


def columns_of(parts: Any) -> Sequence[ColumnSource]:
    """The columns of each part of a `PartSet`, opened when first needed; a sequence of sources stays as it is."""
    return list(parts)
