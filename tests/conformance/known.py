"""Configurations that fail today, each with what is known of it; ours to fix, unless the reason says whose."""

from __future__ import annotations

from conformance.case import Case

# (name of a consumer or "*", feature or "*"): why.
KNOWN: dict[tuple[str, str], str] = {
    (
        "grain.DataLoader",
        "maps with mixed keys",
    ): "Grain sorts the keys of every map in a sample, by jax.tree",
}


def excused(case: Case) -> str | None:
    """Why a case may fail, if that is known."""
    for (name, feature), reason in KNOWN.items():
        users = {case.consumer.name} | ({case.resume.consumer.name} if case.resume else set())
        if (name == "*" or name in users) and (feature == "*" or feature in case.features):
            return reason
    return None
