"""`unirecord view`: pages of a dataset for this machine alone, asked for as a browser asks, and as others might."""

from __future__ import annotations

import http.client
import io
import re
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np
import pytest
from hostile_markup import HOSTILE, NAME, SCHEMA, Parsed, row
from PIL import Image

import unirecord
from unirecord import UniRecordDataset, Writer
from unirecord.cli.main import main
from unirecord.inspect import pages
from unirecord.inspect.server import ViewServer

ROWS = 300


def written(path: Path) -> Path:
    with Writer(path, SCHEMA, index=["label"], metadata={"who": HOSTILE}, max_part_bytes=400_000) as writer:
        for i in range(ROWS):
            writer.write(row(i))
    return path


class Browser:
    """What asks a server: as a browser on its machine does, unless told otherwise."""

    def __init__(self, server: ViewServer) -> None:
        self.server = server
        self.port = server.server_port

    def ask(
        self, target: str, method: str = "GET", **headers: str
    ) -> tuple[int, bytes, http.client.HTTPMessage]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.putrequest(method, target, skip_host="Host" in headers)
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders()
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.headers
        finally:
            connection.close()

    def page(self, name: str, status: int = 200, **fields: Any) -> Parsed:
        target = f"/{self.server.token}/{name}" + (f"?{urlencode(fields)}" if fields else "")
        found, content, _ = self.ask(target)
        assert found == status, content[-500:]
        return checked(content)


def checked(content: bytes) -> Parsed:
    """A page without script, whose links and pictures stay with this server."""
    found = Parsed(content)
    assert not {"script", "iframe", "object", "embed", "link", "base"} & {tag for tag, _ in found.tags}
    for tag, attributes in found.tags:
        assert not [name for name in attributes if name.startswith("on")]
        for name in ("src", "href", "action"):
            target = attributes.get(name) or "#"
            own = r"#\w+|#|data:image/jpeg;base64,[\w+/=]+|[a-z]+(\?[\w.~%+&=*-]*)?(#here)?"
            assert re.fullmatch(own, target), tag
    assert "\u202e" not in content.decode()
    assert "\x1b" not in content.decode()
    return found


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("view") / "data")


@pytest.fixture(scope="module")
def browser(data: Path) -> Iterator[Browser]:
    yield from serving(data)


def serving(path: Path) -> Iterator[Browser]:
    server = ViewServer(str(path))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield Browser(server)
    finally:
        server.shutdown()
        thread.join()
        server.close()


def numbers(found: Parsed) -> list[int]:
    """The rows that a table or a sheet of pictures shows, by their links."""
    links = [attributes.get("href") or "" for tag, attributes in found.tags if tag == "a"]
    found_links = [re.match(r"row\?row=(\d+)", link) for link in links]
    return [int(one.group(1)) for one in found_links if one]


def test_rows_come_in_pages(browser: Browser) -> None:
    assert numbers(browser.page("rows")) == list(range(50))
    assert numbers(browser.page("rows", **{"from": 275})) == list(range(250, 300))
    assert numbers(browser.page("rows", **{"from": 10**12})) == list(range(250, 300))
    assert numbers(browser.page("")) == list(range(50))


def test_a_condition_and_a_column_choose_rows_and_their_order(browser: Browser, data: Path) -> None:
    ds = UniRecordDataset(data, where="label == 3")
    found = browser.page("rows", where="label == 3")
    assert numbers(found) == ds.order.row_ids()[:50].tolist()
    assert "60 rows of 300 meet the condition" in found.text
    by_label = sorted(range(ROWS), key=lambda i: (-(i % 5), i))
    assert numbers(browser.page("rows", sort="label", down=1)) == by_label[:50]
    assert numbers(browser.page("rows", sort="label", down=1, **{"from": 250})) == by_label[250:]
    sorts = [a["aria-sort"] for _, a in browser.page("rows", sort="label").tags if "aria-sort" in a]
    assert sorts == ["ascending"]


