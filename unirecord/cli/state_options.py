"""The options with which a dataset is opened to have the order that a state is of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["options_of"]


def options_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """Options of ``UniRecordDataset``, from a state or from the order that receipts name."""
    options = {name: state[name] for name in ("seed", "where", "remainder")}
    options["shuffle"] = {"sequential": False, "shuffle": True}.get(state["shuffle"], state["shuffle"])
    if options["shuffle"] == "block":
        options |= {name: state[name] for name in ("block_rows", "window_blocks")}
    return options
