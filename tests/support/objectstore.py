"""An object store on the loopback: S3's protocol over a folder, with the faults of a real one made to order.

Buckets are the folders in its root. It answers GET with ranges, HEAD, and lists, and what objectstore_writing.py
writes; it asks for no signature. What happens to a request is said by ``server.fault``, a function of the request.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from objectstore_writing import change, tag_of

if TYPE_CHECKING:
    import pytest

_PIECE = 64 << 10  # bytes that an answer sends at once over a limited link; others get their turns between


@dataclass(frozen=True)
class Request:
    """A request as it came."""

    method: str
    key: str  # with the bucket
    start: int  # of the range; 0 without one
    stop: int | None
    number: int  # of the request, from 0
    query: str = ""


@dataclass(frozen=True)
class Fault:
    """What is done to a request: an answer of that status, a body cut or changed, a pause before it, or a hang-up.

    Of an answer of that status, ``code`` is what its body says, and ``location`` where it sends to.

    Of one that changes something: ``lost`` does it and hangs up, ``twice`` does it twice and gives the second answer,
    ``late`` hangs up, and `Server.do_late` does it when that is called. ``before`` is done first, in another thread.
    """

    status: int = 0
    code: str = "Fault"
    location: str = ""
    cut: int | None = None
    flip: int | None = None
    pause: float = 0.0
    hang_up: bool = False
    lost: bool = False
    twice: bool = False
    late: bool = False
    before: Callable[[], object] | None = None


class Link:
    """What all connections share: so many bytes a second; 0 for as many as there are."""

    def __init__(self, bandwidth: float) -> None:
        self.bandwidth, self._free = bandwidth, 0.0

    def wait(self, now: float, size: int) -> float:
        """Seconds until ``size`` bytes more have gone over it, behind all that were given to it before."""
        self._free = max(now, self._free) + size / self.bandwidth
        return self._free - now


@dataclass
class Server:
    """A store that is running; ``requests`` are those it has had, ``bytes`` those that it has sent as bodies."""

    root: Path
    latency: float = 0.0
    fault: Callable[[Request], Fault | None] = lambda request: None
    requests: list[Request] = field(default_factory=list)
    bytes: int = 0
    most_in_flight: int = 0
    port: int = 0
    link: Link = field(default_factory=lambda: Link(0.0))
    _in_flight: int = 0
    _late: list[Callable[[], object]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def set_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """From here on ``s3://`` is this store, without keys."""
        monkeypatch.setenv("AWS_ENDPOINT_URL", self.url)
        monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
        monkeypatch.setenv("AWS_REGION", "us-east-1")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._answer(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ")
        headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])
        }
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        url = urlsplit(target)
        start, stop = _range(headers.get("range", ""))
        key = unquote(url.path).strip("/")
        request = Request(method, key, start, stop, len(self.requests), url.query)
        self.requests.append(request)
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        try:
            fault = self.fault(request) or Fault()
            await asyncio.sleep(self.latency + fault.pause)
            if fault.before is not None:
                await asyncio.to_thread(fault.before)
            if fault.hang_up:
                return False
            if fault.status:
                headers = {"Location": fault.location} if fault.location else {}
                text = f'<?xml version="1.0"?>\n<Error><Code>{fault.code}</Code></Error>'
                await self._send(writer, fault.status, headers, text.encode(), fault)
            elif method not in ("GET", "HEAD"):
                return await self._change(writer, request, headers, body, fault)
            elif "list-type" in parse_qs(url.query):
                await self._send(writer, 200, {}, self._list(request.key, parse_qs(url.query)), fault)
            else:
                await self._object(writer, request, fault)
            return fault.cut is None
        finally:
            self._in_flight -= 1

    async def _change(
        self,
        writer: asyncio.StreamWriter,
        request: Request,
        headers: dict[str, str],
        body: bytes,
        fault: Fault,
    ) -> bool:
        query = parse_qs(request.query, keep_blank_values=True)

        def do() -> tuple[int, dict[str, str], bytes]:
            return change(self.root, request.method, request.key, query, headers, body)

        if fault.late:
            self._late.append(do)
            return False
        status, said, answer = do()
        if fault.twice:
            status, said, answer = do()
        if fault.lost:
            return False
        await self._send(writer, status, said, answer, fault)
        return True

    def do_late(self) -> None:
        """Does what requests with the fault ``late`` asked for, in their order."""
        waiting, self._late = self._late, []
        for do in waiting:
            do()

    async def _object(self, writer: asyncio.StreamWriter, request: Request, fault: Fault) -> None:
        path = self.root / request.key
        if not path.is_file():
            await self._send(writer, 404, {}, b"<Error><Code>NoSuchKey</Code></Error>", fault)
            return
        size = path.stat().st_size
        headers = {
            "ETag": tag_of(path),
            "Last-Modified": formatdate(path.stat().st_mtime, usegmt=True),
            "Accept-Ranges": "bytes",
        }
        stop = size if request.stop is None else min(request.stop, size)
        if request.method == "HEAD":
            await self._send(writer, 200, headers, b"", fault, size)
            return
        if request.start >= size and request.stop is not None:
            await self._send(writer, 416, headers, b"", fault)
            return
        with path.open("rb") as file:
            body = os.pread(file.fileno(), stop - request.start, request.start)
        if request.stop is not None:
            headers["Content-Range"] = f"bytes {request.start}-{stop - 1}/{size}"
        await self._send(writer, 206 if request.stop is not None else 200, headers, body, fault)

    def _list(self, bucket: str, query: dict[str, list[str]]) -> bytes:
        prefix = query.get("prefix", [""])[0]
        folder = self.root / bucket / prefix
        entries = sorted(folder.iterdir()) if folder.is_dir() else []
        objects = "".join(
            f"<Contents><Key>{escape(prefix + path.name)}</Key><Size>{path.stat().st_size}</Size>"
            f"<LastModified>{datetime.fromtimestamp(path.stat().st_mtime, UTC):%Y-%m-%dT%H:%M:%S.000Z}"
            "</LastModified><ETag>x</ETag></Contents>"
            for path in entries
            if path.is_file()
        )
        folders = "".join(
            f"<CommonPrefixes><Prefix>{escape(prefix + path.name)}/</Prefix></CommonPrefixes>"
            for path in entries
            if path.is_dir()
        )
        text = f"<ListBucketResult><Name>{bucket}</Name><IsTruncated>false</IsTruncated>{objects}{folders}"
        return f'<?xml version="1.0" encoding="UTF-8"?>{text}</ListBucketResult>'.encode()

    async def _send(
        self,
        writer: asyncio.StreamWriter,
        status: int,
        headers: dict[str, str],
        body: bytes,
        fault: Fault,
        length: int | None = None,
    ) -> None:
        if fault.flip is not None and body:
            at = fault.flip % len(body)
            body = body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]
        said = {**headers, "Content-Length": str(len(body) if length is None else length)}
        lines = "".join(f"{name}: {value}\r\n" for name, value in said.items())
        if fault.cut is not None:
            body = body[: fault.cut]
        self.bytes += len(body)
        answer = f"HTTP/1.1 {status} X\r\n{lines}\r\n".encode("latin-1") + body
        loop, piece = asyncio.get_running_loop(), _PIECE if self.link.bandwidth else len(answer)
        for start in range(0, len(answer), piece):
            part = answer[start : start + piece]
            if self.link.bandwidth:
                await asyncio.sleep(self.link.wait(loop.time(), len(part)))
            writer.write(part)
        await writer.drain()


