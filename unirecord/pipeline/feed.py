"""What a stage takes from the one before it: pieces of what is ready there, and groups that are put together."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from .chunk import Chunk, Note, joined

__all__ = ["Feed", "Upstream"]


class Upstream(Protocol):
    """The stage before: what is ready there, in order, and whether more will come."""

    ready: deque[Chunk]
    ended: bool


class Feed:
    """Reads on in what is ready upstream; notes travel with the next element, or stay until the end."""

    __slots__ = ("_at", "_group", "_grouped", "_held", "_notes", "_upstream")

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._held: Chunk | None = None
        self._at = 0
        self._group: list[Chunk] = []
        self._grouped = 0
        self._notes: tuple[Note, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been begun."""
        return self._held is None and not self._group and not self._notes

    @property
    def has_more(self) -> bool:
        """Whether there may be something to take now."""
        up = self._upstream
        return self._held is not None or bool(up.ready) or (up.ended and bool(self._group or self._notes))

    @property
    def has_ended(self) -> bool:
        """Whether nothing is left, and nothing will come."""
        return self.is_last and self.is_empty

    @property
    def is_last(self) -> bool:
        """Whether nothing will come behind what has been begun."""
        return self._upstream.ended and not self._upstream.ready

    def head(self) -> Chunk | None:
        """What comes next; it is empty where that is an error."""
        up = self._upstream
        while self._held is None and up.ready:
            chunk = up.ready.popleft()
            if len(chunk):
                self._held, self._at = chunk, 0
            else:
                self._notes += chunk.notes
                if chunk.error is not None:
                    self._held = chunk
        return self._held

    @property
    def held(self) -> int:
        """Elements that are left of the head."""
        return 0 if self._held is None else len(self._held) - self._at

    def take(self, count: int) -> Chunk:
        """At most ``count`` elements: of the head, and behind it of what is ready and comes one by one."""
        piece = self._cut(count)
        if len(piece) < count and piece.error is None and self._held is None:
            piece = self._with_following(piece, count)
        return self._with_notes(piece)

    def _cut(self, count: int) -> Chunk:
        chunk = self._held
        assert chunk is not None
        stop = min(self._at + count, len(chunk))
        piece = chunk.piece(self._at, stop)
        self._at = stop
        if stop == len(chunk):
            self._held = None
        return piece

    def _with_following(self, piece: Chunk, count: int) -> Chunk:
        """A piece and what is ready behind it, up to ``count`` elements: batches come one by one."""
        pieces, ready, total = [piece], self._upstream.ready, len(piece)
        while ready and ready[0].error is None and total + len(ready[0]) <= count:
            pieces.append(ready.popleft())
            total += len(pieces[-1])
        return piece if len(pieces) == 1 else joined(pieces)

    def _with_notes(self, chunk: Chunk) -> Chunk:
        if self._notes:
            chunk.notes, self._notes = self._notes + chunk.notes, ()
        return chunk

    def made_ahead(self, size: int) -> tuple[Chunk, int] | None:
        """What has been made of the next ``size`` elements already, and what that took."""
        chunk = self._held
        if chunk is None or not chunk.made or self._grouped or self._at % size:
            return None
        result, took = chunk.made[self._at // size]
        self._at += size
        if self._at == len(chunk):
            self._held = None
        return self._with_notes(result), took

    def gather(self, size: int) -> Chunk | None:
        """The next ``size`` elements; where an error comes first, that alone; None as long as some are missing."""
        while self._grouped < size:
            chunk = self.head()
            if chunk is None:
                return None
            piece = self._cut(size - self._grouped) if len(chunk) else chunk
            if piece.error is not None and self._grouped + len(piece) < size:
                return self.fail(piece)
            self._group.append(piece)
            self._grouped += len(piece)
            if piece.error is not None:
                self._held = Chunk.failed(piece.error)
        return self.group()

    def group(self) -> Chunk:
        """What has been gathered, together."""
        pieces, self._group, self._grouped = self._group, [], 0
        return self._with_notes(joined(pieces))

    @property
    def gathered(self) -> int:
        """Elements of the group that has been begun."""
        return self._grouped

    def fail(self, chunk: Chunk) -> Chunk:
        """An error that comes next, with the notes before it, in place of what has been begun."""
        assert chunk.error is not None
        self._held, self._group, self._grouped = None, [], 0
        return self._with_notes(Chunk.failed(chunk.error))

    def drop_group(self) -> None:
        """Leaves out what has been gathered, but not its notes."""
        self._notes += tuple(note for piece in self._group for note in piece.notes)
        self._group, self._grouped = [], 0

    def rest(self) -> Chunk | None:
        """The notes behind the last element, where there are any."""
        return self._with_notes(Chunk([], (), (), (), ())) if self._notes else None
