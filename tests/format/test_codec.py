"""Compressed columns: whatever reads them finds what was written, and nothing else than the column needs libzstd."""

from __future__ import annotations

import json
import os
import pickle
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference
import reference_directory
import reseal
import zstandard

import unirecord
from unirecord.cli.main import main
from unirecord.core import CODEC_SHUFFLE_ZSTD, CODEC_ZSTD, Decoder, Encoder
from unirecord.inspect.describe import describe
from unirecord.snapshot import manifest

IO = ["auto", "mmap", "pread", "uring", "uring-direct", "memory"]
SCHEMA = {
    "n": "int32",
    "text": {"type": "text", "codec": "zstd"},
    "doc": {"type": "object", "codec": "zstd:9"},
    "plain": "bytes",
    "noise": {"type": "bytes", "codec": "zstd"},
    "field": {"type": "float32", "shape": [8, 8], "codec": "shuffle+zstd"},
    "points": {"type": "float64", "shape": [-1, 3], "codec": "shuffle+zstd:1"},
    "grid": {"type": "uint16", "shape": [-1, -1], "codec": "shuffle+zstd"},
}
COLUMNS = list(SCHEMA)


def words(r: random.Random, count: int) -> str:
    return " ".join(
        r.choice(["river", "stone", "über", "light", "paper", "winter", "n01"]) for _ in range(count)
    )


def record(i: int, seed: int = 0) -> dict[str, Any]:
    r = random.Random(i * 1_000 + seed)
    smooth = np.cumsum(np.ones((8, 8), np.float32), axis=0) + np.float32(i)
    return {
        "n": i,
        "text": words(r, r.randint(0, 60)),
        "doc": {"user": i, "tags": words(r, 12).split(), "name": words(r, 3)},
        "plain": r.randbytes(r.randint(0, 50)),
        "noise": r.randbytes(r.randint(0, 90)),
        "field": smooth,
        "points": np.arange(3 * (i % 7), dtype=np.float64).reshape(-1, 3),
        "grid": np.full((i % 4, 5), i % 9, np.uint16),
    }


def write(path: Path, rows: int = 300, schema: Any = None, seed: int = 0) -> Path:
    """Rows whose cells alone are compressed."""
    with unirecord.Writer(path, schema or SCHEMA, scalar_codec="none") as writer:
        for i in range(rows):
            writer.write({name: record(i, seed)[name] for name in (schema or SCHEMA)})
    return path


@pytest.fixture(scope="module")
def part(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("codec") / "a.urec")


def same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert list(found) == list(expected)
    for name, value in expected.items():
        if isinstance(value, np.ndarray):
            assert found[name].dtype == value.dtype
            np.testing.assert_array_equal(found[name], value)
        else:
            assert found[name] == value


@pytest.mark.parametrize("io", IO)
@pytest.mark.parametrize("verify", ["first", "always", "never"])
def test_every_way_of_reading_gives_what_was_written(part: Path, io: Any, verify: Any) -> None:
    with unirecord.UniRecordDataset(part, io=io, verify=verify) as ds:
        for i in (0, 299, 7, 7, 150):
            same(ds[i], record(i))
        for _ in range(2):
            for batch in ds.batches(64):
                for k, row in enumerate(batch["n"].tolist()):
                    expected = record(row)
                    assert batch["text"][k] == expected["text"]
                    assert bytes(batch["noise"][k]) == expected["noise"]
                    assert bytes(batch["plain"][k]) == expected["plain"]
                    for name in ("field", "points", "grid"):
                        np.testing.assert_array_equal(batch[name][k], expected[name])


def test_the_second_reader_finds_the_same(part: Path) -> None:
    found = reference.read_part(part)
    assert [c.codec for c in found.schema] == [0, 1, 1, 0, 1, 2, 2, 2]
    assert found.dictionaries.keys() <= {1, 2, 5, 6, 7}
    for i, row in enumerate(found.rows):
        same(row, record(i))


