"""A folder of pictures, in class folders or flat, as records: the file's bytes, its class, and its size in pixels."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from ...errors import MissingError, SchemaError
from .base import Batch, Scan, Source
from .image_header import NotAnImageError, read_image_header
from .overrides import apply_overrides

__all__ = ["ImageFolder"]

_SUFFIXES: Final = frozenset(
    (".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".gif", ".bmp", ".dib", ".webp", ".tif", ".tiff")
)
_BATCH_ROWS: Final = 256
_BATCH_BYTES: Final = 16_000_000


class ImageFolder(Source):
    """Pictures below a folder, ordered by class and path.

    With class folders (``cat/1.png``, ``dog/a/2.jpg``) a picture's class is the first folder of its path, and its
    label the class's number in sorted order. A flat folder gives no ``label`` and no ``class``.
    """

    kind: ClassVar[str] = "images"

    def __init__(
        self, path: str, overrides: Mapping[str, Any] | None = None, scan: Scan | None = None
    ) -> None:
        """List the folder; ``overrides`` replaces types of columns, ``scan`` is told about progress."""
        super().__init__()
        self.path = path
        found = sorted(self._walk(Path(path)))
        top = [p for p in found if "/" not in p]
        self.classes = sorted({p.partition("/")[0] for p in found if "/" in p})
        if self.classes and top:
            raise SchemaError(
                f"{path} holds {len(top):,} pictures beside its class folders ({top[0]!r}, …): they have no class. "
                f"Move them into a folder or away"
            )
        if not found:
            raise SchemaError(self._nothing_found())
        # By class, then by path: plain sorting would put "a-b/x" before "a/x".
        self._files = sorted(found, key=lambda p: (p.partition("/")[0], p)) if self.classes else found
        self.rows = len(found)
        columns = {"image": "bytes", "label": "int32", "class": "string", "path": "string"}
        columns |= {"width": "int32", "height": "int32"}
        if not self.classes:
            del columns["label"], columns["class"]
        else:
            self.metadata = {"classes": [_utf8(c) for c in self.classes]}
            self.notes.append(f"{len(self.classes):,} classes: {_some(self.classes)}")
        self.schema = apply_overrides(columns, overrides or {})

    def use_classes(self, known: Sequence[str]) -> None:
        """Number the classes as an existing dataset does; `SchemaError` when a class is new to it."""
        new = [c for c in self.classes if _utf8(c) not in known]
        if new:
            raise SchemaError(
                f"{self.path} has the class {_utf8(new[0])!r}, which the dataset has not ({_some(list(known))}): "
                f"its labels would not fit; write all classes anew"
            )
        self.classes = list(known)
        self.metadata = {"classes": self.classes}

    def _walk(self, root: Path) -> Iterator[str]:
        """Yield the relative POSIX path of every picture; count what else there is."""
        self._other_suffixes: Counter[str] = Counter()
        visited: set[tuple[int, int]] = set()
        pending = [""]
        while pending:
            below = pending.pop()
            info = os.stat(root / below)
            if (info.st_dev, info.st_ino) in visited:  # a link back up the tree
                continue
            visited.add((info.st_dev, info.st_ino))
            with os.scandir(root / below) as entries:
                for entry in entries:
                    if entry.name.startswith("."):
                        continue
                    if entry.is_dir():
                        pending.append(f"{below}{entry.name}/")
                    elif Path(entry.name).suffix.lower() in _SUFFIXES:
                        yield f"{below}{entry.name}"
                    else:
                        self._other_suffixes[Path(entry.name).suffix.lower()] += 1
                        self.skipped.others += 1

    def _nothing_found(self) -> str:
        others = ", ".join(f"{n:,} {s or 'without suffix'}" for s, n in self._other_suffixes.most_common(3))
        advice = (
            f"; it holds files of other kinds ({others}): give such a file itself as SRC" if others else ""
        )
        return f"{self.path} holds no pictures (PNG, JPEG, GIF, BMP, WebP, TIFF){advice}"

    def batches(self) -> Iterator[Batch]:
        """Yield the pictures that can be read; the others are named in ``skipped.unreadable``."""
        self.skipped.unreadable.clear()
        labels = {_utf8(name): i for i, name in enumerate(self.classes)}
        rows: list[tuple[Any, ...]] = []
        size = 0
        for relative in self._files:
            try:
                data = (Path(self.path) / relative).read_bytes()
                header = read_image_header(data)
            except FileNotFoundError:
                raise MissingError(
                    f"{self.path}/{_utf8(relative)} has gone since the folder was listed"
                ) from None
            except (OSError, NotAnImageError) as error:
                reason = error.strerror if isinstance(error, OSError) else str(error)
                self.skipped.unreadable.append(f"{_utf8(relative)}: {reason}")
                continue
            name = relative.partition("/")[0]
            rows.append(
                (data, labels.get(_utf8(name)), _utf8(name), _utf8(relative), header.width, header.height)
            )
            size += len(data)
            if len(rows) == _BATCH_ROWS or size >= _BATCH_BYTES:
                yield self._batch(rows)
                rows, size = [], 0
        if rows:
            yield self._batch(rows)

    def _batch(self, rows: list[tuple[Any, ...]]) -> Batch:
        names = ("image", "label", "class", "path", "width", "height")
        columns = {
            n: list(v) for n, v in zip(names, zip(*rows, strict=True), strict=True) if n in self.schema
        }
        return Batch(columns, len(rows))


def _utf8(name: str) -> str:
    """Return a file name as valid Unicode: bytes that are not UTF-8 become ``\\xNN``."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _some(names: list[str]) -> str:
    shown = [_utf8(n) for n in names]
    return ", ".join(shown) if len(shown) <= 10 else f"{', '.join(shown[:8])}, … {shown[-1]}"
