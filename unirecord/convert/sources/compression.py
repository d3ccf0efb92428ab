"""Compressed files as streams: gzip, bzip2 and xz by the standard library, Zstandard where a package has it."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

from ...errors import MissingError, SchemaError
from .packages import needed

__all__ = ["SUFFIXES", "decompressed", "inner_name"]

_PIECE: Final = 1 << 20
_MAGIC: Final = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
SUFFIXES: Final = (".gz", ".gzip", ".bz2", ".xz", ".zst", ".zstd")


def inner_name(name: str) -> str:
    """Return ``x.csv`` for ``x.csv.gz``, and any other name as it is."""
    return str(Path(name).with_suffix("")) if name.lower().endswith(SUFFIXES) else name


def decompressed(name: str, file: BinaryIO) -> Iterator[bytes]:
    """Yield what a compressed file holds, piece by piece; `SchemaError` when it is damaged or cut off."""
    head = file.read(6)
    file.seek(0)
    codec = next((codec for magic, codec in _MAGIC.items() if head.startswith(magic)), None)
    if codec is None:
        raise SchemaError(f"{name}: its name says that it is compressed, but its first bytes do not")
    try:
        stream = _OPEN[codec](file)
        while piece := stream.read(_PIECE):
            yield piece
    except (OSError, EOFError, zlib.error, lzma.LZMAError, ValueError) as error:
        raise SchemaError(f"{name} cannot be decompressed: {error}") from None


def _zstd(file: BinaryIO) -> Any:
    try:
        zstandard = needed("zstandard", "a Zstandard file")
    except MissingError:
        try:
            return needed("pyarrow", "").CompressedInputStream(file, "zstd")
        except MissingError:
            pass
        raise
    return zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)


_OPEN: Final[dict[str, Any]] = {
    "gzip": lambda file: gzip.GzipFile(fileobj=file),
    "bzip2": bz2.BZ2File,
    "xz": lzma.LZMAFile,
    "zstd": _zstd,
}
