"""A row by a key: the one whose column has the value, with an index or without, whatever happened to the rows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from objectstore import Server, serving

import unirecord
from unirecord import CorruptionError, NoRowError, QueryError, SchemaError, UniRecordDataset, Writer
from unirecord.cli import main
from unirecord.query import keys
from unirecord.query.keys import keys_of
from unirecord.storage import object_store
from unirecord.storage.pacing import Durations
from unirecord.writing import index_file

SCHEMA: dict[str, Any] = {
    "path": "string",
    "near": "string?",
    "key": "int64",
    "small": "uint16?",
    "score": "float32",
    "flag": "bool",
    "ts": {"type": "int64", "logical": {"type": "timestamp", "unit": "us", "zone": "Europe/Paris"}},
    "day": {"type": "int32", "logical": "date"},
    "took": {"type": "int64", "logical": {"type": "duration", "unit": "ms"}},
    "price": {"type": "int64", "logical": {"type": "decimal", "precision": 12, "scale": 2}},
    "kind": {"type": "uint16?", "logical": {"type": "class", "names": [f"c{i}" for i in range(600)]}},
    "blob": "bytes",
}
ROWS = 500
INDEXED = ["path", "near", "key", "small", "score", "ts", "day", "took", "price", "kind"]


def row(n: int) -> dict[str, Any]:
    shuffled = n * 337 % ROWS
    return {
        "path": f"img_{shuffled}.jpg", "near": None if n % 7 == 0 else f"é{shuffled:04}", "key": shuffled - 250,
        "small": None if n % 5 == 0 else shuffled, "score": shuffled / 10, "flag": n == 3,
        "ts": shuffled * 3_600_000_000, "day": shuffled, "took": shuffled * 1_500, "price": shuffled * 5,
        "kind": None if n % 11 == 0 else shuffled, "blob": b"%d" % n,
    }  # fmt: skip


def written(path: Path, index: list[str], first: int = 0, stop: int = ROWS) -> str:
    with Writer(path, SCHEMA, index=index) as writer:
        for n in range(first, stop):
            writer.write(row(n))
    return str(path)


@pytest.fixture(scope="module", params=[INDEXED, []], ids=["indexed", "scanned"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(tmp_path_factory.mktemp("keys") / "rows.urec", request.param)


def test_each_value_of_each_column_finds_its_row(path: str) -> None:
    ds = UniRecordDataset(path)
    for n in range(0, ROWS, 3):
        sample = row(n)
        for name in INDEXED:
            if sample[name] is not None and name not in ("ts", "day", "took", "price", "kind"):
                assert ds.get(name, sample[name])["blob"] == sample["blob"], name
        assert ds.get("key", np.int64(sample["key"]))["blob"] == sample["blob"]
        assert ds.get("price", Decimal(sample["price"]) / 100)["blob"] == sample["blob"]
        assert ds.get("price", sample["price"] / 100)["blob"] == sample["blob"]
        assert ds.get("took", timedelta(milliseconds=sample["took"]))["blob"] == sample["blob"]
        assert ds.get("day", date(1970, 1, 1) + timedelta(days=sample["day"]))["blob"] == sample["blob"]
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=sample["ts"])
        for key in (
            moment,
            moment.isoformat(),
            np.datetime64(sample["ts"], "us"),
            moment.replace(tzinfo=None).isoformat() + "Z",
        ):
            assert ds.get("ts", key)["blob"] == sample["blob"]
        if sample["kind"] is not None:
            assert (
                ds.get("kind", f"c{sample['kind']}")["blob"]
                == ds.get("kind", sample["kind"])["blob"]
                == sample["blob"]
            )
    assert ds.get("flag", True)["blob"] == b"3"


def test_what_no_row_has_is_a_key_error_or_the_default(path: str) -> None:
    ds = UniRecordDataset(path)
    for name, value in (
        ("path", "img_.jpg"), ("near", "z"), ("key", 10**30), ("small", -1), ("small", 2.5),
        ("score", 1e300), ("price", Decimal("0.005")), ("took", "1us"), ("day", "1969-01-01"), ("key", float("inf")),
    ):  # fmt: skip
        with pytest.raises(NoRowError, match="no row has") as caught:
            ds.get(name, value)
        assert isinstance(caught.value, KeyError)
        assert ds.get(name, value, None) is None
        assert ds.get(name, value, default=5) == 5


def test_several_rows_are_an_error_that_says_how_to_have_all(path: str) -> None:
    ds = UniRecordDataset(path)
    with pytest.raises(QueryError, match=r"499 rows have not flag, .* where='not flag' has them all"):
        ds.get("flag", False)
    assert len(ds.view(where="not flag")) == 499
    with pytest.raises(QueryError, match="499 rows"):
        ds.get("flag", False, None)


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("blob", b"3", SchemaError), ("none", 3, SchemaError), ("path", 3, QueryError), ("key", "3", QueryError),
        ("key", None, QueryError), ("score", float("nan"), QueryError), ("ts", 5, QueryError),
        ("kind", "x", QueryError),
        ("ts", "soon", QueryError), ("key", [3], QueryError), ("flag", 1, QueryError),
        ("took", timedelta, QueryError), ("path", date(2025, 1, 1), QueryError),
        ("ts", np.datetime64("NaT"), QueryError),
        ("path", "\ud800", QueryError), ("day", np.datetime64("2025", "Y"), QueryError), ("ts", "\ud800", QueryError),
    ],
)  # fmt: skip
def test_what_is_no_key_is_refused(path: str, name: str, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        UniRecordDataset(path).get(name, value)


def test_a_key_is_found_among_the_rows_that_are_there(tmp_path: Path) -> None:
    folder = written(tmp_path / "data", INDEXED, 0, 200)
    with unirecord.append(folder) as writer:
        for n in range(200, ROWS):
            writer.write(row(n))
    ds = UniRecordDataset(
        folder, shuffle=True, shard_id=1, num_shards=3, transform=lambda sample: sample["blob"]
    )
    assert [ds.get("path", row(n)["path"]) for n in (0, 199, 200, 499)] == [b"0", b"199", b"200", b"499"]
    narrow = ds.view(where="key < 0")
    inside = next(n for n in range(ROWS) if row(n)["key"] < 0)
    outside = next(n for n in range(ROWS) if row(n)["key"] >= 0)
    assert narrow.get("path", row(inside)["path"]) == b"%d" % inside
    assert narrow.get("path", row(outside)["path"], None) is None
    assert ds.take(10).get("path", row(10)["path"], None) is None
    ds.exclude(where=f"path == '{row(7)['path']}'")
    assert ds.get("path", row(7)["path"], None) is None
    unirecord.delete(folder, where=f"path == '{row(3)['path']}'")
    again = UniRecordDataset(folder)
    assert again.get("path", row(3)["path"], None) is None
    with unirecord.append(folder) as writer:
        writer.write(row(3))
        writer.write(row(4))
    latest = UniRecordDataset(folder)
    assert latest.get("path", row(3)["path"])["blob"] == b"3"
    with pytest.raises(QueryError, match="2 rows"):
        latest.get("path", row(4)["path"])
    assert UniRecordDataset(folder, version=1).get("path", row(3)["path"])["blob"] == b"3"


def test_keys_of_an_added_column(tmp_path: Path) -> None:
    folder = written(tmp_path / "data", ["path"])
    unirecord.add_columns(
        folder, {"more": "int64"}, lambda batch: {"more": [key * 3 for key in batch["key"]]}
    )
    ds = UniRecordDataset(folder)
    assert ds.get("more", row(9)["key"] * 3)["blob"] == b"9"
    assert ds.get("path", row(9)["path"])["more"] == row(9)["key"] * 3


@pytest.mark.parametrize("looked_up", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_many_random_keys(
    seed: int, looked_up: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of values that come once, often or never, in parts with a dictionary or without, with an index or without."""
    if looked_up:
        monkeypatch.setattr(index_file, "LEAST_ROWS", 50)
    pick = random.Random(seed)
    folder = tmp_path / "data"
    data: list[tuple[str | None, int]] = []
    for number in range(pick.randint(1, 4)):
        rows = pick.choice([0, 1, 100, 3_000])
        some = [
            (
                pick.choice([None, f"k{pick.randrange(rows * 2)}"]) if pick.random() < 0.9 else "",
                pick.randrange(rows),
            )
            for _ in range(rows)
        ]
        data += some
        opened = (
            unirecord.append(folder)
            if number
            else Writer(folder, {"s": "string?", "n": "int32"}, index=pick.choice([["s", "n"], ["n"]]))
        )
        with opened as writer:
            for s, n in some:
                writer.write({"s": s, "n": n})
    with UniRecordDataset(folder) as ds:
        for name, place in (("s", 0), ("n", 1)):
            known = keys_of(ds.read_cursor.plan.data.parts, name)
            for value in [pick.choice(data)[place] for _ in range(100) if data] + (
                ["k", "", "zz"] if name == "s" else [-1, 10**9]
            ):
                if value is not None:
                    assert known.rows(value) == [i for i, one in enumerate(data) if one[place] == value]


