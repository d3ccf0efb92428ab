"""The option ``--storage-option`` of the commands that read object stores."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..storage.storage_options import storage_of, use_storage_by_default
from .usage import UsageError

__all__ = ["add_storage_option", "is_elsewhere", "storage_options"]


def add_storage_option(parser: argparse.ArgumentParser) -> None:
    """Add it."""
    parser.add_argument(
        "--storage-option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="of an object store, such as endpoint=http://host:9000; secrets are better left to the environment",
    )


@contextmanager
def storage_options(args: argparse.Namespace) -> Iterator[None]:
    """The command runs within; UsageError for what is no option, or where nothing is in a store."""
    given: dict[str, Any] = {}
    for text in getattr(args, "storage_option", ()):
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError("--storage-option is NAME=VALUE, such as region=eu-west-1")
        given[name] = float(value) if name == "max_requests_per_second" and _is_number(value) else value
    if given and not is_elsewhere(args):
        raise UsageError("--storage-option is of object stores, and nothing that is named is in one")
    try:
        options = storage_of(given)
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None
    with use_storage_by_default(options):
        yield


def is_elsewhere(args: argparse.Namespace) -> bool:
    """Whether anything that the command names is in an object store."""
    return any("://" in path for path in _paths(args))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _paths(args: argparse.Namespace) -> Iterator[str]:
    for name in ("path", "paths", "source", "target"):
        value = getattr(args, name, None)
        yield from [value] if isinstance(value, str) else map(str, value or ())
