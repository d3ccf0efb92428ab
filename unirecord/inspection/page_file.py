"""A page is written to a file whole or not at all, and only in place of an earlier page."""

from __future__ import annotations

from ..errors import ExistsError
from ..storage.registry import location_of
from ..storage.staged import StagedFile
from .markup import BEGINNING

__all__ = ["write_page"]


def write_page(content: bytes, target: str) -> int:
    """Writes a page to the file ``target``, whole or not at all; returns its bytes.

    ExistsError where something is that is no page of this package; an earlier one is replaced.
    """
    there = location_of(target)
    if not there.in_file_system or (
        there.is_taken(target) and there.read(target, len(BEGINNING)) != BEGINNING
    ):
        raise ExistsError(
            f"{target} is there and is no report, or is no file of this machine; give another name"
        )
    file = StagedFile(target)
    try:
        file.append([content])
        file.sync()
        file.publish()
    finally:
        file.discard()
    return len(content)
