"""What tests of sources ask for by name."""

from __future__ import annotations

import pytest

from unirecord.convert.sources import child_reader


@pytest.fixture
def forked_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that read sources are forked from one that has imported their libraries."""
    import reader_forks  # not by the tests of what is imported

    monkeypatch.setattr(child_reader, "_Process", reader_forks.Process)
