"""Changed parts with right digests give right values or our errors; `make mutate` runs more of them, under ASan."""

from __future__ import annotations

from pathlib import Path

import pytest
from partgen import generate

from mutations import __main__ as processes
from mutations.case import SEEDS
from mutations.part import parse, serialize
from mutations.units import mend_units

CASES = 200


@pytest.mark.parametrize("seed", SEEDS)
def test_a_part_that_is_not_changed_comes_back_byte_for_byte(seed: int, tmp_path: Path) -> None:
    made = generate(seed, tmp_path)
    part = parse(made.data, made.index)
    assert serialize(part) == (made.data, made.index)
    mend_units(part)
    assert serialize(part) == (made.data, made.index)


def test_changed_parts_end_in_right_values_or_errors_of_ours(capfd: pytest.CaptureFixture[str]) -> None:
    assert processes.main(0, CASES) == 0, capfd.readouterr().out
