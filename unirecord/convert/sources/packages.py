"""Packages that only some sources need: imported when they are, with an error that says what to install."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ...errors import MissingError

__all__ = ["needed"]


def needed(module: str, what: str, package: str | None = None) -> Any:
    """Return a module that reads ``what``; `MissingError` says which package to install."""
    try:
        return import_module(module)
    except ImportError as error:
        package = package or module.partition(".")[0]
        raise MissingError(
            f"{what} needs {package}, which cannot be imported ({error}): pip install {package}"
        ) from None
