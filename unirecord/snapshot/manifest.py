"""The manifest of a directory: its parts in order, and how columns change; text <-> fields, strictly checked."""

from __future__ import annotations

import base64
import json
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import isfinite
from typing import Any, Final, NamedTuple, overload

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ..core import xxh3_64
from ..errors import CorruptionError, FormatError
from ..format.metadata import CREATED_BY, checked_index
from ..format.schema import Schema
from ..format.values import unpack_object
from ..sizes import many
from ..storage.registry import read_file
from .layouts import (
    COLUMN_FILES,
    LAYOUT,
    ColumnFile,
    Layout,
    PartColumns,
    decode_layouts,
    decode_part_columns,
    encode_layouts,
    encode_part_columns,
    schema_digest,
)
from .manifest_fields import MOST, PART_NAME, checked_hex, checked_number, checked_part

__all__ = [
    "COLUMNS",
    "DELETIONS",
    "DeletedRows",
    "ListedParts",
    "Manifest",
    "NAME",
    "PART_NAME",
    "PartEntry",
    "PartFields",
    "PartList",
    "bytes_of_part",
    "check_entries",
    "check_listed",
    "decode",
    "encode",
    "files_of_part",
    "files_with_rows",
    "find_parts",
    "layout_of",
    "part_id",
    "part_name",
    "pruned",
    "read",
    "read_fields",
    "rearranged",
    "schema_digest",
    "sealed",
    "state_of",
    "state_of_entry",
]


# The manifest of a directory: which parts make up the dataset, in which order; text <-> fields, strictly
# checked.


# The text of a manifest's list of parts, read column by column: numbers, hex digits and names of all parts at once.


# A part as it is written: keys in order, nothing left out and nothing between them, a name that goes with the id.
_FIELDS: Final = (
    (b'{"bytes":', b""),
    (b'"content":"', b'"'),
    (b'"id":"', b'"'),
    (b'"index_bytes":', b""),
    (b'"name":"part-', b'.urec"'),
    (b'"rows":', b""),
    (b'"schema":"', b'"}'),
)
_SIZE, _CONTENT, _ID, _INDEX_SIZE, _NAME, _ROWS, _SCHEMA = range(len(_FIELDS))
# bytes of a part, with its commas, at least
_LEAST: Final = sum(len(begin) + len(end) + 1 for begin, end in _FIELDS) + 3 + 16 + 32 + 15 + 16
_DIGITS: Final = (1, 19)  # of a number below 2^63
_NAME_DIGITS: Final = (6, 12)  # of the number in a name
_BEFORE_NAME: Final = len("part-")
_OF_ID: Final = 8  # digits of the id at the end of a name

Places = NDArray[np.int64]
Text = NDArray[np.uint8]

_IS_HEX: Final = np.zeros(256, np.bool_)
_IS_HEX[list(b"0123456789abcdef")] = True


class PartFields(NamedTuple):
    """The fields of n parts, each of which is one that a part may have."""

    names: tuple[str, ...]
    numbers: Places  # in the names
    ids: bytes  # 16 of each
    rows: Places
    bytes: Places
    index_bytes: Places
    contents: NDArray[np.uint64]
    schemas: NDArray[np.bytes_]  # of 16 hex digits


class _NotAsWritten(Exception):
    """Something in the text is not as a part is written."""


def read_fields(listed: bytes) -> PartFields | None:
    """What text of parts says, each with a comma behind it; None where any is not written as a part is.

    Each byte is looked at. Takes time and memory of a few times the text at most.
    """
    count, rest = divmod(listed.count(b","), len(_FIELDS))
    if rest or not count or count * _LEAST > len(listed) or not listed.endswith(b","):
        return None
    try:
        return _read(listed, count)
    except _NotAsWritten:
        return None


