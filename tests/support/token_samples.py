"""Files of tokens, made byte by byte as Megatron, datatrove, lit-gpt and llm.c write them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

MEGATRON_CODES = {
    "uint8": 1,
    "int8": 2,
    "int16": 3,
    "int32": 4,
    "int64": 5,
    "float64": 6,
    "float32": 7,
    "uint16": 8,
}


def megatron(
    root: Path,
    sequences: Sequence[Sequence[int]],
    bounds: Sequence[int] | None = None,
    dtype: str = "uint16",
    modes: Sequence[int] | None = None,
) -> Path:
    """Write ``root.bin`` and ``root.idx``, and return the index."""
    arrays = [np.array(one, dtype) for one in sequences]
    at = np.cumsum([0, *(array.nbytes for array in arrays)], dtype="<i8")[: len(arrays)]
    bounds = range(len(arrays) + 1) if bounds is None else bounds
    root.with_suffix(".bin").write_bytes(b"".join(array.tobytes() for array in arrays))
    index = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, MEGATRON_CODES[dtype], len(arrays), len(bounds))
    index += np.array([len(one) for one in arrays], "<i4").tobytes() + at.tobytes()
    index += np.array(bounds, "<i8").tobytes() + np.array([] if modes is None else modes, np.int8).tobytes()
    root.with_suffix(".idx").write_bytes(index)
    return root.with_suffix(".idx")


def datatrove(
    path: Path,
    documents: Sequence[Sequence[int]],
    dtype: str = "uint16",
    tokenizer: str | None = "gpt2",
    losses: Sequence[Sequence[int]] | None = None,
) -> Path:
    """Write a ``.ds`` and what is beside it."""
    tokens = np.array([token for one in documents for token in one], dtype)
    path.write_bytes(tokens.tobytes())
    path.with_name(f"{path.name}.index").write_bytes(
        np.cumsum([len(one) for one in documents]).astype("<u8").tobytes()
    )
    if tokenizer is not None:
        path.with_name(f"{path.name}.metadata").write_text(
            f"{tokenizer}|{tokens.itemsize}\n{len(tokens)}\n0.0K"
        )
    if losses is not None:
        path.with_name(f"{path.name}.loss").write_bytes(bytes(value for one in losses for value in one))
    return path


def litgpt(path: Path, tokens: Any, chunk: int, code: int = 8) -> Path:
    """Write a packed file of lit-gpt."""
    path.write_bytes(b"LITPKDS" + struct.pack("<QBQ", 1, code, chunk) + tokens.tobytes())
    return path


def llm_c(path: Path, tokens: Any, mark: int = 20240520, version: int = 1) -> Path:
    """Write a file of llm.c and modded-nanoGPT."""
    header = np.zeros(256, "<i4")
    header[:3] = mark, version, len(tokens)
    path.write_bytes(header.tobytes() + tokens.tobytes())
    return path
