"""LeRobot's datasets as records, a row per frame: Parquet files of episodes, what meta/ says of them, and their videos.

None of the programs that write them is needed. Versions 2.0 and 2.1 have a file for each episode, 3.0 many episodes in
one. Paths of videos are templates in meta/info.json, of which the fields that LeRobot has are filled in and no others.
"""

from __future__ import annotations

import io
import json
import math
import mmap
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ...errors import SchemaError
from ...progress import Progress
from ...sizes import format_size, many
from .foreign_libraries import foreign_call, needed
from .input_path import InputPath
from .jsonl import json_object
from .media_types import file_type
from .overrides import TypesThere
from .parquet import ParquetFiles
from .source import (
    TRUST,
    AskedOption,
    Misfit,
    Options,
    RawBatch,
    Source,
    Unit,
    WantedColumns,
    WrongSourceError,
    reduced,
)
from .text_values import parse_json

__all__ = ["LeRobotFolder"]


# What meta/ says: features, tasks, statistics, and of each episode in which video it is, and from which time on.


_INFO: Final = "meta/info.json"
_NEEDS: Final = "a dataset of LeRobot"
_VERSION: Final = re.compile(r"v?(2\.[01]|3\.0)")
_VIDEO_PATHS: Final = {
    "2": "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
    "3": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
}
_FIELD: Final = re.compile(r"\{([a-z_]+)(?::0?([1-9])d)?\}")
_NUMBERS: Final = frozenset((
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
))  # fmt: skip
_MOST_TABLE_BYTES: Final = 256 << 20  # of a table in meta/, and of JSON Lines there
_MOST_METADATA: Final = 1 << 20  # characters, as JSON
_PER_FRAME: Final = frozenset(("frame_index", "timestamp"))
_EPISODES: Final = re.compile(r"(\d{1,18}):(\d{1,18})")
_POINTER: Final = b"version https://git-lfs.github.com/"


@dataclass(frozen=True)
class _Feature:
    """What meta/info.json says of a column."""

    dtype: str
    shape: tuple[int, ...]


class _Videos(NamedTuple):
    """Where the frames of a feature are: by episode, which file and from which time on; without files: by template.

    ``firsts``: the first episode of each file.
    """

    template: str
    files: Mapping[int, tuple[Mapping[str, int], float]]
    firsts: frozenset[int]


class _Splits(NamedTuple):
    """Which episodes are of which split: ascending, each from its first to the one before ``stops``."""

    names: tuple[str, ...]
    firsts: npt.NDArray[np.int64]
    stops: npt.NDArray[np.int64]

    def of(self, episodes: Sequence[int]) -> list[str | None]:
        """The split of each of these episodes; None where it is of none."""
        found = np.searchsorted(self.firsts, episodes, side="right") - 1
        there = (found >= 0) & (np.asarray(episodes) < self.stops[found])
        return [
            self.names[i] if is_in else None for i, is_in in zip(found.tolist(), there.tolist(), strict=True)
        ]


def _split_ranges(said: Any, episodes: Any) -> _Splits | None:
    """The splits that meta/info.json says; None where there are none, or one has all episodes.

    ValueError where they are no ranges of episodes, or ranges that share some.
    """
    if said is not None and not isinstance(said, dict):
        raise ValueError(f"they are {said!r:.80}")
    ranges = []
    for name, value in (said or {}).items():
        found = _EPISODES.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            raise ValueError(f"{name!r:.40} is {value!r:.40}, and no range of episodes such as '0:50'")
        if int(found[1]) < int(found[2]):
            ranges.append((int(found[1]), int(found[2]), name))
    ranges.sort()
    for (_, stop, name), (first, _, other) in pairwise(ranges):
        if first < stop:
            raise ValueError(f"episode {first} is of {name!r:.40} and of {other!r:.40}")
    if not ranges or (len(ranges) == 1 and ranges[0][:2] == (0, episodes)):
        return None
    firsts, stops, names = zip(*ranges, strict=True)
    return _Splits(names, np.array(firsts, np.int64), np.array(stops, np.int64))


