"""Rows in the order of a column of strings: as Python orders their bytes, wherever the strings are."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unirecord import Writer
from unirecord.core import StringPiece, order_of_strings, ranks_of_strings, take_strings
from unirecord.inspect.statistics import sorted_rows
from unirecord.query.columns import Strings, Vector
from unirecord.query.ordered import rows_in_order, text_piece
from unirecord.snapshot.dataset_path import resolve
from unirecord.snapshot.part_set import PartSet

BYTES = st.lists(st.sampled_from([b"\0", b"a", b"b", b"\xff"]), max_size=30).map(b"".join)
TEXTS = st.one_of(
    BYTES, BYTES.map(b"some/prefix/of/all/".__add__), st.sampled_from([b"", b"\0", b"\0" * 7, b"a" * 60])
)
PIECES = st.lists(st.lists(TEXTS, max_size=40), max_size=4)


def strings(texts: Sequence[bytes]) -> Strings:
    offsets = np.array([0, *accumulate(map(len, texts))], np.uint64)
    return Strings(Vector(offsets), Vector(np.frombuffer(b"".join(texts), np.uint8)))


@given(pieces=PIECES, data=st.data())
def test_a_rank_is_the_number_of_lesser_strings(pieces: list[list[bytes]], data: st.DataObject) -> None:
    found: list[StringPiece] = []
    added: list[bytes] = []
    for piece in pieces:
        whole = strings(piece)
        for _ in range(data.draw(st.integers(1, 2))):
            if data.draw(st.booleans()):
                rows = (
                    data.draw(st.lists(st.integers(0, len(piece) - 1), unique=True).map(sorted))
                    if piece
                    else []
                )
                found.append(text_piece(whole, 0, len(piece), np.array(rows, np.int64)))
                added += [piece[row] for row in rows]
            else:
                start = data.draw(st.integers(0, len(piece)))
                found.append(text_piece(whole, start, len(piece)))
                added += piece[start:]
    ordered = sorted(added)
    assert ranks_of_strings(found).tolist() == [bisect_left(ordered, text) for text in added]
    assert [added[number] for number in order_of_strings(found)] == ordered


@pytest.mark.parametrize("letters", [b"a", b"ab", b"\0a\xff", bytes(range(256))])
@pytest.mark.parametrize("longest", [3, 8, 60])
def test_thousands_of_strings_are_in_order(letters: bytes, longest: int) -> None:
    random = Random(longest)
    drawn = [bytes(random.choices(letters, k=random.randint(0, longest))) for _ in range(5_000)]
    texts = [
        some + text for some, text in zip(random.choices([b"", b"of/many/"], k=5_000), drawn, strict=True)
    ]
    found = order_of_strings([text_piece(strings(texts), 0, len(texts))])
    assert [texts[number] for number in found] == sorted(texts)


def test_strings_that_begin_alike_take_time_by_their_bytes() -> None:
    """Each is the beginning of the next one: told apart one by one, with as many steps between."""
    texts = [b"a" * (7 * number) for number in range(2_000)] + [
        b"b" * 100_000 + b"%d" % i for i in range(200)
    ]
    Random(0).shuffle(texts)
    began = time.thread_time()
    found = order_of_strings([text_piece(strings(texts), 0, len(texts))])
    assert time.thread_time() - began < 5  # a few tenths
    assert [texts[number] for number in found] == sorted(texts)


def test_offsets_out_of_bounds_or_descending_are_no_way_out_of_the_bytes() -> None:
    wrong = Strings(
        Vector(np.array([0, 9, 2, 2**63, 1], np.uint64)), Vector(np.frombuffer(b"abcde", np.uint8))
    )
    found = ranks_of_strings([text_piece(wrong, 0, 4)])
    assert found.tolist() == [2, 0, 3, 0]  # abcde, nothing, cde, nothing
    nothing = Strings(Vector(np.array([0, 9], np.uint64)), Vector(np.zeros(0, np.uint8)))
    assert ranks_of_strings([text_piece(nothing, 0, 1)]).tolist() == [0]
    data = np.frombuffer(b"abcde", np.uint8)
    for start, stop in ((-1, 2), (2, 1), (3, 6)):
        with pytest.raises(ValueError, match="leads out"):
            order_of_strings([(data, np.array([start]), np.array([stop]))])
    for chosen in (-1, 2):
        with pytest.raises(IndexError, match="2 strings"):
            take_strings(data, np.array([0, 1, 5]), np.array([0, chosen]))
    assert take_strings(data, np.array([0, 1, 5]), np.array([1, 0, 1]))[0].tobytes() == b"bcdeabcde"


def test_parts_with_dictionaries_and_without_are_one_order(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    texts: list[str | None] = []
    for number in range(5):
        kinds = 6 if number % 2 == 0 else 10**6  # few are put in a dictionary
        drawn = random.integers(0, kinds, 500).tolist()
        part: list[str | None] = [
            None if i % 50 == 7 else f"name-{value:x}-é" for i, value in enumerate(drawn)
        ]
        with Writer(tmp_path / f"{number}.urec", {"t": "string?", "n": "int32"}) as writer:
            for i, text in enumerate(part):
                writer.write({"t": text, "n": i % 3})
        texts += part
    parts = PartSet(resolve(str(tmp_path / "*.urec")))
    encoded = [None if text is None else text.encode() for text in texts]
    rows = [row for row, text in enumerate(encoded) if text is not None]
    nulls = [row for row, text in enumerate(encoded) if text is None]
    ascending = sorted(rows, key=lambda row: encoded[row] or b"")
    assert sorted_rows(parts, None, [("t", False)]).tolist() == ascending + nulls
    assert rows_in_order(parts, "t").tolist() == ascending + nulls
    assert sorted_rows(parts, None, [("t", False)], most=40).tolist() == ascending[:40]
    for step in (3, 90):  # many, and so few that they are read one by one
        chosen = np.arange(0, len(texts), step, dtype=np.int64)
        expected = [row for row in ascending if row % step == 0] + [row for row in nulls if row % step == 0]
        assert sorted_rows(parts, chosen, [("t", False)]).tolist() == expected
        assert rows_in_order(parts, "t", among=chosen).tolist() == expected
    by_two = sorted(rows, key=lambda row: (row % 500 % 3, encoded[row] or b""))
    assert [
        r for r in sorted_rows(parts, None, [("n", False), ("t", False)]).tolist() if r in set(rows)
    ] == by_two
