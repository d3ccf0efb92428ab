"""Text to tokens on the way into a dataset: the tokenizer that is asked for, and the step that it makes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
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
from .steps import Change, Places, Step, cells_of_rows, check_columns

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

    def tokens(self, texts: Sequence[str]) -> list[Any]:
        """The tokens of each text; `SchemaError` where the tokenizer cannot take one."""
        found: list[Any] = []
        at_a_time = _AT_A_TIME if os.environ.get(_THREADS, "true").lower() not in _OFF else 1
        for _, encoded in made_ahead(self._encoded, _groups(texts), at_a_time):
            found += map(self._array, encoded)
        return found

    def _encoded(self, texts: Sequence[str]) -> Any:
        """What the library makes of texts: on all cores and without Python's lock, which `encode` and others hold."""
        tokenizer = self.file.opened()
        with foreign_call("tokenizers", f"text, by {self.file.path},"):
            return tokenizer.encode_batch_fast(texts, add_special_tokens=self.special)

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


def _tokenised(encoding: _Encoding, column: Column, refuses: bool, unit: Unit, places: Places) -> Change:
    first, cells = 0, cells_of_rows(Schema([column]), [column.name])

    def change(batch: RawBatch) -> RawBatch:
        nonlocal first
        (stored,) = cells(batch, first)
        first += batch.rows
        texts = [None if one is None else one.decode() for one in stored.each()]
        there = [i for i, text in enumerate(texts) if text is not None]
        found: list[Any] = [None] * batch.rows
        refused: dict[int, str] = {}
        try:
            tokens = encoding.tokens([texts[i] or "" for i in there])
        except SchemaError:
            tokens = []
            for i in there:
                try:
                    tokens += encoding.tokens([texts[i] or ""])
                except SchemaError as error:
                    tokens.append(None)
                    refused[i] = str(error)
        for i, one in zip(there, tokens, strict=True):
            found[i] = one
        made = replace(batch, columns={**batch.columns, column.name: found})
        if not refused:
            return made
        named = list(zip(places(unit, batch, list(refused)), refused.values(), strict=True))
        if refuses:
            at, why = named[0]
            raise SchemaError(f"{at}: {why}; --on-error skip leaves it out")
        taken = np.array([i for i in range(batch.rows) if i not in refused], np.int64)
        return made.taken(taken, [LeftOut(at.name, at.why(why)) for at, why in named])

    return change
