"""What the client of object stores says when a request fails: whether to make it again, and how it is told."""

from __future__ import annotations

import errno
import os
import re
from typing import Final, Literal

from ..errors import StaleError, UniRecordError

__all__ = [
    "NOWHERE",
    "Verdict",
    "asked_url",
    "failure",
    "in_short",
    "is_past_the_end",
    "is_silence",
    "verdict_of",
]

Verdict = Literal["final", "again", "slower", "renew"]

# a proxy that nothing can listen at, to which requests go that must not be made: those to another host
NOWHERE: Final = "http://127.0.0.1:0"
_WENT_NOWHERE: Final = re.compile(r"\b127\.0\.0\.1:0\b")
_ASKED: Final = re.compile(r"Error performing \w+ (\S+) in ")
_REASON: Final = re.compile(r'message: "([^"\\]+)"')
_METADATA_SERVER: Final = "169.254.169.254"
_QUERY: Final = re.compile(r"(\w+://[^\s?]+)\?\S+")  # which may hold a signature
_STATUS: Final = re.compile(r"non-2xx status code: (\d{3}) ?([^:]*)")
_CODE: Final = re.compile(r"<Code>(\w+)</Code>")
_PREFIX: Final = re.compile(r"^Generic \w+ error: |Error performing \w+ \S+ in \S+( - |, )?")
_REDIRECT: Final = (
    "Received redirect without LOCATION, this normally indicates an incorrectly configured region"
)
_MOST_SAID: Final = 4096  # characters of what a store says that are looked at
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


def _text(error: BaseException) -> str:
    """What the client says without its debug output, on one line: the first line of XML says nothing."""
    said = " ".join(str(error).partition("\n\nDebug source:")[0].split())
    return _QUERY.sub(r"\1?…", said[:_MOST_SAID]) or type(error).__name__


def _first_line(error: BaseException) -> str:
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return _QUERY.sub(r"\1?…", line)


def _has_expired(error: BaseException) -> bool:
    """Whether the store says so of the credentials; some do by 400, not by 401 or 403."""
    said = _text(error)
    return any(code in said for code in _EXPIRED_CODES)


def asked_url(error: BaseException) -> str:
    """The URL of the request that failed, as the client says it; empty where it does not."""
    found = _ASKED.search(str(error).partition("\n")[0])
    return found[1] if found else ""


def _went_elsewhere(error: BaseException) -> bool:
    """Whether the request was to a host that is not the store's: the store has sent it there by a redirect."""
    return _WENT_NOWHERE.search(str(error)) is not None


def verdict_of(error: BaseException) -> Verdict:
    """What is to be done about a failed request: asked once more, slower, with new credentials; or nothing."""
    if not isinstance(error, Exception) or isinstance(error, _FINAL) or _went_elsewhere(error):
        return "final"
    said = _text(error)
    found = _STATUS.search(said)
    status = int(found[1]) if found else 0
    if _has_expired(error) or status in (401, 403):
        return "renew"
    if status in _TOO_MUCH or any(code in said for code in _TOO_MUCH_CODES):
        return "slower"
    if status in _AGAIN or status >= 505:
        return "again"
    if _METADATA_SERVER in said:
        return "final"
    return "again" if is_silence(error) else "final"


def is_silence(error: BaseException) -> bool:
    """Whether nothing has been heard of the store: no connection, or one that ended without an answer."""
    if isinstance(error, (ConnectionError, TimeoutError)):
        return True
    said = _text(error)
    return "HTTP error" in said and _STATUS.search(said) is None


def in_short(error: BaseException) -> str:
    """What the client says without the path and the bytes asked for, and why a host could not be reached."""
    line = _first_line(error)
    status = _STATUS.search(line)
    if status is None:
        reason = _REASON.search(str(error))
        return _PREFIX.sub("", line) + (f": {reason[1]}" if reason else "")
    code = _CODE.search(_text(error))
    return f"the store answered {status[1]} {status[2].strip()}" + (f", {code[1]}" if code else "")


def is_past_the_end(error: BaseException) -> bool:
    """Whether the store says that the object has no byte of the range (416)."""
    found = _STATUS.search(_first_line(error))
    return found is not None and found[1] == "416"


def failure(path: str, error: BaseException) -> BaseException:
    """The exception of a request, with the path, what the client says of it in short, and what to do."""
    if not isinstance(error, Exception) or isinstance(error, UniRecordError):
        return error
    said = in_short(error)
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    if type(error).__name__ == "PreconditionError":
        return StaleError(f"{path}: the object has been replaced since it was opened; open it again")
    if _has_expired(error):
        return PermissionError(
            errno.EACCES, f"{said}; the credentials have expired: get new ones (docs/storage.md)", path
        )
    if isinstance(error, PermissionError) or type(error).__name__ in _REFUSED:
        return PermissionError(errno.EACCES, f"{said}; check the credentials (docs/storage.md)", path)
    if _METADATA_SERVER in _first_line(error):  # which the client asks for credentials when there are none
        said = (
            "no credentials were found in the environment (docs/storage.md says which); for a public bucket, "
            f"AWS_SKIP_SIGNATURE=true or GOOGLE_SKIP_SIGNATURE=true: {said}"
        )
    elif _went_elsewhere(error):
        said = (
            "the store redirects to another host, which is not followed: it would be sent the credentials; name the "
            "host where the data lie"
        )
    elif verdict_of(error) in ("again", "slower"):
        said += "; is the store there, and not overloaded?"
    elif is_past_the_end(error):  # what the C core passes on has room for 160 characters in all
        said += "; the object has been cut: run `unirecord verify`"
    elif _REDIRECT in said or _STATUS.search(_first_line(error)):
        said = said.replace(_REDIRECT, "the store sends to another one")
        said += "; check endpoint and region (docs/storage.md)"
    return OSError(errno.EIO, said, path)
