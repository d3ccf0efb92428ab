"""A dataset as a C program reads it: rows, columns and orders of Python, and the same manifests are refused."""

from __future__ import annotations

import base64
import copy
import json
import os
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reseal
from listed_pieces import hostile_pieces
from reseal import sealed
from small_parts import later_part

import unirecord
from unirecord import UniRecordDataset, Writer
from unirecord.convert import update
from unirecord.core import xxh3_64
from unirecord.core.library import ffi, lib
from unirecord.errors import UniRecordError
from unirecord.order.spec import MODES
from unirecord.snapshot import manifest, part_list, versions

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "csrc").glob("*/*.c"))
SANITIZED = ["-g", "-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
WARNED = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pthread", "-Icsrc"]
SCHEMA = {
    "id": {"type": "int64", "annotations": {"unit": "s", "scale": 0.1, "few": [1, -1, None, 1e-300]}},
    "name": "string?",
    "box": {"type": "float32", "shape": [4]},
    "text": "text",
    "gone": "int8",
}


def compiled(target: Path, source: str, *flags: str) -> Path:
    command = [
        shutil.which("cc") or "cc",
        *WARNED,
        *flags,
        source,
        *map(str, SOURCES),
        "-lpthread",
        "-o",
        str(target),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return target


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("c") / "read_dataset", "tests/c/read_dataset.c", *SANITIZED)


def told(reader: Path, *arguments: object) -> list[str]:
    done = subprocess.run(
        [str(reader), *map(str, arguments)], capture_output=True, text=True, check=False, timeout=300
    )
    assert not done.stderr
    return done.stdout.splitlines()


def row(i: int) -> dict[str, Any]:
    name = None if i % 3 == 0 else f"näme {i}"
    return {"id": i, "name": name, "box": np.full(4, i, np.float32), "text": "t" * (i % 50), "gone": i % 7}


def written(path: Path, parts: Sequence[int] = (30, 20, 40)) -> Path:
    first = 0
    for count in parts:
        with (
            Writer(path, SCHEMA, index=["id"], metadata={"classes": ["a", "b"]})
            if first == 0
            else unirecord.append(path) as writer
        ):
            for i in range(first, first + count):
                writer.write(row(i))
        first += count
    return path


def with_deletions(path: Path) -> None:
    unirecord.delete(path, where="id % 5 == 1")


def with_columns(path: Path) -> None:
    def made(batch: Any) -> dict[str, Any]:
        return {"twice": batch["id"] * 2, "note": [None if i % 2 else str(i) for i in batch["id"]]}

    unirecord.add_columns(path, {"twice": "int64", "note": "string?"}, made)
    unirecord.drop_columns(path, ["gone"])
    unirecord.rename_columns(path, {"text": "words"})


def with_all(path: Path) -> None:
    with_columns(path)
    with_deletions(path)
    with unirecord.append(path) as writer:  # a part that has all columns in its own file
        for i in range(90, 110):
            more = {"twice": 2 * i, "note": None, "words": "w"}
            writer.write(
                {name: {**row(i), **more}[name] for name in ("id", "name", "box", "words", "twice", "note")}
            )
    unirecord.delete(path, rows=[95, 96, 97])


def laid_out_anew(path: Path) -> None:
    with_deletions(path)
    unirecord.compact(path, rows_per_part=25, drop_deleted=True)


def in_pieces(path: Path) -> None:
    """All of it, listed in pieces of two parts, and one part behind them."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(part_list, "MOST_IN_PIECE", 2)
        patched.setattr(part_list, "MOST_IN_TEXT", 0)
        with_all(path)
        patched.setattr(part_list, "MOST_IN_TEXT", 1)
        with unirecord.append(path) as writer:
            more = {"twice": 220, "note": None, "words": "w"}
            names = ("id", "name", "box", "words", "twice", "note")
            writer.write({name: {**row(110), **more}[name] for name in names})
    listed = json.loads((path / "manifest.json").read_text())
    assert len(listed["pieces"]) >= 2
    assert listed["parts"]


def with_corrections(path: Path) -> None:
    """Parts with column parts of other columns, two each, one, and none."""
    with_deletions(path)
    unirecord.update(path, {"id": [2, 33], "name": ["new", None], "box": [np.ones(4, np.float32)] * 2}, "id")
    unirecord.set_values(path, "id in (34, 35) or id == 3", {"text": "new words"})
    unirecord.upsert(path, [{**row(200), "gone": 1}, {**row(35), "gone": 2}], "id")
    unirecord.drop_columns(path, ["gone"])


def with_patches(path: Path) -> None:
    """Patches of parts' own files, and of a column part, with nulls and strings; after them columns are dropped."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(update, "_PATCHED_SHARE", 0)
        found = unirecord.set_values(path, "id in (3, 10, 33)", {"gone": 5, "name": "näme 4"})
        assert found.parts == 1  # the second part has no such name
        assert unirecord.set_values(path, "id in (4, 5, 34)", {"gone": 0, "name": None}).parts == 0
        assert unirecord.set_values(path, "id in (60, 61)", {"gone": 1}).parts == 0
    unirecord.drop_columns(path, ["text"])


CHANGES: dict[str, Callable[[Path], None]] = {
    "as written": lambda path: None,
    "values corrected": with_corrections,
    "values patched": with_patches,
    "rows deleted": with_deletions,
    "columns added, dropped, renamed": with_columns,
    "all of it": with_all,
    "laid out anew": laid_out_anew,
    "in pieces": in_pieces,
}


def value_bytes(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else np.asarray(value).tobytes()


def shown(sample: dict[str, Any]) -> str:
    found = map(value_bytes, sample.values())
    return "".join(" null" if value is None else f" {len(value)}:{xxh3_64(value):016x}" for value in found)


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("datasets")
    made = {}
    for i, (name, change) in enumerate(CHANGES.items()):
        made[name] = written(folder / str(i))
        change(made[name])
    return made


@pytest.mark.parametrize("name", CHANGES)
def test_c_has_the_rows_and_columns_of_python(reader: Path, datasets: dict[str, Path], name: str) -> None:
    with UniRecordDataset(datasets[name]) as ds:
        expected = ["\t".join([f"{len(ds)} rows", *ds.column_names])]
        expected += [f"{i}{shown(ds[i])}" for i in range(len(ds))]
        assert len(ds) > 50
        assert told(reader, "rows", datasets[name], *ds.column_names) == expected


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("shuffle", [False, True, "block", "parts", "within-parts"])
def test_c_has_the_order_of_python(reader: Path, datasets: dict[str, Path], name: str, shuffle: Any) -> None:
    mode = {False: 0, True: 1}.get(shuffle, MODES.get(shuffle))
    for shards, remainder in ((1, "pad"), (3, "pad"), (4, "drop"), (7, "uneven")):
        for shard in {0, shards - 1}:
            with UniRecordDataset(
                datasets[name],
                shard,
                shards,
                shuffle=shuffle,
                seed=42,
                remainder=remainder,
                columns=["id", "name"],
            ) as ds:
                ds.set_epoch(5)
                rows = ds.order.row_ids().tolist()
                expected = [f"{number}{shown(sample)}" for number, sample in zip(rows, ds, strict=True)]
            number = ("pad", "drop", "uneven").index(remainder)
            found = told(
                reader, "epoch", datasets[name], mode, number, 42, 5, shard, shards, 0, 0, 0, "id", "name"
            )
            assert found[1:] == expected


def test_c_goes_on_where_a_job_stood_and_takes_sizes_of_blocks(
    reader: Path, datasets: dict[str, Path]
) -> None:
    path = datasets["all of it"]
    with UniRecordDataset(
        path, 1, 2, shuffle="block", seed=7, block_rows=3, window_blocks=2, columns=["id"]
    ) as ds:
        samples = iter(ds)
        for _ in range(10):
            next(samples)
        rest = [shown(sample) for sample in samples]
    found = told(reader, "epoch", path, MODES["block"], 0, 7, 0, 1, 2, 20, 3, 2, "id")
    assert [line.partition(" ")[2] for line in found[1:]] == [line.strip() for line in rest]


def test_c_opens_a_single_part(reader: Path, tmp_path: Path) -> None:
    with Writer(tmp_path / "a.urec", SCHEMA) as writer:
        for i in range(20):
            writer.write(row(i))
    with UniRecordDataset(tmp_path / "a.urec", shuffle="block") as ds:
        rows = ds.order.row_ids().tolist()
        expected = [f"{number}{shown(sample)}" for number, sample in zip(rows, ds, strict=True)]
    found = told(reader, "epoch", tmp_path / "a.urec", MODES["block"], 0, 0, 0, 0, 1, 0, 0, 0, *SCHEMA)
    assert found == ["20 rows\tid\tname\tbox\ttext\tgone", *expected]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((0, 0, 0, 0, 0, 200, 0, 0, 0), "200 shards are more than"),
        ((0, 0, 0, 0, 3, 3, 0, 0, 0), "shard 3 of 3"),
        ((1, 0, 0, 0, 0, 1, 0, 8, 0), "for UR_ORDER_BLOCK alone"),
        ((0, 3, 0, 0, 0, 1, 0, 0, 0), "remainder 3"),
        ((9, 0, 0, 0, 0, 1, 0, 0, 0), "9"),
        ((0, 0, 0, 0, 0, 1, -1, 0, 0), "start -1"),
    ],
)
def test_c_refuses_an_epoch_that_cannot_be(
    reader: Path, datasets: dict[str, Path], arguments: tuple[int, ...], said: str
) -> None:
    found = told(reader, "epoch", datasets["rows deleted"], *arguments, "id")
    assert found[-1].startswith("error 3 ")
    assert said in found[-1]


