"""How the command line behaves in a shell: quiet, paged, in pipes, interrupted; and groups with figures."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import unirecord
from unirecord import SchemaError, UniRecordDataset, Writer
from unirecord.cli.main import main
from unirecord.cli.terminal import ProgressBar, fitted_table
from unirecord.inspect.statistics import combination_counts
from unirecord.snapshot.part_set import PartSet, resolve
from unirecord.writing import deletion

ROOT = Path(__file__).resolve().parents[2]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal of 10 lines and 60 columns as stdout."""
    monkeypatch.setenv("LINES", "10")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.delenv("UNIRECORD_PAGER", raising=False)
    monkeypatch.delenv("PAGER", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    return Terminal()


def on(screen: Terminal, call: list[str]) -> int:
    """The command with this terminal as its stdout."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "stdout", screen)
        return main(call)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("manners") / "a.urec"
    with Writer(
        path, {"label": "int32", "score": "float32?", "big": "int64", "flag": "bool", "name": "string"}
    ) as writer:
        for i in range(40):
            score = None if i % 5 == 0 else float("nan") if i % 5 == 1 else float("inf") if i == 12 else i / 2
            big = (1 << 62) + i if i % 2 else -(1 << 62) - i
            writer.write(
                {"label": i % 3, "score": score, "big": big, "flag": i % 3 == 0, "name": "n" * 40 + str(i)}
            )
    return path


# ---- groups with figures -------------------------------------------------------------------------------------


def test_sums_of_groups_are_those_of_their_rows_and_of_integers_exact(data: Path) -> None:
    found = combination_counts(PartSet(resolve(data)), ["label"], of=["score", "big", "flag"])
    assert [group.values for group in found] == [(0,), (1,), (2,)]
    for label, group in enumerate(found):
        rows = range(label, 40, 3)
        scores = [i / 2 for i in rows if i % 5 > 1 and i != 12]
        bigs = [(1 << 62) + i if i % 2 else -(1 << 62) - i for i in rows]
        score, big, flag = group.totals
        assert (score.sum, score.count) == (sum(scores), len(scores))
        assert score.mean == sum(scores) / len(scores)
        assert (big.sum, big.count) == (sum(bigs), len(bigs))
        assert flag.sum == (len(rows) if label == 0 else 0)
    assert sum(group.totals[1].sum for group in found) == sum(
        (1 << 62) + i if i % 2 else -(1 << 62) - i for i in range(40)
    )


def test_of_some_rows_and_of_several_columns_as_well(data: Path) -> None:
    rows = np.array([1, 4, 5], np.int64)
    found = combination_counts(PartSet(resolve(data)), ["label", "flag"], rows, ["label"])
    assert [(group.values, group.rows, group.totals[0].sum) for group in found] == [
        ((1, False), 2, 2),
        ((2, False), 1, 2),
    ]
    unsigned = [group.totals for group in combination_counts(PartSet(resolve(data)), ["label"], rows)]
    assert unsigned == [(), ()]


def test_greatest_numbers_of_each_kind_are_summed(tmp_path: Path) -> None:
    types = ["uint64", "int64", "uint8", "int8", "float16", "float64"]
    greatest = [2**64 - 1, -(2**63), 255, -128, 65504.0, 1e300]
    with Writer(tmp_path / "a.urec", {"g": "int8?", **{name: name for name in types}}) as writer:
        for _ in range(3):
            writer.write({"g": None, **dict(zip(types, greatest, strict=True))})
    [group] = combination_counts(PartSet(resolve(tmp_path / "a.urec")), ["g"], of=types)
    assert [total.sum for total in group.totals] == [3 * one for one in greatest]


def test_groups_are_printed_with_means_and_sums(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask = ["inspect", str(data), "--group-by", "label", "--mean", "flag", "--sum", "flag,label"]
    assert main([*ask, "--csv", "--sort=-sum label"]) == 0
    assert capsys.readouterr().out == (
        "label,rows,mean flag,sum flag,sum label\n2,13,0.0,0,26\n1,13,0.0,0,13\n0,14,1.0,14,0\n"
    )
    assert main([*ask, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"][0] == {
        "values": [0], "rows": 14, "mean flag": 1.0, "sum flag": 14, "sum label": 0,
    }  # fmt: skip
    assert main(ask) == 0
    assert re.search(r"label +mean flag +sum flag +sum label +rows", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--mean", "score"], "go with --group-by"),
        (["--group-by", "label", "--sum", "name"], "no sum and no mean"),
        (["--group-by", "label", "--mean", "nothing"], "nothing"),
        (["--group-by", "label", "--sort", "sum score"], "can be sorted by label or count"),
        (["--count", "--sum", "score"], "--count cannot be given with --sum"),
    ],
)
def test_figures_that_cannot_be_are_refused(
    data: Path, options: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(data), *options]) == 2
    assert says in capsys.readouterr().err


def test_a_column_without_numbers_has_no_sum(data: Path) -> None:
    with pytest.raises(SchemaError, match="is a string"):
        combination_counts(PartSet(resolve(data)), ["label"], of=["name"])


# ---- quiet ---------------------------------------------------------------------------------------------------


def test_quiet_says_nothing_of_what_went_well(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    calls = [
        ["write", str(tmp_path / "a.csv"), str(tmp_path / "a")],
        ["export", str(data), str(tmp_path / "a.jsonl")],
        ["delete", str(tmp_path / "a"), "--rows", "0"],
        ["compact", str(tmp_path / "a")],
        ["merge", str(tmp_path / "b"), str(data)],
        ["split", str(data), str(tmp_path / "c"), "x=0.5,y=0.5"],
        ["restore", str(tmp_path / "a@1")],
        ["gc", str(tmp_path / "a")],
        ["verify", str(data)],
    ]
    for call in calls:
        assert main([*call, "--quiet"]) == 0, call
        found = capsys.readouterr()
        assert (found.out, found.err) == ("", ""), call
    assert main(["verify", str(data)]) == 0
    assert "as written" in capsys.readouterr().out


def test_quiet_says_what_went_wrong_and_what_was_asked_for(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(tmp_path / "none"), "--quiet"]) == 2
    assert "none" in capsys.readouterr().err
    assert main(["verify", str(data), "--quiet", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"]
    damaged = tmp_path / "a.urec"
    shutil.copy(data, damaged)
    assert main(["verify", str(damaged), "--quiet"]) == 1
    assert capsys.readouterr().err


def test_quiet_is_refused_where_nothing_would_be_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    call = ["write", str(tmp_path / "a.csv"), str(tmp_path / "a"), "--quiet"]
    assert main([*call, "--dry-run"]) == 2
    assert main([*call, "--progress", "json"]) == 2
    assert "choose one" in capsys.readouterr().err
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(("term", "shown"), [("xterm", True), ("dumb", False)])
def test_nothing_is_drawn_over_where_a_terminal_cannot_go_back(
    term: str, shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", term)
    screen = Terminal()
    ProgressBar("writing", 10, stream=screen).update(5)
    assert bool(screen.getvalue()) == shown


def test_nothing_has_a_colour(data: Path, terminal: Terminal) -> None:
    assert on(terminal, ["inspect", str(data), "--rows", "3"]) == 0
    ProgressBar("writing", 10, stream=terminal).update(5)
    assert not re.search(r"\x1b\[[0-9;]*m", terminal.getvalue())


# ---- pager, pipes, widths ------------------------------------------------------------------------------------


def pager_to(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNIRECORD_PAGER", f"sh -c 'cat > {file}'")


def test_what_is_longer_than_the_screen_goes_through_the_pager(
    data: Path, tmp_path: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    pager_to(tmp_path / "seen", monkeypatch)
    assert on(terminal, ["inspect", str(data), "--limit", "30"]) == 0
    assert terminal.getvalue() == ""
    seen = (tmp_path / "seen").read_text().split("\n")
    assert len(seen) == 34
    assert seen[0].startswith("row")
    assert seen[-3] == "1 column cut: … | less -S shows it"
    assert seen[-2].startswith("40 rows")
    assert max(map(len, seen)) == 60


def test_what_is_paged_steers_no_terminal(
    tmp_path: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Writer(tmp_path / "a.urec", {"name": "string"}) as writer:
        for _ in range(40):
            writer.write({"name": "a\x1b[2Jb"})
    pager_to(tmp_path / "seen", monkeypatch)
    assert on(terminal, ["inspect", str(tmp_path / "a.urec"), "--csv"]) == 0
    seen = (tmp_path / "seen").read_text()
    assert "\x1b" not in seen
    assert seen.count("a\\x1b[2Jb") == 40


def test_what_a_screen_holds_is_printed(
    data: Path, tmp_path: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    pager_to(tmp_path / "seen", monkeypatch)
    assert on(terminal, ["inspect", str(data), "--limit", "3"]) == 0
    assert terminal.getvalue().count("\n") == 6
    assert not (tmp_path / "seen").exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [("UNIRECORD_PAGER", ""), ("PAGER", "cat"), ("PAGER", "no-such-pager"), ("PAGER", "'"), ("TERM", "dumb")],
)
def test_the_pager_can_be_left_out(
    name: str, value: str, data: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    assert on(terminal, ["inspect", str(data), "--limit", "30"]) == 0
    assert terminal.getvalue().count("\n") == 33


def test_a_pager_that_is_left_ends_the_command(
    data: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNIRECORD_PAGER", "true")
    assert on(terminal, ["inspect", str(data), "--limit", "40", "--csv"]) == 0


def test_an_error_comes_after_what_was_paged(
    tmp_path: Path, terminal: Terminal, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pager_to(tmp_path / "seen", monkeypatch)
    assert on(terminal, ["inspect", str(tmp_path / "none")]) == 2
    assert "none" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (35, "3 columns cut: … | less -S shows them"),
        (41, "2 columns cut: … | less -S shows them"),
        (60, "1 column cut: … | less -S shows it"),
        (300, None),
    ],
)
def test_columns_that_a_terminal_cuts_are_counted(
    columns: int, said: str | None, data: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert on(terminal, ["inspect", str(data), "--limit", "2"]) == 0
    lines = terminal.getvalue().split("\n")
    assert lines[3] == said if said else lines[3].startswith("40 rows")
    widest = max(map(len, lines[:3]))
    assert widest == columns if said else widest < columns


def test_blanks_at_the_end_of_a_cell_are_no_column(terminal: Terminal) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "stdout", terminal)
        found = fitted_table([["a", "b"], ["1", "2" + " " * 100]])
    assert found == ["a  b", "1  2"]


def test_lines_are_whole_in_a_pipe(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    assert main(["inspect", str(data), "--limit", "1"]) == 0
    assert re.search(r"^  0 .*-4611686018427387904  True  nnnn", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize("call", [["--help"], ["inspect", "DATA", "--limit", "100000", "--csv"]])
def test_a_pipe_that_is_closed_is_no_error(call: list[str], data: Path) -> None:
    call = [str(data) if word == "DATA" else word for word in call]
    code = f"import os, sys\nfrom unirecord.cli.main import main\nsys.exit(main({call!r}))"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert process.wait() == 0
    process.stderr.close()


@pytest.mark.parametrize("both", [False, True])
def test_what_works_goes_on_when_nobody_reads(both: bool, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("a\n1\n")
    damaged = tmp_path / "damaged.urec"
    damaged.write_bytes(bytes(1000))
    call = [
        sys.executable,
        "-m",
        "unirecord",
        "write",
        str(table),
        str(tmp_path / "out"),
        "--progress",
        "json",
    ]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        call, stdout=writing, stderr=writing if both else subprocess.PIPE, check=False, timeout=100
    )
    assert done.returncode == 0
    assert len(UniRecordDataset(tmp_path / "out")) == 1
    for path, code in ((tmp_path / "out", 0), (damaged, 1), (table, 2)):
        call = [sys.executable, "-m", "unirecord", "verify", str(path)]
        assert (
            subprocess.run(call, stdout=writing, stderr=writing, check=False, timeout=100).returncode == code
        )
    os.close(writing)


def test_without_stdout_and_stderr_it_works(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a\n1\n")
    for closed, name in ((">&-", "out"), ("<&- >&- 2>&-", "quiet"), ("2>&-", "bad")):
        call = f"{shlex.quote(sys.executable)} -m unirecord write table.csv {name} {closed}"
        assert subprocess.run(["sh", "-c", call], cwd=tmp_path, check=False, timeout=100).returncode == 0
        assert subprocess.run(["sh", "-c", call], cwd=tmp_path, check=False, timeout=100).returncode == 2
        assert len(UniRecordDataset(tmp_path / name)) == 1


# ---- interrupts, and who reads the answer ----------------------------------------------------------------------


def test_an_interrupt_while_commands_are_loaded_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(name: str, package: str | None = None) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["unirecord.cli.main"], "import_module", interrupted)
    assert main(["inspect", "x"]) == 130
    assert capsys.readouterr().err == "unirecord: interrupted; nothing was published\n"


def test_an_interrupt_after_a_publication_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x"
    with unirecord.Writer(path, {"n": "int64"}) as writer:
        writer.write_batch({"n": range(9)})

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(deletion, "_check_blank", interrupted)
    assert main(["purge", str(path), "--rows", "3", "--yes"]) == 130
    said = capsys.readouterr().err
    assert said.startswith(f"unirecord: interrupted, when {path} had been published;")
    assert len(unirecord.UniRecordDataset(path)) == 8
    monkeypatch.setattr(deletion, "_refuse_readers", interrupted)
    assert main(["purge", str(path), "--rows", "4", "--yes"]) == 130
    assert capsys.readouterr().err == "unirecord: interrupted; nothing was published\n"


@pytest.mark.parametrize("command", ["audit", "diff"])
def test_an_answer_in_the_exit_code_does_not_hang_on_who_reads(tmp_path: Path, command: str) -> None:
    for name, rows in {"x": 9, "y": 8}.items():
        with unirecord.Writer(tmp_path / name, {"n": "int64"}) as writer:
            writer.write_batch({"n": range(rows)})
    next(
        iter(UniRecordDataset(tmp_path / "x", 0, 2).batches(2, receipts=tmp_path / "run"))
    )  # rank 1 has none
    for receipts in (tmp_path / "run").iterdir():
        receipts.write_bytes(receipts.read_bytes()[:-1] + b"?")
    asked = {"audit": ["run"], "diff": ["x", "y"]}[command]
    shell = f"{sys.executable} -m unirecord {command} {' '.join(str(tmp_path / name) for name in asked)}"
    whole = subprocess.run(shell, shell=True, capture_output=True, check=False)
    unread = f"({shell}; echo $? >{tmp_path}/code) | true"
    subprocess.run(unread, shell=True, capture_output=True, check=True)
    assert int((tmp_path / "code").read_text()) == whole.returncode == 1
