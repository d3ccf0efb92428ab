"""How a task reports: its measurements as the last line of standard output."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))


def answer(measurements: list[dict[str, Any]]) -> None:
    print(json.dumps({"measurements": measurements}), flush=True)


def figure(workload: str, entrant: str, value: float, unit: str, **more: Any) -> dict[str, Any]:
    """One number with its unit."""
    return {"workload": workload, "entrant": entrant, "value": value, "unit": unit, **more}
