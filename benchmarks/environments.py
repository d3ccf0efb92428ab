"""Makes one virtual environment per peer, so that no peer's pins disturb another's."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

DEFAULT_CACHE = Path(__file__).parent / ".cache"
INSTALL_SECONDS = 1800


@dataclass(frozen=True)
class Environment:
    """What a peer needs: requirement strings in the order of installation, and what pip must be told."""

    requirements: tuple[str, ...]
    imports: str
    first: tuple[str, ...] = ()  # installed before, because the peer's own build imports them
    options: tuple[str, ...] = field(default=())


ENVIRONMENTS = {
    "lmdb": Environment(("numpy", "lmdb"), "lmdb"),
    "arrayrecord": Environment(
        ("numpy", "array_record", "grain"), "array_record.python.array_record_data_source, grain"
    ),
    "bagz": Environment(("numpy", "bagz"), "bagz"),
    "ffcv": Environment(
        ("ffcv==1.0.2", "pillow"),
        "ffcv",
        first=("setuptools<80", "wheel", "numpy<2.3", "numba", "torch==2.13.0", "pybind11"),
        options=("--no-build-isolation",),
    ),
    "mosaicml": Environment(("numpy", "torch==2.13.0", "mosaicml-streaming", "transformers"), "torch"),
    "litdata": Environment(("numpy", "torch==2.13.0", "litdata>=0.2.70", "zstd"), "litdata"),
    "lance": Environment(("numpy", "pylance", "pyarrow"), "lance"),
    "array_files": Environment(("numpy", "h5py", "zarr>=3", "tensorstore"), "h5py, zarr, tensorstore"),
    "datasets": Environment(("numpy", "datasets"), "datasets"),
    "webdataset": Environment(("numpy", "webdataset"), "webdataset"),
    "tensorflow": Environment(
        ("numpy", "tensorflow-cpu==2.21.0", "opencv-python-headless"), "tensorflow, cv2"
    ),
    "mindspore": Environment(
        ("setuptools<80", "mindspore==2.10.0", "opencv-python-headless", "cffi", "msgpack"),
        "mindspore.dataset, mindspore.mindrecord, cv2, msgpack",
    ),
    "photographs": Environment(
        ("numpy", "pillow", "scikit-image", "scikit-learn"), "skimage.data, sklearn.datasets"
    ),
    "pictures": Environment(
        ("numpy", "torch==2.13.0", "simplejpeg", "opencv-python-headless", "spdl-core", "cffi", "msgpack"),
        "cv2, simplejpeg, spdl.pipeline",
    ),
    "torchvision": Environment(
        ("numpy", "torch==2.14.1", "torchvision==0.29.1"), "torchvision.transforms.v2, torchvision.io"
    ),
    "dali": Environment(("numpy", "nvidia-dali-cuda120==2.4.0"), "nvidia.dali.fn"),
    "grain": Environment(
        ("numpy", "grain", "simplejpeg", "opencv-python-headless"), "grain, cv2, simplejpeg"
    ),
    "torch": Environment(("numpy", "torch==2.13.0"), "torch"),
    "megatron": Environment(
        ("numpy", "torch==2.13.0", "packaging", "megatron-core==0.16.1"), "megatron.core.datasets.gpt_dataset"
    ),
}


def interpreter(cache: Path, name: str) -> Path:
    """Path of the Python of environment `name` under `cache`."""
    return cache / "env" / name / "bin" / "python"


def _last_line(text: str) -> str:
    """The line that says what went wrong in pip's or Python's output."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or ["no output"])[-1][:200]


def _call(command: list[str], seconds: float) -> str:
    """Runs `command`; returns "" or the reason it failed."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"not done after {seconds:.0f} s"
    return "" if done.returncode == 0 else _last_line(done.stderr + "\n" + done.stdout)


def _install(cache: Path, name: str, seconds: float) -> str:
    """Creates the environment and installs; returns "" or the reason it failed."""
    python = interpreter(cache, name)
    environment = ENVIRONMENTS[name]
    pip = [str(python), "-m", "pip", "install", "--quiet"]
    steps = [[sys.executable, "-m", "venv", "--clear", str(python.parent.parent)]]
    if environment.first:
        steps.append([*pip, *environment.first])
    steps.append([*pip, *environment.options, *environment.requirements])
    steps.append([str(python), "-c", f"import {environment.imports}"])
    for step in steps:
        reason = _call(step, seconds)
        if reason:
            return reason
    return ""


def ensure(cache: Path, name: str, seconds: float = INSTALL_SECONDS) -> str:
    """Makes environment `name` once; returns "" when it is usable, else the reason it is not.

    The outcome is kept in a file beside the environment, so that a failed install is not tried again at every run:
    delete that file to try again.
    """
    outcome = cache / "env" / f"{name}.outcome"
    if outcome.exists():
        return outcome.read_text().strip()
    outcome.parent.mkdir(parents=True, exist_ok=True)
    reason = _install(cache, name, seconds)
    outcome.write_text(reason + "\n")
    return reason


def main() -> int:
    parser = argparse.ArgumentParser(description="Installs the peers' environments.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(ENVIRONMENTS)} (all)")
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE)
    arguments = parser.parse_args()
    for name in arguments.names or ENVIRONMENTS:
        start = time.monotonic()
        reason = ensure(arguments.cache, name)
        print(f"{name}: {reason or 'ready'} ({time.monotonic() - start:.0f} s)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
