"""What a notebook shows of datasets, schemas, descriptions, batches and samples: tables with small pictures."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from itertools import islice
from types import TracebackType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..dataset.dataset import UniRecordDataset
from ..errors import MissingError
from ..format.logical import shown
from ..format.schema import Schema
from ..loading.batch import RaggedArray, valid_rows
from ..sizes import format_size, many
from ..snapshot.part_set import PartSet
from .cells import cells_of_row
from .describe import Description
from .markup import render, templates
from .statistics import column_statistics

__all__ = [
    "ProgressBar",
    "Shown",
    "dataset_html",
    "description_html",
    "plot",
    "progress_bar",
    "samples_html",
    "schema_html",
    "show",
]


# How far a long call is, as a bar of tqdm: in a notebook a widget, on a terminal a line.


class ProgressBar:
    """A bar to be given as ``progress=``, and to be closed when the call is over; made by `progress_bar`."""

    def __init__(self, bar: Any) -> None:
        """Internal."""
        self._bar = bar

    def __call__(self, done: int, total: int) -> None:
        """Draws the bar anew: so much is ``done`` of ``total``, or of an unknown total where that is 0."""
        self._bar.total = total or None
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """Leaves the bar as it is."""
        self._bar.close()

    def __enter__(self) -> ProgressBar:
        """Returns itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the bar."""
        self.close()


def progress_bar(label: str = "", unit: str = "") -> ProgressBar:
    """A bar of tqdm for whatever takes ``progress=``: a widget in a notebook, a line on a terminal.

    ``with unirecord.progress_bar("comparing", "rows") as bar: unirecord.diff(a, b, progress=bar)``. Loaders and
    pipelines need none: ``for batch in tqdm(loader)``.

    Args:
        label: what stands before the bar.
        unit: what is counted, such as ``"rows"`` or ``"B"``.

    Raises:
        ImportError: tqdm is not installed.
    """
    try:
        tqdm = importlib.import_module("tqdm.auto").tqdm
    except ImportError as error:
        raise ImportError(f"unirecord.progress_bar needs tqdm: pip install tqdm ({error})") from error
    return ProgressBar(tqdm(desc=label, unit=unit or "it", unit_scale=True))


_COLUMNS: Final = 40
_ROWS: Final = 8  # of a batch, and of a list of samples
_MOST_BARS: Final = 20


class Shown:
    """HTML that a notebook shows, and ``html`` for anything else; all that comes from data is escaped."""

    def __init__(self, html: str) -> None:
        self.html = html

    def _repr_html_(self) -> str:
        return self.html


def show(value: Any) -> Shown:
    """What a notebook shows of a batch, a sample, a list of samples, or what `describe` returns, as a table.

    Datasets, schemas, ``ds.head()`` and ``ds.sample()`` are shown so without it.

    Args:
        value: a batch of a loader, a sample, a list of samples, a ``Description``.

    Raises:
        MissingError: Jinja2, which makes tables, is not installed.
    """
    templates()
    if isinstance(value, Description):
        return Shown(description_html(value))
    made = getattr(value, "_repr_html_", None)
    if callable(made) and (found := made()) is not None:
        return Shown(str(found))
    if isinstance(value, Mapping):
        return Shown(_batch(value) if _is_batch(value) else samples_html([value]))
    if isinstance(value, list | tuple):
        return Shown(samples_html(value))
    return Shown(_fragment(text=repr(value)[:10_000]))


def _is_batch(value: Mapping[str, Any]) -> bool:
    """Whether every value is a column, and all have one length."""
    lengths = {_length(one) for one in value.values()}
    return len(lengths) == 1 and -1 not in lengths


def _length(column: Any) -> int:
    """How many rows a column of a batch has; -1 for what is the value of one sample."""
    shape = getattr(column, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else -1
    return len(column) if isinstance(column, list | RaggedArray) else -1


def _batch(batch: Mapping[str, Any]) -> str:
    size = len(next(iter(batch.values())))
    names = list(islice(batch, _COLUMNS))
    more = [f"{len(batch) - len(names):,} more columns"] if len(batch) > len(names) else []
    said = "; ".join([f"batch of {size:,}", *(f"{name}: {_kind(batch[name])}" for name in names), *more])
    rows = [((), (), [_item(batch[name], i) for name in names]) for i in range(min(size, _ROWS))]
    return _fragment(said=[said], head=names, rows=rows, left=[(size - _ROWS, "more row")])


def _item(column: Any, i: int) -> Any:
    if isinstance(column, np.ma.MaskedArray):
        return column.data[i] if valid_rows(column[i : i + 1])[0] else None
    value = column[i]
    return bytes(value) if isinstance(value, memoryview) else value


def _kind(column: Any) -> str:
    if isinstance(column, RaggedArray):
        return f"{column.column} of differing sizes"
    if isinstance(column, list):
        return "list"
    return f"{column.dtype}[{', '.join(map(str, column.shape))}]"


def samples_html(samples: Sequence[Any], schema: Schema | None = None) -> str:
    """The first of some samples as a table; with the ``schema`` of stored ones, times, decimals and classes as text."""
    if not samples:
        return _fragment(said=["no samples"])
    dicts = all(isinstance(sample, Mapping) for sample in samples)
    given = [sample if dicts else {"sample": sample} for sample in samples[:_ROWS]]
    names = list(islice(dict.fromkeys(name for row in given for name in row), _COLUMNS))
    known = {} if schema is None else {column.name: column for column in schema}

    def cell(name: str, value: Any) -> Any:
        return known[name].shown(value) if name in known else value

    rows = [((), (), [cell(name, row[name]) if name in row else "" for name in names]) for row in given]
    return _fragment(head=names, rows=rows, left=[(len(samples) - _ROWS, "more sample")])


def schema_html(schema: Schema) -> str:
    """The columns as a table."""
    rows = [
        (
            (column.name, column),
            (),
            ("" if column.logical is None else shown(column.logical), column.annotations or ""),
        )
        for column in islice(schema, _COLUMNS)
    ]
    head = ["column", "type", "logical type", "annotations"]
    return _fragment(head=head, rows=rows, left=[(len(schema) - _COLUMNS, "more column")])


def description_html(found: Description) -> str:
    """What `describe` found: the whole in a line, and the columns as a table."""
    said = (
        f"{found.path}: {many(found.rows, 'row')}, {many(len(found.parts), 'part')}, "
        f"{format_size(found.data_bytes)} data, {format_size(found.index_bytes)} index"
    )
    return _fragment(said=[said, found.said_of_deleted][: 1 + bool(found.deleted)], description=found)


def dataset_html(
    about: str, parts: PartSet, names: Sequence[str], rows: NDArray[np.int64], first: Sequence[int]
) -> Shown:
    """A dataset: its columns with a little chart of each, from ``rows`` (ascending), and a few of its rows whole."""
    kept = list(names[:_COLUMNS])
    cells = [cells_of_row(parts, kept, row) for row in first]
    body = [
        (
            (name, parts.schema[name]),
            [column_statistics(parts, name, rows).shown(parts.schema[name])],
            [row[name] for row in cells],
        )
        for name in kept
    ]
    head = ["column", "type", "values", *(f"row {row:,}" for row in first)]
    return Shown(_fragment(said=[about], head=head, rows=body, left=[(len(names) - _COLUMNS, "more column")]))


def _fragment(**given: Any) -> str:
    """A piece that stands in somebody else's page; each row is texts, statistics to draw, and values."""
    none = {"said": (), "text": "", "description": None, "head": (), "rows": (), "left": ()}
    return render("notebook.html", **{**none, **given})