def test_text_with_a_dictionary_is_much_smaller(tmp_path: Path) -> None:
    rows = [
        json.dumps({"user": i, "text": words(random.Random(i), 9), "kind": "comment"}) for i in range(4_000)
    ]
    sizes = {}
    for name, spec in (("plain", "text"), ("zstd", {"type": "text", "codec": "zstd"})):
        path = tmp_path / f"{name}.urec"
        with unirecord.Writer(path, {"t": spec}) as writer:
            writer.write_batch({"t": rows})
        sizes[name] = path.stat().st_size
        with unirecord.UniRecordDataset(path) as ds:
            assert [ds[i]["t"] for i in range(0, 4_000, 371)] == rows[::371]
    assert sizes["zstd"] < sizes["plain"] / 2
    assert reference.read_part(tmp_path / "zstd.urec").dictionaries.keys() == {0}


def test_what_does_not_become_smaller_is_stored_as_it_is(tmp_path: Path) -> None:
    path, r = tmp_path / "a.urec", random.Random(0)
    cells = [r.randbytes(500) for _ in range(50)] + [b"", b"a"]
    with unirecord.Writer(path, {"b": {"type": "bytes", "codec": "zstd"}}) as writer:
        writer.write_batch({"b": cells})
    assert all(cell in path.read_bytes() for cell in cells)
    with unirecord.UniRecordDataset(path) as ds:
        assert [ds[i]["b"] for i in range(len(cells))] == cells


def test_a_part_without_rows_keeps_its_codecs(tmp_path: Path) -> None:
    path = write(tmp_path / "a.urec", 0)
    with unirecord.UniRecordDataset(path) as ds:
        assert len(ds) == 0
        assert ds.schema["text"].codec is not None
    assert unirecord.verify(path).ok
    assert reference.read_part(path).rows == []


def test_nulls_of_compressed_columns_come_back(tmp_path: Path) -> None:
    schema = {
        "text": {"type": "text?", "codec": "zstd"},
        "field": {"type": "float32?", "shape": [16], "codec": "shuffle+zstd"},
        "points": {"type": "int16?", "shape": [-1, 2], "codec": "zstd"},
    }
    rows: list[dict[str, Any]] = [
        {
            "text": [None, "", "word " * i][i % 3],
            "field": None if i % 2 else np.full(16, i, np.float32),
            "points": None if i % 4 else np.ones((i % 5, 2), np.int16),
        }
        for i in range(100)
    ]
    path = tmp_path / "a.urec"
    with unirecord.Writer(path, schema) as writer:
        for row in rows:
            writer.write(row)
    with unirecord.UniRecordDataset(path) as ds:
        for i, row in enumerate(rows):
            same(ds[i], row)
    assert unirecord.verify(path).ok
    for found, row in zip(reference.read_part(path).rows, rows, strict=True):
        same(found, row)


# ---- the schema


def test_a_schema_says_how_columns_are_compressed() -> None:
    schema = unirecord.Schema.parse(SCHEMA)
    assert schema.to_spec() == {**SCHEMA, "doc": {"type": "object", "codec": "zstd:9"}}
    assert unirecord.Schema.parse(schema.to_spec()) == schema
    assert pickle.loads(pickle.dumps(schema)).to_spec() == schema.to_spec()
    assert schema == schema.plain()  # how values are stored says nothing of what they are


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        ({"type": "text", "codec": "gzip"}, "unknown codec 'gzip'"),
        ({"type": "text", "codec": "zstd:0"}, "unknown codec"),
        ({"type": "text", "codec": "zstd:23"}, "unknown codec"),
        ({"type": "text", "codec": 1}, "unknown codec 1"),
        ({"type": "text", "codek": "zstd"}, "unknown key 'codek'.*\"codec\""),
        ({"type": "int32", "codec": "zstd"}, "takes no codec"),
        ({"type": "string", "codec": "zstd"}, "takes no codec"),
        ({"type": "text", "codec": "shuffle+zstd"}, "no elements"),
        ({"type": "uint8", "shape": [3], "codec": "shuffle+zstd"}, "no elements"),
    ],
)
def test_a_wrong_codec_is_refused(spec: Any, what: str) -> None:
    with pytest.raises(unirecord.SchemaError, match=what):
        unirecord.Schema.parse({"c": spec})


