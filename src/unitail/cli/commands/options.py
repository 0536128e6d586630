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
Encoder = Annotated[
    str | None,
    typer.Option(help="Name of an encoder, or a transformers model; else the offline default."),
]
Modality = Annotated[
    str | None, typer.Option(help="Where files leave a doubt: image, text, audio, table.")
]
LabelColumn = Annotated[str, typer.Option(help="The column of labels in a table.")]
ContentColumn = Annotated[str | None, typer.Option(help="The column of texts or paths in a table.")]
Joint = Annotated[
    bool, typer.Option("--joint", help="Answer what is asked together: items inform each other.")
]
NoCache = Annotated[
    bool, typer.Option("--no-cache", help="Neither use nor fill the feature cache.")
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, ...")]
