"""Bitmaps of rows: rank, select and digests as those of plain lists, pickled small, and found in bounded memory."""

from __future__ import annotations

import pickle
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unirecord
from unirecord.core import Bitmap, add_rows, empty_words
from unirecord.order.selection import FoundRows, Selection


def bitmap_of(rows: list[int], bits: int) -> Bitmap:
    words = empty_words(bits)
    add_rows(words, bits, np.array(rows, np.int64))
    return Bitmap(words, bits)


@st.composite
def row_sets(draw: st.DrawFn) -> tuple[int, list[int]]:
    bits = draw(st.integers(0, 1300))
    share, seed = draw(st.floats(0, 1)), draw(st.integers(0, 99))
    return bits, np.flatnonzero(np.random.default_rng(seed).random(bits) < share).tolist()


@settings(max_examples=150)
@given(row_sets())
def test_a_bitmap_answers_as_a_list_does(case: tuple[int, list[int]]) -> None:
    bits, rows = case
    bitmap = bitmap_of(rows, bits)
    every = np.arange(bits + 1)
    assert len(bitmap) == len(rows)
    assert bitmap.select(np.arange(len(rows))).tolist() == rows == bitmap.range(0, len(rows)).tolist()
    assert bitmap.rank(every).tolist() == np.searchsorted(rows, every).tolist()
    assert np.flatnonzero(bitmap.contains(every[:-1])).tolist() == rows
    again = pickle.loads(pickle.dumps(bitmap))
    assert again.range(0, len(rows)).tolist() == rows


@settings(max_examples=60)
@given(row_sets(), st.slices(1300))
def test_a_bitmap_and_an_array_of_the_same_rows_are_the_same_selection(
    case: tuple[int, list[int]], cut: slice
) -> None:
    bits, rows = case
    held = Selection(bits, bitmap=bitmap_of(rows, bits)).select(cut)
    as_array = Selection(bits)
    as_array.array, as_array.length = np.array(rows, np.int64)[cut], len(rows[cut])
    if held.is_range:
        return
    assert held.digest() == as_array.digest()
    again = pickle.loads(pickle.dumps(held))
    assert again == held
    assert again.every().tolist() == rows[cut]
    asked = np.arange(bits)
    for ours, theirs in zip(held.places(asked), as_array.places(asked), strict=True):
        assert ours.tolist() == theirs.tolist()


def test_numbers_that_are_not_there_are_refused() -> None:
    bitmap = bitmap_of([1, 5], 10)
    for wrong in ([2], [-1]):
        with pytest.raises(IndexError, match="of 10 rows, 2 are selected"):
            bitmap.select(np.array(wrong))
    with pytest.raises(IndexError, match="no row 2"):
        bitmap.one(2)
    with pytest.raises(IndexError, match="no 3 rows from 0 on"):
        bitmap.range(0, 3)
    with pytest.raises(IndexError, match="there is no row 10: there are 10"):
        add_rows(empty_words(10), 10, np.array([3, 10]))
    with pytest.raises(ValueError, match="beyond the last one"):
        Bitmap(np.array([1 << 10], np.uint64), 10)


@pytest.mark.parametrize("share", [0.5, 0.05, 1.0])
def test_a_bitmap_takes_less_than_a_third_of_a_bit_more_than_its_rows(share: float) -> None:
    n = 1 << 20
    rows = np.flatnonzero(np.random.default_rng(1).random(n) < share)
    assert bitmap_of(rows, n).nbytes * 8 <= 1.3 * n


def test_the_smaller_of_array_and_bitmap_is_held() -> None:
    n = 1 << 20
    random = np.random.default_rng(2)
    half, few = (np.flatnonzero(random.random(n) < share) for share in (0.5, 0.001))
    dense, sparse = Selection(n).select(half), Selection(n).select(few)
    assert dense.nbytes * 8 <= 1.3 * n
    assert sparse.nbytes == 8 * len(few)
    assert dense.select(slice(None, None, -1)).bitmap is dense.bitmap is dense.skip(9).bitmap
    assert dense.take(0).nbytes == 0
    shuffled = dense.select(random.permutation(len(half)))
    assert shuffled.nbytes == 8 * len(half)
    assert dense.take(100).nbytes <= 800
    assert len(pickle.dumps(dense)) < n // 8 * 1.1
    assert len(pickle.dumps(Selection(n).select(np.flatnonzero(np.arange(n) % 64 < 32)))) < n // 200


@settings(max_examples=40)
@given(row_sets(), st.lists(st.integers(0, 1300), max_size=6))
def test_rows_found_piece_by_piece_in_any_order(case: tuple[int, list[int]], cuts: list[int]) -> None:
    bits, rows = case
    pieces = np.split(np.array(rows, np.int64), sorted(cut for cut in cuts if cut <= len(rows)))
    found = FoundRows(bits)
    for piece in reversed(pieces):
        found.add(piece)
    every = found.all()
    assert (every.range(0, len(every)) if isinstance(every, Bitmap) else every).tolist() == rows


def test_threads_find_rows_of_the_same_word() -> None:
    n, threads = 1 << 16, 4
    words = empty_words(n)
    shares = [np.arange(k, n, threads) for k in range(threads)]
    workers = [threading.Thread(target=add_rows, args=(words, n, share)) for share in shares]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert Bitmap(words, n).ones == n


def test_where_takes_memory_for_bits_not_for_row_numbers(tmp_path: Path) -> None:
    n = 900_000  # one thread; 7.2 MB as numbers
    with unirecord.Writer(tmp_path / "n.urec", {"i": "int32"}) as writer:
        writer.write_batch({"i": np.arange(n, dtype=np.int32)})
    with unirecord.UniRecordDataset(tmp_path / "n.urec") as ds:
        ds.view(where="i < 5")  # imports what it needs
        tracemalloc.start()
        chosen = ds.view(where="i % 3 != 0")
        kept, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(chosen) == n - n // 3
        assert kept < n // 4
        assert peak < 6_000_000
        shuffled = chosen.view(shuffle=True, seed=3)
        batch = next(iter(shuffled.batches(64)))
        assert batch["i"].tolist() == shuffled.order.row_ids(0, 64).tolist()
        assert all(value % 3 for value in batch["i"].tolist())
