"""Exports read back by the real libraries: `make exports` writes here, and reads in environments of theirs.

python exports_read_back.py CACHE            # every format
python exports_read_back.py --read KIND PATH # one, in the environment that has its library: rows as JSON lines
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ENVIRONMENT = {"mds": "mosaicml", "mindrecord": "mindspore"}
LEFT_OUT = {
    "mds": (),
    "mindrecord": ("wave", "grid", "huge", "single", "rare"),
}  # MindRecord has no such types, and no null


def rows_of_mds(path: str) -> Iterator[dict[str, Any]]:
    """As MosaicML's own reader decodes them."""
    # Its vision part imports torchvision, whose wheels don't fit every build of torch and which no reader needs.
    sys.modules["streaming.vision"] = types.ModuleType("streaming.vision")
    from streaming import LocalDataset

    dataset = LocalDataset(path)
    return (dataset[i] for i in range(len(dataset)))


def rows_of_mindrecord(path: str) -> Iterator[dict[str, Any]]:
    """As MindSpore's own reader decodes them, and its dataset counts them."""
    from mindspore.dataset import MindDataset
    from mindspore.mindrecord import FileReader

    (first, *_) = sorted(Path(path).glob("*.mindrecord*"))
    reader = FileReader(str(first))
    rows = list(reader.get_next())
    assert MindDataset(str(first)).get_dataset_size() == len(rows) == reader.len()
    return iter(rows)


def plain(value: Any) -> Any:
    """A value as JSON can say it exactly: arrays with their shape, floats by their shortest text, bytes as hex."""
    if hasattr(value, "shape") and value.shape != ():
        return {"shape": list(value.shape), "values": [plain(item) for item in value.reshape(-1).tolist()]}
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, bytes):
        return value.hex()
    return repr(value) if isinstance(value, float) else value


def expected(kind: str, record: dict[str, Any]) -> dict[str, Any]:
    """What docs/exporting.md says that a row becomes."""
    import numpy as np
    from exported_rows import as_json, floats

    wanted = {name: value for name, value in record.items() if name not in LEFT_OUT[kind]}
    thing = as_json(record)["thing"]
    if kind == "mds":
        wave = record["wave"].view(np.float32).reshape(-1, 2)
        single = as_json(record)["single"]
        wanted |= {"flag": int(record["flag"]), "bits": record["bits"].astype(np.uint8), "wave": wave}
        return wanted | {"thing": thing, "single": single}
    texts = json.dumps(thing, ensure_ascii=False)
    return wanted | {
        "flag": int(record["flag"]), "bits": record["bits"].astype(np.int32), "thing": texts,
        "half": float(record["half"]), "brain": np.array(floats(record["brain"]), np.float32),
    }  # fmt: skip


def same_number(found: Any, wanted: Any) -> bool:
    """MindRecord's msgpack of 0.0 is read back as the integer 0; else both are the same."""
    return found == wanted or (isinstance(found, int) and repr(float(found)) == wanted)


def check(kind: str, python: Path, folder: Path, parts: int | None) -> int:
    """Export, read back, and compare every value; the number of rows."""
    from exported_rows import ROWS, SCHEMA

    import unirecord

    names = [name for name in SCHEMA if name not in LEFT_OUT[kind]]
    target = folder / f"{kind}-{parts}"
    unirecord.export(folder / "data", target, kind, columns=names, parts=parts)
    done = subprocess.run(
        [python, __file__, "--read", kind, str(target)], stdout=subprocess.PIPE, text=True, check=True
    )
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(found) == len(ROWS), f"{kind}: {len(found)} rows"
    for number, (one, record) in enumerate(zip(found, ROWS, strict=True)):
        wanted = json.loads(json.dumps({n: plain(v) for n, v in expected(kind, record).items()}))
        assert set(one) == set(names), (kind, sorted(one))
        for name in names:
            assert same_number(one[name], wanted[name]), (kind, number, name, one[name], wanted[name])
    return len(found)


def main() -> None:
    """Run what the arguments ask for."""
    if sys.argv[1] == "--read":
        read = {"mds": rows_of_mds, "mindrecord": rows_of_mindrecord}[sys.argv[2]]
        for row in read(sys.argv[3]):
            print(json.dumps({name: plain(value) for name, value in row.items()}))
        return
    sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
    import environments
    from exported_rows import ROWS, SCHEMA

    from unirecord import Writer

    cache = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Writer(folder / "data", SCHEMA, max_part_bytes=20_000) as writer:
            for record in ROWS:
                writer.write(record)
        for kind, environment in ENVIRONMENT.items():
            wrong = environments.ensure(cache, environment)
            assert not wrong, f"{environment}: {wrong}"
            python = environments.interpreter(cache, environment)
            for parts in (None, 3) if kind == "mindrecord" else (None,):
                print(
                    f"{kind}, parts={parts}: {check(kind, python, folder, parts)} rows read back, every value the same"
                )


if __name__ == "__main__":
    main()
