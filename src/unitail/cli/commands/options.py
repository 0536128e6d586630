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
Also = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="PATH",
        help="More examples, as often as needed: a folder or a table, such as answers into "
        "which you wrote labels. They outweigh earlier examples of the same items.",
    ),
]
Pool = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="PATH",
        help="Files without labels, like those to answer, as often as needed: read with the "
        "examples, they make answers better, of which none depends on what else is asked.",
    ),
]
Encoder = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="What turns files into numbers: a name that `unitail info` lists, or a transformers "
        "model; else one that needs no network.",
    ),
]
Modality = Annotated[
    str | None,
    typer.Option(
        metavar="KIND",
        help="What the files are, where they leave a doubt: image, text, audio, table.",
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
    bool, typer.Option("--no-cache", help="Neither use nor fill the feature cache.")
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
