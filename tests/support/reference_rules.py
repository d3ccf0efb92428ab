"""The oracle's ground: digests, file heads, column table and metadata, as docs/spec/format.md words them."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgpack
import numpy as np
import xxhash

MASK = 2**64 - 1
# code: (name, bytes, numpy dtype); docs/spec/format.md, "Column types"
FIXED: dict[int, tuple[str, int, str]] = {
    1: ("bool", 1, "|b1"), 2: ("int8", 1, "|i1"), 3: ("uint8", 1, "|u1"), 4: ("int16", 2, "<i2"),
    5: ("uint16", 2, "<u2"), 6: ("int32", 4, "<i4"), 7: ("uint32", 4, "<u4"), 8: ("int64", 8, "<i8"),
    9: ("uint64", 8, "<u8"), 10: ("float16", 2, "<f2"), 11: ("float32", 4, "<f4"), 12: ("float64", 8, "<f8"),
    13: ("bfloat16", 2, "<u2"), 14: ("complex64", 8, "<c8"), 15: ("complex128", 16, "<c16"),
}  # fmt: skip
STRING, BYTES, TEXT, ARRAY, OBJECT = 20, 30, 31, 32, 33
OTHERS = {STRING: "string", BYTES: "bytes", TEXT: "text", OBJECT: "object"}


class Bad(Exception):
    """The file breaks a rule of docs/spec/format.md."""


def need(condition: bool, rule: str) -> None:
    if not condition:
        raise Bad(rule)


def align(x: int, a: int) -> int:
    return -(-x // a) * a


def digest(data: bytes, seed: int = 0) -> int:
    return int(xxhash.xxh3_64_intdigest(data, seed=seed))


def wide_digest(data: bytes, seed: int = 0) -> bytes:
    """XXH3-128, its low half first."""
    return int(xxhash.xxh3_128_intdigest(data, seed=seed)).to_bytes(16, "little")


def seed(part_id: bytes, domain: int, place: int) -> int:
    return (digest(part_id + struct.pack("<Q", domain)) + place * 0x9E3779B97F4A7C15) & MASK


def zero(data: bytes, rule: str) -> None:
    need(not any(data), f"{rule} is not zero")


@dataclass
class Column:
    name: str
    code: int
    dtype: int
    nullable: bool
    rank: int
    fixed_bytes: int
    shape: list[int] | None = None
    codec: int = 0
    is_chunked: bool = False
    chunks: list[int] | None = None  # of bytes and text, their size alone

    @property
    def is_blob(self) -> bool:
        return BYTES <= self.code < 64 or self.code >= 128

    @property
    def is_known(self) -> bool:
        """Whether it has a type of this version; the values of others are the bytes that they are stored as."""
        return self.code < 64

    @property
    def stored_bytes(self) -> int:
        """Bytes of every cell, or 0 when they differ."""
        return 0 if self.codec else self.fixed_bytes

    @property
    def numpy(self) -> np.dtype[Any]:
        return np.dtype(FIXED[self.dtype if self.code == ARRAY else self.code][2])


@dataclass
class Head:
    """What the head of a data file says."""

    id: bytes
    header_bytes: int
    align: int
    unit_rows: int
    group_rows: int
    row_bytes: int
    header_digest: int
    table: bytes
    columns: list[Column] = field(default_factory=list)
    index: list[str] = field(default_factory=list)
    user: Any = None
    metadata: bytes = b""
    start: bytes = b""  # versions and features
    layout: bytes = b""  # blob_align … row_bytes

    @property
    def blobs(self) -> list[Column]:
        return [c for c in self.columns if c.is_blob]

    @property
    def scalars(self) -> list[Column]:
        return [c for c in self.columns if not c.is_blob]


def versions(file: bytes, magic: bytes, what: str, header: int) -> int:
    """What both headers start with; returns optional_features."""
    need(len(file) >= header, f"{what} is shorter than its header")
    need(file[:8] == magic, f"{what} has the wrong magic")
    least, writer, required, optional = struct.unpack_from("<HHII", file, 8)
    need(least == 1, f"{what} needs reader version {least}")
    need(writer >= least, f"{what} was written by a version older than it needs")
    need(required == 0, f"{what} needs features {required:#x}")
    return int(optional)


def column_table(table: bytes) -> list[Column]:
    columns = []
    for at in range(0, len(table), 32):
        code, dtype, flags, rank, codec, stored, value = struct.unpack_from("<BBBBB3xQQ", table, at)
        zero(table[at + 5 : at + 8] + table[at + 24 : at + 32], "reserved in the column table")
        need(flags in (0, 1), "column flags")
        chunked = 64 <= codec < 128
        codec -= 64 * chunked
        need((stored if codec else value) == 0, "fixed_bytes and value_bytes")
        need(not chunked or code in (ARRAY, BYTES, TEXT), "chunks of a column that has none")
        need(codec == 0 or code in (ARRAY, BYTES, TEXT, OBJECT) or code >= 128, "codec of a scalar column")
        need(codec != 2 or code == ARRAY, "shuffled cells that are no arrays")
        fixed = value if codec else stored
        column = Column("", code, dtype, flags == 1, rank, fixed, codec=codec, is_chunked=chunked)
        if code in FIXED and code <= 12:
            need(fixed == FIXED[code][1] and not dtype and not rank, "scalar column entry")
        elif code == ARRAY:
            need(dtype in FIXED and 1 <= rank <= 32 and fixed <= 2**62, "array column entry")
        elif 64 <= code < 128:
            need(fixed in (1, 2, 4, 8, 16, 32, 64) and not dtype and not rank, "scalar of a later version")
        else:
            need(code in OTHERS or 128 <= code < 192, f"column type {code}")
            need(not (fixed or dtype or rank), "column entry")
        columns.append(column)
    return columns


def depth(value: Any) -> int:
    inner = list(value) if isinstance(value, list) else []
    if isinstance(value, dict):
        inner = [*value.keys(), *value.values()]
    return 1 + max(map(depth, inner)) if inner else (1 if isinstance(value, (list, dict)) else 0)


class Extension(NamedTuple):
    code: int
    data: bytes


def unpack(raw: bytes, deepest: int = 64) -> Any:
    """One whole msgpack value without duplicate keys; extensions as msgpack has them, and (code, bytes)."""

    def pairs(items: list[tuple[Any, Any]]) -> dict[Any, Any]:
        need(all(type(k) in (str, int, bytes) for k, _ in items), "kind of a key in a msgpack map")
        need(len({repr(k) for k, _ in items}) == len(items), "a key stands twice in a msgpack map")
        return dict(items)

    try:
        value = msgpack.unpackb(raw, strict_map_key=False, object_pairs_hook=pairs, ext_hook=Extension)
    except (ValueError, TypeError, msgpack.UnpackException, RecursionError) as error:
        raise Bad(f"msgpack: {error}") from None
    need(depth(value) <= deepest, f"msgpack nested deeper than {deepest}")
    return value


def unpack_one_form(raw: bytes) -> Any:
    """The same in its one form: the shortest heads, floats of 64 bits."""

    def extension(value: Any) -> Any:
        need(isinstance(value, Extension), "kind of a value in msgpack")
        return tuple.__new__(msgpack.ExtType, value)

    value = unpack(raw)
    need(msgpack.packb(value, strict_types=True, default=extension) == raw, "the one form of msgpack")
    return value


def metadata(raw: bytes, columns: list[Column]) -> dict[str, Any]:
    value = unpack_one_form(raw)
    known = ["schema", "index", "user", "created_by"]
    need(isinstance(value, dict) and list(value)[:4] == known, f"metadata does not start with {known}")
    need(isinstance(value["created_by"], str), "created_by of the metadata")
    schema, index = value["schema"], value["index"]
    need(isinstance(schema, list) and len(schema) == len(columns), "schema of the metadata")
    for column, entry in zip(columns, schema, strict=True):
        need(isinstance(entry, list) and len(entry) in (3, 4), "schema entry of the metadata")
        schema_entry(column, *entry[:3])
        if len(entry) > 3:
            annotations(entry[3])
        logical(column, (entry[3] if len(entry) > 3 else {}).get("logical"))
        chunks(column, (entry[3] if len(entry) > 3 else {}).get("chunks"))
    names = [c.name for c in columns]
    need(len(set(names)) == len(names), "two columns with the same name")
    need(isinstance(index, list) and len(set(index)) == len(index), "index names")
    scalars = {c.name for c in columns if not c.is_blob and c.is_known}
    need(all(isinstance(n, str) and n in scalars for n in index), "index names are scalar columns")
    return value


def annotations(said: Any) -> None:
    """Maps with strings for keys, arrays, strings, bools, nil and finite numbers, 16 levels deep."""
    need(isinstance(said, dict) and said, "annotations are a map with a key")
    need(depth(said) <= 16, "annotations nested deeper than 16")
    pending: list[Any] = [said]
    while pending:
        value = pending.pop()
        need(
            value is None or isinstance(value, (bool, int, float, str, list, dict)), "a value of annotations"
        )
        need(not isinstance(value, float) or abs(value) < float("inf"), "a number of annotations")
        if isinstance(value, dict):
            need(all(isinstance(key, str) for key in value), "a key of annotations")
            need(list(value) == sorted(value), "order of the keys of annotations")
            pending += value.values()
        elif isinstance(value, list):
            pending += value


def chunks(column: Column, said: Any) -> None:
    """ "Chunks": what the annotations and the column table say together."""
    need((said is not None) == column.is_chunked, f"chunks of {column.name}")
    if said is None:
        return
    if column.code == ARRAY:
        shape = column.shape or []
        need(
            isinstance(said, list) and len(said) == len(shape) and shape.count(-1) < 2,
            "dimensions of a chunk",
        )
        need(
            all(
                type(c) is int and 1 <= c <= (2**62 - 1 if d == -1 else d)
                for c, d in zip(said, shape, strict=True)
            ),
            "shape of a chunk",
        )
    else:
        need(type(said) is int and 1 <= said < 2**62, "bytes of a chunk")
    column.chunks = said if isinstance(said, list) else [said]


UNITS = ("s", "ms", "us", "ns")
PARAMETERS = {
    "timestamp": {"unit", "zone"}, "date": set(), "time": {"unit"}, "duration": {"unit"}, "class": {"names"},
    "decimal": {"precision", "scale"}, "media": {"media"}, "boxes": {"form"}, "uuid": set(),
    "nested": {"of"},
}  # fmt: skip


def logical(column: Column, said: Any) -> None:
    """ "Logical types": of those that this version knows, parameters and the types below."""
    if said is None:
        return
    need(isinstance(said, dict) and isinstance(said.get("type"), str), "a logical type has a name")
    name, given = said["type"], set(said) - {"type"}
    if name not in PARAMETERS or given - PARAMETERS[name]:
        return
    need(given | ({"zone"} & PARAMETERS[name]) == PARAMETERS[name], f"parameters of {name}")
    array = column.code == ARRAY
    below = FIXED.get(column.dtype if array else column.code, ("",))[0]
    integers = [kind for code, (kind, *_) in FIXED.items() if 2 <= code <= 9]
    if "unit" in PARAMETERS[name]:
        need(said["unit"] in UNITS, f"unit of {name}")
    if "zone" in said:
        need(isinstance(said["zone"], str), "zone of a timestamp")
        offset = re.fullmatch(r"[+-]([0-9]{2}):([0-9]{2})", said["zone"])
        named = re.fullmatch(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*", said["zone"]) is not None
        need(
            named or (offset is not None and int(offset[1]) < 24 and int(offset[2]) < 60),
            "zone of a timestamp",
        )
    if name in ("timestamp", "duration") or (name == "time" and said["unit"] in ("us", "ns")):
        need(below == "int64", f"what {name} lies over")
    elif name in ("date", "time"):
        need(below == "int32", f"what {name} lies over")
    elif name == "decimal":
        digits, scale = said["precision"], said["scale"]
        need(type(digits) is int and 1 <= digits <= 38, "precision of a decimal")
        need(type(scale) is int and 0 <= scale <= digits, "scale of a decimal")
        need((below, column.shape) == ("int64", [2] if digits > 18 else None), "what a decimal lies over")
    elif name == "class":
        names = said["names"]
        need(isinstance(names, list) and all(isinstance(x, str) for x in names), "names of classes")
        need(0 < len(names) == len(set(names)) and below in integers, "classes")
    elif name == "media":
        need(isinstance(said["media"], str) and said["media"].count("/") == 1, "media type")
        need(column.code == BYTES, "what media lie over")
    elif name == "boxes":
        need(said["form"] in ("xywh", "xyxy", "cxcywh"), "form of boxes")
        need(array and (column.shape or [0])[-1] == 4 and below[:7] not in ("bool", "complex"), "boxes")
    elif name == "nested":
        need(column.code == OBJECT, "what a nested type lies over")
        need(isinstance(said["of"], str) and len(said["of"]) <= 65_536, "text of a nested type")
        end, depth = nested(said["of"], 0)
        need(end == len(said["of"]) and depth <= 32, "end of a nested type")
        need(
            re.match("struct<|map<|list<|large_list<|fixed_size_list<", said["of"]) is not None,
            "a nested type",
        )
    else:
        need((below, column.shape) == ("uint8", [16]), "what a uuid lies over")


LEAF = re.compile(
    r"(null|bool|u?int(?:8|16|32|64)|float(?:16|32|64)|string_view|(?:large_)?string|binary_view|(?:large_)?binary"
    r"|date(?:32|64)|fixed_size_binary\[[1-9][0-9]{0,9}\]|time32\[(?:s|ms)\]|time64\[(?:us|ns)\]|duration\[(?:s|ms|us|ns)\]"
    r"|timestamp\[(?:s|ms|us|ns)(?:, [A-Za-z0-9_+:/-]{1,64})?\]|decimal(32|64|128|256)\(([1-9][0-9]?), ([0-9]{1,2})\))"
)
FIELD = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)|"((?:[^"\\]|\\["\\])*)"')
DIGITS = {"32": 9, "64": 18, "128": 38, "256": 76}


def nested(text: str, at: int, key: bool = False) -> tuple[int, int]:
    """ "Nested types": where the type that begins at a place ends, and how many levels it has."""
    inner = 0
    head = re.compile("(struct|map|large_list|fixed_size_list|list)<").match(text, at)
    if head is None:
        leaf = LEAF.match(text, at)
        need(leaf is not None, "a nested type")
        assert leaf is not None
        if leaf[2] is not None:
            need(int(leaf[4]) <= int(leaf[3]) <= DIGITS[leaf[2]], "digits of a decimal")
            need(leaf[4] == str(int(leaf[4])), "digits of a decimal")
        size = re.fullmatch(r"fixed_size_binary\[([0-9]+)\]", leaf[0])
        need(size is None or int(size[1]) < 1 << 31, "size of a nested type")
        at = leaf.end()
    else:
        at, names = head.end(), []
        while text[at : at + 1] != ">":
            if names:
                need(text[at : at + 2] == ", ", "fields of a nested type")
                at += 2
            name = None
            if head[1] == "struct":
                found = FIELD.match(text, at)
                need(found is not None and text[found.end() : found.end() + 2] == ": ", "a field")
                assert found is not None
                name = (
                    found[1] if found[1] is not None else re.sub(r"\\(.)", r"\1", found[2], flags=re.DOTALL)
                )
                plain = re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) is not None
                need(name not in names and plain == (found[1] is not None), "the name of a field")
                at = found.end() + 2
            need(at < len(text) and len(names) < 1 << 16, "an end of a nested type")
            at, depth = nested(text, at, head[1] == "map" and not names)
            inner = max(inner, depth)
            names.append(name)
        at += 1
        need(
            head[1] == "struct" or len(names) == (2 if head[1] == "map" else 1), "types within a nested type"
        )
        if head[1] == "fixed_size_list":
            size = re.compile(r"\[[1-9][0-9]{0,9}\]").match(text, at)
            need(size is not None and int(size[0][1:-1]) < 1 << 31, "size of a list")
            assert size is not None
            at = size.end()
    if text[at : at + 9] == " not null":
        need(not key, "a key of a map")
        at += 9
    return at, inner + 1


def schema_entry(column: Column, name: Any, kind: Any, shape: Any) -> None:
    need(isinstance(name, str) and 1 <= len(name.encode()) <= 255, "column name")
    need(not any(ord(c) < 0x20 or 0x7F <= ord(c) <= 0x9F for c in name), "control character in a column name")
    column.name, column.shape = name, shape
    if column.code != ARRAY:
        need(shape is None, f"shape of {name}")
        if column.is_known:
            base = OTHERS.get(column.code) or FIXED[column.code][0]
        else:
            base = f"type{column.code}" + (f":{column.fixed_bytes}" if column.fixed_bytes else "")
        need(kind == base + ("?" if column.nullable else ""), f"type of {name}")
        return
    need(kind == FIXED[column.dtype][0] + ("?" if column.nullable else ""), f"element type of {name}")
    need(isinstance(shape, list) and len(shape) == column.rank, f"shape of {name}")
    need(all(type(d) is int and (d == -1 or 1 <= d < 2**62) for d in shape), f"dimensions of {name}")
    size = FIXED[column.dtype][1]
    for d in shape:
        size *= d if d > 0 else 0
    need(column.fixed_bytes == size, f"fixed_bytes of {name}")


def data_head(file: bytes) -> Head:
    """ "File header", "Column table" and "Metadata"."""
    optional = versions(file, b"\x89UREC\r\n\x1a", "data file", 128)
    (size, part_id, count, meta, a, k, group_rows, row_bytes, head_digest, header_digest) = (
        struct.unpack_from("<I16sIIIIQQ40xQQ", file, 20)
    )
    need(header_digest == digest(file[:120], seed(part_id, 1, 0)), "digest of the file header")
    need(file[72:76] == bytes(4), "algorithm of the digests")
    zero(file[76:112] if not optional else b"", "reserved in the file header")
    need(1 <= count <= 65534, "columns")
    need(size <= 2**24 and size == align(128 + 32 * count + meta, 64), "header_bytes")
    need(len(file) >= size, "data file ends inside its head")
    need(head_digest == digest(file[128:size], seed(part_id, 2, 0)), "digest of the head")
    end = 128 + 32 * count
    zero(file[end + meta : size], "padding of the head")
    head = Head(part_id, size, a, k, group_rows, row_bytes, header_digest, file[128:end])
    head.start, head.layout = file[8:20], file[48:72]
    head.columns = column_table(head.table)
    head.metadata = file[end : end + meta]
    value = metadata(head.metadata, head.columns)
    head.index, head.user = value["index"], value["user"]
    shape_rules(head)
    return head


def shape_rules(head: Head) -> None:
    k, a = head.unit_rows, head.align
    need(a in (1, 2, 4, 8, 16, 32, 64), "blob_align")
    need(head.group_rows < 2**63, "group_rows")
    if not head.blobs:
        need(head.row_bytes == 0 and k == 0 and head.group_rows > 0, "shape of a part without blob columns")
    elif all(c.stored_bytes for c in head.blobs):
        need(head.row_bytes == sum(align(c.fixed_bytes, a) for c in head.blobs), "row_bytes")
        need(head.row_bytes <= 2**62, "row_bytes")
        need(k == 0 or k & (k - 1) == 0, "unit_rows is 0 or a power of two")
        need(
            head.group_rows > 0 and (k == 0 or head.group_rows % k == 0),
            "group_rows is a multiple of unit_rows",
        )
    else:
        need(head.row_bytes == 0 and head.group_rows == 0, "shape of a part of variable rows")
        need(k in (0, 1, 2, 4, 8, 16, 32, 64), "unit_rows of a part of variable rows")
