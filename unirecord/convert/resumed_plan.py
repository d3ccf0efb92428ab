"""Whether the conversion that an earlier run has begun is the one that is asked for now."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import Any

from .source_files import changed_file
from .sources.base import Source

__all__ = ["asked_of", "difference"]


def asked_of(source: Source, options: Mapping[str, str]) -> dict[str, str]:
    """What a conversion does, by names that messages use: the source, its content, and the options that were given."""
    units = "\n".join(repr((unit.name, unit.place, unit.rows)) for unit in source.units)
    return {
        "the source": f"{source.kind} {os.path.abspath(source.path)}",
        "its content": hashlib.sha256(units.encode("utf-8", "surrogateescape")).hexdigest(),
        **source.asked,
        **options,
    }


def difference(source: Source, plan: dict[str, Any], before: dict[str, Any], *, same_id: bool) -> str | None:
    """What the plan of the earlier run, ``before``, does otherwise than ``plan``; None where both do the same.

    ``same_id``: an id was asked for, which the earlier run must have as well.
    """
    now, then = plan["what"], before.get("what", {})
    differ = [name for name in {**now, **then} if now.get(name) != then.get(name)]
    if same_id and before.get("id") != plan["id"]:
        differ.append("id")
    changed = changed_file(source, before.get("files", {}), plan["files"])
    if changed is not None:
        return (
            f"{changed} since the run that was stopped"
            f"{'; there differ ' + ', '.join(differ) if differ else ''}"
        )
    if differ:
        return (
            f"what is there of an earlier run was another conversion: {', '.join(differ)} "
            f"{'differs' if len(differ) == 1 else 'differ'}"
        )
    return None
