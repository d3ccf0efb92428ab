"""Compressed files as streams: gzip, bzip2 and xz by the standard library, others where a package has them."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

from ...errors import MissingError, SchemaError
from .foreign_libraries import needed

__all__ = ["SUFFIXES", "ZLIB_MARKS", "decompressed", "inner_name", "is_marked"]

_PIECE: Final = 1 << 20
_PACKED_PIECE: Final = 4_096
_SNAPPY_RATIO: Final = 32  # a copy of 64 bytes takes three: no block grows more than that
_SNAPPY_FRAMES: Final = b"\xff\x06\0\0sNaPpY"
_MAGIC: Final[dict[bytes, str]] = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}
ZLIB_MARKS: Final = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")  # text may begin so as well
_MAGIC.update(dict.fromkeys(ZLIB_MARKS, "zlib"))
_UNMARKED: Final = {".br": "brotli", ".snappy": "snappy"}  # known by their names alone
SUFFIXES: Final = (".gz", ".gzip", ".bz2", ".xz", ".zst", ".zstd", *_UNMARKED)


def inner_name(name: str) -> str:
    """Return ``x.csv`` for ``x.csv.gz``, and any other name as it is."""
    return str(Path(name).with_suffix("")) if name.lower().endswith(SUFFIXES) else name


def is_marked(head: bytes) -> bool:
    """Whether a file that begins so is compressed, whatever it is called. The mark of bzip2 is text as well."""
    return head.startswith((b"\x1f\x8b\x08", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd"))


def decompressed(name: str, file: BinaryIO) -> Iterator[bytes]:
    """Yield what a compressed file holds, piece by piece; `SchemaError` when it is damaged or cut off."""
    head = file.read(6)
    file.seek(0)
    codec = _UNMARKED.get(Path(name).suffix.lower()) or next(
        (codec for magic, codec in _MAGIC.items() if head.startswith(magic)), None
    )
    if codec is None:
        raise SchemaError(f"{name}: its name says that it is compressed, but its first bytes do not")
    try:
        stream = _OPEN[codec](file)
        while piece := stream.read(_PIECE):
            yield piece
    except (MissingError, MemoryError):
        raise
    except Exception as error:  # each library has errors of its own
        raise SchemaError(f"{name} cannot be decompressed: {error}") from None


class _Streams:
    """A bzip2 or xz file: streams one behind another, as parallel compressors write them, zeros between them.

    Python's own files take what follows a stream and is none for the end; what is damaged there would be lost unseen.
    """

    def __init__(self, file: BinaryIO, new: Callable[[], Any]) -> None:
        self._file, self._new = file, new
        self._stream = new()
        self._begun = False

    def read(self, size: int) -> bytes:
        """Return some bytes, none at the end."""
        while True:
            packed = b""
            if self._stream.eof:
                packed = self._stream.unused_data.lstrip(b"\0")
                self._stream, self._begun = self._new(), False
            if not packed and self._stream.needs_input:
                packed = self._file.read(_PACKED_PIECE)
                if not packed and self._begun:
                    raise EOFError("it is cut off")
                if not packed:
                    return b""
                packed = packed if self._begun else packed.lstrip(b"\0")
                if not packed:
                    continue
            self._begun = True
            found: bytes = self._stream.decompress(packed, size)
            if found:
                return found


class _ZstdStream:
    """A Zstandard file as a stream, frame by frame; `EOFError` where one is cut off."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._packed = file, b""
        self._new_frame = needed("zstandard", "a Zstandard file").ZstdDecompressor().decompressobj
        self._frame: Any = None

    def read(self, _size: int) -> bytes:
        """Return some bytes, none at the end; from few at a time, since each can stand for 32,768."""
        while True:
            self._packed = self._packed or self._file.read(_PACKED_PIECE)
            if not self._packed:
                if self._frame is not None:
                    raise EOFError("it is cut off")
                return b""
            self._frame = self._frame or self._new_frame()
            found: bytes = self._frame.decompress(self._packed)
            self._packed = self._frame.unused_data if self._frame.eof else b""
            if self._frame.eof:
                self._frame = None
            if found:
                return found


class _ZlibStream:
    """What zlib wrote, as TensorFlow's option ZLIB does, as a stream; `EOFError` where it is cut off."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._stream, self._packed = file, zlib.decompressobj(), b""

    def read(self, size: int) -> bytes:
        """Return some bytes, none at the end."""
        while not self._stream.eof:
            packed = self._stream.unconsumed_tail or self._file.read(_PACKED_PIECE)
            found = self._stream.decompress(packed, size)
            if found:
                return found
            if not packed:
                raise EOFError("it is cut off")
        if self._stream.unused_data or self._file.read(1):
            raise ValueError("there is more behind its end")
        return b""


class _BrotliStream:
    """A Brotli file as a stream."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decoder = needed("brotli", "a Brotli file").Decompressor()

    def read(self, size: int) -> bytes:
        """Return some bytes, none at the end."""
        while not self._decoder.is_finished():
            packed = self._file.read(_PACKED_PIECE) if self._decoder.can_accept_more_data() else b""
            found: bytes = self._decoder.process(packed, output_buffer_limit=size)
            if found:
                return found
            if not packed and self._decoder.can_accept_more_data():
                raise EOFError("it is cut off")
        if self._file.read(1):
            raise ValueError("there is more behind its end")
        return b""


class _SnappyBlock:
    """A block of Snappy, which MosaicML writes, as a stream: it is decompressed at once, its size is stated first."""

    def __init__(self, file: BinaryIO) -> None:
        self._codec = needed("snappy", "a Snappy file", "python-snappy")
        self._packed = file.read()
        size = shift = 0
        for byte in self._packed[:5]:
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if size > _SNAPPY_RATIO * len(self._packed):  # else a few bytes would take gigabytes
            raise ValueError(f"{len(self._packed):,} bytes are said to hold {size:,}")

    def read(self, _size: int) -> bytes:
        """Return all there is, then none."""
        packed, self._packed = self._packed, b""
        return self._codec.uncompress(packed) if packed else b""


class _SnappyFrames:
    """A file of Snappy's framing format, as its command line writes it: chunks of at most 16 MB, each with its size."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decoder = needed("snappy", "a Snappy file", "python-snappy").StreamDecompressor()

    def read(self, _size: int) -> bytes:
        """Return what some chunks hold, nothing at the end."""
        while head := self._file.read(4):
            size = int.from_bytes(head[1:], "little")
            body = self._file.read(size)
            if len(head) < 4 or len(body) < size:
                raise EOFError("it is cut off")
            found: bytes = self._decoder.decompress(head + body)
            if found:
                return found
        return b""


def _snappy(file: BinaryIO) -> Any:
    framed = file.read(len(_SNAPPY_FRAMES)) == _SNAPPY_FRAMES
    file.seek(0)
    return _SnappyFrames(file) if framed else _SnappyBlock(file)


def _zstd(file: BinaryIO) -> Any:
    try:
        return _ZstdStream(file)
    except MissingError:
        try:
            return needed("pyarrow", "").CompressedInputStream(file, "zstd")
        except MissingError:
            pass
        raise


_OPEN: Final[dict[str, Any]] = {
    "gzip": lambda file: gzip.GzipFile(fileobj=file),
    "bzip2": lambda file: _Streams(file, bz2.BZ2Decompressor),
    "xz": lambda file: _Streams(file, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ)),
    "zlib": _ZlibStream,
    "zstd": _zstd,
    "brotli": _BrotliStream,
    "snappy": _snappy,
}
