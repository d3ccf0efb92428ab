"""The quickstart runs as written; links lead somewhere; pages name files that exist."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

import unirecord

ROOT = Path(__file__).resolve().parent.parent


PAGES = sorted((ROOT / "docs").rglob("*.md"))


def test_the_python_of_the_quickstart_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, flags=re.S))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for command in re.findall(r"^unirecord ((?:inspect|verify) .*)$", page, flags=re.M):
        ran = subprocess.run(
            [sys.executable, "-m", "unirecord", *shlex.split(command)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, (command, ran.stderr)


def test_the_python_of_writing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.png").write_bytes(b"a picture")
    rows = [{"image": b"", "label": i, "name": f"{i}"} for i in range(3)]
    names = {"samples": [(tmp_path / "a.png", 7)], "more": rows, "np": numpy}
    names |= {"images": numpy.zeros((1000, 32, 32, 3), numpy.uint8), "labels": numpy.zeros(1000, numpy.int32)}
    for block in blocks("writing.md"):
        exec(block, names)
    assert [int(sample["label"]) for sample in unirecord.UniRecordDataset("train")] == [7, 0, 1, 2]
    assert len(unirecord.UniRecordDataset("arrays.urec")) == 1000


def test_the_python_of_tuning_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with unirecord.Writer("train.urec", {"x": "int64"}) as writer:
        writer.write_batch({"x": range(1000)})
    for block in blocks("tuning.md"):
        exec(block, {})
    assert capsys.readouterr().out.strip() in ("consumer", "reading", "transform")


def test_the_python_of_images_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks("images.md"):
        exec(block, {})


def blocks(page: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, flags=re.S | re.M)


def test_the_python_of_every_page_is_run_by_a_test() -> None:
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").glob("test_*.py"))
    named = [page for page in PAGES if "```python" in page.read_text(encoding="utf-8")]
    assert len(named) > 10
    # Of api.md by test_api_docs.py, from its generator; of whole folders by test_converting_docs.py and
    # test_docs_by_data.py; of ray.md by ray_reading_jobs.py, for which `make ray` installs Ray.
    folders = (
        page.name for folder in ("coming-from", "by-data") for page in (ROOT / "docs" / folder).glob("*.md")
    )
    elsewhere = {"api.md", "ray.md", *folders}
    unnamed = [page.name for page in named if f'"{page.name}"' not in tests and page.name not in elsewhere]
    assert unnamed == [], "run its blocks in a test, which opens the page by its name"


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
            found = [ROOT / place, ROOT / "tests" / place, ROOT / "tests" / "c" / place]
            file = next((path for path in found if path.exists()), ROOT)
        elif place not in ("…", ""):
            continue
        begin = test.removeprefix("…").split("…")[0]
        seen += 1
        if file == ROOT or (test and begin not in file.read_text(encoding="utf-8")):
            missing.append(name)
    assert seen > 40
    assert not missing