def changed(path: Path, name: str, content: bytes | None) -> Path:
    if content is None:
        (path / name).unlink()
    else:
        (path / name).write_bytes(content)
    return path


def deletion_of(path: Path) -> str:
    return json.loads((path / "manifest.json").read_text())["parts"][0]["deletions"]["name"]


def column_part_of(path: Path) -> str:
    return json.loads((path / "manifest.json").read_text())["parts"][0]["column_files"][0]["name"]


@pytest.mark.parametrize("which", ["manifest", "part", "index", "deletions", "column part"])
@pytest.mark.parametrize("damage", ["missing", "cut", "empty", "flipped"])
def test_c_names_the_file_that_is_missing_or_wrong(
    reader: Path, datasets: dict[str, Path], tmp_path: Path, which: str, damage: str
) -> None:
    path = tmp_path / "copy"
    shutil.copytree(datasets["all of it"], path)
    part = json.loads((path / "manifest.json").read_text())["parts"][0]["name"]
    name = {
        "manifest": "manifest.json",
        "part": part,
        "index": f"{part}.idx",
        "deletions": deletion_of(path),
        "column part": column_part_of(path),
    }[which]
    whole = (path / name).read_bytes()
    flipped = bytearray(whole)
    for i in range(len(flipped) // 2, len(flipped), 64):
        flipped[i] ^= 0x40
    changed(
        path, name, {"missing": None, "cut": whole[:-70], "empty": b"", "flipped": bytes(flipped)}[damage]
    )
    found = told(reader, "rows", path, "id", "twice", "words")
    assert "error" in found[-1]
    assert name.removesuffix(".idx") in found[-1]


def test_c_follows_links_as_python_does_and_reads_no_pipe(
    reader: Path, datasets: dict[str, Path], tmp_path: Path
) -> None:
    path = tmp_path / "links"
    path.mkdir()
    for file in datasets["rows deleted"].iterdir():
        (path / file.name).symlink_to(file)
    with UniRecordDataset(path) as ds:
        assert told(reader, "rows", path, "id")[0] == "\t".join([f"{len(ds)} rows", *ds.column_names])
    (path / "manifest.json").unlink()
    os.mkfifo(path / "manifest.json")
    assert "manifest.json: this is not a regular file" in told(reader, "rows", path)[0]


# Manifests: what is taken is what Python takes.


def texts(reader: Path, given: Sequence[bytes], folder: Path | None = None) -> list[tuple[int, str]]:
    data = b"".join(struct.pack("<Q", len(text)) + text for text in given)
    done = subprocess.run(
        [str(reader), "manifests"], input=data, capture_output=True, check=False, timeout=600, cwd=folder
    )
    assert done.stderr == b""
    assert done.returncode == 0
    lines = done.stdout.decode(errors="replace").split("\n")[:-1]
    assert len(lines) == len(given)
    return [(int(line.split(" ", 1)[0]), line) for line in lines]


def python_takes(text: bytes) -> bool:
    try:
        found = manifest.decode(text, "manifest.json")
        versions.block_facts(found, "manifest.json")
    except UniRecordError:
        return False
    return True


@pytest.fixture(scope="module")
def judged(whole: dict[str, Any]) -> dict[bytes, bool]:
    """Texts of other content with their right digests, and whether Python takes them."""
    return {text: python_takes(text) for text in resealed(whole)}


def disagreements(reader: Path, given: Sequence[bytes]) -> tuple[list[tuple[bytes, str]], int]:
    """Texts that one takes and the other refuses, and how many both take."""
    wrong, taken = [], 0
    for text, (status, line) in zip(given, texts(reader, given), strict=True):
        takes = python_takes(text)
        taken += takes
        if takes != (status == 0):
            wrong.append((text, line))
        assert status in (0, 5, 6), line
    return wrong, taken


@pytest.fixture(scope="module")
def whole(datasets: dict[str, Path]) -> dict[str, Any]:
    """A manifest of every feature, with few parts."""
    content: dict[str, Any] = json.loads((datasets["all of it"] / "manifest.json").read_text())
    anew = json.loads((datasets["laid out anew"] / "manifest.json").read_text())
    content["optional"] = {"x": [1.5, 1e16, -0.0, {"é": "\x01\n\u2028"}]}
    content["same_rows"] = anew["same_rows"]
    content["rows_dropped"] = ["0" * 16]
    content["given_up"] = {"files": ["part-000000-00000000.urec"], "run": "x"}
    assert "publication" in content
    twice = struct.pack("<4IQBq", 1, 0, 1, 8, 0, 1, 2)  # row 0 has 2 in column 0 of file 1
    next(part for part in content["parts"] if "layout" in part)["patch"] = base64.b64encode(twice).decode()
    content["required"].append("patches")
    return content


def test_a_whole_manifest_is_taken(reader: Path, whole: dict[str, Any]) -> None:
    assert disagreements(reader, [sealed(whole)]) == ([], 1)


def test_manifests_with_a_byte_changed_or_cut_off_are_refused_as_in_python(
    reader: Path, whole: dict[str, Any]
) -> None:
    text = sealed(whole)
    given = [text[:i] for i in range(len(text))]
    for i in range(len(text)):
        given += [text[:i] + bytes([text[i] ^ flip]) + text[i + 1 :] for flip in (1, 0x10, 0x80)]
    given += [
        text + b"\n",
        text + b"x",
        text.replace(b'{"', b'{ "', 1),
        b" " + text,
        b"\xef\xbb\xbf" + text,
        text[:-1],
        b"",
        b"\0",
        b"{}\n",
        b"[]\n",
        b"null\n",
    ]
    assert disagreements(reader, given) == ([], 0)


HOSTILE: list[Any] = [
    None, True, False, 0, 1, -1, 2, 7, 1 << 31, 1 << 32, (1 << 62) - 1, 1 << 62, (1 << 63) - 1, 1 << 63,
    (1 << 64) - 1, 1 << 64,
    10**4299, 0.0, -0.0, 1.5, 1e308, 5e-324, 2.0**-44, 9007199254740993.0, 1e22, 123456789012345680.0,
    0.0001, 0.00001, [], {},
    [[]], {"a": 1}, [0, 0], [1, 0], ["id"], ["id", "id"], ["words"], "", "0" * 16, "f" * 32, "F" * 16, "é",
    "a\x7fb", "a\x85b",
    "a\0b", "../x", "/etc/passwd", "part-000000-00000000.urec", "part-000000-00000000.urec\0",
    "part-1-00000000.urec",
    "int32", "int32?", "?", "string", "bfloat16", "complex64", "AAAA", "wA==", "wA=", "=", "wMA=", "oYA=",
    "gaGAAQ==", "wP==",
    "AAAA====", "A===", "x" * 255, "x" * 256, "\ud7ff\uffff\U0010ffff", "columns", "deletions",
    ["columns", "later"], ["patches", "columns", "deletions"], [-1], [0],
    [3, -1, 4], [1 << 61], [1 << 40, 1 << 40], [1] * 32, [1] * 33, ["deletions", "columns", "columns"],
]  # fmt: skip


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each container with each of its keys, inside out."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(items):
        yield from places(item)
        yield value, key


def resealed(whole: dict[str, Any]) -> Iterator[bytes]:
    content = copy.deepcopy(whole)
    for container, key in list(places(content)):
        before = container[key]
        for value in HOSTILE:
            container[key] = value
            yield sealed(content)
        if isinstance(before, str) and before:
            for value in (
                before[:-1],
                before + "0",
                before[:-1] + "\0",
                "../" + before,
                before.upper(),
                before + "\n",
            ):
                container[key] = value
                yield sealed(content)
        container[key] = before
        if isinstance(container, dict):
            del container[key]
            yield sealed(content)
            container[key + "x"] = before
            yield sealed(content)
            del container[key + "x"]
            container[key] = before
        else:
            container.insert(key, before)
            yield sealed(content)
            del container[key]
            removed = container.pop(key)
            yield sealed(content)
            container.insert(key, removed)


def test_pieces_of_other_content_with_a_right_digest_are_taken_where_python_takes_them(
    reader: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = []
    for content, text in hostile_pieces(2):
        (tmp_path / f"parts-{json.loads(text)['pieces'][0]['digest']}").write_bytes(content)
        given.append(text)
    monkeypatch.chdir(tmp_path)
    taken = [python_takes(text) for text in given]
    found = texts(reader, given, tmp_path)
    assert [line for takes, (status, line) in zip(taken, found, strict=True) if takes != (status == 0)] == []
    assert {status for status, _ in found} <= {0, 5, 6}
    assert 20 <= sum(taken) < 300
    whole = (tmp_path / f"parts-{json.loads(given[0])['pieces'][0]['digest']}").read_bytes()
    for changed in (whole[:-1], whole[:40], b"", whole[:-1] + bytes([whole[-1] ^ 1]), None):
        for name in tmp_path.glob("parts-*"):
            name.unlink()
        if changed is not None:
            (tmp_path / f"parts-{json.loads(given[0])['pieces'][0]['digest']}").write_bytes(changed)
        manifest._kept_pieces.clear()
        assert not python_takes(given[0])
        assert texts(reader, given[:1], tmp_path)[0][0] == (4 if changed is None else 6)


def test_manifests_of_other_content_with_a_right_digest_are_taken_where_python_takes_them(
    reader: Path, judged: dict[bytes, bool]
) -> None:
    assert len(judged) > 10_000
    assert sum(judged.values()) > 300
    found = zip(judged, texts(reader, list(judged)), strict=True)
    wrong = [(text, line) for text, (status, line) in found if judged[text] != (status == 0)]
    assert wrong == []


def nested(depth: int, value: Any = 1) -> Any:
    for i in range(depth):
        value = [value] if i % 2 else {"a": value}
    return value


def test_nesting_is_bounded_alike(reader: Path, whole: dict[str, Any]) -> None:
    given = [sealed({**whole, "optional": {"a": nested(depth)}}) for depth in range(80)]
    schema = copy.deepcopy(whole["schema"])
    for depth in range(20):
        schema[0] = [*schema[0][:3], {"a": nested(depth)}]
        given.append(sealed({**whole, "schema": schema}))
    wrong, taken = disagreements(reader, given)
    assert wrong == []
    assert 70 < taken < 90
    deep = b'{"digest":"%s","created_by":' % (b"0" * 16) + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}\n"
    assert texts(reader, [deep, b'{"a":' * 1_000_000])[0][0] == 6


def test_text_in_any_form_is_taken_where_python_takes_it(reader: Path, whole: dict[str, Any]) -> None:
    """The same content with other spaces, orders, escapes and numbers, each under its own digest."""
    text = sealed(whole).decode()
    others = {key: value for key, value in whole.items() if key != "digest"}
    blank = {"digest": "0" * 16}

    def spelled(content: dict[str, Any], **how: Any) -> str:
        begun = '{"digest":"' + "0" * 16
        return begun + json.dumps(blank | content, **how).partition("0" * 16)[2]

    backwards = json.loads(json.dumps(others), object_pairs_hook=lambda pairs: dict(reversed(pairs)))
    schemas = {"schema": backwards["schema"], "layouts": backwards["layouts"]}  # annotations have one order
    backwards |= {key: others[key] for key in schemas}
    taken_forms = [
        spelled(others), spelled(others, indent=3), spelled(others, separators=(" ,\n", "\t:\r ")),
        spelled(backwards), text[:-1], text + " \r\n\t",
        text.replace('"version":1', '"version": 1'),
        text.replace('"few":[1,-1', '"few":[1,-1 '),
        *(text.replace("-0.0", number) for number in
          ("0.10", "0.1000000000000000055511151231257827", "1e-1", "0.1e0", "1E-1", "1e5", "1e-5", "1e+05", "1e+16",
           "1e-400", "0.10000000000000002", "0e0", "0.00", "1.0e+16", "-0", "5.684341886080802e-14",
           "9007199254740993.0", "1.7976931348623157e+308", "5e-324", "4e-324", "1E22", "1e+22", "0." + "1" * 4_298,
           "1e-999999999999999999999999", "0e99999999999999999999")),
        text.replace('"x":', '"\\u0078":'),
        text.replace("\\n", "\\u000a"), text.replace("\\n", "\\u000A"), text.replace("\\n", "\\/"),
        text.replace("é", "\\u00e9"), text.replace("é", "\\uD83D\\ude00"), text.replace("é", "\\u007f\\u0000\\u07ff"),
        text.replace("\\u0001", "\\u001F"),
        text.replace('"words"', '"\\u0077ords"'), text.replace('"int64"', '"i\\u006et64"'),
        text.replace('"part-', '"\\u0070art\\u002d'), text.replace('"deletions"', '"\\u0064eletions"'),
    ]  # fmt: skip
    refused = [
        *(spelled({**others, key: schemas[key]}) for key in schemas),
        text.replace('"version":1', '"version":1.0'),
        text.replace('"version":1', '"version":01'),
        text.replace('"version":1', '"version":1,"version":1'),
        text.replace('"version":1', '"version":1,"\\u0076ersion":1'),
        text.replace('"x":', '"x":1,"\\u0078":'),
        text.replace('"few":[1,-1', '"few":[1,-01'),
        *(text.replace("-0.0", number) for number in
          (".1", "1.", "+1", "NaN", "Infinity", "-Infinity", "1e400", "00.1", "-", "1e", "1e+", "0x1", "1.e1",
           "1.7976931348623159e+308", "0." + "1" * 4_299, "1" * 4_301, "1e999999999999999999999999", "1_0")),
        *(text.replace("\\u0001", other) for other in
          ("\\ud800", "\\udc00", "\\ud800\\ud800", "\\ud800x", "\\u00", "\\u00g0", "\\x", "\x01", "\\U0001",
           "\\u 001")),
        text.replace(",", ",,", 1), text.replace(",", " ", 1), text.replace("[", "[,", 1), text.replace("]", ",]", 1),
        text.replace("}", ",}", 1), text + "x", text + "{}", text[:-2],
    ]  # fmt: skip
    wrong, taken = disagreements(reader, [reseal.sealed_text(form.encode()) for form in taken_forms])
    assert (wrong, taken) == ([], len(taken_forms))
    wrong, taken = disagreements(reader, [reseal.sealed_text(form.encode()) for form in refused])
    assert (wrong, taken) == ([], 0)
    assert len({text, *taken_forms, *refused}) == 1 + len(taken_forms) + len(refused)


def test_types_of_a_later_version_are_taken_as_python_takes_them(reader: Path, whole: dict[str, Any]) -> None:
    names = [f"type{code}{width}" for code in (0, 63, 64, 100, 127, 128, 191, 192, 255, 1000)
             for width in ("", "?", ":0", ":1", ":3", ":16?", ":64", ":65", ":128", ":016", ": 8")]  # fmt: skip
    names += ["type", "type:", "type:8", "type064:8", "type 64:8", "type64:8:8", "type\u0664:8", "Type128"]
    more = [[["x", name, shape]] for name in names for shape in (None, [2])]
    wrong, taken = disagreements(
        reader, [sealed({**whole, "layouts": [{**whole["layouts"][0], "files": said}]}) for said in
                 [[*whole["layouts"][0]["files"][:-1], [*whole["layouts"][0]["files"][-1], *entry]] for entry in more]]
    )  # fmt: skip
    assert wrong == []
    assert taken == 3 * 3 + 2 * 2


def test_columns_of_a_later_version_close_themselves_alone(reader: Path, tmp_path: Path) -> None:
    made = later_part(tmp_path / "a.urec")
    folder = tmp_path / "set"
    folder.mkdir()
    name = f"part-000000-{made.spec.id[:4].hex()}.urec"
    for suffix in ("", ".idx"):
        shutil.copy(f"{made.path}{suffix}", folder / f"{name}{suffix}")
    unirecord.repair(folder)
    for path in (made.path, folder):
        assert "error" not in "".join(told(reader, "rows", path, "n", "word", "bytes", "last"))
        for column, what in {
            "big": "type 70",
            "blob": "type 130",
            "tiny": "type 127",
            "other": "codec 33",
        }.items():
            assert f"the column has {what}, which" in told(reader, "rows", path, "n", column)[-1]


def test_a_newer_feature_is_refused_by_its_name(reader: Path, whole: dict[str, Any]) -> None:
    (first, version) = texts(
        reader,
        [
            sealed({**whole, "required": ["columns", "deletions", "time travel"]}),
            sealed({**whole, "version": 2}),
        ],
    )
    assert first[0] == version[0] == 5
    assert 'manifest.json: it needs "time travel"' in first[1]
    assert "manifest.json: it needs a reader of version 2" in version[1]


def test_what_is_empty_is_left_out(reader: Path, whole: dict[str, Any]) -> None:
    schema = [[*whole["schema"][0][:3], {}], *whole["schema"][1:]]
    empty = [{"required": []}, {"optional": {}}, {"layouts": []}, {"pieces": []}, {"schema": schema}]
    given = [sealed({**whole, **keys}) for keys in empty]
    assert disagreements(reader, given) == ([], 0)
    assert [code for code, _ in texts(reader, given)] == [5] * len(empty)


def test_the_floats_of_manifests_are_read_as_python_reads_them(reader: Path, whole: dict[str, Any]) -> None:
    rng = np.random.default_rng(3)
    numbers = rng.integers(0, 1 << 64, 20_000, np.uint64).view(np.float64)
    numbers = (
        numbers[np.isfinite(numbers)].tolist()
        + [2.0**e for e in range(-1074, 1024)]
        + [10.0**e for e in range(-30, 30)]
    )
    given = [sealed({**whole, "optional": {"x": numbers[i : i + 100]}}) for i in range(0, len(numbers), 100)]
    assert disagreements(reader, given) == ([], len(given))
    longer = [
        reseal.sealed_text(
            sealed({**whole, "optional": {"x": [number]}}).replace(repr(number).encode(), b"%.17g" % number)
        )
        for number in numbers[:500]
    ]
    assert not disagreements(reader, longer)[0]


# What is open: the files of its version stay; manifests that say what is not so lead to an error, wherever that shows.


def first_values(dataset: Any, rows: Sequence[int]) -> list[int]:
    """The "id" of some rows, read by the core's own handle."""
    numbers = np.array(rows, np.int64)
    values, outputs = np.zeros(len(numbers), np.int64), ffi.new("ur_output[1]")
    outputs[0].column = lib.ur_dataset_column(dataset, b"id")
    outputs[0].data = ffi.cast("uint8_t *", values.ctypes.data)
    outputs[0].capacity = values.nbytes
    given = ffi.cast("int64_t *", numbers.ctypes.data)
    assert lib.ur_dataset_read(dataset, given, len(numbers), outputs, 1, ffi.NULL) == lib.UR_OK
    return values.tolist()


def test_the_files_of_a_version_stay_while_c_has_it_open(tmp_path: Path) -> None:
    path = written(tmp_path / "x")
    with_deletions(path)
    parts = {file.name for file in path.glob("*.urec*")}
    opened = ffi.new("ur_dataset **")
    assert lib.ur_dataset_open(str(path).encode(), ffi.NULL, opened, ffi.NULL) == lib.UR_OK
    laid_out_anew(path)
    unirecord.gc(path, keep=1)
    assert parts <= {file.name for file in path.glob("*.urec*")}
    assert first_values(opened[0], range(lib.ur_dataset_rows(opened[0]))) == [
        i for i in range(90) if i % 5 != 1
    ]
    if (child := os.fork()) == 0:  # it has not the lock, and must not give up another file for it
        good = first_values(opened[0], [0, 1]) == [0, 2]
        lib.ur_dataset_release(opened[0])
        os._exit(not good)
    assert os.waitpid(child, 0)[1] == 0
    unirecord.gc(path, keep=1)
    assert first_values(opened[0], [71]) == [89]
    lib.ur_dataset_release(opened[0])
    unirecord.gc(path, keep=1)
    assert not parts & {file.name for file in path.glob("*.urec*")}


def test_manifests_that_are_taken_and_say_what_is_not_so_lead_to_errors_alone(
    reader: Path, judged: dict[bytes, bool], datasets: dict[str, Path], tmp_path: Path
) -> None:
    path = tmp_path / "copy"
    shutil.copytree(datasets["all of it"], path)
    given = [text for text, takes in judged.items() if takes]
    data = b"".join(struct.pack("<Q", len(text)) + text for text in given)
    done = subprocess.run(
        [str(reader), "opens", str(path)], input=data, capture_output=True, check=False, timeout=600
    )
    assert (done.returncode, done.stderr) == (0, b"")
    statuses = [int(line) for line in done.stdout.split()]
    assert len(statuses) == len(given)
    assert set(statuses) <= {
        lib.UR_OK,
        lib.UR_NOT_FOUND,
        lib.UR_CORRUPT,
        lib.UR_STALE,
        lib.UR_FORMAT,
        lib.UR_NO_MEMORY,
    }
    assert {lib.UR_OK, lib.UR_CORRUPT, lib.UR_STALE} <= set(statuses)
