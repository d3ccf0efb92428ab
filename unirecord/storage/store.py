"""A bucket, as its client sees it: made from a URL and options, and made anew when its credentials have expired."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Mapping
from typing import Any, Final

from ..errors import UniRecordError
from .link_speed import LinkSpeed
from .pacing import Budget, Retries, retries_of
from .storage_options import StorageOptions
from .store_failures import failure

__all__ = ["Store", "client_module", "let_go"]

_ENDPOINTS: Final = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT", "AZURE_STORAGE_ENDPOINT")
_ENDPOINT_OPTIONS: Final = ("endpoint", "endpoint_url", "base_url")
_KEYS: Final = ("AWS_ACCESS_KEY_ID", "AWS_SKIP_SIGNATURE", "AWS_WEB_IDENTITY_TOKEN_FILE")


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
        self.budget: Budget | None = None if options is None else options.budget()
        self.has_answered = False
        self.speed: LinkSpeed = LinkSpeed()
        self._retry_config = retry_config
        self._making = threading.Lock()
        self._once: Any = None
        self._patient: Any = None

    @property
    def once(self) -> Any:
        """The client that makes each request once."""
        client = self._once
        if client is None:
            with self._making:
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
        with self._making:
            if client is self._once:
                self._once = self._patient = None

    def _open(self, retry_config: Any) -> Any:
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
            return from_url(
                self.root, config=config or None, client_options=client, retry_config=retry_config, **extra
            )  # type: ignore[call-overload]
        except (BaseError, ValueError, TypeError) as error:
            raise self._refusal(error) from None  # which may quote the values
        except Exception as error:
            raise failure(self.root, error) from error

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
