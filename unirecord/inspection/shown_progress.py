"""How far a long call is, as a bar of tqdm: in a notebook a widget, on a terminal a line."""

from __future__ import annotations

import importlib
from types import TracebackType
from typing import Any

__all__ = ["ProgressBar", "progress_bar"]


class ProgressBar:
    """A bar to be given as ``progress=``, and to be closed when the call is over; made by `progress_bar`."""

    def __init__(self, bar: Any) -> None:
        """Internal."""
        self._bar = bar

    def __call__(self, done: int, total: int) -> None:
        """Draws the bar anew: so much is ``done`` of ``total``, or of an unknown total where that is 0."""
        self._bar.total = total or None
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """Leaves the bar as it is."""
        self._bar.close()

    def __enter__(self) -> ProgressBar:
        """Returns itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the bar."""
        self.close()


def progress_bar(label: str = "", unit: str = "") -> ProgressBar:
    """A bar of tqdm for whatever takes ``progress=``: a widget in a notebook, a line on a terminal.

    ``with unirecord.progress_bar("comparing", "rows") as bar: unirecord.diff(a, b, progress=bar)``. Loaders and
    pipelines need none: ``for batch in tqdm(loader)``.

    Args:
        label: what stands before the bar.
        unit: what is counted, such as ``"rows"`` or ``"B"``.

    Raises:
        ImportError: tqdm is not installed.
    """
    try:
        tqdm = importlib.import_module("tqdm.auto").tqdm
    except ImportError as error:
        raise ImportError(f"unirecord.progress_bar needs tqdm: pip install tqdm ({error})") from error
    return ProgressBar(tqdm(desc=label, unit=unit or "it", unit_scale=True))