def _range(text: str) -> tuple[int, int | None]:
    if not text.startswith("bytes="):
        return 0, None
    first, _, last = text.removeprefix("bytes=").partition("-")
    return int(first), int(last) + 1 if last else None


async def _end(listening: asyncio.Server) -> None:
    """Ends the connections; they are told again and again, since one that is just finishing a step may not hear it."""
    listening.close()
    while pending := asyncio.all_tasks() - {asyncio.current_task()}:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=0.1)


@contextmanager
def serving(root: Path, latency: float = 0.0, bandwidth: float = 0.0) -> Iterator[Server]:
    """A server over the folder of buckets ``root``, in a thread of this process, with ``latency`` seconds a request.

    ``bandwidth``: bytes a second that all answers share; as many as there can be where it is 0.
    """
    server, loop = Server(root, latency, link=Link(bandwidth)), asyncio.new_event_loop()
    ready = threading.Event()

    async def start() -> asyncio.Server:
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, limit=1 << 20)
        server.port = listening.sockets[0].getsockname()[1]
        return listening

    def run() -> None:
        listening = loop.run_until_complete(start())
        loop.call_soon(ready.set)  # not before: a stop would end no more than the start
        loop.run_forever()
        loop.run_until_complete(_end(listening))
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert ready.wait(30)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
