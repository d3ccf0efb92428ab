"""What the client of object stores says when a request fails: whether to make it again, and how it is told."""

from __future__ import annotations

import errno
import os
import re
from typing import Final, Literal

from ..errors import StaleError, UniRecordError

__all__ = ["Verdict", "failure", "is_past_the_end", "verdict_of"]

Verdict = Literal["final", "again", "slower", "renew"]

_METADATA_SERVER: Final = "169.254.169.254"
_QUERY: Final = re.compile(r"(\w+://[^\s?]+)\?\S+")  # which may hold a signature
_STATUS: Final = re.compile(r"non-2xx status code: (\d{3}) ?([^:]*)")
_CODE: Final = re.compile(r"<Code>(\w+)</Code>")
_PREFIX: Final = re.compile(r"^Generic \w+ error: |Error performing \w+ \S+ in \S+( - |, )?")
_REDIRECT: Final = (
    "Received redirect without LOCATION, this normally indicates an incorrectly configured region"
)
_REFUSED: Final = ("PermissionDeniedError", "UnauthenticatedError")
_TOO_MUCH: Final = (429, 503)
_TOO_MUCH_CODES: Final = ("SlowDown", "RequestLimitExceeded", "TooManyRequests", "ServerBusy", "Throttl")
_EXPIRED_CODES: Final = (
    "ExpiredToken",
    "TokenRefreshRequired",
    "InvalidToken",
    "RequestExpired",
    "token expired",
)
_FINAL: Final = (UniRecordError, FileNotFoundError, ValueError, TypeError)
_AGAIN: Final = (408, 500, 502, 504)


def _first_line(error: BaseException) -> str:
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return _QUERY.sub(r"\1?…", line)


def verdict_of(error: BaseException) -> Verdict:
    """What is to be done about a failed request: asked once more, slower, with new credentials; or nothing."""
    if not isinstance(error, Exception) or isinstance(error, _FINAL):
        return "final"
    said = _first_line(error)
    found = _STATUS.search(said)
    status = int(found[1]) if found else 0
    if any(code in said for code in _EXPIRED_CODES) or status in (401, 403):
        return "renew"
    if status in _TOO_MUCH or any(code in said for code in _TOO_MUCH_CODES):
        return "slower"
    if status in _AGAIN or status >= 505:
        return "again"
    if _METADATA_SERVER in said:
        return "final"
    if isinstance(error, (ConnectionError, TimeoutError)) or (not status and "HTTP error" in said):
        return "again"
    return "final"


def is_past_the_end(error: BaseException) -> bool:
    """Whether the store says that the object has no byte of the range (416)."""
    found = _STATUS.search(_first_line(error))
    return found is not None and found[1] == "416"


def failure(path: str, error: BaseException) -> BaseException:
    """The exception of a request, with the path, what the client says of it in short, and what to do."""
    if not isinstance(error, Exception) or isinstance(error, UniRecordError):
        return error
    said = _in_short(_first_line(error))
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    if type(error).__name__ == "PreconditionError":
        return StaleError(f"{path}: the object has been replaced since it was opened; open it again")
    if isinstance(error, PermissionError) or type(error).__name__ in _REFUSED:
        return PermissionError(errno.EACCES, f"{said}; check the credentials (docs/storage.md)", path)
    if _METADATA_SERVER in _first_line(error):  # which the client asks for credentials when there are none
        said = (
            "no credentials were found in the environment (docs/storage.md says which); for a public bucket, "
            f"AWS_SKIP_SIGNATURE=true or GOOGLE_SKIP_SIGNATURE=true: {said}"
        )
    elif verdict_of(error) in ("again", "slower"):
        said += "; is the store there, and not overloaded?"
    elif is_past_the_end(error):  # what the C core passes on has room for 160 characters in all
        said += "; the object has been cut: run `unirecord verify`"
    elif _REDIRECT in said or _STATUS.search(_first_line(error)):
        said = said.replace(_REDIRECT, "the store sends to another one")
        said += "; check endpoint and region (docs/storage.md)"
    return OSError(errno.EIO, said, path)


def _in_short(line: str) -> str:
    """A line of the client without what the path and the bytes asked for say."""
    status = _STATUS.search(line)
    if status is None:
        return _PREFIX.sub("", line)
    code = _CODE.search(line)
    return f"the store answered {status[1]} {status[2].strip()}" + (f", {code[1]}" if code else "")
