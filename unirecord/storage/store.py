"""A bucket, as its client sees it: made from a URL and options, and what it says when a request fails."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping
from multiprocessing import parent_process
from typing import Any, Final, Literal
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from ..core import Locked
from ..errors import StaleError, UniRecordError
from .pacing import RequestRate, Retries, retries_of
from .storage_options import StorageOptions

__all__ = [
    "NOWHERE",
    "Store",
    "Verdict",
    "asked_url",
    "client_module",
    "failure",
    "in_short",
    "is_past_the_end",
    "is_silence",
    "let_go",
    "not_after_fork",
    "verdict_of",
]


# What the client of object stores says when a request fails: whether to make it again, and how it is told.


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


# A bucket, as its client sees it: made from a URL and options, and made anew when its credentials have expired.


_ENDPOINTS: Final = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT", "AZURE_STORAGE_ENDPOINT")
_ENDPOINT_OPTIONS: Final = ("endpoint", "endpoint_url", "base_url")
_KEYS: Final = ("AWS_ACCESS_KEY_ID", "AWS_SKIP_SIGNATURE", "AWS_WEB_IDENTITY_TOKEN_FILE")
_REGIONS: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
# where the client gets credentials from: the machine's own metadata, and the services of the clouds for them
_CREDENTIALS: Final = (
    *("169.254.169.254", "169.254.170.2", "169.254.170.23", "fd00:ec2::254", "fd00:ec2::23"),
    *("metadata.google.internal", "metadata", "oauth2.googleapis.com", "iamcredentials.googleapis.com"),
    *("sts.amazonaws.com", "sts.googleapis.com", "login.microsoftonline.com"),
)
_OF_CLOUDS: Final = ("AWS_", "GOOGLE_", "AZURE_", "IDENTITY_ENDPOINT", "MSI_ENDPOINT")


def client_module() -> Any:
    """The package obstore; UniRecordError says how to get it."""
    try:
        import obstore
    except ImportError:
        raise UniRecordError(
            "object stores are read by the package obstore: pip install 'unirecord[remote]'"
        ) from None
    return obstore


def let_go() -> None:
    """Has the client let go of Python's objects that its threads have no use for: it does so when it is called."""
    client_module().store.MemoryStore()