# ---- directories


def test_appended_parts_have_dictionaries_of_their_own(tmp_path: Path) -> None:
    schema = {"n": "int32", "text": {"type": "text", "codec": "zstd"}}
    target = tmp_path / "set"

    def rows(seed: int) -> list[dict[str, Any]]:
        r = random.Random(seed)
        return [{"n": i, "text": f"{seed} " * 3 + words(r, 40)} for i in range(2_000)]

    with unirecord.Writer(target, schema) as writer:
        for row in rows(1):
            writer.write(row)
    with unirecord.append(target) as writer:  # the codec is that of the last part
        for row in rows(2):
            writer.write(row)
    with unirecord.append(target, {"n": "int32", "text": "text"}) as writer:  # and may be another one
        for row in rows(3):
            writer.write(row)
    first, second, third = reference_directory.read_directory(target)
    assert first.dictionaries[1] != second.dictionaries[1]
    assert [p.schema[1].codec for p in (first, second, third)] == [1, 1, 0]
    expected = rows(1) + rows(2) + rows(3)
    with unirecord.UniRecordDataset(target) as ds:
        assert [ds[i]["text"] for i in range(0, 6_000, 97)] == [e["text"] for e in expected[::97]]
        found = {(int(n), t) for b in ds.batches(512) for n, t in zip(b["n"], b["text"], strict=True)}
    assert found == {(e["n"], e["text"]) for e in expected}
    assert unirecord.verify(target).ok


@pytest.mark.parametrize("io", ["mmap", "pread"])
def test_compressed_and_plain_parts_are_read_as_one(tmp_path: Path, io: Any) -> None:
    compressed = write(tmp_path / "a.urec", 90)
    plain = write(tmp_path / "b.urec", 90, unirecord.Schema.parse(SCHEMA).plain().to_spec(), seed=5)
    with unirecord.UniRecordDataset([plain, compressed], io=io) as ds:
        for i in (0, 89, 90, 179):
            same(ds[i], record(i, 5) if i < 90 else record(i - 90))
    with unirecord.UniRecordDataset([plain, compressed], io=io, shuffle=True, seed=3) as ds:
        found = {(int(n), t) for b in ds.batches(50) for n, t in zip(b["n"], b["text"], strict=True)}
    assert found == {(i, record(i, seed)["text"]) for i in range(90) for seed in (0, 5)}


# ---- whoever reads


def test_samples_survive_pickling_and_forks(part: Path) -> None:
    with unirecord.UniRecordDataset(part) as ds:
        same(ds[3], record(3))
        copy = pickle.loads(pickle.dumps(ds))
        same(copy[4], record(4))
        pid = os.fork()
        if pid == 0:
            try:
                same(ds[5], record(5))
                os._exit(0)
            except BaseException:
                os._exit(1)
        assert os.waitpid(pid, 0)[1] == 0


def test_transforms_see_values(part: Path) -> None:
    with unirecord.UniRecordDataset(part, transform=lambda s: {"size": len(s["text"])}) as ds:
        assert ds[9] == {"size": len(record(9)["text"])}


def test_inspect_and_extract_work_on_values(part: Path, tmp_path: Path) -> None:
    found = {c.name: c for c in unirecord.describe(part).columns}
    raw = sum(len(record(i)["text"].encode()) for i in range(300))
    assert (found["text"].codec, found["plain"].codec, found["field"].codec) == ("zstd", None, "shuffle+zstd")
    assert found["text"].raw_bytes == raw
    assert found["text"].data_bytes < raw
    assert found["field"].raw_bytes == 300 * 256
    assert found["plain"].raw_bytes == found["plain"].data_bytes


# ---- what is missing


