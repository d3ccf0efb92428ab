"""Configurations that fail today, each with what is known of it; empty when all is well."""

from __future__ import annotations

from conformance.case import Case

# (name of a consumer or "*", feature or "*"): why.
KNOWN = {
    ("*", "stepped"): "a selection with a step may not lie together in memory",
    ("*", "dropped iterator"): "iter() alone uses up a position",
    ("*", "moved position"): "a loaded position is lost in pickle and deepcopy",
    ("*", "collate without transform"): "collate is not called without a transform",
    ("batches(device=)", "batch_transform"): "device= drops batch_transform=",
    ("DataLoader", "bfloat16"): "bfloat16 arrives as uint16",
    ("DataLoader, 2 workers", "bfloat16"): "bfloat16 arrives as uint16",
    ("DataLoader, persistent workers", "bfloat16"): "bfloat16 arrives as uint16",
    ("StatefulDataLoader", "bfloat16"): "bfloat16 arrives as uint16",
    ("StatefulDataLoader, 2 workers", "bfloat16"): "bfloat16 arrives as uint16",
    ("IterableDataset, 2 workers", "*"): "workers share the epoch that each of them advances",
    ("batches, pickled", "*"): "loaders can not be pickled",
    ("batches, copied", "*"): "loaders can not be copied",
    ("*", "resume in batches, pickled"): "loaders can not be pickled",
    ("*", "resume in batches, copied"): "loaders can not be copied",
    ("*", "resume in to_tf"): "to_tf freezes the length of a resumed pass",
}


def excused(case: Case) -> str | None:
    """Why a case may fail, if that is known."""
    for (name, feature), reason in KNOWN.items():
        users = {case.consumer.name} | ({case.resume.consumer.name} if case.resume else set())
        if (name == "*" or name in users) and (feature == "*" or feature in case.features):
            return reason
    return None
