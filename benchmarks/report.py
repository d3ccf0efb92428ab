"""docs/performance.md and docs/performance/: tables between markers, and plots, from the stored measurements."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import compression_tables
import conversion_targets
import pipeline_tables
import plot
import scaling
import targets
from medians import Key, Medians, rate, ratio, table, times

UNIRECORD, FLOOR = "UniRecord", "floor"
TITLES = targets.TITLES
SUMMARY = (("rows", "hot"), ("arrays", "hot"), ("blobs", "hot"), ("blobs", "cold"), ("blobs", "scarce"))
BESIDE = "\n\nOn a second processor:\n\n"
CACHES = {"hot": "cached", "cold": "uncached", "scarce": "more than memory"}


def _peers(medians: Medians, workload: str, cache: str) -> str:
    """One line per entrant, the fastest with one thread first; ratios to the first floor of the table."""
    floor = targets.MEMCPY if cache == "hot" else targets.DIRECT
    base = {count: medians.figure(("peers", workload, cache, count, floor)) for count in (1, 2)}
    rows = []
    for entrant in medians.entrants("peers", workload, cache):
        cells: list[str] = []
        for count in (1, 2):
            key = ("peers", workload, cache, count, entrant)
            value = medians.figure(key)
            cells += [rate(value), times(ratio(value, base[count]))]
        key = ("peers", workload, cache, 1, entrant)
        tails = [medians.figure(key, name) for name in ("p50_ms", "p99_ms", "peak_resident_mb")]
        cells += ["–" if tail is None else f"{tail:.3g}" for tail in tails[:2]]
        cells.append("–" if tails[2] is None else f"{tails[2]:.0f}")
        cells += [_seconds(medians.figure(key, "start_ms")), _warm_up(medians, key)]
        rows.append((medians.figure(key) or 0.0, [entrant, *cells]))
    head = [
        "",
        "1 thread, samples/s",
        "× floor",
        "2 threads, samples/s",
        "× floor",
        "p50 ms",
        "p99 ms",
        "peak resident MB",
        "start, s",
        "warm-up epochs",
    ]
    return table(head, [cells for _, cells in sorted(rows, key=lambda row: -row[0])])


def _seconds(milliseconds: float | None) -> str:
    return "–" if milliseconds is None else f"{milliseconds / 1e3:.2g}"


def _warm_up(medians: Medians, key: Key) -> str:
    """Epochs before the clock started; "+" when they did not agree in the end."""
    epochs, agreed = medians.figure(key, "warm_epochs"), medians.figure(key, "settled")
    return "–" if epochs is None else f"{epochs:.0f}{'' if agreed == 1 else '+'}"


def _summary(medians: Medians) -> str:
    """One table for the reader: samples/s of every entrant on one thread."""
    names = {name for workload, cache in SUMMARY for name in medians.entrants("peers", workload, cache)}
    figures = {
        name: [medians.figure(("peers", workload, cache, 1, name)) for workload, cache in SUMMARY]
        for name in names
        if name in (UNIRECORD, targets.MEMCPY, targets.DIRECT) or not name.startswith((UNIRECORD, FLOOR))
    }
    ordered = sorted(figures, key=lambda name: -(figures[name][0] or 0.0))
    head = ["", *(f"{TITLES[workload]}, {CACHES[cache]}" for workload, cache in SUMMARY)]
    return table(head, [[name, *(rate(value) for value in figures[name])] for name in ordered])


def _absent(medians: Medians, suite: str) -> str:
    lines = [f"- {entrant}{f' ({workload})' if workload else ''}: {reason}"
             for (name, workload, entrant), reason in medians.absent.items() if name == suite]  # fmt: skip
    return "\n".join(lines) or "None."


def _ways(medians: Medians) -> str:
    head, rows = ["", *(f"{TITLES[w]}, {c}" for w in TITLES for c in ("cached", "uncached"))], []
    entrants = sorted({key[4] for key in medians.values if key[0] == "ways"})
    for entrant in entrants:
        cells = [rate(medians.figure(("ways", w, c, 1, entrant))) for w in TITLES for c in ("hot", "cold")]
        rows.append([entrant, *cells])
    return table(head, rows)


def _flat(suite: str) -> Callable[[Medians], str]:
    """A plain list: workload, what, figure."""

    def write(medians: Medians) -> str:
        rows = []
        for key in medians.values:
            if key[0] == suite:
                value, unit = medians.figure(key, "value"), medians.units[(suite, key[4])]
                rows.append([TITLES.get(key[1], key[1]), key[4], f"{rate(value)} {unit}"])
        return table(["workload", "what", "measured"], rows)

    return write


def _store(medians: Medians) -> str:
    """Epochs, with what the server has counted, and openings."""
    rows = []
    for key in medians.values:
        if key[0] == "store":
            value, unit = medians.figure(key, "value"), medians.units[("store", key[4])]
            share, requests = medians.figure(key, "bytes_of_data"), medians.figure(key, "requests")
            cells = [
                rate(requests),
                "–" if share is None else f"{share:.3f}",
                _processor(medians.figure(key, "processor_us")),
            ]
            rows.append([key[1], key[4], f"{rate(value)} {unit}", *cells])
    head = ["workload", "what", "measured", "requests", "bytes, of the data's", "processor µs a row"]
    return table(head, rows)


def _writing(medians: Medians) -> str:
    rows = []
    for key in medians.values:
        if key[0] == "writing":
            cells = [rate(medians.figure(key, name)) for name in ("value", "unsynced", "bytes_per_s")]
            rows.append([key[1], key[4], *cells])
    return table(["workload", "writer", "rows/s, synced", "rows/s, closed", "bytes/s, synced"], rows)


def _sizes(medians: Medians) -> str:
    rows = []
    for workload in medians.workloads("sizes"):
        cells = []
        for count in (1, 2):
            pair = [medians.figure(("sizes", workload, "hot", count, name), "bytes_per_s")
                    for name in ("floor: memcpy", targets.OFF)]  # fmt: skip
            cells += [*(rate(value) for value in pair), times(ratio(pair[1], pair[0]))]
        rows.append([workload.removeprefix("size-") + " B", *cells])
    one = ["floor B/s", "UniRecord B/s", "ratio"]
    return table(["row", *(f"{name}, {count}" for count in ("1 thread", "2 threads") for name in one)], rows)


def _frameworks(medians: Medians) -> str:
    rows = []
    for workload in medians.workloads("frameworks"):
        own = medians.figure(("frameworks", workload, "hot", 2, targets.BATCHES))
        for entrant in sorted(medians.entrants("frameworks", workload, "hot")):
            value = medians.figure(("frameworks", workload, "hot", 2, entrant))
            rows.append([TITLES[workload], entrant, rate(value), times(ratio(value, own))])
    return table(["workload", "loop", "samples/s", "of `ds.batches`"], rows)


def _stock(medians: Medians) -> str:
    rows = []
    for workload in medians.workloads("stock"):
        peer = medians.figure(("stock", workload, "", 0, targets.STOCK_PEER), "value")
        for entrant in medians.entrants("stock", workload):
            value = medians.figure(("stock", workload, "", 0, entrant), "value")
            rows.append([TITLES[workload], entrant, rate(value), times(ratio(value, peer))])
    return table(["workload", "the stock DataLoader over", "samples/s", "of numpy memmap"], rows)


def _processor(microseconds: float | None) -> str:
    return "–" if microseconds is None else f"{microseconds:.3g}"


def _conversion(medians: Medians) -> str:
    rows = []
    for workload in medians.workloads("conversion"):
        mine = {n: medians.figure(("conversion", workload, "hot", n, UNIRECORD), "value") for n in (1, 2)}
        for entrant in medians.entrants("conversion", workload, "hot"):
            cells = []
            for count in (1, 2):
                key = ("conversion", workload, "hot", count, entrant)
                value = medians.figure(key, "value")
                cells += [
                    rate(value),
                    rate(medians.figure(key, "bytes_per_s")),
                    _processor(medians.figure(key, "processor_us")),
                    times(ratio(mine[count], value)),
                ]
            rows.append([workload, entrant, *cells])
    one = ["rows/s", "bytes/s", "processor µs a row", "UniRecord / this"]
    head = ["what", "by", *(f"{name}, {count}" for count in ("1 process", "2 processes") for name in one)]
    return table(head, rows)


SUITES: Mapping[str, Callable[[Medians], str]] = {
    "verifying": _flat("verifying"),
    "latency": _flat("latency"),
    "opening": _flat("opening"),
    "parts": _flat("parts"),
    "store": _store,
    "language": _flat("language"),
    "object_cache": _flat("object_cache"),
    "crops": _flat("crops"),
    "small_tables": _flat("small_tables"),
    "ways": _ways,
    "writing": _writing,
    "sizes": _sizes,
    scaling.SUITE: scaling.measured,
    "frameworks": _frameworks,
    "stock": _stock,
    "compression": compression_tables.write,
    "conversion": _conversion,
}


def _machine(stored: Mapping[str, Any]) -> str:
    return "\n".join(
        [f"- date: {stored['date']}", *(f"- {name}: {text}" for name, text in stored["machine"].items())]
    )


def sections(stored: Mapping[str, Any]) -> dict[str, str]:
    """The texts of what has been measured, by marker name: a run of some suites leaves the other tables as they are."""
    medians = Medians(stored["measurements"])
    measured = {key[0] for key in medians.values}
    texts = {"targets": targets.write(medians)} if "peers" in measured else {}
    for workload in TITLES:
        for cache in CACHES:
            if medians.entrants("peers", workload, cache):
                texts[f"peers-{workload}-{cache}"] = _peers(medians, workload, cache)
    if all(medians.entrants("peers", workload, cache) for workload, cache in SUMMARY):
        texts["summary"] = _summary(medians)
    for suite, write in SUITES.items():
        if suite in measured:
            texts[suite] = write(medians)
    if "conversion" in measured:
        texts["conversion-targets"] = conversion_targets.write(medians)
    if scaling.SUITE in measured:
        texts["cores"] = scaling.modelled(medians)
    if "frameworks" in measured:
        texts["framework-targets"] = targets.frameworks(medians)
    if "pipeline" in measured:
        texts |= pipeline_tables.pipeline(medians)
    if "pictures" in measured:
        texts |= pipeline_tables.pictures(medians)
    caption = f"*{stored['date']}, {stored['machine']['processor']}*"
    texts = {name: f"{text}\n\n{caption}" for name, text in texts.items()}
    if "peers" in measured:
        texts["absent"] = _absent(medians, "peers")
    return {**texts, "machine": _machine(stored)}


def plots(stored: Mapping[str, Any]) -> dict[str, str]:
    """All plots by file name."""
    medians = Medians(stored["measurements"])
    drawn = pipeline_tables.threads_plot(medians)
    for workload, title in TITLES.items():
        for cache, word in CACHES.items():
            values = []
            for entrant in medians.entrants("peers", workload, cache):
                value = medians.figure(("peers", workload, cache, 1, entrant))
                if value:
                    values.append(
                        (
                            entrant,
                            value,
                            1 if entrant.startswith(UNIRECORD) else 4 * entrant.startswith(FLOOR),
                        )
                    )
            if values:
                drawn[f"{workload}-{cache}.svg"] = plot.bars(
                    f"{title}, {word}, 1 thread", "samples a second", values
                )
    names, labels = ("floor: memcpy", targets.OFF), medians.workloads("sizes")
    series = []
    for count in (1, 2):
        for name in names:
            found = [medians.figure(("sizes", one, "hot", count, name), "bytes_per_s") for one in labels]
            points = [(step, value) for step, value in enumerate(found) if value]
            series.append((f"{name.split(',')[0].removeprefix('floor: ')}, {count}", points))
    if any(points for _, points in series):
        shown = [one.removeprefix("size-") for one in labels]
        drawn["sizes.svg"] = plot.lines(
            "Row size in bytes, cached", "bytes a second (logarithmic)", series, shown
        )
    return drawn


def _processor_of(text: str) -> str:
    """The processor that a table's caption names; "" where it has none."""
    found = re.search(r"^\*\d{4}-\d\d-\d\d, (.+)\*$", text, re.MULTILINE)
    return found[1] if found else ""


