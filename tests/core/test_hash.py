"""XXH3-64 and XXH3-128 in C answer as the xxhash package does, length by length."""

from __future__ import annotations

import random

import numpy as np
import pytest
import xxhash

from unirecord._core import ffi, lib
from unirecord.core import digest_ranges, wide_digests, xxh3_128

SEEDS = [0, 1, 0x9E3779B97F4A7C15, 2**32, 2**63, 2**64 - 1]
POOL = random.Random(7).randbytes((1 << 20) + 64)


def digest(data: bytes, start: int, length: int, seed: int) -> int:
    return lib.ur_xxh3_64(ffi.from_buffer(data) + start, length, seed)


def wide(data: bytes, seed: int) -> bytes:
    return int(xxhash.xxh3_128_intdigest(data, seed)).to_bytes(16, "little")


def u64(array: np.ndarray) -> object:
    return ffi.from_buffer("uint64_t[]", array)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_length_up_to_2048_gives_the_published_digest(seed: int) -> None:
    for length in range(2049):
        expected = xxhash.xxh3_64_intdigest(POOL[:length], seed)
        assert digest(POOL, 0, length, seed) == expected, f"length {length}"
        assert xxh3_128(POOL[:length], seed) == wide(POOL[:length], seed), f"length {length}"


def test_random_lengths_starts_and_seeds_give_the_published_digest() -> None:
    draw = random.Random(11)
    for _ in range(2000):
        start, seed = draw.randrange(64), draw.getrandbits(64)
        length = draw.choice([draw.randrange(300), draw.randrange(1 << 14), draw.randrange(1 << 20)])
        expected = xxhash.xxh3_64_intdigest(POOL[start : start + length], seed)
        assert digest(POOL, start, length, seed) == expected
        piece = POOL[start : start + length]
        assert xxh3_128(piece, seed) == wide(piece, seed)


def test_lengths_around_block_boundaries_give_the_published_digest() -> None:
    for length in {
        1024 * blocks + extra for blocks in range(1, 40) for extra in (-65, -64, -1, 0, 1, 63, 64, 65)
    }:
        assert digest(POOL, 3, length, 5) == xxhash.xxh3_64_intdigest(POOL[3 : 3 + length], 5)
        assert xxh3_128(POOL[3 : 3 + length], 5) == wide(POOL[3 : 3 + length], 5)


def test_constant_inputs_give_the_published_digest() -> None:
    for fill in (0x00, 0xFF, 0x80):
        data = bytes([fill]) * 5000
        for length in (*range(300), 1023, 1024, 1025, 5000):
            assert digest(data, 0, length, 2**64 - 1) == xxhash.xxh3_64_intdigest(data[:length], 2**64 - 1)
            assert xxh3_128(data[:length], 2**64 - 1) == wide(data[:length], 2**64 - 1)


def test_ranges_are_digested_each_with_its_own_seed() -> None:
    draw = random.Random(13)
    count, first, step = 500, 2**64 - 17, 0x9E3779B97F4A7C15
    sizes = [0, 1, 7, 64, 240, 241, 4096, 8999]
    starts = np.array([draw.randrange(1 << 19) for _ in range(count)], np.uint64)
    lengths = np.array([draw.choice(sizes) for _ in range(count)], np.uint64)
    alone = digest_ranges(POOL, starts, lengths, first, step)
    digests, both = wide_digests(POOL, starts, lengths, first, step)
    for i in range(count):
        start, stop, seed = int(starts[i]), int(starts[i] + lengths[i]), (first + i * step) % 2**64
        expected = xxhash.xxh3_64_intdigest(POOL[start:stop], seed)
        assert int(digests[i]) == int(alone[i]) == expected
        assert both[i].tobytes() == wide(POOL[start:stop], seed)


def test_empty_ranges_need_no_data() -> None:
    zeros, digests = np.zeros(2, np.uint64), np.zeros(2, np.uint64)
    lib.ur_digest_ranges(ffi.NULL, u64(zeros), u64(zeros), 2, 9, 1, u64(digests), ffi.NULL)
    assert [int(d) for d in digests] == [xxhash.xxh3_64_intdigest(b"", seed) for seed in (9, 10)]
