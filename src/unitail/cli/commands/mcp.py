"""`unitail mcp`: offer classifiers as tools for language models."""

from typing import Annotated

import typer

from unitail.cli.commands import options


def mcp(
    models: options.Models,
    save_changes: Annotated[
        bool,
        typer.Option("--save-changes", help="Save added examples to the classifiers' folders."),
    ] = False,
    device: options.Device = "auto",
) -> None:
    """Offer classifiers to language models: an MCP server on standard input and output.

    Its tools are list_classifiers, classify, add_examples and evaluate. In an
    MCP client, set the command to `unitail` and the arguments to `mcp FOLDER`.
    No tool opens files or URLs.
    """
    from unitail.cli.mcp import run

    run(models, save_changes=save_changes, device=device)