def run(code: str, *arguments: object, library: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **({} if library is None else {"UNIRECORD_LIBZSTD": library})}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.packages
def test_a_libzstd_that_another_package_shows_to_all_is_not_mixed_with_ours(
    part: Path, tmp_path: Path
) -> None:
    """TensorFlow does; functions of two versions that called each other crashed."""
    code = """
import sys, tensorflow, unirecord
with unirecord.Writer(sys.argv[2], {"t": {"type": "text", "codec": "zstd"}}) as writer:
    for i in range(2000):
        writer.write({"t": f"value number {i} " * 20})
with unirecord.UniRecordDataset(sys.argv[2]) as ds:
    assert [ds[i]["t"] for i in range(2000)] == [f"value number {i} " * 20 for i in range(2000)]
with unirecord.UniRecordDataset(sys.argv[1]) as ds:
    assert sum(len(batch["n"]) for batch in ds.batches(50)) == 300
"""
    result = run(code, part, tmp_path / "b.urec")
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("library", ["/nowhere/libzstd.so.1", "libm.so.6"])
def test_without_libzstd_only_compressed_columns_are_refused(
    part: Path, tmp_path: Path, library: str
) -> None:
    code = """
import sys, unirecord
ds = unirecord.UniRecordDataset(sys.argv[1], columns=["n", "plain"])
assert ds[7]["n"] == 7 and sum(len(b["n"]) for b in ds.batches(50)) == 300
assert len(unirecord.UniRecordDataset(sys.argv[1], where="n < 5", columns=["n"])) == 5
for act in (
    lambda: unirecord.UniRecordDataset(sys.argv[1])[0],
    lambda: list(unirecord.UniRecordDataset(sys.argv[1]).batches(50)),
    lambda: unirecord.Writer(sys.argv[2], {"t": {"type": "text", "codec": "zstd"}}),
):
    try:
        act()
    except unirecord.ColumnError as error:
        print(error)
"""
    result = run(code, part, tmp_path / "b.urec", library=library)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) == 3
    assert all("libzstd" in line for line in lines)
    assert "column 'text'" in lines[0]
    assert not (tmp_path / "b.urec").exists()


def test_verify_without_libzstd_says_what_it_did_not_check(part: Path) -> None:
    code = "import sys, unirecord; print(*unirecord.verify(sys.argv[1]).problems, sep='\\n')"
    result = run(code, part, library="/nowhere")
    assert result.stdout.count("not checked") == 6


def test_inspect_without_libzstd_shows_all_but_compressed_values(part: Path) -> None:
    code = "import sys; from unirecord.cli import main; sys.exit(main(['inspect', *sys.argv[1:]]))"
    result = run(code, part, "--json", library="/nowhere")
    assert result.returncode == 0, result.stderr
    assert "libzstd" in result.stderr
    found = json.loads(result.stdout)
    names = [column["name"] for column in found["columns"] if column["codec"] is None]
    assert len(names) < len(found["columns"])
    assert [list(row) for row in found["first_rows"]] == [names] * 5


# ---- the encoder and the decoder


@pytest.fixture(params=[(CODEC_ZSTD, 1), *((CODEC_SHUFFLE_ZSTD, width) for width in (2, 4, 8, 16))])
def coders(request: pytest.FixtureRequest) -> tuple[Encoder, Decoder]:
    codec, width = request.param
    dictionary = bytes(range(256)) * 5
    return Encoder(codec, width, 3, dictionary), Decoder(codec, width, dictionary)


def decode(decoder: Decoder, cell: bytes, size: int) -> tuple[bytes, bool]:
    one = [np.array([n], np.uint64) for n in (0, len(cell), size)]
    out, good = decoder.decode(np.frombuffer(cell, np.uint8), *one)
    return out.tobytes(), bool(good[0])


def test_cells_come_back(coders: tuple[Encoder, Decoder]) -> None:
    encoder, decoder = coders
    r = random.Random(1)
    cells = [bytes([r.choice(b"abc") for _ in range(n)]) for n in [*range(40), 100, 1_000, 4_099, 70_001]]
    joined, stored, raw = encoder.encode(cells)
    starts = np.cumsum(stored) - stored
    out, good = decoder.decode(np.frombuffer(joined, np.uint8), starts, stored, raw)
    assert good.all()
    assert out.tobytes() == b"".join(cells)
    assert (stored <= raw).all()
    assert (stored[-4:] < raw[-4:]).all()


