"""The manifest of a directory: its parts in order, and how columns change; text <-> fields, strictly checked."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import asdict, dataclass, field, replace
from math import isfinite
from typing import Any, Final

from ..core import xxh3_64
from ..errors import CorruptionError, FormatError
from ..format.metadata import CREATED_BY, checked_index
from ..format.patch import Patch, PatchTable, decode_patch, encode_patch, merged
from ..format.schema import Schema
from ..format.values import unpack_canonical
from ..sizes import many
from ..storage.schemes import location_of, read_file
from .layouts import (
    COLUMN_FILES,
    LAYOUT,
    PATCH,
    ColumnFile,
    Layout,
    PartColumns,
    decode_layouts,
    decode_part_columns,
    encode_layouts,
    encode_part_columns,
    schema_digest,
)
from .manifest_fields import DELETION_ENDING, PART_NAME, checked_hex, checked_number, checked_part
from .part_list import (
    PIECE_NAME,
    DeletedRows,
    PartEntry,
    PartList,
    Piece,
    check_list,
    decode_piece,
    in_pieces,
    part_list,
    part_name,
    piece_name,
)

__all__ = [
    "COLUMNS",
    "DELETIONS",
    "DeletedRows",
    "Manifest",
    "NAME",
    "PART_NAME",
    "PIECE_NAME",
    "PartEntry",
    "PartList",
    "bytes_of_part",
    "check",
    "decode",
    "divided",
    "encode",
    "files_of_part",
    "files_with_rows",
    "keep_pieces",
    "layout_of",
    "part_id",
    "part_name",
    "pieces_named",
    "pruned",
    "read",
    "rearranged",
    "schema_digest",
    "sealed",
    "state_of",
    "state_of_entry",
]


# What goes for all parts of a manifest together: sums, names and ids of their own, schemas, and what is required.


DELETIONS: Final = "deletions"
COLUMNS: Final = "columns"
PATCHES: Final = "patches"


def _check_parts(
    parts: PartList, next_part: int, needed: Sequence[str], layouts: Sequence[Layout], digest: str
) -> None:
    """What goes for all parts together; ValueError where it does not."""
    check_list(parts, next_part, [len(layout.files) for layout in layouts])
    used = {layout for piece in parts.pieces for layout, _ in piece.layouts}
    used |= {entry.columns.layout for entry in parts.tail if entry.columns is not None}
    has_deletions = any(piece.deleted for piece in parts.pieces)
    has_deletions = has_deletions or any(entry.deleted is not None for entry in parts.tail)
    if parts.patched != (PATCHES in needed):
        raise ValueError('"required" and the parts do not agree whether they have patches')
    _check_needed(needed, layouts, has_deletions, used)
    for entry in parts.tail:
        if entry.columns is None and entry.schema != digest:
            raise _other_schema(entry, digest)


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
_PIECES = "pieces"
_PIECE_KEYS = {"digest", "parts", "rows"}
# What is said of a version beside its rows: looked at by who needs it, and kept by who changes the dataset.
_SAID = {"publication": dict, "same_rows": dict, "rows_dropped": list, "given_up": dict}
_MAY_BE = {"optional", "required", _LAYOUTS, _PIECES, *_SAID}  # left out when empty
_KNOWN = frozenset({COLUMNS, DELETIONS, PATCHES})  # what "required" may name
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
        if isinstance(self.parts, PartList):
            return self.parts.rows
        return sum(part.rows for part in self.parts)

    @property
    def deleted(self) -> int:
        """How many of them have been deleted."""
        if isinstance(self.parts, PartList):
            return self.parts.deleted
        return sum(part.deleted.rows for part in self.parts if part.deleted is not None)


def part_id(dataset_id: bytes, number: int) -> bytes:
    """Id of part ``number`` of a dataset: its own, and the same again when the dataset's id is given again."""
    content = dataset_id + number.to_bytes(8, "little")
    return b"".join(xxh3_64(content, seed).to_bytes(8, "little") for seed in (0, 1))


