"""The C core without Python: it builds with one plain line, without Linux too as far as that can be tried here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import reference

import unirecord
from unirecord import UniRecordDataset, Writer
from unirecord.core.library import ffi, lib
from unirecord.inspect.verify import verify

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "csrc").glob("*/*.c"))
COMPILER = shutil.which("cc") or "cc"
STRICT = ["-Wall", "-Wextra", "-Werror"]
# 20 KiB a function; threads of musl have 128 KiB, and callers may give theirs less.
OPTIMIZED = ["-std=c11", "-pthread", "-O2", "-Icsrc", *STRICT, "-Wconversion", "-Wframe-larger-than=20480"]


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command], cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The core as one object, optimized and with every warning that a program here is compiled with."""
    made = tmp_path_factory.mktemp("core") / "core.o"
    done = run(COMPILER, *OPTIMIZED, *SOURCES, "-r", "-nostdlib", "-o", made)
    assert (done.returncode, done.stderr) == (0, "")
    return made


@pytest.fixture(scope="module")
def program(core: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("c") / "read_part"
    done = run(COMPILER, "-std=c11", "-pthread", "-Icsrc", "examples/read_part.c", core, "-o", made)
    assert (done.returncode, done.stderr) == (0, "")
    return made


def test_the_example_reads_a_row(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.urec"
    with Writer(path, {"x": "int32", "name": "string?", "image": "bytes"}) as writer:
        writer.write({"x": 7, "name": "seven", "image": bytes(range(200))})
        writer.write({"x": -1, "name": None, "image": b""})
    assert run(program, path, "0").stdout.splitlines() == [
        "2 rows of 3 columns",
        "column 0: 4 bytes: 07 00 00 00",
        "column 1: 5 bytes: 73 65 76 65 6e",
        "column 2: 200 bytes: 00 01 02 03 04 05 06 07",
    ]
    assert run(program, path, "1").stdout.splitlines()[1:] == [
        "column 0: 4 bytes: ff ff ff ff",
        "column 1: 0 bytes, null",
        "column 2: 0 bytes",
    ]


def test_the_example_reads_compressed_columns(program: Path, tmp_path: Path) -> None:
    said = []
    for codec in ({}, {"codec": "zstd"}):
        path = tmp_path / f"{len(codec)}.urec"
        with Writer(
            path, {"text": {"type": "text?", **codec}, "x": {"type": "int32", "shape": [4], **codec}}
        ) as writer:
            for i in range(600):
                text = None if i % 5 == 4 else f"river {i} stone winter light paper {i % 7} " * (i % 9)
                writer.write({"text": text, "x": np.full(4, i, np.int32)})
        said.append([run(program, path, row).stdout for row in ("8", "9", "10", "599")])
    assert said[0] == said[1]
    assert "null" in said[0][1]
    assert Path(tmp_path / "1.urec").stat().st_size < Path(tmp_path / "0.urec").stat().st_size / 2


def test_the_example_says_what_went_wrong(program: Path, tmp_path: Path) -> None:
    done = run(program, tmp_path / "none.urec")
    assert done.returncode == 1
    assert "cannot be opened" in done.stderr
    (tmp_path / "b.urec").write_bytes(b"x" * 1000)
    assert "magic" in run(program, tmp_path / "b.urec").stderr


@pytest.fixture(scope="module")
def writer(core: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("c") / "write_part"
    flags = ["-std=c11", "-pthread", "-Icsrc", *STRICT, "-Wconversion"]
    done = run(COMPILER, *flags, "examples/write_part.c", core, "-o", made)
    assert (done.returncode, done.stderr) == (0, "")
    return made


@pytest.mark.parametrize("rows", [1, 2, 1023, 1024, 1025, 8193])
def test_a_part_written_in_c_is_one_of_the_format(writer: Path, tmp_path: Path, rows: int) -> None:
    path = tmp_path / "a.urec"
    assert run(writer, path, str(rows)).stdout == f"{path}: {rows} rows\n"
    assert verify(path).ok  # the index beside the data, and every digest
    found = reference.read_part(path).rows
    assert [row["label"] for row in found] == [row % 10 - 1 for row in range(rows)]
    for number in {0, rows // 2, rows - 1}:
        pixels = (number * 7 + np.arange(28 * 28)).astype(np.uint8).reshape(28, 28)
        np.testing.assert_array_equal(found[number]["image"], pixels)
    with UniRecordDataset(path, where="label == 3") as ds:
        assert len(ds) == sum(row % 10 == 4 for row in range(rows))


def test_the_writer_in_c_touches_no_part_that_is_there(writer: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.urec"
    run(writer, path, "3")
    before = path.read_bytes()
    done = run(writer, path, "4")
    assert done.returncode == 1
    assert "is there already" in done.stderr
    assert path.read_bytes() == before
    assert run(writer, tmp_path / "b.urec", "0").returncode == 1
    assert not (tmp_path / "b.urec").exists()


def test_the_examples_are_on_the_page_of_the_c_core() -> None:
    text = (ROOT / "docs" / "c-api.md").read_text(encoding="utf-8")
    assert "examples/read_part.c" in text
    assert "examples/write_part.c" in text
    header = (ROOT / "csrc" / "unirecord.h").read_text(encoding="utf-8")
    named = set(re.findall(r"`(ur_[a-z]+_[a-z_]+)`", text))
    assert named
    assert {name for name in named if name not in header} == set()


def test_the_library_has_the_version_of_the_package() -> None:
    assert ffi.string(lib.ur_version()).decode() == unirecord.__version__


def test_the_contract_is_small_and_nothing_internal_is_exported() -> None:
    contract, internal = (
        (ROOT / "csrc" / name).read_text() for name in ("unirecord.h", "unirecord_internal.h")
    )
    assert 20 <= len(re.findall(r"^UR_API ", contract, re.M)) <= 40
    assert not re.findall(r"^(?!UR_API|typedef|static)\w[\w ]*[ *]ur_\w+\(", contract, re.M)
    assert "UR_API" not in internal


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of several parts, of which rows have been deleted, and that has got a column."""
    path = tmp_path_factory.mktemp("changed") / "train"
    for first in range(0, 300, 100):
        with Writer(path, {"image": "bytes"}) if first == 0 else unirecord.append(path) as writer:
            for i in range(first, first + 100):
                writer.write({"image": bytes([i % 100] * (i % 60))})
    unirecord.add_columns(
        path, {"label": "int64"}, lambda batch: {"label": [len(image) for image in batch["image"]]}
    )
    unirecord.delete(path, where="label == 7")
    return path


def rows_in_python(path: Path, seed: int, epoch: int, shard: int, shards: int) -> list[str]:
    with UniRecordDataset(path, shard, shards, shuffle=True, seed=seed) as ds:
        ds.set_epoch(epoch)
        return [
            f"{number} {sample['label']} {len(sample['image'])} {sample['image'][0] if sample['image'] else 0}"
            for number, sample in zip(ds.order.row_ids().tolist(), ds, strict=True)
        ]


def loader_on_the_page(folder: Path) -> Path:
    page = (ROOT / "docs" / "c-api.md").read_text(encoding="utf-8")
    program = page.partition("```c\n")[2].partition("```")[0]
    assert 40 <= len(program.splitlines()) <= 55
    (folder / "loader.c").write_text(program)
    return folder / "loader.c"


def test_the_loader_on_the_page_has_the_order_of_python(core: Path, changed: Path, tmp_path: Path) -> None:
    source = loader_on_the_page(tmp_path)
    flags = ["-std=c11", "-O2", *STRICT, "-Icsrc"]
    done = run(COMPILER, *flags, source, core, "-lpthread", "-o", tmp_path / "loader")
    assert (done.returncode, done.stderr) == (0, "")
    for shard, shards in ((0, 1), (0, 3), (2, 3)):
        done = run(tmp_path / "loader", changed, "42", "5", str(shard), str(shards))
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines() == rows_in_python(changed, 42, 5, shard, shards)
    assert len(rows_in_python(changed, 42, 5, 0, 1)) == 295
    missing = run(tmp_path / "loader", tmp_path / "none", "42", "5", "0", "1")
    assert missing.returncode == 1
    assert "there is no such dataset" in missing.stderr


@pytest.mark.skipif(shutil.which("pkg-config") is None, reason="there is no pkg-config here")
def test_the_shared_library_is_found_by_pkg_config_and_exports_the_contract_alone(
    changed: Path, tmp_path: Path
) -> None:
    prefix = tmp_path / "prefix"
    tree = tmp_path / "tree"  # what is built stays out of the checkout
    for name in ("csrc", "unirecord/__init__.py", "Makefile", "tests/slow/targets.mk", "pyproject.toml"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).symlink_to(ROOT / name)
    done = run("make", "-C", tree, "-s", "libunirecord", "install", f"PREFIX={prefix}", "CFLAGS=-O0")
    assert done.returncode == 0, done.stderr
    library = prefix / "lib" / "libunirecord.so"
    exported = {line.split()[-1] for line in run("nm", "-D", "--defined-only", library).stdout.splitlines()}
    contract = (ROOT / "csrc" / "unirecord.h").read_text()
    assert exported == set(re.findall(r"^UR_API [\w *]*?\b(ur_\w+)\(", contract, re.M))
    assert "[libunirecord.so.0]" in run("readelf", "-d", library).stdout
    env = {**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib" / "pkgconfig")}
    version, flags = (
        subprocess.run(
            ["pkg-config", *asked, "unirecord"], env=env, capture_output=True, text=True, check=True
        ).stdout
        for asked in (["--modversion"], ["--cflags", "--libs"])
    )
    assert version.strip() == unirecord.__version__
    source = loader_on_the_page(tmp_path)
    done = run(COMPILER, source, *flags.split(), f"-Wl,-rpath,{prefix}/lib", "-o", tmp_path / "loader")
    assert (done.returncode, done.stderr) == (0, "")
    done = run(tmp_path / "loader", changed, "1", "2", "1", "2")
    assert done.stdout.splitlines() == rows_in_python(changed, 1, 2, 1, 2)


def test_sources_without_linux_are_whole() -> None:
    """Not macOS, but the other side of every #ifdef of __linux__."""
    flags = ["-std=c11", "-U__linux__", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Icsrc"]
    done = run(COMPILER, *flags, *SOURCES)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_branches_for_macos_compile_and_read(tmp_path: Path) -> None:
    """Not on macOS, but its side of every #ifdef, over what this system calls by other names."""
    (tmp_path / "sys").mkdir()
    (tmp_path / "sys" / "mount.h").write_text("#include <sys/vfs.h>\n#define MNT_LOCAL 0x1000\n")
    system = ["-U__linux__", "-D__APPLE__", "-Dst_mtimespec=st_mtim", f"-I{tmp_path}"]
    flags = ["-std=c11", "-pthread", "-Icsrc", "-Itests/c", "-Wall", "-Wextra", "-Werror"]
    done = run(COMPILER, *flags, *system, "tests/c/test_io.c", *SOURCES, "-o", tmp_path / "test_io")
    assert (done.returncode, done.stderr) == (0, "")
    done = run(tmp_path / "test_io")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        ("-D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__", "little-endian"),
        ("-U__SIZEOF_INT128__", "__int128"),
        ("-U__BYTE_ORDER__", "little-endian"),
    ],
)
def test_machines_on_which_it_would_be_wrong_are_refused(machine: str, said: str) -> None:
    for source in ("csrc/base/hash.c", "csrc/part/parse.c", "csrc/part/rows.c"):
        done = run(COMPILER, "-std=c11", "-w", machine, "-fsyntax-only", "-Icsrc", source)
        assert done.returncode != 0
        assert said in done.stderr


def test_small_stacks_are_enough(core: Path, tmp_path: Path) -> None:
    """No function of the core has a greater frame than `OPTIMIZED` lets it have, with which it was compiled."""
    assert core.exists()
    for size, fits in ((20_000, True), (21_000, False)):
        source = tmp_path / f"{size}.c"
        source.write_text(
            f"void use(char *); void on_stack(void);\nvoid on_stack(void) {{ char b[{size}]; use(b); }}\n"
        )
        done = run(COMPILER, *OPTIMIZED, "-c", source, "-o", tmp_path / "made.o")
        assert (done.returncode == 0) == fits, done.stderr


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_what_only_linux_has_stands_behind_a_guard(path: Path) -> None:
    only_linux = re.compile(
        r"<linux/|<sys/(vfs|sysinfo|syscall)\.h>|\bSYS_\w+|\bMADV_HUGEPAGE|\bO_DIRECT\b|\bposix_fadvise\(|\bpreadv\(|"
        r"\bsysinfo\(|\bRUSAGE_THREAD|\btarget_clones"
    )
    depth, bare = 0, []
    for number, line in enumerate(
        re.sub(r"/\*.*?\*/", keep_lines, path.read_text(), flags=re.S).split("\n"), 1
    ):
        if re.match(r"#\s*if", line):
            depth += 1
        elif re.match(r"#\s*endif", line):
            depth -= 1
        elif depth == 0 and only_linux.search(line):
            bare.append(f"{path.name}:{number}: {line.strip()}")
    assert not bare, bare


def keep_lines(comment: re.Match[str]) -> str:
    return "\n" * comment.group().count("\n")


def test_the_headers_are_c_plus_plus_too(tmp_path: Path) -> None:
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("there is no C++ compiler here")
    source = tmp_path / "a.cpp"
    source.write_text(
        '#include "unirecord_internal.h"\nint main() { return ur_status_text(0) == nullptr; }\n'
    )
    done = run(compiler, "-std=c++17", "-Wall", "-Icsrc", "-fsyntax-only", source)
    assert (done.returncode, done.stderr) == (0, "")
