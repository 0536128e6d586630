"""Options and arguments that the commands on files share."""

from pathlib import Path
from typing import Annotated

import typer

Examples = Annotated[
    Path,
    typer.Argument(
        metavar="EXAMPLES", help="A folder with a subfolder for each class, or a table with labels."
    ),
]
Models = Annotated[
    list[str],
    typer.Argument(
        metavar="MODEL_OR_FOLDER...",
        help="What `unitail fit --save` wrote, or labelled examples; NAME=FOLDER names it.",
    ),
]
Also = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="PATH",
        help="More examples, as often as needed: a folder or a table, such as answers into "
        "which you wrote labels. They outweigh earlier examples of the same items.",
    ),
]
Pool = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATH",
        help="Files without labels, like those to answer, as often as needed: read with the "
        "examples, they make answers better, and each answer still stands by itself.",
    ),
]
Encoder = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="What turns files into numbers: a name that `unitail info` lists, or a transformers "
        "model. Without it, one that fits the files and needs no network.",
    ),
]
Modality = Annotated[
    str | None,
    typer.Option(
        metavar="KIND",
        help="What the files are, if that is not clear: image, text, audio, table.",
    ),
]
LabelColumn = Annotated[
    str, typer.Option(metavar="COLUMN", help="The column of labels in a table.")
]
ContentColumn = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="The column of texts or paths in a table; all other columns are left out.",
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="NAME=KIND",
        help="What a column of a table holds, where the guess is wrong, as often as needed: text, "
        "image, audio, table (numbers or categories), skip, or the name of an encoder.",
    ),
]
Joint = Annotated[
    bool,
    typer.Option(
        "--joint",
        help="Answer all files together, so that they inform each other: better if every class "
        "is among them. Up to 4,000 at a time.",
    ),
]
NoCache = Annotated[
    bool,
    typer.Option("--no-cache", help="Encode all files anew, and keep nothing for the next time."),
]
Device = Annotated[str, typer.Option(metavar="NAME", help="auto, cpu, cuda, ...")]
Banks = Annotated[Path, typer.Option(help="Folder of feature banks.")]
Runs = Annotated[Path, typer.Option(help="Trained models: RUNS/*/model.")]
Encoders = Annotated[
    list[str] | None,
    typer.Option(
        metavar="OLD=NEW",
        help="Take the banks of the encoder NEW where the suite says OLD, as often as needed.",
    ),
]
Processes = Annotated[
    int, typer.Option(min=1, help="Processes of this machine that share the work.")
]
Engine = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="Who does the work: local, or ray, a cluster (extra 'scale')."
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="NUMBER",
        help="Processes of this machine, or of the cluster, that share the work; else 1, or as "
        "many as the cluster has room for.",
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="With --engine ray: a running cluster, or auto to find it; else one is started here.",
    ),
]
GpusPerWorker = Annotated[
    float,
    typer.Option(
        metavar="SHARE",
        help="With --engine ray: GPUs that a worker has, such as 1 or 0.25; without, it uses the "
        "CPU.",
    ),
]
ChunkRows = Annotated[
    int,
    typer.Option(
        min=1,
        metavar="NUMBER",
        help="With several workers: rows that one takes at a time, and that a stop may cost.",
    ),
]
CHUNK_ROWS = 256
"""As `unitail.engines.chunks` has it, which help does not import."""
