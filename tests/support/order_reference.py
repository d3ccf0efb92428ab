"""The orders of an epoch, row by row in plain Python from docs/spec/order.md: the oracle of the tests of order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import xxhash

MASK32, MASK64 = (1 << 32) - 1, (1 << 64) - 1
TABLE_ROWS, ROUNDS, TABLE_ROUND = 2048, 12, 255
ROWS, BLOCKS, WINDOW, PARTS, PART = 1, 2, 3, 4, 5

Map = Callable[[int], int]


def derive(seed: int, epoch: int, domain: int, number: int, round_: int) -> int:
    words = (seed, epoch, number, domain << 8 | round_)
    return int(xxhash.xxh3_64_intdigest(b"".join(word.to_bytes(8, "little") for word in words)))


class Generator:
    """Uniform numbers below a bound, from a counter that is hashed."""

    def __init__(self, state: int) -> None:
        self.state = state

    def word(self) -> int:
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK64
        z = self.state
        z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK64
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK64
        return (z ^ z >> 31) >> 32

    def below(self, bound: int) -> int:
        while True:
            product = self.word() * bound
            if product & MASK32 >= (1 << 32) % bound:
                return product >> 32


def table(n: int, state: int) -> list[int]:
    generator, rows = Generator(state), []
    for i in range(n):
        j = generator.below(i + 1)
        rows.append(i)
        rows[i], rows[j] = rows[j], i
    return rows


def permutation(n: int, seed: int, epoch: int, domain: int, number: int = 0) -> Map:
    """The keyed permutation of [0, n)."""
    if n <= TABLE_ROWS:
        return table(n, derive(seed, epoch, domain, number, TABLE_ROUND)).__getitem__
    low = (n - 1).bit_length() // 2
    high = (n - 1).bit_length() - low
    keys = [derive(seed, epoch, domain, number, r) for r in range(ROUNDS)]

    def mixed(x: int, word: int, bits: int) -> int:
        x = ((x ^ word & MASK32) * 0x85EBCA6B) & MASK32
        x = (((x ^ x >> 15) + (word >> 32)) * 0xC2B2AE35) & MASK32
        return x >> (32 - bits)

    def image(x: int) -> int:
        while True:
            a, b = x >> low, x & (1 << low) - 1
            for r in range(0, ROUNDS, 2):
                a = (a + mixed(b, keys[r], high)) % (1 << high)
                b = (b + mixed(a, keys[r + 1], low)) % (1 << low)
            x = a << low | b
            if x < n:
                return x

    return image


def block_order(rows: int, seed: int, epoch: int, block_rows: int, window_blocks: int) -> list[int]:
    """All rows of the epoch: blocks in a keyed order, then the rows of each window of blocks."""
    count = -(-rows // block_rows)
    chosen = permutation(count, seed, epoch, BLOCKS)
    order: list[int] = []
    for window in range(-(-count // window_blocks)):
        slots = range(window * window_blocks, min((window + 1) * window_blocks, count))
        inside = [
            row
            for block in map(chosen, slots)
            for row in range(block * block_rows, min((block + 1) * block_rows, rows))
        ]
        order += [
            inside[i] for i in map(permutation(len(inside), seed, epoch, WINDOW, window), range(len(inside)))
        ]
    return order


def parts_order(part_rows: Sequence[int], seed: int, epoch: int) -> list[int]:
    """Parts in a keyed order, the rows of each in theirs."""
    chosen = permutation(len(part_rows), seed, epoch, PARTS)
    starts = [sum(part_rows[:k]) for k in range(len(part_rows))]
    return [starts[part] + i for part in map(chosen, range(len(part_rows))) for i in range(part_rows[part])]


def within_parts_order(part_rows: Sequence[int], seed: int, epoch: int) -> list[int]:
    """Parts in their order, the rows of each in a keyed one."""
    order: list[int] = []
    for part, rows in enumerate(part_rows):
        first = len(order)
        order += [first + row for row in map(permutation(rows, seed, epoch, PART, part), range(rows))]
    return order


def split_labels(n: int, ends: Sequence[int], seed: int) -> list[int]:
    """For each row the number of its part, whose places begin where those of the part before it end."""
    labels = [0] * n
    place = permutation(n, seed, MASK64, ROWS)
    for position in range(n):
        labels[place(position)] = sum(position >= end for end in ends[:-1])
    return labels


def default_blocks(n: int, row_bytes: int, group_rows: int) -> tuple[int, int]:
    """(block_rows, window_blocks) where nobody gives them."""
    block = min(max(group_rows, 2**20 // row_bytes, 1), max(2**23 // row_bytes, 1), max(n, 1))
    return block, max(16, -(-4096 // block))


def selection_digest(rows_of_dataset: int, rows: Sequence[int]) -> str:
    """What a state says of a selection."""
    steps = {b - a for a, b in pairwise(rows)}
    is_range = len(rows) < 2 or (len(steps) == 1 and 0 not in steps)
    first, step = 0, 1
    if is_range and rows:
        first, step = rows[0], steps.pop() if steps else 1
    head = b"".join(x.to_bytes(8, "little", signed=True) for x in (rows_of_dataset, len(rows), first, step))
    body = b"" if is_range else b"".join(row.to_bytes(8, "little") for row in rows)
    seed = xxhash.xxh3_64_intdigest(head, seed=int(not is_range))
    return f"{xxhash.xxh3_64_intdigest(body, seed=seed):016x}"


def turns_of_cycle(weights: Sequence[int], seed: int, cycle: int) -> list[int]:
    """One cycle of turns as docs/spec/order.md has it, draw by draw."""
    total = sum(weights)
    left = [
        ((j + 1) * total // w + ((j + 1) * total % w > 0) - 1, s, j * total // w)
        for s, w in enumerate(weights)
        for j in range(w)
    ]
    turns = []
    for place in range(total):
        turn = min(one for one in left if one[2] <= place)
        left.remove(turn)
        turns.append(turn)
    generator = Generator(derive(seed, MASK64, 6, cycle, 0))
    for place in range(total - 1):
        heads = generator.word() >> 31
        (last, _, _), (_, _, first) = turns[place], turns[place + 1]
        if heads and last > place and first <= place:
            turns[place], turns[place + 1] = turns[place + 1], turns[place]
    return [source for _, source, _ in turns]
