"""``storage_options``: how a store is reached and with what credentials, as obstore and fsspec know them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from ..errors import did_you_mean
from .pacing import RequestRate, Retries, retries_of

__all__ = ["StorageOptions", "current_storage", "storage_of", "use_storage", "use_storage_by_default"]

# of obstore's client (its ClientConfig), which may also be given beside the configuration
_OF_THE_CLIENT: Final = (
    *(
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "default_content_type",
        "default_headers",
    ),
    *("http1_only", "http2_keep_alive_interval", "http2_keep_alive_timeout", "http2_keep_alive_while_idle"),
    *("http2_only", "pool_idle_timeout", "pool_max_idle_per_host", "proxy_url", "proxy_ca_certificate"),
    *("proxy_excludes", "root_certificate", "randomize_addresses", "read_timeout", "timeout", "user_agent"),
)
_DURATIONS: Final = ("timeout", "interval")  # how their names end
_OWN: Final = (
    "client_options",
    "credential_provider",
    "max_requests_per_second",
    "profile",
    "retry_config",
)
# of obstore's configurations, to which more names and prefixes belong: hints for what it does not know
_CONFIGURATION: Final = (
    *(
        "access_key_id",
        "secret_access_key",
        "session_token",
        "region",
        "endpoint",
        "skip_signature",
        "role_arn",
    ),
    *(
        "virtual_hosted_style_request",
        "request_payer",
        "service_account",
        "service_account_key",
        "bearer_token",
    ),
    *("application_credentials", "account_name", "account_key", "client_id", "client_secret", "tenant_id"),
    *("sas_key", "token", "use_azure_cli", "web_identity_token_file", "unsigned_payload"),
)
_SHORTEST_SECRET: Final = 4  # characters


@dataclass(frozen=True)
class StorageOptions:
    """Options that have been checked as far as they can be without a store. Neither shown nor compared by value."""

    given: Mapping[str, Any] = field(repr=False)
    config: Mapping[str, Any] = field(repr=False)
    client: Mapping[str, Any] = field(repr=False)
    retries: Retries | None
    rate: float | None
    key: str = field(repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return storage_of, (dict(self.given),)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorageOptions) and other.key == self.key

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def names(self) -> tuple[str, ...]:
        """What has been given, without the values."""
        return tuple(self.given)

    def budget(self) -> RequestRate | None:
        """A fresh budget of requests, if one was asked for."""
        return None if self.rate is None else RequestRate(self.rate)

    def hidden(self, text: str) -> str:
        """A text of the client without the values that were given: they may be secrets."""
        for value in sorted(_texts(self.given), key=len, reverse=True):
            text = text.replace(value, "…")
        return text

    def hint(self, unknown: str) -> str:
        """``"; did you mean 'x'?"`` for an option that the store does not know, or nothing."""
        return did_you_mean(unknown, (*_CONFIGURATION, *_OF_THE_CLIENT, *_OWN))


def storage_of(given: Mapping[str, Any] | None) -> StorageOptions | None:
    """The options as checked; None for none. TypeError, ValueError name the option, never its value."""
    if not given:
        return None
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise TypeError("storage_options is a dict of options by name")
    client = _dict_of(given, "client_options")
    client.update((name, value) for name, value in given.items() if name in _OF_THE_CLIENT)
    for name in client:
        if name not in _OF_THE_CLIENT:
            raise ValueError(f"client_options has no {name!r}{did_you_mean(name, _OF_THE_CLIENT)}")
        client[name] = _duration(client[name]) if name.endswith(_DURATIONS) else client[name]
    config = {name: value for name, value in given.items() if name not in (*_OF_THE_CLIENT, *_OWN)}
    for name, value in config.items():
        if value is None:
            raise ValueError(f"the storage option {name!r} is None: leave it out")
    retries = retries_of(_dict_of(given, "retry_config")) if "retry_config" in given else None
    rate = given.get("max_requests_per_second")
    if rate is not None and (isinstance(rate, bool) or not isinstance(rate, (int, float)) or not rate > 0):
        raise ValueError("max_requests_per_second is a number above 0")
    if given.get("credential_provider") is not None and not callable(given["credential_provider"]):
        raise TypeError("credential_provider is called without arguments, and gives credentials")
    key = hashlib.sha256(
        repr(sorted((name, _told(value)) for name, value in given.items())).encode()
    ).hexdigest()
    return StorageOptions(dict(given), config, client, retries, None if rate is None else float(rate), key)


def _duration(value: Any) -> Any:
    """A number of seconds as obstore takes it; all else as it is, ``"30s"`` too."""
    try:
        return timedelta(seconds=float(value))
    except (TypeError, ValueError, OverflowError):
        return value


def _dict_of(given: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = given.get(name, {})
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} is a dict, not {type(value).__name__}")
    return dict(value)


def _told(value: Any) -> Any:
    """What tells one value from another: objects by which they are."""
    if isinstance(value, Mapping):
        return sorted((str(name), _told(each)) for name, each in value.items())
    return value if isinstance(value, (str, bytes, int, float, bool, timedelta)) else (type(value), id(value))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, (str, bytes)):
        text = value if isinstance(value, str) else value.decode(errors="replace")
        if len(text) >= _SHORTEST_SECRET:
            yield text


_current: ContextVar[StorageOptions | None] = ContextVar("unirecord_storage", default=None)
_default: list[StorageOptions] = []


def current_storage() -> StorageOptions | None:
    """The options of what is being opened; None for what the environment says."""
    return _current.get() or (_default[0] if _default else None)


@contextmanager
def use_storage(options: StorageOptions | None) -> Iterator[None]:
    """What is opened within the block has these options."""
    before = _current.set(options)
    try:
        yield
    finally:
        _current.reset(before)


@contextmanager
def use_storage_by_default(options: StorageOptions | None) -> Iterator[None]:
    """What any thread opens within the block has these options, if it has none of its own."""
    before = list(_default)
    _default[:] = [] if options is None else [options]
    try:
        yield
    finally:
        _default[:] = before