def _file(source: InputPath, name: str) -> InputPath:
    return InputPath(f"{source.name}/{name}", os.path.join(source.path, *name.split("/")))


def _features(info: Mapping[str, Any], name: str) -> dict[str, _Feature]:
    said = info.get("features")
    if not isinstance(said, dict) or not said:
        raise SchemaError(f"{name} says no features, which are the columns of the dataset")
    found = {}
    for key, one in said.items():
        dtype, shape = (one.get("dtype"), one.get("shape")) if isinstance(one, dict) else (None, None)
        shape = [] if shape is None else shape
        if not isinstance(dtype, str) or not isinstance(shape, list):
            raise SchemaError(f"{name}: the feature {key!r} has no dtype and shape")
        if not all(type(dim) is int and 0 < dim < 1 << 31 for dim in shape):
            raise SchemaError(f"{name}: the feature {key!r} has the shape {shape}, which is none")
        found[key] = _Feature(dtype, tuple(shape))
    return found


def _filled(template: str, fields: Mapping[str, Any], name: str) -> str:
    """The path that a template says, below the dataset's folder; nothing but the fields given is filled in."""

    def value(found: re.Match[str]) -> str:
        if found[1] not in fields:
            raise SchemaError(
                f"{name}: video_path has the field {found[1]!r:.80}, which is none of {', '.join(fields)}"
            )
        given = fields[found[1]]
        return str(given) if found[2] is None else f"{int(given):0{found[2]}d}"

    path = _FIELD.sub(value, template)
    outside = os.path.isabs(path) or ".." in path.split("/") or "\\" in path or "\0" in path
    if outside or "{" in path or "}" in path:
        raise SchemaError(f"{name}: video_path {template!r:.200} is no path below the dataset's folder")
    return path


def _json_lines(file: InputPath) -> Iterator[dict[str, Any]]:
    text = file.content(_MOST_TABLE_BYTES, "list of episodes or tasks")
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                found = parse_json(line.decode())
            except ValueError as error:
                raise SchemaError(f"{file.name}, line {number}: {error}") from None
            if not isinstance(found, dict):
                raise SchemaError(f"{file.name}, line {number} is no JSON object")
            yield found


def _table(file: InputPath, columns: Sequence[str] | None = None) -> Any:
    """The table in a Parquet file of meta/, of these columns where they are there."""
    reader = needed("pyarrow.parquet", _NEEDS, "pyarrow")
    _check_footer(file)
    with foreign_call("pyarrow", file.name):
        opened = reader.ParquetFile(file.local_path(), pre_buffer=False)
        groups = [opened.metadata.row_group(i).total_byte_size for i in range(opened.metadata.num_row_groups)]
        if sum(groups) > _MOST_TABLE_BYTES:
            raise SchemaError(
                f"{file.name} is larger than {format_size(_MOST_TABLE_BYTES)}, which is no list of episodes or tasks"
            )
        there = [name for name in opened.schema_arrow.names if columns is None or name in columns]
        return opened.read(there, use_threads=False)


def _check_footer(file: InputPath) -> None:
    with file.open() as stream:
        stream.seek(max(0, stream.seek(0, 2) - 4))
        if stream.read(4) != b"PAR1":
            _refuse_pointer(file)
            raise SchemaError(
                f"{file.name} has no footer, so that nothing in it can be found: the dataset was never finalised; "
                "call dataset.finalize() in the program that records it, or record it again"
            )


def _refuse_pointer(file: InputPath) -> None:
    """Raise `SchemaError` where git has cloned the dataset without the contents of its large files."""
    if file.head(len(_POINTER)) == _POINTER:
        raise SchemaError(
            f"{file.name} is a pointer of Git LFS, and not the file: `git lfs pull` in the clone brings all files, or "
            "`hf download` the dataset"
        )


