"""LMDB databases as records: keys and values in the order of the keys, by the lmdb package."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, ClassVar, Final

from ...errors import SchemaError
from ...format.schema import Schema
from ...progress import Progress
from ...sizes import many
from .foreign_libraries import foreign_call, foreign_items, needed
from .input_path import InputPath
from .overrides import apply_overrides
from .source import (
    TRUST,
    AskedOption,
    Options,
    RawBatch,
    Source,
    Unit,
    row_batches,
)

__all__ = ["LmdbFolder"]

_UNIT_ROWS: Final = 4_096
_BATCH_BYTES: Final = 16_000_000
_MOST_DATABASES: Final = 64
_DATABASE_BYTES: Final = 48  # of the entry that says where one lies
_TRIED: Final = 1_000
_FILE: Final = "data.mdb"


class LmdbFolder(Source):
    """An LMDB database: ``key`` and ``value`` as bytes. What a value holds, only the program that wrote it knows."""

    kind: ClassVar[str] = "lmdb"
    about: ClassVar[str] = "an LMDB database"
    suffixes: ClassVar[tuple[str, ...]] = (".mdb", ".lmdb")
    options: ClassVar[tuple[AskedOption, ...]] = (TRUST,)
    libraries: ClassVar[tuple[str, ...]] = ("lmdb",)

    @classmethod
    def recognises(cls, source: InputPath) -> bool:
        """A folder with ``data.mdb``, or a file that ends so."""
        return (
            os.path.isfile(os.path.join(source.path, _FILE))
            if source.is_folder
            else source.holds(cls.suffixes)
        )

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Count the entries, and note the key at which each unit begins."""
        units: list[Unit] = []
        first, many = b"", 0
        with self._opened() as env, self._guard(env.begin) as transaction:
            self._check_whole(env)
            total = self._guard(env.stat)["entries"]
            for key in foreign_items(
                "lmdb", self.path, transaction.cursor().iternext(keys=True, values=False)
            ):
                if many == 0:
                    first = bytes(key)
                many += 1
                if many == _UNIT_ROWS:
                    units.append(Unit(f"{self.path}, keys from {first[:40]!r}", first, many))
                    many = 0
                    if progress is not None:
                        progress(len(units) * _UNIT_ROWS, total)
        if many:
            units.append(Unit(f"{self.path}, keys from {first[:40]!r}", first, many))
        if not units:
            raise SchemaError(f"{self.path} holds no entries")
        self._refuse_databases()
        self.units: Sequence[Unit] = units
        self.schema: Schema = apply_overrides({"key": "bytes", "value": "bytes"}, options.overrides)

    def _refuse_databases(self) -> None:
        """Refuse entries that are databases of their own: what is there under their names is where they lie."""
        with self._opened(_MOST_DATABASES) as env:
            with env.begin() as transaction:
                entries = foreign_items("lmdb", self.path, transaction.cursor().iternext())
                keys = islice((bytes(key) for key, value in entries if len(value) == _DATABASE_BYTES), _TRIED)
                tried = list(keys)
            found = [key.decode("utf-8", "backslashreplace") for key in tried if self._is_database(env, key)]
        if found:
            raise SchemaError(
                f"{self.path} holds databases of their own ({', '.join(found[:5])}{' …' * (len(found) > 5)}), of which "
                "the entries would be lost; give a generator that opens one: env.open_db(name), as docs/converting.md "
                "shows"
            )

    def _is_database(self, env: Any, key: bytes) -> bool:
        lmdb = needed("lmdb", "an LMDB database")
        try:
            env.open_db(key, create=False)
        except lmdb.DbsFullError:
            return True
        except lmdb.Error:  # an entry of that length that is none
            return False
        return True

    def _opened(self, databases: int = 0) -> Any:
        lmdb = needed("lmdb", "an LMDB database")
        return self._guard(
            lambda: lmdb.open(
                self.input.path,
                subdir=self.input.is_folder,
                readonly=True,
                lock=False,
                readahead=True,
                max_dbs=databases,
            )
        )

    def _check_whole(self, env: Any) -> None:
        """Refuse a file that ends within a page.

        One that ends before its last page may rightly do so, where that is not in use. Where it is, the system ends the
        process that reads it.
        """
        path = os.path.join(self.input.path, _FILE) if self.input.is_folder else self.input.path
        there, page = os.path.getsize(path), self._guard(env.stat)["psize"]
        if there % page:
            wanted = (env.info()["last_pgno"] + 1) * page
            raise SchemaError(f"{self.path} is cut off: it has {there:,} of {many(wanted, 'byte')}")

    def _guard(self, call: Any) -> Any:
        with foreign_call("lmdb", self.path):
            return call()

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield the entries from a key on."""
        with self._opened() as env, self._guard(env.begin) as transaction:
            cursor = transaction.cursor()
            if self._guard(lambda: cursor.set_range(unit.place)):
                entries = islice(foreign_items("lmdb", self.path, cursor.iternext()), unit.rows or 0)
                rows = (((bytes(key), bytes(value)), len(value)) for key, value in entries)
                yield from row_batches(self.schema.names, rows, _BATCH_BYTES)
