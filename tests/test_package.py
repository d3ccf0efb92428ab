"""What is published: the sdist and one stable-ABI wheel, what is in them and what they need."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import unirecord

ROOT = Path(__file__).resolve().parent.parent


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and with the wheel that is built from that sdist and from nothing else."""
    folder = tmp_path_factory.mktemp("dist")
    # A compiler that does not optimize takes a quarter of the time: nothing here runs what is built.
    compiler = folder / "compiler"
    compiler.write_text('#!/bin/sh\nexec cc "$@" -O0\n')
    compiler.chmod(0o755)
    run(
        *(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT),
        cwd=folder, CC=str(compiler), LDSHARED=f"{compiler} -shared",
    )  # fmt: skip
    return folder


def test_the_sdist_is_the_checkout(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    sources = {str(path.relative_to(ROOT)) for path in (ROOT / "csrc").rglob("*.[ch]")}
    assert names >= sources | {
        "tests/conftest.py",
        "tests/data/digits.zip",
        "docs/by-data/vision.md",
        "SECURITY.md",
    }
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    tracked = {name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()}
    assert tracked <= names
    assert not [name for name in names if name.endswith((".so", ".pyc"))]


def test_the_wheel_is_for_every_python_from_3_11_on(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    assert wheel.name.startswith(f"unirecord-{unirecord.__version__}-cp311-abi3-linux_")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "unirecord/_core.abi3.so" in names
    assert "unirecord/py.typed" in names
    sources = [*(ROOT / "unirecord").rglob("*.py"), *(ROOT / "unirecord" / "inspect" / "templates").iterdir()]
    assert {str(path.relative_to(ROOT)) for path in sources} <= set(names)
    assert not [name for name in names if name.startswith(("tests", "csrc", "examples", "benchmarks"))]
    licenses = {name.partition(".dist-info/licenses/")[2] for name in names}
    assert {"LICENSE", *(f"LICENSES/{path.name}" for path in (ROOT / "LICENSES").iterdir())} <= licenses
    assert any(name.endswith(".data/data/share/man/man1/unirecord.1") for name in names)


def test_a_plain_wheel_needs_no_library_that_a_machine_may_lack(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        modules = [name for name in archive.namelist() if name.endswith(".so")]
        archive.extractall(tmp_path, modules)
    assert "unirecord/_core.abi3.so" in modules
    for name in modules:
        needed = re.findall(
            r"\(NEEDED\).*\[(.+)\]", run("readelf", "--dynamic", tmp_path / name, cwd=tmp_path)
        )
        assert {library.split(".so")[0] for library in needed} <= {
            "libc",
            "libm",
            "libpthread",
            "ld-linux-x86-64",
        }


def test_the_metadata_leads_to_the_project(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        fields = Parser().parsestr(archive.read(name).decode())
    assert fields["License-Expression"] == "Apache-2.0 AND IJG AND BSD-3-Clause AND Zlib AND CC-BY-4.0"
    assert fields["Author-email"].startswith("UniRecord developers <")
    assert "pytorch" in fields["Keywords"]
    urls = dict(line.split(", ") for line in fields.get_all("Project-URL", []))
    assert urls.keys() == {"Homepage", "Documentation", "Changelog", "Issues"}
    targets = re.findall(r"\]\(([^)#]+)\)", fields.get_payload())
    assert len(targets) > 5
    assert not [target for target in targets if not target.startswith("https://")]
    assert f"{urls['Homepage']}/blob/main/docs/quickstart.md" in targets


JPEG_HEADER = """
typedef unsigned int JDIMENSION;
struct jpeg_error_mgr { int x; };
typedef struct { struct jpeg_error_mgr *err; } *j_decompress_ptr;
struct jpeg_error_mgr *jpeg_std_error(struct jpeg_error_mgr *);
void jpeg_mem_src(j_decompress_ptr, const unsigned char *, unsigned long);
void jpeg_create_decompress(j_decompress_ptr);
void jpeg_crop_scanline(j_decompress_ptr, JDIMENSION *, JDIMENSION *);
JDIMENSION jpeg_skip_scanlines(j_decompress_ptr, JDIMENSION);
"""

JPEG_SOURCE = """
#include <stdio.h>
#include "jpeglib.h"
struct jpeg_error_mgr *jpeg_std_error(struct jpeg_error_mgr *errors) { fflush(stderr); return errors; }
void jpeg_mem_src(j_decompress_ptr i, const unsigned char *b, unsigned long n) {}
void jpeg_create_decompress(j_decompress_ptr i) {}
void jpeg_crop_scanline(j_decompress_ptr i, JDIMENSION *a, JDIMENSION *b) {}
JDIMENSION jpeg_skip_scanlines(j_decompress_ptr i, JDIMENSION n) { return n; }
"""


@pytest.mark.parametrize(("code", "fits"), [("-fPIC", True), ("-fno-pic", False)])
def test_libjpeg_is_linked_statically_where_its_archive_can_go_into_a_shared_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, fits: bool
) -> None:
    (tmp_path / "jpeglib.h").write_text(JPEG_HEADER)
    (tmp_path / "archive.c").write_text(JPEG_SOURCE)
    run("cc", code, "-c", "archive.c", cwd=tmp_path)
    run("ar", "rc", "libjpeg.a", "archive.o", cwd=tmp_path)
    monkeypatch.setenv("CPPFLAGS", f"-I{tmp_path}")
    monkeypatch.setenv("LDFLAGS", f"-L{tmp_path}")
    monkeypatch.setenv("UNIRECORD_JPEG", "off")  # while the file is run
    build = runpy.run_path(str(ROOT / "unirecord" / "_build.py"))
    assert build["links"]("static") is fits
    monkeypatch.setenv("UNIRECORD_JPEG", "static")
    build["how_to_link"].cache_clear()
    if fits:
        assert build["how_to_link"]() == "static"
    else:
        with pytest.raises(SystemExit, match="UNIRECORD_JPEG=static"):
            build["how_to_link"]()


@pytest.mark.parametrize(("command", "way"), [("bdist_wheel", ""), ("editable_wheel", "shared")])
def test_what_goes_into_a_wheel_is_linked_statically_or_not_at_all(
    monkeypatch: pytest.MonkeyPatch, command: str, way: str
) -> None:
    monkeypatch.setenv("UNIRECORD_JPEG", "off")  # while the file is run
    build = runpy.run_path(str(ROOT / "unirecord" / "_build.py"))
    monkeypatch.setitem(
        build["how_to_link"].__wrapped__.__globals__, "links", lambda tried: tried == "shared"
    )
    monkeypatch.setenv("UNIRECORD_JPEG", "auto")
    monkeypatch.setattr(sys, "argv", ["setup.py", command])
    build["how_to_link"].cache_clear()
    assert build["how_to_link"]() == way


def test_the_changelog_begins_with_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## \[(.+?)\](?: - \d{4}-\d\d-\d\d| \(unreleased\))$", text, re.MULTILINE)
    assert versions[0] in (unirecord.__version__, "Unreleased")
    assert unirecord.__version__ in versions
    assert "### Format" in text
