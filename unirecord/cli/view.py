"""``unirecord view PATH``: a dataset in a browser, by a server for this machine alone."""

from __future__ import annotations

import argparse
import sys
import webbrowser

from ..inspect.server import ViewServer
from .arguments import CACHE, CACHE_BYTES, DATASETS, STORAGE, Argument, UsageError, command, count
from .terminal import say

__all__ = ["view_command"]


@command(
    """Look at a dataset in a browser: rows in pages by a condition and in the order of a column, pictures, one row
    in full, the order of an epoch and what a step contains. The server listens on this machine alone, answers
    whoever has the address that is printed, and ends with Ctrl-C.""",
    """
    unirecord view pictures.urec
    unirecord view data --open                 the browser opens
    unirecord view data --port 8765            on a machine behind ssh -L 8765:127.0.0.1:8765
    """,
    DATASETS,
    Argument("--port", type=count, default=0, metavar="N", help="listen there (default: a free one)"),
    Argument("--open", action="store_true", help="open the address in the browser"),
    STORAGE,
    CACHE,
    CACHE_BYTES,
)
def view_command(args: argparse.Namespace) -> int:
    if args.port > 65_535:
        raise UsageError(f"--port: {args.port} is no port; they end at 65,535")
    server = ViewServer(args.path[0] if len(args.path) == 1 else args.path, args.port)
    try:
        say(server.address, "the address is a key to the data: give it to nobody; Ctrl-C ends the server")
        sys.stdout.flush()
        if args.open:
            webbrowser.open(server.address)
        server.serve_forever()
    except KeyboardInterrupt:
        say("closed")
    finally:
        server.close()
    return 0
