"""Where a job stands in an epoch, as a small JSON-able dict that is refused where it does not belong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from ..errors import StaleError
from ..order.spec import REMAINDERS, OrderSpec, check_integer

__all__ = ["OPTIONAL", "ResumeState"]

VERSION = 1

_STRINGS = ("identity", "selection", "shuffle", "remainder")
# (what a state says of a draw, epoch, position) → what it and the draw here differ in before that; None: nothing.
DrawnDifference = Callable[[dict[str, Any] | None, int, int], "tuple[Any, Any] | None"]
OPTIONAL = ("drawn", "excluded")
# A place in the epoch and what has happened by then, not a condition that must hold for it.
_PLACE = ("epoch", "position", "excluded")


@dataclass(frozen=True)
class ResumeState:
    """All that has to be equal for a position to mean the same samples, and the position.

    ``position`` counts the samples that all ranks together have delivered in ``epoch``: samples of one rank
    times ranks. It says nothing of how many ranks there were, so any number of them can go on from it. ``excluded`` are
    the rows that have been left out on purpose, and since when.
    """

    identity: str
    rows: int
    where: str | None
    selection: str
    seed: int
    shuffle: str
    block_rows: int
    window_blocks: int
    remainder: str
    epoch: int
    position: int
    drawn: dict[str, Any] | None = None
    excluded: list[dict[str, Any]] | None = None

    @classmethod
    def of(
        cls,
        spec: OrderSpec,
        *,
        identity: str,
        rows: int,
        where: str | None,
        selection: str,
        remainder: str,
        position: int,
        drawn: dict[str, Any] | None = None,
        excluded: list[dict[str, Any]] | None = None,
    ) -> ResumeState:
        """The state of an order at a position. Block sizes only count where they decide the order."""
        block = spec.mode == "block"
        return cls(
            identity=identity,
            rows=rows,
            where=where,
            selection=selection,
            seed=spec.seed,
            shuffle=spec.mode,
            block_rows=spec.block_rows if block else 1,
            window_blocks=spec.window_blocks if block else 1,
            remainder=remainder,
            epoch=spec.epoch,
            position=position,
            drawn=drawn,
            excluded=excluded,
        )

    def to_dict(self) -> dict[str, object]:
        """Plain values alone: any JSON library can write it."""
        values = {"version": VERSION, **asdict(self)}
        for name in OPTIONAL:
            if values[name] is None:
                del values[name]
        return values

    @classmethod
    def from_dict(cls, state: object) -> ResumeState:
        """A state from ``to_dict``, perhaps through a file; ``ValueError`` says which field is wrong."""
        if not isinstance(state, Mapping):
            raise ValueError(f"a state is a dict from state_dict(), not {type(state).__name__}")
        if state.get("version") != VERSION:
            raise ValueError(
                f"the state has version {state.get('version')!r}; this unirecord reads version {VERSION}"
            )
        names = [field.name for field in fields(cls)]
        missing = [name for name in names if name not in state and name not in OPTIONAL]
        unknown = sorted(str(name) for name in state if name not in names and name != "version")
        if missing or unknown:
            raise ValueError(
                f"the state does not come from state_dict(): missing {missing}, unknown {unknown}"
            )
        values: dict[str, Any] = {name: state.get(name) for name in names}
        _check_values(values)
        return cls(**values)

    def check(
        self,
        expected: ResumeState,
        drawn_difference: DrawnDifference | None = None,
        version_with: Callable[[str, str], str | None] | None = None,
    ) -> None:
        """Refuses the state unless it was made with the dataset and the options that ``expected`` describes.

        ``StaleError`` when the data are other data, ``ValueError`` when only options differ; both name every
        field that differs, with both values. The epoch and the position are free. ``drawn_difference`` says what the
        rules of draws differ in as far as the position; ``version_with`` the path of the version that has an
        identity in an order of some kind.
        """
        pairs = {
            name: (getattr(self, name), getattr(expected, name))
            for name in (field.name for field in fields(self))
            if name not in _PLACE and getattr(self, name) != getattr(expected, name)
        }
        if drawn_difference is not None:
            drawn = drawn_difference(self.drawn, self.epoch, self.position)
            pairs = (
                {**pairs, "drawn": drawn} if drawn else {n: pair for n, pair in pairs.items() if n != "drawn"}
            )
        differing = [f"{name} is {old!r} in the state and {new!r} here" for name, (old, new) in pairs.items()]
        if not differing:
            return
        text = "; ".join(differing)
        for one, other, way in (
            (
                self,
                expected,
                "it is of windows or packed samples, and this has the rows that they are cut from",
            ),
            (
                expected,
                self,
                "it is of rows, and this has windows or packed samples that are cut from them",
            ),
        ):
            if one.identity.startswith(f"{other.identity}/"):
                rule = one.identity.rpartition("/")[2]
                raise StaleError(
                    f"the state belongs to another dataset: {way} ({rule}); load it into what state_dict() was "
                    "called of; `unirecord trace` knows rows alone"
                )
        if self.identity != expected.identity:
            version = None if version_with is None else version_with(self.identity, self.shuffle)
            raise StaleError(
                f"the state belongs to another dataset, or to this one before it changed: {text}"
                + (
                    ""
                    if version is None
                    else f"; open {version}, which it was taken of, to go on with its epoch"
                )
            )
        raise ValueError(
            f"the state was saved with other options: {text}. "
            "Open the dataset as it was opened then, or start the epoch anew"
        )


def _check_values(values: Mapping[str, object]) -> None:
    for name in _STRINGS:
        if not isinstance(values[name], str):
            raise ValueError(f"the state's {name} is {values[name]!r}; it must be a string")
    if values["where"] is not None and not isinstance(values["where"], str):
        raise ValueError(f"the state's where is {values['where']!r}; it must be a string or None")
    if values["drawn"] is not None and not isinstance(values["drawn"], dict):
        raise ValueError(f"the state's drawn is {values['drawn']!r}; it must be a dict or None")
    if values["excluded"] is not None and not isinstance(values["excluded"], list):
        raise ValueError(f"the state's excluded is {values['excluded']!r}; it must be a list or None")
    if values["remainder"] not in REMAINDERS:
        raise ValueError(
            f"the state's remainder is {values['remainder']!r}; it must be one of {', '.join(REMAINDERS)}"
        )
    for name, least, most in (
        ("rows", 0, 1 << 62),
        ("seed", 0, (1 << 64) - 1),
        ("block_rows", 1, 1 << 62),
        ("window_blocks", 1, 1 << 62),
        ("epoch", 0, (1 << 63) - 1),
        ("position", 0, 1 << 63),
    ):
        if isinstance(values[name], bool) or not isinstance(values[name], int):
            raise ValueError(f"the state's {name} is {values[name]!r}; it must be an integer")
        check_integer(f"the state's {name}", values[name], least, most)
