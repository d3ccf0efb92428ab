"""Text to tokens on the way into a dataset: the tokenizer that is asked for, and the step that it makes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np

from ..core import cached_property
from ..errors import MissingError, SchemaError
from ..format.column import Column
from ..format.schema import Schema
from ..sizes import format_size
from ..storage.schemes import location_of
from .sources.foreign_libraries import foreign_call, needed
from .sources.source import LeftOut, RawBatch, Source, Unit, WrongSourceError, made_ahead
from .steps import Places, Step, cells_of_rows, check_columns

__all__ = ["TOKENS", "Tokenization"]


TOKENS: Final = "tokens"  # the column in the place of the text, unless it is renamed
_TEXT: Final = "text"  # the column of text, where several could be it
_FILE: Final = "tokenizer.json"
_MOST_BYTES: Final = 1 << 28
_SHOWN: Final = 8
# The first ones of some units are made again, to compare what was written.
_ROWS_AT_ONCE: Final = 256
_GROUP_CHARACTERS: Final = 1 << 17
# What keeps the library to one thread, and the values that it takes for no.
_THREADS: Final = "TOKENIZERS_PARALLELISM"
_OFF: Final = ("", "off", "false", "f", "no", "n", "0")
_AT_A_TIME: Final = 2  # groups: one is made arrays, while the library is at the next


@dataclass(frozen=True)
class Tokenization:
    """How text becomes tokens.

    Attributes:
        tokenizer: a file ``tokenizer.json``, as the library `tokenizers` has it, or a folder with one.
        text_column: the column of text; None: the only one, or the one that is called text.
        append_eos, prepend_bos: tokens of the vocabulary that stand behind and before each text.
        add_special_tokens: put those there that the tokenizer itself says, in their place.

    Raises ValueError where the special tokens are said in both ways.
    """

    tokenizer: str | os.PathLike[str]
    text_column: str | None = None
    append_eos: str | None = None
    prepend_bos: str | None = None
    add_special_tokens: bool = False

    def __post_init__(self) -> None:
        if self.add_special_tokens and (self.append_eos, self.prepend_bos) != (None, None):
            raise ValueError(
                "add_special_tokens takes the tokens that the tokenizer says; append_eos and prepend_bos say others "
                "in their place: choose one way"
            )

    @classmethod
    def asked(
        cls,
        tokenizer: str | os.PathLike[str] | None,
        text_column: str | None,
        append_eos: str | None,
        prepend_bos: str | None,
        add_special_tokens: bool,
    ) -> Tokenization | None:
        """What a call asks for; None where it asks for no tokens, ValueError where it says how and not by what."""
        if tokenizer is not None:
            return cls(tokenizer, text_column, append_eos, prepend_bos, add_special_tokens)
        given = [text_column, append_eos, prepend_bos, add_special_tokens or None]
        if given.count(None) < len(given):
            raise ValueError(
                "text_column, append_eos, prepend_bos and add_special_tokens say how tokens are made: tokenizer says "
                "by what, and is not given"
            )
        return None

    def options(self) -> dict[str, str]:
        """What was asked for, by its name on the command line: other tokens where one of them differs."""
        given = {
            "--text-column": self.text_column,
            "--append-eos": self.append_eos,
            "--prepend-bos": self.prepend_bos,
            "--add-special-tokens": self.add_special_tokens or None,
        }
        return {
            "--tokenizer": f"{self._file.name} (sha256 {self._file.sha256})",
            **{name: repr(value) for name, value in given.items() if value is not None},
            "the version of tokenizers": str(_library().__version__),
        }

    def column_of(self, source: Source, names: Sequence[str]) -> str:
        """The column of text among those to be written; `WrongSourceError` where it cannot be told."""
        texts = [name for name in names if _is_text(source.schema[name])]
        asked = self.text_column
        if asked is not None:
            check_columns("text-column", [asked], source.schema)
            if asked not in texts:
                what = f"{source.schema[asked]}, not text" if asked in names else "not among --columns"
                raise WrongSourceError(f"--text-column: {asked!r} is {what}")
            return asked
        if not texts:
            raise WrongSourceError(
                f"--tokenizer: {source.path} has no column of text among those to be written, {', '.join(names)}"
            )
        if len(texts) > 1 and _TEXT not in texts:
            raise WrongSourceError(
                f"--tokenizer: --text-column says which of {', '.join(texts)} is tokenised"
            )
        return _TEXT if _TEXT in texts else texts[0]

    def step(self, source: Source, text: str, *, refuses: bool) -> Step:
        """The step that puts tokens in the place of the column ``text``, under its name.

        Text that the tokenizer cannot take is an error with ``refuses``, else its row is left out.
        Raises `SchemaError` where the file is no tokenizer, `MissingError` where there is none, and `WrongSourceError`
        for tokens that are not in its vocabulary.
        """
        file = self._file
        tokenizer = file.opened()
        before = _id(tokenizer, file, "--prepend-bos", self.prepend_bos)
        behind = _id(tokenizer, file, "--append-eos", self.append_eos)
        # Ids may have gaps, so that the greatest counts, and not how many there are.
        size = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1) + 1
        said = {"name": file.name, "sha256": file.sha256, "vocab_size": size}
        said |= {key: ids[0] for key, ids in (("bos", before), ("eos", behind)) if ids}
        column = source.schema[text]
        dtype = "uint16" if size <= 1 << 16 else "uint32"
        spec = {
            "type": dtype + "?" * column.nullable,
            "shape": [-1],
            "annotations": {**column.annotations, "tokenizer": said},
        }
        tokens = Schema.parse({text: spec})[0]
        encoding = _Encoding(file, before, behind, self.add_special_tokens, dtype)
        return Step(
            partial(_tokenised, encoding, column, refuses),
            partial(_with_tokens, tokens),
            rows_at_once=_ROWS_AT_ONCE,
        )

    @cached_property
    def _file(self) -> _TokenizerFile:
        path = os.fspath(self.tokenizer)
        found = location_of(path).find(path)
        if found is not None and found.kind == "directory":
            path = os.path.join(path, _FILE)
            found = location_of(path).find(path)
        if found is None or found.kind != "file":
            raise MissingError(
                f"there is no file {path}: a tokenizer is a {_FILE}, as models of Hugging Face have it, and "
                "`tokenizer.save(path)` of tokenizers and `save_pretrained(folder)` of transformers write it"
            )
        if found.size > _MOST_BYTES:
            raise SchemaError(f"{path} has {format_size(found.size)}, too much for a {_FILE}")
        return _TokenizerFile(path, location_of(path).read(path, _MOST_BYTES))


@dataclass(frozen=True)
class _TokenizerFile:
    """What a tokenizer's file holds; it goes with a step to other processes and machines."""

    path: str
    content: bytes

    @property
    def name(self) -> str:
        """What people call it: the folder of a model, or the file where that has a name of its own."""
        folder, file = os.path.split(os.path.abspath(self.path) if "://" not in self.path else self.path)
        return (os.path.basename(folder) or file) if file == _FILE else file

    @property
    def sha256(self) -> str:
        """Of the bytes of the file, as `sha256sum` says it."""
        return hashlib.sha256(self.content).hexdigest()

    def opened(self) -> Any:
        """The tokenizer; `SchemaError` where the file is none."""
        return _opened(self)


