"""Writers to an object store that are interrupted, killed, or end with their process: all is published, or nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from heard_interrupts import interrupts_are_heard
from objectstore import Fault, Request, Server
from objectstore_writing import uploads
from restarting_signals import signals_restart_calls
from written_store import PIECE, URL, folder, numbers, served, spooled, unnamed, write

from unirecord import Writer

server = pytest.fixture(served)


@pytest.fixture(autouse=True)
def _heard() -> Iterator[None]:
    with interrupts_are_heard():
        yield


def test_ctrl_c_aborts_the_upload(server: Server) -> None:
    main_thread = os.getpid()
    pieces = 0

    def interrupt(request: Request) -> Fault | None:
        nonlocal pieces
        pieces += "partNumber" in request.query
        if pieces == 5 and "partNumber" in request.query:
            os.kill(main_thread, signal.SIGINT)
        return Fault(pause=0.01 if pieces <= 5 else 0.5) if "partNumber" in request.query else None

    server.fault = interrupt
    with (
        signals_restart_calls(),
        pytest.raises(KeyboardInterrupt),
        Writer(URL, {"b": "bytes"}) as writer,
    ):
        writer.write({"b": os.urandom(100 * PIECE)})  # six seconds, if nobody stopped it
    assert uploads(server.root) == spooled(server) == []
    assert not folder(server).exists() or unnamed(server) == []
    assert pieces < 100


def test_ctrl_c_while_it_is_published_removes_nothing_that_may_be(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(request: Request) -> Fault | None:
        if request.method == "PUT" and request.key.endswith("manifest.json"):
            os.kill(os.getpid(), signal.SIGINT)
            return Fault(pause=0.05)
        return None

    server.fault = interrupt
    with pytest.raises(KeyboardInterrupt):
        write(range(3))
    if numbers(server) is None:
        assert len(unnamed(server)) == 2
        assert "not known whether" in capsys.readouterr().err


SCRIPT = """
import sys
from unirecord import Writer
from unirecord.storage import object_store
object_store.PIECE_BYTES = 4096
writer = Writer("s3://bucket/train", {"b": "bytes"}, max_part_bytes=40_000)
for _ in range(int(sys.argv[1])):
    writer.write_batch({"b": [bytes(30_000)]})
"""


def run(server: Server, rows: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(rows)],
        env={**os.environ, "TMPDIR": str(server.root.parent / "spool")},
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_writer_that_is_killed_publishes_nothing_and_the_next_one_says_what_it_left(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    pieces = 0

    def kill(request: Request) -> Fault | None:
        nonlocal pieces
        pieces += "partNumber" in request.query
        if pieces == 12:
            process.kill()
            return Fault(hang_up=True)
        return None

    server.fault = kill
    process = run(server, 8)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    server.fault = lambda request: None
    assert numbers(server) is None
    assert len(spooled(server)) == 1
    left = unnamed(server)
    assert left
    write(range(3), overwrite=True)
    assert left[0] in capsys.readouterr().err
    assert spooled(server) == []
    assert numbers(server) == [0, 1, 2]
    assert unnamed(server) == left  # it may be of a writer that lives


def test_a_writer_that_is_open_when_its_process_ends_leaves_nothing(server: Server) -> None:
    process = run(server, 3)
    _, said = process.communicate()
    assert process.returncode == 0
    assert "without close()" in said
    assert any(request.key.endswith(".urec") for request in server.requests)
    assert unnamed(server) == spooled(server) == uploads(server.root) == []
