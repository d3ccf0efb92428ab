"""What the producers of a cache of samples do: take records from the user's function, and publish parts of them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..core import end_with_parent
from ..order.randomness import seed_globals
from ..storage.samples_folder import SamplesFolder
from ..writing.writer import Writer

__all__ = ["Producing", "Remote"]

Remote = Callable[[int, int], Iterable[Mapping[str, Any]]]

_LOOK_SECONDS: Final = 0.02  # after which a producer without room looks again
_NUMBER: Final = 8  # bytes that a number takes, about


@dataclass(frozen=True)
class Producing:
    """What one producer does, in a process of its own: ``remote(producer, producers)`` gives its records."""

    remote: Remote
    folder: SamplesFolder
    schema: Mapping[str, Any]
    producer: int
    producers: int

    def __call__(self) -> None:
        end_with_parent()  # a part that is half written goes when the next trainer comes
        seed_globals(
            int.from_bytes(os.urandom(8), "little")
        )  # what it made before it was started again comes no second time
        records = iter(self.remote(self.producer, self.producers))
        while (first := next(records, None)) is not None:
            self._wait_for_room()
            name = f"samples-{time.time_ns():020d}-{self.producer:04d}.urec"
            with Writer(os.path.join(self.folder.path, name), self.schema) as writer:
                size = 0
                record: Mapping[str, Any] | None = first
                while record is not None:
                    writer.write(record)
                    size += sum(map(_bytes_of, record.values()))
                    record = next(records, None) if size < self.folder.part_bytes else None

    def _wait_for_room(self) -> None:
        """All producers may be about to write a part."""
        while self.folder.used() + 2 * self.producers * self.folder.part_bytes > self.folder.limit:
            time.sleep(_LOOK_SECONDS)


def _bytes_of(value: Any) -> int:
    size = getattr(value, "nbytes", None)
    if size is None:
        size = len(value) if isinstance(value, bytes | bytearray | str) else _NUMBER
    return int(size)
