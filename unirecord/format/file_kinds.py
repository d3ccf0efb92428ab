"""What kind of file some bytes are, by how they begin."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["FileKind", "file_kind"]


class FileKind(NamedTuple):
    """A name for people, and the ending of a file's name."""

    name: str
    suffix: str
    is_picture: bool = False


_RIFF: Final = {
    b"WEBP": FileKind("WebP", ".webp", True),
    b"WAVE": FileKind("WAV", ".wav"),
    b"AVI ": FileKind("AVI", ".avi"),
}
_STARTS: Final = (
    (b"\xff\xd8\xff", FileKind("JPEG", ".jpg", True)),
    (b"\x89PNG\r\n\x1a\n", FileKind("PNG", ".png", True)),
    (b"GIF87a", FileKind("GIF", ".gif", True)),
    (b"GIF89a", FileKind("GIF", ".gif", True)),
    (b"BM", FileKind("BMP", ".bmp", True)),
    (b"II*\0", FileKind("TIFF", ".tif", True)),
    (b"MM\0*", FileKind("TIFF", ".tif", True)),
    (b"%PDF", FileKind("PDF", ".pdf")),
    (b"\x1f\x8b", FileKind("gzip", ".gz")),
    (b"fLaC", FileKind("FLAC", ".flac")),
    (b"OggS", FileKind("Ogg", ".ogg")),
    (b"ID3", FileKind("MP3", ".mp3")),
    (b"\x93NUMPY", FileKind("npy", ".npy")),
    (b"PK\x03\x04", FileKind("zip", ".zip")),
    (b"\x28\xb5\x2f\xfd", FileKind("zstd", ".zst")),
)


def file_kind(content: bytes) -> FileKind | None:
    """The kind of file that begins so; None for any other."""
    if content[:4] == b"RIFF":
        return _RIFF.get(content[8:12])
    return next((kind for start, kind in _STARTS if content.startswith(start)), None)
