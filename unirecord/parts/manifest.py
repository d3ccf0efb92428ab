"""The manifest of a directory: which parts make up the dataset, in which order; text <-> fields, strictly checked."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ..core import xxh3_64
from ..errors import CorruptionError, FormatError
from ..format.metadata import CREATED_BY, checked_index
from ..format.schema import Schema
from ..format.values import unpack_object
from ..storage.registry import read_file
from .column_layouts import (
    COLUMN_FILES,
    LAYOUT,
    Layout,
    decode_layouts,
    decode_part_columns,
    encode_layouts,
    encode_part_columns,
    schema_digest,
)
from .listed_rules import COLUMNS, DELETIONS, check_entries, check_listed
from .manifest_fields import PART_NAME, checked_hex, checked_number, checked_part
from .part_list import DeletedRows, ListedParts, PartEntry, PartList, find_parts

__all__ = [
    "NAME",
    "PART_NAME",
    "DeletedRows",
    "ListedParts",
    "Manifest",
    "PartEntry",
    "decode",
    "encode",
    "part_id",
    "part_name",
    "read",
    "schema_digest",
]

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
_MAY_BE = {"optional", "required", _LAYOUTS}  # left out when empty
_KNOWN = frozenset({COLUMNS, DELETIONS})  # what "required" may name
_DELETION_KEYS = {"name", "rows", "bytes", "digest"}
_PART_KEYS = {"name", "id", "rows", "bytes", "index_bytes", "schema", "content"}
_STAND_IN = b"0"  # for parts that were found without it, where the rest of the text is read


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
    digest: str = field(compare=False, default="")  # of the text that it was read from
    layouts: tuple[Layout, ...] = ()  # of parts whose columns are not where the schema has them

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
        "digest": "",
    }
    if manifest.optional:
        content["optional"] = manifest.optional
    if manifest.layouts:
        content[_LAYOUTS] = encode_layouts(manifest.layouts)
    needed = [COLUMNS] if manifest.layouts else []
    needed += [DELETIONS] if manifest.deleted else []
    if needed:
        content["required"] = needed
    content["digest"] = f"{xxh3_64(_dump(content)):016x}"
    return _dump(content) + b"\n"


def _encode_part(part: PartEntry) -> dict[str, Any]:
    content: dict[str, Any] = {
        "name": part.name,
        "id": part.id.hex(),
        "rows": part.rows,
        "bytes": part.bytes,
        "index_bytes": part.index_bytes,
        "schema": part.schema,
        "content": part.content,
    }
    if part.deleted is not None:
        content[DELETIONS] = asdict(part.deleted)
    if part.columns is not None:
        content.update(encode_part_columns(part.columns))
    return content


def _dump(content: dict[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def read(path: str) -> Manifest:
    """The manifest in the file at ``path``, strictly checked: errors of `decode`, and OSError."""
    return decode(read_file(path, MAX_BYTES + 1), path)


def decode(text: bytes, path: str) -> Manifest:
    """Reads a manifest; FormatError when it is none or a newer one, CorruptionError when it is not what was written."""
    listed = find_parts(text) if len(text) <= MAX_BYTES else None
    # a list that is not as it is written is read entry by entry, which tells what is wrong
    content = _load(text if listed is None else listed.before + _STAND_IN + listed.after, path)
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
        _check_digest(content, listed, text, path)
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
        raise FormatError(f"{path}: {len(text)} bytes; a manifest has at most {MAX_BYTES}")
    try:
        content = json.loads(text.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: not a manifest: it is not JSON ({error})") from error
    if not isinstance(content, dict):
        raise FormatError(f"{path}: not a manifest: expected a JSON object")
    return content


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _check_digest(content: dict[str, Any], listed: PartList | None, text: bytes, path: str) -> None:
    stored = checked_hex(content["digest"], 16, "digest")
    around = text if listed is None else listed.before + _STAND_IN + listed.after
    written = _dump(content)
    key = (
        _dump({"created_by": content["created_by"]})[:-1] + b',"digest":"'
    )  # the first two keys in their order
    signed = written if listed is None else text[:-1]
    found = f"{xxh3_64(key + signed[len(key) + len(stored) :]):016x}"
    if stored != found or around != written + b"\n":
        raise CorruptionError(
            f"{path}: its text has the digest {found}, but {stored} is stored in it: it was edited or damaged",
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
            f"{rows} rows in {size} bytes cannot have been deleted of a part of {part_rows} rows"
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
