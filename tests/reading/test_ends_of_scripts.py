"""A script that ends with an iteration under way says nothing, whatever kind of iterator it leaves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hang import HANG_SECONDS
from writing import write

from unirecord.storage import system

# torch keeps globals of modules alive beyond the first pass of the interpreter's clean-up.
SCRIPT = """
import sys
import torch
import unirecord
ds = unirecord.UniRecordDataset(sys.argv[1], 0, 2, shuffle=True)
left = [iter(loader) for loader in (
    ds,
    ds.batches(4),
    ds.batches(4, transform=lambda sample: sample),
    ds.batches(4, transform=lambda sample: sample, num_workers=0),
    ds.pipeline().map(lambda sample: sample).filter(lambda sample: True).batch(4),
    unirecord.Pipeline.from_generators([lambda: iter(range(100))]).map(lambda number: number),
    unirecord.torch.loader(ds, 4),
    unirecord.hf.dataset(ds),
)]
firsts = [next(iterator) for iterator in left]
by_name = {number: iterator for number, iterator in enumerate(left)}
print("end")
"""


@pytest.mark.parametrize("started", [True, False], ids=["begun", "never-begun"])
def test_a_script_that_leaves_iterators_ends_without_a_word(tmp_path: Path, started: bool) -> None:
    write(tmp_path / "a.urec", {"i": "int64"}, [{"i": i} for i in range(100)])
    script = SCRIPT if started else SCRIPT.replace("next(iterator) for", "iterator for")
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "a.urec")],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_a_file_that_goes_after_the_names_of_its_module_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(b"a")
    file = system.Descriptor(str(tmp_path / "a"), os.O_RDONLY)
    with monkeypatch.context() as gone:
        gone.setattr(system, "suppress", None)
        file.__del__(lambda: True)
        with pytest.raises(TypeError):
            file.__del__(lambda: False)
    file.close()