def _column(table: Any, name: str, file: InputPath) -> npt.NDArray[Any]:
    """A column of numbers, none of them null."""
    if name not in table.column_names or table.column(name).null_count:
        raise SchemaError(f"{file.name} has no column {name!r}, or nulls in it")
    found: npt.NDArray[Any] = table.column(name).to_numpy()
    if found.dtype.kind not in "iuf":
        raise SchemaError(f"{file.name}, column {name!r}: expected numbers, got {table.column(name).type}")
    return found


def _tasks(source: InputPath, version: str) -> dict[int, str]:
    """The text of each task by its index; none where the dataset has no tasks."""
    lines, table = _file(source, "meta/tasks.jsonl"), _file(source, "meta/tasks.parquet")
    pairs: list[tuple[Any, Any]] = []
    name = lines.name
    if version == "2" and os.path.isfile(lines.path):
        pairs = [(one.get("task_index"), one.get("task")) for one in _json_lines(lines)]
    elif version == "3" and os.path.isfile(table.path):
        name, found = table.name, _table(table)
        texts = next((one for one in ("task", "__index_level_0__") if one in found.column_names), None)
        if texts is None or "task_index" not in found.column_names:
            raise SchemaError(f"{name} has no columns task_index and task")
        pairs = list(zip(found["task_index"].to_pylist(), found[texts].to_pylist(), strict=True))
    for number, text in pairs:
        if type(number) is not int or not isinstance(text, str):
            raise SchemaError(
                f"{name}: a task is a whole number and a text, got {number!r:.40}, {text!r:.80}"
            )
    return dict(pairs)


def _statistics(source: InputPath) -> dict[str, Any]:
    """Least and greatest value, mean, deviation and count of each feature; of episodes put together."""
    whole, episodes = _file(source, "meta/stats.json"), _file(source, "meta/episodes_stats.jsonl")
    if os.path.isfile(whole.path):
        return json_object(whole)
    if not os.path.isfile(episodes.path):
        return {}
    found: dict[str, dict[str, Any]] = {}
    for line in _json_lines(episodes):
        for key, one in (line.get("stats") or {}).items():
            try:
                said = {name: np.asarray(one[name], np.float64) for name in _KEPT}
                if said["count"].sum() > 0:
                    found[key] = _both(found.get(key), said)
            except (KeyError, TypeError, ValueError):
                raise SchemaError(
                    f"{episodes.name}: the statistics of {key!r} in episode {line.get('episode_index')} are none"
                ) from None
    return {key: {name: value.tolist() for name, value in one.items()} for key, one in found.items()}


_KEPT: Final = ("min", "max", "mean", "std", "count")


def _both(one: dict[str, Any] | None, other: dict[str, Any]) -> dict[str, Any]:
    """The statistics of both (Chan, Golub and LeVeque, "Updating Formulae and a Pairwise Algorithm", 1979)."""
    if one is None:
        return other
    n, m = one["count"].sum(), other["count"].sum()
    apart = other["mean"] - one["mean"]
    squares = n * one["std"] ** 2 + m * other["std"] ** 2 + apart**2 * (n * m / (n + m))
    return {
        "min": np.minimum(one["min"], other["min"]),
        "max": np.maximum(one["max"], other["max"]),
        "mean": one["mean"] + apart * (m / (n + m)),
        "std": np.sqrt(squares / (n + m)),
        "count": one["count"] + other["count"],
    }


# The frames of a video by their times, one after the other, by PyAV.


class _Frames:
    """The frames of one file, for times that do not fall; ``half`` of the time between two frames is the tolerance."""

    def __init__(self, file: InputPath, start: float, half: float) -> None:
        av = needed("av", "decoding videos", "av")
        _refuse_missing(file)
        self.name, self.reached, self._half = file.name, start, half
        with foreign_call("av", file.name):
            self._container = av.open(file.path)
            self._stream = self._container.streams.video[0]
            self._stream.thread_type = "AUTO"
            if start > 1:
                self._container.seek(int(min(start - half, 1e9) * 1_000_000), backward=True)
            self._frames = self._container.decode(self._stream)
        self._next: Any = None

    def at(self, seconds: float) -> Any | None:
        """The frame that is shown at a time; None where there is none."""
        self.reached = seconds
        with foreign_call("av", self.name):
            while self._next is None or self._next.time < seconds - self._half:
                self._next = next(self._frames, None)
                if self._next is None:
                    return None
            return self._next if self._next.time <= seconds + self._half else None

    def close(self) -> None:
        self._container.close()


