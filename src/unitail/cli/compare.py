"""Run `unitail compare`."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import typer

from unitail.benchmark.compare import EpisodeRows, compare_groups, read_rows
from unitail.errors import UserError


def run(
    results: Path,
    first: str,
    second: str,
    *,
    groups: Sequence[str] | None,
    shots: Sequence[int] | None,
    seed: int,
) -> None:
    """Print one sentence for each group of data sets."""
    rows = read_rows(results)
    rows = _only(_only(rows, "group", groups), "shots", shots)
    for what, sentence in compare_groups(rows, first, second, seed=seed).items():
        typer.echo(f"{what}: {sentence}.")


def _only(
    rows: EpisodeRows, column: str, wanted: Sequence[str] | Sequence[int] | None
) -> EpisodeRows:
    """Keep the rows with one of the wanted values; all rows if no value is given."""
    values = getattr(rows, column)
    existing = list(dict.fromkeys(values.tolist()))
    unknown = [str(value) for value in wanted or () if value not in existing]
    if unknown:
        raise UserError(
            f"no rows of such {column}",
            got=", ".join(unknown),
            allowed="; ".join(str(value) for value in existing),
        )
    return rows.take(np.isin(values, wanted)) if wanted else rows
