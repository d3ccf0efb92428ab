"""What is promised of every framework, the rule of each for each kind of column, and both as the tables of the docs.

`python -m conformance.matrix` writes the tables of docs/frameworks.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from conformance.records import Field

PAGE = Path(__file__).resolve().parents[2] / "docs" / "frameworks.md"

CHECKS = {
    "order": "epochs as `row_ids()`",
    "resume": "resume after every batch",
    "twice": "resumed twice in an epoch",
    "between": "resumed between epochs, two epochs further",
    "ranks": "from 2 to 3 ranks",
    "broken": "broken off and iterated again",
    "threads": "iterated by two threads",
    "transform": "an error in a transform",
    "exclude": "rows left out by `exclude`",
    "leaks": "nothing left after ten epochs",
    "workers": "worker processes",
}

# Each kind of column of the table: how it is declared, and values of three rows.
KINDS: dict[str, tuple[Field, list[Any]]] = {
    "number": (Field("number", "number", "int16"), [np.int16(1), np.int16(-2), np.int16(3)]),
    "number, null": (Field("number", "number", "float32?", True), [np.float32(1), None, np.float32(3)]),
    "bfloat16": (Field("b", "fixed", {"type": "bfloat16", "shape": [2]}), [np.array([1, 2], np.uint16)] * 3),
    "string": (Field("string", "string", "string"), ["a", "", "é"]),
    "string, null": (Field("string", "string", "string?", True), ["a", None, ""]),
    "bytes": (Field("bytes", "bytes", "bytes"), [b"a", b"", b"b\0"]),
    "bytes, null": (Field("bytes", "bytes", "bytes?", True), [b"a", None, b"b\0"]),
    "text": (Field("text", "text", "text"), ["a", "", "é"]),
    "array": (Field("a", "fixed", {"type": "int32", "shape": [2]}), [np.array([1, 2], np.int32)] * 3),
    "array, null": (
        Field("a", "fixed", {"type": "int32?", "shape": [2]}, True),
        [np.array([1, 2], np.int32), None, np.array([3, 4], np.int32)],
    ),
    "ragged": (
        Field("r", "free", {"type": "int32", "shape": [-1]}),
        [np.arange(2, dtype=np.int32), np.zeros(0, np.int32), np.arange(3, dtype=np.int32)],
    ),
    "object": (Field("o", "object", "object"), [{"a": [1]}, None, "x"]),
}

REFUSED = "refused"  # making or reading it raises an error that names the column


@dataclass(frozen=True)
class Row:
    """A way to read: its consumer, what each kind of column becomes, and why a promise does not apply to it.

    ``rules`` has a text for each kind; ``otherwise`` the kinds whose values are not compared, since they are others.
    """

    title: str
    consumer: str
    rules: dict[str, str]
    workers: str = "none: threads in C"
    excused: dict[str, str] = field(default_factory=dict)
    otherwise: frozenset[str] = frozenset()


def _rules(**given: str) -> dict[str, str]:
    names = {name.replace(", ", "_"): name for name in KINDS}
    assert given.keys() == names.keys(), given.keys() ^ names.keys()
    return {names[name]: text for name, text in given.items()}


_ARRAYS = _rules(
    number="array",
    number_null="masked array",
    bfloat16="uint16 of its bits",
    string="list",
    string_null="list with None",
    bytes="`RaggedArray`",
    bytes_null="`RaggedArray`",
    text="`RaggedArray`",
    array="array",
    array_null="masked array",
    ragged="`RaggedArray`",
    object="`RaggedArray`",
)
_MASKS = {
    "number, null": "NaN or 0, and `x_valid`",
    "bfloat16": "bfloat16",
    "array, null": "NaN or 0, and `x_valid`",
}
_TENSORS = {**_ARRAYS, **_MASKS, "number": "tensor", "array": "tensor"}
_JAX = {**_ARRAYS, **_MASKS, "number": "`jax.Array`", "array": "`jax.Array`"}
_TF = {
    **_TENSORS,
    "string": "`tf.string`",
    "string, null": '"", and `x_valid`',
    "bytes": "`tf.string`",
    "bytes, null": '"", and `x_valid`',
    "text": "`tf.string`",
    "ragged": "`tf.RaggedTensor`",
    "object": REFUSED,
}
_STOCK = {
    **_TENSORS,
    "number, null": REFUSED,
    "string": "list",
    "string, null": "list with None",
    "bytes": "list",
    "bytes, null": "list with None",
    "text": "list",
    "array, null": REFUSED,
    "ragged": REFUSED,
    "object": REFUSED,
}
_MINDSPORE = {
    **_ARRAYS,
    **_MASKS,
    "bfloat16": "uint16 of its bits",
    "string": "array of `str`",
    "string, null": '"", and `x_valid`',
    "bytes": REFUSED,
    "bytes, null": REFUSED,
    "text": "array of `str`",
    "ragged": REFUSED,
    "object": REFUSED,
}
_KERAS = {
    **_MINDSPORE,
    "string": REFUSED,
    "string, null": REFUSED,
    "text": REFUSED,
}
_SAMPLES = dict.fromkeys(KINDS, "as `ds[i]` has it")
_HF = {
    "number": "`Value`, `ClassLabel`",
    "number, null": "null",
    "bfloat16": "uint16 of its bits",
    "string": "string",
    "string, null": "null",
    "bytes": "binary, `Image`, `Audio`",
    "bytes, null": "null",
    "text": "large string",
    "array": "`List`, `Array2D` …",
    "array, null": "null",
    "ragged": "`LargeList`",
    "object": "JSON text",
}

_OWN_RANKS = "no: {} counts the samples of one rank, and knows of no others"
_NO_TF_STATE = "loads: `tf.data` cannot say what has been delivered, so a state comes from another loader"
_NO_MINDSPORE_STATE = (
    "loads: MindSpore cannot say what has been delivered, so a state comes from another loader"
)
_NO_KERAS_STATE = "no: Keras asks for batches of whole epochs by number; a position within one is refused"
_WHOLE = "filled: it counts on whole batches, or on samples by number: `exclude(fill=True)` is obeyed, else refused"
_GRAIN_RUN = "no: an iterator of Grain's is a run of its own, from the epoch of the dataset on"
_TORCH_WORKERS = "fork, spawn, forkserver"

ROWS = [
    Row("`ds.batches`", "batches", _ARRAYS),
    Row("`unirecord.torch.loader`", "torch.loader", _TENSORS),
    Row("`unirecord.lightning.loader`", "lightning.loader", _TENSORS),
    Row(
        "PyTorch `DataLoader`, `EpochSampler`",
        "DataLoader",
        _STOCK,
        _TORCH_WORKERS,
        {
            "resume": "no: it does not say how far it has come; torchdata's does",
            "twice": "no: it has no state",
            "between": "no: it has no state",
            "ranks": "no: it has no state",
        },
    ),
    Row(
        "torchdata `StatefulDataLoader`, `EpochSampler`",
        "StatefulDataLoader",
        _STOCK,
        _TORCH_WORKERS,
        {
            "ranks": _OWN_RANKS.format("its state"),
            "threads": "no: it keeps one iterator: a loader for each thread",
        },
    ),
    Row(
        "`unirecord.tf.dataset`",
        "tf.dataset",
        _TF,
        excused={
            "resume": _NO_TF_STATE,
            "twice": _NO_TF_STATE,
            "between": _NO_TF_STATE,
            "ranks": _NO_TF_STATE,
            "exclude": _WHOLE,
            "transform": "no: a dataset with a transform is refused: its types are not known; `.map()` follows",
        },
    ),
    Row(
        "`unirecord.keras.dataset`",
        "keras.dataset",
        _KERAS,
        excused={
            "resume": _NO_KERAS_STATE,
            "twice": _NO_KERAS_STATE,
            "ranks": _NO_KERAS_STATE,
            "threads": "no: Keras says of one epoch at a time that it is over",
            "exclude": _WHOLE,
        },
    ),
    Row("`unirecord.jax.loader`", "jax.loader", _JAX),
    Row(
        "`unirecord.grain.batches`",
        "grain.batches",
        _ARRAYS,
        "one of Grain's: spawn",
        {"between": _GRAIN_RUN, "threads": _GRAIN_RUN},
    ),
    Row(
        "Grain `MapDataset`",
        "grain MapDataset",
        _SAMPLES,
        "Grain's: spawn",
        {"ranks": _OWN_RANKS.format("Grain's state"), "exclude": _WHOLE},
    ),
    Row(
        "Grain `DataLoader`",
        "grain.DataLoader",
        _SAMPLES,
        "Grain's: spawn",
        {"ranks": _OWN_RANKS.format("Grain's state"), "exclude": _WHOLE},
    ),
    Row(
        "`unirecord.hf.dataset`",
        "hf.dataset",
        _HF,
        "those of a `DataLoader`",
        {
            "ranks": _OWN_RANKS.format("the state of `datasets`"),
            "transform": "no: a dataset with a transform is refused: its features are not known; `.map()` follows",
        },
        otherwise=frozenset({"object"}),
    ),
    Row(
        "`unirecord.mindspore.dataset`",
        "mindspore.dataset",
        _MINDSPORE,
        excused={
            "resume": _NO_MINDSPORE_STATE,
            "twice": _NO_MINDSPORE_STATE,
            "between": _NO_MINDSPORE_STATE,
            "threads": "no: one iterator of MindSpore's goes through all epochs",
            "ranks": _NO_MINDSPORE_STATE,
            "exclude": _WHOLE,
            "transform": "no: a dataset with a transform is refused: its types are not known; `.map()` follows",
        },
    ),
]
# Consumers that read a dataset as it was when they were made of it.
READS_AS_MADE = {"grain MapDataset", "grain.DataLoader", "hf.dataset"}
# Consumers of what is too large for every run: `make mindspore`.
APART = {"mindspore.dataset"}


def promises() -> str:
    """The table of promises, and a sentence for each cell that is not a plain yes."""
    names = [name for name in CHECKS if name != "workers"]
    lines = [
        "| | " + " | ".join([*(CHECKS[name] for name in names), CHECKS["workers"]]) + " |",
        "|---" * (len(names) + 2) + "|",
    ]
    notes: dict[str, int] = {}
    for row in ROWS:
        cells = []
        for name in names:
            reason = row.excused.get(name)
            if reason is None:
                cells.append("yes")
            else:
                word, _, why = reason.partition(": ")
                cells.append(f"{word} ({notes.setdefault(why, len(notes) + 1)})")
        lines.append(f"| {row.title} | " + " | ".join([*cells, row.workers]) + " |")
    told = [f"({number}) {why}." for why, number in notes.items()]
    return "\n".join(lines) + "\n\n" + "\n\n".join(told)


def rules() -> str:
    """The table of what each kind of column becomes."""
    lines = ["| | " + " | ".join(row.title for row in ROWS) + " |", "|---" * (len(ROWS) + 1) + "|"]
    lines += [f"| {kind} | " + " | ".join(row.rules[kind] for row in ROWS) + " |" for kind in KINDS]
    return "\n".join(lines)


def page(text: str) -> str:
    """docs/frameworks.md with its tables as they are here."""
    for name, table in (("matrix", promises()), ("rules", rules())):
        begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
        text = f"{text.split(begin)[0]}{begin}\n{table}\n\n{end}{text.split(end)[1]}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