class Store:
    """The clients of one bucket, with one set of options: ``once`` for requests that we make again, ``patient``.

    ``patient`` makes requests again by itself, as those that write need.
    """

    root: str
    options: StorageOptions | None

    def __init__(
        self, root: str, options: StorageOptions | None, retry_config: Mapping[str, Any] | None
    ) -> None:
        self.root, self.options = root, options
        self.retries: Retries = (options and options.retries) or retries_of(retry_config)
        self.budget: RequestRate | None = None if options is None else options.budget()
        self.has_answered = False  # as it was asked
        self.is_reached = False  # it has said something, be it an error
        self.is_told_of = False  # that there is no answer
        self.error: BaseException | None = None  # of the last attempt that failed
        self._retry_config = retry_config
        self._making = Locked()
        self._host: str | None = None  # that the bucket is reached at
        self._once: Any = None
        self._patient: Any = None

    @property
    def contact(self) -> float:
        """Seconds in which it must say something for the first time; a worker's job has heard of it before."""
        return self.retries.contact if parent_process() is None else self.retries.patience

    @property
    def once(self) -> Any:
        """The client that makes each request once."""
        client = self._once
        if client is None:
            with self._making.lock:
                client = self._once = self._once or self._open({"max_retries": 0})
        return client

    @property
    def patient(self) -> Any:
        """The client that makes failed requests again."""
        client = self._patient
        if client is None:
            given = None if self.options is None else self.options.retries
            client = self._patient = self._open(given.for_client() if given else self._retry_config)
        return client

    def renew(self, client: Any) -> None:
        """Has credentials asked for anew, of the environment, a profile or the provider: those of ``client`` failed."""
        with self._making.lock:
            if client is self._once:
                self._once = self._patient = None

    def _open(self, retry_config: Any) -> Any:
        _keep_to_one_process()
        client_module()
        from obstore.exceptions import BaseError
        from obstore.store import from_url

        options = self.options
        config = {} if options is None else dict(options.config)
        client = {} if options is None else dict(options.client)
        client.setdefault("allow_http", self._is_plain(config))
        provider = self._provider(config)
        extra = {} if provider is None else {"credential_provider": provider}
        try:
            client.update(self._one_host(config, client))
            return from_url(
                self.root, config=config or None, client_options=client, retry_config=retry_config, **extra
            )  # type: ignore[call-overload]
        except (BaseError, ValueError, TypeError) as error:
            raise self._refusal(error) from None  # which may quote the values
        except Exception as error:
            raise failure(self.root, error) from error

    def _one_host(self, config: dict[str, Any], client: dict[str, Any]) -> dict[str, str]:
        """The options with which the client reaches no host but the bucket's, and those that give credentials.

        The client follows redirects, and sends a session token or headers of the user's along. So all requests to
        other hosts go to a proxy that is none. Where the user has a proxy, only that can tell: the client has one.
        """
        if client.get("proxy_url"):
            return {}
        if self._host is None:
            self._host = self._find_host(config, client)
        proxies = getproxies()
        has_proxy = any(name in proxies for name in ("http", "https", "all"))
        if has_proxy and not proxy_bypass(self._host):
            return {}
        hosts = [self._host, *_CREDENTIALS, *self._hosts_named(config)]
        return {"proxy_url": NOWHERE, "proxy_excludes": ",".join(dict.fromkeys(hosts))}

    def _find_host(self, config: dict[str, Any], client: dict[str, Any]) -> str:
        """The host of the bucket: that of the URL of a request which reaches nothing, as the client has made it."""
        from obstore.store import from_url

        plain = {name: value for name, value in config.items() if not name.lower().endswith("skip_signature")}
        if client_module().parse_scheme(self.root) != "http":
            plain["skip_signature"] = "true"  # or credentials would be asked for
        nowhere = from_url(
            self.root,
            config=plain or None,
            client_options={**client, "proxy_url": NOWHERE, "proxy_excludes": ""},
            retry_config={"max_retries": 0},
        )  # type: ignore[call-overload]
        try:
            client_module().head(nowhere, "host")
        except Exception as error:
            host = urlsplit(asked_url(error)).hostname
            if host is not None:
                return host
        raise UniRecordError(f"{self.root}: this version of obstore does not say which host it asks")

    def _hosts_named(self, config: dict[str, Any]) -> list[str]:
        """The hosts that the options and the environment name, and the one that gives credentials in the region."""
        named = [str(value) for value in config.values()]
        named += [value for name, value in os.environ.items() if name.startswith(_OF_CLOUDS)]
        hosts = [urlsplit(value).hostname for value in named if value.startswith(("http://", "https://"))]
        regions = [str(config[name]) for name in config if name.lower().endswith("region")]
        regions += [os.environ[name] for name in _REGIONS if os.environ.get(name)]
        found = [*hosts, *(f"sts.{region}.amazonaws.com" for region in regions)]
        return [host for host in found if host and not set(host) & set("*,/ ")]

    def _is_plain(self, config: Mapping[str, Any]) -> bool:
        """Whether there is no encryption: an endpoint that the user has named so is meant so."""
        named = [str(config[name]) for name in config if name.lower().endswith(_ENDPOINT_OPTIONS)]
        if not any(named):
            named = [os.environ.get(name, "") for name in _ENDPOINTS]
        return any(url.startswith("http://") for url in (self.root, *named))

    def _provider(self, config: dict[str, Any]) -> Any:
        """What is asked for credentials: what was given, or a profile of the AWS configuration."""
        given = {} if self.options is None else self.options.given
        if given.get("credential_provider") is not None:
            return given["credential_provider"]
        profile = given.get("profile") or (None if config else os.environ.get("AWS_PROFILE"))
        if not self.root.startswith("s3://"):
            if given.get("profile"):
                raise ValueError(f"the storage option 'profile' is of s3:// alone, not of {self.root}")
            return None
        if not profile or (not given.get("profile") and any(os.environ.get(name) for name in _KEYS)):
            return None
        try:
            import boto3  # type: ignore[import-not-found,import-untyped,unused-ignore]
            from obstore.auth.boto3 import Boto3CredentialProvider
        except ImportError:
            raise UniRecordError(
                f"{self.root}: the profile {profile!r} is read by the package boto3: pip install boto3"
            ) from None
        try:
            session = boto3.Session(profile_name=profile)
        except Exception as error:  # botocore's: there is none of that name, or its files are wrong
            raise UniRecordError(f"{self.root}: the profile {profile!r} cannot be read: {error}") from None
        if session.region_name and not any(name.lower().endswith("region") for name in config):
            config["region"] = session.region_name
        return Boto3CredentialProvider(session)

    def _refusal(self, error: Exception) -> Exception:
        said = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        options = self.options
        if options is None:
            return OSError(errno.EIO, said, self.root)
        unknown = [name for name in options.names if f"'{name}'" in said]
        if unknown and type(error).__name__ == "UnknownConfigurationKeyError":
            return ValueError(
                f"{self.root}: there is no storage option {unknown[0]!r}{options.hint(unknown[0])}"
            )
        given = ", ".join(options.names)
        return ValueError(
            f"{self.root}: the storage options are refused: {options.hidden(said)} (given: {given})"
        )


_used_in: list[int] = []  # the process whose threads the client's are


def _keep_to_one_process() -> None:
    """UniRecordError in a fork of a process that has made a client: the threads behind it are not there."""
    if not _used_in:
        _used_in.append(os.getpid())
    if _used_in[0] != os.getpid():
        raise not_after_fork()


def not_after_fork() -> UniRecordError:
    """What is said where a client is used in a fork of the process that made it."""
    return UniRecordError(
        "the client of object stores, used before this process was forked, does not survive that: start workers "
        'by "spawn" or "forkserver" (multiprocessing_context=), or use threads'
    )