def test_an_order_is_worked_out_as_far_as_pages_go(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unirecord.inspect.pages._FIRST_SORTED", 20)
    by_score = browser.server.viewed.chosen("", "score", True, 0, 10).rows
    assert len(browser.server.viewed._orders["", "score", True]) == 20
    further = [browser.server.viewed.chosen("", "score", True, at, 10).rows for at in range(0, ROWS, 10)]
    assert np.array_equal(further[0], by_score)
    assert sorted(np.concatenate(further).tolist()) == list(range(ROWS))


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("rows", {"where": "label = = 3"}),
        ("rows", {"where": HOSTILE}),
        ("rows", {"sort": HOSTILE}),
        ("rows", {"sort": "image"}),
        ("rows", {"from": "-1"}),
        ("rows", {"from": "٣"}),
        ("row", {"row": ROWS}),
        ("row", {"row": HOSTILE}),
        ("picture", {"row": 0, "column": 99}),
        ("picture", {"row": 0, "column": 0, "side": 100_000}),
        ("pictures", {"column": 1}),
        ("epoch", {"batch": 0}),
        ("epoch", {"batch": 1 << 20, "ranks": 1 << 20}),
        ("epoch", {"step": 10**6}),
        ("epoch", {"shuffle": HOSTILE}),
        ("epoch", {"where": "nothing == 1"}),
        ("rows", {f"f{i}": i for i in range(60)}),
    ],
)
def test_what_is_asked_wrongly_is_said(browser: Browser, name: str, fields: dict[str, Any]) -> None:
    found = browser.page(name, 400, **fields)
    assert [a for _, a in found.tags if a.get("role") == "alert"]
    if name == "epoch":  # what has been filled in can be fixed
        entries = {a["name"]: a["value"] for tag, a in found.tags if tag == "input"}
        assert entries["ranks"] == str(fields.get("ranks", 1))
        assert {name: entries[name] for name in fields if name in entries} == {
            name: str(value) for name, value in fields.items() if name in entries
        }


def test_links_to_more_lead_past_the_fields(browser: Browser) -> None:
    """By the Tab key one comes from a link to the next page to the one behind it, and not through all fields."""
    for name, fields in (("rows", {}), ("pictures", {}), ("epoch", {"step": 1}), ("row", {"row": 7})):
        found = browser.page(name, **fields)
        links = [a["href"] for tag, a in found.tags if tag == "a" and a.get("href", "").endswith("#here")]
        assert len(links) >= 2, name
        assert len([a for _, a in found.tags if a.get("id") == "here"]) == 1


def test_titles_tell_pages_apart(browser: Browser) -> None:
    asked: list[tuple[str, dict[str, Any], str]] = [
        ("rows", {}, "Rows, data"),
        ("rows", {"where": "label == 3"}, "Rows where label == 3, data"),
        ("pictures", {}, "Pictures, data"),
        ("epoch", {"seed": 4}, "Epoch, data"),
        ("row", {}, "Row 0, data"),
        ("row", {"row": 7}, "Row 7, data"),
    ]
    for name, fields, title in asked:
        assert browser.page(name, **fields).text.strip().startswith(f"{title}: UniRecord")
    assert "Row 9999, data" in browser.page("row", 400, row=9999).text


def test_numbers_of_a_small_array_are_shown(tmp_path: Path) -> None:
    boxes = np.array([[1.5, 2, 3, 4], [5, 6, 7, 8]], np.float32)
    with Writer(tmp_path / "a.urec", {"box": {"type": "float32", "shape": [-1, 4]}}) as writer:
        for array in (boxes, boxes[:0], np.tile(boxes, (20, 1))):
            writer.write({"box": array})
    for few in serving(tmp_path / "a.urec"):
        found = few.page("row", row=0)
        assert "[[1.5 2.  3.  4. ]\n [5.  6.  7.  8. ]]" in found.text
        assert [a for tag, a in found.tags if tag == "details"] == [{"open": ""}]
        assert not [a for tag, a in few.page("row", row=1).tags if tag == "details"]
        assert [a for tag, a in few.page("row", row=2).tags if tag == "details"] == [{}]


def test_a_row_is_shown_in_full(browser: Browser) -> None:
    found = browser.page("row", row=7)
    for word in (HOSTILE.split("<")[2][:10], "float32?", "its values", "row 7 of"):
        assert word in found.text, word
    [picture] = [a for tag, a in found.tags if tag == "img" and str(a["src"]).startswith("picture?")]
    assert picture["alt"] == "image of row 7"
    assert len([tag for tag, _ in found.tags if tag == "tr"]) == 1 + len(SCHEMA)
    assert "text?" not in found.text
    assert "ff d8 ff e0" in browser.page("row", row=4).text


