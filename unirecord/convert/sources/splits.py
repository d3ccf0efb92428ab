"""Files and folders that by their names are parts of a split (train, val, test)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Final

from ...errors import SchemaError

__all__ = ["SPLITS", "refuse_split_files"]

SPLITS: Final = {
    "train": "train", "training": "train",
    "val": "val", "valid": "val", "validation": "val", "dev": "val", "eval": "val",
    "test": "test", "testing": "test", "holdout": "test",
}  # fmt: skip
_FIRST_WORD: Final = re.compile(r"([A-Za-z]+)(?=[-_.0-9])")


def refuse_split_files(path: str, files: Iterable[str]) -> None:
    """Raise `SchemaError` when files that would become one dataset are train and test by their names."""
    found: dict[str, str] = {}
    for name in files:
        word = _FIRST_WORD.match(os.path.basename(name))
        role = SPLITS.get(word[1].lower()) if word else None
        if role is None:
            return
        found.setdefault(role, os.path.join(os.path.dirname(name), f"{word[1] if word else ''}*"))
    if len(found) > 1:
        steps = " and ".join(f"`unirecord write '{pattern}' {role}`" for role, pattern in found.items())
        raise SchemaError(
            f"{path}: by their names the files are parts of a split ({', '.join(found)}); write each to a dataset of "
            f"its own: {steps}"
        )
