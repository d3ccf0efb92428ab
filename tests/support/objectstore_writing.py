"""The half of the object store on the loopback that changes it: puts under conditions, multipart uploads, deletions.

An upload is a folder ``.uploads/ID`` in the server's root until it is completed or aborted.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from pathlib import Path
from typing import Final
from xml.sax.saxutils import unescape

__all__ = ["Answer", "change", "tag_of", "uploads"]

Answer = tuple[int, dict[str, str], bytes]  # status, headers, body
_UPLOADS: Final = ".uploads"


def tag_of(path: Path) -> str:
    """The ETag of an object: that of its content where it is small, since a clock may stand still between two puts."""
    there = path.stat()
    stamp = path.read_bytes() if there.st_size < 1 << 16 else f"{there.st_mtime_ns}-{there.st_size}".encode()
    return f'"{hashlib.md5(stamp, usedforsecurity=False).hexdigest()}"'


def uploads(root: Path) -> list[str]:
    """The keys of uploads that have been begun and neither completed nor aborted: what a user goes on paying for."""
    return sorted(path.read_text() for path in (root / _UPLOADS).glob("*/key"))


def change(
    root: Path, method: str, key: str, query: dict[str, list[str]], headers: dict[str, str], body: bytes
) -> Answer:
    """What a request does that is neither GET nor HEAD, and the answer to it."""
    if method == "POST" and "delete" in query:
        names = re.findall(r"<Key>(.*?)</Key>", body.decode())
        for name in names:
            (root / key / unescape(name)).unlink(missing_ok=True)
        deleted = "".join(f"<Deleted><Key>{name}</Key></Deleted>" for name in names)
        return 200, {}, f"<DeleteResult>{deleted}</DeleteResult>".encode()
    if method == "POST" and "uploads" in query:
        return _begin(root, key)
    if "uploadId" in query:
        folder = root / _UPLOADS / query["uploadId"][0]
        if not (folder / "key").is_file():
            return _error(404, "NoSuchUpload")
        if method == "PUT":
            place = folder / f"{int(query['partNumber'][0]):05d}"
            _write(place, body)
            return 200, {"ETag": tag_of(place)}, b""
        if method == "DELETE":
            shutil.rmtree(folder)
            return 204, {}, b""
        return _complete(root / key, folder)
    if method == "PUT":
        return _put(root / key, headers, body)
    return _error(501, "NotImplemented")


def _begin(root: Path, key: str) -> Answer:
    name = os.urandom(8).hex()
    _write(root / _UPLOADS / name / "key", key.encode())
    text = f"<InitiateMultipartUploadResult><UploadId>{name}</UploadId></InitiateMultipartUploadResult>"
    return 200, {}, text.encode()


def _complete(path: Path, folder: Path) -> Answer:
    pieces = sorted(piece for piece in folder.iterdir() if piece.name != "key")
    _write(path, b"".join(piece.read_bytes() for piece in pieces))
    shutil.rmtree(folder)
    tag = tag_of(path).strip('"')
    text = f"<CompleteMultipartUploadResult><ETag>{tag}</ETag></CompleteMultipartUploadResult>"
    return 200, {}, text.encode()


def _put(path: Path, headers: dict[str, str], body: bytes) -> Answer:
    there = tag_of(path) if path.is_file() else None
    if headers.get("if-none-match") == "*" and there is not None:
        return _error(412, "PreconditionFailed")
    wanted = headers.get("if-match")
    if wanted is not None and wanted.strip('"') != (there or "").strip('"'):
        return _error(412, "PreconditionFailed")
    _write(path, body)
    return 200, {"ETag": tag_of(path)}, b""


def _write(path: Path, body: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    new.write_bytes(body)
    new.rename(path)


def _error(status: int, code: str) -> Answer:
    return status, {}, f"<Error><Code>{code}</Code></Error>".encode()
