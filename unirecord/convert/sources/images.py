"""A folder of pictures, in class folders or flat, as records: the file's bytes, its class, and its size in pixels."""

from __future__ import annotations

import io
import os
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from ...errors import MissingError, SchemaError
from ...format.schema import Schema
from ...progress import Progress
from ...sizes import many
from .coco import CocoFile
from .file_labels import TABLE_OPTIONS, FileLabels, is_label_file, label_file
from .folder_walk import UnreadableError, natural_order, read_regular_file, utf8_name, walk
from .foreign_libraries import needed
from .input_path import InputPath
from .media_types import PICTURES, NotAnImageError, bytes_of, read_image_header
from .overrides import SPLITS, apply_overrides
from .source import (
    AskedOption,
    LeftOut,
    Options,
    RawBatch,
    Source,
    Unit,
    WrongSourceError,
    file_units,
    reduced,
    row_batches,
)

__all__ = [
    "FOLDERS_ARE_CLASSES",
    "ImageFolder",
    "Layout",
    "check_picture",
    "class_columns",
    "layout_of",
    "listed_file",
    "splits_of",
]


# Whether a picture can be decoded whole, by Pillow.


_CHECK: Final = "--check-pictures, which decodes them,"


def check_picture(data: bytes) -> None:
    """Decode every frame; `UnreadableError` says why that fails."""
    image_module = needed("PIL.Image", _CHECK, "pillow")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with image_module.open(io.BytesIO(data)) as image:
                for frame in range(getattr(image, "n_frames", 1)):
                    image.seek(frame)
                    image.load()
    except MemoryError:
        raise
    except Exception as error:  # decoders raise whatever they like
        raise UnreadableError(f"it cannot be decoded: {error}") from None


# What the folders of pictures say: classes, their order and numbers, and the parts of a split above them.


_ROLES: Final = ("train", "val", "test")


@dataclass(frozen=True)
class Layout:
    """How pictures lie below a folder.

    Attributes:
        splits: folders at the top that are parts of a split (``train``, ``val``), in the order of the rows.
        classes: folders below those, or at the top, of all splits together, by their numbers.
        flat: the splits, if any have classes, whose pictures have none.
        rows: how many pictures each split has.
    """

    splits: tuple[str, ...]
    classes: tuple[str, ...]
    flat: tuple[str, ...] = ()
    rows: tuple[int, ...] = ()

    def place(self, path: str) -> tuple[str | None, str | None]:
        """The split and the class of the picture at a path; None where there is none."""
        split = None
        if self.splits:
            split, _, path = path.partition("/")
        name, slash, _ = path.partition("/")
        return split, name if slash else None

    def notes(self) -> list[str]:
        """What a user should know of the splits."""
        if not self.splits:
            return []
        told = ", ".join(f"{n:,} {utf8_name(name)}" for name, n in zip(self.splits, self.rows, strict=True))
        notes = [
            f"column split, by the folders: {told} (--split-by split writes each to a dataset of its own)"
        ]
        if self.flat:
            notes.append(
                f"{', '.join(map(utf8_name, self.flat))}: no class folders, so label and class are null"
            )
        return notes


def layout_of(path: str, pictures: Sequence[str], *, folders_are_classes: bool) -> Layout:
    """Look at the paths of all pictures below ``path``.

    Raises `SchemaError` where some lie beside folders that are classes or parts of a split.
    """
    top = _folders(pictures)
    splits = () if folders_are_classes else splits_of(pictures)
    _refuse_beside(path, [one for one in pictures if "/" not in one], top, are_splits=bool(splits))
    if not splits:
        return Layout((), tuple(sorted(top, key=natural_order)))
    below: dict[str, Counter[str]] = {split: Counter() for split in top}
    beside: dict[str, list[str]] = {split: [] for split in top}
    for picture in pictures:
        split, _, rest = picture.partition("/")
        name, slash, _ = rest.partition("/")
        if slash:
            below[split][name] += 1
        else:
            beside[split].append(rest)
    for split in splits:
        _refuse_beside(f"{path.rstrip('/')}/{utf8_name(split)}", beside[split], below[split])
    classes = tuple(sorted({name for names in below.values() for name in names}, key=natural_order))
    flat = tuple(split for split in splits if classes and not below[split])
    return Layout(splits, classes, flat, tuple(top[split] for split in splits))


