"""What sources of text share: several files make one dataset, and are read in blocks of lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from ...progress import Progress
from .base import Source, Unit
from .input_path import InputPath
from .splits import refuse_split_files

__all__ = ["TextFiles"]


class TextFiles(Source):
    """A text file, or a folder or pattern of them. ``place`` of a unit: the number of the file, and a `BlockPlace`."""

    units: Sequence[Unit]

    any_names: ClassVar[bool] = True
    reads: ClassVar[str] = "a file, or a folder of them"

    @classmethod
    def recognises(cls, source: InputPath) -> bool:
        """By the name; a folder or a pattern by the names of all its files."""
        return source.holds_only(cls.suffixes)

    @classmethod
    def can_read(cls, source: InputPath) -> bool:
        """Files, and folders of them."""
        return source.is_file or source.holds(cls.suffixes)

    def each_file(self, progress: Progress | None) -> Iterator[tuple[InputPath, Progress | None]]:
        """Yield the files in natural order, and what is told how far one is that is alone; gives each back after it."""
        files = self.files_to_read()
        refuse_split_files(self.path, [file.name for file in files])
        alone = len(files) == 1
        for number, file in enumerate(files, 1):
            yield file, progress if alone else None
            if alone:
                return
            file.release()
            if progress is not None:
                progress(number, len(files))

    def add_units(self, units: list[Unit]) -> None:
        """Add the units of a file; the last reaches to its end, so that lines that come to be there are noticed."""
        if units:
            last = units[-1]
            number, place = last.place
            units[-1] = Unit(last.name, (number, place._replace(size=None)), last.rows)
        self.units = [*self.units, *units]
