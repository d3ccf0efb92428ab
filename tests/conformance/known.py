"""Configurations that fail today, each with what is known of it; empty when all is well."""

from __future__ import annotations

from conformance.case import Case

# (name of a consumer or "*", feature or "*"): why.
KNOWN: dict[tuple[str, str], str] = {}


def excused(case: Case) -> str | None:
    """Why a case may fail, if that is known."""
    for (name, feature), reason in KNOWN.items():
        users = {case.consumer.name} | ({case.resume.consumer.name} if case.resume else set())
        if (name == "*" or name in users) and (feature == "*" or feature in case.features):
            return reason
    return None
