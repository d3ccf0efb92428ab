"""Hugging Face's ways to read: unirecord.hf.dataset(ds) as Arrow tables and row by row, and the table of scalars."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import unirecord
from conformance.canonical import Sample, freeze
from conformance.consumers import ANY_TYPE, SCALARS, Options, Reading, arrow_items, consumer
from conformance.records import Field
from unirecord import UniRecordDataset

CARRIED = frozenset({"number", "bool", "string", "bytes", "text", "fixed", "free", "inner", "free2"})
# bfloat16 comes as the uint16 of its bits; JSON of an object need not be the object again.
TYPES_LEFT_OUT = frozenset({"complex64", "complex128"})


def typed(column: Field, value: Any) -> Any:
    """A value of a table, as the column has it."""
    if value is None or column.kind in ("string", "text", "bytes"):
        return freeze(value)
    dtype = np.dtype({"bfloat16": "uint16"}.get(column.type, column.type))
    if column.kind in ("number", "bool"):
        return freeze(dtype.type(value))
    array = np.array(value, dtype)
    if not array.size:  # lists of nothing cannot say the sizes behind
        array = array.reshape([max(size, 0) for size in column.shape])
    return freeze(array)


def _rows(table: Any, fields: Sequence[Field]) -> list[Sample]:
    columns = {
        field.name: arrow_items(field, table[field.name])
        if field.kind == "time"
        else [typed(field, value) for value in table[field.name].to_pylist()]
        for field in fields
    }
    return [{field.name: columns[field.name][row] for field in fields} for row in range(len(table))]


class Iterable:
    """A ``datasets.IterableDataset`` of the dataset's epoch, made anew for each, and its states beside the epoch."""

    def __init__(self, ds: UniRecordDataset) -> None:
        self._ds = ds
        self.set_epoch(ds.epoch)

    def set_epoch(self, epoch: int) -> None:
        self._ds.set_epoch(epoch)
        self.data = unirecord.hf.dataset(self._ds).with_format("arrow")

    def state_dict(self) -> Any:
        return {"epoch": self._ds.epoch, "hf": self.data.state_dict()}

    def load_state_dict(self, state: Any) -> None:
        self.set_epoch(state["epoch"])
        self.data.load_state_dict(state["hf"])


TYPED: dict[str, Any] = {"types": ANY_TYPE - TYPES_LEFT_OUT, "advances": False}
TO_HF: dict[str, Any] = {"carries": CARRIED | {"time"}, "own_states": True, **TYPED}


@consumer(
    "hf.dataset", "unirecord.hf.dataset", takes=frozenset({"batch_size"}), saves=True, loads=True, **TO_HF
)
def by_tables(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    owner = Iterable(ds)

    def batches() -> Iterator[list[Sample]]:
        for table in owner.data.iter(options.batch_size):
            yield _rows(table, fields)

    return Reading(batches, owner)


# Rows have times as objects of Python, which hold fewer of them.
@consumer(
    "hf.dataset, row by row", "unirecord.hf.dataset", batched=False, weight=5, **{**TO_HF, "carries": CARRIED}
)
def by_rows(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    owner = Iterable(ds)

    def batches() -> Iterator[list[Sample]]:
        for row in owner.data.with_format(None):
            yield [{field.name: typed(field, row[field.name]) for field in fields}]

    return Reading(batches, owner)


@consumer(
    "hf.table",
    "unirecord.hf.table",
    carries=SCALARS,
    batched=False,
    weight=5,
    **TYPED,
)
def by_scalars(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    return Reading(lambda: iter([_rows(unirecord.hf.table(ds).data, fields)]), ds)
