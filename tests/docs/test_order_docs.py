"""docs/order.md: its examples run, and its tables are what the code gives."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from unirecord.core import Order
from unirecord.order.spec import OrderSpec, Sharding

PAGE = Path(__file__).parents[2] / "docs" / "order.md"
TEXT = PAGE.read_text(encoding="utf-8")


def numbers(text: str) -> list[int]:
    return [int(word) for word in re.findall(r"\d+", text)]


def table_rows(pattern: str) -> list[list[str]]:
    found = [line.strip("| ").split("|") for line in TEXT.splitlines() if re.match(pattern, line)]
    assert found
    return found


def order(spec: OrderSpec, rows: int, part_rows: list[int] | None = None) -> list[int]:
    return Order(rows, spec, part_rows).range(0, 1, rows).tolist()


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert outcome.failed == 0
    assert outcome.attempted > 15


def test_the_table_of_epochs() -> None:
    for seed, epoch, shown in table_rows(r"\| 4\d \| \d \|"):
        assert numbers(shown) == order(OrderSpec("shuffle", int(seed), int(epoch)), 10)


def test_the_table_of_shards() -> None:
    rows = order(OrderSpec("shuffle", 42), 10)
    for remainder, *ranks, lengths, _ in table_rows(r'\| `"(pad|drop|uneven)"'):
        shards = [Sharding(10, rank, 4, remainder.split('"')[1]) for rank in range(4)]
        assert [numbers(rank) for rank in ranks] == [
            [rows[s.position(i)] for i in range(s.length)] for s in shards
        ]
        assert numbers(lengths) == [s.length for s in shards]


def test_the_figure() -> None:
    figure = TEXT.split("```")[1].splitlines()
    shown = {line.split()[0]: numbers(line[28:66]) for line in figure if line.strip()}
    rows = order(OrderSpec("shuffle", 42), 10)
    assert shown["order"] == rows
    lines = [numbers(line[28:64]) for line in figure if line.startswith(" rank")]
    assert lines == [[rows[p % 10] for p in range(rank, 12, 4)] for rank in range(4)]


def test_the_windows_of_blocks() -> None:
    windows = [numbers(line.split("→")[1]) for line in TEXT.splitlines() if line.startswith(" window")]
    assert windows[0] + windows[1] == order(OrderSpec("block", 42, 0, 2, 3), 12)


def test_the_table_of_parts() -> None:
    for name, shown in table_rows(r'\| `"(within-)?parts"` \| \d'):
        assert numbers(shown) == order(OrderSpec(name.split('"')[1], 42), 10, [4, 3, 3])
