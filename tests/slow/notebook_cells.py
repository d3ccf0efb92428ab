"""A kernel of Jupyter: the example notebook cell by cell, completion, and Ctrl-C; run by `make notebooks`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook.ipynb"
LONG = 60.0  # seconds after which a cell has hung


def test_each_cell_of_the_example_shows_what_it_should() -> None:
    notebook: Any = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") for cell in notebook.cells)  # as they are kept
    NotebookClient(notebook, timeout=int(LONG)).execute()
    shown = {
        cell["source"].splitlines()[-1]: [output for output in cell["outputs"] if "data" in output]
        for cell in notebook.cells
        if cell["cell_type"] == "code"
    }
    assert not [o for cell in notebook.cells for o in cell.get("outputs", ()) if o["output_type"] == "error"]
    for line in (
        "ds", "ds.schema", "ds.head(3)", "ds.sample(4)", "unirecord.show(unirecord.describe(folder))",
        "unirecord.show(next(iter(loader)))",
    ):  # fmt: skip
        assert '<div class="unirecord">' in shown[line][-1]["data"]["text/html"], line
        pictures = "data:image/jpeg" in shown[line][-1]["data"]["text/html"]
        assert pictures == (line not in ("ds.schema", "unirecord.show(unirecord.describe(folder))")), line
    assert "image/png" in shown['unirecord.plot(ds, "brightness")'][-1]["data"]
    [bar, report] = shown['unirecord.verify(folder, progress=unirecord.progress_bar("verifying"))']
    assert "application/vnd.jupyter.widget-view+json" in bar["data"]
    assert "problems=[]" in report["data"]["text/plain"]
    assert "samples=2064" in shown["loader.stats()"][-1]["data"]["text/plain"]


class Kernel:
    """One that runs code as a notebook does."""

    def __init__(self, folder: Path) -> None:
        self._manager, self._client = start_new_kernel(kernel_name="python3", cwd=str(folder))

    def run(self, code: str, interrupted_after: str | None = None) -> list[Any]:
        """What it shows; with ``interrupted_after`` Ctrl-C comes as soon as this is printed."""
        asked = self._client.execute(code)
        found: list[Any] = []
        until = time.monotonic() + LONG
        while time.monotonic() < until:
            message = self._client.get_iopub_msg(timeout=LONG)
            if message["parent_header"].get("msg_id") != asked:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                return found
            if kind in ("error", "execute_result", "stream"):
                found.append(content)
            if interrupted_after is not None and interrupted_after in content.get("text", ""):
                self._manager.interrupt_kernel()
                interrupted_after = None
        raise AssertionError(f"{code} has hung")

    def completed(self, code: str) -> list[str]:
        """What the Tab key offers behind the code."""
        asked = self._client.complete(code, len(code))
        while True:
            message = self._client.get_shell_msg(timeout=LONG)
            if message["parent_header"].get("msg_id") == asked:
                return [name.removeprefix(".") for name in message["content"]["matches"]]

    def end(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    kernel = Kernel(tmp_path)
    assert not kernel.run(
        "import numpy as np, unirecord\n"
        "with unirecord.Writer('data', {'x': 'bytes', 'label': 'int32'}) as writer:\n"
        "    for i in range(500): writer.write({'x': bytes(i), 'label': i % 7})\n"
        "ds = unirecord.UniRecordDataset('data', shuffle=True, seed=1)\n"
        "mixed = unirecord.mix({'a': ds, 'b': ds}, weights={'a': 1, 'b': 2})\n"
        "balanced = unirecord.balanced(ds, 'label', classes=3, per_class=2)\n"
        "batch = next(iter(ds.batches(8)))"
    )
    yield kernel
    kernel.end()


def test_the_tab_key_offers_what_is_public(kernel: Kernel) -> None:
    for code, wanted in {
        "unirecord.": {"UniRecordDataset", "Writer", "describe", "verify"},
        "ds.": {"batches", "head", "plot", "schema"},
        "ds.ba": {"batches", "balanced"},
        "mixed.": {"batches", "head"},
        "balanced.": {"batches", "epoch"},
        "ds.batches(4).": {"stats", "state_dict"},
        "ds.pipeline().": {"map", "batch"},
        "ds.schema.": {"names"},
        "batch['": {"x", "label"},
    }.items():
        offered = kernel.completed(code)
        assert wanted <= set(offered), code
        assert not [name for name in offered if name.startswith("_")], code


@pytest.mark.parametrize(
    "code",
    [
        "with unirecord.Writer('out', {'x': 'bytes'}) as writer:\n"
        "    print('begun')\n"
        "    while True: writer.write({'x': bytes(1000)})",
        "def rows():\n"
        "    print('begun', flush=True)\n"
        "    while True: yield {'x': 1}\n"
        "unirecord.write_dataset(rows(), 'out', schema={'x': 'int64'})",
        "print('begun')\nwhile True:\n    for b in ds.batches(4): pass",
        "import time\nfor b in ds.batches(4, transform=lambda s: time.sleep(1)): print('begun', flush=True)",
        "for b in ds.pipeline().map(lambda s: s).batch(4):\n    print('begun', flush=True)\n    while True: pass",
    ],
    ids=["writer", "write_dataset", "batches", "transform", "pipeline"],
)
def test_ctrl_c_ends_a_cell_and_the_next_one_runs(kernel: Kernel, code: str, tmp_path: Path) -> None:
    *_, last = kernel.run(code, interrupted_after="begun")
    assert last["ename"] == "KeyboardInterrupt"
    if "'out'" in code:
        assert not (tmp_path / "out" / "manifest.json").exists()  # what is not whole is not there
    [shown] = kernel.run("len(list(ds.batches(100)))")
    assert shown["data"]["text/plain"] == "5"
