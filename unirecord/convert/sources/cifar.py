"""CIFAR-10 and CIFAR-100 as records: the binary files, and those of the Python version, which are not trusted."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from shlex import quote
from typing import Any, ClassVar, Final

import numpy as np

from ...errors import SchemaError
from ...format.schema import Schema
from ...progress import Progress
from ...sizes import many
from .input_path import InputPath
from .overrides import apply_overrides
from .plain_pickle import plain_pickle
from .source import Options, RawBatch, Source, Unit

__all__ = ["CifarFiles"]

_PIXELS: Final = 3 * 32 * 32
_MOST_BYTES: Final = 1 << 30
_TRAIN: Final = (*(f"data_batch_{i}" for i in range(1, 6)), *(f"data_batch_{i}.bin" for i in range(1, 6)))
_TEST: Final = ("test_batch", "test_batch.bin")
_FILES: Final = (*_TRAIN, *_TEST, "train.bin", "test.bin")
_META: Final = ("batches.meta", "meta", "batches.meta.txt", "fine_label_names.txt")


class CifarFiles(Source):
    """Files of CIFAR. ``image`` is uint8 [32, 32, 3]; ``label`` of CIFAR-100 is the fine one of its two."""

    kind: ClassVar[str] = "cifar"
    about: ClassVar[str] = "CIFAR-10 or CIFAR-100 files"

    @classmethod
    def recognises(cls, source: InputPath) -> bool:
        """By the names of the files and of the list of classes beside them."""
        if source.is_folder:
            return source.holds(_META) and source.holds((*_FILES, "train", "test"))
        return source.holds((*_TRAIN, *_TEST))

    @classmethod
    def can_read(cls, source: InputPath) -> bool:
        """Files, and folders of them."""
        return source.is_file or source.holds((*_FILES, "train", "test"))

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Read all files once: they are small."""
        names = (*_FILES, "train", "test")
        files = [
            f for f in self.input.files(("",)) if self.input.is_file or os.path.basename(f.name) in names
        ]
        tests = [f for f in files if os.path.basename(f.name).startswith("test")]
        if tests and len(tests) < len(files):
            train = os.path.join(
                self.path, "data_batch_*" if len(files) > 2 else os.path.basename(files[-1].name)
            )
            raise SchemaError(
                f"{self.path} holds train and test; write each to a dataset of its own: "
                f"`unirecord write {quote(train)} train` and `unirecord write {quote(tests[0].name)} test`"
            )
        self._files = files
        self._fine = False
        self.units: Sequence[Unit] = []
        for number, file in enumerate(files):
            images, _, _ = self._content(number)
            self.units.append(Unit(file.name, number, len(images)))
        types: dict[str, Any] = {"image": {"type": "uint8", "shape": [32, 32, 3]}, "label": "int32"}
        if self._fine:
            types["coarse_label"] = "int32"
        classes = self._classes(os.path.dirname(files[0].path))
        if classes is not None:
            self.metadata: dict[str, Any] | None = {"classes": classes}
            types["label"] = self.classes_type("label", "int32", classes)
        self.schema: Schema = apply_overrides(types, options.overrides)

    def _content(self, number: int) -> tuple[Any, Any, Any]:
        """The images, labels and coarse labels of a file."""
        file = self._files[number]
        data = file.content(_MOST_BYTES, "file of CIFAR")
        try:
            images, labels, coarse = _binary(data) if file.name.endswith(".bin") else _pickled(data)
        except ValueError as error:
            raise SchemaError(f"{file.name} is no file of CIFAR: {error}") from None
        self._fine = self._fine or coarse is not None
        return images.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), labels, coarse

    def _classes(self, folder: str) -> list[str] | None:
        for name in _META:
            path = os.path.join(folder, name)
            if not os.path.isfile(path):
                continue
            with open(path, "rb") as file:
                data = file.read(1 << 20)
            if name.endswith(".txt"):
                return [line for line in data.decode("utf-8", "replace").split("\n") if line.strip()]
            try:
                found = plain_pickle(data)
                names: Any = found.get(b"label_names") or found.get(b"fine_label_names")
                return [name.decode() for name in names]
            except (ValueError, AttributeError, TypeError, UnicodeDecodeError) as error:
                raise SchemaError(f"{path} does not list the classes: {error}") from None
        return None

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield a file."""
        images, labels, coarse = self._content(unit.place)
        columns = {"image": np.ascontiguousarray(images), "label": labels}
        if self._fine:
            columns["coarse_label"] = coarse
        yield RawBatch(columns, len(images))


def _binary(data: bytes) -> tuple[Any, Any, Any]:
    """Rows of one label (CIFAR-10) or two (CIFAR-100) and the pixels."""
    for labels in (1, 2):
        if data and len(data) % (labels + _PIXELS) == 0:
            rows = np.frombuffer(data, np.uint8).reshape(-1, labels + _PIXELS)
            coarse = rows[:, 0].astype(np.int32) if labels == 2 else None
            return rows[:, labels:], rows[:, labels - 1].astype(np.int32), coarse
    raise ValueError(f"{many(len(data), 'byte', 'are')} no whole number of pictures")


def _pickled(data: bytes) -> tuple[Any, Any, Any]:
    found = plain_pickle(data)
    images, fine = found.get(b"data"), b"fine_labels" in found
    labels = found.get(b"fine_labels" if fine else b"labels")
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.shape[1:] != (_PIXELS,):
        raise ValueError("its data are no pictures of 32 × 32 pixels")
    columns = [labels, found.get(b"coarse_labels")] if fine else [labels]
    for column in columns:
        if (
            not isinstance(column, list)
            or len(column) != len(images)
            or not all(type(v) is int for v in column)
        ):
            raise ValueError("it has no label for each picture")
    try:
        arrays = [np.array(column, np.int32) for column in columns]
    except OverflowError as error:
        raise ValueError(str(error)) from None
    return images, arrays[0], arrays[1] if fine else None
