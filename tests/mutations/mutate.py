"""Changes to a part: fields, pages, sections, table entries and metadata, small or large, one to three at once."""

from __future__ import annotations

import copy
import json
import random
import struct
from collections.abc import Callable
from typing import Any

import msgpack

from mutations.part import BLOB_PAGE, DATA_FIELDS, INDEX_FIELDS, PAGE_FIELDS, SECTION_FIELDS, Part, Piece
from mutations.units import mend_units

REPEATED = (
    "reads",
    "writes",
    "required",
    "optional",
    "alignment",
    "unit_rows",
    "group_rows",
    "row_bytes",
    "digests",
    "reserve",
)
STATISTICS = 17  # a kind of section, which holds msgpack
EDGES = [
    *(0, 1, 2, 7, 8, 9, 32, 63, 64, 128, 255, 4096, 65535, 65536),
    *(2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**60, 2**61, 2**62, 2**63 - 1, 2**63, 2**64 - 64, 2**64 - 1),
]
THINGS = [
    *(
        None,
        True,
        -1,
        0,
        1,
        2**63,
        1.5,
        float("nan"),
        "",
        "int32",
        "int64?",
        "string",
        "type70:8",
        "type130?",
        "object",
        "text",
        "x\x1b[2J",
        b"",
        b"\xff",
    ),
    *([], [[]], {}, {"type": "float32", "shape": [-1, 4]}, {"": {}}, [1] * 70, "n" * 5000),
    *(
        {"type": "timestamp", "unit": "us", "zone": "UTC"},
        {"type": "class", "names": ["a", "a"]},
        {"type": "later"},
    ),
    *(msgpack.Timestamp(-1, 5), msgpack.ExtType(5, b"x")),
]


def mutated(part: Part, pick: random.Random) -> tuple[Part, str]:
    """The part after one to three changes, and which they were."""
    changed = copy.deepcopy(part)
    chosen = pick.choices(
        list(CHANGES), [weight for _, weight in CHANGES.values()], k=pick.choice([1, 1, 2, 3])
    )
    for name in chosen:
        CHANGES[name][0](changed, pick)
    return changed, " + ".join(chosen)


def near(value: int, pick: random.Random) -> int:
    """A number that is often wrong where ``value`` stands."""
    return pick.choice(
        [pick.choice(EDGES), value + pick.choice([-64, -8, -1, 1, 8, 64]), value * 2, pick.getrandbits(64)]
    )


def _lie(fields: dict[str, Any], lies: dict[str, Any], names: tuple[str, ...], pick: random.Random) -> None:
    name = pick.choice(names)
    value = fields[name]
    lies[name] = pick.randbytes(len(value)) if isinstance(value, bytes) else near(value, pick)


def data_field(part: Part, pick: random.Random) -> None:
    _lie(part.data_head, part.data_lies, DATA_FIELDS[1:], pick)
    if pick.random() < 0.5:  # the index says the same
        part.index_lies.update({name: lie for name, lie in part.data_lies.items() if name in REPEATED})
    if pick.random() < 0.3:
        part.data_head["id"] = part.index_head["id"] = pick.choice([bytes(16), pick.randbytes(16)])


def index_field(part: Part, pick: random.Random) -> None:
    _lie(part.index_head, part.index_lies, INDEX_FIELDS[1:], pick)


def table_entry(part: Part, pick: random.Random) -> None:
    if not part.table:
        return
    number = pick.randrange(len(part.table))
    kind = pick.random()
    if kind < 0.1:
        part.table.pop(number)
    elif kind < 0.2:
        part.table.insert(number, bytearray(part.table[number]))
    else:
        entry = part.table[number]
        place = pick.choice([0, 1, 2, 3, pick.randrange(32)])
        if kind < 0.4:
            entry[8:16] = (near(int.from_bytes(entry[8:16], "little"), pick) % 2**64).to_bytes(8, "little")
        else:
            entry[place] = pick.choice(
                [*(0, 1, 4, 9, 12, 13, 20, 30, 31, 32, 33), *(64, 70, 127, 128, 191, 255)]
            )
    if pick.random() < 0.7:
        part.index_table = copy.deepcopy(part.table)