def frame(content: bytes, **options: Any) -> bytes:
    return zstandard.ZstdCompressor(**options).compress(content)


def test_a_cell_is_one_frame_of_the_size_that_is_stored() -> None:
    decoder = Decoder(CODEC_ZSTD, 1)
    content = b"abcd" * 500
    good = frame(content)
    assert decode(decoder, good, len(content)) == (content, True)
    unsized = frame(content, write_content_size=False)
    skippable = b"\x50\x2a\x4d\x18\x04\0\0\0abcd"
    for cell, size in [
        (good, len(content) - 1),
        (good, len(content) + 1),
        (unsized, len(content)),
        (good[:-1], len(content)),
        (good + b"\0", len(content)),
        (good + frame(b""), len(content)),
        (good + skippable, len(content)),
        (skippable + good, len(content)),
        (good[:10] + b"\xff\xff\xff" + good[13:], len(content)),
        (b"x" * 20, len(content)),
    ]:
        assert decode(decoder, cell, size) == (bytes(size), False)


def test_a_bomb_is_refused_before_anything_is_decompressed() -> None:
    """2^40 zeros, said by a header of a few bytes."""
    decoder = Decoder(CODEC_ZSTD, 1)
    bomb = b"\x28\xb5\x2f\xfd\xe0" + (1 << 40).to_bytes(8, "little") + b"\x02\0\0\0" * 2
    assert decode(decoder, bomb, 1_000) == (bytes(1_000), False)


# ---- scalar pages


def table(path: Path, *, rows: int = 5_000, **options: Any) -> Path:
    """Scalar columns of few values, null and not, beside a blob."""
    schema = {"n": "int64", "price": "float64?", "word": "string?", "blob": "bytes"}
    with unirecord.Writer(path, schema, id=b"t" * 16, index=["n"], **options) as writer:
        for i in range(rows):
            price, word = None if i % 7 == 0 else i % 100 / 4, None if i % 5 == 0 else f"kind {i % 40}"
            writer.write({"n": i % 1_000, "price": price, "word": word, "blob": bytes([i % 256]) * (i % 3)})
    return path


def test_scalar_pages_are_compressed_and_the_same_rows_come_out(tmp_path: Path) -> None:
    small, plain = table(tmp_path / "a.urec"), table(tmp_path / "b.urec", scalar_codec="none")
    assert small.stat().st_size < plain.stat().st_size / 2
    assert Path(f"{small}.idx").stat().st_size == Path(f"{plain}.idx").stat().st_size
    with unirecord.UniRecordDataset(small) as a, unirecord.UniRecordDataset(plain) as b:
        assert list(a) == list(b)
    for path in (small, plain):
        assert unirecord.verify(path).ok
        reference.read_part(path)


def test_an_index_is_made_again_of_compressed_pages(tmp_path: Path) -> None:
    part = table(tmp_path / "a.urec")
    index = Path(f"{part}.idx").read_bytes()
    Path(f"{part}.idx").unlink()
    unirecord.repair(part)
    assert Path(f"{part}.idx").read_bytes() == index


def test_rows_behind_a_damaged_compressed_page_are_salvaged(tmp_path: Path) -> None:
    part = table(tmp_path / "a.urec", rows=150_000)
    content = bytearray(part.read_bytes())
    pages = [at for at, kind, _ in reseal.pages(content) if kind == 1]
    assert len(pages) == 3
    content[pages[1] + 100] ^= 1
    part.write_bytes(content)
    assert not unirecord.verify(part).ok
    Path(f"{part}.idx").unlink()
    unirecord.repair(part, output=tmp_path / "out.urec")
    with unirecord.UniRecordDataset(tmp_path / "out.urec") as ds:
        assert [ds[i]["n"] for i in (0, 65_535, 65_536, len(ds) - 1)] == [0, 535, 131_072 % 1_000, 999]


