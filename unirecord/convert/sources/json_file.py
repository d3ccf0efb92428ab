"""A JSON file that lists the pieces of a dataset: read within a bound, an object or an error that names it."""

from __future__ import annotations

import json
from typing import Any, Final

from ...errors import SchemaError
from .input_path import InputPath

__all__ = ["json_object"]

_MOST_BYTES: Final = 1_000_000_000


def json_object(file: InputPath) -> dict[str, Any]:
    """Return the object that a file holds; `SchemaError` says why there is none."""
    with file.open() as stream:
        text = stream.read(_MOST_BYTES + 1)
    if len(text) > _MOST_BYTES:
        raise SchemaError(f"{file.name} is larger than 1 GB, which is no list of files")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"{file.name} is not valid JSON: {error}") from None
    if not isinstance(found, dict):
        raise SchemaError(f"{file.name} holds {type(found).__name__}, not an object")
    return found
