"""Numbers of rows: how they are named, left out, and taken for no places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..loading.plan import Plan
from ..order.exclusion import Exclusion, Exclusions, ranges_of, rows_of_ranges
from ..order.selection import Selection, each_once, row_numbers
from ..order.spec import JobSteps, check_integer

__all__ = [
    "as_row_numbers",
    "by_condition",
    "by_rows",
    "by_steps",
    "exclusion",
    "exclusions_of",
    "in_own_order",
    "moved",
    "named_rows",
]


# Row numbers of the whole data, and columns of chosen rows, which refuse to be indexed with them.


class _ShownAsArray(np.ndarray[Any, np.dtype[Any]]):
    def __repr__(self) -> str:
        return repr(self.view(np.ndarray))


class RowNumbers(_ShownAsArray):
    """What `row_ids` gives: int64 that know that they number all rows of the data, as do pieces of them.

    What is computed from them (places by ``argsort``, sums) does not.
    """

    _of_all_rows = False

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        if self._of_all_rows and isinstance(found, RowNumbers):
            found._of_all_rows = True
        return found


def as_row_numbers(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Row numbers of the whole data, marked as such."""
    marked = rows.view(RowNumbers)
    marked._of_all_rows = True
    return marked


def _refuse_row_numbers(index: Any) -> None:
    for one in index if isinstance(index, tuple) else (index,):
        if isinstance(one, RowNumbers) and one._of_all_rows:
            raise IndexError(
                "order.row_ids() numbers all rows of the data, and this column has only the chosen ones, in their "
                'order: scalars(order="samples") is in the order of ds[i], and its value i belongs to '
                "order.row_ids()[i]"
            )


class _InOwnOrder:
    """Mixed into a kind of array: value i is not that of row i of the data."""

    def __getitem__(self, index: Any) -> Any:
        _refuse_row_numbers(index)
        return super().__getitem__(index)  # type: ignore[misc]

    def take(self, indices: Any, *args: Any, **kwargs: Any) -> Any:
        """As of an array."""
        _refuse_row_numbers(indices)
        return super().take(indices, *args, **kwargs)  # type: ignore[misc]


class OwnOrder(_InOwnOrder, _ShownAsArray):
    """A column in an order of its own."""


class MaskedOwnOrder(_InOwnOrder, np.ma.MaskedArray[Any, np.dtype[Any]]):
    """The same of a nullable column."""


def in_own_order(column: Any) -> Any:
    """The same values, which row numbers of the whole data do not index."""
    return column.view(MaskedOwnOrder if isinstance(column, np.ma.MaskedArray) else OwnOrder)


# How rows that are left out are named, in calls and in states: by number, by a condition, or by positions.


_MOST_RANGES = 1 << 20
_MOST_POSITIONS = 1 << 32  # held while they are looked up

Named = Mapping[str, Any]


def by_rows(plan: Plan, rows: Any) -> Named:
    """Rows by their numbers in the dataset; IndexError where there are none such."""
    ranges = ranges_of(each_once(row_numbers(rows, plan.order.selection.rows)))
    if len(ranges) > _MOST_RANGES:
        raise ValueError(
            f"{len(ranges):,} runs of rows are more than a state holds ({_MOST_RANGES:,}): name them with where=, or "
            "choose the others with where= or select() when the job begins"
        )
    return {"rows": ranges}


def named_rows(plan: Plan, rows: Any, where: str | None) -> Named:
    """Rows as a caller names them, in one of two ways."""
    if (rows is None) == (where is None):
        raise ValueError("give either rows, by their numbers, or where, a condition")
    return by_rows(plan, rows) if where is None else by_condition(plan, where)


