"""`unitail evaluate`: estimate the accuracy on your own data, now and with more examples."""

from pathlib import Path
from typing import Annotated

import typer

from unitail.cli.commands import options


def evaluate(
    examples: options.Examples,
    encoder: options.Encoder = None,
    modality: options.Modality = None,
    label_column: options.LabelColumn = "label",
    content_column: options.ContentColumn = None,
    column: options.Columns = None,
    joint: options.Joint = False,
    splits: Annotated[
        int, typer.Option(min=2, help="Random splits for each number of examples.")
    ] = 200,
    out: Annotated[
        Path | None, typer.Option(help="Write curve.png, curve.csv and curve.json to this folder.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random splits.")] = 0,
    no_cache: options.NoCache = False,
    device: options.Device = "auto",
) -> None:
    """Estimate the accuracy on your own data, now and with more labelled examples.

    The examples are split again and again into some that the learners see and
    others that they answer; then each example is left out once. A class with
    too few examples shows all but one. Simple methods answer the same splits
    for comparison. Labels that look wrong are listed.

    Intervals (95 %) are for new items like yours: the fewer examples, the wider
    they are.

    Exit codes: 0, all examples were used; 1, some files could not be read and
    the others were used; 2, the call is wrong.
    """
    from unitail.cli.console import column_kinds
    from unitail.cli.evaluate import run
    from unitail.inputs.items import ReadOptions

    run(
        examples,
        options=ReadOptions(label_column, content_column, modality, column_kinds(column or [])),
        encoder=encoder,
        joint=joint,
        splits=splits,
        out=out,
        seed=seed,
        use_cache=not no_cache,
        device=device,
    )
