"""Fields of a manifest: numbers, hex digits and names of parts, strictly checked."""

from __future__ import annotations

import re
from typing import Any, Final

from ..errors import FormatError

__all__ = ["DELETION_ENDING", "MOST", "PART_NAME", "checked_hex", "checked_number", "checked_part"]

MOST: Final = (1 << 63) - 1
# Numbers in names have six digits, or as many as they need: a number has one name.
PART_NAME: Final = re.compile(r"part-([0-9]{6}|[1-9][0-9]{6,11})-([0-9a-f]{8})\.urec")
DELETION_ENDING: Final = re.compile(r"\.del-([0-9]{6}|[1-9][0-9]{6,17})")  # behind the name of the part
_HEX: Final = re.compile(r"[0-9a-f]{32}")


def checked_number(value: Any, what: str, least: int = 0) -> int:
    """A number from ``least``; ValueError for anything else."""
    if type(value) is not int or not least <= value <= MOST:
        raise ValueError(f"{what} is {value!r}; expected a number from {least}")
    return value


def checked_hex(value: Any, what: str) -> str:
    """The hex digits of an id or a wide digest; FormatError for anything else."""
    if type(value) is not str or not _HEX.fullmatch(value):
        raise FormatError(f"{what} is {value!r}; expected 32 lower-case hex digits")
    return value


def checked_part(name: Any, part_id: Any, next_part: int) -> tuple[str, bytes]:
    """File name and id of a part, which go together; ValueError, or FormatError, where they do not."""
    match = PART_NAME.fullmatch(name) if type(name) is str else None
    if match is None:
        raise ValueError(f"{name!r} is not the name of a part (part-NUMBER-ID.urec)")
    checked_hex(part_id, "id of a part")
    if not part_id.startswith(match[2]) or int(match[1]) >= next_part:
        raise ValueError(
            f"the name {name} does not go with the part's id {part_id} and next_part {next_part}"
        )
    return name, bytes.fromhex(part_id)
