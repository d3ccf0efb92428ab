"""What the folders of pictures say: classes, their order and numbers, and the parts of a split above them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ...errors import SchemaError
from .folder_walk import natural_order, utf8_name
from .splits import SPLITS

__all__ = ["Layout", "layout_of", "same_classes", "some", "splits_of"]

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
    lack = "are of no part of the split" if are_splits else "have no class"
    raise SchemaError(
        f"{path} holds {len(pictures):,} pictures beside {beside} ({utf8_name(min(pictures))!r}, …): they {lack}. "
        f"Move them into a folder or away"
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


def same_classes(path: str, found: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return ``known``, the classes by number of another dataset; `SchemaError` when it lacks one of ``found``."""
    new = [name for name in found if name not in known]
    if new:
        raise SchemaError(
            f"{path} has the class {new[0]!r}, which the dataset has not ({some(known)}): "
            f"its labels would not fit; write all classes anew"
        )
    return list(known)


def some(names: Sequence[str]) -> str:
    """Return the names, or some of many."""
    return ", ".join(names) if len(names) <= 10 else f"{', '.join(names[:8])}, … {names[-1]}"
