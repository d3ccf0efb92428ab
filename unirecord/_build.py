"""Builds unirecord._core from csrc/: the declarations Python sees are those of csrc/unirecord.h, read at build time."""

from __future__ import annotations

import re
from glob import glob
from pathlib import Path

from cffi import FFI

ROOT = Path(__file__).resolve().parent.parent


def declarations() -> str:
    """The part of the public header between its cdef marks, without the export macro."""
    header = (ROOT / "csrc" / "unirecord.h").read_text(encoding="utf-8")
    text = header.split("/* cdef begin */", 1)[1].split("/* cdef end */", 1)[0]
    return text.replace("UR_API ", "")


def stubs() -> str:
    """Weak symbols, which trap, for the functions that headers declare, so that the module loads before all are written."""
    read = [Path(name).read_text(encoding="utf-8") for name in sorted(glob(str(ROOT / "csrc" / "*.h")))]
    code = re.sub(r"/\*.*?\*/", "", "\n".join(read), flags=re.S)
    declared = set(re.findall(r"^[a-zA-Z][^;{}\n=]*?\b(ur_\w+)\([^;{}]*\)[^;{}()]*(?:\(\([^;]*\)\))?;", code, flags=re.M))
    return "\n".join(f'__asm__(".weak {name}\\n.type {name},@function\\n{name}: ud2");' for name in sorted(declared))


def sources() -> list[str]:
    """The C files, relative to the project's root as setuptools wants them."""
    return sorted(f"csrc/{Path(name).name}" for name in glob(str(ROOT / "csrc" / "*.c")))


ffibuilder = FFI()
ffibuilder.cdef(declarations())
ffibuilder.set_source(
    "unirecord._core",
    '#include "unirecord.h"\n' + stubs(),
    sources=sources(),
    depends=sorted(f"csrc/{Path(name).name}" for name in glob(str(ROOT / "csrc" / "*.h"))),
    include_dirs=["csrc"],
    extra_compile_args=["-std=c11", "-O3", "-fvisibility=hidden", "-pthread"],
    extra_link_args=["-pthread"],
)
