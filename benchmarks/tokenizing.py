"""How fast text becomes tokens: by the library alone, and by ``write_dataset``, on 1 and 2 threads, by 2 workers.

The texts are paragraphs of this project's pages, in documents of about a thousand tokens, and the tokenizer is trained
on the pages (byte-level BPE, 8,000 tokens). Each case is a process of its own; the best round counts.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

import unirecord

DOCS = Path(__file__).resolve().parents[1] / "docs"
ONE = {"TOKENIZERS_PARALLELISM": "false"}
TWO = {"RAYON_NUM_THREADS": "2"}
CASES = {
    "tokenizers, encode: 1 thread": ("encode", ONE),
    "tokenizers, encode_batch_fast: 1 thread": ("batch", ONE),
    "tokenizers, encode_batch_fast: 2 threads": ("batch", TWO),
    "write_dataset: 1 thread": ("write", ONE),
    "write_dataset: 2 threads": ("write", TWO),
    "write_dataset, workers=2": ("workers", {}),
}


def make(folder: Path, size: int) -> None:
    """Write ``text.jsonl`` with so many characters, and ``tokenizer.json``."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("*.md")))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=8000, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet
    )
    tokenizer.train_from_iterator(text.split("\n"), trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    rng, paragraphs, made = random.Random(1), [piece for piece in text.split("\n\n") if piece], 0
    with open(folder / "text.jsonl", "w", encoding="utf-8") as file:
        while made < size:
            document = "\n\n".join(rng.choices(paragraphs, k=rng.randint(1, 12)))
            made += len(document)
            file.write(json.dumps({"text": document}) + "\n")


def run(case: str, folder: Path) -> float:
    """Seconds of one case, its start not among them; called in a process of its own."""
    source, tokenizer = folder / "text.jsonl", folder / "tokenizer.json"
    if case in ("write", "workers"):
        begun = time.perf_counter()
        workers = 2 if case == "workers" else 1
        unirecord.write_dataset(
            str(source), folder / "out", tokenizer=tokenizer, append_eos="<|endoftext|>", workers=workers
        )
        return time.perf_counter() - begun
    library = Tokenizer.from_file(str(tokenizer))
    texts = [json.loads(line)["text"] for line in source.read_text(encoding="utf-8").splitlines()]
    begun = time.perf_counter()
    for i in range(0, len(texts), 256):
        some = texts[i : i + 256]
        encoded = library.encode_batch_fast(some) if case == "batch" else map(library.encode, some)
        for one in encoded:
            _ = one.ids
    return time.perf_counter() - begun


def main() -> None:
    """Prints MB of text a second for each case, and against its one thread."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=100, help="of text")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--case", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.case:
        print(run(args.case[0], Path(args.case[1])))
        return
    rates: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, args.mb * 1_000_000)
        size = (folder / "text.jsonl").stat().st_size
        for _ in range(args.rounds):
            for title, (case, threads) in CASES.items():
                shutil.rmtree(folder / "out", ignore_errors=True)
                command = [sys.executable, __file__, "--case", case, name]
                said = subprocess.run(
                    command, env={**os.environ, **threads}, check=True, capture_output=True, text=True
                )
                rates[title] = max(rates.get(title, 0.0), size / float(said.stdout) / 1e6)
    for title, rate in rates.items():
        one = rates[
            "write_dataset: 1 thread"
            if "write_dataset" in title
            else "tokenizers, encode_batch_fast: 1 thread"
        ]
        print(f"{title:45}{rate:6.2f} MB/s  {rate / one:.2f}")


if __name__ == "__main__":
    main()
