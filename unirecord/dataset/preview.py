"""A few samples of a dataset to look at, in a terminal or a notebook, and the values of a column as a plot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..errors import UniRecordError
from ..order.spec import check_integer
from .tables import DatasetTables
from .views import Given

if TYPE_CHECKING:
    from ..inspection.notebook import Shown

__all__ = [
    "DatasetLooking",
    "SampleList",
]


_Item = TypeVar("_Item")
_LOOKED_AT = 20_000  # rows that a column's little chart is made of


class SampleList(list[_Item]):
    """Samples as a list, which a notebook shows as a table with small pictures and lines."""

    def _repr_html_(self) -> str:
        from ..inspection.notebook import samples_html

        return samples_html(self)


class DatasetLooking(DatasetTables[Given]):
    """What shows a dataset to a person; it moves no position and begins no epoch."""

    def head(self, n: int = 5) -> list[Given]:
        """The first ``n`` samples of this shard in this epoch, fewer if there are fewer: ``ds[:n]``.

        A notebook shows them as a table.
        """
        check_integer("n", n, 0)
        return SampleList(self._samples.many(range(min(n, len(self._cursor.plan.order)))))

    def sample(self, n: int = 5, *, seed: int | None = None) -> list[Given]:
        """``n`` samples of this shard in this epoch, drawn at random, none twice; fewer if there are fewer.

        Args:
            n: how many, 0 or more.
            seed: the same draws each time; by default others each time.
        """
        check_integer("n", n, 0)
        rows = len(self._cursor.plan.order)
        places: Any = np.random.default_rng(seed).choice(rows, min(n, rows), replace=False) if rows else []
        return SampleList(self._samples.many([int(place) for place in places]))

    def plot(self, column: str, *, ax: Any = None) -> Any:
        """Bars of how often the values of a column are among the selected rows, drawn with matplotlib.

        Numbers by their histogram, strings and bools by their most frequent values, blobs by their sizes in bytes; from
        the index alone.

        Args:
            column: its name.
            ax: the ``matplotlib`` axes to draw on; by default new ones.

        Returns the axes. MissingError without matplotlib.
        """
        from ..inspection.notebook import plot

        self._check_rows_are_samples("plot")
        plan = self._cursor.plan
        rows = None if plan.order.selection.is_all else np.sort(plan.order.selection.every())
        return plot(plan.data.parts, column, rows, ax)

    def _shown(self) -> Shown:
        from ..inspection.notebook import dataset_html

        plan, about = (
            self._cursor.plan,
            repr(self).partition("; columns ")[0].removeprefix("UniRecordDataset("),
        )
        names = [column.name for _, column in plan.columns]
        selection = plan.order.selection
        picked = np.arange(min(_LOOKED_AT, len(selection)), dtype=np.int64) * len(selection)
        rows = np.sort(selection.row_ids(picked // max(1, len(picked))))
        first = (
            []
            if plan.order.rule is not None
            else plan.order.row_ids(0, 3, self._cursor.position.epoch).tolist()
        )
        return dataset_html(about, plan.data.parts, names, rows, first)

    def _repr_html_(self) -> str | None:
        try:
            return self._shown()._repr_html_()
        except (UniRecordError, OSError):  # closed, or its files are gone: the text says what it was
            return None

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name.startswith("__") or not name.startswith("_")]
