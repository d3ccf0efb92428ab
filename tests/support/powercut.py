"""A log of what a writer asked of the file system, and the states that a power cut may leave of it."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unirecord.storage import system as store

Op = tuple[Any, ...]


class Recorder(store.OsCalls):
    """Does every call and writes it down. Files and directories are numbered; numbers are never used again."""

    def __init__(self, root: Path) -> None:
        self.log: list[Op] = []
        self.root = root
        self.files: dict[int, int] = {}  # inode -> number
        self.fds: dict[int, int] = {}
        self.start: dict[
            int, Any
        ] = {}  # what is durable when it begins: bytes of a file, names of a directory
        self._next = 0
        self._add(root)

    def _number(self, inode: int) -> int:
        self._next += 1
        self.files[inode] = self._next
        return self._next

    def _add(self, path: Path) -> int:
        number = self._number(path.stat().st_ino)
        if path.is_dir():
            self.start[number] = {child.name: self._add(child) for child in path.iterdir()}
        else:
            self.start[number] = path.read_bytes()
        return number

    def _folder(self, path: str) -> tuple[int, str]:
        folder, name = os.path.split(path)
        return self.files[os.stat(folder).st_ino], name

    def open(self, path: str, flags: int, mode: int = 0o666) -> int:
        new = flags & os.O_CREAT and not os.path.lexists(path)
        fd = super().open(path, flags, mode)
        inode = os.fstat(fd).st_ino
        if new:
            self.log.append(("link", *self._folder(path), self._number(inode)))
        self.fds[fd] = self.files[inode]
        return fd

    def writev(self, fd: int, buffers: Any) -> int:
        offset = os.lseek(fd, 0, os.SEEK_CUR)
        written = super().writev(fd, buffers)
        whole = b"".join(bytes(part) for part in buffers)[:written]
        self.log.append(("write", self.fds[fd], offset, whole))
        return written

    def pwrite(self, fd: int, buffer: Any, offset: int) -> int:
        written = super().pwrite(fd, buffer, offset)
        self.log.append(("write", self.fds[fd], offset, bytes(buffer)[:written]))
        return written

    def ftruncate(self, fd: int, size: int) -> None:
        super().ftruncate(fd, size)
        self.log.append(("truncate", self.fds[fd], size))

    def fsync(self, fd: int) -> None:
        self.log.append(("sync", self.fds[fd]))

    def rename(self, source: str, target: str) -> None:
        number = self.files[os.stat(source).st_ino]
        super().rename(source, target)
        folder, name = self._folder(target)
        self.log.append(("rename", folder, os.path.basename(source), name, number))

    def link(self, there: str, name: str) -> None:
        super().link(there, name)
        self.log.append(
            ("rename", *self._folder(name)[:1], "", os.path.basename(name), self.files[os.stat(name).st_ino])
        )

    def unlink(self, path: str) -> None:
        super().unlink(path)
        self.log.append(("unlink", *self._folder(path)))

    def mkdir(self, path: str) -> None:
        super().mkdir(path)
        self.log.append(("link", *self._folder(path), self._number(os.stat(path).st_ino), "folder"))

    def rmdir(self, path: str) -> None:
        super().rmdir(path)
        self.log.append(("unlink", *self._folder(path)))


@contextmanager
def recorded(root: Path) -> Iterator[Recorder]:
    """The store works through a Recorder while this lasts."""
    before, recorder = store.os_calls, Recorder(root)
    store.os_calls = recorder
    try:
        yield recorder
    finally:
        store.os_calls = before


@dataclass
class Disk:
    """What is durable, and what has been asked for since the last sync of each file and directory."""

    durable: dict[int, Any]
    pending: dict[int, list[Op]] = field(default_factory=dict)

    def do(self, op: Op) -> None:
        if op[0] == "sync":
            for waiting in self.pending.pop(op[1], []):
                self._apply(waiting)
            return
        if op[0] == "link":
            self.durable[op[3]] = {} if op[-1] == "folder" else b""
        self.pending.setdefault(op[1], []).append(op)

    def cut(self, r: random.Random, keep: float) -> None:
        """The power goes: each thing not synced survives with probability `keep`; a write may survive in part."""
        for number, ops in self.pending.items():
            ops = [op for op in ops if r.random() < keep]
            if isinstance(self.durable[number], bytes) and r.random() < 0.5:
                r.shuffle(ops)  # the order in which contents reach the disk is its own
            for op in ops:
                self._apply(
                    (*op[:3], op[3][: r.randrange(len(op[3]) + 1)])
                    if op[0] == "write" and r.random() < 0.3
                    else op
                )
        self.pending = {}

    def _apply(self, op: Op) -> None:
        kind, number = op[:2]
        if kind == "write":
            old, offset, new = self.durable[number], op[2], op[3]
            self.durable[number] = old[:offset].ljust(offset, b"\0") + new + old[offset + len(new) :]
        elif kind == "truncate":
            self.durable[number] = self.durable[number][: op[2]].ljust(op[2], b"\0")
        elif kind == "link":
            self.durable[number][op[2]] = op[3]
        elif kind == "unlink":
            self.durable[number].pop(op[2], None)
        else:
            _, _, source, target, moved = op
            if self.durable[number].get(source) == moved:
                del self.durable[number][source]
            self.durable[number][target] = moved

    def write_out(self, folder: Path, number: int = 1) -> None:
        """Makes real files of what survived."""
        folder.mkdir()
        for name, child in self.durable[number].items():
            if isinstance(self.durable[child], dict):
                self.write_out(folder / name, child)
            else:
                (folder / name).write_bytes(self.durable[child])


def after_power_cut(recorder: Recorder, r: random.Random, folder: Path) -> bool:
    """Replays the log up to a random point, cuts the power, makes the files in `folder`; whether all was done."""
    at = r.choice([r.randrange(len(recorder.log) + 1), len(recorder.log)])
    disk = Disk({number: dict(c) if isinstance(c, dict) else c for number, c in recorder.start.items()})
    for op in recorder.log[:at]:
        disk.do(op)
    disk.cut(r, r.choice([0.0, 1.0, 0.5, r.random()]))
    disk.write_out(folder)
    return at == len(recorder.log)
