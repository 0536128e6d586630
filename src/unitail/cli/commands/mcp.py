"""`unitail mcp`: classifiers as tools for language models."""

from typing import Annotated

import typer

from unitail.cli.commands import options


def mcp(
    models: options.Models,
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
