"""Compressed files as streams: gzip, bzip2 and xz by the standard library, others where a package has them."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final

from ...errors import MissingError, SchemaError
from ...sizes import many
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
        yield from _OPEN[codec](file)
    except (MissingError, MemoryError):
        raise
    except Exception as error:  # each library has errors of its own
        raise SchemaError(f"{name} cannot be decompressed: {error}") from None


def _gzip(file: BinaryIO) -> Iterator[bytes]:
    return iter(partial(gzip.GzipFile(fileobj=file).read, _PIECE), b"")


def _streams(file: BinaryIO, new: Callable[[], Any]) -> Iterator[bytes]:
    """A bzip2 or xz file: streams one behind another, as parallel compressors write them, zeros between them.

    Python's own files take what follows a stream and is none for the end; what is damaged there would be lost unseen.
    """
    stream, begun = new(), False
    while True:
        packed = b""
        if stream.eof:
            packed = stream.unused_data.lstrip(b"\0")
            stream, begun = new(), False
        if not packed and stream.needs_input:
            packed = file.read(_PACKED_PIECE)
            if not packed and begun:
                raise EOFError("it is cut off")
            if not packed:
                return
            packed = packed if begun else packed.lstrip(b"\0")
            if not packed:
                continue
        begun = True
        if found := stream.decompress(packed, _PIECE):
            yield found


def _bzip2(file: BinaryIO) -> Iterator[bytes]:
    return _streams(file, bz2.BZ2Decompressor)


def _xz(file: BinaryIO) -> Iterator[bytes]:
    return _streams(file, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ))


def _zstd(file: BinaryIO) -> Iterator[bytes]:
    """A Zstandard file, frame by frame, from few bytes at a time, since each can stand for 32,768."""
    try:
        new_frame = needed("zstandard", "a Zstandard file").ZstdDecompressor().decompressobj
    except MissingError:
        try:
            stream = needed("pyarrow", "").CompressedInputStream(file, "zstd")
        except MissingError:
            pass
        else:
            yield from iter(partial(stream.read, _PIECE), b"")
            return
        raise
    packed, frame = b"", None
    while packed := packed or file.read(_PACKED_PIECE):
        frame = frame or new_frame()
        found: bytes = frame.decompress(packed)
        packed = frame.unused_data if frame.eof else b""
        if frame.eof:
            frame = None
        if found:
            yield found
    if frame is not None:
        raise EOFError("it is cut off")


def _zlib(file: BinaryIO) -> Iterator[bytes]:
    """What zlib wrote, as TensorFlow's option ZLIB does."""
    stream = zlib.decompressobj()
    while not stream.eof:
        packed = stream.unconsumed_tail or file.read(_PACKED_PIECE)
        if found := stream.decompress(packed, _PIECE):
            yield found
        elif not packed:
            raise EOFError("it is cut off")
    if stream.unused_data or file.read(1):
        raise ValueError("there is more behind its end")


def _brotli(file: BinaryIO) -> Iterator[bytes]:
    decoder = needed("brotli", "a Brotli file").Decompressor()
    while not decoder.is_finished():
        packed = file.read(_PACKED_PIECE) if decoder.can_accept_more_data() else b""
        if found := decoder.process(packed, output_buffer_limit=_PIECE):
            yield found
        elif not packed and decoder.can_accept_more_data():
            raise EOFError("it is cut off")
    if file.read(1):
        raise ValueError("there is more behind its end")


def _snappy(file: BinaryIO) -> Iterator[bytes]:
    """A block, as MosaicML writes it, whose size is stated first; or frames, as Snappy's command line writes them."""
    snappy = needed("snappy", "a Snappy file", "python-snappy")
    framed = file.read(len(_SNAPPY_FRAMES)) == _SNAPPY_FRAMES
    file.seek(0)
    if framed:
        yield from _snappy_frames(file, snappy.StreamDecompressor())
        return
    packed = file.read()
    size = shift = 0
    for byte in packed[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > _SNAPPY_RATIO * len(packed):  # else a few bytes would take gigabytes
        raise ValueError(f"{many(len(packed), 'byte', 'are')} said to hold {size:,}")
    if packed:
        yield snappy.uncompress(packed)


def _snappy_frames(file: BinaryIO, decoder: Any) -> Iterator[bytes]:
    """What chunks of at most 16 MB hold, each with its size before it."""
    while head := file.read(4):
        size = int.from_bytes(head[1:], "little")
        body = file.read(size)
        if len(head) < 4 or len(body) < size:
            raise EOFError("it is cut off")
        if found := decoder.decompress(head + body):
            yield found


_OPEN: Final[dict[str, Callable[[BinaryIO], Iterator[bytes]]]] = {
    "gzip": _gzip,
    "bzip2": _bzip2,
    "xz": _xz,
    "zlib": _zlib,
    "zstd": _zstd,
    "brotli": _brotli,
    "snappy": _snappy,
}
