"""What is asked of a split: names and shares, or the values of a column, and by what rows are told apart."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from ..order.split import bounds_of, exact_shares
from .sources.base import Source
from .steps.base import Step
from .steps.columns import check_columns
from .steps.share import Division, KeepShare, stratified
from .steps.value_share import KeepValue, values_of

__all__ = ["SplitChoice"]

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True)
class SplitChoice:
    """Shares by name, such as ``{"train": 0.9, "val": 0.1}``, of rows told apart by a hash.

    Attributes:
        shares: they add up to 1; None: each value of the column ``by`` is a share, and its name.
        by: the column whose value decides, so that rows with one value stay together; None: all of the row.
        stratify: the column of which each value is split in these shares, not all rows as a whole; not with ``by``.
    """

    shares: Mapping[str, float | str] | None
    by: str | None = None
    stratify: str | None = None

    def __post_init__(self) -> None:
        if self.shares is None and self.by is not None and self.stratify is None:
            return
        if not isinstance(self.shares, Mapping) or len(self.shares) < 2:
            raise ValueError(f"split has two shares or more, such as train=0.9,val=0.1, got {self.shares!r}")
        for name in self.shares:
            if not isinstance(name, str) or not _NAME.fullmatch(name) or name.endswith(".urec"):
                raise ValueError(
                    f"split: {name!r} is to be a folder; letters of a to z, digits, _ - and . make its name"
                )
        exact_shares(self.shares.values())
        if self.by is not None and self.stratify is not None:
            raise ValueError("split_by and stratify exclude each other: rows with one key stay together")

    def fractions(self) -> tuple[Fraction, ...]:
        """The shares, exactly as they are written."""
        assert self.shares is not None
        return exact_shares(self.shares.values())

    def options(self) -> dict[str, str]:
        """What was asked for, by its name on the command line."""
        found = {}
        if self.shares is not None:
            found["--split"] = ",".join(f"{name}={share}" for name, share in self.shares.items())
        given = {"--split-by": self.by, "--stratify": self.stratify}
        return found | {name: value for name, value in given.items() if value is not None}

    def columns(self, source: Source) -> list[str]:
        """The columns that are looked at."""
        check_columns("split-by", [] if self.by is None else [self.by], source.schema)
        check_columns("stratify", [] if self.stratify is None else [self.stratify], source.schema)
        return list(source.schema.names) if self.by is None else [self.by]

    def steps(self, source: Source, chosen: Source, seed: int) -> Iterator[tuple[str, Step, float]]:
        """For each share its name, what keeps its rows of ``chosen``, and how many of them that are, about."""
        if self.shares is None:
            assert self.by is not None
            found = values_of(chosen, self.by, _NAME)
            for name, (value, rows) in found.items():
                yield name, KeepValue(source.schema[self.by], value), rows / sum(n for _, n in found.values())
            return
        division = self._division(source, chosen, seed)
        for number, (name, fraction) in enumerate(zip(self.shares, self.fractions(), strict=True)):
            yield name, KeepShare(division, number), float(fraction)

    def _division(self, source: Source, chosen: Source, seed: int) -> Division:
        """How the rows of ``chosen`` are told apart; with ``stratify`` they are all read for it."""
        division = Division(
            source.schema,
            tuple(self.columns(source)),
            seed,
            bounds_of(self.fractions()),
            self.stratify,
        )
        return division if self.stratify is None else stratified(division, self.fractions(), chosen.batches())
