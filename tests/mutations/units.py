"""The digests of cells after cells have changed in place, in the scalar pages and in the index."""

from __future__ import annotations

import struct
from itertools import pairwise

from reseal import seal

from mutations.part import BLOB_PAGE, DIGESTS, GROUPS, LENGTHS, SCALAR_PAGE, STARTS, Part, Piece


def mend_units(part: Part) -> None:
    """Computes every unit's digest anew; for parts whose layout is still as it was parsed."""
    sections: dict[int, list[Piece]] = {}
    for section in part.sections:
        sections.setdefault(section.fields["kind"], []).append(section)
    if DIGESTS not in sections or GROUPS not in sections:
        return
    blobs = [page for page in part.pages if page.fields["kind"] == BLOB_PAGE]
    scalars = [page for page in part.pages if page.fields["kind"] == SCALAR_PAGE]
    if len(blobs) != len(scalars):
        return
    digests: list[int] = []
    for blob, scalar in zip(blobs, scalars, strict=True):
        found = _unit_digests(part, blob, sections)
        words = struct.pack(f"<{len(found)}Q", *found)
        if len(words) > len(scalar.content):
            return
        scalar.content[len(scalar.content) - len(words) :] = words
        digests += found
    sections[DIGESTS][0].content = bytearray(struct.pack(f"<{len(digests)}Q", *digests))


def _unit_digests(part: Part, page: Piece, sections: dict[int, list[Piece]]) -> list[int]:
    first, rows, k = page.fields["first"], page.fields["rows"], part.data_head["unit_rows"]
    payload = page.was_at + 64 + page.fields["gap"]
    starts = _starts(part, page, sections, payload)
    if k:
        bounds = [*starts, len(page.content)]
        cells = [bytes(page.content[a:b]) for a, b in pairwise(bounds)]
        return [seal(part.id, 5, first // k + number, cell) for number, cell in enumerate(cells)]
    lengths = _lengths(part, sections)
    digests = []
    for row in range(rows):
        at = starts[row]
        for number, of_column in enumerate(lengths):
            size = of_column[first + row] if isinstance(of_column, list) else of_column
            unit = (first + row) * len(lengths) + number
            digests.append(seal(part.id, 5, unit, bytes(page.content[at : at + size])))
            at += size + -size % part.data_head["alignment"]
    return digests


def _starts(part: Part, page: Piece, sections: dict[int, list[Piece]], payload: int) -> list[int]:
    """Where each row of a page starts in its payload, or the first row of each unit of several rows."""
    first, rows, width = page.fields["first"], page.fields["rows"], part.data_head["row_bytes"]
    step = max(part.data_head["unit_rows"], 1)
    if STARTS not in sections:
        return [row * width for row in range(0, rows, step)]
    places = sections[STARTS][0].content
    numbers = range(first // step, -(-(first + rows) // step))
    return [int.from_bytes(places[8 * n : 8 * n + 8], "little") - payload for n in numbers]


def _lengths(part: Part, sections: dict[int, list[Piece]]) -> list[list[int] | int]:
    """Of each blob column the lengths of its cells, or their one length."""
    varying = {section.fields["column"]: section for section in sections.get(LENGTHS, [])}
    found: list[list[int] | int] = []
    for number, entry in enumerate(part.table):
        if number in varying:
            width, content = varying[number].fields["width"], varying[number].content
            found.append(
                [int.from_bytes(content[at : at + width], "little") for at in range(0, len(content), width)]
            )
        elif entry[0] >= 30:
            found.append(int.from_bytes(entry[8:16], "little"))
    return found