def encode(manifest: Manifest) -> bytes:
    """The whole text of ``manifest.json``: pieces by their digests, all other parts in it."""
    listed = part_list(manifest.parts, "", ())
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
        "parts": [_encode_part(part) for part in listed.tail],
        "created_by": manifest.created_by,
    }
    said = {key: getattr(manifest, key) for key in _SAID}
    content |= {key: value for key, value in said.items() if value is not None}
    if listed.pieces:
        content[_PIECES] = [
            {"digest": piece.digest, "parts": len(piece), "rows": piece.rows} for piece in listed.pieces
        ]
    if manifest.optional:
        content["optional"] = manifest.optional
    if manifest.layouts:
        content[_LAYOUTS] = encode_layouts(manifest.layouts)
    needed = [COLUMNS] if manifest.layouts else []
    needed += [DELETIONS] if manifest.deleted else []
    needed += [PATCHES] if listed.patched else []
    if needed:
        content["required"] = needed
    ordered = {key: content[key] for key in sorted(content, key=lambda key: (key != "digest", key))}
    return sealed(json.dumps(ordered, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")


def divided(
    manifest: Manifest, known: Manifest | None, *, salt: int | None = None
) -> tuple[Manifest, dict[str, bytes]]:
    """The manifest as it is published after ``known``: with the pieces that are to be written before it, by name.

    No piece of any other publication has the name of one of these. ``salt``: a number that no other writer has, where
    others may publish at the same time.
    """
    digests = schema_digest(manifest.schema), [schema_digest(layout.files[0]) for layout in manifest.layouts]
    about = PartList((), (), *digests)
    before = () if known is None else known.parts
    parts, made = in_pieces(
        manifest.parts, before, manifest.id, manifest.generation if salt is None else salt, about
    )
    return replace(manifest, parts=parts), made


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
    """The manifest in the file at ``path``, and its pieces, strictly checked: errors of `decode`, and OSError."""
    text = read_file(path, MAX_BYTES + 1)
    while True:
        try:
            return decode(text, path)
        except CorruptionError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
            # a piece is gone: with the version that named it, or it is lost
            before, text = text, read_file(path, MAX_BYTES + 1)
            if text == before:
                raise


def decode(text: bytes, path: str) -> Manifest:
    """Reads a manifest, and the pieces that it names, which are beside ``path``.

    Raises:
        FormatError: it is none, or a newer one, or it says what cannot be.
        CorruptionError: it is not what was written, or a piece is missing or not what was written.
    """
    if not _BEGINNING.match(text):
        raise FormatError(
            f"{path}: this is not the manifest of a UniRecord dataset: it does not begin with its digest"
        )
    content = _load(text, path)
    if content.get("format") != "unirecord":
        raise FormatError(f"{path}: this JSON file is not the manifest of a UniRecord dataset")
    version = content.get("version")
    if type(version) is not int or version < 1:
        raise FormatError(f"{path}: its version is no number from 1")
    if version > VERSION:
        raise FormatError(
            f"{path}: it needs a reader of version {version}; this one is version {VERSION}: upgrade unirecord"
        )
    if "required" in content:
        _check_required(content["required"], path)
    if set(content) - _MAY_BE != _KEYS:
        raise FormatError(f"{path}: expected the keys {sorted(_KEYS)}, found {sorted(content)}")
    try:
        _check_digest(text, path)
        named = _named_pieces(content)
        part_id = bytes.fromhex(checked_hex(content["id"], "id"))
    except (ValueError, FormatError) as error:
        raise FormatError(f"{path}: {error}") from error
    pieces = _read_pieces(named, part_id, os.path.dirname(path))
    try:
        return _decode(content, pieces)
    except (ValueError, FormatError) as error:
        raise FormatError(f"{path}: {error}") from error
    except RecursionError:
        raise FormatError(f"{path}: it is nested too deep to be a manifest") from None


def check(manifest: Manifest, path: str) -> None:
    """Errors of `decode` where a reader would refuse this manifest at ``path``."""
    decode(encode(manifest), path)


def pieces_named(path: str) -> set[str]:
    """The names of the pieces of the manifest at ``path``, which are not read; errors of `decode`, and OSError."""
    text = read_file(path, MAX_BYTES + 1)
    content = _load(text, path)
    try:
        _check_digest(text, path)
        return {piece_name(digest) for digest, *_ in _named_pieces(content)}
    except (ValueError, FormatError) as error:
        raise FormatError(f"{path}: {error}") from error


def _check_required(names: Any, path: str) -> None:
    if not isinstance(names, list) or not names or any(type(name) is not str for name in names):
        raise FormatError(f'{path}: "required" is {names!r}; expected a list of one or more strings')
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


def _named_pieces(content: dict[str, Any]) -> list[tuple[str, int, int]]:
    """Digest, parts and rows of each piece."""
    pieces = content.get(_PIECES, [])
    if not isinstance(pieces, list) or (_PIECES in content and not pieces):
        raise ValueError("pieces is not a list of one or more")
    found = []
    for piece in pieces:
        if not isinstance(piece, dict) or set(piece) != _PIECE_KEYS:
            raise ValueError(f"a piece needs the keys {sorted(_PIECE_KEYS)}")
        parts, rows = (checked_number(piece[key], f"{key} of a piece") for key in ("parts", "rows"))
        found.append((checked_hex(piece["digest"], "digest of a piece"), parts, rows))
    if len({digest for digest, *_ in found}) != len(found):
        raise ValueError("it has a piece twice")
    return found


# Pieces that were read, or written, by this process, by folder and digest: what opens a dataset again, or publishes,
# reads the new ones alone. The oldest go when there are too many.
_kept_pieces: dict[tuple[str, str, bytes], Piece] = {}
_MOST_KEPT: Final = 2_048
_AT_ONCE: Final = 16  # that are read at once in an object store


def keep_pieces(folder: str, listing: Manifest) -> None:
    """Has the pieces of a manifest that is published in this folder found without being read."""
    if isinstance(listing.parts, PartList):
        for piece in listing.parts.pieces:
            _keep_piece(folder, listing.id, piece)


def _keep_piece(folder: str, dataset_id: bytes, piece: Piece) -> None:
    while len(_kept_pieces) >= _MOST_KEPT:
        with suppress(KeyError, StopIteration, RuntimeError):  # another thread does the same
            del _kept_pieces[next(iter(_kept_pieces))]
    _kept_pieces[folder, piece.digest, dataset_id] = piece


def _read_pieces(named: Sequence[tuple[str, int, int]], dataset_id: bytes, folder: str) -> list[Piece]:
    """The pieces of a manifest of this dataset."""

    def read_one(said: tuple[str, int, int]) -> Piece:
        digest, parts, rows = said
        kept = _kept_pieces.get((folder, digest, dataset_id))
        if kept is not None and (len(kept), kept.rows) == (parts, rows):
            return kept
        path = os.path.join(folder, piece_name(digest))
        try:
            content = read_file(path, MAX_BYTES + 1)
        except FileNotFoundError as error:
            raise CorruptionError(
                f"{path}: this file, which lists {many(parts, 'part')} of the dataset, is missing; restore it from a "
                "copy, or save the rows by `unirecord repair`",
                path=path,
            ) from error
        piece = decode_piece(content, digest, dataset_id, parts, rows, path)
        _keep_piece(folder, dataset_id, piece)
        return piece

    if len(named) < 2 or location_of(folder).in_file_system:
        return list(map(read_one, named))
    with ThreadPoolExecutor(min(_AT_ONCE, len(named))) as pool:
        contexts = [copy_context() for _ in named]
        return list(pool.map(lambda context, said: context.run(read_one, said), contexts, named))


def _decode(content: dict[str, Any], pieces: Sequence[Piece]) -> Manifest:
    schema = Schema.from_wire(content["schema"])
    index = checked_index(schema, content["index"])
    parts = content["parts"]
    if not isinstance(parts, list):
        raise ValueError("parts is not a list")
    next_part = checked_number(content["next_part"], "next_part")
    layouts = decode_layouts(content[_LAYOUTS], schema) if _LAYOUTS in content else ()
    needed, digest = content.get("required", []), schema_digest(schema)
    tail = [_decode_part(part, next_part, layouts) for part in parts]
    entries = PartList(pieces, tail, digest, [schema_digest(layout.files[0]) for layout in layouts])
    _check_parts(entries, next_part, needed, layouts, digest)
    return Manifest(
        bytes.fromhex(checked_hex(content["id"], "id")),
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
    if not isinstance(part, dict) or set(part) - {DELETIONS, LAYOUT, COLUMN_FILES, PATCH} != _PART_KEYS:
        raise ValueError(f"a part needs the keys {sorted(_PART_KEYS)}")
    name, part_id = checked_part(part["name"], part["id"], next_part)
    rows, size, index_size = (checked_number(part[key], key) for key in ("rows", "bytes", "index_bytes"))
    return PartEntry(
        name, part_id, rows, size, index_size, checked_hex(part["schema"], "schema of a part"),
        checked_hex(part["content"], "content of a part"), _decode_deleted(part, name, rows),
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
    if (
        type(file) is not str
        or not file.startswith(name)
        or not DELETION_ENDING.fullmatch(file.removeprefix(name))
    ):
        raise ValueError(f"{file!r} is not the name of a file of deletions ({name}.del-VERSION)")
    return DeletedRows(file, rows, size, checked_hex(found["digest"], "digest of deletions"))


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
        unpack_canonical(packed)
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
    values: Mapping[bytes, Mapping[int, PatchTable]] | None = None,
) -> Manifest:
    """The manifest with the columns of ``schema``: column i is what was column ``places[i]``.

    From ``len(before.schema)`` on, a place is a column of ``added``: ``files`` has for the id of each part the column
    part that stores those; a part without one stays as it is, where columns that are there are replaced. Column parts
    that no column is read from any more are not named, and what patches say of those is gone.

    ``values``: for the ids of other parts, by the ordinals of columns, what some rows have: it goes into their patches.
    """
    layouts: dict[Layout, int] = {}
    parts = tuple(
        _part(before, part, schema, places, added, files or {}, (values or {}).get(part.id, {}), layouts)
        for part in before.parts
    )
    return replace(before, schema=schema, parts=parts, layouts=tuple(layouts))


def _part(
    before: Manifest,
    part: PartEntry,
    schema: Schema,
    places: Sequence[int],
    added: Schema | None,
    files: Mapping[bytes, ColumnFile],
    values: Mapping[int, PatchTable],
    layouts: dict[Layout, int],
) -> PartEntry:
    old, stored = layout_of(before, part), () if part.columns is None else part.columns.files
    known: Patch = {} if part.columns is None else decode_patch(part.columns.patch)
    if added is not None and part.id not in files:
        added, places = None, range(len(before.schema))
    schemas = [*old.files, *([] if added is None else [added])]
    named = [*stored, *([] if added is None else [files[part.id]])]
    columns = len(before.schema)
    found = [old.columns[place] if place < columns else (len(old.files), place - columns) for place in places]
    used = [0, *sorted({file for file, _ in found} - {0})]
    layout = Layout(
        tuple(schemas[file] for file in used), tuple((used.index(file), place) for file, place in found)
    )
    patch: Patch = {
        new: known[place] for place, new in zip(found, layout.columns, strict=True) if place in known
    }
    patch = merged(patch, {layout.columns[ordinal]: table for ordinal, table in values.items()})
    plain = tuple((0, column) for column in range(len(schema)))
    if layout.columns == plain and layout.files[0].says_the_same_as(schema) and not patch:
        return part._replace(columns=None)
    number = layouts.setdefault(layout, len(layouts))
    of_part = tuple(named[file - 1] for file in used[1:])
    return part._replace(columns=PartColumns(number, of_part, encode_patch(patch)))


def state_of_entry(found: Manifest, part: PartEntry) -> str:
    """32 hex digits that tell what the rows of a part hold in its columns: others once any column is replaced."""
    files = () if part.columns is None else part.columns.files
    places = () if part.columns is None else found.layouts[part.columns.layout].columns
    patch = b"" if part.columns is None else part.columns.patch
    return state_of(part.id, [file.id for file in files], places, patch)


def state_of(part_id: bytes, files: Sequence[bytes], places: Sequence[tuple[int, int]], patch: bytes) -> str:
    """The same, of its id, the ids of its column parts, its layout, () without one, and its patch."""
    content = repr((part_id, list(files), list(places), patch)).encode()
    return "".join(f"{xxh3_64(content, seed):016x}" for seed in (0, 1))


def pruned(found: Manifest) -> Manifest:
    """The manifest without layouts that no part has."""
    if not found.layouts:
        return found
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
