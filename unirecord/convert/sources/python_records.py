"""Records that a function of the user's own module gives: ``module:generator`` in the place of a path."""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from typing import ClassVar, Final

from ...errors import MissingError
from ...progress import Progress
from .base import Options, WrongSourceError
from .given import GivenRecords
from .input_path import InputPath

__all__ = ["PythonRecords"]

_NAME: Final = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)")


class PythonRecords(GivenRecords):
    """A generator function, iterable or map-style dataset, imported as ``python -c`` in this folder would."""

    kind: ClassVar[str] = "python"
    about: ClassVar[str] = "records of a program (module:function)"
    item: ClassVar[str] = "record"
    reads: ClassVar[str] = "module:function"

    def __init__(self, source: InputPath, options: Options, progress: Progress | None = None) -> None:
        """``source``: what was named."""
        module_name, name = _split(source.name)
        if os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
        try:
            module = import_module(module_name)
        except ModuleNotFoundError as error:
            raise MissingError(
                f"{source.name}: there is no module {error.name!r} in this folder or in Python's path"
            ) from None
        if not hasattr(module, name):
            raise WrongSourceError(f"{source.name}: the module {module_name} has no {name!r}")
        super().__init__(getattr(module, name), options, name=source.name)

    @classmethod
    def recognises(cls, source: InputPath) -> bool:
        """A name with a colon that is no file's."""
        return _NAME.fullmatch(source.name) is not None and not os.path.exists(source.path)

    @classmethod
    def can_read(cls, source: InputPath) -> bool:
        """Only such a name."""
        return cls.recognises(source)


def _split(name: str) -> tuple[str, str]:
    found = _NAME.fullmatch(name)
    assert found is not None
    return found[1], found[2]
