"""S3 as moto speaks it, beside these tests' own server: written, appended to, read, in pieces, under conditions.

Run by ``make moto``, which installs moto; each line says what has been seen.
"""

from __future__ import annotations

import logging
import os
from typing import Any

import boto3
from moto.server import ThreadedMotoServer
from store_checks import all_checks


def uploaded_in_pieces(client: Any) -> str:
    """What the bucket says of the large dataset that is there."""
    tags = [
        client.head_object(Bucket="bucket", Key=item["Key"])["ETag"]
        for item in client.list_objects_v2(Bucket="bucket", Prefix="large/")["Contents"]
        if item["Key"].endswith(".urec")
    ]
    assert tags
    assert all("-" in tag for tag in tags), tags
    assert not client.list_multipart_uploads(Bucket="bucket").get("Uploads")
    return f"the ETag {tags[0]} is one of pieces, and none are left over"


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
        all_checks("s3://bucket")
        print("ok:", uploaded_in_pieces(client))
    finally:
        server.stop()


if __name__ == "__main__":
    main()
