"""`unirecord.ray.read`: rows as Ray blocks, a task for each run of rows; columns and conditions are pushed down."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from ..dataset.dataset import UniRecordDataset
from .arrow_values import arrow_schema
from .ray_blocks import with_tensors
from .ray_conditions import condition_of
from .ray_session import import_ray

if TYPE_CHECKING:
    import pyarrow

__all__ = ["read"]

_BLOCK_BYTES = 128 << 20  # Ray's own target
_LEAST_BLOCK_BYTES = 4 << 20
_TASKS_PER_CORE = 4


def read(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    override_num_blocks: int | None = None,
    concurrency: int | None = None,
    ray_remote_args: Mapping[str, Any] | None = None,
) -> Any:
    """Returns a ``ray.data.Dataset`` of the rows, in order, as Arrow blocks of the types of `to_batches`.

    Arrays of one shape are Ray's tensors, so that ``iter_torch_batches`` and numpy's batches have them as they are.

    Each task reads a run of rows. Their number is exact, also with ``where``, and their size is known from the index.
    ``select_columns`` and ``filter(expr=…)`` that follow are part of the reading where ours means the same as Ray's.
    Every task reads the dataset that is there now, or ends with StaleError when it has been replaced since.

    Args:
        path: as for `UniRecordDataset`; all machines must see it.
        columns: names of the columns to read.
        where: only rows that meet this condition (docs/query.md).
        override_num_blocks: tasks, and so blocks; by default of Ray's target size for a block (128 MiB), or smaller
            where processors would be idle, not the 200 that Ray asks for at least.
        concurrency, ray_remote_args: as for ``ray.data.read_datasource``.

    Raises:
        SchemaError: there is no such column, or Ray is missing.
        MissingError, QueryError, CorruptionError, OSError: as for `UniRecordDataset`.
    """
    ray = import_ray()
    rows = UniRecordDataset(path, columns=None if columns is None else list(columns), where=where)
    source = _datasource()(rows)
    if override_num_blocks is None:
        override_num_blocks = _blocks_for(ray, source.estimate_inmemory_data_size())
    return ray.data.read_datasource(
        source,
        override_num_blocks=override_num_blocks,
        concurrency=concurrency,
        ray_remote_args=dict(ray_remote_args or {}),
    )


def _blocks_for(ray: Any, size: int) -> int | None:
    """How many blocks of the right size there are; None where the user has told Ray how many it is to ask for.

    A block costs Ray as much as reading many megabytes, so that 200 small ones take four times as long as a few.
    """
    context = ray.data.DataContext.get_current()
    if context.read_op_min_num_blocks != ray.data.context.DEFAULT_READ_OP_MIN_NUM_BLOCKS:
        return None
    most = context.target_max_block_size or _BLOCK_BYTES
    cores = ray.cluster_resources().get("CPU", 1) if ray.is_initialized() else os.cpu_count() or 1
    busy = min(int(cores) * _TASKS_PER_CORE, size // _LEAST_BLOCK_BYTES)
    return max(1, -(-size // most), busy)


def blocks(rows: UniRecordDataset, start: int, stop: int, no_columns: bool) -> Iterator[pyarrow.Table]:
    """Yield the rows of a run as tables of about 8 MB; one without rows where there are none."""
    import pyarrow

    columns = [rows.schema[name] for name in rows.column_names]
    with rows.select(range(start, stop)) as run, run.to_batches() as reader:
        empty = reader.schema.empty_table()
        yield empty.select([]) if no_columns else with_tensors(empty, columns)
        for batch in reader:
            table = pyarrow.Table.from_batches([batch])
            yield table.select([]) if no_columns else with_tensors(table, columns)


class _Rows:
    """What is read: a dataset's view, and whether only the number of its rows is wanted."""

    def __init__(self, rows: UniRecordDataset) -> None:
        self.rows, self.no_columns = rows, False

    def with_columns(self, names: Sequence[str]) -> _Rows:
        """The same rows, of these columns; of none, by way of the narrowest."""
        found = copy.copy(self)
        found.no_columns = not names
        narrow = min(self.rows.column_names, key=lambda name: self.rows.schema[name].fixed_bytes or 1 << 40)
        found.rows = self.rows.view(columns=list(names) or [narrow])
        return found

    def tasks(self, parallelism: int) -> list[tuple[int, int]]:
        """Runs [start, stop) of about equal length, none of them empty."""
        count = len(self.rows)
        runs = max(1, min(parallelism, count))
        return [(i * count // runs, (i + 1) * count // runs) for i in range(runs)]

    @property
    def row_bytes(self) -> float:
        """Bytes of a row's values in memory, about."""
        return 0.0 if self.no_columns else self.rows._cursor.plan.row_bytes


@cache
def _datasource() -> Any:
    """The class that Ray calls, made when Ray is there."""
    from ray.data.block import BlockMetadata
    from ray.data.datasource import Datasource, ReadTask

    class UniRecordDatasource(Datasource):  # type: ignore[misc]
        """Rows of a dataset, by runs."""

        def __init__(self, rows: UniRecordDataset) -> None:
            super().__init__()
            self._read = _Rows(rows)
            self._projection_map: dict[str, str] | None = None

        def estimate_inmemory_data_size(self) -> int:
            return int(len(self._read.rows) * self._read.row_bytes)

        def get_read_tasks(
            self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
        ) -> list[Any]:
            read = self._read
            columns = [] if read.no_columns else [read.rows.schema[name] for name in read.rows.column_names]
            schema = with_tensors(arrow_schema(columns).empty_table(), columns).schema
            return [
                ReadTask(
                    lambda start=start, stop=stop: blocks(read.rows, start, stop, read.no_columns),
                    BlockMetadata(stop - start, int((stop - start) * read.row_bytes), None, None),
                    schema=schema,
                    per_task_row_limit=per_task_row_limit,
                )
                for start, stop in read.tasks(parallelism)
            ]

        def supports_projection_pushdown(self) -> bool:
            return True

        def apply_projection(self, projection_map: dict[str, str] | None) -> Any:
            found = super().apply_projection(projection_map)
            if found._projection_map is not None:
                found._read = self._read.with_columns(list(found._projection_map))
            return found

        def supports_predicate_pushdown(self) -> bool:
            return True

        def apply_predicate(self, predicate_expr: Any) -> Any:
            text = condition_of(predicate_expr, self._read.rows.schema)
            if text is None:
                return self  # Ray filters the blocks
            found = super().apply_predicate(predicate_expr)
            found._read = copy.copy(self._read)
            found._read.rows = self._read.rows.view(where=text)
            return found

    return UniRecordDatasource
