"""CRC-32C in C answers as its definition does, and as published."""

from __future__ import annotations

import numpy as np
import pytest

from unirecord.core import crc32c


def by_definition(data: bytes) -> int:
    """Bit by bit: the polynomial 0x1EDC6F41, reversed."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@pytest.mark.parametrize(
    ("data", "crc"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),  # RFC 3720, appendix B.4, and the next three
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_published_values(data: bytes, crc: int) -> None:
    assert crc32c(data) == crc


def test_every_length_and_start_agrees_with_the_definition() -> None:
    pool = np.random.default_rng(1).integers(0, 256, 80, np.uint8).tobytes()
    for length in range(60):
        for start in range(9):
            data = pool[start : start + length]
            assert crc32c(memoryview(pool)[start : start + length]) == by_definition(data)
