"""Configurations that fail today, each with what is known of it; empty when all is well."""

from __future__ import annotations

from conformance.case import Case

# (name of a consumer or "*", feature or "*"): why.
KNOWN = {
    ("DataLoader", "bfloat16"): "bfloat16 arrives as uint16",
    ("DataLoader, 2 workers", "bfloat16"): "bfloat16 arrives as uint16",
    ("DataLoader, persistent workers", "bfloat16"): "bfloat16 arrives as uint16",
    ("StatefulDataLoader", "bfloat16"): "bfloat16 arrives as uint16",
    ("StatefulDataLoader, 2 workers", "bfloat16"): "bfloat16 arrives as uint16",
}


def excused(case: Case) -> str | None:
    """Why a case may fail, if that is known."""
    for (name, feature), reason in KNOWN.items():
        users = {case.consumer.name} | ({case.resume.consumer.name} if case.resume else set())
        if (name == "*" or name in users) and (feature == "*" or feature in case.features):
            return reason
    return None
