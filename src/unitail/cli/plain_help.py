"""Help that names what to write, not types of Python."""

import re
from typing import Any

from typer.core import TyperArgument, TyperCommand

WORDS = {"bool": "", "str": "TEXT", "int": "NUMBER", "float": "NUMBER", "path": "PATH"}
"""What stands for a type."""
TYPE = re.compile(r"<(?:list\[)?(\w+)[^>]*>(?:\.\.\.)?")


class PlainCommand(TyperCommand):
    """A command whose help people read who have never seen Python."""

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - as typer has it
        """Write the help."""
        for param in self.get_params(ctx):
            shown = "" if isinstance(param, TyperArgument) else plain(param, ctx)
            vars(param)["display_type_rich"] = lambda ctx, shown=shown: shown
        super().format_help(ctx, formatter)


def plain(param: Any, ctx: Any) -> str:  # noqa: ANN401
    """Return what the value of an option is called."""
    own = getattr(param, "display_type_rich", None)  # a later typer may have another name for it
    shown = own(ctx=ctx) if own is not None else ""
    return TYPE.sub(lambda match: WORDS.get(match[1].lower(), match[1].upper()), shown or "")
