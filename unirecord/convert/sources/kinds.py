"""The kinds of sources there are, and which of them reads a path: what was asked for, or what recognises it."""

from __future__ import annotations

from inspect import isabstract
from typing import Any, Final

from ...migration_hints import WRITING_ARGUMENTS, argument_hint
from ...progress import Progress
from ..plugins import with_installed
from .arrayrecord import ArrayRecordFiles
from .arrow_files import ArrowFiles
from .bagz import BagzFiles
from .beton import BetonFile
from .child_reader import looked_through
from .cifar import CifarFiles
from .coco import CocoFile
from .csv import CsvTable
from .file_folder import FileFolder
from .given import GivenRecords
from .hdf5 import Hdf5File
from .idx_files import IdxFiles
from .images import ImageFolder
from .input_path import InputPath, open_input
from .jsonl import JsonLines
from .lance_dataset import LanceDataset
from .lerobot import LeRobotFolder
from .litdata import LitDataChunks
from .lmdb_folder import LmdbFolder
from .mask_folders import MaskFolders
from .mds import MdsShards
from .mindrecord import MindRecordFiles
from .npy_files import NpyFiles
from .parquet import ParquetFiles, refuse_table_folder
from .source import Options, Source, WrongSourceError
from .stored_dataset import StoredDataset
from .text_files import TextLines
from .tfrecord import TFRecordFiles
from .token_files import DatatroveFiles, FlatTokens, MegatronFiles
from .voc import VocFolder
from .webdataset import WebDatasetShards
from .yolo import YoloFolder
from .zarr_group import ZarrGroup

__all__ = ["KINDS", "SOURCES", "open_source", "refuse_unknown", "source_type"]

# The first one that recognises a path reads it: what has a mark of its own comes before what any folder could be.
_OWN: Final[tuple[type[Source], ...]] = (
    GivenRecords,
    StoredDataset,
    CsvTable,
    JsonLines,
    TextLines,
    CocoFile,
    VocFolder,
    YoloFolder,
    LeRobotFolder,
    MegatronFiles,
    IdxFiles,
    CifarFiles,
    LmdbFolder,
    LanceDataset,
    ZarrGroup,
    LitDataChunks,
    Hdf5File,
    MindRecordFiles,
    MdsShards,
    BetonFile,
    ArrayRecordFiles,
    BagzFiles,
    DatatroveFiles,
    TFRecordFiles,
    WebDatasetShards,
    MaskFolders,
    ImageFolder,
    ParquetFiles,
    ArrowFiles,
    NpyFiles,
    FlatTokens,
    FileFolder,
)


def _kind_of(found: Any) -> str | None:
    is_one = isinstance(found, type) and issubclass(found, Source) and not isabstract(found)
    return found.kind if is_one else None


SOURCES: Final[tuple[type[Source], ...]] = with_installed(
    _OWN, "unirecord.sources", _kind_of, before=MaskFolders
)
KINDS: Final = tuple(source.kind for source in SOURCES)


def open_source(
    source: str | InputPath,
    kind: str | None = None,
    options: Options | None = None,
    progress: Progress | None = None,
) -> Source:
    """Look through the raw data at a path and return it as a source.

    ``kind`` is one of `KINDS`, found from the path when left out. Raises `MissingError`, `WrongSourceError` when the
    call is wrong, and `SchemaError` about the data.
    """
    found = source if isinstance(source, InputPath) else open_input(source)
    options = options or Options()
    refuse_unknown(options)
    options.recognised = kind is None
    make = source_type(found, kind)
    if kind is None:
        make = _that_takes(options, found, make)
    for name in options.given():
        if name not in make.takes():
            takers = ", ".join(other.kind for other in SOURCES if name in other.takes())
            raise WrongSourceError(
                f"--{name.replace('_', '-')} is for {takers}; {found.name} is read as {make.kind}"
            )
    return looked_through(make, found, options, progress)


def refuse_unknown(options: Options) -> None:
    """Raise TypeError about an option that no kind of source obeys."""
    there = {name for source in SOURCES for name in source.takes()}
    for name in options.given():
        if name not in there:
            raise TypeError(f"there is no option {name}={argument_hint(name, WRITING_ARGUMENTS, there)}")


def source_type(source: InputPath, kind: str | None = None) -> type[Source]:
    """Return the kind of source that reads a path: ``kind`` when given, else the one that recognises it.

    Raises `WrongSourceError` when there is none, or when ``kind`` does not read such a path.
    """
    if source.is_folder and not source.is_elsewhere:
        refuse_table_folder(source.name, source.path)
    return _recognised(source) if kind is None else _asked_for(kind, source)


def _asked_for(kind: str, source: InputPath) -> type[Source]:
    make = next((one for one in SOURCES if one.kind == kind), None)
    if make is None:
        raise WrongSourceError(f"unknown kind of source {kind!r}; there are {', '.join(KINDS)}")
    if source.is_elsewhere and make is not StoredDataset:
        raise _not_read_there(source)
    if not make.can_read(source) and not (make.any_names and source.says_no_kind):
        there = "a folder" if source.is_folder else "a file"
        raise WrongSourceError(f"{source.name} is {there}; {kind} are read from {make.reads}")
    return make


def _that_takes(options: Options, source: InputPath, recognised: type[Source]) -> type[Source]:
    """The one other kind that all options given are for and that reads such a folder, where pictures are not."""
    given = set(options.given())
    if recognised is not ImageFolder or given <= recognised.takes():
        return recognised
    others = [one for one in SOURCES if one.can_read(source) and given <= one.takes()]
    return others[0] if len(others) == 1 else recognised


def _not_read_there(source: InputPath) -> WrongSourceError:
    return WrongSourceError(
        f"{source.name} is in an object store, where datasets of UniRecord alone are read; copy it to a disk first"
    )


def _recognised(source: InputPath) -> type[Source]:
    others = (make for make in SOURCES if make is not StoredDataset)
    if source.is_elsewhere and any(source.suffix in make.suffixes for make in others):
        raise _not_read_there(source)
    for make in SOURCES:
        if make.recognises(source):
            return make
    if source.is_folder:
        return ImageFolder  # which says what it holds instead
    kinds = " or ".join(one.kind for one in SOURCES if one.can_read(source))
    raise WrongSourceError(
        f"{source.name}: cannot tell what it is from its name or its first bytes; say so with --from {kinds}"
    )
