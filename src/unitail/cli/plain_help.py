"""Help texts with plain placeholders such as NUMBER instead of Python types."""

import re
from collections.abc import Iterable
from typing import Any

from typer.core import TyperArgument, TyperCommand, TyperGroup

WORDS = {"bool": "", "str": "TEXT", "int": "NUMBER", "float": "NUMBER", "path": "PATH"}
"""Placeholder for each type."""
NEEDED = re.compile(r"\{([^}]*?)(?:\.\.\.)?\}")
"""A required argument as typer writes it."""
TYPE = re.compile(r"<(?:list\[)?(\w+)[^>]*>(?:\.\.\.)?")


class PlainCommand(TyperCommand):
    """A command whose help needs no knowledge of Python."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ANN401 - as typer has it
        """Return the parts of the usage line, without braces around required arguments."""
        pieces = super().collect_usage_pieces(ctx)
        return [NEEDED.sub(r"\1", piece) for piece in pieces]

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - as typer has it
        """Write the help."""
        _make_plain(self.get_params(ctx), ctx)
        super().format_help(ctx, formatter)


class PlainGroup(TyperGroup):
    """A group of commands with the same style of help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - as typer has it
        """Write the help."""
        _make_plain(self.get_params(ctx), ctx)
        super().format_help(ctx, formatter)


def _make_plain(params: Iterable[Any], ctx: Any) -> None:  # noqa: ANN401
    for param in params:
        shown = "" if isinstance(param, TyperArgument) else plain(param, ctx)
        vars(param)["display_type_rich"] = lambda ctx, shown=shown: shown


def plain(param: Any, ctx: Any) -> str:  # noqa: ANN401
    """Return the placeholder for the value of an option."""
    display = getattr(param, "display_type_rich", None)  # a later typer may rename it
    shown = display(ctx=ctx) if display is not None else ""
    return TYPE.sub(lambda match: WORDS.get(match[1].lower(), match[1].upper()), shown or "")
