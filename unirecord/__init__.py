"""The public names of UniRecord, each imported from its module when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .convert.add_columns import ColumnsAdded, add_columns
    from .convert.export import Exported, export
    from .convert.update import Updated, set_values, update, upsert
    from .convert.write_dataset import split, write_dataset
    from .dataset.batch_loader import BatchLoader
    from .dataset.dataset import UniRecordDataset
    from .dataset.draws import DrawnBatches, balanced, bucketed, mix, packed, weighted, windows
    from .dataset.order_queries import OrderQueries
    from .dataset.samples_cache import SamplesCache, samples_cache
    from .dataset.sequences import sequences
    from .errors import (
        BusyError,
        ClosedError,
        ColumnError,
        CorruptionError,
        ExistsError,
        FormatError,
        LeftOutWarning,
        MissingError,
        NoRowError,
        PictureError,
        QueryError,
        SchemaError,
        StaleError,
        TransformError,
        UniRecordError,
    )
    from .format.column import Codec, Column
    from .format.schema import Schema
    from .format.values.objects import Extension
    from .inspect.audit import AuditedEpoch, AuditedLaunch, AuditedOrder, AuditReport, audit
    from .inspect.describe import ColumnDescription, Description, PartDescription, describe
    from .inspect.diff import Diff, DiffExample, RetypedColumn, diff
    from .inspect.history import Version, versions
    from .inspect.notebook import ProgressBar, Shown, plot, progress_bar, show
    from .inspect.repair import repair
    from .inspect.verify import Problem, RepairReport, Report, Salvaged, verify
    from .loading.batch import RaggedArray
    from .loading.boxes import Crop
    from .loading.stats import StageStats, Stats
    from .order.coverage import PositionRange
    from .order.windows import cu_seqlens
    from .pipeline.operators import InPlace, InPlaceTogether, SkipSample
    from .pipeline.pipeline import Pipeline
    from .pipeline.tuner import PipelinePlan
    from .snapshot.cache import CacheStats
    from .writing.deletion import Deleted, Evicted, Purged, delete, evict, purge
    from .writing.garbage import Collected, gc
    from .writing.manifest_changes import ColumnsChanged, drop_columns, rename_columns, restore
    from .writing.rewrite import Merged, Rewritten, compact, merge, reshard, sort
    from .writing.writer import Writer, append

__all__ = [
    "Writer",
    "append",
    "write_dataset",
    "export",
    "Exported",
    "UniRecordDataset",
    "mix",
    "weighted",
    "balanced",
    "bucketed",
    "windows",
    "packed",
    "sequences",
    "samples_cache",
    "SamplesCache",
    "CacheStats",
    "cu_seqlens",
    "DrawnBatches",
    "OrderQueries",
    "BatchLoader",
    "Stats",
    "StageStats",
    "RaggedArray",
    "Crop",
    "Pipeline",
    "PipelinePlan",
    "InPlace",
    "InPlaceTogether",
    "SkipSample",
    "Schema",
    "Codec",
    "Column",
    "Extension",
    "show",
    "plot",
    "Shown",
    "describe",
    "Description",
    "ColumnDescription",
    "PartDescription",
    "verify",
    "Report",
    "Problem",
    "repair",
    "RepairReport",
    "Salvaged",
    "add_columns",
    "ColumnsAdded",
    "drop_columns",
    "rename_columns",
    "ColumnsChanged",
    "update",
    "upsert",
    "set_values",
    "Updated",
    "delete",
    "Deleted",
    "evict",
    "Evicted",
    "purge",
    "Purged",
    "compact",
    "reshard",
    "Rewritten",
    "merge",
    "Merged",
    "sort",
    "split",
    "versions",
    "Version",
    "progress_bar",
    "ProgressBar",
    "diff",
    "Diff",
    "DiffExample",
    "RetypedColumn",
    "restore",
    "gc",
    "Collected",
    "audit",
    "AuditReport",
    "AuditedOrder",
    "AuditedEpoch",
    "AuditedLaunch",
    "PositionRange",
    "UniRecordError",
    "FormatError",
    "CorruptionError",
    "StaleError",
    "SchemaError",
    "QueryError",
    "LeftOutWarning",
    "MissingError",
    "NoRowError",
    "ExistsError",
    "BusyError",
    "ClosedError",
    "PictureError",
    "ColumnError",
    "TransformError",
    "__version__",
]

_HOMES = {
    "Writer": "writing.writer",
    "append": "writing.writer",
    "write_dataset": "convert.write_dataset",
    "export": "convert.export",
    "Exported": "convert.export",
    "UniRecordDataset": "dataset.dataset",
    "mix": "dataset.draws",
    "samples_cache": "dataset.samples_cache",
    "SamplesCache": "dataset.samples_cache",
    "CacheStats": "snapshot.cache",
    "cu_seqlens": "order.windows",
    "DrawnBatches": "dataset.draws",
    "OrderQueries": "dataset.order_queries",
    "weighted": "dataset.draws",
    "balanced": "dataset.draws",
    "bucketed": "dataset.draws",
    "windows": "dataset.draws",
    "packed": "dataset.draws",
    "sequences": "dataset.sequences",
    "BatchLoader": "dataset.batch_loader",
    "RaggedArray": "loading.batch",
    "Crop": "loading.boxes",
    "Pipeline": "pipeline.pipeline",
    "PipelinePlan": "pipeline.tuner",
    "StageStats": "loading.stats",
    "Stats": "loading.stats",
    "InPlace": "pipeline.operators",
    "InPlaceTogether": "pipeline.operators",
    "SkipSample": "pipeline.operators",
    "Schema": "format.schema",
    "Codec": "format.column",
    "Column": "format.schema",
    "Extension": "format.values.objects",
    "show": "inspect.notebook",
    "plot": "inspect.notebook",
    "Shown": "inspect.notebook",
    "describe": "inspect.describe",
    "Description": "inspect.describe",
    "ColumnDescription": "inspect.describe",
    "PartDescription": "inspect.describe",
    "verify": "inspect.verify",
    "Report": "inspect.verify",
    "Problem": "inspect.verify",
    "delete": "writing.deletion",
    "Deleted": "writing.deletion",
    "add_columns": "convert.add_columns",
    "ColumnsAdded": "convert.add_columns",
    "drop_columns": "writing.manifest_changes",
    "rename_columns": "writing.manifest_changes",
    "ColumnsChanged": "writing.manifest_changes",
    "update": "convert.update",
    "upsert": "convert.update",
    "set_values": "convert.update",
    "Updated": "convert.update",
    "evict": "writing.deletion",
    "Evicted": "writing.deletion",
    "purge": "writing.deletion",
    "Purged": "writing.deletion",
    "compact": "writing.rewrite",
    "reshard": "writing.rewrite",
    "Rewritten": "writing.rewrite",
    "merge": "writing.rewrite",
    "Merged": "writing.rewrite",
    "split": "convert.write_dataset",
    "restore": "writing.manifest_changes",
    "sort": "writing.rewrite",
    "gc": "writing.garbage",
    "Collected": "writing.garbage",
    "versions": "inspect.history",
    "Version": "inspect.history",
    "progress_bar": "inspect.notebook",
    "ProgressBar": "inspect.notebook",
    "diff": "inspect.diff",
    "Diff": "inspect.diff",
    "DiffExample": "inspect.diff",
    "RetypedColumn": "inspect.diff",
    "repair": "inspect.repair",
    "RepairReport": "inspect.verify",
    "Salvaged": "inspect.verify",
    "audit": "inspect.audit",
    "AuditReport": "inspect.audit",
    "AuditedOrder": "inspect.audit",
    "AuditedEpoch": "inspect.audit",
    "AuditedLaunch": "inspect.audit",
    "PositionRange": "order.coverage",
}


_MODULES = (
    "torch",
    "tf",
    "jax",
    "grain",
    "hf",
    "keras",
    "lightning",
    "mindspore",
    "ray",
    "arrow",
    "polars",
    "images",
    "examples",
)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name not in __all__:
        from .migration_hints import OF_PACKAGES

        more = f"; {OF_PACKAGES[name]}" if name in OF_PACKAGES else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{more}")
    value = getattr(import_module(f"{__name__}.{_HOMES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES, *(name for name in globals() if name.startswith("__"))})
