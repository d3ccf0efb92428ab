"""The server: it listens on this machine alone, and answers whoever knows its token."""

from __future__ import annotations

import hmac
import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from ..errors import UniRecordError
from .markup import templates
from .pages import (
    POLICY,
    BadRequest,
    PageRequest,
    ViewedDataset,
    epoch_page,
    links,
    page,
    picture_of,
    pictures_page,
    row_page,
    rows_page,
)
from .reports import dataset_page

__all__ = [
    "ViewServer",
]


_PAGES: Final[dict[str, Callable[[ViewedDataset, PageRequest], tuple[int, bytes]]]] = {
    "rows": rows_page,
    "pictures": pictures_page,
    "row": row_page,
    "epoch": epoch_page,
}
_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")  # of this machine, as a browser on it says them
_CONNECTIONS: Final = 32
_ASKING_SECONDS: Final = 10.0  # from a connection's beginning, in which its request must have come whole
_SENDING_SECONDS: Final = 30  # in which a piece of an answer must be taken
_HEADERS: Final = {
    "Content-Security-Policy": f"{POLICY}; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class ViewServer(ThreadingHTTPServer):
    """Pages of a dataset at ``address``, until ``close``; port 0 takes one that is free."""

    daemon_threads = False
    block_on_close = True
    request_queue_size = 32

    def __init__(self, path: Any, port: int = 0) -> None:
        templates()
        self.viewed: ViewedDataset = ViewedDataset(path)
        self.token: str = secrets.token_urlsafe(24)
        self._context = copy_context()  # how object stores are reached
        self._guard = threading.Lock()
        self._open: set[socket.socket] = set()
        self._unknown: dict[socket.socket, float] = {}  # those that have not shown the token; when they began
        self._making = threading.Lock()
        self._page_of_dataset: bytes | None = None
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except BaseException:
            self.viewed.close()
            raise

    @property
    def address(self) -> str:
        """What a browser on this machine opens."""
        return f"http://127.0.0.1:{self.server_port}/{self.token}/rows"

    def dataset_page(self) -> bytes:
        """The page of the whole dataset; made once."""
        with self._making:
            if self._page_of_dataset is None:
                self._page_of_dataset = dataset_page(
                    self.viewed.path, links("dataset", PageRequest({}), self.viewed)
                )
            return self._page_of_dataset

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer on a thread; where there are too many, the oldest that has not shown the token gives way."""
        with self._guard:
            oldest = next(iter(self._unknown), None)
            crowded = len(self._open) >= _CONNECTIONS
            if crowded and oldest is not None:
                self._drop(oldest)
                crowded = False
            if not crowded:
                self._open.add(request)
                self._unknown[request] = time.monotonic()
        if crowded:
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def service_actions(self) -> None:
        """End connections whose request takes too long, however it comes."""
        last = time.monotonic() - _ASKING_SECONDS
        with self._guard:
            for one in [one for one, began in self._unknown.items() if began < last]:
                self._drop(one)

    def _drop(self, request: socket.socket) -> None:
        """Let a connection's thread find its end; the guard is held."""
        self._unknown.pop(request, None)
        self._open.discard(request)
        with suppress(OSError):
            request.shutdown(socket.SHUT_RDWR)

    def is_known(self, request: Any) -> None:
        """A connection has shown the token."""
        with self._guard:
            self._unknown.pop(request, None)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer as whoever made the server would read."""
        self._context.copy().run(super().process_request_thread, request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget a connection and end it."""
        with self._guard:
            self._unknown.pop(request, None)
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that breaks is nobody's fault; what goes wrong in a page is said there."""

    def close(self) -> None:
        """End all connections, then the dataset."""
        with self._guard:
            waiting = list(self._open)
        for one in waiting:  # those that say nothing are not waited for
            with suppress(OSError):
                one.shutdown(socket.SHUT_RD)
        self.server_close()
        self.viewed.close()


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server: ViewServer
    timeout = _SENDING_SECONDS

    def do_GET(self) -> None:
        """Answer with a page or a picture."""
        if not self._is_here():
            self._send(403, b"this server answers requests of its own machine alone\n")
            return
        target, _, query = self.path.partition("?")
        root, _, rest = target.partition("/")
        token, _, name = rest.partition("/")
        if root or not hmac.compare_digest(token.encode("utf-8", "replace"), self.server.token.encode()):
            self._send(404, b"nothing is here; open the whole address that `unirecord view` has printed\n")
            return
        self.server.is_known(self.connection)
        self._answer(name or "rows", query)

    do_HEAD = do_GET

    def _is_here(self) -> bool:
        """Whether the browser asked for this machine by its own name, not by one that somebody else gave it."""
        hosts = self.headers.get_all("Host") or []
        name = hosts[0].strip().lower() if len(hosts) == 1 else ""
        bare, colon, port = name.rpartition(":")
        return name in _NAMES or (bool(colon) and port.isdecimal() and bare in _NAMES)

    def _answer(self, name: str, query: str) -> None:
        viewed, asked, here = self.server.viewed, PageRequest({}), name if name in _PAGES else "rows"
        try:
            asked = PageRequest.of(query)
            if name == "picture":
                self._picture(picture_of(viewed, asked))
            elif name == "dataset":
                self._send(200, self.server.dataset_page(), "text/html; charset=utf-8")
            elif name in _PAGES:
                status, content = _PAGES[name](viewed, asked)
                self._send(status, content, "text/html; charset=utf-8")
            else:
                self._send(404, b"there is no such page\n")
        except BadRequest as error:
            self._send(400, page(viewed, here, asked, error=str(error)), "text/html; charset=utf-8")
        except ConnectionError:
            raise  # nobody is there to be told
        except Exception as error:  # whatever is wrong with a page, whoever asked for it gets an answer
            said = str(error) if isinstance(error, (UniRecordError, ValueError, OSError)) else ""
            why = said or f"this page cannot be made: {type(error).__name__}"
            self._send(500, page(viewed, here, asked, error=why), "text/html; charset=utf-8")

    def _picture(self, content: bytes | None) -> None:
        if content is None:
            self._send(404, b"no picture can be made of this\n")
        else:
            self._send(200, content, "image/jpeg", "private, max-age=600")

    def _send(
        self, status: int, content: bytes, kind: str = "text/plain; charset=utf-8", keep: str = "no-store"
    ) -> None:
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Cache-Control", keep)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What is no request that this server knows."""
        self.close_connection = True
        self._send(code, b"this is no request that can be answered\n")

    def version_string(self) -> str:
        """What the server says that it is."""
        return "unirecord"

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is written down: addresses hold the token."""