def test_a_row_has_the_neighbours_of_what_it_was_opened_from(browser: Browser) -> None:
    """Of the rows that meet a condition, in the order that was asked for; else by number."""

    def followed(page: Parsed, kind: str) -> str | None:
        return next((str(a["href"]) for tag, a in page.tags if tag == "a" and a.get("rel") == kind), None)

    def opened(target: str) -> Parsed:
        return checked(browser.ask(f"/{browser.server.token}/{target.partition('#')[0]}")[1])

    for fields, wanted in (
        ({"where": "label == 3"}, [i for i in range(ROWS) if i % 5 == 3]),
        ({"where": "label >= 3", "sort": "label", "down": 1}, sorted(
            (i for i in range(ROWS) if i % 5 >= 3), key=lambda i: (-(i % 5), i)
        )),
    ):  # fmt: skip
        rows = browser.page("rows", **fields, **{"from": 50})
        first = next(str(a["href"]) for tag, a in rows.tags if str(a.get("href", "")).startswith("row?row="))
        page, at = opened(first), wanted.index(numbers(rows)[0])
        assert at == 50
        before = followed(page, "prev")
        assert before is not None
        assert before.startswith(f"row?row={wanted[at - 1]}&")
        for step in range(1, 4):
            after = followed(page, "next")
            assert after is not None
            assert after.startswith(f"row?row={wanted[at + step]}&")
            page = opened(after)
        assert "The rows that it is among" in page.text
    last = browser.page("row", row=298, at=59, where="label == 3")
    assert followed(last, "next") is None
    typed = browser.page("row", row=7, at=59, where="label == 3")  # not the row at that place
    assert str(followed(typed, "next")).startswith("row?row=8")
    assert str(followed(browser.page("row", row=7), "next")) == "row?row=8#here"
    browser.page("row", 400, row=7, at=1, where="label ==")


def test_a_page_of_rows_shows_texts_and_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Writer(tmp_path / "t", {"n": "int8", "story": "text?", "talk": "object"}) as writer:
        for i in range(40):
            story = None if i == 1 else f"The story {i} " + "x" * 5_000
            writer.write({"n": i, "story": story, "talk": [{"role": "user", "said": f"hello {i}"}]})
    for few in serving(tmp_path / "t"):
        text = few.page("rows").text
        assert "The story 3 " in text
        assert "hello 39" in text
        assert "characters)" in text  # of those that are longer, the beginning
        monkeypatch.setattr(pages, "_TEXT_CHARACTERS", 20_000)
        text = few.page("rows").text
        assert "The story 0 " in text
        assert "The story 30 " not in text
        assert "(open the row to see it)" in text


def test_pictures_are_made_small_when_they_are_asked_for(browser: Browser) -> None:
    found = browser.page("pictures", where="label == 1")
    sources = [str(a["src"]) for tag, a in found.tags if tag == "img"]
    assert len(sources) == 60
    assert {a.get("loading") for tag, a in found.tags if tag == "img"} == {"lazy"}
    status, content, headers = browser.ask(f"/{browser.server.token}/{sources[0]}")
    assert status == 200
    assert headers["Content-Type"] == "image/jpeg"
    assert Image.open(io.BytesIO(content)).size == (128, 64)
    for unseen in (3, 4):  # null, and what only begins like a picture
        assert browser.ask(f"/{browser.server.token}/picture?row={unseen}&column=0")[0] == 404


def test_arrays_that_are_drawn_are_pictures_and_a_mask_is_not_black(tmp_path: Path) -> None:
    mask = (np.indices((64, 64)).sum(0) % 20 < 9).astype(np.uint8)
    with Writer(tmp_path / "a.urec", {"image": "uint16[64,64]", "mask": "uint8[64,64]"}) as writer:
        writer.write({"image": np.arange(4096, dtype=np.uint16).reshape(64, 64) * 10, "mask": mask})
    for drawn in serving(tmp_path / "a.urec"):
        for ordinal in (0, 1):
            found = drawn.page("pictures", column=ordinal)
            (source,) = [str(a["src"]) for tag, a in found.tags if tag == "img"]
            status, content, _ = drawn.ask(f"/{drawn.server.token}/{source}")
            assert status == 200
            with Image.open(io.BytesIO(content)) as picture:
                assert np.asarray(picture.convert("L")).max() > 200