def test_inspect_shows_the_row_of_a_key(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    def shown(*arguments: str, code: int = 0) -> str:
        assert main(["inspect", path, *arguments]) == code
        return "".join(capsys.readouterr())

    assert "img_337.jpg" in shown("--key", "path=img_337.jpg")
    assert '"row": 1' in shown("--key", "path=img_337.jpg", "--json", "--columns", "path")
    assert "row 1:" in shown("--key", "price=16.85")
    assert "row 1:" in shown("--key", "kind=c337")
    assert "row 3:" in shown("--key", "flag=true")
    assert "no row has path" in shown("--key", "path=none", code=1)
    assert "499 rows have not flag" in shown("--key", "flag=false", code=2)
    assert "--key takes COLUMN=VALUE" in shown("--key", "path", code=2)
    assert "cannot be given with" in shown("--key", "path=x", "--where", "key == 3", code=2)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    (tmp_path / "bucket").mkdir()
    monkeypatch.setattr(index_file, "LEAST_ROWS", 10**9)  # look-ups have tests of their own
    count = 100_000  # whose index is longer than what comes with its head
    with Writer(
        tmp_path / "bucket" / "keys.urec", {"path": "string", "n": "int64", "x": "bytes"}, index=["path", "n"]
    ) as writer:
        order = np.random.default_rng(1).permutation(count)
        x = np.empty(count, object)
        x[:] = [b"%d" % i for i in order]
        writer.write_batch({"path": [f"img_{i:06}.jpg" for i in order], "n": order, "x": x})
    monkeypatch.setattr(object_store, "_stores", {})
    monkeypatch.setattr(Durations, "long", lambda *_: 3_600.0)  # no request is made twice for being late
    with serving(tmp_path) as server:
        server.set_environment(monkeypatch)
        yield server


def asked(server: Server, ds: UniRecordDataset, name: str, key: Any) -> list[str]:
    """The files of which a key takes something, one for each request."""
    server.requests.clear()
    with suppress(QueryError):
        ds.get(name, key, None)
    return [request.key.rpartition("/")[2] for request in server.requests]


COLUMNS = [("path", "img_{:06}.jpg".format), ("n", int)]


@pytest.mark.parametrize("columns", [COLUMNS, COLUMNS[::-1]], ids=["strings first", "integers first"])
def test_a_key_in_an_object_store_takes_one_request_and_the_first_one_four(
    server: Server, columns: list[tuple[str, Any]]
) -> None:
    with UniRecordDataset("s3://bucket/keys.urec") as ds:
        for first, (name, of) in enumerate(columns):
            for number, key in enumerate((17, 99_999, 54_321, 1)):
                server.requests.clear()
                assert ds.get(name, of(key))["x"] == b"%d" % key
                assert len(server.requests) == (1 if number or first else 4)
            assert asked(server, ds, name, of(100_000)) == []


KEYS = (17, 99_999, 54_321, 1, 40_404, 777)


@pytest.mark.parametrize(("name", "of"), COLUMNS)
def test_a_long_index_is_searched_block_by_block_until_keys_have_taken_as_much(
    server: Server, monkeypatch: pytest.MonkeyPatch, name: str, of: Any
) -> None:
    monkeypatch.setattr(keys, "_SMALL", 0)
    for whole in (
        1,
        2,
        4,
    ):  # MiB that a key may fetch, of an index of 3.7 MB and a column of it of 0.6 or 2.6
        monkeypatch.setattr(keys, "_WHOLE", whole << 20)
        with UniRecordDataset("s3://bucket/keys.urec") as ds:
            counts = []
            for key in KEYS:
                server.requests.clear()
                assert ds.get(name, of(key))["x"] == b"%d" % key
                counts.append(len(server.requests))
            first = 4 // whole
            assert counts[first:] == [1] * (len(KEYS) - first)
            assert asked(server, ds, name, of(100_000)) == []


@pytest.mark.parametrize("whole", [0, 2 << 20])
def test_an_index_too_long_to_be_fetched_is_searched_block_by_block(
    server: Server, monkeypatch: pytest.MonkeyPatch, whole: int
) -> None:
    monkeypatch.setattr(keys, "_SMALL", 0)
    monkeypatch.setattr(keys, "_WHOLE", whole)
    monkeypatch.setattr(keys, "_MOST", 0)
    with UniRecordDataset("s3://bucket/keys.urec") as ds:
        for name, of in COLUMNS:
            for key in KEYS:
                assert ds.get(name, of(key))["x"] == b"%d" % key
            assert ds.get(name, of(100_000), None) is None
        assert server.bytes < 3_700_000


def test_damage_elsewhere_in_the_index_does_not_keep_a_key_from_its_row(
    server: Server, tmp_path: Path
) -> None:
    index = tmp_path / "bucket" / "keys.urec.idx"
    content = bytearray(index.read_bytes())
    place = content.rindex(b"img_000003.jpg")
    content[place] ^= 1
    index.write_bytes(content)
    with UniRecordDataset("s3://bucket/keys.urec", columns=["n", "x"]) as ds:
        assert ds.get("n", 5)["x"] == b"5"
        with pytest.raises(CorruptionError, match="index block"):
            ds.get("path", "img_000003.jpg")
        assert ds.get("n", 6)["x"] == b"6"


PARTS, IN_PART = 5, 10_000


@pytest.fixture
def several(server: Server, tmp_path: Path) -> str:
    """Parts one after the other in ``n``, each with some of all paths, one of which two of them have."""
    folder = tmp_path / "bucket" / "several"
    for part in range(PARTS):
        schema = {"n": "int64", "path": "string", "kind": "uint8?", "x": "bytes"}
        with (
            unirecord.append(folder) if part else Writer(folder, schema, index=["n", "path", "kind"])
        ) as writer:
            numbers = np.arange(IN_PART) * PARTS + part
            paths = [f"p{number:05}" for number in numbers]
            if part in (1, 3):
                paths[-1] = "p00777a"
            x = np.empty(IN_PART, object)
            x[:] = [b"%d" % number for number in numbers]
            kinds = np.ma.masked_all(IN_PART, np.uint8)
            kinds[:3] = part
            writer.write_batch(
                {"n": np.arange(IN_PART) + part * IN_PART, "path": paths, "kind": kinds, "x": x}
            )
    return "s3://bucket/several"


def test_parts_that_cannot_have_a_key_are_not_asked(server: Server, several: str) -> None:
    with UniRecordDataset(several) as ds:
        files = [Path(ds.locate(part * IN_PART)[0]).name for part in range(PARTS)]
        assert ds.get("n", 3)["x"] == b"15"
        # of the others, their least and greatest values are known now: what comes is their index and a row
        first, later = asked(server, ds, "n", IN_PART + 50), asked(server, ds, "n", IN_PART + 51)
        assert set(first) == {files[1] + ".idx", files[1]}
        assert later == [files[1]]
        assert asked(server, ds, "n", IN_PART * PARTS) == asked(server, ds, "path", "q") == []
        assert set(asked(server, ds, "kind", 4)) == {files[4] + ".idx"}  # three rows have it
        assert asked(server, ds, "kind", 77) == []


def test_several_parts_are_asked_at_the_same_time(server: Server, several: str) -> None:
    with UniRecordDataset(several) as ds:
        assert ds.get("n", 3)["x"] == b"15"
        server.latency, server.most_in_flight = 0.3, 0
        files = asked(server, ds, "path", "p00777")
        assert server.most_in_flight >= PARTS - 1
        assert len({name for name in files if name.endswith(".idx")}) == PARTS - 1
        server.latency = 0.0
        assert len(asked(server, ds, "path", "p00778")) == 1
        assert asked(server, ds, "path", "p00777b") == []
        server.requests.clear()
        with pytest.raises(QueryError, match="2 rows"):
            ds.get("path", "p00777a")
        assert server.requests == []
        assert ds.get("path", "p00004")["n"] == 4 * IN_PART


def test_a_row_of_several_files_takes_a_request_of_each_at_most(
    server: Server, several: str, tmp_path: Path
) -> None:
    unirecord.add_columns(
        tmp_path / "bucket" / "several",
        {"more": "int64", "text": "bytes"},
        lambda batch: {"more": [3 * n for n in batch["n"]], "text": [b"%d" % n for n in batch["n"]]},
        reads=["n"],
    )
    with UniRecordDataset(several) as ds:
        assert ds.get("more", 60)["text"] == b"20"
        for name, key in (("more", 63), ("n", 22), ("path", "p00005")):
            assert ds.get(name, key) is not None
        for name, key in (("more", 66), ("n", 23), ("path", "p00010")):
            assert len(asked(server, ds, name, key)) == 2
        assert asked(server, ds, "more", 67) == []


def test_each_value_is_found_in_several_parts_also_those_without_known_limits(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    for first in range(0, ROWS, 125):
        with unirecord.append(folder) if first else Writer(folder, SCHEMA, index=INDEXED) as writer:
            for n in range(first, first + 125):
                # what is longer than the statistics say stands in one part alone
                writer.write(row(n) | ({"near": f"{n:0300}"} if 125 <= n < 250 else {}))
    ds = UniRecordDataset(folder)
    for n in range(0, ROWS, 7):
        sample = row(n)
        assert ds.get("path", sample["path"])["blob"] == sample["blob"]
        assert ds.get("score", sample["score"])["blob"] == sample["blob"]
        assert ds.get("price", Decimal(sample["price"]) / 100)["blob"] == sample["blob"]
        assert ds.get("ts", np.datetime64(sample["ts"], "us"))["blob"] == sample["blob"]
    assert ds.get("near", f"{200:0300}")["blob"] == b"200"
    assert ds.get("near", row(300)["near"])["blob"] == b"300"
    assert ds.get("near", f"{300:0300}", None) is None
    assert ds.get("flag", True)["blob"] == b"3"


def test_a_corrected_value_is_found_whatever_the_statistics_say(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    for part in range(2):
        with unirecord.append(folder) if part else Writer(folder, {"n": "int64", "m": "int64"}) as writer:
            writer.write_batch({"n": np.arange(100) + 100 * part, "m": np.arange(100) + 100 * part})
    unirecord.set_values(folder, rows=[17], values={"m": 63})
    unirecord.set_values(folder, rows=[117], values={"m": 227})
    ds = UniRecordDataset(folder)
    assert ds.get("m", 227)["n"] == 117
    assert ds.get("m", 17, None) is None
