"""Ctrl-C wherever Python handles signals: modules under test call `tick` between statements and after every call.

Run as a program by tests/writing/test_interrupts.py: the modules must be instrumented before they are imported.
"""

from __future__ import annotations

import ast
import builtins
import importlib.machinery
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[2] / "unirecord"


class Plan:
    """Which ticks raise: the `left[0]`-th from now on, the `left[1]`-th after that, and so on."""

    left: list[int] = []  # noqa: RUF012 - one for the process
    done = 0
    first: Callable[[], object] | None = None  # is called at the first interrupt
    watched = False  # whether the places after the last interrupt are noted
    places: list[tuple[Any, int]] = []  # noqa: RUF012


def tick(value: Any = None) -> Any:
    """Gives the value back, or is interrupted."""
    if Plan.left:
        Plan.left[0] -= 1
        if Plan.left[0] == 0:
            del Plan.left[0]
            Plan.done += 1
            value = None  # which a signal would have dropped, too
            if Plan.done == 1 and Plan.first is not None:
                Plan.first()
            raise KeyboardInterrupt
    elif Plan.watched:
        frame = sys._getframe(1)
        Plan.places.append((frame.f_code, frame.f_lasti))
    return value


class _Ticks(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        return ast.Call(ast.Name("__tick__", ast.Load()), [node], [])

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for field in ("body", "orelse", "finalbody"):
            body = getattr(node, field, None)
            if isinstance(body, list) and body and not isinstance(node, (ast.Module, ast.ClassDef)):
                setattr(node, field, _with_ticks(body))
        return node


def _with_ticks(body: list[ast.stmt]) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    for statement in body:
        found += [ast.Expr(ast.Call(ast.Name("__tick__", ast.Load()), [], [])), statement]
    if not isinstance(body[-1], (ast.Return, ast.Raise, ast.Continue, ast.Break)):
        found.append(ast.Expr(ast.Call(ast.Name("__tick__", ast.Load()), [], [])))
    return found


def instrument(*patterns: str) -> None:
    """Has these modules of the package, which are not imported yet, tick."""
    files = {str(path) for pattern in patterns for path in PACKAGE.glob(pattern)}
    assert files
    compiled = importlib.machinery.SourceFileLoader.source_to_code

    def source_to_code(self: Any, data: Any, path: Any, *rest: Any, **options: Any) -> Any:
        if path in files:
            data = ast.fix_missing_locations(_Ticks().visit(ast.parse(data)))
        return compiled(self, data, path, *rest, **options)

    importlib.machinery.SourceFileLoader.source_to_code = source_to_code  # type: ignore[method-assign]
    setattr(builtins, "__tick__", tick)  # noqa: B010 - no module has this name
    sys.dont_write_bytecode = True
    sys.pycache_prefix = os.devnull  # what was compiled before does not tick


def interrupted(work: Callable[[], Any], *at: int) -> BaseException | None:
    """Does the work with interrupts at these ticks; the one that ended it."""
    Plan.left, Plan.done, Plan.watched, Plan.places = list(at), 0, True, []
    try:
        work()
    except KeyboardInterrupt as error:
        return error
    finally:
        Plan.left, Plan.watched = [], False
    return None
