"""Reads directories of parts from docs/spec/format.md alone, every rule checked: the tests' oracle."""

from __future__ import annotations

import base64
import json
import re
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
from reference import ReferencePart, bits, read_part
from reference_rules import annotations, digest, need, unpack, unpack_one_form, wide_digest

__all__ = ["read_directory"]

PART_NAME = r"part-([0-9]{6}|[1-9][0-9]{6,11})-[0-9a-f]{8}\.urec"


def read_directory(path: str | Path) -> list[ReferencePart]:
    """The parts that `manifest.json` names, in order."""
    text = (Path(path) / "manifest.json").read_bytes()
    need(re.match(rb'\{"digest":"[0-9a-f]{16}"', text) is not None, "beginning of the manifest")
    manifest = json.loads(text, object_pairs_hook=without_twice)
    need(manifest["digest"] == f"{digest(text[:11] + b'0' * 16 + text[27:]):016x}", "digest of the manifest")
    need(manifest["format"] == "unirecord" and manifest["version"] == 1, "format of the manifest")
    manifest["parts"] = [*listed_in_pieces(Path(path), manifest), *manifest["parts"]]
    gone = any("deletions" in entry for entry in manifest["parts"])
    layouts = manifest.get("layouts", [])
    patched = any("patch" in entry for entry in manifest["parts"])
    needed = ["columns"] * ("layouts" in manifest) + ["deletions"] * gone + ["patches"] * patched
    need(manifest.get("required", []) == needed, "what the manifest requires")
    need("required" not in manifest or needed, "what is empty is left out")
    of_parts = [entry["layout"] for entry in manifest["parts"] if "layout" in entry]
    need(set(of_parts) == set(range(len(layouts))), "layouts of the manifest")
    need(isinstance(manifest["created_by"], str), "created_by of the manifest")
    keys = [
        "created_by",
        "digest",
        "format",
        "generation",
        "id",
        "index",
        "metadata",
        "next_part",
        "parts",
        "schema",
        "version",
    ]
    said = {"publication": dict, "same_rows": dict, "rows_dropped": list, "given_up": dict, "optional": dict}
    need(sorted(set(manifest) - {*said, "required", "layouts", "pieces"}) == keys, "keys of the manifest")
    for key, kind in said.items():
        need(isinstance(manifest.get(key, kind()), kind), f"{key} of the manifest")
    need(re.fullmatch("[0-9a-f]{32}", manifest["id"]) is not None, "dataset id")
    packed = manifest["metadata"]
    user = None if packed is None else unpack_one_form(base64.b64decode(packed, validate=True))
    for schema in [manifest["schema"], *(file for layout in layouts for file in layout["files"])]:
        for entry in schema:
            need(len(entry) in (3, 4), "schema entry of the manifest")
            annotations(*entry[3:] or [{"none": None}])
    parts = []
    for entry in manifest["parts"]:
        need(re.fullmatch(PART_NAME, entry["name"]) is not None, "part name")
        need(int(entry["name"].split("-")[1]) < manifest["next_part"], "part number")
        part = read_part(Path(path) / entry["name"])
        layout = layouts[entry["layout"]] if "layout" in entry else None
        schema = schema_of(part)
        types = msgpack.packb([column[:3] for column in schema])
        need(entry["id"] == part.head.id.hex() and entry["name"][-13:-5] == entry["id"][:8], "part id")
        need(entry["rows"] == len(part.raw) and entry["bytes"] == part.bytes, "size of a part")
        need(entry["index_bytes"] == Path(path, entry["name"] + ".idx").stat().st_size, "size of an index")
        need(entry["content"] == part.content_digest.hex(), "content of a part")
        need(entry["schema"] == wide_digest(types).hex(), "schema of a part")
        if layout is None:
            need(
                "column_files" not in entry and "patch" not in entry, "column parts, or a patch, of a layout"
            )
            need(
                manifest["schema"] == schema and manifest["index"] == part.head.index, "schema of the dataset"
            )
            need(repr(user) == repr(part.head.user), "metadata of the dataset")
        else:
            need(layout["files"][0] == schema, "first schema of a layout")
            part = read_columns(Path(path), entry, part, layout, manifest)
        if "deletions" in entry:
            part.deleted = read_deletions(Path(path), entry, part)
        parts.append(part)
    names = [entry["name"] for entry in manifest["parts"]]
    names += [file["name"] for entry in manifest["parts"] for file in entry.get("column_files", [])]
    need(len(set(names)) == len(names), "names of parts")
    return parts


