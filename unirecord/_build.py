"""Builds unirecord._core from csrc/, and unirecord._jpeg where libjpeg-turbo is found, as their headers declare them.

UNIRECORD_JPEG=auto|static|shared|off says how libjpeg-turbo is linked. auto: statically where its archive can go into
a shared object (Debian's cannot); else as the shared library, but never into a wheel, which may go to a machine that
lacks that library; else not at all. CPPFLAGS and LDFLAGS say where libjpeg-turbo is.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from cffi import FFI

ROOT = Path(__file__).resolve().parent.parent
LINKING = {"static": ["-Wl,--exclude-libs,ALL", "-l:libjpeg.a"], "shared": ["-ljpeg"]}
PROBE = """
#include <stdio.h>
#include <jpeglib.h>
void probe(j_decompress_ptr info, JDIMENSION *left, JDIMENSION *width) {
  static struct jpeg_error_mgr errors;
  info->err = jpeg_std_error(&errors);
  jpeg_mem_src(info, NULL, 0);
  jpeg_create_decompress(info);
  jpeg_crop_scanline(info, left, width);
  jpeg_skip_scanlines(info, 1);
}
"""


def declarations(header: str) -> str:
    """The part of a header between its cdef marks, without the export macro."""
    text = (ROOT / "csrc" / header).read_text(encoding="utf-8")
    return text.split("/* cdef begin */", 1)[1].split("/* cdef end */", 1)[0].replace("UR_API ", "")


def files(*patterns: str) -> list[str]:
    """Files of the C core, relative to the project's root as setuptools wants them."""
    found = {path for pattern in patterns for path in (ROOT / "csrc").glob(pattern)}
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def builder(
    module: str,
    headers: list[str],
    sources: list[str],
    link: list[str],
    known: FFI | None = None,
    python: str = "",
) -> FFI:
    """A module of all that ``headers`` declare, and of functions that C calls in Python; it exports nothing."""
    ffi = FFI()
    if known is not None:
        ffi.include(known)
    ffi.cdef("".join(map(declarations, headers)) + python)
    ffi.set_source(
        module,
        f'#include "{headers[-1]}"',
        sources=sources,
        depends=files("**/*.h"),
        include_dirs=["csrc"],
        extra_compile_args=["-std=c11", "-O3", "-fvisibility=hidden", "-DUR_API=", "-pthread"],
        extra_link_args=["-pthread", *link],
    )
    return ffi


def links(way: str) -> bool:
    """Whether a shared object with libjpeg-turbo in it, or beside it, can be made that way."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "probe.c"
        source.write_text(PROBE, encoding="utf-8")
        flags = ["-shared", "-fPIC", "-Wl,-z,defs", "-Wl,-z,text", "-Wl,--fatal-warnings"]
        flags += [flag for name in ("CPPFLAGS", "LDFLAGS") for flag in shlex.split(os.environ.get(name, ""))]
        command = [*compiler, *flags, str(source), "-o", f"{folder}/probe.so", *LINKING[way], "-lm"]
        try:
            return subprocess.run(command, capture_output=True, check=False).returncode == 0
        except OSError:
            return False


@cache
def how_to_link() -> str:
    """One of LINKING, or "" to leave libjpeg-turbo out; a way that was asked for and cannot be had ends the build."""
    asked = os.environ.get("UNIRECORD_JPEG", "auto")
    if asked == "off":
        return ""
    if asked != "auto" and asked not in LINKING:
        sys.exit(f"UNIRECORD_JPEG={asked}: must be auto, static, shared or off")
    # setuptools puts the command that a front end asked for into sys.argv: bdist_wheel for `pip install .` and
    # `python -m build`, editable_wheel for `pip install --editable .`.
    tried = [asked] if asked != "auto" else ["static"] if "bdist_wheel" in sys.argv else list(LINKING)
    found = next((way for way in tried if links(way)), "")
    if not found and asked != "auto":
        sys.exit(f"UNIRECORD_JPEG={asked}: libjpeg-turbo and its headers cannot be linked that way")
    return found


def modules() -> list[str]:
    """What setuptools builds, as its ``cffi_modules``."""
    names = ["core"]
    if how_to_link():
        names.append("jpeg")
    else:
        print(
            "unirecord: built without libjpeg-turbo: pictures are decoded by simplejpeg or Pillow. A static "
            "libjpeg-turbo goes into a wheel (UNIRECORD_JPEG=static), the system's shared library where it is asked "
            "for (UNIRECORD_JPEG=shared)",
            file=sys.stderr,
        )
    return [f"unirecord/_build.py:{name}" for name in names]


FETCH = """
extern "Python" ur_status ur_python_fetch(void *context, const ur_range *ranges, int64_t count, ur_error *error);
"""

core = builder("unirecord._core", ["unirecord.h", "unirecord_internal.h"], files("*/*.c"), [], python=FETCH)
jpeg = builder(
    "unirecord._jpeg",
    ["picture/jpeg/jpeg.h"],
    files("picture/jpeg/*.c", "picture/*.c", "base/fail.c"),
    LINKING.get(how_to_link(), []),
    core,
)