def _refuse_beside(
    path: str, pictures: list[str], folders: Counter[str], *, are_splits: bool = False
) -> None:
    if not (pictures and folders):
        return
    beside = ", ".join(sorted(map(utf8_name, folders))[:3]) if are_splits else "its class folders"
    lack = "of no part of the split" if are_splits else "of no class"
    raise SchemaError(
        f"{path} holds {many(len(pictures), 'picture')} beside {beside}, {lack} "
        f"({utf8_name(min(pictures))!r}, …): move what is there into a folder or away"
    )


def splits_of(pictures: Sequence[str]) -> tuple[str, ...]:
    """The folders at the top, train first, if they are parts of a split by their names; else none.

    Others than train, val, test count as parts of it only where there are train and another one of these.
    """
    top = _folders(pictures)
    roles = {SPLITS[name.lower()] for name in top if name.lower() in SPLITS}
    known = sum(name.lower() in SPLITS for name in top)
    if not roles or (known < len(top) and not ("train" in roles and len(roles) > 1)):
        return ()
    return tuple(sorted(top, key=lambda name: (_role(name), natural_order(name))))


def _folders(pictures: Sequence[str]) -> Counter[str]:
    return Counter(picture.partition("/")[0] for picture in pictures if "/" in picture)


def _role(name: str) -> int:
    role = SPLITS.get(name.lower())
    return _ROLES.index(role) if role in _ROLES else len(_ROLES)


