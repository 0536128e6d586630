"""`unitail mcp`: classifiers as tools for language models."""

from typing import Annotated

import typer

from unitail.cli.commands import options


def mcp(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL_OR_FOLDER...",
            help="What `unitail fit --save` wrote, or labelled examples; NAME=FOLDER names it.",
        ),
    ],
    save_changes: Annotated[
        bool, typer.Option("--save-changes", help="Write new examples to the folders.")
    ] = False,
    device: options.Device = "auto",
) -> None:
    """Offer classifiers to language models over MCP, on standard input and output.

    Tools: list_classifiers, classify, add_examples, evaluate. In the settings of a client the
    command is `unitail` with the arguments `mcp FOLDER`. No tool opens files or addresses.
    """
    from unitail.cli.mcp import run

    run(models, save_changes=save_changes, device=device)
