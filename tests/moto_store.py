"""S3 as moto speaks it, beside these tests' own server: written, appended to, read, in pieces, under conditions.

Run by ``make moto``, which installs moto; each line says what has been seen.
"""

from __future__ import annotations

import logging
import os
from typing import Any

import boto3
import numpy as np
from moto.server import ThreadedMotoServer

from unirecord import StaleError, UniRecordDataset, Writer, append, verify

URL = "s3://bucket/rows"
SCHEMA = {"n": "int64", "x": "uint8[1000]"}


def add(writer: Writer, first: int, rows: int) -> None:
    for n in range(first, first + rows):
        writer.write({"n": n, "x": np.full(1_000, n % 256, np.uint8)})


def numbers(url: str, **options: Any) -> list[int]:
    with UniRecordDataset(url, **options) as ds:
        found = []
        for batch in ds.batches(64):
            assert (batch["x"] == (batch["n"] % 256).astype(np.uint8)[:, None]).all()
            found += batch["n"].tolist()
        return found


def written_and_read() -> str:
    with Writer(URL, SCHEMA, max_part_bytes="200kB") as writer:
        add(writer, 0, 500)
    assert numbers(URL) == list(range(500))
    assert sorted(numbers(URL, shuffle=True, seed=1)) == list(range(500))
    assert numbers(URL, where="n < 7") == list(range(7))
    assert sum(map(len, (numbers(f"{URL}/*.urec"),))) == 500
    return "written as several parts, listed, read in order, shuffled, and by a condition"


def appended() -> str:
    first, second = append(URL), append(URL)
    add(first, 500, 50)
    add(second, 550, 50)
    first.close()
    second.close()
    assert numbers(URL) == list(range(600))
    return "appended to by two writers at once: both are there"


def uploaded_in_pieces(client: Any) -> str:
    with Writer("s3://bucket/large", SCHEMA) as writer:
        add(writer, 0, 30_000)
    tags = [
        client.head_object(Bucket="bucket", Key=item["Key"])["ETag"]
        for item in client.list_objects_v2(Bucket="bucket", Prefix="large/")["Contents"]
        if item["Key"].endswith(".urec")
    ]
    assert tags
    assert all("-" in tag for tag in tags), tags
    assert not client.list_multipart_uploads(Bucket="bucket").get("Uploads")
    assert numbers("s3://bucket/large") == list(range(30_000))
    return f"30 MB uploaded in pieces, as its ETag {tags[0]} says, none left over"


def one_writer_wins(**options: Any) -> str:
    name = "s3://bucket/raced" if not options else URL
    first, second = (Writer(name, SCHEMA, **options) for _ in range(2))
    add(first, 0, 10)
    add(second, 100, 10)
    first.close()
    try:
        second.close()
    except StaleError:
        pass
    else:
        raise AssertionError("both writers published")
    assert numbers(name) == list(range(10))
    return f"of two writers {'that replace a dataset' if options else 'of a new dataset'} the second is told"


def main() -> None:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    os.environ.update(
        AWS_ENDPOINT_URL=f"http://{host}:{port}",
        AWS_ACCESS_KEY_ID="testing",
        AWS_SECRET_ACCESS_KEY="testing",
        AWS_REGION="us-east-1",
        AWS_DEFAULT_REGION="us-east-1",
    )
    try:
        client = boto3.client("s3")
        client.create_bucket(Bucket="bucket")
        for seen in (
            written_and_read,
            appended,
            lambda: uploaded_in_pieces(client),
            one_writer_wins,
            lambda: one_writer_wins(overwrite=True),
        ):
            print("ok:", seen(), flush=True)
        assert verify(URL).ok
        print("ok: every byte verified")
    finally:
        server.stop()


if __name__ == "__main__":
    main()
