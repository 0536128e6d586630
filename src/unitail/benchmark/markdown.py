"""Tables in Markdown."""

from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]], rule: str = "---:") -> str:
    """Write a table; all columns but the first are aligned as `rule` says."""
    rules = ["---", *[rule] * (len(header) - 1)]
    lines = [f"| {' | '.join(cells)} |" for cells in (header, rules, *rows)]
    return "\n".join(lines)
