"""What reading was to reach, beside what this run has measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from medians import Key, Medians, rate, ratio, table

OFF, ON = "UniRecord, verify=never", "UniRecord"
UNCACHED = (OFF, ON, "UniRecord, io=uring-direct, verify=never", "UniRecord, io=uring-direct")
MEMCPY, DIRECT = "floor: memcpy", "floor: io_uring O_DIRECT"
COPIED, KEPT = f"{DIRECT}, copied", f"{DIRECT}, kept in memory"


@dataclass(frozen=True)
class Target:
    """`mine` over `other` is to be at least `least` (or, where `most`, at most)."""

    text: str
    against: str
    mine: Key
    other: Key | None
    wanted: float
    figure: str = "samples_per_s"
    most: bool = False


def _hot(workload: str, entrant: str, threads: int = 1) -> Key:
    return ("peers", workload, "hot", threads, entrant)


def _verify(entrant: str) -> str:
    return "verify off" if "never" in entrant else "verify on"


def _io(entrant: str) -> str:
    return ", io=uring-direct" if "direct" in entrant else ""


def _reading() -> Iterator[Target]:
    cases = [("rows", (1,), ((MEMCPY, 0.7), ("FFCV", 3.0), ("LMDB", 8.0)))]
    cases.append(("arrays", (1, 2), ((MEMCPY, 0.85), ("FFCV", 2.0))))
    cases.append(("blobs", (1, 2), ((MEMCPY, 0.85), ("LMDB", 1.3))))
    for workload, threads, others in cases:
        for count in threads:
            for other, wanted in others:
                for mine in (OFF, ON):
                    text = f"{TITLES[workload]}, cached, {count} thread{'s' * (count > 1)}, {_verify(mine)}"
                    yield Target(
                        text, other, _hot(workload, mine, count), _hot(workload, other, count), wanted
                    )
    for text, cache, mine in _uncached():
        for floor in (DIRECT, KEPT if cache == "cold" and not _io(mine) else COPIED):
            yield Target(
                text, floor, ("peers", "blobs", cache, 1, mine), ("peers", "blobs", cache, 1, floor), 0.85
            )


def _uncached() -> Iterator[tuple[str, str, str]]:
    """Text, cache state and entrant of each way to read blobs that are not cached."""
    for mine in (OFF, ON):
        yield f"{TITLES['blobs']}, uncached, more than memory, {_verify(mine)}", "scarce", mine
    for mine in UNCACHED:
        yield f"{TITLES['blobs']}, uncached, {_verify(mine)}{_io(mine)}", "cold", mine


TITLES = {"rows": "512 B rows", "arrays": "150 KB arrays", "blobs": "110 KB blobs"}


def _single(suite: str, workload: str, entrant: str) -> Key:
    return (suite, workload, "", 0, entrant)


def _others() -> Iterator[Target]:
    for workload, title in TITLES.items():
        for epoch, wanted in (("first epoch", 0.6), ("later epochs", 0.98)):
            mine = _single("verifying", workload, f"verify=first, {epoch}")
            other = _single("verifying", workload, f"verify=never, {epoch}")
            yield Target(f"{title}, verify=first, {epoch}", "verify=never", mine, other, wanted, "value")
    yield Target(
        "`ds[i]` of a 512 B row",
        "µs",
        _single("latency", "rows", "ds[i], verify=first"),
        None,
        3,
        "value",
        True,
    )
    many = _single("latency", "rows", "ds.__getitems__(256), verify=first")
    yield Target("`__getitems__(256)`", "µs a row", many, None, 1, "value", True)
    opened = "open and first row"
    yield Target("open and first row, 10^8 rows", "10^3 rows", _single("opening", "1e8", opened),
                 _single("opening", "1e3", opened), 1.5, "value", True)  # fmt: skip
    yield Target(
        "resident growth, 10^8 rows",
        "MB",
        _single("opening", "1e8", "resident growth"),
        None,
        1,
        "value",
        True,
    )
    yield from _writing()


def _writing() -> Iterator[Target]:
    cases = (
        ("rows", "UniRecord write_batch", "Bagz writer", 2.0),
        ("rows", "UniRecord write", "ArrayRecord writer", 1.0),
        ("blobs", "UniRecord write", "flat file, fsync", 0.8),
    )
    for workload, mine, other, wanted in cases:
        for place in ("disk", "memory"):
            name = f"{workload}, {place}"
            yield Target(f"{TITLES[workload]}, `{mine.split()[-1]}`, {place}, synced", other,
                         _single("writing", name, mine), _single("writing", name, other), wanted, "value")  # fmt: skip


NATIVE, STOCK = "torch: unirecord.torch.loader", "torch: DataLoader over UniRecordDataset"
STOCK_MINE, STOCK_PEER = "UniRecordDataset", "numpy memmap"
MEMMAP, TFRECORD = "torch: DataLoader over memmap", "tf: TFRecordDataset, decode_raw, batch"
BATCHES, ARROW = "numpy: ds.batches", "hf: datasets over Arrow, shuffled rows"
FRAMEWORKS = (
    (NATIVE, MEMMAP, {"rows": 20.0, "arrays": 8.0}),
    (NATIVE, "torch: FFCV loader", {"rows": 3.0, "arrays": 1.5}),
    (STOCK, MEMMAP, {"rows": 2.0}),
    ("tf: unirecord.tf.dataset", TFRECORD, {"rows": 10.0, "arrays": 2.0}),
    ("grain: unirecord.grain.batches", BATCHES, {"arrays": 0.9}),
    ("jax: unirecord.jax.loader", BATCHES, {"arrays": 0.9}),
    ("lightning: unirecord.lightning.loader", BATCHES, {"arrays": 0.9}),
    ("mindspore: unirecord.mindspore.dataset", BATCHES, {"arrays": 0.9}),
    ("grain: unirecord.grain.batches", "grain: MapDataset over ArrayRecord", {"rows": 10.0}),
    ("ray: unirecord.ray.read", "ray: read_parquet", {"arrays": 2.0, "blobs": 2.0}),
    (NATIVE, ARROW, {"rows": 5.0}),
    ("hf: unirecord.hf.dataset, Arrow", ARROW, {"rows": 1.5}),
)


def frameworks(medians: Medians) -> str:
    """The table of what the adapters were to reach."""
    rows = []
    for mine, other, wanted in FRAMEWORKS:
        for workload, least in wanted.items():
            one: Key = ("frameworks", workload, "hot", 2, mine)
            two: Key = ("frameworks", workload, "hot", 2, other)
            target = Target(f"{TITLES[workload]}, {mine}", other, one, two, least)
            rows.append(row(target, ratio(medians.figure(one), medians.figure(two))))
    mine, peer = (("stock", "arrays", "", 0, name) for name in (STOCK_MINE, STOCK_PEER))
    target = Target(f"{TITLES['arrays']}, {STOCK}", MEMMAP, mine, peer, 1.3)
    rows.append(row(target, ratio(medians.figure(mine, "value"), medians.figure(peer, "value"))))
    return table(["what", "against", "wanted", "measured", "met"], rows)


def _best_peer(medians: Medians, cache: str) -> tuple[str, float | None]:
    """The fastest reader of blobs, with the cache so, that is neither UniRecord nor a floor."""
    best: tuple[str, float | None] = ("best peer", None)
    for entrant in medians.entrants("peers", "blobs", cache):
        value = medians.figure(("peers", "blobs", cache, 1, entrant))
        if not entrant.startswith(("floor", "UniRecord")) and value and value > (best[1] or 0):
            best = (entrant, value)
    return best


def _shown(value: float, small: str) -> str:
    """A rate with k or M, all else as ``small`` says."""
    return rate(value) if value >= 1000 else format(value, small)


def row(target: Target, measured: float | None) -> list[str]:
    """A line of a table of targets."""
    wanted = f"{'≤' if target.most else '≥'} {_shown(target.wanted, 'g')}"
    if measured is None:
        return [target.text, target.against, wanted, "–", "not measured"]
    met = measured <= target.wanted if target.most else measured >= target.wanted
    return [target.text, target.against, wanted, _shown(measured, ".2f"), "yes" if met else "**no**"]


def write(medians: Medians) -> str:
    """The table of all targets."""
    rows = []
    for target in [*_reading(), *_others()]:
        mine = medians.figure(target.mine, target.figure)
        other = medians.figure(target.other, target.figure) if target.other else None
        rows.append(row(target, ratio(mine, other) if target.other else mine))
    for text, cache, entrant in _uncached():
        name, value = _best_peer(medians, cache)
        mine = medians.figure(("peers", "blobs", cache, 1, entrant))
        target = Target(text, f"best peer: {name}", ("", "", "", 0, ""), None, 2.0)
        rows.append(row(target, ratio(mine, value)))
    return table(["what", "against", "wanted", "measured", "met"], rows)
