"""What this machine and this environment have for reading and writing datasets, and what they lack."""

from __future__ import annotations

import os
import platform
import re
import resource
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import metadata
from shlex import quote
from typing import Final, Literal

from .. import __version__
from ..core import CODEC_ZSTD, check_codec, has_gil, has_jpeg, usable_cores
from ..dataset.dataset import UniRecordDataset
from ..errors import MissingError, UniRecordError
from ..sizes import format_size, many
from ..snapshot.part_set import Io
from ..storage.staged import temporary_folder
from ..writing.writer import Writer

__all__ = ["Fact", "examine"]

State = Literal["good", "missing", "bad"]
_FRAMEWORKS: Final = ("torch", "tensorflow", "keras", "mindspore", "lightning", "transformers")
_NOT_LISTED: Final = ("test", "demo", "all", "torch", "tf")  # not for users, or listed otherwise
_FEW_FILES: Final = (
    4_096  # descriptors, below which a dataset of many parts opens and closes files while it reads
)
_MOUNTS: Final = "/proc/self/mounts"
_LITTLE_SHARED: Final = 1 << 30  # bytes of /dev/shm, below which loaders with worker processes run out of it
_REQUIREMENT: Final = re.compile(
    r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*(?:>=\s*([0-9.]+))?[^;]*;.*extra\s*==\s*['\"]([^'\"]+)"
)


@dataclass(frozen=True)
class Fact:
    """One thing that was looked at.

    Attributes:
        area: what it belongs to: ``"core"``, ``"machine"``, ``"reading"``, ``"packages"`` or ``"place"``.
        name: what was looked at.
        state: ``"good"``; ``"missing"`` where something optional is not there, or less than is good; ``"bad"`` where
            nothing works without it.
        says: what was found.
        advice: what to do about it; empty where there is nothing to do.
    """

    area: str
    name: str
    state: State
    says: str
    advice: str = ""

    def to_dict(self) -> dict[str, str]:
        """The attributes by name."""
        return asdict(self)


def examine(place: str | None = None) -> list[Fact]:
    """Looks at the package, the machine, ways of reading and optional packages; and at a directory, ``place``.

    A dataset of a few rows is written, read in every way and removed: in ``place``, else among temporary files. Nothing
    else is written, no optional package is imported, and nothing is asked of a network. MissingError when ``place`` is
    no directory of this machine.
    """
    if place is not None and not os.path.isdir(place):
        raise MissingError(f"{place}: expected a directory of this machine")
    return [*_core(), *_machine(), *_reading(place), *_packages(), *(() if place is None else _place(place))]


def _core() -> Iterator[Fact]:
    yield Fact("core", "unirecord", "good", f"{__version__}, in {os.path.dirname(os.path.dirname(__file__))}")
    lock = "" if has_gil() else ", without the lock"
    yield Fact(
        "core", "Python", "good", f"{platform.python_version()} ({platform.python_implementation()}{lock})"
    )
    for name in ("numpy", "cffi", "msgpack"):
        yield Fact("core", name, "good", metadata.version(name))
    try:
        check_codec(CODEC_ZSTD)
        yield Fact("core", "libzstd", "good", "loaded; compressed columns can be read and written")
    except UniRecordError as error:
        yield Fact("core", "libzstd", "missing", "compressed columns cannot be read or written", str(error))
    if has_jpeg():
        yield Fact("core", "libjpeg-turbo", "good", "built in; images.Decode decodes in C")
    else:
        yield Fact(
            "core", "libjpeg-turbo", "missing", "not built in; images.Decode needs simplejpeg or Pillow",
            "install libjpeg-turbo's headers (libjpeg-turbo8-dev, libjpeg62-turbo-dev, libjpeg-turbo-devel) and "
            "install unirecord from its sources again: UNIRECORD_JPEG=shared pip install . in a checkout",
        )  # fmt: skip


def _machine() -> Iterator[Fact]:
    yield Fact("machine", "system", "good", f"{platform.system()} {platform.release()}, {platform.machine()}")
    cores, all_cores = usable_cores(), os.cpu_count() or 1
    limited = "" if cores == all_cores else f" of {all_cores}: the others are not for this process"
    yield Fact("machine", "cores", "good", f"{cores}{limited}")
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    yield Fact("machine", "memory", "good", format_size(pages))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= _FEW_FILES:
        yield Fact("machine", "open files", "good", _limit(soft))
    else:
        yield Fact(
            "machine", "open files", "missing", f"{_limit(soft)} at most (this user may ask for {_limit(hard)})",
            f"`ulimit -n {_FEW_FILES if hard < 0 else min(hard, 1 << 16)}` before training on datasets of many parts",
        )  # fmt: skip
    yield from _shared_memory("/dev/shm")


def _limit(number: int) -> str:
    return "unlimited" if number == resource.RLIM_INFINITY else f"{number:,}"


def _shared_memory(folder: str) -> Iterator[Fact]:
    try:
        found = os.statvfs(folder)
    except OSError:
        return
    size = found.f_frsize * found.f_blocks
    if size >= _LITTLE_SHARED:
        yield Fact("machine", folder, "good", format_size(size))
    else:
        yield Fact(
            "machine", folder, "missing", f"{format_size(size)}: little for worker processes of a DataLoader",
            "in a container: --shm-size 8g; or batches from threads, which need none (ds.batches, loader)",
        )  # fmt: skip


def _reading(place: str | None) -> Iterator[Fact]:
    ways: tuple[tuple[Io, str], ...] = (
        ("mmap", ""),
        ("pread", ""),
        ("uring", "the kernel, or a container's rules (seccomp), refuse io_uring; pread is used instead"),
        ("uring-direct", "no io_uring, or no O_DIRECT in this file system; another way is used instead"),
    )
    try:
        with temporary_folder(place) as folder:
            path = os.path.join(folder, "rows.urec")
            with Writer(path, {"row": "int64"}) as writer:
                writer.write({"row": 7})
            for io, otherwise in ways:
                yield _way(path, io, otherwise)
    except (OSError, UniRecordError) as error:
        yield Fact(
            "reading", "a small dataset", "bad", f"could not be written and read: {error}",
            "name a directory that you may write to, or leave PATH out: temporary files are used then (TMPDIR)",
        )  # fmt: skip


def _way(path: str, io: Io, otherwise: str) -> Fact:
    with UniRecordDataset(path, 0, 1, io=io, shuffle=False) as ds:
        [batch] = ds.batches(1)
        if batch["row"].tolist() != [7]:
            return Fact("reading", io, "bad", "what was written was not read", "please report it")
        used = ds.io
    if used == io:
        return Fact("reading", io, "good", "works")
    return Fact("reading", io, "missing", f"{used} is used", otherwise)


def _packages() -> Iterator[Fact]:
    extras: dict[str, dict[str, str]] = {}
    for text in metadata.requires("unirecord") or ():
        if (found := _REQUIREMENT.match(text)) and found[3] not in _NOT_LISTED:
            extras.setdefault(found[3], {})[found[1]] = found[2] or ""
    for extra, wanted in extras.items():
        there = {name: _version(name) for name in wanted}
        lacking = [
            f"{name}>={least}" if least else name
            for name, least in wanted.items()
            if (has := there[name]) is None or _numbers(has) < _numbers(least)
        ]
        says = ", ".join(f"{name} {has}" for name, has in there.items() if has is not None)
        if lacking:
            says = f"{says}; without {', '.join(lacking)}" if says else f"without {', '.join(lacking)}"
        advice = f"pip install 'unirecord[{extra}]'" if lacking else ""
        yield Fact("packages", f"[{extra}]", "missing" if lacking else "good", says, advice)
    for name in _FRAMEWORKS:
        if (has := _version(name)) is not None:
            yield Fact("packages", name, "good", has)


def _version(name: str) -> str | None:
    with suppress(metadata.PackageNotFoundError):
        return metadata.version(name)
    return _version("tensorflow-cpu") if name == "tensorflow" else None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version.split("+")[0])[:3])


