"""Ray: a dataset as rows of its blocks, conditions pushed down; blocks written as one; conversions on its workers."""

from __future__ import annotations

import copy
import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

from ..convert.conversion import Engine
from ..convert.sources.arrow_columns import ArrowEvidence, arrow_values
from ..convert.task import Job, TellOfTask, finish_task, write_parts
from ..dataset.dataset import UniRecordDataset
from ..dataset.tables import arrow_schema
from ..errors import SchemaError, UniRecordError
from ..format.column import Column
from ..format.layout import Shape
from ..format.metadata import check_room, pack_user
from ..format.schema import Schema
from ..format.values import RecordEncoder
from ..sizes import many, parse_size
from ..snapshot import manifest
from ..snapshot.manifest import PartEntry
from ..storage.schemes import location_of, path_on_disk
from ..storage.staged import Attempts
from ..writing.directory_writer import DirectoryWriter
from ..writing.part_writer import PartContent, PartSequence
from ..writing.row_groups import Grouper
from ..writing.target import BatchWriter, check_indexable, check_part_bytes, check_path

if TYPE_CHECKING:
    import pyarrow

__all__ = [
    "cause_of",
    "columns_of",
    "condition_of",
    "engine",
    "import_ray",
    "read",
    "schema_of",
    "with_tensors",
    "write",
]


# Ray Data: a dataset of ours as rows of its blocks, its conditions pushed down, and its blocks written as
# one.


# Ray itself: imported when it is needed, and its errors as ours.


def import_ray() -> Any:
    """Return the module; SchemaError says what to install."""
    try:
        import ray
    except ImportError as error:
        raise SchemaError(f"Ray is not installed: pip install 'unirecord[ray]' ({error})") from None
    return ray