def test_an_epoch_has_the_rows_that_a_job_gets(browser: Browser, data: Path) -> None:
    ds = UniRecordDataset(data, where="label != 2", shuffle=True, seed=5)
    job = {"where": "label != 2", "seed": 5, "batch": 8, "ranks": 3, "epoch": 2}
    found = browser.page("epoch", **job, step=4)
    expected = [ds.order.rows_of(4, 8, epoch=2, rank=rank, num_shards=3) for rank in range(3)]
    assert numbers(found) == np.concatenate(expected).tolist()
    assert "240 samples in 10 steps" in found.text
    when = browser.page("epoch", **job, row=7)
    assert "is not delivered" in when.text
    step = int(ds.order.steps_of([8], 8, epochs=[2], num_shards=3)["step"][0])
    assert f"step {step}" in browser.page("epoch", **job, row=8).text
    assert [a for tag, a in found.tags if tag == "svg" and a.get("aria-label")]


def test_of_large_steps_the_first_rows_are_shown(browser: Browser) -> None:
    found = browser.page("epoch", batch=200, ranks=2, remainder="uneven")
    assert len(numbers(found)) == 256
    assert "The first 256 rows" in found.text


def test_the_whole_dataset_has_its_page(browser: Browser) -> None:
    assert "Summary" in browser.page("dataset").text


def test_nothing_in_the_data_is_markup(browser: Browser) -> None:
    for name in ("rows", "row", "pictures", "epoch", "dataset"):
        _, content, headers = browser.ask(f"/{browser.server.token}/{name}")
        assert b"<script" not in content
        assert b"onerror=alert(1)>" not in content
        checked(content)
        assert headers["Content-Security-Policy"].startswith("default-src 'none'; img-src 'self' data:;")
        assert "script" not in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == "no-store"
    assert NAME in browser.page("rows").text


def test_names_of_files_are_text(tmp_path: Path) -> None:
    path = tmp_path / "<img src=x onerror=alert(1)>\u202e.urec"
    with Writer(path, {"n": "int32"}) as writer:
        writer.write({"n": 1})
    for browser in serving(path):
        assert "<img src=x" in browser.page("rows").text
        assert "<img src=x" in browser.page("row", row=0).text


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "evil.example:80",
        "localhost@evil",
        "",
        "127.0.0.1:80:80",
        "[::1",
    ],
)
def test_other_names_of_this_machine_are_refused(browser: Browser, host: str) -> None:
    status, content, _ = browser.ask(f"/{browser.server.token}/rows", Host=host)
    assert (status, b"label" in content) == (403, False)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:9", "[::1]:8000"])
def test_its_own_names_are_taken_with_any_port(browser: Browser, host: str) -> None:
    assert browser.ask(f"/{browser.server.token}/rows", Host=host)[0] == 200


@pytest.mark.parametrize(
    "target",
    ["/", "/rows", "/{wrong}/rows", "/{short}/rows", "/../{token}/rows", "/{token}/../rows",
     "/{token}/..%2f..%2fetc/passwd", "/{token}//etc/passwd", "http://127.0.0.1/{token}/rows", "/{token}%00/rows",
     "/é/rows", "/?{token}"],
)  # fmt: skip
def test_only_whoever_has_the_token_gets_a_page_and_no_path_is_followed(
    browser: Browser, target: str
) -> None:
    token = browser.server.token
    wrong = token[:-1] + ("a" if token[-1] != "a" else "b")
    path = quote(target.format(token=token, wrong=wrong, short=token[:-1]), safe="/:?%.")
    status, content, _ = browser.ask(path)
    assert status == 404
    assert b"label" not in content
    assert b"root" not in content


