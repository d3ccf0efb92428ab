"""`Writer` and `append`: records in, a published dataset out."""

from __future__ import annotations

import atexit
import copy
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from ..core import WeakObjects
from ..errors import ClosedError, SchemaError
from ..format import metadata as metadata_map
from ..format.schema import Schema
from ..format.values import ColumnBatch, RecordEncoder
from ..format.values.batch import as_columns, first_values
from ..format.values.tensors import is_torch_tensor, memory_of
from ..migration_hints import OF_WRITERS, WRITING_ARGUMENTS, explains_arguments, no_attribute
from ..sizes import many
from ..storage.schemes import location_of
from ..storage.storage_options import use_storage
from .directory_writer import DirectoryWriter
from .inference import infer_schema
from .part_writer import PartContent, ScalarCodec, check_scalar_codec
from .target import (
    BatchWriter,
    Path,
    Target,
    check_id,
    check_index_names,
    check_indexable,
    check_part_bytes,
    check_path,
    open_target,
    storage_to_write_to,
)

__all__ = [
    "say_dropped",
    "watch",
]


# Writers that are open: one that is dropped, or alive when its process ends, is said on stderr and cleaned up.


_open: WeakObjects[Writer] = WeakObjects()
_watching = 0  # the process that looks at its end


def watch(writer: Writer) -> None:
    """Has the writer looked at when the process ends."""
    global _watching
    _open.add(writer)
    process = sys.modules.get("multiprocessing.process")
    if _watching != os.getpid() and process is not None and process.parent_process() is not None:
        from multiprocessing.util import Finalize  # such a process ends without atexit

        Finalize(None, _at_end, exitpriority=1)
    _watching = os.getpid()
    atexit.unregister(_at_end)  # and again as the latest, to run before what the writer needs has ended
    atexit.register(_at_end)


def say_dropped(writer: Writer, how: str) -> None:
    """One line on stderr: a user who meets no error would take the rows for written."""
    count = many(writer.rows, "row")
    line = f"unirecord: {writer.path}: a Writer with {count} {how} without close(): nothing was published; "
    if sys.stderr is not None:
        print(line + "use `with Writer(...)`, or call close() or abort()", file=sys.stderr)


def _at_end() -> None:
    for writer in _open:
        if writer.is_open():
            if not _died_visibly():
                say_dropped(writer, "was alive when its process ended")
            writer.abort()


def _died_visibly() -> bool:
    """Whether the process ends by an exception that Python has just shown."""
    return getattr(sys, "last_value", None) is not None and not hasattr(sys, "ps1")


_INFER_RECORDS = 1_000  # records looked at to infer a schema
_INFER_BYTES = 32 << 20
_CHUNK_BYTES = 4 << 20  # records collected before they are turned into columns


