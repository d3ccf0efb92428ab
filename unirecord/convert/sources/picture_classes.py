"""The classes of a folder of pictures: their order, their numbers, and layouts that are splits instead."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...errors import SchemaError
from .folder_walk import natural_order
from .splits import SPLITS

__all__ = ["refuse_splits", "same_classes", "some"]


def refuse_splits(path: str, folders: Iterable[str]) -> None:
    """Raise `SchemaError` when the folders are parts of a split (``train``, ``val``), not classes."""
    names = sorted(folders, key=natural_order)
    roles = {name: SPLITS[name.lower()] for name in names if name.lower() in SPLITS}
    if not roles or (
        len(roles) < len(names) and not ("train" in roles.values() and len(set(roles.values())) > 1)
    ):
        return
    first = next((name for name, role in roles.items() if role == "train"), next(iter(roles)))
    others = [name for name in roles if name != first]
    root = path.rstrip("/")
    steps = [f"`unirecord write {root}/{first} {first}`"]
    steps += [f"`unirecord write {root}/{name} {name} --classes-from {first}`" for name in others]
    raise SchemaError(
        f"{path}: its folders {', '.join(repr(name) for name in roles)} are parts of a split by their names, not "
        f"classes; write each to a dataset of its own: {', then '.join(steps)}. "
        f"If they are classes, say --folders-are-classes"
    )


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