def _same_classes(path: str, found: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return ``known``, the classes by number of another dataset; `SchemaError` when it lacks one of ``found``."""
    new = [name for name in found if name not in known]
    if new:
        raise SchemaError(
            f"{path} has the class {new[0]!r}, which the dataset has not ({_some(known)}): "
            f"its labels would not fit; write all classes anew"
        )
    return list(known)


def _some(names: Sequence[str]) -> str:
    """Return the names, or some of many."""
    return ", ".join(names) if len(names) <= 10 else f"{', '.join(names[:8])}, … {names[-1]}"


def class_columns(source: Source, layout: Layout, options: Options) -> tuple[dict[str, Any], list[str]]:
    """The columns that folders make, and the classes by number; ``source`` says these, and the parts of the split."""
    columns: dict[str, Any] = {"split": "string"} if layout.splits else {}
    classes = [utf8_name(name) for name in layout.classes]
    if classes:
        if options.classes is not None:
            classes = _same_classes(source.path, classes, options.classes)
        null = "?" if layout.flat else ""
        columns["label"] = source.classes_type("label", f"int32{null}", classes)
        columns["class"] = f"string{null}"
        source.metadata = {"classes": classes}
        source.notes.append(f"{many(len(classes), 'class')}: {_some(classes)}")
    source.notes.extend(layout.notes())
    return columns, classes


def listed_file(source: Source, path: str) -> bytes:
    """The bytes of a file below the folder of ``source``, which was there when that was listed."""
    try:
        return read_regular_file(os.path.join(source.input.path, path))
    except FileNotFoundError:
        raise MissingError(f"{source.path}/{utf8_name(path)} has gone since the folder was listed") from None


FOLDERS_ARE_CLASSES: Final = AskedOption(
    "folders_are_classes", "take folders called train, val, test as classes, not as parts of a split"
)

_OWN: Final = ("image", "path", "width", "height")
_LOOKED_AT: Final = 16  # files that may hold annotations
_HEAD: Final = 4_096  # bytes of one, that tell whose they are
_BATCH_ROWS: Final = 256
_BATCH_BYTES: Final = 4_000_000  # few pictures: those of some batches are changed a second time, as a sample


class ImageFolder(Source):
    """Pictures below a folder, ordered by class and path.

    With class folders (``cat/1.png``, ``dog/a/2.jpg``) a picture's class is the first folder of its path, and its
    label the class's number in natural order (2 before 10). A flat folder gives no ``label`` and no ``class``.
    """

    kind: ClassVar[str] = "images"
    reads_ahead = True
    about: ClassVar[str] = "a folder of pictures (in class folders or flat)"
    item: ClassVar[str] = "picture"
    path_column: ClassVar[str | None] = "path"
    reads: ClassVar[str] = "a folder"
    reads_files: ClassVar[bool] = False
    any_folder: ClassVar[bool] = True
    options: ClassVar[tuple[AskedOption, ...]] = (
        AskedOption("check_pictures", "decode each picture, and leave out what is damaged"),
        FOLDERS_ARE_CLASSES,
        *TABLE_OPTIONS,
    )
    takes_classes: ClassVar[bool] = True
    picture_sizes: ClassVar[Mapping[str, tuple[str, str]]] = {"image": ("width", "height")}

    @classmethod
    def recognises(cls, source: InputPath) -> bool:
        """A folder with pictures; and any that holds nothing else that is known."""
        return source.is_folder and source.holds(frozenset(PICTURES))

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """List the folder."""
        self._check = bool(options.get("check_pictures"))
        if self._check:
            needed("PIL.Image", _CHECK, "pillow")
        found = list(self._pictures())
        self._labels: FileLabels | None = None
        self._name_annotations()
        table = label_file(self.input, options) if found else None
        if table is not None:
            self._take_labels(found, table, options)
            self.classes: list[str] = []
            of_folders = {"split": "string"} if self._layout.splits else {}
        elif found:
            self._take_folders(found, options)
            of_folders, self.classes = class_columns(self, self._layout, options)
        else:
            raise SchemaError(self._nothing_found())
        self.units: Sequence[Unit] = file_units(self.path, self._files, _BATCH_ROWS)
        columns = {
            "image": bytes_of(self._files), **of_folders, "path": "string", "width": "int32", "height": "int32",
            **({} if self._labels is None else self._labels.types),
        }  # fmt: skip
        self.schema: Schema = apply_overrides(columns, options.overrides)

    def _take_folders(self, found: list[str], options: Options) -> None:
        """Set the files and what their folders say, by split and class, then by path."""
        folders_are_classes = bool(options.get("folders_are_classes"))
        self._layout = layout = layout_of(self.path, found, folders_are_classes=folders_are_classes)
        # Plain sorting would put "a-b/x" before "a/x".
        splits = {name: i for i, name in enumerate(layout.splits)}
        classes = {name: i for i, name in enumerate(layout.classes)}
        self._files = sorted(found, key=lambda path: (*_number(layout.place(path), splits, classes), path))

    def _take_labels(self, found: list[str], table: InputPath, options: Options) -> None:
        """Set the files that a table speaks of, which is in the place of class folders."""
        if options.classes is not None:
            raise WrongSourceError(
                f"{self.path}: --classes-from numbers class folders, but {table.name} says the labels"
            )
        self._labels = labels = FileLabels(table, found, _OWN, options, "picture")
        self.notes.extend(labels.notes)
        others = [one for one in self.left_out if not is_label_file(self.input, one.name, table)]
        self.left_out: list[LeftOut] = others + labels.left_out
        self._files = sorted((path for path in found if path in labels), key=natural_order)
        splits = () if options.get("folders_are_classes") or "split" in labels.types else splits_of(found)
        self._layout = Layout(splits if all("/" in path for path in found) else (), ())

    def _pictures(self) -> Iterator[str]:
        """Yield the relative POSIX path of every picture; note what else there is."""
        self._other_suffixes: Counter[str] = Counter()
        for path, reason in walk(self.input.path):
            suffix = os.path.splitext(path)[1].lower()
            if reason is not None and (suffix in PICTURES or path.endswith("/")):
                self.left_out.append(LeftOut(utf8_name(path), reason))
            elif suffix in PICTURES:
                yield path
            else:
                self._other_suffixes[suffix] += 1
                self.left_out.append(LeftOut(utf8_name(path), "by name it is no picture", expected=True))

    def _name_annotations(self) -> None:
        """Say of the files of annotations that lie among the pictures whose they are, and how they are not lost."""
        for suffix in (".json", ".xml"):
            names = [one.name for one in self.left_out if one.expected and one.name.lower().endswith(suffix)]
            for name in names[:_LOOKED_AT]:
                file = InputPath(name, os.path.join(self.input.path, name))
                if suffix == ".json" and CocoFile.recognises(file):
                    why = "left out: give the file as SRC to have them"
                    self.left_out.append(reduced(f"the COCO annotations of {name}", why))
                    continue
                whose = _program_of(file)
                if whose is not None:
                    why = f"left out: export them from {whose} as COCO, and give that file as SRC"
                    many = len(names) if whose == "LabelMe" else 1
                    self.left_out.append(reduced(f"the annotations of {whose}", why, many))
                    break

    def _nothing_found(self) -> str:
        bad = next((one for one in self.left_out if not one.expected), None)
        if bad is not None:
            return f"{self.path} holds no picture that can be read ({bad.name}: {bad.reason})"
        if not self.left_out:
            return f"{self.path} is empty: there are no files in it"
        others = ", ".join(f"{n:,} {s or 'without suffix'}" for s, n in self._other_suffixes.most_common(3))
        advice = (
            f"; it holds files of other kinds ({others}): give such a file itself as SRC, "
            "or --from files for a row of each"
            if others
            else ""
        )
        return f"{self.path} holds no pictures (PNG, JPEG, GIF, BMP, WebP, TIFF){advice}"

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield the pictures of a range of files that can be read."""
        labels = {name: i for i, name in enumerate(self.classes)}
        files = self._files[unit.place : unit.place + _BATCH_ROWS]
        yield from row_batches(self.schema.names, (self._row(path, labels) for path in files), _BATCH_BYTES)

    def _row(self, relative: str, labels: Mapping[str, int]) -> tuple[list[Any], int] | LeftOut:
        try:
            data = listed_file(self, relative)
            header = read_image_header(data)
            if self._check:
                check_picture(data)
        except (UnreadableError, NotAnImageError) as error:
            return LeftOut(utf8_name(relative), str(error))
        split, name = (one and utf8_name(one) for one in self._layout.place(relative))
        row: dict[str, Any] = {
            "image": data, "split": split, "label": None if name is None else labels.get(name), "class": name,
            "path": utf8_name(relative), "width": header.width, "height": header.height,
        }  # fmt: skip
        if self._labels is not None:
            row |= self._labels.of(relative)
        return [row[column] for column in self.schema.names], len(data)

    def files(self) -> Iterator[str]:
        """The pictures, and the table of labels."""
        yield from (os.path.join(self.input.path, relative) for relative in self._files)
        if self._labels is not None:
            yield self._labels.path


def _program_of(file: InputPath) -> str | None:
    """The program whose annotations a file holds, by its first bytes; None for any other file."""
    try:
        head = file.head(_HEAD)
    except (OSError, SchemaError):
        return None
    if b'"shapes"' in head and (b'"imagePath"' in head or b'"flags"' in head):
        return "LabelMe"
    return "CVAT" if b"<annotations>" in head and (b"<image " in head or b"<meta>" in head) else None


def _number(
    place: tuple[str | None, str | None], splits: Mapping[str, int], classes: Mapping[str, int]
) -> tuple[int, int]:
    split, name = place
    return splits[split] if split else 0, classes[name] if name else 0
