"""Prints how many lines and branches ran, from gcov: `coverage.py OBJECTS SOURCE...`; --misses lists the others."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def measured(objects: Path, source: Path) -> list[dict[str, Any]]:
    """What gcov knows of one source file, functions of headers left out."""
    notes = objects / source.relative_to("csrc").with_suffix(".gcda")
    done = subprocess.run(
        ["gcov", "--json-format", "--stdout", "--branch-probabilities", str(notes)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    files: list[dict[str, Any]] = json.loads(done.stdout)["files"]
    return merged(next(file for file in files if file["file"] == str(source))["lines"])


def merged(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One entry a line: a function that is compiled for several processors is there once for each."""
    found: dict[int, dict[str, Any]] = {}
    for line in lines:
        known = found.setdefault(line["line_number"], line)
        if known is not line:
            known["count"] += line["count"]
            if len(known["branches"]) == len(line["branches"]):
                for mine, other in zip(known["branches"], line["branches"], strict=True):
                    mine["count"] += other["count"]
            elif len(known["branches"]) < len(line["branches"]):
                known["branches"] = line["branches"]
    return list(found.values())


def report(objects: Path, sources: list[Path], misses: bool) -> None:
    total_lines = total_branches = taken_lines = taken_branches = 0
    for source in sources:
        lines = measured(objects, source)
        branches = [branch for line in lines for branch in line["branches"]]
        ran, taken = sum(line["count"] > 0 for line in lines), sum(branch["count"] > 0 for branch in branches)
        print(
            f"{source.relative_to('csrc')!s:24} lines {share(ran, len(lines))}  branches {share(taken, len(branches))}"
        )
        total_lines, taken_lines = total_lines + len(lines), taken_lines + ran
        total_branches, taken_branches = total_branches + len(branches), taken_branches + taken
        if misses:
            show_misses(source, lines)
    print(
        f"{'all':24} lines {share(taken_lines, total_lines)}  branches {share(taken_branches, total_branches)}"
    )


def share(part: int, whole: int) -> str:
    return f"{100 * part / max(whole, 1):6.1f} % of {whole:4}"


def show_misses(source: Path, lines: list[dict[str, Any]]) -> None:
    text = source.read_text().splitlines()
    for line in lines:
        missed = [i for i, branch in enumerate(line["branches"]) if branch["count"] == 0]
        if missed or line["count"] == 0:
            number = line["line_number"]
            what = f"branches {missed} of {len(line['branches'])}" if line["count"] else "not run"
            print(f"  {source}:{number}: {what}: {text[number - 1].strip()}")


if __name__ == "__main__":
    arguments = [Path(argument) for argument in sys.argv[1:] if argument != "--misses"]
    report(arguments[0], arguments[1:], "--misses" in sys.argv)
