"""``load_dataset("unirecord", data_files=…)``: a packaged module of Hugging Face datasets, over public names alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import datasets
from datasets.builder import Key
from datasets.table import table_cast

import unirecord

if TYPE_CHECKING:
    import pyarrow

    class _BuilderConfig:  # type checkers cannot see into datasets, which has no py.typed: what is used of it
        data_files: Any

    class _ArrowBasedBuilder:
        config: Any
        info: Any

    class _CountableBuilder: ...
else:
    _BuilderConfig, _ArrowBasedBuilder = datasets.BuilderConfig, datasets.ArrowBasedBuilder
    _CountableBuilder = datasets.builder._CountableBuilderMixin

__all__ = ["Unirecord", "UnirecordConfig"]

MANIFEST = "manifest.json"
_STORES = ("s3", "gs", "az", "https", "http")
_SHARDS = 64  # of a path, for `num_proc` and the workers of a stream
_BATCH_ROWS = 1000  # what datasets itself reads at a time

Stretch = tuple[str, int, int]  # rows [first, last) of a path


@dataclass
class UnirecordConfig(_BuilderConfig):
    """What is read: all ``columns`` or those named, rows that meet the condition ``where``, cast to ``features``.

    Without ``features`` the types and annotations of the columns say them. ``storage``: the ``storage_options`` of
    UniRecord's for an object store; those of ``datasets`` are for its own search of files.
    """

    features: datasets.Features | None = None
    columns: list[str] | None = None
    where: str | None = None
    storage: dict[str, Any] | None = None


class Unirecord(_ArrowBasedBuilder, _CountableBuilder):
    """Rows in their own order.

    A data file is a part (``a.urec``), or the manifest of a directory, which stands for all of its parts; on a disk or
    in an object store, where UniRecord reads it in place.
    """

    BUILDER_CONFIG_CLASS = UnirecordConfig

    def _info(self) -> datasets.DatasetInfo:
        return datasets.DatasetInfo(features=self.config.features)

    def _split_generators(self, dl_manager: Any) -> list[datasets.SplitGenerator]:
        if not self.config.data_files:
            raise ValueError(
                "no data files: pass data_files= (a.urec, or a directory's manifest.json), or data_dir="
            )
        splits = []
        for name, files in self.config.data_files.items():
            stretches: list[Stretch] = []
            for path in _paths(files):
                rows = self._open(path)
                self._check_features(path, unirecord.hf.dataset(rows, 1).features)
                count = max(1, min(_SHARDS, len(rows)))
                bounds = [len(rows) * i // count for i in range(count + 1)]
                stretches += [(path, first, last) for first, last in pairwise(bounds)]
            splits.append(datasets.SplitGenerator(name=name, gen_kwargs={"stretches": stretches}))
        return splits

    def _open(self, path: str) -> unirecord.UniRecordDataset:
        config = self.config
        return unirecord.UniRecordDataset(
            path, columns=config.columns, where=config.where, storage_options=config.storage
        )

    def _check_features(self, path: str, found: datasets.Features) -> None:
        """Take the features of the first path; the others must have the same, unless they are given."""
        if self.info.features is None:
            self.info.features = found
        elif self.config.features is None and found.arrow_schema != self.info.features.arrow_schema:
            raise ValueError(
                f"{path} has other columns than the data file before it: {found} instead of {self.info.features}; "
                "load them apart, or choose columns= that they share"
            )

    def _generate_shards(self, stretches: Sequence[Stretch]) -> Iterator[str]:
        for path, _, _ in stretches:
            yield path

    def _generate_num_examples(self, stretches: Sequence[Stretch]) -> Iterator[int]:
        for _, first, last in stretches:
            yield last - first

    def _generate_tables(self, stretches: Sequence[Stretch]) -> Iterator[tuple[Key, pyarrow.Table]]:
        opened: dict[str, unirecord.UniRecordDataset] = {}
        for number, (path, first, last) in enumerate(stretches):
            if path not in opened:
                opened = {path: self._open(path)}
            run = unirecord.hf.dataset(opened[path].select(range(first, last)), 1).with_format("arrow")
            for batch, table in enumerate(run.iter(_BATCH_ROWS)):
                yield Key(number, batch), table_cast(table, self.info.features.arrow_schema)


def _paths(files: Sequence[str]) -> list[str]:
    """The datasets that data files are of: directories whose manifest is among them, and parts of no such directory."""
    for name in map(str, files):
        scheme = name.partition("://")[0] if "://" in name else ""
        if scheme not in ("", *_STORES):
            raise ValueError(
                f"{name}: UniRecord reads files on disks and of {', '.join(f'{store}://' for store in _STORES)}. Fetch "
                "it first, as by huggingface_hub.snapshot_download, and give the files of its folder"
            )
    places = [str(name).rpartition("/") for name in files]
    whole = {folder for folder, _, name in places if name == MANIFEST}
    told = [place for place in places if place[2] == MANIFEST or place[2].endswith(".urec")]
    if not told:
        raise ValueError(f"no data file is a part (a.urec) or a {MANIFEST}: {', '.join(map(str, files[:3]))}")
    return list(
        dict.fromkeys(folder if folder in whole else folder + bar + name for folder, bar, name in told)
    )
