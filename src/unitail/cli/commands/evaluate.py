"""`unitail evaluate`: estimate the accuracy on your own data, now and with more examples."""

from pathlib import Path
from typing import Annotated

import typer

from unitail.answer_defaults import SPLITS
from unitail.cli.commands import options


def evaluate(
    examples: options.Examples,
    also: options.Also = None,
    encoder: options.Encoder = None,
    modality: options.Modality = None,
    label_column: options.LabelColumn = "label",
    content_column: options.ContentColumn = None,
    column: options.Columns = None,
    model: options.Model = "default",
    joint: options.Joint = False,
    balanced: options.Balanced = False,
    splits: Annotated[
        int, typer.Option(min=2, help="Random splits for each number of examples.")
    ] = SPLITS,
    out: Annotated[
        Path | None, typer.Option(help="Write curve.png, curve.csv and curve.json to this folder.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random splits.")] = 0,
    no_cache: options.NoCache = False,
    device: options.Device = "auto",
) -> None:
    """Estimate the accuracy on your own data, now and with more labelled examples.

    The examples are split again and again into some that the learners see and
    others that they answer; then each example is left out once. Of a class with
    too few examples, all but one are shown. Simple methods answer the same
    splits for comparison. Labels that look wrong are listed. With the same
    options, this measures exactly what `unitail predict` answers with.

    Intervals (95 %) are for new items like yours: the fewer examples, the wider
    they are.

    Exit codes: 0, all examples were used; 1, some files could not be read and
    the others were used; 2, the call is wrong.
    """
    from unitail.cli.console import read_options
    from unitail.cli.evaluate import run
    from unitail.workflows.fit import ClassifierOptions

    run(
        examples,
        also=also or [],
        reading=read_options(label_column, content_column, modality, column),
        options=ClassifierOptions(
            encoder=encoder, model=model, joint=joint, balanced=balanced, device=device
        ),
        splits=splits,
        out=out,
        seed=seed,
        use_cache=not no_cache,
    )