def test_pages_stay_compressed_when_rows_are_written_anew(tmp_path: Path) -> None:
    with unirecord.Writer(tmp_path / "d", {"n": "int64"}, max_part_bytes=4_096) as writer:
        writer.write_batch({"n": np.arange(50_000) % 10})
    unirecord.delete(tmp_path / "d", where="n == 3")
    unirecord.purge(tmp_path / "d")
    assert unirecord.verify(tmp_path / "d").ok
    for part in (tmp_path / "d").glob("part-*.urec"):
        content = part.read_bytes()
        assert [content[at + 6] for at, kind, _ in reseal.pages(content) if kind == 1] == [1]


@pytest.mark.parametrize("library", ["/nowhere/libzstd.so.1", "libm.so.6"])
def test_without_libzstd_rows_of_compressed_pages_are_read_and_what_needs_the_pages_says_so(
    tmp_path: Path, library: str
) -> None:
    part = table(tmp_path / "a.urec")
    code = """
import sys, unirecord
ds = unirecord.UniRecordDataset(sys.argv[1])
assert ds[1007] == {"n": 7, "price": 7 / 4, "word": "kind 7", "blob": bytes([1007 % 256]) * 2}
assert sum(len(batch["n"]) for batch in ds.batches(50)) == 5000
assert len(unirecord.UniRecordDataset(sys.argv[1], where="price < 1")) > 0
report = unirecord.verify(sys.argv[1])
assert not report.ok
print(report.problems[0].what)
for act in (
    lambda: unirecord.repair(sys.argv[1], output=sys.argv[2]),
    lambda: unirecord.Writer(sys.argv[2], {"n": "int64"}, scalar_codec="zstd"),
):
    try:
        act()
    except unirecord.ColumnError as error:
        print(error)
"""
    result = run(code, part, tmp_path / "b.urec", library=library)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) == 3
    assert all("libzstd" in line or "libm" in line for line in lines)
    assert "its rows were not checked" in lines[0]
    assert str(part) in lines[1]
    assert not (tmp_path / "b.urec").exists()


def test_without_libzstd_scalar_pages_are_written_as_they_are(tmp_path: Path) -> None:
    plain = table(tmp_path / "plain.urec", scalar_codec="none")
    code = """
import sys, unirecord
with unirecord.UniRecordDataset(sys.argv[1]) as ds:
    schema = ds.schema
    with unirecord.Writer(sys.argv[2], schema, id=b"t" * 16, index=["n"]) as writer:
        for row in ds:
            writer.write(row)
"""
    result = run(code, plain, tmp_path / "b.urec", library="/nowhere")
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "b.urec").read_bytes() == plain.read_bytes()


def test_the_codec_of_scalar_pages_is_obeyed_or_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match='scalar_codec is "zstd", "none" or None'):
        unirecord.Writer(tmp_path / "a.urec", {"n": "int64"}, scalar_codec="lz4")  # type: ignore[arg-type]
    with pytest.raises(unirecord.SchemaError, match="--codec"):
        unirecord.write_dataset([{"n": b"1"}], tmp_path / "a.urec", codec="lz4")
    assert not list(tmp_path.iterdir())
    rows = [{"n": i % 10} for i in range(2_000)]
    for name in ("a.urec", "a"):
        unirecord.write_dataset(rows, tmp_path / name, codec="none", id=b"i" * 16)
    for part in (tmp_path / "a.urec", *(tmp_path / "a").glob("part-*.urec")):
        assert [
            part.read_bytes()[at + 6] for at, kind, _ in reseal.pages(part.read_bytes()) if kind == 1
        ] == [0]


def test_codec_none_of_the_command_leaves_all_as_it_is(tmp_path: Path) -> None:
    source = tmp_path / "rows.jsonl"
    source.write_text("".join(json.dumps({"n": i % 10, "t": "word " * 9}) + "\n" for i in range(2_000)))
    for codec, expected in (("none", 0), ("t=none", 1), ("auto", 1)):
        target = tmp_path / f"{codec}.urec"
        arguments = ["write", str(source), str(target), "--schema", "t=text", "--codec", codec]
        assert main(arguments) == 0
        content = target.read_bytes()
        assert [content[at + 6] for at, kind, _ in reseal.pages(content) if kind == 1] == [expected]
        with unirecord.UniRecordDataset(target) as ds:
            assert (ds.schema["t"].codec is None) == ("none" in codec)


