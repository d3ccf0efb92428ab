"""The benchmarks run: floor and drivers time the rows they have checked, tables and plots are filled."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from scenes import jpeg

from unirecord.core import has_jpeg

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import conversion  # noqa: E402
import conversion_inputs  # noqa: E402
import environments  # noqa: E402
import image_decoding  # noqa: E402
import plot  # noqa: E402  (found through the path above)
import protocol  # noqa: E402
import report  # noqa: E402
import run  # noqa: E402
import scaling  # noqa: E402
from compare import Plan, compare  # noqa: E402
from entrants import ENTRANTS, Entrant, Field, call, last_json  # noqa: E402
from medians import Medians, rate, ratio, table, times  # noqa: E402
from protocol import Reader  # noqa: E402
from workloads import Workload, generate  # noqa: E402

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="the floor is a C program")
FIXED = Workload("fixed", "rows", 300, 512)
LOGNORMAL = Workload("lognormal", "blobs", 300, 0, 1000)
PLAN = Plan((), ("hot",), (1, 2), round=0, seconds=0.01)


@needs_compiler
@pytest.mark.parametrize("workload", [FIXED, LOGNORMAL], ids=lambda workload: workload.name)
def test_floor_and_unirecord_are_timed_on_the_same_rows(workload: Workload, tmp_path: Path) -> None:
    entrants = [ENTRANTS[0], ENTRANTS[1], Entrant("UniRecord", "unirecord"), Entrant("files", "files")]
    field = Field(tmp_path / "cache", tmp_path / "data")
    measured = list(compare(field, PLAN, "peers", workload, entrants))
    assert [one for one in measured if "absent" in one] == []
    assert sorted((one["threads"], one["entrant"]) for one in measured) == sorted(
        (threads, entrant.name) for threads in (1, 2) for entrant in entrants
    )
    assert all(one["samples_per_s"] > 0 for one in measured)


def test_an_entrant_that_can_not_run_is_named_and_the_run_goes_on(tmp_path: Path) -> None:
    field = Field(tmp_path / "cache", tmp_path / "data")
    outcome = tmp_path / "cache" / "env" / "lmdb.outcome"
    outcome.parent.mkdir(parents=True)
    outcome.write_text("no wheel\n")
    measured = list(
        compare(field, PLAN, "peers", FIXED, [Entrant("LMDB", "lmdb", "lmdb"), Entrant("f", "files")])
    )
    assert measured[0]["absent"] == "not available here: no wheel"
    assert len(measured) == 3


def test_rows_are_the_same_every_time_and_begin_with_their_number(tmp_path: Path) -> None:
    one, other = generate(LOGNORMAL, tmp_path / "one"), generate(LOGNORMAL, tmp_path / "other")
    assert one.data_path.read_bytes() == other.data_path.read_bytes()
    assert [int.from_bytes(row[:8], "little") for row in one] == list(range(300))


def test_medians_are_taken_over_rounds() -> None:
    place = {"suite": "peers", "workload": "rows", "cache": "hot", "threads": 1, "entrant": "LMDB"}
    medians = Medians(
        [{**place, "round": n, "samples_per_s": rate} for n, rate in enumerate((1.0, 9.0, 2.0))]
    )
    assert medians.figure(("peers", "rows", "hot", 1, "LMDB")) == 2.0
    assert medians.figure(("peers", "rows", "cold", 1, "LMDB")) is None


def test_figures_are_short() -> None:
    assert [rate(value) for value in (None, 3.14159, 12_345.0, 999_999.0, 2.5e6)] == [
        "–",
        "3.14",
        "12.3 k",
        "1 M",
        "2.5 M",
    ]
    assert [times(value) for value in (None, 0.876, 41.2)] == ["–", "0.88", "41"]
    assert ratio(3.0, None) is None
    assert table(["a", "b"], [["x", "1"]]) == "| a | b |\n|---|---:|\n| x | 1 |"


def test_tables_are_put_between_their_markers() -> None:
    page = "before\n<!-- begin one -->\nold\n<!-- end one -->\nafter\n"
    assert (
        report.fill(page, {"one": "new", "two": "x"})
        == "before\n<!-- begin one -->\nnew\n<!-- end one -->\nafter\n"
    )


def test_the_newest_table_of_another_processor_stays_beside_the_new_one() -> None:
    page = "<!-- begin one -->\n<!-- end one -->\n"
    days = iter(range(1, 9))

    def after(processor: str) -> list[str]:
        nonlocal page
        page = report.fill(page, {"one": f"figures\n\n*2026-01-0{next(days)}, {processor}*"})
        return [line.strip("*") for line in page.splitlines() if line.startswith("*")]

    assert after("red") == ["2026-01-01, red"]
    assert after("red") == ["2026-01-02, red"]
    assert after("blue") == ["2026-01-03, blue", "2026-01-02, red"]
    assert after("blue") == ["2026-01-04, blue", "2026-01-02, red"]
    assert after("red") == ["2026-01-05, red", "2026-01-04, blue"]
    assert page.count("On a second processor:") == 1
    assert page.endswith("*2026-01-04, blue*\n<!-- end one -->\n")


def test_every_round_is_a_whole_run_and_none_begins_after_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[tuple[str, int]] = []
    clock = [0.0]

    def suite(name: str) -> Callable[[Field, Plan], Iterator[dict[str, object]]]:
        def yields(_: Field, plan: Plan) -> Iterator[dict[str, object]]:
            begun.append((name, plan.round))
            clock[0] += 100.0
            yield {"suite": name, "workload": "w", "entrant": "e", "value": 1.0}

        return yields

    monkeypatch.setattr(run.suites, "SUITES", {"a": suite("a"), "b": suite("b")})
    monkeypatch.setattr(run.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(sys, "argv", ["run.py", "--suite", "a", "b", "--minutes", "4"])
    results = run.Results(tmp_path / "results.json", {})
    run.measure(run.parse(), Field(tmp_path, tmp_path), results)
    assert begun == [("a", 0), ("b", 0), ("a", 1)]
    assert [one["round"] for one in results.measurements] == [0, 0, 1]


def test_every_table_of_the_page_has_a_text() -> None:
    figures = {"entrant": "x", "threads": 1, "samples_per_s": 2.0, "value": 2.0, "unit": "s"}
    peers = [
        {"suite": "peers", "workload": workload, "cache": cache, **figures}
        for workload in report.TITLES
        for cache in report.CACHES
    ]
    others = [
        {"suite": suite, "workload": "rows", **figures}
        for suite in (
            "ways",
            "verifying",
            "latency",
            "opening",
            "parts",
            "crops",
            "small_tables",
            "store",
            "language",
            "object_cache",
            "writing",
            "sizes",
            "batch_sizes",
            "frameworks",
            "stock",
            "conversion",
            "compression",
            "pipeline",
            "pictures",
        )
    ]
    stored = {"date": "2026-01-01", "machine": {"processor": "one"}, "measurements": peers + others}
    text = "\n".join(page.read_text() for page in report.pages(BENCHMARKS.parent / "docs"))
    wanted = [line.split()[2] for line in text.splitlines() if line.startswith("<!-- begin")]
    texts = report.sections(stored)
    assert sorted(wanted) == sorted(texts)
    assert texts["latency"].endswith("*2026-01-01, one*")


def test_auto_stands_beside_the_best_setting_by_hand() -> None:
    place = {"suite": "pipeline", "workload": "sweep: sleeping", "cache": "hot"}
    rates = {"1 shared": 10.0, "8 shared": 80.0, "8 of its own": 70.0, "auto": 79.0}
    measured = [{**place, "entrant": name, "samples_per_s": found} for name, found in rates.items()]
    ratio_ = {**place, "entrant": "auto / the best by hand", "value": 0.98, "chosen": 8, "unit": "ratio"}
    stored = {"date": "", "machine": {"processor": ""}, "measurements": [*measured, ratio_]}
    texts = report.sections(stored)
    assert "| sleeping | 10 to 80, 3 settings | 8 shared | 8 threads, 79 | 0.98 |" in texts["pipeline-sweep"]
    assert "plots/pipeline-threads.svg" in texts["pipeline-sweep"]
    drawn = report.plots(stored)["pipeline-threads.svg"]
    assert drawn.count("<circle") == 1
    assert "sleeping" in drawn


def test_tables_of_what_was_not_measured_stay_as_they_are() -> None:
    measured = {"suite": "latency", "workload": "rows", "entrant": "x", "value": 2.0, "unit": "µs"}
    texts = report.sections({"date": "", "machine": {"processor": ""}, "measurements": [measured]})
    assert set(texts) == {"latency", "machine"}


def test_cores_are_modelled_by_what_rows_and_batches_cost() -> None:
    # Rows that take what the floor's take, and batches that take nothing: the floor itself, on any number of cores.
    assert scaling.share(16, 256, 1e-7, 1e-7, 1e-15) == pytest.approx(1.0)
    # One core for the rows of a batch and for Python each: half.
    assert scaling.share(2, 100, 1e-7, 1e-7, 1e-5) == pytest.approx(0.5)
    # 16 cores could have 80 M rows a second, but one thread takes no more than 10 M in such batches.
    assert scaling.share(16, 100, 1e-7, 1e-7, 1e-5) == pytest.approx(1e7 / 1.6e8)


def test_plots_are_svg() -> None:
    drawn = plot.bars("title <", "samples a second", [("a & b", 1e6, 0), ("c", 2e3, 1)])
    assert drawn.startswith("<svg")
    assert "a &amp; b" in drawn
    assert "title &lt;" in plot.lines("title <", "x", [("one", [(0, 1.0), (1, 10.0)])], ["1", "2"])


class Paced(Reader):
    """Epochs of given lengths in seconds, by a clock that only they move."""

    def __init__(self, seconds: list[float], clock: list[float]) -> None:
        self.seconds, self.clock, self.begun = seconds, clock, 0

    def epoch(self, number: int) -> Iterator[int]:
        self.begun += 1
        for _ in range(10):
            self.clock[0] += self.seconds[min(number, len(self.seconds) - 1)] / 10
            yield number

    def size(self, batch: int) -> int:
        return 1

    def first(self, batch: int) -> bytes:
        return b""


@pytest.mark.parametrize(
    ("seconds", "passes", "agreed"),
    [
        ([1.0], 2, True),
        ([1.0, 0.4, 0.3, 0.3], 4, True),
        ([1.0, 0.96], 2, True),
        ([1.0, 0.92], 3, True),
        ([1.0, 0.5, 0.25, 0.12, 0.06, 0.03, 0.015, 0.007, 0.003], 8, False),
    ],
)
def test_peers_are_warmed_until_two_epochs_agree(
    seconds: list[float], passes: int, agreed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(protocol.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(protocol, "check", lambda *_: None)
    reader = Paced(seconds, clock)
    done = protocol.warm(None, reader, 10.0)
    assert (len(done.paces), done.settled) == (passes, agreed)
    assert done.started == pytest.approx(seconds[0] / 10)
    assert reader.begun == passes


def test_a_warm_up_pass_of_a_slow_peer_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(protocol.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(protocol, "check", lambda *_: None)
    done = protocol.warm(None, Paced([100.0], clock), 35.0)
    assert len(done.paces) == 2
    assert clock[0] == pytest.approx(80.0)  # twice four batches of ten seconds


def test_pictures_are_timed_by_the_floor_and_by_us(tmp_path: Path) -> None:
    made = [jpeg(300, 200, number) for number in range(12)]
    (tmp_path / "data.bin").write_bytes(b"".join(made))
    np.cumsum([0, *map(len, made)], dtype=np.int64).tofile(tmp_path / "offsets.bin")
    drivers = [one for one in image_decoding.ENTRANTS if not one[2]]
    commands = [
        [sys.executable, str(BENCHMARKS / "tasks" / "pictures.py"), driver, str(tmp_path), "2", "0.05"]
        for _, driver, _ in drivers
    ]
    field = Field(tmp_path / "cache", tmp_path / "data")
    if has_jpeg():
        assert image_decoding.build_floor(field) == ""
        files = [str(tmp_path / "data.bin"), str(tmp_path / "offsets.bin"), "12", "2", "0.05"]
        commands.append([str(field.cache / "pictures_floor"), *files])
    for command in commands:
        assert call(command)["samples_per_s"] > 0


@pytest.mark.parametrize("way", ["unirecord", "flat", "pyarrow-csv"])
def test_a_conversion_is_timed_and_leaves_nothing(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    task = importlib.import_module("tasks.conversion")
    monkeypatch.setattr(task, "SETTLE", 0)
    monkeypatch.setattr(task, "have_memory", lambda size: None)
    conversion_inputs.write_csv(tmp_path, 300)
    words = [way, str(tmp_path / "rows.csv"), "--rows", "300", "--data", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", ["conversion.py", *words])
    task.main()
    found = last_json(capsys.readouterr().out)
    assert (found["unit"], found["value"] > 0, list((tmp_path / "out").iterdir())) == ("rows/s", True, [])


def test_settings_by_hand_and_auto_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = importlib.import_module("tasks.autotuning")
    numbers = task._numbers(tmp_path)
    order: list[int] = []

    def taken(loader: object, seconds: float, warm: float) -> tuple[float, float]:
        order.append(id(loader))
        return 100.0, 5.0

    monkeypatch.setattr(task, "_slice", taken)
    shape = task.Shape("sleeping", task._slow, (1, 2), (1,))
    found = list(task.chosen(shape, lambda: task.unirecord.UniRecordDataset(numbers), 0.01, 2))
    assert len(order) == 2 * 4 + 1 + 2 * task.PAIRS
    assert [one["value"] for one in found if one["entrant"] == "auto / the best by hand"] == [1.0]
    pairs = order[9:]
    assert all({pairs[i], pairs[i + 1]} == set(pairs) for i in range(0, len(pairs), 2))
    assert pairs[0] == pairs[3] != pairs[1] == pairs[2], "each is first in every other turn"


def test_every_case_of_conversions_has_ways_that_the_task_knows() -> None:
    task = importlib.import_module("tasks.conversion")
    for case in conversion.CASES:
        assert {way.way for way in case.beside} <= set(task.WAYS)
        assert {way.environment for way in case.beside} <= {"", *environments.ENVIRONMENTS}
        assert case.peer is not None or case.kind in conversion_inputs.WRITERS
