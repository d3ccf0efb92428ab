"""Opened parts, sets of them as one row space, and the buffers that rows are read into."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from shlex import quote
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from ..errors import CorruptionError, MissingError, StaleError
from .fetch import Fetch, Fetching, NativeCache, Range
from .library import Handle, ffi, lib, raise_for, view_of

IO_CODES = {
    "auto": lib.UR_IO_AUTO,
    "mmap": lib.UR_IO_MAP,
    "pread": lib.UR_IO_PREAD,
    "uring": lib.UR_IO_URING,
    "uring-direct": lib.UR_IO_URING_DIRECT,
    "memory": lib.UR_IO_MEMORY,
}
_ID_BYTES = 16
IO_NAMES = {lib.UR_IO_FETCH: "fetch", **{code: name for name, code in IO_CODES.items()}}
VERIFY_CODES = {
    "first": lib.UR_VERIFY_FIRST,
    "always": lib.UR_VERIFY_ALWAYS,
    "never": lib.UR_VERIFY_NEVER,
}


class NativePart:
    """One opened part. Arrays over its memory keep it open."""

    __slots__ = ("_paths", "handle", "info")

    def __init__(self, pointer: Any, path: str) -> None:
        self.handle: Handle = Handle(pointer, lib.ur_part_release)
        self.info: Any = ffi.new("ur_part_info *")
        self._paths = (path,)
        lib.ur_part_describe(pointer, self.info)

    @property
    def id(self) -> bytes:
        """The 16 bytes of the part's id."""
        return bytes(ffi.buffer(self.info.id))

    @property
    def content_digest(self) -> bytes:
        """The 16 bytes that stand for every value of the part."""
        return bytes(ffi.buffer(self.info.content_digest))

    def metadata(self) -> bytes:
        """The index's msgpack map."""
        return bytes(ffi.buffer(self.info.metadata, self.info.metadata_bytes))

    def table(self) -> bytes:
        """The column table, which both files have."""
        return bytes(ffi.buffer(self.info.table, 32 * self.info.columns))

    def section(self, kind: int, column: int) -> Any | None:
        """The ur_section of this kind, or None when the index has none."""
        section = ffi.new("ur_section *")
        status = lib.ur_part_section(self.handle.pointer, kind, column, section)
        return section if status == lib.UR_OK else None

    def array(self, section: Any, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """A section as a read-only array over the mapped index, not checked; of a packed one, its bytes."""
        if section.bits and np.dtype(dtype) != np.uint8:
            raise ValueError(f"a section of {section.bits} bits an element is no array of {np.dtype(dtype)}")
        if section.bytes == 0:
            return np.empty(0, dtype)
        return np.frombuffer(
            view_of(self.handle, section.data, section.bytes), dtype
        )  # it keeps the part open

    def check(self, section: Any, first: int, size: int) -> None:
        """Checks the digests of the index blocks under bytes [first, first + size) of a section.

        CorruptionError when they do not hold, or when numbers of the file have led outside of the section.
        """
        if not 0 <= first <= first + size <= section.bytes:
            name = f"{self._paths[0]}.idx"
            raise CorruptionError(
                f"{name}: its numbers lead to bytes [{first}, {first + size}) of a section of {section.bytes}; "
                f"run `unirecord repair {quote(self._paths[0])}` to rebuild the index from the data file",
                path=name,
            )
        error = ffi.new("ur_error *")
        if lib.ur_part_check(self.handle.pointer, section, first, size, error) != lib.UR_OK:
            error.part = 0
            raise_for(error, self._paths)

    def bring(self) -> None:
        """Checks all blocks of the index that have not been checked, and fetches those that are not here."""
        error = ffi.new("ur_error *")
        if lib.ur_part_bring(self.handle.pointer, error) != lib.UR_OK:
            error.part = 0
            raise_for(error, self._paths)

    def locate(self, row: int, column: int) -> tuple[int, int]:
        """Offset in the data file, and size, of a blob."""
        place, error = ffi.new("uint64_t[2]"), ffi.new("ur_error *")
        if lib.ur_part_locate(self.handle.pointer, row, column, place, place + 1, error) != lib.UR_OK:
            error.part = 0
            raise_for(error, self._paths)
        return place[0], place[1]


_REF_FIELDS: dict[str, type[np.generic]] = {
    "data_path": np.uintp,
    "id": np.uintp,
    "rows": np.int64,
    "content_digest": np.uintp,
    "layout": np.int32,
    "data_bytes": np.int64,
    "index_bytes": np.int64,
    "patch": np.uintp,
    "patch_bytes": np.int64,
    "patch_file": np.uint32,
}
_REF = np.dtype(
    {
        "names": list(_REF_FIELDS),
        "formats": list(_REF_FIELDS.values()),
        "offsets": [ffi.offsetof("ur_part_ref", name) for name in _REF_FIELDS],
        "itemsize": ffi.sizeof("ur_part_ref"),
    }
)


class PartRefs(NamedTuple):
    """What a set is told of its parts, as columns: there may be a hundred thousand.

    ``ids``, ``contents``: 16 bytes of each, the id and the content digest; ``known``, ``sealed``: of which parts these
    are known, None: of all. ``rows``: -1 where they are not known. ``patches``: of parts that have one, the number of
    the file, and the bytes.
    """

    paths: Sequence[str]
    ids: bytes
    known: npt.NDArray[np.bool_] | None
    rows: npt.NDArray[np.int64]
    contents: bytes
    sealed: npt.NDArray[np.bool_] | None
    patches: Mapping[int, tuple[int, bytes]] = MappingProxyType({})

    @classmethod
    def of(cls, parts: Sequence[tuple[str, bytes | None, int, bytes | None]]) -> PartRefs:
        """Of (path, id or None, rows or -1, content digest or None)."""
        paths, ids, rows, contents = zip(*parts, strict=True) if parts else ((), (), (), ())
        return cls(
            paths,
            b"".join(part_id or bytes(_ID_BYTES) for part_id in ids),
            np.array([part_id is not None for part_id in ids], np.bool_),
            np.array(rows, np.int64),
            b"".join(content or bytes(_ID_BYTES) for content in contents),
            np.array([content is not None for content in contents], np.bool_),
        )


def _refs(parts: PartRefs, of_parts: Sequence[int], sizes: npt.NDArray[np.int64] | None) -> tuple[Any, ...]:
    """An array of ur_part_ref, and the memory it points to; without a call for each part."""
    count = len(parts.paths)
    fields = np.zeros(max(count, 1), _REF)
    refs = ffi.from_buffer("ur_part_ref[]", fields)
    if not count:
        return (refs,)
    names = np.frombuffer(os.fsencode("\0".join(parts.paths)) + b"\0", np.uint8)
    ends = np.flatnonzero(names == 0)
    if len(ends) != count:
        raise ValueError("the path of a part has a zero byte in it")
    fields["data_path"] = names.ctypes.data + np.concatenate(([0], ends[:-1] + 1))
    fields["rows"] = parts.rows
    if of_parts:
        fields["layout"] = of_parts
    if sizes is not None:
        fields["data_bytes"], fields["index_bytes"] = sizes.T
    kept: list[Any] = []
    for i, (file, patch) in parts.patches.items():
        kept.append(content := np.frombuffer(patch, np.uint8))
        fields["patch"][i], fields["patch_bytes"][i] = content.ctypes.data, len(patch)
        fields["patch_file"][i] = file
    for name, packed, known in (
        ("id", parts.ids, parts.known),
        ("content_digest", parts.contents, parts.sealed),
    ):
        held = np.frombuffer(packed, np.uint8)
        places = held.ctypes.data + _ID_BYTES * np.arange(count)
        fields[name] = places if known is None else np.where(known, places, 0)
        kept.append(held)
    return refs, names, *kept


class NativeSet:
    """The rows of several parts as one row space, opened as needed; ``parts``: also as `PartRefs.of` takes them.

    ``data_bytes``: of all parts together, for ``io="auto"`` to compare with memory. ``table``: the column table that
    every part must have, else it is a CorruptionError to open it; empty: any, as long as all have the same. ``schema``:
    the msgpack of the schema in the metadata of parts whose content digest is given; empty: any.
    ``moved_on``: what has been put at the paths since, asked when a part is missing or another one than expected, or a
    file, which is given, damaged; "" for nothing.
    ``fetch``: what brings the bytes, where the paths are no files; ``sizes``: (parts, 2), those of data file and index.
    ``cache``: what is looked at first: file 2 × part, + 1 for the index. ``ahead``: what is told of by `advise`.
    ``heads_only``: what is fetched is only described; none of its rows can be read.
    ``layouts``: of parts that store other columns: where those of the table are in their files, by their numbers;
    ``of_parts``: for each part the number of its layout + 1, 0 without; empty: none has one.
    """

    __slots__ = ("fetching", "handle", "moved_on", "names", "paths", "pointer")
    fetching: tuple[Fetching, ...]

    def __init__(
        self,
        parts: PartRefs | Sequence[tuple[str, bytes | None, int, bytes | None]],
        io: str,
        verify: str,
        names: Sequence[str] = (),
        data_bytes: int = 0,
        table: bytes = b"",
        moved_on: Callable[[str | None], str] = lambda path: "",
        schema: bytes = b"",
        fetch: Fetch | None = None,
        sizes: npt.NDArray[np.int64] | None = None,
        cache: NativeCache | None = None,
        ahead: Callable[[Sequence[Range]], None] | None = None,
        heads_only: bool = False,
        layouts: Sequence[Sequence[int]] = (),
        of_parts: Sequence[int] = (),
    ) -> None:
        options, error = ffi.new("ur_set_options *"), ffi.new("ur_error *")
        options.io, options.verify, options.bytes = IO_CODES[io], VERIFY_CODES[verify], data_bytes
        given = parts if isinstance(parts, PartRefs) else PartRefs.of(parts)
        refs, *kept = _refs(given, of_parts, sizes)
        if layouts:
            kept.append(held := ffi.new("int32_t[]", [column for each in layouts for column in each]))
            options.layouts, options.layout_count = held, len(layouts)
        if table:
            kept.append(held := ffi.from_buffer("uint8_t[]", table))
            options.table, options.columns = held, len(table) // 32
        if schema:
            kept.append(held := ffi.from_buffer("uint8_t[]", schema))
            options.schema, options.schema_bytes = held, len(schema)
        self.fetching = () if fetch is None else (Fetching(fetch, ahead),)
        for fetching in self.fetching:
            options.fetch, options.context = lib.ur_python_fetch, fetching.context
            options.cache = ffi.NULL if cache is None else cache.pointer
            options.heads_only = heads_only
        self.paths: Sequence[str] = given.paths
        self.names: tuple[str, ...] = tuple(names)
        self.moved_on: Callable[[str | None], str] = moved_on
        out = ffi.new("ur_set **")
        if lib.ur_set_open(refs, len(self.paths), options, out, error) != lib.UR_OK:
            self.fail(error)
        self.pointer: Any = out[0]
        self.handle: Handle = Handle(out[0], lib.ur_set_release, *self.fetching, cache)

    def fail(self, error: Any) -> NoReturn:
        """Raises what a failed call on this set says."""
        for fetching in self.fetching:
            fetching.raise_kept()
        # what is fetched by its name may have become another between two requests
        replaced = (MissingError, StaleError, *((CorruptionError,) if self.fetching else ()))
        try:
            raise_for(error, self.paths, self.names)
        except replaced as failure:
            if what := self.moved_on(getattr(failure, "path", None)):
                raise StaleError(
                    f"{failure.args[0]} ({what} since this one was opened: "
                    "open it again, or call refresh(); rows of before cannot be read any more)"
                ) from failure
            raise

    @property
    def rows(self) -> int:
        """Rows of all parts."""
        return int(lib.ur_set_rows(self.pointer))

    @property
    def io_name(self) -> str:
        """The way of reading in use; ``auto`` while no part has been opened."""
        return IO_NAMES[lib.ur_set_io(self.pointer)]

    def part(self, number: int) -> NativePart:
        """Part ``number``, opened if need be."""
        out, error = ffi.new("ur_part **"), ffi.new("ur_error *")
        if lib.ur_set_part(self.pointer, number, out, error) != lib.UR_OK:
            self.fail(error)
        return NativePart(out[0], self.paths[number])

    def advise(self, rows: npt.NDArray[np.int64]) -> None:
        """Tells the kernel, or ``ahead``, that the blobs of these rows will be read soon."""
        lib.ur_set_advise(self.pointer, ffi.from_buffer("int64_t[]", rows), len(rows))

    def read_boxes(
        self,
        column: int,
        rows: npt.NDArray[np.int64],
        shape: Sequence[int] | None,
        sizes: Sequence[int],
        starts: npt.NDArray[np.int64],
        data: npt.NDArray[Any],
        valid: npt.NDArray[np.bool_] | None,
    ) -> None:
        """Fills ``data`` with a box of the value of each row, as ur_boxes in csrc/unirecord.h says.

        ``shape`` is that of the arrays, of which one dimension may be free, None for bytes and text; ``starts``
        int64[n, dimensions].
        """
        output, error, boxes = ffi.new("ur_output *"), ffi.new("ur_error *"), ffi.new("ur_boxes *")
        starts = np.ascontiguousarray(starts, np.int64)
        known = [max(size, 0) for size in shape or (0,)]
        held = ffi.new("int64_t[]", list(sizes)), ffi.new("int64_t[]", known)
        boxes.rank, boxes.sizes, boxes.shape = len(sizes), *held
        boxes.starts = ffi.from_buffer("int64_t[]", starts)
        output.column, output.boxes, output.capacity = column, boxes, data.nbytes
        output.data = ffi.from_buffer("uint8_t[]", data, True)
        output.valid = ffi.NULL if valid is None else ffi.from_buffer("uint8_t[]", valid, True)
        numbers = ffi.from_buffer("int64_t[]", rows)
        if lib.ur_set_read(self.pointer, numbers, len(rows), output, 1, error) != lib.UR_OK:
            self.fail(error)

    def value_size(self, column: int, row: int) -> int:
        """Bytes of the value of a row in a column of variable width; nothing of it is read."""
        output, error, offsets = ffi.new("ur_output *"), ffi.new("ur_error *"), ffi.new("int64_t[2]")
        output.column, output.offsets = column, offsets
        status = lib.ur_set_read_row(self.pointer, row, output, 1, error)
        if status not in (lib.UR_OK, lib.UR_TOO_SMALL):
            self.fail(error)
        return int(output.used)

    def close(self) -> None:
        """Ends reading: later calls raise ClosedError, calls in flight finish."""
        lib.ur_set_close(self.pointer)


class ReadBuffers:
    """The arguments of one ur_set_read at a time, made once: outputs for ``columns``, and where an error goes."""

    __slots__ = ("_from", "error", "outputs")

    def __init__(self, columns: Sequence[int]) -> None:
        self.outputs: Any = ffi.new("ur_output[]", max(len(columns), 1))
        self.error: Any = ffi.new("ur_error *")
        self._from = ffi.from_buffer
        for output, column in zip(self.outputs, columns, strict=False):
            output.column = column

    def set_data(self, i: int, data: Any, capacity: int) -> None:
        """Where output ``i`` goes: a C-contiguous array, borrowed for the next read."""
        output = self.outputs[i]
        output.data, output.capacity = self._from("uint8_t[]", data, True), capacity

    def set_offsets(self, i: int, offsets: npt.NDArray[np.int64]) -> None:
        """Where the offsets of output ``i`` go, int64[n + 1]."""
        self.outputs[i].offsets = self._from("int64_t[]", offsets, True)

    def set_valid(self, i: int, valid: npt.NDArray[np.bool_]) -> None:
        """Where output ``i`` says which values are not null, bool[n]."""
        self.outputs[i].valid = self._from("uint8_t[]", valid, True)

    def used(self, i: int) -> int:
        """Bytes written to output ``i``, or needed when it was too small."""
        return int(self.outputs[i].used)

    def read(self, parts: NativeSet, rows: npt.NDArray[np.int64], count: int) -> bool:
        """Reads the rows; False when an output was too small, other failures raise."""
        status = lib.ur_set_read(
            parts.pointer, self._from("int64_t[]", rows), len(rows), self.outputs, count, self.error
        )
        if status == lib.UR_OK:
            return True
        if status != lib.UR_TOO_SMALL:
            parts.fail(self.error)
        return False
