"""Names and values that would be markup, and a parser that finds what became of them."""

from __future__ import annotations

import io
from html.parser import HTMLParser
from typing import Any

import numpy as np
from PIL import Image

HOSTILE = "</td><script>alert(1)</script><img src=x onerror=alert(1)>\"' onload=x \u202e\x1b[2J&lt;"
NAME = "<script>alert(2)</script>"


class Parsed(HTMLParser):
    """The tags, attributes and texts of a page, and whether each element is closed where it should be."""

    _void = frozenset({"img", "meta", "br", "input"})

    def __init__(self, content: bytes) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(content.decode())
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self._void:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.texts)


def checked(content: bytes) -> Parsed:
    """The page, which has no script and asks for nothing."""
    found = Parsed(content)
    assert not {"script", "iframe", "object", "embed", "link", "form", "base"} & {
        tag for tag, _ in found.tags
    }
    for tag, attributes in found.tags:
        assert not [name for name in attributes if name.startswith("on")]
        source = attributes.get("src") or attributes.get("href") or "#"
        assert source.startswith(("data:image/jpeg;base64,", "#")), tag
    [policy] = [a["content"] for t, a in found.tags if t == "meta" and "http-equiv" in a]
    assert policy is not None
    assert policy.startswith("default-src 'none'; img-src data:;")
    return found


def jpeg(size: tuple[int, int]) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, (200, 30, 30)).save(buffer, "JPEG")
    return buffer.getvalue()


SCHEMA: dict[str, Any] = {
    "image": "bytes?",
    "label": "int32",
    "score": "float32?",
    "name": "string",
    "text": "text",
    "wave": {"type": "float32", "shape": [64]},
    "box": {"type": "float32", "shape": [4]},
    "mask": {"type": "uint8", "shape": [16, 16]},
    "ragged": {"type": "int16", "shape": [-1]},
    "meta": "object",
    "flag": "bool",
    NAME: "int8",
}


def row(i: int) -> dict[str, Any]:
    return {
        "image": None if i == 3 else b"\xff\xd8\xff\xe0 no picture" if i == 4 else jpeg((200 + i, 100)),
        "label": i % 5,
        "score": None if i % 4 == 0 else float("nan") if i % 4 == 1 else i / 7,
        "name": f"{HOSTILE}{i % 3}",
        "text": HOSTILE * 20,
        "wave": np.full(64, np.nan, np.float32) if i == 0 else np.arange(64, dtype=np.float32),
        "box": np.arange(4, dtype=np.float32),
        "mask": np.full((16, 16), i % 256, np.uint8),
        "ragged": np.arange(i, dtype=np.int16),
        "meta": {HOSTILE: [i, HOSTILE]},
        "flag": i % 2 == 0,
        NAME: 1,
    }
