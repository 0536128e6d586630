"""`unitail fit`: learn from labelled examples and save the classifier."""

from pathlib import Path
from typing import Annotated

import typer

from unitail.cli.commands import options


def fit(
    examples: options.Examples,
    save: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the classifier.")],
    also: options.Also = None,
    pool: options.Pool = None,
    encoder: options.Encoder = None,
    modality: options.Modality = None,
    label_column: options.LabelColumn = "label",
    content_column: options.ContentColumn = None,
    column: options.Columns = None,
    model: options.Model = "default",
    no_cache: options.NoCache = False,
    device: options.Device = "auto",
) -> None:
    """Learn from labelled examples and save the classifier in a folder.

    `unitail predict --model FOLDER FILES` then needs no examples; in Python,
    TailClassifier.load(FOLDER) is the same classifier. The folder holds the
    vectors of the examples, their labels and the calibration of prediction
    sets. Its README.md describes it.

    Exit codes: 0, all examples were used; 1, some files could not be read and
    the others were used; 2, the call is wrong.
    """
    from unitail.cli.console import read_options
    from unitail.cli.fit import run
    from unitail.workflows.fit import ClassifierOptions

    run(
        examples,
        save,
        also=also or [],
        pool=[Path(each) for each in pool or []],
        reading=read_options(label_column, content_column, modality, column),
        options=ClassifierOptions(encoder=encoder, model=model, device=device),
        use_cache=not no_cache,
    )
