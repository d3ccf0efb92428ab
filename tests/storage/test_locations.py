"""The seam of storage: another kind is one class under its scheme, and what no kind is known for is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from unirecord import MissingError, Writer, append, repair, verify
from unirecord.snapshot.dataset_path import resolve
from unirecord.storage.local import LocalDisk
from unirecord.storage.location import Entry, OpenFile
from unirecord.storage.schemes import LOCATIONS, location_of


class Elsewhere(LocalDisk):
    """A folder of this disk under another name, which counts what it is asked."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.asked = folder, list[str]()

    def _there(self, path: str) -> str:
        return path.replace("elsewhere:/", str(self.folder), 1)

    def find(self, path: str) -> Entry | None:
        self.asked.append("find")
        return super().find(self._there(path))

    def names(self, folder: str) -> list[str]:
        self.asked.append("names")
        return super().names(self._there(folder))

    def open(self, path: str) -> OpenFile:
        self.asked.append("open")
        return super().open(self._there(path))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with Writer(tmp_path / "data", {"a": "int32"}) as writer:
        writer.write({"a": 7})
    return tmp_path / "data"


def test_another_kind_of_storage_resolves_a_directory(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = Elsewhere(data.parent)
    monkeypatch.setitem(LOCATIONS, "elsewhere", elsewhere)
    found, here = resolve("elsewhere://data"), resolve(data)
    assert (found.identity, found.rows, found.schema) == (here.identity, 1, here.schema)
    assert [part.path for part in found.parts] == ["elsewhere://data/" + Path(here.parts[0].path).name]
    assert elsewhere.asked == ["find", "open", "names"]


@pytest.mark.parametrize("path", ["ftq://host/data", "ftq://host/data.urec", "hf+x://data"])
def test_a_scheme_that_nothing_is_known_of_says_what_to_do(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def replaced(path: str) -> Writer:
        return Writer(path, {"a": "int32"}, overwrite=True)

    def added(path: str) -> Writer:
        return append(path.removesuffix(".urec"))

    for use in (resolve, added, verify, repair, replaced):
        with pytest.raises(MissingError, match=r"no storage is known for .*name a path on a disk"):
            use(path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_may_be_called_like_a_scheme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s3:").mkdir()
    with Writer("s3:/x.urec", {"a": "int32"}) as writer:
        writer.write({"a": 7})
    assert resolve("s3://x.urec").rows == 1
    assert location_of("s3://x.urec") is location_of("s3:/x.urec")
