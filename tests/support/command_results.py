"""What the command said, and the rows it wrote."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unirecord import UniRecordDataset
from unirecord.cli import main


def rows(path: str) -> list[dict[str, Any]]:
    with UniRecordDataset(path) as dataset:
        return [
            {k: v.item() if isinstance(v, np.generic) else v for k, v in dataset[i].items()}
            for i in range(len(dataset))
        ]


def failed(capsys: pytest.CaptureFixture[str], code: int, said: str, *argv: str) -> None:
    try:
        found = main(argv)
    except SystemExit as error:  # argparse
        found = int(error.code or 0)
    err = capsys.readouterr().err
    assert found == code
    assert said in err
    assert "Traceback" not in err
    if "usage:" not in err:
        assert err.count("\n") == 1
        assert err.startswith("unirecord")
