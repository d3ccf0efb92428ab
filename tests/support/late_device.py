"""A stand-in for a CUDA device that copies as late as it may, and for pinned memory that is counted."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch

from unirecord.frameworks import torch as adapter


class Event:
    """Ends when the device has come so far."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.at = device.issued

    def query(self) -> bool:
        return self.device.done >= self.at


class Stream:
    def __init__(self, device: Device, name: str) -> None:
        self.device, self.name = device, name

    def record_event(self) -> Event:
        self.device.log.append(("event", self.name))
        return Event(self.device)

    def wait_event(self, event: Event) -> None:
        self.device.log.append(("wait", self.name))

    def synchronize(self) -> None:
        self.device.log.append(("synchronize", self.name))
        self.device.run(0)


class Device:
    """Copies between addresses, without a hold on the memory, and leaves the last ``lag`` of them undone."""

    def __init__(self, lag: int) -> None:
        self.lag = lag
        self.log: list[tuple[str, str]] = []
        self.queue: deque[tuple[int, int, int]] = deque()
        self.issued = self.done = 0
        self.main = self.current = Stream(self, "main")
        self.kept: list[torch.Tensor] = []

    def to(self, tensor: torch.Tensor, device: Any, non_blocking: bool = False) -> torch.Tensor:
        assert non_blocking
        target = torch.full_like(tensor, -1)
        self.kept.append(target)
        self.log.append(("copy", self.current.name))
        self.queue.append((target.data_ptr(), tensor.data_ptr(), tensor.nbytes))
        self.issued += 1
        self.run(self.lag)
        return target

    def run(self, left: int) -> None:
        while len(self.queue) > left:
            ctypes.memmove(*self.queue.popleft())
            self.done += 1

    def stand_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Puts it in the place of CUDA."""
        log = self.log
        monkeypatch.setattr(torch.cuda, "Stream", lambda _=None: Stream(self, "side"))
        monkeypatch.setattr(torch.cuda, "stream", self.stream)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda _=None: self.current)
        monkeypatch.setattr(torch.Tensor, "to", lambda tensor, *a, **k: self.to(tensor, *a, **k))
        monkeypatch.setattr(
            torch.Tensor, "record_stream", lambda tensor, stream: log.append(("used", stream.name))
        )

    @contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        before, self.current = self.current, stream
        yield
        self.current = before


class PinnedMemory:
    """Ordinary memory that counts as pinned: what was taken, and what was copied into it."""

    def __init__(self) -> None:
        self.pieces: list[tuple[int, int]] = []
        self.kept: list[Any] = []
        self.copies = 0

    def stand_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Puts it in the place of CUDA's."""
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(adapter, "pinned_piece", self.take)
        monkeypatch.setattr(torch.Tensor, "is_pinned", lambda tensor: self.holds(tensor))
        monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: self.copy(tensor))

    def take(self, size: int) -> np.ndarray:
        raw = np.empty(size + 4096, np.uint8)
        piece = raw[-raw.ctypes.data % 4096 :][:size]  # as pinned memory is
        self.kept.append(piece)  # no address comes twice
        self.pieces.append((piece.ctypes.data, piece.ctypes.data + size))
        return piece

    def holds(self, tensor: torch.Tensor) -> bool:
        return any(start <= tensor.data_ptr() < end for start, end in self.pieces)

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        self.copies += 1
        copied = tensor.clone()
        self.kept.append(copied)
        self.pieces.append((copied.data_ptr(), copied.data_ptr() + copied.nbytes))
        return copied