def _read(listed: bytes, count: int) -> PartFields:
    text = np.frombuffer(listed, np.uint8)
    stops: Places = np.flatnonzero(text == ord(","))
    starts = np.concatenate(([0], stops[:-1] + 1)).reshape(count, -1)
    stops = stops.reshape(count, -1)
    begins: Places = starts + np.array([len(begin) for begin, _ in _FIELDS])
    ends: Places = stops - np.array([len(end) for _, end in _FIELDS])
    _demand(begins <= ends)  # nothing below reads outside of its field
    for i, (begin, end) in enumerate(_FIELDS):
        _demand(_cut(text, starts[:, i], len(begin)) == np.frombuffer(begin, np.uint8))
        if end:
            _demand(_cut(text, ends[:, i], len(end)) == np.frombuffer(end, np.uint8))
    sizes, indexes, rows = (
        _numbers(text, begins[:, i], ends[:, i], _DIGITS, plain=True) for i in (_SIZE, _INDEX_SIZE, _ROWS)
    )
    content, part_id, schema = (
        _hex(text, begins[:, i], ends[:, i], digits)
        for i, digits in ((_CONTENT, 16), (_ID, 32), (_SCHEMA, 16))
    )
    numbers = _numbers_of_names(text, begins[:, _NAME], ends[:, _NAME], part_id)
    letters = listed.decode("ascii")
    names = zip(
        (begins[:, _NAME] - _BEFORE_NAME).tolist(), (stops[:, _NAME] - 1).tolist(), strict=True
    )  # up to the quotation mark
    return PartFields(
        tuple([letters[start:stop] for start, stop in names]),
        numbers,
        bytes.fromhex(part_id.tobytes().decode()),
        rows,
        sizes,
        indexes,
        np.frombuffer(bytes.fromhex(content.tobytes().decode()), ">u8").astype(np.uint64),
        np.frombuffer(schema.tobytes(), "S16"),
    )


def _demand(holds: NDArray[np.bool_]) -> None:
    if not holds.all():
        raise _NotAsWritten


def _cut(text: Text, starts: Places, size: int) -> Text:
    """The ``size`` bytes of the text from each of these places on: [n, size]."""
    return sliding_window_view(text, size)[starts]


def _hex(text: Text, begins: Places, ends: Places, digits: int) -> Text:
    """Fields of so many lower-case hex digits."""
    _demand(ends - begins == digits)
    found = _cut(text, begins, digits)
    _demand(_IS_HEX[found])
    return found


def _numbers(text: Text, begins: Places, ends: Places, digits: tuple[int, int], *, plain: bool) -> Places:
    """Fields of so many decimal digits, below 2^63; ``plain``: without zeros in front."""
    length = ends - begins
    least, most = digits
    _demand((length >= least) & (length <= most))
    _demand((length == 1) | (text[begins] != ord("0")) | (not plain))
    numbers = np.zeros(len(begins), np.uint64)  # exact: 19 digits are below 2^64
    for place in range(int(length.max())):
        there = length > place
        digit = text[np.where(there, begins + place, begins)] - np.uint8(ord("0"))  # below "0": above 9
        _demand(digit <= 9)
        numbers = np.where(there, numbers * np.uint64(10) + digit, numbers)
    _demand(numbers <= MOST)
    return numbers.astype(np.int64)


def _numbers_of_names(text: Text, begins: Places, ends: Places, ids: Text) -> Places:
    """The numbers of names that end with a dash and the first digits of the id."""
    dashes = ends - _OF_ID - 1
    numbers = _numbers(text, begins, dashes, _NAME_DIGITS, plain=False)
    _demand(text[dashes] == ord("-"))
    _demand(_cut(text, dashes + 1, _OF_ID) == ids[:, :_OF_ID])
    return numbers


# The parts that a manifest lists, one by one or as columns: a dataset may have a hundred thousand.


_BEGIN = b',"parts":['
_END = b"]"
_ID_BYTES = 16


@dataclass(frozen=True)
class DeletedRows:
    """The file that says which rows of a part have been deleted: its name, their number, its size and its digest."""

    name: str
    rows: int
    bytes: int
    digest: str


