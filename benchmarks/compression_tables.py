"""The tables of docs/performance/compression.md, from the measurements of the suite."""

from __future__ import annotations

from compression import FLOOR, PEERS
from medians import Medians, rate, ratio, table, times

TITLES = {
    "text": "text: pieces of source code of 0.3 to 4 KB",
    "json": "JSON rows",
    "fields": "float32 [32, 32], temperatures in steps of 1/64 K, `shuffle+zstd`",
}


def write(medians: Medians) -> str:
    """Ratios beside blocks; batches beside plain ones and libzstd alone; a random row beside the peers'."""

    def found(kind: str, name: str) -> float | None:
        return medians.figure(("compression", kind, "", 0, name), "value")

    ratios, rates, rows = [], [], []
    for kind, title in TITLES.items():
        mine, blocks = found(kind, "ratio of the data file"), found(kind, "ratio in blocks of 64 KiB")
        both, size = found(kind, "ratio of data file and index"), found(kind, "bytes a value")
        ratios.append(
            [title, rate(size), times(mine), times(both), times(blocks), times(ratio(mine, blocks))]
        )
        for what in ("batches, 1 threads", "batches, 2 threads", "cold epoch"):
            plain, packed = found(kind, f"plain, {what}"), found(kind, f"compressed, {what}")
            floor = found(kind, f"{FLOOR}, {what.removeprefix('batches, ')}")
            unpacked = found(kind, "blocks of 64 KiB unpacked") if what == "batches, 1 threads" else None
            cells = [
                rate(plain),
                rate(packed),
                times(ratio(packed, plain)),
                rate(floor),
                times(ratio(packed, floor)),
                times(ratio(unpacked, plain)),
            ]
            rates.append([f"{kind}, {what.replace('1 threads', '1 thread')}", *cells])
        single = found(kind, "compressed, random row")
        rows.append([f"{kind}: UniRecord", times(single), "1", times(both)])
        for name in PEERS:
            theirs = found(kind, f"{name}, random row")
            size = times(found(kind, f"{name}, ratio"))
            rows.append([f"{kind}: {name}", times(theirs), times(ratio(theirs, single)), size])
            first = found(kind, f"{name}, first row of a shard")
            if first is not None:
                title = f"{kind}: {name}, first row of a shard"
                rows.append([title, times(first), times(ratio(first, single)), size])
    return "\n\n".join(
        [
            table(
                ["data", "bytes a value", "ratio", "with the index", "blocks of 64 KiB", "of the blocks'"],
                ratios,
            ),
            table(
                [
                    "samples/s",
                    "plain",
                    "compressed",
                    "of plain",
                    "libzstd alone",
                    "of libzstd alone",
                    "blocks, of plain",
                ],
                rates,
            ),
            table(["a random row", "µs", "× ours", "ratio of all files"], rows),
        ]
    )
