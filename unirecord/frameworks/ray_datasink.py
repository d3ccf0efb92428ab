"""`unirecord.ray.write`: a Ray dataset to a dataset of ours; what each task wrote last counts, once."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, cast

from ..errors import SchemaError, UniRecordError
from ..format.layout import Shape
from ..format.metadata import check_room, pack_user
from ..format.schema import Schema
from ..format.values import RecordEncoder
from ..parts import manifest
from ..parts.manifest import PartEntry
from ..sizes import parse_size
from ..storage.attempts import Attempts
from ..storage.registry import location_of, path_on_disk
from ..writing.arguments import check_indexable, check_part_bytes, check_path
from ..writing.batch_writer import BatchWriter
from ..writing.directory_writer import DirectoryWriter
from ..writing.part_sequence import PartSequence
from ..writing.part_writer import PartContent
from ..writing.row_groups import Grouper
from .ray_blocks import columns_of, schema_of
from .ray_session import cause_of, import_ray

__all__ = ["write"]

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
            self._attempts = Attempts(path)
            self._attempts.start()
            before = self._target.before
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
        """Settle the schema by that of the first block, or by what was given where it has none."""
        if fields is None:
            self._without_blocks()
        else:
            self._settle(schema_of(fields, self._given))

    def _settle(self, schema: Schema) -> None:
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
            self._attempts.take_over(folder, names, target.folder)
            entries += parts
        rows = sum(one[2] for one in results)
        stored = sum(entry.rows for entry in entries)
        if rows != stored or len({entry.name for entry in entries}) != len(entries):
            raise UniRecordError(
                f"{target.path}: {rows:,} rows were written, and the parts hold {stored:,}; nothing was published"
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
        self._settle(Schema.parse(self._given))

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
