"""`unirecord report`: a training job as a page, in which nothing of the receipts can be markup or script."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hostile_markup import HOSTILE, NAME, checked
from receipt_jobs import Job

import unirecord
from unirecord import UniRecordDataset
from unirecord.cli.main import main
from unirecord.inspect.audit import AuditedEpoch, AuditedLaunch, AuditedOrder, AuditReport
from unirecord.inspect.reports import run_page, saved_stats
from unirecord.order.coverage import PositionRange


@pytest.fixture
def job(tmp_path: Path) -> Path:
    with unirecord.Writer(tmp_path / "data", {"i": "int32"}) as writer:
        for i in range(23):
            writer.write({"i": i})
    job = Job(UniRecordDataset(tmp_path / "data", shuffle=True, seed=7), tmp_path / "receipts", 3)
    job.launch(2, steps=2, lost=1)
    job.launch(3, epochs=1)
    return tmp_path


def test_a_job_that_was_killed_and_went_on_is_shown(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = job / "run.html"
    asked = ["report", str(job / "receipts"), str(target)]
    assert main([*asked, "--dataset", str(job / "data")]) == 0
    assert "(proven)" in capsys.readouterr().out
    found = checked(target.read_bytes())
    for text in ("Proven: every position", "compared with the dataset", "Launches", "23 of 23", "seed 7"):
        assert text in found.text
    assert found.texts.count("exact") == 1
    assert main(asked) == 0  # an earlier page is replaced
    assert "not compared with a dataset" in checked(target.read_bytes()).text


def test_a_launch_names_its_ranks_without_receipts(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [one.without for one in unirecord.audit(job / "receipts").orders[0].launches] == [(), ()]
    gone = sorted((job / "receipts").glob("*-rank-1-of-*"))
    for path in gone:
        path.unlink()
    found = unirecord.audit(job / "receipts")
    assert {one.without for one in found.orders[0].launches} == {(1,)}
    assert main(["report", str(job / "receipts"), str(job / "run.html")]) == 1
    assert "no receipts from" in checked((job / "run.html").read_bytes()).text
    capsys.readouterr()
    assert main(["audit", str(job / "receipts")]) == 1
    assert "no receipts from" in capsys.readouterr().out


def test_figures_beside_the_receipts_are_shown(job: Path) -> None:
    ds = UniRecordDataset(job / "data")
    loader, pipeline = ds.batches(4), ds.pipeline().map(dict).batch(4)
    for made in (loader, pipeline):
        assert len(list(made)) == 6
    for rank, made in enumerate((loader, pipeline)):
        for _ in range(2):  # a later one takes its place
            made.stats().save(job / "receipts" / f"rank-{rank}.stats.json")
    loaded, piped = saved_stats(str(job / "receipts"))
    figures = loader.stats()
    assert (loaded.name, loaded.stats, loaded.problem) == ("rank-0", figures, "")
    assert (piped.name, piped.stats, piped.problem) == ("rank-1", pipeline.stats(), "")
    assert len(pipeline.stats().parts) == 1
    assert main(["report", str(job / "receipts"), str(job / "run.html")]) == 0
    found = checked((job / "run.html").read_bytes())
    for text in (
        "Waits",
        "rank-0",
        "rank-1",
        "without takers",
        figures.bound,
        "Stages",
        "Parts",
        "not measured",
    ):
        assert text in found.text
    assert found.text.split("Parts")[-1].count("rank-1") == 1
    assert unirecord.audit(job / "receipts").ok


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[1]",
        "{}",
        '{"results": NaN}',
        '{"results": true}',
        '{"results": -1}',
        '{"results": "1"}',
        '{"results": 1' + "0" * 400 + "}",
        "[" * 100_000,
        " " * ((1 << 20) + 1),
    ],
    ids=range(10),
)
def test_figures_that_nobody_has_saved_are_named(job: Path, content: str) -> None:
    (job / "receipts" / f"{NAME.replace('/', '')}.stats.json").write_text(content)
    [found] = saved_stats(str(job / "receipts"))
    assert found.problem.startswith("cannot be read")
    assert main(["report", str(job / "receipts"), str(job / "run.html")]) == 0
    assert "cannot be read" in checked((job / "run.html").read_bytes()).text


def test_figures_have_a_name_that_the_report_finds(job: Path) -> None:
    stats = UniRecordDataset(job / "data").batches(4).stats()
    for name in ("rank-0.json", "s3://bucket/rank-0.stats.json"):
        with pytest.raises(ValueError, match=r"ends in \.stats\.json"):
            stats.save(name)
    with pytest.raises(OSError, match="none"):
        stats.save(job / "none" / "rank-0.stats.json")


def test_what_is_not_proven_is_written_and_said(job: Path) -> None:
    [first, *_] = sorted((job / "receipts").iterdir())
    first.unlink()
    assert main(["report", str(job / "receipts"), str(job / "run.html")]) == 1
    found = checked((job / "run.html").read_bytes())
    assert "NOT proven" in found.text
    assert "NOT exact" in found.text


def test_a_file_that_is_no_page_stays(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (job / "notes").write_text("mine")
    assert main(["report", str(job / "receipts"), str(job / "notes")]) == 2
    assert "is no report" in capsys.readouterr().err
    assert (job / "notes").read_text() == "mine"


def test_nothing_in_receipts_is_markup_and_long_lists_are_cut() -> None:
    ranges = tuple(PositionRange(i * 4, i * 4 + 1, 1, 1) for i in range(50))
    epochs = tuple(AuditedEpoch(e, 8, True, 1, 0, {HOSTILE: ranges}, ranges, ()) for e in range(1_003))
    launches = tuple(AuditedLaunch(0, 1, 4, e, 0, False, 0) for e in range(502))
    order = {"shuffle": HOSTILE, "seed": HOSTILE, "remainder": HOSTILE}
    shown = AuditedOrder(order, 200, launches, epochs)
    found = checked(run_page(AuditReport(HOSTILE, 1, 1, (shown,), (HOSTILE,) * 203, False)))
    for text in ("and 3 problems", "and 2 earlier launches", "and 3 earlier epochs", "alert(1)", "\\u202e"):
        assert text in found.text
    assert len([tag for tag, _ in found.tags if tag == "tr"]) == 3 + 501 + 1_001


@pytest.mark.parametrize(
    ("stride", "named"),
    [
        (2, "2nd"),
        (3, "3rd"),
        (4, "4th"),
        (11, "11th"),
        (12, "12th"),
        (21, "21st"),
        (113, "113th"),
        (1_002, "1,002nd"),
    ],
)
def test_an_ordinal_is_english(stride: int, named: str) -> None:
    assert str(PositionRange(0, stride + 1, stride, 2)) == f"0 … {stride:,}, every {named}"


def test_numbers_stand_to_the_right_and_times_in_one_line() -> None:
    launches = (AuditedLaunch(0, 1, 4, 0, 0, False, 0),)
    order = {"shuffle": "sequential", "seed": 0, "remainder": "keep"}
    shown = AuditedOrder(order, 8, launches, (AuditedEpoch(0, 8, True, 8, 0, {}, (), ()),))
    tags = checked(run_page(AuditReport("run", 1, 0, (shown,), (), False))).tags
    kinds = [(tag, dict(found).get("class")) for tag, found in tags]
    assert kinds.count(("span", "time")) == 1
    assert kinds.count(("td", "number")) == kinds.count(("th", "number")) == 5 + 3


def saved_parts(job: Path, parts: object, **more: object) -> str:
    """The page about figures of a loader that say this of its parts."""
    figures = unirecord.UniRecordDataset(job / "data").batches(4).stats().to_dict()
    changed = {**figures, "parts": parts, "parts_timed": 3, "parts_s": 2.0, **more}
    (job / "receipts" / "rank-0.stats.json").write_text(json.dumps(changed))
    assert main(["report", str(job / "receipts"), str(job / "run.html")]) == 0
    return checked((job / "run.html").read_bytes()).text


def test_the_parts_that_took_the_longest_are_shown(job: Path) -> None:
    quick = {"path": "data/part-0.urec", "batches": 5, "bytes": 4_000_000, "seconds": 0.5}
    slow = {"path": f"data/slowest{HOSTILE}.urec", "batches": 1_234, "bytes": 0, "seconds": 1.5}
    text = saved_parts(job, [quick, slow])
    assert text.index("data/slowest") < text.index("part-0.urec")
    for shown in (
        "1,234",
        "4.0 MB",
        "1.5 s",
        "500.0 ms",
        "8 MB/s",
        "75.0%",
        "25.0%",
        "and 1 part that took less",
    ):
        assert shown in text
    assert "Parts" not in saved_parts(job, [])


def test_small_parts_are_not_shown_as_nothing(job: Path) -> None:
    text = saved_parts(
        job, [{"path": "a.urec", "batches": 1, "bytes": 1_700, "seconds": 0.0042}], parts_s=0.005
    )
    for shown in ("1.7 KB", "4.2 ms", "5.0 ms of all reading"):
        assert shown in text
    assert "0.0 MB" not in text


@pytest.mark.parametrize(
    "parts", [{}, [3], [{"path": 3}], [{"path": "a", "batches": -1, "bytes": 1, "seconds": 1}]]
)
def test_parts_that_no_loader_writes_are_named(job: Path, parts: object) -> None:
    assert "cannot be read" in saved_parts(job, parts)


@pytest.mark.parametrize(
    "stage", [3, {}, {"name": 3}, {"name": "read", "limit": "1", "elements": -1}], ids=repr
)
def test_stages_that_no_loader_writes_are_named(job: Path, stage: object) -> None:
    assert "cannot be read" in saved_parts(job, [], stages=[stage])
