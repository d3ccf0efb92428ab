"""The state of a job: JSON, small, and refused by name where it does not belong."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unirecord.dataset.cursor import ResumeState
from unirecord.errors import StaleError
from unirecord.order.spec import OrderSpec


def state(**changes: Any) -> ResumeState:
    spec = OrderSpec("block", 42, 3, 100, 16)
    made = ResumeState.of(
        spec,
        identity="ab" * 16,
        rows=1000,
        where="label > 3",
        selection="0" * 16,
        remainder="pad",
        position=96,
    )
    return replace(made, **changes)


def test_a_state_survives_json() -> None:
    assert ResumeState.from_dict(json.loads(json.dumps(state().to_dict()))) == state()


@given(
    st.integers(0, 2**62),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**63 - 1),
    st.none() | st.text(max_size=50),
)
def test_every_state_survives_json(rows: int, seed: int, epoch: int, where: str | None) -> None:
    made = state(rows=rows, seed=seed, epoch=epoch, where=where, position=rows)
    assert ResumeState.from_dict(json.loads(json.dumps(made.to_dict()))) == made


def test_a_state_is_small_however_large_the_dataset() -> None:
    largest = state(rows=2**62, position=2**62, seed=2**64 - 1, epoch=2**63 - 1, block_rows=2**62, where=None)
    assert len(json.dumps(largest.to_dict())) < 500


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rows", 999),
        ("selection", "f" * 16),
        ("seed", 7),
        ("shuffle", "shuffle"),
        ("block_rows", 50),
        ("window_blocks", 8),
        ("remainder", "drop"),
    ],
)
def test_other_options_are_refused_by_name_with_both_values(field: str, value: object) -> None:
    with pytest.raises(ValueError, match="other options") as error:
        state().check(state(**{field: value}))
    assert f"{field} is {getattr(state(), field)!r} in the state and {value!r} here" in str(error.value)


def test_a_condition_is_named_where_its_rows_differ_and_decides_nothing_by_itself() -> None:
    state().check(state(where=None))
    state().check(state(where="3 < label"))
    with pytest.raises(ValueError, match="other options") as error:
        state().check(state(where=None, selection="f" * 16))
    assert "where is 'label > 3' in the state and None here" in str(error.value)


def test_another_dataset_is_stale_and_every_difference_is_named() -> None:
    with pytest.raises(StaleError) as error:
        state().check(state(identity="cd" * 16, rows=5, seed=1))
    for part in ("identity is 'abab", "here", "rows is 1000 in the state and 5 here", "seed is 42"):
        assert part in str(error.value)


def test_the_place_is_free() -> None:
    state().check(state(epoch=9, position=0))


def test_block_sizes_do_not_matter_to_other_orders() -> None:
    specs = (OrderSpec("shuffle", 1, 0, 5, 6), OrderSpec("shuffle", 1, 0, 7, 8))
    first, second = (
        ResumeState.of(s, identity="x", rows=9, where=None, selection="", remainder="pad", position=0)
        for s in specs
    )
    first.check(second)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"version": 2}, "version 2; this unirecord reads version 1"),
        ({"position": -1}, "position is -1"),
        ({"position": 1.5}, "position is 1.5; it must be an integer"),
        ({"epoch": True}, "epoch is True"),
        ({"rows": None}, "rows is None"),
        ({"seed": 2**64}, "seed is 18446744073709551616"),
        ({"identity": 7}, "identity is 7; it must be a string"),
        ({"where": 7}, "where is 7"),
        ({"remainder": "wrap"}, "remainder is 'wrap'"),
        ({"extra": 1}, r"unknown \['extra'\]"),
    ],
)
def test_a_damaged_state_is_refused_by_name(change: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        ResumeState.from_dict({**state().to_dict(), **change})


def test_what_is_not_a_state_is_refused() -> None:
    with pytest.raises(ValueError, match="not list"):
        ResumeState.from_dict([1])
    with pytest.raises(ValueError, match="version None"):
        ResumeState.from_dict({})
    partial = state().to_dict()
    del partial["seed"]
    with pytest.raises(ValueError, match=r"missing \['seed'\]"):
        ResumeState.from_dict(partial)