def metadata(part: Part, pick: random.Random) -> None:
    """Changes a node of the metadata, or its bytes; in both files, or in one."""
    where = pick.choice(["both", "data", "index"])
    seed = pick.getrandbits(32)
    if where != "index":
        part.meta = _other_metadata(part.meta, random.Random(seed))
    if where != "data":
        part.index_meta = _other_metadata(part.index_meta, random.Random(seed))


def _other_metadata(packed: bytes, pick: random.Random) -> bytes:
    if not packed or pick.random() < 0.2:
        return bytes(_splashed(bytearray(packed), pick))
    try:
        tree = msgpack.unpackb(packed, strict_map_key=False)
    except (ValueError, TypeError):  # an earlier change has broken it, or a map has a list for a key
        return bytes(_splashed(bytearray(packed), pick))
    return bytes(msgpack.packb(other_tree(tree, pick), use_bin_type=True))


def other_tree(tree: Any, pick: random.Random) -> Any:
    """A tree of dicts and lists in which one node is another, is gone, or is there twice."""
    if isinstance(tree, dict) and tree and pick.random() < 0.85:
        key = pick.choice(list(tree))
        kind = pick.random()
        if kind < 0.1:
            return {name: node for name, node in tree.items() if name != key}
        if kind < 0.2:
            return {**tree, pick.choice(["x", "", "schema", "logical", "chunks", 1, b"k"]): tree[key]}
        return {**tree, key: other_tree(tree[key], pick)}
    if isinstance(tree, list) and tree and pick.random() < 0.85:
        at = pick.randrange(len(tree))
        kind = pick.random()
        if kind < 0.1:
            return tree[:at] + tree[at + 1 :]
        if kind < 0.2:
            return tree[: at + 1] + tree[at:]
        return [*tree[:at], other_tree(tree[at], pick), *tree[at + 1 :]]
    if isinstance(tree, int) and not isinstance(tree, bool) and pick.random() < 0.5:
        return near(tree, pick) % 2**64
    return pick.choice(THINGS)


def page_field(part: Part, pick: random.Random) -> None:
    if part.pages:
        page = pick.choice(part.pages)
        _lie(page.fields, page.lies, PAGE_FIELDS, pick)


def page_payload(part: Part, pick: random.Random) -> None:
    holding = [page for page in part.pages if page.content]
    if holding:
        page = pick.choice(holding)
        page.content = _splashed(page.content, pick)


def cells(part: Part, pick: random.Random) -> None:
    """Other bytes in cells, with the digests of their units fixed in both files."""
    holding = [page for page in part.pages if page.content and page.fields["kind"] == BLOB_PAGE]
    if holding:
        page = pick.choice(holding)
        page.content = _splashed(page.content, pick, keep_size=True)
        mend_units(part)


def pages(part: Part, pick: random.Random) -> None:
    _rearranged(part.pages, pick)


def section_field(part: Part, pick: random.Random) -> None:
    if part.sections:
        section = pick.choice(part.sections)
        _lie(section.fields, section.lies, SECTION_FIELDS, pick)


