"""Tests of one string: between two bounds, one of several, like a pattern; all on UTF-8 bytes."""

from __future__ import annotations

from dataclasses import dataclass

from ..core import cached_property

BYTE, ONE, MANY = 0, 1, 2  # kinds of pattern element: this byte, any one character, any characters


@dataclass(frozen=True)
class Between:
    """``low <= string < high``; no upper bound when ``high`` is None."""

    low: bytes
    high: bytes | None

    def both(self, other: Between) -> Between:
        """The strings that pass this test and the other."""
        highs = [high for high in (self.high, other.high) if high is not None]
        return Between(max(self.low, other.low), min(highs) if highs else None)

    @property
    def empty(self) -> bool:
        """Whether no string passes."""
        return self.high is not None and self.low >= self.high

    @property
    def single(self) -> bytes | None:
        """The one string that passes, where there is just one."""
        return self.low if self.high == self.low + b"\0" else None


@dataclass(frozen=True)
class AnyOf:
    """One of these strings, which are sorted and differ."""

    strings: tuple[bytes, ...]

    @cached_property
    def _set(self) -> frozenset[bytes]:
        return frozenset(self.strings)

    def matches(self, string: bytes) -> bool:
        """Whether one string passes."""
        return string in self._set


@dataclass(frozen=True)
class Like:
    """A pattern: one byte of ``kinds`` for each byte of ``letters``; the letter counts where the kind is BYTE."""

    letters: bytes
    kinds: bytes

    def text(self) -> str:
        """The pattern as `like` takes it, with the backslash as the escape."""
        pieces, literal = [], b""
        for letter, kind in zip(self.letters, self.kinds, strict=True):
            if kind == BYTE:
                literal += b"\\" + bytes([letter]) if letter in b"%_\\" else bytes([letter])
            else:
                pieces.append(literal + (b"%" if kind == MANY else b"_"))
                literal = b""
        return (b"".join(pieces) + literal).decode()


TextTest = Between | AnyOf | Like


def equal(string: bytes) -> Between:
    """The test for this very string."""
    return Between(string, string + b"\0")


def starts_with(prefix: str) -> Between:
    """The test for strings that start so."""
    return Between(prefix.encode(), after_prefix(prefix))


def after_prefix(prefix: str) -> bytes | None:
    """The least string above all strings that start with ``prefix``; None where there is none."""
    while prefix:
        following = ord(prefix[-1]) + 1
        if following <= 0x10FFFF:
            return (prefix[:-1] + chr(0xE000 if following == 0xD800 else following)).encode()
        prefix = prefix[:-1]
    return None


def like(pattern: str, escape: str) -> TextTest:
    """The test for ``like pattern``; `ValueError` where the escape character ends it."""
    letters, kinds, at = bytearray(), bytearray(), 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == escape:
            if at == len(pattern):
                raise ValueError("the pattern ends with its escape character")
            char, at = pattern[at], at + 1
        elif char == "%":
            if not kinds or kinds[-1] != MANY:
                letters.append(0)
                kinds.append(MANY)
            continue
        elif char == "_":
            letters.append(0)
            kinds.append(ONE)
            continue
        encoded = char.encode()
        letters += encoded
        kinds += bytes(len(encoded))
    return simplest(bytes(letters), bytes(kinds))


def contains(middle: bytes) -> TextTest:
    """The test for strings that hold this one."""
    return simplest(
        b"\0" + middle + b"\0", bytes([MANY, *bytes(len(middle)), MANY]) if middle else bytes([MANY, MANY])
    )


def ends_with(suffix: bytes) -> TextTest:
    """The test for strings that end so."""
    return simplest(b"\0" + suffix, bytes([MANY]) + bytes(len(suffix)))


def simplest(letters: bytes, kinds: bytes) -> TextTest:
    """A range of strings where the pattern means one, else the pattern."""
    if ONE not in kinds:
        fixed = len(kinds.rstrip(bytes([MANY])))
        if MANY not in kinds[:fixed]:
            return starts_with(letters[:fixed].decode()) if fixed < len(kinds) else equal(letters)
    return Like(letters, kinds)
