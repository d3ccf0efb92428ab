"""Every page runs as written, from an empty folder; links lead somewhere; pages name files that exist."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hang import HANG_SECONDS
from run_page import run_page

from unirecord.cli import main

ROOT = Path(__file__).resolve().parents[2]

PAGES = sorted((ROOT / "docs").rglob("*.md"))


# What the blocks of these pages need is started by the tests that run them: Ray by ray_reading_jobs.py (`make ray`), an
# object store by test_object_store.py; test_api_docs.py runs the one block of api.md.
RUN_ELSEWHERE = ("api.md", "ray.md", "storage.md")
RUN = [
    page
    for page in PAGES
    if page.name not in RUN_ELSEWHERE and re.search(r"^```(python|sh)$", page.read_text("utf-8"), flags=re.M)
]


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.relative_to(ROOT / "docs").as_posix())
def test_a_page_runs_from_an_empty_folder(page: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "error::UserWarning:unirecord",
            ROOT / "tests" / "support" / "run_page.py",
            page,
        ],
        cwd=tmp_path,
        env={**os.environ, "RANK": "0", "WORLD_SIZE": "1", "TF_CPP_MIN_LOG_LEVEL": "2"},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^[1-9]\d* blocks and commands ran$", done.stdout, flags=re.M)


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ("python\nassert False", "page.md:3"),
        ("python\n>>> 1 + 1\n3", "page.md:3"),
        ("sh\nunirecord inspect nothing", "page.md:3: unirecord inspect nothing"),
        ("sh\nls", "not a command of unirecord: ls"),
    ],
)
def test_a_block_that_fails_is_named(tmp_path: Path, block: str, said: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n```{block}\n```\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, ROOT / "tests" / "support" / "run_page.py", page],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert said in done.stdout + done.stderr


def test_the_commands_of_the_quickstart_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = ROOT / "docs" / "quickstart.md"
    monkeypatch.chdir(tmp_path)
    run_page(page)
    commands = re.findall(r"^unirecord ((?:inspect|verify) .*)$", page.read_text("utf-8"), flags=re.M)
    assert len(commands) >= 4
    for command in commands:
        assert main(shlex.split(command)) == 0, command


def test_there_is_a_page_for_each_kind_of_data() -> None:
    found = sorted(page.stem for page in (ROOT / "docs" / "by-data").glob("*.md"))
    assert found == ["detection", "robots", "science", "speech", "tabular", "vision"]


@pytest.mark.parametrize("page", ["pytorch.md", "tensorflow.md"])
def test_the_page_of_a_framework_starts_with_five_lines(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    (first, *_) = re.findall(r"^```python\n(.*?)^```", text, flags=re.S | re.M)
    assert len([line for line in first.splitlines() if line.strip()]) == 5


def places(page: Path) -> set[str]:
    """The headings of a page as addresses, the way GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT / "docs").as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for target, place in re.findall(r"\]\(([^)#:\s]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8")):
        there = page.parent / target if target else page
        assert there.exists(), f"{page.name} links to {target}"
        assert not place or place in places(there), f"{page.name} links to {target}#{place}"


def test_every_page_is_in_the_list() -> None:
    listed = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    listed += (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    names = [page.relative_to(ROOT / "docs").as_posix() for page in PAGES]
    missing = [name for name in names if name != "README.md" and f"({name})" not in listed]
    assert not missing


def test_every_page_is_in_the_site() -> None:
    nav = (ROOT / "docs" / "site" / "mkdocs.yml").read_text(encoding="utf-8").partition("nav:")[2]
    listed = re.findall(r"- ([\w/.-]+\.md)$", nav, flags=re.M)
    assert sorted(listed) == sorted(page.relative_to(ROOT / "docs").as_posix() for page in PAGES)


def test_every_file_that_the_architecture_names_exists() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    package, c = ROOT / "unirecord", ROOT / "csrc"
    named = set(re.findall(r"`([\w/]+\.(?:py|c|h))`", text))
    assert len(named) > 60
    there = {path.name for path in package.rglob("*.py")}
    missing = [
        name
        for name in named
        if not ((package / name).exists() or (ROOT / name).exists() or (c / name).exists())
        and not ("/" not in name and name in there)
    ]
    assert not missing
    rooms = {path.name for path in package.iterdir() if (path / "__init__.py").exists()}
    assert rooms <= set(re.findall(r"`(\w+)`", text))


def test_the_tests_that_reliability_names_exist() -> None:
    text = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    missing, seen, file = [], 0, ROOT
    for name in re.findall(r"`([^`\s]+)`", text):
        place, _, test = name.partition("::")
        if re.fullmatch(r"(tests/c/)?\w+\.(py|c)", place) and re.match(
            r"(tests/c/|test_|tsan_|faults_)", place
        ):
            file = next((ROOT / "tests").rglob(place.removeprefix("tests/c/")), ROOT)
        elif place not in ("…", ""):
            continue
        begin = test.removeprefix("…").split("…")[0]
        seen += 1
        if file == ROOT or (test and begin not in file.read_text(encoding="utf-8")):
            missing.append(name)
    assert seen > 40
    assert not missing
