"""`unitail evaluate`: how accurate your own examples make answers, and what more would bring."""

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
    splits: Annotated[int, typer.Option(min=2, help="Random splits of each size.")] = 200,
    out: Annotated[
        Path | None, typer.Option(help="Folder for curve.png, curve.csv and curve.json.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Decides the random splits.")] = 0,
    no_cache: options.NoCache = False,
    device: options.Device = "auto",
) -> None:
    """Estimate the accuracy that your own labelled examples give, and that more would.

    Some examples of each class are shown and others asked, again and again; then each is left out
    once. All learners answer the same questions. A class with too few examples gives all but one.
    Intervals (95 %) are for new items like yours, and the wider the fewer examples there are.
    Exit codes: 0; 1, some files could not be read, the rest was used; 2, the call is wrong.
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
