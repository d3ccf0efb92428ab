"""Reads damaged copies of a source in this process, without a child of its own, and says what came of each.

`damaged_sources.py KIND PATH SEED FROM TO` prints a line of JSON for each copy: its number, and what is wrong or null.
"""

from __future__ import annotations

import json
import random
import resource
import signal
import sys
import traceback
import warnings
from importlib import import_module
from pathlib import Path

from unirecord.convert.sources import Options, open_input, source_type
from unirecord.errors import UniRecordError
from unirecord.format.values import RecordEncoder

SECONDS = 10
BYTES = 2 << 30


def damage(content: bytes, draw: random.Random) -> bytes:
    """The content with a cut, bytes that are changed, taken away or put in, or a number that is made extreme."""
    data = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 2, 8))):
        if not data:
            break
        # Headers and footers are short, and most of what can be said wrongly is in them.
        end = len(data)
        at = draw.choice(
            (draw.randrange(end), draw.randrange(min(end, 64)), end - 1 - draw.randrange(min(end, 400)))
        )
        how = draw.randrange(6)
        if how == 0:
            del data[at:]
        elif how == 1:
            del data[at : at + draw.randrange(1, 9)]
        elif how == 2:
            data[at:at] = draw.randbytes(draw.randrange(1, 9))
        elif how == 3:
            wide = draw.choice((1, 2, 4, 8))
            data[at : at + wide] = draw.choice((bytes(wide), b"\xff" * wide, b"\xff" * (wide - 1) + b"\x7f"))
        else:
            data[at] = draw.choice(
                (0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256), data[at] ^ 1 << draw.randrange(8))
            )
    return bytes(data)


def wrong(kind: str, path: Path) -> str | None:
    """What is wrong with how a source is refused, or read; None where it is read, or refused by our errors."""
    try:
        found = open_input(str(path / "instances.json" if kind == "coco" else path))
        source = source_type(found, kind)(found, Options())
        encoder = RecordEncoder(source.schema, "error")
        for batch in source.batches():
            if batch.rows:
                encoder.encode_batch({name: batch.columns[name] for name in source.schema.names}, 0)
    except (UniRecordError, MemoryError):
        return None
    except BaseException:
        return traceback.format_exc(limit=-3)
    return None


def main(kind: str, place: str, seed: int, start: int, stop: int) -> None:
    """Damage, read, and say."""
    warnings.simplefilter("ignore")
    path = Path(place)
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    whole = {file: file.read_bytes() for file in files}
    for module in source_type(
        open_input(place if kind != "coco" else f"{place}/instances.json"), kind
    ).libraries:
        import_module(module)
    status = Path("/proc/self/status").read_text().split("\n")
    used = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmData"))
    resource.setrlimit(resource.RLIMIT_DATA, (used + BYTES, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in range(start, stop):
        draw = random.Random(f"{kind} {seed} {number}")
        file = draw.choice(files)
        file.write_bytes(damage(whole[file], draw))
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        said = wrong(kind, path)
        signal.setitimer(signal.ITIMER_PROF, 0)
        file.write_bytes(whole[file])
        print(json.dumps([number, said]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6]))
