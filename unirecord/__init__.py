"""The public names of UniRecord, each imported from its module when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .dataset.dataset import UniRecordDataset
    from .errors import (
        BusyError,
        ClosedError,
        CorruptionError,
        ExistsError,
        FormatError,
        MissingError,
        QueryError,
        SchemaError,
        StaleError,
        TransformError,
        UniRecordError,
    )
    from .format.schema import Column, Schema
    from .inspection.describe import describe
    from .inspection.repair import repair
    from .inspection.verify import verify
    from .loading.ragged import RaggedArray
    from .writing.writer import Writer, append

__all__ = [
    "Writer",
    "append",
    "UniRecordDataset",
    "RaggedArray",
    "Schema",
    "Column",
    "describe",
    "verify",
    "repair",
    "UniRecordError",
    "FormatError",
    "CorruptionError",
    "StaleError",
    "SchemaError",
    "QueryError",
    "MissingError",
    "ExistsError",
    "BusyError",
    "ClosedError",
    "TransformError",
    "__version__",
]

_HOMES = {
    "Writer": "writing.writer",
    "append": "writing.writer",
    "UniRecordDataset": "dataset.dataset",
    "RaggedArray": "loading.ragged",
    "Schema": "format.schema",
    "Column": "format.schema",
    "describe": "inspection.describe",
    "verify": "inspection.verify",
    "repair": "inspection.repair",
}


_ADAPTERS = ("torch", "tf")


def __getattr__(name: str) -> Any:
    if name in _ADAPTERS:
        return import_module(f"{__name__}.{name}")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_ADAPTERS})
