"""What a store of somebody else's is asked to do: datasets written, appended to, raced for, and read again."""

from __future__ import annotations

from typing import Any

import numpy as np

from unirecord import (
    StaleError,
    UniRecordDataset,
    Writer,
    append,
    compact,
    delete,
    evict,
    merge,
    reshard,
    sort,
    verify,
)

SCHEMA = {"n": "int64", "x": "uint8[1000]"}


def add(writer: Writer, first: int, rows: int) -> None:
    for n in range(first, first + rows):
        writer.write({"n": n, "x": np.full(1_000, n % 256, np.uint8)})


def numbers(url: str, **options: Any) -> list[int]:
    with UniRecordDataset(url, **options) as ds:
        found = []
        for batch in ds.batches(64):
            assert (batch["x"] == (batch["n"] % 256).astype(np.uint8)[:, None]).all()
            found += batch["n"].tolist()
        return found


def written_and_read(url: str) -> str:
    with Writer(url, SCHEMA, max_part_bytes="200kB") as writer:
        add(writer, 0, 500)
    assert numbers(url) == list(range(500))
    assert sorted(numbers(url, shuffle=True, seed=1)) == list(range(500))
    assert numbers(url, where="n < 7") == list(range(7))
    assert sum(map(len, (numbers(f"{url}/*.urec"),))) == 500
    return "written as several parts, listed, read in order, shuffled, and by a condition"


def appended(url: str) -> str:
    first, second = append(url), append(url)
    add(first, 500, 50)
    add(second, 550, 50)
    first.close()
    second.close()
    assert numbers(url) == list(range(600))
    return "appended to by two writers at once: both are there"


def changed(url: str) -> str:
    """While another one is about to append."""
    with append(url) as other:
        delete(url, where="n < 10")
        compact(url, drop_deleted=True)
        sort(url, "n", descending=True)
        add(other, 600, 10)
    assert numbers(url) == [*range(599, 9, -1), *range(600, 610)]
    assert reshard(url, 3).parts_after == 3
    assert evict(url, 450_000).rows > 100
    assert numbers(url)[-10:] == list(range(600, 610))
    return "rows deleted, compacted, sorted, laid out anew and evicted, beside one that appends"


def large(url: str) -> str:
    with Writer(url, SCHEMA) as writer:
        add(writer, 0, 30_000)
    assert numbers(url) == list(range(30_000))
    return "30 MB uploaded in pieces"


def one_writer_wins(url: str, **options: Any) -> str:
    first, second = (Writer(url, SCHEMA, **options) for _ in range(2))
    add(first, 0, 10)
    add(second, 100, 10)
    first.close()
    try:
        second.close()
    except StaleError:
        pass
    else:
        raise AssertionError("both writers published")
    assert numbers(url) == list(range(10))
    return f"of two writers {'that replace a dataset' if options else 'of a new dataset'} the second is told"


def merged(url: str, others: list[str]) -> str:
    wanted = [n for other in others for n in numbers(other)]
    assert merge(others, url).rows >= len(wanted)
    assert numbers(url) == wanted
    return "merged with another one, byte for byte"


def verified(url: str) -> str:
    assert verify(url).ok
    return "every byte verified"


def all_checks(base: str) -> None:
    """Everything below ``base``, a line for each thing that has been seen."""
    rows = f"{base}/rows"
    print("ok:", written_and_read(rows), flush=True)
    print("ok:", appended(rows), flush=True)
    print("ok:", changed(rows), flush=True)
    print("ok:", large(f"{base}/large"), flush=True)
    print("ok:", merged(f"{base}/both", [rows, f"{base}/large"]), flush=True)
    print("ok:", one_writer_wins(f"{base}/raced"), flush=True)
    print("ok:", one_writer_wins(rows, overwrite=True), flush=True)
    print("ok:", verified(rows), flush=True)
