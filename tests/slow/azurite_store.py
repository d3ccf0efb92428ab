"""Azure Blob Storage as Azurite, Microsoft's emulator, speaks it: written, appended to, read, under conditions.

Run by ``make azurite``, which installs it: ``azurite_store.py PROGRAM``; each line says what was seen.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time

from azure.storage.blob import BlobServiceClient
from store_checks import all_checks

# The account that every Azurite has (https://learn.microsoft.com/azure/storage/common/storage-connect-azurite).
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def wait_for(port: int) -> None:
    for _ in range(300):
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(f"Azurite does not answer at port {port}")


def main(program: str) -> None:
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "--silent", "--disableTelemetry", "--skipApiVersionCheck", "--location", folder]
        process = subprocess.Popen([*command, "--blobHost", "127.0.0.1", "--blobPort", str(port)])
        try:
            wait_for(port)
            BlobServiceClient(endpoint, credential=KEY).create_container("bucket")
            os.environ.update(
                AZURE_STORAGE_ACCOUNT_NAME=ACCOUNT,
                AZURE_STORAGE_ACCOUNT_KEY=KEY,
                AZURE_STORAGE_ENDPOINT=endpoint,
            )
            all_checks("az://bucket")
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main(sys.argv[1])