def listed_in_pieces(folder: Path, manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """The parts that pieces list, in order, as the text of a manifest says parts."""
    need(manifest.get("pieces", [0]) != [], "pieces of the manifest")
    found = []
    for said in manifest.get("pieces", []):
        need(sorted(said) == ["digest", "parts", "rows"], "keys of a piece")
        file = (folder / f"parts-{said['digest']}").read_bytes()
        need(wide_digest(file).hex() == said["digest"], "digest of a piece")
        found += parts_of_piece(file, said, manifest)
    return found


def parts_of_piece(file: bytes, said: dict[str, Any], manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """The parts that one piece lists."""
    magic, version, n, m, gone, *rest = struct.unpack_from("<8s6IQ16s", file)
    laid, gone = gone, rest[0]
    need(magic == b"\x89URPL\r\n\x1a" and version == 1, "head of a piece")
    need(rest[3].hex() == manifest["id"] and rest[2] == said["rows"], "dataset and rows of a piece")
    need(1 <= n <= 65536 and n == said["parts"], "parts of a piece")
    patched, patches_at = rest[1], 64 + 64 * n + 56 * m + 44 * gone + 12 * laid
    patch_sizes = np.frombuffer(file[patches_at + 4 * patched :][: 4 * patched], "<u4").tolist()
    need(len(file) == patches_at + 8 * patched + sum(patch_sizes), "length of a piece")
    at = 64

    def column(count: int, kind: str = "<u8") -> list[int]:
        nonlocal at
        at += count * np.dtype(kind).itemsize
        return list(np.frombuffer(file[at - count * np.dtype(kind).itemsize : at], kind).tolist())

    def texts(count: int) -> list[str]:
        nonlocal at
        at += 16 * count
        return [file[place : place + 16].hex() for place in range(at - 16 * count, at, 16)]

    def files(count: int, *, with_rows: bool) -> list[dict[str, Any]]:
        ids = texts(count)
        numbers, rows = column(count), column(count) if with_rows else []
        made = []
        for i, fields in enumerate(
            zip(ids, numbers, column(count), column(count), texts(count), strict=True)
        ):
            part_id, number, size, index_size, content = fields
            need(number < 10**12, "number of a name")
            name = f"part-{number:06d}-{part_id[:8]}.urec"
            one = {
                "name": name,
                "id": part_id,
                "bytes": size,
                "index_bytes": index_size,
                "content": content,
            }
            made.append({**one, "rows": rows[i]} if with_rows else one)
        return made

    parts, columns = files(n, with_rows=True), files(m, with_rows=False)
    need(sum(part["rows"] for part in parts) == said["rows"], "rows of a piece")
    deleted, sizes, digests, versions = column(gone), column(gone), texts(gone), column(gone)
    of = column(gone, "<u4")
    need(of == sorted(set(of)) and all(i < n for i in of), "deletions of a piece")
    for i, rows, size, found, version in zip(of, deleted, sizes, digests, versions, strict=True):
        need(version < 10**18, "number of a file of deleted rows")
        name = f"{parts[i]['name']}.del-{version:06d}"
        parts[i]["deletions"] = {"name": name, "rows": rows, "bytes": size, "digest": found}
    of, layouts, counts = (column(laid, "<u4") for _ in range(3))
    need(of == sorted(set(of)) and all(i < n for i in of) and sum(counts) == m, "layouts of a piece")
    for part in parts:
        types = msgpack.packb([column[:3] for column in manifest["schema"]])
        part["schema"] = wide_digest(types).hex()
    for i, layout, count in zip(of, layouts, counts, strict=True):
        types = msgpack.packb([column[:3] for column in manifest["layouts"][layout]["files"][0]])
        parts[i] |= {"layout": layout, "column_files": columns[:count], "schema": wide_digest(types).hex()}
        del columns[:count]
    of, sizes = column(patched, "<u4"), column(patched, "<u4")
    need(of == sorted(set(of)) and all("layout" in parts[i] for i in of), "patches of a piece")
    for i, size in zip(of, sizes, strict=True):
        parts[i]["patch"] = base64.b64encode(file[at : at + size]).decode()
        at += size
    return parts


def without_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object, no key of which stands in it twice."""
    need(len(dict(pairs)) == len(pairs), "keys of an object")
    return dict(pairs)


def schema_of(part: ReferencePart) -> list[Any]:
    """What a part's metadata say of its columns."""
    found: list[Any] = unpack(part.head.metadata)["schema"]
    return found


def read_columns(
    folder: Path, entry: dict[str, Any], part: ReferencePart, layout: dict[str, Any], manifest: dict[str, Any]
) -> ReferencePart:
    """A part with the columns of the dataset, which lie where its layout says."""
    need(sorted(layout) == ["columns", "files"], "keys of a layout")
    need(len(entry["column_files"]) == len(layout["files"]) - 1, "column parts of a layout")
    files = [part]
    for said, schema in zip(entry["column_files"], layout["files"][1:], strict=True):
        need(sorted(said) == ["bytes", "content", "id", "index_bytes", "name"], "keys of a column part")
        need(re.fullmatch(PART_NAME, said["name"]) is not None, "name of a column part")
        need(int(said["name"].split("-")[1]) < manifest["next_part"], "number of a column part")
        file = read_part(folder / said["name"])
        need(
            said["id"] == file.head.id.hex() and said["name"][-13:-5] == said["id"][:8], "id of a column part"
        )
        need(said["bytes"] == file.bytes and said["content"] == file.content_digest.hex(), "content")
        need(said["index_bytes"] == (folder / f"{said['name']}.idx").stat().st_size, "index of a column part")
        need(len(file.raw) == entry["rows"], "rows of a column part")
        need(schema_of(file) == schema, "schema of a column part")
        need(
            set(file.head.index) <= {c.name for c in file.schema}
            and file.head.user == {"unirecord:column_part": True},
            "metadata of a column part",
        )
        files.append(file)
    places = [tuple(place) for place in layout["columns"]]
    need(len(places) == len(manifest["schema"]) == len(set(places)), "columns of a layout")
    columns = []
    for (file_number, number), (name, *kind) in zip(places, manifest["schema"], strict=True):
        need(layout["files"][file_number][number][1:3] == kind[:2], "type of a column")
        columns.append(replace(files[file_number].schema[number], name=name))
    raw = [
        [files[file_number].raw[row][number] for file_number, number in places]
        for row in range(entry["rows"])
    ]
    if "patch" in entry:
        apply_patch(entry["patch"], files, places, raw)
    return ReferencePart(replace(part.head, columns=columns), part.groups, raw, bytes=part.bytes)


def apply_patch(
    text: str, files: list[ReferencePart], places: list[tuple[int, ...]], raw: list[list[bytes | None]]
) -> None:
    """Puts the values of a patch in the place of those that the files of the part store."""
    patch, at, last = base64.b64decode(text, validate=True), 0, (-1, -1)
    need(1 <= len(patch) <= 65536, "bytes of a patch")

    def take(size: int) -> bytes:
        nonlocal at
        at += size
        need(at <= len(patch), "end of a patch")
        return patch[at - size : at]

    while at < len(patch):
        file, number, count, width = struct.unpack("<4I", take(16))
        need((file, number) in places and (file, number) > last and count > 0, "tables of a patch")
        last = file, number
        column = files[file].schema[number]
        need(not column.is_blob and column.name not in files[file].head.index, "column of a patch")
        need(width == column.fixed_bytes, "width of a patch")
        rows = np.frombuffer(take(8 * count), "<u8").tolist()
        need(rows == sorted(set(rows)) and rows[-1] < len(raw), "rows of a patch")
        valid = take(count)
        need(set(valid) <= ({0, 1} if column.nullable else {1}), "nulls of a patch")
        sizes = [width] * count if width else np.frombuffer(take(4 * count), "<u4").tolist()
        for row, there, size in zip(rows, valid, sizes, strict=True):
            value = take(size)
            need(bool(there) or not any(value), "null of a patch")
            raw[row][places.index((file, number))] = value if there else None


def read_deletions(folder: Path, entry: dict[str, Any], part: ReferencePart) -> list[int]:
    """The rows of a part that have been deleted."""
    said, rows = entry["deletions"], len(part.raw)
    need(
        re.fullmatch(r"\.del-([0-9]{6}|[1-9][0-9]{6,17})", said["name"].removeprefix(entry["name"]))
        is not None,
        "deletion file",
    )
    file = (folder / said["name"]).read_bytes()
    need(len(file) == said["bytes"] and wide_digest(file).hex() == said["digest"], "digest of deletions")
    magic, version, form, of_rows, count, part_id = struct.unpack_from("<8sIIQQ16s", file)
    need(magic == b"\x89URDL\r\n\x1a" and version == 1 and not any(file[48:64]), "head of deletions")
    need(
        (of_rows, count, part_id) == (rows, said["rows"], part.head.id) and count > 0,
        "deletions of this part",
    )
    width = 4 if rows <= 2**32 else 8
    need(form == (width if width * count < 8 * -(-rows // 64) else 0), "form of deletions")
    if form:
        found = list(np.frombuffer(file[64:], {4: "<u4", 8: "<u8"}[form]).tolist())
        need(found == sorted(set(found)), "deleted rows ascend")
    else:
        need(len(file) == 64 + 8 * -(-rows // 64), "bits of deletions")
        found = [row for row, bit in enumerate(bits(file[64:], 8 * (len(file) - 64))) if bit]
    need(len(found) == count and found[-1] < rows, "number of deleted rows")
    return found