def _beside(text: str, old: str) -> str:
    """`text` in the place of `old`, of which the newest table of another processor stays below it."""
    first, _, second = old.partition(BESIDE)
    if _processor_of(first) not in ("", _processor_of(text)):
        second = first
    return text + (BESIDE + second.rstrip("\n") if second else "")


def fill(page: str, texts: Mapping[str, str]) -> str:
    """Replaces what stands between `<!-- begin NAME -->` and `<!-- end NAME -->`."""
    for name, text in texts.items():
        pattern = re.compile(
            rf"(<!-- begin {re.escape(name)} -->\n)(.*?)(<!-- end {re.escape(name)} -->)", re.DOTALL
        )
        page = pattern.sub(lambda found: f"{found[1]}{_beside(text, found[2])}\n{found[3]}", page)  # noqa: B023  (called before the next turn)
    return page


def pages(docs: Path) -> list[Path]:
    """The page for readers, and the record behind it."""
    return [docs / "performance.md", *sorted((docs / "performance").glob("*.md"))]


def write(stored: Mapping[str, Any], docs: Path) -> None:
    """Brings docs/performance.md, docs/performance/ and docs/plots/ up to the stored measurements."""
    texts = sections(stored)
    for page in pages(docs):
        page.write_text(fill(page.read_text(), texts))
    folder = docs / "plots"
    folder.mkdir(exist_ok=True)
    for name, text in plots(stored).items():
        (folder / name).write_text(text)
