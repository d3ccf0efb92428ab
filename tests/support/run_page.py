"""Runs a page of docs/ as a reader would who pastes its blocks one after the other, in an empty folder.

``python run_page.py PAGE``: blocks of Python that begin with ``>>>`` are compared with what they show, all others
are run in one namespace; the lines of ``sh`` blocks are commands of ``unirecord``, which must end with exit code 0.
"""

from __future__ import annotations

import doctest
import linecache
import re
import shlex
import sys
from pathlib import Path
from typing import Any

from unirecord.cli import main

BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```", flags=re.S | re.M)


def run_page(page: Path) -> dict[str, Any]:
    """The names that the blocks of a page leave behind, and under "ran" how many blocks and commands there were.

    The first that fails ends it.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    text = page.read_text(encoding="utf-8")
    ran = 0
    for found in BLOCK.finditer(text):
        kind, code = found.groups()
        where = f"{page.name}:{text[: found.start()].count(chr(10)) + 1}"
        if kind == "sh":
            for line in code.splitlines():
                words = shlex.split(line, comments=True)
                if not words:
                    continue
                if words[0] != "unirecord":
                    raise SystemExit(f"{where}: not a command of unirecord: {line}")
                if main(words[1:]) != 0:
                    raise SystemExit(f"{where}: {line}")
                ran += 1
        elif code.startswith(">>>"):
            test = doctest.DocTestParser().get_doctest(code, names, where, str(page), 0)
            if doctest.DocTestRunner().run(test, clear_globs=False).failed:
                raise SystemExit(where)
            names.update(test.globs)
            ran += 1
        else:
            # What looks at the source of a function (TensorFlow's AutoGraph does) finds it here.
            linecache.cache[where] = (len(code), None, code.splitlines(keepends=True), where)
            exec(compile(code, where, "exec"), names)
            ran += 1
    return {**names, "ran": ran}


if __name__ == "__main__":
    print(run_page(Path(sys.argv[1]))["ran"], "blocks and commands ran")
