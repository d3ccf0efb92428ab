"""`ds.pipeline().map(Decode(…)).batch(256)`."""

from __future__ import annotations

from collections.abc import Iterator

from pictures.stored import BATCH, SIDE, Stored


def dataset(stored: Stored):
    import unirecord

    path = stored.folder / "photographs.urec"
    if not path.exists():
        with unirecord.Writer(path, {"image": "bytes"}) as writer:
            for row in range(len(stored)):
                writer.write({"image": stored[row].tobytes()})
    return unirecord.UniRecordDataset(path, shuffle=True)


def batches(stored: Stored, threads: int) -> Iterator:
    from unirecord.images import Decode

    decode = Decode(SIDE, "random-resized", flip=0.5)
    ds = dataset(stored)
    loader = ds.pipeline(cpus=threads).map(decode, columns=["image"], threads=threads).batch(BATCH)
    while True:
        for batch in loader:
            yield batch["image"]
