"""Ray itself: imported when it is needed, and its errors as ours."""

from __future__ import annotations

from typing import Any

from ..errors import SchemaError, UniRecordError

__all__ = ["cause_of", "import_ray"]


def import_ray() -> Any:
    """Return the module; SchemaError says what to install."""
    try:
        import ray
    except ImportError as error:
        raise SchemaError(f"Ray is not installed: pip install 'unirecord[ray]' ({error})") from None
    return ray


def cause_of(error: BaseException) -> BaseException | None:
    """The error of ours, or of the file system, that a Ray task has ended with; None when it is another one."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        inner = getattr(one, "cause", None)
        if isinstance(one, UniRecordError | OSError) and not isinstance(inner, BaseException):
            return one
        waiting += [one.__context__, one.__cause__]
        waiting.append(inner if isinstance(inner, BaseException) else None)
    return None
