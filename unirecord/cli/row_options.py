"""The options of ``unirecord write`` that say which rows and columns are written, and what becomes of bad ones."""

from __future__ import annotations

import argparse

from ..convert.row_choice import ON_ERROR, RowChoice
from ..convert.split_choice import SplitChoice
from ..convert.stored_rows import RowOrder
from .usage import UsageError, count, names, pairs

__all__ = ["add_row_options", "row_choice"]


def add_row_options(parser: argparse.ArgumentParser) -> None:
    """Add them."""
    group = parser.add_argument_group("which rows and columns (names as SRC has them)")
    group.add_argument("--columns", type=names, metavar="A,B", help="write these columns only, in this order")
    group.add_argument(
        "--rename", type=pairs, default={}, metavar="OLD=NEW,…", help="give columns other names"
    )
    group.add_argument(
        "--where",
        metavar="CONDITION",
        help="only rows that meet it, such as \"age >= 18 and name like 'A%%'\"",
    )
    group.add_argument("--limit", type=count, metavar="N", help="stop after N rows")
    group.add_argument(
        "--sample",
        type=count,
        metavar="N",
        help="N rows, evenly from all; --limit of class folders is one class",
    )
    group.add_argument(
        "--split",
        metavar="NAME=SHARE,…",
        help="datasets DST/train, … of train=0.9,val=0.1, by a hash of each row",
    )
    group.add_argument(
        "--split-by",
        metavar="A",
        help="by a hash of this column: its equal values stay together; without --split: a dataset of each value",
    )
    group.add_argument(
        "--stratify", metavar="A", help="these shares of the rows with each value of this column"
    )
    group.add_argument(
        "--seed",
        type=count,
        metavar="S",
        help="which rows --sample draws, and which share has which (default 0)",
    )
    group.add_argument(
        "--sort", metavar="A", help="in the order of a scalar column (its new name); --limit counts then"
    )
    group.add_argument(
        "--shuffle-seed", type=count, metavar="S", help="in a random order, so that reading needs none"
    )
    group.add_argument(
        "--resize", type=count, metavar="N", help="pictures: shorter side of N pixels, if larger"
    )
    group.add_argument(
        "--max-side", type=count, metavar="N", help="pictures: longer side of N pixels, if larger"
    )
    group.add_argument(
        "--reencode", metavar="FORMAT", help="pictures: as jpeg:90, webp:80, png, or raw (arrays of pixels)"
    )
    group.add_argument(
        "--picture-columns", type=names, metavar="A,B", help="where the pictures are, if that is not seen"
    )
    group.add_argument(
        "--on-error",
        choices=ON_ERROR,
        help="what cannot be read or does not fit ends it, is left out, or is left out and listed in a file "
        "(--report, else DST.left-out.jsonl); without it, broken pictures are left out and the exit code is 1",
    )


def row_choice(args: argparse.Namespace) -> RowChoice:
    """What was asked for; `UsageError` for what excludes each other."""
    if args.seed is not None and args.sample is None and args.split is None:
        raise UsageError(
            "--seed says which rows --sample draws or --split parts; there is no --sample and no --split"
        )
    if args.stratify is not None and args.split is None:
        raise UsageError("--stratify says how --split is made; there is no --split")
    if (args.split is not None or args.split_by is not None) and (args.limit is not None or args.append):
        raise UsageError(
            "--split excludes --limit (--sample takes rows of all) and --append (write the new rows to another DST: "
            "with the same --seed each row goes to the same share)"
        )
    if args.sample is not None and args.limit is not None:
        raise UsageError("--sample and --limit both say how many rows; choose one")
    try:
        return RowChoice(
            columns=args.columns,
            rename=args.rename,
            where=args.where,
            sample=args.sample,
            seed=args.seed or 0,
            on_error=args.on_error,
            resize=args.resize,
            max_side=args.max_side,
            reencode=args.reencode,
            picture_columns=args.picture_columns,
            split=_split_choice(args),
            order=_order(args),
        )
    except ValueError as error:
        raise UsageError(str(error)) from None


def _order(args: argparse.Namespace) -> RowOrder | None:
    if args.sort is None and args.shuffle_seed is None:
        return None
    return RowOrder(args.sort, args.shuffle_seed)


def _split_choice(args: argparse.Namespace) -> SplitChoice | None:
    if args.split is None:
        return None if args.split_by is None else SplitChoice(None, args.split_by)
    try:
        shares = pairs(args.split, "NAME=SHARE")
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"--split: {error}; an example is train=0.9,val=0.1") from None
    return SplitChoice(shares, args.split_by, args.stratify)