class PartEntry(NamedTuple):
    """One part: file name, id, rows, sizes of its two files, digests of its column table and schema, and of content."""

    name: str
    id: bytes
    rows: int
    bytes: int
    index_bytes: int
    schema: str
    content: str  # the content digest in hex
    deleted: DeletedRows | None = None
    columns: PartColumns | None = (
        None  # where its columns are, if not in its own files as the schema has them
    )


class ListedParts(Sequence[PartEntry]):
    """Parts with nothing deleted and all columns in their own files; each is made an entry when it is asked for.

    So a hundred thousand are a few arrays, and no hundred thousand objects for Python to look after.
    """

    __slots__ = ("fields",)

    def __init__(self, fields: PartFields) -> None:
        self.fields = fields

    def __len__(self) -> int:
        return len(self.fields.names)

    @overload
    def __getitem__(self, number: int) -> PartEntry: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[PartEntry, ...]: ...
    def __getitem__(self, number: int | slice) -> PartEntry | tuple[PartEntry, ...]:
        if isinstance(number, slice):
            return tuple(self[i] for i in range(*number.indices(len(self))))
        i = range(len(self))[number]
        fields = self.fields
        return PartEntry(
            fields.names[i],
            fields.ids[i * _ID_BYTES : (i + 1) * _ID_BYTES],
            int(fields.rows[i]),
            int(fields.bytes[i]),
            int(fields.index_bytes[i]),
            fields.schemas[i].decode(),
            f"{fields.contents[i]:016x}",
        )

    def __iter__(self) -> Iterator[PartEntry]:
        return map(self.__getitem__, range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (ListedParts, tuple)):
            return NotImplemented
        return len(self) == len(other) and all(map(PartEntry.__eq__, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(tuple(self))


@dataclass(frozen=True)
class PartList:
    """Parts that are written as a part is, and the text around them."""

    before: bytes
    after: bytes
    parts: ListedParts


def find_parts(text: bytes) -> PartList | None:
    """The list of parts in the text of a manifest; None when there are none, or any is not written as a part is.

    What is found are values a part may have, in text that has no other form. Whether two are alike, and whether
    they are parts of this dataset, is still to be checked.
    """
    before, begin, rest = text.partition(_BEGIN)
    listed, end, after = rest.partition(_END)
    if not listed or not end or _BEGIN in rest:
        return None
    fields = read_fields(listed + b",")
    return None if fields is None else PartList(before + begin, end + after, ListedParts(fields))


# What goes for all parts of a manifest together: sums, names and ids of their own, schemas, and what is required.


DELETIONS: Final = "deletions"
COLUMNS: Final = "columns"
_MAX_ROWS: Final = 1 << 62  # of a set of parts: UR_MAX_ROWS of csrc


def check_entries(
    entries: Sequence[PartEntry], needed: Sequence[str], layouts: Sequence[Layout], digest: str
) -> None:
    """What goes for all parts together; ValueError where it does not."""
    more = [file for entry in entries if entry.columns is not None for file in entry.columns.files]
    _check_sums(
        [entry.rows for entry in entries], [file.bytes for files in (entries, more) for file in files]
    )
    for what in ("name", "id"):
        if len({getattr(file, what) for files in (entries, more) for file in files}) != len(entries) + len(
            more
        ):
            raise ValueError(f"two parts have the same {what}")
    has_deletions = any(entry.deleted is not None for entry in entries)
    used = {entry.columns.layout for entry in entries if entry.columns is not None}
    _check_needed(needed, layouts, has_deletions, used)
    for entry in entries:
        if entry.columns is None and entry.schema != digest:
            raise _other_schema(entry, digest)


def check_listed(
    parts: ListedParts, next_part: int, needed: Sequence[str], layouts: Sequence[Layout], digest: str
) -> None:
    """The same of parts that were found all at once, whose names go with their ids."""
    fields = parts.fields
    if int(fields.numbers.max()) >= next_part:  # it has not been given out
        name = fields.names[int(fields.numbers.argmax())]
        raise ValueError(f"the number in the name {name} is not below next_part {next_part}")
    _check_sums(fields.rows.tolist(), fields.bytes.tolist())
    if len(set(fields.names)) != len(parts):
        raise ValueError("two parts have the same name")
    if len(np.unique(np.frombuffer(fields.ids, "V16"))) != len(parts):
        raise ValueError("two parts have the same id")
    _check_needed(needed, layouts, False, set())
    others = np.flatnonzero(fields.schemas != digest.encode())
    if len(others):
        raise _other_schema(parts[int(others[0])], digest)


def _check_sums(rows: Iterable[int], sizes: Iterable[int]) -> None:
    if sum(rows) > _MAX_ROWS:
        raise ValueError("its parts have more than 2^62 rows")
    if sum(sizes) > MOST:
        raise ValueError("its parts have 2^63 bytes or more")


def _check_needed(
    needed: Sequence[str], layouts: Sequence[Layout], has_deletions: bool, used: set[int]
) -> None:
    if has_deletions != (DELETIONS in needed):
        raise ValueError('"required" and the parts do not agree whether rows have been deleted')
    if used != set(range(len(layouts))):
        raise ValueError("it has a layout that no part has")
    if bool(layouts) != (COLUMNS in needed):
        raise ValueError('"required" and "layouts" do not agree whether columns are elsewhere')


def _other_schema(entry: PartEntry, digest: str) -> ValueError:
    return ValueError(f"part {entry.name} has another schema ({entry.schema}) than the dataset ({digest})")


NAME = "manifest.json"
VERSION = 1
MAX_BYTES = 1 << 30

_KEYS = {
    "created_by",
    "format",
    "version",
    "id",
    "generation",
    "next_part",
    "schema",
    "index",
    "metadata",
    "parts",
    "digest",
}
_LAYOUTS = "layouts"
# What is said of a version beside its rows: looked at by who needs it, and kept by who changes the dataset.
_SAID = {"publication": dict, "same_rows": dict, "rows_dropped": list, "given_up": dict}
_MAY_BE = {"optional", "required", _LAYOUTS, *_SAID}  # left out when empty
_KNOWN = frozenset({COLUMNS, DELETIONS})  # what "required" may name
_DELETION_KEYS = {"name", "rows", "bytes", "digest"}
_PART_KEYS = {"name", "id", "rows", "bytes", "index_bytes", "schema", "content"}
_MOST_LEVELS = 64  # of objects and arrays, the whole one too
# The text begins with its digest, which is of all bytes of the file with these digits as zeros.
_BEGINNING = re.compile(rb'\{"digest":"([0-9a-f]{16})"')
_DIGITS_AT = slice(11, 27)
_MOST_CHARACTERS = 4_300  # of a number
_HALF_PAIR = re.compile(rb"\\u[dD][89a-fA-F]")  # of a character beyond U+FFFF, where it is escaped


@dataclass(frozen=True)
class Manifest:
    id: bytes
    generation: int
    next_part: int
    schema: Schema
    index: tuple[str, ...]
    metadata: bytes | None = None  # the user's, as msgpack
    parts: Sequence[PartEntry] = field(default=())
    created_by: str = CREATED_BY
    optional: dict[str, Any] = field(default_factory=dict)  # what readers may ignore: kept
    digest: str = field(compare=False, default="")  # of the file that it was read from
    layouts: tuple[Layout, ...] = ()  # of parts whose columns are not where the schema has them
    # As they stand there, checked by who looks at them: how the version came about; that its rows are those of the
    # version before, laid out anew; whose deleted rows have left no bytes; what a `gc` of an object store deletes.
    publication: dict[str, Any] | None = None
    same_rows: dict[str, Any] | None = None
    rows_dropped: list[Any] | None = None
    given_up: dict[str, Any] | None = None

    @property
    def rows(self) -> int:
        """Rows that are stored, those that have been deleted too."""
        if isinstance(self.parts, ListedParts):
            return sum(self.parts.fields.rows.tolist())
        return sum(part.rows for part in self.parts)

    @property
    def deleted(self) -> int:
        """How many of them have been deleted."""
        if isinstance(self.parts, ListedParts):
            return 0
        return sum(part.deleted.rows for part in self.parts if part.deleted is not None)


def part_name(number: int, part_id: bytes) -> str:
    """File name of part ``number``."""
    return f"part-{number:06d}-{part_id[:4].hex()}.urec"


def part_id(dataset_id: bytes, number: int) -> bytes:
    """Id of part ``number`` of a dataset: its own, and the same again when the dataset's id is given again."""
    content = dataset_id + number.to_bytes(8, "little")
    return b"".join(xxh3_64(content, seed).to_bytes(8, "little") for seed in (0, 1))


def encode(manifest: Manifest) -> bytes:
    """The whole text of ``manifest.json``."""
    content = {
        "digest": "0" * 16,
        "format": "unirecord",
        "version": VERSION,
        "id": manifest.id.hex(),
        "generation": manifest.generation,
        "next_part": manifest.next_part,
        "schema": manifest.schema.to_wire(),
        "index": list(manifest.index),
        "metadata": None if manifest.metadata is None else base64.b64encode(manifest.metadata).decode(),
        "parts": [_encode_part(part) for part in manifest.parts],
        "created_by": manifest.created_by,
    }
    said = {key: getattr(manifest, key) for key in _SAID}
    content |= {key: value for key, value in said.items() if value is not None}
    if manifest.optional:
        content["optional"] = manifest.optional
    if manifest.layouts:
        content[_LAYOUTS] = encode_layouts(manifest.layouts)
    needed = [COLUMNS] if manifest.layouts else []
    needed += [DELETIONS] if manifest.deleted else []
    if needed:
        content["required"] = needed
    ordered = {key: content[key] for key in sorted(content, key=lambda key: (key != "digest", key))}
    return sealed(json.dumps(ordered, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")


def sealed(text: bytes) -> bytes:
    """The text of a manifest, which begins with its digest, with the right one."""
    return text[: _DIGITS_AT.start] + _digest_of(text).encode() + text[_DIGITS_AT.stop :]


def _digest_of(text: bytes) -> str:
    return f"{xxh3_64(text[: _DIGITS_AT.start] + b'0' * 16 + text[_DIGITS_AT.stop :]):016x}"


def _encode_part(part: PartEntry) -> dict[str, Any]:
    content: dict[str, Any] = {
        "bytes": part.bytes,
        "content": part.content,
        "id": part.id.hex(),
        "index_bytes": part.index_bytes,
        "name": part.name,
        "rows": part.rows,
        "schema": part.schema,
    }
    if part.deleted is not None:
        content[DELETIONS] = asdict(part.deleted)
    if part.columns is not None:
        content.update(encode_part_columns(part.columns))
    return content


def read(path: str) -> Manifest:
    """The manifest in the file at ``path``, strictly checked: errors of `decode`, and OSError."""
    return decode(read_file(path, MAX_BYTES + 1), path)


def decode(text: bytes, path: str) -> Manifest:
    """Reads a manifest; FormatError when it is none or a newer one, CorruptionError when it is not what was written."""
    if not _BEGINNING.match(text):
        raise FormatError(
            f"{path}: this is not the manifest of a UniRecord dataset: it does not begin with its digest"
        )
    listed = find_parts(text) if len(text) <= MAX_BYTES else None
    stand_in = secrets.token_hex()  # for parts that were found without it
    content = _load(
        text if listed is None else listed.before + json.dumps(stand_in).encode() + listed.after, path
    )
    if listed is not None and content.get("parts") != [stand_in]:
        listed, content = None, _load(text, path)  # they are of another key "parts", further in
    if content.get("format") != "unirecord":
        raise FormatError(f"{path}: this JSON file is not the manifest of a UniRecord dataset")
    version = content.get("version")
    if type(version) is not int or version < 1:
        raise FormatError(f"{path}: its version is no number from 1")
    if version > VERSION:
        raise FormatError(
            f"{path}: it needs a reader of version {version}; this one is version {VERSION}: upgrade unirecord"
        )
    _check_required(content.get("required", []), path)
    if set(content) - _MAY_BE != _KEYS:
        raise FormatError(f"{path}: expected the keys {sorted(_KEYS)}, found {sorted(content)}")
    try:
        _check_digest(text, path)
        return _decode(content, listed)
    except (ValueError, FormatError) as error:
        raise FormatError(f"{path}: {error}") from error
    except RecursionError:
        raise FormatError(f"{path}: it is nested too deep to be a manifest") from None


def _check_required(names: Any, path: str) -> None:
    if not isinstance(names, list) or any(type(name) is not str for name in names):
        raise FormatError(f'{path}: "required" is {names!r}; expected a list of strings')
    unknown = [name for name in names if name not in _KNOWN]
    if unknown:
        raise FormatError(f"{path}: it needs {unknown}, which this version does not have: upgrade unirecord")


def _load(text: bytes, path: str) -> dict[str, Any]:
    if len(text) > MAX_BYTES:
        raise FormatError(f"{path}: {many(len(text), 'byte')}; a manifest has at most {MAX_BYTES}")
    try:
        content = json.loads(
            text.decode(),
            parse_constant=_refuse_constant,
            parse_int=_whole_number,
            parse_float=_finite_number,
            object_pairs_hook=_object,
        )
        if _HALF_PAIR.search(text):
            # a half without the other is no character, and no UTF-8
            json.dumps(content, ensure_ascii=False).encode()
        _check_depth(content, _MOST_LEVELS)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: not a manifest: it is not JSON ({error})") from error
    if not isinstance(content, dict):
        raise FormatError(f"{path}: not a manifest: expected a JSON object")
    return content


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _whole_number(text: str) -> int:
    if len(text) > _MOST_CHARACTERS:
        raise ValueError(f"a number of more than {_MOST_CHARACTERS:,} characters")
    return int(text)


def _finite_number(text: str) -> float:
    number = float(text)
    if len(text) > _MOST_CHARACTERS or not isfinite(number):
        raise ValueError(f"{text[:40]} is too large a number, or too long")
    return number


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(
            f"the key {next(name for name in names if names.count(name) > 1)!r} stands there twice"
        )
    return found


def _check_digest(text: bytes, path: str) -> None:
    stored, found = text[_DIGITS_AT].decode(), _digest_of(text)
    if stored != found:
        raise CorruptionError(
            f"{path}: it has the digest {found}, but {stored} is stored in it: it was edited or damaged",
            path=path,
        )


def _decode(content: dict[str, Any], listed: PartList | None) -> Manifest:
    schema = Schema.from_wire(content["schema"])
    index = checked_index(schema, content["index"])
    parts = content["parts"]
    if not isinstance(parts, list):
        raise ValueError("parts is not a list")
    next_part = checked_number(content["next_part"], "next_part")
    layouts = decode_layouts(content[_LAYOUTS], schema) if _LAYOUTS in content else ()
    needed, digest = content.get("required", []), schema_digest(schema)
    said = needed, layouts, digest
    entries: Sequence[PartEntry]
    if listed is None:
        entries = tuple(_decode_part(part, next_part, layouts) for part in parts)
        check_entries(entries, *said)
    else:
        entries = listed.parts
        check_listed(listed.parts, next_part, *said)
    return Manifest(
        bytes.fromhex(checked_hex(content["id"], 32, "id")),
        checked_number(content["generation"], "generation", least=1),
        next_part,
        schema,
        index,
        _metadata(content["metadata"]),
        entries,
        _created_by(content["created_by"]),
        _optional(content),
        content["digest"],
        layouts,
        **{key: _said(content, key, kind) for key, kind in _SAID.items()},
    )


def _decode_part(part: Any, next_part: int, layouts: Sequence[Layout]) -> PartEntry:
    if not isinstance(part, dict) or set(part) - {DELETIONS, LAYOUT, COLUMN_FILES} != _PART_KEYS:
        raise ValueError(f"a part needs the keys {sorted(_PART_KEYS)}")
    name, part_id = checked_part(part["name"], part["id"], next_part)
    rows, size, index_size = (checked_number(part[key], key) for key in ("rows", "bytes", "index_bytes"))
    return PartEntry(
        name, part_id, rows, size, index_size, checked_hex(part["schema"], 16, "schema of a part"),
        checked_hex(part["content"], 16, "content of a part"), _decode_deleted(part, name, rows),
        decode_part_columns(part, layouts, next_part),
    )  # fmt: skip


def _decode_deleted(part: dict[str, Any], name: str, part_rows: int) -> DeletedRows | None:
    if DELETIONS not in part:
        return None
    found = part[DELETIONS]
    if not isinstance(found, dict) or set(found) != _DELETION_KEYS:
        raise ValueError(f"the deletions of a part need the keys {sorted(_DELETION_KEYS)}")
    rows, size = (
        checked_number(found["rows"], "rows of deletions", least=1),
        checked_number(found["bytes"], "bytes of deletions"),
    )
    if rows > part_rows or size > 8 * part_rows + 64:
        raise ValueError(
            f"{many(rows, 'row')} in {many(size, 'byte')} cannot have been deleted of a part of "
            f"{many(part_rows, 'row')}"
        )
    file = found["name"]
    if type(file) is not str or not re.fullmatch(rf"{re.escape(name)}\.del-[0-9]{{6,18}}", file):
        raise ValueError(f"{file!r} is not the name of a file of deletions ({name}.del-VERSION)")
    return DeletedRows(file, rows, size, checked_hex(found["digest"], 16, "digest of deletions"))


def _created_by(value: Any) -> str:
    if type(value) is not str:
        raise ValueError(f"created_by is {value!r}; expected a string")
    return value


def _optional(content: dict[str, Any]) -> dict[str, Any]:
    value = content.get("optional", {})
    if not isinstance(value, dict) or ("optional" in content and not value):
        raise ValueError(f"optional is {value!r}; expected an object that is not empty")
    return value


def _said(content: dict[str, Any], key: str, kind: type) -> Any:
    if key in content and type(content[key]) is not kind:
        raise ValueError(f"{key} is {content[key]!r}; expected {'an object' if kind is dict else 'a list'}")
    return content.get(key)


def _check_depth(value: Any, levels: int) -> None:
    if not isinstance(value, (dict, list)):
        return
    if levels == 0:
        raise ValueError(f"it is nested more than {_MOST_LEVELS} deep")
    for item in value.values() if isinstance(value, dict) else value:
        _check_depth(item, levels - 1)


def _metadata(text: Any) -> bytes | None:
    if text is None:
        return None
    try:
        packed = base64.b64decode(text, validate=True)
        unpack_object(packed)
    except (TypeError, ValueError) as error:  # a ValueError too: text beyond ASCII
        raise ValueError(f"metadata is not base64 ({error})") from error
    except CorruptionError as error:
        raise ValueError(f"its metadata cannot be read: {error}") from error
    return packed


# The manifest of a dataset whose columns change: which file and which column of it each one is read from
# then.


def layout_of(found: Manifest, part: PartEntry) -> Layout:
    """Where the columns of a part are, also of one that has them all in its own file."""
    if part.columns is not None:
        return found.layouts[part.columns.layout]
    return Layout((found.schema,), tuple((0, column) for column in range(len(found.schema))))


def rearranged(
    before: Manifest,
    schema: Schema,
    places: Sequence[int],
    added: Schema | None = None,
    files: Mapping[bytes, ColumnFile] | None = None,
) -> Manifest:
    """The manifest with the columns of ``schema``: column i is what was column ``places[i]``.

    From ``len(before.schema)`` on, a place is a column of ``added``: ``files`` has for the id of each part the column
    part that stores those. Column parts that no column is read from any more are not named.
    """
    layouts: dict[Layout, int] = {}
    parts = tuple(_part(before, part, schema, places, added, files or {}, layouts) for part in before.parts)
    return replace(before, schema=schema, parts=parts, layouts=tuple(layouts))


def _part(
    before: Manifest,
    part: PartEntry,
    schema: Schema,
    places: Sequence[int],
    added: Schema | None,
    files: Mapping[bytes, ColumnFile],
    layouts: dict[Layout, int],
) -> PartEntry:
    old, stored = layout_of(before, part), () if part.columns is None else part.columns.files
    schemas = [*old.files, *([] if added is None else [added])]
    named = [*stored, *([] if added is None else [files[part.id]])]
    columns = len(before.schema)
    found = [old.columns[place] if place < columns else (len(old.files), place - columns) for place in places]
    used = [0, *sorted({file for file, _ in found} - {0})]
    layout = Layout(
        tuple(schemas[file] for file in used), tuple((used.index(file), place) for file, place in found)
    )
    plain = tuple((0, column) for column in range(len(schema)))
    if layout.columns == plain and layout.files[0].says_the_same_as(schema):
        return part._replace(columns=None)
    number = layouts.setdefault(layout, len(layouts))
    return part._replace(columns=PartColumns(number, tuple(named[file - 1] for file in used[1:])))


def state_of_entry(found: Manifest, part: PartEntry) -> str:
    """32 hex digits that tell what the rows of a part hold in its columns: others once any column is replaced."""
    files = () if part.columns is None else part.columns.files
    places = () if part.columns is None else found.layouts[part.columns.layout].columns
    return state_of(part.id, [file.id for file in files], places)


def state_of(part_id: bytes, files: Sequence[bytes], places: Sequence[tuple[int, int]]) -> str:
    """The same, of its id, the ids of its column parts, and its layout; () without one."""
    content = repr((part_id, list(files), list(places))).encode()
    return "".join(f"{xxh3_64(content, seed):016x}" for seed in (0, 1))


def pruned(found: Manifest) -> Manifest:
    """The manifest without layouts that no part has."""
    used = sorted({part.columns.layout for part in found.parts if part.columns is not None})
    if len(used) == len(found.layouts):
        return found
    parts = tuple(
        part
        if part.columns is None
        else part._replace(columns=replace(part.columns, layout=used.index(part.columns.layout)))
        for part in found.parts
    )
    return replace(found, parts=parts, layouts=tuple(found.layouts[number] for number in used))


def files_with_rows(found: Manifest) -> list[PartEntry]:
    """All parts and column parts that a manifest names, each as an entry of what its own file is."""
    return [file for part in found.parts for file in files_of_part(found, part)]


def files_of_part(found: Manifest, part: PartEntry) -> list[PartEntry]:
    """A part and its column parts, likewise; what has been deleted is said of the part alone."""
    if part.columns is None:
        return [part]
    schemas = found.layouts[part.columns.layout].files[1:]
    return [
        part,
        *(
            PartEntry(
                file.name,
                file.id,
                part.rows,
                file.bytes,
                file.index_bytes,
                schema_digest(schema),
                file.content,
            )
            for file, schema in zip(part.columns.files, schemas, strict=True)
        ),
    ]


def bytes_of_part(part: PartEntry) -> int:
    """Bytes of all files of a part: data and index, of column parts too, and what says which rows have been deleted."""
    files = [] if part.columns is None else part.columns.files
    more = sum(file.bytes + file.index_bytes for file in files)
    return part.bytes + part.index_bytes + more + (0 if part.deleted is None else part.deleted.bytes)
