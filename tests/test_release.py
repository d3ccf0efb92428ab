"""A release is refused on anything unfinished, and what it is made of is written down."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import unirecord

ROOT = Path(__file__).resolve().parent.parent
NAMES = ("manylinux_2_34_x86_64", "manylinux_2_34_aarch64")


@pytest.fixture(scope="module")
def release() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / ".ci" / "release"))


def git(root: Path, *words: str) -> None:
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run(["git", *who, *words], cwd=root, check=True, capture_output=True)


@pytest.fixture
def ready(tmp_path: Path) -> Path:
    """A tree of version 9.8.7 in which nothing is unfinished."""
    (tmp_path / "unirecord").mkdir()
    (tmp_path / "unirecord" / "__init__.py").write_text('__version__ = "9.8.7"\n')
    (tmp_path / "CHANGELOG.md").write_text("## [Unreleased]\n\n## [9.8.7] - 2030-01-02\n\n### Added\n\n- x\n")
    (tmp_path / "README.md").write_text("Released.\n")
    (tmp_path / ".gitignore").write_text("/dist/\n")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / ".ci" / "conda").mkdir(parents=True)
    (tmp_path / ".ci" / "conda" / "meta.yaml").write_text('package:\n  version: "9.8.7"\n')
    (tmp_path / "dist").mkdir()
    for name in ("unirecord-9.8.7.tar.gz", *(f"unirecord-9.8.7-cp311-abi3-{name}.whl" for name in NAMES)):
        (tmp_path / "dist" / name).touch()
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "all")
    return tmp_path


def test_a_finished_tree_is_released(release: dict[str, Any], ready: Path) -> None:
    assert release["unfinished"](ready) == []


def edited(root: Path, name: str, old: str, new: str) -> None:
    text = (root / name).read_text()
    assert old in text
    (root / name).write_text(text.replace(old, new))
    git(root, "commit", "--quiet", "--all", "--message", "changed")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda root: (root / "new.py").touch(), "not committed"),
        (lambda root: git(root, "tag", "v9.8.7"), "tag v9.8.7"),
        (lambda root: edited(root, "CHANGELOG.md", "[9.8.7]", "[9.8.6]"), "its newest: 9.8.6"),
        (lambda root: edited(root, "CHANGELOG.md", " - 2030-01-02", ""), "its newest: none"),
        (lambda root: edited(root, "CHANGELOG.md", "ed]\n\n", "ed]\n\n### Added\n\n- y\n\n"), "'Unreleased'"),
        (lambda root: edited(root, "README.md", "Released", "It is not released yet"), "README.md"),
        (lambda root: edited(root, ".ci/conda/meta.yaml", "9.8.7", "9.8.6"), "meta.yaml"),
        (lambda root: (root / "dist" / "unirecord-9.8.7.tar.gz").unlink(), "tar.gz"),
        (lambda root: (root / "dist" / f"unirecord-9.8.7-cp311-abi3-{NAMES[1]}.whl").unlink(), "aarch64"),
        (lambda root: (root / "dist" / "unirecord-9.8.7-cp311-abi3-linux_x86_64.whl").touch(), "not belong"),
    ],
)
def test_each_unfinished_thing_is_named(release: dict[str, Any], ready: Path, change: Any, says: str) -> None:
    change(ready)
    (line,) = release["unfinished"](ready)
    assert says in line


def test_the_bill_lists_what_is_installed_with_the_package(release: dict[str, Any], ready: Path) -> None:
    made = release["bill"](ready)
    assert (made["bomFormat"], made["metadata"]["component"]["version"]) == ("CycloneDX", "9.8.7")
    assert [part["name"] for part in made["components"]] == ["numpy", "cffi", "msgpack"]
    assert made == release["bill"](ready)
    config = ready / "build" / "libjpeg-turbo" / "include" / "jconfig.h"
    config.parent.mkdir(parents=True)
    config.write_text("#define LIBJPEG_TURBO_VERSION 2.1.5\n")
    assert release["bill"](ready)["components"][-1]["version"] == "2.1.5"
    assert release["bill"](ready)["serialNumber"] != made["serialNumber"]


def test_an_unknown_option_publishes_nothing(
    release: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert release["main"](["--publsh"]) == 2
    assert "Usage" in capsys.readouterr().err


def test_the_recipe_is_of_this_version_and_needs_what_the_package_needs() -> None:
    recipe = (ROOT / ".ci" / "conda" / "meta.yaml").read_text(encoding="utf-8")
    assert f'version: "{unirecord.__version__}"' in recipe
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for least in re.findall(r'"([^"]+)"', re.findall(r"^dependencies = \[(.+)\]", project, re.MULTILINE)[0]):
        name, version = least.split(">=")
        assert re.search(rf"- {name}(-python)? >={re.escape(version)}$", recipe, re.MULTILINE)