def _library() -> Any:
    return needed("tokenizers", "--tokenizer")


@lru_cache(2)
def _opened(file: _TokenizerFile) -> Any:
    library = _library()
    with foreign_call("tokenizers", file.path):
        found = library.Tokenizer.from_buffer(file.content)
        # Tokenisers of models cut texts at the length that the model takes: here each token counts.
        found.no_truncation()
        found.no_padding()
    return found


def _id(tokenizer: Any, file: _TokenizerFile, option: str, token: str | None) -> tuple[int, ...]:
    """The number of a token, or nothing without one."""
    if token is None:
        return ()
    found = tokenizer.token_to_id(token)
    if found is None:
        special = [one.content for one in tokenizer.get_added_tokens_decoder().values() if one.special]
        shown = ", ".join(special[:_SHOWN]) + (" and others" if len(special) > _SHOWN else "")
        known = f"its special tokens are {shown}" if special else "it has no special tokens"
        raise WrongSourceError(f"{option}: {token!r} is not in the vocabulary of {file.path}; {known}")
    return (found,)


def _is_text(column: Column) -> bool:
    return not column.is_array and column.type in ("string", "text")


def _with_tokens(tokens: Column, before: Schema) -> Schema:
    return Schema(tokens if column.name == tokens.name else column for column in before)


@dataclass(frozen=True)
class _Encoding:
    """A tokenizer with what stands before and behind each text, and the type of the tokens."""

    file: _TokenizerFile
    before: tuple[int, ...]
    behind: tuple[int, ...]
    special: bool
    dtype: str

    def encoded(self, texts: Sequence[str]) -> Any:
        """What the library makes of texts: on all cores and without Python's lock, which `encode` and others hold.

        `SchemaError` where it cannot take one.
        """
        tokenizer = self.file.opened()
        with foreign_call("tokenizers", f"text, by {self.file.path},"):
            return tokenizer.encode_batch_fast(texts, add_special_tokens=self.special)

    def tokens(self, encoded: Any) -> list[Any]:
        """The tokens of each text, of what the library has made of it; `SchemaError` where one is no token."""
        return list(map(self._array, encoded))

    def _array(self, encoded: Any) -> Any:
        tokens = np.array([*self.before, *encoded.ids, *self.behind], np.uint32)
        if len(tokens) and int(tokens.max()) > np.iinfo(self.dtype).max:
            raise SchemaError(
                f"{self.file.path} gives a token {tokens.max():,}, which is not in its vocabulary"
            )
        return tokens.astype(self.dtype)


