"""What this process has published, so that a command that is interrupted does not say that nothing was."""

from __future__ import annotations

__all__ = ["forget_publications", "note_publication", "published_paths"]

_paths: dict[str, None] = {}


def note_publication(path: str) -> None:
    """Say that something has been published at ``path``."""
    _paths[path] = None


def published_paths() -> list[str]:
    """Where something has been published since `forget_publications`, in order."""
    return list(_paths)


def forget_publications() -> None:
    """Begin anew: what comes is of another command."""
    _paths.clear()