def cause_of(error: BaseException) -> BaseException | None:
    """The error of ours, or of the file system, that a Ray task has ended with; None when it is another one."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        inner = getattr(one, "cause", None)
        if isinstance(one, UniRecordError | OSError) and not isinstance(inner, BaseException):
            return one
        waiting += [one.__context__, one.__cause__]
        waiting.append(inner if isinstance(inner, BaseException) else None)
    return None


# Blocks of Ray Data as columns: Arrow's types, and Ray's own for arrays.


_TENSOR: Final = "tensor"  # in the names of Ray's extension types
_OBJECT: Final = "object"
_ELEMENTS: Final = {"halffloat": "float16", "float": "float32", "double": "float64"}
_BATCH_BYTES: Final = 8_000_000


def schema_of(fields: Any, given: Mapping[str, Any]) -> Schema:
    """Return the schema for an Arrow schema of Ray; ``given`` replaces types by name.

    A column that Arrow calls nullable is nullable, since no block has been looked at when the first is written.
    """
    found = {}
    for field in fields:
        if field.name in given:
            continue
        found[field.name] = _spec(field)
    unknown = sorted(set(given) - set(fields.names))
    if unknown:
        raise SchemaError(
            f"schema: the dataset has no column {unknown[0]!r}; it has {', '.join(fields.names)}"
        )
    return Schema.parse({name: given.get(name, found.get(name)) for name in fields.names})


def _spec(field: Any) -> Any:
    kind = field.type
    said = _extension(kind)
    if _OBJECT in said:
        raise SchemaError(
            f"column {field.name!r} holds Python objects, which Ray keeps pickled; map them to numbers, text, bytes or "
            "arrays, or say its type with schema="
        )
    if _TENSOR not in said:
        return ArrowEvidence(kind, nulls=field.nullable).spec()
    element = _ELEMENTS.get(str(kind.value_type), str(kind.value_type))
    return {"type": element, "shape": [-1 if size is None else size for size in kind.shape]}


def _extension(kind: Any) -> str:
    name = getattr(kind, "extension_name", "")
    return name if name.startswith("ray.") else ""


def with_tensors(table: Any, columns: Sequence[Column]) -> Any:
    """A table of ``to_batches`` with arrays of one shape as Ray's tensors, over the same memory, in place of lists.

    Ray makes arrays and tensors of those, one for a batch, and of lists objects. Nulls and complex numbers stay lists.
    Classes are their numbers, as training takes them, and words of dictionaries strings.
    """
    import numpy as np
    import pyarrow
    from ray.data.extensions import ArrowTensorArray

    for number, column in enumerate(columns):
        shape, kind = column.item_shape, table.schema.field(number).type
        if pyarrow.types.is_dictionary(kind) and column.is_string:
            field = pyarrow.field(column.name, kind.value_type, column.nullable)
            table = table.set_column(number, field, table.column(number).cast(kind.value_type))
        elif pyarrow.types.is_dictionary(kind):
            field = pyarrow.field(column.name, pyarrow.from_numpy_dtype(column.dtype), column.nullable)
            codes = pyarrow.chunked_array(
                [chunk.indices for chunk in table.column(number).chunks], kind.index_type
            )
            codes = codes if column.nullable else codes.fill_null(-1)
            table = table.set_column(number, field, codes.cast(field.type))
        if not column.is_array or column.nullable or -1 in shape or column.type.startswith("complex"):
            continue
        if pyarrow.types.is_decimal(kind):
            continue
        values = table.column(number).combine_chunks()
        for _ in shape:
            values = values.flatten()
        array = values.to_numpy(zero_copy_only=False).astype(column.dtype, copy=False)
        tensors = ArrowTensorArray.from_numpy(np.reshape(array, (table.num_rows, *shape)))
        table = table.set_column(number, table.schema.field(number).with_type(tensors.type), tensors)
    return table


def columns_of(block: Any, schema: Schema) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield rows and columns of a block, about 8 MB at a time; SchemaError names a column that it lacks."""
    import pyarrow

    table = block
    if not isinstance(block, pyarrow.Table):
        from ray.data.block import BlockAccessor

        table = BlockAccessor.for_block(block).to_arrow()
    lacking = [name for name in schema.names if name not in table.column_names]
    if lacking and table.num_rows:
        raise SchemaError(f"a block has no column {lacking[0]!r}; it has {', '.join(table.column_names)}")
    more = [name for name in table.column_names if name not in schema]
    if more and table.num_rows:
        raise SchemaError(f"a block has a column {more[0]!r}, which the first block did not have")
    step = max(1, table.num_rows * _BATCH_BYTES // max(table.nbytes, 1))
    for start in range(0, table.num_rows, step):
        piece = table.slice(start, step)
        yield piece.num_rows, {name: _values(piece, schema, name) for name in schema.names}


def _values(table: Any, schema: Schema, name: str) -> Any:
    column = table.column(name)
    if _extension(column.type):
        from ray.data.block import BlockAccessor

        return list(BlockAccessor.for_block(table.select([name])).to_numpy(name))
    try:
        return arrow_values(column.combine_chunks(), schema[name])
    except SchemaError as error:
        raise SchemaError(f"column {name!r}: {error}") from None


# Expressions of Ray Data as conditions of ours, where both choose the same rows.


_COMPARISONS: Final = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_SWAPPED: Final = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_INTEGERS: Final = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")
_EXACT: Final = 1 << 53  # integers to which a float64 is compared without rounding


def condition_of(expression: Any, schema: Schema) -> str | None:
    """Return the text of the condition; None where there is none that surely means the same.

    Comparisons of a column with a value, joined by and, or and not: nulls and NaN count alike in both. Left out are
    what Arrow compares after rounding (float32 with decimals, uint64) and lists with nulls, of which Arrow thinks
    otherwise.
    """
    from ray.data.expressions import BinaryExpr, UnaryExpr

    if isinstance(expression, BinaryExpr):
        operation = str(expression.op.value)
        if operation in ("and", "or"):
            both = [condition_of(side, schema) for side in (expression.left, expression.right)]
            return None if None in both else f"({both[0]} {operation} {both[1]})"
        if operation in ("in", "not_in"):
            return _list(expression, operation, schema)
        if operation in _COMPARISONS:
            return _comparison(expression.left, expression.right, operation, schema)
    if isinstance(expression, UnaryExpr):
        operation = str(expression.op.value)
        if operation == "not":
            inner = condition_of(expression.operand, schema)
            return None if inner is None else f"(not {inner})"
        column = _column(expression.operand, schema)
        if column is not None and operation in ("is_null", "is_not_null") and not column.is_blob:
            return f"({_name(column)} is {'not ' if operation == 'is_not_null' else ''}null)"
    return None


def _comparison(left: Any, right: Any, operation: str, schema: Schema) -> str | None:
    column, other = _column(left, schema), right
    if column is None:
        column, other, operation = _column(right, schema), left, _SWAPPED[operation]
    value = None if column is None else _literal(column, other, operation)
    return None if column is None or value is None else f"({_name(column)} {_COMPARISONS[operation]} {value})"


def _list(expression: Any, operation: str, schema: Schema) -> str | None:
    from ray.data.expressions import LiteralExpr

    column = _column(expression.left, schema)
    given = getattr(expression.right, "value", None)
    if column is None or column.nullable or not isinstance(given, list | tuple) or not given:
        return None
    values = [_literal(column, LiteralExpr(one), "eq") for one in given]
    if None in values:
        return None
    return f"({_name(column)} {'not ' if operation == 'not_in' else ''}in ({', '.join(map(str, values))}))"


def _column(expression: Any, schema: Schema) -> Column | None:
    from ray.data.expressions import ColumnExpr

    if not isinstance(expression, ColumnExpr) or expression.name not in schema:
        return None
    column = schema[expression.name]
    return None if "`" in column.name or column.is_array else column


def _literal(column: Column, expression: Any, operation: str) -> str | None:
    """A value that a column is compared with, as text."""
    from ray.data.expressions import LiteralExpr

    if not isinstance(expression, LiteralExpr):
        return None
    value = expression.value
    if column.type == "bool":
        return str(value).lower() if type(value) is bool and operation in ("eq", "ne") else None
    if column.type in _INTEGERS:
        return str(value) if type(value) is int and -(1 << 63) <= value < 1 << 63 else None
    if column.type == "float64":
        exact = type(value) is float and abs(value) < float("inf")
        return repr(value) if exact or (type(value) is int and abs(value) <= _EXACT) else None
    if column.is_string and type(value) is str and operation in ("eq", "ne"):
        return json.dumps(value) if value.isascii() and value.isprintable() and "\\" not in value else None
    return None


def _name(column: Column) -> str:
    return f"`{column.name}`"


# `unirecord.ray.read`: rows as Ray blocks, a task for each run of rows; columns and conditions are pushed down.


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
        return 0.0 if self.no_columns else self.rows.read_cursor.plan.row_bytes


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


# `unirecord.ray.write`: a Ray dataset to a dataset of ours; what each task wrote last counts, once.


_PART_BYTES: Final = "256MiB"  # of blocks in memory, at least, for a task that writes
_STRIDE: Final = 1_000_000  # between the numbers of parts of a task


def write(
    dataset: Any,
    path: str | os.PathLike[str],
    *,
    schema: Mapping[str, Any] | Schema | None = None,
    index: Sequence[str] = (),
    metadata: object = None,
    max_part_bytes: int | str | None = None,
    overwrite: bool = False,
    min_task_bytes: int | str = _PART_BYTES,
    append: bool = False,
    concurrency: int | None = None,
    ray_remote_args: Mapping[str, Any] | None = None,
) -> int:
    """Writes a ``ray.data.Dataset`` as a directory of parts on storage that all machines share; returns the rows.

    Tasks may die, be run again or run twice: each attempt writes in a folder of its own, and the manifest, which
    appears by one rename, names what the attempts wrote whose results Ray returned. Every row is there once.
    The order is that of Ray's tasks: the dataset's own where ``DataContext.execution_options.preserve_order`` is set.

    Args:
        dataset: what is written; it is executed by this call.
        path: the directory, as for `Writer`.
        schema: types by name, for some columns or all; others follow the first block. A column that Arrow calls
            nullable becomes nullable, unless its type is given.
        index, metadata, max_part_bytes, overwrite: as for `Writer`.
        min_task_bytes: blocks are put together to so much for each task that writes, hence for each part.
        append: add parts to the dataset at ``path``.
        concurrency, ray_remote_args: as for ``ray.data.Dataset.write_datasink``.

    Raises:
        SchemaError: a value does not fit, or Ray is missing; nothing is published.
        MissingError: a machine of the cluster does not see ``path``, or there is nothing to append to.
        ExistsError, BusyError, OSError, ValueError: as for `Writer`.
    """
    import_ray()
    place = path_on_disk(check_path(path), "what Ray's tasks write")
    if place.endswith(".urec"):
        raise ValueError(
            f"{place} is one part, which one process writes; for Ray choose a name without .urec"
        )
    given = schema.to_spec() if isinstance(schema, Schema) else dict(schema or {})
    least = parse_size(min_task_bytes) if isinstance(min_task_bytes, str) else min_task_bytes
    job = _PartsJob(
        location_of(place).absolute(place), given, index, pack_user(metadata), check_part_bytes(max_part_bytes, place),
        overwrite, append,
    )  # fmt: skip
    try:
        dataset.write_datasink(
            _datasink()(job, least), concurrency=concurrency, ray_remote_args=dict(ray_remote_args or {})
        )
    except Exception as error:
        cause = cause_of(error)
        if cause is not None and cause is not error:
            raise cause from error
        raise
    finally:
        job.give_up()
    return job.rows


class _PartsJob:
    """What the driver holds (the directory and its lock), and what tasks need of it, which alone is pickled."""

    def __init__(
        self, path: str, given: Mapping[str, Any], index: Sequence[str], user: bytes, max_part_bytes: int,
        overwrite: bool, append: bool,
    ) -> None:  # fmt: skip
        self.rows = 0
        self._given, self._index, self._user = given, tuple(index), user
        self._max_part_bytes = max_part_bytes
        self._content: PartContent | None = None
        self._target: DirectoryWriter | None = DirectoryWriter(
            path, secrets.token_bytes(16), max_part_bytes=max_part_bytes, overwrite=overwrite, append=append
        )
        try:
            self._target.keep()
            self._first, self._like = self._target.first, os.path.join(path, manifest.NAME)
            self._attempts = Attempts(os.fspath(path))
            self._attempts.start()
            before = self._target.change.before
            if append and before is not None:
                known = before.schema if self._target.schema is None else self._target.schema
                self._given = {**known.to_spec(), **given}
                self._index, self._user = self._index or before.index, before.metadata or b"\xc0"
        except BaseException:
            self.give_up()
            raise

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_target": None}

    def begin(self, fields: Any) -> None:
        """Fix the schema by that of the first block, or by what was given where it has none."""
        if fields is None:
            self._without_blocks()
        else:
            self._fix_schema(schema_of(fields, self._given))

    def _fix_schema(self, schema: Schema) -> None:
        check_indexable(schema, self._index)
        check_room(schema, self._index, self._user)
        content = PartContent(schema, self._index, self._user)
        if self._target is not None:
            self._target.check_schema(content)
        self._content = content

    def write(self, blocks: Iterable[Any], task: int) -> list[Any]:
        """Write the rows of a task; folder, rows and parts of this attempt."""
        content = self._content
        assert content is not None
        folder = self._attempts.begin(task)
        parts = PartSequence(
            folder,
            secrets.token_bytes(16),
            lambda i: self._first + task + i * _STRIDE,
            self._max_part_bytes,
            self._like,
        )
        rows = 0
        try:
            writer, encoder = BatchWriter(parts, content), RecordEncoder(content.schema, "error")
            for block in blocks:
                for count, columns in columns_of(block, content.schema):
                    writer.add(encoder.encode_batch(columns, rows), owned=False)
                    rows += count
            writer.finish()
        except SchemaError as error:
            parts.discard()
            raise SchemaError(f"task {task}, {error}") from None
        except BaseException:
            parts.discard()
            raise
        return [task, folder, rows, parts.entries]

    def commit(self, results: Sequence[Any]) -> None:
        """Take over what these attempts wrote, and publish it by one rename of the manifest."""
        target = self._target
        if target is None:
            raise UniRecordError("the job has been committed or given up before")
        if self._content is None:
            self._without_blocks()
        assert self._content is not None
        entries: list[PartEntry] = []
        for _, folder, _, parts in sorted(results, key=lambda one: int(one[0])):
            names = [name for part in parts for name in (part.name, part.name + ".idx")]
            self._attempts.take_over(folder, names, target.change.folder)
            entries += parts
        rows = sum(one[2] for one in results)
        stored = sum(entry.rows for entry in entries)
        if rows != stored or len({entry.name for entry in entries}) != len(entries):
            raise UniRecordError(
                f"{target.path}: {many(rows, 'row', 'were')} written, and the parts hold {stored:,}; "
                f"nothing was published"
            )
        target.publish(self._content, _empty_shape(self._content.schema), entries)
        self.rows = rows
        self._target = None
        self._attempts.finish()

    def _without_blocks(self) -> None:
        if not self._given:
            raise SchemaError(
                "the first block has no columns, as of a dataset without rows; pass schema= with all of them"
            )
        self._fix_schema(Schema.parse(self._given))

    def give_up(self) -> None:
        """Publish nothing, if nothing has been; attempts stay, for one may still be at work, until they are old."""
        target, self._target = self._target, None
        if target is not None:
            target.abandon()


def _empty_shape(schema: Schema) -> Shape:
    grouper = Grouper(schema)
    list(grouper.finish())
    return cast(Shape, grouper.shape)


@cache
def _datasink() -> Any:
    """The class that Ray calls, made when Ray is there."""
    from ray.data import Datasink

    class UniRecordDatasink(Datasink):  # type: ignore[misc]
        """Hands on to a `_PartsJob`."""

        def __init__(self, job: _PartsJob, least: int) -> None:
            super().__init__()
            self._job, self._least = job, least

        def on_write_start(self, schema: Any = None) -> None:
            self._job.begin(schema)

        def write(self, blocks: Iterable[Any], ctx: Any) -> Any:
            return self._job.write(blocks, ctx.task_idx)

        def on_write_complete(self, write_result: Any) -> None:
            self._job.commit(write_result.write_returns)

        def on_write_failed(self, error: Exception) -> None:
            """Nothing is removed here: `give_up` gives the directory back, and attempts are swept when they are old."""

        @property
        def min_bytes_per_write(self) -> int:
            return self._least

    return UniRecordDatasink


# The tasks of a conversion as Ray tasks: each attempt in a folder of its own, the first to end wins.


def engine(path: str | os.PathLike[str]) -> Engine:
    """Return what runs a conversion to ``path`` on the Ray cluster of this process, or on one it starts here.

    A task that dies with its process or its machine is run again, three times at most. When all tasks are taken and a
    processor is free, one that still runs is attempted a second time. Whatever attempt ends first is taken over by this
    process; the bytes are the same for all.

    Raises SchemaError when Ray is missing.
    """
    ray = import_ray()

    def run(
        job: Job,
        tasks: Sequence[int],
        tell: TellOfTask,
        done: Callable[[int, dict[str, Any]], None],
    ) -> None:
        started = not ray.is_initialized()
        if started:
            ray.init(log_to_driver=False, include_dashboard=False, configure_logging=False)
        attempts = Attempts(os.fspath(path))
        attempts.start()
        try:
            _Run(ray, job, attempts, tell, done).run(tasks)
        finally:
            attempts.finish()
            if started:
                ray.shutdown()

    return run


def attempt(job: Job, task: int, attempts: Attempts) -> tuple[str, dict[str, Any]]:
    """Write the parts of a task in a folder of this attempt alone; the folder, and the record of the task."""
    folder = attempts.begin(task)
    return folder, write_parts(job, task, folder, _nobody)


def _nobody(*_: object) -> None:
    """Progress is told when a task is done."""


class _Run:
    """Tasks that are under way; those that are done are not taken over again."""

    def __init__(
        self,
        ray: Any,
        job: Job,
        attempts: Attempts,
        tell: TellOfTask,
        done: Callable[[int, dict[str, Any]], None],
    ) -> None:
        self._ray, self._job, self._attempts = ray, job, attempts
        self._tell, self._done = tell, done
        self._given = ray.put(job)
        self._attempt = ray.remote(num_cpus=1, max_retries=3)(attempt)
        self._running: dict[Any, int] = {}

    def run(self, tasks: Sequence[int]) -> None:
        """Run all, and return when each has been taken over once."""
        left = set(tasks)
        for task in tasks:
            self._start(task)
        try:
            while left:
                (ref, *_), _ = self._ray.wait(list(self._running))
                task = self._running.pop(ref)
                if task in left and self._take_over(task, ref):
                    left.remove(task)
                    self._attempt_again(left)
        finally:
            for ref in self._running:
                self._ray.cancel(ref, force=True)

    def _start(self, task: int) -> None:
        self._running[self._attempt.remote(self._given, task, self._attempts)] = task

    def _attempt_again(self, left: set[int]) -> None:
        """A second attempt at a task that runs alone, on a processor that nobody needs."""
        running = list(self._running.values())
        alone = [task for task in sorted(left) if running.count(task) == 1]
        if alone and len(running) < self._ray.cluster_resources().get("CPU", 1):
            self._start(alone[0])

    def _take_over(self, task: int, ref: Any) -> bool:
        """Make an attempt that has ended the one that counts; False when it died, and another one still runs."""
        try:
            folder, record = self._ray.get(ref)
        except self._ray.exceptions.RayError as error:
            cause = cause_of(error)
            if cause is None and task in self._running.values():
                return False
            raise cause or UniRecordError(
                f"task {task} of {len(self._job.tasks)} failed on Ray: {error}"
            ) from error
        names = [name for part in record["parts"] for name in (part["name"], part["name"] + ".idx")]
        self._attempts.take_over(folder, names, self._job.folder)
        finish_task(self._job, task, record)
        size = sum(part["bytes"] + part["index_bytes"] for part in record["parts"])
        self._tell(task, record["rows"], size, self._job.rows_to_read(task), "")
        self._done(task, record)
        return True
