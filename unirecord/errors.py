"""The exceptions of UniRecord, one class for each thing a caller can do about it, and a hint for their messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class UniRecordError(Exception):
    """Base of every error but those for wrong calls: ``IndexError``, ``TypeError``, ``ValueError``."""


class FormatError(UniRecordError):
    """The file is not a UniRecord file, is unfinished, or needs a newer reader."""


class CorruptionError(UniRecordError):
    """The file is ours, but its bytes are not those that were written.

    Attributes say where: ``path``, ``row`` (in the part), ``column`` (a name), ``offset`` (bytes); each None
    when it does not apply.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        row: int | None = None,
        column: str | None = None,
        offset: int | None = None,
    ) -> None:
        super().__init__(message)
        self.path = path
        self.row = row
        self.column = column
        self.offset = offset


class StaleError(UniRecordError):
    """The file is no longer the one that was opened or expected: replaced, truncated, or another part."""


class SchemaError(UniRecordError, ValueError):
    """A schema is wrong, or a record does not fit it."""


class QueryError(UniRecordError, ValueError):
    """A ``where`` expression is wrong; the message points at the place. Or a key is that of several rows."""


class NoRowError(UniRecordError, KeyError):
    """No row has the value that was asked for."""

    def __str__(self) -> str:
        """The message, of which a KeyError shows the repr."""
        return str(self.args[0])


class MissingError(UniRecordError, FileNotFoundError):
    """A file that the dataset needs does not exist."""


class ExistsError(UniRecordError, FileExistsError):
    """The target exists already and overwriting was not asked for."""


class BusyError(UniRecordError):
    """Another writer that is alive holds the dataset."""


class ClosedError(UniRecordError, ValueError):
    """The writer, dataset or loader has been closed."""


class PictureError(UniRecordError, ValueError):
    """A picture cannot be decoded: it is broken, cut off, larger than is allowed, or of a kind that is not known."""


class ColumnError(UniRecordError):
    """A column cannot be read or written here, and the others can.

    Its type or codec is of a later version, or libzstd is missing.
    """


class TransformError(UniRecordError):
    """A transform raised while a loader ran it: ``__cause__`` is what it raised.

    ``row`` is the row's number in the dataset (−1: a whole batch), ``path`` its part.
    """

    def __init__(self, message: str, row: int = -1, path: str = "") -> None:
        super().__init__(message)
        self.row = row
        self.path = path


class LeftOutWarning(UserWarning):
    """A conversion has left out something that the source has, or has written it in another form.

    ``left_out`` has one entry for each, with its ``name``, the ``reason``, and how many ``rows`` or times (``count``).
    """

    def __init__(self, message: str, left_out: Iterable[Any] = ()) -> None:
        super().__init__(message)
        self.left_out = tuple(left_out)


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the option nearest to ``word``, or nothing when none is near."""
    import difflib

    by_folded = {option.lower(): option for option in options}
    found = difflib.get_close_matches(str(word).lower(), list(by_folded), n=1, cutoff=0.6)
    return f"; did you mean {by_folded[found[0]]!r}?" if found else ""
