"""Changed parts with right digests give right values or our errors; `make mutate` runs more of them, under ASan."""

from __future__ import annotations

from pathlib import Path

import pytest
from partgen import generate

from mutations import __main__ as processes
from mutations.case import SEEDS, run
from mutations.part import parse, serialize
from mutations.units import mend_units

CASES = 200
# Of the first 20,000, those that have found a fault: a table of chunks whose sum is beyond 64 bits, a logical type
# without a name that repair wrote again, a scalar page that ends within its padding, a value beyond its zone's bounds.
FOUND_BEFORE = (1746, 4106, 5964, 7740)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_part_that_is_not_changed_comes_back_byte_for_byte(seed: int, tmp_path: Path) -> None:
    made = generate(seed, tmp_path)
    part = parse(made.data, made.index)
    assert serialize(part) == (made.data, made.index)
    mend_units(part)
    assert serialize(part) == (made.data, made.index)


def test_changed_parts_end_in_right_values_or_errors_of_ours(capfd: pytest.CaptureFixture[str]) -> None:
    assert processes.main(0, CASES) == 0, capfd.readouterr().out


@pytest.mark.parametrize("number", FOUND_BEFORE)
def test_cases_that_were_wrong_once_are_right(number: int, tmp_path: Path) -> None:
    *wrong, digest = run(number, tmp_path / "case")
    assert wrong == []
    assert digest