def _groups(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the texts in groups: of a token the library keeps a hundred bytes and more, until they are an array."""
    start = size = 0
    for i, text in enumerate(texts):
        size += len(text)
        if size >= _GROUP_CHARACTERS:
            yield texts[start : i + 1]
            start, size = i + 1, 0
    if start < len(texts):
        yield texts[start:]


class _Texts:
    """The texts of a batch on their way to tokens, a group at a time."""

    def __init__(self, encoding: _Encoding, batch: RawBatch, texts: Sequence[str | None]) -> None:
        self.batch = batch
        self._encoding = encoding
        self._there = [i for i, text in enumerate(texts) if text is not None]
        self._texts = [text for text in texts if text is not None]
        self._tokens: list[Any] = []
        self._is_refused = False

    def groups(self) -> Iterator[tuple[_Texts, Sequence[str], bool]]:
        """Yield the texts in groups, and whether it is the last one, of which there is one always."""
        *others, last = [*_groups(self._texts)] or [[]]
        for group in others:
            yield self, group, False
        yield self, last, True

    def encoded(self, group: Sequence[str]) -> Any:
        """What the library makes of a group, or None where it refuses one of its texts."""
        try:
            return self._encoding.encoded(group) if group else []
        except SchemaError:
            return None

    def add(self, encoded: Any) -> None:
        """Take what the library has made of the next group."""
        try:
            self._is_refused |= encoded is None
            self._tokens += self._encoding.tokens(encoded or ())
        except SchemaError:
            self._is_refused = True

    def tokens(self) -> tuple[list[Any], dict[int, str]]:
        """The tokens of each row, and why those that are refused are."""
        refused: dict[int, str] = {}
        if self._is_refused:
            self._tokens = []
            for i, text in zip(self._there, self._texts, strict=True):
                try:
                    self._tokens += self._encoding.tokens(self._encoding.encoded([text]))
                except SchemaError as error:
                    self._tokens.append(None)
                    refused[i] = str(error)
        found: list[Any] = [None] * self.batch.rows
        for i, one in zip(self._there, self._tokens, strict=True):
            found[i] = one
        return found, refused


def _tokenised(
    encoding: _Encoding,
    column: Column,
    refuses: bool,
    unit: Unit,
    places: Places,
    batches: Iterator[RawBatch],
) -> Iterator[RawBatch]:
    """Yield the batches with tokens; while one is made arrays and written, the library is at the next."""
    cells, first = cells_of_rows(Schema([column]), [column.name]), 0
    failed: list[Exception] = []

    def groups() -> Iterator[tuple[_Texts, Sequence[str], bool]]:
        nonlocal first
        try:
            for batch in batches:
                stored = cells(batch, first)[0].each() if batch.rows else ()
                first += batch.rows
                texts = [None if one is None else one.decode() for one in stored]
                yield from _Texts(encoding, batch, texts).groups()
        except Exception as error:  # what was read before it is given first
            failed.append(error)

    at_a_time = _AT_A_TIME if os.environ.get(_THREADS, "true").lower() not in _OFF else 1
    ahead = made_ahead(lambda group: group[0].encoded(group[1]), groups(), at_a_time)
    with closing(ahead):
        for (of, _, is_last), encoded in ahead:
            of.add(encoded)
            if is_last:
                yield _with_arrays(of, column.name, refuses, unit, places) if of.batch.rows else of.batch
    if failed:
        raise failed[0]


def _with_arrays(of: _Texts, column: str, refuses: bool, unit: Unit, places: Places) -> RawBatch:
    """The batch with tokens in the place of texts, without the rows that are refused."""
    batch, (found, refused) = of.batch, of.tokens()
    made = replace(batch, columns={**batch.columns, column: found})
    if not refused:
        return made
    named = list(zip(places(unit, batch, list(refused)), refused.values(), strict=True))
    if refuses:
        at, why = named[0]
        raise SchemaError(f"{at}: {why}; --on-error skip leaves it out")
    taken = np.array([i for i in range(batch.rows) if i not in refused], np.int64)
    return made.taken(taken, [LeftOut(at.name, at.why(why)) for at, why in named])
