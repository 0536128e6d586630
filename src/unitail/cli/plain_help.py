"""Help that names what to write, not types of Python."""

import re
from collections.abc import Iterable
from typing import Any

from typer.core import TyperArgument, TyperCommand, TyperGroup

WORDS = {"bool": "", "str": "TEXT", "int": "NUMBER", "float": "NUMBER", "path": "PATH"}
"""What stands for a type."""
NEEDED = re.compile(r"\{([^}]*?)(?:\.\.\.)?\}")
"""How typer writes an argument that must be there."""
TYPE = re.compile(r"<(?:list\[)?(\w+)[^>]*>(?:\.\.\.)?")


class PlainCommand(TyperCommand):
    """A command whose help people read who have never seen Python."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ANN401 - as typer has it
        """Name what to write, without braces round what is needed."""
        pieces = super().collect_usage_pieces(ctx)
        return [NEEDED.sub(r"\1", piece) for piece in pieces]

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - as typer has it
        """Write the help."""
        _make_plain(self.get_params(ctx), ctx)
        super().format_help(ctx, formatter)


class PlainGroup(TyperGroup):
    """Commands under one name, whose help reads alike."""

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - as typer has it
        """Write the help."""
        _make_plain(self.get_params(ctx), ctx)
        super().format_help(ctx, formatter)


def _make_plain(params: Iterable[Any], ctx: Any) -> None:  # noqa: ANN401
    for param in params:
        shown = "" if isinstance(param, TyperArgument) else plain(param, ctx)
        vars(param)["display_type_rich"] = lambda ctx, shown=shown: shown


def plain(param: Any, ctx: Any) -> str:  # noqa: ANN401
    """Return what the value of an option is called."""
    own = getattr(param, "display_type_rich", None)  # a later typer may have another name for it
    shown = own(ctx=ctx) if own is not None else ""
    return TYPE.sub(lambda match: WORDS.get(match[1].lower(), match[1].upper()), shown or "")
