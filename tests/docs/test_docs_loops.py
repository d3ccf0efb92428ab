"""Every loop over batches on the pages of docs/, run for three epochs: each has an order of its own.

A page is run up to the loop, as its own test runs it, and the loop three times, or the loop over epochs around it.
"""

from __future__ import annotations

import ast
import doctest
import shlex
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_page import BLOCK

from unirecord.cli import main

DOCS = Path(__file__).resolve().parents[2] / "docs"
EPOCHS = 3


# Pages whose Python reads from servers and clusters, and growing.md, which has no loop over data.
APART = ("storage.md", "ray.md", "api.md", "growing.md")
# Loops over data that are not shuffled, to look at them or to validate: all epochs are alike.
IN_ORDER = {
    "by-data/vision.md: for batch in val.batches(4, transform=lambda s: {**s, 'image': decode(s['image'])})",
    "language.md: for sample in packed",
}


class Loop:
    """One ``for`` statement at the top of a page's code."""

    def __init__(self, page: Path, place: int, node: ast.For) -> None:
        self.page, self.place, self.node = page, place, node
        self.name = f"{page.relative_to(DOCS)}: for {ast.unparse(node.target)} in {ast.unparse(node.iter)}"


def steps(page: Path) -> list[ast.stmt | str]:
    """What a page runs, in order: statements of Python, and commands."""
    found: list[ast.stmt | str] = []
    for kind, block in BLOCK.findall(page.read_text("utf-8")):
        if kind == "python":
            shown = [one.source for one in doctest.DocTestParser().get_examples(block)]
            found += ast.parse("".join(shown) or block).body
        else:
            found += [line for line in block.splitlines() if shlex.split(line, comments=True)]
    return found


def loops() -> list[Loop]:
    found = []
    for page in sorted(DOCS.rglob("*.md")):
        if page.name not in APART and page.parent.name not in ("coming-from", "site"):
            found += [Loop(page, i, s) for i, s in enumerate(steps(page)) if isinstance(s, ast.For)]
    return found


class Seen:
    """Iterates over what a page's loop iterates over, and notes what it was in each epoch."""

    def __init__(self) -> None:
        self.epochs: list[list[Any]] = []

    def __call__(self, make: Callable[[], Iterable[Any]], times: int) -> Iterator[Iterator[Any]]:
        """The iterations of a loop: as many as ``times``, or one where it is no loop over data."""
        for number in range(times):
            data = make()
            if isinstance(data, (range, tuple, list, dict, ItemsView, np.ndarray)):
                yield iter(data)
                return
            del number
            self.epochs.append([])
            yield self._noted(data)

    def _noted(self, data: Iterable[Any]) -> Iterator[Any]:
        for batch in data:
            self.epochs[-1] += told(batch)
            yield batch


class Watched(ast.NodeTransformer):
    """Puts a `Seen` around what loops iterate over; one over epochs has three."""

    def __init__(self) -> None:
        self._times = EPOCHS

    def visit_For(self, node: ast.For) -> ast.stmt:
        if ast.unparse(node.target) == "epoch":
            self._times = 1
            node.iter = ast.parse(f"range({EPOCHS})", mode="eval").body
            self.generic_visit(node)
            return node
        data, numbered = node.iter, ""
        if isinstance(data, ast.Call) and ast.unparse(data.func) == "enumerate":
            numbered = ", ".join(map(ast.unparse, data.args[1:])) or "0"
            data = data.args[0]
        one = f"enumerate(_epoch, {numbered})" if numbered else "_epoch"
        around = ast.parse(f"for _epoch in _seen(lambda: {ast.unparse(data)}, {self._times}):\n  pass").body[
            0
        ]
        assert isinstance(around, ast.For)
        node.iter = ast.parse(one, mode="eval").body
        around.body = [node]
        return ast.fix_missing_locations(around)


def told(batch: Any) -> list[Any]:
    """The integers and words of a batch, in order, or all numbers where it has none: what says which rows it has."""
    leaves = [leaf for leaf in _leaves(batch) if leaf is not None]
    exact = [leaf for leaf in leaves if not isinstance(leaf, float)]
    return exact or leaves


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        value = list(value.values())
    elif hasattr(value, "to_pydict"):
        value = list(value.to_pydict().values())
    elif hasattr(value, "tolist"):
        value = value.tolist()
    elif hasattr(value, "numpy"):
        value = value.numpy().tolist()
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from _leaves(part)
    elif isinstance(value, (int, float, str, bytes)):
        yield value
    elif hasattr(value, "__iter__"):
        for part in value:
            yield from _leaves(part)


LOOPS = loops()


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
def test_a_loop_of_a_page_has_another_order_each_epoch(
    loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    seen = Seen()
    names: dict[str, Any] = {"__name__": "page", "_seen": seen}
    for step in steps(loop.page)[: loop.place]:
        if isinstance(step, str):
            assert main(shlex.split(step, comments=True)[1:]) == 0
        else:
            exec(compile(ast.Module([step], []), f"<{loop.page.name}>", "exec"), names)
    exec(compile(ast.Module([Watched().visit(loop.node)], []), f"<{loop.page.name}>", "exec"), names)
    if not seen.epochs:
        return  # no loop over data
    assert len(seen.epochs) == EPOCHS
    assert all(seen.epochs)
    if loop.name in IN_ORDER:
        assert seen.epochs[1:] == seen.epochs[:-1]
    else:
        assert len({str(epoch) for epoch in seen.epochs}) == EPOCHS, "epochs share an order"


def test_loops_are_found_and_those_in_order_are_on_the_pages() -> None:
    assert len(LOOPS) > 20
    assert {loop.name for loop in LOOPS} >= IN_ORDER
