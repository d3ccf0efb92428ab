"""Arrays that lie side by side make rows where they are equally long: which of them a dataset is made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ...errors import SchemaError
from .base import Options

__all__ = ["equally_long", "wanted_types"]

_LISTED: Final = 12  # arrays, in a message


def equally_long(lengths: Mapping[str, int], options: Options, where: str) -> list[str]:
    """The names of the arrays that make rows together: all, or of arrays of several lengths those that are wanted.

    Raises `SchemaError` where these differ, which names those that most of them go together with.
    """
    if len(set(lengths.values())) == 1:
        return list(lengths)
    chosen = [name for name in lengths if options.wants(name)]
    if len({lengths[name] for name in chosen}) == 1:
        return chosen
    told = ", ".join(f"{name} {length:,}" for name, length in list(lengths.items())[:_LISTED])
    more = f" and {len(lengths) - _LISTED:,} more" if len(lengths) > _LISTED else ""
    most = Counter(lengths.values()).most_common(1)[0][0]
    together = ",".join([name for name, length in lengths.items() if length == most][:_LISTED])
    raise SchemaError(
        f"{where}: its arrays differ in length ({told}{more}); they make no rows together: --columns chooses some that "
        f"do, such as {together}"
    )


def wanted_types(columns: Iterable[str], type_of: Callable[[str], Any], options: Options) -> dict[str, Any]:
    """The type of each column; one that no type holds is left out where it is not wanted, else `SchemaError`."""
    found: dict[str, Any] = {}
    for column in columns:
        try:
            found[column] = type_of(column)
        except SchemaError:
            if options.wants(column):
                raise
    return found