def test_tokens_are_compared_in_constant_time(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    compare = unirecord.inspect.server.hmac.compare_digest

    def watched(a: bytes, b: bytes) -> bool:
        seen.append((a, b))
        return compare(a, b)

    monkeypatch.setattr("unirecord.inspect.server.hmac.compare_digest", watched)
    assert browser.ask("/guess/rows")[0] == 404
    assert seen == [(b"guess", browser.server.token.encode())]
    assert len(browser.server.token) >= 32


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
def test_nothing_can_be_changed(browser: Browser, method: str) -> None:
    assert browser.ask(f"/{browser.server.token}/rows", method)[0] == 501


def test_a_head_has_no_body(browser: Browser) -> None:
    status, content, headers = browser.ask(f"/{browser.server.token}/rows", "HEAD")
    assert (status, content) == (200, b"")
    assert int(headers["Content-Length"]) > 1_000


def test_it_listens_on_this_machine_alone(browser: Browser) -> None:
    assert browser.server.server_address[0] == "127.0.0.1"


def test_connections_that_say_nothing_hold_no_end_up(data: Path) -> None:
    with socket.socket() as silent:
        for browser in serving(data):
            silent.connect(("127.0.0.1", browser.port))
            browser.page("rows")
        assert silent.recv(1) == b""


def test_connections_without_the_token_give_way(browser: Browser) -> None:
    slow = [socket.create_connection(("127.0.0.1", browser.port)) for _ in range(100)]
    try:
        for one in slow:
            one.sendall(b"GET / HT")
        browser.page("rows")
        assert len(browser.server._open) <= 32
    finally:
        for one in slow:
            one.close()


def test_connections_with_the_token_do_not_give_way(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unirecord.inspect.server._CONNECTIONS", 1)
    # A server of its own: connections of other tests may still be ending in the one that they share.
    for browser in serving(data):
        begun, go_on = threading.Event(), threading.Event()
        content = browser.server.dataset_page()

        def page(begun: threading.Event = begun, go_on: threading.Event = go_on) -> bytes:
            begun.set()
            assert go_on.wait(60)
            return content  # noqa: B023

        monkeypatch.setattr(browser.server, "dataset_page", page)
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(browser.ask, f"/{browser.server.token}/dataset")
            assert begun.wait(60)
            with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
                browser.ask(f"/{browser.server.token}/rows")
            go_on.set()
            assert first.result()[:2] == (200, content)


def test_a_request_that_never_comes_whole_is_ended(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unirecord.inspect.server._ASKING_SECONDS", 0.2)
    for browser in serving(data):
        with socket.create_connection(("127.0.0.1", browser.port)) as slow:
            slow.settimeout(0.02)
            sent = 0
            for _ in range(3_000):  # a minute
                try:
                    sent += slow.send(b"x")
                    if slow.recv(1) == b"":
                        break
                except TimeoutError:
                    continue
                except ConnectionError:
                    break
            else:
                pytest.fail("it was listened to for ever")
        assert sent


@pytest.mark.parametrize("page", ["rows", "pictures", "row", "epoch", "dataset", "picture", "other"])
def test_every_request_has_an_answer_whatever_its_fields_are_called(browser: Browser, page: str) -> None:
    names = (
        "page self cls name fields changes looking asked here why content query row column where sort down"
    )
    names += " step side ranks batch é \0 %"
    for name in names.split(" "):
        for value in ("1", "x", "\udcff", "9" * 30):
            query = urlencode({name: value, "from": "2"}, errors="surrogateescape")
            status, content, _ = browser.ask(f"/{browser.server.token}/{page}?{query}")
            assert status in (200, 400, 404), (name, value, content[-300:])
            assert content


def test_a_page_that_cannot_be_made_is_answered(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (KeyError("secret"), RecursionError(), TypeError("secret"), AssertionError()):

        def broken(*given: Any, error: Exception = error) -> None:
            raise error

        monkeypatch.setitem(unirecord.inspect.server._PAGES, "rows", broken)
        status, content, _ = browser.ask(f"/{browser.server.token}/rows")
        assert status == 500
        assert f"cannot be made: {type(error).__name__}".encode() in content
        assert b"secret" not in content


def test_deleted_rows_are_not_shown(tmp_path: Path) -> None:
    path = written(tmp_path / "data")
    unirecord.delete(path, where="label == 0")
    for browser in serving(path):
        assert numbers(browser.page("rows"))[:5] == [1, 2, 3, 4, 6]
        assert "no row 5" in browser.page("row", 400, row=5).text
        browser.page("dataset")


def test_a_dataset_without_rows_has_pages(tmp_path: Path) -> None:
    with Writer(tmp_path / "a.urec", {"n": "int32", "b": "bytes"}):
        pass
    for browser in serving(tmp_path / "a.urec"):
        for name in ("rows", "pictures", "epoch", "dataset"):
            browser.page(name)


def test_the_command_prints_the_address_and_ends_when_interrupted(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(self: ViewServer) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ViewServer, "serve_forever", interrupted)
    assert main(["view", str(data)]) == 0
    assert re.match(r"http://127\.0\.0\.1:\d+/[\w-]{32}/rows\n", capsys.readouterr().out)
    assert main(["view", str(data), "--port", "70000"]) == 2
    assert main(["view", str(data / "nothing")]) == 2