def _jpeg(frame: Any) -> bytes:
    out = io.BytesIO()
    frame.to_image().save(out, "JPEG", quality=_QUALITY, subsampling=0)
    return out.getvalue()


_QUALITY: Final = 95
_VIDEO: Final = AskedOption(
    "video",
    "what becomes of videos: pictures of their frames (decode, the default, by PyAV), none, or keep: the file in the "
    "first of its rows, and in each row the file's name and its time there",
    "HOW",
)
_HOW: Final = ("decode", "keep", "none")
_ROWS_WITH_PICTURES: Final = 64  # of a batch, of which frames are decoded


class LeRobotFolder(Source):
    """A LeRobot dataset, a row per frame, with the text of its task."""

    kind: ClassVar[str] = "lerobot"
    about: ClassVar[str] = "LeRobot datasets (v2.0, v2.1, v3.0)"
    item: ClassVar[str] = "frame"
    reads: ClassVar[str] = f"a folder with {_INFO}"
    reads_files: ClassVar[bool] = False
    options: ClassVar[tuple[AskedOption, ...]] = (_VIDEO, TRUST)
    libraries: ClassVar[tuple[str, ...]] = ("pyarrow.parquet",)

    @classmethod
    def recognises(cls, source: InputPath) -> bool:
        """By what meta/info.json begins with."""
        if not source.is_folder or source.is_elsewhere:
            return False
        info = _file(source, _INFO)
        return os.path.isfile(info.path) and b'"codebase_version"' in info.head(4096)

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Read what meta/ says, and the ends of the Parquet files."""
        self._how = options.get("video", "decode")
        if self._how not in _HOW:
            raise WrongSourceError(f"--video is one of {', '.join(_HOW)}, got {self._how!r}")
        name = f"{self.path}/{_INFO}"
        info = json_object(_file(self.input, _INFO))
        version = _VERSION.fullmatch(str(info.get("codebase_version")))
        if version is None:
            raise SchemaError(
                f"{name} says version {info.get('codebase_version')!r:.40} of LeRobot; v2.0, v2.1 and v3.0 are known"
            )
        self._version = version[1][0]
        features = _features(info, name)
        fps = info.get("fps")
        if not isinstance(fps, int | float) or not 0 < fps < math.inf:
            raise SchemaError(f"{name} says {fps!r:.40} frames a second, which is no rate")
        self._fps = fps
        self._tasks = _tasks(self.input, self._version)
        keys = [key for key, one in features.items() if one.dtype == "video"]
        self._keys = keys if self._how != "none" else []
        self._split = self._splits(info)
        self._rows = self._parquet(features, options)
        self._check_count(info.get("total_frames"), name)
        self._videos = {
            key: self._places(key, info, name)
            for key in self._keys
            if any(map(options.wants, (key, *self._beside(key))))
        }
        self._chunk = info.get("chunks_size", 1000)
        if type(self._chunk) is not int or self._chunk < 1:
            raise SchemaError(f"{name} says {self._chunk!r:.40} episodes a chunk")
        self.schema = options.schema(self._types(name))
        self.units: Sequence[Unit] = self._rows.units
        self.left_out += self._rows.left_out
        self.notes += self._rows.notes
        self.metadata = self._about(info, features)
        if keys and self._how == "none":
            self.notes.append(f"without its videos: {', '.join(keys)}")

    def _parquet(self, features: Mapping[str, _Feature], options: Options) -> ParquetFiles:
        """The files of episodes, as numbers of the shapes that the features say."""
        data = _file(self.input, "data")
        if not os.path.isdir(data.path):
            raise SchemaError(f"{data.name} does not exist, in which the frames are")
        for file in data.files(ParquetFiles.suffixes):
            _check_footer(file)
        types: dict[str, Any] = {
            key: {"type": one.dtype, "shape": list(one.shape)}
            for key, one in features.items()
            if one.dtype in _NUMBERS and one.shape not in ((), (1,))
        }
        types |= {key: file_type("image/*") for key, one in features.items() if one.dtype == "image"}
        wanted = options.wanted
        if wanted is not None:
            needed_too = {"task_index", "episode_index", *(_PER_FRAME if self._keys else ())}
            names = frozenset(key for key in wanted.names | needed_too if key in features)
            wanted = WantedColumns(names, wanted.words)
        asked = {TRUST.name: options.get(TRUST.name)}
        inner = Options(
            TypesThere({**types, **options.overrides}, {}),
            None,
            options.threads,
            options.on_error,
            wanted,
            **asked,
        )
        found = ParquetFiles(data, inner)
        missing = [
            key for key, one in features.items()
            if one.dtype != "video" and key not in found.schema and inner.wants(key)
        ]  # fmt: skip
        if missing:
            raise SchemaError(
                f"{data.name}: its files have no column {missing[0]!r}, which {_INFO} says is a feature"
            )
        return found

    def _splits(self, info: Mapping[str, Any]) -> _Splits | None:
        """What becomes a column."""
        try:
            found = _split_ranges(info.get("splits"), info.get("total_episodes"))
        except ValueError as error:
            self.left_out.append(
                reduced(f"the splits in {_INFO}", f"no column split: {error}", column="split")
            )
            return None
        if found is not None:
            told = f"{', '.join(found.names[:5])}{', …' if len(found.names) > 5 else ''}"
            self.notes.append(
                f"column split, of {told} (--split-by split writes each to a dataset of its own)"
            )
        return found

    def _check_count(self, said: Any, name: str) -> None:
        rows = self._rows.rows or 0
        if type(said) is int and rows < said:
            raise SchemaError(
                f"{self.path}/data has {many(rows, 'frame')}, and {name} says {said:,}: files are missing"
            )
        if type(said) is int and rows > said:
            self.notes.append(f"{many(rows, 'frame', 'are')} there, and {name} says {said:,}")

    def _types(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = {column.name: column.spec for column in self._rows.schema}
        more: dict[str, Any] = {}
        if self._tasks and "task_index" in found:
            more["task"] = "string"
        if self._split is not None and "episode_index" in found:
            more["split"] = "string?"
        for key in self._keys:
            if self._how == "decode":
                more[key] = file_type("image/jpeg")
            else:
                more |= {key: file_type("video/mp4", "bytes?"), **self._beside(key)}
        both = found.keys() & more.keys()
        if both:
            raise SchemaError(
                f"{name}: {min(both)!r} is a column of its files, and made of its {_made_of(min(both))}"
            )
        return {**found, **more}

    def _beside(self, key: str) -> dict[str, Any]:
        """The columns that say, of a video that is kept, where in it a frame is."""
        return {f"{key}.file": "string", f"{key}.time": "float64"} if self._how == "keep" else {}

    def _about(self, info: Mapping[str, Any], features: Mapping[str, _Feature]) -> dict[str, Any]:
        """What the dataset's metadata says."""
        said: dict[str, Any] = {
            "version": str(info["codebase_version"]), "fps": self._fps, "robot_type": info.get("robot_type"),
            "features": {key: {"dtype": one.dtype, "shape": list(one.shape)} for key, one in features.items()},
        }  # fmt: skip
        for key, value in (
            ("tasks", [text for _, text in sorted(self._tasks.items())]),
            ("splits", info.get("splits") or {}),
            ("stats", _statistics(self.input)),
        ):
            text = json.dumps(value)
            if len(text) > _MOST_METADATA:
                self.left_out.append(
                    reduced(f"the {key} in meta/", "left out of the metadata: they are long")
                )
            elif value:
                # NaN and infinities are text
                said[key] = json.loads(text, parse_constant=str)
        return {**(self._rows.metadata or {}), "lerobot": said}

    def _places(self, key: str, info: Mapping[str, Any], name: str) -> _Videos:
        """Where the frames of a feature are."""
        template = info.get("video_path") or _VIDEO_PATHS[self._version]
        if not isinstance(template, str):
            raise SchemaError(f"{name}: video_path is a text, got {template!r:.80}")
        if self._version == "2":
            return _Videos(template, {}, frozenset())
        columns = [f"videos/{key}/{one}" for one in ("chunk_index", "file_index", "from_timestamp")]
        files: dict[int, tuple[Mapping[str, int], float]] = {}
        listed = _file(self.input, "meta/episodes")
        if not os.path.isdir(listed.path):
            raise SchemaError(
                f"{listed.name} does not exist, which says where episodes are in the videos: the dataset was never "
                "finalised; record it again, or leave videos out by --video none"
            )
        for file in listed.files(ParquetFiles.suffixes):
            table = _table(file, ["episode_index", *columns])
            episodes, chunks, numbers, starts = (
                _column(table, one, file).tolist() for one in ("episode_index", *columns)
            )
            for episode, chunk, number, start in zip(episodes, chunks, numbers, starts, strict=True):
                if not 0 <= start < math.inf or chunk < 0 or number < 0:
                    raise SchemaError(
                        f"{file.name}: episode {episode} begins at {start} s of its video {key!r}"
                    )
                files[int(episode)] = {"chunk_index": int(chunk), "file_index": int(number)}, float(start)
        firsts: dict[tuple[int, ...], int] = {}
        for episode in sorted(files, reverse=True):
            firsts[tuple(files[episode][0].values())] = episode
        return _Videos(template, files, frozenset(firsts.values()))

    def _place(self, key: str, episode: int) -> tuple[InputPath, float]:
        """The file with the frames of an episode, and the time in it at which it begins."""
        videos, start = self._videos[key], 0.0
        fields: Mapping[str, Any] = {"episode_chunk": episode // self._chunk, "episode_index": episode}
        if self._version == "3":
            if episode not in videos.files:
                raise SchemaError(
                    f"{self.path}/meta/episodes says nothing of episode {episode}, which has frames"
                )
            fields, start = videos.files[episode]
        path = _filled(videos.template, {"video_key": key, **fields}, f"{self.path}/{_INFO}")
        return _file(self.input, path), start

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield the frames of a row group."""
        names = set(self.schema.names)
        keys = [key for key in self._keys if key in names or not names.isdisjoint(self._beside(key))]
        open_now: dict[str, _Frames] = {}
        try:
            for batch in self._rows.read(unit):
                for part in (
                    self._parts(batch, 1 if self._how == "keep" else _ROWS_WITH_PICTURES)
                    if keys
                    else (batch,)
                ):
                    misfits = [*part.misfits]
                    columns = {name: values for name, values in part.columns.items() if name in names}
                    if "task" in names and self._tasks:
                        columns["task"] = self._texts(part, unit, misfits)
                    if "split" in names and self._split is not None:
                        columns["split"] = self._split.of(
                            _whole(part.columns["episode_index"], "episode_index", unit)
                        )
                    for key in keys:
                        if self._how == "decode":
                            columns[key] = self._pictures(key, part, unit, open_now, misfits)
                        else:
                            columns |= self._kept(key, part, unit)
                    kept = {name: columns[name] for name in self.schema.names}
                    yield RawBatch(kept, part.rows, part.left_out, tuple(misfits))
        finally:
            for frames in open_now.values():
                frames.close()

    def _parts(self, batch: RawBatch, most_rows: int) -> Iterator[RawBatch]:
        """A few rows at a time: frames of many would take much memory."""
        for first in range(0, batch.rows, most_rows):
            places = np.arange(first, min(first + most_rows, batch.rows))
            part = batch.taken(places)
            misfits = tuple(
                one._replace(row=one.row - first)
                for one in batch.misfits
                if one.row is not None and first <= one.row < first + most_rows
            )
            left_out = part.left_out if first == 0 else ()
            misfits += tuple(one for one in batch.misfits if one.row is None and first == 0)
            yield RawBatch(part.columns, part.rows, left_out, misfits)

    def _texts(self, batch: RawBatch, unit: Unit, misfits: list[Misfit]) -> list[str]:
        found = []
        for row, number in enumerate(_whole(batch.columns["task_index"], "task_index", unit)):
            if number not in self._tasks:
                misfits.append(Misfit(unit.name, f"a frame of task {number}, which meta/ does not have", row))
            found.append(self._tasks.get(number, ""))
        return found

    def _pictures(
        self, key: str, batch: RawBatch, unit: Unit, open_now: dict[str, _Frames], misfits: list[Misfit]
    ) -> list[bytes]:
        found = []
        half = 0.5 / self._fps
        for row, (episode, seconds) in enumerate(self._times(batch, unit)):
            file, start = self._place(key, episode)
            frames = open_now.get(key)
            # episodes may stand in another order than in their video
            if frames is None or frames.name != file.name or start + seconds < frames.reached:
                if frames is not None:
                    frames.close()
                frames = open_now[key] = _Frames(file, start + seconds, half)
            frame = frames.at(start + seconds)
            if frame is None:
                misfits.append(
                    Misfit(
                        unit.name,
                        f"{file.name} has no frame at {start + seconds:.3f} s, of episode {episode}",
                        row,
                    )
                )
            found.append(b"" if frame is None else _jpeg(frame))
        return found

    def _kept(self, key: str, batch: RawBatch, unit: Unit) -> dict[str, Any]:
        """The file in the first row of the first of its episodes; of each row the file's name, and its time there."""
        files: list[memoryview | None] = []
        names, times = [], []
        numbers = _whole(batch.columns["frame_index"], "frame_index", unit)
        for number, (episode, seconds) in zip(numbers, self._times(batch, unit), strict=True):
            file, start = self._place(key, episode)
            names.append(file.name.removeprefix(f"{self.path}/"))
            times.append(start + seconds)
            first = number == 0 and (self._version == "2" or episode in self._videos[key].firsts)
            files.append(_content(file) if first else None)
        return {key: files, f"{key}.file": names, f"{key}.time": np.array(times, np.float64)}

    def _times(self, batch: RawBatch, unit: Unit) -> Iterator[tuple[int, float]]:
        times = batch.columns["timestamp"]
        if (
            not isinstance(times, np.ndarray)
            or isinstance(times, np.ma.MaskedArray)
            or not np.isfinite(times).all()
        ):
            raise SchemaError(f"{unit.name}: timestamp is not a finite number in every row")
        return zip(
            _whole(batch.columns["episode_index"], "episode_index", unit),
            times.astype(float).tolist(),
            strict=True,
        )


def _made_of(name: str) -> str:
    return {"task": "tasks", "split": "splits"}.get(name, "videos")


def _refuse_missing(video: InputPath) -> None:
    if not os.path.isfile(video.path):
        raise SchemaError(f"{video.name} does not exist, in which frames of the dataset are")
    _refuse_pointer(video)


def _content(video: InputPath) -> memoryview:
    """The bytes of a file, of which none is in memory that has not been looked at.

    A file that is cut while it is looked at ends the process, which is the child that reads the source.
    """
    _refuse_missing(video)
    with video.open() as stream:
        if not stream.seek(0, 2):
            raise SchemaError(f"{video.name} is empty, and no video")
        return memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))


def _whole(values: Any, name: str, unit: Unit) -> list[int]:
    """Whole numbers of 0 or more, none of them null."""
    if (
        not isinstance(values, np.ndarray)
        or isinstance(values, np.ma.MaskedArray)
        or values.dtype.kind not in "iu"
    ):
        raise SchemaError(f"{unit.name}: {name} is not a whole number in every row")
    if len(values) and values.min() < 0:
        raise SchemaError(f"{unit.name}: {name} is {values.min()}, and is 0 or more")
    found: list[int] = values.tolist()
    return found
