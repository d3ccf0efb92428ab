"""Builds unirecord._core from csrc/; what Python sees of it is what csrc/unirecord.h declares, read at build time."""

from __future__ import annotations

from pathlib import Path

from cffi import FFI

ROOT = Path(__file__).resolve().parent.parent


def declarations() -> str:
    """The part of the public header between its cdef marks, without the export macro."""
    header = (ROOT / "csrc" / "unirecord.h").read_text(encoding="utf-8")
    text = header.split("/* cdef begin */", 1)[1].split("/* cdef end */", 1)[0]
    return text.replace("UR_API ", "")


def files(pattern: str) -> list[str]:
    """Files of the C core, relative to the project's root as setuptools wants them."""
    return sorted(f"csrc/{path.name}" for path in (ROOT / "csrc").glob(pattern))


ffibuilder = FFI()
ffibuilder.cdef(declarations())
ffibuilder.set_source(
    "unirecord._core",
    '#include "unirecord.h"',
    sources=files("*.c"),
    depends=files("*.h"),
    include_dirs=["csrc"],
    extra_compile_args=["-std=c11", "-O3", "-fvisibility=hidden", "-pthread"],
    extra_link_args=["-pthread"],
)