def plot(ds: UniRecordDataset[Any], column: str, *, ax: Any = None) -> Any:
    """Bars of how often the values of a column are among the selected rows, drawn with matplotlib.

    Numbers by their histogram, strings, bools and classes by their most frequent values, blobs by their sizes in bytes;
    from the index alone.

    Args:
        ds: the dataset.
        column: the name of the column.
        ax: the ``matplotlib`` axes to draw on; by default new ones.

    Returns the axes. MissingError without matplotlib.
    """
    ds._check_rows_are_samples("plot")
    plan = ds.read_cursor.plan
    parts, name = plan.data.parts, column
    rows = None if plan.order.selection.is_all else np.sort(plan.order.selection.every())
    found = column_statistics(parts, name, rows)
    if ax is None:
        try:
            ax = importlib.import_module("matplotlib.pyplot").subplots()[1]
        except ImportError as error:
            raise MissingError(
                "plots are drawn by matplotlib, which is not installed: pip install matplotlib"
            ) from error
    kind = parts.schema[name]
    if kind.is_string or kind.classes is not None or found.type.rstrip("?") == "bool":
        common = found.common[:_MOST_BARS]
        ax.bar([_plain(kind.shown(value)) for value, _ in common], [count for _, count in common])
    elif found.counts:
        edges = np.array(found.bins)
        ax.bar(edges[:-1], found.counts, width=np.diff(edges), align="edge")
        if kind.meaning is not None and kind.is_ordered:
            ax.xaxis.set_major_formatter(lambda value, _: kind.shown(round(value)))
    ax.set_xlabel(_plain(f"{name} (bytes)" if kind.is_blob else name))
    ax.set_ylabel("rows")
    return ax


def _plain(value: object) -> str:
    """A label: matplotlib takes what stands between two dollar signs for formulas."""
    return str(value)[:40].replace("$", r"\$")
