"""``unirecord trace``: what it prints of a job is what the job's own loaders deliver."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unirecord
from unirecord.cli import main

ROWS, RANKS, BATCH = 300, 3, 8
JOB = ["--seed", "7", "--batch", str(BATCH), "--ranks", str(RANKS)]

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trace") / "data"
    with unirecord.Writer(folder, {"i": "int32", "name": "string?", "image": "bytes?"}) as writer:
        for i in range(ROWS):
            writer.write(
                {
                    "i": i,
                    "name": None if i % 5 else f"\x1b[3{i}m",
                    "image": bytes([i % 251]) * 9 if i else None,
                }
            )
    return folder


@pytest.fixture
def run(path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*args: str) -> tuple[int, str, str]:
        try:
            code = main(["trace", str(path), *args])
        except SystemExit as error:
            code = int(error.code or 0)
        out = capsys.readouterr()
        return code, out.out, out.err

    return call


def loader(path: Path, rank: int, **options: Any) -> unirecord.BatchLoader[dict[str, Any]]:
    return unirecord.UniRecordDataset(path, rank, RANKS, shuffle=True, seed=7, **options).batches(BATCH)


def test_a_step_over_all_epochs_is_what_every_rank_got_then(path: Path, run: Run) -> None:
    loaders = [loader(path, rank) for rank in range(RANKS)]
    per_epoch = len(list(loaders[0]))
    for own in loaders[1:]:
        list(own)
    expected = [list(own)[2]["i"].tolist() for own in loaders]  # of the second epoch
    code, out, _ = run(*JOB, "--step", str(per_epoch + 2), "--json")
    found = json.loads(out)
    assert (code, found["epoch"], found["step"], found["steps_in_epoch"]) == (0, 1, 2, per_epoch)
    assert [(s["rank"], s["slot"], s["row"]) for s in found["samples"]] == [
        (rank, slot, row) for rank, rows in enumerate(expected) for slot, row in enumerate(rows)
    ]
    assert all(s["values"]["i"] == s["row"] for s in found["samples"])


def test_one_rank_and_the_columns_asked_for(path: Path, run: Run) -> None:
    expected = next(iter(loader(path, 2)))["i"].tolist()
    _, out, _ = run(*JOB, "--epoch", "0", "--step", "0", "--rank", "2", "--columns", "image,name", "--csv")
    lines = list(csv.reader(io.StringIO(out)))
    assert lines[0] == ["rank", "slot", "row", "image", "name"]
    assert [int(line[2]) for line in lines[1:]] == expected


@pytest.mark.parametrize("kind", ["json", "torch"])
def test_a_checkpoint_names_the_step_before_it(path: Path, run: Run, tmp_path: Path, kind: str) -> None:
    own = loader(path, 1, where="i < 250")
    batches = iter(own)
    expected = [next(batches)["i"].tolist() for _ in range(4)][-1]
    checkpoint = {"epoch": 3, "model": [1, 2], "data": {"loader": own.state_dict()}}
    file = tmp_path / "checkpoint"
    if kind == "json":
        file.write_text(json.dumps(checkpoint))
    else:
        import torch

        torch.save({**checkpoint, "w": torch.ones(3)}, file)
    asked = ["--state", str(file), "--batch", str(BATCH), "--ranks", str(RANKS), "--json"]
    code, out, err = run(*asked, "--rank", "1")
    assert (code, err) == (0, "")
    assert [sample["row"] for sample in json.loads(out)["samples"]] == expected
    assert json.loads(run(*asked, "--row", str(expected[5]))[1])["deliveries"] == [
        {"row": expected[5], "epoch": 0, "step": 3, "rank": 1, "slot": 5}
    ]


def test_rows_that_do_not_come_are_named(run: Run) -> None:
    code, out, _ = run(*JOB, "--row", "4,5", "--epochs", "0:2", "--where", "i != 5")
    lines = [line.split() for line in out.splitlines()]
    assert code == 0
    assert lines[0] == ["row", "epoch", "step", "rank", "slot"]
    assert [line[:2] for line in lines[1:]] == [["4", "0"], ["5", "0"], ["4", "1"], ["5", "1"]]
    assert lines[2][2:] == lines[4][2:] == ["not", "delivered"]
    _, out, _ = run(*JOB, "--row", "4,5", "--epochs", "0:2", "--where", "i != 5", "--csv")
    assert [line.replace(",", " ").split() for line in out.splitlines()] == [
        line[:2] if line[2:] == ["not", "delivered"] else line for line in lines
    ]


def test_blobs_of_a_step_become_files(run: Run, tmp_path: Path) -> None:
    rows = [s["row"] for s in json.loads(run(*JOB, "--step", "1", "--json")[1])["samples"]]
    code, out, _ = run(*JOB, "--step", "1", "--extract", "image", "--out", str(tmp_path / "x"))
    assert code == 0
    assert {int(file.name.split(".")[0]) for file in (tmp_path / "x").iterdir()} == set(rows) - {0}
    assert f"{len(set(rows) - {0})} files" in out


def test_the_table_has_no_control_characters_and_says_what_is_left(run: Run) -> None:
    _, out, _ = run(*JOB, "--step", "0", "--limit", "2")
    assert out.startswith("epoch 0, step 0 of 13, step 0 of the job: 24 rows\n")
    assert out.endswith("… 22 more (--limit)\n")
    assert "\x1b" not in run(*JOB, "--step", "0", "--limit", "24")[1]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([*JOB], "say what is asked"),
        ([*JOB, "--step", "13", "--epoch", "0"], "an epoch has 13"),
        ([*JOB, "--step", "1", "--rank", "3"], "there is no rank 3"),
        ([*JOB, "--step", "1", "--row", "3"], "--step cannot be given with --row"),
        ([*JOB, "--row", "300"], "no row 300"),
        ([*JOB, "--step", "1", "--columns", "nothing"], "nothing"),
        ([*JOB, "--step", "1", "--where", "nothing == 1"], "nothing"),
        ([*JOB, "--step", "1", "--start", "8"], "give --epoch"),
        ([*JOB, "--step", "1", "--extract", "image"], "--out"),
        ([*JOB, "--step", "1", "--csv", "--json"], "--json: not allowed with argument --csv"),
        ([*JOB, "--step", "1", "--block-rows", "8"], "block"),
        ([*JOB, "--step", "1", "--state", "x"], "--seed cannot be given with --state"),
        (["--batch", "8", "--state", "nowhere.json"], "does not exist"),
        (["--batch", "1000", "--drop-last", "--step", "0"], "no full batch"),
        (["--batch", "8", "--step", "0", "--where", "row < 0"], "an epoch has no samples"),
    ],
)
def test_questions_without_an_answer_are_refused(run: Run, args: list[str], message: str) -> None:
    code, out, err = run(*args)
    assert (code, out) == (2, "")
    assert message in err


def test_files_that_hold_no_state_or_several_are_refused(path: Path, run: Run, tmp_path: Path) -> None:
    own = loader(path, 0)
    first = own.state_dict()
    next(iter(own))
    cases = {
        "[1, {}]": "holds no state",
        "{": "begins like JSON",
        "": "it is empty",
        json.dumps({"a": first, "b": own.state_dict()}): "2 different states, at a, b",
        json.dumps({**first, "seed": -1}): "seed",
        "\x80\x04cos\nsystem\n": "neither JSON nor a checkpoint",
    }
    for text, message in cases.items():
        (tmp_path / "state").write_text(text, encoding="latin-1")
        code, out, err = run("--batch", "8", "--step", "0", "--state", str(tmp_path / "state"))
        assert (code, out) == (2, ""), text
        assert message in err


def test_a_state_of_other_data_is_refused(run: Run, tmp_path: Path) -> None:
    with unirecord.Writer(tmp_path / "other.urec", {"i": "int32"}) as writer:
        writer.write({"i": 1})
    state = unirecord.UniRecordDataset(tmp_path / "other.urec").state_dict()
    (tmp_path / "state").write_text(json.dumps(state))
    code, _, err = run("--batch", "8", "--step", "0", "--state", str(tmp_path / "state"))
    assert code == 1
    assert "another dataset" in err


# ---- mixtures and draws -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("mixture")
    for name, rows in {"web": 70, "code": 30}.items():
        with unirecord.Writer(folder / name, {"i": "int32", "length": "int32"}) as writer:
            for i in range(rows):
                writer.write({"i": i if name == "web" else 1000 + i, "length": i % 9})
    return {name: folder / name for name in ("web", "code")}


def traced(capsys: pytest.CaptureFixture[str], *args: Any) -> Any:
    assert main(["trace", *map(str, args), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def mixed(sources: dict[str, Path], rank: int = 0, **options: Any) -> Any:
    opened = {"web": unirecord.UniRecordDataset(sources["web"], where="i < 60")}
    opened["code"] = unirecord.UniRecordDataset(sources["code"], shuffle="block", seed=8, block_rows=2)
    schedule = {40: {"web": 1, "code": 1}}
    return unirecord.mix(
        opened, {"web": 0.7, "code": 0.3}, seed=5, samples=90, schedule=schedule, shard_id=rank, num_shards=2
    )


def test_a_checkpoint_of_a_mixture_names_the_step_before_it(
    sources: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loaders = [mixed(sources, rank).batches(8) for rank in range(2)]
    batches = [[next(b)["i"].tolist() for b in [iter(own)] for _ in range(4)] for own in loaders]
    (tmp_path / "state.json").write_text(json.dumps(loaders[0].state_dict()))
    asked = [f"code={sources['code']}", f"web={sources['web']}", "--state", tmp_path / "state.json"]
    found = traced(capsys, *asked, "--batch", 8, "--ranks", 2)
    assert found["step"] == 3
    assert [s["values"]["i"] for s in found["samples"]] == batches[0][3] + batches[1][3]
    for sample in found["samples"]:
        assert sample["values"]["i"] == sample["row"] + (1000 if sample["source"] == "code" else 0)
    last = found["samples"][-1]
    when = traced(capsys, *asked, "--batch", 8, "--ranks", 2, "--row", f"{last['source']}:{last['row']}")
    entry = {"source": last["source"], "row": last["row"], "epoch": 0, "step": 3, "rank": 1, "slot": 7}
    assert entry in when["deliveries"]
    assert main(["trace", *map(str, asked[1:]), "--batch", "8", "--ranks", "2"]) == 2
    assert "the sources ['code', 'web']" in capsys.readouterr().err


def test_a_mixture_without_a_state(sources: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    opened = {name: unirecord.UniRecordDataset(path) for name, path in sources.items()}
    ds = unirecord.mix(opened, {"web": 0.7, "code": 0.3}, seed=5, stop="all")
    paths = [f"{name}={path}" for name, path in sources.items()]
    asked = [*paths, "--weights", "web=0.7,code=0.3", "--stop", "all", "--seed", 5, "--batch", 8]
    found = traced(capsys, *asked, "--step", 15, "--columns", "i")
    steps = ds.order.steps_in_epoch(8)
    batch = ds.order.rows_of(15 % steps, 8, epoch=15 // steps, read=True)
    assert [s["values"]["i"] for s in found["samples"]] == batch["i"].tolist()
    assert [s["source"] for s in found["samples"]] == batch["source"]
    assert main(["trace", *map(str, asked), "--step", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["rank", "slot", "source", "row", "i", "length"]
    for wrong, text in (
        (["--row", "4"], "--row web:4"),
        (["--row", "code:30"], "code has 30 rows"),
        (["--step", "1", "--where", "i < 5"], "--where is not for a mixture"),
    ):
        assert main(["trace", *map(str, asked), *wrong]) == 2
        assert text in capsys.readouterr().err


@pytest.mark.parametrize("rule", ["balanced", "bucketed", "weighted"])
def test_a_checkpoint_of_draws_names_the_step_before_it(
    rule: str, sources: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ds = unirecord.UniRecordDataset(sources["web"], shuffle=True, seed=6, num_shards=2, shard_id=1)
    made: Any = {
        "balanced": lambda: unirecord.balanced(ds, "length", classes=3, per_class=2).batches(),
        "bucketed": lambda: unirecord.bucketed(ds, "length", max_length=40, edges=[2, 5]).batches(),
        "weighted": lambda: unirecord.weighted(ds, "length").batches(8),
    }[rule]()
    batches = iter(made)
    before = [next(batches)["i"].tolist() for _ in range(3)]
    (tmp_path / "state.json").write_text(json.dumps(made.state_dict()))
    asked = [sources["web"], "--state", tmp_path / "state.json", "--ranks", 2, "--rank", 1]
    asked += ["--batch", 8] if rule == "weighted" else []
    found = traced(capsys, *asked, "--drawn-by", "length")
    assert found["step"] == 2
    assert [s["values"]["i"] for s in found["samples"]] == before[2]
    for wrong, text in (([], "--drawn-by COLUMN"), (["--drawn-by", "i"], "differ|options|max_length")):
        assert main(["trace", *map(str, asked), *wrong]) == 2
        assert re.search(text, capsys.readouterr().err)


@pytest.mark.parametrize("kind", ["packed", "windows", "windows of documents"])
def test_a_state_of_windows_is_refused_by_what_it_is_and_the_way_that_is_named_answers(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with unirecord.Writer(tmp_path / "t.urec", {"tokens": "uint16[-1]"}) as writer:
        for i in range(200):
            writer.write({"tokens": np.full(1 + i % 40, i, np.uint16)})
    ds = unirecord.UniRecordDataset(tmp_path / "t.urec", shuffle=True, seed=1)
    made: Any = {
        "packed": lambda: unirecord.packed(ds, "tokens", 64, documents="document"),
        "windows": lambda: unirecord.windows(ds, "tokens", 64, documents="document"),
        "windows of documents": lambda: unirecord.windows(
            ds, "tokens", 8, boundaries="document", documents="document"
        ),
    }[kind]()
    loader = made.batches(4)
    batch = next(iter(loader))
    (tmp_path / "state.json").write_text(json.dumps(loader.state_dict()))
    asked = ["trace", tmp_path / "t.urec", "--state", tmp_path / "state.json", "--batch", 4]
    assert main([*map(str, asked)]) == 2
    said = capsys.readouterr().err
    assert f"is of {kind.split()[0]}" in said
    assert "the column 'tokens'" in said
    assert 'documents="document"' in said
    again = made.order.rows_of(0, 4, epoch=0, read=True)
    assert again["document"].tolist() == batch["document"].tolist()
    assert set(again) == {"tokens", "document"}