def section_content(part: Part, pick: random.Random) -> None:
    holding = [section for section in part.sections if section.content]
    if not holding:
        return
    section = pick.choice(holding)
    if section.fields["kind"] == STATISTICS:
        section.content = bytearray(_other_metadata(bytes(section.content), pick))
        section.lies["count"] = len(section.content)
        return
    width = section.fields["width"]
    if width in (1, 2, 4, 8, 32) and pick.random() < 0.7:
        width = min(width, 8)
        at = pick.randrange(len(section.content) // width) * width
        value = int.from_bytes(section.content[at : at + width], "little")
        section.content[at : at + width] = (near(value, pick) % 2 ** (8 * width)).to_bytes(width, "little")
    else:
        section.content = _splashed(section.content, pick)
        if pick.random() < 0.5:
            section.lies["count"] = len(section.content) // max(section.fields["width"], 1)


def sections(part: Part, pick: random.Random) -> None:
    _rearranged(part.sections, pick)


def consistent_lie(part: Part, pick: random.Random) -> None:
    """A number of rows or groups that every place agrees on."""
    rows = near(part.index_head["rows"], pick) % 2**64
    part.index_lies["rows"] = rows
    for page in part.pages:
        if page.fields["kind"] == 3:
            page.lies["rows"] = rows
    if pick.random() < 0.5:
        for section in part.sections:
            section.lies["count"] = rows


def tail(part: Part, pick: random.Random) -> None:
    part.tail = pick.choice([bytes(1), bytes(64), pick.randbytes(64), b"URPG" + bytes(60)])


def _splashed(content: bytearray, pick: random.Random, *, keep_size: bool = False) -> bytearray:
    content = bytearray(content)
    kind = pick.random()
    at = pick.randrange(len(content)) if content else 0
    if kind < 0.3 and content:
        content[at] ^= 1 << pick.randrange(8)
    elif kind < 0.6 or keep_size:
        size = min(pick.choice([1, 4, 8, 16]), len(content) - at)
        word = struct.pack("<QQ", pick.choice(EDGES), pick.choice(EDGES))
        content[at : at + size] = pick.choice(
            [word[:size], pick.randbytes(size), b"\xff" * size, b"\xd8" * size]
        )
    elif kind < 0.8:
        del content[at:]
    else:
        content[at:at] = pick.choice([bytes(8), pick.randbytes(8), bytes(4096)])
    return content


def _rearranged(pieces: list[Piece], pick: random.Random) -> None:
    if not pieces:
        return
    one, other = pick.randrange(len(pieces)), pick.randrange(len(pieces))
    kind = pick.choice(["pop", "twice", "swap", "swap contents"])
    if kind == "pop":
        pieces.pop(one)
    elif kind == "twice":
        pieces.insert(other, copy.deepcopy(pieces[one]))
    elif kind == "swap":
        pieces[one], pieces[other] = pieces[other], pieces[one]
    else:
        pieces[one].content, pieces[other].content = pieces[other].content, pieces[one].content


Change = Callable[[Part, random.Random], None]
CHANGES: dict[str, tuple[Change, int]] = {
    "field of the data file": (data_field, 3),
    "field of the index": (index_field, 3),
    "column table": (table_entry, 4),
    "metadata": (metadata, 6),
    "page header": (page_field, 4),
    "page payload": (page_payload, 4),
    "cells": (cells, 3),
    "pages": (pages, 2),
    "section entry": (section_field, 4),
    "section content": (section_content, 6),
    "sections": (sections, 2),
    "agreed rows": (consistent_lie, 2),
    "tail": (tail, 1),
}


def _with_text_keys(tree: Any) -> Any:
    """The tree as JSON can have it."""
    if isinstance(tree, dict):
        return {str(key): _with_text_keys(node) for key, node in tree.items()}
    return [_with_text_keys(node) for node in tree] if isinstance(tree, list) else tree


def mutated_manifest(text: bytes, pick: random.Random, sealed: Callable[[bytes], str]) -> bytes:
    """The manifest with a node changed and its digest fixed."""
    tree = other_tree(json.loads(text), pick)
    if not isinstance(tree, dict):
        return json.dumps(tree, default=repr).encode()
    tree = {
        "digest": "0" * 16,
        **{key: node for key, node in _with_text_keys(tree).items() if key != "digest"},
    }
    content = json.dumps(tree, separators=(",", ":"), ensure_ascii=pick.random() < 0.5, default=repr)
    text = content.encode(errors="surrogatepass") + pick.choice([b"", b"\n"])
    return text[:11] + sealed(text).encode() + text[27:]
