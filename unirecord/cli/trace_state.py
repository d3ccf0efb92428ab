"""The state of a job in a file: a state_dict in JSON, or somewhere in a checkpoint of PyTorch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from ..convert.sources.packages import needed
from ..dataset.state import OPTIONAL, ResumeState
from ..errors import MissingError
from .usage import UsageError

__all__ = ["read_state"]

_NAMES: Final = frozenset(field.name for field in fields(ResumeState) if field.name not in OPTIONAL)
_MOST_DEPTH: Final = 32


def read_state(path: str) -> dict[str, Any]:
    """The one state in a file; UsageError when there is none, or there are several that differ."""
    found = dict(_states(_content(path), "", 0))
    different = {json.dumps(state, sort_keys=True, default=str): place for place, state in found.items()}
    if not found:
        raise UsageError(f"{path} holds no state of a dataset or loader, which state_dict() gives")
    if len(different) > 1:
        places = ", ".join(place or "the top" for place in different.values())
        raise UsageError(
            f"{path} holds {len(different)} different states, at {places}: write the right one to a file"
        )
    return next(iter(found.values()))


def _content(path: str) -> Any:
    """What is in the file, without running anything that it holds."""
    try:
        with open(path, "rb") as file:
            begin = file.read(1)  # a checkpoint may be larger than memory
    except FileNotFoundError:
        raise MissingError(f"{path} does not exist: --state takes a file with a state_dict") from None
    if begin in (b"{", b"["):
        try:
            return json.loads(Path(path).read_text("utf-8"))
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{path} begins like JSON and is none: {error}") from None
    torch = needed("torch", f"{path}, which is no JSON and may be a checkpoint of PyTorch,")
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # pickle fails in many ways
        reason = (str(error) if begin else "it is empty").split("\n")[0]
        raise UsageError(
            f"{path} is neither JSON nor a checkpoint that torch.load(weights_only=True) takes: {reason}"
        ) from None


def _states(value: Any, place: str, depth: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place, state) of every state below a value."""
    if depth > _MOST_DEPTH:
        return
    if isinstance(value, Mapping):
        if value.keys() >= _NAMES:
            yield place, {name: value[name] for name in (*_NAMES, *OPTIONAL, "version") if name in value}
            return
        inside = [(str(key), item) for key, item in value.items()]
    elif isinstance(value, list | tuple):
        inside = [(str(number), item) for number, item in enumerate(value)]
    else:
        return
    for name, item in inside:
        yield from _states(item, f"{place}.{name}" if place else name, depth + 1)
