"""`unitail compare`: which of two learners is better, if either."""

from pathlib import Path
from typing import Annotated, Any

import typer

from unitail.benchmark.compare import compare_groups, read_rows
from unitail.errors import UserError


def compare(
    results: Annotated[Path, typer.Argument(help="Folder that `unitail bench` wrote.")],
    first: Annotated[str, typer.Argument(metavar="A", help="A learner.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    group: Annotated[list[str] | None, typer.Option(help="Only these groups of data sets.")] = None,
    shots: Annotated[list[int] | None, typer.Option(help="Only these shots.")] = None,
    seed: Annotated[int, typer.Option(help="Of the resampling.")] = 0,
) -> None:
    """Compare two learners pair by pair on the same episodes, with a sentence for each group."""
    rows = read_rows(results)
    rows = _only(_only(rows, "group", group), "shots", shots)
    for what, found in compare_groups(rows, first, second, seed=seed).items():
        typer.echo(f"{what}: {found}.")


def _only(rows: Any, column: str, wanted: list[Any] | None) -> Any:  # noqa: ANN401 - pandas frames
    """Keep the rows with one of the values wanted, if any are."""
    known = list(rows[column].unique())
    unknown = [str(value) for value in wanted or () if value not in known]
    if unknown:
        raise UserError(
            f"no rows of such {column}",
            got=", ".join(unknown),
            allowed="; ".join(str(value) for value in known),
        )
    return rows[rows[column].isin(wanted)] if wanted else rows
