"""Rows by decimals of more than 18 digits: sorted, counted and summed exactly, as Python's `Decimal` has them."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

import unirecord
from unirecord import UniRecordDataset, Writer, write_dataset
from unirecord.cli.main import main
from unirecord.inspect.statistics import combination_counts, distinct_count, sorted_rows
from unirecord.snapshot.part_set import PartSet, resolve

SCHEMA = {"price": "decimal[38, 2]?", "n": "int32", "kind": "string"}
# Words that are alike but for one half, the sign, and the greatest of 38 digits.
NEAR = [
    Decimal(n) / 100
    for n in (0, 1, -1, 2**63, -(2**63), 2**64, 2**64 - 1, -(2**64), 1 << 100, -(1 << 100) + 1)
]
with localcontext(prec=60):
    ENDS = [Decimal(10**38 - 1).scaleb(-2), Decimal(1 - 10**38).scaleb(-2)]
PRICES = st.one_of(
    st.none(),
    st.sampled_from([*NEAR, *ENDS]),
    st.integers(1 - 10**38, 10**38 - 1).map(lambda n: Decimal(n).scaleb(-2, unbounded())),
    st.integers(-300, 300).map(lambda n: Decimal(n).scaleb(-2)),
)


def unbounded() -> Any:
    with localcontext(prec=60) as context:
        return context.copy()


def stored(value: Decimal | None) -> int | None:
    return None if value is None else int(value.scaleb(2, unbounded()))


def written(folder: Path, prices: list[Decimal | None]) -> Path:
    """Two parts, the first of which has lost its first row."""
    rows = [{"price": price, "n": i, "kind": "ab"[i % 2]} for i, price in enumerate(prices)]
    half = len(rows) // 2
    for some in (rows[:half], rows[half:]):
        with unirecord.append(folder) if folder.exists() else Writer(folder, SCHEMA) as writer:
            for row in some:
                writer.write(row)
    unirecord.delete(folder, where="n == 0")
    return folder


def by_price(rows: list[tuple[int, Decimal | None]], *, descending: bool) -> list[int]:
    proper = [(price, i) for i, price in rows if price is not None]
    proper.sort(key=lambda one: one[0], reverse=descending)
    return [*(i for _, i in proper), *(i for i, price in rows if price is None)]


@settings(max_examples=20, deadline=None)
@given(st.lists(PRICES, min_size=3, max_size=30))
def test_rows_are_in_the_order_of_their_decimals(
    tmp_path_factory: pytest.TempPathFactory, prices: list[Decimal | None]
) -> None:
    folder = written(tmp_path_factory.mktemp("wide") / "d", prices)
    rows = list(enumerate(prices))[1:]
    parts = PartSet(resolve(folder), knows_deletions=True)
    live = [i for i, _ in rows]
    for descending in (False, True):
        wanted = by_price(rows, descending=descending)
        chosen = parts.live.range(0, len(live)) if parts.live is not None else None
        assert sorted_rows(parts, chosen, [("price", descending)]).tolist() == wanted
        assert sorted_rows(parts, chosen, [("price", descending)], 2).tolist() == wanted[:2]
    parts.close()
    write_dataset(folder, folder.parent / "sorted", sort="price")
    assert UniRecordDataset(folder.parent / "sorted").scalars(["n"])["n"].tolist() == by_price(
        rows, descending=False
    )
    unirecord.sort(folder, "price", cluster=True)
    firsts = list(dict.fromkeys(price for _, price in rows))
    clusters = sorted(rows, key=lambda row: firsts.index(row[1]))
    assert UniRecordDataset(folder).scalars(["n"])["n"].tolist() == [i for i, _ in clusters]
    unirecord.sort(folder, "price", descending=True)
    found = UniRecordDataset(folder)
    assert found.scalars(["n"])["n"].tolist() == by_price(clusters, descending=True)
    column = found.schema["price"]
    assert [column.decimal(row["price"]) for row in found] == [
        prices[i] for i in by_price(clusters, descending=True)
    ]


@settings(max_examples=20, deadline=None)
@given(st.lists(PRICES, min_size=3, max_size=30))
def test_groups_and_their_sums_are_exact(
    tmp_path_factory: pytest.TempPathFactory, prices: list[Decimal | None]
) -> None:
    folder = written(tmp_path_factory.mktemp("wide") / "d", prices)
    rows = list(enumerate(prices))[1:]
    parts = PartSet(resolve(folder), knows_deletions=True)
    chosen = parts.live.range(0, len(rows)) if parts.live is not None else None
    counted = Counter(stored(price) for _, price in rows)
    order = [*sorted(value for value in counted if value is not None), *([None] if None in counted else [])]
    assert [(group.values[0], group.rows) for group in combination_counts(parts, ["price"], chosen)] == [
        (value, counted[value]) for value in order
    ]
    assert distinct_count(parts, "price") == len(counted) - (None in counted)
    both = combination_counts(parts, ["kind", "price"], chosen)
    assert {group.values: group.rows for group in both} == Counter(
        ("ab"[i % 2], stored(price)) for i, price in rows
    )
    sums: dict[str, list[int]] = defaultdict(list)
    for i, price in rows:
        value = stored(price)
        sums["ab"[i % 2]] += [] if value is None else [value]
    for group in combination_counts(parts, ["kind"], chosen, ["price"]):
        values = sums[group.values[0]]
        assert (group.totals[0].sum, group.totals[0].count) == (sum(values), len(values))
        assert group.totals[0].mean == (Fraction(sum(values), len(values)) if values else None)


def test_inspect_sorts_groups_and_sums_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prices = ["12345678901234567890.25", "-3.50", None, "-12345678901234567890.25", "-3.50"]
    path = str(tmp_path / "d")
    with Writer(path, SCHEMA) as writer:
        for i, price in enumerate(prices):
            writer.write({"price": None if price is None else Decimal(price), "n": i, "kind": "ab"[i % 2]})

    def lines(*options: str) -> list[str]:
        assert main(["inspect", path, "--csv", *options]) == 0
        return capsys.readouterr().out.splitlines()[1:]

    assert lines("--sort", "price", "--columns", "n") == ["3,3", "1,1", "4,4", "0,0", "2,2"]
    assert lines("--sort=-price", "--columns", "n") == ["0,0", "1,1", "4,4", "3,3", "2,2"]
    assert lines("--sort", "kind,price", "--columns", "n") == ["4,4", "0,0", "2,2", "3,3", "1,1"]
    assert lines("--group-by", "price") == [
        "-12345678901234567890.25,1", "-3.50,2", "12345678901234567890.25,1", ",1",
    ]  # fmt: skip
    assert lines("--group-by", "price", "--sort=-count", "--limit", "1") == ["-3.50,2"]
    # One hundredth between them, which float64 does not hold.
    assert lines("--group-by", "kind", "--sum", "price", "--mean", "price", "--sort=-mean price") == [
        "a,3,6172839450617283943.38,12345678901234567886.75", "b,2,-6172839450617283946.88,-12345678901234567893.75",
    ]  # fmt: skip
    assert main(["inspect", path, "--group-by", "kind", "--mean", "n", "--json"]) == 0
    assert [one["mean n"] for one in json.loads(capsys.readouterr().out)["counts"]] == [2.0, 2.0]
    unirecord.update(path, {"n": [1], "price": [Decimal("99999999999999999999.00")]}, key="n")
    assert lines("--sort=-price", "--columns", "n", "--limit", "1") == ["1,1"]