def test_strings_that_repeat_may_have_more_bytes_than_the_files(tmp_path: Path) -> None:
    with unirecord.Writer(tmp_path / "a.urec", {"word": "string", "n": "int64"}) as writer:
        for i in range(4_000):
            writer.write({"word": f"kind {i % 3} " * 200, "n": 1})
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    with unirecord.UniRecordDataset(tmp_path / "a.urec") as ds:
        (batch,) = ds.batches(4_000)
        assert sum(map(len, batch["word"])) > 10 * size
        assert [batch["word"][i] for i in (0, 3_999)] == ["kind 0 " * 200, "kind 0 " * 200]


def test_sizes_that_are_shown_of_compressed_scalars_add_up(tmp_path: Path) -> None:
    part = table(tmp_path / "a.urec")
    found = describe(part)
    assert not any(column.exact for column in found.columns if column.name != "blob")
    assert sum(column.data_bytes for column in found.columns) <= part.stat().st_size
    plain = describe(table(tmp_path / "b.urec", scalar_codec="none"))
    assert all(column.exact for column in plain.columns)


def scalar_codecs(path: Path) -> set[int]:
    """The codecs of the scalar pages of a part, or of all parts of a directory that its manifest names."""
    parts = (
        [path]
        if path.is_file()
        else [path / e.name for e in manifest.read(str(path / "manifest.json")).parts]
    )
    contents = [part.read_bytes() for part in parts]
    return {content[at + 6] for content in contents for at, kind, _ in reseal.pages(content) if kind == 1}


REWRITES: dict[str, Callable[[Path], Any]] = {
    "compact": unirecord.compact,
    "reshard": lambda path: unirecord.reshard(path, 2),
    "sort": lambda path: unirecord.sort(path, "n"),
    "drop": lambda path: (
        unirecord.delete(path, rows=[3]),
        unirecord.compact(path, drop_deleted=True, rows_per_part=900),
    ),
}


@pytest.mark.parametrize("rewrite", REWRITES)
@pytest.mark.parametrize(("codec", "expected"), [("none", 0), ("zstd", 1), (None, 1)])
def test_rewriting_keeps_how_scalar_pages_are_stored(
    tmp_path: Path, rewrite: str, codec: Any, expected: int
) -> None:
    rows = [{"n": -i % 100, "m": i % 7} for i in range(1_500)]
    path = tmp_path / "data"
    with unirecord.Writer(path, {"n": "int64", "m": "int32"}, scalar_codec=codec) as writer:
        for row in rows:
            writer.write(row)
    with unirecord.append(path) as writer:
        for row in rows:
            writer.write(row)
    assert scalar_codecs(path) == {expected}
    REWRITES[rewrite](path)
    assert scalar_codecs(path) == {expected}
    assert unirecord.verify(path).ok


def test_what_is_too_small_to_compress_is_no_choice(tmp_path: Path) -> None:
    path = tmp_path / "data"
    for part in range(20):
        if part:
            with unirecord.append(path) as writer:
                writer.write_batch({"n": np.arange(50)})
        else:
            unirecord.write_dataset([{"n": i} for i in range(50)], path)
    assert scalar_codecs(path) == {0}
    unirecord.compact(path)
    assert scalar_codecs(path) == {1}


@pytest.mark.parametrize(("codec", "expected"), [("none", 0), ("zstd", 1)])
def test_what_is_salvaged_is_stored_as_it_was(tmp_path: Path, codec: Any, expected: int) -> None:
    part = table(tmp_path / "a.urec", scalar_codec=codec)
    content = bytearray(part.read_bytes())
    content[-64:] = bytes(64)
    part.write_bytes(content)
    Path(f"{part}.idx").unlink()
    unirecord.repair(part, output=tmp_path / "b.urec")
    assert scalar_codecs(tmp_path / "b.urec") == {expected}