def by_steps(plan: Plan, job: JobSteps, steps: int | Sequence[int], epoch: int | None) -> Named:
    """The rows of steps of the whole job, all in one epoch; without an epoch, steps count over all of them."""
    if plan.order.batched:
        return {}
    asked = list(steps) if isinstance(steps, Sequence | np.ndarray) else [steps]
    if epoch is None:
        found = [job.located(step, None) for step in asked]
        epochs = {of for of, _ in found}
        if len(epochs) > 1:
            raise ValueError(
                f"the steps are of the epochs {sorted(epochs)}: exclude those of one epoch at a time"
            )
        epoch, asked = epochs.pop() if epochs else 0, [step for _, step in found]
    check_integer("epoch", epoch, 0, (1 << 63) - 1)
    if not asked:
        raise ValueError("there is no step among those to be excluded")
    positions = each_once(np.concatenate([job.unwrapped(step) for step in set(asked)]))
    return {"epoch": epoch, "positions": ranges_of(positions)}


def by_condition(plan: Plan, where: str) -> Named:
    """The rows that meet a condition, in its one form; QueryError where it is wrong."""
    from ..query import compile_query

    if not isinstance(where, str):
        raise TypeError(f'where is a condition, such as "label == 3", not {where!r}')
    return {"where": str(compile_query(where, plan.data.snapshot.schema))}


def _rows(plan: Plan, named: Named) -> Selection:
    """The rows that are named, ascending."""
    order = plan.order
    total = order.selection.rows
    if "where" in named:
        return plan.data.where_rows(Selection(total), named["where"])[0]
    if "rows" in named:
        return Selection(total, array=rows_of_ranges(named["rows"]))
    wanted = named["positions"]
    if sum(stop - first for first, stop in wanted) > _MOST_POSITIONS:
        raise ValueError("more than 2^32 positions are left out: name their rows with where=")
    places = rows_of_ranges(wanted) % max(order.samples, 1)
    found = order.selection.row_ids(order.order(named["epoch"]).at(places))
    return Selection(total, array=each_once(found))


def exclusion(plan: Plan, named: Named, since: tuple[int, int], fill: bool) -> Exclusion:
    """Rows that are left out from a place on."""
    return Exclusion(_rows(plan, named), since, fill, dict(named))


def moved(plan: Plan, exclusions: Exclusions, everywhere: bool) -> Exclusions:
    """The same rows for another plan over the data; ``everywhere``: from its first position on."""
    entries = []
    for entry in exclusions.entries:
        named: Named = entry.named
        if "positions" in named:  # of another order they would be other rows
            named = {"rows": ranges_of(entry.rows.every())}
        entries.append(exclusion(plan, named, (0, 0) if everywhere else entry.since, entry.fill))
    return Exclusions(tuple(entries))


def exclusions_of(plan: Plan, state: Any) -> Exclusions:
    """What a state says; ValueError where no ``state_dict()`` says so."""
    try:
        return Exclusions(tuple(_checked(plan, entry) for entry in state or ()))
    except (TypeError, KeyError, IndexError, AttributeError) as error:
        raise ValueError(f"the state's excluded does not come from state_dict(): {error!r}") from None


def _checked(plan: Plan, entry: Mapping[str, Any]) -> Exclusion:
    named = {name: value for name, value in entry.items() if name not in ("since", "fill")}
    if set(named) not in ({"rows"}, {"where"}, {"epoch", "positions"}) or not isinstance(entry["fill"], bool):
        raise ValueError(f"the state's excluded has the keys {sorted(map(str, entry))}")
    epoch, position = entry["since"]
    since = check_integer("since", epoch, 0, (1 << 63) - 1), check_integer("since", position, 0, 1 << 63)
    if "where" in named:
        named = dict(by_condition(plan, named["where"]))
    else:
        most = plan.order.selection.rows if "rows" in named else 1 << 63
        (name,) = set(named) - {"epoch"}
        if "epoch" in named:
            check_integer("epoch", named["epoch"], 0, (1 << 63) - 1)
        behind = 0
        for first, stop in named[name]:
            check_integer(name, first, behind)
            behind = check_integer(name, stop, first + 1, most)
    return exclusion(plan, named, since, entry["fill"])