def _indexes(place: str) -> Iterator[Fact]:
    """Parts in a directory that cannot be read because their index is not there."""
    names = set(os.listdir(place))
    lacking = sorted(name for name in names if name.endswith(".urec") and f"{name}.idx" not in names)
    if lacking:
        path = os.path.join(place, lacking[0])
        yield Fact(
            "place", "indexes", "bad", f"{many(len(lacking), 'part', 'have')} none, such as {lacking[0]}",
            f"put them back, or make them anew from the data files: unirecord repair {quote(path)}",
        )  # fmt: skip


def _place(place: str) -> Iterator[Fact]:
    yield from _indexes(place)
    found = os.statvfs(place)
    yield Fact("place", "free space", "good", format_size(found.f_frsize * found.f_bavail))
    kind = _file_system(place)
    if kind is not None:
        slow = kind.startswith(("nfs", "cifs", "smb", "fuse", "ceph", "lustre", "9p"))
        yield Fact(
            "place", "file system", "good",
            f"{kind}, over a network: random reads wait for it; docs/storage.md says what to choose" if slow else kind,
        )  # fmt: skip


def _file_system(place: str) -> str | None:
    """The type of the file system that the place is in, as Linux says."""
    path = os.path.realpath(place)
    best, kind = "", None
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as mounts:
            for line in mounts:
                _, point, found, *_ = line.split(" ")
                point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), point)
                if os.path.commonpath([path, point]) == point and len(point) >= len(best):
                    best, kind = point, found
    except OSError:
        return None
    return kind
