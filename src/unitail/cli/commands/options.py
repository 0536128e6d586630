"""Options and arguments shared by several commands."""

from pathlib import Path
from typing import Annotated

import typer

Examples = Annotated[
    Path,
    typer.Argument(
        metavar="EXAMPLES",
        help="Labelled examples: a folder with one subfolder per class, or a table with a column "
        "of labels.",
    ),
]
Models = Annotated[
    list[str],
    typer.Argument(
        metavar="MODEL_OR_FOLDER...",
        help="Classifiers: folders written by `unitail fit --save`, or labelled examples. "
        "NAME=FOLDER sets the name of one.",
    ),
]
Also = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="PATH",
        help="More labelled examples: a folder or a table, such as a file of answers that you have "
        "corrected. They override earlier labels of the same items. Repeatable.",
    ),
]
Pool = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATH",
        help="Unlabelled files or tables, similar to what is answered. They improve the answers, "
        "and each item is still answered independently of the others. Repeatable.",
    ),
]
Encoder = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Model that turns each file into a vector: a name listed by `unitail info`, or a "
        "transformers model. Default: one that suits the files and needs no network.",
    ),
]
Modality = Annotated[
    str | None,
    typer.Option(
        metavar="KIND",
        help="Kind of the items if it cannot be guessed: image, text, audio or table.",
    ),
]
LabelColumn = Annotated[
    str, typer.Option(metavar="COLUMN", help="Column of a table that holds the labels.")
]
ContentColumn = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Column of a table that holds the texts or paths; all other columns are ignored.",
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="NAME=KIND",
        help="Kind of a column of a table, if the guess is wrong: text, image, audio, table (for "
        "numbers and categories), skip, or the name of an encoder. Repeatable.",
    ),
]
Model = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Model that learns from the examples: default, tail, tail-50w, or the folder of a "
        "trained model.",
    ),
]
Joint = Annotated[
    bool,
    typer.Option(
        "--joint",
        help="Answer all files together, so that they inform each other (transduction). More "
        "accurate if the files contain every class. At most 4,000 files at a time.",
    ),
]
Balanced = Annotated[
    bool,
    typer.Option(
        "--balanced",
        help="With --joint: assume that all classes are equally frequent in FILES. Use it only "
        "if you know that this is true; otherwise it ruins the answers.",
    ),
]
NoCache = Annotated[
    bool,
    typer.Option("--no-cache", help="Encode all files again and store no vectors for later runs."),
]
Device = Annotated[
    str, typer.Option(metavar="NAME", help="Device to compute on: auto, cpu, cuda, cuda:1, ...")
]
Banks = Annotated[Path, typer.Option(help="Folder of feature banks.")]
Runs = Annotated[Path, typer.Option(help="Folder of training runs; models are in RUNS/*/model.")]
Encoders = Annotated[
    list[str] | None,
    typer.Option(
        metavar="OLD=NEW",
        help="Use the banks of the encoder NEW where the suite names OLD. Repeatable.",
    ),
]
Processes = Annotated[
    int, typer.Option(min=1, help="Number of processes on this machine that share the work.")
]
Engine = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Where the work runs: local (this machine), or ray (a Ray cluster; needs the extra "
        "'scale').",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="NUMBER",
        help="Number of worker processes, on this machine or on the cluster. Default: 1 on this "
        "machine, as many as fit on a cluster.",
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="With --engine ray: address of a running cluster, or auto to find one. Default: start "
        "Ray on this machine.",
    ),
]
GpusPerWorker = Annotated[
    float,
    typer.Option(
        metavar="SHARE",
        help="With --engine ray: GPUs for each worker, such as 1 or 0.25. With 0, workers use "
        "the CPU.",
    ),
]
ChunkRows = Annotated[
    int,
    typer.Option(
        min=1,
        metavar="NUMBER",
        help="With several workers: rows per chunk. An interrupted run loses at most the chunks in "
        "progress.",
    ),
]