class Writer:
    """Writes a dataset: a path that ends in ``.urec`` becomes one part, any other path a directory of parts.

    A directory may be in an object store, as ``s3://bucket/train`` (docs/storage.md).

    Nothing is visible at ``path`` before `close`; leaving a ``with`` block by an exception publishes nothing. A refused
    record (SchemaError) takes no row, and the writer goes on. After a failure of the file system it is of no more use.

    One thread at a time may use a writer.

    Args:
        path: where the dataset is to be; the folder above must exist.
        schema: a dict (docs/schema.md) or a ``Schema``; left out, it is inferred from the first 1,000 records.
        index: names of scalar columns to be looked up by value (docs/query.md).
        metadata: any value that msgpack holds; readers get it as ``ds.metadata``.
        max_part_bytes: bytes after which a directory begins a new part: a number, or text like ``"2GiB"``; 20 GB by
            default. Refused where ``path`` is to be one part.
        overwrite: replace what is at ``path`` instead of raising ExistsError.
        extra: fields of a record that are not in the schema: ``"error"`` refuses it, ``"ignore"`` drops them.
        id: 16 bytes that make the output reproducible; random by default. Refused where ``path`` is in an object store.
        scalar_codec: how the data file stores its scalar columns, whose values are read from the index: ``"zstd"``,
            which is the default where libzstd can be loaded, or ``"none"``, as they are.
        storage_options: how an object store is reached, as for `UniRecordDataset`.

    Attributes:
        path: where the dataset will be.

    Raises:
        ExistsError: there is something at ``path``, and ``overwrite`` is False.
        BusyError: another writer that is alive holds the dataset.
        SchemaError: the schema is wrong, or ``index`` names a column that cannot be looked up by value.
        ColumnError: libzstd is asked for, and cannot be loaded.
        ValueError, TypeError: another wrong argument.
    """

    path: str

    @explains_arguments(WRITING_ARGUMENTS)
    def __init__(
        self,
        path: Path,
        schema: Mapping[str, Any] | Schema | None = None,
        *,
        index: Sequence[str] = (),
        metadata: object = None,
        max_part_bytes: int | str | None = None,
        overwrite: bool = False,
        extra: Literal["error", "ignore"] = "error",
        id: bytes | None = None,
        scalar_codec: ScalarCodec = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._target: Target | None = None
        with use_storage(storage_to_write_to(path, storage_options)):
            self._open(
                path,
                schema,
                index,
                metadata,
                max_part_bytes,
                overwrite,
                extra,
                id,
                scalar_codec,
                append=False,
            )

    def _open(
        self, path: Path, schema: Mapping[str, Any] | Schema | None, index: Sequence[str] | None, user: object,
        max_part_bytes: int | str | None, overwrite: bool, extra: Literal["error", "ignore"], id: bytes | None,
        scalar_codec: ScalarCodec, *, append: bool,
    ) -> None:  # fmt: skip
        self.path = check_path(path)
        self._stored = 0
        self._extra, self._adds_nulls = extra, append
        self._pid = os.getpid()
        self._failed: BaseException | None = None
        self._published = False
        self._unread: list[Mapping[str, Any]] = []
        self._unread_bytes = 0
        self._encoder: RecordEncoder | None = None
        self._add: Callable[[Mapping[str, Any], int], int] | None = None  # None when not open, too
        if type(overwrite) is not bool:
            raise TypeError(f"overwrite is True or False, got {overwrite!r}")
        if extra not in ("error", "ignore"):
            raise ValueError(f'extra is "error" or "ignore", got {extra!r}')
        part_bytes = check_part_bytes(max_part_bytes, self.path)
        check_scalar_codec(scalar_codec)
        self._scalar_codec = scalar_codec
        self._index = None if index is None else check_index_names(index)
        self._user = metadata_map.pack_user(user)
        parsed = None if schema is None else Schema.parse(schema)
        if parsed is not None:
            check_indexable(parsed, self._index or ())
        new_id = check_id(id, self.path)
        place = location_of(self.path).absolute(self.path)
        self._target = open_target(
            place, new_id, max_part_bytes=part_bytes, overwrite=overwrite, append=append
        )
        try:
            self._target.keep()
            watch(self)
            if (
                append
                and isinstance(self._target, DirectoryWriter)
                and self._target.change.before is not None
            ):
                before = self._target.change.before
                if parsed is None or not any(column.packed_annotations for column in parsed):
                    stored = self._target.schema or before.schema
                    parsed = stored if parsed is None else parsed.with_annotations_of(before.schema)
                if scalar_codec is None:
                    self._scalar_codec = self._target.scalar_codec
                self._index = before.index if self._index is None else self._index
                self._user = before.metadata or b"\xc0"
            if parsed is not None:
                self._set_schema(parsed)
        except BaseException:
            self.abort()
            raise

    @property
    def schema(self) -> Schema | None:
        """The schema, as soon as it is known: given, or inferred from the first records."""
        return self._batches.content.schema if self._encoder is not None else None

    @property
    def rows(self) -> int:
        """How many rows have been taken."""
        return self._stored + (self._encoder.rows if self._encoder else 0) + len(self._unread)

    def _set_schema(self, schema: Schema) -> None:
        index = tuple(self._index or ())
        check_indexable(schema, index)
        metadata_map.check_room(schema, index, self._user)
        content = PartContent(schema, index, self._user, scalar_codec=self._scalar_codec)
        assert self._target is not None
        if isinstance(self._target, DirectoryWriter):
            self._target.check_schema(content)
        self._batches = BatchWriter(self._target, content)
        self._encoder = RecordEncoder(schema, self._extra, adds_nulls=self._adds_nulls)
        self._add = self._encoder.add

    def write(self, record: Mapping[str, Any]) -> None:
        """Adds one row: a dict with a value for every column.

        Raises:
            SchemaError: the record does not fit; it takes no row, and the writer goes on.
            ClosedError: the writer has been closed, or has failed before.
            OSError: the file system refused; the writer is of no more use, and nothing is published.
        """
        add = self._add
        if add is None:
            self._write_first(record)
        elif add(record, self._stored) >= _CHUNK_BYTES:
            self._flush()

    def _write_first(self, record: Mapping[str, Any]) -> None:
        self._check_open()
        if not isinstance(record, Mapping):
            kind = type(record).__name__
            raise SchemaError(f"row {self.rows}: a record is a dict of column names and values, got {kind}")
        self._unread.append(_snapshot(record))
        self._unread_bytes += sum(memory_of(value) for value in record.values())
        if self._unread_bytes >= _INFER_BYTES or len(self._unread) >= _INFER_RECORDS:
            self._infer(self._unread)

    def _infer(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Settles the schema from the first records, and takes in those that wait for it."""
        if not records:
            raise SchemaError(
                f"{self.path}: without a schema and without rows there is nothing to write; pass schema="
            )
        self._set_schema(infer_schema(records))
        waiting, self._unread = self._unread, []
        refused = []
        for record in waiting:
            try:
                self.write(record)
            except SchemaError as error:
                refused.append(error)
        if len(refused) > 1:
            more = len(refused) - 1
            raise SchemaError(f"{refused[0]} (and {more} more of the first records do not fit)") from refused[
                0
            ]
        if refused:
            raise refused[0]

    def write_batch(self, batch: Any) -> None:
        """Adds the rows of ``batch``: a dict of whole columns, arrays or lists [n, …] of one length, or a table.

        A table is a pandas or polars DataFrame (whose index is left out) or a pyarrow Table.

        Raises:
            SchemaError: a value does not fit; none of the rows is taken, and the writer goes on.
            ClosedError, OSError: as for ``write``.
        """
        self._check_open()
        if self._encoder is None:
            self._infer(self._unread or _first_records(batch))
        assert self._encoder is not None
        encoded = self._encoder.encode_batch(batch, self.rows)
        self._flush()
        self._store(encoded, owned=False)

    def _flush(self) -> None:
        self._check_open()
        if self._encoder is not None and self._encoder.rows:
            self._store(None, owned=True)

    def _store(self, batch: ColumnBatch | None, *, owned: bool) -> None:
        """Hands on a batch, or the records that wait; a failure in the middle ends the writer."""
        assert self._encoder is not None
        try:
            if batch is None:
                batch = self._encoder.take()
            self._stored += batch.rows
            self._batches.add(batch, owned=owned)
        except BaseException as error:
            self._fail(error)
            raise

    def close(self) -> None:
        """Publishes the dataset: it is synced to the disk, and then appears at ``path`` whole.

        Does nothing when the writer is closed already. OSError when the file system refuses: nothing is published.
        """
        if self._target is None and self._failed is None:
            return
        self._check_open()
        try:
            if self._encoder is None:
                self._infer(self._unread)
            self._flush()
            self._batches.finish()
        except BaseException as error:
            self._fail(error)
            raise
        self._target = self._add = None

    def abort(self) -> None:
        """Gives up: removes what has been written and publishes nothing; does nothing after ``close``."""
        target, self._target, self._add = self._target, None, None
        self._unread = []
        if self._encoder is not None:
            self._encoder.clear()
        if target is not None and os.getpid() == self._pid:  # a child's files have been closed by the fork
            target.abort()

    def _fail(self, error: BaseException) -> None:
        self._failed = error
        if self._target is not None:
            self._published = self._target.published
        self.abort()

    def _check_open(self) -> None:
        if self._failed is not None:
            what = "after it had published the dataset" if self._published else "and published nothing"
            raise ClosedError(
                f"{self.path}: the writer has failed before, {what}: {type(self._failed).__name__}: {self._failed}"
            )
        if self._target is None:
            raise ClosedError(f"{self.path}: the writer is closed; open a new one to write more")
        if os.getpid() != self._pid:
            raise ClosedError(f"{self.path}: the writer belongs to the process that made it, not to its fork")

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(no_attribute(type(self).__name__, name, OF_WRITERS), name=name, obj=self)

    def __enter__(self) -> Writer:
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.close()
        finally:  # whatever interrupted it, no writer is left open here
            self.abort()

    def is_open(self) -> bool:
        """Whether it is neither closed nor aborted nor another process's."""
        return getattr(self, "_target", None) is not None and os.getpid() == self._pid

    def __del__(self) -> None:
        if self.is_open():
            say_dropped(self, "was dropped")
            self.abort()


@explains_arguments(WRITING_ARGUMENTS)
def append(
    path: Path,
    schema: Mapping[str, Any] | Schema | None = None,
    *,
    index: Sequence[str] | None = None,
    max_part_bytes: int | str | None = None,
    extra: Literal["error", "ignore"] = "error",
    id: bytes | None = None,
    scalar_codec: ScalarCodec = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Writer:
    """A Writer that adds parts to the dataset in a directory; they appear together, at ``close``.

    Columns that can be null may be left out of a record or batch, which is null there: so a job that knows nothing of
    columns that have been added goes on.

    Args:
        path: the directory of a dataset.
        schema, index: the dataset's own by default; given, they must be the same.
        max_part_bytes, extra, id: as for ``Writer``.
        scalar_codec: as for ``Writer``; None: as the dataset's last part has it.
        storage_options: as for ``Writer``.

    Raises:
        MissingError: there is no dataset at ``path``; ``Writer`` makes one.
        SchemaError: ``path`` is a single part, which is never changed, or ``schema`` or ``index`` differ.

    Others may append at the same time (docs/growing.md): ``close`` waits for who holds the directory. It raises
    StaleError when the dataset has been replaced meanwhile, and BusyError when this thread itself holds it.
    """
    if check_path(path).endswith(".urec"):
        raise SchemaError(
            f"{os.fspath(path)}: a single part is never changed; write the new rows to another part or to a directory, "
            f"and open both as a list of paths"
        )
    writer = Writer.__new__(Writer)
    writer._target = None
    with use_storage(storage_to_write_to(path, storage_options)):
        writer._open(path, schema, index, None, max_part_bytes, False, extra, id, scalar_codec, append=True)
    return writer


def _snapshot(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record as it is now, whatever the caller does to its buffers later."""
    return {name: _copy(value) for name, value in record.items()}


def _copy(value: Any) -> Any:
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    # PyTorch copies no tensor deeply that a gradient leads through, or that is sparse by rows.
    return value.detach().clone() if is_torch_tensor(value) else copy.deepcopy(value)


def _first_records(batch: Any) -> list[dict[str, Any]]:
    """The first rows of a batch as records."""
    columns = as_columns(batch)
    if not isinstance(columns, Mapping):
        return []
    rows = min((len(values) for values in columns.values()), default=0)
    heads = [first_values(values, min(rows, _INFER_RECORDS)) for values in columns.values()]
    return [dict(zip(columns, values, strict=True)) for values in zip(*heads, strict=True)]
